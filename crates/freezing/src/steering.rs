//! Runs a controller for a cache: passes it the cache's counts, and makes the cache execute its
//! actions. Without a thread and without a clock: each step receives the time.

use std::time::Duration;

use crate::controller::{Action, Controller, Kind, LIFETIME, Observed, Phase, Totals, Tuning};
use crate::curve::{CurvePoint, LEARNT_FROM, Tally};
use crate::learn::{Gate, Learner, Samples, Timed};
use crate::state::FreezingState;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The way to learn which entries to freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teacher {
    /// A marker in the list, for lists in which a hit moves entries.
    Marker,
    /// The policy's order, if that is by frequency.
    Order,
    /// The number of hits, for queues in which a hit moves nothing.
    Count,
}

/// The counts of a cache since it was built.
///
/// ```
/// let counts = frazil_freezing::Counts { frozen_hits: 3, hits: 5, ..Default::default() };
/// assert_eq!(counts.misses, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frozen hits.
    pub frozen_hits: u64,
    /// All hits, including frozen ones.
    pub hits: u64,
    /// Misses.
    pub misses: u64,
    /// Loads that the cache has timed, and their total time in nanoseconds.
    pub loads: u64,
    /// See `loads`.
    pub load_nanoseconds: u64,
    /// Entries that have left, for any reason.
    pub gone: u64,
}

/// A cache as its controller sees it: Frazil's, or any behind an [`Overlay`](crate::Overlay).
pub trait Subject {
    /// The gate that lets its operations be observed.
    type Gate: Gate;

    /// See [`Gate`].
    fn gate(&self) -> &Self::Gate;

    /// The state that observed operations use.
    fn learner(&self) -> &Learner;

    /// The way to learn which of its entries to freeze.
    fn teacher(&self) -> Teacher;

    /// Present entries, including frozen ones.
    fn entries(&self) -> u64;

    /// Its counts.
    fn counts(&self) -> Counts;

    /// The counts of its threads.
    fn samples(&self) -> impl Iterator<Item = &Samples>;

    /// Whether the share frozen last is still frozen.
    fn is_frozen(&self) -> bool;

    /// Gives all entries the same byte.
    fn set_all(&self, byte: u8);

    /// Gives each entry the byte of its place ([`byte_of_rank`](crate::byte_of_rank)) in an order,
    /// and all others [`NEWCOMER`](crate::NEWCOMER). The order is that of its policy, or, if
    /// `by_count`, that of the entries' current bytes.
    fn give_ranks(&self, by_count: bool);

    /// Freezes a share of the entries, from 0 to 1, and returns their number. `None` if it cannot
    /// be done now; the caller tries again.
    fn freeze(&self, share: f64) -> Option<u64>;

    /// Thaws the frozen entries.
    fn thaw(&self);
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Time until the next step.
    pub idle: Duration,
    /// Number of entries that the step has frozen.
    pub frozen: u64,
    /// Whether phase or reason have changed.
    pub changed: bool,
    /// The state for users.
    pub state: FreezingState,
}

/// The controller of a cache, with the state to collect its input.
#[derive(Debug)]
pub struct Steering {
    controller: Controller,
    /// The time of the first step since the start, and the controller's time then, which
    /// continues even if the clock changes.
    origin: Option<Duration>,
    began: Duration,
    /// The counts when learning began.
    tally: Tally,
    /// Entries passed before the present marker was set, the threads' count at that
    /// time, and the share of the keys that they count.
    passed: f64,
    passed_from: u64,
    watched: f64,
    /// The number of the last burst.
    bursts: u64,
    /// A share that could not yet be frozen, and the number of attempts.
    awaited: Option<(f64, u32)>,
}

/// Failed steps before a freeze is given up.
const ASKED_MAX: u32 = 50;

impl Steering {
    /// Begins by waiting. A frozen share lasts `lifetime` times as long as its construction.
    ///
    /// ```
    /// use frazil_freezing::{Phase, Steering};
    /// assert_eq!(Steering::new(20).state().phase, Phase::Waiting);
    /// ```
    pub fn new(lifetime: u32) -> Self {
        Steering {
            controller: Controller::new(Tuning { lifetime, ..Tuning::default() }),
            origin: None,
            began: Duration::ZERO,
            tally: Tally::default(),
            passed: 0.0,
            passed_from: 0,
            watched: 1.0,
            bursts: 0,
            awaited: None,
        }
    }

    /// Number of entries behind markers that were hit, from the counts of threads.
    fn passed(&self, counted: u64) -> f64 {
        self.passed + counted.wrapping_sub(self.passed_from) as f64 / self.watched
    }

    /// Time until the next step. Requests are timed after each step. In a loop in phase with the
    /// steps they would always belong to the same part of the loop. So the intervals between
    /// steps vary, by multiples of the golden ratio.
    fn idle(&self, now: Duration) -> Duration {
        let interval = self.controller.interval(now);
        if !self.controller.times_requests() {
            return interval;
        }
        let odd = (self.bursts as f64 * 0.618_033_988_749_895).fract();
        interval.mul_f64(1.0 + odd / 2.0)
    }

    /// From now on threads count for a share of the keys.
    fn count_passed(&mut self, counted: u64, watched: f64) {
        self.passed = self.passed(counted);
        (self.passed_from, self.watched) = (counted, watched);
    }

    /// The state for users.
    ///
    /// ```
    /// assert_eq!(frazil_freezing::Steering::new(20).state().share, 0.0);
    /// ```
    pub fn state(&self) -> FreezingState {
        FreezingState::of(&self.controller)
    }

    /// Begins again; the record stays. The next step may use another clock.
    ///
    /// ```
    /// use frazil_freezing::{Reason, Steering};
    /// let mut steering = Steering::default();
    /// steering.restart();
    /// assert_eq!(steering.state().reason, Reason::Began);
    /// ```
    pub fn restart(&mut self) {
        let until = self.controller.record.until;
        self.awaited = None;
        (self.origin, self.began) = (None, until);
        self.controller.restart(until);
    }

    /// Reads a cache's counts, and makes it learn, freeze or thaw. `now` is the time since any
    /// fixed moment. Takes some microseconds, or the time of the cache's work: O(entries).
    pub fn step(&mut self, now: Duration, cache: &impl Subject) -> Step {
        let since = now.saturating_sub(*self.origin.get_or_insert(now));
        let now = self.began.saturating_add(since);
        let observed = self.observe(cache);
        let was = (self.controller.phase(), self.controller.reason);
        let action = match self.awaited {
            Some((share, _)) => Action::Freeze(share),
            None => self.controller.step(now, &observed),
        };
        let frozen = self.act(now, action, cache);
        let state = self.state();
        let changed = (state.phase, state.reason) != was;
        Step { idle: self.idle(now), frozen, changed, state }
    }

    /// Executes the controller's action. Returns the number of frozen entries.
    fn act(&mut self, now: Duration, action: Action, cache: &impl Subject) -> u64 {
        let mut frozen = 0;
        let (learner, gate) = (cache.learner(), cache.gate());
        match action {
            Action::Nothing => {}
            Action::Mark => {
                let watched = learner.mark(gate, cache.entries(), |byte| cache.set_all(byte));
                self.count_passed(Sums::of(cache).passed, watched);
            }
            Action::Learn => {
                let set_all = |byte| cache.set_all(byte);
                match cache.teacher() {
                    Teacher::Marker => learner.learn_by_marker(gate, cache.entries(), set_all),
                    Teacher::Order => learner.learn_by_rank(gate, || cache.give_ranks(false)),
                    Teacher::Count => learner.count(gate, set_all),
                }
                let sums = Sums::of(cache);
                self.count_passed(sums.passed, 1.0);
                self.tally = sums.tally;
            }
            Action::Freeze(share) => {
                learner.stop(gate);
                frozen = self.freeze(now, share, cache);
            }
            Action::Thaw | Action::Rest => {
                learner.stop(gate);
                cache.thaw();
            }
        }
        // Entries just frozen are in the caches of this thread's core. The first requests, which
        // fetch them from there, would not be typical.
        let is_cold = matches!(action, Action::Freeze(_));
        if self.controller.times_requests() && !is_cold {
            self.bursts += 1;
            learner.burst(gate, self.bursts);
        } else {
            learner.stop_timing(gate);
        }
        frozen
    }

    /// Freezes a share, or retries in the next step. Returns the number of entries frozen.
    fn freeze(&mut self, now: Duration, share: f64, cache: &impl Subject) -> u64 {
        let asked = self.awaited.take().map_or(0, |(_, asked)| asked) + 1;
        let frozen = cache.freeze(share);
        if frozen.is_none() && asked < ASKED_MAX {
            self.awaited = Some((share, asked));
            return 0;
        }
        let frozen = frozen.unwrap_or(0);
        let totals = self.observe(cache).totals;
        self.controller.has_frozen(now, frozen, &totals);
        frozen
    }

    /// The data learned so far.
    fn curve(&mut self, tally: Tally, cache: &impl Subject) -> Vec<CurvePoint> {
        let learnt = tally.since(&self.tally);
        let (learner, entries) = (cache.learner(), cache.entries());
        if cache.teacher() == Teacher::Marker {
            return learnt.by_marker(learner.before() as f64 / entries.max(1) as f64);
        }
        if !learner.counts() {
            return learnt.by_rank();
        }
        if learnt.requests() >= entries.max(LEARNT_FROM) {
            // An entry may have many hits by chance. So these requests set the ranks, and the next
            // ones count hits by rank.
            learner.learn_by_rank(cache.gate(), || cache.give_ranks(true));
            self.tally = tally;
        }
        Vec::new()
    }

    /// The controller's input.
    fn observe(&mut self, cache: &impl Subject) -> Observed {
        let counts = cache.counts();
        let sums = Sums::of(cache);
        let kind = |requests, (samples, nanoseconds)| Kind { requests, samples, nanoseconds };
        let (loaded, loaded_ns) = sums.loaded;
        let loads = (loaded + counts.loads, loaded_ns.wrapping_add(counts.load_nanoseconds));
        let totals = Totals {
            frozen: kind(counts.frozen_hits, sums.frozen),
            dynamic: kind(counts.hits.saturating_sub(counts.frozen_hits), sums.dynamic),
            missed: kind(counts.misses, loads),
            absent: kind(0, sums.absent),
            gone: counts.gone,
            passed: self.passed(sums.passed),
            entries: cache.entries(),
        };
        let curve = match self.controller.phase() {
            Phase::Learning => self.curve(sums.tally, cache),
            _ => Vec::new(),
        };
        Observed { totals, curve, is_frozen: cache.is_frozen() }
    }
}

impl Default for Steering {
    /// With the lifetime of the authors' code, 20.
    fn default() -> Self {
        Steering::new(LIFETIME)
    }
}

/// Sum of the counts of all threads.
#[derive(Default)]
struct Sums {
    /// Number of timed requests, and their total time.
    frozen: (u64, u64),
    dynamic: (u64, u64),
    absent: (u64, u64),
    loaded: (u64, u64),
    passed: u64,
    tally: Tally,
}

impl Sums {
    fn of(cache: &impl Subject) -> Sums {
        let mut sums = Sums::default();
        for samples in cache.samples() {
            let Samples { frozen, dynamic, absent, loaded, passed, .. } = samples;
            for (sum, Timed { count, nanoseconds }) in [
                (&mut sums.frozen, frozen),
                (&mut sums.dynamic, dynamic),
                (&mut sums.absent, absent),
                (&mut sums.loaded, loaded),
            ] {
                let read = |count: &AtomicU64| count.load(Relaxed);
                *sum = (sum.0.wrapping_add(read(count)), sum.1.wrapping_add(read(nanoseconds)));
            }
            sums.passed = sums.passed.wrapping_add(passed.load(Relaxed));
            samples.add_to(&mut sums.tally);
        }
        sums
    }
}
