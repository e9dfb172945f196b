//! The store of segments, with large items in a store of objects beside it.
//!
//! Readers take no lock if they find their key: they look in the segments, and then, once there has been a large item,
//! among the objects. A writer holds the lock of its key's stripe. So a key is in one of the stores at most, and a
//! condition sees both. `docs/design/server-large.md` has the design.

mod division;
mod moves;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use frazil::Policy;
use frazil_segment::{
    Attributes, Entry, Expect, KEY_BYTES_MAX, RestoreError, Stats, Store, StoreError, Stored,
    Update,
};

use crate::objects::{ClassStats, Objects};
use crate::store::{CursorRange, Held, refusal};
use crate::writers::{Writer, Writers};
use division::Division;
pub(crate) use moves::Moves;

/// Largest item in a segment, without its head. `process.rs` has the allocator map larger ones separately, so their
/// memory returns to the system when they go, and their number does not change how much memory they take.
pub(crate) const SMALL_BYTES_MAX: usize = (64 << 10) - 12;
/// Attempts to store a large item that has room. Without a further one, in a store with room for one such item, two threads
/// that store and delete were refused once in a thousand times.
const PLACE_TRIES: usize = 100;
/// Memory beside key and value of a small item, rounded: a million items with values of 32 to 500 bytes take 15 to 17 bytes more.
const SMALL_BESIDE_BYTES: usize = 16;
/// The highest bit of a cursor: the scan has passed the segments. The other bits are the cursor of either store, whose low
/// bits are 0.
const LARGE: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Segments {
    small: Store,
    large: Objects,
    writers: Writers<Moves>,
    /// Whether there has been a large item.
    has_large: AtomicBool,
    division: Division,
    policy: Policy,
    evicts: bool,
    item_bytes_max: usize,
}

/// The lock of a key's stripe.
type KeyLock<'s> = Writer<'s, Moves>;

fn is_large(key: &[u8], value: &[u8]) -> bool {
    key.len() + value.len() > SMALL_BYTES_MAX
}

/// The same function, for either of two look-ups, of which one finds the entry.
fn once<R>(read: impl FnOnce(Entry<'_>) -> R) -> impl Fn(Entry<'_>) -> R {
    let read = Cell::new(Some(read));
    move |entry| (read.take().expect("an entry is found once"))(entry)
}

impl Segments {
    pub(crate) fn new(
        small: Store,
        large: Objects,
        policy: Policy,
        evicts: bool,
        item_bytes_max: usize,
    ) -> Segments {
        Segments {
            division: Division::new(&small, &large, evicts),
            small,
            large,
            writers: Writers::new(Moves::new),
            has_large: AtomicBool::new(false),
            policy,
            evicts,
            item_bytes_max,
        }
    }

    /// Relaxed is enough: it is set before the first key leaves the segments for the objects (Release), and read after the key
    /// was not found there (Acquire).
    fn has_large(&self) -> bool {
        self.has_large.load(Relaxed)
    }

    /// Looks for a key that was not found in the segments, with functions that look in either store.
    #[cold]
    #[inline(never)]
    fn look_further<R>(&self, key: &[u8], look: &mut dyn FnMut(bool) -> Option<R>) -> Option<R> {
        let moves = self.writers.state(key);
        let count = moves.count();
        if let Some(found) = look(true) {
            return Some(found);
        }
        if count.is_some_and(|count| !self.small.contains(key) && moves.is_still(count)) {
            return None;
        }
        // It has moved meanwhile, or another key of the stripe.
        let _lock = self.writers.lock(key);
        look(false).or_else(|| look(true))
    }

    /// Looks for a key in the segments, and then, if there may be large items, among the objects.
    #[inline]
    fn find<'s, R>(
        &'s self,
        key: &[u8],
        in_small: impl Fn(&'s Store) -> Option<R>,
        in_large: impl Fn(&'s Objects) -> Option<R>,
    ) -> Option<R> {
        let found = in_small(&self.small);
        if found.is_some() || !self.has_large() {
            return found;
        }
        self.look_further(key, &mut |is_large| match is_large {
            true => in_large(&self.large),
            false => in_small(&self.small),
        })
    }

    #[inline]
    pub(crate) fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let read = once(read);
        self.find(key, |small| small.get_with(key, &read), |large| large.get_with(key, &read))
    }

    #[inline]
    pub(crate) fn get_many(&self, keys: &[&[u8]], mut each: impl FnMut(usize, Option<Entry<'_>>)) {
        self.small.get_many(keys, |at, entry| {
            if entry.is_some() || !self.has_large() {
                return each(at, entry);
            }
            let found = self.look_further(keys[at], &mut |in_large| match in_large {
                true => self.large.get_with(keys[at], |entry| each(at, Some(entry))),
                false => self.small.get_with(keys[at], |entry| each(at, Some(entry))),
            });
            if found.is_none() {
                each(at, None);
            }
        });
    }

    pub(crate) fn peek<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let read = once(read);
        self.find(key, |small| small.peek(key, &read), |large| large.peek(key, &read))
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.peek(key, |_| ()).is_some()
    }

    pub(crate) fn hold(&self, key: &[u8]) -> Option<Held<'_>> {
        self.find(
            key,
            |small| small.hold(key).map(Held::InSegment),
            |large| large.hold(key).map(Held::Object),
        )
    }

    pub(crate) fn write(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let lock = self.writers.lock(key);
        let in_large = if self.has_large() { self.large.cas(key) } else { None };
        let written = if is_large(key, value) {
            let present = in_large.or_else(|| match expect {
                Expect::Anything => None,
                _ => self.small.peek(key, |entry| entry.cas),
            });
            match refusal(expect, present) {
                Some(refused) => Ok((refused, 0)),
                None => self.put_large(&lock, key, value, attributes, false).map(stored),
            }
        } else if in_large.is_none() {
            self.write_small(key, value, attributes, expect)
        } else {
            match refusal(expect, in_large) {
                Some(refused) => Ok((refused, 0)),
                None => self.shrink(&lock, key, value, attributes).map(stored),
            }
        };
        if !matches!(written, Ok((Stored::NotStored | Stored::Exists | Stored::NotFound, _))) {
            lock.note();
        }
        written
    }

    /// Writes a small item of a key that has no large one.
    #[inline]
    fn write_small(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let mut written = self.small.write(key, value, attributes, expect);
        if written == Err(StoreError::NoRoom)
            && self.division.take_back_unused(&self.small, &self.large)
        {
            written = self.small.write(key, value, attributes, expect);
        }
        self.division.written(&self.small, &self.large, key.len() + value.len());
        written
    }

    /// Replaces a large item by a small one, and returns its number for `cas`.
    fn shrink(
        &self,
        lock: &KeyLock<'_>,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
    ) -> Result<u64, StoreError> {
        let _move = lock.state.begin();
        self.large.delete(key);
        let written = self.write_small(key, value, attributes, Expect::Anything);
        written.map(|(_, cas)| cas)
    }

    /// Stores a large item, and returns its number for `cas`.
    fn put_large(
        &self,
        lock: &KeyLock<'_>,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        requested: bool,
    ) -> Result<u64, StoreError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(StoreError::KeyTooLong);
        }
        if key.len() + value.len() > self.item_bytes_max {
            return Err(StoreError::TooLarge);
        }
        let charge = |value_bytes| Objects::charge(self.policy, key.len(), value_bytes);
        let replaced = self.large.peek(key, |entry| charge(entry.value.len()));
        let room = charge(value.len());
        let replaced_bytes = replaced.unwrap_or(0);
        let _room = self.division.make_room(&self.small, &self.large, room, replaced_bytes)?;
        self.has_large.store(true, Relaxed);
        let is_small = replaced.is_none() && self.small.contains(key);
        let _move = (is_small || !self.evicts).then(|| lock.state.begin());
        if is_small {
            self.small.delete(key);
        }
        if replaced.is_none() || !self.evicts {
            // Also an expired one.
            self.large.delete(key);
        }
        for _ in 0..PLACE_TRIES {
            match self.large.place(key, value, attributes, requested) {
                // Another thread has removed an item, and not yet returned its charge to the cache.
                Err(StoreError::NoRoom) if self.evicts => std::thread::yield_now(),
                placed => return placed,
            }
        }
        Err(StoreError::NoRoom)
    }

    pub(crate) fn update<R>(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
    ) -> Result<Option<(R, u64)>, StoreError> {
        let lock = self.writers.lock(key);
        // A new value for the other store, or a new large one, is stored here.
        let mut moved = None;
        let mut divert = |entry: &Entry<'_>, value: &mut Vec<u8>, is_from_large: bool| {
            moved = None;
            match decide(entry, value) {
                Update::Write { flags, marks, lifetime, result }
                    if is_from_large || is_large(key, value) =>
                {
                    let lifetime = lifetime.unwrap_or(entry.lifetime);
                    let attributes = Attributes { flags, marks, lifetime };
                    moved = Some((attributes, entry.requested));
                    Update::Leave(result)
                }
                decided => decided,
            }
        };
        let mut updated = self.small.update(key, value, |entry, out| divert(entry, out, false));
        if matches!(updated, Err(StoreError::NoRoom))
            && self.division.take_back_unused(&self.small, &self.large)
        {
            updated = self.small.update(key, value, |entry, out| divert(entry, out, false));
        }
        let mut updated = updated?;
        if updated.is_none() && self.has_large() {
            updated = self.large.update(key, value, |entry, out| divert(entry, out, true))?;
        } else if updated.is_some() && moved.is_none() {
            self.division.written(&self.small, &self.large, key.len() + value.len());
        }
        let Some((result, mut cas)) = updated else { return Ok(None) };
        if let Some((attributes, requested)) = moved {
            cas = match is_large(key, value) {
                true => self.put_large(&lock, key, value, attributes, requested)?,
                false => self.shrink(&lock, key, value, attributes)?,
            };
        }
        lock.note();
        Ok(Some((result, cas)))
    }

    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        let lock = self.writers.lock(key);
        // A key that a restore has not yet stored is deleted as well.
        lock.note();
        let was_large = self.has_large() && self.large.delete(key);
        self.small.delete(key) || was_large
    }

    pub(crate) fn delete_exactly(&self, key: &[u8], cas: u64) -> Stored {
        let lock = self.writers.lock(key);
        let deleted = match self.has_large().then(|| self.large.delete_exactly(key, cas)) {
            None | Some(Stored::NotFound) => self.small.delete_exactly(key, cas),
            Some(deleted) => deleted,
        };
        if deleted != Stored::Exists {
            lock.note();
        }
        deleted
    }

    /// Removes all items. Holds up writers while it takes all stripes.
    pub(crate) fn flush(&self) {
        self.writers.flush(|| {
            self.small.flush();
            self.large.flush();
        });
    }

    /// The segments first. A key that moves meanwhile may be missed or visited twice.
    pub(crate) fn scan_with(&self, cursor: u64, each: impl FnMut(&Entry<'_>)) -> Option<u64> {
        if cursor & LARGE == 0 {
            let next = self.small.scan_with(cursor << 1, each).map(|next| next >> 1);
            next.or_else(|| self.has_large().then_some(LARGE))
        } else {
            let next = self.large.scan_with(cursor << 1, each);
            next.map(|next| next >> 1 | LARGE)
        }
    }

    /// The cursors of the segments and of the large items, if there are any, for random bits: either is the first with a
    /// probability in proportion to its items. Counts these in all segments if there are large items.
    pub(crate) fn ranges_at_random(&self, random: u64) -> (CursorRange, Option<CursorRange>) {
        let of_small = CursorRange { differ: !LARGE, bits: 0 };
        let of_large = CursorRange { differ: !LARGE, bits: LARGE };
        let large = self.large.live_items();
        if large == 0 {
            return (of_small, None);
        }
        // Flushed items are in the segments until these are evicted, so they must not count.
        let all = large + self.small.live_items();
        let is_large = (random & u64::from(u32::MAX)) % all < large;
        if is_large { (of_large, Some(of_small)) } else { (of_small, Some(of_large)) }
    }

    pub(crate) fn live_items(&self) -> u64 {
        self.small.live_items() + self.large.live_items()
    }

    /// Of both stores. Look-ups of large items count as misses of the segments too.
    pub(crate) fn stats(&self) -> Stats {
        let (mut stats, large) = (self.small.stats(), self.large.stats());
        stats.hits += large.hits;
        stats.writes += large.writes;
        stats.evicted_items += large.evicted_items;
        stats.expired_items += large.expired_items;
        stats.items += large.items;
        stats.live_bytes += large.live_bytes;
        stats
    }

    pub(crate) fn stats_of_segments(&self) -> Stats {
        self.small.stats()
    }

    pub(crate) fn classes(&self) -> Vec<ClassStats> {
        self.large.classes()
    }

    /// Memory that an item takes.
    pub(crate) fn item_charge(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        match key_bytes + value_bytes > SMALL_BYTES_MAX {
            true => Objects::charge(self.policy, key_bytes, value_bytes),
            false => (key_bytes + value_bytes + SMALL_BESIDE_BYTES) as u64,
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let stats = self.stats();
        stats.live_bytes + u64::from(stats.index_segments) * stats.segment_bytes as u64
    }

    pub(crate) fn metrics(&self) -> String {
        let page = frazil_segment::prometheus::Page::new().with("segment", &self.small);
        page.to_string() + &self.large.metrics()
    }

    /// As [`Store::save`], in the same format.
    pub(crate) fn save(&self, path: &Path) -> io::Result<u64> {
        frazil_segment::save_entries(path, |cursor, out| {
            self.scan_with(cursor, |entry| out.push(entry.into()))
        })
    }

    /// As [`Store::restore_with`].
    pub(crate) fn restore_with(
        &self,
        path: &Path,
        mut admit: impl FnMut(&[u8], &mut Attributes) -> bool,
    ) -> Result<u64, RestoreError> {
        self.writers.restore(path, |lock, key, value, mut attributes| {
            let is_there = self.small.contains(key) || self.large.cas(key).is_some();
            if is_there || !admit(value, &mut attributes) {
                return Ok(false);
            }
            let stored = match is_large(key, value) {
                true => self.put_large(lock, key, value, attributes, false).map(|_| true),
                false => self
                    .write_small(key, value, attributes, Expect::Nothing)
                    .map(|(outcome, _)| outcome == Stored::Stored),
            };
            match stored {
                Err(StoreError::TooLarge) => Ok(false),
                // No segment can be lent.
                Err(StoreError::NoRoom) if self.evicts => Ok(false),
                stored => stored,
            }
        })
    }

    pub(crate) fn expect_restore(&self) {
        self.writers.expect_restore();
    }

    pub(crate) fn expect_no_restore(&self) {
        self.writers.expect_no_restore();
    }
}

fn stored(cas: u64) -> (Stored, u64) {
    (Stored::Stored, cas)
}
