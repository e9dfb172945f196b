//! The cost of an object's absence: its mean aggregate delay (paper 5, §4.2).
//!
//! If an object is fetched at `t` and the fetch takes `Z`, then every request for it until
//! `t + Z` waits for the rest of the fetch. The sum of these waits is its *aggregate delay*.
//! It is estimated by windows of `Z` that begin at the first request after the last window,
//! as if that request had missed, whether the object is resident or not.
//!
//! There are two means ([`Windows`]): of all windows, including the open one, as the paper's
//! authors have it for LRU, and of ended windows only, as for ARC and LHD.
//!
//! Counters of 40 bytes an object. [`OfResidents`] keeps those of residents: they begin at
//! the miss, are in the policy's [`Pending`](crate::Policy::Pending) while the object is
//! fetched, and are dropped at its eviction. [`OfAll`] keeps those of all objects ever
//! requested, without a bound: the paper's strawman, for the simulator.

use std::collections::HashMap;

use crate::{Estimate, Slot};

/// Weight of one fetch in the moving average of a known object's fetch durations.
const LEARNING: f32 = 0.25;

/// Which windows an object's aggregate delay is the mean of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Windows {
    /// All, including the last, in which more requests may arrive.
    #[default]
    All,
    /// Windows that have ended because another has begun. The open window is used while there is
    /// neither an ended one nor a [prior](Estimate::prior).
    Ended,
}

impl Windows {
    pub(crate) const ALL: [Windows; 2] = [Windows::All, Windows::Ended];
    pub(crate) const NAMES: [&str; 2] = ["all", "ended"];
}

/// Counters of an object's requests.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// When the last window began.
    window: u64,
    /// When it was requested last.
    last: u64,
    /// Sum of the aggregate delays of all windows but the last, in ticks.
    ended: f64,
    /// Aggregate delay of the last window, so far.
    open: f64,
    /// Number of windows; in flight, number of requests in the one that began with the miss.
    windows: u32,
    /// Duration of its fetch, in ticks.
    fetch: f32,
}

const _: () = assert!(size_of::<Counters>() == 40);

impl Counters {
    /// Counters of an object that is requested for the first time.
    fn first(now: u64, fetch: u64) -> Self {
        let fetch = fetch as f32;
        Counters { window: now, last: now, ended: 0.0, open: fetch.into(), windows: 1, fetch }
    }

    /// A request for an object that may be resident.
    #[inline]
    fn request(&mut self, now: u64) {
        let (since, fetch) = (now.saturating_sub(self.window) as f64, f64::from(self.fetch));
        self.last = now;
        // Within a single tick only the request that missed waits.
        if since < fetch && fetch > 1.0 {
            self.open += fetch - since;
            return;
        }
        self.ended += self.open;
        if self.windows == u32::MAX {
            (self.windows, self.ended) = (self.windows / 2, self.ended / 2.0);
        }
        self.windows += 1;
        self.window = now;
        self.open = fetch;
    }

    /// A request during the fetch with which the counters began. It belongs to the same window,
    /// however long the fetch takes.
    fn delayed(&mut self, now: u64) {
        self.last = now;
        self.open += f64::from(self.fetch) - now.saturating_sub(self.window) as f64;
        self.windows = self.windows.saturating_add(1);
    }

    /// The fetch has ended after `took` ticks: each of its requests waited for that end.
    fn land(&mut self, took: u64) {
        let took = took as f32;
        self.open += f64::from(self.windows) * (f64::from(took) - f64::from(self.fetch));
        self.windows = 1;
        self.fetch = took;
    }

    /// The mean aggregate delay of these windows, in ticks, with `prior` windows without a burst
    /// added.
    #[inline]
    pub(crate) fn delay(&self, windows: Windows, prior: f64) -> f64 {
        let (sum, count) = match windows {
            Windows::Ended if self.windows > 1 || prior > 0.0 => (self.ended, self.windows - 1),
            _ => (self.ended + self.open, self.windows),
        };
        (sum + prior * f64::from(self.fetch)) / (f64::from(count) + prior)
    }
}

/// Where counters are kept, and for how long.
pub trait Keep: Clone + Send + 'static {
    /// State of an object while it is fetched.
    type Flight: Copy + Send;

    /// A request misses; a typical fetch takes `fetch` ticks.
    fn miss(&mut self, hash: u64, now: u64, fetch: u64) -> Self::Flight;
    /// The object is requested again during its fetch.
    fn delayed_hit(&mut self, flight: &mut Self::Flight, now: u64);
    /// The object becomes resident; its fetch took `took` ticks.
    fn insert(&mut self, slot: Slot, flight: Self::Flight, took: u64);
    /// The counters of a resident.
    fn of(&self, slot: Slot) -> &Counters;
    /// The counters of a resident, mutable.
    fn of_mut(&mut self, slot: Slot) -> &mut Counters;
    /// The shortest fetch so far: no aggregate delay is below it.
    fn shortest(&self) -> u64;
}

/// Counters of residents and of objects in flight. 40 bytes a slot.
#[derive(Clone, Debug)]
pub struct OfResidents {
    by_slot: Vec<Counters>,
    shortest: u64,
}

impl Default for OfResidents {
    fn default() -> Self {
        OfResidents { by_slot: Vec::new(), shortest: u64::MAX }
    }
}

impl Keep for OfResidents {
    type Flight = Counters;

    #[inline]
    fn miss(&mut self, _hash: u64, now: u64, fetch: u64) -> Counters {
        Counters::first(now, fetch)
    }

    #[inline]
    fn delayed_hit(&mut self, flight: &mut Counters, now: u64) {
        flight.delayed(now);
    }

    #[inline]
    fn insert(&mut self, slot: Slot, mut flight: Counters, took: u64) {
        flight.land(took);
        self.shortest = self.shortest.min(took);
        if slot.index() >= self.by_slot.len() {
            self.by_slot.resize(slot.index() + 1, flight);
        }
        self.by_slot[slot.index()] = flight;
    }

    #[inline]
    fn of(&self, slot: Slot) -> &Counters {
        &self.by_slot[slot.index()]
    }

    #[inline]
    fn of_mut(&mut self, slot: Slot) -> &mut Counters {
        &mut self.by_slot[slot.index()]
    }

    #[inline]
    fn shortest(&self) -> u64 {
        self.shortest
    }
}

/// Counters of all objects. 88 bytes an object that was ever requested, and 4 a slot.
#[derive(Clone, Debug)]
pub struct OfAll {
    all: Vec<Counters>,
    /// Places in `all`.
    by_hash: HashMap<u64, u32>,
    by_slot: Vec<u32>,
    shortest: u64,
}

impl Default for OfAll {
    fn default() -> Self {
        let (by_hash, by_slot) = (HashMap::new(), Vec::new());
        OfAll { all: Vec::new(), by_hash, by_slot, shortest: u64::MAX }
    }
}

impl Keep for OfAll {
    /// The place of its counters.
    type Flight = u32;

    fn miss(&mut self, hash: u64, now: u64, fetch: u64) -> u32 {
        self.shortest = self.shortest.min(fetch);
        let place = *self.by_hash.entry(hash).or_insert(self.all.len() as u32);
        match self.all.get_mut(place as usize) {
            Some(known) => known.request(now),
            None => self.all.push(Counters::first(now, fetch)),
        }
        place
    }

    fn delayed_hit(&mut self, place: &mut u32, now: u64) {
        self.all[*place as usize].request(now);
    }

    fn insert(&mut self, slot: Slot, place: u32, took: u64) {
        self.shortest = self.shortest.min(took);
        let fetch = &mut self.all[place as usize].fetch;
        *fetch += LEARNING * (took as f32 - *fetch);
        if slot.index() >= self.by_slot.len() {
            self.by_slot.resize(slot.index() + 1, place);
        }
        self.by_slot[slot.index()] = place;
    }

    #[inline]
    fn of(&self, slot: Slot) -> &Counters {
        &self.all[self.by_slot[slot.index()] as usize]
    }

    #[inline]
    fn of_mut(&mut self, slot: Slot) -> &mut Counters {
        &mut self.all[self.by_slot[slot.index()] as usize]
    }

    fn shortest(&self) -> u64 {
        self.shortest
    }
}

/// The counters of residents, for choosing a victim.
pub struct Delays<'a, K> {
    keep: &'a K,
    windows: Windows,
    /// Windows without a burst that are counted in addition to the observed ones.
    prior: f64,
    now: u64,
}

impl<'a, K: Keep> Delays<'a, K> {
    pub(crate) fn new(keep: &'a K, estimate: Estimate, now: u64) -> Self {
        Delays { keep, windows: estimate.windows, prior: estimate.prior.into(), now }
    }

    /// The mean aggregate delay of a resident, in ticks.
    #[inline]
    pub fn delay(&self, slot: Slot) -> f64 {
        self.keep.of(slot).delay(self.windows, self.prior)
    }

    /// When it was requested last.
    #[inline]
    pub fn last(&self, slot: Slot) -> u64 {
        self.keep.of(slot).last
    }

    #[inline]
    fn idle(&self, slot: Slot) -> f64 {
        self.now.saturating_sub(self.last(slot)) as f64 + 1.0
    }

    /// Its rank by the time since its last request: the lowest is evicted.
    #[inline]
    pub fn rank(&self, slot: Slot) -> f64 {
        self.delay(slot) / self.idle(slot)
    }

    /// A lower bound on the ranks of this resident and of all residents requested later.
    #[inline]
    pub fn bound(&self, slot: Slot) -> f64 {
        self.keep.shortest() as f32 as f64 / self.idle(slot)
    }
}

impl Counters {
    /// Counts as requested now, so that it is the newest.
    pub(crate) fn renew(&mut self, now: u64) {
        self.last = now;
    }

    /// A resident is requested.
    #[inline]
    pub(crate) fn hit(&mut self, now: u64) {
        self.request(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_run_on_while_an_object_is_there() {
        let mut counters = Counters::first(10, 5);
        for now in [12, 14, 15, 40] {
            counters.request(now);
        }
        // 5 + 3 + 1 in the first window, 5 in the windows from 15 and from 40.
        assert_eq!((counters.windows, counters.ended, counters.open), (3, 14.0, 5.0));
        let delays = |windows| [0.0, 2.0].map(|prior| counters.delay(windows, prior));
        assert_eq!(delays(Windows::All), [19.0 / 3.0, 29.0 / 5.0]);
        assert_eq!(delays(Windows::Ended), [14.0 / 2.0, 24.0 / 4.0]);
    }

    #[test]
    fn of_a_first_window_it_is_known_what_it_was_so_far() {
        let mut counters = Counters::first(10, 5);
        counters.request(12);
        assert_eq!([Windows::All, Windows::Ended].map(|it| counters.delay(it, 0.0)), [8.0; 2]);
    }

    #[test]
    fn what_a_fetch_took_is_known_when_it_is_back() {
        // Estimated at 5, the fetch took 20: requests at 10, 12 and 26 waited 20, 18 and 4.
        let mut keep = OfResidents::default();
        let mut flight = keep.miss(0, 10, 5);
        for now in [12, 26] {
            keep.delayed_hit(&mut flight, now);
        }
        keep.insert(Slot(0), flight, 20);
        let counters = keep.of(Slot(0));
        assert_eq!((counters.windows, counters.ended, counters.open), (1, 0.0, 42.0));
        assert_eq!((counters.last, keep.shortest()), (26, 20));
    }

    #[test]
    fn those_of_all_outlive_an_eviction() {
        let mut keep = OfAll::default();
        let flight = keep.miss(7, 10, 5);
        keep.insert(Slot(0), flight, 5);
        let flight = keep.miss(7, 12, 5);
        keep.insert(Slot(3), flight, 9);
        assert_eq!((keep.of(Slot(3)).open, keep.of(Slot(3)).fetch), (8.0, 6.0));
    }
}
