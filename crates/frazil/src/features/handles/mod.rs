//! Handles: values that stay for as long as somebody holds them, whatever the cache does
//! (`docs/design/handles.md`).
//!
//! Hooks of their own, and not among those of other caches: here holders are counted, which takes the
//! place of hazards and limbo.

mod counted;
mod detach;
mod hooks;
mod release;

pub(crate) use counted::Counted;
pub(crate) use hooks::Newcomer;

use std::hash::{BuildHasher, Hash};

use crate::core::hooks::Hooks as _;
use crate::core::{Core, Ending};
use crate::features::record::Recorder;
use crate::smr::refs::Open;
use crate::smr::stripe::add;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A core whose values can be held.
pub(crate) type Counting<K, V, S> = Core<K, V, S, Handles>;

/// What such a cache keeps beside what all keep.
pub(crate) struct Handles {
    /// For whom the core waits before it is freed.
    open: Open,
    pub(crate) recorder: Recorder,
    /// Slots to be given back for which there was no segment, by [`Refs::next`](crate::smr::refs::Refs).
    lost: AtomicU32,
    /// Whether what is held is charged against the capacity until it is dropped.
    strict: AtomicBool,
    /// The capacity that was asked for last: more is in force while too much is held.
    asked: AtomicU64,
}

impl Handles {
    pub(crate) fn new(capacity: u64, strict: bool) -> Self {
        Handles {
            open: Open::new(),
            recorder: Recorder::new(),
            lost: AtomicU32::new(0),
            strict: AtomicBool::new(strict),
            asked: AtomicU64::new(capacity),
        }
    }

    /// Whether an entry that is not admitted is given back.
    #[inline(always)]
    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Relaxed)
    }

    pub(crate) fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Relaxed);
    }

    /// The capacity that was asked for last.
    #[inline(always)]
    pub(crate) fn asked_capacity(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

/// What is kept for each thread, which alone writes it.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// What the slots that have come to be held weigh, less those that are held no more; wraps.
    held: AtomicU64,
    /// The same of orphans. Where orphans are charged for, less what was dropped.
    orphaned: AtomicU64,
    /// Slots whose content is to be dropped at the end of an operation, by `Refs::next`.
    due: AtomicU32,
    /// Operations of the thread that are under way, one inside the other.
    depth: AtomicU32,
    /// Whether the residency that it has just ended has left an orphan that is charged for.
    charged: AtomicU32,
}

impl Local {
    fn begin_to_hold(&self, weight: u64) {
        add(&self.held, weight);
    }

    fn cease_to_hold(&self, weight: u64) {
        add(&self.held, weight.wrapping_neg());
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Counting<K, V, S> {
    /// Brings the capacity nearer to what was asked for, where what was held has kept it up.
    #[inline(always)]
    pub(crate) fn shrink_if_asked(&self) {
        if self.exceeds_capacity() {
            self.shrink_further(|| self.hooks.asked_capacity());
        }
    }

    /// Whether more is in force than was asked for.
    #[inline(always)]
    pub(crate) fn exceeds_capacity(&self) -> bool {
        self.capacity() > self.hooks.asked_capacity()
    }

    /// Ends the residency of an entry in which the caller is counted. Whether it was resident.
    pub(crate) fn end_residency(&self, slot: u32) -> bool {
        let operation = Handles::operation(self);
        // SAFETY: the caller is counted.
        let (_, mixed) = self.hashes(unsafe { self.slab.key(slot) });
        let was_resident = self.take_out_slot(mixed, slot, Ending::Removed);
        drop(operation);
        self.reclaim_if_due();
        was_resident
    }
}

impl<K, V, S> Counting<K, V, S> {
    fn counts(&self) -> &Local {
        &self.stripe().local.features
    }

    /// What is resident and what is held, together.
    pub(crate) fn usage(&self) -> u64 {
        settled(self.stripes.iter().fold(0, |sum: u64, stripe| {
            let orphaned = stripe.local.features.orphaned.load(Relaxed);
            sum.wrapping_add(stripe.local.counts.weight.load(Relaxed)).wrapping_add(orphaned)
        }))
    }

    /// What is held.
    pub(crate) fn held_usage(&self) -> u64 {
        settled(
            self.stripes.iter().fold(0, |sum: u64, stripe| {
                sum.wrapping_add(stripe.local.features.held.load(Relaxed))
            }),
        )
    }
}

/// A sum of counts that were read one after the other, which may come to less than nothing.
fn settled(sum: u64) -> u64 {
    if sum > u64::MAX / 2 { 0 } else { sum }
}
