//! `frazil serve`: a cache server in this process.

mod config;
mod memcached;
#[cfg(target_os = "linux")]
mod notify;

use std::error::Error as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use frazil_server::{
    Address, BaseUrl, Handle, HttpOrigin, Limits, Origin, OriginUrl, Passed, Policy, RestoreError,
    Server, Settings, StartError, StoreKind, TlsFiles, users_need_passwords,
};
use frazil_simulator::parse_bytes;
use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::iterator::Signals;

use crate::Done;
use crate::failure::{Failure, note};

pub(crate) use config::arguments;
pub(crate) use memcached::{Args as MemcachedArgs, run as run_memcached};

/// Serve clients of memcached, Redis and HTTP from a cache in this process
#[derive(clap::Args)]
#[command(after_help = "Examples:
  frazil serve --memcached 127.0.0.1:11211 --resp 127.0.0.1:6379
  frazil serve --memcached unix:/run/frazil.sock --memory 8GiB --threads 4
  frazil serve --resp 127.0.0.1:6379 --snapshot /var/lib/frazil/items --admin 127.0.0.1:9100
  frazil serve --resp 0.0.0.0:6379 --users users.toml --tls-cert cert.pem --tls-key key.pem
  frazil serve --config /etc/frazil/serve.toml --check
  frazil serve --memcached 127.0.0.1:11211 --origin 'http://127.0.0.1:8080/items/{key}'
  frazil serve --http 127.0.0.1:8000 --origin http://127.0.0.1:8080 --memory 1GiB --policy s3-fifo")]
pub(crate) struct Args {
    /// Speak memcached's text and meta protocol here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    memcached: Vec<Address>,
    /// Speak RESP, the protocol of Redis, here: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    resp: Vec<Address>,
    /// Speak HTTP/1.1 here, as a shared cache before `--origin`: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR", requires = "origin")]
    http: Vec<Address>,
    /// Serve `/health` and `/metrics` for Prometheus here, by HTTP: `HOST:PORT`, or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    admin: Vec<Address>,
    /// Memory for items, index and the buffers of connections together
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: usize,
    /// Threads that serve; best one for each core that the server may use
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How items are stored: `segment`, in a log of segments of up to 1 MiB, which takes the least memory; `objects`, each in an
    /// allocation of its own, evicted by a policy
    #[arg(long, value_name = "NAME", default_value = "segment", value_parser = ["segment", "objects"])]
    store: String,
    /// Policy by which `--store objects` and the cache of HTTP evict: `s3-fifo`, `w-tinylfu`, `lru` or any other online policy
    /// of `frazil simulate` but `gl-cache` and `lrb` [default: mobius]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,
    /// The largest item, with its key, up to 1 MiB. The default is the largest for which there are enough segments to evict
    /// well: 1 MiB with 64 MiB of memory, 128 KiB with 16 MiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    item_max: Option<usize>,
    /// Connections at once; one more is refused [default: 1024, or what the limit of open files allows]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Close a connection that sends no request for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
    /// Close a connection if a request takes so many seconds to arrive, or the client reads no
    /// reply for so long
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
    /// Where to fetch what is missing. With `{key}`, as in `http://HOST:PORT/{key}`: for misses of `get`, `gets` and `mg`, and
    /// of `GET` and `MGET` in RESP. Without, as in `http://HOST:PORT`: the origin that `--http` caches, to which the path of a
    /// request is appended. One of each may be given
    #[arg(long, value_name = "URL")]
    origin: Vec<OriginArg>,
    /// Let clients of HTTP remove a URL by `PURGE` if they send the first line of this file as `Authorization: Bearer`
    #[arg(long, value_name = "FILE", requires = "origin")]
    purge_token_file: Option<PathBuf>,
    /// Give up a fetch after so many seconds; requests that wait for it get a miss, or 504 by HTTP
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "origin", value_parser = clap::value_parser!(u64).range(1..=3600))]
    origin_timeout: u64,
    /// Fetches at once from each origin; a request beyond gets a miss, or 503 by HTTP
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "origin")]
    origin_fetches: usize,
    /// Keep a value for so many seconds if its response has no lifetime
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "origin")]
    origin_ttl: u64,
    /// Remember for so many seconds that the origin has no value (404 or 410)
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "origin")]
    origin_absent_ttl: u64,
    /// Requests that wait at once, for a fetch or for another client's write; one more does not wait
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    waiters: usize,
    /// Users, each with a hash of its password, classes of commands and prefixes of keys, in TOML; read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Speak TLS, and nothing else, at all TCP addresses, with this certificate and those it is signed by, in PEM; read
    /// again at SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate that one of these has signed, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Listen beyond this machine, although anybody who connects can read and change everything
    #[arg(long)]
    insecure: bool,
    /// Take flags from this file of TOML, as `memory = "4GiB"`; those of the command line go before. Paths are relative
    /// to the file's folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the settings that would be in force, and end; files of users and for TLS are read
    #[arg(long)]
    check: bool,
    /// Read a password from standard input, and print its hash for a file of users
    #[arg(long, exclusive = true)]
    hash_password: bool,
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

/// The first line of a file.
fn token(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read(path).with_context(|| path.display().to_string())?;
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        bail!("{}: its first line is empty, and no token", path.display());
    }
    Ok(line.to_vec())
}

/// Bytes of `64MiB`, `64MB`, `1e8` and their like.
fn memory(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text).ok_or("a number of bytes, as in `64MiB`, `64MB` or `1e8`")?;
    usize::try_from(bytes).map_err(|_| "more than this machine can address".into())
}

impl Args {
    /// What the server is told.
    fn settings(&self, passed: Passed) -> Result<Settings, Failure> {
        let [memcached, resp, http, _] =
            passed.beside([self.memcached.len(), self.resp.len(), self.http.len(), 0]);
        let (keys, base) = self.origins(memcached + resp > 0, http > 0).map_err(Failure::usage)?;
        if self.policy.is_some() && http == 0 && self.store == "segment" {
            return Err(Failure::usage(anyhow!(
                "--policy is for `--store objects` and `--http`: segments are evicted as a whole"
            )));
        }
        if self.purge_token_file.is_some() && http == 0 {
            return Err(Failure::usage(anyhow!("--purge-token-file is for `--http`")));
        }
        let purge_token = self.purge_token_file.as_deref().map(token).transpose();
        let purge_token = purge_token.map_err(Failure::usage)?;
        Ok(Settings {
            memcached: self.memcached.clone(),
            resp: self.resp.clone(),
            http: self.http.clone(),
            admin: self.admin.clone(),
            passed,
            memory_bytes: self.memory,
            threads: self.threads,
            store: match &*self.store {
                "objects" => StoreKind::Objects,
                _ => StoreKind::Segment,
            },
            policy: self.policy.unwrap_or_default(),
            restores: self.snapshot.is_some(),
            limits: Limits {
                connections: self.connections.unwrap_or(Limits::default().connections),
                idle_seconds: self.idle_timeout,
                request_seconds: self.request_timeout,
                waiters: self.waiters,
                item_bytes: self.item_max,
                ..Limits::default()
            },
            users: self.users.clone(),
            tls: self.tls(),
            origin: keys.map(|url| Origin {
                timeout_ms: self.origin_timeout * 1000,
                fetches: self.origin_fetches,
                lifetime_seconds: self.origin_ttl,
                absent_seconds: self.origin_absent_ttl,
                ..Origin::new(url)
            }),
            http_origin: base.map(|base| HttpOrigin {
                timeout_ms: self.origin_timeout * 1000,
                fetches: self.origin_fetches,
                ..HttpOrigin::new(base)
            }),
            purge_token,
            ..Settings::default()
        })
    }

    /// What is fetched from where, each for clients that there are.
    fn origins(
        &self,
        has_keys: bool,
        has_http: bool,
    ) -> anyhow::Result<(Option<OriginUrl>, Option<BaseUrl>)> {
        let (mut keys, mut http) = (None, None);
        for origin in &self.origin {
            let is_second = match origin {
                OriginArg::Keys(url) => keys.replace(url.clone()).is_some(),
                OriginArg::Http(base) => http.replace(base.clone()).is_some(),
            };
            if is_second {
                bail!("two origins of a kind: one with `{{key}}`, and one without");
            }
        }
        if keys.is_some() && !has_keys {
            bail!(
                "an origin with `{{key}}` is for `--memcached` and `--resp`; the one for `--http` has none"
            );
        }
        if http.is_some() != has_http {
            bail!(
                "`--http` goes with an origin without `{{key}}`, as in `--origin http://127.0.0.1:8080`, and \
                 `--memcached` and `--resp` with one that has it"
            );
        }
        Ok((keys, http))
    }

    fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() })
    }

    /// Refuses to listen nowhere, and beyond this machine where who connects is not asked who it is.
    fn check_addresses(&self, passed: &Passed) -> Result<(), Failure> {
        let all = |given: &[Address], passed: Vec<Address>| [given, &passed].concat();
        let keys = all(&[&self.memcached[..], &self.resp].concat(), passed.of_keys());
        let http = all(&self.http, passed.of_http());
        if keys.is_empty() && http.is_empty() {
            return Err(Failure::usage(anyhow!(
                "nowhere to listen: `--memcached ADDR`, `--resp ADDR`, `--http ADDR`, or some of them"
            )));
        }
        let has_users = match &self.users {
            Some(path) => {
                users_need_passwords(path).with_context(|| format!("--users {}", path.display()))?
            }
            None => false,
        };
        if self.insecure || self.tls_client_ca.is_some() {
            return Ok(());
        }
        let is_open = |address: &&Address| matches!(address, Address::Tcp(address) if !address.ip().is_loopback());
        if let Some(open) = keys.iter().find(is_open).filter(|_| !has_users) {
            return Err(Failure::usage(anyhow!(
                "{open} can be reached from other machines, and who connects there needs no password: `--users` or \
                 `--tls-client-ca` asks for one or for a certificate, and `--insecure` serves there all the same"
            )));
        }
        for (flag, addresses) in
            [("--http", http), ("--admin", all(&self.admin, passed.of_operators()))]
        {
            if let Some(open) = addresses.iter().find(is_open) {
                return Err(Failure::usage(anyhow!(
                    "{flag} {open} can be reached from other machines, and has no users: `--tls-client-ca` asks for a \
                     certificate, and `--insecure` serves there all the same"
                )));
            }
        }
        Ok(())
    }
}

/// Serves until the process is told to end.
pub(crate) fn run(args: &Args) -> Done {
    if args.hash_password {
        return hash_password();
    }
    let passed = Passed::take().context("sockets of the service manager")?;
    args.check_addresses(&passed)?;
    let counts = [args.memcached.len(), args.resp.len(), args.http.len(), args.admin.len()];
    let counts = passed.beside(counts);
    let settings = args.settings(passed)?;
    if args.check {
        if let Some(tls) = args.tls() {
            tls.check().context("TLS")?;
        }
        crate::output::print(&config::effective(config::arguments()?)?)?;
        return Ok(());
    }
    // Before anything is served: a signal that comes now is not lost.
    let signals = TERM_SIGNALS.iter().chain(&[SIGHUP]);
    let signals = Signals::new(signals).context("signals")?;
    let server = start(settings, args.connections.is_some())?;
    let protocols = ["memcached's protocol", "RESP", "HTTP", "/health and /metrics"];
    let names = protocols.into_iter().zip(counts);
    let names = names.flat_map(|(name, count)| std::iter::repeat_n(name, count));
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

/// Starts a server. Where nobody has said how many connections it is to have, as many as the process may have.
fn start(settings: Settings, has_connections: bool) -> anyhow::Result<Server> {
    let settings = Settings { owns_process: true, ..settings };
    let connections = settings.limits.connections;
    match Server::start(settings.clone()) {
        Err(StartError::TooFewFiles(wanted, most)) if !has_connections => {
            let missing = usize::try_from(wanted.saturating_sub(most)).unwrap_or(usize::MAX);
            let connections = connections.saturating_sub(missing);
            if connections == 0 {
                return Err(StartError::TooFewFiles(wanted, most).into());
            }
            note(&format!(
                "{connections} connections at once, because the process may have {most} open files (`ulimit -Hn`)"
            ));
            let limits = Limits { connections, ..settings.limits.clone() };
            Ok(Server::start(Settings { limits, ..settings })?)
        }
        outcome => Ok(outcome?),
    }
}

/// Prints the hash of the password on standard input, up to the end of its line.
fn hash_password() -> Done {
    let mut password = Vec::new();
    // One more than the longest, which is refused then.
    io::stdin().take(1024).read_to_end(&mut password).context("standard input")?;
    let end = password.iter().position(|&byte| byte == b'\n').unwrap_or(password.len());
    let line = &password[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let hash = frazil_server::hash_password(line).context("the password")?;
    crate::output::print(&format!("{hash}\n"))?;
    Ok(())
}

/// Reads files again at SIGHUP, and tells what became of that.
fn reload(handle: &Handle) {
    let outcomes = handle.reload();
    if outcomes.is_empty() {
        note("SIGHUP: there are no files of users or certificates to read again");
    }
    for (path, outcome) in outcomes {
        match outcome {
            Ok(()) => note(&format!("{}: read again", path.display())),
            Err(error) => note(&format!("{}: {error}; what was read before stays", path.display())),
        }
    }
}

/// Tells systemd, if it has started this process; elsewhere than on Linux there is none.
fn tell_manager(notice: &str) {
    #[cfg(target_os = "linux")]
    notify::notify(notice);
    #[cfg(not(target_os = "linux"))]
    let _ = notice;
}

/// The first signal has the server drain, the second stops it; SIGHUP reads files again.
fn end_at_signals(mut signals: Signals, handle: &Handle, patience: Duration) {
    let mut drains = false;
    for signal in signals.forever() {
        if signal == SIGHUP {
            reload(handle);
            continue;
        }
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        if !std::mem::replace(&mut drains, true) {
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
