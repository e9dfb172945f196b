//! Handles: values that stay as long as they are held, whatever the cache does
//! (`docs/design/handles.md`).
//!
//! They have hooks of their own, not among those of other caches: counted holders replace hazards
//! and limbo.

mod counted;
mod detach;
#[cfg(feature = "freezing")]
mod freezing;
mod hooks;
mod release;
mod spread;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod uncharged;

pub(crate) use counted::Counted;
pub(crate) use hooks::Newcomer;
use uncharged::Uncharged;

use std::hash::{BuildHasher, Hash};

use frazil_policy::Priority;

use crate::core::hooks::Hooks as _;
use crate::core::order::queue::{End, Queue};
use crate::core::slab::Header;
use crate::core::{Core, Ending};
use crate::features::frozen::{self, MaybeOverlay};
use crate::features::record::Recorder;
use crate::smr::refs::{Open, SlotRefs as _};
use crate::smr::spread::{Own, Spread};
use crate::smr::stripe::add;
use crate::sync::CHECKED;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Times that an insertion continues behind held entries.
const LOOKS: usize = if CHECKED { 1 } else { 8 };

/// Evictions after which a cache forgets that one gave up.
const EARNED: u32 = if CHECKED { 1 } else { 64 };

/// A core whose values can be held.
pub(crate) type Counting<K, V, S> = Core<K, V, S, Handles>;

/// The additional state of such a cache.
pub(crate) struct Handles {
    /// The holders for which the core waits before it is freed.
    open: Open,
    spread: Spread,
    pub(crate) recorder: Recorder,
    overlay: MaybeOverlay,
    /// Slots to give back for which there was no segment, linked by
    /// [`Refs::next`](crate::smr::refs::Refs).
    lost: AtomicU32,
    /// Whether held entries are charged against the capacity until they are dropped.
    strict: AtomicBool,
    /// Evictions since one gave up, up to [`EARNED`]. Each earns an insertion one search behind
    /// held entries, which pays for vain searches.
    earned: AtomicU32,
    /// Entries of the lowest priority that were not used yet.
    bottom: Queue,
    uncharged: Uncharged,
    /// The last requested capacity: more is in force while too much is held.
    asked: AtomicU64,
}

impl Handles {
    pub(crate) fn new(capacity: u64, strict: bool, overlay: MaybeOverlay) -> Self {
        Handles {
            open: Open::new(),
            spread: Spread::new(),
            recorder: Recorder::new(),
            overlay,
            lost: AtomicU32::new(0),
            strict: AtomicBool::new(strict),
            earned: AtomicU32::new(EARNED),
            bottom: Queue::new(End::Bottom),
            uncharged: Uncharged::new(),
            asked: AtomicU64::new(capacity),
        }
    }

    /// An entry was evicted.
    #[inline(always)]
    fn earn(&self) {
        let earned = self.earned.load(Relaxed);
        if earned < EARNED {
            // Simultaneous evictions of two threads may count once.
            self.earned.store(earned + 1, Relaxed);
        }
    }

    /// Whether an entry that is not admitted is returned.
    #[inline(always)]
    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Relaxed)
    }

    pub(crate) fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Relaxed);
    }

    /// Whether the entry with this header is frozen: its hits are not reported to the policy.
    #[inline(always)]
    pub(crate) fn is_frozen(&self, header: &Header) -> bool {
        self.overlay.as_ref().is_some_and(|overlay| overlay.claims(header))
    }

    /// Whether anything is frozen.
    pub(crate) fn is_anything_frozen(&self) -> bool {
        self.overlay.as_ref().is_some_and(|overlay| overlay.is_in_use())
    }

    /// Bytes on the heap, without the data of each thread.
    pub(crate) fn heap_bytes(&self) -> usize {
        let overlay = self.overlay.as_ref().map_or(0, |overlay| overlay.heap_bytes());
        self.spread.heap_bytes() + overlay
    }

    /// The last requested capacity.
    #[inline(always)]
    pub(crate) fn asked_capacity(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

/// The data of each thread, written only by it.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) frozen: frozen::Local,
    /// Total weight of orphans, and of uncharged residents.
    orphaned: Charges,
    /// The recent share of new entries without requested high priority, in 65,536ths.
    not_high: AtomicU32,
    /// Slots whose content is dropped at the end of an operation, linked by `Refs::next`.
    due: AtomicU32,
    /// Operations of the thread that are under way, one inside the other.
    depth: AtomicU32,
    /// Holders that it counts itself.
    own: Own,
    /// How often it has met another thread at a slot, since it had one spread.
    meetings: AtomicU32,
}

impl Local {
    /// The priority of a new entry: high only while less than half of the thread's new entries
    /// request it. If all are high, none is.
    #[inline(always)]
    pub(crate) fn grant(&self, priority: Priority) -> Priority {
        const ALL: u32 = 1 << 16;
        let not_high = self.not_high.load(Relaxed);
        let target = if priority == Priority::High { 0 } else { ALL };
        // A mean of the last 64 or so.
        self.not_high.store((63 * not_high + target) / 64, Relaxed);
        let is_granted = priority != Priority::High || not_high > ALL / 2;
        if is_granted { priority } else { Priority::Low }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Counting<K, V, S> {
    /// Lowers usage and the capacity in force towards the requested one, if held entries have kept
    /// them up.
    #[inline(always)]
    pub(crate) fn shrink_if_asked(&self) {
        self.end_uncharged();
        if self.exceeds_capacity() {
            let operation = Handles::operation(self);
            self.shrink_further(|| self.hooks.asked_capacity());
            let is_due = self.hooks.spread.is_due();
            drop(operation);
            // The holders of entries skipped for unknown holders are known by now.
            if is_due && self.exceeds_capacity() {
                self.shrink_further(|| self.hooks.asked_capacity());
            }
        }
    }

    /// Whether the capacity in force exceeds the requested one.
    #[inline(always)]
    pub(crate) fn exceeds_capacity(&self) -> bool {
        let asked = self.hooks.asked_capacity();
        // Entries with a charge of 0 would fit into capacity 0: there the number of entries is the
        // excess.
        self.capacity() > asked || asked == 0 && self.entry_budget.capacity() > 0
    }

    /// Ends the residency of an entry in which the caller is counted. True if it was resident.
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

    /// Total charge of resident and held entries.
    pub(crate) fn usage(&self) -> u64 {
        saturated(i128::from(self.weight()) + self.sum(|local| &local.orphaned))
    }

    /// Total weight of uncharged residents.
    pub(crate) fn uncharged_weight(&self) -> u64 {
        self.hooks.uncharged.weight()
    }

    /// Bytes on the heap.
    pub(crate) fn reserved_bytes(&self) -> usize {
        let locals = self.stripes.iter().map(|stripe| &stripe.local.features);
        let of_threads = locals.map(|local| local.own.heap_bytes() + local.frozen.heap_bytes());
        self.heap_bytes() + self.hooks.heap_bytes() + of_threads.sum::<usize>()
    }

    /// Total charge of held entries.
    pub(crate) fn held_usage(&self) -> u64 {
        let table = self.hooks.spread.table();
        // Slots are counted as handed out before there is memory for them.
        let made = |slot| self.slab.refs_if_made(slot).map(|refs| (slot, refs));
        let made = self.reclaim.used().filter_map(made);
        let held = made.filter(|(slot, refs)| table.is_held(*slot, refs, self.owns()));
        saturated(held.map(|(_, refs)| i128::from(refs.weight())).sum())
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

/// Counts that were read one after the other may add up to less than 0; and charges have any size.
fn saturated(sum: i128) -> u64 {
    sum.clamp(0, u64::MAX.into()) as u64
}

/// Bits of a charge that are counted together: for all slots, 2^29, they sum to less than 2^63.
const LOW_BITS: u32 = 33;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// A sum of charges of any size that does not wrap: the sum of their lower bits, and that of the
/// rest, which few have.
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
