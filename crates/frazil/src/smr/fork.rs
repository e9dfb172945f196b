//! Forked processes.
//!
//! The child has one thread, the one that forked. No thread there reads or will release what the
//! others had named or pinned, so a cache would keep it for ever. So the child notes which threads
//! are lost, and each cache discards what they held up before it reclaims. Slots that a lost thread
//! had in hand at that moment are lost with it.
//!
//! While a table is replaced it is half copied, and all writers wait. So a fork waits until that is
//! over ([`Unforked`]).
//!
//! Thread numbers tell which threads are lost: the child hands out none that the parent had used.
//! So all numbers below the first new one are those of lost threads, except that of the thread that
//! forked.

#[cfg(not(any(loom, shuttle)))]
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// How often this process and its ancestors were forked since the first cache.
#[cfg(not(any(loom, shuttle)))]
static FORKS: AtomicU64 = AtomicU64::new(0);
/// The first number that this process gave a thread, and the number of the thread that has
/// forked, or `u32::MAX`. Written while there is one thread.
#[cfg(not(any(loom, shuttle)))]
static NUMBERS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(u32::MAX)];

/// The number of forks, which a cache compares with the last number that it knows.
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
    /// The caller holds no other.
    pub(crate) fn new() -> Self {
        Unforked {
            #[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
            _lock: UNFORKED.read().unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }

    /// The same, unless the process is being forked: for threads that must not wait.
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

/// Has the system report forks. Once for the process.
#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) fn prepare() {
    use std::cell::Cell;
    use std::sync::{Once, PoisonError, RwLockWriteGuard};

    use crate::smr::thread;

    std::thread_local! {
        /// While this thread forks.
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
        // Before the numbers, which other threads need to finish.
        let lock = || UNFORKED.write().unwrap_or_else(PoisonError::into_inner);
        // A thread that forks while its variables are destroyed does without.
        _ = FORKING.try_with(|forking| forking.set(Some(lock())));
        thread::seize_numbers();
    }

    extern "C" fn in_parent() {
        thread::release_numbers();
        _ = FORKING.try_with(Cell::take);
    }

    extern "C" fn in_child() {
        let (first, own) = thread::restart_numbers();
        // Alone: the threads that read these are made by this one.
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
