//! Policies by name: `clock:bits=2` as users write it, and the one place where a
//! name becomes a type.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::parameters::Parameters;
use crate::{
    AdaptiveReplacement, Belady, BeladySize, Cacheus, Clock, Fifo, Gdsf, Hyperbolic, Lecar, Lfu,
    Lhd, Lirs, Lru, LruDelayed, LruProb, LruSampled, Mobius, Policy, Random, S3Fifo, Sieve, Slru,
    TwoQueue, WTinyLfu,
};

/// Where chance starts unless the user says otherwise.
const SEED: u64 = 1;
/// Default of `lru-delayed:window`: short against the life of an object in all
/// but the smallest caches, long against the pauses of the objects whose
/// promotions cost most.
const WINDOW: u64 = 1000;

/// A policy and its parameters.
///
/// ```
/// use frazil_policy::PolicySpec;
/// let spec: PolicySpec = "clock:bits=2".parse()?;
/// assert_eq!(spec, PolicySpec::Clock { bits: 2 });
/// assert_eq!(spec.to_string(), "clock:bits=2");
/// assert!("clock:bits=9".parse::<PolicySpec>().is_err());
/// # Ok::<(), frazil_policy::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PolicySpec {
    /// [`Fifo`].
    Fifo,
    /// [`Lru`].
    Lru,
    /// [`LruProb`].
    LruProb {
        /// Share of the hits that promote nothing.
        q: f64,
        /// Where its chance starts.
        seed: u64,
    },
    /// [`LruDelayed`].
    LruDelayed {
        /// Ticks of the host in which an object is promoted at most once.
        window: u64,
    },
    /// [`LruSampled`].
    LruSampled {
        /// Residents that are sampled for a victim.
        k: u8,
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Clock`].
    Clock {
        /// Width of the count: 1 or 2.
        bits: u8,
    },
    /// [`Slru`].
    Slru {
        /// How many segments.
        segments: u8,
    },
    /// [`TwoQueue`].
    TwoQueue,
    /// [`Sieve`].
    Sieve,
    /// [`Mobius`].
    Mobius,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Lfu`].
    Lfu,
    /// [`WTinyLfu`].
    WTinyLfu,
    /// [`AdaptiveReplacement`].
    Arc,
    /// [`Lirs`].
    Lirs,
    /// [`Lhd`].
    Lhd {
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Hyperbolic`].
    Hyperbolic {
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Gdsf`].
    Gdsf,
    /// [`Lecar`].
    Lecar {
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Cacheus`].
    Cacheus {
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Random`].
    Random {
        /// Where its chance starts.
        seed: u64,
    },
    /// [`Belady`], which needs the future.
    Belady,
    /// [`BeladySize`], which needs the future.
    BeladySize,
}

/// Why a name cannot be read as a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy has this name.
    #[error("unknown policy `{0}`; known are {known}", known = PolicySpec::NAMES.join(", "))]
    UnknownPolicy(String),
    /// The policy has no such parameter.
    #[error("policy `{policy}` has no parameter `{parameter}`; it takes {expected}")]
    UnknownParameter {
        /// Name of the policy.
        policy: String,
        /// The parameter as given.
        parameter: String,
        /// What it does have.
        expected: String,
    },
    /// The parameter's value is out of range or no value at all.
    #[error("policy `{policy}`: `{parameter}` is not allowed; {expected}")]
    BadValue {
        /// Name of the policy.
        policy: String,
        /// The parameter as given.
        parameter: String,
        /// What is allowed.
        expected: String,
    },
}

/// What to do with a policy once its type is known: [`PolicySpec::visit`].
pub trait PolicyVisitor {
    /// What comes of it.
    type Output;

    /// Called once with the policy.
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// The names of all policies.
    pub const NAMES: [&str; 23] = [
        "fifo",
        "lru",
        "lru-prob",
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
        "random",
        "belady",
        "belady-size",
    ];

    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            PolicySpec::Fifo => "fifo",
            PolicySpec::Lru => "lru",
            PolicySpec::LruProb { .. } => "lru-prob",
            PolicySpec::LruDelayed { .. } => "lru-delayed",
            PolicySpec::LruSampled { .. } => "lru-sampled",
            PolicySpec::Clock { .. } => "clock",
            PolicySpec::Slru { .. } => "slru",
            PolicySpec::TwoQueue => "two-queue",
            PolicySpec::Sieve => "sieve",
            PolicySpec::Mobius => "mobius",
            PolicySpec::S3Fifo => "s3-fifo",
            PolicySpec::Lfu => "lfu",
            PolicySpec::WTinyLfu => "w-tinylfu",
            PolicySpec::Arc => "arc",
            PolicySpec::Lirs => "lirs",
            PolicySpec::Lhd { .. } => "lhd",
            PolicySpec::Hyperbolic { .. } => "hyperbolic",
            PolicySpec::Gdsf => "gdsf",
            PolicySpec::Lecar { .. } => "lecar",
            PolicySpec::Cacheus { .. } => "cacheus",
            PolicySpec::Random { .. } => "random",
            PolicySpec::Belady => "belady",
            PolicySpec::BeladySize => "belady-size",
        }
    }

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        matches!(self, PolicySpec::Belady | PolicySpec::BeladySize)
    }

    /// The same policy with another seed; `None` if chance plays no part in it.
    pub fn with_seed(mut self, another: u64) -> Option<Self> {
        match &mut self {
            PolicySpec::LruProb { seed, .. }
            | PolicySpec::LruSampled { seed, .. }
            | PolicySpec::Lhd { seed }
            | PolicySpec::Hyperbolic { seed }
            | PolicySpec::Lecar { seed }
            | PolicySpec::Cacheus { seed }
            | PolicySpec::Random { seed } => *seed = another,
            _ => return None,
        }
        Some(self)
    }

    /// Makes the policy for a cache of `capacity` and hands it to `visitor`.
    ///
    /// `future` is asked for the positions of next requests ([`Belady::new`]) if
    /// and only if the policy [is offline](Self::is_offline).
    pub fn visit<V: PolicyVisitor>(
        &self,
        capacity: u64,
        future: impl FnOnce() -> Arc<[u32]>,
        visitor: V,
    ) -> V::Output {
        match *self {
            PolicySpec::Fifo => visitor.visit(Fifo::default()),
            PolicySpec::Lru => visitor.visit(Lru::default()),
            PolicySpec::LruProb { q, seed } => visitor.visit(LruProb::new(q, seed)),
            PolicySpec::LruDelayed { window } => visitor.visit(LruDelayed::new(window)),
            PolicySpec::LruSampled { k, seed } => visitor.visit(LruSampled::new(k, seed)),
            PolicySpec::Clock { bits: 1 } => visitor.visit(Clock::<1>::default()),
            PolicySpec::Clock { .. } => visitor.visit(Clock::<3>::default()),
            PolicySpec::Slru { segments } => visitor.visit(Slru::new(segments.into(), capacity)),
            PolicySpec::TwoQueue => visitor.visit(TwoQueue::new(capacity)),
            PolicySpec::Sieve => visitor.visit(Sieve::default()),
            PolicySpec::Mobius => visitor.visit(Mobius::default()),
            PolicySpec::S3Fifo => visitor.visit(S3Fifo::new(capacity)),
            PolicySpec::Lfu => visitor.visit(Lfu::default()),
            PolicySpec::WTinyLfu => visitor.visit(WTinyLfu::new(capacity)),
            PolicySpec::Arc => visitor.visit(AdaptiveReplacement::new(capacity)),
            PolicySpec::Lirs => visitor.visit(Lirs::new(capacity)),
            PolicySpec::Lhd { seed } => visitor.visit(Lhd::new(capacity, seed)),
            PolicySpec::Hyperbolic { seed } => visitor.visit(Hyperbolic::new(seed)),
            PolicySpec::Gdsf => visitor.visit(Gdsf::default()),
            PolicySpec::Lecar { seed } => visitor.visit(Lecar::new(capacity, seed)),
            PolicySpec::Cacheus { seed } => visitor.visit(Cacheus::new(capacity, seed)),
            PolicySpec::Random { seed } => visitor.visit(Random::new(seed)),
            PolicySpec::Belady => visitor.visit(Belady::new(future())),
            PolicySpec::BeladySize => visitor.visit(BeladySize::new(future())),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut given = Parameters::of(text);
        let spec = match given.policy {
            "fifo" => PolicySpec::Fifo,
            "lru" => PolicySpec::Lru,
            "lru-prob" => PolicySpec::LruProb {
                q: given.number("q", 0.5, 0.0, 1.0)?,
                seed: given.number("seed", SEED, 0, u64::MAX)?,
            },
            "lru-delayed" => {
                PolicySpec::LruDelayed { window: given.number("window", WINDOW, 0, u64::MAX)? }
            }
            "lru-sampled" => PolicySpec::LruSampled {
                k: given.number("k", 5, 1, 64)?,
                seed: given.number("seed", SEED, 0, u64::MAX)?,
            },
            "clock" => PolicySpec::Clock { bits: given.number("bits", 1, 1, 2)? },
            "slru" => PolicySpec::Slru {
                segments: given.number("segments", 2, 1, Slru::MOST_SEGMENTS as u8)?,
            },
            "two-queue" => PolicySpec::TwoQueue,
            "sieve" => PolicySpec::Sieve,
            "mobius" => PolicySpec::Mobius,
            "s3-fifo" => PolicySpec::S3Fifo,
            "lfu" => PolicySpec::Lfu,
            "w-tinylfu" => PolicySpec::WTinyLfu,
            "arc" => PolicySpec::Arc,
            "lirs" => PolicySpec::Lirs,
            "lhd" => PolicySpec::Lhd { seed: given.number("seed", SEED, 0, u64::MAX)? },
            "hyperbolic" => {
                PolicySpec::Hyperbolic { seed: given.number("seed", SEED, 0, u64::MAX)? }
            }
            "gdsf" => PolicySpec::Gdsf,
            "lecar" => PolicySpec::Lecar { seed: given.number("seed", SEED, 0, u64::MAX)? },
            "cacheus" => PolicySpec::Cacheus { seed: given.number("seed", SEED, 0, u64::MAX)? },
            "random" => PolicySpec::Random { seed: given.number("seed", SEED, 0, u64::MAX)? },
            "belady" => PolicySpec::Belady,
            "belady-size" => PolicySpec::BeladySize,
            unknown => return Err(SpecError::UnknownPolicy(unknown.to_owned())),
        };
        given.finish()?;
        Ok(spec)
    }
}

impl fmt::Display for PolicySpec {
    /// The canonical form: parameters only where they are not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            PolicySpec::LruProb { q, seed } => {
                unless_default(f, "q", q, 0.5)?;
                unless_default(f, "seed", seed, SEED)
            }
            PolicySpec::LruDelayed { window } => unless_default(f, "window", window, WINDOW),
            PolicySpec::LruSampled { k, seed } => {
                unless_default(f, "k", k, 5)?;
                unless_default(f, "seed", seed, SEED)
            }
            PolicySpec::Clock { bits } => unless_default(f, "bits", bits, 1),
            PolicySpec::Slru { segments } => unless_default(f, "segments", segments, 2),
            PolicySpec::Lhd { seed }
            | PolicySpec::Hyperbolic { seed }
            | PolicySpec::Lecar { seed }
            | PolicySpec::Cacheus { seed }
            | PolicySpec::Random { seed } => unless_default(f, "seed", seed, SEED),
            _ => Ok(()),
        }
    }
}

fn unless_default<N>(f: &mut fmt::Formatter<'_>, key: &str, value: N, default: N) -> fmt::Result
where
    N: PartialEq + fmt::Display,
{
    if value == default { Ok(()) } else { write!(f, ":{key}={value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_prints_itself() {
        for name in PolicySpec::NAMES {
            assert_eq!(
                name.parse::<PolicySpec>().map(|spec| spec.to_string()),
                Ok(name.to_owned())
            );
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
        ] {
            let spec: PolicySpec = text.parse().expect("it parses");
            assert_eq!(spec.to_string(), text);
            if let Some(seeded) = spec.with_seed(3) {
                assert!(seeded.to_string().ends_with(":seed=3"), "{seeded}");
            }
        }
        assert_eq!("slru:segments=2".parse(), Ok(PolicySpec::Slru { segments: 2 }));
        assert!("lru-prob:q=NaN".parse::<PolicySpec>().is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<PolicySpec>().unwrap_err().to_string();
        assert!(error("lruu").starts_with("unknown policy `lruu`; known are fifo, lru"));
        assert_eq!(error("lru:k=5"), "policy `lru` has no parameter `k=5`; it takes none");
        assert_eq!(
            error("clock:bits=3"),
            "policy `clock`: `bits=3` is not allowed; it takes bits from 1 to 2"
        );
        assert!(error("clock:bits").contains("`bits` is not allowed"));
        assert!(error("clock:bits=1:bits=2").contains("no parameter `bits=2`"));
        assert!(error("clock:").contains("no parameter ``"));
    }
}
