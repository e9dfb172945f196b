//! Measures the latency of other clients while 5,000 connections send their requests a byte a second.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Context as _;

use super::crowd::{self, Slow};
use super::{Bench, Server, pin};
use crate::spent::median;

const SLOW: usize = 5000;
/// The other clients.
const LOAD: [&str; 6] = ["--workload", "zipf:0.99", "--keys", "1K", "--connections", "20"];

/// The load's latency on a server with such connections, and on one without, in turn.
pub(super) fn slow(bench: &Bench) -> anyhow::Result<()> {
    crowd::allow(SLOW + 100)?;
    let origin = format!("http://{}", origin()?);
    let connections = (SLOW + 100).to_string();
    // Longer than the measurement; by default such a request ends after 60 s, with its connection.
    let flags = ["--connections", &connections, "--request-timeout", "600"];
    let http = [&flags[..], &["--origin", &origin]].concat();
    let protocols: [(&str, &[&str], &str); 3] = [
        (
            "memcached",
            &flags,
            "get 0123456789012345678901234567890123456789012345678901234567890123456789",
        ),
        (
            "RESP",
            &flags,
            "*2\r\n$3\r\nGET\r\n$2000\r\n01234567890123456789012345678901234567890123456789",
        ),
        (
            "HTTP",
            &http,
            "GET /0123456789012345678901234567890123456789012345678901234567890123456789",
        ),
    ];
    println!("{:<34}{:>10}{:>14}   ratio", "us, p99 of others", "without", "with 5,000");
    for (protocol, flags, request) in protocols {
        let servers =
            [bench.frazil("without", protocol, flags)?, bench.frazil("with", protocol, flags)?];
        for server in &servers {
            pin(server)?;
            bench.load(server, Some("1"), &[&LOAD[..], &["--operations", "20K"]].concat())?;
        }
        let slow = Slow::start(servers[1].address()?, SLOW, request)?;
        let mut taken = [Vec::new(), Vec::new()];
        for _ in 0..bench.rounds {
            for (at, server) in servers.iter().enumerate() {
                slow.send(at == 1);
                taken[at].push(p99_us(bench, server)?);
            }
        }
        let open = slow.end()?;
        let [without, with] = taken.map(|of| median(of.into_iter()));
        println!("{protocol:<34}{without:>10.0}{with:>14.0}   {:.2}", with / without);
        if open < SLOW {
            println!("{} of these were closed", SLOW - open);
        }
    }
    Ok(())
}

fn p99_us(bench: &Bench, server: &Server) -> anyhow::Result<f64> {
    let args = [&LOAD[..], &["--no-fill", "--seconds", super::SECONDS]].concat();
    let (row, _) = bench.load(server, Some("1"), &args)?;
    Ok(row["p99_ns"].as_f64().context("no p99")? / 1e3)
}

/// Answers each HTTP request with a cacheable response, on a thread for each connection.
fn origin() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let body = "x".repeat(100);
    let response = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 100\r\n\r\n{body}"
    );
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if line == "\r\n" {
            stream.write_all(response.as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}
