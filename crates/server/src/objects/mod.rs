//! The store with an allocation for each item, which evicts by any policy of the cache.
//!
//! A look-up takes no lock. A writer holds the lock of its key's stripe, so no other changes the item between its
//! read and its write. The policy may evict the item in between: the write then counts as an eviction before it,
//! followed by an insertion.

mod classes;
mod item;
mod room;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil::{Cache, Cause, Policy, Refusal};
use frazil_segment::{Attributes, Entry, Expect, RestoreError, Stats, StoreError, Stored, Update};

use crate::store::refusal;
use crate::writers::{STRIPES, Writer, Writers};
use classes::Classes;
pub(crate) use classes::{CLASSES, ClassStats, Since};
use item::{FOREVER_MS, Item, Parts};
use room::{LOOK_EVERY, Room};

/// Memory of an item outside its allocation: its slot, its share of the table and of the deadlines, the policy's
/// state for it and for evicted ones, and items waiting for reclamation. Measured: the resident memory of a server of
/// 128 MiB after 1,200,000 items of 100 bytes, less that of an empty server and of the allocations, by resident item.
fn bytes_beside(policy: Policy) -> usize {
    match policy {
        Policy::Fifo | Policy::Clock { .. } | Policy::Mobius => 80,
        Policy::Arc => 96,
        Policy::S3Fifo | Policy::WTinyLfu | Policy::LruSampled { .. } => 112,
        Policy::Lirs => 168,
        Policy::Lru | Policy::Sieve | Policy::Slru { .. } => 88,
        _ => 128,
    }
}

#[derive(Debug)]
pub(crate) struct Objects {
    cache: Cache<Item, Item>,
    /// With the numbers for `cas` given out so far.
    writers: Writers<AtomicU64>,
    now_ms: Arc<AtomicU64>,
    beside_bytes: usize,
    item_bytes_max: usize,
    /// `None` beside segments, whose store sets the capacity.
    room: Option<Room>,
    classes: Arc<Classes>,
    /// A number of the current period, and bytes of the items stored or requested since it began.
    period: AtomicU8,
    used: AtomicU64,
}

impl Objects {
    pub(crate) fn new(
        (bytes, item_bytes_max): (usize, usize),
        process_max: Option<u64>,
        policy: Policy,
        now_ms: Arc<AtomicU64>,
    ) -> Result<Objects, frazil::BuildError> {
        let clock = Arc::clone(&now_ms);
        let beside = bytes_beside(policy);
        let cache = Cache::builder(bytes as u64)
            .policy(policy)
            .weigher(move |_, item: &Item| (item.allocated_bytes() + beside) as u64)
            .clock(move || Duration::from_millis(clock.load(Relaxed)))
            .try_build()?;
        let room = Room::new(bytes, beside, process_max);
        let bytes = (item_bytes_max, beside);
        Ok(Objects::with(cache, bytes, now_ms, Some(room), Arc::default()))
    }

    /// For large items only, which the allocator maps separately. Its capacity is 0 at first.
    pub(crate) fn beside_segments(
        most_bytes: usize,
        item_bytes_max: usize,
        policy: Policy,
        now_ms: Arc<AtomicU64>,
    ) -> Result<Objects, frazil::BuildError> {
        let (clock, classes) = (Arc::clone(&now_ms), Arc::new(Classes::default()));
        let counted = Arc::clone(&classes);
        let cache = Cache::builder(most_bytes as u64)
            .policy(policy)
            .weigher(move |_, item: &Item| {
                Objects::charge(policy, item.key().len(), item.value().len())
            })
            .listener(move |_, item: &Item, cause| match cause {
                Cause::Size => counted.evicted(item.key().len(), item.value().len()),
                Cause::Expired => counted.reclaimed(item.key().len(), item.value().len()),
                _ => {}
            })
            .clock(move || Duration::from_millis(clock.load(Relaxed)))
            .try_build()?;
        cache.set_capacity(0);
        let bytes = (item_bytes_max, bytes_beside(policy));
        Ok(Objects::with(cache, bytes, now_ms, None, classes))
    }

    fn with(
        cache: Cache<Item, Item>,
        (item_bytes_max, beside_bytes): (usize, usize),
        now_ms: Arc<AtomicU64>,
        room: Option<Room>,
        classes: Arc<Classes>,
    ) -> Objects {
        let (period, used) = Default::default();
        let writers = Writers::new(AtomicU64::default);
        Objects {
            cache,
            writers,
            now_ms,
            beside_bytes,
            item_bytes_max,
            room,
            classes,
            period,
            used,
        }
    }

    /// The weight of an item beside segments.
    pub(crate) fn charge(policy: Policy, key_bytes: usize, value_bytes: usize) -> u64 {
        (item::mapped_bytes(key_bytes, value_bytes) + bytes_beside(policy)) as u64
    }

    /// Memory that an item takes. Not beside segments.
    pub(crate) fn item_charge(&self, key_bytes: usize, value_bytes: usize) -> u64 {
        (item::allocated_bytes(key_bytes, value_bytes) + self.beside_bytes) as u64
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// The item of a key, for its writer. Does not count as a request.
    fn living(&self, key: &[u8]) -> Option<Item> {
        let pin = self.cache.pin();
        let (_, item) = pin.peek(key)?;
        (item.parts().deadline_ms > self.now_ms()).then(|| item.clone())
    }

    fn note_request(&self, item: &Item) {
        if item.request(self.period.load(Relaxed)) {
            self.used.fetch_add(item.allocated_bytes() as u64, Relaxed);
        }
    }

    pub(crate) fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let pin = self.cache.pin();
        let item = pin.get(key)?;
        let entry = entry(item, self.now_ms())?;
        self.note_request(item);
        Some(read(entry))
    }

    pub(crate) fn get_many(&self, keys: &[&[u8]], mut each: impl FnMut(usize, Option<Entry<'_>>)) {
        let now_ms = self.now_ms();
        self.cache.get_many_with(keys.iter().copied(), |at, item| {
            let found = item.and_then(|item| entry(item, now_ms));
            let shown = found.is_some();
            each(at, found);
            if let Some(item) = item.filter(|_| shown) {
                self.note_request(item);
            }
        });
    }

    pub(crate) fn peek<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let pin = self.cache.pin();
        let (_, item) = pin.peek(key)?;
        entry(item, self.now_ms()).map(read)
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.peek(key, |_| ()).is_some()
    }

    /// The item of a key, kept alive while it is held.
    pub(crate) fn hold(&self, key: &[u8]) -> Option<Held> {
        let pin = self.cache.pin();
        let item = pin.get(key)?;
        let now_ms = self.now_ms();
        entry(item, now_ms)?;
        self.note_request(item);
        Some(Held { item: item.clone(), now_ms })
    }

    pub(crate) fn write(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let lock = self.writers.lock(key);
        let present = match expect {
            Expect::Anything => None,
            _ => self.cas(key),
        };
        if let Some(refused) = refusal(expect, present) {
            return Ok((refused, 0));
        }
        let Attributes { flags, marks, lifetime } = attributes;
        let deadline_ms = self.deadline_ms(lifetime);
        lock.note();
        let cas = self.put(&lock, key, value, (flags, marks, deadline_ms, false))?;
        Ok((Stored::Stored, cas))
    }

    pub(crate) fn update<R>(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        mut decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
    ) -> Result<Option<(R, u64)>, StoreError> {
        let lock = self.writers.lock(key);
        let Some(found) = self.living(key) else { return Ok(None) };
        let Some(old) = entry(&found, self.now_ms()) else { return Ok(None) };
        value.clear();
        match decide(&old, value) {
            Update::Leave(result) => Ok(Some((result, old.cas))),
            Update::Write { flags, marks, lifetime, result } => {
                let deadline_ms = match lifetime {
                    None => found.parts().deadline_ms,
                    Some(lifetime) => self.deadline_ms(lifetime),
                };
                let parts = (flags, marks, deadline_ms, old.requested);
                lock.note();
                let cas = self.put(&lock, key, value, parts)?;
                Ok(Some((result, cas)))
            }
        }
    }

    /// Inserts an item with these flags, marks, deadline and note of requests. Returns its number for `cas`.
    fn put(
        &self,
        lock: &Writer<'_, AtomicU64>,
        key: &[u8],
        value: &[u8],
        (flags, marks, deadline_ms, requested): (u32, u8, u64, bool),
    ) -> Result<u64, StoreError> {
        if key.len() > frazil_segment::KEY_BYTES_MAX {
            return Err(StoreError::KeyTooLong);
        }
        if key.len() + value.len() > self.item_bytes_max {
            return Err(StoreError::TooLarge);
        }
        let count = lock.state.load(Relaxed) + 1;
        lock.state.store(count, Relaxed);
        let cas = self.number(count * STRIPES as u64 + lock.stripe as u64);
        let now_ms = self.now_ms();
        let parts = Parts { flags, marks, cas, deadline_ms, written_ms: now_ms, requested };
        let item = Item::new(key, value, parts).ok_or(StoreError::TooLarge)?;
        // After each large item, or after many small ones of about the same bytes in all.
        let bytes = item.allocated_bytes() as u64;
        if let Some(room) = &self.room {
            let is_large = room.is_large(bytes);
            if is_large || count.is_multiple_of(LOOK_EVERY) {
                self.fit(room, if is_large { bytes } else { bytes * LOOK_EVERY });
            }
        }
        let admitted = match deadline_ms {
            FOREVER_MS => self.cache.try_insert(item.clone(), item),
            _ => {
                let left = Duration::from_millis(deadline_ms.saturating_sub(now_ms));
                self.cache.try_insert_for(item.clone(), item, left)
            }
        };
        match admitted.map_err(|refused| refused.reason) {
            Err(Refusal::TooHeavy) => Err(StoreError::TooLarge),
            Err(Refusal::NoRoom) => Err(StoreError::NoRoom),
            // An item that the policy refuses counts as evicted at once.
            Ok(_) | Err(_) => Ok(cas),
        }
    }

    /// Fits the capacity to the free memory, after this many bytes were written.
    fn fit(&self, room: &Room, written: u64) {
        let wanted = room.capacity(self.cache.len() as u64, written);
        if room.is_much(wanted.abs_diff(self.cache.capacity())) {
            self.cache.set_capacity(wanted);
        }
    }

    /// The n-th number for `cas`. Beside segments none is a number of theirs: those have a place in the low 40 bits, and
    /// none of a tebibyte's last 16 MiB, because 80 MiB are beside such segments.
    fn number(&self, count: u64) -> u64 {
        match self.room {
            Some(_) => count,
            None => count >> 24 << 40 | 0xffff << 24 | count & 0xff_ffff,
        }
    }

    /// Stores an item without a condition, and returns its number for `cas`.
    pub(crate) fn place(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        requested: bool,
    ) -> Result<u64, StoreError> {
        let Attributes { flags, marks, lifetime } = attributes;
        let deadline_ms = self.deadline_ms(lifetime);
        let parts = (flags, marks, deadline_ms, requested);
        let cas = self.put(&self.writers.lock(key), key, value, parts)?;
        self.used.fetch_add((key.len() + value.len()) as u64, Relaxed);
        Ok(cas)
    }

    /// The number for `cas` of an item. Does not count as a request.
    pub(crate) fn cas(&self, key: &[u8]) -> Option<u64> {
        self.living(key).map(|item| item.parts().cas)
    }

    /// Bytes of the items stored in this period, and of those requested, each of these counted once.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    pub(crate) fn begin_period(&self) {
        self.period.fetch_add(1, Relaxed);
        self.used.store(0, Relaxed);
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.cache.capacity()
    }

    /// Sets the capacity, and returns the one in force. The memory of what is evicted is free then.
    pub(crate) fn set_capacity(&self, bytes: u64) -> u64 {
        let is_less = bytes < self.cache.capacity();
        let in_force = self.cache.set_capacity(bytes);
        if is_less {
            self.drop_removed();
        }
        in_force
    }

    /// Returns the memory of removed items.
    pub(crate) fn drop_removed(&self) {
        self.cache.flush();
    }

    /// Removes expired items.
    pub(crate) fn purge(&self) {
        self.cache.purge();
    }

    /// The items by memcached's size classes. Visits all of them.
    pub(crate) fn classes(&self) -> Vec<ClassStats> {
        let mut classes = self.classes.all();
        self.cache.for_each(|_, item| {
            let at = classes::class_of(item.key().len(), item.value().len());
            classes[at].items += 1;
            classes[at].bytes += item.allocated_bytes() as u64;
        });
        classes
    }

    /// The deadline from now, rounded up to milliseconds.
    fn deadline_ms(&self, lifetime: Option<Duration>) -> u64 {
        let Some(lifetime) = lifetime else { return FOREVER_MS };
        let left_ms = lifetime.as_nanos().div_ceil(1_000_000);
        self.now_ms().saturating_add(u64::try_from(left_ms).unwrap_or(FOREVER_MS))
    }

    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        let lock = self.writers.lock(key);
        // A key that a restore has not yet stored is deleted as well.
        lock.note();
        let is_there = self.living(key).is_some();
        self.cache.invalidate(key);
        is_there
    }

    pub(crate) fn delete_exactly(&self, key: &[u8], cas: u64) -> Stored {
        let lock = self.writers.lock(key);
        let found = self.living(key);
        if found.as_ref().is_some_and(|found| found.parts().cas != cas) {
            return Stored::Exists;
        }
        lock.note();
        self.cache.invalidate(key);
        if found.is_some() { Stored::Stored } else { Stored::NotFound }
    }

    /// Removes all items. Holds up writers while it takes all stripes.
    pub(crate) fn flush(&self) {
        self.writers.flush(|| self.cache.invalidate_all());
    }

    /// Visits a few items and returns the next cursor: that of [`Cache::scan`], which has 32 bits, in the high bits, as those
    /// of segments.
    pub(crate) fn scan_with(&self, cursor: u64, mut each: impl FnMut(&Entry<'_>)) -> Option<u64> {
        let now_ms = self.now_ms();
        let next = self.cache.scan(cursor >> 32, |_, item| {
            if let Some(entry) = entry(item, now_ms) {
                each(&entry);
            }
        });
        next.map(|next| next << 32)
    }

    /// Bytes charged for items, with the cache's own memory for them.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.cache.weight()
    }

    pub(crate) fn metrics(&self) -> String {
        frazil::prometheus::Page::new().with("objects", &self.cache).to_string()
    }

    /// As [`frazil_segment::Store::save`], in the same format.
    pub(crate) fn save(&self, path: &Path) -> io::Result<u64> {
        frazil_segment::save_entries(path, |cursor, out| {
            self.scan_with(cursor, |entry| out.push(entry.into()))
        })
    }

    /// As [`frazil_segment::Store::restore_with`].
    pub(crate) fn restore_with(
        &self,
        path: &Path,
        mut admit: impl FnMut(&[u8], &mut Attributes) -> bool,
    ) -> Result<u64, RestoreError> {
        self.writers.restore(path, |lock, key, value, mut attributes| {
            if self.living(key).is_some() || !admit(value, &mut attributes) {
                return Ok(false);
            }
            let Attributes { flags, marks, lifetime } = attributes;
            let parts = (flags, marks, self.deadline_ms(lifetime), false);
            match self.put(lock, key, value, parts) {
                Ok(_) => Ok(true),
                Err(StoreError::TooLarge) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    pub(crate) fn expect_restore(&self) {
        self.writers.expect_restore();
    }

    pub(crate) fn expect_no_restore(&self) {
        self.writers.expect_no_restore();
    }

    /// Items that have not expired. Removes the expired ones, in time linear in their number.
    pub(crate) fn live_items(&self) -> u64 {
        self.cache.purge();
        self.cache.len() as u64
    }

    /// In the form of the segment store; without segments.
    pub(crate) fn stats(&self) -> Stats {
        let of_cache = self.cache.stats();
        let mut stats = Stats::default();
        stats.hits = of_cache.hits;
        stats.misses = of_cache.misses;
        stats.writes = of_cache.insertions + of_cache.replacements;
        stats.evicted_items = of_cache.evictions;
        stats.expired_items = of_cache.expirations;
        stats.items = self.cache.len() as u64;
        stats.live_bytes = self.cache.weight();
        stats.capacity_bytes = self.cache.capacity() as usize;
        stats
    }
}

/// An item that is held.
#[derive(Debug)]
pub(crate) struct Held {
    item: Item,
    now_ms: u64,
}

impl Held {
    /// Its entry, as of the moment it was held: it had not expired then.
    pub(crate) fn entry(&self) -> Entry<'_> {
        shown(&self.item, self.now_ms)
    }
}

/// The entry in an item, unless it has expired.
fn entry(item: &Item, now_ms: u64) -> Option<Entry<'_>> {
    (item.parts().deadline_ms > now_ms).then(|| shown(item, now_ms))
}

fn shown(item: &Item, now_ms: u64) -> Entry<'_> {
    let Parts { flags, marks, cas, deadline_ms, written_ms, requested } = item.parts();
    let mut entry = Entry::new(item.key(), item.value());
    entry.flags = flags;
    entry.marks = marks;
    entry.cas = cas;
    entry.requested = requested;
    entry.opened_ms = written_ms;
    let left_ms = deadline_ms.saturating_sub(now_ms);
    entry.lifetime = (deadline_ms != FOREVER_MS).then(|| Duration::from_millis(left_ms));
    entry
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::fmt::Write as _;

    use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep, trace};

    use super::*;

    /// Requests of popular and rare keys, with the bytes of their values.
    fn requests() -> impl Iterator<Item = (String, usize)> {
        let mut state = 1u64;
        (0..100_000).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let share = (state >> 32) as f64 / 2f64.powi(32);
            let number = (share.powi(4) * 20_000.0) as usize;
            (number.to_string(), number * 7919 % 1500)
        })
    }

    /// Small items, large ones, and small ones again. Counts the bytes of items, and the bytes that the cache keeps for
    /// the largest number of items it had.
    #[test]
    fn what_is_kept_for_many_small_items_is_missing_for_large_ones() {
        const BYTES: u64 = 4 << 20;
        let now_ms = Arc::new(AtomicU64::new(1));
        let store = Objects::new((BYTES as usize, 1 << 20), None, Policy::Mobius, now_ms).unwrap();
        let fill = |count: u32, bytes: usize| {
            for number in 0..count {
                let key = number.to_le_bytes();
                let attributes = Attributes::default();
                store.write(&key, &vec![7; bytes], attributes, Expect::Anything).unwrap();
            }
            let (mut taken, mut cursor) = (0, Some(0));
            while let Some(at) = cursor {
                cursor = store.scan_with(at, |entry| {
                    taken += item::allocated_bytes(entry.key.len(), entry.value.len()) as u64;
                });
            }
            taken
        };
        let small = fill(60_000, 8);
        let kept = store.room.as_ref().unwrap().kept_bytes();
        let is_filled = |taken: u64| (BYTES / 10 * 9..=BYTES / 50 * 51).contains(&(taken + kept));
        assert!(is_filled(small), "{small}, beside {kept}");
        for (count, bytes) in [(1000, 20_000), (40, 300_000), (10_000, 1000)] {
            let large = fill(count, bytes);
            assert!(is_filled(large), "{bytes}: {large}, beside {kept}");
        }
        assert_eq!(store.room.as_ref().unwrap().kept_bytes(), kept);
        let again = fill(60_000, 8);
        assert!(again > small / 10 * 9, "{again}, before {small}");
    }

    /// Look-aside on the store, and the same requests in the simulator with the store's charges for items.
    #[test]
    fn misses_are_those_of_the_simulator() {
        const BYTES: u64 = 1 << 20;
        for policy in [Policy::Lru, Policy::Mobius, Policy::S3Fifo, Policy::Sieve] {
            let now_ms = Arc::new(AtomicU64::new(1));
            let store = Objects::new((BYTES as usize, 1 << 20), None, policy, now_ms).unwrap();
            let (mut misses, mut csv) = (0, "time,id,size\n".to_owned());
            for (at, (key, bytes)) in requests().enumerate() {
                let charge = item::allocated_bytes(key.len(), bytes) + bytes_beside(policy);
                writeln!(csv, "{at},{key},{charge}").unwrap();
                if store.get_with(key.as_bytes(), |_| ()).is_none() {
                    misses += 1;
                    let value = vec![7; bytes];
                    let attributes = Attributes::default();
                    store.write(key.as_bytes(), &value, attributes, Expect::Anything).unwrap();
                }
            }
            let name = format!("frazil-objects-{policy}-{}.csv", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, csv).unwrap();
            let loaded = trace::read(&path, &Default::default()).unwrap();
            std::fs::remove_file(&path).unwrap();
            let capacity = BYTES.to_string().parse::<CapacitySpec>().unwrap();
            let capacity = capacity.resolve(&loaded.trace, Unit::Bytes).unwrap();
            let cells = [CellSpec { policy: policy.to_string().parse().unwrap(), capacity }];
            let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
            let simulated = sweep(&loaded.trace, &cells, &options, &|_| ())[0].misses();
            // 0.3 points of the requests.
            assert!(simulated.abs_diff(misses) < 300, "{policy}: {misses}, simulated {simulated}");
            assert!((10_000..90_000).contains(&misses), "{policy}: {misses}");
        }
    }
}
