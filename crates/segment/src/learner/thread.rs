//! The learner's thread: one a store. It ends with the store.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::thread::{self, JoinHandle};

use super::{STOP, Shared};

#[derive(Debug)]
pub(super) struct Thread {
    shared: Arc<Shared>,
    /// Always present except in `drop`.
    handle: Option<JoinHandle<()>>,
    /// The process that has the thread; a forked one has none.
    process: u32,
}

impl Thread {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Thread> {
        let its = Arc::clone(&shared);
        let handle = thread::Builder::new().name("segment-learner".into()).spawn(move || {
            // A requester sets the request first and then wakes the thread, so no request is missed
            // while it sleeps.
            while !its.work() {
                thread::park();
            }
        })?;
        Ok(Thread { shared, handle: Some(handle), process: std::process::id() })
    }

    pub(super) fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }
}

impl Drop for Thread {
    /// Waits for the thread's work, some tens of milliseconds at most.
    fn drop(&mut self) {
        // Release: partner of `Shared::work`.
        self.shared.asked.fetch_or(STOP, Release);
        self.wake();
        if let Some(handle) = self.handle.take()
            && std::process::id() == self.process
        {
            // The thread does not panic; if it did, nothing could be done here.
            _ = handle.join();
        }
    }
}
