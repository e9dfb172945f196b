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

use crate::core::order::queue::{End, Queue};
use crate::core::{Core, likely};
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
    /// What the slots that have come to be held weigh, less those that are held no more.
    held: Charges,
    /// The same of orphans. Where orphans are charged for, less what was dropped.
    orphaned: Charges,
    /// Slots whose content is to be dropped at the end of an operation, by `Refs::next`.
    due: AtomicU32,
    /// Operations of the thread that are under way, one inside the other.
    depth: AtomicU32,
    /// Whether the residency that it has just ended has left an orphan that is charged for.
    charged: AtomicU32,
}

impl Local {
    #[inline(always)]
    fn begin_to_hold(&self, weight: u64) {
        self.held.add(weight);
    }

    #[inline(always)]
    fn cease_to_hold(&self, weight: u64) {
        self.held.subtract(weight);
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
        let orphaned = self.sum(|local| &local.orphaned);
        if !self.hooks.strict {
            return saturated(i128::from(self.weight()) + orphaned);
        }
        // Both parts hold what was charged for and was dropped since, so both may have wrapped; their sum is
        // within the capacity.
        let weights = self.stripes.iter().map(|stripe| stripe.local.counts.weight.load(Relaxed));
        let weight = weights.fold(0, u64::wrapping_add);
        likely(weight.wrapping_add(orphaned as u64), self.capacity())
    }

    /// What is held.
    pub(crate) fn held_usage(&self) -> u64 {
        saturated(self.sum(|local| &local.held))
    }

    fn sum(&self, of: impl Fn(&Local) -> &Charges) -> i128 {
        let load = |count: &AtomicU64| count.load(Relaxed);
        let parts = self.stripes.iter().map(|stripe| of(&stripe.local.features));
        let (low, high) = parts.fold((0u64, 0u64), |(low, high), part| {
            (low.wrapping_add(load(&part.low)), high.wrapping_add(load(&part.high)))
        });
        (i128::from(high.cast_signed()) << LOW_BITS) + i128::from(low.cast_signed())
    }
}

/// Counts that were read one after the other may come to less than nothing; and charges are what users say.
fn saturated(sum: i128) -> u64 {
    sum.clamp(0, u64::MAX.into()) as u64
}

/// Bits of a charge that are counted together: of all slots, 2^29, they come to less than 2^63.
const LOW_BITS: u32 = 33;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// A sum of charges that does not wrap, whatever they are: their lower bits, and the rest, which few have.
#[derive(Debug, Default)]
struct Charges {
    low: AtomicU64,
    high: AtomicU64,
}

impl Charges {
    #[inline(always)]
    fn add(&self, charge: u64) {
        add(&self.low, charge & LOW);
        if charge > LOW {
            add(&self.high, charge >> LOW_BITS);
        }
    }

    #[inline(always)]
    fn subtract(&self, charge: u64) {
        add(&self.low, (charge & LOW).wrapping_neg());
        if charge > LOW {
            add(&self.high, (charge >> LOW_BITS).wrapping_neg());
        }
    }
}
