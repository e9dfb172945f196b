//! Commands for keys.

use std::time::Duration;

use frazil_segment::Expect;

use super::strings::SYNTAX;
use super::times::NOT_AN_INTEGER;
use super::{Call, Done, Problem, number, reply, seen, write};
use crate::marks::{STALE, is_placeholder};
use crate::turnstile;
use crate::worker::Turn;

pub(super) fn del(call: &mut Call<'_, '_>) -> Done {
    let Call { args, turn, .. } = call;
    let items = &turn.shared.items;
    let is_deleted = |key: &&[u8]| seen::contains(&items.store, key) & items.delete(key);
    let deleted = args.from(1).filter(is_deleted).count();
    turn.counters.delete_hits.add(deleted as u64);
    turn.counters.delete_misses.add((args.len() - 1 - deleted) as u64);
    reply::integer(turn.out, deleted as i64);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_, '_>) -> Done {
    let store = &call.turn.shared.items.store;
    let there = call.args.from(1).filter(|key| seen::contains(store, key)).count();
    reply::integer(call.turn.out, there as i64);
    Ok(())
}

pub(super) fn touch(call: &mut Call<'_, '_>) -> Done {
    let store = &call.turn.shared.items.store;
    let there =
        call.args.from(1).filter(|key| seen::get_with(store, key, |_| ()).is_some()).count();
    reply::integer(call.turn.out, there as i64);
    Ok(())
}

pub(super) fn kind(call: &mut Call<'_, '_>) -> Done {
    let is_there = seen::contains(&call.turn.shared.items.store, call.args.get(1));
    reply::simple(call.turn.out, if is_there { "string" } else { "none" });
    Ok(())
}

pub(super) fn rename(call: &mut Call<'_, '_>) -> Done {
    if move_entry(call, true)?.is_some() {
        reply::ok(call.turn.out);
        return Ok(());
    }
    Err("ERR no such key".into())
}

pub(super) fn renamenx(call: &mut Call<'_, '_>) -> Done {
    let is_moved = move_entry(call, false)?.ok_or("ERR no such key")?;
    reply::integer(call.turn.out, is_moved.into());
    Ok(())
}

/// Moves the entry of the first key to the second. `None`: the first has none.
fn move_entry(call: &mut Call<'_, '_>, replaces: bool) -> Result<Option<bool>, Problem> {
    let (from, to) = (call.args.get(1), call.args.get(2));
    turnstile::alone(call.turn, |turn| {
        if from == to {
            return Ok(seen::contains(&turn.shared.items.store, from).then_some(replaces));
        }
        let is_copied = copy_entry(from, to, replaces, turn)?;
        if is_copied == Some(true) {
            turn.shared.items.delete(from);
        }
        Ok(is_copied)
    })
}

/// Copies the entry of a key to another one, with flags and lifetime. `None`: the key has none.
fn copy_entry(
    from: &[u8],
    to: &[u8],
    replaces: bool,
    turn: &mut Turn<'_>,
) -> Result<Option<bool>, Problem> {
    let store = &turn.shared.items.store;
    let held = store.hold(from).filter(|held| !is_placeholder(&held.entry()));
    let Some(held) = held else { return Ok(None) };
    if !replaces && seen::contains(store, to) {
        return Ok(Some(false));
    }
    let entry = held.entry();
    // The other entry can only be a placeholder.
    let expect = match store.peek(to, |there| there.cas) {
        _ if replaces => Expect::Anything,
        Some(cas) => Expect::Exactly(cas),
        None => Expect::Nothing,
    };
    if turn.shared.items.is_too_large(to.len(), entry.value.len()) {
        return Err(write::refusal(frazil_segment::StoreError::TooLarge, turn));
    }
    let attributes = frazil_segment::Attributes {
        flags: entry.flags,
        // The winner of the first key is to store that one only, and its form in base 64 does not apply to the second.
        marks: entry.marks & STALE,
        lifetime: entry.lifetime.map(|left| left.max(Duration::from_millis(1))),
    };
    turn.counters.sets.add(1);
    let stored = turn
        .shared
        .items
        .write(to, entry.value, attributes, expect)
        .map_err(|error| write::refusal(error, turn))?;
    let bytes = entry.value.len();
    drop(held);
    turn.spend(bytes);
    Ok(Some(stored.0 == frazil_segment::Stored::Stored))
}

pub(super) fn copy(call: &mut Call<'_, '_>) -> Done {
    let (from, to) = (call.args.get(1), call.args.get(2));
    let mut replaces = false;
    let mut words = call.args.from(3);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"replace") {
            replaces = true;
        } else if word.eq_ignore_ascii_case(b"db") {
            database(words.next().ok_or(SYNTAX)?)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let is_copied = turnstile::alone(call.turn, |turn| copy_entry(from, to, replaces, turn))?;
    reply::integer(call.turn.out, (is_copied == Some(true)).into());
    Ok(())
}

/// The single database.
pub(super) fn database(text: &[u8]) -> Done {
    match number::integer(text).ok_or(NOT_AN_INTEGER)? {
        0 => Ok(()),
        _ => Err("ERR DB index is out of range".into()),
    }
}

pub(super) fn dbsize(call: &mut Call<'_, '_>) -> Done {
    reply::integer(call.turn.out, call.turn.shared.items.store.live_items() as i64);
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_, '_>) -> Done {
    let word = call.args.get(1);
    let is_known = word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    if call.args.len() > 2 || call.args.len() == 2 && !is_known {
        return Err(SYNTAX.into());
    }
    call.turn.counters.flushes.add(1);
    call.turn.shared.items.flush_in(0);
    reply::ok(call.turn.out);
    Ok(())
}

/// Length of a value that Redis keeps in the object itself.
const EMBEDDED_BYTES_MAX: usize = 44;

pub(super) fn object(call: &mut Call<'_, '_>) -> Done {
    let store = &call.turn.shared.items.store;
    let word = call.args.get(1).to_ascii_lowercase();
    if call.args.len() != 3 {
        return Err(super::table::unknown_subcommand("object", call.args));
    }
    let encoding = seen::peek(store, call.args.get(2), |entry| match entry.value.len() {
        _ if number::integer(entry.value).is_some() => "int",
        0..=EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    });
    match (word.as_slice(), encoding) {
        (b"encoding" | b"refcount" | b"idletime", None) => {
            reply::null(call.turn.out, call.session.version);
        }
        (b"encoding", Some(encoding)) => reply::bulk(call.turn.out, encoding.as_bytes()),
        (b"refcount", Some(_)) => reply::integer(call.turn.out, 1),
        (b"idletime", Some(_)) => return Err("ERR the last access is not kept".into()),
        _ => return Err(super::table::unknown_subcommand("object", call.args)),
    }
    Ok(())
}
