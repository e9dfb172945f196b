//! The candidates of `frazil advise`: policies, and caches that freeze part of their entries.
//!
//! `frozen+POLICY` is a cache that learns which share to freeze. It learns by the clock, and a
//! replay has no clock. So a few shares, 0 included, are replayed, and the one with the highest
//! predicted throughput counts.

use std::fmt;

use anyhow::anyhow;
use frazil_policy::{Online, PolicySpec, SpecError};

use crate::failure::Failure;

/// The frozen shares tried, without 0.
pub(crate) const SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

/// One of the candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Candidate {
    /// A policy, or a fixed share of it frozen.
    Fixed(PolicySpec),
    /// A policy with the best share frozen, which may be 0.
    Frozen(Online),
}

impl Candidate {
    /// Reads a name. Bad usage if it is unknown, needs the future, or cannot be frozen.
    pub(crate) fn parse(name: &str) -> Result<Self, Failure> {
        let frozen = name.strip_prefix("frozen+");
        let fixed = frozen.map(|base| format!("frozen:share=1+{base}"));
        let knows_the_future = |name: &str| {
            Failure::usage(anyhow!(
                "policy `{name}` is offline and can't be recommended; compare it in `frazil \
                 simulate`"
            ))
        };
        let spec = fixed.as_deref().unwrap_or(name).parse::<PolicySpec>();
        let spec = spec.map_err(|error| match error {
            SpecError::Offline(name) => knows_the_future(&name),
            other => Failure::usage(other),
        })?;
        match spec {
            PolicySpec::MadOfAll(_) => Err(Failure::usage(anyhow!(
                "policy `{spec}` keeps an unbounded history and can't be recommended; compare it \
                 in `frazil simulate`"
            ))),
            PolicySpec::GlCache(_) | PolicySpec::Lrb(_) => Err(Failure::usage(anyhow!(
                "policy `{spec}` pauses to train its model and can't be recommended; compare it \
                 in `frazil simulate`"
            ))),
            _ if spec.is_offline() => Err(knows_the_future(&spec.to_string())),
            PolicySpec::Frozen { base, .. } if frozen.is_some() => Ok(Candidate::Frozen(base)),
            _ => Ok(Candidate::Fixed(spec)),
        }
    }

    /// The policy of the entries that are not frozen, or of all.
    pub(crate) fn policy(&self) -> PolicySpec {
        match *self {
            Candidate::Fixed(PolicySpec::Frozen { base, .. }) | Candidate::Frozen(base) => {
                PolicySpec::Online(base)
            }
            Candidate::Fixed(policy) => policy,
        }
    }

    /// The policies to replay for it.
    pub(crate) fn replayed(&self) -> Vec<PolicySpec> {
        match *self {
            Candidate::Fixed(policy) => vec![policy],
            Candidate::Frozen(base) => {
                let frozen = SHARES.map(|share| PolicySpec::Frozen { share, base });
                [PolicySpec::Online(base)].into_iter().chain(frozen).collect()
            }
        }
    }

    /// Whether it may freeze entries.
    pub(crate) fn freezes(&self) -> bool {
        !matches!(self, Candidate::Fixed(PolicySpec::Online(_)))
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Fixed(policy) => policy.fmt(f),
            Candidate::Frozen(base) => write!(f, "frozen+{base}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for name in ["lru", "frozen+lru", "frozen:share=0.5+clock:bits=2", "frozen+lru-prob:q=0.9"]
        {
            assert_eq!(Candidate::parse(name).map(|it| it.to_string()).ok().as_deref(), Some(name));
        }
        let frozen = Candidate::parse("frozen+mobius").ok().unwrap();
        assert_eq!(frozen.policy().to_string(), "mobius");
        assert_eq!(frozen.replayed().len(), 1 + SHARES.len());
        for name in ["frozen+sieve", "frozen+belady", "belady", "frozen+", "frozen:share=2+lru"] {
            assert!(Candidate::parse(name).is_err(), "{name}");
        }
    }
}
