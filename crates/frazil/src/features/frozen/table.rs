//! What is frozen, by hash: a table that is read without locks and does not change but for
//! what is taken out.
//!
//! A line holds eight entries, half of a hash and a slot each. An entry lies in the line that
//! the upper bits of its hash say, or in that line's neighbour if that was full; one for which
//! neither has room is left out, and the index has it. At most half of the table is used, so a
//! look-up reads one line, and a neighbour in 2 of 100 look-ups for what is not there.
//!
//! The memory is taken once, when something is first frozen, and filled anew each time;
//! `docs/design/frozen.md` says why nobody need wait for readers. It is laid out for all slots,
//! 16 to 32 bytes each, of which what is frozen uses its share, and 4 for where an entry is.

use super::shown::{Publication, Shown};
use super::tags::{self, tag_of};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{ZeroDefault, zeroed_slice};

/// Entries in a line.
const LANES: usize = 8;

#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line {
    /// 0: nobody was ever there.
    tags: [AtomicU32; LANES],
    /// 0: nobody is there, or any more.
    slots: [AtomicU32; LANES],
}

// SAFETY: atomics whose defaults are zero.
unsafe impl ZeroDefault for Line {}

impl Line {
    /// A bit for each tag that equals `tag`.
    #[inline(always)]
    fn matches(&self, tag: u32) -> u32 {
        tags::matches(&self.tags, tag)
    }
}

#[derive(Debug)]
pub(crate) struct Memory {
    lines: Box<[Line]>,
    /// By slot: where its entry is, from 1; 0 for those that have none.
    locations: Box<[AtomicU32]>,
}

/// The table of a cache. What is published is a generation, and in the lowest eight bits by how
/// much a hash is shifted to become a line's number.
#[derive(Debug, Default)]
pub(crate) struct FrozenTable {
    pub(crate) shown: Shown<Memory>,
}

impl FrozenTable {
    /// Shows `look` the entries that may be that of a key, until it has found its own: the
    /// slot, and the cell that it was read from.
    #[inline(always)]
    pub(crate) fn find<'t, R>(
        &'t self,
        publication: Publication,
        mixed: u64,
        mut look: impl FnMut(&'t AtomicU32, u32) -> Option<R>,
    ) -> Option<R> {
        let lines = &*self.shown.memory()?.lines;
        let home = (mixed >> (publication.0 & 63)) as usize;
        let line = lines.get(home)?;
        let mut candidates = line.matches(tag_of(mixed));
        while candidates != 0 {
            let cell = &line.slots[candidates.trailing_zeros() as usize % LANES];
            // Acquire: the slot's key and value; partner is the Release of `add`.
            let slot = cell.load(Acquire);
            if slot != 0
                && let Some(found) = look(cell, slot)
            {
                return Some(found);
            }
            candidates &= candidates - 1;
        }
        if line.matches(0) != 0 {
            return None;
        }
        find_next_door(lines.get(home ^ 1)?, mixed, look)
    }

    /// Takes out the entry of a slot that is about to be retired, if it has one. Its state is
    /// not `OCCUPIED` any more.
    #[inline(always)]
    pub(crate) fn take_out(&self, slot: u32) {
        if let Some(memory) = self.shown.to_be_told() {
            memory.take_out(slot);
        }
    }

    /// Begins a table for so many entries of a cache with slots up to `last`. For the freezer,
    /// while nothing is published.
    pub(crate) fn begin(&self, entries: u64, last: u32) -> Filling<'_> {
        let most = lines_for(last.into());
        let Memory { lines, locations } = self.shown.activate(|| Memory {
            lines: zeroed_slice(most),
            locations: zeroed_slice(last as usize + 1),
        });
        let count = lines_for(entries).min(most);
        for line in &lines[..count] {
            line.slots.iter().chain(&line.tags).for_each(|word| word.store(0, Relaxed));
        }
        let shift = u64::BITS - count.ilog2();
        Filling { table: self, lines: &lines[..count], locations, shift }
    }

    /// Shows nothing any more, and forgets all entries. For the freezer.
    pub(crate) fn withdraw(&self) {
        self.shown.withdraw(|memory| {
            memory.locations.iter().for_each(|location| location.store(0, Relaxed));
        })
    }

    /// The slots that have an entry in what is published.
    pub(crate) fn listed(&self) -> Vec<u32> {
        let Some(publication) = self.shown.publication() else { return Vec::new() };
        let lines = 1usize << (u64::BITS - (publication.0 & 63) as u32);
        let memory = self.shown.memory().into_iter();
        let slots =
            memory.flat_map(|memory| memory.lines.iter().take(lines)).flat_map(|line| &line.slots);
        slots.map(|slot| slot.load(Relaxed)).filter(|&slot| slot != 0).collect()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |memory: &Memory| size_of_val(&*memory.lines) + size_of_val(&*memory.locations);
        self.shown.memory().map_or(0, of)
    }
}

impl Memory {
    #[inline(never)]
    fn take_out(&self, slot: u32) {
        let Some(location) = self.locations.get(slot as usize) else { return };
        if let Some(cell) = cell(&self.lines, location.load(Acquire)) {
            // It fails where another thread has done so, or the place is another's by now.
            let _ = cell.compare_exchange(slot, 0, Release, Relaxed);
            location.store(0, Relaxed);
        }
    }
}

/// A table that is not published yet.
pub(crate) struct Filling<'t> {
    table: &'t FrozenTable,
    lines: &'t [Line],
    locations: &'t [AtomicU32],
    shift: u32,
}

impl Filling<'_> {
    /// Adds an entry, and says where it is; 0 if there is no room for it: 1 in 1,000 of a full
    /// table. The caller keeps the slot from being used again until it has looked at its state
    /// after a heavy fence, and [takes back](Self::take_back) what is not `OCCUPIED` then.
    pub(crate) fn add(&self, mixed: u64, slot: u32) -> u32 {
        let Some(location) = self.locations.get(slot as usize) else { return 0 };
        let home = (mixed >> self.shift) as usize;
        for line in [home, home ^ 1] {
            let free = self.lines[line].matches(0);
            if free != 0 {
                let lane = free.trailing_zeros() as usize;
                let (tag, cell) = (&self.lines[line].tags[lane], &self.lines[line].slots[lane]);
                let at = (line * LANES + lane + 1) as u32;
                tag.store(tag_of(mixed), Relaxed);
                location.store(at, Relaxed);
                cell.store(slot, Release);
                return at;
            }
        }
        0
    }

    /// Takes out an entry just added. Not by the slot's location: whoever ends the residency may
    /// have read that in the generation before, and clear it only now.
    pub(crate) fn take_back(&self, at: u32, slot: u32) {
        if let Some(cell) = cell(self.lines, at) {
            // It fails where that thread was first.
            let _ = cell.compare_exchange(slot, 0, Release, Relaxed);
        }
    }

    /// Shows it to all, as a generation that was never there.
    pub(crate) fn publish(self, generation: u64) {
        self.table.shown.publish(Publication(generation << 8 | u64::from(self.shift)));
    }
}

#[cold]
#[inline(never)]
fn find_next_door<'t, R>(
    line: &'t Line,
    mixed: u64,
    mut look: impl FnMut(&'t AtomicU32, u32) -> Option<R>,
) -> Option<R> {
    let candidates = line.matches(tag_of(mixed));
    (0..LANES).filter(|lane| candidates >> lane & 1 != 0).find_map(|lane| {
        let cell = &line.slots[lane];
        // Acquire: as in `find`.
        Some(cell.load(Acquire)).filter(|&slot| slot != 0).and_then(|slot| look(cell, slot))
    })
}

/// The cell that a location says.
fn cell(lines: &[Line], at: u32) -> Option<&AtomicU32> {
    let at = at.checked_sub(1)? as usize;
    Some(&lines.get(at / LANES)?.slots[at % LANES])
}

/// Lines for so many entries, so that at most half of the table is used: a power of two, so
/// that a hash is shifted to become a number, and two at least, so that each has a neighbour.
fn lines_for(entries: u64) -> usize {
    (entries as usize * 2).div_ceil(LANES).next_power_of_two().max(2)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn mixed(key: u64) -> u64 {
        crate::core::index::mix(frazil_policy::object_hash(key, 1))
    }

    fn found(table: &FrozenTable, key: u64) -> Option<u32> {
        table.find(table.shown.publication()?, mixed(key), |_, slot| Some(slot))
    }

    #[test]
    fn what_is_added_is_found_and_nothing_else() {
        for entries in [1, 2, 7, 100, 5_000] {
            let table = FrozenTable::default();
            let filling = table.begin(entries, 5_000);
            assert_eq!(table.shown.publication().map(|it| it.0), None);
            let added: Vec<u64> =
                (1..=entries).filter(|&key| filling.add(mixed(key), key as u32) != 0).collect();
            filling.publish(3);
            assert!(added.len() as u64 * 100 >= entries * 99, "{} of {entries}", added.len());
            added.iter().for_each(|&key| assert_eq!(found(&table, key), Some(key as u32)));
            let wrong = (6_000..16_000).filter(|&key| found(&table, key).is_some()).count();
            assert_eq!(wrong, 0, "{entries}: half of the hash is 31 bits");
            table.withdraw();
            assert_eq!(found(&table, 1), None);
        }
    }

    #[test]
    fn what_is_taken_out_is_not_found_again() {
        let table = FrozenTable::default();
        let filling = table.begin(100, 300);
        (1..=100).for_each(|key| assert_ne!(filling.add(mixed(key), key as u32), 0));
        filling.publish(1);
        table.take_out(7);
        table.take_out(7);
        table.take_out(200);
        assert_eq!((found(&table, 7), found(&table, 8)), (None, Some(8)));
        // A generation later the memory is as new.
        table.withdraw();
        let filling = table.begin(50, 300);
        assert_ne!(filling.add(mixed(9), 9), 0);
        filling.publish(2);
        assert_eq!((found(&table, 9), found(&table, 10)), (Some(9), None));
        table.take_out(10);
        assert_eq!(found(&table, 9), Some(9));
    }

    #[test]
    fn more_than_two_lines_hold_is_left_out() {
        let table = FrozenTable::default();
        let filling = table.begin(8, 100);
        let one_line = 5 << 60;
        let added =
            (1..=40).filter(|&slot| filling.add(one_line + u64::from(slot), slot) != 0).count();
        assert_eq!(added, 2 * LANES);
    }
}
