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

use crate::core::Core;
use crate::core::order::queue::{End, Queue};
use crate::smr::refs::Open;
use crate::smr::stripe::add;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A core whose values can be held.
pub(crate) type Counting<K, V, S> = Core<K, V, S, Handles>;

/// What such a cache keeps beside what all keep.
#[derive(Debug)]
pub(crate) struct Handles {
    /// For whom the core waits before it is freed.
    open: Open,
    /// Slots to be given back for which there was no segment, by [`Refs::next`](crate::smr::refs::Refs).
    lost: AtomicU32,
    /// Whether what is held is charged against the capacity until it is dropped.
    strict: bool,
    /// Entries of the lowest priority that were not used yet.
    bottom: Queue,
    /// The capacity that was asked for last: more is in force while too much is held.
    asked: AtomicU64,
}

impl Handles {
    pub(crate) fn new(strict: bool) -> Self {
        Handles {
            open: Open::new(),
            lost: AtomicU32::new(0),
            strict,
            bottom: Queue::new(End::Bottom),
            asked: AtomicU64::new(u64::MAX),
        }
    }

    /// Whether an entry that is not admitted is given back.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
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
        let asked = || self.hooks.asked.load(Relaxed);
        if self.capacity() > asked() {
            self.shrink_further(asked);
        }
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
