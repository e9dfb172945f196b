//! The index from hashes to places: lines of eight words. Lines are added one at a time.
//!
//! A word has sixteen bits of the hash, a count of requests and a place in the mapping. Linear
//! hashing finds the home line of a hash: with `n` lines, the last bits of the hash choose one.
//! Lines lie in segments, so the index takes only the part of the capacity that it needs. Words
//! that do not fit into a line go to overflow lines, in a chain that starts at the line's last
//! word.
//!
//! Reads take no lock. Writers of a hash, and a thread that splits its line, hold the lock of its
//! stripe, which covers part of the lines. A word is written as a whole. It moves within the index
//! in three steps: the new place is written, the stripe's version goes up, the old place is
//! cleared. So a reader that missed a word because it moved finds a changed version and looks
//! again.

use crate::mapping::{Mapping, prefetch};
use crate::segments::{NONE, Segments};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{Mutex, MutexGuard};

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;
const LINE_BYTES: u64 = 64;
/// Items a home on average, at most. With 10 the index takes 11 bytes an item, overflow lines
/// included, and a third of the items lie in those; with 8 it would be 11.5 and a sixth.
const ITEMS_PER_HOME: u64 = 10;
/// Overflow lines of one home, at most: beyond that each new item displaces another.
const CHAIN_MAX: usize = 64;
/// Items of one home, at most.
const WORDS_MAX: usize = (CHAIN_MAX + 1) * LINE_WORDS;
/// The most locks. A split line shares the lock of the line that it was split from.
const STRIPES_MAX: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 4096 };

/// Insertions that pass before another split is tried, after one for which there was no memory.
const REST: u32 = 255;

const LOCATION: u64 = (1 << 40) - 1;
const REQUESTS_SHIFT: u32 = 40;
const REQUESTS: u64 = 0xff << REQUESTS_SHIFT;
const TAG_SHIFT: u32 = 48;
/// A word with tag 0 is empty, or has a place of a line and this.
const LINK: u64 = 1 << REQUESTS_SHIFT;
/// The same in a line that is not used.
const FREE: u64 = 2 << REQUESTS_SHIFT;

/// An item's place, and the index's record of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// The highest count of requests.
pub(crate) const REQUESTS_MAX: u32 = 255;

impl Word {
    pub(crate) fn new(hash: u64, requests: u32, location: u64) -> Word {
        debug_assert!(location <= LOCATION && requests <= REQUESTS_MAX);
        Word(tag(hash) << TAG_SHIFT | u64::from(requests) << REQUESTS_SHIFT | location)
    }

    pub(crate) fn location(self) -> u64 {
        self.0 & LOCATION
    }

    pub(crate) fn requests(self) -> u32 {
        ((self.0 & REQUESTS) >> REQUESTS_SHIFT) as u32
    }

    fn is_item(self) -> bool {
        self.0 >> TAG_SHIFT != 0
    }

    fn link(self) -> Option<u64> {
        (self.0 & !LOCATION == LINK).then_some(self.location())
    }

    /// Whether both lead to the same place.
    pub(crate) fn same_place(self, other: Word) -> bool {
        (self.0 ^ other.0) & !REQUESTS == 0
    }
}

/// The tag of a hash, never 0. It has bits that do not choose a line.
fn tag(hash: u64) -> u64 {
    (hash >> TAG_SHIFT).max(1)
}

type Line = [AtomicU64; LINE_WORDS];

/// A word in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    line: &'a Line,
    index: usize,
}

impl Place<'_> {
    pub(crate) fn word(self) -> Word {
        // SeqCst: partner of `Hazards::names`. Acquire: partner of `Release` in `put`, after
        // which the item is written.
        Word(self.line[self.index].load(SeqCst))
    }

    fn put(self, word: u64) {
        // Release: partner of `word` and `Look::next`: the item is written, the word's other place
        // is filled, the version is raised.
        self.line[self.index].store(word, Release);
    }

    /// Notes a request, unless another thread has changed the word. Returns whether it did.
    pub(crate) fn note_request(self, word: Word, requests: u32) -> bool {
        debug_assert!(requests <= REQUESTS_MAX);
        let noted = word.0 & !REQUESTS | u64::from(requests) << REQUESTS_SHIFT;
        self.line[self.index].compare_exchange(word.0, noted, Relaxed, Relaxed).is_ok()
    }
}

/// State that writers of overflow lines share.
#[derive(Debug)]
struct Overflow {
    /// The first free line, which links to the next.
    free: u64,
    /// Lines of the last page that were never used.
    fresh: u64,
    fresh_end: u64,
}

impl Overflow {
    fn is_exhausted(&self) -> bool {
        self.free == 0 && self.fresh == self.fresh_end
    }
}

/// State that only the addition of a home needs.
#[derive(Debug)]
pub(crate) struct Growth {
    /// The places of items that move to the new home.
    moving: Vec<u64>,
    /// Insertions to wait before another try.
    rest: u32,
}

#[derive(Debug)]
pub(crate) struct Index {
    /// Segments with lines that are homes, in their order.
    pages: Box<[AtomicU32]>,
    page_shift: u32,
    /// Lines that are homes.
    homes: AtomicU64,
    pub(crate) items: AtomicU64,
    locks: Box<[Mutex<()>]>,
    versions: Box<[AtomicU32]>,
    overflow: Mutex<Overflow>,
    overflow_lines: AtomicU64,
    growth: Mutex<Growth>,
}

/// All locks of the index.
pub(crate) struct AllLocked<'a> {
    _growth: MutexGuard<'a, Growth>,
    _stripes: Vec<Locked<'a>>,
    overflow: MutexGuard<'a, Overflow>,
}

/// The use of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineUse {
    Home,
    /// Of a chain.
    Overflow,
    /// Not yet used, or no longer.
    Empty,
    /// Unused but not empty.
    Waste,
}

/// A search for the words with the tag of a hash.
pub(crate) struct Look<'a> {
    mapping: &'a Mapping,
    line: Option<&'a Line>,
    index: usize,
    /// The last word of the line, as it was when it was read.
    last: Word,
    tag: u64,
}

impl<'a> Iterator for Look<'a> {
    type Item = (Place<'a>, Word);

    #[inline]
    fn next(&mut self) -> Option<(Place<'a>, Word)> {
        let mut line = self.line?;
        loop {
            while self.index < LINE_WORDS {
                let index = self.index;
                self.index += 1;
                // Acquire: partner of `Place::put`.
                self.last = Word(line[index].load(Acquire));
                if self.last.0 >> TAG_SHIFT == self.tag {
                    return Some((Place { line, index }, self.last));
                }
            }
            // Not read again: if it was a link and is an item, that was in the overflow line.
            let Some(link) = self.last.link() else {
                self.line = None;
                return None;
            };
            line = line_at(self.mapping, link);
            self.line = Some(line);
            self.index = 0;
        }
    }
}

#[inline(always)]
fn line_at(mapping: &Mapping, location: u64) -> &Line {
    // SAFETY: locations of lines are those in segments of the index, which are atomic words from
    // before anything leads to them, and stay that.
    unsafe { mapping.line(location as usize) }
}

/// The lock of a stripe.
pub(crate) type Locked<'a> = MutexGuard<'a, ()>;

/// Bytes of the index outside of segments, for `segments` segments.
pub(crate) fn bytes_beside(segment_bytes: usize, segments: usize) -> usize {
    let stripes = STRIPES_MAX.min(segment_bytes as u64 / LINE_BYTES) as usize;
    stripes * (size_of::<Mutex<()>>() + size_of::<AtomicU32>())
        + WORDS_MAX * size_of::<u64>()
        + segments * size_of::<AtomicU32>()
}

impl Index {
    /// An index with one page of homes.
    pub(crate) fn new(segments: &Segments) -> Option<Index> {
        let lines = segments.segment_bytes as u64 / LINE_BYTES;
        let stripes = STRIPES_MAX.min(lines);
        let pages: Box<[_]> = (0..segments.count()).map(|_| AtomicU32::new(NONE)).collect();
        let first = segments.take().filter(|_| segments.count_page())?;
        segments.clear(first);
        segments.become_page(first);
        pages[0].store(first, Relaxed);
        Some(Index {
            pages,
            page_shift: lines.trailing_zeros(),
            homes: AtomicU64::new(lines),
            items: AtomicU64::new(0),
            locks: (0..stripes).map(|_| Mutex::new(())).collect(),
            versions: (0..stripes).map(|_| AtomicU32::new(0)).collect(),
            overflow: Mutex::new(Overflow { free: 0, fresh: 0, fresh_end: 0 }),
            overflow_lines: AtomicU64::new(0),
            growth: Mutex::new(Growth { moving: Vec::with_capacity(WORDS_MAX), rest: 0 }),
        })
    }

    fn stripe(&self, hash: u64) -> usize {
        hash as usize & (self.locks.len() - 1)
    }

    /// The home of a hash among `homes` lines.
    fn home_of(homes: u64, hash: u64) -> u64 {
        let mask = (2 << homes.ilog2()) - 1;
        let home = hash & mask;
        if home < homes { home } else { home & (mask >> 1) }
    }

    #[inline]
    fn location_of(&self, home: u64, segments: &Segments) -> u64 {
        let page = self.pages[(home >> self.page_shift) as usize].load(Relaxed);
        segments.start(page) + (home & ((1 << self.page_shift) - 1)) * LINE_BYTES
    }

    #[inline]
    fn home<'a>(&self, hash: u64, segments: &'a Segments) -> &'a Line {
        // Acquire: partner of `split`, which has filled the new line, and named its page.
        let homes = self.homes.load(Acquire);
        line_at(&segments.mapping, self.location_of(Self::home_of(homes, hash), segments))
    }

    /// Prefetches the home of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, segments: &Segments) {
        let homes = self.homes.load(Acquire);
        let location = self.location_of(Self::home_of(homes, hash), segments);
        prefetch(segments.mapping.at(location as usize));
    }

    /// The version of a hash's stripe. Read it, search for a word and, if there is none, read it
    /// again.
    #[inline]
    pub(crate) fn version(&self, hash: u64) -> u32 {
        // Acquire: partner of `moved`. A reader of its version finds the new copy; a reader that
        // finds the old one cleared reads its version a second time.
        self.versions[self.stripe(hash)].load(Acquire)
    }

    fn moved(&self, hash: u64) {
        self.versions[self.stripe(hash)].fetch_add(1, Release);
    }

    /// Words that have the hash's tag.
    #[inline]
    pub(crate) fn look<'a>(&self, hash: u64, segments: &'a Segments) -> Look<'a> {
        let line = Some(self.home(hash, segments));
        Look { mapping: &segments.mapping, line, index: 0, last: Word(0), tag: tag(hash) }
    }

    pub(crate) fn lock(&self, hash: u64) -> Locked<'_> {
        self.locks[self.stripe(hash)].lock()
    }

    /// Replaces the place of an item by another of the same key.
    pub(crate) fn replace(&self, _: &Locked<'_>, place: Place<'_>, word: Word) {
        place.put(word.0);
    }

    /// Adds a word. `Err`: there is no room in its chain, and no line to make it longer
    /// (`add_overflow_page`).
    pub(crate) fn insert(
        &self,
        _: &Locked<'_>,
        hash: u64,
        word: Word,
        segments: &Segments,
    ) -> Result<(), ()> {
        self.insert_at(self.home(hash, segments), word.0, segments)?;
        self.items.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Replaces the least requested word of the home line by `word`. Returns the old one.
    pub(crate) fn displace(
        &self,
        _: &Locked<'_>,
        hash: u64,
        word: Word,
        segments: &Segments,
    ) -> Word {
        let line = self.home(hash, segments);
        let words = (0..LINE_WORDS).map(|index| Place { line, index });
        let items = words.map(|place| (place, place.word())).filter(|(_, word)| word.is_item());
        let (place, old) = items.min_by_key(|(_, word)| word.requests()).expect("a full line");
        place.put(word.0);
        old
    }

    fn insert_at(&self, home: &Line, word: u64, segments: &Segments) -> Result<(), ()> {
        let mut line = home;
        for _ in 0..CHAIN_MAX {
            if let Some(index) = line.iter().position(|word| word.load(Relaxed) == 0) {
                Place { line, index }.put(word);
                return Ok(());
            }
            let last = Place { line, index: LINE_WORDS - 1 };
            if let Some(link) = last.word().link() {
                line = line_at(&segments.mapping, link);
                continue;
            }
            let location = self.take_line(&segments.mapping).ok_or(())?;
            let overflow = line_at(&segments.mapping, location);
            Place { line: overflow, index: 0 }.put(last.word().0);
            Place { line: overflow, index: 1 }.put(word);
            last.put(LINK | location);
            return Ok(());
        }
        Err(())
    }

    /// Takes a word out. In a chain the last word fills the hole, so that chains stay short.
    pub(crate) fn remove(&self, _: &Locked<'_>, hash: u64, place: Place<'_>, segments: &Segments) {
        self.remove_at(hash, self.home(hash, segments), place, segments);
        self.items.fetch_sub(1, Relaxed);
    }

    fn remove_at(&self, hash: u64, home: &Line, place: Place<'_>, segments: &Segments) {
        let (mut before, mut line, mut location) = (None, home, 0);
        while let Some(link) = Word(line[LINE_WORDS - 1].load(Relaxed)).link() {
            before = Some(line);
            location = link;
            line = line_at(&segments.mapping, link);
        }
        let Some(before) = before else { return place.put(0) };
        let items = || (0..LINE_WORDS).filter(|&index| line[index].load(Relaxed) != 0);
        let last = items().next_back().expect("no overflow line is empty");
        let last = Place { line, index: last };
        let is_last = std::ptr::eq(place.line, line) && place.index == last.index;
        if !is_last {
            place.put(last.word().0);
            self.moved(hash);
        }
        last.put(0);
        if items().count() == 1 {
            // The only word left replaces the link.
            let only = Place { line, index: items().next().expect("one") };
            Place { line: before, index: LINE_WORDS - 1 }.put(only.word().0);
            self.moved(hash);
            only.put(0);
            self.free_line(&segments.mapping, location);
        }
    }

    /// An empty line for overflow, if there is one.
    pub(crate) fn take_line(&self, mapping: &Mapping) -> Option<u64> {
        let mut overflow = self.overflow.lock();
        if overflow.is_exhausted() {
            return None;
        }
        let location = if overflow.free != 0 {
            let location = overflow.free;
            let first = Place { line: line_at(mapping, location), index: 0 };
            overflow.free = first.word().location();
            first.put(0);
            location
        } else {
            overflow.fresh += LINE_BYTES;
            overflow.fresh - LINE_BYTES
        };
        self.overflow_lines.fetch_add(1, Relaxed);
        Some(location)
    }

    /// Makes a segment that the caller has taken into overflow lines. Frees it instead if there
    /// are still lines, or may be no more. No stripe may be locked: the segment is cleared first.
    pub(crate) fn add_overflow_page(&self, segments: &Segments, segment: u32) -> bool {
        if !self.overflow.lock().is_exhausted() || !segments.count_page() {
            segments.free(segment);
            return false;
        }
        segments.clear(segment);
        let mut overflow = self.overflow.lock();
        let is_needed = overflow.is_exhausted();
        if is_needed {
            segments.become_page(segment);
            overflow.fresh = segments.start(segment);
            overflow.fresh_end = overflow.fresh + segments.segment_bytes as u64;
        } else {
            // Another thread was faster.
            drop(overflow);
            segments.count_no_page();
            segments.free(segment);
        }
        is_needed
    }

    /// Frees an empty overflow line. Place 0 is a home's, and ends the list.
    pub(crate) fn free_line(&self, mapping: &Mapping, location: u64) {
        let line = line_at(mapping, location);
        let mut overflow = self.overflow.lock();
        Place { line, index: 0 }.put(FREE | overflow.free);
        overflow.free = location;
        self.overflow_lines.fetch_sub(1, Relaxed);
    }

    /// Whether there are too many items for the present home lines.
    pub(crate) fn is_full(&self) -> bool {
        self.items.load(Relaxed) > self.homes.load(Relaxed) * ITEMS_PER_HOME
    }

    /// Adds a home, which takes its part of another's words. `hash_of` reads the key of an item
    /// again. No stripe may be locked. Does nothing if another thread adds one or memory is
    /// short; in the latter case not every insertion tries again.
    pub(crate) fn grow(&self, segments: &Segments, hash_of: impl Fn(u64) -> u64) {
        let Some(mut growth) = self.growth.try_lock() else { return };
        if !self.is_full() {
            return;
        }
        if growth.rest > 0 {
            growth.rest -= 1;
            return;
        }
        let grows = self.has_page(segments)
            && (self.split(segments, &mut growth.moving, hash_of)
                || segments.take().is_some_and(|page| self.add_overflow_page(segments, page)));
        if !grows {
            growth.rest = REST;
        }
    }

    /// Provides a page for the next home, if the index may have one.
    fn has_page(&self, segments: &Segments) -> bool {
        let page = &self.pages[(self.homes.load(Relaxed) >> self.page_shift) as usize];
        if page.load(Relaxed) != NONE {
            return true;
        }
        if !segments.count_page() {
            return false;
        }
        let Some(segment) = segments.take() else {
            segments.count_no_page();
            return false;
        };
        segments.clear(segment);
        segments.become_page(segment);
        page.store(segment, Relaxed);
        true
    }

    /// Splits a home, unless there are no lines for the overflow of the new one.
    fn split(
        &self,
        segments: &Segments,
        moving: &mut Vec<u64>,
        hash_of: impl Fn(u64) -> u64,
    ) -> bool {
        let homes = self.homes.load(Relaxed);
        let bit = 1 << homes.ilog2();
        let _locked = self.lock(homes);
        let mapping = &segments.mapping;
        let old = line_at(mapping, self.location_of(homes - bit, segments));
        let new = line_at(mapping, self.location_of(homes, segments));
        moving.clear();
        let mut fits = true;
        for_each(mapping, old, |place| {
            let word = place.word();
            if fits && hash_of(word.location()) & bit != 0 {
                moving.push(word.location());
                fits = self.insert_at(new, word.0, segments).is_ok();
            }
        });
        if fits {
            // Release: partner of `home`.
            self.homes.store(homes + 1, Release);
            self.moved(homes);
        }
        // Words in both lines are removed from the old one, or from the new one, which no reader
        // has seen.
        let from = if fits { old } else { new };
        while let Some(place) = first(mapping, from, |word| moving.contains(&word.location())) {
            self.remove_at(homes, from, place, segments);
        }
        fits
    }

    /// Numbers of homes and of overflow lines.
    pub(crate) fn lines(&self) -> (u64, u64) {
        (self.homes.load(Relaxed), self.overflow_lines.load(Relaxed))
    }

    /// Calls for the words of the home at the given position, with the lock of its stripe, in an
    /// order that growth does not disturb. Returns the next position. Begin at 0; `None` is the
    /// end.
    ///
    /// The order is that of the last bits of hashes, read backwards: after a home that is split
    /// comes the home split off from it.
    pub(crate) fn scan<'a>(
        &self,
        cursor: u64,
        segments: &'a Segments,
        mut each: impl FnMut(&Locked<'_>, Place<'a>, Word),
    ) -> Option<u64> {
        let hash = cursor.reverse_bits();
        let locked = self.lock(hash);
        let homes = self.homes.load(Acquire);
        let home = Self::home_of(homes, hash);
        for_each(&segments.mapping, self.home(hash, segments), |place| {
            each(&locked, place, place.word());
        });
        // The bits that choose this home, which is split if it has a twin.
        let level = homes.ilog2();
        let is_split = home >= 1 << level || home + (1 << level) < homes;
        let bits = level + u32::from(is_split);
        (cursor >> (64 - bits) << (64 - bits)).checked_add(1 << (64 - bits))
    }

    /// All locks, for `validate`.
    pub(crate) fn lock_all(&self) -> AllLocked<'_> {
        let growth = self.growth.lock();
        let stripes = self.locks.iter().map(Mutex::lock).collect();
        AllLocked { _growth: growth, _stripes: stripes, overflow: self.overflow.lock() }
    }

    /// Calls for each home and each word in it.
    pub(crate) fn each_home(
        &self,
        _: &AllLocked<'_>,
        segments: &Segments,
        mut each: impl FnMut(u64, &[Word]),
    ) {
        for home in 0..self.homes.load(Relaxed) {
            let mut words = Vec::new();
            let line = line_at(&segments.mapping, self.location_of(home, segments));
            for_each(&segments.mapping, line, |place| words.push(place.word()));
            each(home, &words);
        }
    }

    /// Calls for each line in use, with its place, its use, and whether it is consistent. Ends if
    /// the call fails.
    pub(crate) fn each_line<E>(
        &self,
        locked: &AllLocked<'_>,
        segments: &Segments,
        mut each: impl FnMut(u64, LineUse) -> Result<(), E>,
    ) -> Result<(), E> {
        let mapping = &segments.mapping;
        let of = |location| {
            let empty = line_at(mapping, location).iter().all(|word| word.load(Relaxed) == 0);
            if empty { LineUse::Empty } else { LineUse::Waste }
        };
        let homes = self.homes.load(Relaxed);
        let pages = self.pages.iter().take_while(|page| page.load(Relaxed) != NONE).count() as u64;
        for home in 0..pages << self.page_shift {
            let mut location = self.location_of(home, segments);
            if home >= homes {
                each(location, of(location))?;
                continue;
            }
            each(location, LineUse::Home)?;
            let last = |at| Word(line_at(mapping, at)[LINE_WORDS - 1].load(Relaxed));
            while let Some(link) = last(location).link() {
                location = link;
                each(location, LineUse::Overflow)?;
            }
        }
        let Overflow { mut free, fresh, fresh_end } = *locked.overflow;
        while free != 0 {
            let line = line_at(mapping, free);
            let waste = line[1..].iter().any(|word| word.load(Relaxed) != 0);
            each(free, if waste { LineUse::Waste } else { LineUse::Empty })?;
            free = Place { line, index: 0 }.word().location();
        }
        (fresh..fresh_end).step_by(LINE_BYTES as usize).try_for_each(|at| each(at, of(at)))
    }

    /// Whether `hash` belongs to a home.
    pub(crate) fn is_home_of(&self, home: u64, hash: u64) -> bool {
        Self::home_of(self.homes.load(Relaxed), hash) == home
    }
}

/// Calls for each place of a chain that has an item.
fn for_each<'a>(mapping: &'a Mapping, home: &'a Line, mut each: impl FnMut(Place<'a>)) {
    _ = first_place(mapping, home, |place| {
        each(place);
        false
    });
}

fn first<'a>(
    mapping: &'a Mapping,
    home: &'a Line,
    wanted: impl Fn(Word) -> bool,
) -> Option<Place<'a>> {
    first_place(mapping, home, |place| wanted(place.word()))
}

fn first_place<'a>(
    mapping: &'a Mapping,
    home: &'a Line,
    mut wanted: impl FnMut(Place<'a>) -> bool,
) -> Option<Place<'a>> {
    let mut line = home;
    loop {
        for index in 0..LINE_WORDS {
            let place = Place { line, index };
            if place.word().is_item() && wanted(place) {
                return Some(place);
            }
        }
        line = line_at(mapping, Word(line[LINE_WORDS - 1].load(Acquire)).link()?);
    }
}
