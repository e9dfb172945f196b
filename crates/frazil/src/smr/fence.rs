//! The asymmetric fence: free for readers, expensive for reclaimers.
//!
//! A reader announces the slot that it will read (in a hazard or a pin), then checks that the slot
//! is still in the index. The processor must not reorder the two, and a SeqCst fence for that costs
//! 9 ns on every hit. With [`light`] the reader keeps only the compiler from reordering. [`heavy`]
//! makes every running thread of the process execute a full fence: `membarrier`, 0.2 to 4 µs, paid
//! once for hundreds of retirements. Either the reader's check comes after the heavy fence and sees
//! what was unlinked before it, or its announcement comes before the fence and is seen after it.
//!
//! On systems without such a call, and under checkers that do not know it, both are SeqCst fences.
//! They become so, too, when the system refuses the call after it has allowed it, as in a sandbox
//! that is entered late. Readers learn that from the flag that [`light`] reads anyway. A reader
//! that read the flag just before has only kept its compiler from reordering. For such readers the
//! first heavy fences wait 10 ms: long before that, each processor has made its stores visible to
//! the others, or has switched threads, which is a full fence.

use crate::sync::atomic::{Ordering::SeqCst, fence};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod system {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// Ten thousand times the time in which a processor makes a store visible.
    const DRAIN: Duration = Duration::from_millis(10);

    /// Set once, by [`prepare`], before any cache exists; lowered once, if the system refuses the
    /// call later.
    static ASYMMETRIC: AtomicBool = AtomicBool::new(false);
    /// Whether it was ever set.
    static BEGAN: AtomicBool = AtomicBool::new(false);
    /// When it was lowered.
    static LOWERED: OnceLock<Instant> = OnceLock::new();

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes two numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(crate) fn prepare() {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(|| {
            let works = membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
            ASYMMETRIC.store(works, Relaxed);
            BEGAN.store(works, Relaxed);
        });
    }

    /// `prepare` has run, and building the cache happened before any thread could use it.
    #[inline(always)]
    pub(crate) fn asymmetric() -> bool {
        ASYMMETRIC.load(Relaxed)
    }

    pub(crate) fn heavy() {
        if BEGAN.load(Relaxed) && !(asymmetric() && membarrier(PRIVATE_EXPEDITED)) {
            do_without();
        }
    }

    #[cold]
    fn do_without() {
        let lowered = LOWERED.get_or_init(|| {
            ASYMMETRIC.store(false, SeqCst);
            Instant::now()
        });
        // Every caller, until then. No sleep, which a sandbox may forbid as well.
        while lowered.elapsed() < DRAIN {
            std::thread::yield_now();
        }
        #[cfg(feature = "tracing")]
        {
            // Not in the closure above: a subscriber may call a cache.
            static TOLD: AtomicBool = AtomicBool::new(false);
            if !TOLD.swap(true, Relaxed) {
                tracing::warn!(target: "frazil", "system refuses membarrier");
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
mod system {
    pub(crate) fn prepare() {}
    pub(crate) fn asymmetric() -> bool {
        false
    }
    pub(crate) fn heavy() {}
}

pub(crate) use system::prepare;

#[cfg(test)]
std::thread_local! {
    /// How many heavy fences this thread has executed.
    pub(crate) static EXECUTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The reader's side. Partner: [`heavy`].
#[inline(always)]
pub(crate) fn light() {
    if system::asymmetric() {
        std::sync::atomic::compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The reclaimer's side. Partner: [`light`].
pub(crate) fn heavy() {
    #[cfg(test)]
    EXECUTED.with(|executed| executed.set(executed.get() + 1));
    // Also a fence of this thread: the call need not be one for its caller's compiler.
    fence(SeqCst);
    system::heavy();
    fence(SeqCst);
}
