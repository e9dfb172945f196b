//! Notes and progress of a running verb, for a program that embeds the command, and how it stops a verb.
//!
//! Some twenty places print notes or count progress. Each finds the watch of its thread here, if
//! there is one, instead of getting it through all its callers.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
}

/// A verb at work, as another thread sees it.
///
/// ```
/// let watch = frazil_cli::Watch::default();
/// assert_eq!(watch.progress(), (String::new(), 0, 0));
/// ```
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    what: Mutex<String>,
    notes: Mutex<Vec<String>>,
}

impl Watch {
    /// Makes the verb end soon, with [`Problem::Stopped`](crate::Problem::Stopped).
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// The name of the present step, the work done, and the whole; 0 if that is unknown. Bytes,
    /// records or steps.
    pub fn progress(&self) -> (String, u64, u64) {
        let what = self.what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (what, self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// The notes that the command would have printed to standard error, a line each. Another call
    /// returns later ones.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `verb` with this as the watch of its thread.
    pub(crate) fn over<T>(self: &Arc<Self>, verb: impl FnOnce() -> T) -> T {
        struct Until(Option<Arc<Watch>>);
        impl Drop for Until {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _until = Until(CURRENT.replace(Some(Arc::clone(self))));
        verb()
    }

    /// The watch of this thread.
    pub(crate) fn current() -> Option<Arc<Watch>> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(crate) fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub(crate) fn begin(&self, what: &str, total: u64) {
        what.clone_into(&mut self.what.lock().unwrap_or_else(PoisonError::into_inner));
        self.set(0, total);
    }

    pub(crate) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Relaxed);
        self.total.store(total, Relaxed);
    }

    pub(crate) fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Relaxed);
    }

    pub(crate) fn go_on(&self) -> ControlFlow<()> {
        match self.stopped.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
