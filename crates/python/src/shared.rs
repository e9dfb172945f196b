//! State that threads of Python share.

use pyo3::Python;

#[cfg(not(Py_GIL_DISABLED))]
type Cell<T> = std::cell::RefCell<T>;
#[cfg(Py_GIL_DISABLED)]
type Cell<T> = std::sync::Mutex<T>;

/// State for one thread at a time: by the interpreter's lock, or by a mutex where there is none.
///
/// Code that works with the state must not run Python code: it compares no keys, calls nothing, and
/// releases no object, because the last release runs a destructor. It returns objects to be
/// released, and the caller drops them. So the mutex is held for a bounded time, and a thread
/// that waits for it need not detach from the interpreter.
pub(crate) struct Shared<T>(Cell<T>);

// SAFETY: with an interpreter's lock, `with` and `try_with` are called by threads that hold it
// (the token of `with`; `try_with` is called by the collector), and do not let it go before they
// end: they run no Python code. So no two threads are in the cell at once. A second access by
// the same thread is refused by the cell.
#[cfg(not(Py_GIL_DISABLED))]
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(state: T) -> Self {
        Self(Cell::new(state))
    }

    /// The result of `work` on the state. `work` runs no Python code.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline]
    pub(crate) fn with<R>(&self, _: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.borrow_mut())
    }

    #[cfg(Py_GIL_DISABLED)]
    #[inline]
    pub(crate) fn with<R>(&self, _: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The same for the collector of cycles, which visits what it can: nothing while another
    /// thread is at work.
    #[cfg(not(Py_GIL_DISABLED))]
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut state| work(&mut state))
    }

    #[cfg(Py_GIL_DISABLED)]
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_lock().ok().map(|mut state| work(&mut state))
    }
}
