//! What time it is, in nanoseconds since a cache was made.
//!
//! A look-up reads the *coarse* clock of the system: the time of its last timer
//! interrupt, which the kernel leaves in memory that every process can read. About 5 ns
//! without a fence, so the processor reads it while it waits for the entry, and behind by
//! at most a tick, 1 to 10 ms. A write reads the *exact* one, 20 ns and more. The coarse
//! time is never ahead of the exact one, so what is set by the exact clock and looked at
//! by the coarse one is never over too early. Elsewhere than on Linux both are exact.

use std::time::Duration;

/// A clock of the user's: any time that does not run backward.
pub(crate) type UserClock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The time at which a cache is made. Not 0, so that 0 is no time; and not less than the
/// wheel's tick, so that 0 is no tick either.
pub(crate) const BEGINNING: u64 = 1 << 20;

/// The latest time there is: 146 years. A deadline that lies within another such span of
/// it does not overflow.
pub(crate) const END: u64 = 1 << 62;

pub(crate) struct Clock {
    /// What the system's clock, or the user's, showed at the beginning.
    origin: u64,
    user: Option<UserClock>,
}

impl Clock {
    pub(crate) fn new(user: Option<UserClock>) -> Self {
        let origin = user.as_ref().map_or_else(system::coarse, |clock| nanoseconds(clock()));
        Clock { origin, user }
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

    /// How far the coarse time may be behind.
    pub(crate) fn lag(&self) -> u64 {
        if self.user.is_some() { 0 } else { system::lag() }
    }

    #[inline(always)]
    fn since_origin(&self, now: u64) -> u64 {
        // A clock that has run backward shows the beginning at the least.
        (now.saturating_sub(self.origin) + BEGINNING).min(END)
    }
}

/// A duration in nanoseconds; [`END`] for all that is longer.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(END).min(END)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    #[inline(always)]
    fn of(time: &libc::timespec) -> u64 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline(always)]
    fn read(clock: libc::clockid_t) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to the place it is given, and nothing else. Should it
        // fail, which it does not for these clocks, it is still 0.
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
            // The kernel may be late to move it: twice the tick, and the test is not sick.
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
