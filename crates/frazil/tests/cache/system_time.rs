//! The system's clocks, moved by a test: what `time` and `clock_gettime` show to threads that
//! request it. So the tests cover caches without a user's clock, whose hits read the second of the
//! calendar first.
//!
//! The program's own functions of these names replace those of the C library.

use std::cell::RefCell;

use crate::expiry::Clock;
use libc::{c_int, clockid_t, time_t, timespec};

const SECOND: u64 = 1_000_000_000;
/// A second of the calendar long ago, at which the clocks of a test begin.
const BEGINNING: u64 = 1_000_000_000;

thread_local! {
    static SHOWN: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Shows the calling thread this clock; with `None` the system's time again.
pub(crate) fn show(clock: Option<Clock>) {
    SHOWN.set(clock);
}

/// The time that a test shows the calling thread.
fn shown() -> Option<u64> {
    // The clock may stop its thread, which reads the time while it waits.
    let clock = |shown: &RefCell<Option<Clock>>| shown.try_borrow().ok()?.clone();
    // None while the thread's variables are destroyed.
    let clock = SHOWN.try_with(clock).ok().flatten()?;
    Some(BEGINNING * SECOND + clock().as_nanos() as u64)
}

/// # Safety
///
/// As the C library's, whose place this takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(place: *mut time_t) -> time_t {
    let seconds = shown().map(|shown| (shown / SECOND) as time_t).unwrap_or_else(|| {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to the given place.
        unsafe {
            libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_REALTIME_COARSE, &raw mut now)
        };
        now.tv_sec
    });
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(seconds) };
    }
    seconds
}

/// # Safety
///
/// As the C library's, whose place this takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, place: *mut timespec) -> c_int {
    match shown() {
        Some(shown) => {
            let (seconds, rest) = (shown / SECOND, shown % SECOND);
            let now = timespec { tv_sec: seconds as time_t, tv_nsec: rest as _ };
            // SAFETY: the caller's promise.
            unsafe { place.write(now) };
            0
        }
        // SAFETY: the same.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, place) as c_int },
    }
}

/// # Safety
///
/// As the C library's, whose place this takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_getres(clock: clockid_t, place: *mut timespec) -> c_int {
    if shown().is_some() {
        // SAFETY: the caller's promise.
        unsafe { place.write(timespec { tv_sec: 0, tv_nsec: 0 }) };
        return 0;
    }
    // SAFETY: the same.
    unsafe { libc::syscall(libc::SYS_clock_getres, clock, place) as c_int }
}
