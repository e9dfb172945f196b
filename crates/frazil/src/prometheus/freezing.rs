//! Metrics of caches that freeze.

use super::{Metric, Sample};
use crate::{FreezingPhase, FreezingState};

/// Metrics of a cache that freezes by itself; for other caches the same metrics, without samples.
pub(super) fn measure(state: Option<&FreezingState>) -> [Metric; 8] {
    type Value = fn(&FreezingState) -> String;
    let one = |name, kind, help, value: Value| {
        let samples = state.iter().map(|state| Sample::new("", value(state))).collect();
        Metric { name, kind, help, samples }
    };
    let by_phase = |name, kind, help, value: fn(&FreezingState, FreezingPhase) -> String| {
        let samples = |state| {
            PHASES.map(|(phase, name)| Sample {
                label: Some(("phase", name.to_owned())),
                ..Sample::new("", value(state, phase))
            })
        };
        Metric { name, kind, help, samples: state.map(samples).into_iter().flatten().collect() }
    };
    let (counter, gauge) = ("counter", "gauge");
    [
        one("frazil_frozen_share", gauge, "Share of the entries that is frozen, to 1.", |state| {
            state.share.to_string()
        }),
        by_phase(
            "frazil_freezing_phase",
            gauge,
            "1 for the phase in which the freezing is.",
            |state, phase| u8::from(state.phase == phase).to_string(),
        ),
        by_phase(
            "frazil_freezing_phase_seconds_total",
            counter,
            "How long it was in each phase.",
            |state, phase| format!("{:.3}", state.time_in(phase).as_secs_f64()),
        ),
        one(
            "frazil_freezing_constructions_total",
            counter,
            "How often something was frozen for more than a trial.",
            |state| state.constructions.to_string(),
        ),
        one(
            "frazil_freezing_refreshes_total",
            counter,
            "How often the same share was frozen anew.",
            |state| state.refreshes.to_string(),
        ),
        one(
            "frazil_freezing_failures_total",
            counter,
            "How often freezing did not pay, and a sleep followed.",
            |state| state.failures.to_string(),
        ),
        one(
            "frazil_freezing_latency_seconds",
            gauge,
            "Recent latency of a request, by timed samples.",
            |state| format!("{:.9}", state.latency_ns / 1e9),
        ),
        one(
            "frazil_freezing_threshold_seconds",
            gauge,
            "Limit of that latency while a share is frozen.",
            |state| format!("{:.9}", state.threshold_ns / 1e9),
        ),
    ]
}

/// The phases of a cache that freezes by itself, with their names here.
const PHASES: [(FreezingPhase, &str); 6] = [
    (FreezingPhase::Waiting, "waiting"),
    (FreezingPhase::Learning, "learning"),
    (FreezingPhase::Trying, "trying"),
    (FreezingPhase::Constructing, "constructing"),
    (FreezingPhase::Frozen, "frozen"),
    (FreezingPhase::Sleeping, "sleeping"),
];
