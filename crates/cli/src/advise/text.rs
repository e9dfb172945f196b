//! The advice as text: the table for people, and the rows for scripts.

use std::fmt::Write as _;

use frazil_policy::PolicySpec;
use frazil_simulator::Unit;
use serde_json::{Value, json};

use super::Advice;
use super::by_trace::{by_trace_json, by_trace_table, worst_on};
use super::candidate::{Candidate, SHARES};
use super::case::{Case, FrozenPart, Replayed};
use super::choice::Verdict;
use super::latency::{self, latencies, latencies_json};
use super::recommend::{Limit, Measured, TIE, Winner};
use super::told::{
    bytes, cautions, goal_json, growth, is_rough, knees_json, named, price_sources, sizes_json,
    why_size, worth,
};
use crate::forecast::{Costs, Predicted, Setting};
use crate::output::{self, Row, grouped, percent, row};

/// A peak above this hit ratio counts as one at 1.
const NEVER: f64 = 0.9995;
/// Below this hit ratio a cache does not pay for its memory.
const WORTHWHILE: f64 = 0.02;
/// The least loss of throughput that the rounded output shows.
pub(super) const TOLD: f64 = 5e-4;

/// One `cell` row per policy × size, then the `recommendation`.
pub(crate) fn json(advice: &Advice<'_>) -> Vec<Row> {
    let name = |cell: &Measured| advice.policies[cell.policy].to_string();
    let winner = &advice.choice.winner;
    // If no cache helps, the row has none that a script could configure by mistake.
    let chosen = advice.choice.is_size().then_some(&winner.chosen);
    let Setting { cores, backend_us, mpl } = advice.forecast.setting;
    let limit = |limit: &Limit| {
        json!({
            "policy": name(&limit.best),
            "capacity": limit.best.capacity,
            "throughput_mops": limit.best.mops,
            "at_largest_mops": limit.largest.mops,
        })
    };
    let others = |cells: &[Measured]| -> Vec<_> {
        let other = |cell: &Measured| {
            // With several traces, each figure is from the trace on which it is worst.
            let row = advice.board.at(cell.capacity);
            let kept = row.and_then(|row| row.entry(cell.policy)).map(|entry| entry.kept);
            json!({
                "policy": name(cell),
                "miss_ratio": kept.map(|it| it.miss_ratio),
                "work_per_hit": cell.work_per_hit,
                "throughput_mops": kept.and_then(|it| it.mops),
                "worst_on": worst_on(advice, cell.policy, cell.capacity),
            })
        };
        cells.iter().map(other).collect()
    };
    let (kept, Measured { policy, capacity, .. }) = (&advice.choice.kept, winner.chosen);
    let latency = latencies(advice, policy, capacity);
    let misses =
        |case: &Case<'_>| case.cell(policy, capacity).map_or(0.0, |cell| cell.measured.miss_ratio);
    let missed = advice.cases.iter().max_by(|one, other| misses(one).total_cmp(&misses(other)));
    let recommendation = row! {
        "kind" => "recommendation",
        "policy" => chosen.map(name),
        "capacity" => chosen.map(|it| it.capacity),
        "unit" => advice.unit.to_string(),
        "share_of_everything" => chosen.map(|it| it.capacity as f64 / advice.everything.max(1) as f64),
        "miss_ratio" => kept.miss_ratio,
        "byte_miss_ratio" => kept.byte_miss_ratio,
        "throughput_mops" => kept.mops,
        "p50_us" => latency.map(|it| it.all.p50_us),
        "p99_us" => latency.map(|it| it.all.p99_us),
        "latency" => latencies_json(latency),
        "worst_on" => worst_on(advice, policy, capacity),
        "worst_trace" => worst_trace(advice),
        "share_of_best" => advice.worst.share_of_best(),
        "traces" => by_trace_json(advice),
        // On the trace of the miss ratio.
        "sample_rate" => missed.map(|case| case.loaded.origin.rate()),
        "miss_ratio_standard_error" => missed.and_then(|case| case.error(capacity)),
        "cores" => cores,
        "backend_us" => backend_us,
        "mpl" => mpl,
        "contention" => if advice.forecast.is_measured() { "measured" } else { "extrapolated" },
        "reason" => reason(advice),
        "ties" => others(&winner.ties),
        "runners_up" => others(&winner.beaten),
        "marginal_gain" => advice.marginal_gain,
        "do_not_grow_past" => advice.limits.iter().map(limit).collect::<Vec<_>>(),
        "sizes" => sizes_json(advice),
        "cliff" => named(advice).iter().find(|it| it.is_cliff()).map(|it| it.capacity),
        "knees" => knees_json(advice),
        "goal" => goal_json(advice),
        "avoidable" => advice.board.avoidable,
        "cautions" => cautions(advice),
    };
    let cells =
        advice.cases.iter().flat_map(|case| case.cells.iter().map(move |cell| (case, cell)));
    cells.map(|(case, cell)| cell_row(advice, case, cell)).chain([recommendation]).collect()
}

fn cell_row(advice: &Advice<'_>, case: &Case<'_>, cell: &Replayed) -> Row {
    let costs = advice.forecast.costs_of(&advice.policies[cell.measured.policy].policy());
    let predicted = |of: fn(&Predicted) -> Value| cell.predicted.as_ref().map(of);
    row! {
        "kind" => "cell",
        "trace" => case.name,
        "policy" => advice.policies[cell.measured.policy].to_string(),
        "capacity" => cell.measured.capacity,
        "unit" => advice.unit.to_string(),
        "requests" => cell.outcome.requests,
        "misses" => cell.outcome.misses(),
        "miss_ratio" => cell.measured.miss_ratio,
        "byte_miss_ratio" => case.byte_miss_ratio(cell),
        "work_per_hit" => cell.measured.work_per_hit,
        "throughput_mops" => predicted(|it| json!(it.throughput_mops)),
        "throughput_low_mops" => predicted(|it| json!(it.range_mops[0])),
        "throughput_high_mops" => predicted(|it| json!(it.range_mops[1])),
        // Includes delayed hits if they are known, as in targets.
        "response_us" => cell.mean_us(),
        "p50_us" => cell.latencies.as_ref().map(|it| it.all.p50_us),
        "p99_us" => cell.latencies.as_ref().map(|it| it.all.p99_us),
        "latency" => latencies_json(cell.latencies.as_ref()),
        "bottleneck" => predicted(|it| json!(it.bottleneck)),
        "p_star" => predicted(|it| json!(it.p_star)),
        "costs" => costs.map_or("unknown", Costs::kind),
        "costs_of" => costs.map(Costs::name),
        "frozen_share" => cell.frozen.map(|it| it.share),
        "frozen_hits" => cell.frozen.and_then(|it| it.hits),
        "expired" => case.lifetimes.as_ref().map(|_| cell.outcome.expired),
        "lifetimes" => case.lifetimes,
    }
}

/// The trace that decides the recommendation, if there are several.
fn worst_trace<'a>(advice: &Advice<'a>) -> Option<&'a str> {
    (advice.cases.len() > 1).then(|| advice.cases[advice.worst.case].name)
}

/// The trace of the figures, if there are several.
pub(super) fn on_worst(advice: &Advice<'_>) -> String {
    if advice.cases.len() == 1 {
        return String::new();
    }
    format!(" on {}", advice.cases[advice.worst.case].title())
}

/// Cells as a table, a line a size.
fn by_size(advice: &Advice<'_>, case: &Case<'_>, cell: impl Fn(&Replayed) -> String) -> String {
    let last = "use";
    let names: Vec<String> = advice.policies.iter().map(ToString::to_string).collect();
    let mut headers = vec!["capacity", "of all"];
    headers.extend(advice.shows_memory().then_some("memory"));
    headers.extend(names.iter().map(String::as_str));
    headers.push(last);
    // Cells replayed only to find the sizes are printed only for scripts.
    let shown = advice.board.rows.iter().filter(|row| advice.shown.contains(&row.capacity));
    let rows = shown.map(|of_size| {
        let capacity = of_size.capacity;
        let mut row = vec![amount(advice.unit, capacity), share(case.everything, capacity)];
        row.extend(advice.shows_memory().then(|| bytes(advice, &of_size.winner.chosen)));
        let cells = (0..names.len()).map(|policy| case.cell(policy, capacity));
        row.extend(cells.map(|known| known.map_or_else(|| "-".to_owned(), &cell)));
        row.push(names[of_size.winner.chosen.policy].clone());
        row
    });
    output::table(&headers, &[last], rows.collect())
}

/// The cautions, the tables policy × size, and the answer under them.
pub(crate) fn table(advice: &Advice<'_>) -> String {
    let mut text = String::new();
    for caution in cautions(advice) {
        text += &output::wrapped(&caution, "", "    ");
        text.push('\n');
    }
    text.extend(advice.cases.iter().map(|case| of_case(advice, case)));
    text += &worth(advice);
    text += &output::wrapped(&answer(advice), "", "    ");
    text.push('\n');
    text += &by_trace_table(advice);
    for sentence in sentences(advice) {
        text += &output::wrapped(&sentence, "  ", "    ");
    }
    text
}

fn of_case(advice: &Advice<'_>, case: &Case<'_>) -> String {
    let misses = by_size(advice, case, |cell| percent(cell.measured.miss_ratio));
    let speeds = by_size(advice, case, |cell| mops(cell.measured.mops));
    let bytes = match advice.unit {
        Unit::Objects => String::new(),
        Unit::Bytes => {
            let of = |cell: &Replayed| case.byte_miss_ratio(cell).map_or_else(String::new, percent);
            format!("Share of bytes that is missed:\n\n{}\n", by_size(advice, case, of))
        }
    };
    let Setting { cores, backend_us, mpl } = advice.forecast.setting;
    let title = format!(
        "{}: {} requests, {}{} objects. Miss ratio by capacity and policy:",
        case.title(),
        grouped(case.requests()),
        if case.loaded.origin.sampled.is_some() { "about " } else { "" },
        grouped(case.objects()),
    );
    format!(
        "{}\n{misses}\n{bytes}\
         Predicted million requests a second: {}, {} at a time, {} µs for a miss:\n\n{speeds}\n",
        output::wrapped(&title, "", "    "),
        counted(cores, "core"),
        grouped(mpl as u64),
        backend_us
    )
}

/// The answer in a sentence.
pub(super) fn answer(advice: &Advice<'_>) -> String {
    match advice.choice.verdict {
        Verdict::Hopeless => return "Use no cache: none helps here.".to_owned(),
        Verdict::Dear => {
            return "Use no cache: at these prices none is worth its memory.".to_owned();
        }
        Verdict::Unmet => {
            return "Use none of these: no size compared reaches the goal.".to_owned();
        }
        Verdict::Balanced | Verdict::Goal => {}
    }
    let chosen = &advice.choice.winner.chosen;
    let (size, of_all) = if is_rough(advice) {
        rough(advice, chosen.capacity)
    } else {
        (amount(advice.unit, chosen.capacity), share(advice.everything, chosen.capacity))
    };
    let memory = if advice.shows_memory() {
        format!(", {} of memory", bytes(advice, chosen))
    } else {
        String::new()
    };
    format!(
        "Use {} with a capacity of {size} ({of_all}{}{memory}){}.",
        advice.policies[chosen.policy],
        if advice.cases.len() > 1 { " of the largest trace" } else { "" },
        if most_hits(advice) < WORTHWHILE { ", though no cache of these sizes helps" } else { "" }
    )
}

/// A size, and its share of everything, with the few digits of an estimate.
fn rough(advice: &Advice<'_>, capacity: u64) -> (String, String) {
    let of_all = capacity as f64 / advice.everything.max(1) as f64 * 100.0;
    // Two digits.
    let unit = 10u64.saturating_pow(capacity.max(1).ilog10().saturating_sub(1));
    let size = amount(advice.unit, (capacity / unit).saturating_mul(unit));
    (format!("about {size}"), format!("about {:.0} %", of_all.max(1.0)))
}

/// A share in a sentence, with the few digits of an estimate if figures are rough.
pub(super) fn told_share(advice: &Advice<'_>, share: f64) -> String {
    if is_rough(advice) { format!("some {:.0} %", share * 100.0) } else { percent(share) }
}

fn reason(advice: &Advice<'_>) -> String {
    let mut all = cautions(advice);
    all.extend(sentences(advice));
    all.join(" ")
}

fn sentences(advice: &Advice<'_>) -> Vec<String> {
    let mut sentences = reasons(advice);
    sentences.extend(sure(advice));
    if advice.policies.iter().any(Candidate::freezes) {
        sentences.push(frozen_assumptions(advice));
    }
    sentences
}

/// Why this policy and this size.
pub(super) fn reasons(advice: &Advice<'_>) -> Vec<String> {
    let winner = &advice.choice.winner;
    if !advice.choice.is_size() {
        let needed = [price_sources(advice), latency::needs_hits(advice)];
        return [why_size(advice)].into_iter().chain(needed.into_iter().flatten()).collect();
    }
    let mut sentences = vec![why_policy(advice, winner), why_size(advice)];
    sentences.extend(price_sources(advice));
    sentences.extend(latency::sentence(advice));
    sentences.extend(latency::needs_hits(advice));
    sentences.extend(what_limits(advice, &advice.worst.chosen));
    sentences.extend(growth(advice));
    if !winner.beaten.is_empty() {
        let list: Vec<String> = winner.beaten.iter().map(|cell| figures(advice, cell)).collect();
        sentences.push(format!("Runners-up: {}.", list.join(", ")));
    }
    if advice.policies.iter().any(Candidate::freezes) {
        sentences.extend(what_is_frozen(advice, &winner.chosen));
    }
    sentences
}

/// The highest hit ratio of any policy at any size on any trace.
fn most_hits(advice: &Advice<'_>) -> f64 {
    let cells = advice.cases.iter().flat_map(|case| &case.cells);
    1.0 - cells.map(|cell| cell.measured.miss_ratio).fold(1.0, f64::min)
}

/// If no cache helps: objects are requested again too late, or never.
pub(super) fn hopeless(advice: &Advice<'_>) -> Option<String> {
    let most = most_hits(advice);
    let none_helps = most < WORTHWHILE || matches!(advice.choice.verdict, Verdict::Hopeless);
    none_helps.then(|| {
        format!(
            "Beware: no cache compared hits more than {} of requests. If that is a surprise, \
             check that the right column was read as ids (frazil trace info, --format, --columns).",
            percent(most)
        )
    })
}

/// The certainty of the answer: samples, and the sources of costs.
pub(super) fn sure(advice: &Advice<'_>) -> Vec<String> {
    let mut sentences: Vec<String> =
        advice.cases.iter().filter_map(|case| sampled(advice, case)).collect();
    let mut told = Vec::new();
    for policy in advice.policies.iter().map(Candidate::policy) {
        if !told.contains(&policy) {
            sentences.extend(whose_costs(advice, &policy));
            told.push(policy);
        }
    }
    sentences
}

/// The population of a sampled trace, and the likely error of its miss ratios.
fn sampled(advice: &Advice<'_>, case: &Case<'_>) -> Option<String> {
    let rate = case.loaded.origin.rate();
    let capacity = advice.choice.winner.chosen.capacity;
    let error = case.error(capacity)?;
    Some(format!(
        "Sampled: {} of the objects{} were replayed, at that share of each size. At this size \
         LRU's miss ratio is likely to be within {:.2} points of that of all objects (two \
         standard errors). That mostly holds for other policies; W-TinyLFU and SIEVE have been \
         off by up to 2 points.",
        percent(rate),
        if advice.cases.len() > 1 { format!(" of {}", case.title()) } else { String::new() },
        error * 200.0
    ))
}

/// The share that the model would freeze at the recommended size.
fn what_is_frozen(advice: &Advice<'_>, chosen: &Measured) -> Option<String> {
    let cells = advice.cases[advice.worst.case].cells.iter();
    let at_size = cells.filter(|cell| cell.measured.capacity == chosen.capacity);
    let part = |cell: &Replayed| {
        let name = &advice.policies[cell.measured.policy];
        let FrozenPart { share, hits } = cell.frozen?;
        Some(match hits {
            None => format!("{name} nothing, because the trace ends before the cache is warm"),
            Some(_) if share == 0.0 => format!("{name} nothing, because no share is faster"),
            Some(hits) => {
                format!(
                    "{name} {} of the entries, for {} of the hits",
                    percent(share),
                    percent(hits)
                )
            }
        })
    };
    let parts: Vec<String> = at_size.filter_map(part).collect();
    (!parts.is_empty()).then(|| format!("Frozen at this size: {}.", parts.join("; ")))
}

/// The assumptions of the prediction for frozen shares.
pub(super) fn frozen_assumptions(advice: &Advice<'_>) -> String {
    let shares: Vec<String> = SHARES.iter().map(|share| format!("{} %", share * 100.0)).collect();
    let look = if advice.forecast.knows_frozen() {
        "as long as the profile says"
    } else {
        "as long as the policy's own look-up, because the profile has no other time"
    };
    format!(
        "Assumptions about freezing: entries are frozen once, when the cache is warm, and not \
         renewed, which is too little if the trace drifts; frozen+ freezes the fastest share of \
         {} or nothing, which its controller finds by measuring; a look-up in the frozen part \
         takes {look}; and a turn costs no more when fewer requests take turns, which flatters \
         freezing if nearly all hit.",
        shares.join(", ")
    )
}

/// The policy whose costs represent those of a policy that was not measured.
fn whose_costs(advice: &Advice<'_>, policy: &PolicySpec) -> Option<String> {
    let given = match advice.forecast.costs_of(policy) {
        Some(Costs::Own(_)) => return None,
        None => "its throughput is unknown, and it is not recommended".to_owned(),
        Some(Costs::Scaled { of, hit_turns }) => {
            format!("it has the costs of {of}, with {hit_turns:.2} times the turns of a hit")
        }
        Some(Costs::Alike(of)) => {
            format!("it has the costs of {of}, and what its parameters change in them is unknown")
        }
    };
    let how = format!("`frazil calibrate --policy {policy} --output FILE` measures it");
    Some(format!("Costs: {policy} is not in the profile; {given}. {how}."))
}

/// A policy with its throughput and misses.
fn figures(advice: &Advice<'_>, cell: &Measured) -> String {
    let name = &advice.policies[cell.policy];
    if advice.cases.len() > 1 {
        return cell.mops.map_or_else(
            || format!("{name} (speed unknown)"),
            |share| format!("{name} (at worst {} of the best)", percent(share)),
        );
    }
    let misses = told_share(advice, cell.miss_ratio);
    match cell.mops {
        Some(_) => format!("{name} ({} M/s, {misses})", mops(cell.mops)),
        None => format!("{name} (speed unknown, {misses})"),
    }
}

fn why_policy(advice: &Advice<'_>, winner: &Winner) -> String {
    if advice.cases.len() > 1 {
        return why_for_all(advice, winner);
    }
    let chosen = &winner.chosen;
    let name = &advice.policies[chosen.policy];
    let (misses, mops) = (told_share(advice, chosen.miss_ratio), mops(chosen.mops));
    let does = format!("Policy: {name} is predicted to serve {mops} M/s and misses {misses}");
    if winner.ties.is_empty() {
        return format!("{does}: {}.", why_alone(advice, winner));
    }
    let list: Vec<String> = winner.ties.iter().map(|cell| figures(advice, cell)).collect();
    if !advice.forecast.is_measured() {
        return format!(
            "{does}. On {} cores the model cannot tell it apart from these, which miss more, or \
             equally often (within half a point) and are no faster: {}.",
            grouped(advice.forecast.setting.cores as u64),
            list.join(", ")
        );
    }
    format!(
        "{does}. These are as fast within 5 %, but miss more, or equally often (within half a \
         point) and are no faster: {}.{}",
        list.join(", "),
        if winner.beaten.is_empty() { " At this size the policy hardly matters." } else { "" }
    )
}

/// The reason for a policy that wins without a tie.
fn why_alone(advice: &Advice<'_>, winner: &Winner) -> &'static str {
    // Policies that miss the target are beaten too, however fast they are.
    match winner.beaten.first().map(|cell| cell.mops) {
        Some(Some(_)) if advice.money().is_some() => match &advice.goal {
            Some(goal) if goal.budget.is_some() || goal.has_targets() => {
                "the cheapest at this size that reaches the targets"
            }
            _ => "the cheapest of all at this size",
        },
        Some(Some(fastest)) if fastest >= winner.chosen.mops.unwrap_or(0.0) * (1.0 - TIE) => {
            "the fastest that reaches the targets"
        }
        Some(Some(_)) => "the fastest by over 5 %",
        _ => "no other of known speed was compared",
    }
}

/// The reason for the policy, for several traces.
fn why_for_all(advice: &Advice<'_>, winner: &Winner) -> String {
    let name = |cell: &Measured| &advice.policies[cell.policy];
    let worst = &advice.worst;
    let behind = 1.0 - worst.share_of_best().unwrap_or(1.0);
    let there = advice.cases[worst.case].title();
    let figures =
        |cell: &Measured| format!("{} M/s, {}", mops(cell.mops), percent(cell.miss_ratio));
    let does = figures(&worst.chosen);
    let mut text = if behind < TOLD {
        format!(
            "Policy: {} is the fastest on every trace, or as good as that; it is slowest on \
             {there}, where it delivers {does} of misses",
            name(&winner.chosen)
        )
    } else {
        format!(
            "Policy: where {} is furthest behind, on {there}, it delivers {does} of misses: {} less \
             than {}, the best there ({})",
            name(&winner.chosen),
            percent(behind),
            name(&worst.best),
            figures(&worst.best)
        )
    };
    if !winner.ties.is_empty() {
        let list: Vec<String> =
            winner.ties.iter().map(|cell| self::figures(advice, cell)).collect();
        // Writing to a string does not fail.
        let near = if advice.forecast.is_measured() {
            "within 5 % of that"
        } else {
            "with overlapping ranges"
        };
        let _ = write!(text, "; {near}: {}", list.join(", "));
    }
    text + "."
}

/// The reason why a cache of twice the size, with no more misses, is slower.
pub(super) fn why_slower(advice: &Advice<'_>, chosen: &Measured) -> &'static str {
    let cell = advice.cases[advice.worst.case].cell(chosen.policy, chosen.capacity);
    match cell.and_then(|cell| cell.predicted.as_ref()) {
        Some(it) if it.p_star[1] > NEVER => {
            ", because slower requests in a larger cache outweigh the added hits"
        }
        Some(it) if it.p_star[1] < 1.0 - chosen.miss_ratio => ", because more hits are slower here",
        // Partly both.
        _ => "",
    }
}

/// The limit of the chosen cell's throughput, and its certainty.
fn what_limits(advice: &Advice<'_>, chosen: &Measured) -> Option<String> {
    let cell = advice.cases[advice.worst.case].cell(chosen.policy, chosen.capacity)?;
    let Predicted { range_mops: [low, high], response_us, bottleneck, p_star, .. } =
        cell.predicted.as_ref()?;
    let limit = limit_name(bottleneck);
    // If more hits are never slower, a larger cache still may be; the output does not mention that.
    let peak = match p_star {
        [_, high] if *high > NEVER => String::new(),
        [_, high] => {
            format!(", and with more than {} of hits at this size throughput falls", percent(*high))
        }
    };
    let sure = if advice.forecast.is_measured() {
        ""
    } else {
        ". Contention among so many cores was not measured, so this is extrapolated"
    };
    let told = [*low, *high].map(|it| mops(Some(it)));
    let range = if low == high {
        format!("{} M/s; the profile has no spread", told[0])
    } else if told[0] == told[1] {
        format!("{} M/s; its costs hardly varied", told[0])
    } else {
        format!("{} to {} M/s, {}", told[0], told[1], range_source(advice))
    };
    let there = on_worst(advice);
    let takes = time(cell.latencies.as_ref().map_or(*response_us, |it| it.all.mean_us));
    Some(format!("Throughput{there}: {range}{sure}. A request takes {takes}; {limit}{peak}."))
}

/// The source of a throughput's range.
pub(super) fn range_source(advice: &Advice<'_>) -> &'static str {
    if advice.forecast.knows_errors() {
        "as calibrations of one machine differ"
    } else {
        "by the spread of the measured costs"
    }
}

/// The limit of the throughput. Any other name is a station where requests take turns.
pub(super) fn limit_name(bottleneck: &str) -> String {
    match bottleneck {
        "backend" => "most requests wait for the backend".to_owned(),
        "cores" => "the cores are busy".to_owned(),
        "none" => "no resource limits it".to_owned(),
        station => format!("requests wait for each other at `{station}`"),
    }
}

/// A time in microseconds, with three digits.
pub(super) fn time(us: f64) -> String {
    let (value, unit) = match us {
        ..1.0 => (us * 1000.0, "ns"),
        1.0..1000.0 => (us, "µs"),
        _ => (us / 1000.0, "ms"),
    };
    let decimals = 2 - value.max(1e-9).log10().floor() as i32;
    format!("{value:.0$} {unit}", decimals.clamp(0, 11) as usize)
}

pub(super) fn mops(mops: Option<f64>) -> String {
    match mops {
        None => "-".to_owned(),
        Some(mops) if mops < 1.0 => output::number(mops, 3),
        Some(mops) if mops < 100.0 => output::number(mops, 2),
        Some(mops) => output::number(mops, 0),
    }
}

pub(super) fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

pub(super) fn amount(unit: Unit, capacity: u64) -> String {
    match unit {
        Unit::Objects if capacity == 1 => "1 object".to_owned(),
        Unit::Objects => format!("{} objects", grouped(capacity)),
        Unit::Bytes => output::bytes(capacity),
    }
}

pub(super) fn share(everything: u64, capacity: u64) -> String {
    if capacity > everything {
        return "over 100 %".to_owned();
    }
    percent(capacity as f64 / everything.max(1) as f64)
}
