//! A key that one thread loads for all callers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::probe::{Probe, Verdict};
use super::table::Found;

/// The interval at which a waiting thread looks for signals.
const WATCH: Duration = Duration::from_millis(50);

enum State {
    Flying,
    Landed(Py<PyAny>),
    /// The loader has raised: waiting threads start over.
    Failed,
}

/// One load of one key.
pub(super) struct Flight {
    hash: u32,
    key: Py<PyAny>,
    thread: ThreadId,
    /// A forked child has the flights of its parent, and not the threads.
    process: u32,
    /// The key was written, or everything removed, since the load began.
    overtaken: AtomicBool,
    state: Mutex<State>,
    ended: Condvar,
}

impl Flight {
    pub(super) fn new(hash: u32, key: Py<PyAny>) -> Self {
        Flight {
            hash,
            key,
            thread: thread::current().id(),
            process: std::process::id(),
            overtaken: AtomicBool::new(false),
            state: Mutex::new(State::Flying),
            ended: Condvar::new(),
        }
    }

    /// A key of this hash was written. Called in sections.
    pub(super) fn overtake(&self, hash: u32) {
        if self.hash == hash {
            self.overtake_always();
        }
    }

    pub(super) fn overtake_always(&self) {
        self.overtaken.store(true, Relaxed);
    }

    pub(super) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the load, with its value or without, unless it has ended. Nobody waits for a flight of
    /// the process that this one was forked from, and its lock may be held for ever.
    pub(super) fn land(&self, value: Option<Py<PyAny>>) {
        if self.process != std::process::id() {
            return;
        }
        let mut state = self.state();
        if matches!(*state, State::Flying) {
            *state = value.map_or(State::Failed, State::Landed);
            self.ended.notify_all();
        }
    }

    /// Waits for the end, detached. `None` if the load has failed.
    ///
    /// # Errors
    /// That of a signal's handler, such as `KeyboardInterrupt`; `RuntimeError` if the wait would never
    /// end, because the loader of this key is this thread, or waits for a key that this thread loads.
    pub(super) fn wait(self: &Arc<Self>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _waiting = Waiting::begin(self)?;
        loop {
            let flies = py.detach(|| {
                let state = self.state();
                let flies = |state: &mut State| matches!(state, State::Flying);
                let (state, _) = self
                    .ended
                    .wait_timeout_while(state, WATCH, flies)
                    .unwrap_or_else(PoisonError::into_inner);
                matches!(*state, State::Flying)
            });
            if !flies {
                return Ok(match &*self.state() {
                    State::Landed(value) => Some(value.clone_ref(py)),
                    State::Flying | State::Failed => None,
                });
            }
            py.check_signals()?;
        }
    }
}

/// Which flight each waiting thread waits for, in all caches. Locked only by attached threads, which
/// do not detach meanwhile: so no fork finds it locked.
static WAITING: LazyLock<Mutex<HashMap<ThreadId, Arc<Flight>>>> = LazyLock::new(Mutex::default);

fn waiting() -> MutexGuard<'static, HashMap<ThreadId, Arc<Flight>>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that waits.
struct Waiting(ThreadId);

impl Waiting {
    /// O(threads that wait for each other).
    fn begin(flight: &Arc<Flight>) -> PyResult<Self> {
        let this = thread::current().id();
        let mut waiting = waiting();
        let mut last = flight;
        while last.thread != this {
            match waiting.get(&last.thread) {
                Some(next) => last = next,
                None => {
                    waiting.insert(this, Arc::clone(flight));
                    return Ok(Waiting(this));
                }
            }
        }
        let problem = if Arc::ptr_eq(last, flight) {
            "the loader of a key asks for that key"
        } else {
            "loaders ask for each other's keys"
        };
        Err(PyRuntimeError::new_err(problem))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let ended = waiting().remove(&self.0);
        // Outside of the lock: this may be the last reference to a key.
        drop(ended);
    }
}

/// Looks for a key among flights. Runs no Python code.
pub(super) fn find(
    py: Python<'_>,
    flights: &[Arc<Flight>],
    probe: &Probe<'_, '_>,
) -> Result<Option<Arc<Flight>>, Found> {
    let process = std::process::id();
    for flight in flights {
        if flight.hash == probe.hash && flight.process == process {
            match probe.judge(&flight.key) {
                Verdict::Same => return Ok(Some(Arc::clone(flight))),
                Verdict::Different => {}
                Verdict::Ask => return Err(Found::Ask(flight.key.clone_ref(py))),
            }
        }
    }
    Ok(None)
}
