//! LA-Cache and the rank by deviations against a model that keeps the times of requests, with
//! objects in flight. Among several equals the model follows the policy's choice.

use std::collections::{BTreeMap, VecDeque};

use crate::cache::Cache;
use crate::model::Step;
use frazil_policy::{DelayRank, FetchTimes, Rank};
use proptest::prelude::*;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        8 => (0u64..30).prop_map(|id| vec![Step::Request(id)]),
        2 => (0u64..10, 1usize..30).prop_map(|(id, len)| vec![Step::Request(id); len]),
        1 => (0u64..30).prop_map(|id| vec![Step::Remove(id)]),
    ];
    prop::collection::vec(one, 1..250).prop_map(|runs| runs.concat())
}

struct Model {
    rank: Rank,
    fetch: u64,
    now: u64,
    /// Request times from the one at which gaps start.
    resident: BTreeMap<u64, Vec<u64>>,
    /// With the last tick of their fetches.
    flights: BTreeMap<u64, (Vec<u64>, u64)>,
    absent: VecDeque<(u64, Vec<u64>)>,
}

impl Model {
    fn of(&self, times: &[u64]) -> f64 {
        let (gaps, z) = (times.len() - 1, self.fetch as f64);
        let last = times[gaps];
        let idle = (self.now - last + 1) as f64;
        let mean = (gaps > 0).then(|| (last - times[0]) as f64 / gaps as f64);
        match self.rank {
            Rank::LaCache => {
                // Rounded as the policy rounds it: at twelve mean gaps the rank jumps.
                let rate = match gaps as f64 / (last - times[0]) as f64 {
                    _ if gaps < 3 => 1e-8,
                    rate if idle * rate < 12.0 => rate,
                    _ => 1.0 / idle,
                };
                let x = rate * z;
                x * (x + 1.0) / (x + 2.0)
            }
            Rank::Delay { omega, fetch, .. } => {
                let rate = mean.map_or(0.0, |mean| 1.0 / mean);
                let (delay, variance) = match fetch {
                    FetchTimes::Fixed => (z + rate * z * z / 2.0, rate * z * z * z / 3.0),
                    FetchTimes::Exponential => {
                        let cube = z * z * z;
                        let square = rate * rate * cube * z;
                        (z + rate * z * z, z * z + 6.0 * rate * cube + 5.0 * square)
                    }
                };
                (delay + omega * variance.sqrt()) / idle.max(mean.unwrap_or(0.0))
            }
        }
    }

    fn noted(mut times: Vec<u64>, now: u64) -> Vec<u64> {
        times.push(now);
        if times.len() == 21 {
            times.drain(..10);
        }
        times
    }

    fn request(&mut self, id: u64) -> bool {
        self.now += 1;
        let now = self.now;
        if let Some(times) = self.resident.get_mut(&id) {
            *times = Self::noted(std::mem::take(times), now);
            return true;
        }
        let known = match self.flights.remove(&id) {
            Some((times, last)) => (Self::noted(times, now), last),
            None => {
                let place = self.absent.iter().position(|(other, _)| *other == id);
                let known = place.and_then(|place| self.absent.remove(place));
                let times = known.map_or(vec![], |(_, times)| times);
                (Self::noted(times, now), now + self.fetch - 1)
            }
        };
        self.flights.insert(id, known);
        false
    }

    fn remember(&mut self, id: u64, times: Vec<u64>) {
        self.absent.push_back((id, times));
        while self.absent.len() > self.resident.len().max(1) {
            self.absent.pop_front();
        }
    }
}

/// Whether one is below the others, or nearly equal.
fn is_least(one: f64, mut others: impl Iterator<Item = f64>) -> bool {
    others.all(|other| one <= other * (1.0 + 1e-9))
}

fn compare(steps: &[Step], rank: Rank, capacity: usize, fetch: u64) -> Result<(), TestCaseError> {
    let refuses = matches!(rank, Rank::LaCache | Rank::Delay { bypass: true, .. });
    let mut cache = Cache::new(DelayRank::new(rank, 1), capacity as u64);
    cache.slots.fetch_ticks = Some(fetch);
    let (resident, flights, absent) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
    let mut model = Model { rank, fetch, now: 0, resident, flights, absent };
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Request(id) => {
                prop_assert_eq!(cache.begin(id, 1), model.request(id), "step {}", number);
                let now = model.now;
                let back = model.flights.iter().find(|(_, (_, last))| *last == now);
                let Some(id) = back.map(|(&id, _)| id) else { continue };
                let (times, _) = model.flights.remove(&id).expect("in flight");
                let before: Vec<u64> = cache.index.keys().copied().collect();
                cache.commit(id);
                let gone = before.iter().find(|&other| !cache.index.contains_key(other));
                let ranks = || model.resident.values().map(|times| model.of(times));
                if !cache.index.contains_key(&id) {
                    prop_assert!(refuses && is_least(model.of(&times), ranks()), "step {}", number);
                    model.remember(id, times);
                    continue;
                }
                prop_assert_eq!(gone.is_some(), before.len() == capacity);
                if let Some(gone) = gone {
                    let lowest = model.of(&model.resident[gone]);
                    prop_assert!(is_least(lowest, ranks()), "step {}", number);
                    let newcomer = model.of(&times);
                    prop_assert!(!refuses || newcomer >= lowest * (1.0 - 1e-9), "step {}", number);
                    let times = model.resident.remove(gone).expect("resident");
                    model.remember(*gone, times);
                }
                model.resident.insert(id, times);
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.resident.remove(&id);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn each_is_its_model(
        steps in steps(),
        capacity in 1usize..16,
        fetch in 1u64..40,
        exponential: bool,
        bypass: bool,
        omega in 0.0..3.0,
    ) {
        compare(&steps, Rank::LaCache, capacity, fetch)?;
        let times = if exponential { FetchTimes::Exponential } else { FetchTimes::Fixed };
        compare(&steps, Rank::Delay { omega, fetch: times, bypass }, capacity, fetch)?;
    }
}
