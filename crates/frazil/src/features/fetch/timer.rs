//! Wakes tasks that wait with a timeout.
//!
//! A thread parks until its deadline, but a task belongs to an executor that the cache does not
//! know, and its waker must be called. So a cache has a thread for it, which starts with the first
//! such wait, sleeps until the earliest deadline, and ends with the cache. It knows wakers and
//! nothing of keys and values, which need not outlive what they borrow.
//!
//! Due deadlines are removed under a mutex, and their tasks woken outside it. A wait that ends removes
//! its deadline, so there is one for each waiting task. O(log waits) for each; 90 bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use crate::clock::exact_ns;
use crate::features::fetch::park::{has_passed, park_for};
use crate::sync::thread::{self, Thread};
use crate::sync::{CHECKED, Mutex};

/// The most deadlines.
const WAITS_MAX: usize = if CHECKED { 8 } else { 1 << 20 };

/// A deadline by the exact clock, and a number that tells waits apart.
type Due = (u64, u64);

#[derive(Debug, Default)]
struct State {
    waits: BTreeMap<Due, Waker>,
    next: u64,
    /// The thread, once it has started.
    thread: Option<Thread>,
    /// Whether the cache was dropped.
    ended: bool,
}

/// The deadlines of a cache's tasks.
#[derive(Debug)]
pub(crate) struct Timer(Arc<Mutex<State>>);

impl Timer {
    pub(crate) fn new() -> Self {
        Timer(Arc::new(Mutex::new(State::default())))
    }

    /// How many tasks wait with a deadline, and whether the thread has started. For tests.
    #[cfg(any(feature = "measure", loom, shuttle))]
    pub(crate) fn waits(&self) -> (usize, bool) {
        let state = self.0.lock();
        (state.waits.len(), state.thread.is_some())
    }

    /// Wakes at `deadline`, in the place of an earlier call for `number`. False if it cannot.
    fn set(&self, number: &mut Option<Due>, deadline: u64, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut state = self.0.lock();
        if state.thread.is_none() {
            match start(&self.0) {
                Ok(thread) => state.thread = Some(thread),
                Err(_) => return false,
            }
        }
        let is_listed = number.is_some_and(|due| state.waits.contains_key(&due));
        if !is_listed && state.waits.len() >= WAITS_MAX {
            return false;
        }
        let due = *number.get_or_insert_with(|| {
            state.next += 1;
            (deadline, state.next)
        });
        let is_first = state.waits.first_key_value().is_none_or(|(first, _)| due < *first);
        let old = state.waits.insert(due, waker);
        // It sleeps until the deadline that was first.
        let thread = state.thread.clone().filter(|_| is_first);
        drop(state);
        drop(old);
        thread.iter().for_each(Thread::unpark);
        true
    }

    fn take_back(&self, due: Due) {
        let waker = self.0.lock().waits.remove(&due);
        drop(waker);
    }
}

impl Drop for Timer {
    /// The thread is not joined: it may be this one, when a task that it wakes drops the cache.
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        let thread = state.thread.take();
        drop(state);
        thread.iter().for_each(Thread::unpark);
    }
}

fn start(state: &Arc<Mutex<State>>) -> std::io::Result<Thread> {
    let state = Arc::clone(state);
    let builder = thread::Builder::new().name("frazil-timer".to_owned());
    Ok(builder.spawn(move || run(&state))?.thread().clone())
}

/// Until the cache is dropped: each iteration sleeps, or wakes one task.
fn run(state: &Mutex<State>) {
    loop {
        let mut held = state.lock();
        if held.ended {
            return;
        }
        match held.waits.first_key_value().map(|(&due, _)| due) {
            None => {
                drop(held);
                thread::park();
            }
            Some(due) if has_passed(due.0) => {
                let waker = held.waits.remove(&due);
                drop(held);
                // A waker that panics must not cost other tasks their timeouts.
                let wake = || waker.into_iter().for_each(Waker::wake);
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wake));
            }
            Some((deadline, _)) => {
                drop(held);
                park_for(deadline.saturating_sub(exact_ns()));
            }
        }
    }
}

/// A task's deadline. When dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Alarm<'t> {
    timer: &'t Timer,
    due: Option<Due>,
}

impl<'t> Alarm<'t> {
    pub(crate) fn new(timer: &'t Timer) -> Self {
        Alarm { timer, due: None }
    }

    /// Wakes the task at `deadline`, the same in all calls. False if that is impossible.
    pub(crate) fn set(&mut self, deadline: u64, waker: &Waker) -> bool {
        self.timer.set(&mut self.due, deadline, waker)
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if let Some(due) = self.due {
            self.timer.take_back(due);
        }
    }
}
