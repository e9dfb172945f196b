//! Whether the advice is right: runs `frazil advise` as a user does, and measures its
//! recommendation in the cache itself, beside all other possible recommendations and beside rules
//! that need no advice.
//!
//! **Regret** is the gain of the best measured choice over the recommended one, as a share: of the
//! throughput within a budget, or of the costs at prices. The best of many noisy measurements is
//! partly the luckiest, so regrets of throughput are larger than without noise.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use frazil_driver::Setup;
use serde_json::Value;

use super::advice_cells::{Load, MPL_A_THREAD, Timer};
use super::{Expectation, Report};
use crate::bench::measured_entry_bytes;
use crate::failure::Failure;
use crate::forecast::COMPARED;
use crate::median::median;
use crate::output::{self, Row, percent, row};
use crate::progress::Progress;

/// Latency of misses: none, as in a benchmark, that of another machine's memory, or that of flash.
const BACKENDS_US: [f64; 3] = [0.0, 10.0, 100.0];
/// Sizes, in percent of all objects.
const BUDGETS: [f64; 2] = [2.0, 10.0];
/// Costs of a cache for all objects, in multiples of the costs of the avoidable misses.
const PRICES: [f64; 3] = [0.1, 0.5, 2.0];
/// Sizes whose costs are measured, in percent of everything.
const SIZES: [f64; 9] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
/// The usual size without advice, in percent of all objects.
const USUAL: f64 = 10.0;
/// With prices: bytes of a value, requests a second, and the price of a million misses.
const VALUE_BYTES: f64 = 1_000.0;
const REQUEST_RATE: f64 = 1_000.0;
const MISS_PRICE: f64 = 1.0;
const MONTH_SECONDS: f64 = 365.25 * 86_400.0 / 12.0;
const GIB: f64 = (1u64 << 30) as f64;
/// Bytes of key and value in the measured bytes of an entry, which include the key.
const VALUE_MEASURED: f64 = 8.0;
/// Limits for the mean and the worst regret.
const TARGET: (f64, f64) = (0.03, 0.10);
/// Settings that the summary names.
const NAMED: usize = 8;

/// The extent of the experiment.
struct Size {
    /// Records of each trace.
    records: u64,
    rounds: usize,
    /// Entries whose memory is measured.
    entries: u64,
    /// Operations of a run, if misses do not wait.
    operations: f64,
    /// Total time that all runs wait for near cores.
    patience: Duration,
}

impl Size {
    fn new(quick: bool) -> Self {
        if quick {
            Size {
                records: 20_000,
                rounds: 2,
                entries: 100_000,
                operations: 20_000.0,
                patience: Duration::from_secs(1),
            }
        } else {
            Size {
                records: 300_000,
                rounds: 3,
                entries: 1_000_000,
                operations: 200_000.0,
                patience: Duration::from_secs(600),
            }
        }
    }
}

/// A policy with a capacity; `None`, with prices, is no cache.
type Choice = Option<(usize, u64)>;

/// One question with all possible answers, and the choice of each rule.
struct Question {
    trace: String,
    what: String,
    is_cost: bool,
    advised: String,
    best: String,
    /// By rule, in the order of [`Bench::rules`].
    regrets: Vec<f64>,
}

/// A policy at a size, predicted and measured.
struct Cell {
    trace: String,
    threads: usize,
    backend_us: f64,
    policy: String,
    capacity: u64,
    miss_ratio: f64,
    predicted_mops: Option<f64>,
    mops: Vec<f64>,
}

impl Cell {
    fn row(&self) -> Row {
        row! {
            "kind" => "cell",
            "trace" => self.trace,
            "threads" => self.threads,
            "backend_us" => self.backend_us,
            "mpl" => MPL_A_THREAD * self.threads,
            "policy" => self.policy,
            "capacity" => self.capacity,
            "miss_ratio" => self.miss_ratio,
            "predicted_mops" => self.predicted_mops,
            "measured_mops" => median(&self.mops),
            "measured_mops_each" => self.mops,
        }
    }
}

struct Bench<'a> {
    names: Vec<&'a str>,
    setups: Vec<Setup>,
    /// By policy: bytes of an entry with a value of [`VALUE_BYTES`].
    bytes_each: Vec<f64>,
    threads: Vec<usize>,
    size: Size,
    profile: Option<&'a Path>,
    timer: Timer,
    cells: Vec<Cell>,
    /// The reasons for traces without an answer, and for answers that recommend no cache.
    left_out: Vec<String>,
}

/// Runs the experiment. Real traces take part if their folder is known.
pub(super) fn run(
    quick: bool,
    traces: Option<&Path>,
    profile: Option<&Path>,
) -> Result<Report, Failure> {
    let size = Size::new(quick);
    let loads = Load::all(quick, traces, size.records)?;
    let names: Vec<&str> = COMPARED.split(',').collect();
    let parse = |name: &&str| name.parse::<Setup>().map_err(Failure::usage);
    let setups = names.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let mut bytes_each = Vec::new();
    for &setup in &setups {
        let entry = measured_entry_bytes(setup, size.entries, None)?;
        let entry = entry.context("this system does not tell how much memory a process has")?;
        bytes_each.push(entry - VALUE_MEASURED + VALUE_BYTES);
    }
    let mut threads = vec![1, frazil_driver::cores().min(8)];
    threads.dedup();
    let timer = Timer::new(size.operations, size.patience);
    let (cells, left_out) = (Vec::new(), Vec::new());
    let mut bench =
        Bench { names, setups, bytes_each, threads, size, profile, timer, cells, left_out };
    let steps = loads.len() * (bench.threads.len() * BACKENDS_US.len() * bench.size.rounds + 1);
    let progress = Progress::of_steps("measuring".to_owned(), steps as u64);
    let mut questions = Vec::new();
    for load in &loads {
        // A trace that fails must not lose the answers of an hour's others.
        match bench.of_trace(load, &progress) {
            Ok(of_trace) => questions.extend(of_trace),
            Err(failure) => bench.left_out.push(format!("{}: {:#}", load.name, failure.error()?)),
        }
    }
    if questions.is_empty() {
        return Err(anyhow!("no question could be asked\n{}", bench.left_out.join("\n")).into());
    }
    Ok(report(&bench, &questions))
}

impl Bench<'_> {
    /// The rules compared with the advice: always one policy, and the policy with the fewest
    /// misses. They use up the budget; with prices they take [`USUAL`] of all objects.
    fn rules(&self) -> Vec<String> {
        let policies = self.names.iter().map(|name| format!("always {name}"));
        let others = ["fewest misses", "room for everything"].map(str::to_owned);
        ["frazil advise".to_owned()].into_iter().chain(policies).chain(others).collect()
    }

    fn of_trace(&mut self, load: &Load, progress: &Progress) -> Result<Vec<Question>, Failure> {
        let mut questions = Vec::new();
        for threads in self.threads.clone() {
            for backend_us in BACKENDS_US {
                questions.extend(self.within_budgets(load, threads, backend_us, progress)?);
            }
        }
        questions.extend(self.at_prices(load)?);
        progress.advance(1);
        Ok(questions)
    }

    /// Questions that differ only in their budget, measured in the same rounds.
    fn within_budgets(
        &mut self,
        load: &Load,
        threads: usize,
        backend_us: f64,
        progress: &Progress,
    ) -> Result<Vec<Question>, Failure> {
        let mut asked = Vec::new();
        for budget in BUDGETS {
            let cores = threads.to_string();
            let flags = ["--budget", &format!("{budget}%"), "--cores", &cores];
            let backend = format!("{backend_us}us");
            let answer = self.ask(load, &[&flags[..], &["--backend", &backend]].concat())?;
            asked.push((budget, load.share(budget), answer));
        }
        let mut cells: Vec<(usize, u64)> = Vec::new();
        for (_, most, answer) in &asked {
            let sizes = [Some(*most), answer.choice.map(|it| it.1)];
            for capacity in sizes.into_iter().flatten() {
                for policy in 0..self.setups.len() {
                    if !cells.contains(&(policy, capacity)) {
                        cells.push((policy, capacity));
                    }
                }
            }
        }
        let streams = load.streams(threads)?;
        let mut mops = vec![Vec::new(); cells.len()];
        for _ in 0..self.size.rounds {
            for (&(policy, capacity), mops) in cells.iter().zip(&mut mops) {
                let setup = self.setups[policy];
                mops.push(self.timer.mops(setup, capacity, &streams, backend_us));
            }
            progress.advance(1);
        }
        let what = |budget: f64| format!("{threads} threads, {backend_us} us, {budget} %");
        // Latency without a cache is not measured.
        for (budget, _, _) in asked.iter().filter(|(_, _, answer)| answer.choice.is_none()) {
            let text = format!("{}, {}: no cache is advised", load.name, what(*budget));
            self.left_out.push(text);
        }
        let answered = asked.iter().filter(|(_, _, answer)| answer.choice.is_some());
        let question = |(budget, most, answer): &(f64, u64, Answer)| {
            let within: Vec<usize> = (0..cells.len()).filter(|&at| cells[at].1 <= *most).collect();
            let at = |cell| within.iter().position(|&at| cells[at] == cell);
            let of: Vec<&[f64]> = within.iter().map(|&at| &mops[at][..]).collect();
            let mut choices = vec![answer.choice];
            choices.extend((0..self.setups.len()).map(|policy| Some((policy, *most))));
            choices.push(answer.fewest_misses(*most).map(|policy| (policy, *most)));
            let regret = |choice: &Choice| choice.and_then(at).map_or(1.0, |at| regret(&of, at));
            let mut regrets: Vec<f64> = choices.iter().map(regret).collect();
            // The rule does not apply within a budget.
            regrets.push(f64::NAN);
            let best = (0..of.len()).max_by(|&a, &b| median(of[a]).total_cmp(&median(of[b])));
            let name = |cell: (usize, u64)| format!("{} {}", self.names[cell.0], cell.1);
            Question {
                trace: load.name.clone(),
                what: what(*budget),
                is_cost: false,
                advised: answer.choice.map_or_else(|| "none".to_owned(), name),
                best: best.map_or_else(String::new, |at| name(cells[within[at]])),
                regrets,
            }
        };
        let questions = answered.map(question).collect();
        for (&(policy, capacity), mops) in cells.iter().zip(mops) {
            let known = asked.iter().find_map(|(_, _, answer)| answer.cell(policy, capacity));
            self.cells.extend(known.map(|known| Cell {
                trace: load.name.clone(),
                threads,
                backend_us,
                policy: self.names[policy].to_owned(),
                capacity,
                miss_ratio: known.miss_ratio,
                predicted_mops: known.mops,
                mops,
            }));
        }
        Ok(questions)
    }

    /// Questions of costs: counts misses, times nothing.
    fn at_prices(&self, load: &Load) -> Result<Vec<Question>, Failure> {
        let avoidable = 1.0 - load.everything() as f64 / load.trace.len().max(1) as f64;
        let misses_a_month = REQUEST_RATE * MONTH_SECONDS / 1e6 * MISS_PRICE;
        let everything_gib = load.everything() as f64 * median(&self.bytes_each) / GIB;
        let mut asked = Vec::new();
        for price in PRICES {
            let memory_price = (price * misses_a_month * avoidable / everything_gib).max(1e-9);
            let said =
                [VALUE_BYTES, REQUEST_RATE, MISS_PRICE, memory_price].map(|it| it.to_string());
            let flags = ["--value-bytes", "--request-rate", "--miss-price", "--memory-price"];
            let flags: Vec<&str> =
                flags.iter().zip(&said).flat_map(|(&flag, said)| [flag, said]).collect();
            asked.push((price, memory_price, self.ask(load, &flags)?));
        }
        let mut sizes: Vec<u64> = SIZES.iter().map(|&percent| load.share(percent)).collect();
        sizes.push(load.share(USUAL));
        sizes.extend(asked.iter().filter_map(|(_, _, answer)| Some(answer.choice?.1)));
        sizes.sort_unstable();
        sizes.dedup();
        let mut cells = Vec::new();
        for &capacity in &sizes {
            for (policy, &setup) in self.setups.iter().enumerate() {
                cells.push(((policy, capacity), load.miss_ratio(setup, capacity)?));
            }
        }
        let question = |(price, memory_price, answer): &(f64, f64, Answer)| {
            let cost = |&((policy, capacity), misses): &((usize, u64), f64)| {
                let memory = self.bytes_each[policy] * capacity as f64 / GIB * memory_price;
                memory + misses * misses_a_month
            };
            let of = |choice: Choice| {
                let cell = |(it, _): &&((usize, u64), f64)| Some(*it) == choice;
                cells.iter().find(cell).map_or(misses_a_month, cost)
            };
            let cheapest = cells.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let cheapest = cheapest.filter(|it| cost(it) < misses_a_month).map(|it| it.0);
            let (usual, all) = (load.share(USUAL), load.everything());
            let fewest = |capacity| {
                let of_size = cells.iter().filter(move |it| it.0.1 == capacity);
                of_size.min_by(|a, b| a.1.total_cmp(&b.1)).map(|it| it.0)
            };
            let mut choices = vec![answer.choice];
            choices.extend((0..self.setups.len()).map(|policy| Some((policy, usual))));
            choices.extend([fewest(usual), fewest(all)]);
            let name = |choice: Choice| {
                let cell = |(policy, size): (usize, u64)| format!("{} {size}", self.names[policy]);
                choice.map_or_else(|| "none".to_owned(), cell)
            };
            Question {
                trace: load.name.clone(),
                what: format!("memory at {price}"),
                is_cost: true,
                advised: name(answer.choice),
                best: name(cheapest),
                regrets: choices.iter().map(|&it| of(it) / of(cheapest) - 1.0).collect(),
            }
        };
        Ok(asked.iter().map(question).collect())
    }

    /// Asks for advice, as a user does.
    fn ask(&self, load: &Load, flags: &[&str]) -> anyhow::Result<Answer> {
        let program = std::env::current_exe().context("no path to this program")?;
        let mut command = Command::new(program);
        command.args(["advise", "--output", "json", "--sample", "all", "--trace", &load.spec]);
        command.args(["--limit", &self.size.records.to_string()]).args(flags);
        if let Some(profile) = self.profile {
            command.arg("--profile").arg(profile);
        }
        let output = command.output().context("cannot start frazil advise")?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr);
            bail!("frazil advise of {}: {}", load.name, problem.trim_end());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let rows = text.lines().map(|line| Ok(serde_json::from_str(line)?));
        Answer::read(&rows.collect::<anyhow::Result<Vec<Value>>>()?, &self.names)
    }
}

/// A policy at a size, predicted by `frazil advise`.
struct Foretold {
    policy: usize,
    capacity: u64,
    miss_ratio: f64,
    mops: Option<f64>,
}

/// The answer of `frazil advise`.
struct Answer {
    choice: Choice,
    cells: Vec<Foretold>,
}

impl Answer {
    fn read(rows: &[Value], names: &[&str]) -> anyhow::Result<Self> {
        let cell = |row: &Value| {
            let policy = names.iter().position(|&name| row["policy"] == name)?;
            Some((policy, row["capacity"].as_u64()?))
        };
        let recommendation = rows.iter().find(|row| row["kind"] == "recommendation");
        let recommendation = recommendation.context("no recommendation in it")?;
        let foretold = |row: &Value| {
            let (policy, capacity) = cell(row)?;
            let miss_ratio = row["miss_ratio"].as_f64()?;
            let mops = row["throughput_mops"].as_f64();
            Some(Foretold { policy, capacity, miss_ratio, mops })
        };
        let cells = rows.iter().filter(|row| row["kind"] == "cell");
        Ok(Answer { choice: cell(recommendation), cells: cells.filter_map(foretold).collect() })
    }

    fn cell(&self, policy: usize, capacity: u64) -> Option<&Foretold> {
        self.cells.iter().find(|it| (it.policy, it.capacity) == (policy, capacity))
    }

    fn fewest_misses(&self, capacity: u64) -> Option<usize> {
        let of_size = self.cells.iter().filter(|it| it.capacity == capacity);
        let fewest = of_size.min_by(|a, b| a.miss_ratio.total_cmp(&b.miss_ratio));
        fewest.map(|it| it.policy)
    }
}

/// Factor by which the best is faster than a cell: the median over rounds that measured both.
fn regret(cells: &[&[f64]], chosen: usize) -> f64 {
    let best = cells.iter().max_by(|a, b| median(**a).total_cmp(&median(**b)));
    let share = |(mine, best): (&f64, &f64)| mine / best.max(f64::MIN_POSITIVE);
    best.map_or(0.0, |best| 1.0 - median(cells[chosen].iter().zip(*best).map(share)))
}

/// Regrets of a rule: the mean and the worst; `None` without any.
fn mean_and_worst(regrets: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let known: Vec<f64> = regrets.filter(|regret| !regret.is_nan()).collect();
    let worst = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (!known.is_empty()).then(|| (known.iter().sum::<f64>() / known.len() as f64, worst))
}

fn report(bench: &Bench<'_>, questions: &[Question]) -> Report {
    let rules = bench.rules();
    let of = |rule: usize, is_cost: bool| {
        let asked = questions.iter().filter(|it| it.is_cost == is_cost);
        mean_and_worst(asked.map(|it| it.regrets[rule]))
    };
    let told = |it: Option<(f64, f64)>| match it {
        Some((mean, worst)) => [percent(mean), percent(worst)],
        None => ["-", "-"].map(str::to_owned),
    };
    let line = |rule: usize| {
        let [speed, cost] = [false, true].map(|is_cost| told(of(rule, is_cost)));
        [vec![rules[rule].clone()], speed.to_vec(), cost.to_vec()].concat()
    };
    let headers = ["rule", "slower: mean", "worst", "dearer: mean", "worst"];
    let rows = (0..rules.len()).map(line).collect();
    let mut summary = format!("Regret by rule.\n\n{}\n", output::table(&headers, &["rule"], rows));
    summary += &by_trace(questions);
    summary += &worst_of(questions);
    summary += &format!(
        "{} of {} runs disturbed every time they were tried\n",
        bench.timer.disturbed, bench.timer.runs
    );
    summary.extend(bench.left_out.iter().map(|it| format!("left out: {it}\n")));
    if let Some(ns) = bench.timer.transfer_ns() {
        summary +=
            &format!("with several threads: while a line took {ns:.0} ns from core to core\n");
    }
    let mut expectations = Vec::new();
    for (is_cost, what) in [(false, "throughput"), (true, "costs")] {
        let Some((mean, worst)) = of(0, is_cost) else { continue };
        let others = (1..rules.len()).filter_map(|rule| of(rule, is_cost)).map(|it| it.0);
        let least = others.fold(f64::INFINITY, f64::min);
        let expect = |expected: String, seen: f64, met: bool| Expectation {
            figure: 1,
            expected,
            seen: percent(seen),
            met,
        };
        expectations.extend([
            expect(format!("mean regret of {what} at most 3 %"), mean, mean <= TARGET.0),
            expect(format!("worst regret of {what} at most 10 %"), worst, worst <= TARGET.1),
            expect(
                format!("mean regret of {what} below that of each rule ({})", percent(least)),
                mean,
                mean < least,
            ),
        ]);
    }
    let answers = questions.iter().map(|it| of_question(it, &rules));
    let measurements = answers.chain(bench.cells.iter().map(Cell::row)).collect();
    Report { measurements, expectations, figures: Vec::new(), summary }
}

fn of_question(question: &Question, rules: &[String]) -> Row {
    let regrets: serde_json::Map<String, Value> = rules
        .iter()
        .zip(&question.regrets)
        .filter(|(_, regret)| !regret.is_nan())
        .map(|(rule, &regret)| (rule.clone(), regret.into()))
        .collect();
    row! {
        "kind" => "question",
        "trace" => question.trace,
        "setting" => question.what,
        "regret_of" => if question.is_cost { "cost" } else { "throughput" },
        "mpl_a_thread" => MPL_A_THREAD,
        "advised" => question.advised,
        "best" => question.best,
        "regrets" => regrets,
    }
}

/// The advice, by trace.
fn by_trace(questions: &[Question]) -> String {
    let of = |asked: &[Question]| {
        let told = |is_cost: bool| {
            let regrets = asked.iter().filter(|it| it.is_cost == is_cost).map(|it| it.regrets[0]);
            let (mean, worst) = mean_and_worst(regrets).unwrap_or_default();
            [percent(mean), percent(worst)]
        };
        [&[asked[0].trace.clone()][..], &told(false), &told(true)].concat()
    };
    let rows = questions.chunk_by(|one, other| one.trace == other.trace).map(of).collect();
    let headers = ["trace", "slower: mean", "worst", "dearer: mean", "worst"];
    format!("Regret of the advice by trace.\n\n{}\n", output::table(&headers, &["trace"], rows))
}

/// The questions with the worst answers.
fn worst_of(questions: &[Question]) -> String {
    let mut worst: Vec<&Question> = questions.iter().collect();
    worst.sort_by(|one, other| other.regrets[0].total_cmp(&one.regrets[0]));
    let row = |it: &&Question| {
        let what = [&it.trace, &it.what, &it.advised, &it.best].map(Clone::clone);
        [&what[..], &[percent(it.regrets[0])]].concat()
    };
    let headers = ["trace", "setting", "advised", "best", "regret"];
    let rows = worst.iter().take(NAMED).map(row).collect();
    let left = ["trace", "setting", "advised", "best"];
    format!("Where it is furthest from the best.\n\n{}\n", output::table(&headers, &left, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_one_by_one() {
        // The second is twice as fast in every round, although rounds differ.
        let [slow, fast] = [[1.0, 5.0, 0.1], [2.0, 10.0, 0.2]];
        assert_eq!((regret(&[&slow, &fast], 0), regret(&[&slow, &fast], 1)), (0.5, 0.0));
        // One disturbed round has no effect.
        assert_eq!(regret(&[&[4.0, 4.0, 1.0], &[4.0, 4.0, 9.0]], 0), 0.0);
    }

    #[test]
    fn answers_are_read() {
        let rows = [
            serde_json::json!({"kind": "cell", "policy": "lru", "capacity": 5, "miss_ratio": 0.5}),
            serde_json::json!({"kind": "cell", "policy": "fifo", "capacity": 5, "miss_ratio": 0.7}),
            serde_json::json!({"kind": "recommendation", "policy": null, "capacity": null}),
        ];
        let answer = Answer::read(&rows, &["fifo", "lru"]).unwrap();
        assert_eq!((answer.choice, answer.fewest_misses(5)), (None, Some(1)));
        assert!(Answer::read(&rows[..2], &["lru"]).is_err());
    }

    #[test]
    fn what_is_no_rule_does_not_count() {
        assert_eq!(mean_and_worst([0.1, f64::NAN, 0.3].into_iter()), Some((0.2, 0.3)));
        assert_eq!(mean_and_worst([f64::NAN].into_iter()), None);
    }
}
