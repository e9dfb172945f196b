//! What a process has of memory that does nothing but serve, through values whose sizes change. One test, because all tests
//! of a file have one process.

#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use frazil_server::{Address, Server, Settings};
use store::{limits, store};

#[path = "shared/store.rs"]
mod store;

const MEMORY_BYTES: usize = 32 << 20;
const SLACK_BYTES: u64 = 8 << 20;

/// The most resident memory of this process so far.
fn most_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Stores so many values, a hundred requests or 100 KB at a time.
fn fill(stream: &TcpStream, count: usize, bytes: usize) {
    let value = "x".repeat(bytes);
    let mut replies = BufReader::new(stream);
    let at_once = (100_000 / bytes).clamp(1, 100);
    for first in (0..count).step_by(at_once) {
        let requests: String = (first..first + at_once)
            .map(|key| format!("set key-{key} 0 0 {bytes}\r\n{value}\r\n"))
            .collect();
        (&mut &*stream).write_all(requests.as_bytes()).unwrap();
        for _ in 0..at_once {
            let mut line = String::new();
            replies.read_line(&mut line).unwrap();
            assert_eq!(line, "STORED\r\n");
        }
    }
}

/// Asks for keys, each three times.
fn ask(stream: &TcpStream, keys: impl Iterator<Item = usize>) {
    let mut replies = BufReader::new(stream);
    for key in keys {
        let request = format!("mg key-{key}\r\n").repeat(3);
        (&mut &*stream).write_all(request.as_bytes()).unwrap();
        for _ in 0..3 {
            replies.read_line(&mut String::new()).unwrap();
        }
    }
}

#[test]
fn memory_stays_near_what_was_said_while_sizes_change() {
    let settings = Settings {
        memcached: vec!["127.0.0.1:0".parse().unwrap()],
        memory_bytes: MEMORY_BYTES,
        store: store(),
        limits: limits(),
        owns_process: true,
        ..Settings::default()
    };
    let server = Server::start(settings).unwrap();
    let Address::Tcp(address) = &server.addresses()[0] else { panic!("a port was asked for") };
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    // This process is a client as well, and no release.
    let beside = most_bytes();
    let sizes = [(300_000, 10), (60_000, 500), (300, 300_000), (9000, 3000), (300, 300_000)];
    for (count, bytes) in sizes {
        fill(&stream, count, bytes);
        // They stay, and what lies between them goes.
        ask(&stream, (0..count).step_by(if bytes < 1000 { 40 } else { 7 }));
        let most = most_bytes();
        let bound = MEMORY_BYTES as u64 + SLACK_BYTES;
        assert!(most < beside + bound, "values of {bytes}: {most} of {bound}, beside {beside}");
    }
}
