//! Runs the controller: shows it what was counted, does what it says, in a thread or by hand.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use frazil_policy::Online;

use super::controller::{
    Action, Controller, Kind, Observed, PHASES, Phase, Reason, Record, Totals, Tuning,
};
use super::curve::{CurvePoint, LEARNT_FROM, STEPS, Tally};
use super::learn::{Samples, Timed, Watch};
use super::verdict::Verdict;
use crate::core::local::Stripes;
use crate::core::order::Order;
use crate::events;
use crate::features::{Featured, Features, Local};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The longest that the thread sleeps before it looks whether the cache is still there.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What a cache that freezes by itself has for it.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(super) watch: Watch,
    /// Held for a step.
    steering: Mutex<Steering>,
    /// What the last step came to. Held for a moment.
    pub(crate) state: Mutex<FreezingState>,
    /// Whether a thread runs the controller.
    pub(crate) is_run: AtomicBool,
}

impl Learned {
    /// What is frozen lasts so many times as long as its construction.
    pub(super) fn new(lifetime: u32) -> Self {
        let steering = Steering::new(Tuning { lifetime, ..Tuning::default() });
        let state = FreezingState::of(&steering.controller);
        Learned {
            watch: Watch::default(),
            steering: Mutex::new(steering),
            state: Mutex::new(state),
            is_run: AtomicBool::new(false),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.watch.heap_bytes()
    }
}

/// The controller, and what it takes to show it what it wants to see.
#[derive(Debug)]
struct Steering {
    controller: Controller,
    /// The time of the first step.
    origin: Option<Duration>,
    /// What was counted when learning began.
    tally: Tally,
    /// Entries passed before the marker was set that is waited for, how many threads had
    /// counted then, and of what share of the keys they count.
    passed: f64,
    passed_from: u64,
    watched: f64,
    /// The number of the last burst.
    bursts: u64,
}

/// What says which entries are worth freezing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Teacher {
    /// A marker in the list.
    Marker,
    /// The policy's order.
    Order,
    /// How often they are hit.
    Count,
}

impl Steering {
    fn new(tuning: Tuning) -> Self {
        Steering {
            controller: Controller::new(tuning),
            origin: None,
            tally: Tally::default(),
            passed: 0.0,
            passed_from: 0,
            watched: 1.0,
            bursts: 0,
        }
    }

    /// How many entries behind markers were hit, by what threads have counted of it.
    fn passed(&self, counted: u64) -> f64 {
        self.passed + counted.wrapping_sub(self.passed_from) as f64 / self.watched
    }

    /// How long nothing need be done. Requests are timed after each step, and those of a loop
    /// that keeps time with the steps would be of one part of it for ever: so that they are of
    /// all its parts, steps come at odd times, as multiples of the golden ratio are odd.
    fn idle(&self, now: Duration) -> Duration {
        let interval = self.controller.interval(now);
        if !self.controller.times_requests() {
            return interval;
        }
        let odd = (self.bursts as f64 * 0.618_033_988_749_895).fract();
        interval.mul_f64(1.0 + odd / 2.0)
    }

    /// From now on they count for a share of the keys.
    fn count_passed(&mut self, counted: u64, watched: f64) {
        self.passed = self.passed(counted);
        (self.passed_from, self.watched) = (counted, watched);
    }
}

/// What a cache that freezes by itself is doing, and has done: [`Cache::freezing_state`](crate::Cache::freezing_state).
///
/// Of the last step of its controller, which is a tenth of a second ago at most while anything
/// is going on.
///
/// ```
/// use frazil::{Cache, Freezing, FreezingPhase};
/// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
/// let state = cache.freezing_state().unwrap();
/// assert_eq!((state.phase, state.share), (FreezingPhase::Waiting, 0.0));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FreezingState {
    /// What it is doing.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// The share of the entries that was frozen, from 0 to 1; 0 while nothing is.
    pub share: f64,
    /// Hits of what is frozen, of all requests in the stretch that was looked at last.
    pub frozen_hit_share: f64,
    /// Other hits, of the same.
    pub dynamic_hit_share: f64,
    /// The mean latency of the same, in nanoseconds: from timed samples of each kind, weighted
    /// by how many requests were of it.
    pub latency_ns: f64,
    /// The latency that is to be stayed below while something is frozen: the baseline over 1.1.
    pub threshold_ns: f64,
    /// How often something was frozen for more than a trial.
    pub constructions: u64,
    /// How often the same share was frozen anew, without learning.
    pub refreshes: u64,
    /// How often it did not pay, and a sleep followed.
    pub failures: u64,
    /// How long it slept last; eight times as long after the next failure.
    pub sleep: Duration,
    verdict: Option<Verdict>,
    curve: Vec<CurvePoint>,
    times: [Duration; PHASES],
    shares: [Duration; STEPS + 1],
}

impl FreezingState {
    fn of(controller: &Controller) -> Self {
        let Record {
            constructions,
            refreshes,
            failures,
            times,
            shares,
            frozen_hits,
            dynamic_hits,
            latency_ns,
            threshold_ns,
            ..
        } = controller.record;
        FreezingState {
            phase: controller.phase(),
            reason: controller.reason,
            share: controller.frozen_share(),
            frozen_hit_share: frozen_hits,
            dynamic_hit_share: dynamic_hits,
            latency_ns,
            threshold_ns,
            constructions,
            refreshes,
            failures,
            sleep: controller.sleep,
            verdict: controller.verdict(),
            curve: controller.curve.clone(),
            times,
            shares,
        }
    }

    /// What was measured without and with shares frozen, and what would have to change for it to
    /// pay. None before a request was timed.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// assert!(cache.freezing_state().unwrap().verdict().is_none());
    /// ```
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The curve that was learnt last, by share; empty before that.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// assert!(cache.freezing_state().unwrap().curve().is_empty());
    /// ```
    pub fn curve(&self) -> &[CurvePoint] {
        &self.curve
    }

    /// How long it was in a phase.
    ///
    /// ```
    /// use frazil::{Cache, Freezing, FreezingPhase};
    /// use std::time::Duration;
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// cache.step_freezing(Duration::from_secs(100));
    /// cache.step_freezing(Duration::from_secs(103));
    /// let state = cache.freezing_state().unwrap();
    /// assert_eq!(state.time_in(FreezingPhase::Waiting), Duration::from_secs(3));
    /// ```
    pub fn time_in(&self, phase: Phase) -> Duration {
        self.times[phase as usize]
    }

    /// How long each share of the entries was frozen, in steps of 2 % from 0 to 1.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// use std::time::Duration;
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// cache.step_freezing(Duration::from_secs(100));
    /// cache.step_freezing(Duration::from_secs(103));
    /// let state = cache.freezing_state().unwrap();
    /// let unfrozen = (0.0, Duration::from_secs(3));
    /// assert_eq!(state.times_by_share().next(), Some(unfrozen));
    /// ```
    pub fn times_by_share(&self) -> impl Iterator<Item = (f64, Duration)> {
        let share = |step| step as f64 / STEPS as f64;
        self.shares.iter().enumerate().map(move |(step, &time)| (share(step), time))
    }
}

impl<K, V> Features<K, V> {
    /// What is learnt of freezing, in a cache that learns.
    pub(crate) fn learned(&self) -> Option<&Learned> {
        self.frozen.as_ref()?.learned.as_deref()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// One step of the controller. How long there will be nothing to do.
    pub(crate) fn step_freezing(&self, now: Duration) -> Duration {
        let Some(learned) = self.hooks.learned() else { return LOOK };
        let Some(mut held) = learned.steering.try_lock() else { return LOOK };
        let steering = &mut *held;
        let now = now.saturating_sub(*steering.origin.get_or_insert(now));
        let observed = self.observe(steering);
        let was = (steering.controller.phase(), steering.controller.reason);
        let action = steering.controller.step(now, &observed);
        let entries = self.act(learned, steering, now, action);
        let state = FreezingState::of(&steering.controller);
        *learned.state.lock() = state.clone();
        let idle = steering.idle(now);
        // Whoever is told may ask what it does, and have it thawed.
        drop(held);
        if entries > 0 {
            events::event!(self, DEBUG, "frozen", entries, share = state.share);
        }
        let (phase, reason) = (state.phase, state.reason);
        if (phase, reason) != was {
            events::event!(
                self,
                DEBUG,
                "freezing",
                ?phase,
                ?reason,
                share = state.share,
                frozen_hit_share = state.frozen_hit_share,
                dynamic_hit_share = state.dynamic_hit_share,
                latency_ns = state.latency_ns,
                threshold_ns = state.threshold_ns
            );
        }
        idle
    }

    /// Does what the controller says. How many entries it has frozen.
    fn act(
        &self,
        learned: &Learned,
        steering: &mut Steering,
        now: Duration,
        action: Action,
    ) -> u64 {
        let mut frozen = 0;
        let Learned { watch, .. } = learned;
        let (gate, slots, entries) =
            (self.hooks.recorder.gate(), self.expected_slots(), self.entries());
        match action {
            Action::Nothing => {}
            Action::Mark => {
                let watched = watch.mark(gate, slots, entries);
                steering.count_passed(sum_samples(&self.stripes).passed, watched);
            }
            Action::Learn => {
                match self.teacher() {
                    Teacher::Marker => watch.learn_by_marker(gate, slots, entries),
                    Teacher::Order => watch.learn_by_rank(gate, slots, &self.coldest_first()),
                    Teacher::Count => watch.count(gate, slots),
                }
                let sums = sum_samples(&self.stripes);
                steering.count_passed(sums.passed, 1.0);
                steering.tally = sums.tally;
            }
            Action::Freeze(share) => {
                watch.stop(gate);
                frozen = self.freeze_untold(share);
                let totals = self.observe(steering).totals;
                steering.controller.has_frozen(now, frozen, &totals);
            }
            Action::Thaw | Action::Rest => {
                watch.stop(gate);
                self.thaw();
            }
        }
        // What was just frozen lies in the caches of this thread's core: the first requests that
        // fetch it from there would be taken for what all take.
        let is_cold = matches!(action, Action::Freeze(_));
        if steering.controller.times_requests() && !is_cold {
            steering.bursts += 1;
            watch.burst(gate, steering.bursts);
        } else {
            watch.stop_timing(gate);
        }
        frozen
    }

    /// Where the order is one of frequency it says what is hottest (§3.3), in a list that hits
    /// move a marker does. Queues without a lock say nothing of the kind: of Mobius's hottest
    /// tenth a marker promised half of the hits, and it got a thirtieth.
    fn teacher(&self) -> Teacher {
        match (&self.order, self.policy) {
            (Order::Locked(_), Online::Lfu | Online::WTinyLfu | Online::Gdsf) => Teacher::Order,
            (Order::Locked(_), _) => Teacher::Marker,
            _ => Teacher::Count,
        }
    }

    fn coldest_first(&self) -> Vec<u32> {
        self.order.coldest_first(self, &self.segments, &self.stripes)
    }

    /// What was learnt up to now.
    fn curve(&self, watch: &Watch, steering: &mut Steering, tally: Tally) -> Vec<CurvePoint> {
        let learnt = tally.since(&steering.tally);
        let entries = self.entries();
        if self.teacher() == Teacher::Marker {
            return learnt.by_marker(watch.before() as f64 / entries.max(1) as f64);
        }
        if !watch.counts() {
            return learnt.by_rank();
        }
        if learnt.requests() >= entries.max(LEARNT_FROM) {
            // What has many hits by chance is not to be promised them again: ranks are given by
            // these requests, and hits by rank counted of the next.
            let mut order = self.coldest_first();
            watch.sort_by_count(&mut order);
            watch.learn_by_rank(self.hooks.recorder.gate(), self.expected_slots(), &order);
            steering.tally = tally;
        }
        Vec::new()
    }

    /// What the controller is shown.
    fn observe(&self, steering: &mut Steering) -> Observed {
        let stats = self.stats();
        let sums = sum_samples(&self.stripes);
        let kind = |requests, (samples, nanoseconds)| Kind { requests, samples, nanoseconds };
        let (loaded, loaded_ns) = sums.loaded;
        let loads = (loaded + stats.loads, loaded_ns.wrapping_add(stats.load_nanoseconds));
        let totals = Totals {
            frozen: kind(stats.frozen_hits, sums.frozen),
            dynamic: kind(stats.hits - stats.frozen_hits, sums.dynamic),
            missed: kind(stats.misses + stats.delayed_hits, loads),
            absent: kind(0, sums.absent),
            gone: stats.evictions + stats.removals + stats.expirations,
            passed: steering.passed(sums.passed),
            entries: self.entries(),
        };
        let frozen = self.hooks.frozen.as_ref();
        let is_frozen = frozen.is_some_and(|frozen| frozen.is_in_use());
        let watch = frozen.and_then(|frozen| frozen.watch());
        let curve = match (steering.controller.phase(), watch) {
            (Phase::Learning, Some(watch)) => self.curve(watch, steering, sums.tally),
            _ => Vec::new(),
        };
        Observed { totals, curve, is_frozen }
    }

    /// Leaves the cache as if nothing had ever been frozen.
    pub(crate) fn end_freezing(&self) {
        let Some(learned) = self.hooks.frozen.as_ref().and_then(|it| it.learned.as_deref()) else {
            return;
        };
        learned.watch.stop(self.hooks.recorder.gate());
        learned.watch.stop_timing(self.hooks.recorder.gate());
        // Not waited for: code of the user's may run in a step.
        if let Some(mut steering) = learned.steering.try_lock() {
            let until = steering.controller.record.until;
            steering.controller.restart(until);
            *learned.state.lock() = FreezingState::of(&steering.controller);
        }
        self.thaw();
    }
}

/// What threads have seen, together.
#[derive(Default)]
struct Sums {
    /// How many were timed, and how long they took.
    frozen: (u64, u64),
    dynamic: (u64, u64),
    absent: (u64, u64),
    loaded: (u64, u64),
    passed: u64,
    tally: Tally,
}

fn sum_samples(stripes: &Stripes<Local>) -> Sums {
    let mut sums = Sums::default();
    for samples in stripes.iter().filter_map(|stripe| stripe.local.features.frozen.samples.get()) {
        let Samples { frozen, dynamic, absent, loaded, passed, .. } = &**samples;
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
