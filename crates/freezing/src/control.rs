//! The thread that controls a cache's freezing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The longest sleep of the thread before it checks whether the cache still exists.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Whether the freezing of a cache is controlled: the id of the process that began it, or 0. A
/// forked process has none of its parent's threads.
///
/// ```
/// static NOBODY: frazil_freezing::Controlled = frazil_freezing::Controlled::new();
/// ```
#[derive(Debug, Default)]
pub struct Controlled(AtomicU32);

impl Controlled {
    /// Not controlled.
    ///
    /// ```
    /// let cache = frazil_freezing::Controlled::new();
    /// ```
    pub const fn new() -> Self {
        Controlled(AtomicU32::new(0))
    }

    /// Takes control. An error if it is controlled already.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let mine = process::id();
        let other = |by: u32| (by != mine).then_some(mine);
        if self.0.fetch_update(Relaxed, Relaxed, other).is_err() {
            let problem = "the freezing of this cache is controlled already";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
        }
        Ok(())
    }

    pub(crate) fn end(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The handle of the thread that freezes and thaws. Dropping it thaws, and waits for the thread to
/// end.
///
/// A forked process has no such thread: frozen entries stay frozen until the program thaws them,
/// and the cache may get another thread.
#[must_use = "nothing is frozen any more when this is dropped"]
#[derive(Debug)]
pub struct FreezingControl {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process of the thread.
    process: u32,
}

impl FreezingControl {
    /// Makes steps of a cache's controller, each at the time that the previous one returned, and
    /// finally ends it. `controlled` is set meanwhile. The thread keeps the cache alive only for
    /// moments, and ends within a second after the cache; if the last other owner drops the cache
    /// in such a moment, the thread drops it.
    ///
    /// ```
    /// use frazil_freezing::{Controlled, FreezingControl};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let cache = Arc::new(Controlled::default());
    /// let minute = |_: &Controlled| Duration::from_secs(60);
    /// let control = FreezingControl::spawn(&cache, |cache| cache, minute, |_| ())?;
    /// assert!(FreezingControl::spawn(&cache, |cache| cache, minute, |_| ()).is_err());
    /// drop(control);
    /// assert!(FreezingControl::spawn(&cache, |cache| cache, minute, |_| ()).is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while another thread controls the cache, and errors of the system for the
    /// thread.
    pub fn spawn<T: Send + Sync + 'static>(
        cache: &Arc<T>,
        controlled: fn(&T) -> &Controlled,
        step: fn(&T) -> Duration,
        end: fn(&T),
    ) -> io::Result<Self> {
        controlled(cache).begin()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, weak) = (Arc::clone(&stop), Arc::downgrade(cache));
        let spawned = thread::Builder::new().name("frazil-freezing".to_owned()).spawn(move || {
            run(&weak, &stopped, step);
            if let Some(cache) = weak.upgrade() {
                let _ = catch_unwind(AssertUnwindSafe(|| end(&cache)));
                controlled(&cache).end();
            }
        });
        match spawned {
            Ok(thread) => {
                Ok(FreezingControl { stop, thread: Some(thread), process: process::id() })
            }
            Err(error) => {
                controlled(cache).end();
                Err(error)
            }
        }
    }
}

/// Runs until the cache or the handle is dropped.
fn run<T>(cache: &Weak<T>, stop: &AtomicBool, step: fn(&T) -> Duration) {
    while !stop.load(Relaxed) {
        let Some(cache) = cache.upgrade() else { return };
        // The hasher and destructors of user code may panic: then control ends and everything is
        // thawed.
        let step = catch_unwind(AssertUnwindSafe(|| step(&cache)));
        drop(cache);
        let Ok(idle) = step else { return };
        thread::park_timeout(idle.min(LOOK));
    }
}

impl Drop for FreezingControl {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            if self.process != process::id() {
                // The thread is not in this process: waiting for it would never end.
                return std::mem::forget(thread);
            }
            thread.thread().unpark();
            // The handle may be in the cache that the thread drops: it must not wait for itself.
            if thread.thread().id() != thread::current().id() {
                // The thread has caught the panic.
                let _ = thread.join();
            }
        }
    }
}
