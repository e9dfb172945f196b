//! Classes of lifetimes, and deadlines of three bytes.
//!
//! A segment has items of one class, so that the whole segment expires not long after its first
//! item. A class is a power of four of milliseconds. There are only twenty, because each may have
//! a segment that is not yet full. Within a class, an item's deadline counts from its segment's
//! base in 2^22ths of the longest lifetime, and at least in milliseconds. So an item expires up
//! to a millionth early, never late.

use crate::segments::Segment;
use crate::sync::atomic::Ordering::Relaxed;

/// Class 0 has no deadline.
pub(crate) const CLASSES: usize = 21;
/// A longer lifetime counts as none: 34 years.
const LIFETIME_MS_MAX: u64 = 1 << 40;
/// Units in the longest lifetime of a class.
const UNITS_SHIFT: u32 = 22;
/// The latest deadline that three bytes hold.
pub(crate) const PACKED_MAX: u32 = (1 << 24) - 1;
/// A segment takes items for twice the longest lifetime of its class, so that their deadlines fit,
/// and at least for this time.
const OPEN_MS_MIN: u64 = 1 << 15;

/// The class of items that end in `lifetime_ms`, which is not 0.
pub(crate) fn class_of(lifetime_ms: u64) -> usize {
    if lifetime_ms >= LIFETIME_MS_MAX { 0 } else { lifetime_ms.ilog2() as usize / 2 + 1 }
}

/// The unit of deadlines of the class, in milliseconds.
pub(crate) fn unit_ms(class: usize) -> u64 {
    ((1 << (2 * class)) >> UNITS_SHIFT).max(1)
}

/// The base of a segment that is opened now: a whole number of units, so that a deadline does not
/// change when its item moves to another segment.
pub(crate) fn base_ms(class: usize, now_ms: u64) -> u64 {
    now_ms / unit_ms(class) * unit_ms(class)
}

/// Whether a segment is too old for new items of its class.
pub(crate) fn is_over(segment: &Segment, class: usize, now_ms: u64) -> bool {
    let base = segment.base_ms.load(Relaxed);
    let unit = unit_ms(class);
    class > 0 && now_ms.saturating_sub(base) / unit > open_ms_max(class) / unit
}

fn open_ms_max(class: usize) -> u64 {
    (2 << (2 * class)).max(OPEN_MS_MIN)
}

/// A deadline as stored in an item of the segment.
pub(crate) fn pack(segment: &Segment, class: usize, deadline_ms: u64) -> u32 {
    let base = segment.base_ms.load(Relaxed);
    (deadline_ms.saturating_sub(base) / unit_ms(class)).min(u64::from(PACKED_MAX)) as u32
}

/// When an item of the segment ends.
pub(crate) fn unpack(segment: &Segment, class: usize, packed: u32) -> u64 {
    segment.base_ms.load(Relaxed) + u64::from(packed) * unit_ms(class)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_early_by_little_and_never_late() {
        let segment = Segment::default();
        for exponent in 0..40 {
            for lifetime in [1u64 << exponent, (1 << exponent) + 1, (2 << exponent) - 1] {
                let class = class_of(lifetime);
                if class == 0 {
                    assert!(lifetime >= LIFETIME_MS_MAX);
                    continue;
                }
                let opened = 1_234_567;
                segment.base_ms.store(base_ms(class, opened), Relaxed);
                let last = opened + open_ms_max(class);
                for now in [opened, last] {
                    assert!(!is_over(&segment, class, now));
                    let deadline = now + lifetime;
                    let kept = unpack(&segment, class, pack(&segment, class, deadline));
                    assert!(kept <= deadline);
                    assert!((deadline - kept) as f64 <= 1e-6 * lifetime as f64, "{lifetime}");
                }
                assert!(is_over(&segment, class, last + 2 * unit_ms(class)));
            }
        }
        assert_eq!(class_of(u64::MAX), 0);
    }
}
