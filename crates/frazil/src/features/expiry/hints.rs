//! Hints in two bytes of an entry's header that its deadline is far away.
//!
//! A hit reads the header anyway. The deadline lies in a line of its own, which in a cache of many
//! entries is in no processor's cache. So a hit reads it only if the hint does not tell that it is
//! far.
//!
//! A hint counts down: 0 is never, and otherwise it is [`LOOK`] minus the number of *units* from
//! the *base* to the deadline. A unit is a fraction of a lifetime. It does not wrap: a deadline
//! beyond its range is taken for nearer. Once a second a passing thread works out the *gate*:
//! deadlines whose hint is below it are far.
//!
//! When half of the numbers are spent the base moves. Hints by the old one would be too late, so
//! the hints of all slots with a deadline become [`LOOK`] before the gate opens again:
//!
//! ```text
//! insertion                       the base moves
//!   deadline, hint by the base      gate = 0; base = later
//!   light fence                     heavy fence
//!   another base? then LOOK         hints = LOOK, some slots a second
//!   publish                         gate = by the base
//! ```
//!
//! Whichever fence comes later sees the other side's store, so no hint by the old base is
//! ever published beside a gate by the new one.

use crate::chunks::Chunks;
use crate::clock::{Clock, END, SECOND, second};
use crate::smr::fence;
use crate::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Mutex, OwnLine};

/// The hint without information: the deadline must be looked at.
pub(crate) const LOOK: u16 = u16::MAX;

/// Units after which the base is moved.
const SPENT: u64 = 1 << 15;
/// Slots whose hints are taken back in one second, at least, and the seconds that all take at
/// most.
const STEP: u32 = 1 << 13;
const STEPS: u32 = 1 << 8;
/// For entries without a lifetime from the builder, in nanoseconds.
const USUAL: u64 = 64_000_000_000;
/// A unit is at least a quarter of a second, and at most half an hour.
const UNIT_BITS: std::ops::RangeInclusive<u32> = 28..=41;

/// The meaning of hints.
#[derive(Debug)]
pub(crate) struct Hints {
    /// The gate in the highest 16 bits, and in the lowest 32 the second of the calendar for
    /// which it holds.
    known: OwnLine<AtomicU64>,
    /// In units. Written under the lock of `forgetting`.
    base: AtomicU64,
    /// The logarithm of the unit, in nanoseconds.
    unit: u32,
    /// How long before its deadline an entry must be looked at.
    margin: u64,
    /// The next slot whose hint is by the old base, if the base has been moved.
    forgetting: Mutex<Option<u32>>,
    /// Whether the gate stays shut. Written under the lock of `forgetting`.
    closed: AtomicBool,
}

impl Hints {
    /// For entries that live for `span`, or are looked at whenever they were not used for a
    /// small part of `idle`.
    pub(crate) fn new(span: u64, idle: Option<u64>) -> Self {
        let unit = match idle {
            Some(idle) => (idle / 256).min(span / 64),
            None if span == END => USUAL / 64,
            None => span / 64,
        };
        let unit = unit.max(1).ilog2();
        Hints {
            known: OwnLine::default(),
            base: AtomicU64::new(0),
            unit: unit.clamp(*UNIT_BITS.start(), *UNIT_BITS.end()),
            margin: idle.unwrap_or(0),
            forgetting: Mutex::new(None),
            closed: AtomicBool::new(false),
        }
    }

    /// Invalidates all hints: a look-up that begins after this has returned uses none.
    pub(crate) fn close(&self) {
        let _alone = self.forgetting.lock();
        self.closed.store(true, Relaxed);
        self.known.0.store(0, Relaxed);
    }

    /// Whether a deadline is certainly to come, and a use of the entry will not move it.
    #[inline(always)]
    pub(crate) fn is_far(&self, hint: &AtomicU16) -> bool {
        self.is_far_in(hint, second)
    }

    /// The same for the second that `second` returns, which is called last.
    #[inline(always)]
    pub(crate) fn is_far_in(&self, hint: &AtomicU16, second: impl FnOnce() -> u64) -> bool {
        // Acquire: no hint that was taken back before the gate was opened. Partner: the
        // Release of `renew`.
        let known = self.known.0.load(Acquire);
        u64::from(hint.load(Relaxed)) < known >> 48 && known as u32 == second() as u32
    }

    /// The hint for this deadline.
    fn of(&self, deadline: u64, base: u64) -> u16 {
        if deadline == 0 {
            return 0;
        }
        let units = (deadline.saturating_sub(self.margin) >> self.unit).saturating_sub(base);
        LOOK - units.min(u64::from(LOOK - 1)) as u16
    }

    /// Hints at the deadline of a slot that the caller alone knows. The deadline is stored.
    #[inline(always)]
    pub(crate) fn begin(&self, hint: &AtomicU16, deadline: u64) {
        let base = self.base.load(Relaxed);
        hint.store(self.of(deadline, base), Relaxed);
        // Partner: the heavy fence of `renew`.
        fence::light();
        if self.base.load(Relaxed) != base {
            hint.store(LOOK, Relaxed);
        }
    }

    /// Hints at the deadline of a slot that is protected, if that improves its hint. The deadline
    /// is stored.
    pub(crate) fn improve(&self, hint: &AtomicU16, deadline: u64) {
        if hint.load(Relaxed) <= self.of(deadline, self.base.load(Relaxed)) {
            return;
        }
        // The slot is published: a look-up might use a hint by a base that moves meanwhile. With
        // the lock it does not move, and without it the hint stays too early, which does no harm.
        if let Some(_still) = self.forgetting.try_lock() {
            hint.store(self.of(deadline, self.base.load(Relaxed)), Relaxed);
        }
    }

    /// Opens the gate for another second, if its present second has ended.
    #[inline]
    pub(crate) fn renew<'h>(
        &self,
        clock: &Clock,
        deadlines: &Chunks<AtomicU64>,
        hint: impl Fn(u32) -> &'h AtomicU16,
    ) {
        // First, so that it is no later than the time.
        let second = second() as u32;
        let is_open = !clock.is_users() && !self.closed.load(Relaxed);
        if is_open && self.known.0.load(Relaxed) as u32 != second {
            let latest = clock.exact() + SECOND;
            self.renew_at(second, latest, deadlines, hint);
        }
    }

    /// Opens the gate for a second in which it will be `latest` at most.
    pub(crate) fn renew_at<'h>(
        &self,
        second: u32,
        latest: u64,
        deadlines: &Chunks<AtomicU64>,
        hint: impl Fn(u32) -> &'h AtomicU16,
    ) {
        // The holder of the lock does the same.
        let Some(mut forgetting) = self.forgetting.try_lock() else { return };
        if self.closed.load(Relaxed) {
            return;
        }
        let unit = latest >> self.unit;
        if forgetting.is_none() && unit - self.base.load(Relaxed).min(unit) > SPENT {
            *forgetting = Some(0);
            self.base.store(unit, Relaxed);
        }
        if let Some(next) = *forgetting {
            self.known.0.store(u64::from(second), Relaxed);
            // Partner: the light fence of `begin`.
            fence::heavy();
            let length = deadlines.end();
            let end = (next + STEP.max(length / STEPS)).min(length);
            for slot in next..end {
                // A slot that never had a deadline may have no header. Acquire: the header; partner
                // is the Release in `Deadlines::begin`.
                if deadlines.get(slot).is_some_and(|deadline| deadline.load(Acquire) != 0) {
                    hint(slot).store(LOOK, Relaxed);
                }
            }
            *forgetting = (end < length).then_some(end);
            if forgetting.is_some() {
                return;
            }
        }
        // Units that have ended; smaller hints reach further.
        let gone = (unit - self.base.load(Relaxed).min(unit)).min(u64::from(LOOK));
        let gate = u64::from(LOOK) - gone;
        // Release: hints that were taken back; partner is the Acquire of `is_far`.
        self.known.0.store(gate << 48 | u64::from(second), Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    /// Slots with hints and deadlines.
    struct Bench {
        hints: Hints,
        deadlines: Chunks<AtomicU64>,
        by_slot: Vec<AtomicU16>,
    }

    impl Bench {
        fn new(slots: usize, idle: Option<u64>) -> Self {
            Bench {
                hints: Hints::new(HOUR, idle),
                deadlines: Chunks::default(),
                by_slot: (0..slots).map(|_| AtomicU16::new(0)).collect(),
            }
        }

        fn begin(&self, slot: usize, deadline: u64) {
            self.deadlines.get_or_make(slot as u32).store(deadline << 1, Release);
            self.hints.begin(&self.by_slot[slot], deadline);
        }

        fn renew(&self, latest: u64) {
            let hint = |slot| &self.by_slot[slot as usize];
            self.hints.renew_at(7, latest, &self.deadlines, hint);
        }

        fn is_far(&self, slot: usize) -> bool {
            self.hints.is_far_in(&self.by_slot[slot], || 7)
        }

        fn improve(&self, slot: usize) {
            let deadline = self.deadlines.get_or_make(slot as u32).load(Relaxed) >> 1;
            self.hints.improve(&self.by_slot[slot], deadline);
        }
    }

    #[test]
    fn nothing_is_far_before_the_gate_is_open_nor_in_another_second() {
        let bench = Bench::new(1, None);
        bench.begin(0, 0);
        assert!(!bench.is_far(0));
        bench.renew(HOUR);
        assert!(bench.is_far(0) && !bench.hints.is_far_in(&bench.by_slot[0], || 8));
    }

    /// Deadlines near and far, at any time, through many moves of the base.
    #[test]
    fn no_hint_is_ever_later_than_the_deadline() {
        for idle in [None, Some(HOUR / 2)] {
            let bench = Bench::new(64, idle);
            let margin = idle.unwrap_or(0);
            let unit = 1 << bench.hints.unit;
            let (mut now, mut chance, mut far) = (0, 1u64, 0);
            for round in 0..200_000 {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let drawn = chance >> 33;
                // Sometimes there is no request for longer than a hint can express.
                now += match drawn % 1_000 {
                    0 => unit * (drawn % 200_000),
                    _ => drawn % HOUR,
                };
                let slot = round % 64;
                // Later and earlier than the last, and some beyond the range of hints.
                match drawn % 7 {
                    0 => bench.begin(slot, now + drawn % HOUR),
                    1 => bench.begin(slot, now + unit * (drawn % 150_000)),
                    2 => bench.improve(slot),
                    _ => {}
                }
                bench.renew(now);
                for slot in 0..64 {
                    let deadline = bench.deadlines.get_or_make(slot as u32).load(Relaxed) >> 1;
                    let is_far = bench.is_far(slot);
                    far += u64::from(is_far && deadline != 0);
                    assert!(
                        !is_far || deadline == 0 || deadline > now + margin,
                        "round {round}: {deadline} at {now}"
                    );
                }
            }
            assert!(far > 1_000_000, "{far} is too few for the test to say anything");
        }
    }

    #[test]
    fn a_later_deadline_is_told_and_an_earlier_one_of_the_next_residency() {
        let bench = Bench::new(1, Some(HOUR));
        bench.renew(HOUR);
        bench.begin(0, 2 * HOUR);
        assert!(!bench.is_far(0), "it is to be moved at its next use");
        bench.deadlines.get_or_make(0).store((4 * HOUR) << 1, Relaxed);
        bench.improve(0);
        assert!(bench.is_far(0));
        bench.renew(3 * HOUR);
        assert!(!bench.is_far(0));
        bench.renew(2 * HOUR);
        bench.begin(0, 5 * HOUR / 2);
        assert!(!bench.is_far(0));
        // An earlier deadline makes a hint no worse.
        bench.begin(0, 9 * HOUR);
        bench.hints.improve(&bench.by_slot[0], 3 * HOUR);
        assert!(bench.is_far(0));
    }

    #[test]
    fn what_lies_beyond_all_numbers_is_taken_for_nearer_and_not_for_never() {
        for units in [65_534, 65_535, 65_536, 131_071, 131_072] {
            let bench = Bench::new(1, None);
            let unit = 1 << bench.hints.unit;
            bench.begin(0, unit * units);
            bench.renew(unit * 30_000);
            assert!(bench.is_far(0), "{units}");
            assert!((1..LOOK).contains(&bench.by_slot[0].load(Relaxed)), "{units}");
        }
    }

    /// The base moves; until all hints are taken back, nothing is far.
    #[test]
    fn what_lives_longer_than_can_be_said_is_far_again_once_it_was_looked_at() {
        let bench = Bench::new(4 * STEP as usize, None);
        let unit = 1 << bench.hints.unit;
        bench.begin(4 * STEP as usize - 1, unit * 1_000_000);
        bench.renew(unit);
        assert!(bench.is_far(0) && bench.is_far(4 * STEP as usize - 1));
        for renewals in 1..=4 {
            bench.renew(unit * 40_000);
            assert_eq!(bench.is_far(0), renewals == 4, "which never had a deadline");
            assert!(!bench.is_far(4 * STEP as usize - 1));
        }
        bench.improve(4 * STEP as usize - 1);
        assert!(bench.is_far(4 * STEP as usize - 1));
    }
}
