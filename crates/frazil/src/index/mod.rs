//! The concurrent hash table from keys to slots: reads take no lock.
//!
//! A bucket is one cache line: a header and 15 words of 32 bits, each a tag above and a
//! slot below. A cache of a million entries has 12 bits of tag, and a look-up reads a wrong
//! entry every 450 times; each doubling takes a bit, so one of 16 million has 8 and 28. The home bucket is chosen by the upper
//! half of the hash, multiplied into range, so there may be any number of buckets.
//! A word that finds its home full goes to the next bucket that is not, and is counted
//! in the header of every bucket it passed, so a look-up reads on only where something
//! was displaced. At most 60 % full: 1.02 buckets a look-up, where buckets of seven
//! 64-bit words read 1.8 under churn. 7.1 bytes an entry at that load.
//!
//! **Writers** take no lock either; each change is one compare-exchange of the key's
//! word: an admission (0 to the word), a replacement (old to new), a removal or an
//! eviction (to 0). That exchange decides every race about a residency: who ends it
//! reports it and gets its weight back. Two threads may admit one key at the same time,
//! so each looks again after it has: the word that comes first in the order of the
//! look-up stays, and whoever sees both takes the other out ([`Index::is_alone`]).

mod bucket;

pub(crate) use bucket::{prefetch_for_reading, prefetch_for_writing};

use bucket::{Bucket, WORDS};

use crate::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::zeroed_slice;

/// The most that the table is filled, in percent.
const LOAD_PERCENT: usize = 60;

/// A hash, as the index uses it: where to look, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    home: usize,
    /// The tag in its place above the slot; never 0.
    tag: u32,
}

/// Spreads the hashes of poor hashers over all bits, of which the upper say the home and the lower
/// the tag. Both halves of the product, because bits of the hash move only upwards in it: keys
/// `k << 32` would share all of the lower bits of its lower half.
#[inline(always)]
pub(crate) fn mix(hash: u64) -> u64 {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// The concurrent hash table.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Box<[Bucket]>,
    slot_mask: u32,
}

/// What [`Index::find`] asks of its caller for each word with the right tag.
pub(crate) enum Seen<R> {
    /// This is the one.
    Match(R),
    /// Another key.
    Other,
    /// The word has changed meanwhile: look at it again.
    Changed,
}

impl Index {
    /// A table for slots 1 ..= `slots`, of which so many are resident at once.
    pub(crate) fn new(slots: u32, entries: u64) -> Self {
        let buckets = (entries * 100).div_ceil((WORDS * LOAD_PERCENT) as u64).max(1);
        Index {
            buckets: zeroed_slice(buckets as usize),
            slot_mask: u32::MAX >> (slots | 1).leading_zeros(),
        }
    }

    /// Where a hash is looked for.
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64) -> Place {
        let mixed = mix(hash);
        let home = ((mixed >> 32) * self.buckets.len() as u64) >> 32;
        let tag = (mixed as u32) & !self.slot_mask;
        let tag = if tag == 0 { self.slot_mask.wrapping_add(1) } else { tag };
        Place { home: home as usize, tag }
    }

    /// Brings the home bucket of a hash near.
    #[inline(always)]
    pub(crate) fn prefetch(&self, place: Place) {
        prefetch_for_reading(std::ptr::from_ref(self.bucket(place.home)).cast());
    }

    /// The slot that a look-up would be shown first, if it is at home: for a prefetch.
    #[inline(always)]
    pub(crate) fn candidate(&self, place: Place) -> Option<u32> {
        let home = self.bucket(place.home);
        let candidates = home.matches(place.tag, !self.slot_mask);
        let word = (candidates != 0).then(|| home.word(candidates.trailing_zeros()));
        word.map(|word| self.slot(word.load(Relaxed))).filter(|&slot| slot != 0)
    }

    /// The slot in a word.
    #[inline(always)]
    pub(crate) fn slot(&self, word: u32) -> u32 {
        word & self.slot_mask
    }

    /// The word of a slot whose key has this place.
    pub(crate) fn word(&self, place: Place, slot: u32) -> u32 {
        place.tag | slot
    }

    /// Shows `look` every word with the tag of `place` in its home bucket, until it has
    /// found its own. And whether there may be more of them further on.
    #[inline(always)]
    pub(crate) fn find_at_home<'i, R>(
        &'i self,
        place: Place,
        mut look: impl FnMut(&'i AtomicU32, u32) -> Seen<R>,
    ) -> (Option<R>, bool) {
        let home = self.bucket(place.home);
        let found = self.find_in(home, place, &mut look);
        (found, home.displaced())
    }

    /// The same in all its buckets.
    pub(crate) fn find<'i, R>(
        &'i self,
        place: Place,
        mut look: impl FnMut(&'i AtomicU32, u32) -> Seen<R>,
    ) -> Option<R> {
        let (found, further) = self.find_at_home(place, &mut look);
        if found.is_none() && further { self.find_further(place, look) } else { found }
    }

    #[inline(always)]
    fn find_in<'i, R>(
        &'i self,
        bucket: &'i Bucket,
        place: Place,
        look: &mut impl FnMut(&'i AtomicU32, u32) -> Seen<R>,
    ) -> Option<R> {
        let mut candidates = bucket.matches(place.tag, !self.slot_mask);
        while candidates != 0 {
            let cell = bucket.word(candidates.trailing_zeros());
            // Acquire: the entry's key and value; partner is the Release of `admit`
            // and `replace`.
            let word = cell.load(Acquire);
            // Not whether it has the tag still: if not, its key is another.
            match if self.slot(word) != 0 { look(cell, word) } else { Seen::Other } {
                Seen::Match(found) => return Some(found),
                Seen::Other => candidates &= candidates - 1,
                // Each time round, another thread has replaced the key.
                Seen::Changed => {}
            }
        }
        None
    }

    /// The same in the buckets behind the home, as far as words were displaced.
    pub(crate) fn find_further<'i, R>(
        &'i self,
        place: Place,
        mut look: impl FnMut(&'i AtomicU32, u32) -> Seen<R>,
    ) -> Option<R> {
        let mut at = place.home;
        for _ in 1..self.buckets.len() {
            at = self.after(at);
            let bucket = self.bucket(at);
            let found = self.find_in(bucket, place, &mut look);
            if found.is_some() || !bucket.displaced() {
                return found;
            }
        }
        None
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &Bucket {
        debug_assert!(at < self.buckets.len());
        // SAFETY: `place` scales a 32-bit fraction by the number of buckets, and `after`
        // wraps round at it.
        unsafe { self.buckets.get_unchecked(at) }
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    /// Adds a word for a slot whose key was not there, and returns where it is. `None` if
    /// no bucket has room.
    #[inline(always)]
    pub(crate) fn admit(&self, place: Place, slot: u32) -> Option<&AtomicU32> {
        let home = self.bucket(place.home);
        home.place(place.tag | slot).or_else(|| self.admit_further(place, slot))
    }

    #[inline(never)]
    fn admit_further(&self, place: Place, slot: u32) -> Option<&AtomicU32> {
        let mut at = place.home;
        for _ in 1..self.buckets.len() {
            // Before the word is visible further on, or a reader would stop short.
            self.bucket(at).displace();
            at = self.after(at);
            if let Some(cell) = self.bucket(at).place(place.tag | slot) {
                return Some(cell);
            }
        }
        self.bucket(at).displace();
        self.undo_displacement(place);
        None
    }

    /// After `admit`: whether no other word can be that of the key just admitted in `own`.
    #[inline(always)]
    pub(crate) fn is_alone(&self, place: Place, own: &AtomicU32) -> bool {
        // SeqCst: between placing a word and looking for another; partner is the same
        // fence in the thread that placed that. On x86 the exchange that placed it is one.
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
        crate::sync::atomic::fence(crate::sync::atomic::Ordering::SeqCst);
        let home = self.bucket(place.home);
        let candidates = home.matches(place.tag, !self.slot_mask);
        candidates & candidates.wrapping_sub(1) == 0 && home.owns(own) && !home.displaced()
    }

    #[cold]
    fn undo_displacement(&self, place: Place) {
        let (wrapped, from_home) = self.buckets.split_at(place.home);
        from_home.iter().chain(wrapped).for_each(Bucket::settle);
    }

    /// Exchanges the word of a resident slot for that of its replacement. False if it
    /// has gone meanwhile.
    #[inline(always)]
    pub(crate) fn replace(&self, place: Place, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        // Release: the new entry; partner is the Acquire of `find`.
        cell.compare_exchange(word, place.tag | slot, AcqRel, Relaxed).is_ok()
    }

    /// Takes out a word that `find` has shown. False if it has changed meanwhile.
    #[inline(always)]
    pub(crate) fn unlink_cell(&self, place: Place, cell: &AtomicU32, word: u32) -> bool {
        // Release: what was read under the word happened before it went.
        let gone = cell.compare_exchange(word, 0, Release, Relaxed).is_ok();
        if gone && !self.bucket(place.home).owns(cell) {
            self.settle_up_to(place, cell);
        }
        gone
    }

    /// Takes out the word of a slot. False if it is not there any more.
    #[inline(always)]
    pub(crate) fn unlink(&self, place: Place, slot: u32) -> bool {
        let wanted = place.tag | slot;
        let home = self.bucket(place.home);
        let candidates = home.matches(wanted, u32::MAX);
        if candidates != 0 {
            // A slot has one word. A lost exchange means that it was replaced or removed,
            // and does not come back.
            return self.unlink_cell(place, home.word(candidates.trailing_zeros()), wanted);
        }
        home.displaced() && self.unlink_further(place, wanted)
    }

    #[inline(never)]
    fn unlink_further(&self, place: Place, wanted: u32) -> bool {
        let look = |cell, word| {
            if word == wanted {
                Seen::Match(self.unlink_cell(place, cell, word))
            } else {
                Seen::Other
            }
        };
        self.find_further(place, look).unwrap_or(false)
    }

    /// A displaced word has gone: it counts no more in the buckets that it passed.
    #[cold]
    fn settle_up_to(&self, place: Place, cell: &AtomicU32) {
        let mut at = place.home;
        while !self.bucket(at).owns(cell) {
            self.bucket(at).settle();
            at = self.after(at);
        }
    }

    /// How many buckets there are.
    pub(crate) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// The cells of one bucket.
    pub(crate) fn cells(&self, bucket: usize) -> &[AtomicU32] {
        self.buckets[bucket].words()
    }

    /// What does not fit together, of words whose places `place_of` tells by their slots.
    /// Nobody else may use the table.
    pub(crate) fn check(&self, place_of: impl Fn(u32) -> Place) -> Result<(), String> {
        let mut displaced = vec![0u32; self.len()];
        for at in 0..self.len() {
            for word in self.cells(at).iter().map(|cell| cell.load(Relaxed)) {
                if word == 0 {
                    continue;
                }
                let place = place_of(self.slot(word));
                if word != place.tag | self.slot(word) {
                    return Err(format!("word {word:#x} of bucket {at} has another tag"));
                }
                let mut passed = place.home;
                while passed != at {
                    displaced[passed] += 1;
                    passed = (passed + 1) % self.len();
                }
            }
        }
        for (at, (bucket, found)) in self.buckets.iter().zip(displaced).enumerate() {
            if bucket.displacements().is_some_and(|counted| u32::from(counted) != found) {
                let counted = bucket.displacements();
                return Err(format!("bucket {at} was passed {found} times, counted {counted:?}"));
            }
        }
        Ok(())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Words that lie behind full buckets, of a table as full as it gets.
    fn displaced(hash: impl Fn(u64) -> u64) -> usize {
        const SLOTS: u32 = 40_000;
        let index = Index::new(SLOTS, SLOTS.into());
        let place = |slot: u32| index.place(hash(slot.into()));
        (1..=SLOTS).for_each(|slot| assert!(index.admit(place(slot), slot).is_some()));
        (1..=SLOTS)
            .filter(|&slot| {
                let (word, home) = (index.word(place(slot), slot), index.bucket(place(slot).home));
                home.matches(word, u32::MAX) == 0
            })
            .count()
    }

    #[test]
    fn poor_hashes_fill_the_table_as_evenly_as_good_ones() {
        let good = displaced(|number| frazil_policy::object_hash(number, 1));
        type Spread = fn(u64) -> u64;
        let poor: [(&str, Spread); 6] = [
            ("k", |k| k),
            ("k << 12", |k| k << 12),
            ("k << 32", |k| k << 32),
            ("k << 48", |k| k << 48),
            ("reversed bits", u64::reverse_bits),
            ("reversed bytes", u64::swap_bytes),
        ];
        for (name, hash) in poor {
            let found = displaced(hash);
            assert!(found < 2 * good + 100, "{name}: {found}, and {good} of a good hash");
        }
    }
}
