//! The server's processes, if they are on this machine, and their processor time.
//!
//! The files exist only on Linux. On other systems nothing is known.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// A tick of `/proc/PID/stat`, on all architectures on which Rust's standard library is built for Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of processes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    pub(super) user: Duration,
    pub(super) system: Duration,
}

impl Used {
    /// The total of these processes; `None` if it is unknown, or there are none.
    pub(super) fn by(processes: &BTreeSet<u32>) -> Option<Used> {
        let mut all = Used::default();
        for process in processes {
            let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let [user, system] = ticks(&text)?;
            all.user += TICK * user;
            all.system += TICK * system;
        }
        (!processes.is_empty()).then_some(all)
    }

    pub(super) fn since(self, before: Used) -> Used {
        Used {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

fn ticks(stat: &str) -> Option<[u32; 2]> {
    // The name, in brackets, may hold anything. Then come a letter and numbers, of which these are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

/// Processes that have the other end of one of these connections; none if that is unknown.
///
/// Reads all descriptors of all processes that this user may inspect.
pub(super) fn behind(connections: &BTreeSet<(SocketAddr, SocketAddr)>) -> BTreeSet<u32> {
    let mut sockets = BTreeSet::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let rows = text.lines().skip(1).filter_map(row);
        sockets.extend(
            rows.filter(|(theirs, ours, _)| connections.contains(&(*ours, *theirs)))
                .map(|(.., socket)| socket),
        );
    }
    owners(&sockets)
}

/// Processes that have a socket of this path.
pub(super) fn at_path(path: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = path.to_string_lossy();
    // Address, references, protocol, flags, type, state, number, path: nothing before the path has a slash.
    let socket = |line: &str| {
        let named = line.find('/').is_some_and(|at| line[at..] == *path);
        named.then(|| line.split_whitespace().nth(6).map(str::to_owned)).flatten()
    };
    owners(&text.lines().skip(1).filter_map(socket).collect())
}

/// Processes that have one of these sockets open.
fn owners(sockets: &BTreeSet<String>) -> BTreeSet<u32> {
    let names: BTreeSet<String> = sockets.iter().map(|it| format!("socket:[{it}]")).collect();
    let has_one = |process: &u32| {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
        entries.flatten().any(|entry| {
            let link = std::fs::read_link(entry.path());
            link.is_ok_and(|link| link.to_str().is_some_and(|name| names.contains(name)))
        })
    };
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let processes =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|_| !names.is_empty()).filter(has_one).collect()
}

/// Local and remote address of a line of `/proc/net/tcp`, and the socket's number.
fn row(line: &str) -> Option<(SocketAddr, SocketAddr, String)> {
    let mut fields = line.split_whitespace().skip(1);
    let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
    Some((local, remote, fields.nth(6)?.to_owned()))
}

/// An address as the kernel prints it: words of 32 bits in this machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)),
    };
    // A server that listens at both kinds of addresses gets a 4-byte address inside a 16-byte one.
    Some(SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_any_name() {
        let stat = "7 (a) (b 1 2) S 1 7 7 0 -1 0 1 2 3 4 120 45 0 0 20 0 1";
        assert_eq!(ticks(stat), Some([120, 45]));
        for bad in ["", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 0 1 2 3 4 x 45"] {
            assert_eq!(ticks(bad), None, "{bad}");
        }
        let before = Used::by(&BTreeSet::from([std::process::id()]));
        assert_eq!(before.is_some(), cfg!(target_os = "linux"));
        assert_eq!(Used::by(&BTreeSet::new()), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_is_found_by_its_end_of_a_connection() {
        let ours = BTreeSet::from([std::process::id()]);
        for place in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(place) else { continue };
            let port = listener.local_addr().unwrap().port();
            let host = if place == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let client = std::net::TcpStream::connect((host, port)).unwrap();
            let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let _accepted = listener.accept().unwrap();
            assert_eq!(behind(&BTreeSet::from([ends])), ours, "{place}");
            drop((client, listener));
        }
        let unknown = "127.0.0.1:1".parse().unwrap();
        assert!(behind(&BTreeSet::from([(unknown, unknown)])).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_server_is_found_by_its_path() {
        let path = std::env::temp_dir().join(format!("frazil-host-{}", std::process::id()));
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(at_path(&path), BTreeSet::from([std::process::id()]));
        assert!(at_path(Path::new("/no/such/socket")).is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
