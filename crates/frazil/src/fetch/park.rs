//! Threads that wait as tasks do: their waker unparks them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

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
        // Release: what the waker wrote before; partner is the Acquire in `park`.
        self.woken.store(true, Release);
        self.thread.unpark();
    }
}

/// A thread's way to wait. Each has a flag of its own: a wait within a wait may take the
/// thread's unparking, which is one for all.
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
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::new();
    let waker = parker.waker();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}
