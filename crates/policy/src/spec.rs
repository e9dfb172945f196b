//! Policies by name as the simulator runs them: the online ones, and the optima that
//! are told the future.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::online::{read_mad, visit_mad};
use crate::parameters::Parameters;
use crate::{Belady, BeladyMad, BeladySize, OfAll, Online, Policy};

/// The names of the policies that need the future.
pub(crate) const OFFLINE: [&str; 3] = ["belady", "belady-size", "belady-mad"];

/// A policy and its parameters.
///
/// ```
/// use frazil_policy::{Online, PolicySpec};
/// let spec: PolicySpec = "clock:bits=2".parse()?;
/// assert_eq!(spec, PolicySpec::Online(Online::Clock { bits: 2 }));
/// assert_eq!(spec.to_string(), "clock:bits=2");
/// assert!("clock:bits=9".parse::<PolicySpec>().is_err());
/// # Ok::<(), frazil_policy::SpecError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PolicySpec {
    /// A policy that runs anywhere.
    Online(Online),
    /// An [`Online::Mad`] that keeps the counters of all objects there ever were
    /// ([`OfAll`]), which no cache can.
    MadOfAll(Online),
    /// [`Belady`], which needs the future.
    Belady,
    /// [`BeladySize`], which needs the future.
    BeladySize,
    /// [`BeladyMad`], which needs the future.
    BeladyMad,
}

/// Why a name cannot be read as a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No policy has this name; beside it, those that there are.
    #[error("unknown policy `{0}`; known are {known}", known = .1.join(", "))]
    UnknownPolicy(String, &'static [&'static str]),
    /// The policy is told the future, which no cache can be.
    #[error("policy `{0}` needs the future: only the simulator runs it")]
    Offline(String),
    /// The policy remembers without a bound.
    #[error(
        "policy `{0}` keeps counters of every object there ever was: only the simulator runs it"
    )]
    Unbounded(String),
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

/// What to do with a policy once its type is known: [`PolicySpec::visit`],
/// [`Online::visit`].
pub trait PolicyVisitor {
    /// What comes of it.
    type Output;

    /// Called once with the policy.
    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output;
}

impl PolicySpec {
    /// The names of all policies: the online ones first.
    pub const NAMES: [&str; Online::NAMES.len() + OFFLINE.len()] = {
        let mut names = [OFFLINE[0]; Online::NAMES.len() + OFFLINE.len()];
        let mut place = 0;
        while place < Online::NAMES.len() {
            names[place] = Online::NAMES[place];
            place += 1;
        }
        while place < names.len() {
            names[place] = OFFLINE[place - Online::NAMES.len()];
            place += 1;
        }
        names
    };

    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            PolicySpec::Online(policy) | PolicySpec::MadOfAll(policy) => policy.name(),
            PolicySpec::Belady => "belady",
            PolicySpec::BeladySize => "belady-size",
            PolicySpec::BeladyMad => "belady-mad",
        }
    }

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        matches!(self, PolicySpec::Belady | PolicySpec::BeladySize | PolicySpec::BeladyMad)
    }

    /// The same policy with another seed; `None` if chance plays no part in it.
    pub fn with_seed(self, another: u64) -> Option<Self> {
        match self {
            PolicySpec::Online(policy) => policy.with_seed(another).map(PolicySpec::Online),
            PolicySpec::MadOfAll(policy) => policy.with_seed(another).map(PolicySpec::MadOfAll),
            PolicySpec::Belady | PolicySpec::BeladySize | PolicySpec::BeladyMad => None,
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
        match self {
            PolicySpec::Online(policy) => policy.visit(capacity, visitor),
            PolicySpec::MadOfAll(Online::Mad { base, sample, prior, seed }) => {
                visit_mad::<OfAll, V>(*base, [*sample, *prior], *seed, capacity, visitor)
            }
            PolicySpec::MadOfAll(other) => other.visit(capacity, visitor),
            PolicySpec::Belady => visitor.visit(Belady::new(future())),
            PolicySpec::BeladySize => visitor.visit(BeladySize::new(future())),
            PolicySpec::BeladyMad => visitor.visit(BeladyMad::new(future())),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut given = Parameters::of(text);
        let spec = match given.policy {
            "belady" => PolicySpec::Belady,
            "belady-size" => PolicySpec::BeladySize,
            "belady-mad" => PolicySpec::BeladyMad,
            "mad" => match read_mad(&mut given)? {
                (policy, true) => PolicySpec::MadOfAll(policy),
                (policy, false) => PolicySpec::Online(policy),
            },
            _ => return text.parse().map(PolicySpec::Online).map_err(with_offline_names),
        };
        given.finish()?;
        Ok(spec)
    }
}

/// Whoever mistypes a name is shown the offline policies too.
fn with_offline_names(error: SpecError) -> SpecError {
    match error {
        SpecError::UnknownPolicy(name, _) => SpecError::UnknownPolicy(name, &PolicySpec::NAMES),
        other => other,
    }
}

impl fmt::Display for PolicySpec {
    /// The canonical form: parameters only where they are not the usual ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySpec::Online(policy) => policy.fmt(f),
            PolicySpec::MadOfAll(policy) => write!(f, "{policy}:counters=all"),
            PolicySpec::Belady | PolicySpec::BeladySize | PolicySpec::BeladyMad => {
                f.write_str(self.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_prints_itself() {
        for name in PolicySpec::NAMES {
            let spec: PolicySpec = name.parse().expect("it parses");
            assert_eq!((spec.to_string().as_str(), spec.name()), (name, name));
        }
        let offline = PolicySpec::NAMES.map(str::parse::<PolicySpec>);
        let offline = offline.iter().flatten().filter(|spec| spec.is_offline());
        assert_eq!(offline.count(), OFFLINE.len());
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<PolicySpec>().unwrap_err().to_string();
        assert!(error("lruu").ends_with("random, belady, belady-size, belady-mad"));
        assert_eq!(error("belady:k=5"), "policy `belady` has no parameter `k=5`; it takes none");
        assert!(error("clock:bits=3").contains("bits from 1 to 2"));
    }
}
