//! Papers' figures in RocksDB: 13 and 14 of paper 3, and 17 of paper 2.
//!
//! Other programs do the work ([`Programs`]); this module plans it, and reports the results. The
//! papers' machines had 20 to 80 cores and databases of 100 GB and more on a disk; here there are
//! two cores, and files that the system caches. So only the beginning of contention is visible, and
//! a miss costs microseconds.

use std::path::Path;

use anyhow::anyhow;

use super::rocksdb_cells::{BlockCache, Operations, Programs, Reads, Requests};
use super::{Expectation, Report};
use crate::draw::{self, Look, Panel, Series, Shape, lines};
use crate::failure::Failure;
use crate::median::median;
use crate::output::{self, row};
use crate::progress::Progress;

/// Names of the parts that can be requested alone.
const PARTS: [&str; 3] = ["figure13", "figure14", "figure17"];
const MOBIUS: BlockCache = BlockCache::Ours("mobius");
/// Caches of figures 13 and 14.
const CACHES: [BlockCache; 3] = [BlockCache::Lru, BlockCache::HyperClock, MOBIUS];
/// Caches of figure 17: LRU with the paper's freezing, and LRU alone, RocksDB's and ours.
const FROZEN: BlockCache = BlockCache::Ours("frozen+lru");
const OUR_BASE: BlockCache = BlockCache::Ours("lru");
const FREEZING: [BlockCache; 3] = [BlockCache::Lru, OUR_BASE, FROZEN];
const WORKLOADS: [&str; 6] = ["A", "B", "C", "D", "E", "F"];
/// The workloads of a database: a name, and the options of `db_bench`.
const READS: [(&str, &str); 3] = [
    ("points", "--benchmarks=readrandom"),
    ("points, skewed", "--benchmarks=readrandom --read_random_exp_range=10"),
    ("ranges of 10", "--benchmarks=seekrandom --seek_nexts=10"),
];
/// Bytes of the cache: a quarter of the paper's 1 GB with a hundred thousand blocks of 8 KiB.
const BLOCKS: u64 = 256 << 20;
/// An eighth of the database.
const SHARE: u64 = 32 << 20;

struct Plan {
    rounds: usize,
    threads: &'static [u32],
    /// Operations of each thread.
    operations: u64,
    /// Seconds of a run of `db_bench`.
    seconds: u32,
    quick: bool,
}

impl Plan {
    fn new(quick: bool) -> Self {
        if quick {
            return Plan { rounds: 1, threads: &[1, 2], operations: 2_000, seconds: 2, quick };
        }
        Plan { rounds: 3, threads: &[1, 2, 4], operations: 500_000, seconds: 5, quick }
    }
}

/// The measurements of each cache, and their number.
type Rounds<T> = Vec<(BlockCache, Vec<T>)>;

pub(super) fn run(
    quick: bool,
    programs: Option<&Path>,
    parts: &[String],
    folder: &Path,
) -> Result<Report, Failure> {
    let Some(programs) = programs else {
        return Err(Failure::usage(anyhow!(
            "rocksdb wants --programs DIR, with what `cargo xtask cache-bench`, `db-bench` and \
             `ycsb` make in target/rocksdb/11.8.1 (--rounds 0 measures nothing there)"
        )));
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        let parts = PARTS.join(", ");
        return Err(Failure::usage(anyhow!("`{unknown}` is none of {parts}")));
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|it| it == part);
    let (plan, programs) = (Plan::new(quick), Programs::new(programs));
    let (measurements, expectations, figures) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = Report { measurements, expectations, figures, summary: String::new() };
    if wanted(PARTS[0]) {
        figure_13(&plan, &programs, &mut report)?;
    }
    if wanted(PARTS[1]) {
        figure_14(&plan, &programs, folder, &mut report)?;
    }
    if wanted(PARTS[2]) {
        figure_17(&plan, &programs, &mut report)?;
    }
    Ok(report)
}

/// All caches alternately, for some rounds.
fn in_turn<T>(
    caches: &[BlockCache],
    rounds: usize,
    progress: &Progress,
    mut run: impl FnMut(BlockCache) -> anyhow::Result<T>,
) -> anyhow::Result<Rounds<T>> {
    let mut all: Rounds<T> = caches.iter().map(|&cache| (cache, Vec::new())).collect();
    for _ in 0..rounds {
        for (cache, taken) in &mut all {
            taken.push(run(*cache)?);
            progress.advance(1);
        }
    }
    Ok(all)
}

/// The median of one figure of a cache's rounds.
fn middle<T>(rounds: &Rounds<T>, cache: BlockCache, figure: impl Fn(&T) -> f64) -> f64 {
    let of = rounds.iter().find(|(it, _)| *it == cache);
    of.map_or(f64::NAN, |(_, taken)| median(taken.iter().map(figure)))
}

fn look(cache: BlockCache) -> Look {
    let number = match cache {
        BlockCache::Lru => 0,
        BlockCache::HyperClock => 1,
        BlockCache::Ours("mobius") => 2,
        BlockCache::Ours("lru") => 3,
        BlockCache::Ours(_) => 4,
    };
    Look { number, apart: false }
}

fn figure_13(plan: &Plan, programs: &Programs, report: &mut Report) -> anyhow::Result<()> {
    let steps = plan.threads.len() * CACHES.len() * plan.rounds;
    let progress = Progress::of_steps("cache_bench".to_owned(), steps as u64);
    let mut cells = Vec::new();
    for &threads in plan.threads {
        let run = |cache| programs.cache_bench(cache, BLOCKS, threads, plan.operations);
        cells.push((threads, in_turn(&CACHES, plan.rounds, &progress, run)?));
    }
    drop(progress);
    let rate = |rounds: &Rounds<Operations>, cache| middle(rounds, cache, |it| it.rate) / 1e6;
    let hits = |rounds: &Rounds<Operations>, cache| middle(rounds, cache, |it| it.hit_ratio);
    let mut table = Vec::new();
    for (threads, rounds) in &cells {
        for cache in CACHES {
            let (mops, hit_ratio) = (rate(rounds, cache), hits(rounds, cache));
            report.measurements.push(row! {
                "kind" => "cache_bench", "figure" => 13, "cache" => cache.name(),
                "threads" => threads, "mops" => mops, "hit_ratio" => hit_ratio,
            });
            let name = cache.name().to_owned();
            table.push(vec![
                threads.to_string(),
                name,
                format!("{mops:.3}"),
                format!("{hit_ratio:.4}"),
            ]);
        }
    }
    let headers = ["threads", "cache", "M op/s", "hit ratio"];
    report.summary += &format!(
        "paper 3, figure 13: cache_bench on one shard of {} MiB\n{}\n",
        BLOCKS >> 20,
        output::table(&headers, &["cache"], table)
    );
    let series = CACHES.map(|cache| Series {
        name: cache.name().to_owned(),
        look: look(cache),
        points: cells.iter().map(|(it, of)| (f64::from(*it), rate(of, cache))).collect(),
    });
    let panel = lines("cache_bench, one shard", "threads", "M operations/s", series.into());
    let svg = draw::figure("Block caches of RocksDB by threads (paper 3, figure 13)", &[panel]);
    report.figures.push(("rocksdb-figure-13.svg".to_owned(), svg));
    expect_13(&cells, rate, hits, report);
    Ok(())
}

fn expect_13(
    cells: &[(u32, Rounds<Operations>)],
    rate: impl Fn(&Rounds<Operations>, BlockCache) -> f64,
    hits: impl Fn(&Rounds<Operations>, BlockCache) -> f64,
    report: &mut Report,
) {
    let (Some((_, one)), Some((most, last))) = (cells.first(), cells.last()) else { return };
    let gain = |of: &Rounds<Operations>| rate(of, MOBIUS) / rate(of, BlockCache::Lru);
    let least = cells.iter().map(|(_, of)| gain(of)).fold(f64::INFINITY, f64::min);
    let mut expect = |expected: &str, seen: String, met: bool| {
        let expected = expected.to_owned();
        report.expectations.push(Expectation { figure: 13, expected, seen, met });
    };
    expect(
        "in RocksDB Mobius is faster than LRU, with any number of threads",
        format!("{least:.2} times at least"),
        least > 1.0,
    );
    expect(
        "the more threads, the more",
        format!("{:.2} times with one thread, {:.2} with {most}", gain(one), gain(last)),
        gain(last) > gain(one),
    );
    let beside = rate(last, MOBIUS) / rate(last, BlockCache::HyperClock);
    expect(
        "RocksDB's CLOCK is faster than Mobius",
        format!("Mobius {beside:.2} times as fast with {most} threads"),
        beside < 1.0,
    );
    let (ours, lru, clock) =
        (hits(last, MOBIUS), hits(last, BlockCache::Lru), hits(last, BlockCache::HyperClock));
    expect(
        "Mobius hits more often than LRU, and CLOCK less often",
        format!("Mobius {ours:.4}, LRU {lru:.4}, CLOCK {clock:.4}"),
        ours > lru && clock < lru,
    );
}

/// The rate in the seconds after the first, in which the cache fills.
fn steady(reads: &Reads) -> f64 {
    let rest = reads.rates.get(1..).unwrap_or_default();
    rest.iter().sum::<f64>() / rest.len() as f64
}

fn figure_14(
    plan: &Plan,
    programs: &Programs,
    folder: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let steps = READS.len() * CACHES.len() * plan.rounds;
    let progress = Progress::of_steps("db_bench".to_owned(), steps as u64);
    let threads = 2;
    let by_second = folder.join("rocksdb-seconds.csv");
    let mut cells = Vec::new();
    for (name, arguments) in READS {
        let time = (threads, plan.seconds);
        let run = |cache| programs.db_bench(cache, SHARE, arguments, time, &by_second);
        cells.push((name, in_turn(&CACHES, plan.rounds, &progress, run)?));
    }
    drop(progress);
    let _ = std::fs::remove_file(by_second);
    let mut table = Vec::new();
    for (name, rounds) in &cells {
        for cache in CACHES {
            let rate = middle(rounds, cache, steady) / 1e3;
            let processor = middle(rounds, cache, |it| it.processor) * 1e6;
            report.measurements.push(row! {
                "kind" => "db_bench", "figure" => 14, "reads" => name, "cache" => cache.name(),
                "threads" => threads, "kops" => rate, "processor_us" => processor,
            });
            let cells = [format!("{rate:.1}"), format!("{processor:.2}")];
            table.push(
                [(*name).to_owned(), cache.name().to_owned()].into_iter().chain(cells).collect(),
            );
        }
    }
    let headers = ["reads", "cache", "thousand op/s", "us of the processor/op"];
    report.summary += &format!(
        "paper 3, figure 14: db_bench, 2 threads, 16 shards, {} MiB for 230 MB of blocks\n{}\n",
        SHARE >> 20,
        output::table(&headers, &["reads", "cache"], table)
    );
    let panel = |(name, rounds): &(&str, Rounds<Reads>)| {
        let series = rounds.iter().map(|(cache, taken)| {
            let last = taken.last().map_or(&[][..], |reads| &reads.rates);
            let point = |(at, rate): (usize, &f64)| ((at + 1) as f64, rate / 1e3);
            let points = last.iter().enumerate().map(point).collect();
            Series { name: cache.name().to_owned(), look: look(*cache), points }
        });
        lines(*name, "seconds", "thousand operations/s", series.collect())
    };
    let panels: Vec<Panel> = cells.iter().map(panel).collect();
    let svg = draw::figure("Reads through RocksDB by time (paper 3, figure 14)", &panels);
    report.figures.push(("rocksdb-figure-14.svg".to_owned(), svg));
    expect_14(&cells, report);
    Ok(())
}

fn expect_14(cells: &[(&str, Rounds<Reads>)], report: &mut Report) {
    let gain = |(_, of): &(&str, Rounds<Reads>)| {
        middle(of, MOBIUS, steady) / middle(of, BlockCache::Lru, steady)
    };
    let [points, skewed, ranges] = cells else { return };
    let [points, skewed, ranges] = [gain(points), gain(skewed), gain(ranges)];
    let mut expect = |expected: &str, seen: String, met: bool| {
        let expected = expected.to_owned();
        report.expectations.push(Expectation { figure: 14, expected, seen, met });
    };
    expect(
        "points are read faster through Mobius than through LRU, by some 4 %",
        format!("{points:.2} times, skewed {skewed:.2} times"),
        points > 1.0 && skewed > 1.0,
    );
    expect("ranges too, by some 14 %", format!("{ranges:.2} times"), ranges > 1.0);
    expect(
        "ranges gain more than points do",
        format!("{ranges:.2} and {points:.2} times"),
        ranges > points,
    );
}

fn figure_17(plan: &Plan, programs: &Programs, report: &mut Report) -> anyhow::Result<()> {
    // A run takes seconds: a figure's quarter of an hour allows at most two.
    let rounds = plan.rounds.min(2);
    let steps = WORKLOADS.len() * FREEZING.len() * rounds;
    let progress = Progress::of_steps("YCSB".to_owned(), steps as u64);
    let mut cells = Vec::new();
    for workload in WORKLOADS {
        let run = |cache| programs.ycsb(cache, &workload.to_lowercase(), plan.quick);
        cells.push((workload, in_turn(&FREEZING, rounds, &progress, run)?));
    }
    drop(progress);
    let rate = |of: &Rounds<Requests>, cache| middle(of, cache, |it| it.rate) / 1e3;
    let mut table = Vec::new();
    for (workload, rounds) in &cells {
        for cache in FREEZING {
            let kops = rate(rounds, cache);
            let processor = middle(rounds, cache, |it| it.processor) * 1e6;
            let misses = middle(rounds, cache, |it| it.misses);
            let name = named(cache);
            report.measurements.push(row! {
                "kind" => "ycsb", "figure" => 17, "workload" => workload, "cache" => name,
                "kops" => kops, "processor_us" => processor, "misses" => misses,
            });
            let cells = [format!("{kops:.1}"), format!("{processor:.2}"), format!("{misses:.3}")];
            table
                .push([(*workload).to_owned(), name.to_owned()].into_iter().chain(cells).collect());
        }
    }
    let headers = ["YCSB", "cache", "thousand op/s", "us of the processor/op", "misses/op"];
    report.summary += &format!(
        "paper 2, figure 17: YCSB, 2 threads, 256 MiB for 1 GB of records\n{}",
        output::table(&headers, &["YCSB", "cache"], table)
    );
    let series = FREEZING.map(|cache| Series {
        name: named(cache).to_owned(),
        look: look(cache),
        points: cells
            .iter()
            .enumerate()
            .map(|(at, (_, of))| (at as f64, rate(of, cache)))
            .collect(),
    });
    let mut panel = lines("YCSB", "workload", "thousand operations/s", series.into());
    panel.shape = Shape::Bars;
    panel.labels = WORKLOADS.map(str::to_owned).into();
    let svg = draw::figure("YCSB on RocksDB (paper 2, figure 17)", &[panel]);
    report.figures.push(("rocksdb-figure-17.svg".to_owned(), svg));
    let gains = cells.iter().map(|(name, of)| (*name, rate(of, FROZEN) / rate(of, OUR_BASE)));
    expect_17(&gains.collect::<Vec<_>>(), report);
    Ok(())
}

fn named(cache: BlockCache) -> &'static str {
    if cache == OUR_BASE { "lru, ours" } else { cache.name() }
}

fn expect_17(gains: &[(&str, f64)], report: &mut Report) {
    let mut expect = |expected: &str, seen: String, met: bool| {
        let expected = expected.to_owned();
        report.expectations.push(Expectation { figure: 17, expected, seen, met });
    };
    let all: Vec<String> = gains.iter().map(|(name, gain)| format!("{name} {gain:.2}")).collect();
    expect(
        "freezing makes RocksDB with LRU faster on every workload of YCSB",
        format!("{} times", all.join(", ")),
        gains.iter().all(|(_, gain)| *gain > 1.0),
    );
    let most = gains.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    expect(
        "on C, which only reads, the most: 1.88 times",
        most.map_or(String::new(), |(name, gain)| format!("{name}, {gain:.2} times")),
        most.is_some_and(|(name, _)| *name == "C"),
    );
}
