//! The controller decides how much is frozen, and when: the phases of paper 2 (§3.2) as a state
//! machine, without threads and without a clock. `steering.rs` runs it.
//!
//! ```text
//!            ┌───────────────────────── rested ──────────────────────────┐
//!            ▼                                                           │
//!  Waiting ──► Learning ──► Trying ──► Constructing ──► Frozen        Sleeping
//!    renewed     learned      │ tried      ▲   │ unproven │ │ degraded    ▲
//!                             │            └───┼── aged, ─┘ │             │
//!                             │                │   fading   │             │
//!                             └─ not worth it ─┴────────────┴─────────────┘
//! ```
//!
//! The measure is latency: the mean of the timed requests of each kind, weighted by the number
//! of all requests of that kind. `docs/design/frozen-controller.md` lists the differences from
//! the authors' code.

use std::time::Duration;

use crate::curve::{CurvePoint, LEARNT_FROM, Latencies, STEPS, best_share};
use crate::verdict::{Tried, Verdict};

/// Settings of the phases. The defaults are the authors', from their code if not in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tuning {
    /// Least time for measuring the latency before learning.
    pub(crate) baseline: Duration,
    /// Least time for measuring it before freezing.
    pub(crate) construction: Duration,
    /// Time before that, after a thaw, for the order to recover.
    pub(crate) settling: Duration,
    /// How long everything is frozen for a trial, and how long if few requests arrive meanwhile.
    pub(crate) trial: Duration,
    pub(crate) trial_max: Duration,
    /// Least time between checks of the frozen share.
    pub(crate) check: Duration,
    /// Least number of timed requests for a mean to count, of a kind and of all kinds.
    pub(crate) samples: u64,
    pub(crate) check_samples: u64,
    pub(crate) construction_samples: u64,
    /// Factor by which a request must be faster than without freezing: a frozen share is kept
    /// while the latency is below the baseline over this factor. The authors demand a fifth,
    /// which rejects smaller gains.
    pub(crate) gain: f64,
    /// Number of shares tried after one learning, including everything.
    pub(crate) tries: usize,
    /// Least distance of a share from those already tried.
    pub(crate) apart: f64,
    /// The lifetime of a share that is faster only because of fewer misses: it doubles each time
    /// the share has paid.
    pub(crate) probation: u32,
    /// By how much a request must be slower without hits for hits to matter.
    pub(crate) stake: f64,
    /// How often in a row a fading share is frozen anew before learning starts again: the best
    /// share may have changed, but learning takes as long as several cycles. The number doubles
    /// each time, up to the second value.
    pub(crate) fades: u32,
    pub(crate) fades_max: u32,
    /// Credit at the start of a frozen phase, renewed after each length of a construction.
    pub(crate) credit: f64,
    /// Attempts to construct a frozen part that is fast enough.
    pub(crate) attempts: u32,
    /// How long a share stays frozen, as a multiple of its construction, in time and in
    /// requests.
    pub(crate) lifetime: u32,
    /// Below this share freezing does not pay.
    pub(crate) least_share: f64,
    /// The first sleep, the factor after each failure, the divisor after each success, and the
    /// bounds.
    pub(crate) sleep: Duration,
    pub(crate) sleep_growth: u32,
    pub(crate) sleep_min: Duration,
    pub(crate) sleep_max: Duration,
    /// Requests for each entry after which content counts as renewed although some entries were
    /// neither hit nor evicted, and after which a curve counts as learned.
    pub(crate) patience: u64,
    /// The fewest entries for which learning pays.
    pub(crate) entries: u64,
    /// Learning ends when this share lies before the marker.
    pub(crate) learnt: f64,
    /// Learning ends when this share of requests are misses, or hits of entries before the marker.
    pub(crate) saturated: f64,
    /// Growth of the cache during the wait for its renewal, above which the wait begins anew.
    pub(crate) growth: f64,
}

/// Default of how long a share stays frozen, as a multiple of its construction.
pub(crate) const LIFETIME: u32 = 20;

impl Default for Tuning {
    fn default() -> Self {
        let seconds = Duration::from_secs_f64;
        Tuning {
            baseline: seconds(0.5),
            construction: seconds(1.0),
            settling: seconds(1.0),
            trial: seconds(0.5),
            trial_max: seconds(5.0),
            check: seconds(0.1),
            samples: 5,
            check_samples: 50,
            construction_samples: 100,
            gain: 1.1,
            tries: 3,
            apart: 0.05,
            probation: 2,
            stake: 1.03,
            fades: 8,
            fades_max: 64,
            credit: 2.0,
            attempts: 3,
            lifetime: LIFETIME,
            least_share: 0.05,
            sleep: seconds(2.0),
            sleep_growth: 8,
            sleep_min: seconds(1.0),
            sleep_max: seconds(3600.0),
            patience: 20,
            entries: STEPS as u64,
            learnt: 0.9,
            saturated: 0.992,
            growth: 0.02,
        }
    }
}

/// Requests of one kind: their number, and the number and total time of the timed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) requests: u64,
    pub(crate) samples: u64,
    pub(crate) nanoseconds: u64,
}

impl Kind {
    fn since(self, before: Kind) -> Kind {
        Kind {
            requests: self.requests.wrapping_sub(before.requests),
            samples: self.samples.wrapping_sub(before.samples),
            nanoseconds: self.nanoseconds.wrapping_sub(before.nanoseconds),
        }
    }

    fn mean(self) -> f64 {
        self.nanoseconds as f64 / self.samples.max(1) as f64
    }
}

/// The counts of a cache since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// Frozen hits.
    pub(crate) frozen: Kind,
    /// Other hits.
    pub(crate) dynamic: Kind,
    /// Misses, timed until the key was inserted.
    pub(crate) missed: Kind,
    /// Misses whose look-up was timed; their requests are counted above.
    pub(crate) absent: Kind,
    /// Entries that left, for any reason.
    pub(crate) gone: u64,
    /// Entries behind the marker that were hit, as far as known.
    pub(crate) passed: f64,
    /// Present entries.
    pub(crate) entries: u64,
}

impl Totals {
    fn since(&self, before: &Totals) -> Totals {
        Totals {
            frozen: self.frozen.since(before.frozen),
            dynamic: self.dynamic.since(before.dynamic),
            missed: self.missed.since(before.missed),
            absent: self.absent.since(before.absent),
            gone: self.gone.wrapping_sub(before.gone),
            passed: self.passed - before.passed,
            entries: self.entries,
        }
    }

    fn requests(&self) -> u64 {
        self.frozen.requests + self.dynamic.requests + self.missed.requests
    }

    /// Misses as a share of all requests.
    fn misses(&self) -> f64 {
        self.missed.requests as f64 / self.requests().max(1) as f64
    }

    /// Number of timed look-ups.
    fn samples(&self) -> u64 {
        self.frozen.samples + self.dynamic.samples + self.absent.samples
    }
}

/// The controller's input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) totals: Totals,
    /// The data learned since learning began.
    pub(crate) curve: Vec<CurvePoint>,
    /// Whether the frozen share is still frozen.
    pub(crate) is_frozen: bool,
}

/// The action to take. The caller answers [`Action::Freeze`] with [`Controller::has_frozen`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Nothing,
    /// Set the marker anew, and count the entries behind it that are hit.
    Mark,
    /// Begin to learn.
    Learn,
    /// Freeze a share of the entries, and observe only latencies.
    Freeze(f64),
    /// Thaw, and observe latencies.
    Thaw,
    /// Thaw, and observe nothing.
    Rest,
}

/// The phase of a cache's freezing controller: [`FreezingState::phase`](crate::FreezingState).
///
/// ```
/// use frazil_freezing::{Phase, Steering};
/// assert_eq!(Steering::new(20).state().phase, Phase::Waiting);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Waits until the content has been renewed, or for the first entries.
    Waiting,
    /// Learns which requests would hit frozen entries.
    Learning,
    /// Has frozen everything for a moment, to measure the gain.
    Trying,
    /// Measures without freezing, before it freezes.
    Constructing,
    /// Has frozen a share of the entries.
    Frozen,
    /// Sleeps, because freezing did not pay.
    Sleeping,
}

/// The phases, in the order of [`FreezingState::time_in`](crate::FreezingState::time_in).
pub(crate) const PHASES: usize = 6;

/// The reason for the phase: [`FreezingState::reason`](crate::FreezingState).
///
/// ```
/// use frazil_freezing::{Reason, Steering};
/// assert_eq!(Steering::new(20).state().reason, Reason::Began);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The controller has started.
    Began,
    /// The cache has grown, or has hardly any entries: the wait started anew.
    Grew,
    /// All earlier entries have been hit or removed.
    Renewed,
    /// Some have not been hit, and will not be after this many requests.
    Settled,
    /// A curve was learnt.
    Learned,
    /// A frozen share makes requests faster.
    Chosen,
    /// No share made requests faster: see the [verdict](crate::FreezingState::verdict).
    NotWorth,
    /// The frozen share is faster than the baseline by the required margin.
    Built,
    /// The lifetime of the frozen share ended; the same share is frozen anew.
    Outlived,
    /// Requests became slower; the share is frozen anew, or a better one.
    Faded,
    /// Requests were slower than required.
    Degraded,
    /// Several attempts to freeze were not fast enough.
    Unproven,
    /// Nothing could be frozen.
    Impossible,
    /// The program thawed or cleared the cache, or changed the capacity.
    Thawed,
    /// The sleep has ended.
    Rested,
}

/// A phase and its state.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one a cache, copied ten times a second")]
enum State {
    /// The counts when the marker was set after the first input.
    Waiting(Option<Totals>),
    Learning(Totals),
    Trying(Totals),
    /// From the end of settling.
    Constructing {
        since: Option<Totals>,
        attempt: u32,
    },
    Frozen(FrozenPhase),
    Sleeping {
        until: Duration,
    },
}

/// The result of a share in its trial and, once it was frozen for longer, over its last cycle: the
/// latency of a request from the start of the measurement without freezing until the thaw.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arm {
    share: f64,
    latency: f64,
    /// Of the trial's requests.
    misses: f64,
}

/// A frozen phase that has ended: latency of a request in it, and before it without freezing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Unproven {
    latency: f64,
    before: f64,
}

/// Requests, and their total time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    requests: f64,
    nanoseconds: f64,
}

impl Spent {
    fn add(&mut self, requests: u64, latency: f64) {
        self.requests += requests as f64;
        self.nanoseconds += requests as f64 * latency;
    }

    fn mean(self) -> f64 {
        self.nanoseconds / self.requests.max(1.0)
    }
}

/// The frozen share, and its results.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FrozenPhase {
    since: Totals,
    /// At the last check, and at the beginning of this round.
    checked: Totals,
    checked_at: Duration,
    round: Totals,
    credit: f64,
    /// Requests of the first check.
    first: Option<u64>,
    /// Which attempt it was.
    attempt: u32,
    /// Since the freeze, and since the start of the measurement without freezing.
    spent: Spent,
    cycle: Spent,
}

/// The state machine.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    tuning: Tuning,
    state: State,
    /// Start of this phase, and the counts then.
    entered: Duration,
    pub(crate) reason: Reason,
    /// The last known latencies by kind.
    known: Known,
    /// The latencies while nothing was frozen or learnt.
    baseline: Known,
    /// The few shares tried since the last learning.
    arms: Vec<Arm>,
    /// The claim of the last frozen phase, which the time after it must confirm.
    unproven: Option<Unproven>,
    /// Why a sleep followed the last learning.
    given_up: Option<Reason>,
    /// The longest duration of the next frozen phase, in lengths of a construction.
    lifetime: u32,
    /// Miss ratio without freezing.
    misses: f64,
    /// Start of its construction, and the counts then.
    thawed: Totals,
    /// The share that is or will be frozen.
    pub(crate) share: f64,
    /// Latency of a request before anything was frozen in this learning.
    bar: f64,
    /// Its upper limit while a share is frozen.
    threshold: f64,
    /// Requests of the last construction, and how long they took.
    construction: u64,
    construction_time: Duration,
    /// Refreshes in a row that were not due to age, and their limit, after which everything is
    /// learnt anew.
    faded: u32,
    fades: u32,
    pub(crate) sleep: Duration,
    pub(crate) curve: Vec<CurvePoint>,
    pub(crate) record: Record,
}

/// State for users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) constructions: u64,
    pub(crate) refreshes: u64,
    pub(crate) failures: u64,
    /// By phase.
    pub(crate) times: [Duration; PHASES],
    /// By step of the frozen share.
    pub(crate) shares: [Duration; STEPS + 1],
    /// When it was last updated.
    pub(crate) until: Duration,
    /// Shares of the last observed requests: frozen hits, and other hits.
    pub(crate) frozen_hits: f64,
    pub(crate) dynamic_hits: f64,
    /// Their mean latency in nanoseconds, and its upper limit.
    pub(crate) latency_ns: f64,
    pub(crate) threshold_ns: f64,
}

/// Mean latencies by kind, each from the last time that enough requests of the kind were timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Known {
    frozen: Option<f64>,
    dynamic: Option<f64>,
    missed: Option<f64>,
    absent: Option<f64>,
    /// Up to which counts each was measured.
    until: Totals,
}

impl Known {
    /// Updates the latencies that have enough timings.
    fn update(&mut self, totals: &Totals, samples: u64) {
        let Known { frozen, dynamic, missed, absent, until } = self;
        for (known, until, now) in [
            (frozen, &mut until.frozen, totals.frozen),
            (dynamic, &mut until.dynamic, totals.dynamic),
            (missed, &mut until.missed, totals.missed),
            (absent, &mut until.absent, totals.absent),
        ] {
            let new = now.since(*until);
            if new.samples >= samples {
                *known = Some(new.mean());
                *until = now;
            }
        }
    }

    /// Latencies of a stretch, if it has enough requests of a kind.
    fn over(&self, stretch: &Totals, samples: u64) -> Known {
        let of = |kind: Kind, known: Option<f64>| {
            if kind.samples >= samples { Some(kind.mean()) } else { known }
        };
        Known {
            frozen: of(stretch.frozen, self.frozen),
            dynamic: of(stretch.dynamic, self.dynamic),
            missed: of(stretch.missed, self.missed),
            absent: of(stretch.absent, self.absent),
            until: self.until,
        }
    }

    /// Latency of a miss. If no insertion is known to follow, that of its look-up.
    fn miss(&self) -> Option<f64> {
        self.missed.or(self.absent)
    }

    /// The mean of a stretch's requests; `None` if the latency of a kind is unknown that
    /// is more than a hundredth of them.
    fn mean(&self, stretch: &Totals) -> Option<f64> {
        let requests = stretch.requests();
        let mut sum = 0.0;
        for (kind, latency) in [
            (stretch.frozen, self.frozen),
            (stretch.dynamic, self.dynamic),
            (stretch.missed, self.miss()),
        ] {
            let share = kind.requests as f64 / requests as f64;
            match latency {
                Some(latency) => sum += share * latency,
                None if share > 0.01 => return None,
                None => {}
            }
        }
        (requests > 0).then_some(sum)
    }
}

impl Controller {
    pub(crate) fn new(tuning: Tuning) -> Self {
        let record = Record {
            constructions: 0,
            refreshes: 0,
            failures: 0,
            times: [Duration::ZERO; PHASES],
            shares: [Duration::ZERO; STEPS + 1],
            until: Duration::ZERO,
            frozen_hits: 0.0,
            dynamic_hits: 0.0,
            latency_ns: 0.0,
            threshold_ns: 0.0,
        };
        Controller {
            tuning,
            state: State::Waiting(None),
            entered: Duration::ZERO,
            reason: Reason::Began,
            known: Known::default(),
            baseline: Known::default(),
            arms: Vec::new(),
            unproven: None,
            given_up: None,
            lifetime: tuning.lifetime,
            misses: 0.0,
            thawed: Totals::default(),
            share: 0.0,
            bar: 0.0,
            threshold: 0.0,
            construction: 0,
            construction_time: Duration::ZERO,
            faded: 0,
            fades: tuning.fades,
            sleep: tuning.sleep,
            curve: Vec::new(),
            record,
        }
    }

    /// Begins again; the record stays.
    pub(crate) fn restart(&mut self, now: Duration) {
        self.keep_time(now);
        self.sleep = self.tuning.sleep;
        self.enter(State::Waiting(None), Reason::Began, now, Action::Nothing);
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.state {
            State::Waiting(_) => Phase::Waiting,
            State::Learning(_) => Phase::Learning,
            State::Trying(_) => Phase::Trying,
            State::Constructing { .. } => Phase::Constructing,
            State::Frozen(_) => Phase::Frozen,
            State::Sleeping { .. } => Phase::Sleeping,
        }
    }

    /// The share frozen at the moment.
    pub(crate) fn frozen_share(&self) -> f64 {
        match self.state {
            State::Trying(_) | State::Frozen(_) => self.share,
            _ => 0.0,
        }
    }

    /// Whether requests must be timed.
    pub(crate) fn times_requests(&self) -> bool {
        !matches!(self.state, State::Sleeping { .. })
    }

    /// Time until the controller needs its next input.
    pub(crate) fn interval(&self, now: Duration) -> Duration {
        match self.state {
            State::Learning(_) => Duration::from_millis(5),
            State::Sleeping { until } => until.saturating_sub(now),
            _ => self.tuning.check,
        }
    }

    /// Processes the counts since the last step, and returns the action to take.
    pub(crate) fn step(&mut self, now: Duration, observed: &Observed) -> Action {
        self.keep_time(now);
        self.known.update(&observed.totals, self.tuning.samples);
        let totals = &observed.totals;
        match self.state {
            State::Waiting(since) => self.wait(now, totals, since),
            State::Learning(since) => self.learn(observed, &since),
            State::Trying(since) => self.try_shares(now, observed, &since),
            State::Constructing { since, attempt } => self.construct(now, totals, since, attempt),
            State::Frozen(frozen) => self.watch(now, observed, frozen),
            State::Sleeping { until } if now >= until => {
                self.enter(State::Waiting(None), Reason::Rested, now, Action::Thaw)
            }
            State::Sleeping { .. } => Action::Nothing,
        }
    }

    /// Answers [`Action::Freeze`] with the number of frozen entries, and the counts then.
    pub(crate) fn has_frozen(&mut self, now: Duration, entries: u64, totals: &Totals) {
        self.keep_time(now);
        match self.state {
            State::Learning(_) | State::Trying(_) => {
                if entries == 0 {
                    self.fail(now, Reason::Impossible);
                } else {
                    self.enter(State::Trying(*totals), Reason::Learned, now, Action::Nothing);
                }
            }
            State::Constructing { attempt, .. } => {
                if entries == 0 {
                    // Nothing is frozen: there is nothing to thaw either.
                    self.fail(now, Reason::Impossible);
                    return;
                }
                self.record.constructions += 1;
                let credit = self.tuning.credit;
                let mut cycle = Spent::default();
                cycle.add(totals.since(&self.thawed).requests(), self.threshold * self.tuning.gain);
                let frozen = FrozenPhase {
                    since: *totals,
                    checked: *totals,
                    checked_at: now,
                    round: *totals,
                    credit,
                    first: None,
                    attempt,
                    spent: Spent::default(),
                    cycle,
                };
                let reason = self.reason;
                self.enter(State::Frozen(frozen), reason, now, Action::Nothing);
            }
            _ => {}
        }
    }

    fn keep_time(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.record.until);
        self.record.times[self.phase() as usize] += elapsed;
        let step = (self.frozen_share() * STEPS as f64).round() as usize;
        self.record.shares[step.min(STEPS)] += elapsed;
        self.record.until = self.record.until.max(now);
    }

    fn enter(&mut self, state: State, reason: Reason, now: Duration, action: Action) -> Action {
        self.state = state;
        self.reason = reason;
        self.entered = now;
        action
    }

    /// Freezing did not pay: sleeps long before the next attempt, and longer before the one after.
    fn fail(&mut self, now: Duration, reason: Reason) -> Action {
        self.record.failures += 1;
        self.given_up = Some(reason);
        (self.faded, self.fades) = (0, self.tuning.fades);
        self.sleep = (self.sleep * self.tuning.sleep_growth).min(self.tuning.sleep_max);
        let until = now.saturating_add(self.sleep);
        self.enter(State::Sleeping { until }, reason, now, Action::Rest)
    }

    /// Records the results of a stretch of requests.
    fn show(&mut self, stretch: &Totals, mean: f64) {
        let requests = stretch.requests().max(1) as f64;
        self.record.frozen_hits = stretch.frozen.requests as f64 / requests;
        self.record.dynamic_hits = stretch.dynamic.requests as f64 / requests;
        self.record.latency_ns = mean;
        self.record.threshold_ns = self.threshold;
    }

    /// Waits until the content has been renewed (§3.2.2): the renewal is complete when everything
    /// behind the marker has been hit or evicted.
    fn wait(&mut self, now: Duration, totals: &Totals, since: Option<Totals>) -> Action {
        let Tuning { entries, growth, patience, samples, check_samples, .. } = self.tuning;
        let Some(since) = since else {
            self.state = State::Waiting(Some(*totals));
            self.entered = now;
            return Action::Mark;
        };
        let grown = totals.entries as f64 > since.entries as f64 * (1.0 + growth);
        if grown || totals.entries < entries {
            // For a small cache learning does not pay. In a growing one, future entries would
            // lie before the marker.
            if totals.entries == since.entries {
                return Action::Nothing;
            }
            return self.enter(State::Waiting(Some(*totals)), Reason::Grew, now, Action::Mark);
        }
        let stretch = totals.since(&since);
        let behind = since.entries as f64 - stretch.passed - stretch.gone as f64;
        let reason = if behind <= 0.0 {
            Reason::Renewed
        } else if stretch.requests() >= patience * since.entries {
            Reason::Settled
        } else {
            return Action::Nothing;
        };
        let waited = now.saturating_sub(self.entered);
        // There may be too few misses to wait for.
        let timed = stretch.samples() >= check_samples
            && (stretch.missed.samples >= samples || waited >= 10 * self.tuning.baseline);
        if waited < self.tuning.baseline || !timed {
            return Action::Nothing;
        }
        let known = self.known.over(&stretch, samples);
        let Some(mean) = known.mean(&stretch) else { return Action::Nothing };
        self.baseline = known;
        self.bar = mean / self.tuning.gain;
        self.threshold = self.bar;
        self.misses = stretch.misses();
        (self.unproven, self.given_up) = (None, None);
        self.arms.clear();
        self.show(&stretch, mean);
        self.enter(State::Learning(*totals), reason, now, Action::Learn)
    }

    fn learn(&mut self, observed: &Observed, since: &Totals) -> Action {
        let Tuning { learnt, saturated, patience, .. } = self.tuning;
        let stretch = observed.totals.since(since);
        let behind = since.entries as f64 - stretch.passed - stretch.gone as f64;
        let over = observed.curve.last().is_some_and(|last| {
            // By rank all points exist from the beginning: it takes one request for each entry.
            let by_rank = observed.curve.len() == STEPS && last.share >= 1.0;
            let enough = last.requests >= since.entries.max(LEARNT_FROM);
            let beyond = last.share >= learnt || last.frozen_hits + last.misses > saturated;
            if by_rank { enough } else { beyond || behind <= 0.0 }
        });
        let weary = stretch.requests() >= patience * since.entries.max(LEARNT_FROM);
        if !over && !weary {
            return Action::Nothing;
        }
        self.curve.clone_from(&observed.curve);
        self.try_share(1.0)
    }

    fn try_share(&mut self, share: f64) -> Action {
        self.share = share;
        Action::Freeze(share)
    }

    /// Tries everything, then the share with the shortest latency by the curve (figure 20). It
    /// tries another share if the latencies of other hits, measured meanwhile, make that the best:
    /// the fewer hits take the lock, the less they wait.
    fn try_shares(&mut self, now: Duration, observed: &Observed, since: &Totals) -> Action {
        let Tuning { trial, trial_max, samples, check_samples, gain, tries, apart, .. } =
            self.tuning;
        if !observed.is_frozen {
            return self.enter(State::Waiting(None), Reason::Thawed, now, Action::Thaw);
        }
        let stretch = observed.totals.since(since);
        let tried = now.saturating_sub(self.entered);
        let known = self.known.over(&stretch, samples);
        let enough = stretch.samples() >= check_samples;
        let mean = known.mean(&stretch).filter(|_| enough);
        // The trial of a share slower than none can end early.
        let hopeless = tried >= trial / 2 && mean.is_some_and(|mean| mean > self.bar * gain * gain);
        // A burst in a loop may have only entries that are not frozen: its hits do not predict the
        // next.
        let early = tried < trial || (mean.is_none() && tried < trial_max);
        if early && !hopeless {
            return Action::Nothing;
        }
        if let Some(latency) = mean {
            self.show(&stretch, latency);
            self.arms.push(Arm { share: self.share, latency, misses: stretch.misses() });
        }
        // No gain is predicted for kinds that were not measured.
        let without = self.baseline.dynamic.or(known.frozen).unwrap_or(0.0);
        let beside =
            known.dynamic.filter(|_| self.share < 1.0 && stretch.dynamic.samples >= samples);
        let frozen = if stretch.frozen.samples >= samples { known.frozen } else { None };
        let latencies = Latencies {
            frozen: frozen.unwrap_or(without),
            dynamic: beside.unwrap_or(without).min(without),
            miss: self.baseline.miss().unwrap_or(0.0),
        };
        // If a part was no gain, or nothing was timed, no other part will be a gain.
        let go_on = mean.is_some_and(|mean| self.share >= 1.0 || mean < self.bar);
        let next = self.next_share(best_share(&self.curve, &latencies, self.bar));
        let is_new = self.arms.iter().all(|arm| (arm.share - next).abs() >= apart);
        if go_on && self.arms.len() < tries && next >= self.tuning.least_share && is_new {
            return self.try_share(next);
        }
        if self.best_arm().is_none_or(|arm| arm.latency >= self.bar) {
            return self.fail(now, Reason::NotWorth);
        }
        self.construct_anew(Reason::Chosen, 1, now, &observed.totals)
    }

    /// The best share by the curve. If that was tried and is near the curve's end (as when all
    /// requests have become misses and hits before the marker), the middle between that end and
    /// everything, where the curve has no data.
    fn next_share(&self, best: f64) -> f64 {
        let apart = self.tuning.apart;
        let end = self.curve.last().map_or(1.0, |last| last.share);
        let was_tried = self.arms.iter().any(|arm| (arm.share - best).abs() < apart);
        if was_tried && end - best < apart { f64::midpoint(end, 1.0) } else { best }
    }

    /// The measurements that explain the decision to users.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        if self.threshold <= 0.0 {
            return None;
        }
        let tried =
            |&Arm { share, latency, misses }: &Arm| Tried { share, latency_ns: latency, misses };
        Some(Verdict {
            without_ns: self.threshold * self.tuning.gain,
            hit_ns: self.baseline.dynamic.unwrap_or(0.0),
            miss_ns: self.baseline.miss().unwrap_or(0.0),
            misses: self.misses,
            demanded_ns: self.threshold,
            tried: self.arms.iter().map(tried).collect(),
            given_up: self.given_up,
        })
    }

    /// The share with the fastest requests.
    fn best_arm(&self) -> Option<Arm> {
        self.arms.iter().copied().min_by(|one, other| one.latency.total_cmp(&other.latency))
    }

    fn construct_anew(
        &mut self,
        reason: Reason,
        attempt: u32,
        now: Duration,
        totals: &Totals,
    ) -> Action {
        self.thawed = *totals;
        self.enter(State::Constructing { since: None, attempt }, reason, now, Action::Thaw)
    }

    /// Measures without freezing until the latency is known, and then freezes.
    fn construct(
        &mut self,
        now: Duration,
        totals: &Totals,
        since: Option<Totals>,
        attempt: u32,
    ) -> Action {
        let Tuning { settling, construction, construction_samples, samples, gain, .. } =
            self.tuning;
        let elapsed = now.saturating_sub(self.entered);
        let Some(since) = since else {
            if elapsed >= settling {
                self.state = State::Constructing { since: Some(*totals), attempt };
                self.entered = now;
            }
            return Action::Nothing;
        };
        let stretch = totals.since(&since);
        if elapsed < construction || stretch.samples() < construction_samples {
            return Action::Nothing;
        }
        let known = self.known.over(&stretch, samples);
        let Some(mean) = known.mean(&stretch) else { return Action::Nothing };
        self.baseline = known;
        self.threshold = mean / gain;
        self.misses = stretch.misses();
        (self.construction, self.construction_time) = (stretch.requests(), elapsed);
        self.show(&stretch, mean);
        self.choose(now, mean, attempt)
    }

    /// Freezes the best share, if it is faster by the required factor than without freezing before
    /// it *and* after it: in a changing workload either side alone may have been a slow period. A
    /// failed attempt may have been one too, so the same share is tried again if no other is fast
    /// enough.
    fn choose(&mut self, now: Duration, after: f64, attempt: u32) -> Action {
        let Tuning { gain, lifetime, probation, stake, .. } = self.tuning;
        if let Some(Unproven { latency, before }) = self.unproven.take() {
            if latency * gain >= before.min(after) {
                return self.fail(now, Reason::NotWorth);
            }
            self.lifetime = self.lifetime.saturating_mul(2).min(lifetime);
        }
        let best = self.best_arm().filter(|arm| arm.latency < self.threshold);
        let share = self.share.to_bits();
        let is_last = |arm: &&Arm| attempt > 1 && arm.share.to_bits() == share;
        let again = || self.arms.iter().find(is_last).copied();
        let Some(arm) = best.or_else(again) else { return self.fail(now, Reason::NotWorth) };
        // The hit ratio may change at any moment; the latency of a hit does not. If hardly any
        // request hits there are no hits to lose.
        let miss = self.baseline.miss().unwrap_or(0.0);
        let as_many_misses = arm.latency + (self.misses - arm.misses).max(0.0) * miss;
        if self.reason == Reason::Chosen || (attempt > 1 && arm.share.to_bits() != share) {
            let by_misses = as_many_misses >= self.threshold && miss > stake * after;
            self.lifetime = if by_misses { probation.min(lifetime) } else { lifetime };
        }
        self.try_share(arm.share)
    }

    /// Watches the frozen share (§3.2.3).
    fn watch(&mut self, now: Duration, observed: &Observed, mut frozen: FrozenPhase) -> Action {
        let Tuning { check, check_samples, samples, attempts, credit, gain, .. } = self.tuning;
        let lifetime = self.lifetime;
        if !observed.is_frozen {
            return self.enter(State::Waiting(None), Reason::Thawed, now, Action::Thaw);
        }
        let totals = &observed.totals;
        let stretch = totals.since(&frozen.checked);
        if now.saturating_sub(frozen.checked_at) < check || stretch.samples() < check_samples {
            return Action::Nothing;
        }
        let known = self.known.over(&stretch, samples);
        let Some(latency) = known.mean(&stretch) else { return Action::Nothing };
        self.show(&stretch, latency);
        (frozen.checked, frozen.checked_at) = (*totals, now);
        frozen.spent.add(stretch.requests(), latency);
        frozen.cycle.add(stretch.requests(), latency);
        let Some(first) = frozen.first else {
            if latency > self.threshold {
                // The next attempt uses the best share by this latency.
                self.has_come_to(latency);
                if frozen.attempt >= attempts {
                    return self.fail(now, Reason::Unproven);
                }
                return self.construct_anew(Reason::Unproven, frozen.attempt + 1, now, totals);
            }
            frozen.first = Some(stretch.requests());
            self.state = State::Frozen(frozen);
            self.reason = Reason::Built;
            return Action::Nothing;
        };
        // A check of many requests after a lull counts for two at most.
        let weight = (stretch.requests() as f64 / first.max(1) as f64).min(2.0);
        // Once the share is slower than the mean of its cycle, a new cycle is faster (a
        // renewal's best length).
        let target = self.threshold.min(gain * frozen.cycle.mean());
        frozen.credit += (target - latency) / target * weight;
        if frozen.credit <= 0.0 {
            return self.end_cycle(now, totals, &frozen, Reason::Degraded);
        }
        // By requests alone, a cache that is ten times as fast would not be frozen half of the
        // time. By time alone, an idle cache would be frozen anew needlessly.
        let life = self.construction_time.saturating_mul(lifetime);
        let old = now.saturating_sub(self.entered) > life;
        let requests = totals.since(&frozen.since).requests();
        if old && requests > self.construction.saturating_mul(lifetime.into()) {
            self.faded = 0;
            self.sleep = (self.sleep / 2).max(self.tuning.sleep_min);
            return self.end_cycle(now, totals, &frozen, Reason::Outlived);
        }
        if totals.since(&frozen.round).requests() > self.construction {
            if frozen.credit <= credit {
                self.faded += 1;
                if self.faded >= self.fades {
                    // The best share may have changed, so it is learned anew.
                    self.faded = 0;
                    self.fades = self.fades.saturating_mul(2).min(self.tuning.fades_max);
                    return self.enter(State::Waiting(None), Reason::Faded, now, Action::Thaw);
                }
                return self.end_cycle(now, totals, &frozen, Reason::Faded);
            }
            frozen.credit = credit;
            frozen.round = *totals;
        }
        self.state = State::Frozen(frozen);
        Action::Nothing
    }

    /// Latency with the share frozen last replaces that of its trial.
    fn has_come_to(&mut self, latency: f64) {
        let share = self.share.to_bits();
        let mine = self.arms.iter_mut().filter(|arm| arm.share.to_bits() == share);
        mine.for_each(|arm| arm.latency = latency);
    }

    /// Freezes the currently best share anew, without learning. Its result over this cycle replaces
    /// that of its trial, in which its content was fresh.
    fn end_cycle(
        &mut self,
        now: Duration,
        totals: &Totals,
        frozen: &FrozenPhase,
        reason: Reason,
    ) -> Action {
        let share = self.share.to_bits();
        self.has_come_to(frozen.cycle.mean());
        let best = self.best_arm().filter(|arm| arm.latency < self.threshold);
        let Some(best) = best else { return self.fail(now, Reason::Degraded) };
        let before = self.threshold * self.tuning.gain;
        self.unproven = Some(Unproven { latency: frozen.spent.mean(), before });
        if best.share.to_bits() != share {
            // The new share must prove its own gain.
            (self.faded, self.unproven) = (0, None);
        }
        self.record.refreshes += 1;
        let reason = if reason == Reason::Degraded { Reason::Faded } else { reason };
        self.construct_anew(reason, 1, now, totals)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
