//! Every way from one phase to another, with workloads that are only numbers.

use super::*;

/// The results of requests, and their latencies in nanoseconds.
#[derive(Clone, Copy)]
struct Workload {
    /// Shares of requests while nothing is frozen: the misses.
    misses: f64,
    /// While a share is frozen: hits of that, and misses.
    frozen_hits: fn(f64) -> f64,
    frozen_misses: fn(f64) -> f64,
    frozen_ns: f64,
    dynamic_ns: f64,
    miss_ns: f64,
    /// A check's.
    requests: u64,
}

/// Hits that cost five times as much as frozen ones, and few misses.
const PAYS: Workload = Workload {
    misses: 0.01,
    frozen_hits: |share| 0.95 * share.sqrt(),
    frozen_misses: |share| 0.01 + 0.2 * share.powi(4),
    frozen_ns: 40.0,
    dynamic_ns: 200.0,
    miss_ns: 2_000.0,
    requests: 10_000,
};

/// Misses that each take as long as thousands of hits.
const SLOW_MISSES: Workload = Workload { miss_ns: 2e6, ..PAYS };

struct Run {
    controller: Controller,
    now: Duration,
    observed: Observed,
    actions: Vec<Action>,
    /// Number of entries of a freeze.
    freezes: u64,
    frozen: f64,
    /// Whether what lies behind the marker goes.
    renews: bool,
}

impl Run {
    fn new() -> Self {
        let totals = Totals { entries: 1_000, ..Totals::default() };
        Run {
            controller: Controller::new(Tuning::default()),
            now: Duration::ZERO,
            observed: Observed { totals, ..Observed::default() },
            actions: Vec::new(),
            freezes: 500,
            frozen: 0.0,
            renews: true,
        }
    }

    /// A tenth of a second of a workload, and a step.
    fn check(&mut self, workload: &Workload) {
        let Workload { frozen_ns, dynamic_ns, miss_ns, requests, .. } = *workload;
        let share = self.frozen;
        let (hits, misses) = match share {
            0.0 => (0.0, workload.misses),
            _ => ((workload.frozen_hits)(share), (workload.frozen_misses)(share)),
        };
        let totals = &mut self.observed.totals;
        for (kind, share, latency) in [
            (&mut totals.frozen, hits, frozen_ns),
            (&mut totals.dynamic, 1.0 - hits - misses, dynamic_ns),
            (&mut totals.missed, misses, miss_ns),
        ] {
            let count = (share * requests as f64).round() as u64;
            kind.requests += count;
            kind.samples += count / 10;
            kind.nanoseconds += (count / 10) * latency as u64;
        }
        if self.renews {
            totals.passed += 300.0;
        }
        self.now += Duration::from_millis(100);
        self.step(workload);
    }

    fn step(&mut self, workload: &Workload) {
        if self.controller.phase() == Phase::Learning {
            let point = |step: usize| {
                let share = step as f64 / STEPS as f64;
                CurvePoint {
                    share,
                    frozen_hits: (workload.frozen_hits)(share),
                    misses: (workload.frozen_misses)(share),
                    requests: 1_000_000,
                }
            };
            self.observed.curve = (0..46).map(point).collect();
        }
        let action = self.controller.step(self.now, &self.observed);
        match action {
            Action::Nothing => return,
            Action::Freeze(share) => {
                let frozen = if self.freezes > 0 { share } else { 0.0 };
                (self.frozen, self.observed.is_frozen) = (frozen, frozen > 0.0);
                self.controller.has_frozen(self.now, self.freezes, &self.observed.totals);
            }
            Action::Thaw | Action::Rest => {
                (self.frozen, self.observed.is_frozen) = (0.0, false);
            }
            Action::Mark | Action::Learn => {}
        }
        self.actions.push(action);
    }

    /// Until it is in a phase, for a hundred seconds at most.
    fn until(&mut self, phase: Phase, workload: &Workload) {
        for _ in 0..1_000 {
            if self.controller.phase() == phase {
                return;
            }
            self.check(workload);
        }
        panic!("still {:?}, because {:?}", self.controller.phase(), self.controller.reason);
    }

    /// A verdict must not contradict the reason.
    fn tells_that_it_does_not_pay(&self) {
        let verdict = self.controller.verdict().map(|it| it.to_string()).unwrap_or_default();
        assert!(verdict.contains("Freezing does not pay"), "{verdict}");
    }

    fn seconds(&mut self, seconds: u64, workload: &Workload) {
        (0..10 * seconds).for_each(|_| self.check(workload));
    }

    fn frozen(workload: &Workload) -> Self {
        let mut run = Run::new();
        run.until(Phase::Frozen, workload);
        run.check(workload);
        assert_eq!(run.controller.reason, Reason::Built);
        run
    }
}

#[test]
fn it_waits_learns_tries_constructs_and_freezes() {
    let mut run = Run::new();
    run.until(Phase::Learning, &PAYS);
    assert_eq!(run.controller.reason, Reason::Renewed);
    assert_eq!(run.actions, [Action::Mark, Action::Learn]);
    run.until(Phase::Trying, &PAYS);
    assert_eq!(run.controller.reason, Reason::Learned);
    assert_eq!(run.controller.frozen_share(), 1.0);
    let tried = run.now;
    run.until(Phase::Constructing, &PAYS);
    // All of it was twice as slow as without: half of a trial is enough to see that.
    assert_eq!(run.now - tried, Duration::from_millis(300) + Tuning::default().trial);
    assert_eq!(run.controller.reason, Reason::Chosen);
    // 0.95 √s × 40 + (0.01 + 0.2 s⁴) × 2,040 + the rest × 240 is least at 0.46.
    assert!((run.controller.share - 0.46).abs() < 0.01, "{}", run.controller.share);
    let constructing = run.now;
    run.until(Phase::Frozen, &PAYS);
    // Two seconds: one to settle, one to measure, and the checks at which they ended.
    let took = run.now - constructing;
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(3), "{took:?}");
    assert_eq!(run.controller.frozen_share(), run.controller.share);
    let done: Vec<Action> = run.actions.split_off(2);
    let best = Action::Freeze(run.controller.share);
    assert_eq!(done, [Action::Freeze(1.0), best, Action::Thaw, best]);
    run.check(&PAYS);
    assert_eq!(run.controller.reason, Reason::Built);
    assert_eq!(run.controller.record.constructions, 1);
    let hits = run.controller.record.frozen_hits;
    assert!((hits - 0.95 * run.controller.share.sqrt()).abs() < 0.01, "{hits}");
}

#[test]
fn it_waits_for_the_marker_and_not_for_ever() {
    let mut run = Run { renews: false, ..Run::new() };
    run.check(&PAYS);
    // A little of it is never hit: 20 requests for each entry later that is accepted.
    run.check(&PAYS);
    assert_eq!(run.controller.phase(), Phase::Waiting);
    run.until(Phase::Learning, &PAYS);
    assert_eq!(run.controller.reason, Reason::Settled);
    // Where entries go, they need not be hit.
    let mut run = Run { renews: false, ..Run::new() };
    run.check(&Workload { requests: 1_000, ..PAYS });
    run.observed.totals.gone += 1_000;
    run.until(Phase::Learning, &Workload { requests: 1_000, ..PAYS });
    assert_eq!(run.controller.reason, Reason::Renewed);
    // In the first half second the latencies are not known well.
    assert!(run.now >= Duration::from_millis(600), "{:?}", run.now);
}

#[test]
fn a_growing_cache_is_waited_for_and_an_empty_one_left_alone() {
    let mut run = Run::new();
    run.observed.totals.entries = 100;
    for _ in 0..50 {
        run.observed.totals.entries += 100;
        run.check(&PAYS);
        assert_eq!(run.controller.phase(), Phase::Waiting);
    }
    assert_eq!(run.controller.reason, Reason::Grew);
    run.until(Phase::Learning, &PAYS);
    let mut run = Run::new();
    run.observed.totals.entries = 30;
    run.seconds(100, &PAYS);
    assert_eq!((run.controller.phase(), &*run.actions), (Phase::Waiting, &[Action::Mark][..]));
}

#[test]
fn without_requests_nothing_happens() {
    let idle = Workload { requests: 0, ..PAYS };
    let mut run = Run::new();
    run.seconds(1_000, &idle);
    assert_eq!(run.controller.phase(), Phase::Waiting);
    let mut run = Run::frozen(&PAYS);
    run.seconds(1_000, &idle);
    assert_eq!((run.controller.phase(), run.controller.reason), (Phase::Frozen, Reason::Built));
}

#[test]
fn slow_misses_are_not_worth_it_and_the_sleeps_grow() {
    let mut run = Run::new();
    let mut slept = Vec::new();
    for _ in 0..3 {
        run.until(Phase::Sleeping, &SLOW_MISSES);
        assert_eq!(run.controller.reason, Reason::NotWorth);
        assert_eq!(run.actions.last(), Some(&Action::Rest));
        assert!(!run.controller.times_requests());
        let begun = run.now;
        // Not looked at meanwhile.
        run.now += run.controller.interval(run.now);
        run.check(&SLOW_MISSES);
        assert_eq!(
            (run.controller.phase(), run.controller.reason),
            (Phase::Waiting, Reason::Rested)
        );
        slept.push((run.now - begun).as_secs());
    }
    assert_eq!(slept, [16, 128, 1_024]);
    assert_eq!(run.controller.record.failures, 3);
    for _ in 0..3 {
        run.until(Phase::Sleeping, &SLOW_MISSES);
        run.now += run.controller.interval(run.now);
        run.check(&SLOW_MISSES);
    }
    assert_eq!(run.controller.sleep, Tuning::default().sleep_max);
}

#[test]
fn a_slow_backend_is_no_infinity() {
    // The authors' code begins from 1,000 µs, and a mean of 20 ms is never below that.
    let scan = Workload {
        misses: 0.9,
        frozen_hits: |share| 0.5 * share,
        frozen_misses: |share| 0.9 - 0.4 * share,
        miss_ns: 2e7,
        ..PAYS
    };
    let mut run = Run::new();
    run.until(Phase::Frozen, &scan);
    assert_eq!(run.controller.share, 1.0, "more hits than with any part of it");
}

#[test]
fn what_outlives_its_time_is_frozen_anew_without_learning() {
    let mut run = Run::frozen(&PAYS);
    let before = run.actions.len();
    let begun = run.now;
    run.until(Phase::Constructing, &PAYS);
    assert_eq!(run.controller.reason, Reason::Outlived);
    let lived = (run.now - begun).as_secs();
    // Twenty times the second or so that was measured before.
    assert!((20..25).contains(&lived), "{lived}");
    assert_eq!(run.controller.sleep, Duration::from_secs(1));
    run.until(Phase::Frozen, &PAYS);
    run.check(&PAYS);
    assert_eq!(run.actions[before..], [Action::Thaw, Action::Freeze(run.controller.share)]);
    assert_eq!((run.controller.record.refreshes, run.controller.record.constructions), (1, 2));
    run.until(Phase::Constructing, &PAYS);
    assert_eq!(run.controller.sleep, Tuning::default().sleep_min);
}

/// Its driver may pass any time, and a setting never to freeze anew.
#[test]
fn no_time_and_no_lifetime_is_too_long() {
    let lasting = Tuning { lifetime: u32::MAX, ..Tuning::default() };
    let mut run = Run { controller: Controller::new(lasting), ..Run::new() };
    run.until(Phase::Frozen, &PAYS);
    run.controller.construction = 1 << 40;
    run.controller.construction_time = Duration::from_secs(1 << 40);
    run.seconds(60, &PAYS);
    assert_eq!((run.controller.phase(), run.controller.record.refreshes), (Phase::Frozen, 0));
    run.controller.construction = 10_000;
    let moved = Workload { frozen_hits: |_| 0.1, frozen_misses: |_| 0.6, ..PAYS };
    run.now = Duration::MAX - Duration::from_secs(20);
    run.until(Phase::Sleeping, &moved);
    assert_eq!(run.controller.interval(run.now), Duration::MAX - run.now);
}

#[test]
fn what_is_faster_is_not_frozen_anew_more_often() {
    let mut run = Run::new();
    run.until(Phase::Frozen, &PAYS);
    let begun = run.now;
    let faster = Workload { requests: 10 * PAYS.requests, ..PAYS };
    run.until(Phase::Constructing, &faster);
    assert_eq!(run.controller.reason, Reason::Outlived);
    assert!((run.now - begun).as_secs() >= 20, "{:?}", run.now - begun);
    // And with few requests not by time alone.
    let mut run = Run::frozen(&PAYS);
    run.seconds(60, &Workload { requests: PAYS.requests / 10, ..PAYS });
    assert_eq!(run.controller.phase(), Phase::Frozen);
}

#[test]
fn what_becomes_slow_is_thawed_soon_and_a_sleep_follows() {
    let mut run = Run::frozen(&PAYS);
    run.seconds(1, &PAYS);
    let begun = run.now;
    // The working set has moved: frozen entries are no longer hit.
    let moved = Workload { frozen_hits: |_| 0.1, frozen_misses: |_| 0.6, ..PAYS };
    run.until(Phase::Sleeping, &moved);
    assert_eq!(run.controller.reason, Reason::Degraded);
    assert_eq!(run.actions.last(), Some(&Action::Rest));
    assert!(run.now - begun <= Duration::from_secs(1), "{:?}", run.now - begun);
    assert_eq!(run.controller.sleep, Duration::from_secs(16));
    run.tells_that_it_does_not_pay();
    // And then it learns again.
    run.until(Phase::Learning, &moved);
}

#[test]
fn what_is_a_little_slower_fades() {
    let mut run = Run::frozen(&PAYS);
    run.seconds(4, &PAYS);
    // A hundredth above the threshold: credit falls, but not to nothing in a round.
    let slower = taking(1.01 * run.controller.threshold, &run);
    run.until(Phase::Constructing, &slower);
    assert_eq!(run.controller.reason, Reason::Faded);
    assert_eq!(run.controller.record.refreshes, 1);
}

/// The workload with other hits beside the frozen ones such that a request takes this long.
fn taking(latency: f64, run: &Run) -> Workload {
    let share = run.controller.share;
    let (hits, misses) = ((PAYS.frozen_hits)(share), (PAYS.frozen_misses)(share));
    let others = latency - hits * PAYS.frozen_ns - misses * PAYS.miss_ns;
    Workload { dynamic_ns: others / (1.0 - hits - misses), ..PAYS }
}

/// A fifth slower than the mean of its cycle: with another one it is faster, though it is below
/// the threshold as it is.
#[test]
fn what_is_slower_than_its_cycle_is_frozen_anew() {
    let mut run = Run::frozen(&PAYS);
    run.seconds(10, &PAYS);
    let slower = taking(0.95 * run.controller.threshold, &run);
    let begun = run.now;
    run.until(Phase::Constructing, &slower);
    assert_eq!(run.controller.reason, Reason::Faded);
    assert!((run.now - begun).as_secs() <= 3, "{:?}", run.now - begun);
}

#[test]
fn what_fades_again_and_again_is_learnt_anew() {
    let mut run = Run::frozen(&PAYS);
    let fades = Tuning::default().fades;
    for fade in 1..=fades {
        let next = if fade < fades { Phase::Constructing } else { Phase::Waiting };
        run.until(Phase::Frozen, &PAYS);
        run.seconds(5, &PAYS);
        let slower = taking(0.95 * run.controller.threshold, &run);
        run.until(next, &slower);
    }
    assert_eq!((run.controller.phase(), run.controller.reason), (Phase::Waiting, Reason::Faded));
    assert_eq!(run.controller.record.refreshes, u64::from(fades) - 1);
    assert_eq!(run.controller.record.failures, 0);
    // A share learned then fades as well: the next learning comes later.
    for _ in 0..fades {
        run.until(Phase::Frozen, &PAYS);
        run.seconds(5, &PAYS);
        let slower = taking(0.95 * run.controller.threshold, &run);
        run.until(Phase::Constructing, &slower);
        assert_eq!(run.controller.reason, Reason::Faded);
    }
}

#[test]
fn what_is_never_fast_enough_is_given_up() {
    let mut run = Run::new();
    run.until(Phase::Constructing, &PAYS);
    // From now on it gains too little.
    let slow = Workload { frozen_ns: 190.0, ..PAYS };
    run.until(Phase::Frozen, &slow);
    run.check(&slow);
    assert_eq!(
        (run.controller.phase(), run.controller.reason),
        (Phase::Constructing, Reason::Unproven)
    );
    run.until(Phase::Sleeping, &slow);
    assert_eq!(run.controller.reason, Reason::Unproven);
    run.tells_that_it_does_not_pay();
    let constructions = run.actions.iter().filter(|action| matches!(action, Action::Freeze(_)));
    assert_eq!(constructions.count(), 2 + 3, "two trials, and three attempts");
}

#[test]
fn where_nothing_can_be_frozen_it_sleeps() {
    let mut run = Run { freezes: 0, ..Run::new() };
    run.until(Phase::Sleeping, &PAYS);
    assert_eq!(run.controller.reason, Reason::Impossible);
    // Nor later, when something could be before.
    let mut run = Run::new();
    run.until(Phase::Constructing, &PAYS);
    run.freezes = 0;
    run.until(Phase::Sleeping, &PAYS);
    assert_eq!(run.controller.reason, Reason::Impossible);
    let verdict = |run: &Run| run.controller.verdict().unwrap().to_string();
    assert!(verdict(&run).contains(" Nothing could be frozen: "), "{}", verdict(&run));
    assert!(!verdict(&run).contains("% pays"), "{}", verdict(&run));
    // Nor when it is awake again, until something new is known.
    run.until(Phase::Learning, &PAYS);
    assert!(verdict(&run).ends_with("No share was tried yet."), "{}", verdict(&run));
}

/// Fast enough in its trial and never again.
const FADES: Workload = Workload {
    frozen_hits: |share| if share > 0.9 { 0.5 } else { 0.8 * share.min(0.5).sqrt() },
    frozen_misses: |share| if share > 0.9 { 0.2 } else { 0.01 + 0.03 * share },
    ..PAYS
};

#[test]
fn after_an_attempt_that_failed_another_share_is_tried() {
    let fresh = Workload {
        frozen_hits: |share| if share > 0.9 { 0.99 } else { (FADES.frozen_hits)(share) },
        frozen_misses: |share| if share > 0.9 { 0.01 } else { (FADES.frozen_misses)(share) },
        ..PAYS
    };
    let mut run = Run::new();
    run.until(Phase::Constructing, &fresh);
    run.until(Phase::Frozen, &FADES);
    assert_eq!(run.controller.share, 1.0);
    run.check(&FADES);
    assert_eq!(
        (run.controller.phase(), run.controller.reason),
        (Phase::Constructing, Reason::Unproven)
    );
    run.until(Phase::Frozen, &FADES);
    run.check(&FADES);
    assert_eq!((run.controller.phase(), run.controller.reason), (Phase::Frozen, Reason::Built));
    assert!(run.controller.share < 0.9, "{}", run.controller.share);
}

/// A share that was not frozen again may still be the fastest that was tried.
#[test]
fn a_verdict_does_not_praise_what_was_given_up() {
    let mut run = Run::new();
    run.until(Phase::Constructing, &PAYS);
    run.controller.fail(run.now, Reason::Unproven);
    run.tells_that_it_does_not_pay();
}

#[test]
fn what_others_thaw_is_begun_anew() {
    for phase in [Phase::Trying, Phase::Frozen] {
        let mut run = Run::new();
        run.until(phase, &PAYS);
        (run.frozen, run.observed.is_frozen) = (0.0, false);
        run.check(&PAYS);
        assert_eq!(
            (run.controller.phase(), run.controller.reason),
            (Phase::Waiting, Reason::Thawed)
        );
    }
}

#[test]
fn learning_ends_when_the_marker_has_passed_or_all_is_known() {
    let learning = || {
        let mut run = Run { renews: false, ..Run::new() };
        run.check(&Workload { requests: 1_000, ..PAYS });
        run.observed.totals.gone += 1_000;
        run.until(Phase::Learning, &Workload { requests: 1_000, ..PAYS });
        run
    };
    let point =
        |share, frozen_hits, misses| CurvePoint { share, frozen_hits, misses, requests: 99 };
    // Nothing of it.
    let mut run = learning();
    run.observed.curve = vec![point(0.3, 0.4, 0.1)];
    assert_eq!(run.controller.step(run.now, &run.observed), Action::Nothing);
    // Everything behind the marker was hit or evicted.
    run.observed.totals.passed += 400.0;
    run.observed.totals.gone += 600;
    assert_eq!(run.controller.step(run.now, &run.observed), Action::Freeze(1.0));
    for last in [point(0.9, 0.5, 0.1), point(0.4, 0.98, 0.013)] {
        let mut run = learning();
        run.observed.curve = vec![last];
        assert_eq!(run.controller.step(run.now, &run.observed), Action::Freeze(1.0), "{last:?}");
    }
    // Enough is enough.
    let mut run = learning();
    run.observed.totals.dynamic.requests += 19 * 10_000;
    assert_eq!(run.controller.step(run.now, &run.observed), Action::Nothing);
    run.observed.totals.dynamic.requests += 10_000;
    assert_eq!(run.controller.step(run.now, &run.observed), Action::Freeze(1.0));
}

#[test]
fn a_trial_without_requests_ends() {
    let mut run = Run::new();
    run.until(Phase::Trying, &PAYS);
    let begun = run.now;
    run.until(Phase::Sleeping, &Workload { requests: 0, ..PAYS });
    assert_eq!(run.controller.reason, Reason::NotWorth, "nothing is promised of what was not seen");
    assert_eq!(run.now - begun, Tuning::default().trial_max);
}

#[test]
fn time_is_kept_by_phase_and_by_share() {
    let mut run = Run::frozen(&PAYS);
    run.seconds(60, &PAYS);
    let record = run.controller.record;
    assert_eq!(record.times.iter().sum::<Duration>(), run.now);
    assert_eq!(record.shares.iter().sum::<Duration>(), run.now);
    let frozen = record.times[Phase::Frozen as usize];
    assert!(frozen > Duration::from_secs(50), "{frozen:?}");
    let step = (run.controller.share * STEPS as f64).round() as usize;
    let tried = record.times[Phase::Trying as usize];
    assert_eq!(record.shares[step] + record.shares[STEPS], frozen + tried);
    assert_eq!(record.shares[STEPS], Duration::from_millis(300));
}

/// All of it is fast while it is fresh, as in its trial, and then ever more is missed; half of it
/// is slower, and stays so.
#[test]
fn what_wins_fresh_loses_to_what_lasts() {
    let fresh = Workload {
        frozen_hits: |share| if share > 0.9 { 0.99 } else { 0.8 * share.min(0.5).sqrt() },
        frozen_misses: |share| if share > 0.9 { 0.01 } else { 0.01 + 0.03 * share },
        ..PAYS
    };
    // Still below the threshold, but not below the other's result.
    let stale = Workload {
        frozen_hits: |share| if share > 0.9 { 0.925 } else { 0.8 * share.min(0.5).sqrt() },
        frozen_misses: |share| if share > 0.9 { 0.075 } else { 0.01 + 0.03 * share },
        ..PAYS
    };
    let mut run = Run::new();
    run.until(Phase::Frozen, &fresh);
    assert_eq!(run.controller.share, 1.0);
    run.seconds(3, &fresh);
    // A cycle that was fresh at first, and one that never was.
    run.seconds(60, &stale);
    assert!(run.controller.share < 0.9, "{}", run.controller.share);
    run.seconds(60, &stale);
    assert!(run.controller.share < 0.9, "{}", run.controller.share);
    assert_eq!(run.controller.record.failures, 0);
}

/// Before the trial requests were slow for a while: the time after it shows that freezing did not
/// make them faster.
#[test]
fn a_trial_must_beat_what_comes_after_it() {
    let slow = Workload { misses: 0.2, frozen_misses: |_| 0.1, frozen_hits: |_| 0.8, ..PAYS };
    let mut run = Run::new();
    run.until(Phase::Constructing, &slow);
    assert_eq!(run.controller.reason, Reason::Chosen);
    run.until(Phase::Sleeping, &Workload { misses: 0.03, ..slow });
    assert_eq!(run.controller.reason, Reason::NotWorth);
    assert_eq!(run.controller.record.constructions, 0);
}

/// A share that is faster only by more hits is thawed soon, to measure without it, and later each
/// time that it has paid.
#[test]
fn what_pays_by_hits_alone_has_to_prove_it() {
    let scan = Workload {
        misses: 0.9,
        frozen_hits: |share| if share < 1.0 { 0.1 } else { 0.5 },
        frozen_misses: |share| if share < 1.0 { 0.9 } else { 0.5 },
        ..PAYS
    };
    let mut run = Run::new();
    let mut lived = Vec::new();
    for _ in 0..6 {
        run.until(Phase::Frozen, &scan);
        let begun = run.now;
        run.until(Phase::Constructing, &scan);
        assert_eq!(run.controller.reason, Reason::Outlived);
        lived.push((run.now - begun).as_secs());
    }
    assert_eq!(lived, [2, 4, 8, 16, 20, 20]);
    // It no longer pays, but that cannot be measured while it is frozen.
    run.until(Phase::Frozen, &scan);
    run.until(Phase::Constructing, &scan);
    run.until(Phase::Sleeping, &Workload { misses: 0.5, ..scan });
    assert_eq!(run.controller.reason, Reason::NotWorth);
    run.tells_that_it_does_not_pay();
}

/// If hardly anything hits without freezing, freezing can lose no hits.
#[test]
fn what_has_nothing_to_lose_need_not_prove_it() {
    let scan = Workload {
        misses: 0.99,
        frozen_hits: |share| if share < 1.0 { 0.1 } else { 0.5 },
        frozen_misses: |share| if share < 1.0 { 0.9 } else { 0.5 },
        ..PAYS
    };
    let mut run = Run::new();
    run.until(Phase::Frozen, &scan);
    let begun = run.now;
    run.until(Phase::Constructing, &scan);
    assert_eq!((run.controller.reason, (run.now - begun).as_secs()), (Reason::Outlived, 20));
}

#[test]
fn a_verdict_tells_what_was_tried() {
    let mut run = Run::new();
    assert_eq!(run.controller.verdict(), None);
    run.until(Phase::Sleeping, &SLOW_MISSES);
    let verdict = run.controller.verdict().unwrap();
    assert!((verdict.without_ns - 20_198.0).abs() < 1.0, "{verdict:?}");
    assert_eq!((verdict.hit_ns, verdict.miss_ns, verdict.misses), (200.0, 2e6, 0.01));
    assert!((verdict.demanded_ns * 1.1 - verdict.without_ns).abs() < 1e-6, "{verdict:?}");
    let [tried] = verdict.tried[..] else { panic!("{verdict:?}") };
    // Of its hits and misses, which are 1.16 times as many as the requests should be.
    assert!((tried.misses - 0.21 / 1.16).abs() < 1e-9 && tried.share == 1.0, "{verdict:?}");
    assert!(verdict.to_string().contains("misses alone take 20.0 µs"), "{verdict}");
}
