//! Removal of a key, or of the entry that a look-up has found.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::core::hooks::Hooks;
use crate::core::index::Mixed;
use crate::core::local::Held;
use crate::core::order::Newcomer;
use crate::core::{ATTEMPTS, Core, Ending, Found};
use crate::ensure::Ensure;
use crate::smr::protect::Protect;
use crate::smr::stripe::{Outside, add};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    pub(crate) fn take_out<Q, R>(
        &self,
        mixed: Mixed,
        key: &Q,
        read: impl Fn(&V) -> R,
        ending: Ending,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let operation = H::operation(self);
        let reader = &self.stripe().reader;
        let result = match H::look(self, reader) {
            Some(hazard) => self.take_out_under(&hazard, mixed, key, read, ending),
            None => {
                let pinned = self.pinned();
                self.take_out_under(&pinned, mixed, key, read, ending)
            }
        };
        drop(operation);
        self.reclaim_if_due();
        result
    }

    fn take_out_under<Q, R>(
        &self,
        protection: &impl Protect,
        mixed: Mixed,
        key: &Q,
        read: impl Fn(&V) -> R,
        ending: Ending,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        for attempt in 1..=ATTEMPTS {
            // None after a lost exchange: removed by another, which answers for it.
            let found: Found<'_> = self.find(protection, mixed, key)?;
            let lapsed = !H::is_live(self, found.slot());
            let ending = if lapsed { Ending::Lapsed } else { ending };
            let gone = self.take_out_found(mixed, found, key, ending);
            if lapsed {
                return None;
            }
            // Replaced at every attempt: it counts as removed before the last replacement.
            if gone || attempt == ATTEMPTS {
                // SAFETY: published until just now, and protected.
                return Some(read(unsafe { self.slab.value(found.slot()) }));
            }
        }
        None
    }

    /// Removes the entry that a look-up found and protects. False if it has changed meanwhile.
    pub(super) fn take_out_found<Q>(
        &self,
        mixed: Mixed,
        found: Found<'_>,
        key: &Q,
        ending: Ending,
    ) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        if !self.index.home(mixed).is_alone(found.cell) {
            let reader = &self.stripe().reader;
            // As in `take_out_duplicates`.
            match H::second_look(self, reader) {
                Some(hazard) => self.take_out_older(&hazard, mixed, found, key),
                None => {
                    let pinned = self.pinned();
                    self.take_out_older(&pinned, mixed, found, key);
                }
            }
        }
        H::before_unlink(self, found.slot());
        // Words change only under a stripe.
        let mut held = self.hold();
        let (cell, word) = self.as_it_is(mixed, found);
        let gone = self.index.unlink_cell(mixed, cell, word);
        if gone {
            self.finish_removal(&mut held, found.slot(), ending);
        }
        gone
    }

    /// The present cell and word of a slot that a look-up has found: the table may have been
    /// replaced since. The caller protects the slot, and holds a stripe.
    pub(crate) fn as_it_is<'c>(&'c self, mixed: Mixed, found: Found<'c>) -> (&'c AtomicU32, u32) {
        let same = (found.cell, found.word());
        match found.cell.load(Relaxed) == found.word() {
            true => same,
            false => self.index.locate(mixed, found.slot()).unwrap_or(same),
        }
    }

    /// Removes a key, with any entry.
    #[cfg(any(feature = "loading", feature = "measure"))]
    pub(crate) fn remove_any<Q>(&self, mixed: Mixed, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.take_out(mixed, key, |_| (), Ending::Removed);
    }

    /// The same as a [`Found`].
    #[cfg(feature = "loading")]
    pub(crate) fn found_as_it_is<'c>(&'c self, mixed: Mixed, found: Found<'c>) -> Found<'c> {
        let (cell, word) = self.as_it_is(mixed, found);
        Found::new(cell, word, found.slot())
    }

    /// Removes the entry that a look-up of the key would find without `found`. Two threads may have
    /// admitted the key, and the one that decides which entry stays may not have done so yet.
    #[cold]
    #[inline(never)]
    fn take_out_older<Q>(&self, protection: &impl Protect, mixed: Mixed, found: Found<'_>, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        for _ in 0..ATTEMPTS {
            let own = (found.cell, found.word(), found.slot());
            let Some((older, first)) = self.duplicate(protection, mixed, own, key) else { return };
            if first {
                // `older` comes before `found`, so it was admitted later: its thread takes `found`
                // out.
                return;
            }
            H::before_unlink(self, older.slot());
            let mut held = self.hold();
            if self.index.unlink_cell(mixed, older.cell, older.word()) {
                self.finish_removal(&mut held, older.slot(), Ending::Outdated);
            }
        }
    }

    /// Ensures that the key of a slot, just published in the cell `own` and not queued yet, is
    /// present once. Two threads may have admitted it, or one may have replaced the other's entry:
    /// the word that a look-up finds first stays. As long as it is not queued no eviction takes it
    /// away and uncovers an older one.
    #[cold]
    #[inline(never)]
    pub(super) fn take_out_duplicates(
        &self,
        held: &mut Held<'_, H::Local>,
        mixed: Mixed,
        own: &AtomicU32,
        (slot, newcomer, found): (u32, &Newcomer, Option<Found<'_>>),
    ) {
        // As it was published: no other thread takes it out, unless it is decided that it leaves.
        let own = (own, self.index.table().word(mixed, slot));
        let outside = Outside::new(held.outside());
        // Compares keys. If that panics, this slot is removed, so that no key is present twice, and
        // queued nevertheless, for the thread that dequeues it.
        let unsettled = Ensure::new(held, |held| {
            H::before_unlink(self, slot);
            if self.index.unlink_cell(mixed, own.0, own.1) {
                self.finish_unqueued(held, slot, Ending::Removed);
            }
            self.queue(held, self.slab.slot_ref(slot), newcomer, found);
        });
        let held = &mut *unsettled.on;
        // The first hazard has `found` to protect. Not a pin where a hazard will do: a
        // thread that is suspended here should hold up next to nothing.
        let reader = &self.stripe().reader;
        match H::second_look(self, reader) {
            Some(hazard) => self.take_out_duplicates_under(&hazard, held, mixed, own, slot),
            None => {
                let pinned = self.pinned();
                self.take_out_duplicates_under(&pinned, held, mixed, own, slot);
            }
        }
        unsettled.waive();
        drop(outside);
    }

    fn take_out_duplicates_under(
        &self,
        protection: &impl Protect,
        held: &mut Held<'_, H::Local>,
        mixed: Mixed,
        own: (&AtomicU32, u32),
        slot: u32,
    ) {
        // SAFETY: published, but not queued, so no thread can take or retire it.
        let key = unsafe { self.slab.key(slot) };
        for _ in 0..ATTEMPTS {
            let own = (own.0, own.1, slot);
            let Some((duplicate, first)) = self.duplicate(protection, mixed, own, key) else {
                return;
            };
            add(&held.local().counts.retries, 1);
            let (cell, word, slot) = if first {
                (own.0, own.1, slot)
            } else {
                (duplicate.cell, duplicate.word(), duplicate.slot())
            };
            H::before_unlink(self, slot);
            if self.index.unlink_cell(mixed, cell, word) {
                // Both were counted as admitted; this one counts as removed.
                match first {
                    true => self.finish_unqueued(held, slot, Ending::Outdated),
                    false => self.finish_removal(held, slot, Ending::Outdated),
                }
            }
            if first {
                return;
            }
        }
    }
}
