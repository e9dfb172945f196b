//! The policies that the cache runs, by name.

use std::fmt;
use std::str::FromStr;

/// Which entry goes when the cache is full.
///
/// All of these but [`Policy::Sieve`] run without locks. They differ in what they cost
/// and in how well they guess; `frazil advise` tells which suits a trace.
///
/// ```
/// use frazil::Policy;
/// assert_eq!("mobius".parse(), Ok(Policy::Mobius));
/// assert_eq!("clock:bits=2".parse(), Ok(Policy::Clock { bits: 2 }));
/// assert_eq!(Policy::S3Fifo.to_string(), "s3-fifo");
/// assert!("lru".parse::<Policy>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The oldest goes; a hit does nothing at all.
    Fifo,
    /// FIFO with second chances: a hit raises a count of `bits` bits, which eviction
    /// lowers.
    Clock {
        /// 1 or 2.
        bits: u8,
    },
    /// SIEVE as two queues that trade places, without locks: the default.
    #[default]
    Mobius,
    /// A small queue on trial, a main queue, and the hashes of what was evicted from the
    /// small one. Withstands scans best.
    S3Fifo,
    /// SIEVE with a lock around insertion and eviction: the rival that [`Policy::Mobius`]
    /// is measured against. It evicts the same entries.
    Sieve,
}

impl Policy {
    /// Every policy, each with its usual parameters.
    ///
    /// ```
    /// assert!(frazil::Policy::ALL.contains(&frazil::Policy::Mobius));
    /// ```
    pub const ALL: [Policy; 6] = [
        Policy::Fifo,
        Policy::Clock { bits: 1 },
        Policy::Clock { bits: 2 },
        Policy::Mobius,
        Policy::S3Fifo,
        Policy::Sieve,
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fifo => f.write_str("fifo"),
            Policy::Clock { bits: 1 } => f.write_str("clock"),
            Policy::Clock { bits } => write!(f, "clock:bits={bits}"),
            Policy::Mobius => f.write_str("mobius"),
            Policy::S3Fifo => f.write_str("s3-fifo"),
            Policy::Sieve => f.write_str("sieve"),
        }
    }
}

/// A name that is no policy of the cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown policy '{0}' for the concurrent cache; it has \
     fifo, clock, clock:bits=2, mobius, s3-fifo, sieve"
)]
pub struct PolicyError(String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        match name {
            "clock:bits=1" => Ok(Policy::Clock { bits: 1 }),
            _ => Policy::ALL
                .into_iter()
                .find(|policy| policy.to_string() == name)
                .ok_or_else(|| PolicyError(name.to_owned())),
        }
    }
}
