//! Operations of both dialects on the store, with their counts.

use std::time::Duration;

use frazil_segment::{Attributes, Expect, StoreError, Stored, Update};

pub(super) use crate::items::update;
pub(super) use crate::marks::{BINARY, STALE, WON};
use crate::worker::Turn;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// A write.
#[derive(Clone, Copy)]
pub(super) struct Store<'i> {
    pub(super) mode: Mode,
    pub(super) key: &'i [u8],
    pub(super) value: &'i [u8],
    pub(super) attributes: Attributes,
    /// The required number for `cas`; 0: any.
    pub(super) cas: u64,
    /// Whether a value with an older number is stored as a stale one.
    pub(super) invalidates: bool,
}

/// Stores a value, and returns its number for `cas`.
pub(super) fn store(store: Store<'_>, turn: &mut Turn<'_>) -> Result<(Stored, u64), StoreError> {
    turn.counters.sets.add(1);
    let stored = attempt(store, turn);
    match &stored {
        Ok((stored, _)) if store.mode == Mode::Cas => match stored {
            Stored::Stored => turn.counters.cas_hits.add(1),
            Stored::NotFound => turn.counters.cas_misses.add(1),
            _ => turn.counters.cas_badval.add(1),
        },
        Ok(_) => {}
        Err(error) => {
            count_refusal(*error, turn);
            // An older value would be older than the client's.
            if store.mode == Mode::Set {
                turn.shared.items.delete(store.key);
            }
        }
    }
    stored
}

pub(super) fn count_refusal(error: StoreError, turn: &Turn<'_>) {
    match error {
        StoreError::KeyTooLong => turn.counters.long_keys.add(1),
        StoreError::TooLarge => turn.counters.too_large.add(1),
        _ => turn.counters.no_memory.add(1),
    }
}

fn attempt(store: Store<'_>, turn: &mut Turn<'_>) -> Result<(Stored, u64), StoreError> {
    let Store { mode, key, value, attributes, cas, invalidates } = store;
    let items = &turn.shared.items;
    let written = |expect| items.write(key, value, attributes, expect);
    match mode {
        Mode::Set => written(Expect::Anything),
        // A write that is sure to be refused would cost space.
        Mode::Add if items.store.contains(key) => Ok((Stored::NotStored, 0)),
        Mode::Add => written(Expect::Nothing),
        Mode::Replace if !items.store.contains(key) => Ok((Stored::NotStored, 0)),
        Mode::Replace => written(Expect::Something),
        Mode::Append | Mode::Prepend => extend(store, turn),
        Mode::Cas if invalidates => replace_stale(store, turn),
        Mode::Cas => match items.store.peek(key, |entry| entry.cas) {
            None => Ok((Stored::NotFound, 0)),
            Some(there) if there != cas => Ok((Stored::Exists, 0)),
            Some(_) => written(Expect::Exactly(cas)),
        },
    }
}

fn extend(store: Store<'_>, turn: &mut Turn<'_>) -> Result<(Stored, u64), StoreError> {
    let Store { mode, key, value: more, cas, .. } = store;
    let items = &turn.shared.items;
    let updated = update(key, turn, |entry, value| {
        if cas != 0 && entry.cas != cas {
            return Update::Leave(Ok(Stored::Exists));
        }
        if items.is_too_large(key.len(), entry.value.len() + more.len()) {
            return Update::Leave(Err(StoreError::TooLarge));
        }
        if mode == Mode::Append {
            value.extend_from_slice(entry.value);
            value.extend_from_slice(more);
        } else {
            value.extend_from_slice(more);
            value.extend_from_slice(entry.value);
        }
        // The value is new: it is not stale, and nobody is to bring it.
        let (flags, marks) = (entry.flags, entry.marks & !(STALE | WON));
        Update::Write { flags, marks, lifetime: None, result: Ok(Stored::Stored) }
    })?;
    let (stored, cas) = updated.unwrap_or((Ok(Stored::NotStored), 0));
    Ok((stored?, cas))
}

/// Stores a value that has the entry's number. A value with another number comes from an older entry: it is stored as
/// stale, until the entry would have expired.
fn replace_stale(store: Store<'_>, turn: &mut Turn<'_>) -> Result<(Stored, u64), StoreError> {
    let Store { key, value: new, attributes, cas, .. } = store;
    let updated = update(key, turn, |entry, value| {
        if cas == 0 {
            return Update::Leave(Stored::Exists);
        }
        value.extend_from_slice(new);
        let Attributes { flags, marks, lifetime } = attributes;
        if cas == entry.cas {
            let lifetime = Some(lifetime);
            return Update::Write { flags, marks, lifetime, result: Stored::Stored };
        }
        let marks = marks | STALE | entry.marks & WON;
        Update::Write { flags, marks, lifetime: None, result: Stored::Stored }
    })?;
    Ok(updated.unwrap_or((Stored::NotFound, 0)))
}

/// Changes the lifetime of an entry, and returns its flags and number for `cas`.
pub(super) fn touch(
    key: &[u8],
    lifetime: Option<Duration>,
    turn: &mut Turn<'_>,
) -> Result<Option<(u32, u64)>, StoreError> {
    update(key, turn, |entry, value| {
        value.extend_from_slice(entry.value);
        let flags = entry.flags;
        Update::Write { flags, marks: entry.marks, lifetime: Some(lifetime), result: flags }
    })
}

/// A change of a number.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) up: bool,
    pub(super) by: u64,
    /// The required number for `cas`; 0: any.
    pub(super) cas: u64,
    /// The new lifetime; `None`: unchanged.
    pub(super) lifetime: Option<Option<Duration>>,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Is(u64),
    NotANumber,
    NotFound,
    /// The entry has another number for `cas`.
    Exists,
}

/// Changes a number. Returns the entry's new number for `cas`, and its lifetime left before.
pub(super) fn count(
    key: &[u8],
    count: Count,
    turn: &mut Turn<'_>,
) -> Result<(Counted, u64, Option<Duration>), StoreError> {
    let Count { up, by, cas, lifetime } = count;
    let mut left = None;
    let updated = update(key, turn, |entry, value| {
        left = entry.lifetime;
        // An empty value is refused whatever its number for `cas`.
        if cas != 0 && entry.cas != cas && !entry.value.is_empty() {
            return Update::Leave(Counted::Exists);
        }
        let Some(number) = super::number::unsigned(entry.value) else {
            return Update::Leave(Counted::NotANumber);
        };
        let number = if up { number.wrapping_add(by) } else { number.saturating_sub(by) };
        super::push_number(value, number);
        // memcached keeps the length of a number that gets shorter, and clients may rely on it.
        value.resize(value.len().max(entry.value.len()), b' ');
        let (flags, marks) = (entry.flags, entry.marks);
        Update::Write { flags, marks, lifetime, result: Counted::Is(number) }
    });
    let (counted, cas) = updated?.unwrap_or((Counted::NotFound, 0));
    let counters = turn.counters;
    match (counted, up) {
        (Counted::Is(_), true) => counters.incr_hits.add(1),
        (Counted::Is(_), false) => counters.decr_hits.add(1),
        (Counted::NotFound, true) => counters.incr_misses.add(1),
        (Counted::NotFound, false) => counters.decr_misses.add(1),
        _ => {}
    }
    Ok((counted, cas, left))
}

/// Deletes an entry.
pub(super) fn delete(key: &[u8], turn: &Turn<'_>) -> Stored {
    let is_there = turn.shared.items.delete(key);
    count_delete(if is_there { Stored::Stored } else { Stored::NotFound }, turn)
}

/// Deletes an entry if it has this number for `cas`.
pub(super) fn delete_exactly(key: &[u8], cas: u64, turn: &Turn<'_>) -> Stored {
    count_delete(turn.shared.items.delete_exactly(key, cas), turn)
}

fn count_delete(deleted: Stored, turn: &Turn<'_>) -> Stored {
    let is_hit = deleted == Stored::Stored;
    turn.counters.delete_hits.add(is_hit.into());
    turn.counters.delete_misses.add((!is_hit).into());
    deleted
}
