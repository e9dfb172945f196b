//! The policies that run without knowledge of the future, by name: all policies of the cache,
//! and all but the offline optima of the simulator.

use std::fmt;
use std::str::FromStr;

use crate::parameters::Parameters;
use crate::spec::{GL_CACHE, LRB, SCHEDULE, SIMULATED};
use crate::{
    AdaptiveReplacement, Cacheus, Clock, DelayRank, Estimate, FetchTimes, Fifo, Gdsf, Guarded,
    Hyperbolic, IdleSince, Keep, Lecar, Lfu, Lhd, Lirs, Lru, LruDelayed, LruProb, LruSampled,
    LruSets, Mad, Mobius, OfResidents, PolicyVisitor, Random, Rank, S3Fifo, Sieve, Slru, SpecError,
    TwoQueue, WTinyLfu, Windows,
};

/// Default seed.
const SEED: u64 = 1;
/// Default of `lru-delayed:window`: short against the life of an object in all
/// but the smallest caches, long against the pauses of the objects whose
/// promotions cost most.
const WINDOW: u64 = 1000;

/// Which entry is evicted from a full cache: an eviction policy and its parameters.
///
/// In the concurrent cache [`Mobius`](Self::Mobius), [`S3Fifo`](Self::S3Fifo),
/// [`Clock`](Self::Clock) and [`Fifo`](Self::Fifo) run without a lock; the others order entries
/// under one. `frazil advise` finds the policy that misses least on a trace.
///
/// ```
/// use frazil_policy::Online;
/// assert_eq!("clock:bits=2".parse(), Ok(Online::Clock { bits: 2 }));
/// assert_eq!(Online::LruProb { q: 0.9, seed: 1 }.to_string(), "lru-prob:q=0.9");
/// assert_eq!(Online::default(), Online::Mobius);
/// assert!("belady".parse::<Online>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Online {
    /// Evicts the oldest entry; a hit does nothing. For caches where the speed of hits is all that
    /// counts and order hardly matters. ([`Fifo`](crate::Fifo))
    Fifo,
    /// Evicts the entry not requested for longest; every hit reorders. For recency on few cores.
    /// ([`Lru`](crate::Lru))
    Lru,
    /// LRU in which a random share of the hits does not promote: nearly the order of LRU, with
    /// fewer locks. ([`LruProb`](crate::LruProb))
    LruProb {
        /// Share of the hits that do not promote, from 0 (LRU) to 1 (FIFO).
        q: f64,
        /// Seed of its random numbers.
        seed: u64,
    },
    /// LRU in which a hit does not promote if the lock is taken: no hit ever waits, and a single
    /// thread has LRU. ([`Lru`](crate::Lru))
    LruRelaxed,
    /// LRU in which an entry is promoted at most once in a window: the most requested entries take
    /// the lock less often. ([`LruDelayed`](crate::LruDelayed))
    LruDelayed {
        /// Length of the window, in requests.
        window: u64,
    },
    /// Evicts the entry not requested for longest of a few random ones; a hit stores the time.
    /// Nearly LRU, without a list. ([`LruSampled`](crate::LruSampled))
    LruSampled {
        /// Entries sampled for a victim, from 1 to 64.
        k: u8,
        /// Seed of its random numbers.
        seed: u64,
    },
    /// FIFO with second chances: a hit raises a count, which eviction lowers. For keys whose
    /// popularity is short. ([`Clock`](crate::Clock))
    Clock {
        /// Width of the count: 1 or 2.
        bits: u8,
    },
    /// LRU in segments: entries requested again are protected from entries requested once. For
    /// scans between repeated requests. ([`Slru`](crate::Slru))
    Slru {
        /// Number of segments, from 1 (LRU) to [`MOST_SEGMENTS`](crate::Slru::MOST_SEGMENTS).
        segments: u8,
    },
    /// A FIFO for new entries, and an LRU list for those requested again after their eviction. For
    /// scans, and keys requested only a few times in a row. ([`TwoQueue`](crate::TwoQueue))
    TwoQueue,
    /// A hand that sweeps a FIFO queue and leaves requested entries in place. Evicts as
    /// [`Mobius`](Self::Mobius) does; for comparison. ([`Sieve`](crate::Sieve))
    Sieve,
    /// SIEVE as two queues that trade places: entries requested again stay, for one mark on a hit.
    /// The fewest writes; the default. ([`Mobius`](crate::Mobius))
    #[default]
    Mobius,
    /// A small queue for new entries, a main queue, and a ghost of the entries evicted from the
    /// small one. For scans and many keys requested only once. ([`S3Fifo`](crate::S3Fifo))
    S3Fifo,
    /// Evicts the entry requested least often since its insertion. For keys whose popularity lasts;
    /// it keeps entries whose popularity has passed. ([`Lfu`](crate::Lfu))
    Lfu,
    /// Admits a new entry only if it is requested more often than the one it displaces, by counts
    /// that age and outlast eviction. For popularity that lasts. ([`WTinyLfu`](crate::WTinyLfu))
    WTinyLfu,
    /// Two LRU lists, for recency and for frequency, whose shares adapt to the misses. For changing
    /// workloads. ([`AdaptiveReplacement`](crate::AdaptiveReplacement))
    Arc,
    /// Keeps the entries with the shortest time between their last two requests. For loops and
    /// scans longer than the cache. ([`Lirs`](crate::Lirs))
    Lirs,
    /// Evicts the entry with the fewest expected hits for its weight and time, learned from hits
    /// and evictions. For entries of different weights. ([`Lhd`](crate::Lhd))
    Lhd {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Evicts the entry of a sample with the fewest requests for its weight and age. For entries of
    /// different ages and weights. ([`Hyperbolic`](crate::Hyperbolic))
    Hyperbolic {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Evicts large entries requested seldom and not lately; refuses large new entries. The most
    /// hits if weights differ much. ([`Gdsf`](crate::Gdsf))
    Gdsf,
    /// Learns from its misses whether LRU or LFU evicts better. For small caches.
    /// ([`Lecar`](crate::Lecar))
    Lecar {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Learns from its misses whether a scan-resistant LRU or an LFU evicts better. For changing
    /// workloads with scans. ([`Cacheus`](crate::Cacheus))
    Cacheus {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Evicts the entry of least value to the base, weighted with the total wait of requests for
    /// its next fetch. For long fetches during which more requests arrive. ([`Mad`](crate::Mad))
    Mad {
        /// The policy that orders the victims.
        base: MadBase,
        /// The candidates for a victim; over ARC and LHD always [`Candidates::All`].
        candidates: Candidates,
        /// How bursts and idle time are counted.
        estimate: Estimate,
        /// Seed of its random numbers.
        seed: u64,
    },
    /// [`Mad`](Self::Mad) over LHD while it gives shorter waits, else [`Lru`](Self::Lru); two
    /// miniatures of the cache decide. For long fetches, if waits must not exceed LRU's. The
    /// miniatures take some 300 bytes an entry, at most 8 MB, in each policy shard: up to 250 MB
    /// with 32. ([`Guarded`](crate::Guarded))
    GuardedMad {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Evicts entries requested seldom in relation to the duration of their fetch and their weight,
    /// and refuses such new entries. For long fetches; for comparison.
    /// ([`DelayRank`](crate::DelayRank))
    LaCache {
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Ranks by the mean and the deviation of the total wait of requests, as if they arrived
    /// independently, divided by the time to the next. For long fetches; for comparison.
    /// ([`DelayRank`](crate::DelayRank))
    DelayRank {
        /// Weight of the deviation.
        omega: f64,
        /// Distribution of fetch times.
        fetch: FetchTimes,
        /// Whether new entries that rank below all candidates are refused.
        bypass: bool,
        /// Seed of its random numbers.
        seed: u64,
    },
    /// Evicts a random entry. For loops longer than the cache; otherwise for comparison.
    /// ([`Random`](crate::Random))
    Random {
        /// Seed of its random numbers.
        seed: u64,
    },
}

/// The base of [`Online::Mad`].
///
/// ```
/// use frazil_policy::{MadBase, Online};
/// let candidates = frazil_policy::Candidates::All;
/// let estimate = MadBase::Arc.usual_estimate();
/// let mad = Online::Mad { base: MadBase::Arc, candidates, estimate, seed: 1 };
/// assert_eq!("mad:base=arc".parse(), Ok(mad));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MadBase {
    /// [`Lru`](crate::Lru).
    #[default]
    Lru,
    /// [`AdaptiveReplacement`](crate::AdaptiveReplacement).
    Arc,
    /// [`Lhd`](crate::Lhd).
    Lhd,
}

/// The candidates of [`Online::Mad`] for a victim.
///
/// ```
/// use frazil_policy::{Candidates, MadBase, Online};
/// let candidates = Candidates::Ways(64);
/// let estimate = Default::default();
/// let mad = Online::Mad { base: MadBase::Lru, candidates, estimate, seed: 1 };
/// assert_eq!("mad:ways=64".parse(), Ok(mad));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Candidates {
    /// All that the base offers.
    #[default]
    All,
    /// This many random entries, from 1 to 64. ([`LruSampled`](crate::LruSampled))
    Sample(u8),
    /// The set of the new entry, on average half to all of this number of entries, from 1
    /// to 128. ([`LruSets`](crate::LruSets))
    Ways(u8),
}

impl MadBase {
    const ALL: [MadBase; 3] = [MadBase::Lru, MadBase::Arc, MadBase::Lhd];
    const NAMES: [&str; 3] = ["lru", "arc", "lhd"];

    /// The estimate with the shortest waits over this base (`docs/reproduce-delayed-hits.md`): over
    /// LRU and LHD with all windows, as in the paper over LRU; over ARC with ended windows and one
    /// added without a burst, as in the paper's published code.
    ///
    /// ```
    /// use frazil_policy::{MadBase, Windows};
    /// assert_eq!(MadBase::Lru.usual_estimate(), Default::default());
    /// assert_eq!(MadBase::Arc.usual_estimate().windows, Windows::Ended);
    /// ```
    pub const fn usual_estimate(self) -> Estimate {
        let (windows, prior) = match self {
            MadBase::Lru | MadBase::Lhd => (Windows::All, 0),
            MadBase::Arc => (Windows::Ended, 1),
        };
        Estimate { windows, prior, idle_since: IdleSince::Request }
    }
}

/// MAD over a base, with the estimate that is best over it.
const fn usual_mad(base: MadBase) -> Online {
    let estimate = base.usual_estimate();
    Online::Mad { base, candidates: Candidates::All, estimate, seed: SEED }
}

impl Online {
    /// Every policy with its usual parameters, also CLOCK with two bits, and MAD over each base.
    ///
    /// ```
    /// use frazil_policy::Online;
    /// assert!(Online::ALL.contains(&Online::Lru));
    /// ```
    pub const ALL: [Online; 29] = [
        Online::Fifo,
        Online::Lru,
        Online::LruProb { q: 0.5, seed: SEED },
        Online::LruRelaxed,
        Online::LruDelayed { window: WINDOW },
        Online::LruSampled { k: 5, seed: SEED },
        Online::Clock { bits: 1 },
        Online::Clock { bits: 2 },
        Online::Slru { segments: 2 },
        Online::TwoQueue,
        Online::Sieve,
        Online::Mobius,
        Online::S3Fifo,
        Online::Lfu,
        Online::WTinyLfu,
        Online::Arc,
        Online::Lirs,
        Online::Lhd { seed: SEED },
        Online::Hyperbolic { seed: SEED },
        Online::Gdsf,
        Online::Lecar { seed: SEED },
        Online::Cacheus { seed: SEED },
        usual_mad(MadBase::Lru),
        usual_mad(MadBase::Arc),
        usual_mad(MadBase::Lhd),
        Online::GuardedMad { seed: SEED },
        Online::LaCache { seed: SEED },
        Online::DelayRank { omega: 1.0, fetch: FetchTimes::Fixed, bypass: false, seed: SEED },
        Online::Random { seed: SEED },
    ];

    /// The names of all policies.
    pub const NAMES: [&str; 26] = [
        "fifo",
        "lru",
        "lru-prob",
        "lru-relaxed",
        "lru-delayed",
        "lru-sampled",
        "clock",
        "slru",
        "two-queue",
        "sieve",
        "mobius",
        "s3-fifo",
        "lfu",
        "w-tinylfu",
        "arc",
        "lirs",
        "lhd",
        "hyperbolic",
        "gdsf",
        "lecar",
        "cacheus",
        "mad",
        "guarded-mad",
        "la-cache",
        "delay-rank",
        "random",
    ];

    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Online::Fifo => "fifo",
            Online::Lru => "lru",
            Online::LruProb { .. } => "lru-prob",
            Online::LruRelaxed => "lru-relaxed",
            Online::LruDelayed { .. } => "lru-delayed",
            Online::LruSampled { .. } => "lru-sampled",
            Online::Clock { .. } => "clock",
            Online::Slru { .. } => "slru",
            Online::TwoQueue => "two-queue",
            Online::Sieve => "sieve",
            Online::Mobius => "mobius",
            Online::S3Fifo => "s3-fifo",
            Online::Lfu => "lfu",
            Online::WTinyLfu => "w-tinylfu",
            Online::Arc => "arc",
            Online::Lirs => "lirs",
            Online::Lhd { .. } => "lhd",
            Online::Hyperbolic { .. } => "hyperbolic",
            Online::Gdsf => "gdsf",
            Online::Lecar { .. } => "lecar",
            Online::Cacheus { .. } => "cacheus",
            Online::Mad { .. } => "mad",
            Online::GuardedMad { .. } => "guarded-mad",
            Online::LaCache { .. } => "la-cache",
            Online::DelayRank { .. } => "delay-rank",
            Online::Random { .. } => "random",
        }
    }

    /// The policy of that name with its usual parameters.
    fn usual(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The same policy with another seed; `None` if it draws no random numbers.
    pub fn with_seed(mut self, another: u64) -> Option<Self> {
        *self.seed_mut()? = another;
        Some(self)
    }

    fn seed_mut(&mut self) -> Option<&mut u64> {
        match self {
            Online::LruProb { seed, .. }
            | Online::LruSampled { seed, .. }
            | Online::Lhd { seed }
            | Online::Hyperbolic { seed }
            | Online::Lecar { seed }
            | Online::Cacheus { seed }
            | Online::Mad { base: MadBase::Lhd, seed, .. }
            | Online::Mad { candidates: Candidates::Sample(_), seed, .. }
            | Online::GuardedMad { seed }
            | Online::LaCache { seed }
            | Online::DelayRank { seed, .. }
            | Online::Random { seed } => Some(seed),
            _ => None,
        }
    }

    /// Builds the policy for a cache of `capacity` and passes it to `visitor`.
    ///
    /// [`LruRelaxed`](Self::LruRelaxed) becomes [`Lru`](crate::Lru): the host has to skip
    /// promotions.
    pub fn visit<V: PolicyVisitor>(&self, capacity: u64, visitor: V) -> V::Output {
        match *self {
            Online::Fifo => visitor.visit_hot_first(Fifo::default()),
            Online::Lru | Online::LruRelaxed => visitor.visit_hot_first(Lru::default()),
            Online::LruProb { q, seed } => visitor.visit_hot_first(LruProb::new(q, seed)),
            Online::LruDelayed { window } => visitor.visit_hot_first(LruDelayed::new(window)),
            Online::LruSampled { k, seed } => visitor.visit(LruSampled::new(k, seed)),
            Online::Clock { bits: 1 } => visitor.visit_queue(Clock::<1>::default()),
            Online::Clock { .. } => visitor.visit_queue(Clock::<3>::default()),
            Online::Slru { segments } => {
                visitor.visit_hot_first(Slru::new(segments.into(), capacity))
            }
            Online::TwoQueue => visitor.visit_hot_first(TwoQueue::new(capacity)),
            Online::Sieve => visitor.visit(Sieve::default()),
            Online::Mobius => visitor.visit_queue(Mobius::default()),
            Online::S3Fifo => visitor.visit_queue(S3Fifo::new(capacity)),
            Online::Lfu => visitor.visit_hot_first(Lfu::default()),
            Online::WTinyLfu => visitor.visit_hot_first(WTinyLfu::new(capacity)),
            Online::Arc => visitor.visit_hot_first(AdaptiveReplacement::new(capacity)),
            Online::Lirs => visitor.visit(Lirs::new(capacity)),
            Online::Lhd { seed } => visitor.visit(Lhd::new(capacity, seed)),
            Online::Hyperbolic { seed } => visitor.visit(Hyperbolic::new(seed)),
            Online::Gdsf => visitor.visit_hot_first(Gdsf::default()),
            Online::Lecar { seed } => visitor.visit(Lecar::new(capacity, seed)),
            Online::Cacheus { seed } => visitor.visit(Cacheus::new(capacity, seed)),
            Online::Mad { base, candidates, estimate, seed } => {
                visit_mad::<OfResidents, V>((base, candidates), estimate, seed, capacity, visitor)
            }
            Online::GuardedMad { seed } => {
                let estimate = MadBase::Lhd.usual_estimate();
                let make = |capacity| <Mad<Lhd>>::new(Lhd::new(capacity, seed), estimate);
                visitor.visit(Guarded::new(make, capacity))
            }
            Online::LaCache { seed } => visitor.visit(DelayRank::new(Rank::LaCache, seed)),
            Online::DelayRank { omega, fetch, bypass, seed } => {
                visitor.visit(DelayRank::new(Rank::Delay { omega, fetch, bypass }, seed))
            }
            Online::Random { seed } => visitor.visit(Random::new(seed)),
        }
    }

    /// The count up to which a hit raises the slot's [`Mark`](crate::Mark), if the policy does
    /// nothing else on a hit: 0 if it does nothing at all. A host of many threads can then do it
    /// through a shared reference, without calling the policy.
    ///
    /// ```
    /// use frazil_policy::Online;
    /// assert_eq!(Online::Mobius.mark_limit(), Some(1));
    /// assert_eq!(Online::Fifo.mark_limit(), Some(0));
    /// assert_eq!(Online::Lru.mark_limit(), None);
    /// ```
    pub fn mark_limit(&self) -> Option<u8> {
        match *self {
            Online::Fifo => Some(0),
            Online::Sieve | Online::Mobius | Online::Clock { bits: 1 } => Some(1),
            Online::Clock { .. } | Online::S3Fifo => Some(3),
            _ => None,
        }
    }

    /// Whether the hottest residents of the policy can be frozen: it is
    /// [`HotFirst`](crate::HotFirst).
    ///
    /// ```
    /// use frazil_policy::Online;
    /// assert!(Online::Lru.can_freeze() && !Online::Mobius.can_freeze());
    /// ```
    pub fn can_freeze(&self) -> bool {
        matches!(
            self,
            Online::Fifo
                | Online::Lru
                | Online::LruRelaxed
                | Online::LruProb { .. }
                | Online::LruDelayed { .. }
                | Online::Slru { .. }
                | Online::TwoQueue
                | Online::Lfu
                | Online::WTinyLfu
                | Online::Arc
                | Online::Gdsf
        )
    }
}

/// Makes MAD with counters kept in `K`.
pub(crate) fn visit_mad<K: Keep + Default, V: PolicyVisitor>(
    (base, candidates): (MadBase, Candidates),
    estimate: Estimate,
    seed: u64,
    capacity: u64,
    visitor: V,
) -> V::Output {
    match base {
        MadBase::Lru => match candidates {
            Candidates::All => visitor.visit(Mad::<_, K>::new(Lru::default(), estimate)),
            Candidates::Sample(k) => {
                visitor.visit(Mad::<_, K>::new(LruSampled::new(k, seed), estimate))
            }
            Candidates::Ways(ways) => visitor.visit(Mad::<_, K>::new(LruSets::new(ways), estimate)),
        },
        MadBase::Arc => {
            visitor.visit(Mad::<_, K>::new(AdaptiveReplacement::new(capacity), estimate))
        }
        MadBase::Lhd => visitor.visit(Mad::<_, K>::new(Lhd::new(capacity, seed), estimate)),
    }
}

/// Reads the parameters of MAD, and whether counters cover all objects.
pub(crate) fn read_mad(given: &mut Parameters<'_>) -> Result<(Online, bool), SpecError> {
    let base = MadBase::ALL[given.word("base", 0, &MadBase::NAMES)?];
    let of_all = given.word("counters", 0, &["resident", "all"])? == 1;
    let candidates = if base == MadBase::Lru { read_candidates(given)? } else { Candidates::All };
    let usual = base.usual_estimate();
    let windows = Windows::ALL[given.word("windows", usual.windows as usize, &Windows::NAMES)?];
    let prior = given.number("prior", usual.prior, 0, 100)?;
    let idle_since = IdleSince::ALL[given.word("idle-since", 0, &IdleSince::NAMES)?];
    let estimate = Estimate { windows, prior, idle_since };
    let mut policy = Online::Mad { base, candidates, estimate, seed: SEED };
    if let Some(seed) = policy.seed_mut() {
        *seed = given.number("seed", *seed, 0, u64::MAX)?;
    }
    Ok((policy, of_all))
}

/// A sample or a set, not both.
fn read_candidates(given: &mut Parameters<'_>) -> Result<Candidates, SpecError> {
    Ok(match given.number("sample", 0, 0, 64)? {
        0 => match given.number("ways", 0, 0, 128)? {
            0 => Candidates::All,
            ways => Candidates::Ways(ways),
        },
        k => Candidates::Sample(k),
    })
}

impl FromStr for Online {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut given = Parameters::of(text);
        if given.policy == "mad" {
            let (policy, of_all) = read_mad(&mut given)?;
            given.finish()?;
            return if of_all { Err(SpecError::Unbounded(text.to_owned())) } else { Ok(policy) };
        }
        let mut policy = Self::usual(given.policy).ok_or_else(|| match given.policy {
            name @ (GL_CACHE | LRB) => SpecError::Stops(name.to_owned()),
            name if name == SCHEDULE || SIMULATED.contains(&name) => {
                SpecError::Offline(name.to_owned())
            }
            unknown => SpecError::UnknownPolicy(unknown.to_owned(), &Self::NAMES),
        })?;
        match &mut policy {
            Online::LruProb { q, .. } => *q = given.number("q", *q, 0.0, 1.0)?,
            Online::LruDelayed { window } => {
                *window = given.number("window", *window, 0, u64::MAX)?;
            }
            Online::LruSampled { k, .. } => *k = given.number("k", *k, 1, 64)?,
            Online::Clock { bits } => *bits = given.number("bits", *bits, 1, 2)?,
            Online::Slru { segments } => {
                *segments = given.number("segments", *segments, 1, Slru::MOST_SEGMENTS as u8)?;
            }
            Online::DelayRank { omega, fetch, bypass, .. } => {
                *omega = given.number("omega", *omega, 0.0, 100.0)?;
                *fetch = FetchTimes::ALL[given.word("fetch", 0, &FetchTimes::NAMES)?];
                *bypass = given.word("bypass", 0, &["false", "true"])? == 1;
            }
            _ => {}
        }
        if let Some(seed) = policy.seed_mut() {
            *seed = given.number("seed", *seed, 0, u64::MAX)?;
        }
        given.finish()?;
        Ok(policy)
    }
}

impl fmt::Display for Online {
    /// The canonical form: only parameters that differ from the usual ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            Online::LruProb { q, .. } if q != 0.5 => write!(f, ":q={q}")?,
            Online::LruDelayed { window } if window != WINDOW => write!(f, ":window={window}")?,
            Online::LruSampled { k, .. } if k != 5 => write!(f, ":k={k}")?,
            Online::Clock { bits } if bits != 1 => write!(f, ":bits={bits}")?,
            Online::Slru { segments } if segments != 2 => write!(f, ":segments={segments}")?,
            Online::DelayRank { omega, fetch, bypass, .. } => {
                if omega != 1.0 {
                    write!(f, ":omega={omega}")?;
                }
                if fetch != FetchTimes::Fixed {
                    write!(f, ":fetch={}", FetchTimes::NAMES[fetch as usize])?;
                }
                if bypass {
                    f.write_str(":bypass=true")?;
                }
            }
            Online::Mad {
                base,
                candidates,
                estimate: Estimate { windows, prior, idle_since },
                ..
            } => {
                if base != MadBase::Lru {
                    write!(f, ":base={}", MadBase::NAMES[base as usize])?;
                }
                match candidates {
                    Candidates::All => {}
                    Candidates::Sample(k) => write!(f, ":sample={k}")?,
                    Candidates::Ways(ways) => write!(f, ":ways={ways}")?,
                }
                let usual = base.usual_estimate();
                if windows != usual.windows {
                    write!(f, ":windows={}", Windows::NAMES[windows as usize])?;
                }
                if prior != usual.prior {
                    write!(f, ":prior={prior}")?;
                }
                if idle_since != IdleSince::Request {
                    write!(f, ":idle-since={}", IdleSince::NAMES[idle_since as usize])?;
                }
            }
            _ => {}
        }
        match { *self }.seed_mut() {
            Some(&mut seed) if seed != SEED => write!(f, ":seed={seed}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_named_and_print_themselves() {
        let mut names = Online::ALL.map(|policy| policy.name()).to_vec();
        names.dedup();
        assert_eq!(names, Online::NAMES);
        for policy in Online::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for name in Online::NAMES {
            assert_eq!(name.parse::<Online>().map(|policy| policy.to_string()), Ok(name.into()));
        }
    }

    #[test]
    fn parameters_parse_and_print_themselves() {
        for text in [
            "lru-prob:q=0.986:seed=7",
            "lru-delayed:window=0",
            "lru-sampled:k=10",
            "slru:segments=4",
            "random:seed=0",
            "hyperbolic:seed=7",
            "lhd:seed=7",
            "lecar:seed=7",
            "cacheus:seed=7",
            "mad:sample=64:seed=7",
            "mad:ways=64",
            "guarded-mad:seed=7",
            "la-cache:seed=7",
            "delay-rank:omega=0:fetch=exp:bypass=true:seed=7",
            "mad:base=lhd:prior=2:seed=7",
            "mad:windows=ended:prior=1",
            "mad:base=arc:idle-since=commit",
            "mad:base=arc:windows=all:prior=0",
        ] {
            let policy: Online = text.parse().expect("it parses");
            assert_eq!(policy.to_string(), text);
            if let Some(seeded) = policy.with_seed(3) {
                assert!(seeded.to_string().ends_with(":seed=3"), "{seeded}");
            }
        }
        assert_eq!("slru:segments=2".parse(), Ok(Online::Slru { segments: 2 }));
        assert!("lru-prob:q=NaN".parse::<Online>().is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Online>().unwrap_err().to_string();
        let known = "unknown policy `lruu`; did you mean `lru`? Known are fifo, lru";
        assert!(error("lruu").starts_with(known));
        assert!(error("lruu").ends_with("random"));
        assert_eq!(error("lru:k=5"), "policy `lru` has no parameter `k=5`; it takes none");
        assert_eq!(
            error("clock:bits=3"),
            "policy `clock`: `bits=3` is not allowed; it takes bits from 1 to 2"
        );
        assert!(error("clock:bits").contains("`bits` is not allowed"));
        assert!(error("clock:bits=1:bits=2").contains("no parameter `bits=2`"));
        assert!(error("clock:").contains("no parameter ``"));
        assert!(error("belady").contains("`belady` needs the future"));
        assert!(error("belady-size:k=1").contains("only the simulator"));
        assert!(error("mad:counters=all").contains("only the simulator"));
        assert!(error("gl-cache:mode=t").contains("only the simulator"));
        assert!(error("lrb").contains("only the simulator"));
        assert!(error("mad:counters=none").contains("counters=resident|all"));
        assert!(error("mad:base=arc:sample=4").contains("no parameter `sample=4`"));
        assert!(error("mad:base=arc:ways=4").contains("no parameter `ways=4`"));
        assert!(error("mad:sample=4:ways=4").contains("no parameter `ways=4`"));
    }
}
