//! Our cache as an engine, looked up by `get` or through a pin.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frazil::{
    Builder, Cache, Freezing, FreezingControl, FreezingPhase, Pin, Policy, PolicyError, Promotion,
};

use thiserror::Error;

use crate::engine::{Engine, Session, Shared};

/// A value of a key: the key itself, or bytes behind a reference count, as for values that are too
/// big to copy.
///
/// ```
/// use std::sync::Arc;
/// use frazil_driver::Value;
/// assert_eq!(u64::of(7, 8).read(), 7);
/// assert_eq!(<Arc<[u8]>>::of(7, 100).len(), 100);
/// ```
pub trait Value: Clone + Send + Sync + 'static {
    /// The value of a key; of `bytes` bytes if the type has a variable size.
    fn of(key: u64, bytes: usize) -> Self;

    /// A number read out of the value.
    fn read(&self) -> u64;

    /// A cache of such values that freezes, with copies of them if they are small enough.
    fn freezing(builder: Builder<u64, Self>, freezing: Freezing) -> Builder<u64, Self> {
        builder.freezing(freezing)
    }
}

impl Value for u64 {
    #[inline]
    fn of(key: u64, _: usize) -> Self {
        key
    }

    #[inline]
    fn read(&self) -> u64 {
        *self
    }

    fn freezing(builder: Builder<u64, Self>, freezing: Freezing) -> Builder<u64, Self> {
        builder.freezing_copies(freezing)
    }
}

impl Value for Arc<[u8]> {
    fn of(key: u64, bytes: usize) -> Self {
        std::iter::repeat_n(key as u8, bytes).collect()
    }

    #[inline]
    fn read(&self) -> u64 {
        self.first().copied().unwrap_or_default().into()
    }
}

/// The setup of our cache: a policy; for a policy under a lock, the work of a hit; and whether the
/// hottest entries are frozen.
///
/// ```
/// use frazil::{Policy, Promotion};
/// use frazil_driver::{Frozen, Setup};
/// let setup: Setup = "adaptive+lru".parse()?;
/// assert_eq!((setup.policy, setup.promotion), (Policy::Lru, Some(Promotion::Adaptive)));
/// assert_eq!(setup.to_string(), "adaptive+lru");
/// let setup: Setup = "frozen:share=0.05+lru".parse()?;
/// assert_eq!((setup.policy, setup.frozen), (Policy::Lru, Frozen::Share(0.05)));
/// let setup: Setup = "frozen+lru".parse()?;
/// assert_eq!((setup.policy, setup.frozen), (Policy::Lru, Frozen::Learned));
/// # Ok::<(), frazil_driver::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The policy that chooses the entry to evict.
    pub policy: Policy,
    /// The work of a hit; the policy's own by default.
    pub promotion: Option<Promotion>,
    /// Number of shards, each with a lock, for a policy with one.
    pub shards: u32,
    /// Its frozen share.
    pub frozen: Frozen,
}

/// The frozen share of a cache.
///
/// ```
/// use frazil_driver::{Frozen, Setup};
/// assert_eq!("lru".parse::<Setup>()?.frozen, Frozen::Never);
/// # Ok::<(), frazil_driver::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Frozen {
    /// Nothing.
    #[default]
    Never,
    /// This share of the entries, from 0 to 1, once the cache is warm. The order of lock-free
    /// queues does not show the hottest entries; there the entries with the most hits while the
    /// cache learned are frozen.
    Share(f64),
    /// The share that the cache's own controller chooses, in its own thread.
    Learned,
}

/// Why a name is none of a [`Setup`].
#[derive(Debug, Error)]
pub enum SetupError {
    /// The rest of the name is no policy's name.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The frozen share is not a share.
    #[error("`{0}`: expected a share from 0 to 1, as in `frozen:share=0.05+lru`")]
    Share(String),
    /// A promotion of a policy that has none.
    #[error("`{0}`: a hit of this policy takes no lock")]
    TakesNoLock(String),
}

/// The prefix of a policy's name: its frozen share.
const FROZEN: &str = "frozen:share=";
const LEARNED: &str = "frozen+";

/// The longest wait of a run for a controller's decision.
const SETTLING_MAX: Duration = Duration::from_secs(20);

/// Prefixes of a policy's name that choose promotions.
const PROMOTIONS: [(&str, Promotion); 3] = [
    ("every-hit+", Promotion::EveryHit),
    ("try-lock+", Promotion::TryLock),
    ("adaptive+", Promotion::Adaptive),
];

impl From<Policy> for Setup {
    fn from(policy: Policy) -> Self {
        Setup { policy, promotion: None, shards: 1, frozen: Frozen::Never }
    }
}

impl Setup {
    /// Whether the policy runs without a lock, so that promotions and shards have no meaning.
    ///
    /// ```
    /// use frazil_driver::Setup;
    /// assert!("clock".parse::<Setup>()?.takes_no_lock() && !"lru".parse::<Setup>()?.takes_no_lock());
    /// # Ok::<(), frazil_driver::SetupError>(())
    /// ```
    pub fn takes_no_lock(self) -> bool {
        use Policy::{Clock, Fifo, Mobius, S3Fifo};
        matches!(self.policy, Fifo | Clock { .. } | Mobius | S3Fifo)
    }

    /// The builder of a cache with this setup; [`Ours`] does the freezing.
    ///
    /// ```
    /// let setup: frazil_driver::Setup = frazil::Policy::Lru.into();
    /// let cache: frazil::Cache<u64, u64> = setup.builder(100).build();
    /// assert_eq!(cache.policy(), frazil::Policy::Lru);
    /// ```
    pub fn builder<K, V>(self, capacity: u64) -> Builder<K, V> {
        let builder = Cache::builder(capacity).policy(self.policy);
        let builder = if self.takes_no_lock() { builder } else { builder.shards(self.shards) };
        match self.promotion {
            Some(promotion) => builder.promotion(promotion),
            None => builder,
        }
    }
}

impl FromStr for Setup {
    type Err = SetupError;

    fn from_str(name: &str) -> Result<Self, SetupError> {
        if let Some((share, base)) =
            name.strip_prefix(FROZEN).and_then(|share| share.split_once('+'))
        {
            let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let Some(share) = share else {
                return Err(SetupError::Share(name.to_owned()));
            };
            return frozen(Frozen::Share(share), base);
        }
        if let Some(base) = name.strip_prefix(LEARNED) {
            return frozen(Frozen::Learned, base);
        }
        unfrozen(name)
    }
}

/// The setup of a name after the prefix of the frozen share.
fn frozen(frozen: Frozen, name: &str) -> Result<Setup, SetupError> {
    let setup = unfrozen(name)?;
    if setup.takes_no_lock() || setup.policy.can_freeze() {
        return Ok(Setup { frozen, ..setup });
    }
    Err(PolicyError::CannotFreeze(setup.policy.to_string()).into())
}

/// The setup of a name without freezing.
fn unfrozen(name: &str) -> Result<Setup, SetupError> {
    for (prefix, promotion) in PROMOTIONS {
        if let Some(name) = name.strip_prefix(prefix) {
            let setup = Setup::from(name.parse::<Policy>()?);
            // SIEVE has a lock, which its hits do not take.
            if setup.takes_no_lock() || setup.policy == Policy::Sieve {
                return Err(SetupError::TakesNoLock(name.to_owned()));
            }
            return Ok(Setup { promotion: Some(promotion), ..setup });
        }
    }
    Ok(name.parse::<Policy>()?.into())
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frozen {
            Frozen::Never => {}
            Frozen::Share(share) => write!(f, "{FROZEN}{share}+")?,
            Frozen::Learned => f.write_str(LEARNED)?,
        }
        let prefix = PROMOTIONS.iter().find(|(_, promotion)| self.promotion == Some(*promotion));
        write!(f, "{}{}", prefix.map_or("", |(prefix, _)| prefix), self.policy)
    }
}

/// Our cache, looked up by `get`, which clones the value.
pub struct Ours<V> {
    /// Declared before the cache, so that the thread ends first.
    control: Option<FreezingControl>,
    cache: Arc<Cache<u64, V>>,
    value_bytes: usize,
    frozen: Frozen,
}

impl<V: Value> Ours<V> {
    /// A cache for `capacity` entries of values of `value_bytes` bytes.
    ///
    /// ```
    /// use frazil_driver::{Engine, Ours, Session};
    /// let ours = Ours::<u64>::new(frazil::Policy::Mobius, 100, 8);
    /// ours.session().insert(7);
    /// assert_eq!(ours.session().get(7), Some(7));
    /// ```
    pub fn new(setup: impl Into<Setup>, capacity: u64, value_bytes: usize) -> Self {
        let setup = setup.into();
        Ours { value_bytes, ..Ours::built(setup, setup.builder(capacity)) }
    }

    /// A cache with settings that a setup lacks; values of variable size have no bytes.
    ///
    /// ```
    /// use frazil_driver::{Ours, Setup};
    /// let setup: Setup = "frozen:share=0.5+lru".parse()?;
    /// let ours = Ours::<u64>::built(setup, setup.builder(100).entries(200));
    /// # assert_eq!(ours.cache().capacity(), 100);
    /// # Ok::<(), frazil_driver::SetupError>(())
    /// ```
    ///
    /// # Panics
    /// If the system refuses the thread of the controller.
    pub fn built(setup: Setup, builder: Builder<u64, V>) -> Self {
        let Setup { frozen, .. } = setup;
        let cache = Arc::new(match frozen {
            Frozen::Never => builder.build(),
            Frozen::Share(_) if !setup.takes_no_lock() => {
                V::freezing(builder, Freezing::ByHand).build()
            }
            Frozen::Share(_) | Frozen::Learned => V::freezing(builder, Freezing::Learned).build(),
        });
        let control = (frozen == Frozen::Learned)
            .then(|| cache.control_freezing().expect("a thread for the controller can be had"));
        Ours { control, cache, value_bytes: 0, frozen }
    }

    /// Whether the controller has decided: a share is frozen, or freezing does not pay for now.
    /// Always true without a controller.
    ///
    /// ```
    /// use frazil_driver::{Ours, Setup};
    /// let ours = Ours::<u64>::new("frozen+lru".parse::<Setup>()?, 100, 8);
    /// assert!(!ours.has_settled(), "it has not seen a request");
    /// # Ok::<(), frazil_driver::SetupError>(())
    /// ```
    pub fn has_settled(&self) -> bool {
        use FreezingPhase::{Frozen, Sleeping};
        let state = self.control.as_ref().and_then(|_| self.cache.freezing_state());
        state.is_none_or(|state| matches!(state.phase, Frozen | Sleeping))
    }

    /// Starts learning which entries are hit most, in a cache that learns without a controller.
    fn learn(&self) {
        use FreezingPhase::{Learning, Waiting};
        let began = Instant::now();
        while began.elapsed() < SETTLING_MAX {
            let idle = self.cache.step_freezing(began.elapsed());
            let state = self.cache.freezing_state();
            if state.is_none_or(|state| !matches!(state.phase, Waiting | Learning)) {
                break;
            }
            std::thread::sleep(idle.min(Duration::from_millis(10)));
        }
    }

    /// The cache itself, for operations that the interface of engines lacks.
    ///
    /// ```
    /// use frazil_driver::Ours;
    /// let ours = Ours::<u64>::new(frazil::Policy::Mobius, 100, 8);
    /// assert_eq!(ours.cache().capacity(), 100);
    /// ```
    pub fn cache(&self) -> &Cache<u64, V> {
        &self.cache
    }
}

impl<V: Value> Engine for Ours<V> {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }

    fn warmed(&self) {
        match self.frozen {
            Frozen::Never => {}
            Frozen::Share(share) => {
                self.learn();
                self.cache.freeze(share);
            }
            Frozen::Learned => {
                let began = Instant::now();
                while !self.has_settled() && began.elapsed() < SETTLING_MAX {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

impl<V: Value> Shared for Ours<V> {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.cache.get(&key).map(|value| value.read())
    }

    #[inline]
    fn insert(&self, key: u64) {
        self.cache.insert(key, V::of(key, self.value_bytes));
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.cache.remove(&key);
    }

    #[inline]
    fn bypasses(&self) -> bool {
        self.cache.bypasses()
    }
}

/// Our cache, looked up through pins that each serve a batch of look-ups.
///
/// ```
/// use frazil_driver::{Engine, Ours, Pinned, Session};
/// let pinned = Pinned(Ours::<u64>::new(frazil::Policy::Mobius, 100, 8));
/// let mut session = pinned.session();
/// session.insert(7);
/// session.rest();
/// assert_eq!(session.get(7), Some(7));
/// ```
pub struct Pinned<V>(pub Ours<V>);

/// A thread's session of a [`Pinned`].
pub struct PinnedSession<'a, V: Value> {
    ours: &'a Ours<V>,
    /// None until the first rest.
    pin: Option<Pin<'a, u64, V>>,
}

impl<V: Value> Engine for Pinned<V> {
    type Session<'a> = PinnedSession<'a, V>;

    fn session(&self) -> PinnedSession<'_, V> {
        PinnedSession { ours: &self.0, pin: None }
    }

    fn warmed(&self) {
        self.0.warmed();
    }
}

impl<V: Value> Session for PinnedSession<'_, V> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        match &self.pin {
            Some(pin) => pin.get(&key).map(Value::read),
            None => self.ours.get(key),
        }
    }

    #[inline]
    fn insert(&mut self, key: u64) {
        self.ours.insert(key);
    }

    #[inline]
    fn remove(&mut self, key: u64) {
        self.ours.remove(key);
    }

    #[inline]
    fn rest(&mut self) {
        // Drops the old pin first: nested pins would hold as long as both.
        self.pin = None;
        self.pin = Some(self.ours.cache.pin());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_setups_are_each_other() {
        let names = ["lru", "try-lock+slru", "frozen:share=0.25+adaptive+lru"];
        for name in names.into_iter().chain(["frozen+mobius", "frozen+every-hit+lru"]) {
            assert_eq!(name.parse::<Setup>().unwrap().to_string(), name);
        }
        for share in ["1.5", "-0.1", "NaN", ""] {
            let error = format!("frozen:share={share}+lru").parse::<Setup>().unwrap_err();
            assert!(error.to_string().contains("expected a share from 0 to 1"), "{error}");
        }
        for name in ["frozen:share=0.5+typo", "frozen+typo", "frozen+frozen+lru", "frozen"] {
            assert!(name.parse::<Setup>().is_err(), "{name}");
        }
        for name in ["frozen:share=0.5+sieve", "frozen+lirs", "frozen+adaptive+lhd"] {
            let error = name.parse::<Setup>().unwrap_err().to_string();
            assert!(error.contains("cannot be frozen") && error.contains("mobius"), "{error}");
        }
        for name in ["every-hit+sieve", "try-lock+mobius", "adaptive+clock:bits=2"] {
            let error = name.parse::<Setup>().unwrap_err().to_string();
            assert!(error.contains("takes no lock"), "{error}");
        }
    }
}
