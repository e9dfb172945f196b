//! A value that is made when it is first needed, and read through one pointer.

use std::ptr::null_mut;
// Not a checker's atomics, as in `chunks.rs`.
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};

/// A boxed value, or none yet. A hit checks for it in two instructions; a `OnceLock<Box<T>>` takes
/// four.
#[derive(Debug)]
pub(crate) struct OnceBox<T>(AtomicPtr<T>);

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        OnceBox(AtomicPtr::new(null_mut()))
    }

    /// The value, if it was made.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: the value; partner is the Release of `get_or_make`.
        let value = self.0.load(Acquire);
        // SAFETY: null, or a box that this owns until it is dropped.
        unsafe { value.as_ref() }
    }

    /// The value, made if necessary. Several threads may each make one at once; one of these stays.
    #[inline(always)]
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.add(Box::new(make())),
        }
    }

    #[cold]
    fn add(&self, made: Box<T>) -> &T {
        let made = Box::into_raw(made);
        // Release: the value; partner is the Acquire of `get`. Acquire: another thread's value.
        match self.0.compare_exchange(null_mut(), made, AcqRel, Acquire) {
            // SAFETY: this owns it from now on, until it is dropped.
            Ok(_) => unsafe { &*made },
            Err(others) => {
                // SAFETY: made above, and not shared.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as in `get`.
                unsafe { &*others }
            }
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: from a box, and this is the last owner.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

// SAFETY: it owns the value.
unsafe impl<T: Send> Send for OnceBox<T> {}
// SAFETY: shows the value by reference, and takes one from any thread.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}
