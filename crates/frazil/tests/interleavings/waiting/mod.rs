//! A task on a thread of shuttle's: polled, and parked until it is woken.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
use shuttle::thread;

/// Wakes a thread that waits as tasks do.
struct Unpark {
    woken: AtomicBool,
    thread: thread::Thread,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.thread.unpark();
    }
}

/// Polls a future `polls` times, waiting for its wake in between, and drops it.
pub(crate) fn poll_for<T>(future: impl Future<Output = T>, polls: u64) -> Option<T> {
    let unpark = Arc::new(Unpark { woken: AtomicBool::new(false), thread: thread::current() });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    for poll in 1..=polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        while poll < polls && !unpark.woken.swap(false, SeqCst) {
            thread::park();
        }
    }
    None
}
