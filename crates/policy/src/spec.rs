//! Policies by name: `clock:bits=2` as users write it, and the one place where a
//! name becomes a type.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Belady, Clock, Fifo, Lru, Mobius, Policy, S3Fifo, Sieve};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicySpec {
    /// [`Fifo`].
    Fifo,
    /// [`Lru`].
    Lru,
    /// [`Clock`] with 1 or 2 bits.
    Clock {
        /// Width of the count.
        bits: u8,
    },
    /// [`Sieve`].
    Sieve,
    /// [`Mobius`].
    Mobius,
    /// [`S3Fifo`].
    S3Fifo,
    /// [`Belady`], which needs the future.
    Belady,
}

/// What a name cannot be read as a policy for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy has this name.
    #[error("unknown policy `{0}`; known are {known}", known = PolicySpec::NAMES.join(", "))]
    UnknownPolicy(String),
    /// The policy has no such parameter.
    #[error("policy `{policy}` has no parameter `{parameter}`; {expected}")]
    UnknownParameter {
        /// Name of the policy.
        policy: &'static str,
        /// The parameter as given.
        parameter: String,
        /// What it does have.
        expected: &'static str,
    },
    /// The parameter's value is out of range or no value at all.
    #[error("policy `{policy}`: `{parameter}` is not allowed; {expected}")]
    BadValue {
        /// Name of the policy.
        policy: &'static str,
        /// The parameter as given.
        parameter: String,
        /// What is allowed.
        expected: &'static str,
    },
}

/// What to do with a policy once its type is known: [`PolicySpec::visit`].
pub trait PolicyVisitor {
    /// What comes of it.
    type Output;

    /// Called once with the policy.
    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Output;
}

const CLOCK_PARAMETERS: &str = "it takes bits=1 or bits=2";

impl PolicySpec {
    /// The names of all policies.
    pub const NAMES: [&str; 7] = ["fifo", "lru", "clock", "sieve", "mobius", "s3-fifo", "belady"];

    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            PolicySpec::Fifo => "fifo",
            PolicySpec::Lru => "lru",
            PolicySpec::Clock { .. } => "clock",
            PolicySpec::Sieve => "sieve",
            PolicySpec::Mobius => "mobius",
            PolicySpec::S3Fifo => "s3-fifo",
            PolicySpec::Belady => "belady",
        }
    }

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        matches!(self, PolicySpec::Belady)
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
        match self {
            PolicySpec::Fifo => visitor.visit(Fifo::default()),
            PolicySpec::Lru => visitor.visit(Lru::default()),
            PolicySpec::Clock { bits: 1 } => visitor.visit(Clock::<1>::default()),
            PolicySpec::Clock { .. } => visitor.visit(Clock::<3>::default()),
            PolicySpec::Sieve => visitor.visit(Sieve::default()),
            PolicySpec::Mobius => visitor.visit(Mobius::default()),
            PolicySpec::S3Fifo => visitor.visit(S3Fifo::new(capacity)),
            PolicySpec::Belady => visitor.visit(Belady::new(future())),
        }
    }

    fn set(&mut self, parameter: &str) -> Result<(), SpecError> {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (&mut *self, key) {
            (PolicySpec::Clock { bits }, "bits") => {
                *bits = match value {
                    "1" => 1,
                    "2" => 2,
                    _ => {
                        return Err(SpecError::BadValue {
                            policy: "clock",
                            parameter: parameter.to_owned(),
                            expected: CLOCK_PARAMETERS,
                        });
                    }
                };
                Ok(())
            }
            _ => Err(SpecError::UnknownParameter {
                policy: self.name(),
                parameter: key.to_owned(),
                expected: match self {
                    PolicySpec::Clock { .. } => CLOCK_PARAMETERS,
                    _ => "it takes none",
                },
            }),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut spec = match name {
            "fifo" => PolicySpec::Fifo,
            "lru" => PolicySpec::Lru,
            "clock" => PolicySpec::Clock { bits: 1 },
            "sieve" => PolicySpec::Sieve,
            "mobius" => PolicySpec::Mobius,
            "s3-fifo" => PolicySpec::S3Fifo,
            "belady" => PolicySpec::Belady,
            _ => return Err(SpecError::UnknownPolicy(name.to_owned())),
        };
        parts.try_for_each(|parameter| spec.set(parameter))?;
        Ok(spec)
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySpec::Clock { bits: 2 } => f.write_str("clock:bits=2"),
            _ => f.write_str(self.name()),
        }
    }
}
