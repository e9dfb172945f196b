//! `frazil serve`: a cache server in this process.

mod memcached;
#[cfg(target_os = "linux")]
mod notify;

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use frazil_server::{
    Address, BaseUrl, ClusterMap, Handle, HttpOrigin, Limits, Origin, OriginUrl, Policy,
    RestoreError, Server, Settings, StoreKind,
};
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::iterator::Signals;

use crate::Done;
use crate::failure::{Failure, note};

pub(crate) use memcached::{Args as MemcachedArgs, run as run_memcached};

/// Serve clients of memcached, Redis and HTTP from a cache in this process
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("listen").required(true).multiple(true))]
#[command(after_help = "Examples:
  frazil serve --memcached 127.0.0.1:11211 --resp 127.0.0.1:6379
  frazil serve --memcached unix:/run/frazil.sock --memory 8GiB --threads 4
  frazil serve --resp 127.0.0.1:6379 --snapshot /var/lib/frazil/items --admin 127.0.0.1:9100
  frazil serve --resp 10.0.0.1:6379 --insecure --cluster /etc/frazil/cluster.toml
  frazil serve --memcached 127.0.0.1:11211 --origin 'http://127.0.0.1:8080/items/{key}'
  frazil serve --http 127.0.0.1:8000 --origin http://127.0.0.1:8080 --memory 1GiB --policy s3-fifo")]
pub(crate) struct Args {
    /// Speak memcached's text and meta protocol here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", group = "listen")]
    memcached: Vec<Address>,
    /// Speak RESP, the protocol of Redis, here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", group = "listen")]
    resp: Vec<Address>,
    /// Speak HTTP/1.1 here, as a shared cache before `--origin`: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", group = "listen", requires = "origin")]
    http: Vec<Address>,
    /// Serve `/health` and `/metrics` for Prometheus here, by HTTP: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    admin: Vec<Address>,
    /// Memory for items, index and the buffers of connections together
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: usize,
    /// Threads that serve, best as many as there are cores for it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How items are kept: `segment`, in a log of segments of up to 1 MiB, which takes the least memory; `objects`, each by
    /// itself, evicted by a policy
    #[arg(long, value_name = "NAME", default_value = "segment", value_parser = ["segment", "objects"])]
    store: String,
    /// How `--store objects` and the cache of HTTP evict: `mobius`, the default, `s3-fifo`, `w-tinylfu`, `lru` or any other
    /// of `frazil simulate` that runs in a cache
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,
    /// The largest item, with its key, up to 1 MiB. By default as large as segments are where there are enough of them for
    /// good eviction: 1 MiB with 64 MiB of memory, 128 KiB with 16 MiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    item_max: Option<usize>,
    /// Connections at once; one more is refused
    #[arg(long, value_name = "N", default_value_t = 1024)]
    connections: usize,
    /// Close a connection that sends no request for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
    /// Close a connection whose request takes so many seconds to arrive, or whose replies to be
    /// read
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    request_timeout: u64,
    /// Write all entries to this file at the end (SIGTERM, SIGINT), and read them from it at the
    /// start, while clients are served
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Pass over a snapshot that is older than so many seconds; 0: any age
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "snapshot")]
    snapshot_max_age: u64,
    /// How long clients may take, at the end, to send the rest of their requests and to read their
    /// replies
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u64,
    /// Where to fetch what is missing. With `{key}`, as in `http://HOST:PORT/{key}`: what `get`, `gets`, `mg` and
    /// `mget` do not find. Without, as in `http://HOST:PORT`: what `--http` is a cache of, and to which the path of a request is
    /// appended. One of each may be given
    #[arg(long, value_name = "URL")]
    origin: Vec<OriginArg>,
    /// Let clients of HTTP drop a URL by `PURGE` that send the first line of this file as `Authorization: Bearer`
    #[arg(long, value_name = "FILE", requires = "http")]
    purge_token_file: Option<PathBuf>,
    /// Give a fetch up after so many seconds; who waits for it is told that the key is absent, and by HTTP 504
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "origin", value_parser = clap::value_parser!(u64).range(1..=3600))]
    origin_timeout: u64,
    /// Fetches at once, of each origin; one more look-up is told that the key is absent, and by HTTP 503
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
    /// Serve the slots of Redis Cluster that this map gives to this server, and tell clients of RESP where the others are:
    /// nodes with `name`, `address` and `slots`, in TOML
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Listen beyond this machine although anybody there can read and change everything
    #[arg(long)]
    insecure: bool,
}

/// An origin, for clients of keys or of HTTP.
#[derive(Clone)]
enum OriginArg {
    Keys(OriginUrl),
    Http(BaseUrl),
}

impl FromStr for OriginArg {
    type Err = String;

    fn from_str(text: &str) -> Result<OriginArg, String> {
        match text.contains("{key}") {
            true => text.parse().map(OriginArg::Keys),
            false => text.parse().map(OriginArg::Http),
        }
    }
}

/// What is fetched from where, each for clients that there are.
fn origins(args: &Args) -> anyhow::Result<(Option<OriginUrl>, Option<BaseUrl>)> {
    let (mut keys, mut http) = (None, None);
    for origin in &args.origin {
        let is_second = match origin {
            OriginArg::Keys(url) => keys.replace(url.clone()).is_some(),
            OriginArg::Http(base) => http.replace(base.clone()).is_some(),
        };
        if is_second {
            bail!("two origins of a kind: one with `{{key}}`, and one without");
        }
    }
    if keys.is_some() && args.memcached.is_empty() && args.resp.is_empty() {
        bail!(
            "an origin with `{{key}}` is for `--memcached` and `--resp`; the one for `--http` has none"
        );
    }
    if http.is_some() == args.http.is_empty() {
        bail!(
            "`--http` goes with an origin without `{{key}}`, as in `--origin http://127.0.0.1:8080`, and \
             `--memcached` with one that has it"
        );
    }
    Ok((keys, http))
}

/// The settings with what is fetched from where, and who may drop it.
fn with_origins(args: &Args, settings: Settings) -> anyhow::Result<Settings> {
    let (keys, http) = origins(args)?;
    let origin = keys.map(|url| Origin {
        timeout_ms: args.origin_timeout * 1000,
        fetches: args.origin_fetches,
        lifetime_seconds: args.origin_ttl,
        absent_seconds: args.origin_absent_ttl,
        ..Origin::new(url)
    });
    let http_origin = http.map(|base| HttpOrigin {
        timeout_ms: args.origin_timeout * 1000,
        fetches: args.origin_fetches,
        ..HttpOrigin::new(base)
    });
    let purge_token = args.purge_token_file.as_deref().map(token).transpose()?;
    Ok(Settings { origin, http_origin, purge_token, ..settings })
}

/// The first line of a file.
fn token(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        bail!("{}: its first line is empty, and no token", path.display());
    }
    Ok(line.to_vec())
}

/// Which servers have which keys.
fn cluster(path: &Path) -> anyhow::Result<ClusterMap> {
    let named = || format!("--cluster {}", path.display());
    std::fs::read_to_string(path).with_context(named)?.parse().with_context(named)
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
    let mut addresses =
        args.memcached.iter().chain(&args.resp).chain(&args.http).chain(&args.admin);
    if let Some(open) = addresses.find(is_open).filter(|_| !args.insecure) {
        return Err(Failure::usage(anyhow!(
            "{open} can be reached from other machines, and the server has no users: `--insecure` \
             serves there all the same"
        )));
    }
    if args.policy.is_some() && args.http.is_empty() && args.store == "segment" {
        return Err(Failure::usage(anyhow!(
            "--policy is for `--store objects` and `--http`: segments are evicted as a whole"
        )));
    }
    let settings = Settings {
        memcached: args.memcached.clone(),
        resp: args.resp.clone(),
        http: args.http.clone(),
        admin: args.admin.clone(),
        memory_bytes: args.memory,
        threads: args.threads,
        store: match &*args.store {
            "objects" => StoreKind::Objects,
            _ => StoreKind::Segment,
        },
        restores: args.snapshot.is_some(),
        limits: Limits {
            connections: args.connections,
            idle_seconds: args.idle_timeout,
            request_seconds: args.request_timeout,
            waiters: args.waiters,
            item_bytes: args.item_max,
            ..Limits::default()
        },
        policy: args.policy.unwrap_or_default(),
        cluster: args.cluster.as_deref().map(cluster).transpose()?,
        ..Settings::default()
    };
    let settings = with_origins(args, settings).map_err(Failure::usage)?;
    // Before anything is served: a signal that comes now is not lost.
    let signals = Signals::new(TERM_SIGNALS).context("signals")?;
    let server = Server::start(settings).map_err(anyhow::Error::from)?;
    let protocols = [
        ("memcached's protocol", args.memcached.len()),
        ("RESP", args.resp.len()),
        ("HTTP", args.http.len()),
        ("/health and /metrics", args.admin.len()),
    ];
    let names = protocols.into_iter().flat_map(|(name, count)| std::iter::repeat_n(name, count));
    for (protocol, address) in names.zip(server.addresses()) {
        eprintln!("frazil: serving {protocol} at {address}");
    }
    tell_manager("READY=1");
    let handle = server.handle();
    let ends = handle.clone();
    let patience = Duration::from_secs(args.drain_timeout);
    std::thread::spawn(move || end_at_signals(signals, &ends, patience));
    let Some(path) = &args.snapshot else { return Ok(server.join().context("serving")?) };
    let age_max = (args.snapshot_max_age > 0).then(|| Duration::from_secs(args.snapshot_max_age));
    let restores = std::thread::scope(|scope| {
        let restores = scope.spawn(|| restore(&handle, path, age_max));
        // Entries not restored yet would be missing in the file written at the end.
        let ended = server.join().context("serving");
        ended.map(|()| restores.join().is_ok())
    });
    if !restores? {
        return Err(anyhow!("{}: the thread that reads it panicked", path.display()).into());
    }
    let entries = handle.save(path).with_context(|| format!("{}: not written", path.display()))?;
    note(&format!("{}: {entries} entries written", path.display()));
    Ok(())
}

/// Tells systemd, if it has started this process; elsewhere than on Linux there is none.
fn tell_manager(notice: &str) {
    #[cfg(target_os = "linux")]
    notify::notify(notice);
    #[cfg(not(target_os = "linux"))]
    let _ = notice;
}

/// The first signal has the server drain, the second stops it.
fn end_at_signals(mut signals: Signals, handle: &Handle, patience: Duration) {
    for (number, signal) in signals.forever().enumerate() {
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        if number == 0 {
            note(&format!("{name}: serving what has arrived; a second one ends at once"));
            tell_manager("STOPPING=1");
            handle.drain(patience);
        } else {
            handle.stop();
        }
    }
}

/// Restores the entries of the last run, if there are any, and reports the result.
fn restore(handle: &Handle, path: &Path, age_max: Option<Duration>) {
    let shown = path.display();
    match handle.restore(path, age_max) {
        Ok(Some(entries)) => note(&format!("{shown}: {entries} entries read")),
        Ok(None) => note(&format!("{shown}: older than --snapshot-max-age, passed over")),
        Err(RestoreError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
            note(&format!("{shown}: no such file yet"));
        }
        // The server works without the snapshot. The file may still be useful for diagnosis, but at
        // the end another one would replace it.
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            note(&format!("{shown}: {error}{cause}; serving without"));
            let aside = path.with_added_extension("unread");
            match std::fs::rename(path, &aside) {
                Ok(()) => note(&format!("{shown}: kept as {}", aside.display())),
                Err(error) => note(&format!("{shown}: not kept as {}: {error}", aside.display())),
            }
        }
    }
}
