//! The concurrent hash table from keys to slots: reads take no lock.
//!
//! A bucket is one cache line: a header and 15 words of 32 bits, each a tag above and a slot below.
//! A cache of a million entries has 12 bits of tag, and a look-up reads a wrong entry every 450
//! times; each doubling takes a bit, so one of 16 million has 8 bits, and reads one every 28 times.
//! The upper half of the hash, multiplied into range, chooses the home bucket, so any number of
//! buckets is possible. A word that finds its home full goes to the next bucket that is not, and is
//! counted in the header of every bucket it passed, so a look-up reads on only where a word was
//! displaced. At most 60 % full: 1.02 buckets a look-up, where buckets of seven 64-bit words read
//! 1.8 under churn. 7.1 bytes an entry at that load.
//!
//! **Writers** take no lock either; each change is one compare-exchange of the key's
//! word: an admission (0 to the word), a replacement (old to new), a removal or an
//! eviction (to 0). That exchange decides every race about a residency: the thread that ends it
//! reports it and gets its weight back. Two threads may admit one key at the same time, so each
//! looks again afterwards: the word that comes first in the order of the look-up stays, and a
//! thread that sees both removes the other ([`Home::is_alone`]).
//!
//! **It grows**: a table that is full is replaced by one of four times as many buckets, while no
//! writer is at work: a thread that changes a word holds a stripe. Readers notice when they miss
//! ([`Index::has_left`]). `docs/design/growth.md` says why that is right.

mod bucket;
mod table;

use bucket::Bucket;
pub(crate) use bucket::{prefetch_for_reading, prefetch_for_writing};
pub(crate) use table::Table;

use crate::chunks::Chunks;
use crate::sync::CHECKED;
use crate::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Factor between a table and the one that it replaces.
const GROWTH: usize = 4;
/// Buckets of the first table: at least this number, and fewer than [`GROWTH`] times that.
const FIRST: usize = if CHECKED { 1 } else { 16 };

/// A hash, as the index uses it: where to look, and for what. The same in every table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mixed(u64);

impl Mixed {
    /// The bits for the home.
    #[inline(always)]
    fn upper(self) -> u64 {
        self.0 >> 32
    }
}

/// Spreads the hashes of poor hashers over all bits: the upper ones give the home, the lower ones
/// the tag. It uses both halves of the product, because bits of the hash move only upwards in it:
/// keys `k << 32` would share all lower bits of its lower half.
#[inline(always)]
pub(crate) fn mix(hash: u64) -> u64 {
    let product = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// The concurrent hash table.
#[derive(Debug)]
pub(crate) struct Index {
    /// The newest table, or the static one.
    current: AtomicPtr<Table>,
    /// By slot: the upper half of its key's mixed hash, written before the slot is published and
    /// read when the table grows.
    homes: Chunks<AtomicU32>,
    /// Buckets of the first table.
    first: AtomicUsize,
}

/// The caller's part of [`Index::find`] for each word with the right tag.
pub(crate) enum Seen<R> {
    /// This is the one.
    Match(R),
    /// Another key.
    Other,
    /// The word has changed meanwhile: look at it again.
    Changed,
}

/// The highest slot in the words of a table of `len` buckets that replaces one with slots up to
/// `before`; for `words` words, with slots up to `last`. Never lower than before: the capacity may
/// have fallen since, but words keep only the tag bits that they had.
fn last_of_next(before: u32, len: usize, (words, last): (u64, u32)) -> u32 {
    let most = u32::try_from(Table::most(len)).unwrap_or(u32::MAX);
    // Every bit that slots do not need is one more to tell keys apart.
    let wanted = if len >= Table::buckets_for(words) { last } else { most.min(last) };
    wanted.max(before)
}

impl Index {
    /// An empty index for an expected number of words.
    pub(crate) fn new(words: u64) -> Self {
        let mut first = Table::buckets_for(words);
        while first >= FIRST * GROWTH {
            first = first.div_ceil(GROWTH);
        }
        let index = Index {
            current: AtomicPtr::new(std::ptr::null_mut()),
            homes: Chunks::default(),
            first: AtomicUsize::new(first.max(FIRST)),
        };
        #[cfg(not(any(loom, shuttle)))]
        index.current.store(Table::empty().as_ptr(), Relaxed);
        #[cfg(any(loom, shuttle))]
        index.show(Table::new(first.max(FIRST), Table::most(first.max(FIRST)) as u32));
        index
    }

    /// Where a hash is looked for.
    #[inline(always)]
    pub(crate) fn mix(&self, hash: u64) -> Mixed {
        Mixed(mix(hash))
    }

    /// The table, as it is now.
    #[inline(always)]
    pub(crate) fn table(&self) -> &Table {
        // Acquire: partner is the Release of `show`. SAFETY: never null, and its target lives as
        // long as this.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Whether a table in which a look-up found nothing is no longer the current one.
    #[inline(always)]
    pub(crate) fn has_left(&self, table: &Table) -> bool {
        // Acquire: a thread that has read a wiped word sees the replacement of the table; partner
        // is the Release of `Bucket::wipe`.
        fence(Acquire);
        !std::ptr::eq(self.current.load(Relaxed), table)
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, mixed: Mixed) {
        let table = self.table();
        prefetch_for_reading(std::ptr::from_ref(table.bucket(table.home(mixed))).cast());
    }

    /// The slot that a look-up would be shown first, if it is at home: for a prefetch.
    #[inline(always)]
    pub(crate) fn candidate(&self, mixed: Mixed) -> Option<u32> {
        let table = self.table();
        let home = table.bucket(table.home(mixed));
        let candidates = table.candidates(home, mixed);
        let word = (candidates != 0).then(|| home.word(candidates.trailing_zeros()));
        word.map(|word| table.slot(word.load(Relaxed))).filter(|&slot| slot != 0)
    }

    /// Shows `look` every word with the tag of `mixed`, and its slot, until it has found its own.
    pub(crate) fn find<'i, R>(
        &'i self,
        mixed: Mixed,
        look: impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> Option<R> {
        self.find_from(self.table(), mixed, look)
    }

    /// The same, beginning with a table that may have been left.
    pub(crate) fn find_from<'i, R>(
        &'i self,
        mut table: &'i Table,
        mixed: Mixed,
        mut look: impl FnMut(&'i AtomicU32, u32, u32) -> Seen<R>,
    ) -> Option<R> {
        // Each time round, the table has grown.
        loop {
            let found = table.find(mixed, &mut look);
            if found.is_some() || !self.has_left(table) {
                return found;
            }
            table = self.table();
        }
    }

    /// Notes the home of a slot that the caller alone knows.
    #[inline(always)]
    pub(crate) fn note(&self, mixed: Mixed, slot: u32) {
        self.homes.get_or_make(slot).store(mixed.upper() as u32, Relaxed);
    }

    /// The home of a key, for a writer. The caller holds a stripe while it uses it, so that the
    /// table is not replaced meanwhile, or checks its result again.
    #[inline(always)]
    pub(crate) fn home(&self, mixed: Mixed) -> Home<'_> {
        let table = self.table();
        let bucket = table.bucket(table.home(mixed));
        Home { table, bucket, mixed }
    }

    /// Exchanges the word of a resident slot for that of its replacement. False if it was removed
    /// meanwhile. The caller holds a stripe.
    #[inline(always)]
    pub(crate) fn replace(&self, mixed: Mixed, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        self.table().replace(mixed, cell, word, slot)
    }

    /// Takes out a word that `find` has shown. False if it has changed meanwhile. The caller
    /// holds a stripe: a cell with a word is one of the current table.
    #[inline(always)]
    pub(crate) fn unlink_cell(&self, mixed: Mixed, cell: &AtomicU32, word: u32) -> bool {
        self.table().unlink_cell(mixed, cell, word)
    }

    /// Takes out the word of a slot. False if it is not there any more. The caller holds a
    /// stripe.
    #[inline(always)]
    pub(crate) fn unlink(&self, mixed: Mixed, slot: u32) -> bool {
        self.table().unlink(mixed, slot)
    }

    /// Where the word of a slot is. The caller holds a stripe.
    #[cold]
    pub(crate) fn locate(&self, mixed: Mixed, slot: u32) -> Option<(&AtomicU32, u32)> {
        self.find(
            mixed,
            |cell, word, other| {
                if other == slot { Seen::Match((cell, word)) } else { Seen::Other }
            },
        )
    }

    /// Number of slots handed out from which on the table should grow, and from which on it must;
    /// for no more than `words` words, of slots up to `last`.
    pub(crate) fn limits(&self, words: u64, last: u32) -> (u32, u32) {
        let table = self.table();
        if table.is_static() {
            return (0, 0);
        }
        if table.room() >= words && table.last() >= last {
            return (u32::MAX, last);
        }
        let most = u32::try_from(Table::most(table.len())).unwrap_or(u32::MAX);
        let most = last.min(most).min(table.last());
        (u32::try_from(table.room()).unwrap_or(u32::MAX).min(most), most)
    }

    /// A table to replace the current one by. To be made before writers are stopped.
    pub(crate) fn larger(&self, words: u64, last: u32) -> Table {
        let table = self.table();
        let len = match table.room() {
            0 => self.first.load(Relaxed),
            _ => table.len() * GROWTH,
        };
        let table = Table::new(len, last_of_next(table.last(), len, (words, last)));
        table.touch();
        table
    }

    /// Replaces the table, in which there are no more words than `larger` has room for. No other
    /// thread holds a stripe, and none makes a table.
    pub(crate) fn grow(&self, larger: Table) {
        let table = self.table();
        // Otherwise words would lose bits of their slots, and readers would confuse slots.
        assert!(larger.last() >= table.last(), "slots keep their bits");
        for at in 0..table.len() {
            for word in table.cells(at).iter().map(|cell| cell.load(Relaxed)) {
                let slot = table.slot(word);
                if slot != 0 {
                    let upper = self.homes.get_or_make(slot).load(Relaxed);
                    larger.take_over(upper, word, slot);
                }
            }
        }
        self.show(larger);
        if !table.is_static() {
            table.wipe();
        }
    }

    fn show(&self, mut table: Table) {
        // Readers of the previous table may use it for as long as this lives.
        table.before = self.current.load(Relaxed);
        // Release: its buckets, and the words in them; partner is the Acquire of `table`.
        self.current.store(Box::into_raw(Box::new(table)), Release);
    }

    /// All tables ever made, the newest first.
    fn made(&self) -> impl Iterator<Item = &Table> {
        // SAFETY: tables live as long as this.
        let deref = |table: *mut Table| unsafe { table.as_ref() };
        let made = std::iter::successors(deref(self.current.load(Acquire)), move |table| {
            deref(table.before)
        });
        made.filter(|table| !table.is_static())
    }

    /// The inconsistencies of words whose mixed hashes `mixed_of` gives by slot. No other thread
    /// may use the table.
    pub(crate) fn check(&self, mixed_of: impl Fn(u32) -> Mixed) -> Result<(), String> {
        let table = self.table();
        for word in (0..table.len()).flat_map(|at| table.cells(at)) {
            let slot = table.slot(word.load(Relaxed));
            if slot != 0 {
                let noted = self.homes.get_or_make(slot).load(Relaxed);
                if u64::from(noted) != mixed_of(slot).upper() {
                    return Err(format!("slot {slot} is noted for another home"));
                }
            }
        }
        for left in self.made().filter(|&made| !std::ptr::eq(made, table)) {
            if (0..left.len()).flat_map(|at| left.cells(at)).any(|word| word.load(Relaxed) != 0) {
                return Err("a table that was left has a word".to_owned());
            }
        }
        table.check(mixed_of)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.made().map(Table::heap_bytes).sum::<usize>() + self.homes.heap_bytes()
    }
}

/// The home bucket of a key in the table of a writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'i> {
    table: &'i Table,
    bucket: &'i Bucket,
    mixed: Mixed,
}

impl<'i> Home<'i> {
    /// Adds a word for a slot whose key was absent and whose home is noted, and returns its cell.
    /// `None` if no bucket has room.
    #[inline(always)]
    pub(crate) fn admit(self, slot: u32) -> Option<&'i AtomicU32> {
        self.table.admit(self.bucket, self.mixed, slot)
    }

    /// Whether no other word can be that of the key in the cell `own`. After `admit`, whether the
    /// key is present once.
    #[inline(always)]
    pub(crate) fn is_alone(self, own: &AtomicU32) -> bool {
        // SeqCst: between storing a word and looking for another; partner is the same
        // fence in the thread that stored that. On x86 the exchange that stored it is one.
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
        fence(crate::sync::atomic::Ordering::SeqCst);
        let candidates = self.table.candidates(self.bucket, self.mixed);
        candidates & candidates.wrapping_sub(1) == 0
            && self.bucket.owns(own)
            && !self.bucket.displaced()
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let mut table = self.current.load(Relaxed);
        // SAFETY: tables that are not static came from boxes, and this is their last owner.
        unsafe {
            while table.as_ref().is_some_and(|table| !table.is_static()) {
                table = Box::from_raw(table).before;
            }
        }
    }
}

/// A walk through all entries of an index, home by home. If the table is replaced, it continues
/// where it was.
///
/// The home of an entry is the same share of any table, so homes already visited in one are also
/// behind in the next. Only the home being visited is begun anew: entries present at its start and
/// not taken yet are visited again. So an entry that is in the index throughout is taken once, and
/// one that comes or is replaced meanwhile at most once.
///
/// The words of a home are shown against the order of a look-up: should two threads have admitted
/// one key just now, the older comes first.
#[derive(Debug)]
pub(crate) struct Tour<'i> {
    index: &'i Index,
    table: &'i Table,
    /// The home being visited.
    home: usize,
    /// Slots present when its visit began, perhaps in a smaller table, and not taken yet; of the
    /// homes before `end`.
    rest: Vec<u32>,
    end: usize,
    /// Their cells in this table, without those that were shown; and the slot that was shown last.
    cells: Vec<(&'i AtomicU32, u32)>,
    shown: u32,
}

impl<'i> Tour<'i> {
    pub(crate) fn of(index: &'i Index) -> Self {
        Self::from(index, 0)
    }

    /// From a [`cursor`](Tour::cursor) on.
    pub(crate) fn from(index: &'i Index, cursor: u64) -> Self {
        let (rest, cells) = (Vec::new(), Vec::new());
        let table = index.table();
        let home = table.home_of(u32::try_from(cursor).unwrap_or(u32::MAX));
        Tour { index, table, home, rest, end: home, cells, shown: 0 }
    }

    /// Where the entries after this home begin, as a share of any table; this home once more if its
    /// words have left it, perhaps before they were seen. `None` after the last home.
    pub(crate) fn cursor(&self) -> Option<u64> {
        let home = if self.index.has_left(self.table) { self.home } else { self.home + 1 };
        (home < self.table.len()).then(|| self.table.begin_of(home))
    }

    /// The number of the home, which need not exist.
    pub(crate) fn home(&self) -> usize {
        self.home
    }

    /// Advances to the next home with entries. False if there is none. O(1) amortised, unless
    /// hashes are alike.
    pub(crate) fn next(&mut self) -> bool {
        self.next_within(usize::MAX)
    }

    /// As [`Tour::next`], but looks at `homes` homes at most, and stays at the last of them.
    pub(crate) fn next_within(&mut self, homes: usize) -> bool {
        for _ in 0..homes {
            if self.index.has_left(self.table) {
                // The word returned last may have been wiped before it was read.
                self.follow();
            } else if self.home < self.end {
                self.home += 1;
            }
            if self.home >= self.table.len() {
                return false;
            }
            let anew = self.home >= self.end;
            if anew {
                self.rest.clear();
                self.end = self.home + 1;
            }
            self.gather(anew);
            if anew && self.index.has_left(self.table) {
                // Some may have been wiped before they were seen.
                self.end = self.home;
            } else if !self.cells.is_empty() {
                return true;
            }
        }
        false
    }

    /// To the same home in a larger table.
    fn follow(&mut self) {
        let larger = self.index.table();
        let ratio = larger.len() / self.table.len();
        (self.home, self.end) = (self.home * ratio, self.end * ratio);
        self.table = larger;
    }

    /// Finds the words of this home: all, or those of slots still to visit.
    fn gather(&mut self, all: bool) {
        self.cells.clear();
        let mut at = self.home;
        for _ in 0..self.table.len() {
            for cell in self.table.cells(at) {
                // Acquire: the home that was noted for the slot; partner is the Release with which
                // the word was published.
                let slot = self.table.slot(cell.load(Acquire));
                if slot == 0 || !self.is_at_home(slot) {
                    continue;
                }
                if all {
                    self.rest.push(slot);
                }
                if all || self.rest.contains(&slot) {
                    self.cells.push((cell, slot));
                }
            }
            if !self.table.is_passed(at) {
                break;
            }
            at = (at + 1) % self.table.len();
        }
    }

    /// Whether the entry in a slot belongs to the home being visited.
    fn is_at_home(&self, slot: u32) -> bool {
        let upper = self.index.homes.get_or_make(slot).load(Relaxed);
        self.table.home_of(upper) == self.home
    }

    /// The next cell of this home, and its table.
    pub(crate) fn cell(&mut self) -> Option<(&'i Table, &'i AtomicU32)> {
        let (cell, slot) = self.cells.pop()?;
        self.shown = slot;
        Some((self.table, cell))
    }

    /// Takes the entry found in the cell returned last, which is protected. False if it belongs
    /// elsewhere.
    pub(crate) fn take(&mut self, slot: u32) -> bool {
        self.visited(self.shown);
        // It has moved into that cell since, and may have left another cell of this home before.
        if slot != self.shown {
            self.visited(slot);
        }
        self.is_at_home(slot)
    }

    /// A slot is not visited again, should the home be begun anew.
    fn visited(&mut self, slot: u32) {
        // It is the last one, if none was removed.
        if let Some(at) = self.rest.iter().rposition(|&rest| rest == slot) {
            self.rest.swap_remove(at);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::core::grow::{slots_for, words_for};

    /// Number of displaced words, of a table as full as it gets.
    fn displaced(hash: impl Fn(u64) -> u64) -> usize {
        const SLOTS: u32 = 40_000;
        let index = Index::new(SLOTS.into());
        let mixed = |slot: u32| index.mix(hash(slot.into()));
        for slot in 1..=SLOTS {
            if slot > index.limits(SLOTS.into(), SLOTS).0 {
                index.grow(index.larger(SLOTS.into(), SLOTS));
            }
            index.note(mixed(slot), slot);
            assert!(index.home(mixed(slot)).admit(slot).is_some());
        }
        let table = index.table();
        (1..=SLOTS)
            .filter(|&slot| {
                let mixed = mixed(slot);
                let home = table.bucket(table.home(mixed));
                home.matches(table.word(mixed, slot), 0) == 0
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

    /// Tag bits that a word has lost do not return, at any capacity of the next table.
    #[test]
    fn slots_keep_their_bits_when_the_capacity_has_fallen() {
        let capacities = |step: u64| {
            let next = move |&capacity: &u64| Some(capacity + capacity / step + 1);
            std::iter::successors(Some(1), next).take_while(|&capacity| capacity < 1 << 28)
        };
        let needs = |entries| (words_for(entries), slots_for(entries));
        let is_enough = |len, last, (words, slots): (u64, u32)| {
            Table::buckets_for(words) <= len && last >= slots
        };
        let mut fell = 0;
        for before in capacities(50) {
            let (mut len, mut last) = (Index::new(words_for(before)).first.load(Relaxed), 0);
            loop {
                last = Table::mask(last_of_next(last, len, needs(before)));
                if is_enough(len, last, needs(before)) {
                    break;
                }
                len *= GROWTH;
                let lower = capacities(200).take_while(|&after| after < before);
                for after in lower.filter(|&after| !is_enough(len / GROWTH, last, needs(after))) {
                    let next = Table::mask(last_of_next(last, len, needs(after)));
                    assert!(
                        next >= last,
                        "{before}, then {after}: up to {next}, and {last} before"
                    );
                    fell += u32::from(slots_for(after) <= last / 2);
                }
            }
        }
        assert!(fell > 10, "{fell}");
    }

    /// An index with a table so large that its memory is released when it is left, and with more
    /// words of one home than a bucket has. Returns their slots.
    fn crowded(home: impl Fn(usize) -> usize) -> (Index, Vec<u32>) {
        const WORDS: u64 = 1 << 20;
        let index = Index::new(WORDS);
        while index.table().len() < 4_000 {
            index.grow(index.larger(WORDS, 1 << 20));
        }
        let len = index.table().len();
        let upper = ((home(len) as u64) << 32).div_ceil(len as u64) + 1;
        let slots: Vec<u32> = (1..=20).collect();
        for &slot in &slots {
            let mixed = Mixed(upper << 32 | u64::from(slot) << 20);
            index.note(mixed, slot);
            assert!(index.home(mixed).admit(slot).is_some());
        }
        (index, slots)
    }

    /// Also where it was wiped before it was looked at, and where it lay in the first bucket
    /// because the last was full.
    #[test]
    fn a_tour_leaves_out_nothing_that_lay_further_on_when_the_table_was_replaced() {
        for (home, last) in [(2_000, false), (0, true)] {
            for looked_at in 0..20 {
                let (index, slots) = crowded(|len| if last { len - 1 } else { home });
                let mut tour = Tour::of(&index);
                let mut shown = Vec::new();
                while tour.next() {
                    while let Some((table, cell)) = tour.cell() {
                        if shown.len() == looked_at && index.table().len() < 10_000 {
                            index.grow(index.larger(1 << 20, 1 << 20));
                        }
                        let slot = table.slot(cell.load(Relaxed));
                        if slot != 0 && tour.take(slot) {
                            shown.push(slot);
                        }
                    }
                }
                shown.sort_unstable();
                assert_eq!(shown, slots, "of the last: {last}, after {looked_at}");
            }
        }
    }
    /// A slot that was freed and used again in another cell of the home, before its old cell was
    /// shown.
    #[test]
    fn a_tour_takes_an_entry_once_that_has_come_in_a_known_slot() {
        let (index, slots) = crowded(|_| 2_000);
        let mut tour = Tour::of(&index);
        assert!(tour.next());
        let (table, cell) = tour.cell().expect("twenty");
        let word = cell.load(Relaxed);
        let (own, known) = (table.slot(word), slots[3]);
        let upper = u64::from(index.homes.get_or_make(known).load(Relaxed));
        let mixed = |slot: u32| Mixed(upper << 32 | u64::from(slot) << 20);
        assert!(own != known && index.unlink(mixed(known), known));
        assert!(index.replace(mixed(own), cell, word, known));
        assert!(tour.take(known));
        index.grow(index.larger(1 << 20, 1 << 20));
        let mut shown = vec![own, known];
        while tour.next() {
            while let Some((table, cell)) = tour.cell() {
                let slot = table.slot(cell.load(Relaxed));
                if slot != 0 && tour.take(slot) {
                    shown.push(slot);
                }
            }
        }
        shown.sort_unstable();
        assert_eq!(shown, slots);
    }
}
