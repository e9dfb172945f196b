//! The time in nanoseconds since a cache was made.
//!
//! Three clocks. The *exact* one takes 20 ns and more. The *coarse* one is the time of the last
//! timer interrupt, which the kernel leaves in memory that every process can read: 3 ns, and behind
//! by at most a tick, 1 to 10 ms. It is never ahead of the exact one, so a deadline set by the
//! exact clock and compared with the coarse one never passes too early. On systems other than Linux
//! both are exact.
//!
//! Hits that miss the processor's caches overlap, as many as its window has space for. The 60
//! instructions of the coarse clock take that space: a loop of random hits over a million keys took
//! twice as long. So a hit first reads the *second* of the calendar, a single load where the kernel
//! offers it. While that is unchanged, hardly more than a second can have passed since the exact
//! time was last read, which is enough for most entries ([`Horizon`]).

#[cfg(feature = "expiry")]
mod horizon;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "expiry")]
pub(crate) use horizon::{Horizon, SECOND};

/// A clock from user code: any time that does not run backward.
pub(crate) type UserClock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The time at which a cache is made. Not 0, so that 0 is no time; and not less than the
/// wheel's tick, so that 0 is no tick either.
pub(crate) const BEGINNING: u64 = 1 << 20;

/// The latest time: 73 years. A deadline up to such a span after it does not overflow, and leaves
/// one bit spare.
pub(crate) const END: u64 = 1 << 61;

/// The coarse time since a moment that is the same for the whole process, for code that needs no
/// cache's time.
#[cfg(feature = "recording")]
pub(crate) fn coarse_ns() -> u64 {
    system::coarse()
}

/// The exact time since such a moment.
#[cfg(any(feature = "freezing", feature = "loading"))]
pub(crate) fn exact_ns() -> u64 {
    system::exact()
}

#[derive(Clone)]
pub(crate) struct Clock {
    /// The time of the system's clock, or of the user's, at the beginning.
    origin: u64,
    user: Option<Arc<UserClock>>,
}

impl Clock {
    pub(crate) fn new(user: Option<UserClock>) -> Self {
        let origin = user.as_ref().map_or_else(system::coarse, |clock| nanoseconds(clock()));
        Clock { origin, user: user.map(Arc::new) }
    }

    /// The time, behind by at most [`Clock::lag`].
    #[inline(always)]
    pub(crate) fn coarse(&self) -> u64 {
        self.since_origin(match &self.user {
            None => system::coarse(),
            Some(clock) => nanoseconds(clock()),
        })
    }

    /// The time.
    #[inline]
    pub(crate) fn exact(&self) -> u64 {
        self.since_origin(match &self.user {
            None => system::exact(),
            Some(clock) => nanoseconds(clock()),
        })
    }

    /// The time for an entry that will live as long as `span`. For a long span it is the coarse
    /// time plus its largest lag: up to an eighth of a second late.
    #[cfg(feature = "expiry")]
    #[inline]
    pub(crate) fn stamp(&self, span: u64) -> u64 {
        if self.user.is_none() && span >= LONG { self.coarse() + AHEAD } else { self.exact() }
    }

    /// How far the coarse time may be behind.
    #[cfg(feature = "expiry")]
    pub(crate) fn lag(&self) -> u64 {
        if self.user.is_some() { 0 } else { system::lag() }
    }

    /// Whether it comes from user code.
    #[cfg(any(feature = "expiry", feature = "freezing"))]
    pub(crate) fn is_users(&self) -> bool {
        self.user.is_some()
    }

    #[inline(always)]
    fn since_origin(&self, now: u64) -> u64 {
        // A clock that has run backward shows the beginning at least.
        (now.saturating_sub(self.origin) + BEGINNING).min(END)
    }
}

/// A duration in nanoseconds; [`END`] for longer ones.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(END).min(END)
}

/// Spans above this: an eighth of a second is less than a 64th of them.
#[cfg(feature = "expiry")]
const LONG: u64 = 8_000_000_000;
/// The largest delay of a late tick, if other machines share the processor.
#[cfg(feature = "expiry")]
const AHEAD: u64 = 125_000_000;

/// The second of the system's calendar; a constant if reading it is slow.
#[cfg(feature = "expiry")]
#[inline(always)]
pub(crate) fn second() -> u64 {
    system::second()
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    #[cfg(feature = "expiry")]
    #[inline(always)]
    pub(super) fn second() -> u64 {
        // SAFETY: the call writes nothing if it is given no place.
        unsafe { libc::time(std::ptr::null_mut()) as u64 }
    }

    #[inline(always)]
    fn of(time: &libc::timespec) -> u64 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline(always)]
    fn read(clock: libc::clockid_t) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to the place it is given, and nothing else. If it failed, which
        // it does not for these clocks, the time would still be 0.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        of(&time)
    }

    #[inline(always)]
    pub(super) fn coarse() -> u64 {
        read(libc::CLOCK_MONOTONIC_COARSE)
    }

    #[inline]
    pub(super) fn exact() -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }

    #[cfg(feature = "expiry")]
    pub(super) fn lag() -> u64 {
        let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: as in `read`.
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
        of(&tick)
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn exact() -> u64 {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        super::nanoseconds(FIRST.get_or_init(Instant::now).elapsed())
    }

    pub(super) fn coarse() -> u64 {
        exact()
    }

    /// Never the known second: no deadline counts as far.
    #[cfg(feature = "expiry")]
    pub(super) fn second() -> u64 {
        0
    }

    #[cfg(feature = "expiry")]
    pub(super) fn lag() -> u64 {
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_time_is_behind_the_exact_one_by_a_tick_at_most() {
        let clock = Clock::new(None);
        for _ in 0..1_000 {
            let (before, coarse, after) = (clock.exact(), clock.coarse(), clock.exact());
            assert!(coarse <= after, "{coarse} is after {after}");
            // The kernel may move it late, so the test allows twice the tick.
            assert!(coarse + 2 * clock.lag() + 1_000_000 >= before, "{coarse}, {before}");
        }
    }

    #[test]
    fn a_clock_of_the_users_may_say_anything() {
        let said = std::sync::Arc::new(std::sync::Mutex::new(Duration::from_secs(5)));
        let says = said.clone();
        let clock = Clock::new(Some(Box::new(move || *says.lock().unwrap())));
        for (says, time) in [
            (Duration::from_secs(5), BEGINNING),
            (Duration::from_secs(6), BEGINNING + 1_000_000_000),
            (Duration::ZERO, BEGINNING),
            (Duration::MAX, END - 5_000_000_000 + BEGINNING),
        ] {
            *said.lock().unwrap() = says;
            assert_eq!((clock.exact(), clock.coarse()), (time, time), "{says:?}");
        }
    }
}
