//! What a cache must implement to freeze its hottest entries.

use std::hash::Hash;

use crate::learn::NEWCOMER;
use crate::steering::Teacher;
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A byte beside each entry of a host, for learning.
///
/// ```
/// // As for a newcomer.
/// let entry = (String::from("value"), frazil_freezing::Mark::default());
/// ```
#[derive(Debug)]
pub struct Mark(pub(crate) AtomicU8);

impl Default for Mark {
    fn default() -> Self {
        Mark(AtomicU8::new(NEWCOMER))
    }
}

impl Mark {
    pub(crate) fn set(&self, byte: u8) {
        self.0.store(byte, Relaxed);
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The key was present and has the new value.
    Replaced,
    /// The key was inserted.
    Admitted {
        /// Number of entries evicted for it.
        evicted: u64,
    },
    /// The key was refused: nothing could be evicted for it.
    Refused,
}

/// A cache whose hottest entries can be frozen, under an [`Overlay`](crate::Overlay). Threads call
/// all methods concurrently.
///
/// An entry of a host is *dynamic*, or *set aside*: hidden from its policy, so it is not evicted
/// and its hits are not noted. An entry set aside is still found, replaced and removed, and counts
/// as present.
///
/// **The one rule that answers depend on**: [`set_aside`](Self::set_aside) calls `copy` under a
/// lock that [`insert`](Self::insert) and [`remove`](Self::remove) hold while they change that key.
/// So a write of the key either precedes the copy, which then has its value, or follows it, and the
/// overlay handles it.
pub trait Host: Send + Sync {
    /// Key of an entry.
    type Key: Hash + Eq + Clone + Send + Sync;
    /// Value of an entry. Copied when it is frozen, and for each hit, so large values should be an
    /// `Arc`.
    type Value: Clone + Send + Sync;

    /// Number of entries.
    fn len(&self) -> usize;

    /// Whether there are no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key, if present. Calls `hit` with the entry's mark, and reports the hit to
    /// the policy unless the entry is set aside.
    fn get(&self, key: &Self::Key, hit: impl FnOnce(&Mark)) -> Option<Self::Value>;

    /// Inserts a key with a new mark, or replaces its value without changing its mark and state
    /// (dynamic or set aside). A new entry that does not fit is refused if no dynamic entry can be
    /// evicted.
    fn insert(&self, key: &Self::Key, value: Self::Value) -> Insertion;

    /// Removes a key, and returns its value.
    fn remove(&self, key: &Self::Key) -> Option<Self::Value>;

    /// Visits the marks of all entries, hottest first as far as the host knows. It may lock in
    /// batches, and then may visit or miss entries inserted meanwhile.
    fn walk(&self, show: &mut dyn FnMut(&Mark));

    /// Sets at most `count` of the hottest entries aside, and calls `copy` for each, hottest
    /// first. No entry is set aside before. May lock in batches. Returns the number set aside.
    fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&Self::Key, &Self::Value)) -> usize;

    /// Returns all entries set aside to the policy, as its hottest entries. It may lock in batches.
    fn give_back(&self);

    /// The way to learn which entries to freeze: a marker, unless the host's order is by frequency.
    /// With [`Teacher::Count`] an overlay also learns by the order, after a time of counting.
    fn teacher(&self) -> Teacher {
        Teacher::Marker
    }
}
