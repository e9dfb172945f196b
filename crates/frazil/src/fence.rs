//! The asymmetric fence: free for readers, dear for who reclaims.
//!
//! A reader writes what it is about to read (a hazard, a pin), then looks again whether
//! it is still there. Between the two the processor must not reorder, and a SeqCst
//! fence for that costs 9 ns on every hit. With [`light`] the reader only keeps the
//! compiler from reordering, and [`heavy`] makes every running thread of the process
//! execute a full fence: `membarrier`, 0.2 to 4 µs, paid once for hundreds of
//! retirements. Either the reader's second look comes after the heavy fence and sees
//! what was unlinked before it, or its first write came before and is seen after it.
//!
//! Where the system has no such call, and under checkers that cannot know it, both are
//! SeqCst fences. The choice is made once for the process, before the first cache.

use crate::sync::atomic::{Ordering::SeqCst, fence};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod system {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// Set once, by [`prepare`], before any cache exists.
    static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes two numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(crate) fn prepare() {
        static ONCE: OnceLock<()> = OnceLock::new();
        ONCE.get_or_init(|| {
            let works = membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
            ASYMMETRIC.store(works, Relaxed);
        });
    }

    /// Never changes once a cache exists: `prepare` has run, and building the cache
    /// happened before any thread could use it.
    #[inline(always)]
    pub(crate) fn asymmetric() -> bool {
        ASYMMETRIC.load(Relaxed)
    }

    pub(crate) fn heavy() -> bool {
        membarrier(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
mod system {
    pub(crate) fn prepare() {}
    pub(crate) fn asymmetric() -> bool {
        false
    }
    pub(crate) fn heavy() -> bool {
        false
    }
}

pub(crate) use system::prepare;

/// The reader's side. Partner: [`heavy`].
#[inline(always)]
pub(crate) fn light() {
    if system::asymmetric() {
        std::sync::atomic::compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// The reclaimer's side. Partner: [`light`]. False if the system refused (a sandbox may
/// forbid the call at any time): then nothing may be reclaimed.
pub(crate) fn heavy() -> bool {
    // Also a fence of this thread: the call need not be one for its caller's compiler.
    fence(SeqCst);
    let fenced = !system::asymmetric() || system::heavy();
    fence(SeqCst);
    #[cfg(feature = "tracing")]
    if !fenced {
        static TOLD: std::sync::Once = std::sync::Once::new();
        TOLD.call_once(|| tracing::error!(target: "frazil", "system refuses membarrier"));
    }
    fenced
}
