//! Atomics and locks: the standard library's, or a model checker's.

#[cfg(any(loom, shuttle, miri))]
pub(crate) use lock::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::{sync::atomic, thread};
#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::{sync::atomic, thread};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{sync::atomic, thread};

/// A checker's mutex with the interface of `parking_lot`'s: a thread that it suspends must not
/// hold a lock unknown to the checker. Miri has the standard library's, because it rejects the
/// system call with which `parking_lot` waits.
#[cfg(any(loom, shuttle, miri))]
mod lock {
    use std::sync::{PoisonError, TryLockError};

    #[cfg(loom)]
    use loom::sync as checker;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle::sync as checker;
    #[cfg(not(any(loom, shuttle)))]
    use std::sync as checker;

    pub(crate) use checker::MutexGuard;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(checker::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(checker::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        }
    }
}

/// A full fence where a checker takes sequentially consistent operations for weaker ones: loom
/// orders them among each other by fences only.
#[inline(always)]
pub(crate) fn fence_for_loom() {
    #[cfg(loom)]
    atomic::fence(atomic::Ordering::SeqCst);
}
