//! Slots in the order of their ranks: the common part of `coldest_first` of most policies.
//!
//! The sorts are compiled here, once: compiled for each policy under each host they were a
//! fifth of the simulator's build. A rank has 128 bits, room for a key and a tie-breaker.

use crate::Slot;

/// The slots by rank, the lowest first, the lower slot first among equals. O(n log n).
#[inline(never)]
pub(crate) fn lowest_first(mut ranked: Vec<(u128, Slot)>) -> Vec<Slot> {
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// The slots by rank, the lowest first, equal ones in their given order. O(n log n).
#[inline(never)]
pub(crate) fn lowest_first_stable(mut ranked: Vec<(u64, Slot)>) -> Vec<Slot> {
    ranked.sort_by_key(|&(rank, _)| rank);
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// The slots by a rank that is a number, as above.
#[inline(never)]
pub(crate) fn lowest_rank_first(mut ranked: Vec<(f64, Slot)>) -> Vec<Slot> {
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
    ranked.into_iter().map(|(_, slot)| slot).collect()
}
