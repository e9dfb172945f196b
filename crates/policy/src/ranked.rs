//! Slots in the order of their ranks: what `coldest_first` of most policies comes to.
//!
//! The sorts are compiled here, once: as part of each policy under each host they were a fifth
//! of what a build of the simulator compiled. A rank has 128 bits, room for a key and what
//! decides between equals.

use crate::Slot;

/// The slots by rank, the lowest first, and of equals the lower slot. O(n log n).
#[inline(never)]
pub(crate) fn lowest_first(mut ranked: Vec<(u128, Slot)>) -> Vec<Slot> {
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// The slots by rank, the lowest first, and equals as they come. O(n log n).
#[inline(never)]
pub(crate) fn lowest_first_stable(mut ranked: Vec<(u64, Slot)>) -> Vec<Slot> {
    ranked.sort_by_key(|&(rank, _)| rank);
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// The same by a rank that is a number.
#[inline(never)]
pub(crate) fn lowest_rank_first(mut ranked: Vec<(f64, Slot)>) -> Vec<Slot> {
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
    ranked.into_iter().map(|(_, slot)| slot).collect()
}
