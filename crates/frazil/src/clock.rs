//! What time it is, in nanoseconds since a cache was made.
//!
//! Three clocks. The *exact* one takes 20 ns and more. The *coarse* one is the time of the
//! last timer interrupt, which the kernel leaves in memory that every process can read:
//! 3 ns, and behind by at most a tick, 1 to 10 ms. It is never ahead of the exact one, so
//! what is set by the exact clock and looked at by the coarse one is never over too early.
//! Elsewhere than on Linux both are exact.
//!
//! Hits that miss the processor's caches overlap, as many as its window has room for, and
//! the 60 instructions of the coarse clock take that room: a loop of random hits over a
//! million keys took twice as long. So a hit first asks for the *second* of the calendar, a
//! single load where the kernel offers it: as long as that is the same, hardly more than a
//! second can have passed since the exact time was last read, and of most entries that is
//! all one has to know ([`Horizon`]).

use std::sync::Arc;
use std::time::Duration;

use crate::sync::OwnLine;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A clock of the user's: any time that does not run backward.
pub(crate) type UserClock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The time at which a cache is made. Not 0, so that 0 is no time; and not less than the
/// wheel's tick, so that 0 is no tick either.
pub(crate) const BEGINNING: u64 = 1 << 20;

/// The latest time there is: 73 years. A deadline that lies within another such span of it
/// does not overflow, with a bit to spare.
pub(crate) const END: u64 = 1 << 61;

/// The coarse time, since a moment that is the same for the whole process. For those who
/// need no cache's time.
pub(crate) fn coarse_ns() -> u64 {
    system::coarse()
}

/// The exact time, of the same kind.
pub(crate) fn exact_ns() -> u64 {
    system::exact()
}

#[derive(Clone)]
pub(crate) struct Clock {
    /// What the system's clock, or the user's, showed at the beginning.
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

    /// The time for an entry that will live as long as `span`. Of a long one it is `coarse`
    /// and more than that can be behind: up to an eighth of a second late.
    #[inline]
    pub(crate) fn stamp(&self, coarse: u64, span: u64) -> u64 {
        if self.user.is_none() && span >= LONG { coarse + AHEAD } else { self.exact() }
    }

    /// How far the coarse time may be behind.
    pub(crate) fn lag(&self) -> u64 {
        if self.user.is_some() { 0 } else { system::lag() }
    }

    /// Whether it is another than the system's.
    pub(crate) fn is_users(&self) -> bool {
        self.user.is_some()
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

/// Spans of which an eighth of a second is less than a 64th.
const LONG: u64 = 8_000_000_000;
/// What a tick that is late is late by at most, where other machines share the processor.
const AHEAD: u64 = 125_000_000;

/// The second of the system's calendar; one that does not change where it takes long to ask.
#[inline(always)]
pub(crate) fn second() -> u64 {
    system::second()
}

/// What lies so far ahead that no clock need be read.
///
/// Twice a time that cannot be over before a certain second of the system's calendar is, and
/// in the lowest bits, which are below a unit of it, that second (it repeats after 8 years). Who
/// finds another second than this reads the exact clock and notes the new one; so it is written
/// once a second, and read by every hit. If the calendar is set back by seconds, one may
/// come a second time, and entries be shown for that second too long.
#[derive(Debug)]
pub(crate) struct Horizon(OwnLine<AtomicU64>);

/// The unit of twice the time, 0.27 s, less one.
const SECONDS: u64 = (1 << 28) - 1;
/// How long the calendar may show a second: itself, and a tick that is late.
pub(crate) const SECOND: u64 = 1_500_000_000;

impl Default for Horizon {
    /// Nothing is far.
    fn default() -> Self {
        Horizon(OwnLine(AtomicU64::new(u64::MAX)))
    }
}

impl Horizon {
    /// Whether a time, given twice, or 0 for never, is certainly to come, and the margin of
    /// [`Horizon::renew`] before it. Every instruction counts.
    #[inline(always)]
    pub(crate) fn is_before(&self, twice: u64) -> bool {
        let known = self.0.0.load(Relaxed);
        twice.wrapping_sub(1) > known && (known ^ system::second()) & SECONDS == 0
    }

    /// Notes the second, if that is another than is known.
    pub(crate) fn renew(&self, clock: &Clock, margin: u64) {
        // First, so that it is no later than the time.
        let second = system::second() & SECONDS;
        let known = self.0.0.load(Relaxed);
        if clock.user.is_none() && (known == u64::MAX || known & SECONDS != second) {
            let latest = ((clock.exact() + SECOND + margin) << 1) | SECONDS;
            self.0.0.store((latest + 1) | second, Relaxed);
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
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

    /// Never the one that is known: nothing is far.
    pub(super) fn second() -> u64 {
        0
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
