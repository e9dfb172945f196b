//! What memory is worth, in words: the three sizes, why one is recommended, and what must be known
//! before it is believed.

use serde_json::{Value, json};

use super::Advice;
use super::board::{Kept, Row};
use super::choice::Verdict;
use super::goal::{Goal, Money};
use super::recommend::Measured;
use super::text::{TOLD, amount, mops, share, why_slower};
use super::worth::{AMPLE, FRUGAL, Shape, knees};
use crate::output::{self, grouped, percent};

/// Of fewer requests than these a hundredth is less than what chance does to a miss ratio.
const FEW: u64 = 10_000;
/// More of a trace than this should not pass before a cache is filled.
const FILLING: f64 = 0.5;

/// A size that serves so many times as much is pointed out.
const FASTER: f64 = 1.25;

/// One of the sizes on the table, with its names.
pub(super) struct Named {
    pub(super) names: Vec<&'static str>,
    pub(super) capacity: u64,
    pub(super) policy: usize,
    pub(super) kept: Kept,
    /// Of the avoidable misses.
    pub(super) avoided: f64,
}

impl Named {
    /// A month of memory and misses.
    pub(super) fn a_month(&self, money: &Money) -> f64 {
        money.a_month(self.policy, self.capacity, self.kept.miss_ratio).iter().sum()
    }
}

/// The sizes, smallest first and each once. None where no cache helps.
pub(super) fn named(advice: &Advice<'_>) -> Vec<Named> {
    let Some(sizes) = advice.choice.sizes else { return Vec::new() };
    let three =
        [("frugal", sizes.frugal), ("balanced", Some(sizes.balanced)), ("ample", sizes.ample)];
    let mut all: Vec<Named> = Vec::new();
    for (name, at) in three.into_iter().filter_map(|(name, at)| Some((name, at?))) {
        let Some(row) = advice.board.rows.get(at) else { continue };
        match all.last_mut().filter(|last| last.capacity == row.capacity) {
            Some(last) => last.names.push(name),
            None => all.extend(of_policy(advice, name, row, row.winner.chosen.policy)),
        }
    }
    if let ([only], Shape::Cliff) = (&mut all[..], sizes.shape) {
        only.names = vec!["cliff"];
    }
    if !matches!(advice.choice.verdict, Verdict::Goal | Verdict::Unmet) {
        return all;
    }
    let name = if advice.choice.is_size() { "asked for" } else { "nearest" };
    let chosen = &advice.choice.winner.chosen;
    match all.iter_mut().find(|it| (it.capacity, it.policy) == (chosen.capacity, chosen.policy)) {
        Some(known) => known.names.push(name),
        None => {
            let row = advice.board.at(chosen.capacity);
            all.extend(row.and_then(|row| of_policy(advice, name, row, chosen.policy)));
            all.sort_by_key(|it| it.capacity);
        }
    }
    all
}

fn of_policy(advice: &Advice<'_>, name: &'static str, row: &Row, policy: usize) -> Option<Named> {
    let kept = row.entry(policy)?.kept;
    let avoided = avoided(advice, row, policy)?;
    Some(Named { names: vec![name], capacity: row.capacity, policy, kept, avoided })
}

/// What a policy avoids of the avoidable misses; of several traces on the one where that is least.
fn avoided(advice: &Advice<'_>, row: &Row, policy: usize) -> Option<f64> {
    advice.board.left(&advice.cases, policy, row.capacity).map(|left| 1.0 - left)
}

/// The sizes for scripts: each name with what it stands for, `null` where no size does.
pub(super) fn sizes_json(advice: &Advice<'_>) -> Value {
    let all = named(advice);
    let of = |name: &str| {
        let named = all.iter().find(|it| it.names.contains(&name) || it.names.contains(&"cliff"));
        named.map(|it| size_json(advice, it))
    };
    json!({ "frugal": of("frugal"), "balanced": of("balanced"), "ample": of("ample") })
}

/// The capacities of the curve's knees, for scripts. None where no cache helps.
pub(super) fn knees_json(advice: &Advice<'_>) -> Vec<u64> {
    let curve = if advice.board.is_hopeless() { &[][..] } else { &advice.board.curve };
    knees(curve).into_iter().map(|at| curve[at].size).collect()
}

fn size_json(advice: &Advice<'_>, size: &Named) -> Value {
    json!({
        "capacity": size.capacity,
        "bytes": advice.memory.bytes(size.policy, size.capacity),
        "policy": advice.policies[size.policy].to_string(),
        "miss_ratio": size.kept.miss_ratio,
        "avoided": size.avoided,
        "throughput_mops": size.kept.mops,
    })
}

/// What was asked for, for scripts, and whether it is reached. `null` if nothing was.
pub(super) fn goal_json(advice: &Advice<'_>) -> Value {
    let Some(goal) = &advice.goal else { return Value::Null };
    let choice = &advice.choice;
    let money = goal.money.as_ref().map(|money| {
        let [memory, misses] = a_month(advice, money);
        json!({
            "memory_price": money.memory_price,
            "miss_price": money.miss_price,
            "requests_per_second": money.requests_per_second,
            "memory_a_month": memory,
            "misses_a_month": misses,
            "no_cache_a_month": money.without_cache(),
        })
    });
    let nearest = named(advice).into_iter().find(|it| it.names.contains(&"nearest"));
    json!({
        "reached": choice.is_size(),
        "budget": goal.budget.as_ref().map(|budget| budget.of(choice.winner.chosen.policy)),
        "budget_bytes": goal.budget.as_ref().and_then(|budget| budget.bytes),
        "target_miss_ratio": goal.miss_ratio,
        "target_response_us": goal.response_us,
        "target_requests_per_second": goal.requests_per_second,
        "money": money,
        "nearest": nearest.map(|it| size_json(advice, &it)),
    })
}

/// The sizes as a table, with what each leaves. Empty where there are none.
pub(super) fn worth(advice: &Advice<'_>) -> String {
    let memory = advice.shows_memory();
    let money = advice.money();
    let mut headers = vec!["size", "capacity", "of all"];
    headers.extend(memory.then_some("memory"));
    headers.extend(["misses", "avoided", "M/s"]);
    headers.extend(money.map(|_| "a month"));
    headers.push("use");
    let row = |it: Named| {
        let mut row = vec![
            it.names.join(", "),
            amount(advice.unit, it.capacity),
            share(advice.everything, it.capacity),
        ];
        row.extend(memory.then(|| bytes_of(advice, it.policy, it.capacity)));
        row.extend([percent(it.kept.miss_ratio), percent(it.avoided), mops(it.kept.mops)]);
        row.extend(money.map(|money| price(it.a_month(money))));
        row.push(advice.policies[it.policy].to_string());
        row
    };
    let rows: Vec<_> = named(advice).into_iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("{}:\n\n{}\n", worth_title(advice), output::table(&headers, &["size", "use"], rows))
}

/// What stands over the sizes.
pub(super) fn worth_title(advice: &Advice<'_>) -> String {
    let of = if advice.cases.len() > 1 { ", on the trace where each figure is worst" } else { "" };
    format!(
        "What memory is worth: room for everything avoids {} of misses; of those{of}",
        percent(advice.board.avoidable)
    )
}

/// The memory that a cell takes.
pub(super) fn bytes(advice: &Advice<'_>, cell: &Measured) -> String {
    bytes_of(advice, cell.policy, cell.capacity)
}

fn bytes_of(advice: &Advice<'_>, policy: usize, capacity: u64) -> String {
    advice.memory.bytes(policy, capacity).map_or_else(|| "-".to_owned(), output::bytes)
}

/// What is recommended costs so much: memory, and misses.
fn a_month(advice: &Advice<'_>, money: &Money) -> [f64; 2] {
    let chosen = &advice.choice.winner.chosen;
    money.a_month(chosen.policy, chosen.capacity, advice.choice.kept.miss_ratio)
}

fn price(sum: f64) -> String {
    if sum < 100.0 { format!("{sum:.2}") } else { grouped(sum.round() as u64) }
}

/// Why this size, what it costs and what it buys.
pub(super) fn why_size(advice: &Advice<'_>) -> String {
    let choice = &advice.choice;
    let shape = choice.sizes.map_or(Shape::Knee, |sizes| sizes.shape);
    let rule = match (choice.verdict, shape) {
        (Verdict::Hopeless, _) => return no_size(advice),
        (Verdict::Dear, _) => return too_dear(advice),
        (Verdict::Unmet, _) => return unmet(advice),
        (Verdict::Goal, _) => asked(advice),
        (Verdict::Balanced, Shape::Cliff) => cliff(advice),
        (Verdict::Balanced, Shape::Straight) => straight(advice),
        (Verdict::Balanced, Shape::Knee) => "the balanced one, from which on a further percent of \
                                             memory avoids less than a percent of the avoidable \
                                             misses"
            .to_owned(),
    };
    let unreached = if advice.goal.is_none() { unreached(advice) } else { String::new() };
    format!("Size: {rule}; {}.{}{}{unreached}", buys(advice), step(advice), fastest(advice))
}

/// Which size would serve the most, where that is far more.
fn fastest(advice: &Advice<'_>) -> String {
    let speed = |row: &&Row| row.kept.mops.unwrap_or(0.0);
    let rows = advice.board.rows.iter();
    let Some(most) = rows.max_by(|one, other| speed(one).total_cmp(&speed(other))) else {
        return String::new();
    };
    let times = speed(&most) / advice.choice.kept.mops.unwrap_or(f64::INFINITY);
    if times < FASTER {
        return String::new();
    }
    format!(
        " The most would be {} M/s, {times:.1} times as much, with {} of {}.",
        mops(most.kept.mops),
        amount(advice.unit, most.capacity),
        advice.policies[most.winner.chosen.policy]
    )
}

/// The rule that a goal is.
fn asked(advice: &Advice<'_>) -> String {
    let Some(goal) = &advice.goal else { return String::new() };
    let targets = targets(goal);
    let within = within(advice, goal);
    let reach =
        if targets.is_empty() { String::new() } else { format!(" that {}", targets.join(" and ")) };
    let Some(money) = &goal.money else {
        return match targets.is_empty() {
            true => format!("the best{within}, by throughput and where that ties by misses"),
            false => format!("the smallest found{within}{reach}"),
        };
    };
    let [memory, misses] = a_month(advice, money);
    format!(
        "the cheapest{within}{reach}, at {} a GiB and {} a million misses, of {} requests a \
         second{}: {} for memory and {} for misses a month, and {} without a cache",
        money.memory_price,
        money.miss_price,
        price(money.requests_per_second),
        if money.rate_of_trace { " as in the trace" } else { "" },
        price(memory),
        price(misses),
        price(money.without_cache())
    )
}

fn within(advice: &Advice<'_>, goal: &Goal) -> String {
    let Some(budget) = &goal.budget else { return String::new() };
    let size = match budget.bytes {
        Some(bytes) => output::bytes(bytes),
        None => amount(advice.unit, budget.largest()),
    };
    format!(" within the budget of {size}")
}

/// What is targeted, as what a cache does.
fn targets(goal: &Goal) -> Vec<String> {
    let miss = goal.miss_ratio.map(|limit| format!("misses {} at most", percent(limit)));
    let mean = goal.response_us.map(|us| format!("answers in {us} µs in the mean"));
    let rate = goal
        .requests_per_second
        .map(|rate| format!("serves {} million requests a second", mops(Some(rate / 1e6))));
    [miss, mean, rate].into_iter().flatten().collect()
}

fn unmet(advice: &Advice<'_>) -> String {
    let Some(goal) = &advice.goal else { return String::new() };
    let within = within(advice, goal);
    let chosen = &advice.choice.winner.chosen;
    let kept = &advice.choice.kept;
    let mean = kept.response_us.map_or_else(String::new, |us| format!(", {us:.1} µs in the mean"));
    format!(
        "Size: none compared{within} {}; nearest is {} with {} ({}): {} of misses, {} M/s{mean}. Room \
         for everything misses {}.",
        targets(goal).join(" and "),
        advice.policies[chosen.policy],
        amount(advice.unit, chosen.capacity),
        share(advice.everything, chosen.capacity),
        percent(kept.miss_ratio),
        mops(kept.mops),
        percent(advice.board.most_floor())
    )
}

fn too_dear(advice: &Advice<'_>) -> String {
    let Some(money) = advice.money() else { return String::new() };
    let chosen = &advice.choice.winner.chosen;
    let [memory, misses] = a_month(advice, money);
    format!(
        "Size: none, as all misses cost {} a month without a cache, and the cheapest compared, {} of \
         {}, {} for memory and {} for misses.",
        price(money.without_cache()),
        amount(advice.unit, chosen.capacity),
        advice.policies[chosen.policy],
        price(memory),
        price(misses)
    )
}

/// What the recommended size costs and buys.
fn buys(advice: &Advice<'_>) -> String {
    let choice = &advice.choice;
    let chosen = &choice.winner.chosen;
    let row = advice.board.at(chosen.capacity);
    let avoided = row.and_then(|row| avoided(advice, row, chosen.policy)).unwrap_or_default();
    let memory =
        if advice.shows_memory() { format!(", {}", bytes(advice, chosen)) } else { String::new() };
    let speed =
        choice.kept.mops.map_or_else(String::new, |it| format!(", at {} M/s", mops(Some(it))));
    format!(
        "it takes {} of the memory that everything would{memory}, avoids {} of the avoidable misses \
         and leaves {} of requests to miss{speed}",
        share(advice.everything, chosen.capacity),
        percent(avoided),
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
        if advice.cases.len() > 1 { " at most on any of the traces" } else { "" }
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
    for case in &advice.cases {
        if let Some(lifetimes) = &case.lifetimes {
            let several = advice.cases.len() > 1;
            let of = if several { format!(" of {}", case.title()) } else { String::new() };
            told.push(format!("Entries expire, by lifetimes{of}: {lifetimes}."));
        }
    }
    told
}
