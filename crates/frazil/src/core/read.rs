//! Look-ups: hits, misses, and reads that leave no trace.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::core::hooks::Hooks;
use crate::core::index::Mixed;
use crate::core::local::Reads;
use crate::core::{Core, Ending, Found, Spot};
use crate::smr::protect::{Hazard, Protect};
use crate::smr::stripe::add;

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// A clone of the value of a key with this hash, and a hit or a miss.
    #[inline(always)]
    pub(crate) fn get<Q>(&self, hash: u64, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let stripe = self.stripe();
        match Hazard::of(&stripe.reader) {
            Some(hazard) => self.get_under(&hazard, &stripe.local.reads, hash, key).cloned(),
            None => self.get_nested(&stripe.local.reads, hash, key),
        }
    }

    /// The value of a key, which is protected, and a hit or a miss.
    #[inline(always)]
    pub(crate) fn get_under<'p, Q>(
        &'p self,
        protection: &'p impl Protect,
        reads: &Reads,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        // Compiled twice, so that caches in which nothing is ever set aside pay nothing for it.
        if self.hooks.sets_aside() {
            if let Some(value) = H::answer(self, protection, hash, key) {
                add(&reads.hook_hits, 1);
                return Some(value);
            }
            return self.get_indexed::<_, true>(protection, reads, hash, key);
        }
        self.get_indexed::<_, false>(protection, reads, hash, key)
    }

    #[inline(always)]
    fn get_indexed<'p, Q, const ASIDE: bool>(
        &'p self,
        protection: &'p impl Protect,
        reads: &Reads,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let mixed = self.index.mix(hash);
        let Some(found) = self.find::<_, Spot<'_>>(protection, mixed, key) else {
            reads.miss(hash);
            return None;
        };
        if !H::is_live_in_use(self, found.slot, found.at) {
            self.miss_lapsed(key, found.slot);
            return None;
        }
        if ASIDE && self.hooks.claims(self.slab.header_at(found.at)) {
            add(&reads.hook_hits, 1);
        } else {
            add(&reads.hits, 1);
            self.touch(found);
        }
        // SAFETY: published and protected.
        Some(unsafe { self.slab.value_at(found.at) })
    }

    /// From user code that another look-up of this thread runs.
    #[cold]
    #[inline(never)]
    fn get_nested<Q>(&self, reads: &Reads, hash: u64, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.get_under(&self.pinned(), reads, hash, key).cloned()
    }

    /// A get has found a lapsed entry in this protected slot. It hashes and searches the word
    /// again, so that a hit need not keep either during the hook.
    #[cold]
    #[inline(never)]
    fn miss_lapsed<Q: Hash + ?Sized>(&self, key: &Q, slot: u32) {
        let (hash, mixed) = self.hashes(key);
        self.stripe().local.reads.miss(hash);
        let operation = H::operation(self);
        H::before_unlink(self, slot);
        let mut held = self.hold();
        if self.index.unlink(mixed, slot) {
            self.finish_removal(&mut held, slot, Ending::Lapsed);
        }
        drop(held);
        drop(operation);
        self.reclaim_if_due();
    }

    /// Removes a lapsed entry, unless another thread has changed the word.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_out_lapsed(&self, mixed: Mixed, found: Found<'_>) {
        let _operation = H::operation(self);
        H::before_unlink(self, found.slot());
        let mut held = self.hold();
        let (cell, word) = self.as_it_is(mixed, found);
        if self.index.unlink_cell(mixed, cell, word) {
            self.finish_removal(&mut held, found.slot(), Ending::Lapsed);
        }
    }

    /// A clone of the value of a key, without a trace.
    #[inline]
    pub(crate) fn peek<Q>(&self, mixed: Mixed, key: &Q) -> Option<V>
    where
        Q: Equivalent<K> + ?Sized,
        V: Clone,
    {
        // SAFETY: `look_up` shows a slot that is published and protected.
        self.look_up(mixed, key, |slot| unsafe { self.slab.value(slot) }.clone())
    }

    /// Reads the content of the slot of `key`, without a trace. The slot is published, and
    /// protected meanwhile.
    #[inline(always)]
    pub(crate) fn look_up<Q, R>(
        &self,
        mixed: Mixed,
        key: &Q,
        read: impl FnOnce(u32) -> R,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let reader = &self.stripe().reader;
        if let Some(hazard) = Hazard::of(reader) {
            let found: Spot<'_> = self.find(&hazard, mixed, key)?;
            H::is_live(self, found.slot).then(|| read(found.slot))
        } else {
            let pinned = self.pinned();
            let found: Spot<'_> = self.find(&pinned, mixed, key)?;
            H::is_live(self, found.slot).then(|| read(found.slot))
        }
    }

    /// The weight of an entry. Runs user code, the weigher.
    pub(crate) fn weigh(&self, key: &K, value: &V) -> u64 {
        self.weigher.as_ref().map_or(1, |weigh| weigh(key, value))
    }

    /// The weight of `key`'s entry, without a trace; 1 if there is none.
    pub(crate) fn weight_of<Q>(&self, mixed: Mixed, key: &Q) -> u64
    where
        Q: Equivalent<K> + ?Sized,
    {
        if self.weights.is_none() {
            return 1;
        }
        let pinned = self.pinned();
        self.find(&pinned, mixed, key).map_or(1, |found: Spot<'_>| self.slab.weight(found.slot))
    }
}
