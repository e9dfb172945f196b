//! Policies by name as the simulator runs them: the online ones, and the optima that
//! know the future.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::online::{read_mad, visit_mad};
use crate::parameters::Parameters;
use crate::{
    Aim, Belady, BeladyMad, BeladySize, DelayCosts, FetchCosts, GlCache, GroupLearning, HotFirst,
    Lrb, ObjectLearning, OfAll, Online, Policy, TraceKnowledge, nearest, overlay,
};

/// The name of the overlay.
const FROZEN: &str = "frozen";

/// The names of the policies that train in place, during which no cache can wait.
pub(crate) const GL_CACHE: &str = "gl-cache";
pub(crate) const LRB: &str = "lrb";
/// The names of the policies that only the simulator runs. All except the first two need the
/// future.
pub(crate) const SIMULATED: [&str; 5] = [GL_CACHE, LRB, "belady", "belady-size", "belady-mad"];
/// A schedule for one trace: not a policy, but listed with them.
pub(crate) const SCHEDULE: &str = "belatedly";

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
    /// A policy whose hottest share is frozen permanently once the cache is warm:
    /// `frozen:share=0.5+lru`, for a host of one thread. (The concurrent cache freezes by itself,
    /// with any policy.)
    Frozen {
        /// Share of the residents, hottest first, from 0 to 1.
        share: f64,
        /// The policy of the rest.
        base: Online,
    },
    /// An [`Online::Mad`] that keeps counters of all objects ever seen ([`OfAll`]), which no cache
    /// can.
    MadOfAll(Online),
    /// [`GlCache`], which trains its model in place.
    GlCache(GroupLearning),
    /// [`Lrb`], which trains its model in place.
    Lrb(ObjectLearning),
    /// [`Belady`], which needs the future.
    Belady,
    /// [`BeladySize`], which needs the future.
    BeladySize,
    /// [`BeladyMad`], which needs the future.
    BeladyMad,
}

/// Why a name is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// No policy has this name; with the known names.
    UnknownPolicy(String, &'static [&'static str]),
    /// The policy is offline, and cannot run in a cache.
    Offline(String),
    /// The policy keeps an unbounded history.
    Unbounded(String),
    /// The policy pauses requests to train its model.
    Stops(String),
    /// The policy has no such parameter.
    UnknownParameter {
        /// Name of the policy.
        policy: String,
        /// The parameter as given.
        parameter: String,
        /// The parameters that it has.
        expected: String,
    },
    /// The parameter's value is out of range or missing.
    BadValue {
        /// Name of the policy.
        policy: String,
        /// The parameter as given.
        parameter: String,
        /// The allowed values.
        expected: String,
    },
    /// The policy cannot freeze.
    CannotFreeze(String),
    /// The share to freeze is missing.
    NoShare(String),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownPolicy(policy, known) => {
                write!(f, "unknown policy `{policy}`")?;
                if let Some(near) = nearest(policy, known.iter().copied()) {
                    write!(f, "; did you mean `{near}`? Known")?;
                } else {
                    f.write_str("; known")?;
                }
                write!(f, " are {}", known.join(", "))
            }
            SpecError::Offline(policy) => {
                write!(f, "policy `{policy}` needs the future: only the simulator runs it")
            }
            SpecError::Unbounded(policy) => write!(
                f,
                "policy `{policy}` keeps counters of every object there ever was: only the \
                 simulator runs it"
            ),
            SpecError::Stops(policy) => {
                write!(f, "policy `{policy}` stops to train its model: only the simulator runs it")
            }
            SpecError::UnknownParameter { policy, parameter, expected } => {
                write!(f, "policy `{policy}` has no parameter `{parameter}`; it takes {expected}")
            }
            SpecError::BadValue { policy, parameter, expected } => {
                write!(f, "policy `{policy}`: `{parameter}` is not allowed; {expected}")
            }
            SpecError::CannotFreeze(policy) => write!(
                f,
                "policy `{policy}` cannot be frozen: there is no way to set its hottest aside and \
                 to put them back; those that can are {}",
                freezable().join(", ")
            ),
            SpecError::NoShare(policy) => write!(
                f,
                "`{policy}` does not say how much is frozen, which the cache finds out by the \
                 clock: give a share, as in `frozen:share=0.5+lru`"
            ),
        }
    }
}

impl Error for SpecError {}

/// The names of the policies that can freeze.
fn freezable() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        Online::ALL.iter().filter(|it| overlay::can_freeze(**it)).map(Online::name).collect();
    names.dedup();
    names
}

/// The work to do with a policy once its type is known: [`PolicySpec::visit`], [`Online::visit`].
pub trait PolicyVisitor {
    /// The result.
    type Output;

    /// Called once with the policy.
    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output;

    /// Called instead with a policy that can freeze its hottest residents ([`Online::can_freeze`]).
    fn visit_hot_first<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Self::Output
    where
        Self: Sized,
    {
        self.visit(policy)
    }

    /// Called instead with CLOCK, Mobius and S3-FIFO: queues that a host of many threads can run
    /// without a lock, in its own form.
    fn visit_queue<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output
    where
        Self: Sized,
    {
        self.visit(policy)
    }

    /// Called instead for the many rarely used policies: with an overlay, or with counters of all
    /// objects ever seen. A visitor's code is compiled for each type; here it may use slower,
    /// shared code.
    fn visit_rare<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output
    where
        Self: Sized,
    {
        self.visit(policy)
    }
}

/// Marks every policy on its way to a visitor as rarely used.
pub(crate) struct Rare<V>(pub(crate) V);

impl<V: PolicyVisitor> PolicyVisitor for Rare<V> {
    type Output = V::Output;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> V::Output {
        self.0.visit_rare(policy)
    }
}

/// What a replaying host knows of a trace beforehand.
pub trait KnownTrace {
    /// The positions of next requests, as [`Belady::new`] takes them; empty if not known.
    fn next(&self) -> Arc<[u32]>;

    /// The time of each request in nanoseconds, never decreasing; empty if not known.
    fn times_ns(&self) -> Arc<[u64]>;

    /// How many requests there are; 0 if not known.
    fn requests(&self) -> u64;
}

/// Nothing is known beforehand.
impl KnownTrace for () {
    fn next(&self) -> Arc<[u32]> {
        Arc::default()
    }
    fn times_ns(&self) -> Arc<[u64]> {
        Arc::default()
    }
    fn requests(&self) -> u64 {
        0
    }
}

impl PolicySpec {
    /// The names of all policies: the online ones first.
    pub const NAMES: [&str; Online::NAMES.len() + SIMULATED.len()] = {
        let mut names = [SIMULATED[0]; Online::NAMES.len() + SIMULATED.len()];
        let mut place = 0;
        while place < Online::NAMES.len() {
            names[place] = Online::NAMES[place];
            place += 1;
        }
        while place < names.len() {
            names[place] = SIMULATED[place - Online::NAMES.len()];
            place += 1;
        }
        names
    };

    /// The name without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            PolicySpec::Online(policy) | PolicySpec::MadOfAll(policy) => policy.name(),
            PolicySpec::Frozen { .. } => FROZEN,
            PolicySpec::GlCache(_) => GL_CACHE,
            PolicySpec::Lrb(_) => LRB,
            PolicySpec::Belady => "belady",
            PolicySpec::BeladySize => "belady-size",
            PolicySpec::BeladyMad => "belady-mad",
        }
    }

    /// Whether the policy must know the future, and so runs in the simulator only.
    pub fn is_offline(&self) -> bool {
        match self {
            PolicySpec::GlCache(learning) => learning.is_offline(),
            PolicySpec::Belady | PolicySpec::BeladySize | PolicySpec::BeladyMad => true,
            _ => false,
        }
    }

    /// Whether the policy is better, or only runs, if the trace is known beforehand: its times, its
    /// length, its future.
    pub fn wants_trace(&self) -> bool {
        self.is_offline() || matches!(self, PolicySpec::GlCache(_))
    }

    /// The same policy with another seed; `None` if it draws no random numbers.
    pub fn with_seed(self, another: u64) -> Option<Self> {
        match self {
            PolicySpec::Online(policy) => policy.with_seed(another).map(PolicySpec::Online),
            PolicySpec::Frozen { share, base } => {
                let base = base.with_seed(another)?;
                Some(PolicySpec::Frozen { share, base })
            }
            PolicySpec::MadOfAll(policy) => policy.with_seed(another).map(PolicySpec::MadOfAll),
            PolicySpec::Lrb(learning) => {
                Some(PolicySpec::Lrb(ObjectLearning { seed: another, ..learning }))
            }
            PolicySpec::GlCache(_)
            | PolicySpec::Belady
            | PolicySpec::BeladySize
            | PolicySpec::BeladyMad => None,
        }
    }

    /// Builds the policy for a cache of `capacity` and passes it to `visitor`.
    ///
    /// It reads the positions of next requests ([`Belady::new`]) from `trace` if and only if the
    /// policy [is offline](Self::is_offline), and the rest only if it [wants](Self::wants_trace)
    /// it.
    pub fn visit<V: PolicyVisitor>(
        &self,
        capacity: u64,
        trace: &impl KnownTrace,
        visitor: V,
    ) -> V::Output {
        match self {
            PolicySpec::Online(policy) => policy.visit(capacity, visitor),
            PolicySpec::Frozen { share, base } => overlay::visit(*base, *share, capacity, visitor),
            PolicySpec::MadOfAll(Online::Mad { base, candidates, estimate, seed }) => {
                let visitor = Rare(visitor);
                visit_mad::<OfAll, _>((*base, *candidates), *estimate, *seed, capacity, visitor)
            }
            PolicySpec::MadOfAll(other) => other.visit(capacity, visitor),
            PolicySpec::GlCache(learning) => {
                let next = if learning.is_offline() { trace.next() } else { Arc::default() };
                let (times_ns, requests) = (trace.times_ns(), trace.requests());
                let known = TraceKnowledge { next, times_ns, requests };
                match learning.aim {
                    Aim::Hits => visitor.visit(<GlCache>::new(*learning, known)),
                    Aim::Delay => visitor.visit_rare(GlCache::<DelayCosts>::new(*learning, known)),
                    Aim::Cost => visitor.visit_rare(GlCache::<FetchCosts>::new(*learning, known)),
                }
            }
            PolicySpec::Lrb(learning) => visitor.visit(Lrb::new(*learning)),
            PolicySpec::Belady => visitor.visit(Belady::new(trace.next())),
            PolicySpec::BeladySize => visitor.visit(BeladySize::new(trace.next())),
            PolicySpec::BeladyMad => visitor.visit(BeladyMad::new(trace.next())),
        }
    }
}

impl FromStr for PolicySpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Some((overlay, base)) = text.split_once('+')
            && overlay.split(':').next() == Some(FROZEN)
        {
            return frozen(text, overlay, base);
        }
        let mut given = Parameters::of(text);
        let spec = match given.policy {
            "belady" => PolicySpec::Belady,
            "belady-size" => PolicySpec::BeladySize,
            "belady-mad" => PolicySpec::BeladyMad,
            GL_CACHE => PolicySpec::GlCache(GroupLearning::read(&mut given)?),
            LRB => PolicySpec::Lrb(ObjectLearning::read(&mut given)?),
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

/// The frozen share and its policy.
fn frozen(text: &str, overlay: &str, base: &str) -> Result<PolicySpec, SpecError> {
    let mut given = Parameters::of(overlay);
    // A missing share is out of range.
    let share = given.number("share", -1.0, 0.0, 1.0)?;
    given.finish()?;
    let base: Online = base.parse()?;
    if !overlay::can_freeze(base) {
        return Err(SpecError::CannotFreeze(base.to_string()));
    }
    if share < 0.0 {
        return Err(SpecError::NoShare(text.to_owned()));
    }
    Ok(PolicySpec::Frozen { share, base })
}

/// For a mistyped name the error also lists the offline policies.
fn with_offline_names(error: SpecError) -> SpecError {
    match error {
        SpecError::UnknownPolicy(name, _) => SpecError::UnknownPolicy(name, &PolicySpec::NAMES),
        other => other,
    }
}

impl fmt::Display for PolicySpec {
    /// The canonical form: only parameters that differ from the usual ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicySpec::Online(policy) => policy.fmt(f),
            PolicySpec::Frozen { share, base } => write!(f, "{FROZEN}:share={share}+{base}"),
            PolicySpec::MadOfAll(policy) => write!(f, "{policy}:counters=all"),
            PolicySpec::GlCache(learning) => write!(f, "{GL_CACHE}{learning}"),
            PolicySpec::Lrb(learning) => write!(f, "{LRB}{learning}"),
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
        assert_eq!(offline.count(), SIMULATED.len() - 2);
    }

    #[test]
    fn what_is_frozen_is_part_of_the_name() {
        let spec: PolicySpec = "frozen:share=0.25+lru-prob:q=0.9".parse().expect("it parses");
        let base = Online::LruProb { q: 0.9, seed: 1 };
        assert_eq!(spec, PolicySpec::Frozen { share: 0.25, base });
        assert!(!spec.is_offline());
        let seeded = spec.with_seed(3).map(|it| it.to_string());
        assert_eq!(seeded.as_deref(), Some("frozen:share=0.25+lru-prob:q=0.9:seed=3"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<PolicySpec>().unwrap_err().to_string();
        assert!(error("lruu").ends_with("random, gl-cache, lrb, belady, belady-size, belady-mad"));
        assert!(error("lruu").starts_with("unknown policy `lruu`; did you mean `lru`? Known are "));
        assert!(error("redis").starts_with("unknown policy `redis`; known are "));
        assert_eq!(error("belady:k=5"), "policy `belady` has no parameter `k=5`; it takes none");
        assert!(error("clock:bits=3").contains("bits from 1 to 2"));
        assert!(error("frozen:share=2+lru").contains("share from 0 to 1"));
        assert!(error("frozen:share=-1+lru").contains("share from 0 to 1"));
        assert!(error("frozen:part=1+lru").contains("no parameter `part=1`"));
        assert!(error("frozen:share=0.5+lruu").starts_with("unknown policy `lruu`"));
        assert!(error("frozen:share=0.5+belady").contains("needs the future"));
        let sieve = error("frozen:share=0.5+sieve");
        assert!(sieve.contains("`sieve` cannot be frozen") && sieve.contains("mobius"), "{sieve}");
        assert!(error("frozen+sieve").contains("`sieve` cannot be frozen"));
        assert!(error("frozen+lru").contains("frozen:share=0.5+lru"));
    }
}
