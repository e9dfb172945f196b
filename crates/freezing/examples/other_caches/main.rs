//! FrozenHot on caches other than Frazil: its gains, beside those expected from the paper's
//! figures 15 to 17.
//!
//!     cargo run --release -p frazil-freezing --example other_caches -- PART [--quick]
//!
//! PART is `hits`, `sizes`, `misses`, `policies`, `mixes`. Two hosts: the crate `lru` behind a
//! mutex, and a sharded map with lists like HHVM's. Each table comes from one process with
//! alternating rounds; it has their median, and after ± their spread. L is mean latency ×
//! throughput over threads, which must be 1; a `!` marks a row in which some round differed. A `*`
//! marks a row with disturbed cores in some round.

mod lru_mutex;
mod relaxed_lru;
mod sides;

use std::process::ExitCode;
use std::time::Duration;

use frazil_driver::{Ask, Distance, Mix, Operation, Stream, Workload};
use lru_mutex::LruMutex;
use relaxed_lru::RelaxedLru;
use sides::{Freezing, Kilobyte, Load, Outcome, Payload, Plan, Side, compare};

type Error = Box<dyn std::error::Error>;

const KEYS: u64 = 200_000;
/// Requests of a stream.
const OPERATIONS: usize = 1 << 20;
/// Number of turns with different requests.
const RUNS: usize = 8;
const ALPHA: f64 = 0.99;
/// Latency of the paper's miss; its device is an Optane disk.
const MISS: Duration = Duration::from_micros(5);

/// Both hosts, plain and with an overlay.
fn pairs<V: Payload>(capacity: usize, freezing: Freezing) -> Result<Vec<Side>, Error> {
    let lru = || LruMutex::<u64, V>::new(capacity, true);
    let relaxed = || RelaxedLru::<u64, V>::new(capacity);
    Ok(vec![
        Side::plain("lru+mutex", lru()),
        Side::overlaid("lru+mutex, FH", lru(), freezing)?,
        Side::plain("relaxed", relaxed()),
        Side::overlaid("relaxed, FH", relaxed(), freezing)?,
    ])
}

fn zipf(alpha: f64, keys: u64, threads: usize, miss: Option<Duration>) -> Result<Load, Error> {
    let count = RUNS * threads;
    let streams = Workload::Zipf { alpha }.streams(keys, OPERATIONS * count, count)?;
    Ok(Load::new(streams, threads, miss))
}

/// A cell of a table: million requests a second.
fn mops(outcome: &Outcome) -> String {
    let flag = |on: bool, sign| if on { sign } else { "" };
    format!(
        "{:6.2} ±{:2.0} %{}{}",
        outcome.mops,
        50.0 * outcome.spread,
        flag(!outcome.little_holds, "!"),
        flag(outcome.disturbed > 0, "*"),
    )
}

fn frozen(outcome: &Outcome) -> String {
    match outcome.state {
        Some((phase, share)) => format!("{phase:?} {:.0} %", 100.0 * share),
        None => String::new(),
    }
}

/// The gain if all requests hit, with everything frozen by hand at once.
fn hits(plan: &mut Plan) -> Result<(), Error> {
    const RESIDENT: u64 = 100_000;
    println!("all hits: {RESIDENT} entries, Zipf {ALPHA}; million/s");
    println!("{:16} {:>7}  {:14} {:>6} {:>9} {:>5}", "", "threads", "", "gain", "p99", "L");
    for threads in [1, 2] {
        let capacity = 2 * RESIDENT as usize;
        let mut sides = pairs::<u64>(capacity, Freezing::All)?;
        let idle = LruMutex::<u64, u64>::new(capacity, true);
        sides.insert(1, Side::overlaid("lru+mutex, idle", idle, Freezing::Nothing)?);
        let idle = RelaxedLru::<u64, u64>::new(capacity);
        sides.insert(4, Side::overlaid("relaxed, idle", idle, Freezing::Nothing)?);
        let load = zipf(ALPHA, RESIDENT, threads, None)?;
        let outcomes = compare(&sides, &load, RESIDENT, plan)?;
        for host in outcomes.chunks(3) {
            for outcome in host {
                println!(
                    "{:16} {threads:7}  {:14} {:5.2}x {:6} ns {:5.2}",
                    outcome.name,
                    mops(outcome),
                    outcome.mops / host[0].mops,
                    outcome.p99_ns,
                    outcome.little,
                );
            }
        }
    }
    Ok(())
}

/// One row: both hosts, without freezing and with a controller.
fn row(title: &str, capacity: usize, load: &Load, plan: &mut Plan) -> Result<(), Error> {
    let sides = pairs::<u64>(capacity, Freezing::Learned)?;
    let outcomes = compare(&sides, load, capacity as u64, plan)?;
    for host in outcomes.chunks(2) {
        let [plain, overlaid] = host else { continue };
        println!(
            "{title:10} {:10} {:14} {:14} {:5.2}x  {:.3} {:.3}  {}",
            plain.name,
            mops(plain),
            mops(overlaid),
            overlaid.mops / plain.mops,
            plain.hit_ratio,
            overlaid.hit_ratio,
            frozen(overlaid),
        );
    }
    Ok(())
}

fn row_titles(title: &str) {
    println!(
        "{title:10} {:10} {:14} {:14} {:>6}  {:5} {:5}",
        "", "plain", "FH", "gain", "hits", "FH"
    );
}

/// Figure 16a: throughput by the size of the cache.
fn sizes(plan: &mut Plan) -> Result<(), Error> {
    println!("figure 16a: Zipf {ALPHA} of {KEYS} keys, misses of {MISS:?}, 2 threads; million/s");
    row_titles("size");
    let load = zipf(ALPHA, KEYS, 2, Some(MISS))?;
    for percent in [20, 60, 80, 100] {
        // All keys, and some spare capacity for shards of unequal size.
        let room = if percent == 100 { 20 } else { 0 };
        let capacity = (KEYS * (percent + room) / 100) as usize;
        row(&format!("{percent} %"), capacity, &load, plan)?;
    }
    Ok(())
}

/// Figure 16b: throughput by latency of a miss.
fn misses(plan: &mut Plan) -> Result<(), Error> {
    println!("figure 16b: Zipf {ALPHA} of {KEYS} keys, a quarter fits, 2 threads; million/s");
    row_titles("miss");
    for micros in [5, 50, 500] {
        let load = zipf(ALPHA, KEYS, 2, Some(Duration::from_micros(micros)))?;
        row(&format!("{micros} us"), KEYS as usize / 4, &load, plan)?;
    }
    Ok(())
}

/// Figure 15: whether LRU or FIFO wins, with and without freezing.
fn policies(plan: &mut Plan) -> Result<(), Error> {
    println!("figure 15: {KEYS} keys, misses of {MISS:?}, 2 threads; million/s");
    println!(
        "{:16} {:14} {:14} {:14} {:14} hits: {:>5} {:>5}",
        "", "LRU", "FIFO", "LRU, FH", "FIFO, FH", "LRU", "FIFO"
    );
    let (mut cells, mut by_hits, mut before, mut after) = (0, 0, 0, 0);
    for (alpha, percent) in [(0.8, 10), (0.8, 50), (0.99, 10), (0.99, 50), (1.2, 10), (1.2, 50)] {
        let capacity = (KEYS * percent / 100) as usize;
        let host = |promotes| LruMutex::<u64, u64>::new(capacity, promotes);
        let sides = [
            Side::plain("LRU", host(true)),
            Side::plain("FIFO", host(false)),
            Side::overlaid("LRU, FH", host(true), Freezing::Learned)?,
            Side::overlaid("FIFO, FH", host(false), Freezing::Learned)?,
        ];
        let load = zipf(alpha, KEYS, 2, Some(MISS))?;
        let outcomes = compare(&sides, &load, capacity as u64, plan)?;
        let [lru, fifo, lru_fh, fifo_fh] = &outcomes[..] else { continue };
        println!(
            "Zipf {alpha:4}, {percent:2} %  {:14} {:14} {:14} {:14}       {:.3} {:.3}  {}, {}",
            mops(lru),
            mops(fifo),
            mops(lru_fh),
            mops(fifo_fh),
            lru.hit_ratio,
            fifo.hit_ratio,
            frozen(lru_fh),
            frozen(fifo_fh),
        );
        cells += 1;
        by_hits += usize::from(lru.hit_ratio > fifo.hit_ratio);
        before += usize::from(lru.mops > fifo.mops);
        after += usize::from(lru_fh.mops > fifo_fh.mops);
    }
    println!("of {cells} LRU wins {by_hits} by hits, {before} by speed, {after} by speed with FH");
    Ok(())
}

/// Figure 17: requests with work beside the cache, some of them updates, and the slowest requests.
fn mixes(plan: &mut Plan) -> Result<(), Error> {
    println!(
        "figure 17: {KEYS} keys, 30 % fit, Zipf 1.0, 1 kB read of each, misses of {MISS:?}, 2 threads"
    );
    println!(
        "{:18} {:10} {:14} {:14} {:>6} {:>8} {:>8} {:>6}",
        "", "", "plain", "FH", "gain", "p99", "p99 FH", "fewer"
    );
    for (name, updates) in [("A, 50 % updates", 50u32), ("B, 5 % updates", 5), ("C, reads", 0)] {
        let mix = Mix { resident: KEYS as u32, newcomers: 0.0, again: 0 };
        let stream = |numbers: Vec<u32>| {
            // By position, which is independent of the key.
            let ask =
                |at: usize| if at as u32 * 61 % 100 < updates { Ask::Insert } else { Ask::Get };
            let operation = |(at, number)| Operation::new(ask(at), number);
            Stream::new(numbers.into_iter().enumerate().map(operation).collect::<Vec<_>>(), 0)
        };
        let streams = mix.numbers(OPERATIONS, 2 * RUNS)?.into_iter().map(stream).collect();
        let load = Load::new(streams, 2, Some(MISS));
        let capacity = (KEYS * 3 / 10) as usize;
        let sides = pairs::<Kilobyte>(capacity, Freezing::Learned)?;
        let outcomes = compare(&sides, &load, capacity as u64, plan)?;
        for host in outcomes.chunks(2) {
            let [plain, overlaid] = host else { continue };
            println!(
                "{name:18} {:10} {:14} {:14} {:5.2}x {:5} ns {:5} ns {:4.0} %  {}",
                plain.name,
                mops(plain),
                mops(overlaid),
                overlaid.mops / plain.mops,
                plain.p99_ns,
                overlaid.p99_ns,
                100.0 * (1.0 - overlaid.p99_ns as f64 / plain.p99_ns.max(1) as f64),
                frozen(overlaid),
            );
        }
    }
    Ok(())
}

fn main() -> Result<ExitCode, Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let mut plan = match is_quick {
        true => Plan { rounds: 1, seconds: 0.1, distance: Distance::of(None) },
        false => {
            let distance = Distance::least().with_patience(Duration::from_secs(60));
            Plan { rounds: 5, seconds: 0.4, distance }
        }
    };
    let part = match arguments.first().map(String::as_str) {
        Some("hits") => hits,
        Some("sizes") => sizes,
        Some("misses") => misses,
        Some("policies") => policies,
        Some("mixes") => mixes,
        _ => {
            eprintln!("expected one of hits, sizes, misses, policies, mixes, and perhaps --quick");
            return Ok(ExitCode::from(2));
        }
    };
    // Their controllers need seconds before any measurement.
    if arguments[0] != "hits" {
        plan.rounds = plan.rounds.min(3);
    }
    part(&mut plan)?;
    Ok(ExitCode::SUCCESS)
}
