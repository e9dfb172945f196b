//! Commands for values.

use frazil_segment::{Attributes, StoreError};

use super::{Call, Done, Problem, reply, table};

pub(super) fn ping(call: &mut Call<'_, '_>) -> Done {
    match call.args.len() {
        1 => reply::simple(call.turn.out, "PONG"),
        2 => reply::bulk(call.turn.out, call.args.get(1)),
        _ => return Err(table::wrong_count("ping")),
    }
    Ok(())
}

pub(super) fn get(call: &mut Call<'_, '_>) -> Done {
    let (out, version) = (&mut *call.turn.out, call.session.version);
    let store = &call.turn.shared.items.store;
    let found = store.get_with(call.args.get(1), |entry| reply::bulk(out, entry.value));
    call.turn.counters.gets.add(1);
    call.turn.counters.get_hits.add(found.is_some().into());
    call.turn.counters.get_misses.add(found.is_none().into());
    if found.is_none() {
        reply::null(call.turn.out, version);
    }
    Ok(())
}

pub(super) fn set(call: &mut Call<'_, '_>) -> Done {
    if call.args.len() > 3 {
        return Err("ERR syntax error".into());
    }
    call.turn.counters.sets.add(1);
    let (key, value) = (call.args.get(1), call.args.get(2));
    let stored = call.turn.shared.items.store.set(key, value, Attributes::default());
    stored.map_err(refusal)?;
    reply::ok(call.turn.out);
    Ok(())
}

/// How a value is refused.
pub(super) fn refusal(error: StoreError) -> Problem {
    match error {
        StoreError::KeyTooLong => "ERR the key is longer than 255 bytes".into(),
        StoreError::TooLarge => {
            "ERR string exceeds maximum allowed size (an item has 1 MiB)".into()
        }
        _ => "OOM command not allowed when used memory > 'maxmemory'.".into(),
    }
}

pub(super) fn del(call: &mut Call<'_, '_>) -> Done {
    let store = &call.turn.shared.items.store;
    let deleted = call.args.from(1).filter(|key| store.delete(key)).count();
    reply::integer(call.turn.out, deleted as i64);
    Ok(())
}
