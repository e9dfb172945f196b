//! The answer for several traces: its figures on each, beside the best choice for that trace. Rows
//! for scripts also name the trace of each figure.

use serde_json::{Value, json};

use super::board::Board;
use super::case::{Case, Replayed};
use super::choice::{Choice, Verdict};
use super::recommend::{Measured, winner};
use super::text::{amount, mops, time, told_share};
use super::{Advice, Beside};
use crate::output::{self, percent};

/// Marks the trace that decides the answer.
const MARK: &str = " (worst)";

/// The answer on one trace.
pub(super) struct OnTrace<'a> {
    case: &'a Case<'a>,
    cell: &'a Replayed,
    there: &'a Beside,
    /// Whether this trace, of several, decides the answer.
    is_worst: bool,
    /// Whether it ties with the fastest there.
    ties: bool,
    /// The recommendation if this were the only trace, among the sizes compared; or the reason for
    /// none.
    alone: Result<Measured, &'static str>,
}

/// The choice, on each trace. Empty if the answer is no cache, or no size comes near the target.
pub(super) fn by_trace<'a>(advice: &'a Advice<'a>) -> Vec<OnTrace<'a>> {
    if matches!(advice.choice.verdict, Verdict::Hopeless | Verdict::Dear) {
        return Vec::new();
    }
    advice.on_each.iter().filter_map(|there| on_trace(advice, there)).collect()
}

fn on_trace<'a>(advice: &'a Advice<'a>, there: &'a Beside) -> Option<OnTrace<'a>> {
    let case = &advice.cases[there.case];
    let Measured { policy, capacity, .. } = there.chosen;
    let of_size: Vec<Measured> = case.of_size(capacity).collect();
    let winner = winner(&of_size)?;
    Some(OnTrace {
        case,
        cell: case.cell(policy, capacity)?,
        there,
        is_worst: advice.cases.len() > 1 && there.case == advice.worst.case,
        ties: winner.beaten.iter().all(|beaten| beaten.policy != policy),
        alone: alone(advice, there.case),
    })
}

/// The choice from one trace's cells.
fn alone(advice: &Advice<'_>, case: usize) -> Result<Measured, &'static str> {
    let board = Board::new(&advice.cases[case..=case], &advice.memory);
    let choice = Choice::of(&board, advice.goal.as_ref()).ok_or("-")?;
    match choice.verdict {
        Verdict::Balanced | Verdict::Goal => Ok(choice.winner.chosen),
        Verdict::Unmet => Err("no size"),
        Verdict::Dear | Verdict::Hopeless => Err("no cache"),
    }
}

impl OnTrace<'_> {
    fn p99_us(&self) -> Option<f64> {
        self.cell.latencies.as_ref().map(|it| it.all.p99_us)
    }
}

/// The rows for scripts and for the report.
pub(super) fn by_trace_json(advice: &Advice<'_>) -> Vec<Value> {
    let name = |cell: &Measured| advice.policies[cell.policy].to_string();
    let of = |it: OnTrace<'_>| {
        let Measured { capacity, miss_ratio, mops, .. } = it.there.chosen;
        let latencies = it.cell.latencies.as_ref();
        json!({
            "trace": it.case.name,
            "is_worst": it.is_worst,
            "miss_ratio": miss_ratio,
            "byte_miss_ratio": it.case.byte_miss_ratio(it.cell),
            "throughput_mops": mops,
            "mean_us": it.cell.mean_us(),
            "p50_us": latencies.map(|it| it.all.p50_us),
            "p99_us": it.p99_us(),
            "best": {
                "policy": name(&it.there.best),
                "miss_ratio": it.there.best.miss_ratio,
                "throughput_mops": it.there.best.mops,
            },
            "share_of_best": it.there.share_of_best(),
            "ties": it.ties,
            "alone": it.alone.ok().map(|alone| json!({
                "policy": name(&alone),
                "capacity": alone.capacity,
                "miss_ratio": alone.miss_ratio,
                "throughput_mops": alone.mops,
            })),
            "sample_rate": it.case.loaded.origin.rate(),
            "miss_ratio_standard_error": it.case.error(capacity),
        })
    };
    by_trace(advice).into_iter().map(of).collect()
}

/// The rows for people, below their heading. Empty unless there are several traces.
pub(super) fn by_trace_table(advice: &Advice<'_>) -> String {
    let rows = by_trace(advice);
    if advice.cases.len() < 2 || rows.is_empty() {
        return String::new();
    }
    let headers = ["trace", "misses", "M/s", "mean", "p99", "fastest there", "behind", "alone"];
    let row = |it: OnTrace<'_>| {
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), time);
        let mark = if it.is_worst { MARK } else { "" };
        let best = &it.there.best;
        vec![
            it.case.title() + mark,
            told_share(advice, it.there.chosen.miss_ratio),
            mops(it.there.chosen.mops),
            us(it.cell.mean_us()),
            us(it.p99_us()),
            format!("{} ({} M/s)", advice.policies[best.policy], mops(best.mops)),
            behind(&it),
            told_alone(advice, &it),
        ]
    };
    let left = ["trace", "fastest there", "alone"];
    let rows = rows.into_iter().map(row).collect();
    format!("{}:\n\n{}\n", by_trace_title(advice), output::table(&headers, &left, rows))
}

/// The heading of the rows.
pub(super) fn by_trace_title(advice: &Advice<'_>) -> String {
    let chosen = &advice.choice.winner.chosen;
    format!(
        "{} with {} on each trace, beside the fastest there of that size, and what of these sizes, \
         with this goal, would be recommended for it alone",
        advice.policies[chosen.policy],
        amount(advice.unit, chosen.capacity)
    )
}

/// The distance of the answer from the fastest, in words.
fn behind(it: &OnTrace<'_>) -> String {
    match it.there.share_of_best() {
        Some(_) if it.there.best.policy == it.there.chosen.policy => "it is that".to_owned(),
        Some(share) if it.ties => format!("{}, a tie", percent(1.0 - share)),
        Some(share) => percent(1.0 - share),
        None => "-".to_owned(),
    }
}

fn told_alone(advice: &Advice<'_>, it: &OnTrace<'_>) -> String {
    it.alone.map_or_else(str::to_owned, |it| {
        format!("{}, {}", advice.policies[it.policy], amount(advice.unit, it.capacity))
    })
}

/// The rows for the report, in its order of columns.
pub(super) fn by_trace_report(advice: &Advice<'_>) -> Value {
    let rows = if advice.cases.len() > 1 { by_trace(advice) } else { Vec::new() };
    let row = |it: OnTrace<'_>| {
        json!({
            "name": it.case.title(),
            "is_worst": it.is_worst,
            "miss_ratio": it.there.chosen.miss_ratio,
            "mops": it.there.chosen.mops,
            "mean_us": it.cell.mean_us(),
            "p99_us": it.p99_us(),
            "best": advice.policies[it.there.best.policy].to_string(),
            "best_mops": it.there.best.mops,
            "behind": behind(&it),
            "alone": told_alone(advice, &it),
        })
    };
    json!({ "title": by_trace_title(advice), "rows": rows.into_iter().map(row).collect::<Vec<_>>() })
}

/// The traces of a cell's figures, each of which is the worst of all; `null` unless there are
/// several.
pub(super) fn worst_on(advice: &Advice<'_>, policy: usize, capacity: u64) -> Value {
    if advice.cases.len() < 2 {
        return Value::Null;
    }
    let largest = |value: fn(&Case<'_>, &Replayed) -> Option<f64>| {
        let of = |case: &Case<'_>| {
            Some((case.name.to_owned(), value(case, case.cell(policy, capacity)?)?))
        };
        let all = advice.cases.iter().filter_map(of);
        all.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(name, _)| name)
    };
    json!({
        "miss_ratio": largest(|_, cell| Some(cell.measured.miss_ratio)),
        "byte_miss_ratio": largest(|case, cell| case.byte_miss_ratio(cell)),
        "throughput_mops": largest(|_, cell| cell.measured.mops.map(|mops| -mops)),
        "latency": largest(|_, cell| cell.latencies.as_ref().map(|it| it.all.p99_us)),
    })
}
