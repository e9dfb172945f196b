//! Copies of frozen keys and values, by hash: a look-up reads one cache line.
//!
//! Keys and values are `Copy`, and few bytes. A line holds four tags and behind them as many pairs
//! as fit 48 bytes. An entry lies in the line that its hash selects, or in that line's neighbour if
//! that was full. If both are full it is left out, and look-ups find it in the index. 6 of 10
//! places are used, so 1 in 30 is left out: those that come last, the coldest.
//!
//! A look-up reads a pair without a look at the entry that it is a copy of. So no thread may write
//! it while another reads, and its tag is removed before the entry: `docs/design/frozen.md`, (C1)
//! to (C7).

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::shown::{Publication, Shown};
use super::tags::{self, TAGS, tag_of};
use crate::smr::protect::Protect;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{OwnLine, ZeroDefault, zeroed_slice};

/// Words of a line for pairs.
const WORDS: usize = 6;
pub(crate) const PAIR_BYTES_MAX: usize = WORDS * size_of::<u64>();

/// Number of places used, of ten.
const USED_OF_TEN: usize = 6;

/// The tag of a place that was never used.
const EMPTY: u32 = 0;
/// The tag of an entry that has left.
const GONE: u32 = 1;

#[repr(C, align(64))]
struct Line {
    tags: [AtomicU32; TAGS],
    /// Written by the freezer without readers, otherwise read by all threads.
    pairs: UnsafeCell<MaybeUninit<[u64; WORDS]>>,
}

impl Default for Line {
    fn default() -> Self {
        Line { tags: Default::default(), pairs: UnsafeCell::new(MaybeUninit::zeroed()) }
    }
}

// SAFETY: the tags are atomics whose defaults are zero, and pairs may be any bytes.
unsafe impl ZeroDefault for Line {}
// SAFETY: pairs have no readers while they are written, (C2). Their content is `Sync`: see
// `Copies`.
unsafe impl Sync for Line {}

/// The table of a cache. The published word has a generation, and in the lower half the number of
/// lines.
pub(crate) struct Copies<K, V> {
    /// Read on every look-up.
    table: OwnLine<Table>,
    /// Shared and sent under the same conditions as a cache with these keys and values.
    pairs: PhantomData<(K, V)>,
}

#[derive(Default)]
struct Table {
    shown: Shown,
    /// Made when something is first frozen.
    memory: OnceLock<Memory>,
}

struct Memory {
    lines: Box<[Line]>,
    /// By slot: the place of its copy, from 1; 0 for none.
    locations: Box<[AtomicU32]>,
}

impl<K, V> Copies<K, V> {
    const PLACES: usize = match size_of::<(K, V)>() {
        0 => TAGS,
        bytes if PAIR_BYTES_MAX / bytes < TAGS => PAIR_BYTES_MAX / bytes,
        _ => TAGS,
    };

    /// A table for keys and values that are small enough.
    pub(crate) fn new() -> Option<Self>
    where
        K: Copy,
        V: Copy,
    {
        let fits = Self::PLACES > 0 && align_of::<(K, V)>() <= align_of::<u64>();
        fits.then(|| Copies { table: OwnLine::default(), pairs: PhantomData })
    }

    /// The copy of a key's value. It may be read while `protection` lives and is not reused.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        protection: &impl Protect,
        mixed: u64,
        is_wanted: impl Fn(&K) -> bool,
    ) -> Option<&V> {
        let Table { shown, memory } = &self.table.0;
        let publication = shown.publication()?;
        if !protection.protects_copies(shown.published(), publication.0) {
            return None;
        }
        let lines = &*memory.get()?.lines;
        let (home, tag) = (home_of(mixed, publication.0 & u64::from(u32::MAX)), tag_of(mixed));
        let line = lines.get(home)?;
        let found = find_in(line, tag, &is_wanted);
        // Only full lines have entries in the neighbour.
        if found.is_some() || line.tags[Self::PLACES - 1].load(Relaxed) == EMPTY {
            return found;
        }
        find_in(lines.get(home ^ 1)?, tag, &is_wanted)
    }

    /// Hides the copy of a slot, if it has one. The slot's state is no longer `OCCUPIED`, and its
    /// index word is not exchanged yet.
    #[inline(always)]
    pub(crate) fn take_out(&self, slot: u32) {
        if self.table.0.shown.is_to_be_told()
            && let Some(memory) = self.table.0.memory.get()
        {
            memory.take_out(slot, Self::PLACES);
        }
    }

    /// Begins a table for `entries` entries of a cache with slots up to `last`. For the freezer,
    /// while nothing is published and the previous table has no readers.
    pub(crate) fn begin(&self, entries: u64, last: u32) -> Filling<'_, K, V> {
        let most = Self::lines_for(last.into());
        let memory = self.table.0.memory.get_or_init(|| Memory {
            lines: zeroed_slice(most),
            locations: zeroed_slice(last as usize + 1),
        });
        self.table.0.shown.activate();
        let count = Self::lines_for(entries).min(most);
        let Memory { lines, locations } = memory;
        for line in &lines[..count] {
            line.tags.iter().for_each(|tag| tag.store(EMPTY, Relaxed));
        }
        Filling { copies: self, lines: &lines[..count], locations }
    }

    /// Hides the table, and forgets all entries. For the freezer.
    pub(crate) fn withdraw(&self) {
        let Table { shown, memory } = &self.table.0;
        let locations = || memory.get().into_iter().flat_map(|memory| &memory.locations);
        shown.withdraw(|| locations().for_each(|location| location.store(0, Relaxed)));
    }

    /// The slots with copies.
    pub(crate) fn listed(&self) -> Vec<u32> {
        let Table { shown, memory } = &self.table.0;
        let (Some(_), Some(memory)) = (shown.publication(), memory.get()) else {
            return Vec::new();
        };
        let slots = (0..).zip(&memory.locations);
        slots
            .filter(|(_, location)| memory.is_listed(location, Self::PLACES))
            .map(|it| it.0)
            .collect()
    }

    /// Number of copies that look-ups may find.
    pub(crate) fn count(&self) -> usize {
        let Table { shown, memory } = &self.table.0;
        let (Some(Publication(published)), Some(memory)) = (shown.publication(), memory.get())
        else {
            return 0;
        };
        let lines = memory.lines.iter().take(published as u32 as usize);
        lines.flat_map(|line| &line.tags).filter(|tag| tag.load(Relaxed) > GONE).count()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |memory: &Memory| size_of_val(&*memory.lines) + size_of_val(&*memory.locations);
        self.table.0.memory.get().map_or(0, of)
    }

    /// An even number, so that each line has a neighbour.
    fn lines_for(entries: u64) -> usize {
        (entries as usize * 10).div_ceil(USED_OF_TEN * Self::PLACES).next_multiple_of(2).max(2)
    }
}

impl<K, V> fmt::Debug for Copies<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").finish_non_exhaustive()
    }
}

impl Memory {
    #[inline(never)]
    fn take_out(&self, slot: u32, places: usize) {
        let Some(location) = self.locations.get(slot as usize) else { return };
        if let Some(tag) = tag_at(&self.lines, location.load(Acquire), places) {
            // If the place is another entry's by now, look-ups find that one in the index.
            tag.store(GONE, Release);
        }
    }

    fn is_listed(&self, location: &AtomicU32, places: usize) -> bool {
        let tag = tag_at(&self.lines, location.load(Relaxed), places);
        tag.is_some_and(|tag| tag.load(Relaxed) > GONE)
    }
}

/// A table that is not published yet.
pub(crate) struct Filling<'t, K, V> {
    copies: &'t Copies<K, V>,
    lines: &'t [Line],
    locations: &'t [AtomicU32],
}

impl<K, V> Filling<'_, K, V> {
    /// Adds a copy of a slot's content, and returns its place; 0 if the line is full, or the slot
    /// has a copy. The caller keeps the slot from being reused until it has checked its state
    /// after a heavy fence, and [removes](Self::take_back) copies of slots that are not `OCCUPIED`
    /// then.
    pub(crate) fn add(&self, mixed: u64, slot: u32, (key, value): (&K, &V)) -> u32 {
        let Some(listed) = self.locations.get(slot as usize) else { return 0 };
        let places = Copies::<K, V>::PLACES;
        // A second copy would outlive the entry, whose end hides one.
        let previous = tag_at(self.lines, listed.load(Relaxed), places);
        if previous.is_some_and(|tag| tag.load(Relaxed) != GONE) {
            return 0;
        }
        let home = home_of(mixed, self.lines.len() as u64);
        for at in [home, home ^ 1] {
            let line = &self.lines[at];
            let free = line.tags[..places].iter().position(|tag| tag.load(Relaxed) == EMPTY);
            if let Some(place) = free {
                // SAFETY: the place belongs to the line, and this memory has no readers, (C2).
                // `Copies::new` has checked that both may be copied.
                unsafe {
                    let pair: *mut (K, V) = pair(line, place).cast_mut();
                    (&raw mut (*pair).0).copy_from_nonoverlapping(key, 1);
                    (&raw mut (*pair).1).copy_from_nonoverlapping(value, 1);
                }
                let location = (at * places + place + 1) as u32;
                listed.store(location, Relaxed);
                line.tags[place].store(tag_of(mixed), Release);
                return location;
            }
        }
        0
    }

    /// Takes out a copy just added.
    pub(crate) fn take_back(&self, location: u32) {
        if let Some(tag) = tag_at(self.lines, location, Copies::<K, V>::PLACES) {
            tag.store(GONE, Relaxed);
        }
    }

    /// Publishes it, as a generation that never existed.
    pub(crate) fn publish(self, generation: u64) {
        self.copies.table.0.shown.publish(Publication(generation << 32 | self.lines.len() as u64));
    }
}

/// Looks for a key in a line that is not written while the caller reads.
#[inline(always)]
fn find_in<K, V>(line: &Line, tag: u32, is_wanted: impl Fn(&K) -> bool) -> Option<&V> {
    // Tags without a pair are never used.
    let mut candidates = tags::matches(&line.tags, tag) & ((1 << Copies::<K, V>::PLACES) - 1);
    while candidates != 0 {
        let place = candidates.trailing_zeros() as usize;
        // SAFETY: a tag implies that the pair was written before the table was published; it is not
        // written while the caller's protection lives, (C2).
        let (key, value) = unsafe { &*pair::<K, V>(line, place) };
        if is_wanted(key) {
            return Some(value);
        }
        candidates &= candidates - 1;
    }
    None
}

/// One of a line's pairs.
#[inline(always)]
fn pair<K, V>(line: &Line, place: usize) -> *const (K, V) {
    debug_assert!(place < Copies::<K, V>::PLACES);
    line.pairs.get().cast::<(K, V)>().wrapping_add(place)
}

/// The line of a hash, among `lines`, by its upper bits.
#[inline(always)]
fn home_of(mixed: u64, lines: u64) -> usize {
    ((u128::from(mixed) * u128::from(lines)) >> 64) as usize
}

/// The tag at a location.
fn tag_at(lines: &[Line], location: u32, places: usize) -> Option<&AtomicU32> {
    let at = location.checked_sub(1)? as usize;
    Some(&lines.get(at / places)?.tags[at % places])
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The freezer may find one entry in two of its passes.
    #[test]
    fn a_slot_that_is_added_again_has_one_copy() {
        let copies: Copies<u64, u64> = Copies::new().expect("16 bytes");
        let filling = copies.begin(10, 10);
        let mixed = 1 << 40;
        let location = filling.add(mixed, 7, (&1, &100));
        assert!(location > 0);
        assert_eq!(filling.add(mixed, 7, (&1, &100)), 0);
        filling.take_back(location);
        let location = filling.add(mixed, 7, (&2, &200));
        assert!(location > 0, "another entry has the slot");
        filling.publish(1);
        assert_eq!((copies.count(), copies.listed()), (1, vec![7]));
        copies.take_out(7);
        assert_eq!((copies.count(), copies.listed()), (0, vec![]));
    }
}
