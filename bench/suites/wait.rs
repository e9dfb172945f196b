//! Threads and tasks that wait for each other, so that no scenario needs a sleep.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::tasks::turn;

/// A wait this long means a hang.
const HANG: Duration = Duration::from_secs(60);

/// Closed at first; once opened, open for ever.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("no panic under it") = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().expect("no panic under it")
    }

    /// Blocks a thread until the gate is open.
    pub(crate) fn pass(&self) {
        let (open, bell) = &*self.0;
        let open = open.lock().expect("no panic under it");
        let (open, _) = bell.wait_timeout_while(open, HANG, |open| !*open).expect("as above");
        assert!(*open, "waited a minute");
    }

    /// Suspends a task until the gate is open.
    pub(crate) async fn passed(&self) {
        let end = Instant::now() + HANG;
        while !self.is_open() {
            assert!(Instant::now() < end, "waited a minute");
            turn().await;
        }
    }
}

/// Starts a thread, and returns once it waits for something or has ended.
pub(crate) fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let me = std::fs::read_link("/proc/thread-self").ok();
        tell.send(me).expect("it is waited for");
        work()
    });
    let file = told.recv().expect("it is sent").map(|me| format!("/proc/{}/stat", me.display()));
    let end = Instant::now() + HANG;
    while !thread.is_finished() {
        assert!(Instant::now() < end, "neither waits nor ends");
        let Some(stat) = &file else {
            // The thread's state is not visible here, so give it time.
            std::thread::sleep(Duration::from_millis(200));
            break;
        };
        let stat = std::fs::read_to_string(stat).unwrap_or_default();
        // The state follows the name, which is in brackets.
        if stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S')) {
            break;
        }
        std::thread::yield_now();
    }
    thread
}

/// The output of a future within `turns` turns; otherwise the future is dropped.
pub(crate) async fn within<T>(turns: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = turns;
    std::future::poll_fn(|context| {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
            return std::task::Poll::Ready(Some(output));
        }
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await
}
