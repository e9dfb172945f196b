//! A table of the index: buckets, and how many bits of a word number the slot.

use std::ptr::NonNull;

use super::bucket::{Bucket, WORDS};
use super::{Mixed, Seen};
use crate::chunks::Block;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The highest intended load of a table, in percent.
const LOAD_PERCENT: usize = 60;

/// The highest load of a table that cannot be replaced while writers cannot be stopped, in percent.
const MOST_PERCENT: usize = 85;

/// One table. A reference to it may be used for as long as the index lives.
#[derive(Debug)]
pub(crate) struct Table {
    buckets: NonNull<Bucket>,
    len: usize,
    slot_mask: u32,
    /// How many bits that are. The rest of a word is the tag.
    slot_bits: u32,
    /// The table that it has replaced, or null.
    pub(super) before: *mut Table,
}

// SAFETY: buckets are atomics, and the table owns them.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The table of an empty index. No thread ever writes to it.
#[cfg(not(any(loom, shuttle)))]
static EMPTY: Table = {
    static BUCKET: Bucket = Bucket::empty();
    let before = std::ptr::null_mut();
    Table { buckets: NonNull::from_ref(&BUCKET), len: 1, slot_mask: 0, slot_bits: 0, before }
};

impl Table {
    /// A table without capacity.
    #[cfg(not(any(loom, shuttle)))]
    pub(super) fn empty() -> NonNull<Table> {
        NonNull::from_ref(&EMPTY)
    }

    /// Whether it is the static table, which no index owns.
    pub(super) fn is_static(&self) -> bool {
        #[cfg(not(any(loom, shuttle)))]
        return std::ptr::eq(self, &raw const EMPTY);
        // The checkers' atomics cannot be made before the program begins.
        #[cfg(any(loom, shuttle))]
        false
    }

    /// A table of `len` buckets, for words with slots up to `last`.
    pub(super) fn new(len: usize, last: u32) -> Self {
        let (slot_mask, before) = (Table::mask(last), std::ptr::null_mut());
        let slot_bits = slot_mask.count_ones();
        assert!(slot_bits < u32::BITS, "a word has room for a tag");
        Table { buckets: Block::new(len).0, len, slot_mask, slot_bits, before }
    }

    /// Has the system map its pages, before a thread waits for that.
    pub(super) fn touch(&self) {
        (0..self.len).step_by(32).for_each(|at| self.bucket(at).touch());
    }

    /// The number of buckets for `words` words.
    pub(super) fn buckets_for(words: u64) -> usize {
        (words * 100).div_ceil((WORDS * LOAD_PERCENT) as u64).max(1) as usize
    }

    /// The words that it holds at the intended load.
    pub(super) fn room(&self) -> u64 {
        if self.is_static() { 0 } else { (self.len * WORDS * LOAD_PERCENT / 100) as u64 }
    }

    /// The most words in a table of `len` buckets.
    pub(super) fn most(len: usize) -> u64 {
        (len * WORDS * MOST_PERCENT / 100) as u64
    }

    /// The highest slot that has no more bits than `last`.
    pub(super) fn mask(last: u32) -> u32 {
        u32::MAX >> (last | 1).leading_zeros()
    }

    /// The highest slot in its words.
    pub(super) fn last(&self) -> u32 {
        self.slot_mask
    }

    /// The number of buckets.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot in a word of this table.
    #[inline(always)]
    pub(crate) fn slot(&self, word: u32) -> u32 {
        word & self.slot_mask
    }

    /// The word of a slot whose key has this hash.
    #[inline(always)]
    pub(crate) fn word(&self, mixed: Mixed, slot: u32) -> u32 {
        self.word_of(mixed.0 as u32, slot)
    }

    #[inline(always)]
    fn word_of(&self, lower: u32, slot: u32) -> u32 {
        self.tag_of(lower) << self.slot_bits | slot
    }

    /// The home of a hash with this upper half.
    pub(super) fn home_of(&self, upper: u32) -> usize {
        ((u64::from(upper) * self.len as u64) >> 32) as usize
    }

    /// The smallest upper half of a hash with this home. In a table that replaces this one, it
    /// leads to the first home of those hashes.
    pub(super) fn begin_of(&self, home: usize) -> u64 {
        ((home as u64) << 32).div_ceil(self.len as u64)
    }

    #[inline(always)]
    pub(super) fn home(&self, mixed: Mixed) -> usize {
        ((mixed.upper() * self.len as u64) >> 32) as usize
    }

    /// The tag of half a hash; never 0, which marks an empty word.
    #[inline(always)]
    fn tag_of(&self, lower: u32) -> u32 {
        (lower >> self.slot_bits).max(1)
    }

    /// A bit for each word of a bucket with the tag of a hash.
    #[inline(always)]
    pub(super) fn candidates(&self, bucket: &Bucket, mixed: Mixed) -> u32 {
        bucket.matches(self.tag_of(mixed.0 as u32), self.slot_bits)
    }

    #[inline(always)]
    pub(super) fn bucket(&self, at: usize) -> &Bucket {
        debug_assert!(at < self.len);
        // SAFETY: `home` scales a 32-bit fraction by the number of buckets, and `after`
        // wraps round at it; they live as long as the table.
        unsafe { self.buckets.add(at).as_ref() }
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.len { 0 } else { at + 1 }
    }

    /// Shows `look` every word with the tag of `mixed` in its home bucket, with its slot, until it
    /// has found its own. Also returns the bucket, which tells whether more of them lie further on.
    #[inline(always)]
    pub(crate) fn find_at_home<'i, R>(
        &'i self,
        mixed: Mixed,
        mut look: impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> (Option<R>, &'i Bucket) {
        let home = self.bucket(self.home(mixed));
        (self.find_in(home, mixed, &mut look), home)
    }

    /// The same in all its buckets.
    pub(crate) fn find<'i, R>(
        &'i self,
        mixed: Mixed,
        mut look: impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> Option<R> {
        let (found, home) = self.find_at_home(mixed, &mut look);
        if found.is_none() && home.displaced() { self.find_further(mixed, look) } else { found }
    }

    #[inline(always)]
    fn find_in<'i, R>(
        &'i self,
        bucket: &'i Bucket,
        mixed: Mixed,
        look: &mut impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> Option<R> {
        let mut candidates = self.candidates(bucket, mixed);
        while candidates != 0 {
            let cell = bucket.word(candidates.trailing_zeros());
            // Acquire: the entry's key and value; partner is the Release of `admit`
            // and `replace`.
            let word = cell.load(Acquire);
            let slot = self.slot(word);
            // No check that it still has the tag: if not, its key is another.
            match if slot != 0 { look(cell, word, slot) } else { Seen::Other } {
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
        mixed: Mixed,
        mut look: impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> Option<R> {
        let mut at = self.home(mixed);
        for _ in 1..self.len {
            at = self.after(at);
            let bucket = self.bucket(at);
            let found = self.find_in(bucket, mixed, &mut look);
            if found.is_some() || !bucket.displaced() {
                return found;
            }
        }
        None
    }

    /// Adds a word of a key with this home, and returns its cell. `None` if no bucket has room.
    #[inline(always)]
    pub(super) fn admit<'i>(
        &'i self,
        home: &'i Bucket,
        mixed: Mixed,
        slot: u32,
    ) -> Option<&'i AtomicU32> {
        let word = self.word(mixed, slot);
        home.store(word).or_else(|| self.admit_further(mixed, word))
    }

    #[inline(never)]
    fn admit_further(&self, mixed: Mixed, word: u32) -> Option<&AtomicU32> {
        let mut at = self.home(mixed);
        for _ in 1..self.len {
            // Before the word is visible further on, or a reader would stop short.
            self.bucket(at).displace();
            at = self.after(at);
            if let Some(cell) = self.bucket(at).store(word) {
                return Some(cell);
            }
        }
        self.bucket(at).displace();
        self.undo_displacement();
        None
    }

    #[cold]
    fn undo_displacement(&self) {
        (0..self.len).for_each(|at| self.bucket(at).settle());
    }

    /// Exchanges a word for that of another slot of the same key.
    #[inline(always)]
    pub(super) fn replace(&self, mixed: Mixed, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        // Release: the new entry; partner is the Acquire of `find`.
        cell.compare_exchange(word, self.word(mixed, slot), AcqRel, Relaxed).is_ok()
    }

    #[inline(always)]
    pub(super) fn unlink_cell(&self, mixed: Mixed, cell: &AtomicU32, word: u32) -> bool {
        // Release: reads under the word happened before its removal.
        let gone = cell.compare_exchange(word, 0, Release, Relaxed).is_ok();
        let home = self.home(mixed);
        if gone && !self.bucket(home).owns(cell) {
            self.settle_up_to(home, cell);
        }
        gone
    }

    #[inline(always)]
    pub(super) fn unlink(&self, mixed: Mixed, slot: u32) -> bool {
        let wanted = self.word(mixed, slot);
        let home = self.bucket(self.home(mixed));
        let candidates = home.matches(wanted, 0);
        if candidates != 0 {
            let cell = home.word(candidates.trailing_zeros());
            // A slot has one word. A lost exchange means that it was replaced or removed,
            // and does not come back. Release: as in `unlink_cell`; it passed no bucket.
            return cell.compare_exchange(wanted, 0, Release, Relaxed).is_ok();
        }
        home.displaced() && self.unlink_further(mixed, wanted)
    }

    #[inline(never)]
    fn unlink_further(&self, mixed: Mixed, wanted: u32) -> bool {
        let look = |cell, word, _| {
            if word == wanted {
                Seen::Match(self.unlink_cell(mixed, cell, word))
            } else {
                Seen::Other
            }
        };
        self.find_further(mixed, look).unwrap_or(false)
    }

    /// A displaced word was removed: it no longer counts in the buckets that it passed.
    #[cold]
    fn settle_up_to(&self, home: usize, cell: &AtomicU32) {
        let mut at = home;
        while !self.bucket(at).owns(cell) {
            self.bucket(at).settle();
            at = self.after(at);
        }
    }

    /// The cells of one bucket.
    pub(crate) fn cells(&self, bucket: usize) -> &[AtomicU32] {
        assert!(bucket < self.len);
        self.bucket(bucket).words()
    }

    /// Whether a word lies behind a bucket although it would be in it, or before it, if there had
    /// been a free cell. In a table that was left the answer may be wrong.
    pub(super) fn is_passed(&self, bucket: usize) -> bool {
        self.bucket(bucket).displaced()
    }

    /// Stores a word of another table, whose key's hash has this upper half. The slots of that
    /// table have no more bits. The table is not shared yet.
    pub(super) fn take_over(&self, upper: u32, word: u32, slot: u32) {
        debug_assert!(slot <= self.slot_mask);
        // This table keeps the tag bits of the other one, or fewer.
        let word = self.word_of(word, slot);
        let home = self.home_of(upper);
        let mut at = home;
        while !self.bucket(at).put(word) {
            self.bucket(at).displace();
            at = self.after(at);
            assert_ne!(at, home, "a table is never replaced by one without room for its words");
        }
    }

    /// Empties it, once another table has replaced it.
    pub(super) fn wipe(&self) {
        for at in 0..self.len {
            self.bucket(at).wipe();
        }
        // SAFETY: its words are all zero, and it is never written again. The counts of displaced
        // words become zero too: a search under way stops sooner, and checks whether the table was
        // left.
        unsafe {
            crate::sync::give_back(self.buckets.as_ptr().cast(), self.len * size_of::<Bucket>())
        };
    }

    /// The inconsistencies of words whose mixed hashes `mixed_of` gives by slot. No other thread
    /// may use the table.
    pub(super) fn check(&self, mixed_of: impl Fn(u32) -> Mixed) -> Result<(), String> {
        let mut displaced = vec![0u32; self.len];
        for at in 0..self.len {
            for word in self.cells(at).iter().map(|cell| cell.load(Relaxed)) {
                if word == 0 {
                    continue;
                }
                let mixed = mixed_of(self.slot(word));
                if word != self.word(mixed, self.slot(word)) {
                    return Err(format!("word {word:#x} of bucket {at} has another tag"));
                }
                let mut passed = self.home(mixed);
                while passed != at {
                    displaced[passed] += 1;
                    passed = (passed + 1) % self.len;
                }
            }
        }
        for (at, found) in displaced.into_iter().enumerate() {
            let counted = self.bucket(at).displacements();
            if counted.is_some_and(|counted| u32::from(counted) != found) {
                return Err(format!("bucket {at} was passed {found} times, counted {counted:?}"));
            }
        }
        Ok(())
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.is_static() { 0 } else { self.len * size_of::<Bucket>() + size_of::<Table>() }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: `new` has made `len` of them, and this is the table's last owner. The static one
        // is never dropped.
        unsafe { Block(self.buckets).free(self.len) };
    }
}
