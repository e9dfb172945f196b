//! Loading: one load for each absent key, however many callers request it.
//!
//! A look-up that finds its key is a `get` and nothing else. One that does not joins the key's
//! *flight* (`flight.rs`), which it finds or begins in the table (`table.rs`): it loads, or waits
//! for the load. There is one implementation, a future; a thread runs it with a waker that unparks
//! the thread (`park.rs`).
//!
//! A new flight first checks again whether the key is resident: between the miss and the beginning
//! of this flight another one may have begun and ended. `docs/design/fetching.md` has the cost of a
//! miss beside the load.
//!
//! Two kinds of caller share it, and differ in a [`FetchMode`]: loads (here), and fetches
//! (`fetching.rs`), with bounds for their waits and errors that reach others.

pub(crate) mod backends;
pub(crate) mod blocking;
pub(crate) mod detached;
pub(crate) mod fetching;
pub(crate) mod flight;
pub(crate) mod key;
pub(crate) mod loaded;
pub(crate) mod park;
mod refresh;
pub(crate) mod table;
pub(crate) mod tally;
pub(crate) mod timer;

use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use equivalent::Equivalent;

use crate::clock::Clock;
use crate::core::index::Mixed;
use crate::core::order::{Absence, Newcomer};
use crate::events;
use crate::features::Featured;
use crate::features::stats::Stats;
use crate::sync::atomic::Ordering::Relaxed;
use backends::Backends;
use detached::Detached;
use fetching::{Fetching, NegativeTtl};
use flight::{Flight, Joined, Outcome, SharedError, Turn, Vain, WaitLimits, Waited};
use key::EntryKey;
use loaded::Loaded;
use tally::Counted;

/// The builder's settings of loads and fetches.
pub(crate) struct Settings<K> {
    pub(crate) fetching: Fetching,
    pub(crate) negative_ttl: Option<NegativeTtl>,
    /// In nanoseconds; 0 for never.
    pub(crate) refresh_ahead: u64,
    pub(crate) backends: Option<Backends<K>>,
}

impl<K> Default for Settings<K> {
    fn default() -> Self {
        Settings {
            fetching: Fetching::default(),
            negative_ttl: None,
            refresh_ahead: 0,
            backends: None,
        }
    }
}

/// A cache's state for loads and fetches.
pub(crate) struct FetchState<K, V> {
    /// Values on their way.
    pub(crate) flights: table::Flights<K, V>,
    pub(crate) fetching: Fetching,
    pub(crate) negative_ttl: Option<NegativeTtl>,
    /// How long before its end an entry is due to be loaded anew, in nanoseconds; 0 for never.
    pub(crate) refresh_ahead: u64,
    pub(crate) backends: Option<Backends<K>>,
}

impl<K, V> FetchState<K, V> {
    pub(crate) fn new(clock: &Clock, settings: Settings<K>) -> Self {
        let flights = table::Flights::new(clock.clone());
        let Settings { fetching, negative_ttl, refresh_ahead, backends } = settings;
        FetchState { flights, fetching, negative_ttl, refresh_ahead, backends }
    }

    /// Keys being loaded, computed or waited for.
    pub(crate) fn attended(&self) -> usize {
        self.flights.attended()
    }

    /// Adds the counts of loads.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        self.flights.tally.add_to(stats);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.flights.heap_bytes()
    }
}

/// A caller's settings for an absent key: how long it waits, and how it treats errors `E`.
pub(crate) trait FetchMode<E> {
    type Error;

    /// How long it waits for others. `table` has the timer, for tasks.
    fn limits<'t, K, V>(&self, table: &'t table::Flights<K, V>) -> WaitLimits<'t>;

    /// Its own error; and the same for others, if they get it.
    fn own(&self, error: E) -> (Self::Error, Option<SharedError>);

    /// Whether others get errors.
    fn shares(&self) -> bool;

    /// How long others get this one, in nanoseconds.
    fn remember(&self, error: &SharedError) -> Option<u64>;

    /// Another's error, if this caller can use it.
    fn others(&self, error: &SharedError) -> Option<Self::Error>;

    /// It waits no longer.
    fn in_vain(&self, vain: Vain) -> Self::Error;
}

/// Waits as long as it takes, and keeps errors to itself: a task, or else a thread.
pub(crate) struct LoadCaller {
    pub(crate) is_task: bool,
}

impl<E> FetchMode<E> for LoadCaller {
    type Error = E;

    fn limits<'t, K, V>(&self, _: &'t table::Flights<K, V>) -> WaitLimits<'t> {
        WaitLimits::endless(self.is_task)
    }

    fn own(&self, error: E) -> (E, Option<SharedError>) {
        (error, None)
    }

    fn shares(&self) -> bool {
        false
    }

    fn remember(&self, _: &SharedError) -> Option<u64> {
        None
    }

    fn others(&self, _: &SharedError) -> Option<E> {
        None
    }

    fn in_vain(&self, vain: Vain) -> E {
        unreachable!("{vain:?}, with endless limits")
    }
}

/// A caller's request: its key, with its hash, its loader, and the entry that it found.
pub(crate) struct Request<A, F, V> {
    pub(crate) hash: u64,
    pub(crate) key: A,
    pub(crate) load: F,
    /// Instead of `load`, a loader that outlives its caller.
    pub(crate) detached: Option<Detached<V>>,
    /// The entry found, if it should be loaded anew.
    pub(crate) stale: Option<V>,
}

/// A caller's next step after a wait that has not given it the turn.
enum Next<V, E> {
    Value(V),
    Error(E),
    /// Look for another flight.
    Again,
    /// Load directly.
    Apart,
}

/// The work after a miss, separate from the code of a hit: the future around it reserves no stack
/// for this, 39 instructions less of 429.
pub(crate) struct Cold<F>(pub(crate) F);

impl<F: Future> Future for Cold<F> {
    type Output = F::Output;

    #[cold]
    #[inline(never)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a field of a pinned value; it is never moved out, and there is no `Drop`.
        unsafe { self.map_unchecked_mut(|cold| &mut cold.0) }.poll(context)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Loads on this thread, or waits. `stale` is the entry found, if it should be loaded anew.
    #[cold]
    #[inline(never)]
    pub(crate) fn load_here<A, E>(
        &self,
        hash: u64,
        key: A,
        load: impl FnOnce() -> Result<V, E>,
        stale: Option<V>,
    ) -> Result<V, E>
    where
        A: EntryKey<K>,
        V: Clone,
    {
        let load = async { load().map(Loaded::new) };
        let request = Request { hash, key, load, detached: None, stale };
        park::block_on(self.load(request, LoadCaller { is_task: false }), None)
    }

    /// The same for a task.
    pub(crate) async fn load_task<A, E>(
        &self,
        hash: u64,
        key: A,
        load: impl Future<Output = Result<V, E>>,
        stale: Option<V>,
    ) -> Result<V, E>
    where
        A: EntryKey<K>,
        V: Clone,
    {
        let load = async { load.await.map(Loaded::new) };
        let request = Request { hash, key, load, detached: None, stale };
        self.load(request, LoadCaller { is_task: true }).await
    }

    /// The work after a `get` that has found no entry, or one to load anew.
    pub(crate) async fn load<A, F, E, M>(
        &self,
        request: Request<A, F, V>,
        mode: M,
    ) -> Result<V, M::Error>
    where
        A: EntryKey<K>,
        F: Future<Output = Result<Loaded<V>, E>>,
        M: FetchMode<E>,
        V: Clone,
    {
        // Before there is a turn, because the destructor of a removed value may request the key.
        self.expire_share();
        let Request { hash, key, load, mut detached, stale } = request;
        let mixed = self.index.mix(hash);
        let mut load = pin!(load);
        let tally = &self.hooks.fetch.flights.tally;
        let mut limits = mode.limits(&self.hooks.fetch.flights);
        if cfg!(feature = "expiry") && stale.is_some() {
            return self.reload(key, (hash, mixed), load, detached, mode, stale).await;
        }
        // Each time round a flight that was waited for has failed or was overtaken.
        loop {
            let mut turn = match self.join(hash, &key, &mut limits).await {
                Waited::Turn(turn) => turn,
                waited => match self.after_wait(waited, mixed, &key, &mode) {
                    Next::Value(value) => return Ok(value),
                    Next::Error(error) => return Err(error),
                    Next::Again => continue,
                    Next::Apart => return self.load_apart(load, detached, &mode).await,
                },
            };
            if let Some(value) = self.peek(mixed, key.query()) {
                tally.late_hits.fetch_add(1, Relaxed);
                // It may have been removed since, and requested by others after that: no outcome.
                turn.leave_to_look();
                return Ok(value);
            }
            match self.fetch_in(&mut turn, load.as_mut(), &mut detached, &mode).await {
                Ok(loaded) => {
                    self.store(turn, (hash, mixed), key.into_key(), &loaded, None);
                    self.reclaim_if_due();
                    self.wait_if_overweight();
                    return Ok(loaded.value);
                }
                Err((error, shared)) => {
                    self.fail(turn, shared, &mode);
                    // None for this caller: the fetch that failed was another's, with errors of
                    // another type.
                    let Some(error) = error else { continue };
                    return Err(error);
                }
            }
        }
    }

    /// A caller's decision after a wait that has not given it the turn.
    fn after_wait<A, E, M>(
        &self,
        waited: Waited<'_, K, V>,
        mixed: Mixed,
        key: &A,
        mode: &M,
    ) -> Next<V, M::Error>
    where
        A: EntryKey<K>,
        M: FetchMode<E>,
        V: Clone,
    {
        let tally = &self.hooks.fetch.flights.tally;
        match waited {
            Waited::Turn(_) => unreachable!("taken by the caller"),
            Waited::Over(flight, delay) => match flight.outcome() {
                Some(Outcome::Value(value)) => {
                    tally.delayed_hit(delay);
                    Next::Value(value.clone())
                }
                Some(Outcome::Error(error)) => mode.others(error).map_or(Next::Again, |error| {
                    tally.shared_errors.fetch_add(1, Relaxed);
                    Next::Error(error)
                }),
                // The entry that the flight's own caller found is present for all, or removed.
                None => self.peek(mixed, key.query()).map_or(Next::Again, |value| {
                    tally.late_hits.fetch_add(1, Relaxed);
                    Next::Value(value)
                }),
            },
            Waited::Remembered(flight) => self.recall(&flight, mode).map_or(Next::Again, |error| {
                tally.remembered_errors.fetch_add(1, Relaxed);
                Next::Error(error)
            }),
            Waited::Apart | Waited::Refused => Next::Apart,
            Waited::Vain(vain) => {
                tally.in_vain(vain);
                Next::Error(mode.in_vain(vain))
            }
        }
    }

    /// Loads without a turn, without storing.
    async fn load_apart<F, E, M>(
        &self,
        load: Pin<&mut F>,
        detached: Option<Detached<V>>,
        mode: &M,
    ) -> Result<V, M::Error>
    where
        F: Future<Output = Result<Loaded<V>, E>>,
        M: FetchMode<E>,
    {
        let counted = Counted::new(&self.hooks.fetch.flights.tally, &self.clock);
        let loaded = match detached {
            None => load.await.map_err(|error| mode.own(error).0)?,
            Some(detached) => detached
                .work
                .await
                .map_err(|error| mode.others(&error).expect("its own is of its kind"))?,
        };
        counted.loaded();
        Ok(loaded.value)
    }

    /// Loads in a turn: continues a fetch that another caller left, or else runs the caller's own
    /// loader. Returns an error for the caller, if it has its type, and for others, if they should
    /// get it.
    async fn fetch_in<F, E, M>(
        &self,
        turn: &mut Turn<'_, K, V>,
        mut load: Pin<&mut F>,
        detached: &mut Option<Detached<V>>,
        mode: &M,
    ) -> Result<Loaded<V>, (Option<M::Error>, Option<SharedError>)>
    where
        F: Future<Output = Result<Loaded<V>, E>>,
        M: FetchMode<E>,
    {
        let (tally, clock) = (&self.hooks.fetch.flights.tally, &self.clock);
        if let Some(mut detached) = turn.take_abandoned().or_else(|| detached.take()) {
            let counted = Counted::detached(tally, clock, &mut detached.began);
            return match turn.drive(detached).await {
                Ok(loaded) => {
                    turn.fetched(counted.loaded());
                    Ok(loaded)
                }
                Err(error) => {
                    counted.failed();
                    Err((mode.others(&error), Some(error).filter(|_| mode.shares())))
                }
            };
        }
        let counted = Counted::new(tally, clock);
        match poll_fn(|context| turn.poll(|| load.as_mut().poll(context))).await {
            Ok(loaded) => {
                turn.fetched(counted.loaded());
                Ok(loaded)
            }
            Err(error) => {
                drop(counted);
                let (error, shared) = mode.own(error);
                Err((Some(error), shared))
            }
        }
    }

    /// The error of a flight that is remembered, if it still holds and the caller knows its
    /// kind. If not, the flight is ended.
    #[cold]
    fn recall<E, M: FetchMode<E>>(&self, flight: &Arc<Flight<K, V>>, mode: &M) -> Option<M::Error> {
        let until = flight.is_remembered()?;
        if self.clock.coarse() < until
            && let Some(Outcome::Error(error)) = flight.outcome()
            && let Some(error) = mode.others(error)
        {
            return Some(error);
        }
        flight.forget(&self.hooks.fetch.flights);
        None
    }

    /// Ends a turn with an error: the waiters get it, or the next of them tries.
    #[cold]
    fn fail<E, M: FetchMode<E>>(
        &self,
        turn: Turn<'_, K, V>,
        shared: Option<SharedError>,
        mode: &M,
    ) {
        let Some(shared) = shared else { return };
        let span = mode.remember(&shared);
        let clock = &self.clock;
        turn.fail(shared, span.map(|span| clock.exact().saturating_add(span)));
    }

    /// Stores the loaded value, unless the key was written meanwhile, and lands. It replaces the
    /// entry `seen`, if that was to be loaded anew, but no later one.
    fn store(
        &self,
        turn: Turn<'_, K, V>,
        (hash, mixed): (u64, Mixed),
        key: K,
        loaded: &Loaded<V>,
        seen: Option<u32>,
    ) where
        V: Clone,
    {
        let value = &loaded.value;
        let mut telling;
        // Dropped before `telling`, also by a panic: the listener may wait for a waiter of the
        // turn.
        let turn = turn;
        let waiters = if turn.is_overtaken() {
            turn.land(value)
        } else {
            let copy = value.clone();
            let weight = loaded.weight.filter(|_| self.weights.is_some());
            let weight = weight.unwrap_or_else(|| self.weigh(&key, &copy));
            telling = self.telling();
            let term = match loaded.lifetime {
                Some(lifetime) => self.term_for(&key, lifetime),
                None => self.term(&key, &copy),
            };
            let mut newcomer = Newcomer::new(hash, weight);
            if self.order.weighs_delay() {
                newcomer.absence = Some(self.absence(&turn, &key));
            }
            let flight = turn.flight();
            let put = || match seen {
                None => self.exchange(mixed, (newcomer, &term), None, (key, copy), &mut telling),
                Some(seen) => self.with_found(mixed, &flight.key, |found| {
                    found.is_none_or(|found| found.slot() == seen)
                        && self.exchange(mixed, (newcomer, &term), found, (key, copy), &mut telling)
                }),
            };
            turn.store_and_land(value, put, || self.remove_any(mixed, &flight.key))
        };
        self.hooks.fetch.flights.tally.landed(waiters);
    }

    /// The report of a finished fetch to a policy that weighs delay. Runs the user's function.
    #[cold]
    fn absence(&self, turn: &Turn<'_, K, V>, key: &K) -> Absence {
        let mut absence = turn.absence();
        if let Some(backends) = &self.hooks.fetch.backends {
            absence.fetch = backends.learn(key, absence.fetch);
        }
        absence
    }

    /// Waits until it is this caller's turn at `key`, or the flight that it joined has ended.
    pub(crate) async fn join<'c, A>(
        &'c self,
        hash: u64,
        key: &A,
        limits: &mut WaitLimits<'c>,
    ) -> Waited<'c, K, V>
    where
        A: EntryKey<K>,
    {
        let join = poll_fn(|context| {
            // Each time round, a flight that was over is removed.
            loop {
                let is_task = limits.is_task;
                let (flight, is_new) = self.hooks.fetch.flights.find_or_begin(hash, key, is_task);
                if is_new {
                    let turn = Turn::begin(&self.hooks.fetch.flights, flight, is_task);
                    return Poll::Ready(Joined::AtOnce(Waited::Turn(turn)));
                }
                match flight.join(&self.hooks.fetch.flights, context.waker(), limits) {
                    Joined::TooLate => self.hooks.fetch.flights.remove(&flight),
                    joined => return Poll::Ready(joined),
                }
            }
        });
        match join.await {
            Joined::Waiting(waiting) => {
                if waiting.blocks {
                    self.blocks_for_task();
                }
                waiting.await
            }
            Joined::AtOnce(Waited::Refused) => {
                self.does_not_block_for_task();
                Waited::Refused
            }
            Joined::AtOnce(waited) => waited,
            Joined::TooLate => unreachable!("looked for another"),
        }
    }

    /// Prevents the value being loaded for `key` from being stored: the key is about to be written.
    #[inline(always)]
    pub(crate) fn overtake<Q>(&self, hash: u64, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if !self.hooks.fetch.flights.is_empty() {
            self.overtake_flight(hash, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn overtake_flight<Q>(&self, hash: u64, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if let Some(flight) = self.hooks.fetch.flights.find(hash, key) {
            flight.overtake(&self.hooks.fetch.flights);
        }
        self.hooks.fetch.flights.tidy(hash, || self.clock.coarse());
    }

    /// The same for all keys, except remembered errors, which stay.
    pub(crate) fn overtake_loads(&self) {
        let flights = &self.hooks.fetch.flights;
        if !flights.is_empty() {
            let brings = |flight: &Arc<Flight<K, V>>| flight.is_remembered().is_none();
            flights.all().filter(brings).for_each(|flight| flight.overtake(flights));
        }
    }

    /// The same for all keys.
    pub(crate) fn overtake_all(&self) {
        if !self.hooks.fetch.flights.is_empty() {
            self.hooks
                .fetch
                .flights
                .all()
                .for_each(|flight| flight.overtake(&self.hooks.fetch.flights));
        }
    }

    /// A thread is about to block for a loader that is a future.
    #[cold]
    fn blocks_for_task(&self) {
        let blocked = self.hooks.fetch.flights.tally.blocked.fetch_add(1, Relaxed) + 1;
        if blocked.is_power_of_two() {
            events::event!(self, WARN, "a thread blocks for what a task loads", blocked);
        }
    }

    /// A thread was prevented from that: it may be the one that must poll the task.
    #[cold]
    fn does_not_block_for_task(&self) {
        let unblocked = self.hooks.fetch.flights.tally.unblocked.fetch_add(1, Relaxed) + 1;
        if unblocked.is_power_of_two() {
            events::event!(
                self,
                WARN,
                "a thread that polls loaders was about to block for one",
                unblocked
            );
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;
    #[cfg(feature = "expiry")]
    use std::time::Duration;

    use super::park::block_on;
    use crate::core::{YIELDS, YIELDS_MAX};
    use crate::ensure::Ensure;
    use crate::sync::atomic::Ordering::Relaxed;
    use crate::{Cache, Compute};

    /// A value whose destructor, the first that runs, waits until the test releases it.
    #[derive(Clone)]
    struct Heavy<'g> {
        weight: u64,
        gate: Option<&'g Gate>,
    }

    struct Gate {
        passed: AtomicBool,
        both: Barrier,
    }

    impl Heavy<'static> {
        fn new(weight: u64) -> Self {
            Heavy { weight, gate: None }
        }
    }

    impl Drop for Heavy<'_> {
        fn drop(&mut self) {
            if let Some(gate) = self.gate
                && !gate.passed.swap(true, Relaxed)
            {
                gate.both.wait();
                gate.both.wait();
            }
        }
    }

    #[cfg(feature = "expiry")]
    const HOUR: Duration = Duration::from_secs(3_600);

    type Weighed<'g> = Cache<u64, Heavy<'g>>;

    /// The result of `work` in a cache of a weight of 1,000 while another thread drops 400 of it,
    /// and is suspended.
    fn while_another_drops<'g>(gate: &'g Gate, work: impl FnOnce(&Weighed<'g>)) {
        let weigher = |_: &u64, heavy: &Heavy<'_>| heavy.weight;
        let builder = Cache::builder(1_000).entries(100_000).weigher(weigher);
        #[cfg(feature = "expiry")]
        let builder = builder.refresh_ahead(HOUR);
        let weighed: Weighed<'g> = builder.build();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The last one has all dropped, more than a segment holds.
                for key in 0..41 {
                    let (weight, gate) = if key == 40 { (400, Some(gate)) } else { (0, None) };
                    weighed.insert(key, Heavy { weight, gate });
                }
                (0..41).for_each(|key| assert!(weighed.invalidate(&key)));
            });
            gate.both.wait();
            // Also if an assertion of `work` panics, or the test would never end.
            let mut gate = gate;
            let _let_go = Ensure::new(&mut gate, |gate| _ = gate.both.wait());
            work(&weighed);
        });
    }

    /// How often this thread yields to others in `work`.
    fn yields(work: impl FnOnce()) -> u32 {
        let before = YIELDS.get();
        work();
        YIELDS.get() - before
    }

    type Way = fn(&Weighed<'_>, u64);

    /// All operations that admit an entry, and so may wait until others drop waiting entries.
    const WAYS: &[(&str, Way)] = &[
        ("insert", |cache, key| cache.insert(key, Heavy::new(1))),
        ("load", |cache, key| _ = cache.get_or_insert_with(&key, || Heavy::new(1))),
        #[cfg(feature = "expiry")]
        ("load anew", |cache, key| _ = cache.get_or_insert_with(&(key + 1_000), || Heavy::new(1))),
        ("fetch", |cache, key| {
            assert!(cache.get_or_fetch_blocking(&key, || Ok::<_, ()>(Heavy::new(1))).is_ok());
        }),
        ("compute", |cache, key| {
            _ = cache.entry(key).and_compute(|_| Compute::Put(Heavy::new(1)));
        }),
        ("compute in a task", |cache, key| {
            let put = |_| std::future::ready(Compute::Put(Heavy::new(1)));
            let compute = cache.entry(key).and_compute_async(put);
            block_on(compute, None);
        }),
    ];

    #[test]
    fn who_brings_more_waits_for_who_drops_a_quarter_of_the_weight() {
        for (way, bring) in WAYS {
            let gate = Gate { passed: AtomicBool::new(false), both: Barrier::new(2) };
            while_another_drops(&gate, |cache| {
                // About to end, by `refresh_ahead`.
                #[cfg(feature = "expiry")]
                (2_000..2_003).for_each(|key| cache.insert_for(key, Heavy::new(1), HOUR / 2));
                // So much that it is time to check which of the waiting entries can be dropped.
                (100..200).for_each(|key| cache.insert(key, Heavy::new(2)));
                let removals = || (100..200).for_each(|key| assert!(cache.invalidate(&key)));
                assert_eq!(yields(removals), 0, "{way}: nothing is brought");
                let pin = cache.pin();
                assert_eq!(yields(|| bring(cache, 1_000)), 0, "{way}: under a pin of its own");
                drop(pin);
                assert_eq!(yields(|| bring(cache, 1_001)), YIELDS_MAX, "{way}");
                assert_eq!(yields(|| bring(cache, 1_002)), 0, "{way}: once is enough");
            });
        }
    }
}
