//! `frazil serve`: a cache server in this process.

mod memcached;

use anyhow::{Context as _, anyhow};
use frazil_server::{Address, Limits, Origin, OriginUrl, Server, Settings};

use crate::Done;
use crate::failure::Failure;

pub(crate) use memcached::{Args as MemcachedArgs, run as run_memcached};

/// Serve clients of memcached and Redis from a cache in this process
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("listen").required(true).multiple(true))]
#[command(after_help = "Examples:
  frazil serve --memcached 127.0.0.1:11211 --resp 127.0.0.1:6379
  frazil serve --memcached unix:/run/frazil.sock --memory 8GiB --threads 4
  frazil serve --memcached 127.0.0.1:11211 --origin 'http://127.0.0.1:8080/items/{key}'")]
pub(crate) struct Args {
    /// Speak memcached's text and meta protocol here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", group = "listen")]
    memcached: Vec<Address>,
    /// Speak RESP, the protocol of Redis, here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", group = "listen")]
    resp: Vec<Address>,
    /// Memory for items, index and the buffers of connections together
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: usize,
    /// Threads that serve, best as many as there are cores for it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Where items are kept: `segment`, in a log of segments of up to 1 MiB
    #[arg(long, value_name = "NAME", default_value = "segment", value_parser = ["segment"])]
    store: String,
    /// Connections at once; one more is refused
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: usize,
    /// Close a connection that sends no request for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
    /// Close a connection whose request takes so many seconds to arrive, or whose replies to be read
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    request_timeout: u64,
    /// Fetch what `get`, `gets` and `mg` do not find, from here: `http://HOST:PORT/{key}`
    #[arg(long, value_name = "URL", requires = "memcached")]
    origin: Option<OriginUrl>,
    /// Give a fetch up after so many seconds; who waits for it is told that the key is absent
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "origin", value_parser = clap::value_parser!(u64).range(1..=3600))]
    origin_timeout: u64,
    /// Fetches at once; one more look-up is told that the key is absent
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "origin")]
    origin_fetches: usize,
    /// Keep a value for so many seconds whose response does not say how long
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "origin")]
    origin_ttl: u64,
    /// Remember for so many seconds that the origin has no value (404 or 410)
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "origin")]
    origin_absent_ttl: u64,
    /// Requests that wait at once, for a fetch or for another client's write; one more does not wait
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    waiters: usize,
    /// Listen beyond this machine although anybody there can read and change everything
    #[arg(long)]
    insecure: bool,
}

/// Bytes of `64MiB` and its like.
fn memory(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err("a number and KiB, MiB, GiB or TiB, as in `64MiB`".into()),
    };
    let number: usize = number.parse().map_err(|_| "no number before the unit".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than this machine can count".into())
}

/// Serves until the process is told to end.
pub(crate) fn run(args: &Args) -> Done {
    let is_open = |address: &&Address| matches!(address, Address::Tcp(address) if !address.ip().is_loopback());
    if let Some(open) =
        args.memcached.iter().chain(&args.resp).find(is_open).filter(|_| !args.insecure)
    {
        return Err(Failure::usage(anyhow!(
            "{open} can be reached from other machines, and the server has no users: `--insecure` \
             serves there all the same"
        )));
    }
    let settings = Settings {
        memcached: args.memcached.clone(),
        resp: args.resp.clone(),
        memory_bytes: args.memory,
        threads: args.threads,
        limits: Limits {
            connections: args.connections,
            idle_seconds: args.idle_timeout,
            request_seconds: args.request_timeout,
            waiters: args.waiters,
            ..Limits::default()
        },
        origin: args.origin.clone().map(|url| Origin {
            timeout_ms: args.origin_timeout * 1000,
            fetches: args.origin_fetches,
            lifetime_seconds: args.origin_ttl,
            absent_seconds: args.origin_absent_ttl,
            ..Origin::new(url)
        }),
        ..Settings::default()
    };
    let server = Server::start(settings).map_err(anyhow::Error::from)?;
    for (number, address) in server.addresses().iter().enumerate() {
        let is_memcached = number < args.memcached.len();
        let protocol = if is_memcached { "memcached's protocol" } else { "RESP" };
        eprintln!("frazil: serving {protocol} at {address}");
    }
    Ok(server.join().context("serving")?)
}
