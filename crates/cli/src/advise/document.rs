//! The advice as data for a report: everything on the page, for every setting that it offers.

use std::collections::BTreeMap;
use std::thread;

use frazil_simulator::{CurvePoint, WorkloadProfile};
use serde_json::{Value, json};

use super::by_trace::by_trace_report;
use super::case::{Case, Question, Replayed};
use super::costs::{Cost, Costs, costs};
use super::latency::{latencies, latencies_json};
use super::recommend::Measured;
use super::text::{answer, counted, limit_name, range_source, reasons, sure};
use super::told::{Named, bytes_of, cautions, growth, named, price, step_card, worth_title};
use super::{Advice, candidate::Candidate};
use crate::failure::Failure;
use crate::forecast::{Predicted, Setting};
use crate::output::{grouped, percent};
use crate::{date, progress::Progress};

/// Points of LRU's curve.
const POINTS: u16 = 120;
/// The smallest capacity of that curve, as a share of everything, unless a smaller one was
/// replayed.
const LEAST: f64 = 1e-4;
/// Limits with their own texts; in the text for others `%` stands for the station.
const LIMITS: [&str; 4] = ["backend", "cores", "none", "%"];

/// The data of a report.
pub(super) fn document(
    advice: &Advice<'_>,
    question: &Question,
    command: &str,
) -> Result<Value, Failure> {
    let settings = question.forecast.settings();
    let asked = question.forecast.setting;
    let names: Vec<String> = advice.policies.iter().map(ToString::to_string).collect();
    let cells = advice.cases.iter().map(|case| case.cells.len()).sum::<usize>();
    let progress = Progress::of_steps("predicting".to_owned(), (cells * settings.len()) as u64);
    let trace = |case| of_case(advice, case, question, &settings, &progress);
    let traces = advice.cases.iter().map(trace).collect::<Result<Vec<_>, _>>()?;
    let chosen = &advice.choice.winner.chosen;
    Ok(json!({
        "frazil": env!("CARGO_PKG_VERSION"),
        "made": date::today(),
        "command": command,
        "cautions": cautions(advice),
        "answer": answer(advice),
        "reasons": reasons(advice),
        "sure": sure(advice),
        "assumptions": assumptions(advice),
        "measured_cores": advice.forecast.measured_cores(),
        "unit": advice.unit.to_string(),
        "policies": names,
        "recommended": {
            "policy": chosen.policy,
            "capacity": chosen.capacity,
            "step": step_card(advice),
            "trace": advice.worst.case,
            "is_size": advice.choice.is_size(),
        },
        "avoidable": advice.board.avoidable,
        "growth": growth(advice),
        "range_source": range_source(advice),
        "limits": LIMITS.map(|name| (name, limit_name(name))).into_iter().collect::<BTreeMap<_, _>>(),
        "costs": costs(advice).map(|it| of_costs(&it)),
        "worth_title": worth_title(advice),
        "on_each": by_trace_report(advice),
        "sizes": named(advice).iter().map(|it| of_size(advice, it)).collect::<Vec<_>>(),
        "setting": settings.iter().position(|setting| *setting == asked),
        "settings": settings.iter().map(of_setting).collect::<Vec<_>>(),
        "traces": traces,
    }))
}

fn of_costs(costs: &Costs) -> Value {
    let of = |it: &Cost| {
        json!({
            "capacity": it.capacity,
            "policy": it.policy,
            "memory": it.memory,
            "misses": it.misses,
            "sum": it.sum(),
        })
    };
    json!({
        "title": format!("What a month costs, {}, of {}", costs.prices, costs.rate),
        "key": "At each size of the policy that is cheapest there: memory, misses, and both.",
        "label": costs.label,
        "without_cache": costs.without_cache,
        "all": costs.all.iter().map(of).collect::<Vec<_>>(),
        "chosen": costs.chosen.as_ref().map(of),
    })
}

fn of_size(advice: &Advice<'_>, size: &Named) -> Value {
    let kept = &size.kept;
    let known = latencies(advice, size.policy, size.capacity);
    json!({
        "name": size.names.join(", "),
        "capacity": size.capacity,
        "policy": size.policy,
        "a_month": advice.money().map(|money| price(size.a_month(money))),
        "miss_ratio": kept.miss_ratio,
        "byte_miss_ratio": kept.byte_miss_ratio,
        "avoided": size.avoided,
        "mops": kept.mops,
        // With delayed hits, if they are known.
        "response_us": known.map_or(kept.response_us, |it| Some(it.all.mean_us)),
        "latency": latencies_json(known),
    })
}

fn of_setting(setting: &Setting) -> Value {
    let Setting { cores, backend_us, mpl } = setting;
    json!({ "cores": cores, "backend_us": backend_us, "mpl": mpl })
}

fn of_case(
    advice: &Advice<'_>,
    case: &Case<'_>,
    question: &Question,
    settings: &[Setting],
    progress: &Progress,
) -> Result<Value, Failure> {
    let of_cells = |cells: &[Replayed]| {
        let of = |cell: &Replayed| {
            let Measured { policy, capacity, .. } = cell.measured;
            let mut value = of_cell(case, question, settings, cell, progress)?;
            value["bytes"] = json!(bytes_of(advice, policy, capacity));
            Ok(value)
        };
        cells.iter().map(of).collect::<Result<Vec<Value>, Failure>>()
    };
    // Some forty settings a cell, each with its p*, take as long as the replays did.
    let each = case.cells.len().div_ceil(question.options.threads).max(1);
    let cells = thread::scope(|scope| {
        let shares: Vec<_> =
            case.cells.chunks(each).map(|cells| scope.spawn(|| of_cells(cells))).collect();
        let done = |it: thread::ScopedJoinHandle<'_, _>| {
            it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        shares.into_iter().map(done).collect::<Result<Vec<Vec<Value>>, Failure>>()
    })?
    .concat();
    let curve = case.curve.points(&capacities(case));
    let point = |it: CurvePoint| json!([it.capacity, it.miss_ratio, it.error]);
    Ok(json!({
        "name": case.title(),
        "requests": case.requests(),
        "objects": case.objects(),
        "everything": case.everything,
        "sample_rate": case.loaded.origin.rate(),
        "delays": case.delays,
        "cells": cells,
        "lru_curve": curve.into_iter().map(point).collect::<Vec<_>>(),
        "workload": of_workload(&case.workload_profile()),
    }))
}

/// From the smallest to everything, at even logarithmic distances.
fn capacities(case: &Case<'_>) -> Vec<u64> {
    let everything = case.everything;
    let smallest = case.cells.first().map_or(everything, |cell| cell.measured.capacity);
    let least = (smallest as f64 / everything.max(1) as f64).clamp(1e-9, LEAST);
    let at = |step: u16| {
        let share = least.powf(1.0 - f64::from(step) / f64::from(POINTS));
        ((everything as f64 * share).round() as u64).max(1)
    };
    let mut capacities: Vec<u64> = (0..=POINTS).map(at).collect();
    capacities.dedup();
    capacities
}

fn of_cell(
    case: &Case<'_>,
    question: &Question,
    settings: &[Setting],
    cell: &Replayed,
    progress: &Progress,
) -> Result<Value, Failure> {
    let predict = |setting: &Setting| {
        let here = case.predict(&question.forecast, setting, cell)?;
        progress.advance(1);
        Ok(here.as_ref().map(of_prediction))
    };
    let predicted = settings.iter().map(predict).collect::<Result<Vec<_>, Failure>>()?;
    Ok(json!({
        "policy": cell.measured.policy,
        "capacity": cell.measured.capacity,
        "miss_ratio": cell.measured.miss_ratio,
        "byte_miss_ratio": case.byte_miss_ratio(cell),
        "predicted": predicted,
    }))
}

fn of_prediction(it: &Predicted) -> Value {
    json!({
        "mops": it.throughput_mops,
        "low_mops": it.range_mops[0],
        "high_mops": it.range_mops[1],
        "response_us": it.response_us,
        "bottleneck": it.bottleneck,
        "p_star": it.p_star,
    })
}

fn of_workload(workload: &WorkloadProfile) -> Value {
    let WorkloadProfile { working_set, sizes, .. } = workload;
    let sets = working_set.iter().map(|it| json!([it.requests, it.objects, it.recent]));
    let sizes = sizes.as_ref().map(|sizes| {
        sizes.iter().map(|it| json!([it.bytes, it.objects, it.footprint])).collect::<Vec<_>>()
    });
    json!({
        "popularity": workload.popularity,
        "zipf_alpha": workload.zipf_alpha,
        "reuse": workload.reuse,
        "working_set": sets.collect::<Vec<_>>(),
        "one_hit_objects": workload.one_hit_objects,
        "one_hit_requests": workload.one_hit_requests,
        "sizes": sizes,
    })
}

/// The assumptions of the answer.
fn assumptions(advice: &Advice<'_>) -> Vec<String> {
    let Setting { cores, backend_us, mpl } = advice.forecast.setting;
    let mut assumed = vec![
        format!(
            "The machine has {}, {} requests are in flight at a time, and a miss waits \
             {backend_us} µs for a backend that serves any number at once.",
            counted(cores, "core"),
            grouped(mpl as u64)
        ),
        format!(
            "The costs of operations were measured on {}, with {}{}.",
            advice.forecast.machine(),
            counted(advice.forecast.measured_cores(), "core"),
            if advice.forecast.is_measured() {
                ""
            } else {
                ": contention among more cores is extrapolated, and may be off by more than the \
                 printed range"
            }
        ),
        "The prediction covers the cache alone. Copying values, a protocol and the rest of the \
         program take time in addition."
            .to_owned(),
        "Future requests are assumed to be like the trace: its objects, popularity and order."
            .to_owned(),
        "Throughputs within 5 % are a tie, which the fewest misses win. Without a goal a size is \
         worth its memory as long as one more percent of memory avoids at least one percent of \
         the avoidable misses."
            .to_owned(),
    ];
    if advice.cases.iter().any(|case| case.delays) {
        assumed.push(format!(
            "A delayed hit is a request in flight while it waits. Delayed hits are known for a \
             backend of {backend_us} µs, and left out for other backends."
        ));
    }
    // `sure` has more on samples taken here, not by a recording.
    let recorded = |case: &&Case<'_>| case.loaded.origin.sampled.is_none();
    for case in advice.cases.iter().filter(|case| case.loaded.origin.rate() < 1.0).filter(recorded)
    {
        assumed.push(format!(
            "{}: the records of {} of the objects were replayed, at that share of each size.",
            case.title(),
            percent(case.loaded.origin.rate())
        ));
    }
    if advice.policies.iter().any(Candidate::freezes) {
        assumed.push(super::text::frozen_assumptions(advice));
    }
    assumed
}
