//! The advice in words: the three sizes, the reason for the recommended one, and warnings about the
//! trace or the profile.

use serde_json::{Value, json};

use super::Advice;
use super::board::{Kept, Row};
use super::by_trace::worst_on;
use super::choice::Verdict;
use super::goal::{Budget, Goal, LatencyTarget, Money};
use super::latency::{latencies, latencies_json, overrun};
use super::recommend::{Limit, Measured};
use super::text::{TOLD, amount, hopeless, mops, share, time, told_share, why_slower};
use super::worth::{AMPLE, CLIFF, CLIFF_WITHIN, FRUGAL, HOPELESS, Shape, knees};
use crate::output::{self, grouped, percent};
use frazil_simulator::{CurvePoint, Unit};

/// With fewer requests than these, the random error of a miss ratio exceeds a hundredth.
const FEW: u64 = 10_000;
/// The output warns if a cache is filled only after a larger share of the trace.
const FILLING: f64 = 0.5;

/// The output mentions a size whose throughput is larger by this factor.
const FASTER: f64 = 1.25;
/// From this gain on the output has a factor, not percent.
const MANY_TIMES: f64 = 2.0;

const CLIFF_NAME: &str = "cliff";
/// Steps between the two sizes between which a loop's cliff is searched. A cliff falls within two
/// of them; with objects in random order the curve falls over all.
const CLIFF_STEPS: u64 = 16;

/// One of the sizes on the table, with its names.
pub(super) struct Named {
    pub(super) names: Vec<&'static str>,
    pub(super) capacity: u64,
    pub(super) policy: usize,
    pub(super) kept: Kept,
    /// Share of the avoidable misses.
    pub(super) avoided: f64,
}

impl Named {
    /// Whether the size is at the end of a cliff.
    pub(super) fn is_cliff(&self) -> bool {
        self.names.contains(&CLIFF_NAME)
    }

    /// Monthly costs of memory and misses.
    pub(super) fn a_month(&self, money: &Money) -> f64 {
        money.a_month(self.capacity, &self.kept).iter().sum()
    }
}

/// The sizes, smallest first and each once. Empty if no cache helps.
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
    let is_cliff = sizes.shape == Shape::Cliff || lru_below_cliff(advice).is_some();
    let balanced = all.iter_mut().find(|it| it.names.contains(&"balanced"));
    if let Some(cliff) = balanced.filter(|_| is_cliff) {
        cliff.names = vec![CLIFF_NAME];
    }
    if !matches!(advice.choice.verdict, Verdict::Goal | Verdict::Unmet) {
        return all;
    }
    let name = if advice.choice.is_size() { "requested" } else { "nearest" };
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

/// The share of the avoidable misses that a policy avoids; with several traces the smallest.
fn avoided(advice: &Advice<'_>, row: &Row, policy: usize) -> Option<f64> {
    advice.board.left(&advice.cases, policy, row.capacity).map(|left| 1.0 - left)
}

/// The sizes for scripts: each name with its size, `null` if there is none.
pub(super) fn sizes_json(advice: &Advice<'_>) -> Value {
    let all = named(advice);
    let named = |name: &str| all.iter().find(|it| it.names.contains(&name));
    let of = |at: Option<usize>, name: &str| {
        let size = named(name).or_else(|| named(CLIFF_NAME)).filter(|_| at.is_some());
        size.map(|it| size_json(advice, it))
    };
    let sizes = advice.choice.sizes;
    json!({
        "frugal": of(sizes.and_then(|it| it.frugal), "frugal"),
        "balanced": of(sizes.map(|it| it.balanced), "balanced"),
        "ample": of(sizes.and_then(|it| it.ample), "ample"),
    })
}

/// The capacities of the curve's knees, for scripts. Empty if no cache helps.
pub(super) fn knees_json(advice: &Advice<'_>) -> Vec<u64> {
    let curve = if advice.board.is_hopeless() { &[][..] } else { &advice.board.curve };
    knees(curve).into_iter().map(|at| curve[at].size).collect()
}

fn size_json(advice: &Advice<'_>, size: &Named) -> Value {
    json!({
        "capacity": size.capacity,
        "bytes": bytes_of(advice, size.policy, size.capacity),
        "policy": advice.policies[size.policy].to_string(),
        "miss_ratio": size.kept.miss_ratio,
        "byte_miss_ratio": size.kept.byte_miss_ratio,
        "avoided": size.avoided,
        "throughput_mops": size.kept.mops,
        "latency": latencies_json(latencies(advice, size.policy, size.capacity)),
        "worst_on": worst_on(advice, size.policy, size.capacity),
    })
}

/// The target, for scripts, and whether it is reached. `null` if there is none.
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
            "price_sources": money.sources,
        })
    });
    let nearest = named(advice).into_iter().find(|it| it.names.contains(&"nearest"));
    json!({
        "reached": choice.is_size(),
        "budget": goal.budget.as_ref().map(|budget| budget.room(choice.kept.bytes_each)),
        "budget_bytes": goal.budget.as_ref().and_then(Budget::bytes),
        "target_miss_ratio": goal.miss_ratio,
        "target_response_us": match goal.latency {
            Some(LatencyTarget::Mean(us)) => Some(us),
            _ => None,
        },
        "target_p99_us": match goal.latency {
            Some(LatencyTarget::P99(us)) => Some(us),
            _ => None,
        },
        "target_requests_per_second": goal.requests_per_second,
        "money": money,
        "nearest": nearest.map(|it| size_json(advice, &it)),
    })
}

/// The sizes as a table, with their misses. Empty if there are none.
pub(super) fn worth(advice: &Advice<'_>) -> String {
    let memory = advice.shows_memory();
    let money = advice.money();
    let mut headers = vec!["size", "capacity", "of all"];
    headers.extend(memory.then_some("memory"));
    headers.extend(["misses", "avoided"]);
    headers.extend((advice.unit == Unit::Bytes).then_some("bytes missed"));
    headers.extend(["M/s", "p99"]);
    headers.extend(money.map(|_| "a month"));
    headers.push("use");
    let row = |it: Named| {
        let mut row = vec![
            it.names.join(", "),
            amount(advice.unit, it.capacity),
            share(advice.everything, it.capacity),
        ];
        row.extend(memory.then(|| told_bytes(advice, it.policy, it.capacity)));
        row.extend([percent(it.kept.miss_ratio), percent(it.avoided)]);
        row.extend(it.kept.byte_miss_ratio.map(percent));
        row.push(mops(it.kept.mops));
        let known = latencies(advice, it.policy, it.capacity);
        row.push(known.map_or_else(|| "-".to_owned(), |it| time(it.all.p99_us)));
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

/// The heading of the sizes.
pub(super) fn worth_title(advice: &Advice<'_>) -> String {
    let of = if advice.cases.len() > 1 { ", on the trace where each figure is worst" } else { "" };
    format!(
        "What memory is worth: a cache for all objects avoids {} of misses; of those{of}",
        percent(advice.board.avoidable)
    )
}

/// The memory of a cell.
pub(super) fn bytes(advice: &Advice<'_>, cell: &Measured) -> String {
    told_bytes(advice, cell.policy, cell.capacity)
}

fn told_bytes(advice: &Advice<'_>, policy: usize, capacity: u64) -> String {
    bytes_of(advice, policy, capacity).map_or_else(|| "-".to_owned(), output::bytes)
}

/// The memory of a policy at a capacity, from the objects resident there. If the capacity was not
/// replayed, from those at the next one that was.
pub(super) fn bytes_of(advice: &Advice<'_>, policy: usize, capacity: u64) -> Option<u64> {
    let entries = advice.board.rows.iter().filter_map(|row| row.entry(policy));
    let near = entries.min_by_key(|entry| entry.measured.capacity.abs_diff(capacity))?;
    // Saturates.
    near.kept.bytes_each.map(|each| (each * capacity as f64).round() as u64)
}

/// Costs of the recommended size: memory, and misses.
fn a_month(advice: &Advice<'_>, money: &Money) -> [f64; 2] {
    let chosen = &advice.choice.winner.chosen;
    money.a_month(chosen.capacity, &advice.choice.kept)
}

/// An amount of money; small ones have two digits too.
pub(super) fn price(sum: f64) -> String {
    if sum < 100.0 { output::number(sum, 2) } else { grouped(sum.round() as u64) }
}

/// Prices of a GiB, and of misses.
pub(super) fn prices(money: &Money) -> String {
    format!("at {} a GiB and {} a million misses", money.memory_price, money.miss_price)
}

/// The source of prices from a vendor's list.
pub(super) fn price_sources(advice: &Advice<'_>) -> Option<String> {
    let sources = &advice.money()?.sources;
    (!sources.is_empty()).then(|| {
        format!(
            "Prices, on demand in us-east-1 and without what moving data costs: {}.",
            sources.join("; ")
        )
    })
}

/// The request rate.
pub(super) fn request_rate(money: &Money) -> String {
    let rate = money.requests_per_second;
    format!(
        "{} requests a second{}",
        if rate < 100.0 { output::number(rate, 0) } else { grouped(rate.round() as u64) },
        if money.rate_of_trace { " as in the trace" } else { "" }
    )
}

/// The reasons for this size, its costs and its gains.
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
        (Verdict::Balanced, Shape::Knee) => format!(
            "the balanced one{}: from there on one more percent of memory avoids less than one \
             percent of the avoidable misses",
            if advice.searched { "" } else { " of those compared" }
        ),
    };
    let unreached = if advice.goal.is_none() { unreached(advice) } else { String::new() };
    format!("Size: {rule}. {}.{}{}{unreached}", buys(advice), step(advice), fastest(advice))
}

/// The trace of the figures, if there are several.
fn of_several<'t>(advice: &Advice<'_>, which: &'t str) -> &'t str {
    if advice.cases.len() > 1 { which } else { "" }
}

/// The size with the highest throughput, if that is much higher.
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
        " The highest throughput is {} M/s, {times:.1} times as much{}, with {} of {}.",
        mops(most.kept.mops),
        of_several(advice, " on the slowest trace"),
        amount(advice.unit, most.capacity),
        advice.policies[most.winner.chosen.policy]
    )
}

/// The goal as a rule.
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
        "the cheapest{within}{reach}, {}, of {}: {} for memory and {} for misses a month, and {} without a \
         cache",
        prices(money),
        request_rate(money),
        price(memory),
        price(misses),
        price(money.without_cache())
    )
}

fn within(advice: &Advice<'_>, goal: &Goal) -> String {
    let Some(budget) = &goal.budget else { return String::new() };
    let size = match *budget {
        Budget::Bytes { bytes, .. } => output::bytes(bytes),
        Budget::Capacity(capacity) => amount(advice.unit, capacity),
    };
    format!(" within the budget of {size}")
}

/// The targets, as statements about a cache.
fn targets(goal: &Goal) -> Vec<String> {
    let miss = goal.miss_ratio.map(|limit| format!("misses at most {}", percent(limit)));
    let latency = goal.latency.map(|target| match target {
        LatencyTarget::Mean(us) => format!("has a mean latency of at most {}", time(us)),
        LatencyTarget::P99(us) => format!("answers 99 % of requests within {}", time(us)),
    });
    let rate = goal
        .requests_per_second
        .map(|rate| format!("serves {} million requests a second", mops(Some(rate / 1e6))));
    [miss, latency, rate].into_iter().flatten().collect()
}

fn unmet(advice: &Advice<'_>) -> String {
    let Some(goal) = &advice.goal else { return String::new() };
    let within = within(advice, goal);
    let chosen = &advice.choice.winner.chosen;
    let kept = &advice.choice.kept;
    let mean = |us| format!(", {} in the mean", time(us));
    let mean = kept.response_us.map_or_else(String::new, mean);
    let p99 = kept.p99_us.map_or_else(String::new, |us| format!(", 99 % within {}", time(us)));
    format!(
        "Size: none of those compared{within} {}. The nearest is {} with {} ({}): {} of misses, {} \
         M/s{mean}{p99}. With a cache for all objects {} of requests miss.",
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
        "Size: none, because without a cache misses cost {} a month, and the cheapest size compared, \
         {} of {}, costs {} for memory and {} for misses.",
        price(money.without_cache()),
        amount(advice.unit, chosen.capacity),
        advice.policies[chosen.policy],
        price(memory),
        price(misses)
    )
}

/// Costs and gains of the recommended size.
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
        "It takes {} of the memory for all objects{memory}, and avoids {} of the avoidable misses; \
         {} of requests miss{speed}{}",
        told_share(advice, chosen.capacity as f64 / advice.everything.max(1) as f64),
        told_share(advice, avoided),
        told_share(advice, choice.kept.miss_ratio),
        of_several(advice, " (each on the trace where it is worst)")
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

/// In a loop LRU hits nothing until all objects fit, unlike other policies. Returns a size a little
/// below the balanced one, and the share of misses that LRU avoids there. `None` if the trace is no
/// such loop, or LRU is not among the policies compared.
fn lru_below_cliff(advice: &Advice<'_>) -> Option<(u64, f64)> {
    let sizes = advice.choice.sizes.filter(|it| it.shape == Shape::Straight)?;
    advice.policies.iter().find(|policy| policy.to_string() == "lru")?;
    let all = advice.board.rows.get(sizes.balanced)?.capacity;
    let below = (all as f64 / CLIFF_WITHIN) as u64;
    let step = |number| below + (all - below) * number / CLIFF_STEPS;
    let between: Vec<u64> = (0..=CLIFF_STEPS).map(step).collect();
    let mut most: f64 = 0.0;
    for case in &advice.cases {
        let points = case.curve.points(&between);
        let fall = |three: &[CurvePoint]| three[0].miss_ratio - three[2].miss_ratio;
        let steepest = points.windows(3).map(fall).fold(0.0, f64::max);
        let avoidable = 1.0 - case.least_misses();
        if avoidable < HOPELESS || steepest < CLIFF * avoidable {
            return None;
        }
        most = most.max((1.0 - points.first()?.miss_ratio) / avoidable);
    }
    (0 < below && below < all).then_some((below, most))
}

fn straight(advice: &Advice<'_>) -> String {
    let chosen = &advice.choice.winner.chosen;
    if let Some((below, avoided)) = lru_below_cliff(advice) {
        return format!(
            "the cliff of a loop: lru avoids {} of the avoidable misses with {}, and the rest at \
             once; with the best policy of each smaller size, each percent of memory avoids about \
             as many misses as any other",
            percent(avoided),
            amount(advice.unit, below)
        );
    }
    if advice.searched {
        return "there is no knee: each percent of memory avoids about as many misses as any \
                other, so the answer is a cache for all objects; if that is too expensive, none"
            .to_owned();
    }
    // A few sizes given by the user do not show a straight line.
    let row = advice.board.at(chosen.capacity);
    let avoided = row.and_then(|row| avoided(advice, row, chosen.policy)).unwrap_or_default();
    if avoided < HOPELESS {
        format!(
            "the smallest compared, as none of them avoids even {} of the avoidable misses",
            percent(HOPELESS)
        )
    } else {
        "the largest compared that avoids noticeably more misses, because no smaller one stands out"
            .to_owned()
    }
}

/// The policies that more memory makes slower.
pub(super) fn growth(advice: &Advice<'_>) -> Option<String> {
    let slower = |limit: &Limit| {
        format!(
            "{} past {}, which makes it slower ({} M/s, {} at the largest)",
            advice.policies[limit.best.policy],
            amount(advice.unit, limit.best.capacity),
            mops(limit.best.mops),
            mops(limit.largest.mops)
        )
    };
    let list: Vec<String> = advice.limits.iter().map(slower).collect();
    (!list.is_empty()).then(|| format!("Do not grow {}.", list.join(", nor ")))
}

/// The step as a card: its title, its gain, and its size.
pub(super) fn step_card(advice: &Advice<'_>) -> [String; 3] {
    let Some(gain) = advice.marginal_gain else {
        return ["More memory", "nothing more", "it holds everything"].map(str::to_owned);
    };
    let times = advice.step as f64 / advice.choice.winner.chosen.capacity.max(1) as f64;
    let title = if (times - 2.0).abs() < 0.05 {
        "Twice the memory".to_owned()
    } else {
        format!("{times:.1} times the memory")
    };
    let to = amount(advice.unit, advice.step);
    let all = if advice.step >= advice.everything { ", which holds all objects" } else { "" };
    let (gained, of) = match gain {
        MANY_TIMES.. => (format!("{:.0} times", gain + 1.0), "the throughput"),
        0.0.. => (format!("+{:.1} %", gain * 100.0), "of throughput"),
        _ => (format!("−{:.1} %", gain.abs() * 100.0), "of throughput"),
    };
    [title, gained, format!("{of}, with {to}{all}")]
}

/// The throughput with twice the memory.
fn step(advice: &Advice<'_>) -> String {
    let chosen = &advice.choice.winner.chosen;
    let Some(gain) = advice.marginal_gain else {
        return " It holds every object of the trace.".to_owned();
    };
    let gains = match gain {
        MANY_TIMES.. => format!("serves {:.0} times as much", gain + 1.0),
        0.0.. => format!("gains {:.1} % of throughput", gain * 100.0),
        _ => format!("loses {:.1} % of throughput", gain.abs() * 100.0),
    };
    format!(
        " The next step, {}{}, {gains} with {}{}{}.",
        amount(advice.unit, advice.step),
        if advice.step >= advice.everything { ", which holds all objects" } else { "" },
        advice.policies[chosen.policy],
        of_several(advice, " on the trace that gains most"),
        if gain <= -TOLD { why_slower(advice, &advice.worst.chosen) } else { "" }
    )
}

/// The names that no size has.
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
        "Size: none, because even a cache for {} would avoid {} of misses{}: nearly every object \
         is requested once.",
        match (advice.unit, advice.everything) {
            (Unit::Objects, 1) => "its one object".to_owned(),
            (_, all) => format!("all {}", amount(advice.unit, all)),
        },
        percent(advice.board.avoidable),
        if advice.cases.len() > 1 { " at most on any of the traces" } else { "" }
    )
}

/// Whether figures are rough and have few digits.
pub(super) fn is_rough(advice: &Advice<'_>) -> bool {
    requests(advice) < FEW
}

fn requests(advice: &Advice<'_>) -> u64 {
    advice.cases.iter().map(|case| case.requests()).min().unwrap_or_default()
}

/// Warnings at the beginning of the output.
pub(super) fn cautions(advice: &Advice<'_>) -> Vec<String> {
    let mut told = Vec::new();
    if is_rough(advice) {
        told.push(format!(
            "Beware: {} too few to tell sizes or policies apart; take the answer as \
             a hint, and repeat it with some hundred thousand requests.",
            match requests(advice) {
                1 => "one request is".to_owned(),
                many => format!("{} requests are", grouped(many)),
            }
        ));
    }
    told.extend(hopeless(advice));
    if !matches!(advice.choice.verdict, Verdict::Hopeless) {
        told.extend(overrun(advice));
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
            "Beware: the trace is short for this size: {when}. Until then all misses are first \
             requests. A longer trace has a smaller share of them: use one."
        ));
    }
    for case in &advice.cases {
        if let Some(lifetimes) = &case.lifetimes {
            let several = advice.cases.len() > 1;
            let of = if several { format!(" of {}", case.title()) } else { String::new() };
            told.push(format!("Entries expire, by lifetimes{of}: {lifetimes}."));
        }
        let ignored = case.ignored_lifetimes.as_ref();
        told.extend(ignored.map(|ignored| format!("Entries live for ever: {ignored}.")));
    }
    told
}
