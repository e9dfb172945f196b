//! The freezer: sets the hottest entries aside, copies them where they can be copied, and gives
//! them back.

use std::hash::{BuildHasher, Hash};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::copies::{Copies, Filling};
use super::{Freezes, Overlay};
use crate::core::Core;
use crate::core::index::{Tour, mix};
use crate::core::order::Order;
use crate::core::order::locked::Locked;
use crate::ensure::Ensure;
use crate::smr::fence;
use crate::smr::refs::SlotRefs as _;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{CHECKED, thread};

/// Homes of the index that are searched under one pin and one heavy fence: a thousand entries.
const HOMES: usize = 64;

/// Number of times that a freeze checks whether readers of the last copies have finished, before it
/// gives up: about ten milliseconds.
const LOOKS: usize = if CHECKED { 2 } else { 200 };
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

/// The hottest part, one in this number, is copied first, while most places are free.
const FIRST: usize = if CHECKED { 2 } else { 8 };

/// Times that a thaw frees segments to queue an entry before it continues without.
const ATTEMPTS: usize = 8;

/// State of the freezer.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// How often something was frozen.
    generation: u64,
    /// Whether the copies published last may be read by look-ups now.
    shown: bool,
    /// The last epoch in which a pin may have begun that reads them.
    shown_until: u64,
    /// Number of entries frozen last; some may have left since.
    entries: u64,
    /// Their slots: with lock-free queues hottest first.
    slots: Vec<u32>,
    /// Entries that were thawed and could not be queued, for lack of segments: in the freezer's
    /// hand.
    stranded: Vec<u32>,
}

impl Work {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        (self.slots.capacity() + self.stranded.capacity()) * size_of::<u32>()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Freezes<K, V>> Core<K, V, S, H> {
    /// The same without an event, for a caller that holds locks or protections. `None` if it can't
    /// be done now.
    pub(crate) fn freeze_untold(&self, share: f64) -> Option<u64> {
        let Some(overlay) = self.hooks.overlay() else { return Some(0) };
        let wanted = self.hooks.wanted_capacity();
        let frozen = self.freeze_alone(overlay, share);
        if wanted.is_some() {
            // A thread that lowers it stores the capacity, then thaws, and may have found this at
            // work until now. Partner: the light fence of `HandleCache::set_capacity`.
            fence::heavy();
            if self.hooks.wanted_capacity() != wanted {
                // Should another be at work by now, it has not begun to look, or comes here as
                // well.
                self.thaw();
                return None;
            }
        }
        frozen
    }

    /// The same while no other thread freezes or thaws.
    fn freeze_alone(&self, overlay: &Overlay, share: f64) -> Option<u64> {
        let mut work = overlay.work.try_lock()?;
        self.thaw_all(overlay, &mut work);
        // The excess could not be evicted.
        if H::exceeds_capacity(self) {
            return None;
        }
        let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
        let count = (self.entries() as f64 * share).round() as u64;
        if count == 0 {
            return Some(0);
        }
        let filling = match self.hooks.copies() {
            None => None,
            Some(copies) => Some(self.begin_filling(copies, count, &work)?),
        };
        // If the user's hasher panics, everything is restored.
        let unfinished = Ensure::new(&mut *work, |work| self.thaw_all(overlay, work));
        let work = &mut *unfinished.on;
        match &self.order {
            Order::Locked(locked) => self.set_lists_aside(filling.as_ref(), locked, share, work),
            _ => self.set_queues_aside(filling.as_ref(), share, work),
        }
        if work.entries == 0 {
            return Some(0);
        }
        H::has_set_aside(self, &work.slots);
        self.declare_whole(overlay, work);
        if let Some(filling) = filling {
            work.generation += 1;
            work.shown = true;
            filling.publish(work.generation);
        }
        overlay.in_use.store(true, Relaxed);
        let entries = work.entries;
        unfinished.waive();
        Some(entries)
    }

    /// Returns frozen entries to the policy, unless another thread freezes or thaws.
    pub(crate) fn thaw(&self) {
        let Some(overlay) = self.hooks.overlay() else { return };
        // Not waited for: user code that runs in there may have called.
        if let Some(mut work) = overlay.work.try_lock() {
            self.thaw_all(overlay, &mut work);
        }
        self.reclaim_if_due();
    }

    /// The slots set aside. For tests.
    pub(crate) fn aside(&self) -> Vec<u32> {
        match &self.order {
            Order::Locked(locked) => locked.aside(),
            _ => {
                let work = self.hooks.overlay().and_then(|overlay| overlay.work.try_lock());
                work.map_or_else(Vec::new, |work| work.slots.clone())
            }
        }
    }

    /// Adds the frozen entries to an order, the hottest last; nothing while they are being changed.
    pub(crate) fn append_frozen(&self, coldest_first: &mut Vec<u32>) {
        let work = self.hooks.overlay().and_then(|overlay| overlay.work.try_lock());
        if let Some(work) = work {
            let queued = |slot: &u32| self.slab.header(*slot).is_loose();
            coldest_first.extend(work.slots.iter().rev().copied().filter(queued));
        }
    }

    /// Makes the cache refuse new entries at once if nothing is left to evict for them.
    fn declare_whole(&self, overlay: &Overlay, work: &Work) {
        if self.holds_more(work) {
            return;
        }
        overlay.whole.store(true, Relaxed);
        // A thread that admits an entry or ends a residency has counted it before this, or finds
        // the flag. Partner: the light fence of `clear_whole`.
        fence::heavy();
        if self.holds_more(work) {
            overlay.whole.store(false, Relaxed);
        }
    }

    /// Whether there are more entries than those that were frozen and are still resident.
    fn holds_more(&self, work: &Work) -> bool {
        let entries = self.entries();
        if entries > work.entries {
            return true;
        }
        let stays = |slot: &&u32| {
            let header = self.slab.header(**slot);
            header.is_aside() && header.is_settled()
        };
        let frozen = match &self.order {
            Order::Locked(locked) => locked.aside_count(),
            _ => work.slots.iter().filter(stays).count() as u64,
        };
        entries > frozen
    }

    /// A table for this number of copies. `None` if a thread does not stop reading the last one.
    fn begin_filling<'f>(
        &self,
        copies: &'f Copies<K, V>,
        entries: u64,
        work: &Work,
    ) -> Option<Filling<'f, K, V>> {
        for _ in 0..LOOKS {
            if self.reclaim.is_past(work.shown_until, &self.stripes) {
                return Some(copies.begin(entries, self.expected_slots()));
            }
            wait();
        }
        None
    }

    /// Copies the entry of a slot that the caller's pin keeps. Returns its hash, and the place of
    /// the copy, or 0 if it does not fit.
    fn copy(&self, filling: &Filling<'_, K, V>, slot: u32) -> (u64, u32) {
        // SAFETY: the caller has seen it in the index or in a place of the policy, so it was not
        // retired, and the pin has named it, which protects it in caches with copies.
        let (key, value) = unsafe { (self.slab.key(slot), self.slab.value(slot)) };
        let hash = self.hasher.hash_one(key);
        // A copy does not show that it has expired.
        let expires = self.slab.header(slot).hint.load(Relaxed) != 0;
        (hash, if expires { 0 } else { filling.add(mix(hash), slot, (key, value)) })
    }

    /// Makes a policy under a lock set its hottest entries aside, and copies them if copies are
    /// used.
    fn set_lists_aside(
        &self,
        filling: Option<&Filling<'_, K, V>>,
        locked: &Locked,
        share: f64,
        work: &mut Work,
    ) {
        let mut walk = locked.walk(self, share);
        let (mut slots, mut copied) = (Vec::new(), Vec::new());
        loop {
            // Slots whose headers are only exchanged need no protection.
            let pinned = filling.map(|_| self.pinned());
            if !walk.next(pinned.as_ref(), &mut slots) {
                return;
            }
            work.entries += slots.len() as u64;
            work.slots.extend_from_slice(&slots);
            let (Some(filling), Some(pinned)) = (filling, pinned) else { continue };
            copied.clear();
            copied.extend(slots.iter().map(|&slot| self.copy(filling, slot)));
            fence::heavy();
            for (&slot, &(hash, at)) in slots.iter().zip(&copied) {
                // SAFETY: the walk has shown it to the pin while it was in a place of the policy's.
                let key = unsafe { self.slab.key(slot) };
                let stays = self.slab.header(slot).is_settled()
                    && self.is_found(&pinned, self.index.mix(hash), slot, key);
                if !stays {
                    filling.take_back(at);
                }
            }
        }
    }

    /// Makes the queues leave their hottest entries alone, and copies them if copies are used.
    fn set_queues_aside(&self, filling: Option<&Filling<'_, K, V>>, share: f64, work: &mut Work) {
        let mut order = self.order.coldest_first(self, &self.segments, &self.stripes);
        if let Some(watch) = self.hooks.overlay().and_then(Overlay::watch) {
            watch.sort_by_rank(&mut order);
        }
        let dynamic = (order.len() as f64 * (1.0 - share)).round() as usize;
        let hottest = &order[dynamic..];
        if let Some(filling) = filling {
            let ranks = self.ranks(hottest);
            let first = (hottest.len() - hottest.len() / FIRST) as u32;
            self.copy_ranked(filling, &ranks, first + 1..=u32::MAX, work);
            self.copy_ranked(filling, &ranks, 1..=first, work);
            work.slots.sort_by_key(|&slot| std::cmp::Reverse(ranks.get(slot as usize).copied()));
        } else {
            // If one has left and another has its slot by now, the other is frozen. It may be
            // unpublished: then the queue drops it when it reaches it, as if it had been published.
            let stays = |slot: &u32| self.slab.header(*slot).set_aside();
            // An uncharged entry leaves with its last holder.
            let is_charged = |slot: &u32| self.slab.refs(*slot).is_charged();
            let hottest = hottest.iter().rev().copied();
            work.slots.extend(hottest.filter(is_charged).filter(stays));
        }
        work.entries = work.slots.len() as u64;
        let mut held = self.hold();
        self.with_queue_ctx(&mut held, |ctx| self.order.compact(ctx));
    }

    /// Freezes the entries with a rank in a range, and copies them.
    fn copy_ranked(
        &self,
        filling: &Filling<'_, K, V>,
        ranks: &[u32],
        wanted: RangeInclusive<u32>,
        work: &mut Work,
    ) {
        let mut copied = Vec::new();
        let mut tour = Tour::of(&self.index);
        let mut ended = false;
        while !ended {
            let pinned = self.pinned();
            copied.clear();
            for _ in 0..HOMES {
                if !tour.next() {
                    ended = true;
                    break;
                }
                while let Some((table, cell)) = tour.cell() {
                    // The rank may belong to the slot's previous entry. A later entry has none.
                    let slot = table.slot(cell.load(Relaxed));
                    let rank = ranks.get(slot as usize);
                    if slot == 0 || !rank.is_some_and(|rank| wanted.contains(rank)) {
                        continue;
                    }
                    let Some((word, slot)) = self.protected(&pinned, table, cell) else { continue };
                    if !tour.take(slot) {
                        continue;
                    }
                    // One that does not fit is found in the index.
                    let (hash, at) = self.copy(filling, slot);
                    copied.push((slot, at, self.index.mix(hash), (cell, word)));
                }
            }
            if !copied.is_empty() {
                fence::heavy();
            }
            for &(slot, at, mixed, own) in &copied {
                // A key that two threads have admitted just now may be found elsewhere.
                let alone = self.index.home(mixed).is_alone(own.0) || {
                    // SAFETY: as above.
                    let key = unsafe { self.slab.key(slot) };
                    self.duplicate(&pinned, mixed, (own.0, own.1, slot), key).is_none()
                };
                // A thread that ends its residency from here on finds the copy.
                if alone && self.slab.header(slot).set_aside() {
                    work.slots.push(slot);
                } else {
                    filling.take_back(at);
                }
            }
            drop(pinned);
        }
    }

    /// Withdraws the copies, and returns the frozen entries to the policy.
    fn thaw_all(&self, overlay: &Overlay, work: &mut Work) {
        overlay.in_use.store(false, Relaxed);
        if let Some(copies) = self.hooks.copies() {
            copies.withdraw();
        }
        if std::mem::take(&mut work.shown) {
            // After the heavy fence of the withdrawal.
            work.shown_until = self.reclaim.end_epoch();
        }
        overlay.whole.store(false, Relaxed);
        if std::mem::take(&mut work.entries) > 0 {
            H::has_taken_back(self);
        }
        if let Order::Locked(locked) = &self.order {
            let replacements = locked.take_back(self);
            // Some slots have left since, and may have other entries by now: those are not set
            // aside.
            for slot in std::mem::take(&mut work.slots).into_iter().chain(replacements) {
                self.slab.header(slot).take_back();
            }
            return;
        }
        // The coldest first, so that the hottest is evicted last. The entries in hand are noted in
        // case a destructor panics.
        loop {
            while let Some(&slot) = work.stranded.last() {
                if !self.queue_thawed(slot) {
                    return;
                }
                work.stranded.pop();
            }
            let Some(slot) = work.slots.pop() else { break };
            if self.slab.header(slot).take_back() {
                work.stranded.push(slot);
            }
        }
        work.slots.shrink_to_fit();
    }

    /// Queues a slot that lay in no queue, or retires it if its residency has ended. False if
    /// there is no segment to put it into.
    fn queue_thawed(&self, slot: u32) -> bool {
        for _ in 0..ATTEMPTS {
            let mut held = self.hold();
            let buffers = &mut *held;
            if buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                self.put_back(&mut held, slot);
                self.slab.header(slot).mark.raise(self.mark_max);
                self.settle(&mut held);
                return true;
            }
            drop(held);
            self.scavenge(true);
        }
        false
    }
}

/// Lets the awaited threads continue.
fn wait() {
    if CHECKED {
        thread::yield_now();
    } else {
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::{Cache, Freezing, Policy, Tested};

    /// Like an entry that a wheel found expired: its slot is taken from its place first.
    #[test]
    fn what_is_taken_out_and_put_back_is_not_set_aside() {
        let mut cache: Tested =
            Cache::builder(100).policy(Policy::Lru).freezing(Freezing::ByHand).build();
        (0..100).for_each(|key| cache.insert(key, String::new()));
        assert_eq!(cache.freeze(1.0), 100);
        let core = &cache.core;
        let slot = core.look_up(core.hashes(&7).1, &7, |slot| slot).expect("it is there");
        assert!(core.slab.header(slot).is_aside());
        let mut held = core.hold();
        assert!(core.with_queue_ctx(&mut held, |ctx| core.order.detach(ctx, slot)));
        core.put_back(&mut held, slot);
        drop(held);
        cache.validate().unwrap();
        // For the policy it is the only one that may be evicted.
        let before = cache.stats();
        (100..102).for_each(|key| cache.insert(key, String::new()));
        assert!(!cache.contains_key(&7));
        assert_eq!(cache.stats().evictions - before.evictions, 2);
        cache.thaw();
        cache.validate().unwrap();
    }
}
