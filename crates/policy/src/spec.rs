//! Policies by name: `clock:bits=2` as users write it, and the one place where a
//! name becomes a type.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{
    Belady, BeladySize, Clock, Fifo, Gdsf, Hyperbolic, Lhd, Lru, Mobius, Policy, S3Fifo, Sieve,
};

/// Where chance starts unless the user says otherwise.
const DEFAULT_SEED: u64 = 1;

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
    /// [`Gdsf`].
    Gdsf,
    /// [`Hyperbolic`].
    Hyperbolic {
        /// Of its samples.
        seed: u64,
    },
    /// [`Lhd`].
    Lhd {
        /// Of its samples and explorers.
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
    pub const NAMES: [&str; 11] = [
        "fifo",
        "lru",
        "clock",
        "sieve",
        "mobius",
        "s3-fifo",
        "gdsf",
        "hyperbolic",
        "lhd",
        "belady",
        "belady-size",
    ];

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        matches!(self, PolicySpec::Belady | PolicySpec::BeladySize)
    }

    /// The same policy with another seed; `None` if chance plays no part in it.
    pub fn with_seed(self, seed: u64) -> Option<Self> {
        match self {
            PolicySpec::Hyperbolic { .. } => Some(PolicySpec::Hyperbolic { seed }),
            PolicySpec::Lhd { .. } => Some(PolicySpec::Lhd { seed }),
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
            PolicySpec::Gdsf => visitor.visit(Gdsf::default()),
            PolicySpec::Hyperbolic { seed } => visitor.visit(Hyperbolic::new(seed)),
            PolicySpec::Lhd { seed } => visitor.visit(Lhd::new(capacity, seed)),
            PolicySpec::Belady => visitor.visit(Belady::new(future())),
            PolicySpec::BeladySize => visitor.visit(BeladySize::new(future())),
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
            "gdsf" => PolicySpec::Gdsf,
            "hyperbolic" => PolicySpec::Hyperbolic { seed: parameters.seed()? },
            "lhd" => PolicySpec::Lhd { seed: parameters.seed()? },
            "belady" => PolicySpec::Belady,
            "belady-size" => PolicySpec::BeladySize,
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
            PolicySpec::Gdsf => f.write_str("gdsf"),
            PolicySpec::Hyperbolic { seed: DEFAULT_SEED } => f.write_str("hyperbolic"),
            PolicySpec::Hyperbolic { seed } => write!(f, "hyperbolic:seed={seed}"),
            PolicySpec::Lhd { seed: DEFAULT_SEED } => f.write_str("lhd"),
            PolicySpec::Lhd { seed } => write!(f, "lhd:seed={seed}"),
            PolicySpec::Belady => f.write_str("belady"),
            PolicySpec::BeladySize => f.write_str("belady-size"),
        }
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

    /// Takes the number that chance starts from.
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
    fn chance_has_a_seed() {
        let spec = |text: &str| text.parse::<PolicySpec>().unwrap();
        for name in ["hyperbolic", "lhd"] {
            let seeded = spec(name).with_seed(7).unwrap();
            assert_eq!(seeded.to_string(), format!("{name}:seed=7"));
            assert_eq!(spec(&seeded.to_string()), seeded);
            assert_eq!(seeded.with_seed(1), Some(spec(name)));
        }
        assert_eq!(spec("gdsf").with_seed(7), None);
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
        assert!(error("lhd:seed=-1").contains("it takes seed from 0 to 18446744073709551615"));
    }
}
