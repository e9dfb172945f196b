//! `cargo xtask check wire`: the same requests to frazil and to memcached, and to frazil and Valkey; replies must be the same.
//!
//! Requests come from a grammar: valid, nearly valid, and with bytes changed. Each sequence of them
//! is sent in one piece, with its own keys. [`allowed`] lists permitted differences, with reasons.
//! A sequence whose replies differ is shortened before it is printed.

mod allowed;
mod chance;
mod memcached;
mod resp;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::server_bench::valkey;
use crate::{step, tools};
use chance::Chance;

/// The default number of requests to each pair of servers.
pub(crate) const RUNS: u64 = 1_000_000;
/// The same before a release.
pub(crate) const LONG_RUNS: u64 = 100_000_000;
/// Requests of a sequence.
const LENGTH: u64 = 24;
/// Placeholder for the name of the sequence, of the same length, in requests and in compared
/// replies.
const NAME: &[u8] = b"@@@@@@@@";
/// Most differences that are printed, each of another kind.
const SHOWN_MAX: usize = 20;
/// Requests between two lines about the progress of a long run.
const PROGRESS: u64 = 10_000_000;
/// Time limit of a server for one sequence, and for its start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A protocol that another server also speaks.
struct Wire {
    rival: &'static str,
    /// Requests before each sequence.
    begin: &'static [u8],
    make: fn(&mut Chance) -> Vec<u8>,
    /// Bytes that damage does not put into requests.
    never: &'static [u8],
    /// Splits replies for the comparison.
    units: fn(&[u8]) -> Vec<String>,
    /// Whether a value is not complete at the end of these requests, so that the other server may have closed the
    /// connection without its last replies.
    ends_in_value: fn(&[u8]) -> bool,
    allowed: &'static [allowed::Difference],
}

const WIRES: [Wire; 2] = [
    Wire {
        rival: "memcached",
        begin: b"",
        make: memcached::request,
        never: &memcached::NEVER,
        units: memcached::units,
        ends_in_value: memcached::ends_in_value,
        allowed: allowed::MEMCACHED,
    },
    Wire {
        rival: "Valkey",
        begin: b"FLUSHALL\r\n",
        make: resp::request,
        never: &resp::NEVER,
        units: resp::units,
        ends_in_value: |_| false,
        allowed: allowed::VALKEY,
    },
];

/// Sends `runs` requests to each pair of servers.
///
/// # Errors
///
/// Replies differ beyond the permitted differences, or a server cannot be started or ends.
pub(crate) fn run(root: &Path, runs: u64, seed: u64) -> anyhow::Result<()> {
    let mut build = step::cargo(root, ["build", "--release", "--locked", "-p", "frazil-cli"]);
    step::run("build frazil", build.args(["--features", "full"]))?;
    let frazil = root.join("target/release/frazil");
    let folder = std::env::temp_dir().join(format!("frazil-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    // Together they take little longer than one: a server waits while the client compares.
    let compared = thread::scope(|scope| {
        let beside = |wire| {
            let (frazil, folder) = (&frazil, &folder);
            scope.spawn(move || compare_beside(root, frazil, folder, wire, runs, seed))
        };
        let threads: Vec<_> = WIRES.iter().map(beside).collect();
        let panicked = |_| anyhow::anyhow!("a comparison panicked");
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().map_err(panicked)?;
        threads.into_iter().map(join).collect::<Vec<anyhow::Result<usize>>>()
    });
    std::fs::remove_dir_all(&folder)?;
    let mut failed = Vec::new();
    for (wire, differences) in WIRES.iter().zip(compared) {
        let differences = differences.with_context(|| wire.rival)?;
        if differences > 0 {
            failed.push(format!("{}: {differences}", wire.rival));
        }
    }
    if !failed.is_empty() {
        bail!("kinds of differences that are not allowed: {}", failed.join(", "));
    }
    Ok(())
}

/// Starts both servers of a pair and compares them; returns the kinds of differences found.
fn compare_beside(
    root: &Path,
    frazil: &Path,
    folder: &Path,
    wire: &Wire,
    runs: u64,
    seed: u64,
) -> anyhow::Result<usize> {
    let socket = |whose| folder.join(format!("{}-{whose}", wire.rival));
    let (ours, theirs) = (socket("ours"), socket("theirs"));
    // Room for all keys that memcached's pair is given in a hundred million requests: an eviction would be a difference.
    // Valkey's is emptied before each sequence.
    let (flag, memory) =
        if wire.rival == "Valkey" { ("--resp", "256MiB") } else { ("--memcached", "6GiB") };
    let address = format!("unix:{}", ours.display());
    let mut serve = Command::new(frazil);
    serve.args(["serve", "--memory", memory, flag, &address]);
    let ours = Peer::start(&mut serve, ours)?;
    let theirs = Peer::start(&mut rival(root, wire.rival, &theirs)?, theirs)?;
    step::announced(&format!("beside {}", wire.rival), || {
        compare(wire, [&ours, &theirs], runs, seed)
    })
}

fn rival(root: &Path, name: &str, socket: &Path) -> anyhow::Result<Command> {
    if name == "Valkey" {
        let mut command = Command::new(valkey(root)?);
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(socket);
        return Ok(command);
    }
    let mut command = Command::new(tools::ensure_program("memcached", &["memcached"])?);
    command.args(["-u", "root", "-m", "6144", "-s"]).arg(socket);
    Ok(command)
}

/// A running server, stopped on drop.
struct Peer {
    child: Child,
    socket: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Peer {
    fn start(command: &mut Command, socket: PathBuf) -> anyhow::Result<Peer> {
        let name = command.get_program().display().to_string();
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let peer = Peer { child: child.context(name.clone())?, socket };
        let begun = Instant::now();
        while UnixStream::connect(&peer.socket).is_err() {
            if begun.elapsed() > PATIENCE {
                bail!("{name} does not listen");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(peer)
    }

    fn connect(&self) -> anyhow::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket).context("a server has ended")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

/// All replies until the server closes the connection, after the client has closed its half.
fn said(stream: &mut UnixStream) -> anyhow::Result<Vec<u8>> {
    let mut replies = Vec::new();
    match stream.read_to_end(&mut replies) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            Err(error).context(format!("no end after {:?}", replies.escape_ascii().to_string()))
        }
        _ => Ok(replies),
    }
}

/// Sends requests to both servers under an unused name, and splits the replies.
fn exchange(
    wire: &Wire,
    peers: [&Peer; 2],
    requests: &[Vec<u8>],
    name: &mut u64,
) -> anyhow::Result<[Vec<String>; 2]> {
    *name += 1;
    // If a changed request has only a part of the name, few others share that part.
    let own: String = format!("{name:08x}").chars().rev().collect();
    let mut sent = replaced(&requests.concat(), NAME, own.as_bytes());
    let mut place = 0;
    for byte in &mut sent {
        place = if *byte == b'@' { place + 1 } else { 0 };
        if *byte == b'@' {
            *byte = own.as_bytes()[(place - 1) % own.len()];
        }
    }
    sent.splice(..0, wire.begin.iter().copied());
    let mut streams = [peers[0].connect()?, peers[1].connect()?];
    for stream in &mut streams {
        // A server that closes early has sent the reason before.
        let _ = stream.write_all(&sent);
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut units = [const { Vec::new() }; 2];
    for (stream, units) in streams.iter_mut().zip(&mut units) {
        let replies = replaced(&said(stream)?, own.as_bytes(), NAME);
        *units = (wire.units)(&replies);
    }
    let [ours, theirs] = &mut units;
    if theirs.len() < ours.len() && (wire.ends_in_value)(&sent) {
        ours.truncate(theirs.len());
    }
    Ok(units)
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut all = bytes.to_vec();
    let mut at = 0;
    while at + from.len() <= all.len() {
        if all[at..].starts_with(from) {
            all[at..at + from.len()].copy_from_slice(to);
            at += from.len();
        } else {
            at += 1;
        }
    }
    all
}

/// The first difference that is not allowed. Replies after an allowed difference are compared, unless the table says that
/// the servers' states differ from there on.
fn difference(wire: &Wire, [ours, theirs]: &[Vec<String>; 2]) -> Option<(String, String)> {
    let none = "(nothing)".to_owned();
    for at in 0..ours.len().max(theirs.len()) {
        let (our, their) = (ours.get(at).unwrap_or(&none), theirs.get(at).unwrap_or(&none));
        if our == their {
            continue;
        }
        if is_rounded(our, their) {
            return None;
        }
        // memcached 1.6.18 returns a key that it has just created as raw bytes.
        if our.contains(" b") && is_raw_key(their) {
            continue;
        }
        if is_a_moment_later(our, their) {
            continue;
        }
        match wire.allowed.iter().find(|allowed| allowed.is(our, their)) {
            Some(allowed) if allowed.parts => return None,
            Some(_) => {}
            None => return Some((our.clone(), their.clone())),
        }
    }
    None
}

/// Whether both are one number, of which theirs has 64 bits, as a sum of `INCRBYFLOAT` has in Valkey. Ours is exact.
fn is_rounded(our: &str, their: &str) -> bool {
    let number = |reply: &str| {
        let (length, number) = reply.split_once(' ')?;
        let digits = number.strip_suffix("\\r\\n")?;
        let value: f64 = digits.parse().ok()?;
        (length.starts_with('$') && digits.len() > 16).then_some(value)
    };
    number(our)
        .zip(number(their))
        .is_some_and(|(our, their)| (our - their).abs() <= our.abs() * 1e-15)
}

/// Whether a reply of the meta protocol has a key with bytes that are not ASCII.
fn is_raw_key(reply: &str) -> bool {
    reply.split(' ').any(|word| word.starts_with('k') && !word.is_ascii())
}

/// Whether both are times in seconds since 1970, of servers that were asked one after the other, perhaps on a loaded machine.
fn is_a_moment_later(our: &str, their: &str) -> bool {
    let time = |reply: &str| {
        let time: i64 = reply.strip_prefix(':')?.parse().ok()?;
        (1_600_000_000..4_000_000_000).contains(&time).then_some(time)
    };
    time(our).zip(time(their)).is_some_and(|(our, their)| our.abs_diff(their) <= PATIENCE.as_secs())
}

/// Compares the servers; returns the kinds of differences found.
fn compare(wire: &Wire, peers: [&Peer; 2], runs: u64, seed: u64) -> anyhow::Result<usize> {
    let (mut name, mut sent, mut clean) = (0, 0, 0);
    let mut shown: BTreeMap<(String, String), ()> = BTreeMap::new();
    let begun = Instant::now();
    let mut chance = Chance::new(seed);
    while sent < runs && shown.len() < SHOWN_MAX {
        let mut requests: Vec<_> = (0..LENGTH).map(|_| (wire.make)(&mut chance)).collect();
        if chance.one_in(4) {
            let at = chance.below(LENGTH) as usize;
            chance.damage(&mut requests[at], wire.never);
        }
        sent += LENGTH;
        if sent % PROGRESS < LENGTH {
            eprintln!("xtask: beside {}: {} millions of requests", wire.rival, sent / 1_000_000);
        }
        let found = difference(wire, &exchange(wire, peers, &requests, &mut name)?);
        let Some(found) = found else {
            clean += LENGTH;
            continue;
        };
        if shown.insert(found.clone(), ()).is_none() {
            shorten(wire, peers, &mut requests, &found, &mut name)?;
            let [ours, theirs] = exchange(wire, peers, &requests, &mut name)?;
            let mut shown = format!("ours    {:?}\ntheirs  {:?}\n", found.0, found.1);
            for request in &requests {
                shown += &format!("        {}\n", request.escape_ascii());
            }
            println!("{shown}all of ours    {ours:?}\nall of theirs  {theirs:?}");
        }
    }
    let rate = sent as f64 / begun.elapsed().as_secs_f64();
    println!("{}: {clean} of {sent} requests clean, {rate:.0} a second", wire.rival);
    Ok(shown.len())
}

/// Removes requests while the same replies differ.
fn shorten(
    wire: &Wire,
    peers: [&Peer; 2],
    requests: &mut Vec<Vec<u8>>,
    found: &(String, String),
    name: &mut u64,
) -> anyhow::Result<()> {
    for at in (0..requests.len()).rev() {
        let left = requests.remove(at);
        if difference(wire, &exchange(wire, peers, requests, name)?).as_ref() != Some(found) {
            requests.insert(at, left);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_differ_are_found_and_allowed_ones_are_not() {
        let wire = &WIRES[0];
        let units = |text: &str| memcached::units(text.as_bytes());
        let differs = |ours, theirs| difference(wire, &[units(ours), units(theirs)]);
        assert_eq!(differs("VALUE k 0 1 7\r\na\r\nEND\r\n", "VALUE k 0 1 9\r\na\r\nEND\r\n"), None);
        let found = differs("STORED\r\nHD\r\n", "STORED\r\nNF\r\n");
        assert_eq!(found, Some(("HD".to_owned(), "NF".to_owned())));
        assert!(differs("STORED\r\n", "STORED\r\nSTORED\r\n").is_some());
        assert!(differs("VALUE k 0 1\r\na\r\nEND\r\n", "VALUE k 0 1\r\nb\r\nEND\r\n").is_some());
    }

    #[test]
    fn a_sum_may_be_rounded_to_64_bits() {
        let is = |our: &str, their: &str| {
            is_rounded(&format!("$19 {our}\\r\\n"), &format!("$19 {their}\\r\\n"))
        };
        assert!(is("0.30000000000000001", "0.30000000000000004"));
        assert!(!is("0.30000000000000001", "0.30000000000000104"), "another number");
        assert!(!is("0.3", "0.30000000000000004"), "ours is not long");
        assert!(!is("0.3000000000000000x", "0.30000000000000004"), "no number");
        let integer = |digits: &str| format!(":19 {digits}\\r\\n");
        let (our, their) = (integer("0.30000000000000001"), integer("0.30000000000000004"));
        assert!(!is_rounded(&our, &their), "no string");
    }

    #[test]
    fn a_raw_key_is_a_word_with_bytes_that_are_not_ascii() {
        assert!(is_raw_key("VA 1 kä s1"));
        assert!(!is_raw_key("VA 1 ka s1"));
        assert!(!is_raw_key("VA 1 Oä s1"), "an opaque");
    }

    #[test]
    fn times_may_differ_by_a_stall_of_the_machine() {
        assert!(is_a_moment_later(":1700000000", ":1700000001"));
        assert!(is_a_moment_later(":1700000001", ":1700000000"));
        let too_late = format!(":{}", 1_700_000_001 + PATIENCE.as_secs());
        assert!(!is_a_moment_later(":1700000000", &too_late));
        assert!(!is_a_moment_later(":7", ":8"), "no time");
        assert!(!is_a_moment_later("1700000000", "1700000001"), "no integer");
    }

    #[test]
    fn the_same_seed_makes_the_same_requests() {
        for wire in &WIRES {
            let made = |seed| {
                let mut chance = Chance::new(seed);
                (0..100).map(|_| (wire.make)(&mut chance)).collect::<Vec<_>>()
            };
            assert_eq!(made(1), made(1));
            assert_ne!(made(1), made(2));
        }
    }
}
