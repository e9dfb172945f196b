//! `frazil bench`: speed, latency and memory of the concurrent cache.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args as ClapArgs;
use frazil_driver::{Backend, Measured, Ours, Schedule, Setup, Stream, Value, Workload};
use frazil_simulator::trace::{Lifetimes, Trace, printable};
use frazil_simulator::{CapacitySpec, Unit, parse_us};

use crate::Done;
use crate::completions::cached_policies;
use crate::failure::{Failure, note};
#[cfg(unix)]
use crate::load;
use crate::output::{self, Output, Row, row};
use crate::trace_args::{TraceArgs, Wanted};

const SECONDS: f64 = 2.0;
/// Operations of the generated streams of all threads together.
const OPERATIONS: usize = 8_000_000;
/// Least operations for each thread: a thread that runs for a time slice while others wait should
/// not return to keys that it has just requested.
const THREAD_OPERATIONS: usize = 500_000;
/// The memory of a cache above about this number of bytes is not measured.
const MEMORY_MAX: u64 = 2 << 30;
/// Bytes of an entry beside its value, estimated generously, for that check.
const ENTRY_BYTES: u64 = 64;
/// Threads check whether to stop only after some operations, each of which may wait this long.
const BACKEND_MAX_US: f64 = 1e5;
/// Requests in flight on a thread whose misses wait.
const MPL_A_THREAD: usize = 16;
/// A share of a core below this means that the machine had other work.
const LEAST_SHARE: f64 = 0.9;

/// Measure the concurrent cache with threads.
///
/// Each policy × capacity × number of threads gives one row. The threads request keys drawn
/// beforehand, and insert absent ones. After a warm-up the time is divided into ten slices, and the
/// speed is the median of the slices. One operation in 256, at random, is timed; the latency
/// includes reading the clock. bytes_per_entry is the growth of the process, values included, after
/// the cache was filled five times over.
///
/// little is mean latency × throughput / operations in flight. By Little's law it is 1. Latencies
/// are printed as not valid if it differs from 1 by more than a fifth, after allowing for chance
/// and 10 ns. Operations in flight are one for each thread, times the overlap: the number of
/// operations that the processor executes at once, which the run measures.
///
/// Speeds of two runs on a machine with other work differ by half and more. cpu_share is the share
/// of a core that the thread with the least processor time got.
///
/// With --connect one thread measures a running server instead. In each round all connections send
/// --pipeline requests in one piece, and then all replies are read. A latency is the time from
/// sending a piece until its last reply is read. in_flight is the mean number of connections that
/// waited for replies; it is below --connections by the time in which the load itself keeps them
/// waiting. little is mean latency × throughput / in_flight. server_cpu_us is the processor time of
/// the server for a request, if it runs on this machine. load_saturated says that the load had no
/// time to spare, so the server could answer more. Keys have 16 bytes, and values no lifetime.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil bench
  frazil bench --policy mobius,s3-fifo --capacity 1%,10% --threads 1,2
  frazil bench --policy lru,adaptive+lru,w-tinylfu --workload hit --threads 2
  frazil bench --policy lru,frozen+lru,frozen:share=0.5+lru --capacity 80% --seconds 10
  frazil bench --workload hit --keys 10M --value-bytes 100
  frazil bench --connect memcached://127.0.0.1:11211 --workload zipf:0.99 --pipeline 16
  frazil bench --connect redis://127.0.0.1:6379 --trace requests.csv.zst
  frazil bench --policy lru,fifo --backend 100us --mpl 16 --value-bytes 4096
  frazil bench --workload requests.csv.zst --capacity 5% --output json")]
pub(crate) struct Args {
    /// Online policies. fifo, clock, mobius and s3-fifo take no lock. For the others a prefix sets
    /// what a hit does. every-hit+lru waits for the lock (default of lru, lru-prob and
    /// lru-delayed). try-lock+lru does not promote if the lock is taken (default of lru-relaxed).
    /// adaptive+lru applies 32 hits under one lock, and skips some under contention (default of all
    /// others). Before it, frozen+ has a thread freeze the most requested entries while that pays;
    /// frozen:share=S+ freezes the hottest share S once the cache is warm, as in
    /// frozen+every-hit+lfu. Both go with fifo, clock, mobius, s3-fifo, lru and its variants except
    /// lru-sampled, slru, two-queue, lfu, w-tinylfu, arc and gdsf.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "mobius",
          value_parser = cached_policies(), hide_possible_values = true)]
    policy: Vec<String>,

    /// Shards with a lock each, for policies under a lock: 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    shards: u8,

    /// Requests of the threads. zipf:ALPHA: gets, by Zipf's law. hit: gets of keys that are all
    /// cached. write: Zipf 1.0, half gets and half inserts without a look-up. FILE: a trace,
    /// replayed whole by every thread, with its own keys.
    #[arg(long, value_name = "zipf:ALPHA|hit|write|FILE", default_value = "zipf:1.0")]
    workload: String,

    /// Keys of a generated workload, such as 1000, 10K, 1M.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_keys)]
    keys: u64,

    /// Capacities: a number of entries (1000, 10K) or a share of all keys (0.1%) [default: 10%;
    /// with `hit` all keys and a tenth more].
    #[arg(long, value_name = "N|N%,…", value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,

    /// Numbers of threads [default: 1 and the number of cores].
    #[arg(long, value_name = "N,…", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// Seconds to measure each row, after a warm-up of a quarter of that [default: 2; with --trace
    /// until its end].
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<f64>,

    /// Bytes of a value, returned by reference count [default: values of 8 bytes, copied; with
    /// --connect 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    value_bytes: Option<u32>,

    /// Latency of a miss: the key is inserted after this time. Meanwhile the thread serves other
    /// requests; if it has none it polls the clock.
    #[arg(long, value_name = "D", value_parser = parse_backend)]
    backend: Option<Duration>,

    /// Requests in flight in all threads together, at least one for each [default: 16 for each
    /// thread].
    #[arg(long, value_name = "N", requires = "backend",
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    mpl: Option<u32>,

    /// Share of the gets sent straight to the backend, from 0 to 1. Hits are then a share of the
    /// others.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "backend",
          value_parser = parse_share)]
    bypass: f64,

    /// Divide the records of a trace among the threads.
    #[arg(long)]
    split: bool,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    output: Output,

    /// Only print the bytes an entry takes; a separate process is started for this
    #[arg(long, hide = true)]
    measure_memory: bool,

    #[cfg(unix)]
    #[command(flatten)]
    server: load::LoadArgs,

    #[command(flatten)]
    reading: TraceArgs,
}

fn parse_keys(text: &str) -> Result<u64, String> {
    let keys = text.parse::<CapacitySpec>().and_then(|count| count.known(Unit::Objects));
    match keys {
        Ok(Some(keys)) if keys <= frazil_driver::MAX_OBJECTS => Ok(keys),
        _ => Err(format!("expected 1 to {} keys, such as 10K", frazil_driver::MAX_OBJECTS)),
    }
}

pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

fn parse_backend(text: &str) -> Result<Duration, String> {
    match parse_us(text).map_err(|error| error.to_string())? {
        us if us <= BACKEND_MAX_US => Ok(Duration::from_secs_f64(us / 1e6)),
        _ => Err("expected at most 100ms".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// A row of the result.
struct Line {
    policy: Setup,
    capacity: u64,
    threads: usize,
    measured: Measured,
    bytes_per_entry: Option<f64>,
}

/// Runs the verb. Prints only once every row is measured.
pub(crate) fn run(args: &Args) -> Done {
    #[cfg(unix)]
    if let Some(target) = &args.server.connect {
        let common = load::Common {
            workload: &args.workload,
            keys: args.keys,
            seconds: args.seconds,
            value_bytes: args.value_bytes,
            output: args.output,
            reading: &args.reading,
        };
        return load::run(&args.server, target, &common);
    }
    let policies = parse_policies(args)?;
    let workload: Workload = args.workload.parse().map_err(Failure::usage)?;
    if args.measure_memory {
        return print_memory(args, &policies);
    }
    let trace = match &workload {
        Workload::File(_) => {
            let wanted = Wanted {
                times: false,
                sizes: false,
                latencies: None,
                lifetimes: Lifetimes::Ignored,
            };
            Some(Arc::unwrap_or_clone(args.reading.load(&args.workload, wanted)?).trace)
        }
        _ => None,
    };
    let plan = Plan { args, workload, trace };
    let lines = plan.measure(&policies)?;
    output::print(&match args.output {
        Output::Json => output::json(&rows(args, &lines)),
        Output::Csv => output::csv(&rows(args, &lines)),
        Output::Table => table(args, &lines),
    })
}

fn parse_policies(args: &Args) -> Result<Vec<Setup>, Failure> {
    let parse = |name: &String| -> Result<Setup, Failure> {
        let setup: Setup = name.parse().map_err(Failure::usage)?;
        Ok(Setup { shards: args.shards.into(), ..setup })
    };
    args.policy.iter().map(parse).collect()
}

/// The measurement to make.
struct Plan<'a> {
    args: &'a Args,
    workload: Workload,
    /// For a workload that is a trace.
    trace: Option<Trace>,
}

impl Plan<'_> {
    fn measure(&self, policies: &[Setup]) -> Result<Vec<Line>, Failure> {
        let cores = frazil_driver::cores();
        let threads = match self.args.threads.as_slice() {
            [] if cores == 1 => vec![1],
            [] => vec![1, cores],
            given => given.iter().map(|&threads| usize::from(threads)).collect(),
        };
        let most = threads.iter().max().copied().unwrap_or(1);
        if let Some(mpl) = self.args.mpl.filter(|&mpl| (mpl as usize) < most) {
            return Err(Failure::usage(anyhow!(
                "--mpl {mpl} is below the number of threads, {most}"
            )));
        }
        let mut capacities = Vec::new();
        for &threads in &threads {
            capacities.push((threads, self.capacities(threads)?));
        }
        let mut lines = Vec::new();
        for (threads, capacities) in capacities {
            let streams = self.streams(threads)?;
            for (first, &policy) in policies.iter().enumerate() {
                for (second, &capacity) in capacities.iter().enumerate() {
                    let bytes_per_entry = memory_of(self.args, policy, capacity)?;
                    let measured = self.drive(policy, capacity, &streams);
                    if threads <= cores && measured.cpu_share.is_some_and(|it| it < LEAST_SHARE) {
                        note(&format!(
                            "{policy}, threads {threads}: a thread got less than {LEAST_SHARE} of \
                             a core; another program used the machine, or threads waited"
                        ));
                    }
                    let line = Line { policy, capacity, threads, measured, bytes_per_entry };
                    lines.push(((first, second), line));
                }
            }
        }
        // Streams are made once for each number of threads, although that varies fastest in the
        // output.
        lines.sort_by_key(|&(place, _)| place);
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// Distinct keys of all threads together.
    fn keys(&self, threads: usize) -> u64 {
        match &self.trace {
            None => self.args.keys,
            Some(trace) if self.args.split => trace.objects.len() as u64,
            Some(trace) => (trace.objects.len() as u64).saturating_mul(threads as u64),
        }
    }

    fn capacities(&self, threads: usize) -> Result<Vec<u64>, Failure> {
        let keys = self.keys(threads);
        if self.args.capacity.is_empty() {
            let all = keys.saturating_add(keys.div_ceil(10));
            return Ok(vec![if self.workload == Workload::Hit { all } else { keys.div_ceil(10) }]);
        }
        let mut capacities = Vec::new();
        for given in &self.args.capacity {
            let capacity = given.among(keys).map_err(Failure::usage)?;
            if self.workload == Workload::Hit && capacity < keys {
                return Err(Failure::usage(anyhow!(
                    "--capacity {given}: the workload hit needs room for all {keys} keys"
                )));
            }
            capacities.push(capacity);
        }
        Ok(capacities)
    }

    fn streams(&self, threads: usize) -> Result<Vec<Stream>, Failure> {
        let streams = match &self.trace {
            Some(trace) => frazil_driver::trace_streams(trace, threads, self.args.split),
            None => {
                let operations = OPERATIONS.max(threads * THREAD_OPERATIONS);
                self.workload.streams(self.args.keys, operations, threads)
            }
        };
        streams.map_err(Failure::usage)
    }

    fn drive(&self, policy: Setup, capacity: u64, streams: &[Stream]) -> Measured {
        match self.args.value_bytes {
            None => self.drive_values::<u64>(policy, capacity, streams, 0),
            Some(bytes) => {
                self.drive_values::<Arc<[u8]>>(policy, capacity, streams, bytes as usize)
            }
        }
    }

    fn drive_values<V: Value>(
        &self,
        policy: Setup,
        capacity: u64,
        streams: &[Stream],
        value_bytes: usize,
    ) -> Measured {
        let engine = Ours::<V>::new(policy, capacity, value_bytes);
        let mut fill = capacity.saturating_mul(2);
        if self.workload == Workload::Hit {
            frazil_driver::preload(&engine, self.args.keys);
            fill = 0;
        }
        let schedule = Schedule::seconds(self.args.seconds.unwrap_or(SECONDS));
        match self.args.backend {
            None | Some(Duration::ZERO) => frazil_driver::run(&engine, streams, fill, &schedule),
            Some(latency) => {
                let mpl = self.args.mpl.map_or(streams.len() * MPL_A_THREAD, |mpl| mpl as usize);
                let backend = Backend { bypass: self.args.bypass, ..Backend::new(latency, mpl) };
                frazil_driver::run_with_backend(&engine, streams, fill, &schedule, backend)
            }
        }
    }
}

/// Bytes an entry, unless the cache is too large to measure.
fn memory_of(args: &Args, policy: Setup, capacity: u64) -> anyhow::Result<Option<f64>> {
    let entry = ENTRY_BYTES + u64::from(args.value_bytes.unwrap_or(0));
    if capacity.saturating_mul(entry) > MEMORY_MAX {
        note(&format!(
            "{policy}: memory of {capacity} entries is not measured, because it is too \
                       much"
        ));
        return Ok(None);
    }
    measured_entry_bytes(policy, capacity, args.value_bytes)
}

/// Bytes an entry, including key and value, measured in a process that has used no memory before.
/// `None` if the system does not report it.
pub(crate) fn measured_entry_bytes(
    policy: Setup,
    capacity: u64,
    value_bytes: Option<u32>,
) -> anyhow::Result<Option<f64>> {
    let mut command = Command::new(std::env::current_exe().context("no path to this program")?);
    command
        .args(["bench", "--measure-memory", "--policy", &policy.to_string()])
        .args(["--shards", &policy.shards.to_string()])
        .args(["--capacity", &capacity.to_string()]);
    if let Some(bytes) = value_bytes {
        command.args(["--value-bytes", &bytes.to_string()]);
    }
    let output = command.output().context("cannot start the process that measures memory")?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr);
        bail!("memory of {policy} at {capacity} entries: {} {problem}", output.status);
    }
    // The process prints nothing if the system does not report it.
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}

fn print_memory(args: &Args, policies: &[Setup]) -> Done {
    let capacity = args.capacity.first().map(|capacity| capacity.known(Unit::Objects));
    let (Some(&policy), Some(Ok(Some(capacity)))) = (policies.first(), capacity) else {
        return Err(Failure::usage(anyhow!("--measure-memory takes a policy and a capacity")));
    };
    let bytes = match args.value_bytes {
        None => frazil_driver::bytes_per_entry(|| Ours::<u64>::new(policy, capacity, 0), capacity),
        Some(bytes) => {
            let build = || Ours::<Arc<[u8]>>::new(policy, capacity, bytes as usize);
            frazil_driver::bytes_per_entry(build, capacity)
        }
    };
    output::print(&bytes.map_or(String::new(), |bytes| bytes.to_string()))
}

fn rows(args: &Args, lines: &[Line]) -> Vec<Row> {
    let row = |line: &Line| {
        let measured = &line.measured;
        row! {
            "policy" => line.policy.to_string(),
            "workload" => args.workload,
            "capacity" => line.capacity,
            "threads" => line.threads,
            "mops" => measured.mops,
            "mops_min" => measured.mops_min,
            "mops_max" => measured.mops_max,
            "hit_ratio" => measured.hit_ratio,
            "p50_ns" => measured.p50_ns,
            "p99_ns" => measured.p99_ns,
            "p999_ns" => measured.p999_ns,
            "bytes_per_entry" => line.bytes_per_entry,
            "cpu_share" => measured.cpu_share,
            "little" => measured.little().ratio(),
            "latencies_valid" => measured.little().holds(),
            "overlap" => measured.little().overlap,
        }
    };
    lines.iter().map(row).collect()
}

fn table(args: &Args, lines: &[Line]) -> String {
    let name = Path::new(&args.workload).file_name().unwrap_or_default().to_string_lossy();
    let headers = [
        "policy", "workload", "capacity", "threads", "M ops/s", "slowest", "fastest", "hits",
        "p50 ns", "p99 ns", "p99.9 ns", "little", "B/entry", "cpu",
    ];
    let row = |line: &Line| {
        let measured = &line.measured;
        let optional = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        vec![
            line.policy.to_string(),
            printable(&name),
            output::grouped(line.capacity),
            line.threads.to_string(),
            format!("{:.2}", measured.mops),
            format!("{:.2}", measured.mops_min),
            format!("{:.2}", measured.mops_max),
            output::percent(measured.hit_ratio),
            output::grouped(measured.p50_ns),
            output::grouped(measured.p99_ns),
            output::grouped(measured.p999_ns),
            measured.little().to_string(),
            optional(line.bytes_per_entry, 1),
            optional(measured.cpu_share, 2),
        ]
    };
    output::table(&headers, &["policy", "workload"], lines.iter().map(row).collect())
}
