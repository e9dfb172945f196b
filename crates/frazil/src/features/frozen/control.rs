//! Runs the controller: shows it what was counted, does what it says, in a thread or by hand.

use std::hash::{BuildHasher, Hash};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use frazil_policy::Online;

use super::controller::{
    Action, Controller, Kind, Observed, PHASES, Phase, Reason, Record, Totals, Tuning,
};
use super::curve::{CurvePoint, LEARNT_FROM, STEPS, Tally};
use super::learn::{Samples, Timed, Watch};
use crate::cache::Cache;
use crate::clock::exact_ns;
use crate::core::order::Order;
use crate::events;
use crate::smr::stripe::Stripes;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::{CHECKED, Mutex};

/// The longest that the thread sleeps before it looks whether the cache is still there.
const LOOK: Duration = Duration::from_secs(1);

/// What a cache that freezes by itself has for it.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(super) watch: Watch,
    /// Held for a step.
    steering: Mutex<Steering>,
    /// What the last step came to. Held for a moment.
    state: Mutex<FreezingState>,
    /// Whether a thread runs the controller.
    is_run: AtomicBool,
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

/// What a cache that freezes by itself is doing, and has done: [`Cache::freezing_state`].
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
    /// The latency that is to be stayed below while something is frozen: the baseline over 1.2.
    pub threshold_ns: f64,
    /// How often something was frozen for more than a trial.
    pub constructions: u64,
    /// How often the same share was frozen anew, without learning.
    pub refreshes: u64,
    /// How often it did not pay, and a sleep followed.
    pub failures: u64,
    /// How long it slept last; eight times as long after the next failure.
    pub sleep: Duration,
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
            curve: controller.curve.clone(),
            times,
            shares,
        }
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

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// What the freezing of this cache is doing. `None` unless it was built with
    /// [`Freezing::Learned`](crate::Freezing::Learned).
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::ByHand).build();
    /// assert!(cache.freezing_state().is_none());
    /// ```
    pub fn freezing_state(&self) -> Option<FreezingState> {
        let learned = self.frozen.as_ref()?.learned.as_ref()?;
        Some(learned.state.lock().clone())
    }

    /// One step of what [`control_freezing`](Cache::control_freezing) does, for those who have a
    /// thread of their own for such things, or a clock: looks at what was counted, and learns,
    /// freezes or thaws. Returns how long there will be nothing to do.
    ///
    /// Who does not go on leaves it as it is: frozen, or being looked at.
    ///
    /// `now` is the time since any moment, always the same. Most steps take some microseconds;
    /// one that freezes or thaws O(capacity). Does nothing while another thread is in one, and
    /// unless the cache was built with [`Freezing::Learned`](crate::Freezing::Learned).
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// use std::time::{Duration, Instant};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// let origin = Instant::now();
    /// let idle = cache.step_freezing(origin.elapsed());
    /// assert!(idle <= Duration::from_millis(500));
    /// ```
    pub fn step_freezing(&self, now: Duration) -> Duration {
        let learned = self.frozen.as_ref().and_then(|frozen| frozen.learned.as_deref());
        let Some(learned) = learned else { return LOOK };
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
        let (gate, slots, entries) = (self.recorder.gate(), self.expected_slots(), self.entries());
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
        match (&self.order, self.policy()) {
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
            watch.learn_by_rank(self.recorder.gate(), self.expected_slots(), &order);
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
        let frozen = self.frozen.as_ref();
        let is_frozen = frozen.is_some_and(|frozen| frozen.is_in_use());
        let watch = frozen.and_then(|frozen| frozen.watch());
        let curve = match (steering.controller.phase(), watch) {
            (Phase::Learning, Some(watch)) => self.curve(watch, steering, sums.tally),
            _ => Vec::new(),
        };
        Observed { totals, curve, is_frozen }
    }

    /// Leaves the cache as if nothing had ever been frozen.
    fn end_freezing(&self) {
        let Some(learned) = self.frozen.as_ref().and_then(|it| it.learned.as_deref()) else {
            return;
        };
        learned.watch.stop(self.recorder.gate());
        learned.watch.stop_timing(self.recorder.gate());
        // Not waited for: code of the user's may run in a step.
        if let Some(mut steering) = learned.steering.try_lock() {
            let until = steering.controller.record.until;
            steering.controller.restart(until);
            *learned.state.lock() = FreezingState::of(&steering.controller);
        }
        self.thaw();
    }

    /// Freezes as much as it is learnt to be worth, from a thread of its own, until the handle
    /// is dropped.
    ///
    /// The thread waits until the content has been renewed, learns which share of the entries
    /// would get which share of the hits, tries what it gains to freeze all, and freezes the
    /// share with which requests take least, if that is a sixth less than without. It watches
    /// the latency meanwhile, freezes anew now and then, and thaws when it does not pay any
    /// more; then it does nothing for a while, which becomes longer from one failure to the
    /// next. [`freezing_state`](Cache::freezing_state) says what it is about.
    ///
    /// It wakes eight times a second, or once while it sleeps, for some microseconds. Of requests
    /// some hundred a second and thread take some 100 ns longer, because they are timed; while
    /// it learns all do. The thread keeps the cache alive for moments only, and ends within a
    /// second of it. If the cache goes just then the thread drops it, and what it holds.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use frazil::{Cache, Freezing, Policy};
    ///
    /// let cache: Arc<Cache<u64, String>> = Arc::new(
    ///     Cache::builder(10_000).policy(Policy::Lru).freezing(Freezing::Learned).build(),
    /// );
    /// let control = cache.control_freezing()?;
    /// for key in (0..100_000).map(|request| request % 1_000) {
    ///     cache.get_or_insert_with(&key, || format!("row {key}"));
    /// }
    /// let state = cache.freezing_state().unwrap();
    /// println!("{:?}, because {:?}: {} frozen", state.phase, state.reason, state.share);
    /// drop(control);
    /// assert_eq!(cache.freezing_state().unwrap().share, 0.0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` unless the cache was built with
    /// [`Freezing::Learned`](crate::Freezing::Learned), `ResourceBusy` while another handle of
    /// it lives, and what the system says of the thread.
    pub fn control_freezing(self: &Arc<Self>) -> io::Result<FreezingControl>
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        let learned = self.frozen.as_ref().and_then(|frozen| frozen.learned.as_ref());
        let Some(learned) = learned else {
            let problem = "the cache was not built with `Freezing::Learned`";
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        };
        // The checkers know their own threads alone.
        if CHECKED {
            return Err(ErrorKind::Unsupported.into());
        }
        if learned.is_run.swap(true, Relaxed) {
            let problem = "the freezing of this cache is controlled already";
            return Err(io::Error::new(ErrorKind::ResourceBusy, problem));
        }
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (cache, stopped) = (Arc::downgrade(self), Arc::clone(&stop));
        let spawned = thread::Builder::new()
            .name("frazil-freezing".to_owned())
            .spawn(move || run(&cache, &stopped));
        match spawned {
            Ok(thread) => Ok(FreezingControl { stop, thread: Some(thread) }),
            Err(error) => {
                learned.is_run.store(false, Relaxed);
                Err(error)
            }
        }
    }
}

/// Runs a cache's controller until the cache goes, or the handle.
fn run<K, V, S>(cache: &Weak<Cache<K, V, S>>, stop: &std::sync::atomic::AtomicBool)
where
    K: Hash + Eq,
    S: BuildHasher,
{
    while !stop.load(Relaxed) {
        let Some(cache) = cache.upgrade() else { return };
        let now = Duration::from_nanos(exact_ns());
        // The user's hasher may panic, and destructors: then it is over, and all is thawed.
        let step = catch_unwind(AssertUnwindSafe(|| cache.step_freezing(now)));
        drop(cache);
        let Ok(idle) = step else { break };
        thread::park_timeout(idle.min(LOOK));
    }
    if let Some(cache) = cache.upgrade() {
        let _ = catch_unwind(AssertUnwindSafe(|| cache.end_freezing()));
        if let Some(learned) = cache.frozen.as_ref().and_then(|frozen| frozen.learned.as_ref()) {
            learned.is_run.store(false, Relaxed);
        }
    }
}

/// The thread that freezes and thaws: [`Cache::control_freezing`]. Dropped, it thaws what is
/// frozen, and ends before that returns.
#[must_use = "nothing is frozen any more when this is dropped"]
#[derive(Debug)]
pub struct FreezingControl {
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FreezingControl {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The handle may lie in the cache that the thread drops: it does not wait for itself.
            if thread.thread().id() != thread::current().id() {
                // What it panicked of, it has caught.
                let _ = thread.join();
            }
        }
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

fn sum_samples(stripes: &Stripes) -> Sums {
    let mut sums = Sums::default();
    for samples in stripes.iter().filter_map(|stripe| stripe.reader.samples.get()) {
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
