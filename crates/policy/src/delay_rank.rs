//! Ranks by the total wait of requests, estimated from an object's request rate: LA-Cache, and
//! a mean with deviations.
//!
//! If requests arrive independently at `λ` a tick and a fetch takes `z`, a miss makes requests
//! wait `D` in total: the miss waits `z`, and each later request the rest of the fetch. With
//! fetches of one length `D` has the mean `z + λz²/2` and the variance `λz³/3`; with exponential
//! ones of mean `z`, `z + λz²` and `z² + 6λz³ + 5λ²z⁴`. The policy evicts the object with the
//! lowest
//!
//! - [`Rank::Delay`]: `(mean + ω·deviation) / (time to the next request × weight)`, after Jiang,
//!   Ma and Wang (arXiv 2504.20335, and 2505.15531 for exponential fetches), whose grouping is
//!   ambiguous; the time is the mean gap, or the time since the last request if that is longer;
//! - [`Rank::LaCache`]: `x(x + 1)/(x + 2)/weight` with `x = λz` (Yan and Li, ATC 2022), where
//!   `λ` is [`SELDOM`] below [`FEW`] gaps, and `1/age` from [`OLD`] mean gaps on. [`SELDOM`] is
//!   a rate per request: for another clock it is multiplied by the mean requests per tick so
//!   far.
//!
//! Of objects that weigh the same and whose fetches take equally long, LA-Cache keeps those
//! requested most often, whatever `z` is: its rank rises with `λ` alone. Both ignore bursts,
//! which [`Mad`](crate::Mad) counts instead.
//!
//! A victim is the lowest of [`SAMPLE`] residents chosen by chance. A newcomer whose rank is
//! below all of theirs is refused (LA-Cache: always; else with `bypass`). The policy keeps
//! records of as many absent objects as there are residents; otherwise it would never see an
//! object's second request.
//!
//! 56 bytes a resident and some 90 an absent object; a hit is O(1), an eviction O([`SAMPLE`]).

use crate::arrivals::Arrivals;
use crate::{Eviction, History, Host, Incoming, Policy, Rng, SampleTable, Slot, Work};

/// Residents sampled for a victim; all, if there are no more.
const SAMPLE: usize = 64;
/// With fewer gaps LA-Cache assumes that an object is not requested.
const FEW: u32 = 3;
/// Its assumed rate then, for each request of any object.
const SELDOM: f64 = 1e-8;
/// Mean gaps after which LA-Cache uses an object's age as its gap.
const OLD: f64 = 12.0;
/// The present history.
const GHOST: usize = 0;

/// Rank of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rank {
    /// LA-Cache's.
    LaCache,
    /// Mean and deviation of the aggregate delay, over the time to the next request.
    Delay {
        /// How many deviations count.
        omega: f64,
        /// How fetch times are distributed.
        fetch: FetchTimes,
        /// Whether new objects that rank below all candidates are refused.
        bypass: bool,
    },
}

/// How the times of fetches are distributed about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchTimes {
    /// All are equal.
    #[default]
    Fixed,
    /// Exponentially.
    Exponential,
}

impl FetchTimes {
    pub(crate) const NAMES: [&str; 2] = ["fixed", "exp"];
    pub(crate) const ALL: [FetchTimes; 2] = [FetchTimes::Fixed, FetchTimes::Exponential];

    /// Mean and variance of the total wait of requests for one fetch, in ticks. The mean length
    /// of a fetch is `fetch`, and `rate` requests arrive in a tick.
    ///
    /// ```
    /// use frazil_policy::FetchTimes;
    /// assert_eq!(FetchTimes::Fixed.moments(0.5, 10.0), (35.0, 500.0 / 3.0));
    /// assert_eq!(FetchTimes::Exponential.moments(0.0, 10.0), (10.0, 100.0));
    /// ```
    pub fn moments(self, rate: f64, fetch: f64) -> (f64, f64) {
        let x = rate * fetch;
        match self {
            FetchTimes::Fixed => (fetch * (1.0 + x / 2.0), fetch * fetch * x / 3.0),
            FetchTimes::Exponential => {
                (fetch * (1.0 + x), fetch * fetch * (1.0 + 6.0 * x + 5.0 * x * x))
            }
        }
    }
}

/// State of an object.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    arrivals: Arrivals,
    /// Duration of its fetch, in ticks.
    fetch: f32,
    weight: f32,
}

// Less where `u64` is aligned to 4 bytes.
const _: () = assert!(size_of::<Known>() <= 40);

/// How many requests there are in a tick.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    first: u64,
    last: u64,
    requests: u64,
}

impl Pace {
    #[inline]
    fn request(&mut self, now: u64) {
        if self.requests == 0 {
            self.first = now;
        }
        self.last = now;
        self.requests += 1;
    }

    /// Requests a tick; at most 1, like an object's rate.
    fn rate(&self) -> f64 {
        let span = self.last.saturating_sub(self.first).saturating_add(1);
        (self.requests as f64 / span as f64).min(1.0)
    }
}

impl Rank {
    /// The rank of an object; the lowest is evicted.
    fn of(self, known: &Known, pace: &Pace, now: u64) -> f64 {
        let (fetch, weight) = (f64::from(known.fetch), f64::from(known.weight));
        let (rate, idle) = (known.arrivals.rate().unwrap_or(0.0), known.arrivals.idle(now));
        match self {
            Rank::LaCache => {
                let seldom = known.arrivals.gaps() < FEW;
                let rate = match seldom {
                    true => SELDOM * pace.rate(),
                    false if idle * rate >= OLD => 1.0 / idle,
                    false => rate,
                };
                let x = rate * fetch;
                x * (x + 1.0) / (x + 2.0) / weight
            }
            Rank::Delay { omega, fetch: times, .. } => {
                let (mean, variance) = times.moments(rate, fetch);
                let wait = if rate > 0.0 { idle.max(1.0 / rate) } else { idle };
                (mean + omega * variance.sqrt()) / (wait * weight)
            }
        }
    }

    fn refuses(self) -> bool {
        matches!(self, Rank::LaCache | Rank::Delay { bypass: true, .. })
    }
}

/// Evicts the lowest rank of a sample.
///
/// ```
/// use frazil_policy::{DelayRank, FetchTimes, Rank};
/// let la_cache = DelayRank::new(Rank::LaCache, 1);
/// let rank = Rank::Delay { omega: 1.0, fetch: FetchTimes::Exponential, bypass: true };
/// let by_deviation = DelayRank::new(rank, 1);
/// ```
#[derive(Clone, Debug)]
pub struct DelayRank {
    rank: Rank,
    residents: SampleTable<Known>,
    absent: History<1, Known>,
    pace: Pace,
    rng: Rng,
}

impl DelayRank {
    /// A policy whose samples depend on `seed`.
    pub fn new(rank: Rank, seed: u64) -> Self {
        let (residents, absent) = (SampleTable::new(), History::new());
        DelayRank { rank, residents, absent, pace: Pace::default(), rng: Rng::new(seed) }
    }

    /// The lowest rank is evicted, and of equals the object requested longest ago.
    fn order(&self, known: &Known, now: u64) -> (u64, u64) {
        // No rank is negative, so its bits order as it does.
        (self.rank.of(known, &self.pace, now).to_bits(), known.arrivals.last())
    }

    /// The lowest of a sample, with its order. Separate from `evict`, so that it is compiled with
    /// its callees and not in each host.
    fn lowest_of_sample(&mut self, now: u64) -> Option<((u64, u64), Slot)> {
        let len = self.residents.len();
        let mut least: Option<((u64, u64), Slot)> = None;
        for turn in 0..len.min(SAMPLE) {
            let place = if len > SAMPLE { self.rng.below(len as u64) as usize } else { turn };
            let (slot, known) = self.residents.at(place);
            let candidate = (self.order(known, now), slot);
            if least.is_none_or(|least| candidate < least) {
                least = Some(candidate);
            }
        }
        least
    }

    fn remember(&mut self, hash: u64, known: Known) {
        self.absent.set_limits(GHOST, u64::MAX, self.residents.len().max(1));
        self.absent.record(GHOST, hash, 1, known);
        while self.absent.forget_surplus(GHOST).is_some() {}
    }
}

impl Policy for DelayRank {
    type Meta = ();
    type Pending = Known;

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.pace.request(host.now());
        self.residents.get_mut(slot).arrivals.request(host.now());
        host.count(Work::Mark, 1);
    }

    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) -> Known {
        host.count(Work::Ghost, 1);
        let now = host.now();
        self.pace.request(now);
        let arrivals = match self.absent.take(hash) {
            Some((_, mut known)) => {
                known.arrivals.request(now);
                known.arrivals
            }
            None => Arrivals::first(now),
        };
        let fetch = host.fetch_ticks().unwrap_or(1) as f32;
        Known { arrivals, fetch, weight: weight.max(1) as f32 }
    }

    fn delayed_hit(&mut self, host: &mut impl Host<()>, incoming: &mut Incoming<Known>) {
        self.pace.request(host.now());
        incoming.pending.arrivals.request(host.now());
    }

    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<Known>>) -> Eviction {
        let now = host.now();
        let Some((lowest, victim)) = self.lowest_of_sample(now) else { return Eviction::Empty };
        host.count(Work::Sample, SAMPLE as u32);
        if let Some(incoming) = incoming
            && self.rank.refuses()
            && self.order(&incoming.pending, now).0 < lowest.0
        {
            self.remember(incoming.hash, incoming.pending);
            return Eviction::Refuse;
        }
        let known = self.residents.remove(victim);
        self.remember(host.hash(victim), known);
        Eviction::Victim(victim)
    }

    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<Known>) {
        let fetch = host.fetch_ticks().unwrap_or(1) as f32;
        self.residents.insert(slot, Known { fetch, ..incoming.pending });
    }

    fn remove(&mut self, _host: &mut impl Host<()>, slot: Slot) {
        self.residents.remove(slot);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, _old_weight: u64) {
        self.residents.get_mut(slot).weight = host.weight(slot).max(1) as f32;
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let now = host.now();
        self.residents.ranked(|_, known| {
            let (rank, last) = self.order(known, now);
            (u128::from(rank) << 64) | u128::from(last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aggregate delay of one fetch, by many random draws.
    #[test]
    fn moments_are_those_of_simulated_fetches() {
        let mut rng = Rng::new(7);
        for times in FetchTimes::ALL {
            let (rate, fetch, runs) = (0.05, 40.0, 400_000);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..runs {
                let mut exponential = || -(1.0 - rng.unit()).ln();
                let took = match times {
                    FetchTimes::Fixed => fetch,
                    FetchTimes::Exponential => fetch * exponential(),
                };
                let (mut delay, mut at) = (took, exponential() / rate);
                while at < took {
                    delay += took - at;
                    at += exponential() / rate;
                }
                sum += delay;
                squares += delay * delay;
            }
            let mean = sum / f64::from(runs);
            let variance = squares / f64::from(runs) - mean * mean;
            let expected = times.moments(rate, fetch);
            assert!((mean / expected.0 - 1.0).abs() < 0.01, "{times:?}: {mean} {expected:?}");
            assert!(
                (variance / expected.1 - 1.0).abs() < 0.03,
                "{times:?}: {variance} {expected:?}"
            );
        }
    }
}
