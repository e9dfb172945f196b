//! Forked processes.
//!
//! The child has only the thread that forked. The names and pins of all other threads would keep
//! entries for ever, because no thread would release them. So the child notes which threads are
//! lost, and each cache discards their names and pins before it reclaims. Slots that a lost thread
//! owned at the fork are lost with it.
//!
//! A table that is being replaced is half copied, and all writers wait for it. So a fork waits
//! until the new table is complete ([`Unforked`]).
//!
//! The child assigns no thread number that the parent had used. So all numbers below its first new
//! one belong to lost threads, except that of the thread that forked.

#[cfg(not(any(loom, shuttle)))]
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Forks of this process and its ancestors since the first cache.
#[cfg(not(any(loom, shuttle)))]
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The first thread number that this process assigned, and the number of the thread that forked,
/// or `u32::MAX`. Written while the process has one thread.
#[cfg(not(any(loom, shuttle)))]
static NUMBERS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(u32::MAX)];

/// The number of forks; a cache compares it with the number that it saw last.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn count() -> u64 {
    FORKS.load(Relaxed)
}

/// No checker forks.
#[cfg(any(loom, shuttle))]
pub(crate) fn count() -> u64 {
    0
}

/// Whether the thread of a number was lost with the last fork.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn has_lost(thread: u32) -> bool {
    let [first, own] = NUMBERS.each_ref().map(|number| number.load(Relaxed));
    thread < first && thread != own
}

#[cfg(any(loom, shuttle))]
pub(crate) fn has_lost(_thread: u32) -> bool {
    false
}

/// Held while the process must not fork: a thread that wants to fork waits.
pub(crate) struct Unforked {
    #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
    _lock: std::sync::RwLockReadGuard<'static, ()>,
}

/// A fork takes it to write. The standard library's lock, like that of thread numbers.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
static UNFORKED: std::sync::RwLock<()> = std::sync::RwLock::new(());

impl Unforked {
    /// The calling thread must not hold one already.
    pub(crate) fn new() -> Self {
        Unforked {
            #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
            _lock: UNFORKED.read().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }

    /// The same without waiting: `None` while the process is being forked.
    pub(crate) fn try_new() -> Option<Self> {
        #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
        return match UNFORKED.try_read() {
            Ok(lock) => Some(Unforked { _lock: lock }),
            Err(std::sync::TryLockError::Poisoned(lock)) => {
                Some(Unforked { _lock: lock.into_inner() })
            }
            Err(std::sync::TryLockError::WouldBlock) => None,
        };
        #[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
        Some(Unforked {})
    }
}

/// Registers the handlers of a fork with the system, once for the process.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) fn prepare() {
    use std::cell::Cell;
    use std::sync::{Once, PoisonError, RwLockWriteGuard};

    use crate::smr::thread;

    std::thread_local! {
        /// Held while this thread forks.
        static FORKING: Cell<Option<RwLockWriteGuard<'static, ()>>> = const { Cell::new(None) };
    }

    unsafe extern "C" {
        fn pthread_atfork(
            before: Option<extern "C" fn()>,
            in_parent: Option<extern "C" fn()>,
            in_child: Option<extern "C" fn()>,
        ) -> libc::c_int;
    }

    extern "C" fn before() {
        // Before the lock of the numbers, which holders of an `Unforked` may need.
        let lock = || UNFORKED.write().unwrap_or_else(PoisonError::into_inner);
        // A thread that forks while its variables are destroyed does not take the lock.
        _ = FORKING.try_with(|forking| forking.set(Some(lock())));
        thread::seize_numbers();
    }

    extern "C" fn in_parent() {
        thread::release_numbers();
        _ = FORKING.try_with(Cell::take);
    }

    extern "C" fn in_child() {
        let (first, own) = thread::restart_numbers();
        // Relaxed: this is the only thread, and it starts all others that read them.
        NUMBERS[0].store(first, Relaxed);
        NUMBERS[1].store(own.unwrap_or(u32::MAX), Relaxed);
        FORKS.fetch_add(1, Relaxed);
        in_parent();
    }

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: our functions, which live as long as the program; the last runs while its thread
        // is alone, and neither waits nor allocates. A system short of memory refuses, and then the
        // cache behaves as if no process forked.
        unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
pub(crate) fn prepare() {}
