//! Release of a handle: the last holder drops the content, and the last one of a dropped cache
//! frees it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use super::{Counting, Local};
use crate::ensure::Ensure;
use crate::smr::refs::{Closed, Refs, Released, Seen};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl<K, V, S> Counting<K, V, S> {
    /// Releases the calling thread's hold of a slot, inside a call of the cache. Content that it
    /// then owns is dropped at the end of its outermost operation.
    #[inline(always)]
    pub(super) fn let_go(&self, local: &Local, slot: u32) {
        self.let_went(local, slot, self.slab.refs(slot).let_go());
    }

    /// The same for a slot that was found ended when it was counted.
    #[cold]
    #[inline(never)]
    pub(super) fn give_back(&self, local: &Local, slot: u32) {
        self.let_go(local, slot);
    }

    /// Subtracts an orphan that is about to be dropped.
    #[inline(always)]
    pub(super) fn drop_orphan(&self, local: &Local, weight: u64, is_charged: bool) {
        local.orphaned.subtract(weight);
        if is_charged && let Some(weights) = &self.weights {
            weights.refund(weight);
        }
    }

    /// Notes a slot whose content the calling thread owns.
    #[inline(always)]
    pub(super) fn note_due(&self, local: &Local, slot: u32) {
        self.slab.refs(slot).next.store(local.due.load(Relaxed), Relaxed);
        local.due.store(slot, Relaxed);
    }

    /// Drops the content that the calling thread owns, unless it is inside an operation, whose
    /// outermost one does it.
    #[inline(never)]
    pub(super) fn drop_due(&self, local: &Local) {
        if local.depth.load(Relaxed) != 0 {
            return;
        }
        let mut core = self;
        // Should one panic, the others are dropped all the same.
        let others = Ensure::new(&mut core, |core| core.drop_unwinding(local));
        if !std::thread::panicking() {
            others.on.drop_all_due(local);
        }
        drop(others);
    }

    /// The same while the thread unwinds: a destructor's panic would abort the process, and there
    /// already is a panic to report.
    fn drop_unwinding(&self, local: &Local) {
        while local.due.load(Relaxed) != 0 {
            let dropped = catch_unwind(AssertUnwindSafe(|| self.drop_all_due(local)));
            // The payload's own destructor may panic as well.
            dropped.err().into_iter().for_each(std::mem::forget);
        }
    }

    fn drop_all_due(&self, local: &Local) {
        loop {
            // One by one: a destructor may come here again.
            let slot = local.due.load(Relaxed);
            if slot == 0 {
                return;
            }
            local.due.store(self.slab.refs(slot).next.load(Relaxed), Relaxed);
            self.drop_owned(slot);
        }
    }

    /// The slots whose content waits to be dropped. No operation runs.
    pub(crate) fn due_slots(&self) -> Vec<u32> {
        let lists = self.stripes.iter().map(|stripe| &stripe.local.features.due);
        lists.flat_map(|due| self.listed(due.load(Relaxed))).collect()
    }

    /// The slots that wait to be given back. No operation runs.
    pub(crate) fn lost_slots(&self) -> Vec<u32> {
        self.listed(self.hooks.lost.load(Relaxed)).collect()
    }

    fn listed(&self, first: u32) -> impl Iterator<Item = u32> {
        let some = |slot: u32| (slot != 0).then_some(slot);
        let next = move |slot: &u32| some(self.slab.refs(*slot).next.load(Relaxed));
        std::iter::successors(some(first), next)
    }

    /// Drops content that the caller owns, and gives the slot back if its queue has released it.
    fn drop_owned(&self, slot: u32) {
        let mut slot = slot;
        // Also if that panics.
        let dropped = Ensure::new(&mut slot, |slot| {
            if self.slab.refs(*slot).dropped() {
                self.give_slot_back(*slot);
            }
        });
        // SAFETY: it is the caller's.
        unsafe { self.slab.drop_content(*dropped.on) };
    }

    fn give_slot_back(&self, slot: u32) {
        let mut held = self.hold();
        let buffers = &mut *held;
        if buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            return self.reclaim.retire(&self.segments, buffers, slot);
        }
        drop(held);
        let (lost, next) = (&self.hooks.lost, &self.slab.refs(slot).next);
        let mut first = lost.load(Relaxed);
        loop {
            next.store(first, Relaxed);
            // Release: the link; partner is the Acquire of `find_lost`.
            match lost.compare_exchange(first, slot, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Gives back slots that could not be given back before.
    #[inline(always)]
    pub(crate) fn find_lost(&self) {
        if self.hooks.lost.load(Relaxed) != 0 {
            self.find_lost_slots();
        }
    }

    #[cold]
    fn find_lost_slots(&self) {
        // All at once: no link changes that another reads. Acquire: partner is the Release of the
        // thread that has lost them.
        let mut slot = self.hooks.lost.swap(0, Acquire);
        while slot != 0 {
            let next = self.slab.refs(slot).next.load(Relaxed);
            self.give_slot_back(slot);
            slot = next;
        }
    }

    /// Releases a slot for a handle, which may outlive the cache. Returns whether it has dropped
    /// its content.
    ///
    /// # Safety
    ///
    /// They belong to a slot of this core, which exists as long as a holder is counted in the slot;
    /// the caller is counted, and this is its last access to both.
    #[inline(always)]
    pub(crate) unsafe fn release(this: NonNull<Self>, refs: &Refs) -> bool {
        let seen = refs.look();
        debug_assert!(seen.count() > 0, "a handle was released once too often");
        if seen.is_spread() {
            // SAFETY: the caller is counted. Atomics, which may go while they are borrowed.
            let own = unsafe { &this.as_ref().counts().own };
            if own.release(refs) {
                return false;
            }
        } else if refs.release_at_once(seen) {
            return false;
        }
        // SAFETY: as the caller promises.
        unsafe { Self::release_slowly(this, refs, seen) }
    }

    /// The same for the last of an orphan, or if others have changed the word that was `seen`.
    ///
    /// # Safety
    ///
    /// As for [`release`](Self::release).
    #[cold]
    #[inline(never)]
    unsafe fn release_slowly(this: NonNull<Self>, refs: &Refs, seen: Seen) -> bool {
        // Before the release.
        let slot = refs.slot();
        if !seen.is_spread() && !seen.is_last_of_orphan() {
            // SAFETY: the caller is counted.
            unsafe { this.as_ref() }.met_another(slot);
        }
        // SAFETY: the caller is counted. An atomic, which may go while it is borrowed.
        let open = unsafe { &this.as_ref().hooks.open };
        match refs.release(open) {
            Released::Counted { waits: 0 } => false,
            Released::Counted { waits } => {
                // SAFETY: it waits for the caller `waits` times, and this is the caller's last
                // look.
                unsafe { Self::leave(this, waits) };
                false
            }
            // SAFETY: as above, and the content is the caller's.
            Released::Owned { is_closed, is_charged, waits } => unsafe {
                Self::drop_released(this, slot, (is_closed, is_charged), waits);
                true
            },
        }
    }

    /// Drops content that a handle was the last to release.
    ///
    /// # Safety
    ///
    /// The content is the caller's, for whom the core waits `waits` times, and this is the caller's
    /// last look at the core.
    #[cold]
    #[inline(never)]
    unsafe fn drop_released(
        this: NonNull<Self>,
        slot: u32,
        (is_closed, is_charged): (bool, bool),
        mut waits: u64,
    ) {
        // Also if the destructor panics. SAFETY: the last look.
        let left = Ensure::new(&mut waits, |waits| unsafe { Self::leave(this, *waits) });
        // SAFETY: the core waits.
        let core = unsafe { this.as_ref() };
        if is_closed {
            // SAFETY: the caller owns it. The slot is not reused.
            unsafe { core.slab.drop_content(slot) };
        } else {
            core.drop_orphan(core.counts(), core.slab.weight(slot), is_charged);
            core.drop_owned(slot);
        }
        drop(left);
    }

    /// Lowers the number of holders for which the core waits, and frees the core at 0.
    ///
    /// # Safety
    ///
    /// It waits for the caller `waits` times, and this is the caller's last look at it.
    unsafe fn leave(this: NonNull<Self>, waits: u64) {
        // SAFETY: it waits for the caller.
        if unsafe { this.as_ref() }.hooks.open.leave(waits) {
            // SAFETY: it came from a box, and no thread uses it any more.
            drop(unsafe { Box::from_raw(this.as_ptr()) });
        }
    }

    /// Drops all that is not held, and leaves the rest, and the core, to those who hold it.
    ///
    /// # Safety
    ///
    /// The core came from a box, and only holders use it.
    pub(crate) unsafe fn close(this: NonNull<Self>) {
        let mut core = this;
        // Despite panics. SAFETY: as below, and the last access.
        let left = Ensure::new(&mut core, |core| unsafe { Self::leave(*core, 1) });
        // SAFETY: it waits for its cache.
        let core = unsafe { this.as_ref() };
        core.recount_for_good();
        let mut slots = core.reclaim.used();
        // Should a destructor panic, the others are run all the same.
        let others = Ensure::new(&mut slots, |slots| core.close_slots(slots));
        core.close_slots(others.on);
        drop(others);
        drop(left);
    }

    fn close_slots(&self, slots: &mut std::ops::Range<u32>) {
        for stripe in self.stripes.iter() {
            self.drop_all_due(&stripe.local.features);
        }
        for slot in slots {
            if self.slab.refs(slot).close(&self.hooks.open) == Closed::Owned {
                // SAFETY: no holder is counted in it, nor can be.
                unsafe { self.slab.drop_content(slot) };
            }
        }
    }
}
