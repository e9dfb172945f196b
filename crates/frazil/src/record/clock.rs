//! The coarse clock: 5 ns where the system keeps one, behind by a tick at most.

/// Nanoseconds since a moment that is the same for the whole process. Never decreases.
#[cfg(target_os = "linux")]
pub(super) fn coarse_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is there to be written to. The call fails for clocks that are unknown,
    // which this one is not since Linux 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Nanoseconds since a moment that is the same for the whole process. Never decreases.
#[cfg(not(target_os = "linux"))]
pub(super) fn coarse_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    BEGINNING.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
