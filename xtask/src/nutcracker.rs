//! `cargo xtask check nutcracker`: three processes of `frazil serve` behind Debian's nutcracker,
//! one of them killed, then stopped and restarted; and three with the map of a cluster, under
//! Redis' own programs.
//!
//! After SIGKILL a client may see an error for the request in flight, and only keys of that process may miss. Each
//! time nutcracker tries the process again (`server_retry_timeout`), one more request fails, so this is measured with a
//! short and with a long timeout. After SIGTERM and a restart nearly all keys must hit.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::asking::Asking;
use crate::serving::{self, Serving};
use crate::{step, tools};

const KEYS: usize = 30_000;
const CONNECTIONS: usize = 8;
/// Processes; the second is the one that ends.
const PROCESSES: usize = 3;
const LOST: usize = 1;
/// Time that clients read after a process has been killed.
const READING: Duration = Duration::from_secs(5);
/// Milliseconds after which nutcracker tries a failed process again: shorter and longer than `READING`.
const SHORT_MS: u64 = 2000;
const LONG_MS: u64 = 60_000;
/// The least share of all keys that hit after a restart, in percent.
const HITS_MIN: f64 = 99.0;

/// Runs all of it.
///
/// # Errors
///
/// A bound on the server is missed, or a program cannot be installed or started.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut build = step::cargo(root, ["build", "--release", "--locked", "-p", "frazil-cli"]);
    step::run("build frazil", build.args(["--features", "full"]))?;
    let frazil = root.join("target/release/frazil");
    let folder = std::env::temp_dir().join(format!("frazil-nutcracker-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let nutcracker = tools::ensure_program("nutcracker", &["nutcracker"])?;
    let mut missed = Vec::new();
    for retry_ms in [SHORT_MS, LONG_MS] {
        let ring = Ring::start(&frazil, &nutcracker, &folder, retry_ms)?;
        missed.extend(ring.kill(retry_ms)?);
    }
    missed.extend(Ring::start(&frazil, &nutcracker, &folder, SHORT_MS)?.restart()?);
    missed.extend(cluster(&frazil, &folder)?);
    std::fs::remove_dir_all(&folder)?;
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// Processes and the proxy before them.
struct Ring {
    frazil: PathBuf,
    folder: PathBuf,
    addresses: Vec<SocketAddr>,
    processes: Vec<Option<Serving>>,
    proxy: SocketAddr,
    _proxy: Serving,
}

impl Ring {
    /// Starts everything, and sets all keys.
    fn start(frazil: &Path, nutcracker: &Path, folder: &Path, retry: u64) -> anyhow::Result<Ring> {
        let mut addresses = serving::free_addresses(PROCESSES + 2)?;
        let (Some(stats), Some(proxy)) = (addresses.pop(), addresses.pop()) else {
            bail!("no addresses")
        };
        let mut config = format!(
            "cache:\n  listen: {proxy}\n  hash: fnv1a_64\n  distribution: ketama\n  \
             auto_eject_hosts: true\n  server_failure_limit: 1\n  server_retry_timeout: {retry}\n  \
             timeout: 400\n  servers:\n"
        );
        for (address, name) in addresses.iter().zip(["one", "two", "three"]) {
            config += &format!("   - {address}:1 {name}\n");
        }
        let file = folder.join("nutcracker.yml");
        std::fs::write(&file, config)?;
        let begin = |at| begin(frazil, folder, &addresses, at).map(Some);
        let processes = (0..PROCESSES).map(begin).collect::<Result<Vec<_>, _>>()?;
        let mut command = Command::new(nutcracker);
        command.arg("-c").arg(&file).arg("-o").arg(folder.join("nutcracker.log"));
        command.arg("-p").arg(folder.join("nutcracker.pid")).args(["-a", "127.0.0.1"]);
        command.args(["-s", &stats.port().to_string()]);
        let _proxy = Serving::start(&mut command, proxy)?;
        let (frazil, folder) = (frazil.to_owned(), folder.to_owned());
        let ring = Ring { frazil, folder, addresses, processes, proxy, _proxy };
        let mut client = Asking::connect(proxy)?;
        for key in 0..KEYS {
            let stored = client.ask(&format!("set k{key} 0 0 5\r\nvalue\r\n"))?;
            ensure!(stored == "STORED", "set: {stored}");
        }
        Ok(ring)
    }

    /// The keys that a process has, requested from it directly, not through the proxy.
    fn keys_of(&self, at: usize) -> anyhow::Result<BTreeSet<usize>> {
        let mut client = Asking::connect(self.addresses[at])?;
        let mut found = BTreeSet::new();
        for key in 0..KEYS {
            if get(&mut client, key)? == Got::Hit {
                found.insert(key);
            }
        }
        Ok(found)
    }

    /// Clients read while `work` runs.
    fn reading(&self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Seen> {
        let over = AtomicBool::new(false);
        let read = |number: usize| -> anyhow::Result<Seen> {
            let mut client = Asking::connect(self.proxy)?;
            let mut seen = Seen::default();
            // Every key in turn, each client in another order.
            for at in (0..).take_while(|_| !over.load(Relaxed)) {
                let key = (at * 7919 + number * 3571) % KEYS;
                seen.add(key, get(&mut client, key)?);
            }
            seen.errors_most = seen.errors.len();
            Ok(seen)
        };
        std::thread::scope(|scope| {
            let read = &read;
            let clients: Vec<_> =
                (0..CONNECTIONS).map(|number| scope.spawn(move || read(number))).collect();
            let worked = work();
            over.store(true, Relaxed);
            let mut all = Seen::default();
            for client in clients {
                let seen = client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
                all.merge(seen);
            }
            worked.map(|()| all)
        })
    }

    /// Kills a process by SIGKILL. Returns the missed bounds.
    fn kill(mut self, retry_ms: u64) -> anyhow::Result<Vec<String>> {
        let lost = self.keys_of(LOST)?;
        let mut process = self.processes[LOST].take();
        let seen = self.reading(|| {
            std::thread::sleep(READING / 5);
            drop(process.take());
            std::thread::sleep(READING);
            Ok(())
        })?;
        let kept = seen.missed.difference(&lost).count();
        let retries = (READING.as_millis() as u64 / retry_ms) as usize;
        println!(
            "SIGKILL, tried again after {retry_ms} ms: {} reads; errors: {}, at most {} on a connection: {:?}",
            seen.reads,
            seen.errors.len(),
            seen.errors_most,
            seen.errors.iter().collect::<BTreeSet<_>>(),
        );
        println!(
            "  missed: {} of its {} keys, {kept} of others",
            seen.missed.len() - kept,
            lost.len()
        );
        let mut missed = Vec::new();
        if kept > 0 {
            missed.push(format!("{kept} keys of other processes miss"));
        }
        // One error for the request in flight, and one for each retry by nutcracker.
        if seen.errors_most > 1 + retries {
            missed.push(format!("{} errors on a connection, {retries} retries", seen.errors_most));
        }
        Ok(missed)
    }

    /// Stops a process by SIGTERM, and starts it with the snapshot.
    fn restart(mut self) -> anyhow::Result<Vec<String>> {
        let mut process = self.processes[LOST].take();
        let mut again = None;
        let seen = self.reading(|| {
            std::thread::sleep(READING / 5);
            process.take().context("a process")?.end()?;
            again = Some(begin(&self.frazil, &self.folder, &self.addresses, LOST)?);
            // Waits until nutcracker tries the process again.
            std::thread::sleep(Duration::from_millis(SHORT_MS * 2));
            Ok(())
        })?;
        self.processes[LOST] = again;
        let (mut client, mut hits) = (Asking::connect(self.proxy)?, 0);
        for key in 0..KEYS {
            hits += usize::from(get(&mut client, key)? == Got::Hit);
        }
        let percent = 100.0 * hits as f64 / KEYS as f64;
        println!(
            "SIGTERM and restart: {} reads; errors: {}, at most {} on a connection; {percent:.1} % of all keys are there after it",
            seen.reads,
            seen.errors.len(),
            seen.errors_most,
        );
        let mut missed = Vec::new();
        if percent < HITS_MIN {
            missed.push(format!("{percent:.1} % of the keys after a restart"));
        }
        Ok(missed)
    }
}

/// Starts a process that serves memcached's protocol.
fn begin(
    frazil: &Path,
    folder: &Path,
    addresses: &[SocketAddr],
    at: usize,
) -> anyhow::Result<Serving> {
    let mut command = Command::new(frazil);
    command.args(["serve", "--memory", "64MiB", "--memcached", &addresses[at].to_string()]);
    command.arg("--snapshot").arg(folder.join(format!("items-{}", addresses[at].port())));
    Serving::start(command.stdout(Stdio::null()).stderr(Stdio::null()), addresses[at])
}

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Hit,
    Miss,
    Error(String),
}

/// Replies to the clients, counted.
#[derive(Default)]
struct Seen {
    reads: usize,
    errors: Vec<String>,
    /// Most errors of one client.
    errors_most: usize,
    missed: BTreeSet<usize>,
}

impl Seen {
    fn add(&mut self, key: usize, got: Got) {
        self.reads += 1;
        match got {
            Got::Hit => {}
            Got::Miss => drop(self.missed.insert(key)),
            Got::Error(text) => self.errors.push(text),
        }
    }

    fn merge(&mut self, other: Seen) {
        self.reads += other.reads;
        self.errors.extend(other.errors);
        self.errors_most = self.errors_most.max(other.errors_most);
        self.missed.extend(other.missed);
    }
}

fn get(client: &mut Asking, key: usize) -> anyhow::Result<Got> {
    let first = client.ask(&format!("get k{key}\r\n"))?;
    match &first[..] {
        "END" => Ok(Got::Miss),
        _ if first.starts_with("VALUE ") => {
            let (value, end) = (client.line()?, client.line()?);
            ensure!(value == "value" && end == "END", "{value}, {end}");
            Ok(Got::Hit)
        }
        _ if first.contains("ERROR") => Ok(Got::Error(first)),
        _ => bail!("get: {first}"),
    }
}

/// Three processes with a map, under `redis-benchmark --cluster` and `redis-cli -c`. Returns the
/// missed bounds.
fn cluster(frazil: &Path, folder: &Path) -> anyhow::Result<Vec<String>> {
    let benchmark = tools::ensure_program("redis-benchmark", &["redis-tools"])?;
    let cli = tools::ensure_program("redis-cli", &["redis-tools"])?;
    let file = folder.join("cluster.toml");
    let nodes = serving::cluster(frazil, &file, &["--memory", "64MiB"])?;
    let port = nodes[0].1.port().to_string();
    let at = ["-h", "127.0.0.1", "-p", &port];
    let mut command = Command::new(benchmark);
    command.args(at).args([
        "--cluster",
        "-t",
        "set,get,incr,mset",
        "-n",
        "50000",
        "-r",
        "10000",
        "-q",
    ]);
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "\n");
    let done: Vec<_> = said.lines().filter(|line| line.contains("requests per second")).collect();
    let done: BTreeSet<&str> = done.iter().filter_map(|line| line.split(':').next()).collect();
    println!(
        "redis-benchmark --cluster: {}, {}",
        done.iter().copied().collect::<Vec<_>>().join(", "),
        output.status
    );
    let mut missed = Vec::new();
    if !output.status.success() || done.len() < 4 {
        missed.push(format!("redis-benchmark: {said} {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut command = Command::new(cli);
    command.args(at).arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn()?;
    let asked: String = (0..1000).map(|key| format!("SET k{key} v{key}\nGET k{key}\n")).collect();
    let mut input = child.stdin.take().context("no input")?;
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let mut said = String::new();
    child.stdout.take().context("no output")?.read_to_string(&mut said)?;
    step::succeeded("redis-cli", child.wait()?)?;
    writer.join().map_err(|_| anyhow::anyhow!("redis-cli is not fed"))??;
    let right = (0..1000).filter(|key| said.lines().any(|line| line == format!("v{key}"))).count();
    println!("redis-cli -c: {right} of 1000 keys that were set are read");
    if right < 1000 {
        missed.push(format!("redis-cli: {right} of 1000 keys"));
    }
    Ok(missed)
}
