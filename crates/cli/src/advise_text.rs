//! How the advice is put: the table for people, and the rows for scripts.

use std::fmt::Write;

use frazil_simulator::Unit;
use frazil_simulator::trace::printable;
use serde_json::json;

use crate::advise::Advice;
use crate::output::{self, Row, grouped, percent, row};
use crate::recommend::{Measured, Recommendation, Winner};

/// One `cell` row per policy × size, then the `recommendation`.
pub(crate) fn json(advice: &Advice<'_>) -> Vec<Row> {
    let name = |cell: &Measured| advice.policies[cell.policy].to_string();
    let cell = |cell: &crate::advise::Replayed| {
        row! {
            "kind" => "cell",
            "policy" => name(&cell.measured),
            "capacity" => cell.measured.capacity,
            "unit" => advice.unit.to_string(),
            "requests" => cell.outcome.requests,
            "misses" => cell.outcome.misses(),
            "miss_ratio" => cell.measured.miss_ratio,
            "work_per_hit" => cell.measured.work_per_hit,
        }
    };
    let Recommendation { winner, marginal_gain, .. } = &advice.recommendation;
    let others = |cells: &[Measured]| -> Vec<_> {
        let other = |cell: &Measured| {
            json!({
                "policy": name(cell),
                "miss_ratio": cell.miss_ratio,
                "work_per_hit": cell.work_per_hit,
            })
        };
        cells.iter().map(other).collect()
    };
    let recommendation = row! {
        "kind" => "recommendation",
        "policy" => name(&winner.chosen),
        "capacity" => winner.chosen.capacity,
        "unit" => advice.unit.to_string(),
        "miss_ratio" => winner.chosen.miss_ratio,
        "reason" => reason(advice),
        "ties" => others(&winner.ties),
        "runners_up" => others(&winner.beaten),
        "marginal_gain" => marginal_gain,
    };
    advice.cells.iter().map(cell).chain([recommendation]).collect()
}

/// The table policy × size, and the answer under it.
pub(crate) fn table(advice: &Advice<'_>) -> String {
    let names: Vec<String> = advice.policies.iter().map(ToString::to_string).collect();
    let mut headers = vec!["capacity", "of all"];
    headers.extend(names.iter().map(String::as_str));
    headers.push("use");
    let rows = advice.winners.iter().zip(advice.cells.chunks(names.len()));
    let rows = rows.map(|(winner, size)| {
        let capacity = winner.chosen.capacity;
        let mut row = vec![amount(advice.unit, capacity), share(advice, capacity)];
        row.extend(size.iter().map(|cell| percent(cell.measured.miss_ratio)));
        row.push(names[winner.chosen.policy].clone());
        row
    });
    let table = output::table(&headers, &["use"], rows.collect());
    let chosen = &advice.recommendation.winner.chosen;
    let mut text = format!(
        "{}: {} requests, {} objects. Miss ratio by capacity and policy:\n\n{table}\n",
        printable(advice.trace),
        grouped(advice.requests),
        grouped(advice.objects)
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "Use {} with a capacity of {} ({}).\n",
        names[chosen.policy],
        amount(advice.unit, chosen.capacity),
        share(advice, chosen.capacity)
    );
    for sentence in sentences(advice) {
        let _ = writeln!(text, "  {sentence}");
    }
    text
}

fn reason(advice: &Advice<'_>) -> String {
    sentences(advice).join(" ")
}

fn sentences(advice: &Advice<'_>) -> Vec<String> {
    let Recommendation { winner, .. } = &advice.recommendation;
    let mut sentences = vec![why_policy(advice, winner), why_size(advice)];
    if !winner.beaten.is_empty() {
        let list: Vec<String> = winner
            .beaten
            .iter()
            .map(|cell| format!("{} ({})", advice.policies[cell.policy], percent(cell.miss_ratio)))
            .collect();
        sentences.push(format!("Runners-up: {}.", list.join(", ")));
    }
    sentences
}

fn why_policy(advice: &Advice<'_>, winner: &Winner) -> String {
    let chosen = &winner.chosen;
    let name = &advice.policies[chosen.policy];
    let misses = percent(chosen.miss_ratio);
    if winner.ties.is_empty() {
        return format!("Policy: {name} misses {misses}, the fewest by more than 0.5 points.");
    }
    let list: Vec<String> = winner
        .ties
        .iter()
        .map(|cell| {
            let name = &advice.policies[cell.policy];
            format!("{name} ({}, {:.2})", percent(cell.miss_ratio), cell.work_per_hit)
        })
        .collect();
    format!(
        "Policy: {name} misses {misses} and does {:.2} list or mark operations a hit; \
         within 0.5 points of the fewest misses, but with no less work: {}.",
        chosen.work_per_hit,
        list.join(", ")
    )
}

fn why_size(advice: &Advice<'_>) -> String {
    let Recommendation { winner, marginal_gain, still_gaining, cliff } = &advice.recommendation;
    let chosen = &winner.chosen;
    let name = &advice.policies[chosen.policy];
    let mut text = match marginal_gain {
        None => "Size: it holds every object of the trace.".to_owned(),
        Some(gain) => {
            let twice = chosen.capacity.saturating_mul(2).min(advice.everything);
            let gain = format!(
                "one more step, to {}, would save {:.2} points with {name}",
                amount(advice.unit, twice),
                gain * 100.0
            );
            if *still_gaining {
                format!("Size: the largest compared; {gain}, so compare larger ones.")
            } else {
                format!("Size: the smallest whose doubling gains less than a point: {gain}.")
            }
        }
    };
    if let Some(cliff) = cliff {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            " Beware: past that flat stretch the curve falls again; {} would save {:.1} points with {}.",
            amount(advice.unit, cliff.capacity),
            (chosen.miss_ratio - cliff.miss_ratio) * 100.0,
            advice.policies[cliff.policy]
        );
    }
    text
}

fn amount(unit: Unit, capacity: u64) -> String {
    match unit {
        Unit::Objects if capacity == 1 => "1 object".to_owned(),
        Unit::Objects => format!("{} objects", grouped(capacity)),
        Unit::Bytes => output::bytes(capacity),
    }
}

fn share(advice: &Advice<'_>, capacity: u64) -> String {
    if capacity > advice.everything {
        return "over 100 %".to_owned();
    }
    percent(capacity as f64 / advice.everything.max(1) as f64)
}
