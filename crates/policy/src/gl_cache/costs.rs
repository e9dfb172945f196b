//! The cost of a miss, by which a group's utility is weighted.

use crate::aggregate_delay::{Keep, OfResidents};
use crate::{Slot, Windows};

/// Without fetches that take time a miss waits for one tick.
const AT_ONCE: u64 = 1;
/// Ended bursts, and one window without a burst: the setting of LRU and ARC with the shortest waits
/// in `frazil reproduce delayed-hits`.
const WINDOWS: Windows = Windows::Ended;
const PRIOR: f64 = 1.0;

/// The cost of a miss of each object. Times are in ticks of the host's clock, and the duration of
/// a fetch is `None` if a miss is served at once.
pub trait MissCosts: Clone + Default + Send + 'static {
    /// State of an object while it is fetched.
    type Flight: Copy + Send;
    /// Whether every miss costs 1. Then the other functions are not called.
    const ARE_ONE: bool;

    /// A request misses.
    fn miss(&mut self, now: u64, fetch: Option<u64>) -> Self::Flight;
    /// The object is requested again during its fetch.
    fn delayed_hit(&mut self, flight: &mut Self::Flight, now: u64);
    /// The object becomes resident; its fetch took `took` ticks.
    fn insert(&mut self, slot: Slot, flight: Self::Flight, took: Option<u64>);
    /// A resident is requested.
    fn hit(&mut self, slot: Slot, now: u64);
    /// The cost of a miss of a resident; above 0.
    fn of(&self, slot: Slot) -> f32;
}

/// Every miss costs 1: the aim is hits. It keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualCosts;

impl MissCosts for EqualCosts {
    type Flight = ();
    const ARE_ONE: bool = true;

    #[inline(always)]
    fn miss(&mut self, _now: u64, _fetch: Option<u64>) {}
    #[inline(always)]
    fn delayed_hit(&mut self, _flight: &mut (), _now: u64) {}
    #[inline(always)]
    fn insert(&mut self, _slot: Slot, _flight: (), _took: Option<u64>) {}
    #[inline(always)]
    fn hit(&mut self, _slot: Slot, _now: u64) {}
    #[inline(always)]
    fn of(&self, _slot: Slot) -> f32 {
        1.0
    }
}

/// A miss costs the sum of the waits of all requests during its fetch: the mean aggregate delay of
/// the object, as MAD estimates it. 40 bytes a slot.
#[derive(Clone, Debug, Default)]
pub struct DelayCosts {
    keep: OfResidents,
}

impl MissCosts for DelayCosts {
    type Flight = <OfResidents as Keep>::Flight;
    const ARE_ONE: bool = false;

    fn miss(&mut self, now: u64, fetch: Option<u64>) -> Self::Flight {
        self.keep.miss(0, now, fetch.unwrap_or(AT_ONCE))
    }

    fn delayed_hit(&mut self, flight: &mut Self::Flight, now: u64) {
        self.keep.delayed_hit(flight, now);
    }

    fn insert(&mut self, slot: Slot, flight: Self::Flight, took: Option<u64>) {
        self.keep.insert(slot, flight, took.unwrap_or(AT_ONCE));
    }

    #[inline]
    fn hit(&mut self, slot: Slot, now: u64) {
        self.keep.of_mut(slot).hit(now);
    }

    fn of(&self, slot: Slot) -> f32 {
        (self.keep.of(slot).delay(WINDOWS, PRIOR) as f32).max(f32::MIN_POSITIVE)
    }
}

/// A miss costs the duration of the object's last fetch: from a column of the trace, or by its
/// backend. 4 bytes a slot.
#[derive(Clone, Debug, Default)]
pub struct FetchCosts {
    by_slot: Vec<f32>,
}

impl MissCosts for FetchCosts {
    type Flight = ();
    const ARE_ONE: bool = false;

    fn miss(&mut self, _now: u64, _fetch: Option<u64>) {}

    fn delayed_hit(&mut self, _flight: &mut (), _now: u64) {}

    fn insert(&mut self, slot: Slot, _flight: (), took: Option<u64>) {
        if self.by_slot.len() <= slot.index() {
            self.by_slot.resize(slot.index() + 1, 1.0);
        }
        self.by_slot[slot.index()] = took.unwrap_or(AT_ONCE).max(1) as f32;
    }

    #[inline]
    fn hit(&mut self, _slot: Slot, _now: u64) {}

    fn of(&self, slot: Slot) -> f32 {
        self.by_slot[slot.index()]
    }
}
