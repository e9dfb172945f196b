//! One key whose value is on its way: who works on it, and who waits.
//!
//! ```text
//!  begun ─► Loading ──────────► Storing ──► Loading ──► Over
//!           ▲     │ fails, panics, is dropped             ▲
//!  one      │     ▼                                       │
//!  waiter   └─ Vacant ── nobody waits, or overtaken ──────┘
//! ```
//!
//! Whoever has the turn ([`Turn`]) loads, or computes; the others wait ([`Waiting`]). All
//! wait by wakers, threads too. A turn that ends without a value makes the flight vacant and
//! *calls* one waiter; one that is called and leaves instead calls the next, so a wake is
//! never lost, and at most one is under way.
//!
//! An insertion or removal of the key *overtakes*: what was loaded before it is not stored.
//! Storing excludes that: who comes during it waits until it is over. A thread that is
//! storing waits for nobody, or two whose user's code calls the cache could wait for each
//! other; it notes that the stored is to be taken out again.
//!
//! The mutex is held for a few instructions, and none of the user's: keys, values and
//! wakers are compared, cloned, dropped and woken outside it. One allocation a flight.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use crate::evict::Ensure;
use crate::fetch::park::Parker;
use crate::fetch::table::Table;
use crate::sync::Mutex;
use crate::thread;

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
    /// Somebody has the turn.
    Loading,
    /// The same, and nobody may overtake.
    Storing,
    /// Nobody has the turn, and one who waits is called to take it.
    Vacant,
    /// Out of the table, or about to be.
    Over,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Whether the key was written since: what this flight brings is not stored.
    overtaken: bool,
    /// Whether that was done by the user's code that has the turn.
    by_owner: bool,
    /// Whether what is being stored must be taken out again.
    undo: bool,
    /// The thread that is running the user's code of the turn.
    owner: Option<u32>,
    /// By the order in which they came.
    waiters: BTreeMap<u64, Waker>,
    /// The waiter that was woken to take the turn and has not come yet.
    called: Option<u64>,
    /// The number of the next waiter.
    next: u64,
    /// Who waits for the end of a store.
    overtakers: Vec<Waker>,
}

impl State {
    fn is_awaited(&self) -> bool {
        self.called.is_some() || !self.waiters.is_empty()
    }

    /// Leaves the turn to whoever waits. Whom to wake.
    fn vacate(&mut self) -> Wakes {
        let mut wakes = Wakes(std::mem::take(&mut self.overtakers));
        self.owner = None;
        if self.overtaken || !self.is_awaited() {
            self.phase = Phase::Over;
            wakes.0.extend(std::mem::take(&mut self.waiters).into_values());
        } else {
            self.phase = Phase::Vacant;
            if self.called.is_none()
                && let Some((number, waker)) = self.waiters.pop_first()
            {
                self.called = Some(number);
                wakes.0.push(waker);
            }
        }
        wakes
    }
}

/// Those to be woken, once no lock is held; all of them, should one panic.
struct Wakes(Vec<Waker>);

impl Wakes {
    fn wake(&mut self) {
        while let Some(waker) = self.0.pop() {
            waker.wake();
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        let others = Ensure::new(self, Wakes::wake);
        others.on.wake();
    }
}

/// What came of a wait.
pub(crate) enum Arrival<'t, K, V> {
    /// The caller has the turn.
    Turn(Turn<'t, K, V>),
    /// The flight is over. With a value, if it has brought one.
    Over(Arc<Flight<K, V>>),
    /// The caller must not wait: it is called by what it would wait for.
    Apart,
}

/// What came of an attempt to join a flight.
pub(crate) enum Joined<'t, K, V> {
    /// As of a wait.
    Arrival(Arrival<'t, K, V>),
    Waiting(Waiting<'t, K, V>),
    /// It is over or overtaken: look for another.
    TooLate,
}

/// A key whose value is on its way.
#[derive(Debug)]
pub(crate) struct Flight<K, V> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    /// For those who wait; set before the flight is over.
    value: OnceLock<V>,
    state: Mutex<State>,
}

impl<K, V> Flight<K, V> {
    /// One whose turn is the caller's.
    pub(crate) fn new(hash: u64, key: K) -> Self {
        let state = State {
            phase: Phase::Loading,
            overtaken: false,
            by_owner: false,
            undo: false,
            owner: None,
            waiters: BTreeMap::new(),
            called: None,
            next: 0,
            overtakers: Vec::new(),
        };
        Flight { hash, key, value: OnceLock::new(), state: Mutex::new(state) }
    }

    /// What the flight has brought, if it is over and has.
    pub(crate) fn value(&self) -> Option<&V> {
        self.value.get()
    }

    /// Takes the turn if it is vacant, or a place among those who wait.
    pub(crate) fn join<'t>(
        self: &Arc<Self>,
        table: &'t Table<K, V>,
        waker: &Waker,
    ) -> Joined<'t, K, V> {
        let (waker, thread) = (waker.clone(), thread::number());
        let flight = Arc::clone(self);
        let mut state = self.state.lock();
        // What is being stored is no older than the caller's question: who overtakes it has
        // not returned.
        let too_old = state.overtaken && state.phase != Phase::Storing;
        if too_old || state.phase == Phase::Over {
            return Joined::TooLate;
        }
        if state.phase == Phase::Vacant {
            state.phase = Phase::Loading;
            drop(state);
            return Joined::Arrival(Arrival::Turn(Turn { table, flight }));
        }
        if is_storing() || state.owner == Some(thread) {
            return Joined::Arrival(Arrival::Apart);
        }
        let number = state.next;
        state.next += 1;
        state.waiters.insert(number, waker);
        drop(state);
        Joined::Waiting(Waiting { table, flight, number, waits: true })
    }

    /// What was loaded up to now is not to be stored. Waits if it is just being stored,
    /// unless this thread is storing itself.
    pub(crate) fn overtake(self: &Arc<Self>, table: &Table<K, V>) {
        let (parker, thread) = (Parker::new(), thread::number());
        let mut state = self.state.lock();
        let wakes = match state.phase {
            Phase::Over => return,
            Phase::Loading => {
                state.by_owner |= state.owner == Some(thread);
                None
            }
            Phase::Vacant => {
                state.overtaken = true;
                Some(state.vacate())
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
        state.overtaken = true;
        let stores = state.phase == Phase::Storing;
        drop(state);
        // While it is being stored the next who comes must find it, and wait as well.
        if !stores {
            table.remove(self);
        }
        drop(wakes);
        let mut waits = stores && !is_storing();
        // Once: it is overtaken, and is not stored again.
        while waits {
            parker.park();
            waits = self.state.lock().phase == Phase::Storing;
        }
    }

    /// Leaves the turn to whoever waits, unless the flight is over.
    fn vacate(self: &Arc<Self>, table: &Table<K, V>) {
        let mut state = self.state.lock();
        if state.phase == Phase::Over {
            return;
        }
        let wakes = state.vacate();
        let over = state.phase == Phase::Over;
        drop(state);
        if over {
            table.remove(self);
        }
        drop(wakes);
    }
}

/// The right to load or compute, and the duty to say what came of it: dropped, it is left
/// to the next who waits.
pub(crate) struct Turn<'t, K, V> {
    table: &'t Table<K, V>,
    flight: Arc<Flight<K, V>>,
}

impl<'t, K, V> Turn<'t, K, V> {
    /// The turn of a flight just made.
    pub(crate) fn begin(table: &'t Table<K, V>, flight: Arc<Flight<K, V>>) -> Self {
        Turn { table, flight }
    }

    /// Runs the user's code that the turn is for. If that asks for the key on this thread it
    /// need not wait for itself.
    pub(crate) fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let thread = thread::number();
        self.flight.state.lock().owner = Some(thread);
        // A panic drops the turn, and with it the owner.
        let result = work();
        self.flight.state.lock().owner = None;
        result
    }

    /// Whether nothing of this flight is to be stored.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.flight.state.lock().overtaken
    }

    /// Whether that is the work of the code that this turn has run.
    pub(crate) fn is_overtaken_by_itself(&self) -> bool {
        self.flight.state.lock().by_owner
    }

    /// Stores while nobody can overtake; not at all if somebody has: `None`. If code of the
    /// user's that runs in `store` writes the key itself, `undo` follows.
    pub(crate) fn store<R>(&self, store: impl FnOnce() -> R, undo: impl FnOnce()) -> Option<R> {
        let mut state = self.flight.state.lock();
        if state.overtaken {
            return None;
        }
        state.phase = Phase::Storing;
        drop(state);
        let here = StoringHere::new();
        let result = store();
        if std::mem::take(&mut self.flight.state.lock().undo) {
            undo();
        }
        drop(here);
        let mut state = self.flight.state.lock();
        state.phase = Phase::Loading;
        let overtakers = Wakes(std::mem::take(&mut state.overtakers));
        drop(state);
        drop(overtakers);
        Some(result)
    }

    /// Ends the flight with a value, of which all who wait get a clone.
    pub(crate) fn land(self, value: &V)
    where
        V: Clone,
    {
        let mut state = self.flight.state.lock();
        if state.is_awaited() {
            drop(state);
            let copy = value.clone();
            // Set by nobody else: the turn is this thread's.
            let _ = self.flight.value.set(copy);
            state = self.flight.state.lock();
        }
        state.phase = Phase::Over;
        let wakes = Wakes(std::mem::take(&mut state.waiters).into_values().collect());
        drop(state);
        self.table.remove(&self.flight);
        drop(wakes);
    }
}

impl<K, V> Drop for Turn<'_, K, V> {
    fn drop(&mut self) {
        self.flight.vacate(self.table);
    }
}

/// A place among those who wait. Dropped, it passes on the wake that it may have had.
pub(crate) struct Waiting<'t, K, V> {
    table: &'t Table<K, V>,
    flight: Arc<Flight<K, V>>,
    number: u64,
    waits: bool,
}

impl<'t, K, V> Future for Waiting<'t, K, V> {
    type Output = Arrival<'t, K, V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        let this = &mut *self;
        let mut state = this.flight.state.lock();
        state.called = state.called.filter(|&called| called != this.number);
        let arrival = match state.phase {
            Phase::Loading | Phase::Storing => {
                let old = state.waiters.insert(this.number, waker);
                drop(state);
                drop(old);
                return Poll::Pending;
            }
            Phase::Vacant => {
                state.phase = Phase::Loading;
                let old = state.waiters.remove(&this.number);
                drop(state);
                drop(old);
                Arrival::Turn(Turn { table: this.table, flight: Arc::clone(&this.flight) })
            }
            Phase::Over => {
                drop(state);
                Arrival::Over(Arc::clone(&this.flight))
            }
        };
        this.waits = false;
        Poll::Ready(arrival)
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
        let vacant = state.phase == Phase::Vacant;
        drop(state);
        drop(own);
        if vacant {
            self.flight.vacate(self.table);
        }
    }
}
