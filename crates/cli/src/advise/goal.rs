//! What a cache is to reach, or may cost: the flags that say so, and which sizes do.

use anyhow::anyhow;
use clap::Args;
use frazil_simulator::{CapacityError, CapacitySpec, Unit, parse_us};

use super::board::{Board, Entry, Row};
use super::case::Case;
use super::memory::Memory;
use super::recommend::{Measured, Winner, winner};
use super::worth::{Gap, Point, Prices, SLIGHT, gap_to_cheapest, gap_to_first};
use crate::failure::Failure;

const GIB: f64 = (1u64 << 30) as f64;
/// A twelfth of a year.
const MONTH_SECONDS: f64 = 365.25 * 86_400.0 / 12.0;

/// What for. Without any of these it is the balance of memory and misses.
#[derive(Args, Debug)]
#[command(next_help_heading = "What it is to reach, or may cost")]
pub(crate) struct GoalArgs {
    /// The best cache of at most this size: objects, a share, or bytes.
    #[arg(long, value_name = "N|N%|NGiB", allow_hyphen_values = true)]
    budget: Option<CapacitySpec>,

    /// The smallest that misses at most this share of requests.
    #[arg(long, value_name = "N%", value_parser = parse_percent, allow_hyphen_values = true)]
    target_miss: Option<f64>,

    /// The smallest with this mean time of a request, as predicted: mean=400us.
    #[arg(long, value_name = "mean=D", value_parser = parse_mean, allow_hyphen_values = true)]
    target_latency: Option<f64>,

    /// The smallest that is predicted to serve so many requests a second: 150K, 2M.
    #[arg(long, value_name = "N", value_parser = parse_rate, allow_hyphen_values = true)]
    target_throughput: Option<f64>,

    /// The cheapest: what a GiB costs a month, in any currency. With --miss-price.
    #[arg(long, value_name = "PER_GIB_MONTH", value_parser = parse_price, allow_hyphen_values = true)]
    memory_price: Option<f64>,

    /// What a million misses cost.
    #[arg(long, value_name = "PER_MILLION", value_parser = parse_price, allow_hyphen_values = true)]
    miss_price: Option<f64>,

    /// Requests a second, to price misses [default: as many as in the trace, if it has times].
    #[arg(long, value_name = "N", value_parser = parse_rate, allow_hyphen_values = true)]
    request_rate: Option<f64>,

    /// Bytes of a value, where objects are counted [default: the mean of the trace's objects, if
    /// it has sizes].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    value_bytes: Option<u32>,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    let share = number.filter(|percent| (0.0..=100.0).contains(percent));
    share.map(|percent| percent / 100.0).ok_or_else(|| "write a share from 0% to 100%".to_owned())
}

fn parse_mean(text: &str) -> Result<f64, String> {
    let known = "write mean=D, such as mean=400us; only the mean is predicted";
    let (name, time) = text.split_once('=').ok_or(known)?;
    if name != "mean" {
        return Err(known.to_owned());
    }
    parse_us(time).map_err(|error| error.to_string())
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
    /// Whether misses are to be priced by the trace's own times.
    pub(crate) fn wants_times(&self) -> bool {
        self.memory_price.is_some() && self.request_rate.is_none()
    }

    /// What can be told before the traces are read.
    pub(crate) fn check(&self, unit: Unit, traces: usize) -> Result<(), Failure> {
        let problem = match (self.memory_price, self.miss_price) {
            (Some(_), None) => "--memory-price goes with --miss-price: what a million misses cost",
            (None, Some(_)) => "--miss-price goes with --memory-price: what a GiB costs a month",
            (None, None) if self.request_rate.is_some() => {
                "--request-rate prices misses, with --memory-price and --miss-price; what a cache \
                 is to serve is --target-throughput"
            }
            (Some(_), Some(_)) if traces > 1 && self.request_rate.is_none() => {
                "several traces have several rates of requests; say --request-rate"
            }
            _ if unit == Unit::Bytes && self.value_bytes.is_some() => {
                "--value-bytes is for --unit objects; with --unit bytes the trace says what each takes"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(anyhow!("{problem}")))
    }

    /// How much memory capacities are.
    pub(crate) fn memory(&self, unit: Unit, cases: &[Case<'_>]) -> Memory {
        let largest = cases.iter().max_by_key(|case| case.everything);
        let said = self.value_bytes.map(f64::from);
        Memory { unit, value_bytes: said.or(largest.and_then(|case| case.value_bytes)) }
    }

    /// What is asked for of these traces. `None` if nothing is.
    pub(crate) fn goal(&self, memory: Memory, cases: &[Case<'_>]) -> Result<Option<Goal>, Failure> {
        let goal = Goal {
            budget: self.budget.as_ref().map(|it| budget(it, memory, cases)).transpose()?,
            miss_ratio: self.target_miss,
            response_us: self.target_latency,
            requests_per_second: self.target_throughput,
            money: self.money(memory, cases)?,
        };
        let any = goal.budget.is_some() || goal.has_targets() || goal.money.is_some();
        Ok(any.then_some(goal))
    }

    fn money(&self, memory: Memory, cases: &[Case<'_>]) -> Result<Option<Money>, Failure> {
        let Some((memory_price, miss_price)) = self.memory_price.zip(self.miss_price) else {
            return Ok(None);
        };
        let bytes_each = memory.bytes_each().ok_or_else(|| no_sizes("--memory-price"))?;
        let of_trace = || cases.first().and_then(Case::requests_per_second);
        let rate = self.request_rate.or_else(of_trace).ok_or_else(|| {
            let why = "the trace has no times to price its misses by; say --request-rate";
            Failure::usage(anyhow!("{why}"))
        })?;
        Ok(Some(Money {
            memory_price,
            miss_price,
            bytes_each,
            requests_per_second: rate,
            rate_of_trace: self.request_rate.is_none(),
        }))
    }
}

fn no_sizes(flag: &str) -> Failure {
    Failure::usage(anyhow!(
        "{flag} is of bytes, and the trace has no object sizes; say --value-bytes"
    ))
}

/// A budget as a capacity: a share is of the largest trace.
fn budget(spec: &CapacitySpec, memory: Memory, cases: &[Case<'_>]) -> Result<u64, Failure> {
    let usage = |error: CapacityError| Failure::usage(anyhow!("--budget: {error}"));
    match spec.known(memory.unit) {
        Ok(Some(capacity)) => Ok(capacity),
        Ok(None) => {
            let of_each = cases.iter().map(|case| case.resolve(spec));
            let of_each = of_each.collect::<Result<Vec<u64>, Failure>>()?;
            Ok(of_each.into_iter().max().unwrap_or(1))
        }
        Err(CapacityError::BytesOfObjects(_)) => {
            let bytes = spec.known(Unit::Bytes).map_err(usage)?.unwrap_or_default();
            let capacity = memory.capacity(bytes).ok_or_else(|| no_sizes("--budget"))?;
            let small = || Failure::usage(anyhow!("--budget: {spec} is room for no object"));
            Some(capacity).filter(|&capacity| capacity > 0).ok_or_else(small)
        }
        Err(error) => Err(usage(error)),
    }
}

/// What memory and misses cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Money {
    pub(crate) memory_price: f64,
    pub(crate) miss_price: f64,
    bytes_each: f64,
    pub(crate) requests_per_second: f64,
    /// Whether nobody said it.
    pub(crate) rate_of_trace: bool,
}

impl Money {
    fn prices(&self) -> Prices {
        Prices {
            size: self.memory_price * self.bytes_each / GIB,
            misses: self.requests_per_second * MONTH_SECONDS / 1e6 * self.miss_price,
        }
    }

    /// A month of memory, and one of misses.
    pub(crate) fn a_month(&self, capacity: u64, miss_ratio: f64) -> [f64; 2] {
        let prices = self.prices();
        [prices.size * capacity as f64, prices.misses * miss_ratio]
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    /// The largest capacity there may be.
    pub(crate) budget: Option<u64>,
    pub(crate) miss_ratio: Option<f64>,
    pub(crate) response_us: Option<f64>,
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) money: Option<Money>,
}

/// What comes of a goal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reached {
    By(Winner),
    /// Nothing costs less than any cache.
    ByNone(Winner),
    /// Nothing reaches it; this is nearest.
    Not(Winner),
}

impl Goal {
    pub(crate) fn has_targets(&self) -> bool {
        self.miss_ratio.is_some()
            || self.response_us.is_some()
            || self.requests_per_second.is_some()
    }

    /// Whether a policy at a size does what is asked for, on every trace.
    fn fits(&self, entry: &Entry) -> bool {
        let kept = &entry.kept;
        let at_most = |limit: Option<f64>, value: Option<f64>| {
            limit.is_none_or(|limit| value.is_some_and(|value| value <= limit))
        };
        let enough = |least: f64| kept.mops.is_some_and(|mops| mops * 1e6 >= least);
        at_most(self.miss_ratio, Some(kept.miss_ratio))
            && at_most(self.response_us, kept.response_us)
            && self.requests_per_second.is_none_or(enough)
    }

    /// Who wins at a size, of those that do what is asked for. Where misses cost, it is who misses
    /// least: the memory costs the same.
    fn winner_at(&self, row: &Row) -> Option<Winner> {
        let fitting = || row.entries.iter().filter(|entry| self.fits(entry));
        if self.money.is_none() {
            return row.winner_of(|entry| self.fits(entry));
        }
        let known = fitting().filter(|entry| entry.measured.mops.is_some());
        let cheaper = |one: &&Entry, other: &&Entry| {
            let faster = || other.kept.mops.unwrap_or(0.0).total_cmp(&one.kept.mops.unwrap_or(0.0));
            one.kept.miss_ratio.total_cmp(&other.kept.miss_ratio).then_with(faster)
        };
        let cheapest = known.min_by(cheaper)?.measured.policy;
        row.winner_of(|entry| entry.measured.policy == cheapest)
    }

    /// What a policy is best at that the goal asks for: the least first.
    pub(crate) fn rank(&self, entry: &Entry) -> f64 {
        let kept = &entry.kept;
        if self.miss_ratio.is_some() || self.money.is_some() {
            kept.miss_ratio
        } else if self.response_us.is_some() {
            kept.response_us.unwrap_or(f64::INFINITY)
        } else {
            -kept.mops.unwrap_or(0.0)
        }
    }

    fn within<'b>(&self, board: &'b Board) -> &'b [Row] {
        let most = self.budget.unwrap_or(u64::MAX);
        &board.rows[..board.rows.partition_point(|row| row.capacity <= most)]
    }

    /// What reaches it. `None` if no size is within the budget.
    pub(crate) fn reached(&self, board: &Board) -> Option<Reached> {
        let rows = self.within(board);
        let mut fitting = rows.iter().filter_map(|row| Some((row, self.winner_at(row)?)));
        let reached = if let Some(money) = &self.money {
            let cost = |(row, winner): &(&Row, Winner)| {
                let missed = row.entry(winner.chosen.policy).map_or(1.0, |it| it.kept.miss_ratio);
                money.a_month(row.capacity, missed).iter().sum::<f64>()
            };
            let best = fitting.min_by(|one, other| cost(one).total_cmp(&cost(other)));
            let nothing = money.a_month(0, 1.0).iter().sum::<f64>();
            best.map(|best| match cost(&best) >= nothing && !self.has_targets() {
                true => Reached::ByNone(best.1),
                false => Reached::By(best.1),
            })
        } else if self.has_targets() {
            fitting.next().map(|(_, winner)| Reached::By(winner))
        } else {
            best_of(rows).map(Reached::By)
        };
        reached.or_else(|| self.nearest(rows).map(Reached::Not))
    }

    /// What is best of that which is asked for first, where nothing is enough.
    fn nearest(&self, rows: &[Row]) -> Option<Winner> {
        let entries = rows.iter().flat_map(|row| row.entries.iter().map(move |it| (row, it)));
        let known = entries.filter(|(_, entry)| entry.measured.mops.is_some());
        let least = |one: &Entry, other: &Entry| self.rank(one).total_cmp(&self.rank(other));
        let (row, entry) = known.min_by(|one, other| least(one.1, other.1))?;
        row.winner_of(|it| it.measured.policy == entry.measured.policy)
    }

    /// Where to look closer before [`Goal::reached`] is told.
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
            let missed = |(row, winner): (&Row, &Option<Winner>)| {
                let entry = winner.as_ref().and_then(|it| row.entry(it.chosen.policy));
                let left = entry.map_or(f64::INFINITY, |entry| entry.kept.miss_ratio);
                Point { size: row.capacity, left }
            };
            let curve: Vec<Point> = rows.iter().zip(&fitting).map(missed).collect();
            let prices = money.prices();
            let best = prices.cheapest(&curve).map_or(0.0, |at| prices.of(&curve[at]));
            gaps.extend(gap_to_cheapest(&curve, &prices, board.everything, best * SLIGHT));
        }
        gaps
    }
}

/// The best of several sizes, by the rule for policies: more throughput wins, and within a tie
/// fewer misses.
fn best_of(rows: &[Row]) -> Option<Winner> {
    // Throughputs of several traces are shares of the best of each size, which sizes do not have
    // in common.
    let kept = |row: &Row| Measured {
        miss_ratio: row.kept.miss_ratio,
        mops: row.kept.mops,
        ..row.winner.chosen
    };
    let cells: Vec<Measured> = rows.iter().map(kept).collect();
    let best = winner(&cells)?.chosen.capacity;
    rows.iter().find(|row| row.capacity == best).map(|row| row.winner.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        assert_eq!(parse_percent("5%"), Ok(0.05));
        assert_eq!(parse_mean("mean=0.4ms"), Ok(400.0));
        assert_eq!(parse_rate("2.5M/s"), Ok(2.5e6));
        assert_eq!(parse_price("0.25"), Ok(0.25));
        for text in ["", "5", "-1%", "101%", "nan%", "%"] {
            assert!(parse_percent(text).is_err(), "{text}");
        }
        for text in ["400us", "p99=1ms", "mean=", "mean=4"] {
            assert!(parse_mean(text).is_err(), "{text}");
        }
        for text in ["", "0", "-2M", "inf", "M", "1e400"] {
            assert!(parse_rate(text).is_err() && parse_price(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_month_costs_memory_and_misses() {
        let money = Money {
            memory_price: 2.0,
            miss_price: 0.5,
            bytes_each: 1024.0,
            requests_per_second: 1_000.0,
            rate_of_trace: false,
        };
        let [memory, misses] = money.a_month(1 << 20, 0.1);
        assert!((memory - 2.0).abs() < 1e-9, "{memory}");
        assert!((misses - 131.49).abs() < 1e-9, "{misses}");
    }
}
