//! Loading: one load for each absent key, however many ask for it.
//!
//! A look-up that finds its key is a `get` and nothing else. One that does not joins the
//! key's *flight* (`flight.rs`), which it finds or begins in the table (`table.rs`): it
//! loads, or waits for who does. There is one form of this, a future; a thread that asks
//! runs it with a waker that unparks the thread (`park.rs`).
//!
//! A flight that is begun looks again whether the key is there: between the look-up that
//! missed and the beginning another may have come and gone. `docs/design/fetching.md` says what
//! a miss costs beside the load.
//!
//! Two kinds of caller share it, and differ in a [`Manner`]: those that load (here), and those
//! that fetch (`fetching.rs`), with bounds to their waits and errors that reach others.

pub(crate) mod backends;
pub(crate) mod fetching;
pub(crate) mod flight;
pub(crate) mod park;
pub(crate) mod table;
pub(crate) mod tally;
pub(crate) mod timer;

use std::borrow::Borrow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use equivalent::Equivalent;

use crate::cache::Cache;
use crate::evict::Newcomer;
use crate::index::Place;
use crate::sync::atomic::Ordering::Relaxed;
use flight::{Absence, Arrival, Flight, Joined, Outcome, Patience, SharedError, Turn, Vain};
use tally::Counted;

/// How a caller asks for what is absent: how long it waits, and what it makes of errors `E`.
pub(crate) trait Manner<E> {
    type Error;

    /// How long it waits for others. `table` has the timer, for those who are tasks.
    fn patience<'t, K, V>(&self, table: &'t table::Table<K, V>) -> Patience<'t>;

    /// Its own error; and the same for others, if they are to have it.
    fn own(&self, error: E) -> (Self::Error, Option<SharedError>);

    /// For how long others are to have it, in nanoseconds.
    fn remember(&self) -> Option<u64>;

    /// Another's error, if this caller can make anything of it.
    fn others(&self, error: &SharedError) -> Option<Self::Error>;

    /// It waits no longer.
    fn in_vain(&self, vain: Vain) -> Self::Error;
}

/// Waits as long as it takes, and keeps errors to itself.
struct Loading;

impl<E> Manner<E> for Loading {
    type Error = E;

    fn patience<'t, K, V>(&self, _: &'t table::Table<K, V>) -> Patience<'t> {
        Patience::endless()
    }

    fn own(&self, error: E) -> (E, Option<SharedError>) {
        (error, None)
    }

    fn remember(&self) -> Option<u64> {
        None
    }

    fn others(&self, _: &SharedError) -> Option<E> {
        None
    }

    fn in_vain(&self, vain: Vain) -> E {
        unreachable!("{vain:?}, with endless patience")
    }
}

/// What follows on a miss, kept out of the code of a hit: the future around it makes room on the
/// stack for nothing of this, 39 instructions less of 429.
struct Cold<F>(F);

impl<F: Future> Future for Cold<F> {
    type Output = F::Output;

    #[cold]
    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field of what is pinned; it is moved out nowhere, and there is no `Drop`.
        unsafe { self.map_unchecked_mut(|cold| &mut cold.0) }.poll(context)
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
            None => Cold(self.load(key, load, Loading)).await,
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
        park::block_on(self.load(key, async { load() }, Loading), None)
    }

    /// What follows on a `get` that has found nothing.
    async fn load<Q, E, M: Manner<E>>(
        &self,
        key: &Q,
        load: impl Future<Output = Result<V, E>>,
        manner: M,
    ) -> Result<V, M::Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let (hash, place) = self.place(key);
        let mut load = pin!(load);
        let tally = &self.flights.tally.0;
        let mut patience = manner.patience(&self.flights);
        // Each time round a flight that was waited for has failed or was overtaken, all of it.
        loop {
            let turn = match self.arrive(hash, key, &mut patience).await {
                Arrival::Turn(turn) => turn,
                Arrival::Over(flight, delay) => match flight.outcome() {
                    Some(Outcome::Value(value)) => {
                        tally.delayed_hit(delay);
                        return Ok(value.clone());
                    }
                    Some(Outcome::Error(error)) => match manner.others(error) {
                        Some(error) => {
                            tally.shared_errors.fetch_add(1, Relaxed);
                            return Err(error);
                        }
                        None => continue,
                    },
                    // What the flight's own caller has found is there for all, or is gone.
                    None => match self.peek(key) {
                        Some(value) => {
                            tally.late_hits.fetch_add(1, Relaxed);
                            return Ok(value);
                        }
                        None => continue,
                    },
                },
                Arrival::Remembered(flight) => match self.recall(&flight, &manner) {
                    Some(error) => {
                        tally.remembered_errors.fetch_add(1, Relaxed);
                        return Err(error);
                    }
                    None => continue,
                },
                Arrival::Apart => {
                    let counted = Counted::new(tally, &self.expiry.clock);
                    let value = load.await.map_err(|error| manner.own(error).0)?;
                    counted.loaded();
                    return Ok(value);
                }
                Arrival::Vain(vain) => {
                    tally.in_vain(vain);
                    return Err(manner.in_vain(vain));
                }
            };
            if let Some(value) = self.peek(key) {
                tally.late_hits.fetch_add(1, Relaxed);
                // It may have been removed since, and have others asked after that: no outcome.
                turn.leave_to_look();
                return Ok(value);
            }
            let counted = Counted::new(tally, &self.expiry.clock);
            match poll_fn(|context| turn.poll(|| load.as_mut().poll(context))).await {
                Ok(value) => {
                    turn.fetched(counted.loaded());
                    self.store(turn, (hash, place), key, &value);
                    self.reclaim_if_due();
                    return Ok(value);
                }
                Err(error) => {
                    drop(counted);
                    return Err(self.fail(turn, error, &manner));
                }
            }
        }
    }

    /// The error of a flight that is remembered, if it still holds and the caller knows its
    /// kind. If not, the flight is ended.
    #[cold]
    fn recall<E, M: Manner<E>>(&self, flight: &Arc<Flight<K, V>>, manner: &M) -> Option<M::Error> {
        let until = flight.is_remembered()?;
        if self.expiry.clock.coarse() < until
            && let Some(Outcome::Error(error)) = flight.outcome()
            && let Some(error) = manner.others(error)
        {
            return Some(error);
        }
        flight.forget(&self.flights);
        None
    }

    /// Ends a turn with an error, which those who wait get, or the next of them tries.
    #[cold]
    fn fail<E, M: Manner<E>>(&self, turn: Turn<'_, K, V>, error: E, manner: &M) -> M::Error {
        let (error, shared) = manner.own(error);
        if let Some(shared) = shared {
            let clock = &self.expiry.clock;
            turn.fail(shared, manner.remember().map(|span| clock.exact().saturating_add(span)));
        }
        error
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
        let waiters = if turn.is_overtaken() {
            turn.land(value)
        } else {
            let (owned, copy) = (key.to_owned(), value.clone());
            let weight = self.weigh(&owned, &copy);
            telling = self.telling();
            let term = self.term(&owned, &copy);
            let mut newcomer = Newcomer::new(hash, weight, term);
            if self.order.weighs_delay() {
                newcomer.absence = Some(self.absence(&turn, &owned));
            }
            turn.store_and_land(
                value,
                || self.exchange(place, newcomer, None, (owned, copy), &mut telling),
                || self.remove_any(place, key),
            )
        };
        self.flights.tally.0.landed(waiters);
    }

    /// What a policy that weighs delay is told of a fetch that is back. Runs the user's function.
    #[cold]
    fn absence(&self, turn: &Turn<'_, K, V>, key: &K) -> Absence {
        let mut absence = turn.absence();
        if let Some(backends) = &self.backends {
            absence.fetch = backends.learn(key, absence.fetch);
        }
        absence
    }

    /// Waits until it is this caller's turn at `key`, or the flight it has joined is over.
    pub(crate) async fn arrive<'c, Q>(
        &'c self,
        hash: u64,
        key: &Q,
        patience: &mut Patience<'c>,
    ) -> Arrival<'c, K, V>
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
                match flight.join(&self.flights, context.waker(), patience) {
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
        Q: Equivalent<K> + ?Sized,
    {
        if !self.flights.is_empty() {
            self.overtake_flight(hash, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn overtake_flight<Q>(&self, hash: u64, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if let Some(flight) = self.flights.find(hash, key) {
            flight.overtake(&self.flights);
        }
        self.flights.tidy(hash, || self.expiry.clock.coarse());
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
        self.flights.len().0
    }
}
