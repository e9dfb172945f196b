//! Load from one thread for a running server of memcached's protocol, or with `--resp` of RESP, and
//! the processor time that the server spends on it:
//!
//! ```text
//! cargo run --release -p frazil-server --example load -- ADDRESS PID --depth 16
//! ```
//!
//! In each round every connection sends as many requests as the depth in one piece; then the
//! replies of all connections are read. So the server finds many connections ready when it wakes
//! up. Keys are Zipf 0.99 of 100,000 (`--keys`), 10 % of requests are sets, values have 100 bytes.
//! All keys are set first. Prints the processor time of process PID for each request, in all and in
//! user mode. The machine should be idle otherwise.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

type Done<T> = Result<T, Box<dyn Error>>;

const VALUE_BYTES: usize = 100;
const CONNECTIONS: usize = 50;
const SET_PERCENT: u64 = 10;
const SKEW: f64 = 0.99;

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// Ranks by their share of requests, summed up.
fn zipf(keys: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (1..=keys).map(|rank| {
        sum += (rank as f64).powf(-SKEW);
        sum
    });
    let mut sums: Vec<f64> = weights.collect();
    sums.iter_mut().for_each(|part| *part /= sum);
    sums
}

/// Seconds of a process: in all, and in user mode.
fn processor_time(pid: &str) -> Done<(f64, f64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = text.rsplit(')').next().unwrap_or("");
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(((ticks[0] + ticks[1]) / 100.0, ticks[0] / 100.0))
}

/// Requests and replies of one of the two protocols.
struct Dialect {
    is_resp: bool,
    stored: usize,
    hit: usize,
}

impl Dialect {
    /// All keys are there, so the length of replies is known.
    fn new(is_resp: bool) -> Dialect {
        let (stored, hit) = match is_resp {
            true => ("+OK\r\n", "$100\r\n\r\n"),
            false => ("STORED\r\n", "VALUE key:0000000000 0 100\r\n\r\nEND\r\n"),
        };
        Dialect { is_resp, stored: stored.len(), hit: hit.len() + VALUE_BYTES }
    }

    fn set(&self, rank: usize, requests: &mut Vec<u8>) -> Done<()> {
        match self.is_resp {
            true => {
                write!(requests, "*3\r\n$3\r\nSET\r\n$14\r\nkey:{rank:010}\r\n${VALUE_BYTES}\r\n")?
            }
            false => write!(requests, "set key:{rank:010} 0 0 {VALUE_BYTES}\r\n")?,
        }
        requests.extend([b'v'; VALUE_BYTES]);
        requests.extend(b"\r\n");
        Ok(())
    }

    fn get(&self, rank: usize, requests: &mut Vec<u8>) -> Done<()> {
        match self.is_resp {
            true => write!(requests, "*2\r\n$3\r\nGET\r\n$14\r\nkey:{rank:010}\r\n")?,
            false => write!(requests, "get key:{rank:010}\r\n")?,
        }
        Ok(())
    }
}

struct Load {
    dialect: Dialect,
    connections: Vec<TcpStream>,
    sums: Vec<f64>,
    chance: Chance,
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Load {
    /// Sends requests of one connection, and says how many bytes their replies have.
    fn send(&mut self, connection: usize, depth: usize, sets_only: Option<usize>) -> Done<usize> {
        self.requests.clear();
        let (mut stored, mut got) = (0, 0);
        for step in 0..depth {
            let uniform = self.chance.below(1 << 53) as f64 / (1u64 << 53) as f64;
            let rank = match sets_only {
                Some(first) => (first + step).min(self.sums.len() - 1),
                None => self.sums.partition_point(|&sum| sum < uniform),
            };
            if sets_only.is_some() || self.chance.below(100) < SET_PERCENT {
                self.dialect.set(rank, &mut self.requests)?;
                stored += 1;
            } else {
                self.dialect.get(rank, &mut self.requests)?;
                got += 1;
            }
        }
        let stream = &mut self.connections[connection];
        stream.write_all(&self.requests)?;
        Ok(stored * self.dialect.stored + got * self.dialect.hit)
    }

    fn receive(&mut self, connection: usize, expected: usize) -> Done<()> {
        self.replies.resize(expected, 0);
        self.connections[connection].read_exact(&mut self.replies)?;
        if !self.replies.ends_with(b"\r\n") {
            return Err("a reply of another length: a key is missing, or was not stored".into());
        }
        Ok(())
    }
}

fn main() -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, rest @ ..] = &arguments[..] else {
        return Err("usage: load ADDRESS PID [--resp] [--depth N] [--keys N] [--seconds N]".into());
    };
    let number = |name: &str, otherwise: usize| -> Done<usize> {
        match rest.iter().position(|argument| argument == name) {
            Some(at) => Ok(rest.get(at + 1).ok_or("a flag without its value")?.parse()?),
            None => Ok(otherwise),
        }
    };
    let (depth, keys) = (number("--depth", 1)?, number("--keys", 100_000)?);
    let time = Duration::from_secs(number("--seconds", 3)? as u64);
    let connect = |_| {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut load = Load {
        dialect: Dialect::new(rest.iter().any(|argument| argument == "--resp")),
        connections: (0..CONNECTIONS).map(connect).collect::<std::io::Result<_>>()?,
        sums: zipf(keys),
        chance: Chance(0x9e37_79b9_7f4a_7c15),
        requests: Vec::new(),
        replies: Vec::new(),
    };
    for first in (0..keys).step_by(100) {
        let expected = load.send(0, 100, Some(first))?;
        load.receive(0, expected)?;
    }
    let (before, begin) = (processor_time(pid)?, Instant::now());
    let mut requests = 0;
    let mut expected = [0; CONNECTIONS];
    while begin.elapsed() < time {
        for (connection, expected) in expected.iter_mut().enumerate() {
            *expected = load.send(connection, depth, None)?;
        }
        for (connection, &expected) in expected.iter().enumerate() {
            load.receive(connection, expected)?;
        }
        requests += CONNECTIONS * depth;
    }
    let (after, took) = (processor_time(pid)?, begin.elapsed().as_secs_f64());
    let each = |seconds: f64| seconds * 1e6 / requests as f64;
    println!(
        "depth {depth}: {:.3} us of the processor a request, {:.3} in user mode, {:.0} requests a second",
        each(after.0 - before.0),
        each(after.1 - before.1),
        requests as f64 / took
    );
    Ok(())
}
