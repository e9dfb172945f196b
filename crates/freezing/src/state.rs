//! The state of a controller, as users see it.

use std::time::Duration;

use crate::controller::{Controller, PHASES, Phase, Reason, Record};
use crate::curve::{CurvePoint, STEPS};
use crate::verdict::Verdict;

/// The state and history of a cache that freezes by itself.
///
/// As of the last step of its controller, about a tenth of a second ago while the cache is in use.
///
/// ```
/// use frazil_freezing::{Phase, Steering};
/// let state = Steering::new(20).state();
/// assert_eq!((state.phase, state.share), (Phase::Waiting, 0.0));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FreezingState {
    /// Its phase.
    pub phase: Phase,
    /// The reason for the phase.
    pub reason: Reason,
    /// The share of the entries that was frozen, from 0 to 1; 0 if none was.
    pub share: f64,
    /// Share of frozen hits among all requests in the last observed stretch.
    pub frozen_hit_share: f64,
    /// Share of other hits among the same requests.
    pub dynamic_hit_share: f64,
    /// Their mean latency in nanoseconds: from timed samples of each kind, weighted by the
    /// number of requests of that kind.
    pub latency_ns: f64,
    /// The upper limit of the latency while a share is frozen: the baseline over 1.1.
    pub threshold_ns: f64,
    /// How often a share was frozen for more than a trial.
    pub constructions: u64,
    /// How often the same share was frozen anew, without learning.
    pub refreshes: u64,
    /// How often freezing did not pay, and a sleep followed.
    pub failures: u64,
    /// Length of the last sleep; eight times as long after the next failure.
    pub sleep: Duration,
    verdict: Option<Verdict>,
    curve: Vec<CurvePoint>,
    times: [Duration; PHASES],
    shares: [Duration; STEPS + 1],
}

impl FreezingState {
    pub(crate) fn of(controller: &Controller) -> Self {
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

    /// Measurements without and with frozen shares, and the conditions under which freezing would
    /// pay. None before a request was timed.
    ///
    /// ```
    /// assert!(frazil_freezing::Steering::new(20).state().verdict().is_none());
    /// ```
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The last learnt curve, by share; empty before the first.
    ///
    /// ```
    /// assert!(frazil_freezing::Steering::new(20).state().curve().is_empty());
    /// ```
    pub fn curve(&self) -> &[CurvePoint] {
        &self.curve
    }

    /// How long the controller was in a phase.
    ///
    /// ```
    /// let state = frazil_freezing::Steering::new(20).state();
    /// assert!(state.time_in(frazil_freezing::Phase::Frozen).is_zero());
    /// ```
    pub fn time_in(&self, phase: Phase) -> Duration {
        self.times[phase as usize]
    }

    /// How long each share of the entries was frozen, in steps of 2 % from 0 to 1.
    ///
    /// ```
    /// let state = frazil_freezing::Steering::new(20).state();
    /// assert_eq!(state.times_by_share().count(), 51);
    /// ```
    pub fn times_by_share(&self) -> impl Iterator<Item = (f64, Duration)> {
        let share = |step| step as f64 / STEPS as f64;
        self.shares.iter().enumerate().map(move |(step, &time)| (share(step), time))
    }
}
