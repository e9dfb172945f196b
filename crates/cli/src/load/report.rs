//! Prints a measurement.

use std::path::Path;

use frazil_simulator::trace::printable;
use serde_json::{Map, Value};

use super::Outcome;
use crate::output::{self, Output, Row, grouped, percent, row};

/// The measurement in one of the three forms.
pub(super) fn text(outcome: &Outcome<'_>, form: Output) -> String {
    match form {
        Output::Json => output::json(&[row(outcome)]),
        Output::Csv => output::csv(&[row(outcome)]),
        Output::Table => table(outcome),
    }
}

/// Processor time in microseconds for each answered request.
fn each(outcome: &Outcome<'_>, seconds: f64) -> f64 {
    seconds * 1e6 / outcome.measured.counts.answered().max(1) as f64
}

/// Hits, as a share of the gets answered with a value or a miss.
fn hit_ratio(outcome: &Outcome<'_>) -> Option<f64> {
    let counts = &outcome.measured.counts;
    let gets = counts.hits + counts.misses;
    (gets > 0).then(|| counts.hits as f64 / gets as f64)
}

fn row(outcome: &Outcome<'_>) -> Row {
    let measured = &outcome.measured;
    let counts = &measured.counts;
    let seconds = measured.elapsed.as_secs_f64();
    let of_server =
        |part: fn(&super::Used) -> f64| outcome.used.as_ref().map(|it| each(outcome, part(it)));
    let errors: Map<String, Value> =
        counts.errors.iter().map(|(kind, &count)| (kind.clone(), count.into())).collect();
    row! {
        "server" => outcome.target.to_string(),
        "workload" => outcome.workload,
        "connections" => outcome.connections,
        "pipeline" => outcome.depth,
        "seconds" => seconds,
        "requests" => counts.answered(),
        "requests_per_second" => counts.answered() as f64 / seconds,
        "hits" => counts.hits,
        "misses" => counts.misses,
        "hit_ratio" => hit_ratio(outcome),
        "miss_ratio" => hit_ratio(outcome).map(|ratio| 1.0 - ratio),
        "sets" => counts.sets,
        "deletes" => counts.deletes,
        "errors" => errors,
        "closed_connections" => counts.closed,
        "p50_ns" => measured.latencies.quantile_ns(0.5),
        "p99_ns" => measured.latencies.quantile_ns(0.99),
        "p999_ns" => measured.latencies.quantile_ns(0.999),
        "mean_ns" => measured.mean_ns(),
        "server_cpu_us" => of_server(|it| (it.user + it.system).as_secs_f64()),
        "server_user_us" => of_server(|it| it.user.as_secs_f64()),
        "server_system_us" => of_server(|it| it.system.as_secs_f64()),
        "load_cpu_us" => measured.own.map(|own| each(outcome, own.as_secs_f64())),
        "load_cpu_share" => outcome.own_share(),
        "load_saturated" => outcome.is_saturated(),
        "in_flight" => measured.in_flight(),
        "little" => measured.little(),
    }
}

fn table(outcome: &Outcome<'_>) -> String {
    let measured = &outcome.measured;
    let counts = &measured.counts;
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    let quantile = |share| us(measured.latencies.quantile_ns(share) as f64);
    let name = Path::new(&outcome.workload).file_name().unwrap_or_default().to_string_lossy();
    let workload = if outcome.is_replay { printable(&name) } else { outcome.workload.clone() };
    let per_second = counts.answered() as f64 / measured.elapsed.as_secs_f64();
    let mut cells = vec![
        ("server", outcome.target.to_string()),
        ("workload", workload),
        ("connections", outcome.connections.to_string()),
        ("requests at once", outcome.depth.to_string()),
        ("seconds", format!("{:.2}", measured.elapsed.as_secs_f64())),
        ("requests", grouped(counts.answered())),
        ("requests/s", grouped(per_second as u64)),
        ("gets", grouped(counts.hits + counts.misses)),
        ("misses", grouped(counts.misses)),
        ("miss ratio", hit_ratio(outcome).map_or("-".to_owned(), |ratio| percent(1.0 - ratio))),
        ("sets", grouped(counts.sets)),
        ("deletes", grouped(counts.deletes)),
        ("errors", grouped(counts.refused())),
        ("latency, p50", quantile(0.5)),
        ("latency, p99", quantile(0.99)),
        ("latency, p99.9", quantile(0.999)),
        ("latency, mean", us(measured.mean_ns())),
        ("in flight", format!("{:.1}", measured.in_flight())),
        ("little", format!("{:.3}", measured.little())),
    ];
    let server = outcome.used.as_ref().map_or("unknown".to_owned(), |used| {
        let [user, system] = [used.user, used.system].map(|it| each(outcome, it.as_secs_f64()));
        format!("{:.3} us a request: {user:.3} user, {system:.3} system", user + system)
    });
    cells.push(("server's processor", server));
    let own = measured.own.zip(outcome.own_share()).map_or("unknown".to_owned(), |(own, share)| {
        let own = each(outcome, own.as_secs_f64());
        format!("{own:.3} us a request, {} of a core", percent(share))
    });
    cells.push(("load's processor", own));
    if outcome.is_saturated() == Some(true) {
        cells.push(("limited by", "the load, which had no time to spare".to_owned()));
    }
    let widest = cells.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines = cells.iter().map(|(name, cell)| format!("{name:<widest$}  {cell}\n"));
    let mut text: String = lines.collect();
    for (kind, count) in &counts.errors {
        text += &format!("error, {}: {kind}\n", grouped(*count));
    }
    if counts.closed > 0 {
        text += &format!("connections that the server closed: {}\n", grouped(counts.closed));
    }
    if outcome.depth > 1 {
        text += &format!(
            "latencies are those of {} requests sent at once, until the last reply\n",
            outcome.depth
        );
    }
    text
}
