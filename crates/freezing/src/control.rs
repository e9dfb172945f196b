//! The thread that has a cache learn, freeze and thaw.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The longest that the thread sleeps before it looks whether the cache is still there.
const LOOK: Duration = Duration::from_secs(1);

/// The thread that freezes and thaws. Dropped, it thaws what is frozen, and ends before that
/// returns.
#[must_use = "nothing is frozen any more when this is dropped"]
#[derive(Debug)]
pub struct FreezingControl {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FreezingControl {
    /// Takes a step of a cache's controller again and again, as often as the last one has said, and
    /// at last ends it. `is_run` is set meanwhile. The thread keeps the cache alive for moments only,
    /// and ends within a second of it; if the cache goes just then, it is the thread that drops it.
    ///
    /// ```
    /// use frazil_freezing::FreezingControl;
    /// use std::sync::{Arc, atomic::AtomicBool};
    /// use std::time::Duration;
    ///
    /// let cache = Arc::new(AtomicBool::new(false));
    /// let minute = |_: &AtomicBool| Duration::from_secs(60);
    /// let control = FreezingControl::spawn(&cache, |cache| cache, minute, |_| ())?;
    /// assert!(FreezingControl::spawn(&cache, |cache| cache, minute, |_| ()).is_err());
    /// drop(control);
    /// assert!(FreezingControl::spawn(&cache, |cache| cache, minute, |_| ()).is_ok());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `ResourceBusy` while `is_run`, and what the system says of the thread.
    pub fn spawn<T: Send + Sync + 'static>(
        cache: &Arc<T>,
        is_run: fn(&T) -> &AtomicBool,
        step: fn(&T) -> Duration,
        end: fn(&T),
    ) -> io::Result<Self> {
        if is_run(cache).swap(true, Relaxed) {
            let problem = "the freezing of this cache is controlled already";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, weak) = (Arc::clone(&stop), Arc::downgrade(cache));
        let spawned = thread::Builder::new().name("frazil-freezing".to_owned()).spawn(move || {
            run(&weak, &stopped, step);
            if let Some(cache) = weak.upgrade() {
                let _ = catch_unwind(AssertUnwindSafe(|| end(&cache)));
                is_run(&cache).store(false, Relaxed);
            }
        });
        match spawned {
            Ok(thread) => Ok(FreezingControl { stop, thread: Some(thread) }),
            Err(error) => {
                is_run(cache).store(false, Relaxed);
                Err(error)
            }
        }
    }
}

/// Until the cache goes, or the handle.
fn run<T>(cache: &Weak<T>, stop: &AtomicBool, step: fn(&T) -> Duration) {
    while !stop.load(Relaxed) {
        let Some(cache) = cache.upgrade() else { return };
        // The user's hasher may panic, and destructors: then it is over, and all is thawed.
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
            thread.thread().unpark();
            // The handle may lie in the cache that the thread drops: it does not wait for itself.
            if thread.thread().id() != thread::current().id() {
                // What it panicked of, it has caught.
                let _ = thread.join();
            }
        }
    }
}
