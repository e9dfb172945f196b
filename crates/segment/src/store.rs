//! The store: reads, writes and evictions together.

use std::sync::Arc;
use std::time::Duration;

use frazil_recording::StoreRecorder;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::Clock;
use crate::evict::Evictor;
use crate::hazards::{Hazard, Hazards, NoRecord};
use crate::index::{Index, Locked, Place, REQUESTS_MAX, Word};
use crate::item::{Head, Item, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::learner::Learner;
use crate::lifetimes;
use crate::mapping::prefetch;
use crate::restoring::Restoring;
use crate::segments::{Chains, NONE, Reserved, Segments};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Relaxed, Release};
use crate::sync::{Mutex, thread};
use crate::{Attributes, Entry, Eviction, Expect, Held, StoreError, Stored};

/// Bytes that the evictor processes for each byte written while free segments are few. A merge of
/// four segments into one processes as much as five, so it ends before a new segment is full.
const BYTES_PER_BYTE: u64 = 8;
/// Most bytes that one write processes, for itself and for writers that found the evictor busy.
const BYTES_A_WRITE: usize = 32 << 10;
/// Attempts to find space. Each processes a part of a segment or waits for a reader.
const TRIES: usize = 10_000;
/// Attempts to get another line for the index before it drops an item instead.
const LINE_TRIES: u32 = 4;
/// Up to this many requests each one is counted; after that one in `n` for a count of `n`.
const REQUESTS_EXACT: u32 = 8;
/// Most guards of one segment, so that the count does not wrap: more are possible only if guards
/// were leaked.
const HOLDS_MAX: u32 = 1 << 31;
/// Keys whose lines are fetched at once.
pub(crate) const GROUP: usize = 16;

/// Counts of events so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) live_bytes: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) evicted_items: AtomicU64,
    pub(crate) expired_items: AtomicU64,
    pub(crate) expired_reads: AtomicU64,
    pub(crate) flushed_reads: AtomicU64,
    pub(crate) kept_items: AtomicU64,
    pub(crate) merges: AtomicU64,
}

/// A cache of byte strings in a log of segments. See [the crate](crate).
#[derive(Debug)]
pub struct Store {
    pub(crate) segments: Segments,
    pub(crate) index: Index,
    pub(crate) hazards: Hazards,
    pub(crate) evictor: Mutex<Evictor>,
    pub(crate) counters: Arc<Counters>,
    /// Only with [`Eviction::GlCache`].
    pub(crate) learner: Option<Learner>,
    pub(crate) clock: Clock,
    pub(crate) eviction: Eviction,
    pub(crate) capacity_bytes: usize,
    /// Writers evict while fewer segments than this are free.
    pub(crate) free_target: u32,
    /// Bytes that writers have yet to process, to free space.
    pub(crate) debt: AtomicU64,
    pub(crate) seed: u64,
    pub(crate) recorder: StoreRecorder,
    pub(crate) restoring: Restoring,
}

/// The data that a write stores beside a value.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) flags: u32,
    pub(crate) marks: u8,
    pub(crate) deadline_ms: Option<u64>,
    /// If a restore writes the entry: the number of flushes when the restore began.
    pub(crate) restored: Option<u64>,
}

/// An item that the index leads to, in a segment that is named.
pub(crate) struct Found<'a> {
    pub(crate) item: Item<'a>,
    pub(crate) place: Place<'a>,
    pub(crate) word: Word,
    /// When it expires, in milliseconds.
    pub(crate) deadline_ms: Option<u64>,
}

impl Store {
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    /// Finds a key's item, and names its segment: the item stays unchanged until `hazard` names
    /// another. Fails if there is no record to name it in: `hold_locked` needs none.
    #[inline]
    pub(crate) fn find<'a>(
        &'a self,
        key: &[u8],
        hash: u64,
        hazard: &mut Option<Hazard<'a>>,
    ) -> Result<Option<Found<'a>>, NoRecord> {
        Ok(self.find_any(key, hash, hazard)?.filter(|found| !self.is_gone(found)))
    }

    /// The same for a read, which counts expired and flushed items.
    #[inline]
    fn find_to_read<'a>(
        &'a self,
        key: &[u8],
        hash: u64,
        hazard: &mut Option<Hazard<'a>>,
    ) -> Result<Option<Found<'a>>, NoRecord> {
        let found = self.find_any(key, hash, hazard)?;
        if let Some(found) = &found
            && self.is_gone(found)
        {
            self.count_gone(found);
            return Ok(None);
        }
        Ok(found)
    }

    /// Finds a key's item, expired or not.
    #[inline]
    fn find_any<'a>(
        &'a self,
        key: &[u8],
        hash: u64,
        hazard: &mut Option<Hazard<'a>>,
    ) -> Result<Option<Found<'a>>, NoRecord> {
        'again: loop {
            let version = self.index.version(hash);
            for (place, word) in self.index.look(hash, &self.segments) {
                let segment = self.segments.of(word.location());
                match hazard {
                    Some(hazard) => hazard.rename(segment),
                    None => *hazard = Some(self.hazards.name(segment)?),
                }
                // Partner: `Hazards::names`. A reader that finds the word unlinked does not read
                // the item.
                let word_named = place.word();
                if !word_named.same_place(word) {
                    continue 'again;
                }
                // SAFETY: the segment was named while the index led to the item, so the item was
                // written before (Acquire), and the segment is not reused while it is named.
                let item = unsafe { self.item(word.location()) };
                if item.key == key {
                    let deadline_ms = item.head.deadline.map(|packed| {
                        let segment = self.segments.get(segment);
                        lifetimes::unpack(segment, segment.state().class(), packed)
                    });
                    return Ok(Some(Found { item, place, word: word_named, deadline_ms }));
                }
            }
            if self.index.version(hash) == version {
                return Ok(None);
            }
        }
    }

    /// Counts a look-up that found an expired or flushed item.
    #[cold]
    fn count_gone(&self, found: &Found<'_>) {
        let is_flushed = self.segments.is_flushed(self.segments.of(found.word.location()));
        let counters = &self.counters;
        let counter = if is_flushed { &counters.flushed_reads } else { &counters.expired_reads };
        counter.fetch_add(1, Relaxed);
    }

    /// A guard of a key's item if all records are taken, by threads that may wait for this one.
    ///
    /// A thread that unlinks the item locks its stripe after this, so it sees the guard in the
    /// count of the segment. The evictor locks the stripe of each item of a segment before it reads
    /// the count.
    #[cold]
    #[inline(never)]
    fn hold_locked(&self, key: &[u8], hash: u64) -> Option<Held<'_>> {
        let locked = self.index.lock(hash);
        let found = self.find_locked(&locked, key, hash)?;
        if self.is_gone(&found) {
            return None;
        }
        let number = self.hazards.hit_unnamed();
        self.note_request(hash, &found, |times| number.is_multiple_of(u64::from(times.max(1))));
        Some(self.guard(&found))
    }

    /// Adds a guard of an item, while its segment is named or its stripe locked.
    pub(crate) fn guard<'a>(&'a self, found: &Found<'a>) -> Held<'a> {
        let segment = self.segments.get(self.segments.of(found.word.location()));
        // Before the name is cleared or the stripe unlocked, which publishes it
        // (`Limbo::drain`).
        if segment.holds.fetch_add(1, Relaxed) >= HOLDS_MAX {
            segment.holds.fetch_sub(1, Relaxed);
            panic!("more than 2^31 guards of one segment");
        }
        Held { entry: self.entry(found), deadline_ms: found.deadline_ms, segment }
    }

    /// The item at a place.
    ///
    /// # Safety
    ///
    /// The index leads to it, and its stripe is locked or its segment named.
    unsafe fn item<'a>(&'a self, location: u64) -> Item<'a> {
        // SAFETY: an item that the index leads to is written and does not change.
        unsafe { Item::at(self.segments.mapping.at(location as usize)) }
    }

    /// The unique number of an item: its place, and how often its segment was freed, modulo
    /// 2^24.
    pub(crate) fn number(&self, word: Word) -> u64 {
        let generation = self.segments.get(self.segments.of(word.location())).generation();
        u64::from(generation) << 40 | word.location()
    }

    /// Counts a hit, and some of the item's requests: each of the first ones, and later ones at
    /// random, so that the line of a hot item is written less and less, and finally not at all.
    #[inline]
    pub(crate) fn requested(&self, hash: u64, found: &Found<'_>, hazard: &Hazard<'_>) {
        hazard.hit();
        self.note_request(hash, found, |times| hazard.one_in(times));
    }

    /// `one_in(n)` is true for one call in `n`, at random.
    #[inline]
    fn note_request(&self, hash: u64, found: &Found<'_>, one_in: impl Fn(u32) -> bool) {
        let requests = found.word.requests();
        if let Some(learner) = &self.learner {
            let segment = self.segments.of(found.word.location());
            match learner.note_of_requested(requests) {
                None => learner.repeated(segment, one_in),
                Some(note) if found.place.note_request(found.word, note) => {
                    learner.noted(segment, requests);
                }
                Some(_) => {}
            }
            if learner.is_sampled(hash) {
                learner.hit(hash, segment, found.item.head.item_bytes());
            }
            return;
        }
        let counts = requests < REQUESTS_EXACT || one_in(requests);
        if requests < REQUESTS_MAX && counts {
            found.place.note_request(found.word, requests + 1);
        }
    }

    /// Counts a look-up that found nothing.
    #[inline]
    fn missed(&self, hash: u64) {
        self.hazards.missed();
        if let Some(learner) = &self.learner
            && learner.is_sampled(hash)
        {
            learner.missed(hash);
        }
    }

    /// An entry was deleted or replaced.
    fn forget(&self, hash: u64) {
        if let Some(learner) = &self.learner
            && learner.is_sampled(hash)
        {
            learner.forget(hash);
        }
    }

    /// Looks a key up and calls `read` with its entry.
    #[inline]
    fn read<R>(&self, key: &[u8], hash: u64, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        if self.recorder.keys().has(hash) {
            return self.read_recorded(key, hash, read);
        }
        self.read_named(key, hash, read)
    }

    #[cold]
    #[inline(never)]
    fn read_recorded<R>(
        &self,
        key: &[u8],
        hash: u64,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let read = self.read_named(key, hash, |entry| {
            self.note_read(hash, Some(&entry));
            read(entry)
        });
        if read.is_none() {
            self.note_read(hash, None);
        }
        read
    }

    #[inline]
    fn read_named<R>(&self, key: &[u8], hash: u64, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let mut hazard = None;
        match (&self.find_to_read(key, hash, &mut hazard), &hazard) {
            (Ok(Some(found)), Some(hazard)) => {
                self.requested(hash, found, hazard);
                Some(read(self.entry(found)))
            }
            (Err(NoRecord), _) => self.read_held(key, hash, read),
            _ => {
                self.missed(hash);
                None
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn read_held<R>(&self, key: &[u8], hash: u64, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let Some(held) = self.hold_locked(key, hash) else {
            self.missed(hash);
            return None;
        };
        Some(read(held.entry))
    }

    pub(crate) fn entry<'a>(&'a self, found: &Found<'a>) -> Entry<'a> {
        let segment = self.segments.get(self.segments.of(found.word.location()));
        Entry {
            key: found.item.key,
            value: found.item.value,
            flags: found.item.head.flags,
            marks: found.item.head.marks,
            requested: match self.learner {
                Some(_) => Learner::is_requested(found.word.requests()),
                None => found.word.requests() > 0,
            },
            opened_ms: segment.written_ms.load(Relaxed),
            cas: self.number(found.word),
            lifetime: found.deadline_ms.map(|deadline| {
                Duration::from_millis(deadline.saturating_sub(self.clock.now_ms()))
            }),
        }
    }

    /// Appends the value of a key to `out`, and returns its flags; `None` if the key is absent.
    ///
    /// Two dependent accesses to memory, one locked instruction; copies the value. No lock.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let mut value = Vec::new();
    /// assert_eq!(store.get(b"key", &mut value), Some(0));
    /// assert_eq!(value, b"value");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Option<u32> {
        self.read(key, self.hash(key), |entry| {
            out.extend_from_slice(entry.value);
            entry.flags
        })
    }

    /// Calls `read` with the entry of a key in place. The entry's segment is not reused meanwhile,
    /// so `read` should be short; it may call the store. Costs and waits as [`Store::get`]. Each
    /// look-up under way has one of 64 records. If all are in use, the next look-up takes a lock as
    /// a write does, and releases it before it calls `read`.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert_eq!(store.get_with(b"key", |entry| entry.value.len()), Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        self.read(key, self.hash(key), read)
    }

    /// Looks up many keys, and calls `each` with the position of each key in `keys` and its entry.
    /// Lines of sixteen keys are fetched together, so this takes a third of the time of separate
    /// calls of [`Store::get`] if memory is the bottleneck.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"a", b"1", Default::default())?;
    /// let mut found = Vec::new();
    /// store.get_many(&[b"a", b"b"], |at, entry| {
    ///     found.push((at, entry.map(|entry| entry.value.to_vec())));
    /// });
    /// assert_eq!(found, [(0, Some(b"1".to_vec())), (1, None)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<Entry<'_>>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut hashes = [0; GROUP];
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = self.hash(key.as_ref());
                self.index.prefetch(*hash, &self.segments);
            }
            for &hash in &hashes[..keys.len()] {
                if let Some((_, word)) = self.index.look(hash, &self.segments).next() {
                    let at = self.segments.mapping.at(word.location() as usize);
                    prefetch(at);
                    // Head and key may reach into the next line, and values mostly begin there.
                    prefetch(at.wrapping_add(64));
                }
            }
            for (index, (key, &hash)) in keys.iter().zip(&hashes).enumerate() {
                let at = group * GROUP + index;
                if self.read(key.as_ref(), hash, |entry| each(at, Some(entry))).is_none() {
                    each(at, None);
                }
            }
        }
    }

    /// A guard of a key's entry, which stays in place until the guard is dropped. It takes two
    /// exchanges more than [`Store::get`], on a line shared by all guards of the segment's items.
    ///
    /// A segment is not reused while one of its items is held, so many long-lived guards leave less
    /// capacity for other entries.
    ///
    /// # Panics
    ///
    /// If the segment has 2^31 guards; most of these must have been leaked.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let held = store.hold(b"key").unwrap();
    /// store.delete(b"key");
    /// assert_eq!(held.entry().value, b"value");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold(&self, key: &[u8]) -> Option<Held<'_>> {
        let mut hazard = None;
        let hash = self.hash(key);
        let held = match self.find(key, hash, &mut hazard) {
            Ok(found) => found.zip(hazard.as_ref()).map(|(found, hazard)| {
                self.requested(hash, &found, hazard);
                self.guard(&found)
            }),
            Err(NoRecord) => self.hold_locked(key, hash),
        };
        if held.is_none() {
            self.missed(hash);
        }
        if self.recorder.keys().has(hash) {
            self.note_read(hash, held.as_ref().map(Held::entry));
        }
        held
    }

    /// Whether the key is present, without counting a request.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert!(!store.contains(b"key"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains(&self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        self.find(key, hash, &mut None).map_or_else(
            |NoRecord| {
                let found = self.find_locked(&self.index.lock(hash), key, hash);
                found.is_some_and(|found| !self.is_gone(&found))
            },
            |found| found.is_some(),
        )
    }

    /// Calls `read` with the entry of a key as [`Store::get_with`] does, but counts neither a
    /// request nor a hit or a miss.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert_eq!(store.peek(b"key", |entry| entry.requested), Some(false));
    /// assert_eq!(store.peek(b"key", |entry| entry.requested), Some(false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let hash = self.hash(key);
        // Until the end: the name is what keeps the entry in place.
        let mut hazard = None;
        match self.find(key, hash, &mut hazard) {
            Ok(found) => found.map(|found| read(self.entry(&found))),
            Err(NoRecord) => self.hold_locked(key, hash).map(|held| read(held.entry)),
        }
    }

    /// Removes all entries. Their memory is freed when it is needed.
    ///
    /// Takes a lock and seals a segment of each class of lifetimes, independent of the number of
    /// entries. Afterwards each look-up that finds a key reads the line of its segment.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// store.flush();
    /// assert!(!store.contains(b"key"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self) {
        self.restoring.note_flush();
        self.segments.flush();
    }

    /// Takes a segment out of use, and returns its memory to the system: for a program that divides
    /// memory between this store and something else. Returns whether it did. If none is free it
    /// evicts one, as a write does. At least half of the segments stay in use, and eight.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert!(store.withdraw());
    /// assert_eq!(store.stats().withdrawn_segments, 1);
    /// assert!(store.give_back() && !store.give_back());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withdraw(&self) -> bool {
        // Of two threads at the limit both may withdraw one.
        if !self.segments.may_withdraw() {
            return false;
        }
        let Ok(segment) = self.free_segment() else { return false };
        self.segments.withdraw(segment);
        true
    }

    /// Takes a withdrawn segment into use again ([`Store::withdraw`]). False: none is withdrawn.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert!(!store.give_back());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_back(&self) -> bool {
        self.segments.give_back()
    }

    /// Whether only those segments are free that writers keep so, by evicting.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert!(!store.is_full());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_full(&self) -> bool {
        self.segments.free_count() <= self.free_target
    }

    pub(crate) fn wants_room(&self) -> bool {
        self.segments.free_count() < self.free_target
    }

    /// Does some of the evictor's work, if it is due and no other thread does it.
    fn make_room(&self, bytes: usize) {
        if !self.wants_room() {
            return;
        }
        let debt = self.debt.fetch_add(BYTES_PER_BYTE * bytes as u64, Relaxed);
        if let Some(mut evictor) = self.evictor.try_lock() {
            let bytes = (debt as usize + BYTES_PER_BYTE as usize * bytes).min(BYTES_A_WRITE);
            evictor.advance(self, bytes);
            // Work not done now is dropped from the count: the next writes add to it again.
            self.debt.store(0, Relaxed);
        }
    }

    /// A free segment; evicts until there is one.
    fn free_segment(&self) -> Result<u32, StoreError> {
        for _ in 0..TRIES {
            if let Some(segment) = self.segments.take() {
                return Ok(segment);
            }
            let mut evictor = self.evictor.lock();
            if self.segments.free_count() == 0 && !evictor.advance(self, BYTES_A_WRITE) {
                if self.eviction == Eviction::Never {
                    break;
                }
                drop(evictor);
                thread::yield_now();
            }
        }
        Err(StoreError::NoRoom)
    }

    /// Space for an item of a class: its segment and its place.
    fn reserve(&self, class: usize, bytes: usize) -> Result<(u32, u64), StoreError> {
        loop {
            let now_ms = if class > 0 { self.clock.now_ms() } else { 0 };
            let open = self.segments.open(class);
            if open != NONE {
                let segment = self.segments.get(open);
                if !lifetimes::is_over(segment, class, now_ms)
                    && let Reserved::At(offset) =
                        segment.reserve(class, bytes, self.segments.segment_bytes)
                {
                    return Ok((open, self.segments.start(open) + offset as u64));
                }
            }
            let segment = self.free_segment()?;
            if let Some(learner) = &self.learner {
                learner.opens(segment, Some(open).filter(|&open| open != NONE));
            }
            self.segments.reopen(class, open, segment, self.clock.now_ms());
        }
    }

    /// Writes an item where space was reserved.
    ///
    /// # Safety
    ///
    /// The item's bytes from `location` on are the caller's, and nothing leads there yet.
    pub(crate) unsafe fn lay(&self, location: u64, head: Head, key: &[u8], value: [&[u8]; 2]) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut at = head.write(self.segments.mapping.at(location as usize));
            for part in [key, value[0], value[1]] {
                std::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
                at = at.add(part.len());
            }
        }
    }

    /// An item of the segment that the index leads to.
    pub(crate) fn linked(&self, segment: u32, bytes: usize) {
        let segment = self.segments.get(segment);
        segment.live_items.fetch_add(1, Relaxed);
        segment.live_bytes.fetch_add(bytes as u32, Relaxed);
        self.counters.live_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn unlinked(&self, segment: u32, bytes: usize) {
        let segment = self.segments.get(segment);
        segment.live_items.fetch_sub(1, Relaxed);
        segment.live_bytes.fetch_sub(bytes as u32, Relaxed);
        self.counters.live_bytes.fetch_sub(bytes as u64, Relaxed);
    }

    pub(crate) fn live_bytes(&self, run: &[u32]) -> u64 {
        let live = |&segment: &u32| self.segments.get(segment).live_bytes.load(Relaxed);
        run.iter().map(|segment| u64::from(live(segment))).sum()
    }

    /// Neighbours of one class from a segment on, without a writer: at most `length`, with at
    /// most `live_bytes_max` live bytes.
    pub(crate) fn run(
        &self,
        chains: &Chains,
        first: u32,
        length: usize,
        live_bytes_max: u64,
    ) -> Vec<u32> {
        let mut run = Vec::with_capacity(length);
        let (mut segment, mut live) = (first, 0);
        while run.len() < length && segment != NONE {
            live += self.live_bytes(&[segment]);
            if !self.segments.get(segment).state().is_quiet() || live > live_bytes_max {
                break;
            }
            run.push(segment);
            segment = chains.next(segment);
        }
        run
    }

    /// Finds a key's word, with its stripe locked.
    fn find_locked<'a>(&'a self, locked: &Locked<'_>, key: &[u8], hash: u64) -> Option<Found<'a>> {
        let mut words = self.index.look(hash, &self.segments);
        words.find_map(|(place, word)| {
            let found = self.found_locked(locked, place, word);
            (found.item.key == key).then_some(found)
        })
    }

    /// The item of a word in a locked stripe.
    pub(crate) fn found_locked<'a>(
        &'a self,
        _: &Locked<'_>,
        place: Place<'a>,
        word: Word,
    ) -> Found<'a> {
        // SAFETY: the stripe is locked, so the index leads to the item until it is unlocked, and
        // its segment is not reused.
        let item = unsafe { self.item(word.location()) };
        let segment = self.segments.get(self.segments.of(word.location()));
        let end = |packed| lifetimes::unpack(segment, segment.state().class(), packed);
        Found { item, place, word, deadline_ms: item.head.deadline.map(end) }
    }

    /// Whether an item that the index leads to has expired or was flushed.
    #[inline]
    pub(crate) fn is_gone(&self, found: &Found<'_>) -> bool {
        found.deadline_ms.is_some_and(|deadline| deadline <= self.clock.now_ms())
            || self.segments.is_flushed(self.segments.of(found.word.location()))
    }

    /// When an entry of this lifetime ends.
    pub(crate) fn deadline_ms(&self, lifetime: Option<Duration>) -> Option<u64> {
        let lifetime_ms = lifetime?.as_nanos().div_ceil(1_000_000);
        let lifetime_ms = u64::try_from(lifetime_ms).unwrap_or(u64::MAX);
        (lifetimes::class_of(lifetime_ms.max(1)) > 0)
            .then(|| self.clock.now_ms().saturating_add(lifetime_ms))
    }

    /// Writes a key's item, if the present entry is as expected.
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: [&[u8]; 2],
        kept: Kept,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let Kept { flags, marks, deadline_ms, restored } = kept;
        let value_bytes = value[0].len() + value[1].len();
        let deadline = deadline_ms.map(|_| 0);
        let mut head = Head { key_bytes: key.len(), value_bytes, flags, deadline, marks };
        let bytes = head.item_bytes();
        if key.len() > KEY_BYTES_MAX {
            return Err(StoreError::KeyTooLong);
        }
        if value_bytes > VALUE_BYTES_MAX || bytes > self.segments.segment_bytes {
            return Err(StoreError::TooLarge);
        }
        let left_ms = deadline_ms.map(|deadline| deadline.saturating_sub(self.clock.now_ms()));
        let class = left_ms.map_or(0, |left| lifetimes::class_of(left.max(1)));
        self.make_room(bytes);
        let (number, location) = self.reserve(class, bytes)?;
        let segment = self.segments.get(number);
        if let Some(deadline) = deadline_ms {
            let packed = lifetimes::pack(segment, class, deadline);
            head.deadline = Some(packed);
            // As stored in the item: for a writer that waited, that may be when the segment was
            // opened.
            segment.deadline_ms.fetch_max(lifetimes::unpack(segment, class, packed), Relaxed);
        }
        // SAFETY: the space was reserved for this item.
        unsafe { self.lay(location, head, key, value) };
        let hash = self.hash(key);
        let mut tries = LINE_TRIES;
        let stored = loop {
            if let Some(stored) =
                self.link(key, hash, (location, bytes), (expect, restored), tries == 0)
            {
                break stored;
            }
            // The index needs another line and has no segment for it.
            let is_last = tries == 0 || !self.segments.may_have_page();
            if is_last && self.eviction == Eviction::Never {
                segment.finish();
                return Err(StoreError::NoRoom);
            }
            tries = match self.free_segment() {
                Ok(segment) => {
                    self.index.add_overflow_page(&self.segments, segment);
                    tries - 1
                }
                Err(_) => 0,
            };
        };
        // Before `finish`: until then the segment is not freed.
        let cas = u64::from(segment.generation()) << 40 | location;
        segment.finish();
        if stored == Stored::Stored && self.recorder.keys().has(hash) {
            self.note_write(hash, bytes, left_ms);
        }
        if self.index.is_full() {
            self.index.grow(&self.segments, |location| {
                // SAFETY: asked of words of a stripe that the index has locked.
                self.hash(unsafe { self.item(location) }.key)
            });
        }
        Ok((stored, cas))
    }

    /// Links a written item into the index, if the present entry is as expected. `None`: the index
    /// needs a segment first, or permission to drop another item.
    fn link(
        &self,
        key: &[u8],
        hash: u64,
        (location, bytes): (u64, usize),
        (expect, restored): (Expect, Option<u64>),
        may_displace: bool,
    ) -> Option<Stored> {
        let locked = self.index.lock(hash);
        let there = self.find_locked(&locked, key, hash);
        let living = there.as_ref().filter(|found| !self.is_gone(found));
        let is_gone = there.is_some() && living.is_none();
        match (expect, living) {
            (Expect::Nothing, Some(_)) | (Expect::Something, None) => {
                return Some(Stored::NotStored);
            }
            (Expect::Exactly(_), None) => return Some(Stored::NotFound),
            (Expect::Exactly(number), Some(found)) if self.number(found.word) != number => {
                return Some(Stored::Exists);
            }
            _ => {}
        }
        match restored {
            None => self.restoring.note(hash),
            Some(flushes) if self.restoring.allows(hash, flushes) => {}
            Some(_) => return Some(Stored::NotStored),
        }
        let written = self.learner.as_ref().map(Learner::note_of_written);
        self.forget(hash);
        if let Some(found) = there {
            if is_gone {
                self.counters.expired_items.fetch_add(1, Relaxed);
            }
            let requests = written.unwrap_or_else(|| found.place.word().requests());
            let word = Word::new(hash, requests, location);
            self.unlinked(self.segments.of(found.word.location()), found.item.head.item_bytes());
            self.index.replace(&locked, found.place, word);
        } else {
            let word = Word::new(hash, written.unwrap_or(0), location);
            if self.index.insert(&locked, hash, word, &self.segments).is_err() {
                let may_have_page = self.segments.may_have_page();
                if self.eviction == Eviction::Never || !may_displace && may_have_page {
                    return None;
                }
                let old = self.index.displace(&locked, hash, word, &self.segments);
                // SAFETY: the index led to it until just now, and the stripe is locked.
                let bytes = unsafe { self.item(old.location()) }.head.item_bytes();
                self.unlinked(self.segments.of(old.location()), bytes);
                self.counters.evicted_items.fetch_add(1, Relaxed);
            }
        }
        self.linked(self.segments.of(location), bytes);
        self.counters.writes.fetch_add(1, Relaxed);
        Some(Stored::Stored)
    }

    /// Removes an entry, and returns whether there was one.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert!(store.delete(b"key") && !store.delete(b"key"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete(&self, key: &[u8]) -> bool {
        self.delete_as(key, Expect::Anything) == Stored::Stored
    }

    /// Removes an entry if its number is still `cas` ([`Entry::cas`]): [`Stored::Stored`] if
    /// removed, else [`Stored::Exists`] or [`Stored::NotFound`].
    ///
    /// ```
    /// use frazil_segment::Stored;
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let cas = store.get_with(b"key", |entry| entry.cas).unwrap();
    /// assert_eq!(store.delete_exactly(b"key", cas + 1), Stored::Exists);
    /// assert_eq!(store.delete_exactly(b"key", cas), Stored::Stored);
    /// assert_eq!(store.delete_exactly(b"key", cas), Stored::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_exactly(&self, key: &[u8], cas: u64) -> Stored {
        self.delete_as(key, Expect::Exactly(cas))
    }

    fn delete_as(&self, key: &[u8], expect: Expect) -> Stored {
        let hash = self.hash(key);
        let locked = self.index.lock(hash);
        let found = self.find_locked(&locked, key, hash);
        if let (Some(found), Expect::Exactly(cas)) = (&found, expect)
            && !self.is_gone(found)
            && self.number(found.word) != cas
        {
            return Stored::Exists;
        }
        // Also an entry that has expired, or that a restore has not stored yet.
        self.restoring.note(hash);
        self.forget(hash);
        if self.recorder.keys().has(hash) {
            self.note_removal(hash);
        }
        let Some(found) = found else { return Stored::NotFound };
        self.unlinked(self.segments.of(found.word.location()), found.item.head.item_bytes());
        self.index.remove(&locked, hash, found.place, &self.segments);
        if self.is_gone(&found) { Stored::NotFound } else { Stored::Stored }
    }

    /// Stores a value, and replaces an existing one.
    ///
    /// # Errors
    ///
    /// The key or the item is too long, or all memory is held by guards.
    ///
    /// ```
    /// use std::time::Duration;
    /// use frazil_segment::Attributes;
    ///
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// let attributes = Attributes { flags: 7, marks: 0, lifetime: Some(Duration::from_secs(60)) };
    /// store.set(b"key", b"value", attributes)?;
    /// assert_eq!(store.get(b"key", &mut Vec::new()), Some(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(&self, key: &[u8], value: &[u8], attributes: Attributes) -> Result<(), StoreError> {
        self.write(key, value, attributes, Expect::Anything).map(|_| ())
    }
}

impl Held<'_> {
    pub(crate) fn release(&self) {
        // Release: partner of `Limbo::drain`, before the memory is reused.
        self.segment.holds.fetch_sub(1, Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The segment of an item that expired before there was space for it, because its writer
    /// had to wait.
    #[test]
    fn a_deadline_before_the_segment_was_opened_is_known_to_it() {
        let now_ms = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(20));
        let store = Store::builder(4 << 20).clock(now_ms).build().unwrap();
        let kept = Kept { flags: 0, marks: 0, deadline_ms: Some(5), restored: None };
        store.put(b"key", [b"value", b""], kept, Expect::Anything).unwrap();
        assert!(!store.contains(b"key"));
        assert_eq!(store.validate_at_rest(), Ok(()));
    }

    /// Leaked guards are never counted down: a count that wrapped would free held items.
    #[test]
    #[should_panic(expected = "guards")]
    fn the_count_of_guards_does_not_wrap() {
        let store = Store::builder(4 << 20).build().unwrap();
        store.set(b"key", b"value", Attributes::default()).unwrap();
        let segment = store.segments.get(store.segments.open(0));
        segment.holds.store(u32::MAX, Relaxed);
        let _held = store.hold(b"key");
    }
}
