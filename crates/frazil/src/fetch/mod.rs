//! Loading: one load for each absent key, however many ask for it.
//!
//! A look-up that finds its key is a `get` and nothing else. One that does not joins the
//! key's *flight* (`flight.rs`), which it finds or begins in the table (`table.rs`): it
//! loads, or waits for who does. There is one form of this, a future; a thread that asks
//! runs it with a waker that unparks the thread (`park.rs`).
//!
//! A flight that is begun looks again whether the key is there: between the look-up that
//! missed and the beginning another may have come and gone. A miss beside the load costs an
//! few allocations, some ten uncontended locks, and two readings of the clock.

pub(crate) mod flight;
pub(crate) mod park;
pub(crate) mod table;

use std::borrow::Borrow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use crate::cache::Cache;
use crate::index::Place;
use crate::stats::Stats;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use flight::{Arrival, Joined, Turn};

/// What flights have counted: on a line that all threads write, because a load is slow.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    delayed_hits: AtomicU64,
    /// Look-ups that missed, and then found the key when they were about to load it.
    late_hits: AtomicU64,
    loads: AtomicU64,
    load_failures: AtomicU64,
    load_nanoseconds: AtomicU64,
}

impl Tally {
    /// Every request that came here was counted as a miss, by its `get`.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let late_hits = self.late_hits.load(Relaxed);
        stats.delayed_hits = self.delayed_hits.load(Relaxed);
        stats.hits += late_hits;
        stats.misses = stats.misses.saturating_sub(stats.delayed_hits + late_hits);
        stats.loads = self.loads.load(Relaxed);
        stats.load_failures = self.load_failures.load(Relaxed);
        stats.load_nanoseconds = self.load_nanoseconds.load(Relaxed);
    }
}

/// A load that is counted: as a failure if it is dropped before its end.
struct Counted<'t> {
    tally: &'t Tally,
    began: Instant,
    loaded: bool,
}

impl<'t> Counted<'t> {
    fn new(tally: &'t Tally) -> Self {
        Counted { tally, began: Instant::now(), loaded: false }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.loaded {
            let nanoseconds = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.tally.loads.fetch_add(1, Relaxed);
            self.tally.load_nanoseconds.fetch_add(nanoseconds, Relaxed);
        } else {
            self.tally.load_failures.fetch_add(1, Relaxed);
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// A clone of the value of `key`; if it is absent, what `load` returns, which is then
    /// put in.
    ///
    /// However many threads and tasks ask for an absent key at once, one loads, and the
    /// others wait for it and get clones of what it has loaded, whether the cache admits
    /// that or not. If the loader panics, the panic is its caller's, and the next who waits
    /// runs its own. The user's code runs outside all locks, and may use the cache. If it
    /// asks for its own key on the same thread, that loads by itself and stores nothing.
    ///
    /// An insertion or removal of the key, or [`clear`](Cache::clear), while a load is
    /// under way *overtakes* it: those who had asked before get what is loaded, it is not
    /// stored, and who asks later does not wait for it.
    ///
    /// A hit costs what [`get`](Cache::get) does. Two loaders that ask for each other's
    /// keys wait for each other for ever; and a loader that waits for a task of this thread's
    /// executor should be [asynchronous](Cache::get_or_insert_async).
    ///
    /// ```
    /// let cache: frazil::Cache<String, usize> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.get_or_insert_with("four", || "four".len()), 4);
    /// assert_eq!(cache.get_or_insert_with("four", || unreachable!()), 4);
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    #[inline]
    pub fn get_or_insert_with<Q>(&self, key: &Q, load: impl FnOnce() -> V) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        match self.get(key) {
            Some(value) => value,
            None => {
                let Ok(value) = self.load_here(key, || Ok::<V, Infallible>(load()));
                value
            }
        }
    }

    /// As [`get_or_insert_with`](Cache::get_or_insert_with), with a loader that may fail.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// assert!(cache.try_get_or_insert_with("x", || "x".parse()).is_err());
    /// assert_eq!(cache.try_get_or_insert_with("7", || "7".parse()), Ok(7));
    /// assert_eq!(cache.len(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// That of this caller's own `load`. Nothing is stored, and the next who waits for the
    /// key runs its own.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    #[inline]
    pub fn try_get_or_insert_with<Q, E>(
        &self,
        key: &Q,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        match self.get(key) {
            Some(value) => Ok(value),
            None => self.load_here(key, load),
        }
    }

    /// As [`get_or_insert_with`](Cache::get_or_insert_with), for tasks: waits without
    /// blocking the thread, under any executor. Threads and tasks share a key's load.
    ///
    /// `load` is polled only if this call is to load. The future may be dropped at any time: if
    /// it was loading the next who waits runs its own, and if it was waiting, and had been
    /// woken for that, it passes the wake on. It is `Send` if the cache, the key and `load`
    /// may be sent. One that is neither polled nor dropped keeps those waiting who wait for
    /// its load.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// let row = block_on(async {
    ///     cache.get_or_insert_async(&1, async { "from afar".to_owned() }).await
    /// });
    /// assert_eq!(row, "from afar");
    /// assert_eq!(cache.get(&1), Some(row));
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn get_or_insert_async<Q>(&self, key: &Q, load: impl Future<Output = V>) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let load = async { Ok::<V, Infallible>(load.await) };
        let Ok(value) = self.try_get_or_insert_async(key, load).await;
        value
    }

    /// As [`get_or_insert_async`](Cache::get_or_insert_async), with a loader that may fail.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// let row = block_on(cache.try_get_or_insert_async(&1, async { Err("no such row") }));
    /// assert_eq!(row, Err("no such row"));
    /// assert!(cache.is_empty());
    /// ```
    ///
    /// # Errors
    ///
    /// That of this caller's own `load`. Nothing is stored, and the next who waits for the
    /// key runs its own.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn try_get_or_insert_async<Q, E>(
        &self,
        key: &Q,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        match self.get(key) {
            Some(value) => Ok(value),
            None => self.load(key, load).await,
        }
    }

    /// Loads on this thread, or waits.
    #[cold]
    #[inline(never)]
    fn load_here<Q, E>(&self, key: &Q, load: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        park::block_on(self.load(key, async { load() }))
    }

    /// What follows on a `get` that has found nothing.
    async fn load<Q, E>(&self, key: &Q, load: impl Future<Output = Result<V, E>>) -> Result<V, E>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let (hash, place) = self.place(key);
        let mut load = pin!(load);
        let tally = &self.flights.tally.0;
        // Each time round a flight that was waited for has failed or was overtaken, all of it.
        loop {
            let turn = match self.arrive(hash, key).await {
                Arrival::Turn(turn) => turn,
                Arrival::Over(flight) => match flight.value() {
                    Some(value) => {
                        tally.delayed_hits.fetch_add(1, Relaxed);
                        return Ok(value.clone());
                    }
                    None => continue,
                },
                Arrival::Apart => {
                    let mut counted = Counted::new(tally);
                    let loaded = load.await;
                    counted.loaded = loaded.is_ok();
                    return loaded;
                }
            };
            if let Some(value) = self.peek(key) {
                tally.late_hits.fetch_add(1, Relaxed);
                turn.land(&value);
                return Ok(value);
            }
            let mut counted = Counted::new(tally);
            let value = poll_fn(|context| turn.run(|| load.as_mut().poll(context))).await?;
            counted.loaded = true;
            drop(counted);
            self.store(turn, (hash, place), key, &value);
            self.reclaim_if_due();
            return Ok(value);
        }
    }

    /// Puts in what the turn has loaded, unless the key was written meanwhile, and lands.
    fn store<Q>(&self, turn: Turn<'_, K, V>, (hash, place): (u64, Place), key: &Q, value: &V)
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let mut telling;
        // Given up first: the listener may wait for who waits for it.
        let turn = turn;
        if !turn.is_overtaken() {
            let (owned, copy) = (key.to_owned(), value.clone());
            let weight = self.weigh(&owned, &copy);
            telling = self.telling();
            let term = self.term(&owned, &copy);
            let traits = (hash, weight, term);
            turn.store(
                || self.exchange(place, traits, None, (owned, copy), &mut telling),
                || self.remove_any(place, key),
            );
        }
        turn.land(value);
    }

    /// Waits until it is this caller's turn at `key`, or the flight it has joined is over.
    pub(crate) async fn arrive<Q>(&self, hash: u64, key: &Q) -> Arrival<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let join = poll_fn(|context| {
            // Each time round a flight is taken out that was over.
            loop {
                let (flight, is_new) = self.flights.find_or_begin(hash, key);
                if is_new {
                    let turn = Turn::begin(&self.flights, flight);
                    return Poll::Ready(Joined::Arrival(Arrival::Turn(turn)));
                }
                match flight.join(&self.flights, context.waker()) {
                    Joined::TooLate => self.flights.remove(&flight),
                    joined => return Poll::Ready(joined),
                }
            }
        });
        match join.await {
            Joined::Waiting(waiting) => waiting.await,
            Joined::Arrival(arrival) => arrival,
            Joined::TooLate => unreachable!("looked for another"),
        }
    }

    /// Keeps what is being loaded for `key` from being stored: it is about to be written.
    #[inline(always)]
    pub(crate) fn overtake<Q>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        if !self.flights.is_empty() {
            self.overtake_flight(hash, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn overtake_flight<Q>(&self, hash: u64, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        if let Some(flight) = self.flights.find(hash, key) {
            flight.overtake(&self.flights);
        }
    }

    /// The same for all keys.
    pub(crate) fn overtake_all(&self) {
        if !self.flights.is_empty() {
            self.flights.all().for_each(|flight| flight.overtake(&self.flights));
        }
    }

    /// How many keys are being loaded or computed. For tests.
    #[doc(hidden)]
    pub fn flights(&self) -> usize {
        self.flights.len()
    }
}
