//! Decides when holders are counted by thread, and when in the slot's word again.

use super::{Counting, Local};
use crate::smr::refs::{LetGo, Refs, Seen, SlotRefs as _};
use crate::smr::spread::{Own, Table};
use crate::sync::atomic::Ordering::Relaxed;

/// A thread has a slot spread when it has met others so often, there or at other slots.
const MEETINGS: u32 = if cfg!(debug_assertions) { 1 } else { 4 };

/// How often the last one of a cache tries to recount, a millisecond apart, before it leaves the
/// memory as it is.
const LAST_ATTEMPTS: u32 = 1_000;

impl<K, V, S> Counting<K, V, S> {
    /// The calling thread, which is counted in this slot, has met another there: both have changed
    /// the word at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn met_another(&self, slot: u32) {
        let local = self.counts();
        let meetings = local.meetings.load(Relaxed) + 1;
        let is_enough = meetings >= MEETINGS;
        local.meetings.store(if is_enough { 0 } else { meetings }, Relaxed);
        if is_enough {
            self.spread(slot);
        }
    }

    /// Spreads a slot in which the caller is counted, if there is a place for it.
    pub(crate) fn spread(&self, slot: u32) {
        let refs = self.slab.refs(slot);
        // An uncharged entry must leave with its last holder.
        if refs.is_charged() {
            self.hooks.spread.spread(slot, refs);
        }
    }

    /// Counts one more holder in the calling thread's own line. False if the slot is not spread:
    /// the word counts it then.
    #[inline(always)]
    pub(crate) fn hold_more(&self, refs: &Refs) -> bool {
        refs.look().is_spread() && self.counts().own.hold(refs)
    }

    pub(crate) fn owns(&self) -> impl Iterator<Item = (u32, &Own)> {
        self.stripes.numbered().map(|(number, stripe)| (number, &stripe.local.features.own))
    }

    /// Recounts all spread slots.
    #[cold]
    #[inline(never)]
    pub(crate) fn recount_all(&self) {
        self.recount_under(&mut self.hooks.spread.table(), true);
        self.drop_what_is_due();
    }

    /// Recounts the slots that are due, unless another thread is recounting, which then does it.
    #[cold]
    #[inline(never)]
    pub(crate) fn recount_due(&self) {
        // Twice: another thread may have found the table in use, and left its slot to this one.
        for _ in 0..2 {
            let Some(mut table) = self.hooks.spread.try_table() else { break };
            let is_done = self.recount_under(&mut table, false);
            drop(table);
            // Read after the table is released: a thread that finds the table in use has set this
            // before.
            if !is_done || !self.hooks.spread.is_due() {
                break;
            }
        }
        self.drop_what_is_due();
    }

    /// Recounts a slot, if it is spread.
    #[inline(always)]
    fn recount_slot(&self, refs: &Refs) {
        if refs.look().is_spread() {
            self.hooks.spread.recount_soon(refs);
            self.recount_due();
        }
    }

    /// Releases the calling thread's hold of an entry, as [`Refs::let_go_beside_others`], after its
    /// word has been made exact. A frozen entry is spread even with one holder: for such an entry
    /// this waits for the thread that uses the table, where no user code runs.
    pub(crate) fn let_go_beside_others(&self, refs: &Refs) -> Result<(), Seen> {
        if !self.is_aside(refs.slot()) {
            self.recount_slot(refs);
            return refs.let_go_beside_others();
        }
        let seen = refs.look();
        if seen.is_held_once() {
            return Err(seen);
        }
        // Until the caller has released it: a thread that spreads a slot is counted there, and has
        // the table.
        let mut table = self.hooks.spread.table();
        self.hooks.spread.recount_soon(refs);
        self.recount_under(&mut table, false);
        let let_go = refs.let_go_beside_others();
        drop(table);
        self.drop_what_is_due();
        let_go
    }

    /// Whether the calling thread, counted by the entry's word, is the only holder. Content that it
    /// then owns is dropped at the end of its outermost operation.
    pub(crate) fn is_held_once(&self, slot: u32) -> bool {
        let refs = self.slab.refs(slot);
        let is_held_once = refs.look().is_held_once();
        if is_held_once || !self.is_aside(slot) {
            return is_held_once;
        }
        // It was frozen meanwhile, so it may be spread, or about to be: as above.
        let mut table = self.hooks.spread.table();
        if refs.look().has_share() {
            // All, because others will be needed.
            self.recount_under(&mut table, true);
        }
        refs.look().is_held_once()
    }

    fn is_aside(&self, slot: u32) -> bool {
        let header = self.slab.header(slot);
        self.hooks.overlay.as_ref().is_some_and(|overlay| overlay.has_aside(header))
    }

    pub(super) fn drop_what_is_due(&self) {
        let local = self.counts();
        if local.due.load(Relaxed) != 0 {
            self.drop_due(local);
        }
    }

    /// Content that the calling thread then owns is dropped at the end of its outermost operation.
    /// Returns whether nothing is left for the next.
    fn recount_under(&self, table: &mut Table, all: bool) -> bool {
        let refs = |slot: u32| -> &Refs { self.slab.refs(slot) };
        table.recount(
            &self.hooks.spread,
            all,
            refs,
            || self.owns(),
            |slot, let_go| {
                self.let_went(self.counts(), slot, let_go);
            },
        )
    }

    /// The result of releasing a slot.
    #[inline(always)]
    pub(super) fn let_went(&self, local: &Local, slot: u32, let_go: LetGo) {
        match let_go {
            LetGo::Counted => {}
            LetGo::Owned { is_charged } => {
                self.drop_orphan(local, self.slab.weight(slot), is_charged);
                self.note_due(local, slot);
            }
        }
    }

    /// The cache is about to go: no slot is spread any more. If a thread does not pass, which only
    /// one could that the system keeps from running for a second, the core stays.
    pub(super) fn recount_for_good(&self) {
        for _ in 0..LAST_ATTEMPTS {
            let mut table = self.hooks.spread.table();
            table.close();
            if self.recount_under(&mut table, true) {
                return;
            }
            drop(table);
            #[cfg(not(any(loom, shuttle)))]
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.hooks.open.enter();
    }
}
