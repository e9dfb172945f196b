//! Policies by name: `clock:bits=2` as users write it, and the one place where a
//! name becomes a type.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Belady, Cacheus, Clock, Fifo, Lecar, Lru, Mobius, Policy, S3Fifo, Sieve};

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
    /// [`Clock`].
    Clock {
        /// Width of the count: 1 or 2.
        bits: u8,
    },
    /// [`Sieve`].
    Sieve,
    /// [`Mobius`].
    Mobius,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Lecar`].
    Lecar {
        /// Where its random numbers start.
        seed: u64,
    },
    /// [`Cacheus`].
    Cacheus {
        /// Where its random numbers start.
        seed: u64,
    },
    /// [`Belady`], which needs the future.
    Belady,
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
    pub const NAMES: [&str; 9] =
        ["fifo", "lru", "clock", "sieve", "mobius", "s3-fifo", "lecar", "cacheus", "belady"];

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        matches!(self, PolicySpec::Belady)
    }

    /// The same policy with another seed; `None` if chance plays no part in it.
    pub fn with_seed(self, seed: u64) -> Option<Self> {
        match self {
            PolicySpec::Lecar { .. } => Some(PolicySpec::Lecar { seed }),
            PolicySpec::Cacheus { .. } => Some(PolicySpec::Cacheus { seed }),
            _ => None,
        }
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
            PolicySpec::Clock { bits: 1 } => visitor.visit(Clock::<1>::default()),
            PolicySpec::Clock { .. } => visitor.visit(Clock::<3>::default()),
            PolicySpec::Sieve => visitor.visit(Sieve::default()),
            PolicySpec::Mobius => visitor.visit(Mobius::default()),
            PolicySpec::S3Fifo => visitor.visit(S3Fifo::new(capacity)),
            PolicySpec::Lecar { seed } => visitor.visit(Lecar::new(capacity, seed)),
            PolicySpec::Cacheus { seed } => visitor.visit(Cacheus::new(capacity, seed)),
            PolicySpec::Belady => visitor.visit(Belady::new(future())),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parameters = Parameters::of(text);
        let spec = match parameters.policy {
            "fifo" => PolicySpec::Fifo,
            "lru" => PolicySpec::Lru,
            "clock" => PolicySpec::Clock { bits: parameters.number("bits", 1, 1, 2)? },
            "sieve" => PolicySpec::Sieve,
            "mobius" => PolicySpec::Mobius,
            "s3-fifo" => PolicySpec::S3Fifo,
            "lecar" => PolicySpec::Lecar { seed: parameters.seed()? },
            "cacheus" => PolicySpec::Cacheus { seed: parameters.seed()? },
            "belady" => PolicySpec::Belady,
            unknown => return Err(SpecError::UnknownPolicy(unknown.to_owned())),
        };
        parameters.finish()?;
        Ok(spec)
    }
}

impl fmt::Display for PolicySpec {
    /// The canonical form: parameters only where they are not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PolicySpec::Fifo => f.write_str("fifo"),
            PolicySpec::Lru => f.write_str("lru"),
            PolicySpec::Clock { bits: 1 } => f.write_str("clock"),
            PolicySpec::Clock { bits } => write!(f, "clock:bits={bits}"),
            PolicySpec::Sieve => f.write_str("sieve"),
            PolicySpec::Mobius => f.write_str("mobius"),
            PolicySpec::S3Fifo => f.write_str("s3-fifo"),
            PolicySpec::Lecar { seed } => write_seeded(f, "lecar", seed),
            PolicySpec::Cacheus { seed } => write_seeded(f, "cacheus", seed),
            PolicySpec::Belady => f.write_str("belady"),
        }
    }
}

const DEFAULT_SEED: u64 = 1;

fn write_seeded(f: &mut fmt::Formatter<'_>, name: &str, seed: u64) -> fmt::Result {
    match seed {
        DEFAULT_SEED => f.write_str(name),
        seed => write!(f, "{name}:seed={seed}"),
    }
}

/// The parameters behind a policy's name, taken one by one.
struct Parameters<'a> {
    policy: &'a str,
    /// `key=value` as given, until it is taken.
    given: Vec<&'a str>,
    /// What the policy takes, in words.
    known: Vec<String>,
}

impl<'a> Parameters<'a> {
    fn of(text: &'a str) -> Self {
        let mut parts = text.split(':');
        let policy = parts.next().unwrap_or_default();
        Parameters { policy, given: parts.collect(), known: Vec::new() }
    }

    /// Takes the number `key`, `default` if it is not given.
    fn number<N>(&mut self, key: &str, default: N, least: N, most: N) -> Result<N, SpecError>
    where
        N: FromStr + PartialOrd + fmt::Display + Copy,
    {
        self.known.push(format!("{key} from {least} to {most}"));
        let named = |parameter: &&str| parameter.split('=').next() == Some(key);
        let Some(place) = self.given.iter().position(named) else {
            return Ok(default);
        };
        let parameter = self.given.remove(place);
        let value = parameter.split_once('=').and_then(|(_, value)| value.parse().ok());
        match value {
            Some(value) if least <= value && value <= most => Ok(value),
            _ => Err(SpecError::BadValue {
                policy: self.policy.to_owned(),
                parameter: parameter.to_owned(),
                expected: format!("it takes {}", self.known.join(", ")),
            }),
        }
    }

    fn seed(&mut self) -> Result<u64, SpecError> {
        self.number("seed", DEFAULT_SEED, 0, u64::MAX)
    }

    /// Nothing may be left over, not even a parameter given twice.
    fn finish(self) -> Result<(), SpecError> {
        let Some(parameter) = self.given.first() else {
            return Ok(());
        };
        Err(SpecError::UnknownParameter {
            policy: self.policy.to_owned(),
            parameter: (*parameter).to_owned(),
            expected: match self.known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            },
        })
    }
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
