//! Paper 3's figures 2, 4 and 7 to 10, by shape; `mobius_traces.rs` has 11 and 12.
//!
//! Zipf 1.0 over a million objects, as in the paper, with 10 million requests a thread instead of
//! 100, and values of 8 bytes instead of 4 KB: the comparison is of policies, and copying values
//! would hide it. One to eight threads on all available cores.
//!
//! **Rivals.** Each figure has the paper's contenders; figure 4 adds all that take no lock.
//! `lru-delayed` is the paper's OptLRU. The contenders of figure 2, LRU and 2Q included, are
//! measured together with figures 7 and 8, at a tenth of the objects.
//!
//! **Hits under a lock.** CacheLib's LRU, TinyLFU and 2Q wait for the lock on a hit (unless
//! `tryLockUpdate` is set), and so do `lru`, `lru-delayed`, `w-tinylfu` and `two-queue` here:
//! `Promotion::EveryHit`, not our cache's default for the last two, which applies hits in batches.
//! CacheLib's three also do not promote an entry again within a refresh time, 60 s by default. The
//! paper mentions that only for OptLRU, and writes that TinyLFU updates its structures on hits; so
//! only our `lru-delayed` has a window ([`Contender::policy_at`]).
//!
//! Figure 4 does not split costs into lock and work, as the paper does from inside CacheLib; it
//! shows a task by one thread, with the lock always free, and by many. Figure 8 and the hit ratios
//! of figures 2 and 10 are counts of one thread and repeat exactly; the simulator must agree.

use std::time::Duration;

use anyhow::anyhow;
use frazil::Policy;
use frazil_driver::Schedule;
use frazil_policy::Work;
use frazil_simulator::trace::{self, Trace};
use frazil_simulator::{CellSpec, SweepOptions, sweep};

use super::Report;
use super::cells::{self, Cell, Contender, Extent, Spot, Task};
use super::expectations::{self, Findings, HitRatio};
use crate::draw::{self, Look, Panel, Series, Shape, lines};
use crate::failure::Failure;
use crate::output::{self, Row, row};
use crate::progress::Progress;

const fn contender(name: &'static str, policy: Policy, number: usize) -> Contender {
    Contender { name, policy, batch: 16, detects_runs: true, number }
}

pub(super) const MOBIUS: Contender = contender("mobius", Policy::Mobius, 0);
const SIEVE: Contender = contender("sieve", Policy::Sieve, 1);
pub(super) const S3_FIFO: Contender = contender("s3-fifo", Policy::S3Fifo, 2);
pub(super) const CLOCK: Contender = contender("clock", Policy::Clock { bits: 1 }, 3);
const FIFO: Contender = contender("fifo", Policy::Fifo, 4);
/// Without consecutive detection, the paper's baseline. Segments have the usual length.
const WITHOUT_DETECTION: Contender =
    Contender { name: "mobius-w/d", detects_runs: false, number: 14, ..MOBIUS };
/// Segments of one entry, also for new entries: shows the effect of segments.
const SEGMENTS_OF_ONE: Contender =
    Contender { name: "mobius:batch=1", batch: 1, number: 5, ..MOBIUS };
const LRU: Contender = contender("lru", Policy::Lru, 6);
/// Its window follows from the capacity: [`Contender::policy_at`].
pub(super) const LRU_DELAYED: Contender =
    contender("lru-delayed", Policy::LruDelayed { window: 0 }, 7);
pub(super) const W_TINY_LFU: Contender = contender("w-tinylfu", Policy::WTinyLfu, 8);
pub(super) const TWO_QUEUE: Contender = contender("two-queue", Policy::TwoQueue, 9);

/// The contenders of figures 7 and 8, in the paper and at 1 % here.
const RIVALS: [Contender; 7] = [MOBIUS, SIEVE, S3_FIFO, CLOCK, FIFO, LRU_DELAYED, W_TINY_LFU];
/// The contenders at 10 %: those of figure 2 as well.
pub(super) const ALL: [Contender; 9] =
    [MOBIUS, SIEVE, S3_FIFO, CLOCK, FIFO, LRU, LRU_DELAYED, W_TINY_LFU, TWO_QUEUE];
/// The contenders of figure 2.
const EARLIER: [Contender; 7] = [SIEVE, CLOCK, FIFO, LRU, LRU_DELAYED, W_TINY_LFU, TWO_QUEUE];
/// The contenders of figure 4.
const COSTS: [Contender; 7] = [MOBIUS, SIEVE, S3_FIFO, CLOCK, FIFO, LRU, LRU_DELAYED];
/// The contenders of figure 9.
const LATENCIES: [Contender; 7] =
    [MOBIUS, SIEVE, S3_FIFO, CLOCK, LRU_DELAYED, W_TINY_LFU, TWO_QUEUE];
/// The contenders of figure 10.
const DESIGNS: [Contender; 5] = [MOBIUS, SIEVE, S3_FIFO, WITHOUT_DETECTION, SEGMENTS_OF_ONE];

/// The contenders of figures 7 and 8 at a size.
fn at_size(percent: u32) -> &'static [Contender] {
    if percent == 10 { &ALL } else { &RIVALS }
}

/// Sizes of figures 7 and 8, in percent of the objects.
const SMALL: [u32; 2] = [1, 10];

/// Rounds of figure 4, which is quick.
const COST_ROUNDS: usize = 5;

/// The measurements to make.
struct Plan {
    extent: Extent,
    /// Numbers of threads of figure 7, and of figure 10.
    threads: [Vec<usize>; 2],
    /// Sizes of figure 10.
    percents: Vec<u32>,
}

impl Plan {
    fn new(quick: bool) -> Self {
        let most = 8;
        let cores = frazil_driver::cores().clamp(1, most);
        let unique = |mut threads: Vec<usize>| {
            threads.sort_unstable();
            threads.dedup();
            threads
        };
        let schedule = |warmup, measured, slices| Schedule {
            warmup: Duration::from_millis(warmup),
            measured: Duration::from_millis(measured),
            slices,
        };
        if quick {
            let extent = Extent {
                objects: 20_000,
                requests: 200_000,
                rounds: 1,
                schedule: schedule(5, 40, 2),
            };
            let threads = [unique(vec![1, cores, most]), unique(vec![1, most])];
            return Plan { extent, threads, percents: vec![10, 90] };
        }
        let extent = Extent {
            objects: 1_000_000,
            requests: 10_000_000,
            rounds: 3,
            schedule: schedule(50, 300, 5),
        };
        let threads = [unique(vec![1, 2, 4, 6, most]), unique(vec![1, cores, most])];
        Plan { extent, threads, percents: vec![10, 30, 50, 70, 90] }
    }

    /// The figure, size and contender of each hit ratio.
    fn hit_ratios(&self) -> Vec<(u32, u32, Contender)> {
        let of = |figure, percent, contenders: &'static [Contender]| {
            contenders.iter().map(move |&contender| (figure, percent, contender))
        };
        let small = SMALL.into_iter().flat_map(|percent| of(8, percent, at_size(percent)));
        let designs = self.percents.iter().flat_map(|&percent| of(10, percent, &DESIGNS));
        small.chain(designs).collect()
    }

    fn most(&self) -> usize {
        self.threads[0].last().copied().unwrap_or(1)
    }

    fn spots(&self) -> Vec<(Spot, &'static [Contender])> {
        let spots = |figure, percent, threads: &[usize], contenders| {
            let spot = |&threads| (Spot { figure, percent, threads }, contenders);
            threads.iter().map(spot).collect::<Vec<_>>()
        };
        let small = SMALL.map(|percent| spots(7, percent, &self.threads[0], at_size(percent)));
        let designs =
            self.percents.iter().map(|&percent| spots(10, percent, &self.threads[1], &DESIGNS));
        small.into_iter().chain(designs).flatten().collect()
    }
}

/// Runs the experiment.
pub(super) fn run(quick: bool) -> Result<Report, Failure> {
    let plan = Plan::new(quick);
    let Extent { objects, requests, rounds, .. } = plan.extent;
    let spec = format!("zipf:1.0:objects={objects}:requests={requests}:seed=1");
    let trace = trace::load(&spec, &Default::default())?.trace;

    let spots = plan.spots();
    let tasks = 2 * COST_ROUNDS * COSTS.len();
    let driven: usize = spots.iter().map(|(_, contenders)| rounds * contenders.len()).sum();
    let steps = tasks + driven + plan.hit_ratios().len();
    let progress = Progress::of_steps("measuring".to_owned(), steps as u64);
    let done = |steps| progress.advance(steps as u64);

    let mut findings = Findings {
        costs: Vec::new(),
        cells: Vec::new(),
        hit_ratios: Vec::new(),
        most: plan.most(),
    };
    for threads in [1, plan.most()] {
        findings.costs.extend(cells::costs(&trace, threads, &COSTS, COST_ROUNDS, &done));
    }
    for (spot, contenders) in spots {
        findings.cells.extend(cells::compare(&trace, spot, contenders, &plan.extent, &done));
    }
    findings.hit_ratios = hit_ratios(&trace, &plan.hit_ratios(), &done)?;
    drop(progress);
    Ok(Report {
        measurements: measurements(&findings),
        expectations: expectations::all(&findings),
        figures: figures(&findings),
        summary: summary(&findings),
    })
}

/// Counts the hits of one thread in the cache and in the simulator: of a contender in a figure, at
/// a share of the objects.
pub(super) fn hit_ratios(
    trace: &Trace,
    wanted: &[(u32, u32, Contender)],
    done: &dyn Fn(usize),
) -> Result<Vec<HitRatio>, Failure> {
    let mut specs = Vec::new();
    for &(_, percent, contender) in wanted {
        let capacity = cells::capacity(trace, percent);
        let name = contender.policy_at(capacity).to_string();
        let policy = name.parse().map_err(|error| anyhow!("{name} in the simulator: {error}"))?;
        specs.push(CellSpec { policy, capacity });
    }
    let threads = frazil_driver::cores();
    let options = SweepOptions { threads, count_work: true, ..SweepOptions::default() };
    let simulated = sweep(trace, &specs, &options, &|_| ());
    let ratio = |(&(figure, percent, contender), outcome): (&(u32, u32, Contender), &_)| {
        let outcome: &frazil_simulator::Outcome = outcome;
        let cache = contender.hit_ratio(trace, cells::capacity(trace, percent));
        done(1);
        HitRatio {
            figure,
            contender: contender.name,
            percent,
            cache,
            simulator: 1.0 - outcome.miss_ratio(),
            marks: outcome.work.on_hits.get(Work::Mark) as f64 / outcome.requests.max(1) as f64,
        }
    };
    Ok(wanted.iter().zip(&simulated).map(ratio).collect())
}

/// Quantiles at which figure 9 is drawn.
const SHARES: [f64; 16] =
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];

/// The cells of figure 9.
fn latencies(findings: &Findings) -> impl Iterator<Item = &Cell> {
    let spot = Spot { figure: 7, percent: 10, threads: findings.most };
    let shown = |cell: &&Cell| LATENCIES.iter().any(|it| it.name == cell.contender);
    findings.cells.iter().filter(move |cell| cell.spot == spot).filter(shown)
}

fn measurements(findings: &Findings) -> Vec<Row> {
    let mut rows: Vec<Row> = findings.costs.iter().map(cells::Cost::row).collect();
    rows.extend(findings.cells.iter().map(Cell::row));
    for cell in latencies(findings) {
        rows.extend(SHARES.map(|share| {
            row! {
                "kind" => "latency",
                "figure" => 9,
                "policy" => cell.contender,
                "capacity_percent" => cell.spot.percent,
                "threads" => cell.spot.threads,
                "share" => share,
                "latency_ns" => cell.latencies.quantile_ns(share),
            }
        }));
    }
    rows.extend(findings.hit_ratios.iter().map(|it| {
        row! {
            "kind" => "hits",
            "figure" => it.figure,
            "policy" => it.contender,
            "capacity_percent" => it.percent,
            "threads" => 1,
            "hit_ratio" => it.cache,
            "simulated_hit_ratio" => it.simulator,
            "marks" => it.marks,
        }
    }));
    rows
}

pub(super) fn bars(
    title: impl Into<String>,
    y: &str,
    labels: &[String],
    series: Vec<Series>,
) -> Panel {
    let labels = labels.to_vec();
    Panel { shape: Shape::Bars, labels, ..lines(title, "", y, series) }
}

/// A series for each contender.
pub(super) fn each<T: Copy + Into<f64>>(
    contenders: &[Contender],
    places: &[T],
    value: impl Fn(&'static str, usize) -> f64,
) -> Vec<Series> {
    let points = |name| {
        let point = |(at, &place): (usize, &T)| (place.into(), value(name, at));
        places.iter().enumerate().map(point).collect()
    };
    contenders
        .iter()
        .map(|it| Series {
            name: it.name.to_owned(),
            look: Look { number: it.number, apart: it.takes_lock() },
            points: points(it.name),
        })
        .collect()
}

fn figures(findings: &Findings) -> Vec<(String, String)> {
    let file = |name: &str| format!("mobius-{name}.svg");
    vec![
        (file("figure-2"), figure_2(findings)),
        (file("figure-4"), figure_4(findings)),
        (file("figure-7"), figure_7(findings)),
        (file("figure-8"), figure_8(findings)),
        (file("figure-9"), figure_9(findings)),
        (file("figure-10"), figure_10(findings)),
        (file("shared-writes"), shared_writes(findings)),
    ]
}

/// The title of a figure in which contenders with a lock look different.
pub(super) fn titled(title: &str) -> String {
    format!("{title} (with a lock: dashed, pale)")
}

fn figure_2(findings: &Findings) -> String {
    let threads = findings.threads(7);
    let labels = ["10 % of the objects".to_owned()];
    let ratio = |name, _| findings.hits(8, 10, name);
    let speed =
        |name, at: usize| findings.cell(7, 10, threads[at], name).map_or(f64::NAN, Cell::mops);
    let panels = [
        bars("one thread", "hits, %", &labels, each(&EARLIER, &[0], ratio)),
        lines("10 %", "threads", "M requests/s", each(&EARLIER, &axis(&threads), speed)),
    ];
    draw::figure(&titled("LRU and its kin, FIFO and its kin"), &panels)
}

fn figure_4(findings: &Findings) -> String {
    let labels = Task::ALL.map(|task| task.name().to_owned());
    let panel = |threads| {
        let cost = |name, task: usize| {
            let of = |name: &str| {
                let wanted = (name, threads, Task::ALL[task]);
                let is = |it: &&cells::Cost| (it.contender, it.threads, it.task) == wanted;
                findings.costs.iter().find(is).map_or(f64::NAN, cells::Cost::least_ns)
            };
            of(name) / of("lru")
        };
        let title = format!("threads: {threads}");
        bars(title, "time of a core over LRU's", &labels, each(&COSTS, &[0, 1, 2], cost))
    };
    draw::figure(&titled("Cost of access, insert and evict"), &[panel(1), panel(findings.most)])
}

/// Threads as numbers of an axis.
pub(super) fn axis(threads: &[usize]) -> Vec<u32> {
    threads.iter().map(|&threads| threads as u32).collect()
}

fn figure_7(findings: &Findings) -> String {
    let threads = findings.threads(7);
    let panels = SMALL.map(|percent| {
        let speed = |name, at: usize| {
            findings.cell(7, percent, threads[at], name).map_or(f64::NAN, Cell::mops)
        };
        let title = format!("cache of {percent} % of the objects");
        lines(title, "threads", "M requests/s", each(&RIVALS, &axis(&threads), speed))
    });
    draw::figure(&titled("Throughput by threads"), &panels)
}

fn figure_8(findings: &Findings) -> String {
    let labels = SMALL.map(|percent| format!("{percent} % of the objects"));
    let ratio = |name, at: usize| findings.hits(8, SMALL[at], name);
    let panel = bars("one thread", "hits, %", &labels, each(&RIVALS, &[0, 1], ratio));
    draw::figure(&titled("Hit ratio"), &[panel])
}

fn figure_9(findings: &Findings) -> String {
    let most = findings.most;
    let latency = |shares: &'static [f64]| {
        move |name: &'static str, at: usize| {
            let cell = findings.cell(7, 10, most, name);
            cell.map_or(f64::NAN, |cell| cell.latencies.quantile_ns(shares[at]) as f64)
        }
    };
    const TAIL: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
    let labels = TAIL.map(|share| format!("P{}", share * 100.0));
    let title = format!("threads: {most}, cache of 10 %");
    let curve = each(&LATENCIES, &SHARES, latency(&SHARES));
    let tail = each(&LATENCIES, &[0, 1, 2, 3], latency(&TAIL));
    let curve = lines(title, "share of the requests", "latency, ns", curve);
    let tail = bars("tail", "latency, ns", &labels, tail);
    let panels = [curve, tail].map(|panel| Panel { logarithmic: true, ..panel });
    draw::figure(&titled("Latency"), &panels)
}

fn figure_10(findings: &Findings) -> String {
    let percents = findings.percents(10);
    let size = "cache, % of the objects";
    let peak = |name, at: usize| findings.peak(10, percents[at], name);
    let alone =
        |name, at: usize| findings.cell(10, percents[at], 1, name).map_or(f64::NAN, Cell::mops);
    let ratio = |name, at: usize| findings.hits(10, percents[at], name);
    let panels = [
        lines("most of all threads", size, "M requests/s", each(&DESIGNS, &percents, peak)),
        lines("one thread", size, "M requests/s", each(&DESIGNS, &percents, alone)),
        lines("one thread", size, "hits, %", each(&DESIGNS, &percents, ratio)),
    ];
    draw::figure(&titled("With and without locks and consecutive detection"), &panels)
}

fn shared_writes(findings: &Findings) -> String {
    let writes = |figure, percents: &[u32], name: &str, at: usize| {
        let cell = findings.cell(figure, percents[at], findings.most, name);
        cell.map_or(f64::NAN, Cell::shared_writes)
    };
    let labels = SMALL.map(|percent| format!("{percent} %"));
    let percents = findings.percents(10);
    let title = format!("threads: {}", findings.most);
    let small = each(&ALL, &[0, 1], |name, at| writes(7, &SMALL, name, at));
    let designs = each(&DESIGNS, &percents, |name, at| writes(10, &percents, name, at));
    let size = "cache, % of the objects";
    let small = Panel {
        x_label: size.to_owned(),
        logarithmic: true,
        ..bars(title.clone(), "writes a request", &labels, small)
    };
    let designs = Panel { logarithmic: true, ..lines(title, size, "writes a request", designs) };
    // Each has its own contenders, so each has its legend.
    let title = titled("Writes to lines that all threads write");
    draw::figures(&title, &[&[small], &[designs]])
}

/// Figures 7 and 9 with the most threads, for people.
fn summary(findings: &Findings) -> String {
    let headers = [
        "figure",
        "cache",
        "policy",
        "threads",
        "M req/s",
        "over sieve",
        "hits",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "little",
        "shared writes/req",
        "retries/req",
        "cpu",
    ];
    let cells = findings.cells.iter().filter(|cell| cell.spot.threads == findings.most);
    let row = |cell: &Cell| {
        let Spot { figure, percent, threads } = cell.spot;
        let over = findings.speed_ratio((figure, percent, threads), cell.contender, "sieve");
        let row = cell.row();
        let number = |key: &str| row.get(key).and_then(serde_json::Value::as_f64);
        let shown = |key, decimals: usize| {
            number(key).map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        vec![
            figure.to_string(),
            format!("{percent} %"),
            cell.contender.to_owned(),
            threads.to_string(),
            shown("mops", 2),
            format!("{over:.2}"),
            output::percent(number("hit_ratio").unwrap_or_default()),
            shown("p50_ns", 0),
            shown("p99_ns", 0),
            shown("p999_ns", 0),
            cell.little().to_string(),
            shown("shared_writes", 4),
            shown("retries", 5),
            shown("cpu_share", 2),
        ]
    };
    let table = output::table(&headers, &["policy"], cells.map(row).collect());
    let rounds: usize = findings.cells.iter().map(|cell| cell.rounds.len()).sum();
    let disturbed: usize = findings.cells.iter().map(|cell| cell.disturbed).sum();
    format!(
        "{table}{disturbed} of {rounds} speeds of all figures were measured while the machine \
         had other work\n"
    )
}

#[cfg(test)]
mod tests {
    use frazil::Stats;

    use super::*;

    const CAPACITY: u64 = 10_000;

    /// The counts that `work` adds in a contender's full cache.
    fn counted(contender: Contender, work: impl Fn(&frazil::Cache<u64, u64>)) -> Stats {
        let ours = contender.cache(CAPACITY);
        (0..2 * CAPACITY).for_each(|key| ours.cache().insert(key, key));
        let before = ours.cache().stats();
        work(ours.cache());
        let mut stats = ours.cache().stats();
        stats.hits -= before.hits;
        stats.shared_writes -= before.shared_writes;
        stats
    }

    #[test]
    fn who_takes_a_lock_writes_it() {
        for contender in ALL {
            let insert = |cache: &frazil::Cache<u64, u64>| {
                (0..CAPACITY).for_each(|key| cache.insert(key, key))
            };
            let writes = counted(contender, insert).shared_writes as f64 / CAPACITY as f64;
            // Queues are written once a batch, a lock by every insertion and eviction.
            assert_eq!(contender.takes_lock(), writes > 3.0, "{}: {writes}", contender.name);
        }
    }

    #[test]
    fn hits_under_a_lock_take_it_as_the_paper_has_it() {
        let get = |cache: &frazil::Cache<u64, u64>| {
            for key in (0..2 * CAPACITY).chain(0..2 * CAPACITY) {
                _ = cache.get(&key);
            }
        };
        for contender in ALL {
            let stats = counted(contender, get);
            assert!(stats.hits >= 2 * (CAPACITY - CAPACITY / 50), "{}", contender.name);
            let writes = stats.shared_writes as f64 / stats.hits as f64;
            let every_hit = [LRU, LRU_DELAYED, W_TINY_LFU, TWO_QUEUE].contains(&contender);
            assert_eq!(writes >= 2.0, every_hit, "{}: {writes}", contender.name);
        }
        // Young entries are within their window.
        let newest = |cache: &frazil::Cache<u64, u64>| {
            (0..CAPACITY / 2).for_each(|_| _ = cache.get(&(2 * CAPACITY - 1)));
        };
        let stats = counted(LRU_DELAYED, newest);
        assert_eq!((stats.hits, stats.shared_writes), (CAPACITY / 2, 0));
    }
}
