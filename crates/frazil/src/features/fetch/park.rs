//! Threads that wait as tasks do, with a waker that unparks them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::clock::exact_ns;
use crate::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use crate::sync::thread::{self, Thread};

/// Wakes the thread that made it.
struct Signal {
    woken: AtomicBool,
    thread: Thread,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the waker's earlier writes; partner is the Acquire in `park`.
        self.woken.store(true, Release);
        self.thread.unpark();
    }
}

/// A thread's way to wait. Each wait has its own flag: a wait within a wait may take the thread's
/// unparking, which is one for all.
pub(crate) struct Parker(Arc<Signal>);

impl Parker {
    pub(crate) fn new() -> Self {
        Parker(Arc::new(Signal { woken: AtomicBool::new(false), thread: thread::current() }))
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Waits until it has been woken since it last waited.
    pub(crate) fn park(&self) {
        // Acquire: partner is the Release of the waker.
        while !self.0.woken.swap(false, Acquire) {
            thread::park();
        }
    }

    /// The same, at most until `deadline` by the exact clock.
    pub(crate) fn park_until(&self, deadline: u64) {
        // Acquire: as above.
        while !self.0.woken.swap(false, Acquire) {
            if has_passed(deadline) {
                return;
            }
            park_for(deadline.saturating_sub(exact_ns()));
        }
    }
}

/// Runs a future to its end on this thread. With a timeout it is polled again at that time
/// after it has begun to wait.
pub(crate) fn block_on<F: Future>(future: F, timeout: Option<u64>) -> F::Output {
    let mut future = pin!(future);
    // Most do not wait, and need no waker. One that does is polled again at once, and leaves
    // another waker, so a wake-up in between is not missed.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let deadline = timeout.map(|timeout| exact_ns().saturating_add(timeout));
    let parker = Parker::new();
    let waker = parker.waker();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => match deadline {
                None => parker.park(),
                Some(deadline) => parker.park_until(deadline),
            },
        }
    }
}

/// Whether a deadline has passed by the exact clock. To a checker, which has no time, any deadline
/// may have passed or not.
pub(crate) fn has_passed(deadline: u64) -> bool {
    #[cfg(all(shuttle, not(loom)))]
    {
        use shuttle::rand::RngCore;
        let _ = deadline;
        shuttle::rand::thread_rng().next_u32() % 2 == 0
    }
    #[cfg(not(all(shuttle, not(loom))))]
    {
        exact_ns() >= deadline
    }
}

/// Parks, for `nanoseconds` at most. Under a checker not at all: it lets others run first.
pub(crate) fn park_for(nanoseconds: u64) {
    #[cfg(not(any(loom, shuttle)))]
    thread::park_timeout(std::time::Duration::from_nanos(nanoseconds));
    #[cfg(any(loom, shuttle))]
    {
        let _ = nanoseconds;
        thread::yield_now();
    }
}
