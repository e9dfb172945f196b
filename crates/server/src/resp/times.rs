//! Expiry times in requests.

use std::time::Duration;

use super::{Problem, number};
use crate::worker::Turn;

/// The form of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// In seconds, otherwise in milliseconds.
    pub(super) seconds: bool,
    /// Since 1970, otherwise from now on.
    pub(super) absolute: bool,
}

impl Unit {
    /// The unit that an option names.
    pub(super) fn of(option: &[u8]) -> Option<Unit> {
        let unit = |seconds, absolute| Some(Unit { seconds, absolute });
        match option.to_ascii_lowercase().as_slice() {
            b"ex" => unit(true, false),
            b"px" => unit(false, false),
            b"exat" => unit(true, true),
            b"pxat" => unit(false, true),
            _ => None,
        }
    }
}

pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

fn invalid(command: &str) -> Problem {
    format!("ERR invalid expire time in '{command}' command").into()
}

/// Unix time of an expiry, in milliseconds.
pub(super) fn end(text: &[u8], unit: Unit, command: &str, turn: &Turn<'_>) -> Result<i64, Problem> {
    let time = number::integer(text).ok_or(NOT_AN_INTEGER)?;
    let milliseconds = if unit.seconds { time.checked_mul(1000) } else { Some(time) };
    let now = if unit.absolute { 0 } else { turn.shared.items.clock.unix_ms() as i64 };
    milliseconds.and_then(|time| time.checked_add(now)).ok_or_else(|| invalid(command))
}

/// The same for commands that accept no time in the past.
pub(super) fn end_of_value(
    text: &[u8],
    unit: Unit,
    command: &str,
    turn: &Turn<'_>,
) -> Result<i64, Problem> {
    if number::integer(text).ok_or(NOT_AN_INTEGER)? <= 0 {
        return Err(invalid(command));
    }
    end(text, unit, command, turn)
}

/// The lifetime up to this time. `None`: it is past.
pub(super) fn left(end_ms: i64, turn: &Turn<'_>) -> Option<Duration> {
    let left = end_ms.saturating_sub(turn.shared.items.clock.unix_ms() as i64);
    (left > 0).then(|| Duration::from_millis(left as u64))
}
