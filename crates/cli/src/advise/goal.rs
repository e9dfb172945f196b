//! Goals and limits of a cache: the flags, and the sizes that meet them.

use anyhow::anyhow;
use clap::Args;
use frazil_simulator::{CapacityError, CapacitySpec, Unit, parse_us};

use super::board::{Board, Entry, Kept, Row};
use super::candidate::Candidate;
use super::case::{Case, Question};
use super::memory::Memory;
use super::prices::PriceList;
use super::recommend::{Measured, Winner, winner};
use super::worth::{Gap, Point, Prices, SLIGHT, gap_to_cheapest, gap_to_first};
use crate::failure::Failure;

const GIB: f64 = (1u64 << 30) as f64;
/// A twelfth of a year.
pub(crate) const MONTH_SECONDS: f64 = 365.25 * 86_400.0 / 12.0;
/// A budget in bytes counts as used up from this share on, because another replay would gain
/// little.
const USED_UP: f64 = 0.98;

/// The target. Without any of these it is the balance of memory and misses.
#[derive(Args, Debug)]
#[command(next_help_heading = "Targets and budgets")]
pub(crate) struct GoalArgs {
    /// The fastest cache of at most this size: objects, a share, or bytes.
    #[arg(long, value_name = "N|N%|NGiB", allow_hyphen_values = true)]
    budget: Option<CapacitySpec>,

    /// The smallest cache that misses at most this share of requests.
    #[arg(long, value_name = "N%", value_parser = parse_percent, allow_hyphen_values = true)]
    target_miss: Option<f64>,

    /// The smallest cache with at most this predicted latency: the mean (mean=400us) or the 99th
    /// percentile (p99=2ms).
    #[arg(long, value_name = "mean=D|p99=D", value_parser = parse_latency,
          allow_hyphen_values = true)]
    target_latency: Option<LatencyTarget>,

    /// The smallest cache with at least this predicted throughput, in requests a second: 150K, 2M.
    #[arg(long, value_name = "N", value_parser = parse_rate, allow_hyphen_values = true)]
    target_throughput: Option<f64>,

    /// The cheapest cache at list prices of a vendor. The answer names their sources and dates.
    /// --memory-price and --miss-price override them.
    #[arg(long, value_name = "NAME")]
    prices: Option<PriceList>,

    /// The cheapest cache, with this price of a GiB for a month, in any currency. Needs
    /// --miss-price or --prices.
    #[arg(long, value_name = "PER_GIB_MONTH", value_parser = parse_price, allow_hyphen_values = true)]
    memory_price: Option<f64>,

    /// Price of a million misses.
    #[arg(long, value_name = "PER_MILLION", value_parser = parse_price, allow_hyphen_values = true)]
    miss_price: Option<f64>,

    /// Requests a second, for delayed hits and prices [default: the trace's rate, if it has times].
    #[arg(long, value_name = "N", value_parser = parse_rate, allow_hyphen_values = true)]
    pub(crate) request_rate: Option<f64>,

    /// Bytes of a value, with --unit objects [default: the mean size in the trace, if it has
    /// sizes].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    value_bytes: Option<u32>,

    /// Bytes of a key. Memory holds the key beside the value and the policy's own data.
    #[arg(long, value_name = "N", default_value_t = 8)]
    key_bytes: u32,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let share = number.filter(|percent| (0.0..=100.0).contains(percent));
    share.map(|percent| percent / 100.0).ok_or_else(|| "write a share from 0% to 100%".to_owned())
}

/// The longest acceptable latency, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LatencyTarget {
    /// The mean.
    Mean(f64),
    /// The 99th percentile.
    P99(f64),
}

fn parse_latency(text: &str) -> Result<LatencyTarget, String> {
    let known = "write mean=D or p99=D, such as mean=400us or p99=2ms";
    let (name, time) = text.split_once('=').ok_or(known)?;
    let target = match name {
        "mean" => LatencyTarget::Mean,
        "p99" => LatencyTarget::P99,
        _ => return Err(known.to_owned()),
    };
    parse_us(time).map(target).map_err(|error| error.to_string())
}

/// `150K`, `2M`, `2.5M/s`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let units = [("K", 1e3), ("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let unit = units.iter().find_map(|&(unit, times)| Some((number.strip_suffix(unit)?, times)));
    let (number, times) = unit.unwrap_or((number, 1.0));
    let rate = number.parse::<f64>().ok().map(|number| number * times);
    rate.filter(|rate| *rate > 0.0 && *rate <= 1e15)
        .ok_or_else(|| "write requests a second, such as 500, 150K or 2.5M".to_owned())
}

fn parse_price(text: &str) -> Result<f64, String> {
    let price = text.parse::<f64>().ok().filter(|price| *price > 0.0 && *price <= 1e12);
    price.ok_or_else(|| "write a price above 0, such as 2.5".to_owned())
}

impl GoalArgs {
    /// Whether the latencies of all cells are needed.
    pub(crate) fn wants_latencies(&self) -> bool {
        self.target_latency.is_some()
    }

    /// Checks that need no trace.
    pub(crate) fn check(&self, unit: Unit, traces: usize) -> Result<(), Failure> {
        let problem = match self.two_prices() {
            (Some(_), None) => {
                "--memory-price goes with --miss-price: what a million misses cost; --prices has \
                 both"
            }
            (None, Some(_)) => {
                "--miss-price goes with --memory-price: what a GiB costs a month; --prices has both"
            }
            (Some(_), Some(_)) if traces > 1 && self.request_rate.is_none() => {
                "several traces have different request rates; give --request-rate"
            }
            _ if unit == Unit::Bytes && self.value_bytes.is_some() => {
                "--value-bytes is for --unit objects; with --unit bytes the trace says what each \
                 takes"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(anyhow!("{problem}")))
    }

    /// The conversion of capacities to memory.
    pub(crate) fn memory(&self, question: &Question, unit: Unit, cases: &[Case<'_>]) -> Memory {
        let largest = cases.iter().max_by_key(|case| case.everything);
        let said = self.value_bytes.map(f64::from);
        let value_bytes = (said, largest.and_then(|case| case.value_bytes));
        let entry = |policy: &Candidate| question.forecast.entry_bytes(&policy.policy());
        let entries = question.policies.iter().map(entry);
        Memory::new(unit, value_bytes, self.key_bytes.into(), entries)
    }

    /// The target for these traces. `None` if there is none.
    pub(crate) fn goal(
        &self,
        unit: Unit,
        memory: &Memory,
        cases: &[Case<'_>],
    ) -> Result<Option<Goal>, Failure> {
        let budget = self.budget.as_ref();
        let goal = Goal {
            budget: budget.map(|it| Budget::new(it, unit, memory, cases)).transpose()?,
            miss_ratio: self.target_miss,
            latency: self.target_latency,
            requests_per_second: self.target_throughput,
            money: self.money(memory, cases)?,
        };
        let any = goal.budget.is_some() || goal.has_targets() || goal.money.is_some();
        Ok(any.then_some(goal))
    }

    /// Prices of a GiB a month, and of a million misses.
    fn two_prices(&self) -> (Option<f64>, Option<f64>) {
        let memory = self.memory_price.or(self.prices.map(PriceList::memory));
        (memory, self.miss_price.or(self.prices.map(PriceList::misses)))
    }

    /// Source of prices from a list, if the user gave none.
    fn price_sources(&self) -> Vec<String> {
        let Some(list) = self.prices else { return Vec::new() };
        let memory = self.memory_price.is_none().then(|| list.memory_source());
        let misses = self.miss_price.is_none().then(|| list.misses_source());
        memory.into_iter().chain(misses).collect()
    }

    fn money(&self, memory: &Memory, cases: &[Case<'_>]) -> Result<Option<Money>, Failure> {
        let (Some(memory_price), Some(miss_price)) = self.two_prices() else { return Ok(None) };
        if !memory.is_known() {
            let flag = if self.memory_price.is_some() { "--memory-price" } else { "--prices" };
            return Err(no_sizes(flag));
        }
        let of_trace = || cases.first().and_then(Case::requests_per_second);
        let rate = self.request_rate.or_else(of_trace).ok_or_else(|| {
            let why = "the trace has no times, so the price of misses needs --request-rate";
            Failure::usage(anyhow!("{why}"))
        })?;
        Ok(Some(Money {
            memory_price,
            miss_price,
            requests_per_second: rate,
            rate_of_trace: self.request_rate.is_none(),
            sources: self.price_sources(),
        }))
    }
}

fn no_sizes(flag: &str) -> Failure {
    Failure::usage(anyhow!(
        "{flag} is in bytes, but the trace has no object sizes; give --value-bytes"
    ))
}

/// The largest acceptable cache.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Budget {
    Capacity(u64),
    /// Memory, and the approximate capacity that fits it, by the means of the trace.
    Bytes {
        bytes: u64,
        about: u64,
    },
}

impl Budget {
    /// A share is of the largest trace. Bytes are memory, even if the unit of capacities is bytes.
    fn new(
        spec: &CapacitySpec,
        unit: Unit,
        memory: &Memory,
        cases: &[Case<'_>],
    ) -> Result<Self, Failure> {
        let usage = |error: CapacityError| Failure::usage(anyhow!("--budget: {error}"));
        let bytes = match spec.known(unit) {
            Ok(Some(capacity)) if unit == Unit::Objects || !memory.is_known() => {
                return Ok(Budget::Capacity(capacity));
            }
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                let of_each = cases.iter().map(|case| case.resolve(spec));
                let of_each = of_each.collect::<Result<Vec<u64>, Failure>>()?;
                return Ok(Budget::Capacity(of_each.into_iter().max().unwrap_or(1)));
            }
            Err(CapacityError::BytesOfObjects(_)) if !memory.is_known() => {
                return Err(no_sizes("--budget"));
            }
            Err(CapacityError::BytesOfObjects(_)) => {
                spec.known(Unit::Bytes).map_err(usage)?.unwrap_or_default()
            }
            Err(error) => return Err(usage(error)),
        };
        let smallest = cases.iter().filter_map(Case::smallest_bytes).reduce(f64::min);
        if memory.least_entry(smallest).is_none_or(|entry| (bytes as f64) < entry) {
            return Err(Failure::usage(anyhow!("--budget: {spec} has room for no object")));
        }
        Ok(Budget::Bytes { bytes, about: memory.about(bytes).unwrap_or_default() })
    }

    /// The memory, if the budget is in bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        if let Budget::Bytes { bytes, .. } = self { Some(*bytes) } else { None }
    }

    /// A capacity near the budget.
    pub(crate) fn about(&self) -> u64 {
        match *self {
            Budget::Capacity(capacity) | Budget::Bytes { about: capacity, .. } => capacity,
        }
    }

    /// Whether a capacity may be within the budget, before its content is known.
    pub(crate) fn may_hold(&self, capacity: u64) -> bool {
        self.bytes().is_some() || capacity <= self.about()
    }

    /// The largest capacity within the budget, with `bytes_each` for each unit.
    pub(crate) fn room(&self, bytes_each: Option<f64>) -> u64 {
        match (self, bytes_each) {
            (Budget::Bytes { bytes, .. }, Some(each)) => (*bytes as f64 / each) as u64,
            _ => self.about(),
        }
    }

    fn holds(&self, entry: &Entry) -> bool {
        entry.measured.capacity <= self.room(entry.kept.bytes_each)
    }

    /// The capacity that may use up the bytes, interpolated between a policy's known points in
    /// order of size. `None` if a known one nearly does, or no other can come nearer.
    fn next(&self, of_policy: &[&Entry], everything: u64) -> Option<u64> {
        let within = of_policy.iter().rfind(|entry| self.holds(entry));
        let low = within.map_or(0, |entry| entry.measured.capacity);
        let above = of_policy.iter().find(|it| it.measured.capacity > low && !self.holds(it));
        let high = above.map_or(everything.saturating_add(1), |it| it.measured.capacity);
        // A little below the budget, because the residents of the next capacity differ.
        let room = |entry: &&&Entry| self.room(entry.kept.bytes_each.map(|it| it / USED_UP.sqrt()));
        let used = |entry: &&&Entry| Some(entry.bytes()? / self.bytes()? as f64);
        if within.is_some_and(|entry| used(&entry).is_some_and(|used| used >= USED_UP)) {
            return None;
        }
        let between = |it: &u64| low < *it && *it < high;
        let middle = || Some(low + (high - low) / 2);
        let guesses = [within, above].into_iter().flatten().map(|entry| room(&entry));
        guesses.chain(middle()).find(between)
    }
}

/// Prices of memory and misses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Money {
    pub(crate) memory_price: f64,
    pub(crate) miss_price: f64,
    pub(crate) requests_per_second: f64,
    /// Whether the request rate is the trace's, not the user's.
    pub(crate) rate_of_trace: bool,
    /// Source of the prices that the user did not give.
    pub(crate) sources: Vec<String>,
}

impl Money {
    /// Monthly costs without a cache.
    pub(crate) fn without_cache(&self) -> f64 {
        self.requests_per_second * MONTH_SECONDS / 1e6 * self.miss_price
    }

    /// Monthly costs of memory, and of misses.
    pub(crate) fn a_month(&self, capacity: u64, kept: &Kept) -> [f64; 2] {
        let each = kept.bytes_each.unwrap_or_default();
        let memory = self.memory_price * each / GIB * capacity as f64;
        [memory, self.without_cache() * kept.fetched]
    }

    /// The cheapest of several policies at a size; among equals the fastest.
    pub(crate) fn cheapest<'e>(
        &self,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> Option<&'e Entry> {
        let known = entries.filter(|entry| entry.measured.mops.is_some());
        known.min_by(|one, other| {
            let faster = || other.kept.mops.unwrap_or(0.0).total_cmp(&one.kept.mops.unwrap_or(0.0));
            self.sum(one).total_cmp(&self.sum(other)).then_with(faster)
        })
    }

    fn sum(&self, entry: &Entry) -> f64 {
        self.a_month(entry.measured.capacity, &entry.kept).iter().sum()
    }

    /// The prices at the cell with the fewest bytes for its capacity. At other cells memory costs
    /// more, which [`Money::point`] counts as misses.
    fn least_prices(&self, rows: &[Row]) -> Prices {
        let entries = rows.iter().flat_map(|row| &row.entries);
        // A cache that can hold no object takes no memory.
        let each = entries.filter_map(|entry| entry.kept.bytes_each).filter(|&each| each > 0.0);
        let each = each.reduce(f64::min);
        let size = self.memory_price * each.unwrap_or_default() / GIB;
        Prices { size, misses: self.without_cache() }
    }

    /// A size and its remaining misses, scaled so that it costs the same at the lowest prices.
    fn point(&self, entry: &Entry, prices: &Prices) -> Point {
        let size = entry.measured.capacity;
        Point { size, left: (self.sum(entry) - prices.size * size as f64) / prices.misses }
    }
}

/// The targets and the limits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) budget: Option<Budget>,
    pub(crate) miss_ratio: Option<f64>,
    pub(crate) latency: Option<LatencyTarget>,
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) money: Option<Money>,
}

/// The result of a goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reached {
    By(Winner),
    /// No cache is cheapest.
    ByNone(Winner),
    /// No size reaches the target; this one is nearest.
    Not(Winner),
}

impl Goal {
    pub(crate) fn has_targets(&self) -> bool {
        self.miss_ratio.is_some() || self.latency.is_some() || self.requests_per_second.is_some()
    }

    fn is_within(&self, entry: &Entry) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.holds(entry))
    }

    /// Whether a policy at a size meets the target, on every trace.
    fn fits(&self, entry: &Entry) -> bool {
        let kept = &entry.kept;
        let at_most = |limit: Option<f64>, value: Option<f64>| {
            limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
        };
        let fast = self.latency.is_none_or(|target| match target {
            LatencyTarget::Mean(us) => at_most(Some(us), kept.response_us),
            LatencyTarget::P99(us) => at_most(Some(us), kept.p99_us),
        });
        let enough = |least: f64| kept.mops.is_some_and(|mops| mops * 1e6 >= least);
        self.is_within(entry)
            && at_most(self.miss_ratio, Some(kept.miss_ratio))
            && fast
            && self.requests_per_second.is_none_or(enough)
    }

    /// The winner at a size, of the policies that meet the target. If misses have a price, the
    /// cheapest wins.
    fn winner_at(&self, row: &Row) -> Option<Winner> {
        let Some(money) = &self.money else {
            return row.winner_of(|entry| self.fits(entry));
        };
        let fitting = row.entries.iter().filter(|entry| self.fits(entry));
        let cheapest = money.cheapest(fitting)?.measured.policy;
        row.winner_of(|entry| entry.measured.policy == cheapest)
    }

    /// The value by which policies compete for the goal; the least comes first.
    pub(crate) fn rank(&self, entry: &Entry) -> f64 {
        let kept = &entry.kept;
        if let Some(money) = &self.money {
            money.sum(entry)
        } else if self.miss_ratio.is_some() {
            kept.miss_ratio
        } else if let Some(target) = self.latency {
            let known = match target {
                LatencyTarget::Mean(_) => kept.response_us,
                // If misses decide the percentile, it is equal at every size, within the model's
                // resolution.
                LatencyTarget::P99(_) => kept.p99_us.map(|us| us * (1.0 + 1e-6 * kept.miss_ratio)),
            };
            known.unwrap_or(f64::INFINITY)
        } else {
            -kept.mops.unwrap_or(0.0)
        }
    }

    /// The sizes up to the last at which a policy is within the budget.
    fn within<'b>(&self, board: &'b Board) -> &'b [Row] {
        let any = |row: &Row| row.entries.iter().any(|entry| self.is_within(entry));
        &board.rows[..board.rows.iter().rposition(any).map_or(0, |last| last + 1)]
    }

    /// The size that reaches the goal. `None` if no size is within the budget.
    pub(crate) fn reached(&self, board: &Board) -> Option<Reached> {
        let rows = self.within(board);
        let mut fitting = rows.iter().filter_map(|row| Some((row, self.winner_at(row)?)));
        let reached = if let Some(money) = &self.money {
            let cost = |(row, winner): &(&Row, Winner)| {
                let entry = row.entry(winner.chosen.policy);
                entry.map_or(f64::INFINITY, |entry| money.sum(entry))
            };
            let best = fitting.min_by(|one, other| cost(one).total_cmp(&cost(other)));
            best.map(|best| match cost(&best) >= money.without_cache() && !self.has_targets() {
                true => Reached::ByNone(best.1),
                false => Reached::By(best.1),
            })
        } else if self.has_targets() {
            fitting.next().map(|(_, winner)| Reached::By(winner))
        } else {
            best_of(fitting.collect()).map(Reached::By)
        };
        reached.or_else(|| self.nearest(rows).map(Reached::Not))
    }

    /// The best size by the first target, for goals that no size reaches.
    fn nearest(&self, rows: &[Row]) -> Option<Winner> {
        let entries = rows.iter().flat_map(|row| row.entries.iter().map(move |it| (row, it)));
        let known =
            entries.filter(|(_, entry)| entry.measured.mops.is_some() && self.is_within(entry));
        let least = |one: &Entry, other: &Entry| self.rank(one).total_cmp(&self.rank(other));
        let (row, entry) = known.min_by(|one, other| least(one.1, other.1))?;
        row.winner_of(|it| it.measured.policy == entry.measured.policy)
    }

    /// The next cells at which policies that do well near the end of a budget in bytes may use it
    /// up.
    pub(crate) fn cells_at_budget(&self, board: &Board) -> Vec<(usize, u64)> {
        let Some(budget) = self.budget.as_ref().filter(|budget| budget.bytes().is_some()) else {
            return Vec::new();
        };
        let at = self.within(board).len().saturating_sub(1);
        let Some(upper) = board.rows.get(at).map(|row| row.capacity) else { return Vec::new() };
        let lower = at.checked_sub(1).map_or(upper, |at| board.rows[at].capacity);
        let policies = board.contenders(Gap { lower, upper }, |entry| self.rank(entry));
        let next = |&policy: &usize| {
            let of_policy: Vec<&Entry> =
                board.rows.iter().filter_map(|row| row.entry(policy)).collect();
            budget.next(&of_policy, board.everything)
        };
        let mut sizes: Vec<u64> = policies.iter().filter_map(next).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let all = sizes.iter().flat_map(|&size| policies.iter().map(move |&it| (it, size)));
        all.filter(|&(policy, size)| board.at(size).is_none_or(|row| row.entry(policy).is_none()))
            .collect()
    }

    /// Sizes to replay before [`Goal::reached`] is final.
    pub(crate) fn gaps(&self, board: &Board) -> Vec<Gap> {
        let rows = self.within(board);
        let fitting: Vec<Option<Winner>> = rows.iter().map(|row| self.winner_at(row)).collect();
        let mut gaps = Vec::new();
        if self.has_targets() {
            gaps.extend(gap_to_first(&board.curve, |at| {
                fitting.get(at).is_some_and(Option::is_some)
            }));
        }
        if let Some(money) = &self.money {
            let prices = money.least_prices(&board.rows);
            let point = |(row, winner): (&Row, &Option<Winner>)| {
                let entry = winner.as_ref().and_then(|it| row.entry(it.chosen.policy));
                let none = Point { size: row.capacity, left: f64::INFINITY };
                entry.map_or(none, |entry| money.point(entry, &prices))
            };
            let curve: Vec<Point> = rows.iter().zip(&fitting).map(point).collect();
            let best = prices.cheapest(&curve).map_or(0.0, |at| prices.of(&curve[at]));
            gaps.extend(gap_to_cheapest(&curve, &prices, board.everything, best * SLIGHT));
        }
        gaps
    }
}

/// The best of the winners of several sizes, by the rule for policies: more throughput wins, and
/// within a tie fewer misses.
fn best_of(mut fitting: Vec<(&Row, Winner)>) -> Option<Winner> {
    // Throughputs of several traces are shares of each size's best, so they do not compare between
    // sizes.
    let kept = |(row, Winner { chosen, .. }): &(&Row, Winner)| {
        let kept = row.entry(chosen.policy)?.kept;
        Some(Measured { miss_ratio: kept.miss_ratio, mops: kept.mops, ..*chosen })
    };
    let cells: Vec<Measured> = fitting.iter().filter_map(kept).collect();
    let best = winner(&cells)?.chosen.capacity;
    let at = fitting.iter().position(|(row, _)| row.capacity == best)?;
    Some(fitting.swap_remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::super::recommend::SURE;
    use super::*;

    #[test]
    fn amounts_are_read() {
        assert_eq!(parse_percent("5%"), Ok(0.05));
        assert_eq!(parse_latency("mean=0.4ms"), Ok(LatencyTarget::Mean(400.0)));
        assert_eq!(parse_latency("p99=2ms"), Ok(LatencyTarget::P99(2_000.0)));
        assert_eq!(parse_rate("2.5M/s"), Ok(2.5e6));
        assert_eq!(parse_price("0.25"), Ok(0.25));
        for text in ["", "5", "-1%", "101%", "nan%", "%"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
        for text in ["400us", "p98=1ms", "mean=", "mean=4", "p99=-1ms"] {
            assert!(parse_latency(text).is_err(), "{text}");
        }
        for text in ["", "0", "-2M", "inf", "M", "1e400"] {
            assert!(parse_rate(text).is_err() && parse_price(text).is_err(), "{text}");
        }
    }

    fn kept(miss_ratio: f64) -> Kept {
        let (byte_miss_ratio, mops, response_us) = (None, None, None);
        Kept {
            miss_ratio,
            fetched: miss_ratio,
            byte_miss_ratio,
            mops,
            response_us,
            p99_us: None,
            bytes_each: None,
        }
    }

    /// In fewer bytes the residents are smaller.
    #[test]
    fn a_budget_is_used_up_by_what_is_resident() {
        let each = |capacity: u64| 1.0 + 50.0 / (10.0 + capacity as f64 / 100.0);
        let entry = |capacity| {
            let (policy, miss_ratio, work_per_hit) = (0, 0.0, 0.0);
            let measured =
                Measured { policy, capacity, miss_ratio, work_per_hit, mops: None, doubt: SURE };
            Entry { measured, kept: Kept { bytes_each: Some(each(capacity)), ..kept(0.0) } }
        };
        let budget = Budget::Bytes { bytes: 20_000, about: 19_000 };
        let mut known = vec![entry(100), entry(19_000), entry(50_000)];
        for _ in 0..6 {
            let Some(next) = budget.next(&known.iter().collect::<Vec<_>>(), 50_000) else { break };
            known.push(entry(next));
            known.sort_by_key(|it| it.measured.capacity);
        }
        let most = known.iter().rfind(|entry| budget.holds(entry)).unwrap();
        assert!((19_600.0..=20_000.0).contains(&most.bytes().unwrap()), "{known:?}");
        assert_eq!(budget.next(&[&entry(100)], 100), None, "all is within");
    }

    #[test]
    fn a_month_costs_memory_and_misses() {
        let money = Money {
            memory_price: 2.0,
            miss_price: 0.5,
            requests_per_second: 1_000.0,
            rate_of_trace: false,
            sources: Vec::new(),
        };
        let kept = Kept { bytes_each: Some(1024.0), ..kept(0.1) };
        let [memory, misses] = money.a_month(1 << 20, &kept);
        assert!((memory - 2.0).abs() < 1e-9, "{memory}");
        assert!((misses - 131.49).abs() < 1e-9, "{misses}");
    }
}
