//! List operations that take as long as an experiment sets, under the policy's lock: on paper 1's
//! machine they took 0.59 to 0.81 µs, on ours a twentieth of that. Only with the feature `measure`.
//!
//! The thread that has the lock spins until its work would be done. A turn begins when the lock is
//! requested or when the turn before ends, whichever is later. So the time in which the lock moves
//! between cores is part of the turn, as it is of the paper's times. Waiting threads spin too, in
//! no set order: a sleeping thread would leave the lock idle, and its wake-up would be measured
//! instead of the lists.

use std::time::{Duration, Instant};

use frazil_policy::Work;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// After this many failed attempts a thread yields its core.
const PATIENCE: u32 = 10_000;

/// The costs of list operations under the lock of a policy, which spins for that long: for
/// experiments, only with the feature `measure`.
///
/// ```
/// use std::time::Duration;
/// use frazil::{Cache, ListCosts, Policy};
/// let costs = ListCosts { delink: Duration::from_nanos(700), ..ListCosts::default() };
/// let cache: Cache<u64, u64> = Cache::builder(10).policy(Policy::Lru).list_costs(costs).build();
/// [1, 2].map(|key| cache.insert(key, key));
/// cache.get(&1);
/// assert_eq!(cache.list_turns().spent, Duration::from_nanos(700));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCosts {
    /// An object is taken out of the middle of a list.
    pub delink: Duration,
    /// The newest end of a list changes.
    pub head: Duration,
    /// The oldest end of a list changes.
    pub tail: Duration,
    /// An object is skipped at that end.
    pub skip: Duration,
}

/// How often the lock was taken, and the set costs of its list operations, since the cache was
/// built: counted, not timed.
///
/// ```
/// assert_eq!(frazil::ListTurns::default().turns, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTurns {
    /// How often the lock was taken.
    pub turns: u64,
    /// Costs of all operations.
    pub spent: Duration,
}

/// The costs, and the current turn. Everything except the costs is written under the lock.
#[derive(Debug)]
pub(crate) struct Turns {
    costs: ListCosts,
    origin: Instant,
    /// End of the latest turn's work, since the origin.
    due_ns: AtomicU64,
    turns: AtomicU64,
    spent_ns: AtomicU64,
}

impl Turns {
    pub(super) fn new(costs: ListCosts) -> Self {
        let [due_ns, turns, spent_ns] = Default::default();
        Turns { costs, origin: Instant::now(), due_ns, turns, spent_ns }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    /// Begins a turn. `None` if the lock is taken and the caller may not wait; else also whether
    /// it has waited.
    pub(super) fn take<G>(
        &self,
        wait: bool,
        try_lock: impl Fn() -> Option<G>,
    ) -> Option<(G, bool)> {
        let asked = self.now_ns();
        let mut vain = 0u32;
        let guard = loop {
            if let Some(guard) = try_lock() {
                break guard;
            }
            if !wait {
                return None;
            }
            vain = vain.saturating_add(1);
            if vain < PATIENCE { std::hint::spin_loop() } else { std::thread::yield_now() }
        };
        self.due_ns.store(self.due_ns.load(Relaxed).max(asked), Relaxed);
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
        Some((guard, vain > 0))
    }

    /// Makes the holder of the lock do this work `times` times.
    pub(super) fn spend(&self, work: Work, times: u32) {
        let cost = match work {
            Work::Delink => self.costs.delink,
            Work::Head => self.costs.head,
            Work::Tail => self.costs.tail,
            Work::Skip => self.costs.skip,
            _ => return,
        };
        let cost = nanoseconds(cost).saturating_mul(times.into());
        let due = self.due_ns.load(Relaxed).saturating_add(cost);
        self.due_ns.store(due, Relaxed);
        self.spent_ns.store(self.spent_ns.load(Relaxed).saturating_add(cost), Relaxed);
        while self.now_ns() < due {
            std::hint::spin_loop();
        }
    }

    pub(crate) fn list_turns(&self) -> ListTurns {
        let spent = Duration::from_nanos(self.spent_ns.load(Relaxed));
        ListTurns { turns: self.turns.load(Relaxed), spent }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const COSTS: ListCosts = ListCosts {
        delink: Duration::from_micros(70),
        head: Duration::from_micros(50),
        tail: Duration::ZERO,
        skip: Duration::ZERO,
    };

    #[test]
    fn a_turn_takes_as_long_as_its_work() {
        let turns = Turns::new(COSTS);
        let began = Instant::now();
        for _ in 0..10 {
            let (_, waited) = turns.take(true, || Some(())).unwrap();
            assert!(!waited);
            turns.spend(Work::Delink, 1);
            turns.spend(Work::Head, 2);
            turns.spend(Work::Sample, 100);
        }
        assert!(began.elapsed() >= Duration::from_micros(1_700));
        let spent = Duration::from_micros(1_700);
        assert_eq!(turns.list_turns(), ListTurns { turns: 10, spent });
        assert!(turns.take(false, || None::<()>).is_none());
    }

    #[test]
    fn who_waits_begins_when_the_turn_before_is_over() {
        let turns = Turns::new(COSTS);
        // A thread that loses its core requests the lock too late: it tries again.
        let in_time = (0..100).find_map(|_| {
            let over = turns.now_ns() + 1_000_000;
            turns.due_ns.store(over, Relaxed);
            // Requested during the turn before: the time of the lock's hand-over is no gap.
            turns.take(true, || Some(())).unwrap();
            let begun = turns.due_ns.load(Relaxed);
            assert!(begun >= over);
            (turns.now_ns() < over).then_some((over, begun))
        });
        let (over, begun) = in_time.expect("a turn requested in time");
        assert_eq!(begun, over);
        turns.spend(Work::Head, 1);
        assert_eq!(turns.due_ns.load(Relaxed), over + 50_000);
        assert!(turns.now_ns() >= over + 50_000);
    }
}
