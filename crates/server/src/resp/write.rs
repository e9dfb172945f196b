//! Changes of an entry, each in one step against other threads.

use std::time::Duration;

use frazil_segment::{Attributes, Entry, Expect, StoreError, Stored, Update};

use super::Problem;
use crate::items;
use crate::marks::is_placeholder;
use crate::worker::Turn;

/// The change of a key's entry.
pub(super) enum Change<R> {
    /// None.
    Leave(R),
    Delete(R),
    /// The composed value replaces its value; its expiry is unchanged.
    Edit(R),
    /// The composed value replaces its value, with this lifetime.
    Renew(Option<Duration>, R),
    /// A new entry replaces it, with the composed value and this lifetime, and none of its attributes.
    Put(Option<Duration>, R),
}

/// The work left after the store's answer.
enum After<R> {
    Done(R),
    Delete(u64, R),
    TooLarge,
}

impl<R> Change<R> {
    /// The change of an entry. A placeholder passes none of its attributes on.
    fn of_entry(self, entry: &Entry<'_>, is_there: bool) -> Update<After<R>> {
        let (flags, marks) = if is_there { (entry.flags, entry.marks) } else { (0, 0) };
        match self {
            Change::Leave(result) => Update::Leave(After::Done(result)),
            Change::Delete(result) if !is_there => Update::Leave(After::Done(result)),
            Change::Delete(result) => Update::Leave(After::Delete(entry.cas, result)),
            Change::Edit(result) => {
                let lifetime = if is_there { None } else { Some(None) };
                Update::Write { flags, marks, lifetime, result: After::Done(result) }
            }
            Change::Renew(lifetime, result) => {
                let result = After::Done(result);
                Update::Write { flags, marks, lifetime: Some(lifetime), result }
            }
            Change::Put(lifetime, result) => {
                let result = After::Done(result);
                Update::Write { flags: 0, marks: 0, lifetime: Some(lifetime), result }
            }
        }
    }
}

/// Calls `decide` with a key's entry, or with none, to compose a value and append replies. If another write comes in
/// between, the replies are dropped and `decide` is called again.
pub(super) fn change<R>(
    key: &[u8],
    turn: &mut Turn<'_>,
    mut decide: impl FnMut(Option<&Entry<'_>>, &mut Vec<u8>, &mut Vec<u8>) -> Change<R>,
) -> Result<R, Problem> {
    let begin = turn.out.len();
    let shared = turn.shared;
    let mut replies = std::mem::take(turn.out);
    let changed = loop {
        let updated = items::update(key, turn, |entry, value| {
            replies.truncate(begin);
            let is_there = !is_placeholder(entry);
            let change = decide(is_there.then_some(entry), value, &mut replies);
            if shared.items.is_too_large(key.len(), value.len()) {
                return Update::Leave(After::TooLarge);
            }
            change.of_entry(entry, is_there)
        });
        match updated {
            Err(error) => break Err(refusal(error, turn)),
            Ok(Some((After::Done(result), _))) => break Ok(result),
            Ok(Some((After::TooLarge, _))) => {
                break Err(refusal(StoreError::TooLarge, turn));
            }
            Ok(Some((After::Delete(cas, result), _))) => {
                if shared.items.delete_exactly(key, cas) == Stored::Stored {
                    break Ok(result);
                }
            }
            Ok(None) => {
                turn.scratch.clear();
                replies.truncate(begin);
                let (lifetime, result) = match decide(None, turn.scratch, &mut replies) {
                    Change::Leave(result) => break Ok(result),
                    // A value in flight or being restored is older, and is not stored. One that has just been stored
                    // is seen by `decide`.
                    Change::Delete(result) => match shared.items.delete_exactly(key, 0) {
                        Stored::NotFound => break Ok(result),
                        _ => continue,
                    },
                    Change::Edit(result) => (None, result),
                    Change::Renew(lifetime, result) | Change::Put(lifetime, result) => {
                        (lifetime, result)
                    }
                };
                match put(key, turn.scratch, lifetime, Expect::Nothing, turn) {
                    Err(problem) => break Err(problem),
                    Ok(true) => break Ok(result),
                    Ok(false) => {}
                }
            }
        }
    };
    if changed.is_err() {
        replies.truncate(begin);
    }
    *turn.out = replies;
    changed
}

/// Stores a value if the present entry is as expected, and returns whether it was.
pub(super) fn put(
    key: &[u8],
    value: &[u8],
    lifetime: Option<Duration>,
    expect: Expect,
    turn: &Turn<'_>,
) -> Result<bool, Problem> {
    let items = &turn.shared.items;
    if items.is_too_large(key.len(), value.len()) {
        return Err(refusal(StoreError::TooLarge, turn));
    }
    let attributes = Attributes { flags: 0, marks: 0, lifetime };
    turn.counters.sets.add(1);
    match items.write(key, value, attributes, expect) {
        Ok((stored, _)) => Ok(stored == Stored::Stored),
        Err(error) => Err(refusal(error, turn)),
    }
}

/// The error of a refused value, which is counted.
pub(super) fn refusal(error: StoreError, turn: &Turn<'_>) -> Problem {
    let counters = turn.counters;
    match error {
        StoreError::KeyTooLong => {
            counters.long_keys.add(1);
            let most = turn.shared.items.key_bytes_max;
            format!("ERR the key is longer than {most} bytes").into()
        }
        StoreError::TooLarge => {
            counters.too_large.add(1);
            TOO_LARGE.into()
        }
        _ => {
            counters.no_memory.add(1);
            OUT_OF_MEMORY.into()
        }
    }
}

const TOO_LARGE: &str = "ERR string exceeds maximum allowed size (an item has no more than 1 MiB)";
pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
