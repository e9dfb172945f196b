//! The mark beside an entry: `visited`, or a small saturating count.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::ranked::lowest_first_stable;
use crate::{Host, Slot};

/// A count of 0 to 255 that readers raise and the eviction hand lowers.
///
/// Plain loads and stores, never a read-modify-write: a mark that a reader sets
/// while the hand lowers it may be lost. That may cost one second chance but
/// not correctness, and a hit needs no locked instruction.
///
/// ```
/// use frazil_policy::Mark;
/// let mark = Mark::default();
/// assert!(mark.raise(1));
/// assert!(!mark.raise(1)); // set already: no store
/// assert!(mark.lower());
/// assert!(!mark.lower());
/// ```
#[derive(Debug, Default)]
pub struct Mark(AtomicU8);

impl Mark {
    /// Raises the count by one up to `max`; stores only if that changes it.
    /// True if it changed.
    #[inline]
    pub fn raise(&self, max: u8) -> bool {
        let count = self.0.load(Relaxed);
        let raised = count < max;
        if raised {
            self.0.store(count + 1, Relaxed);
        }
        raised
    }

    /// Lowers the count by one. False if it was 0.
    #[inline]
    pub fn lower(&self) -> bool {
        let count = self.0.load(Relaxed);
        let marked = count > 0;
        if marked {
            self.0.store(count - 1, Relaxed);
        }
        marked
    }

    /// The count.
    #[inline]
    pub fn count(&self) -> u8 {
        self.0.load(Relaxed)
    }

    /// Sets the count to 0.
    #[inline]
    pub fn clear(&self) {
        self.set(0);
    }

    /// Sets the count.
    #[inline]
    pub fn set(&self, count: u8) {
        self.0.store(count, Relaxed);
    }
}

/// The order of eviction of a hand that visits slots in the given order, lap after lap, and lowers
/// the count of each slot that it skips.
pub(crate) fn by_laps(slots: Vec<Slot>, host: &impl Host<Mark>) -> Vec<Slot> {
    // Each count is read once: a sort must not see readers raise it.
    lowest_first_stable(
        slots.into_iter().map(|slot| (host.meta(slot).count().into(), slot)).collect(),
    )
}
