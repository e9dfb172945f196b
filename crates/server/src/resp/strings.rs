//! Commands for whole values.

use std::time::Duration;

use frazil_segment::{Expect, StoreError};

use super::times::{self, Unit};
use super::write::{self, Change};
use super::{Call, Done, Problem, lookups, reply, seen, table};
use crate::turnstile;

pub(super) const SYNTAX: &str = "ERR syntax error";

pub(super) fn get(call: &mut Call<'_, '_>) -> Done {
    let fetches = call.session.may_wait();
    lookups::look_up(call.args.get(1), call.session.reader(), fetches, call.turn);
    Ok(())
}

/// Bytes of replies to one inline request, besides one value.
const LINE_REPLIES_MAX: usize = 4 << 20;

/// `MGET` in a transaction or inline. Elsewhere its look-ups are batched with those of other requests.
pub(super) fn mget(call: &mut Call<'_, '_>) -> Done {
    let begin = call.turn.out.len();
    reply::array(call.turn.out, call.args.len() - 1);
    for key in call.args.from(1) {
        if call.session.has_too_many_replies(call.turn) {
            break;
        }
        if call.session.out_max == usize::MAX && call.turn.out.len() - begin > LINE_REPLIES_MAX {
            call.turn.out.truncate(begin);
            return Err("ERR too many replies to a line of words: send MGET as an array".into());
        }
        lookups::look_up(key, call.session.reader(), false, call.turn);
    }
    Ok(())
}

/// Options of `SET`.
struct Options {
    expect: Expect,
    get: bool,
    keeps_time: bool,
    /// Unix time of the expiry, in milliseconds.
    end_ms: Option<i64>,
}

impl Options {
    fn of(call: &Call<'_, '_>) -> Result<Options, Problem> {
        let mut options =
            Options { expect: Expect::Anything, get: false, keeps_time: false, end_ms: None };
        // Parsed last, because a syntax error is reported before an invalid time.
        let mut time: Option<(Unit, &[u8])> = None;
        let mut words = call.args.from(3);
        while let Some(word) = words.next() {
            let unit = Unit::of(word);
            if word.eq_ignore_ascii_case(b"nx") && options.expect != Expect::Something {
                options.expect = Expect::Nothing;
            } else if word.eq_ignore_ascii_case(b"xx") && options.expect != Expect::Nothing {
                options.expect = Expect::Something;
            } else if word.eq_ignore_ascii_case(b"get") {
                options.get = true;
            } else if word.eq_ignore_ascii_case(b"keepttl") && time.is_none() {
                options.keeps_time = true;
            } else if let Some(unit) = unit
                && !options.keeps_time
                && time.is_none_or(|(before, _)| before == unit)
            {
                time = Some((unit, words.next().ok_or(SYNTAX)?));
            } else {
                return Err(SYNTAX.into());
            }
        }
        if let Some((unit, text)) = time {
            options.end_ms = Some(times::end_of_value(text, unit, "set", call.turn)?);
        }
        Ok(options)
    }
}

pub(super) fn set(call: &mut Call<'_, '_>) -> Done {
    let (key, value, version) = (call.args.get(1), call.args.get(2), call.session.version);
    if call.args.len() == 3 {
        write::put(key, value, None, Expect::Anything, call.turn)?;
        reply::ok(call.turn.out);
        return Ok(());
    }
    let Options { expect, get, keeps_time, end_ms } = Options::of(call)?;
    let lifetime = end_ms.map(|end| times::left(end, call.turn));
    if expect == Expect::Anything && !get && !keeps_time && lifetime != Some(None) {
        write::put(key, value, lifetime.flatten(), Expect::Anything, call.turn)?;
        reply::ok(call.turn.out);
        return Ok(());
    }
    write::change(key, call.turn, |entry, new, out| {
        let is_met = match expect {
            Expect::Nothing => entry.is_none(),
            Expect::Something => entry.is_some(),
            _ => true,
        };
        match get {
            true => reply::value(out, entry.map(|entry| entry.value), version),
            false if is_met => reply::ok(out),
            false => reply::null(out, version),
        }
        if !is_met {
            return Change::Leave(());
        }
        new.extend_from_slice(value);
        match lifetime {
            // It has expired already.
            Some(None) => Change::Delete(()),
            Some(lifetime) => Change::Put(lifetime, ()),
            None if keeps_time => Change::Edit(()),
            None => Change::Put(None, ()),
        }
    })
}

pub(super) fn setnx(call: &mut Call<'_, '_>) -> Done {
    let (key, value) = (call.args.get(1), call.args.get(2));
    let stored = write::change(key, call.turn, |entry, new, _| {
        if entry.is_some() {
            return Change::Leave(false);
        }
        new.extend_from_slice(value);
        Change::Put(None, true)
    })?;
    reply::integer(call.turn.out, stored.into());
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_, '_>) -> Done {
    set_for(true, "setex", call)
}

pub(super) fn psetex(call: &mut Call<'_, '_>) -> Done {
    set_for(false, "psetex", call)
}

fn set_for(seconds: bool, command: &str, call: &mut Call<'_, '_>) -> Done {
    let (key, time, value) = (call.args.get(1), call.args.get(2), call.args.get(3));
    let unit = Unit { seconds, absolute: false };
    let end = times::end_of_value(time, unit, command, call.turn)?;
    let lifetime = times::left(end, call.turn).unwrap_or(Duration::ZERO);
    write::put(key, value, Some(lifetime), Expect::Anything, call.turn)?;
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_, '_>) -> Done {
    let (value, version) = (call.args.get(2), call.session.version);
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        reply::value(out, entry.map(|entry| entry.value), version);
        new.extend_from_slice(value);
        Change::Put(None, ())
    })
}

pub(super) fn getdel(call: &mut Call<'_, '_>) -> Done {
    let version = call.session.version;
    write::change(call.args.get(1), call.turn, |entry, _, out| {
        reply::value(out, entry.map(|entry| entry.value), version);
        Change::Delete(())
    })
}

pub(super) fn getex(call: &mut Call<'_, '_>) -> Done {
    let (args, version) = (call.args, call.session.version);
    // `None`: the lifetime is unchanged. `Some(None)`: it ends.
    let end = match (args.len(), args.get(2)) {
        (2, _) => None,
        (3, word) if word.eq_ignore_ascii_case(b"persist") => Some(None),
        (4, word) => {
            let unit = Unit::of(word).ok_or(SYNTAX)?;
            Some(Some(times::end_of_value(args.get(3), unit, "getex", call.turn)?))
        }
        _ => return Err(SYNTAX.into()),
    };
    let Some(end) = end else {
        lookups::look_up(args.get(1), call.session.reader(), false, call.turn);
        return Ok(());
    };
    let lifetime = end.map(|end| times::left(end, call.turn));
    write::change(args.get(1), call.turn, |entry, new, out| {
        reply::value(out, entry.map(|entry| entry.value), version);
        let Some(entry) = entry else { return Change::Leave(()) };
        if lifetime.is_none() && entry.lifetime.is_none() {
            return Change::Leave(());
        }
        new.extend_from_slice(entry.value);
        match lifetime {
            Some(None) => Change::Delete(()),
            Some(lifetime) => Change::Renew(lifetime, ()),
            None => Change::Renew(None, ()),
        }
    })
}

/// The pairs of a request.
fn pairs<'c>(call: &Call<'c, '_>) -> impl Iterator<Item = (&'c [u8], &'c [u8])> + use<'c> {
    let mut words = call.args.from(1);
    std::iter::from_fn(move || words.next().zip(words.next()))
}

pub(super) fn mset(call: &mut Call<'_, '_>) -> Done {
    if call.args.len().is_multiple_of(2) {
        return Err(table::wrong_count("mset"));
    }
    write_pairs(call)?;
    reply::ok(call.turn.out);
    Ok(())
}

/// Writes all pairs, or none if one is too large. When memory runs out the pairs written before stay.
fn write_pairs(call: &mut Call<'_, '_>) -> Done {
    for (key, value) in pairs(call) {
        if key.len() > call.turn.shared.items.key_bytes_max {
            return Err(write::refusal(StoreError::KeyTooLong, call.turn));
        }
        if call.turn.shared.items.is_too_large(key.len(), value.len()) {
            return Err(write::refusal(StoreError::TooLarge, call.turn));
        }
    }
    for (key, value) in pairs(call) {
        write::put(key, value, None, Expect::Anything, call.turn)?;
    }
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_, '_>) -> Done {
    if call.args.len().is_multiple_of(2) {
        return Err(table::wrong_count("msetnx"));
    }
    let Call { session, args, turn } = call;
    let stored = turnstile::alone(turn, |turn| {
        let store = &turn.shared.items.store;
        let mut call = Call { session, args, turn };
        if pairs(&call).any(|(key, _)| seen::contains(store, key)) {
            return Ok(false);
        }
        write_pairs(&mut call).map(|()| true)
    })?;
    reply::integer(turn.out, stored.into());
    Ok(())
}
