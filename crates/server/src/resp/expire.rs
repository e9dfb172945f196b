//! Commands for expiry.

use super::times::{self, Unit};
use super::write::{self, Change};
use super::{Call, Done, Problem, reply, seen};

pub(super) fn expire(call: &mut Call<'_, '_>) -> Done {
    set_end(Unit { seconds: true, absolute: false }, "expire", call)
}

pub(super) fn pexpire(call: &mut Call<'_, '_>) -> Done {
    set_end(Unit { seconds: false, absolute: false }, "pexpire", call)
}

pub(super) fn expireat(call: &mut Call<'_, '_>) -> Done {
    set_end(Unit { seconds: true, absolute: true }, "expireat", call)
}

pub(super) fn pexpireat(call: &mut Call<'_, '_>) -> Done {
    set_end(Unit { seconds: false, absolute: true }, "pexpireat", call)
}

/// The conditions for a new expiry.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// The key has none.
    none: bool,
    /// The key has one.
    some: bool,
    /// The new one is later.
    later: bool,
    /// The new one is earlier.
    earlier: bool,
}

impl Conditions {
    fn of(call: &Call<'_, '_>) -> Result<Conditions, Problem> {
        let mut is = Conditions::default();
        for word in call.args.from(3) {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => is.none = true,
                b"xx" => is.some = true,
                b"gt" => is.later = true,
                b"lt" => is.earlier = true,
                _ => {
                    let word = String::from_utf8_lossy(&word[..word.len().min(64)]);
                    return Err(format!("ERR Unsupported option {word}").into());
                }
            }
        }
        if is.none && (is.some || is.later || is.earlier) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if is.later && is.earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(is)
    }

    fn are_met(self, old_ms: Option<i64>, new_ms: i64) -> bool {
        // An entry without expiry is later than any.
        let old = old_ms.unwrap_or(i64::MAX);
        !(self.none && old_ms.is_some()
            || self.some && old_ms.is_none()
            || self.later && (old_ms.is_none() || new_ms <= old)
            || self.earlier && old_ms.is_some() && new_ms >= old)
    }
}

fn set_end(unit: Unit, command: &str, call: &mut Call<'_, '_>) -> Done {
    let conditions = Conditions::of(call)?;
    let end = times::end(call.args.get(2), unit, command, call.turn)?;
    let lifetime = times::left(end, call.turn);
    let now = call.turn.shared.items.clock.unix_ms() as i64;
    call.turn.counters.touches.add(1);
    let is_set = write::change(call.args.get(1), call.turn, |entry, new, _| {
        let Some(entry) = entry else { return Change::Leave(None) };
        let old = entry.lifetime.map(|left| now.saturating_add(left.as_millis() as i64));
        if !conditions.are_met(old, end) {
            return Change::Leave(Some(false));
        }
        new.extend_from_slice(entry.value);
        match lifetime {
            Some(_) => Change::Renew(lifetime, Some(true)),
            // It expires at once.
            None => Change::Delete(Some(true)),
        }
    })?;
    let counters = call.turn.counters;
    if is_set.is_some() {
        counters.touch_hits.add(1)
    } else {
        counters.touch_misses.add(1)
    }
    reply::integer(call.turn.out, (is_set == Some(true)).into());
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_, '_>) -> Done {
    write::change(call.args.get(1), call.turn, |entry, new, out| {
        let ends = entry.filter(|entry| entry.lifetime.is_some());
        reply::integer(out, ends.is_some().into());
        let Some(entry) = ends else { return Change::Leave(()) };
        new.extend_from_slice(entry.value);
        Change::Renew(None, ())
    })
}

/// Replies the milliseconds that a key has left: -1 without expiry, -2 without an entry.
fn show_left(call: &mut Call<'_, '_>, show: impl FnOnce(i64, i64) -> i64) -> Done {
    let items = &call.turn.shared.items;
    let left = seen::peek(&items.store, call.args.get(1), |entry| entry.lifetime);
    let shown = match left {
        None => -2,
        Some(None) => -1,
        Some(Some(left)) => show(left.as_millis() as i64, items.clock.unix_ms() as i64),
    };
    reply::integer(call.turn.out, shown);
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_, '_>) -> Done {
    show_left(call, |left, _| (left + 500) / 1000)
}

pub(super) fn pttl(call: &mut Call<'_, '_>) -> Done {
    show_left(call, |left, _| left)
}

pub(super) fn expiretime(call: &mut Call<'_, '_>) -> Done {
    show_left(call, |left, now| (now + left + 500) / 1000)
}

pub(super) fn pexpiretime(call: &mut Call<'_, '_>) -> Done {
    show_left(call, |left, now| now + left)
}
