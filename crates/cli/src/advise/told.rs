//! What memory is worth, in words: the three sizes, why one is recommended, and what must be known
//! before it is believed.

use serde_json::{Value, json};

use super::Advice;
use super::board::Row;
use super::choice::Verdict;
use super::text::{TOLD, amount, mops, on_worst, share, why_slower};
use super::worth::{AMPLE, FRUGAL, Shape};
use crate::output::{self, grouped, percent};

/// Of fewer requests than these a hundredth is less than what chance does to a miss ratio.
const FEW: u64 = 10_000;
/// More of a trace than this should not pass before a cache is filled.
const FILLING: f64 = 0.5;

/// One of the sizes on the table, with its names.
pub(super) struct Named<'a> {
    pub(super) names: Vec<&'static str>,
    pub(super) row: &'a Row,
    /// Of the avoidable misses.
    pub(super) avoided: f64,
}

/// The sizes, smallest first and each once. None where no cache helps.
pub(super) fn named<'a>(advice: &'a Advice<'_>) -> Vec<Named<'a>> {
    let Some(sizes) = advice.choice.sizes else { return Vec::new() };
    let three =
        [("frugal", sizes.frugal), ("balanced", Some(sizes.balanced)), ("ample", sizes.ample)];
    let mut all: Vec<(Vec<&'static str>, usize)> = Vec::new();
    for (name, at) in three.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        match all.last_mut().filter(|last| last.1 == at) {
            Some(last) => last.0.push(name),
            None => all.push((vec![name], at)),
        }
    }
    if let ([only], Shape::Cliff) = (&mut all[..], sizes.shape) {
        only.0 = vec!["cliff"];
    }
    let named = |(names, at): (Vec<&'static str>, usize)| {
        let (row, point) = (advice.board.rows.get(at)?, advice.board.curve.get(at)?);
        Some(Named { names, row, avoided: 1.0 - point.left })
    };
    all.into_iter().filter_map(named).collect()
}

/// The sizes for scripts: each name with what it stands for, `null` where no size does.
pub(super) fn sizes_json(advice: &Advice<'_>) -> Value {
    let sizes = advice.choice.sizes;
    let of = |at: Option<usize>| {
        let at = at?;
        let (row, point) = (advice.board.rows.get(at)?, advice.board.curve.get(at)?);
        Some(json!({
            "capacity": row.capacity,
            "policy": advice.policies[row.winner.chosen.policy].to_string(),
            "miss_ratio": row.kept.miss_ratio,
            "avoided": 1.0 - point.left,
            "throughput_mops": row.kept.mops,
        }))
    };
    json!({
        "frugal": of(sizes.and_then(|it| it.frugal)),
        "balanced": of(sizes.map(|it| it.balanced)),
        "ample": of(sizes.and_then(|it| it.ample)),
    })
}

/// The sizes as a table, with what each leaves. Empty where there are none.
pub(super) fn worth(advice: &Advice<'_>) -> String {
    let left = ["size", "use"];
    let headers = ["size", "capacity", "of all", "misses", "avoided", "M/s", "use"];
    let row = |it: Named<'_>| {
        let capacity = it.row.capacity;
        vec![
            it.names.join(", "),
            amount(advice.unit, capacity),
            share(advice.everything, capacity),
            percent(it.row.kept.miss_ratio),
            percent(it.avoided),
            mops(it.row.kept.mops),
            advice.policies[it.row.winner.chosen.policy].to_string(),
        ]
    };
    let rows: Vec<_> = named(advice).into_iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let of = if advice.cases.len() > 1 { ", on the trace where each figure is worst" } else { "" };
    format!(
        "What memory is worth: room for everything avoids {} of misses; of those{of}:\n\n{}\n",
        percent(advice.board.avoidable),
        output::table(&headers, &left, rows)
    )
}

/// Why this size, what it costs and what it buys.
pub(super) fn why_size(advice: &Advice<'_>) -> String {
    let choice = &advice.choice;
    let Some(sizes) = choice.sizes else { return no_size(advice) };
    let rule = match (choice.verdict, sizes.shape) {
        (Verdict::Hopeless, _) => return no_size(advice),
        (Verdict::Balanced, Shape::Cliff) => cliff(advice),
        (Verdict::Balanced, Shape::Straight) => straight(advice),
        (Verdict::Balanced, Shape::Knee) => "the balanced one, from which on a further percent of \
                                             memory avoids less than a percent of the avoidable \
                                             misses"
            .to_owned(),
    };
    format!("Size: {rule}; {}.{}{}", buys(advice), step(advice), unreached(advice))
}

/// What the recommended size costs and buys.
fn buys(advice: &Advice<'_>) -> String {
    let choice = &advice.choice;
    let capacity = choice.winner.chosen.capacity;
    let at = advice.board.rows.iter().position(|row| row.capacity == capacity);
    let left = at.and_then(|at| advice.board.curve.get(at)).map_or(1.0, |point| point.left);
    let speed =
        choice.kept.mops.map_or_else(String::new, |it| format!(", at {} M/s", mops(Some(it))));
    format!(
        "it takes {} of the memory that everything would, avoids {} of the avoidable misses and \
         leaves {} of requests to miss{speed}",
        share(advice.everything, capacity),
        percent(1.0 - left),
        percent(choice.kept.miss_ratio)
    )
}

fn cliff(advice: &Advice<'_>) -> String {
    let at = advice.choice.sizes.map_or(0, |sizes| sizes.balanced);
    let below =
        at.checked_sub(1).map(|below| (&advice.board.rows[below], &advice.board.curve[below]));
    below.map_or_else(String::new, |(row, point)| {
        format!(
            "the cliff: most is gained at once, and {} would avoid {} of the avoidable misses",
            amount(advice.unit, row.capacity),
            percent(1.0 - point.left)
        )
    })
}

fn straight(advice: &Advice<'_>) -> String {
    if advice.choice.winner.chosen.capacity < advice.everything {
        return "there is no knee: each percent of memory avoids about as much as any other, so \
                that it is the largest compared or, where memory is too dear, none"
            .to_owned();
    }
    "there is no knee: each percent of memory avoids about as much as any other, so that it is room \
     for everything or, where memory is too dear, none"
        .to_owned()
}

/// What twice the memory would do to the throughput.
fn step(advice: &Advice<'_>) -> String {
    let chosen = &advice.choice.winner.chosen;
    let Some(gain) = advice.marginal_gain else {
        return " It holds every object of the trace.".to_owned();
    };
    format!(
        " One more step, to {}{}, would {} {:.1} % of throughput with {}{}.",
        amount(advice.unit, advice.step),
        if advice.step >= advice.everything { ", room for all" } else { "" },
        if gain < 0.0 { "cost" } else { "gain" },
        gain.abs() * 100.0,
        advice.policies[chosen.policy],
        if gain <= -TOLD { why_slower(advice, &advice.worst.chosen) } else { "" }
    )
}

/// Which of the names no size bears.
fn unreached(advice: &Advice<'_>) -> String {
    let Some(sizes) = advice.choice.sizes else { return String::new() };
    let share = match (sizes.frugal, sizes.ample) {
        (None, _) => FRUGAL,
        (_, None) => AMPLE,
        _ => return String::new(),
    };
    format!(" No size compared avoids {:.0} % of the avoidable misses.", share * 100.0)
}

fn no_size(advice: &Advice<'_>) -> String {
    format!(
        "Size: none, as room for all {} would avoid {} of misses{}: nearly everything is asked for \
         once. If that is a surprise, look whether the ids are what was read (frazil trace info, \
         --format, --columns).",
        amount(advice.unit, advice.everything),
        percent(advice.board.avoidable),
        on_worst(advice)
    )
}

/// Whether figures are told with no more digits than a hint has.
pub(super) fn is_rough(advice: &Advice<'_>) -> bool {
    requests(advice) < FEW
}

fn requests(advice: &Advice<'_>) -> u64 {
    advice.cases.iter().map(|case| case.requests()).min().unwrap_or_default()
}

/// What must be known before anything else.
pub(super) fn cautions(advice: &Advice<'_>) -> Vec<String> {
    let mut told = Vec::new();
    if is_rough(advice) {
        told.push(format!(
            "Beware: {} requests are too few to tell sizes or policies apart; take what follows for \
             a hint, and ask again with some hundred thousand.",
            grouped(requests(advice))
        ));
    }
    let capacity = advice.choice.winner.chosen.capacity;
    let until = advice.cases.iter().map(|case| case.until_filled(capacity)).fold(1.0, f64::min);
    if advice.choice.is_size() && until > FILLING {
        let when = if until < 1.0 {
            format!(
                "{:.0} % of it pass before {} are filled",
                until * 100.0,
                amount(advice.unit, capacity)
            )
        } else {
            format!("it never fills {}", amount(advice.unit, capacity))
        };
        told.push(format!(
            "Beware: the trace is short for this size: {when}. Until then misses are first requests, \
             of which a longer trace has fewer; ask again with one."
        ));
    }
    told
}
