//! The server's part of `cargo xtask soak`: `frazil serve` with all protocols under load, with
//! badly behaved clients and restarts.
//!
//! A value contains its key and version. Each key has one writer, so a read that begins after the reply to a write may miss,
//! but must not find an older version, also after a restart with a snapshot. A phase is the life of a server process; at its
//! end connections and memory are checked. Phases end by SIGKILL, and by SIGTERM with a snapshot, in turn.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::asking::Asking;
use crate::spent::median;
use crate::{serving, step};

const MEMORY_MIB: u64 = 16;
/// Memory beyond `--memory`: buffers of threads and the allocator. The program itself does not count, because without
/// optimisation it alone takes 17 MiB.
const BESIDE_MIB: u64 = 4;
const WRITERS: u64 = 4;
const KEYS: u64 = 20_000;
/// Numbers of clients that send a byte a second, and of those that do not read.
const SLOW: usize = 500;
const DEAF: usize = 8;
/// The longest duration of a phase.
const PHASE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs phases of the program `frazil` for `seconds`.
///
/// # Errors
///
/// A reply is wrong, memory or connections grow, or the server does not stop or start.
pub(crate) fn run(program: &Path, seconds: u64) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("frazil-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let place = Place::new(program.to_owned(), folder.join("items"))?;
    let whole = Duration::from_secs(seconds);
    let phase = PHASE.min(whole / 4).max(Duration::from_secs(3));
    let mut versions: Vec<Vec<u64>> = Vec::new();
    let (begun, mut turn) = (Instant::now(), 0);
    while begun.elapsed() < whole || turn < 2 {
        if turn == 0 || !comes_back(turn) {
            versions = vec![vec![0; (KEYS / WRITERS) as usize]; WRITERS as usize];
        }
        self::phase(&place, phase, turn, &mut versions).with_context(|| format!("phase {turn}"))?;
        turn += 1;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Whether the previous phase ended with a snapshot. After SIGKILL the server has none, so keys get new names.
fn comes_back(turn: u64) -> bool {
    turn > 0 && turn.is_multiple_of(2)
}

/// The addresses of a server, the same after a restart.
struct Place {
    program: PathBuf,
    snapshot: PathBuf,
    memcached: SocketAddr,
    resp: SocketAddr,
    http: SocketAddr,
    admin: SocketAddr,
}

impl Place {
    fn new(program: PathBuf, snapshot: PathBuf) -> anyhow::Result<Place> {
        let free = serving::free_addresses(4)?;
        let [memcached, resp, http, admin] = free[..] else { bail!("four addresses") };
        Ok(Place { program, snapshot, memcached, resp, http, admin })
    }

    fn start(&self) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--threads", "2", "--memory", &format!("{MEMORY_MIB}MiB")]);
        command.args(["--connections", "2000", "--drain-timeout", "2"]);
        command.args([
            "--memcached",
            &self.memcached.to_string(),
            "--resp",
            &self.resp.to_string(),
        ]);
        command.args(["--http", &self.http.to_string(), "--admin", &self.admin.to_string()]);
        // Nothing listens there: HTTP clients get an error.
        command.args(["--origin", "http://127.0.0.1:9", "--snapshot"]).arg(&self.snapshot);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let running = Running(child.context("frazil serve")?);
        let begun = Instant::now();
        while TcpStream::connect(self.admin).is_err() || TcpStream::connect(self.memcached).is_err()
        {
            ensure!(begun.elapsed() < PATIENCE, "the server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// A number of `/metrics`.
    fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number: f64 = line.with_context(|| format!("no {name}"))?.trim().parse()?;
        Ok(number as u64)
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Already stopped, unless a phase has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn anonymous_mib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()).context("no RssAnon")?;
        Ok(kib.parse::<u64>()? / 1024)
    }

    /// Makes the server drain and write its snapshot.
    fn end(&mut self) -> anyhow::Result<()> {
        let id = self.0.id().to_string();
        step::succeeded("kill", Command::new("kill").args(["-TERM", &id]).status()?)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return step::succeeded("frazil serve", status);
            }
            ensure!(begun.elapsed() < PATIENCE, "the server does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One life of a server.
fn phase(
    place: &Place,
    length: Duration,
    turn: u64,
    versions: &mut [Vec<u64>],
) -> anyhow::Result<()> {
    let mut server = place.start()?;
    let (over, requests, missed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let load = &Load { place, over: &over, requests: &requests, missed: &missed, turn };
    thread::scope(|scope| {
        let stops = Stops(&over);
        let writers: Vec<_> = versions
            .iter_mut()
            .enumerate()
            .map(|(writer, versions)| scope.spawn(move || load.write(writer as u64, versions)))
            .collect();
        let rough = scope.spawn(move || load.break_off());
        alone = load.ask(length / 2)?;
        let slow = scope.spawn(move || load.be_slow());
        thread::sleep(Duration::from_millis(200));
        beside = load.ask(length / 2)?;
        drop(stops);
        for client in writers.into_iter().chain([rough, slow]) {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        anyhow::Ok(())
    })?;
    // The server notices closed connections at its next wake-up.
    let begun = Instant::now();
    while place.metric("frazil_server_connections")? > 0 {
        ensure!(begun.elapsed() < PATIENCE, "connections stay whose clients have gone");
        thread::sleep(Duration::from_millis(50));
    }
    let anonymous = server.anonymous_mib()?;
    let p99 = |times: &[f64]| times[times.len() * 99 / 100];
    println!(
        "phase {turn}: {} requests, {} missed, {anonymous} MiB, p50 {:.0} us, p99 {:.0} us, beside {SLOW} slow clients {:.0} us",
        requests.load(Relaxed),
        missed.load(Relaxed),
        median(alone.iter().copied()),
        p99(&alone),
        p99(&beside)
    );
    ensure!(anonymous <= MEMORY_MIB + BESIDE_MIB, "{anonymous} MiB of {MEMORY_MIB}");
    if comes_back(turn + 1) { server.end() } else { Ok(()) }
}

/// Stops the clients on drop, however the phase ends.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Load<'a> {
    place: &'a Place,
    over: &'a AtomicBool,
    requests: &'a AtomicU64,
    missed: &'a AtomicU64,
    turn: u64,
}

impl Load<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Writes the keys of one writer by either protocol, and reads them by the other.
    fn write(&self, writer: u64, versions: &mut [u64]) -> anyhow::Result<()> {
        let (mut text, mut resp) =
            (Asking::connect(self.place.memcached)?, Asking::connect(self.place.resp)?);
        let mut number = 0_u64;
        while !self.is_over() {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(writer * 2 + 1);
            let at = (number >> 33) as usize % versions.len();
            let key = format!("{}-{writer}-{at}", self.turn.div_ceil(2));
            if number >> 62 == 0 {
                versions[at] += 1;
                let value = value(&key, versions[at]);
                if number >> 61 & 1 == 0 {
                    set(&mut text, &key, &value)?;
                } else {
                    resp_set(&mut resp, &key, &value)?;
                }
            } else {
                let found = if number >> 61 & 1 == 0 {
                    resp_get(&mut resp, &key)?
                } else {
                    get(&mut text, &key)?
                };
                match found {
                    // The entry was evicted, or is not restored yet.
                    None => _ = self.missed.fetch_add(u64::from(versions[at] > 0), Relaxed),
                    Some(found) => {
                        ensure!(
                            found == value(&key, versions[at]),
                            "{key}: {found:.40}, and written was {}",
                            versions[at]
                        );
                    }
                }
            }
            self.requests.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Clients that end within a request or a reply, by all protocols in turn; and clients that do
    /// not read.
    fn break_off(&self) -> anyhow::Result<()> {
        let parts: [(SocketAddr, &[u8]); 6] = [
            (self.place.memcached, b"set half 0 0 1000\r\nabc"),
            (self.place.memcached, b"mg half v N30 w1000\r\nmg half v N30 w1000\r\nget a"),
            (self.place.resp, b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1000\r\nabc"),
            (self.place.resp, b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4"),
            (
                self.place.http,
                b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            ),
            (self.place.http, b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
        ];
        let mut deaf: Vec<TcpStream> = Vec::new();
        for turn in 0.. {
            if self.is_over() {
                break;
            }
            let (address, part) = parts[turn % parts.len()];
            TcpStream::connect(address)?.write_all(part)?;
            if turn % 50 == 0 {
                if deaf.len() == DEAF {
                    deaf.remove(0);
                }
                let stream = TcpStream::connect(self.place.memcached)?;
                stream.set_nonblocking(true)?;
                deaf.push(stream);
            }
            for stream in &mut deaf {
                // Bytes that the socket does not accept are dropped, and the server may have closed
                // the connection.
                let _ = stream.write(b"stats\r\nstats\r\nstats\r\nstats\r\n");
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Many clients that send a byte a second.
    fn be_slow(&self) -> anyhow::Result<()> {
        let streams: Result<Vec<_>, _> = (0..SLOW)
            .map(|at| {
                TcpStream::connect([self.place.memcached, self.place.resp, self.place.http][at % 3])
            })
            .collect();
        let mut streams = streams?;
        while !self.is_over() {
            for stream in &mut streams {
                // The server may have closed it because of its request.
                let _ = stream.write(b"x");
            }
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(1) && !self.is_over() {
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Latencies of one client's requests in microseconds, ascending.
    fn ask(&self, length: Duration) -> anyhow::Result<Vec<f64>> {
        let mut client = Asking::connect(self.place.memcached)?;
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < length {
            let asked = Instant::now();
            get(&mut client, "asked")?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }
}

/// A value with its key and version; lengths vary.
fn value(key: &str, version: u64) -> String {
    let padding = key.bytes().fold(version, |sum, byte| sum * 31 % 3989 + u64::from(byte));
    format!("{key}={version}={}", "x".repeat(padding as usize))
}

fn set(client: &mut Asking, key: &str, value: &str) -> anyhow::Result<()> {
    let line = client.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()))?;
    ensure!(line == "STORED", "set: {line}");
    Ok(())
}

fn get(client: &mut Asking, key: &str) -> anyhow::Result<Option<String>> {
    let line = client.ask(&format!("get {key}\r\n"))?;
    if line == "END" {
        return Ok(None);
    }
    let bytes = line.strip_prefix(&format!("VALUE {key} 0 ")).with_context(|| line.clone())?;
    let value = client.value(bytes.parse()?)?;
    let line = client.line()?;
    ensure!(line == "END", "get: {line}");
    Ok(Some(value))
}

fn resp_set(client: &mut Asking, key: &str, value: &str) -> anyhow::Result<()> {
    let (of_key, of_value) = (key.len(), value.len());
    let line = client
        .ask(&format!("*3\r\n$3\r\nSET\r\n${of_key}\r\n{key}\r\n${of_value}\r\n{value}\r\n"))?;
    ensure!(line == "+OK", "SET: {line}");
    Ok(())
}

fn resp_get(client: &mut Asking, key: &str) -> anyhow::Result<Option<String>> {
    let line = client.ask(&format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()))?;
    if line == "$-1" {
        return Ok(None);
    }
    let bytes = line.strip_prefix('$').with_context(|| line.clone())?;
    Ok(Some(client.value(bytes.parse()?)?))
}
