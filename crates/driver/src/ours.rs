//! Our cache as an engine, looked up by `get` or through a pin.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use frazil::{Builder, Cache, Freezing, Pin, Policy, PolicyError, Promotion};

use thiserror::Error;

use crate::engine::{Engine, Session, Shared};

/// A value of a key: the key itself, or bytes behind a reference count, as values that
/// are too big to be copied are kept.
///
/// ```
/// use std::sync::Arc;
/// use frazil_driver::Value;
/// assert_eq!(u64::of(7, 8).read(), 7);
/// assert_eq!(<Arc<[u8]>>::of(7, 100).len(), 100);
/// ```
pub trait Value: Clone + Send + Sync + 'static {
    /// The value of a key; of `bytes` bytes if it has a choice.
    fn of(key: u64, bytes: usize) -> Self;

    /// A number read out of the value.
    fn read(&self) -> u64;

    /// A cache of such values that freezes: with copies of them, where they are small enough.
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

/// What our cache is to run: a policy, where that is under a lock what a hit does, and whether
/// the hottest entries are frozen.
///
/// ```
/// use frazil::{Policy, Promotion};
/// use frazil_driver::Setup;
/// let setup: Setup = "adaptive+lru".parse()?;
/// assert_eq!((setup.policy, setup.promotion), (Policy::Lru, Some(Promotion::Adaptive)));
/// assert_eq!(setup.to_string(), "adaptive+lru");
/// let setup: Setup = "frozen:share=0.05+lru".parse()?;
/// assert_eq!((setup.policy, setup.frozen_share), (Policy::Lru, Some(0.05)));
/// # Ok::<(), frazil_driver::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Which entry goes.
    pub policy: Policy,
    /// What a hit does; the policy's own unless set.
    pub promotion: Option<Promotion>,
    /// Parts with a lock each.
    pub shards: u32,
    /// The share of the entries that is frozen when the cache is warm, from 0 to 1.
    pub frozen_share: Option<f64>,
}

/// Why a name is none of a [`Setup`].
#[derive(Debug, Error)]
pub enum SetupError {
    /// What is left of the name is no policy's.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What is to be frozen is no share.
    #[error("`{0}`: expected a share from 0 to 1, as in `frozen:share=0.05+lru`")]
    Share(String),
}

/// Before a policy's name: what is frozen of it.
const FROZEN: &str = "frozen:share=";

/// Before a policy's name, by which they are chosen.
const PROMOTIONS: [(&str, Promotion); 3] = [
    ("every-hit+", Promotion::EveryHit),
    ("try-lock+", Promotion::TryLock),
    ("adaptive+", Promotion::Adaptive),
];

impl From<Policy> for Setup {
    fn from(policy: Policy) -> Self {
        Setup { policy, promotion: None, shards: 1, frozen_share: None }
    }
}

impl Setup {
    /// Whether the policy runs without a lock, so that neither promotions nor shards mean
    /// anything to it.
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

    /// A cache of this setup, begun; what is frozen is left to [`Ours`].
    ///
    /// ```
    /// let setup: frazil_driver::Setup = frazil::Policy::Lru.into();
    /// let cache: frazil::Cache<u64, u64> = setup.builder(100).build();
    /// assert_eq!(cache.policy(), frazil::Policy::Lru);
    /// ```
    pub fn builder<K, V>(self, capacity: u64) -> Builder<K, V> {
        let builder = Cache::builder(capacity).policy(self.policy).shards(self.shards);
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
            let frozen_share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let Some(frozen_share) = frozen_share else {
                return Err(SetupError::Share(name.to_owned()));
            };
            return Ok(Setup { frozen_share: Some(frozen_share), ..base.parse()? });
        }
        for (prefix, promotion) in PROMOTIONS {
            if let Some(name) = name.strip_prefix(prefix) {
                let policy = name.parse::<Policy>()?;
                return Ok(Setup { promotion: Some(promotion), ..policy.into() });
            }
        }
        Ok(name.parse::<Policy>()?.into())
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(share) = self.frozen_share {
            write!(f, "{FROZEN}{share}+")?;
        }
        let prefix = PROMOTIONS.iter().find(|(_, promotion)| self.promotion == Some(*promotion));
        write!(f, "{}{}", prefix.map_or("", |(prefix, _)| prefix), self.policy)
    }
}

/// Our cache, looked up by `get`, which clones the value.
pub struct Ours<V> {
    cache: Cache<u64, V>,
    value_bytes: usize,
    frozen_share: Option<f64>,
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

    /// A cache with settings that a setup does not know; values take no bytes that they could
    /// choose.
    ///
    /// ```
    /// use frazil_driver::{Ours, Setup};
    /// let setup: Setup = "frozen:share=0.5+lru".parse()?;
    /// let ours = Ours::<u64>::built(setup, setup.builder(100).batch(1));
    /// # assert_eq!(ours.cache().capacity(), 100);
    /// # Ok::<(), frazil_driver::SetupError>(())
    /// ```
    pub fn built(setup: Setup, builder: Builder<u64, V>) -> Self {
        let builder = match setup.frozen_share {
            Some(_) => V::freezing(builder, Freezing::ByHand),
            None => builder,
        };
        Ours { cache: builder.build(), value_bytes: 0, frozen_share: setup.frozen_share }
    }

    /// The cache itself, for what an engine is not asked for.
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
        if let Some(share) = self.frozen_share {
            self.cache.freeze(share);
        }
    }
}

impl<V: Value> Shared for Ours<V> {
    #[inline]
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

/// What a thread has of a [`Pinned`].
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
        // The old pin goes first: one inside the other would hold as long as both.
        self.pin = None;
        self.pin = Some(self.ours.cache.pin());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_setups_are_each_other() {
        for name in ["lru", "try-lock+slru", "frozen:share=0.25+adaptive+lru"] {
            assert_eq!(name.parse::<Setup>().unwrap().to_string(), name);
        }
        for share in ["1.5", "-0.1", "NaN", ""] {
            let error = format!("frozen:share={share}+lru").parse::<Setup>().unwrap_err();
            assert!(error.to_string().contains("expected a share from 0 to 1"), "{error}");
        }
        assert!("frozen:share=0.5+typo".parse::<Setup>().is_err());
    }

    #[test]
    fn what_is_to_be_frozen_is_when_warm() {
        let ours = Ours::<u64>::new("frozen:share=1+lru".parse::<Setup>().unwrap(), 100, 0);
        (0..100).for_each(|key| Shared::insert(&ours, key));
        let found =
            |ours: &Ours<u64>| (0..100).filter(|&key| Shared::get(ours, key).is_some()).count();
        assert_eq!((found(&ours), ours.cache().stats().frozen_hits), (100, 0));
        ours.warmed();
        assert_eq!(found(&ours), 100);
        assert!(ours.cache().stats().frozen_hits > 80);
    }
}
