//! One key, to be looked at and changed in one step.

use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;
use crate::evict::Newcomer;
use crate::fetch::flight::{Arrival, Patience, Turn};
use crate::fetch::park::block_on;
use crate::index::Place;
use crate::listen::Telling;

/// How often a computation begins again that runs inside another of its own key.
const NESTED_ATTEMPTS: usize = 64;

/// A key of a cache, there or not: [`Cache::entry`].
///
/// Holds nothing up and takes no lock by itself.
///
/// ```
/// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
/// assert_eq!(cache.entry("one".to_owned()).or_insert(1), 1);
/// assert_eq!(cache.entry("one".to_owned()).or_insert(2), 1);
/// ```
pub struct Entry<'c, K, V, S = foldhash::fast::RandomState> {
    cache: &'c Cache<K, V, S>,
    key: K,
}

/// What [`Entry::and_compute`] is to do with the key.
///
/// ```
/// use frazil::{Cache, Compute};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// cache.entry(1).and_compute(|value| value.map_or(Compute::Put(1), |_| Compute::Remove));
/// assert_eq!(cache.get(&1), Some(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute<V> {
    /// Put this in, in the place of what is there.
    Put(V),
    /// Take out what is there.
    Remove,
    /// Leave the key as it is.
    Keep,
}

/// What [`Entry::and_compute`] has done.
///
/// ```
/// use frazil::{Cache, Compute, Computed};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// let absent = cache.entry(1).and_compute(|_| Compute::Remove);
/// assert_eq!(absent, Computed::Unchanged(None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed<V> {
    /// Put this in; the key was absent.
    Inserted(V),
    /// Put this in, in the place of another.
    Replaced(V),
    /// Took this out.
    Removed(V),
    /// Left this as it is.
    Unchanged(Option<V>),
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// The entry of a key, to be looked at and changed in one step.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, Vec<u64>> = frazil::Cache::builder(100).build();
    /// assert!(cache.entry(1).or_default().is_empty());
    /// assert!(cache.contains_key(&1));
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S> {
        Entry { cache: self, key }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Entry<'_, K, V, S> {
    /// The key.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).key(), &1);
    /// ```
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`Cache::get`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).get(), None);
    /// ```
    pub fn get(&self) -> Option<V> {
        self.cache.get(&self.key)
    }

    /// The value; `value`, if the key is absent, which is then put in.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_insert(10), 10);
    /// assert_eq!(cache.entry(1).or_insert(20), 10);
    /// ```
    pub fn or_insert(self, value: V) -> V {
        self.or_insert_with(|| value)
    }

    /// As [`Cache::get_or_insert_with`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_insert_with(|| 10), 10);
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub fn or_insert_with(self, load: impl FnOnce() -> V) -> V {
        self.cache.get_or_insert_with(&self.key, load)
    }

    /// As [`Cache::try_get_or_insert_with`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_try_insert_with(|| Err("none")), Err("none"));
    /// ```
    ///
    /// # Errors
    ///
    /// That of `load`.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub fn or_try_insert_with<E>(self, load: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        self.cache.try_get_or_insert_with(&self.key, load)
    }

    /// The value; if the key is absent, its type's default, which is then put in.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_default(), 0);
    /// ```
    pub fn or_default(self) -> V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Shows `compute` what is there and does as it says, in one step: if the key is
    /// changed or evicted meanwhile, nothing is done and `compute` is asked again.
    ///
    /// Computations of one key run one after the other, and after a load of it that is
    /// under way; additions to a count are all counted, as long as it is not evicted. It is
    /// no request: neither policy nor counts see the look-up. What is put in and not
    /// admitted is returned all the same.
    ///
    /// An insertion that had begun before a computation of an absent key, and ends after it, may
    /// be taken to have come and gone before: then what was computed stays, though it was not
    /// computed from what was inserted.
    ///
    /// `compute` runs outside all locks and may use the cache. If it writes this very key
    /// itself, that stands, and what it answers does not count.
    ///
    /// ```
    /// use frazil::{Cache, Compute, Computed};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let add = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
    /// assert_eq!(cache.entry("visits").and_compute(add), Computed::Inserted(1));
    /// assert_eq!(cache.entry("visits").and_compute(add), Computed::Replaced(2));
    /// ```
    ///
    /// # Panics
    ///
    /// If `compute` does; then nothing has changed.
    pub fn and_compute(self, mut compute: impl FnMut(Option<&V>) -> Compute<V>) -> Computed<V> {
        let Entry { cache, key } = self;
        let (hash, place) = cache.place(&key);
        let work = Work { cache, key, hash, place };
        let mut patience = Patience::endless();
        // Each time round a flight of the key is over, or another thread has written it.
        let computed = loop {
            let (computed, telling) =
                match block_on(cache.arrive(hash, &work.key, &mut patience), None) {
                    Arrival::Turn(turn) => work.compute_in_turn(&turn, &mut compute),
                    Arrival::Over(..) => continue,
                    Arrival::Remembered(flight) => {
                        flight.forget(&cache.flights);
                        continue;
                    }
                    Arrival::Vain(vain) => unreachable!("{vain:?}, with endless patience"),
                    Arrival::Apart => break work.compute_apart(&mut compute),
                };
            // Only now that the turn is given up: the listener may wait for who waits for it.
            drop(telling);
            if let Some(computed) = computed {
                break computed;
            }
        };
        cache.reclaim_if_due();
        computed
    }
}

/// What a computation has done, and what a listener is to be told of it.
type Outcome<'c, K, V, S> = (Option<Computed<V>>, Option<Telling<'c, K, V, S>>);

/// A computation of a key.
struct Work<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    key: K,
    hash: u64,
    place: Place,
}

impl<'c, K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Work<'c, K, V, S> {
    /// Computes. `None` if another has written the key meanwhile. And what is to be told.
    fn compute_in_turn(
        &self,
        turn: &Turn<'_, K, V>,
        compute: &mut impl FnMut(Option<&V>) -> Compute<V>,
    ) -> Outcome<'c, K, V, S> {
        let mut outcome = (None, None);
        if !turn.is_overtaken() {
            let mut compute = |value: Option<&V>| turn.run(|| compute(value));
            let exchange = |work: &mut dyn FnMut() -> bool| {
                turn.store(work, || self.cache.remove_any(self.place, &self.key)).unwrap_or(false)
            };
            outcome = self.compute_once(&mut compute, exchange);
        }
        // What the function itself has written stands.
        if outcome.0.is_none() && turn.is_overtaken_by_itself() {
            outcome.0 = Some(Computed::Unchanged(self.cache.peek(&self.key)));
        }
        outcome
    }

    /// Computes inside another computation, or a load, of the same key by this thread.
    fn compute_apart(&self, compute: &mut impl FnMut(Option<&V>) -> Compute<V>) -> Computed<V> {
        for _ in 0..NESTED_ATTEMPTS {
            let exchange = |work: &mut dyn FnMut() -> bool| {
                self.cache.overtake(self.hash, &self.key);
                work()
            };
            if let (Some(computed), _) = self.compute_once(compute, exchange) {
                return computed;
            }
        }
        Computed::Unchanged(self.cache.peek(&self.key))
    }

    /// Asks once, and does as it is told by `exchange`, which may refuse. `None` if the key
    /// is no longer as it was. And what is to be told.
    fn compute_once(
        &self,
        compute: &mut impl FnMut(Option<&V>) -> Compute<V>,
        exchange: impl FnOnce(&mut dyn FnMut() -> bool) -> bool,
    ) -> Outcome<'c, K, V, S> {
        let Work { cache, key, hash, place } = self;
        cache.with_found(*place, key, |found| {
            // SAFETY: published, and protected while this runs.
            let old = found.map(|found| unsafe { cache.slab.value(found.slot) });
            match (compute(old), found) {
                (Compute::Keep, _) | (Compute::Remove, None) => {
                    (Some(Computed::Unchanged(old.cloned())), None)
                }
                (Compute::Remove, Some(found)) => {
                    let removed = old.cloned();
                    let telling = cache.telling();
                    let gone = exchange(&mut || cache.remove_found(*place, found, key));
                    (removed.filter(|_| gone).map(Computed::Removed), telling)
                }
                (Compute::Put(value), found) => {
                    let weight = cache.weigh(key, &value);
                    let mut telling = cache.telling();
                    let term = cache.term(key, &value);
                    let mut entry = Some((key.clone(), value.clone()));
                    let mut put = || {
                        entry.take().is_some_and(|(key, value)| {
                            let newcomer = Newcomer::new(*hash, weight, term);
                            cache.exchange(*place, newcomer, found, (key, value), &mut telling)
                        })
                    };
                    let computed = exchange(&mut put).then(|| match old {
                        None => Computed::Inserted(value),
                        Some(_) => Computed::Replaced(value),
                    });
                    (computed, telling)
                }
            }
        })
    }
}

impl<K: std::fmt::Debug, V, S> std::fmt::Debug for Entry<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}
