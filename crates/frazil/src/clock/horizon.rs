//! Deadlines so far ahead that no clock need be read.

use crate::clock::{Clock, second};
use crate::sync::OwnLine;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Deadlines so far ahead that no clock need be read.
///
/// Twice a time that cannot have passed before a certain second of the system's calendar ends. The
/// lowest bits, below a unit of it, hold that second (it repeats after 8 years). A thread that
/// finds another second reads the exact clock and notes the new second. So it is written once a
/// second, and read by every hit. If the calendar is set back by seconds, a second may come twice,
/// and entries are returned for that second too long.
#[derive(Debug)]
pub(crate) struct Horizon(OwnLine<AtomicU64>);

/// The unit of twice the time, 0.27 s, less one.
const SECONDS: u64 = (1 << 28) - 1;
/// How long the calendar may show a second: itself, and a tick that is late.
pub(crate) const SECOND: u64 = 1_500_000_000;

impl Default for Horizon {
    /// No deadline is far.
    fn default() -> Self {
        Horizon(OwnLine(AtomicU64::new(u64::MAX)))
    }
}

impl Horizon {
    /// Whether a time, given as its double (0: never), is certainly ahead by more than the margin
    /// of [`Horizon::renew`]. Every instruction counts.
    #[inline(always)]
    pub(crate) fn is_before(&self, twice: u64) -> bool {
        let known = self.0.0.load(Relaxed);
        twice.wrapping_sub(1) > known && (known ^ second()) & SECONDS == 0
    }

    /// Notes the second, if it differs from the noted one.
    pub(crate) fn renew(&self, clock: &Clock, margin: u64) {
        // Read first, so that it is no later than the time.
        let second = second() & SECONDS;
        let known = self.0.0.load(Relaxed);
        if clock.user.is_none() && (known == u64::MAX || known & SECONDS != second) {
            let latest = ((clock.exact() + SECOND + margin) << 1) | SECONDS;
            self.0.0.store((latest + 1) | second, Relaxed);
        }
    }
}
