//! A flight: one key whose value is being loaded, who loads it, and who waits.
//!
//! ```text
//!                   value             stored           told to all
//! begun ─► Loading ───────────► Storing ────────► Loading ───────────► Over, out of the table
//!          ▲ │ │ │
//!          │ │ │ └─ a value, but overtaken: told to all and not stored ──► Over
//!          │ │ └─ an error that is shared ──► Over, or to be remembered: Failed ─────► Over
//!   one    │ │ fails, panics, is dropped                     expires, is written, another
//!   waiter │ ▼                                                      kind of caller asks
//!          └─ Vacant ── nobody waits, or overtaken ──► Over
//! ```
//!
//! The caller that has the turn ([`Turn`]) loads, or computes; the others wait ([`Waiting`]). All
//! wait by wakers, threads too. A turn that ends without an outcome makes the flight vacant and
//! *calls* one waiter; one that is called and leaves instead calls the next, so a wake is
//! never lost, and at most one is under way.
//!
//! An insertion or removal of the key *overtakes*: what was loaded before it is not stored.
//! Storing excludes that: an insertion or removal during it waits until it has ended. A thread that
//! is storing waits for no other, because two threads whose user's code calls the cache could wait
//! for each other: it notes that the stored value must be removed again.
//!
//! A thread that would wait for a loader which is a future is counted, and refused where it may be
//! the one that has to poll it (`blocking.rs`). Threads are called before tasks: a task that is
//! called goes on only if a thread polls it, and all of them may be waiting.
//!
//! The mutex is held for a few instructions, and none of the user's: keys, values, errors and
//! wakers are compared, cloned, dropped and woken outside it. One allocation a flight.
//! `docs/design/fetching.md` has the whole, with what is bounded.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use crate::clock::exact_ns;
use crate::core::order::Absence;
use crate::ensure::Ensure;
use crate::features::fetch::blocking::{AtWork, PendingLoader, is_needed, is_polling};
use crate::features::fetch::detached::Detached;
use crate::features::fetch::loaded::Loaded;
use crate::features::fetch::park::{Parker, has_passed};
use crate::features::fetch::table::Flights;
use crate::features::fetch::timer::{Alarm, Timer};
use crate::smr::thread;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard};

crate::sync::checked_thread_local! {
    /// How many flights this thread is storing, of all caches.
    static STORING: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is inside a store, called back by the user's code. Then it
/// must not wait for another flight.
pub(crate) fn is_storing() -> bool {
    STORING.with(Cell::get) > 0
}

/// One store of this thread's, while it lasts.
struct StoringHere(());

impl StoringHere {
    fn new() -> Self {
        STORING.with(|count| count.set(count.get() + 1));
        StoringHere(())
    }
}

impl Drop for StoringHere {
    fn drop(&mut self) {
        STORING.with(|count| count.set(count.get() - 1));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The turn is taken.
    Loading,
    /// The same, and no write may overtake.
    Storing,
    /// The turn is vacant, and one waiter is called to take it.
    Vacant,
    /// Over, with an error that is remembered until this time of the cache's clock.
    Failed { until: u64 },
    /// Out of the table, or about to be.
    Over,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Whether the holder of the turn is a task, or was when it left the turn.
    by_task: bool,
    /// Until when, by the cache's clock, a fetch that was left waits for a caller; only while
    /// vacant.
    lingers: Option<u64>,
    /// Whether the value being stored must be removed again.
    undo: bool,
    /// Threads first, and then by the order in which they came.
    waiters: BTreeMap<u64, Waker>,
    /// The waiter that was woken to take the turn and has not taken it yet.
    called: Option<u64>,
    /// The number of the next waiter.
    next: u64,
    /// Number of waiters, including the one called, and the sum of their start times; wraps.
    awaiting: u64,
    since: u64,
    /// When the last of all who waited, or wait, began to.
    latest: u64,
    /// The waiters for the end of a store.
    overtakers: Vec<Waker>,
}

impl State {
    fn is_awaited(&self) -> bool {
        self.called.is_some() || !self.waiters.is_empty()
    }

    /// Gives the vacant turn to a task or a thread.
    fn take_turn(&mut self, by_task: bool) {
        self.phase = Phase::Loading;
        self.by_task = by_task;
        self.lingers = None;
    }

    /// Whether it is vacant, and no waiter has been called to take the turn.
    fn is_abandoned(&self) -> bool {
        self.phase == Phase::Vacant && self.lingers.is_some() && !self.is_awaited()
    }

    /// One who began to wait at this time does no longer.
    fn leave(&mut self, since: u64) {
        self.awaiting -= 1;
        self.since = self.since.wrapping_sub(since);
    }

    /// Leaves the turn to a waiter. Returns the waiter to wake.
    fn vacate(&mut self, overtaken: bool) -> Wakes {
        let mut wakers = std::mem::take(&mut self.overtakers);
        if overtaken || !self.is_awaited() && self.lingers.is_none() {
            self.phase = Phase::Over;
            wakers.extend(std::mem::take(&mut self.waiters).into_values());
        } else {
            self.phase = Phase::Vacant;
            if self.called.is_none()
                && let Some((number, waker)) = self.waiters.pop_first()
            {
                self.called = Some(number);
                wakers.push(waker);
            }
        }
        Wakes::new(wakers)
    }
}

/// The waiters to wake, once no lock is held, in the order of their arrival; all of them, even if
/// one panics.
struct Wakes(std::vec::IntoIter<Waker>);

impl Wakes {
    fn new(wakers: Vec<Waker>) -> Self {
        Wakes(wakers.into_iter())
    }

    fn wake(&mut self) {
        self.0.by_ref().for_each(Waker::wake);
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        let others = Ensure::new(self, Wakes::wake);
        others.on.wake();
    }
}

/// The outcome of a flight for the waiters.
#[derive(Debug)]
pub(crate) enum Outcome<V> {
    Value(V),
    Error(SharedError),
}

/// An error on its way to others; they know its type, or have no use for it.
pub(crate) type SharedError = Arc<dyn Any + Send + Sync>;

/// When a fetch began and ended, by the cache's exact clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

/// Why a caller waits no longer, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vain {
    TimedOut,
    TooManyWaiters,
}

/// How long a caller waits, all its waits together, and beside how many.
pub(crate) struct WaitLimits<'t> {
    /// Whether the caller is a task; else it is a thread, which blocks.
    pub(crate) is_task: bool,
    waiters_max: u64,
    /// Nanoseconds.
    timeout: Option<u64>,
    /// By the exact clock; from the first wait on.
    deadline: Option<u64>,
    /// The timer that wakes a task at its deadline. A thread wakes without one.
    timer: Option<&'t Timer>,
}

impl<'t> WaitLimits<'t> {
    /// Waits as long as it takes, beside any number.
    pub(crate) fn endless(is_task: bool) -> Self {
        WaitLimits { is_task, waiters_max: u64::MAX, timeout: None, deadline: None, timer: None }
    }

    /// A task's if there is a timer.
    pub(crate) fn new(waiters_max: usize, timeout: Option<u64>, timer: Option<&'t Timer>) -> Self {
        let is_task = timer.is_some();
        WaitLimits { is_task, waiters_max: waiters_max as u64, timeout, deadline: None, timer }
    }

    /// The deadline of who begins to wait now.
    fn deadline(&mut self) -> Option<u64> {
        let timeout = self.timeout?;
        Some(*self.deadline.get_or_insert_with(|| exact_ns().saturating_add(timeout)))
    }
}

/// The result of a wait.
pub(crate) enum Waited<'t, K, V> {
    /// The caller has the turn.
    Turn(Turn<'t, K, V>),
    /// The flight has ended, with its outcome if it has one, and the caller's wait in nanoseconds.
    Over(Arc<Flight<K, V>>, u64),
    /// It was over with an error when the caller came. The caller asks whether that still holds.
    Remembered(Arc<Flight<K, V>>),
    /// The caller must not wait: the load that it would wait for has called it.
    Apart,
    /// It is a thread that others may need, and would wait for a task.
    Refused,
    /// It has waited long enough, or may not.
    Vain(Vain),
}

/// The result of an attempt to join a flight.
pub(crate) enum Joined<'t, K, V> {
    /// As of a wait.
    AtOnce(Waited<'t, K, V>),
    Waiting(Waiting<'t, K, V>),
    /// It has ended or was overtaken: search for another.
    TooLate,
}

/// Whether a caller may wait.
enum Standing<'t, K, V> {
    Waits,
    /// It may, and its thread blocks for a task.
    Blocks,
    Not(Waited<'t, K, V>),
    /// It is an error in the program.
    Wrong(&'static str),
}

const OWN_KEY: &str = "a load or computation waits for itself: `Clone`, `Eq`, `Hash`, the clock or a function of \
     the cache's builder has asked for the very key that it was called for";
const BLOCKS_TASK: &str = "a loader that is a future blocks its thread for a key that another future loads: await the \
     asynchronous form of the call";

/// In the owner of a flight: it runs the loader, or the computation.
const RUNS: u32 = 1 << 31;

/// A key whose value is on its way.
#[derive(Debug)]
pub(crate) struct Flight<K, V> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    /// For the waiters; set before the flight ends.
    outcome: OnceLock<Outcome<V>>,
    /// Start and end of the fetch, or the time at which its value was found, by the cache's clock;
    /// 0 before. Written before the mutex that ends the flight is taken, and read after that.
    began: AtomicU64,
    landed: AtomicU64,
    /// One plus the number of the thread at the turn, with [`RUNS`] while it runs the turn's own
    /// code; 0 if there is none. Relaxed: a thread only compares it with itself.
    owner: AtomicU32,
    /// Whether the key was written since, so that this flight's value is not stored. Written under
    /// the mutex; read without it, a hint.
    overtaken: AtomicBool,
    /// Whether the user code at the turn did that.
    by_owner: AtomicBool,
    /// A fetch that its caller has left; only while the flight is vacant. The thread that takes the
    /// turn or ends the flight takes it.
    abandoned: Mutex<Option<Detached<V>>>,
    state: Mutex<State>,
}

impl<K, V> Flight<K, V> {
    /// A flight whose turn the caller has, a task or a thread.
    pub(crate) fn new(hash: u64, key: K, by_task: bool) -> Self {
        let state = State {
            phase: Phase::Loading,
            by_task,
            lingers: None,
            undo: false,
            waiters: BTreeMap::new(),
            called: None,
            next: 0,
            awaiting: 0,
            since: 0,
            latest: 0,
            overtakers: Vec::new(),
        };
        Flight {
            hash,
            key,
            outcome: OnceLock::new(),
            began: AtomicU64::new(0),
            landed: AtomicU64::new(0),
            owner: AtomicU32::new(0),
            overtaken: AtomicBool::new(false),
            by_owner: AtomicBool::new(false),
            abandoned: Mutex::new(None),
            state: Mutex::new(state),
        }
    }

    /// The outcome of the flight, if it has ended with one.
    pub(crate) fn outcome(&self) -> Option<&Outcome<V>> {
        self.outcome.get()
    }

    /// Whether the calling thread is at the turn, called back by user code.
    fn is_own(&self) -> bool {
        self.owner.load(Relaxed) & !RUNS == thread::number() + 1
    }

    /// Whether that code is the turn's own.
    fn runs_here(&self) -> bool {
        self.owner.load(Relaxed) == (thread::number() + 1) | RUNS
    }

    /// Whether a caller may wait for the holder of the turn.
    fn standing<'t>(&self, state: &State, limits: &WaitLimits<'_>) -> Standing<'t, K, V> {
        if is_storing() || self.runs_here() {
            return Standing::Not(Waited::Apart);
        }
        if self.is_own() {
            return Standing::Wrong(OWN_KEY);
        }
        if state.awaiting >= limits.waiters_max {
            return Standing::Not(Waited::Vain(Vain::TooManyWaiters));
        }
        if !state.by_task || limits.is_task {
            return Standing::Waits;
        }
        // A wait with a timeout does no lasting harm.
        match limits.timeout {
            Some(_) => Standing::Blocks,
            None if is_polling() => Standing::Wrong(BLOCKS_TASK),
            None if is_needed() => Standing::Not(Waited::Refused),
            None => Standing::Blocks,
        }
    }

    /// Takes the turn if it is vacant, or a place among the waiters.
    pub(crate) fn join<'t>(
        self: &Arc<Self>,
        table: &'t Flights<K, V>,
        waker: &Waker,
        limits: &mut WaitLimits<'t>,
    ) -> Joined<'t, K, V> {
        let (waker, since) = (waker.clone(), table.clock.exact());
        let flight = Arc::clone(self);
        let mut state = self.state.lock();
        // The value being stored is no older than the caller's request: a write that overtakes it
        // has not returned.
        let too_old = self.overtaken.load(Relaxed) && state.phase != Phase::Storing;
        if too_old || state.phase == Phase::Over {
            return Joined::TooLate;
        }
        if let Phase::Failed { .. } = state.phase {
            return Joined::AtOnce(Waited::Remembered(flight));
        }
        if state.phase == Phase::Vacant {
            state.take_turn(limits.is_task);
            drop(state);
            return Joined::AtOnce(Waited::Turn(Turn::begin(table, flight, limits.is_task)));
        }
        let blocks = match self.standing(&state, limits) {
            Standing::Waits => false,
            Standing::Blocks => true,
            Standing::Not(waited) => return Joined::AtOnce(waited),
            // Not under the mutex: the handler of panics is user code.
            Standing::Wrong(message) => {
                drop(state);
                panic!("{message}");
            }
        };
        let number = u64::from(limits.is_task) << 63 | state.next;
        state.next += 1;
        state.awaiting += 1;
        state.since = state.since.wrapping_add(since);
        // It was read before the mutex was taken: who came later may be behind.
        state.latest = state.latest.max(since);
        state.waiters.insert(number, waker);
        drop(state);
        let deadline = limits.deadline();
        let alarm = limits.timer.filter(|_| deadline.is_some()).map(Alarm::new);
        let is_task = limits.is_task;
        let waits = true;
        Joined::Waiting(Waiting {
            table,
            flight,
            number,
            since,
            deadline,
            alarm,
            is_task,
            blocks,
            waits,
        })
    }

    /// Takes the turn if it is vacant.
    pub(crate) fn take_if_vacant<'t>(
        self: &Arc<Self>,
        table: &'t Flights<K, V>,
        is_task: bool,
    ) -> Option<Turn<'t, K, V>> {
        let mut state = self.state.lock();
        if self.overtaken.load(Relaxed) || state.phase != Phase::Vacant {
            return None;
        }
        state.take_turn(is_task);
        drop(state);
        Some(Turn::begin(table, Arc::clone(self), is_task))
    }

    /// A value loaded so far must not be stored. Waits if it is just being stored, unless this
    /// thread is storing it.
    pub(crate) fn overtake(self: &Arc<Self>, table: &Flights<K, V>) {
        let parker = Parker::new();
        let mut state = self.state.lock();
        let wakes = match state.phase {
            Phase::Over => return,
            Phase::Loading => {
                self.by_owner.fetch_or(self.is_own(), Relaxed);
                None
            }
            Phase::Vacant => Some(state.vacate(true)),
            Phase::Failed { .. } => {
                state.phase = Phase::Over;
                None
            }
            Phase::Storing if is_storing() => {
                state.undo = true;
                None
            }
            Phase::Storing => {
                state.overtakers.push(parker.waker());
                None
            }
        };
        self.overtaken.store(true, Relaxed);
        let stores = state.phase == Phase::Storing;
        drop(state);
        // While it is being stored, the next caller must find it, and wait as well.
        if !stores {
            table.remove(self);
            self.drop_abandoned();
        }
        drop(wakes);
        let mut waits = stores && !is_storing();
        // Once: it is overtaken, and is not stored again.
        while waits {
            parker.park();
            waits = self.state.lock().phase == Phase::Storing;
        }
    }

    /// Whether it has ended and stays for its error, and until when.
    pub(crate) fn is_remembered(&self) -> Option<u64> {
        match self.state.lock().phase {
            Phase::Failed { until } => Some(until),
            _ => None,
        }
    }

    /// Until when it stays, if that is for its error, or for a fetch that waits for a caller.
    pub(crate) fn is_kept(&self) -> Option<u64> {
        let state = self.state.lock();
        match state.phase {
            Phase::Failed { until } => Some(until),
            _ => state.lingers.filter(|_| state.is_abandoned()),
        }
    }

    /// Ends it if it is only there for its error, or for a fetch that waits for a caller.
    pub(crate) fn forget(self: &Arc<Self>, table: &Flights<K, V>) {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Failed { .. }) || state.is_abandoned() {
            state.phase = Phase::Over;
            drop(state);
            table.remove(self);
            self.drop_abandoned();
        }
    }

    /// Drops the fetch left in a flight that has ended or was overtaken, outside of locks, because
    /// it is user code. While the turn is taken there is none.
    fn drop_abandoned(&self) {
        let abandoned = self.abandoned.lock().take();
        drop(abandoned);
    }

    /// Leaves the turn, which the caller has or which is vacant, to a waiter, unless the flight has
    /// ended. The mutex is held since that was checked; otherwise another thread may have taken the
    /// turn.
    fn vacate(self: &Arc<Self>, table: &Flights<K, V>, mut state: MutexGuard<'_, State>) {
        // A waker may have panicked at the end.
        if matches!(state.phase, Phase::Over | Phase::Failed { .. }) {
            return;
        }
        let wakes = state.vacate(self.overtaken.load(Relaxed));
        let over = state.phase == Phase::Over;
        drop(state);
        if over {
            table.remove(self);
            self.drop_abandoned();
        }
        drop(wakes);
    }
}

/// The right to load or compute, and the duty to report the result: when dropped, it passes to the
/// next waiter.
pub(crate) struct Turn<'t, K, V> {
    table: &'t Flights<K, V>,
    flight: Arc<Flight<K, V>>,
    /// Whether it is a task's.
    is_task: bool,
    /// While the loader is pending: the thread that has polled it.
    pending: Option<PendingLoader>,
    /// The part left to the next holder if this is dropped.
    detached: Option<Detached<V>>,
    /// Whether the flight has ended with an outcome, or without waiters.
    has_landed: bool,
}

impl<'t, K, V> Turn<'t, K, V> {
    /// The turn of a flight, which the caller has just made or taken.
    pub(crate) fn begin(
        table: &'t Flights<K, V>,
        flight: Arc<Flight<K, V>>,
        is_task: bool,
    ) -> Self {
        let (pending, detached) = (None, None);
        let turn = Turn { table, flight, is_task, pending, detached, has_landed: false };
        turn.attend();
        turn
    }

    /// This thread is at the turn: user code that it runs must not wait for it.
    fn attend(&self) {
        self.flight.owner.store(thread::number() + 1, Relaxed);
    }

    /// Runs the turn's own user code. If that requests the key on this thread it need not wait for
    /// itself.
    pub(crate) fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        self.flight.owner.store((thread::number() + 1) | RUNS, Relaxed);
        let at_work = AtWork::new(self.is_task);
        // A panic drops the turn, and with it the owner.
        let result = work();
        drop(at_work);
        self.attend();
        result
    }

    /// The same for a future. While it is pending no thread is at the turn.
    pub(crate) fn poll<R>(&mut self, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
        self.pending = None;
        let result = self.run(poll);
        if result.is_pending() {
            self.flight.owner.store(0, Relaxed);
            self.pending = self.is_task.then(PendingLoader::new);
        }
        result
    }

    /// The fetch that another has left, if its time is not over and this is a task.
    pub(crate) fn take_abandoned(&self) -> Option<Detached<V>> {
        let abandoned = self.flight.abandoned.lock().take()?;
        if self.is_task && self.table.clock.coarse() < abandoned.until {
            return Some(abandoned);
        }
        self.run(|| drop(abandoned));
        None
    }

    /// Drops the fetch that another caller has left: as the turn's own code, because it is user
    /// code.
    pub(crate) fn drop_abandoned(&self) {
        let abandoned = self.flight.abandoned.lock().take();
        if abandoned.is_some() {
            self.run(|| drop(abandoned));
        }
    }

    /// Sees a fetch through, or leaves it to the next.
    pub(crate) async fn drive(&mut self, detached: Detached<V>) -> Result<Loaded<V>, SharedError> {
        self.detached = Some(detached);
        poll_fn(|context| {
            // A panic drops it.
            let mut detached = self.detached.take();
            let polled = self.poll(|| {
                let driven = detached.as_mut().expect("put back while it is pending");
                let polled = driven.work.as_mut().poll(context);
                // Here, because it is the user's as well.
                detached = detached.take().filter(|_| polled.is_pending());
                polled
            });
            self.detached = detached;
            polled
        })
        .await
    }

    /// The flight of the turn.
    pub(crate) fn flight(&self) -> Arc<Flight<K, V>> {
        Arc::clone(&self.flight)
    }

    /// Whether the value of this flight must not be stored.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.flight.overtaken.load(Relaxed)
    }

    /// Whether the code of this turn caused that.
    pub(crate) fn is_overtaken_by_itself(&self) -> bool {
        self.flight.by_owner.load(Relaxed)
    }

    /// The code has brought something.
    pub(crate) fn fetched(&self, span: Span) {
        self.flight.began.store(span.began, Relaxed);
        self.flight.landed.store(span.ended, Relaxed);
    }

    /// The cost of the key's absence, for a fetched value to store: the new entry carries it to the
    /// policy. O(1).
    pub(crate) fn absence(&self) -> Absence {
        let landed = self.flight.landed.load(Relaxed);
        let fetch = landed.saturating_sub(self.flight.began.load(Relaxed));
        let state = self.flight.state.lock();
        // Waiters that came after the end subtract from the sum, which may be negative then.
        let delay = landed.wrapping_mul(state.awaiting).wrapping_sub(state.since) as i64;
        let delay = delay.max(0) as u64;
        // The last waiter may have left.
        let least = if state.awaiting == 0 { 0 } else { landed.saturating_sub(state.latest) };
        Absence { landed, fetch, waiters: state.awaiting, delay, least }
    }

    /// Stores while no write can overtake; `None`, without storing, if one has. If user code that
    /// runs in `store` writes the key itself, `undo` follows.
    pub(crate) fn store<R>(&self, store: impl FnOnce() -> R, undo: impl FnOnce()) -> Option<R> {
        let (state, result) = self.store_under(store, undo);
        Self::hand_over(state);
        result
    }

    /// As `store`. With the mutex held, and who waits for the end of it to be woken.
    fn store_under<R>(
        &self,
        store: impl FnOnce() -> R,
        undo: impl FnOnce(),
    ) -> (MutexGuard<'_, State>, Option<R>) {
        let mut state = self.flight.state.lock();
        if self.flight.overtaken.load(Relaxed) {
            return (state, None);
        }
        state.phase = Phase::Storing;
        drop(state);
        let here = StoringHere::new();
        let result = store();
        let mut state = self.flight.state.lock();
        if state.undo {
            drop(state);
            undo();
            state = self.flight.state.lock();
        }
        state.phase = Phase::Loading;
        drop(here);
        (state, Some(result))
    }

    /// Gives the mutex back, and wakes who waits for the end of a store.
    fn hand_over(mut state: MutexGuard<'_, State>) {
        let overtakers = Wakes::new(std::mem::take(&mut state.overtakers));
        drop(state);
        drop(overtakers);
    }

    /// Stores, and ends the flight with the value; all waiters get a clone. Returns their number.
    pub(crate) fn store_and_land<R>(
        mut self,
        value: &V,
        store: impl FnOnce() -> R,
        undo: impl FnOnce(),
    ) -> u64
    where
        V: Clone,
    {
        let (state, _) = self.store_under(store, undo);
        let awaiting = self.land_under(state, value);
        self.has_landed = true;
        awaiting
    }

    /// Ends the flight without an outcome: those who wait look for themselves.
    pub(crate) fn leave_to_look(mut self) {
        self.end(self.flight.state.lock(), Phase::Over);
        self.has_landed = true;
    }

    /// Ends the flight with a value, as `store_and_land`, and stores nothing.
    pub(crate) fn land(mut self, value: &V) -> u64
    where
        V: Clone,
    {
        let awaiting = self.land_under(self.flight.state.lock(), value);
        self.has_landed = true;
        awaiting
    }

    fn land_under<'s>(&'s self, mut state: MutexGuard<'s, State>, value: &V) -> u64
    where
        V: Clone,
    {
        if state.is_awaited() {
            // Before the user's clone, which may wait for them.
            Self::hand_over(state);
            state = self.bring(Outcome::Value(value.clone()));
        }
        self.end(state, Phase::Over)
    }

    /// Ends the flight with an error, which all who wait get, and who come until that time if
    /// there is one.
    pub(crate) fn fail(mut self, error: SharedError, until: Option<u64>) {
        let state = self.bring(Outcome::Error(error));
        // The failed origin does not know values written since.
        match until.filter(|_| !self.flight.overtaken.load(Relaxed)) {
            None => self.end(state, Phase::Over),
            Some(until) => {
                self.end(state, Phase::Failed { until });
                self.table.remember(&self.flight);
                0
            }
        };
        self.has_landed = true;
    }

    /// Prepares the outcome for the waiters.
    fn bring(&self, outcome: Outcome<V>) -> MutexGuard<'_, State> {
        if self.flight.landed.load(Relaxed) == 0 {
            self.flight.landed.store(self.table.clock.exact(), Relaxed);
        }
        // Only this thread sets it, because it has the turn.
        let _ = self.flight.outcome.set(outcome);
        self.flight.state.lock()
    }

    fn end(&self, mut state: MutexGuard<'_, State>, phase: Phase) -> u64 {
        state.phase = phase;
        let awaiting = state.awaiting;
        // Most flights have no waiters: two checks, and nothing to drop.
        let mut wakers = std::mem::take(&mut state.overtakers);
        if !state.waiters.is_empty() {
            wakers.extend(std::mem::take(&mut state.waiters).into_values());
        }
        drop(state);
        let wakes = Wakes::new(wakers);
        if phase == Phase::Over {
            self.table.remove(&self.flight);
        }
        drop(wakes);
        awaiting
    }
}

impl<K, V> Drop for Turn<'_, K, V> {
    fn drop(&mut self) {
        if self.has_landed {
            return;
        }
        self.flight.owner.store(0, Relaxed);
        self.pending = None;
        let Some(mut detached) = self.detached.take() else {
            return self.flight.vacate(self.table, self.flight.state.lock());
        };
        let until = self.table.clock.coarse().saturating_add(detached.linger);
        detached.until = until;
        // Before the flight is vacant, so that the next holder of the turn finds it.
        *self.flight.abandoned.lock() = Some(detached);
        let mut state = self.flight.state.lock();
        state.lingers = Some(until);
        self.flight.vacate(self.table, state);
        self.table.remember(&self.flight);
    }
}

/// A place among those who wait. Dropped, it passes on the wake that it may have had.
pub(crate) struct Waiting<'t, K, V> {
    table: &'t Flights<K, V>,
    flight: Arc<Flight<K, V>>,
    number: u64,
    /// When it began, by the cache's clock.
    since: u64,
    deadline: Option<u64>,
    alarm: Option<Alarm<'t>>,
    /// Whether it is a task's.
    is_task: bool,
    /// Whether it is a thread's that blocks for a loader which is a future.
    pub(crate) blocks: bool,
    waits: bool,
}

impl<'t, K, V> Future for Waiting<'t, K, V> {
    type Output = Waited<'t, K, V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let this = &mut *self;
        // Asked outside the mutex, and made use of inside: who is late leaves only if there is
        // nothing to take.
        let late = this.deadline.is_some_and(has_passed);
        let mut state = this.flight.state.lock();
        state.called = state.called.filter(|&called| called != this.number);
        let (waited, old) = match state.phase {
            Phase::Loading | Phase::Storing if late => {
                state.leave(this.since);
                (Waited::Vain(Vain::TimedOut), state.waiters.remove(&this.number))
            }
            Phase::Loading | Phase::Storing => {
                let old = state.waiters.insert(this.number, waker);
                drop(state);
                drop(old);
                return this.pend(context.waker());
            }
            Phase::Vacant => {
                state.take_turn(this.is_task);
                state.leave(this.since);
                let turn = Turn::begin(this.table, Arc::clone(&this.flight), this.is_task);
                (Waited::Turn(turn), state.waiters.remove(&this.number))
            }
            Phase::Over | Phase::Failed { .. } => {
                let landed = this.flight.landed.load(Relaxed);
                let delay = landed.saturating_sub(this.since);
                (Waited::Over(Arc::clone(&this.flight), delay), None)
            }
        };
        drop(state);
        drop(old);
        this.waits = false;
        this.alarm = None;
        Poll::Ready(waited)
    }
}

impl<'t, K, V> Waiting<'t, K, V> {
    /// Has itself woken at the deadline as well.
    fn pend(&mut self, waker: &Waker) -> Poll<Waited<'t, K, V>> {
        let Some((alarm, deadline)) = self.alarm.as_mut().zip(self.deadline) else {
            return Poll::Pending;
        };
        // If nothing can wake it, it leaves, because it is dropped.
        if alarm.set(deadline, waker) {
            Poll::Pending
        } else {
            Poll::Ready(Waited::Vain(Vain::TooManyWaiters))
        }
    }
}

impl<K, V> Drop for Waiting<'_, K, V> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let mut state = self.flight.state.lock();
        let own = state.waiters.remove(&self.number);
        state.called = state.called.filter(|&called| called != self.number);
        state.leave(self.since);
        if state.phase == Phase::Vacant {
            self.flight.vacate(self.table, state);
        } else {
            drop(state);
        }
        drop(own);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::features::fetch::key::ByValue;

    #[test]
    fn who_comes_after_the_end_has_no_delay() {
        let table: Flights<u64, u64> = Flights::new(Clock::new(None));
        let (flight, _) = table.find_or_begin(1, &ByValue(1), true);
        let mut turn = Turn::begin(&table, Arc::clone(&flight), true);
        // While it is pending this thread may wait for it.
        _ = turn.poll(|| Poll::<()>::Pending);
        let ended = table.clock.exact();
        turn.fetched(Span { began: ended - 500, ended });
        while table.clock.exact() == ended {}
        let mut limits = WaitLimits::endless(true);
        let joined = flight.join(&table, Waker::noop(), &mut limits);
        assert!(matches!(joined, Joined::Waiting(_)));
        let cost = Absence { landed: ended, fetch: 500, waiters: 1, delay: 0, least: 0 };
        assert_eq!(turn.absence(), cost);
    }

    /// The thread that read the clock first may reach the mutex last.
    #[test]
    fn the_last_who_came_is_the_one_with_the_latest_clock() {
        let times = Mutex::new(vec![100, 300, 0]);
        let clock = move || Duration::from_nanos(times.lock().pop().expect("asked thrice"));
        let table: Flights<u64, u64> = Flights::new(Clock::new(Some(Box::new(clock))));
        let (flight, _) = table.find_or_begin(1, &ByValue(1), true);
        let mut turn = Turn::begin(&table, Arc::clone(&flight), true);
        _ = turn.poll(|| Poll::<()>::Pending);
        let mut limits = WaitLimits::endless(true);
        let waits = [(); 2].map(|()| match flight.join(&table, Waker::noop(), &mut limits) {
            Joined::Waiting(waiting) => waiting,
            _ => panic!("the turn is taken"),
        });
        let [later, earlier] = [0, 1].map(|number: usize| waits[number].since);
        assert_eq!(later - earlier, 200);
        turn.fetched(Span { began: earlier, ended: later + 700 });
        assert_eq!(turn.absence().least, 700);
        drop(waits);
    }

    #[test]
    fn an_absence_counts_those_who_wait_and_their_time() {
        let table: Flights<u64, u64> = Flights::new(Clock::new(None));
        let (flight, _) = table.find_or_begin(1, &ByValue(1), true);
        let mut turn = Turn::begin(&table, Arc::clone(&flight), true);
        // While it is pending this thread may wait for it.
        _ = turn.poll(|| Poll::<()>::Pending);
        let mut limits = WaitLimits::endless(true);
        let before = table.clock.exact();
        let mut waits: Vec<_> = (0..3)
            .map(|_| match flight.join(&table, Waker::noop(), &mut limits) {
                Joined::Waiting(waiting) => waiting,
                _ => panic!("the turn is taken"),
            })
            .collect();
        let since: u64 = waits.iter().map(|waiting| waiting.since).sum();
        let (fetch, landed) = (1_000_000_000, before + 1_000_000_000);
        turn.fetched(Span { began: before, ended: landed });
        let delay = 3 * landed - since;
        let least = landed - waits[2].since;
        let cost = Absence { landed, fetch, waiters: 3, delay, least };
        assert_eq!(turn.absence(), cost);
        let left = waits.remove(1);
        let delay = delay - (landed - left.since);
        drop(left);
        assert_eq!(turn.absence(), Absence { waiters: 2, delay, ..cost });
        assert_eq!(turn.land(&5), 2);
        drop(waits);
        assert_eq!(table.len(), (0, 0));
    }
}
