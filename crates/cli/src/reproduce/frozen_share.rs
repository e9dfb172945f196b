//! Paper 2's figure 10 by a clock that only requests move: whether the controller finds the best
//! share to freeze, compared with the same cache with one share frozen all the time.

use std::time::Duration;

use anyhow::anyhow;
use frazil::{Freezing, FreezingState};

use super::frozen_cells::phase_name;
use super::frozen_clock::{Bench, Costs};
use super::{Expectation, Report};
use crate::failure::Failure;
use crate::output::{self, row};
use crate::progress::Progress;

/// Frozen shares for comparison, besides 0.
const SHARES: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
/// Their number in a quick run.
const FEW: [f64; 1] = [0.9];
/// Time that a share stays frozen, in multiples of its thawed time: the authors' lifetime, and a
/// short one for workloads that change quickly.
const LIFETIMES: [u32; 2] = [20, 2];
/// Time for which a fixed share is thawed, so that the order learns the new hot entries.
const THAWED: Duration = Duration::from_secs(2);

/// Exponent of Zipf's law, as the paper's.
const EXPONENT: f64 = 0.99;

/// Entries of the caches.
const CAPACITY: u64 = 10_000;
/// A hit that waits for a lock, and a backend as slow as 25 such hits. All is fifty times as slow
/// as in the caches, so that seconds take fewer requests.
const LOCKED: Costs = Costs { frozen_ns: 1_000, dynamic_ns: 10_000, miss_ns: 250_000 };
/// A hit hardly slower than a frozen one.
const CHEAP: Costs = Costs { dynamic_ns: 1_050, ..LOCKED };

/// The requests, with a short name.
#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    costs: Costs,
    /// Keys under Zipf's law, constant over time.
    keys: u64,
    /// One request in `every` is for a key of the window; 0 for none.
    every: u64,
    /// The window's keys, and the requests after which a new key replaces the oldest.
    window: u64,
    moves: u64,
}

const LOADS: [Load; 5] = [
    // Four of five requests are for keys that stay hot, one for new keys.
    Load { name: "part", costs: LOCKED, keys: 8_000, every: 5, window: 1_500, moves: 5_000 },
    Load { name: "still", costs: LOCKED, keys: 12_000, every: 0, window: 0, moves: 1 },
    Load { name: "cheap", costs: CHEAP, keys: 12_000, every: 0, window: 0, moves: 1 },
    Load { name: "moving", costs: LOCKED, keys: 1, every: 1, window: 8_000, moves: 20 },
    // Added after all rules of the controller were fixed, and not used before.
    Load { name: "half", costs: LOCKED, keys: 7_000, every: 2, window: 1_000, moves: 1_000 },
];

impl Load {
    /// Frequency of each key, the most frequent first.
    fn ranks(self) -> Ranks {
        let weights = (1..=self.keys).map(|rank| (rank as f64).powf(-EXPONENT));
        let sum: f64 = weights.clone().sum();
        let add = |so_far: &mut f64, weight: f64| {
            *so_far += weight / sum;
            Some(*so_far)
        };
        Ranks::new(weights.scan(0.0, add).collect())
    }

    /// The keys, endlessly. A repeated trace would be wrong: its next keys are those that the cache
    /// has just evicted.
    fn requests(self, ranks: &Ranks) -> impl Iterator<Item = u64> + '_ {
        let Load { every, window, moves, .. } = self;
        let mut state = 7u64;
        (0u64..).map(move |index| {
            // Knuth's generator; its upper half is more random.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let drawn = state >> 33;
            if every > 0 && index.is_multiple_of(every) {
                return (1 << 40) + index / moves + ((drawn * window) >> 31);
            }
            let unit = drawn as f64 / (1u64 << 31) as f64;
            ranks.at(unit) as u64
        })
    }
}

/// Keys by their shares of the requests. A binary search would take longer than the cache.
struct Ranks {
    /// Cumulated frequency of each key and all before it.
    cumulated: Vec<f64>,
    /// All requests in as many equal parts as there are keys: the rank of each part's first
    /// request.
    starts: Vec<usize>,
}

impl Ranks {
    fn new(cumulated: Vec<f64>) -> Self {
        let part = |number: usize| number as f64 / cumulated.len() as f64;
        let first = |number| cumulated.partition_point(|&so_far| so_far <= part(number));
        let starts = (0..cumulated.len()).map(first).collect();
        Ranks { cumulated, starts }
    }

    /// Number of keys whose cumulated share of the requests is at most `unit`, which is below 1.
    fn at(&self, unit: f64) -> usize {
        let number = (unit * self.starts.len() as f64) as usize;
        let mut rank = self.starts[number.min(self.starts.len() - 1)];
        while rank < self.cumulated.len() && self.cumulated[rank] <= unit {
            rank += 1;
        }
        rank
    }
}

/// A cache with one share frozen all the time.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    share: f64,
    /// `None` if nothing is frozen.
    lifetime: Option<u32>,
    rates: Rates,
}

/// Requests a second, in thousands: from the beginning, and in the second half.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    whole: f64,
    late: f64,
}

/// The result of the controller.
struct Found {
    load: &'static str,
    policy: &'static str,
    fixed: Vec<Fixed>,
    rates: Rates,
    /// The mean frozen share in the second half, and the part of it with something frozen.
    mean_share: f64,
    share: f64,
    state: FreezingState,
}

impl Found {
    /// The fastest of the fixed shares.
    fn best(&self) -> Fixed {
        let none = Fixed { share: 0.0, lifetime: None, rates: Rates::default() };
        let faster = |one: Fixed, other: &Fixed| {
            if other.rates.late > one.rates.late { *other } else { one }
        };
        self.fixed.iter().fold(none, faster)
    }

    /// The rate with everything frozen for `lifetime` times the thawed time.
    fn whole_frozen(&self, lifetime: u32) -> Option<f64> {
        let is = |it: &&Fixed| it.share >= 1.0 && it.lifetime == Some(lifetime);
        self.fixed.iter().find(is).map(|it| it.rates.late)
    }

    /// The controller's speed relative to the fastest fixed share.
    fn of_best(&self) -> f64 {
        self.rates.late / self.best().rates.late.max(1e-9)
    }

    /// Speed without freezing.
    fn never(&self) -> Rates {
        let never = self.fixed.iter().find(|it| it.lifetime.is_none());
        never.map(|it| it.rates).unwrap_or_default()
    }

    /// Speed of the whole run relative to the cache without freezing.
    fn whole_gain(&self) -> f64 {
        self.rates.whole / self.never().whole.max(1e-9)
    }

    fn rows(&self) -> Vec<output::Row> {
        let fixed = self.fixed.iter().map(|it| {
            row! {
                "kind" => "fixed",
                "figure" => 10,
                "workload" => self.load,
                "policy" => self.policy,
                "share" => it.share,
                "lifetime" => it.lifetime,
                "krps" => it.rates.late,
                "whole_run_krps" => it.rates.whole,
            }
        });
        let found = row! {
            "kind" => "found",
            "figure" => 10,
            "workload" => self.load,
            "policy" => self.policy,
            "krps" => self.rates.late,
            "whole_run_krps" => self.rates.whole,
            "mean_share" => self.mean_share,
            "share" => self.share,
            "phase" => phase_name(self.state.phase),
            "reason" => format!("{:?}", self.state.reason),
            "verdict" => self.state.verdict().map(ToString::to_string),
            "best_fixed_share" => self.best().share,
            "best_fixed_krps" => self.best().rates.late,
        };
        fixed.chain(std::iter::once(found)).collect()
    }
}

/// Makes requests for `time`; returns their number.
fn ask_for(bench: &mut Bench<'_>, time: Duration) -> u64 {
    let (until, mut asked) = (bench.now() + time, 0);
    while bench.now() < until {
        bench.ask(64);
        asked += 64;
    }
    asked
}

/// From the number of requests and the time at the half, and at the end.
fn rates(began: Duration, half: (u64, Duration), end: (u64, Duration)) -> Rates {
    Rates {
        whole: thousands(end.0, end.1 - began),
        late: thousands(end.0 - half.0, end.1 - half.1),
    }
}

fn thousands(requests: u64, time: Duration) -> f64 {
    requests as f64 / time.as_secs_f64().max(1e-9) / 1e3
}

/// Fills a cache and makes as many requests as bring its order into a steady state.
fn warm(bench: &mut Bench<'_>) {
    bench.ask(20 * CAPACITY);
}

fn fixed(
    policy: &str,
    load: Load,
    ranks: &Ranks,
    [share, lifetime]: [f64; 2],
    span: Duration,
) -> Result<Rates, Failure> {
    let keys = load.requests(ranks);
    let mut bench = Bench::new(policy, Freezing::ByHand, CAPACITY, load.costs, keys)?;
    warm(&mut bench);
    let (began, mut asked, mut half) = (bench.now(), 0, None);
    while bench.now() < began + span {
        asked += ask_for(&mut bench, THAWED);
        if share > 0.0 {
            bench.cache.freeze(share);
            asked += ask_for(&mut bench, THAWED.mul_f64(lifetime));
            bench.cache.thaw();
        }
        let now = bench.now();
        if half.is_none() && now >= began + span / 2 {
            half = Some((asked, now));
        }
    }
    Ok(rates(began, half.unwrap_or((0, began)), (asked, bench.now())))
}

/// Runs the experiment.
pub(super) fn run(quick: bool) -> Result<Report, Failure> {
    let wanted = |load: &Load| !quick || ["part", "moving"].contains(&load.name);
    let policies: &[&'static str] = if quick { &["lru"] } else { &["lru", "lfu"] };
    let shares: &[f64] = if quick { &FEW } else { &SHARES };
    let span = Duration::from_secs(if quick { 40 } else { 240 });
    let loads: Vec<Load> = LOADS.into_iter().filter(wanted).collect();
    let progress = Progress::of_steps("freezing".to_owned(), (policies.len() * loads.len()) as u64);
    let mut found = Vec::new();
    for &policy in policies {
        for &load in &loads {
            found.push(find(policy, load, span, shares)?);
            progress.advance(1);
        }
    }
    let mut expectations: Vec<Expectation> = found.iter().map(figure_10).collect();
    expectations.extend(figure_14(&found));
    Ok(Report {
        measurements: found.iter().flat_map(Found::rows).collect(),
        expectations,
        figures: Vec::new(),
        summary: format!("{}\n{}\n{}", table(&found), lifetimes(&found), verdicts(&found)),
    })
}

/// The controller must reach this part of the best fixed share's speed.
const NEAR: f64 = 0.9;
/// If freezing never pays, the search may cost this share of the whole run.
const NO_LOSS: f64 = 0.97;

fn figure_10(found: &Found) -> Expectation {
    let (best, of_best) = (found.best(), found.of_best());
    let whole = found.whole_gain();
    let [best_share, share] = [best.share, found.share].map(|share| 100.0 * share);
    Expectation {
        figure: 10,
        expected: format!(
            "{} on {}: as fast as the best share, to a tenth; no loss over the whole run",
            found.policy, found.load
        ),
        seen: format!(
            "{of_best:.2} of that of {best_share:.0} % with {share:.0} %; {whole:.2} over the run"
        ),
        met: of_best >= NEAR && whole >= NO_LOSS,
    }
}

/// Workloads with changing hot keys must be frozen anew more often: the paper's clusters 45 and 17.
fn figure_14(found: &[Found]) -> Option<Expectation> {
    let of = |load: &str| {
        let found = found.iter().find(|it| (it.load, it.policy) == (load, "lru"))?;
        Some((found.whole_frozen(2)?, found.whole_frozen(20)?))
    };
    let (part, still) = (of("part")?, of("still")?);
    Some(Expectation {
        figure: 14,
        expected: "a short lifetime is faster where hot keys move on, a long one where not".into(),
        seen: format!(
            "part {:.1} at 2, {:.1} at 20; still {:.1} at 2, {:.1} at 20, thousands of requests/s",
            part.0, part.1, still.0, still.1
        ),
        met: part.0 > part.1 && still.1 > still.0,
    })
}

fn verdicts(found: &[Found]) -> String {
    let line = |it: &Found| {
        let verdict = it.state.verdict().map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{} on {}: {verdict}\n", it.policy, it.load)
    };
    let lines: String = found.iter().map(line).collect();
    format!("What the controller tells at the end\n\n{lines}")
}

/// Lets the controller find a share, and freezes fixed ones for comparison.
fn find(
    policy: &'static str,
    load: Load,
    span: Duration,
    shares: &[f64],
) -> Result<Found, Failure> {
    let ranks = load.ranks();
    let of = |share, lifetime| fixed(policy, load, &ranks, [share, lifetime], span);
    let mut all = vec![Fixed { share: 0.0, lifetime: None, rates: of(0.0, 0.0)? }];
    let each = |&share: &f64| LIFETIMES.map(|lifetime| (share, lifetime));
    for (share, lifetime) in shares.iter().flat_map(each) {
        let rates = of(share, f64::from(lifetime))?;
        all.push(Fixed { share, lifetime: Some(lifetime), rates });
    }
    let keys = load.requests(&ranks);
    let mut bench = Bench::new(policy, Freezing::Learned, CAPACITY, load.costs, keys)?;
    warm(&mut bench);
    let began = bench.now();
    let state = |bench: &Bench<'_>| {
        let state = bench.cache.freezing_state();
        state.ok_or_else(|| anyhow!("{policy} does not freeze by itself"))
    };
    let first = ask_for(&mut bench, span / 2);
    let (half, then) = (bench.now(), state(&bench)?);
    let second = ask_for(&mut bench, span / 2);
    let rates = rates(began, (first, half), (first + second, bench.now()));
    let state = state(&bench)?;
    let times = state.times_by_share().zip(then.times_by_share());
    let times: Vec<(f64, f64)> =
        times.map(|((share, now), (_, then))| (share, (now - then).as_secs_f64())).collect();
    let mean = |times: &[(f64, f64)]| {
        let sum: f64 = times.iter().map(|(_, time)| time).sum();
        times.iter().map(|(share, time)| share * time).sum::<f64>() / sum.max(1e-9)
    };
    Ok(Found {
        load: load.name,
        policy,
        fixed: all,
        rates,
        mean_share: mean(&times),
        share: mean(times.get(1..).unwrap_or_default()),
        state,
    })
}

/// A line for each workload.
fn table(found: &[Found]) -> String {
    let row = |it: &Found| {
        let best = it.best();
        let rate = |rate: f64| output::number(rate, 1);
        let at = |share: f64| {
            let mine = it.fixed.iter().filter(|fixed| fixed.share.to_bits() == share.to_bits());
            let best = mine.map(|fixed| fixed.rates.late).max_by(f64::total_cmp);
            best.map_or_else(|| "-".to_owned(), rate)
        };
        let mut row = vec![it.load.to_owned(), it.policy.to_owned(), rate(it.never().late)];
        row.extend(SHARES.map(at));
        row.extend([
            format!("{:.0} %", 100.0 * best.share),
            rate(it.rates.late),
            format!("{:.2}", it.of_best()),
            format!("{:.2}", it.whole_gain()),
            format!("{:.0} %", 100.0 * it.share),
            format!("{:.0} %", 100.0 * it.mean_share),
            phase_name(it.state.phase),
            format!("{:?}", it.state.reason),
        ]);
        row
    };
    let mut headers: Vec<String> = ["workload", "policy", "never"].map(str::to_owned).to_vec();
    headers.extend(SHARES.map(|share| format!("{:.0} %", 100.0 * share)));
    let rest = ["best", "found", "of best", "run", "share", "mean", "phase at the end", "reason"];
    headers.extend(rest.map(str::to_owned));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let left = ["workload", "policy", "phase at the end", "reason"];
    let table = output::table(&headers, &left, found.iter().map(row).collect());
    format!(
        "Figure 10: the best share, by a clock; thousands of requests a second with a share frozen \
         all the time,\nand as the controller found it\n\n{table}"
    )
}

/// Figure 14 by the clock: everything frozen, by lifetime, and nothing frozen.
fn lifetimes(found: &[Found]) -> String {
    let row = |it: &Found| {
        let of = |lifetime| {
            let rate = it.whole_frozen(lifetime).map(|rate| output::number(rate, 1));
            rate.unwrap_or_else(|| "-".to_owned())
        };
        let mut row = vec![it.load.to_owned(), it.policy.to_owned()];
        row.extend(LIFETIMES.map(of));
        row.push(output::number(it.never().late, 1));
        row
    };
    let mut headers: Vec<String> = ["workload", "policy"].map(str::to_owned).to_vec();
    headers.extend(LIFETIMES.map(|lifetime| format!("lifetime {lifetime}")));
    headers.push("never".to_owned());
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let table = output::table(&headers, &["workload", "policy"], found.iter().map(row).collect());
    format!("Figure 14 by the clock: all frozen, thousands of requests a second\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_what_a_search_by_halves_finds() {
        for load in LOADS {
            let ranks = load.ranks();
            let keys = ranks.cumulated.len();
            let parts = (0..keys).map(|number| number as f64 / keys as f64);
            let edges = ranks.cumulated.iter().copied().chain(parts);
            let near = edges.flat_map(|edge| [edge.next_down(), edge, edge.next_up()]);
            for unit in near.filter(|unit| (0.0..1.0).contains(unit)) {
                let found = ranks.cumulated.partition_point(|&so_far| so_far <= unit);
                assert_eq!(ranks.at(unit), found, "{}: {unit}", load.name);
            }
        }
    }
}
