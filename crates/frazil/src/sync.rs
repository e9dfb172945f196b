//! The atomics of the hardware, or those of a model checker.
//!
//! `--cfg loom` explores every interleaving of the small protocols, `--cfg shuttle` random ones of
//! the whole cache. Both need their own types. All data that threads share uses these, so the
//! checkers run the same code as the cache.

#[cfg(any(loom, shuttle, miri))]
pub(crate) use lock::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::{sync::atomic, thread};
#[cfg(not(any(loom, shuttle, miri)))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::{sync::atomic, thread, thread_local as checked_thread_local};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{sync::atomic, thread, thread_local as checked_thread_local};

/// As the standard library's; loom's does not read `const` blocks.
#[cfg(loom)]
macro_rules! checked_thread_local {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const $value:block;) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
    ($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;) => {
        loom::thread_local! { $(#[$attribute])* static $name: $type = $value; }
    };
}
#[cfg(loom)]
pub(crate) use checked_thread_local;

/// A checker's mutex with the interface of `parking_lot`'s: a thread that the checker suspends must
/// not hold a lock that the checker does not know. Miri uses the standard library's, because it
/// does not support the system call with which `parking_lot` waits (0.9.12, nightly of 2026-10-29).
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

    #[derive(Debug, Default)]
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

/// Whether a model checker runs the code. Then sizes are small, because shortages exercise the rare
/// paths, and because each atomic costs the checker time.
pub(crate) const CHECKED: bool = cfg!(any(loom, shuttle));

/// `length` values made by `Default`, in one allocation.
///
/// It is used for atomics whose default is zero. Without a checker the system provides zeroed
/// memory, except for types of whole lines, and a page that is never used stays unmapped.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn zeroed_slice<T: ZeroDefault>(length: usize) -> Box<[T]> {
    let mut slice = Box::<[T]>::new_zeroed_slice(length);
    advise_huge(slice.as_mut_ptr().cast(), size_of_val(&*slice));
    // SAFETY: `ZeroDefault` promises that all-zero bytes are a valid `T`.
    unsafe { slice.assume_init() }
}

/// The size of the system's huge pages.
#[cfg(not(any(loom, shuttle)))]
const HUGE: usize = 1 << 21;

/// Whether so many bytes in one piece should have pages of 2 MB. A cache with such a piece has
/// earlier pieces of the same total size, and so more memory than processors can cache small pages
/// of. With less memory huge pages gain nothing.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn wants_huge_pages(bytes: usize) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && bytes >= 2 * HUGE
}

/// Requests pages of 2 MB for memory that was not written yet, if the system has them. Without them
/// a random hit among a million entries takes an eighth longer (the median of 14 pairs, from 0.65
/// to 1.79), for the translation of small pages.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn advise_huge(memory: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if wants_huge_pages(bytes) {
        let start = memory.addr().next_multiple_of(HUGE);
        let length = (memory.addr() + bytes).saturating_sub(start) / HUGE * HUGE;
        if length > 0 {
            // SAFETY: whole pages of `memory`; the advice changes nothing that can be read
            // there. A system without this advice returns an error, which is ignored.
            unsafe { libc::madvise(memory.with_addr(start).cast(), length, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (memory, bytes);
}

/// Returns pages to the system, on systems where they read as zeros afterwards.
///
/// # Safety
///
/// The caller owns the bytes, and nothing writes them meanwhile. Readers find each of them
/// unchanged, or zero.
pub(crate) unsafe fn give_back(memory: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    {
        const PAGE: usize = 1 << 16;
        let start = memory.addr().next_multiple_of(PAGE);
        let length = (memory.addr() + bytes).saturating_sub(start) / PAGE * PAGE;
        if length > 0 {
            // SAFETY: whole pages, of any size up to 64 kB, of private memory: they read as zeros
            // from here on, which is permitted (the caller's promise).
            unsafe { libc::madvise(memory.with_addr(start).cast(), length, libc::MADV_DONTNEED) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
    let _ = (memory, bytes);
}

/// The checkers' atomics contain more than a number, and are constructed one by one.
#[cfg(any(loom, shuttle))]
pub(crate) fn zeroed_slice<T: ZeroDefault>(length: usize) -> Box<[T]> {
    (0..length).map(|_| T::default()).collect()
}

/// A type whose default is all-zero bytes wherever no checker replaces its atomics.
///
/// # Safety
///
/// All-zero bytes must be a valid value, equal to `Default::default()`.
pub(crate) unsafe trait ZeroDefault: Default {}

// SAFETY: a zero integer is a valid atomic integer, and the default of one.
unsafe impl ZeroDefault for atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl ZeroDefault for atomic::AtomicU64 {}
// SAFETY: as above; `frazil-policy` has its own, which no checker replaces.
#[cfg(any(loom, shuttle))]
unsafe impl ZeroDefault for std::sync::atomic::AtomicU64 {}

/// Separates data that several threads write from its neighbours: two lines, because processors
/// fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

/// The same for data that is written once in many operations: one line is enough, and keeps an
/// unused cache small.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);
