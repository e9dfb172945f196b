//! `frazil serve`: a cache server in this process.

mod config;
mod memcached;
#[cfg(target_os = "linux")]
mod notify;
mod record;

use std::error::Error as _;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use frazil_server::{
    ARGUMENTS, Address, BaseUrl, ClusterMap, Handle, HttpOrigin, KEY_BYTES, LINE_BYTES, Limits,
    Origin, OriginUrl, Passed, Policy, REPLY_BYTES, RestoreError, Server, Settings, StartError,
    StoreKind, TlsFiles, users_need_passwords,
};
use frazil_simulator::parse_bytes;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGUSR1, SIGUSR2, TERM_SIGNALS};
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
  frazil serve --memcached 127.0.0.1:11211 --record requests.frazil --record-rate 0.1
  frazil serve --resp 127.0.0.1:6379 --snapshot /var/lib/frazil/items --admin 127.0.0.1:9100
  frazil serve --resp 0.0.0.0:6379 --users users.toml --tls-cert cert.pem --tls-key key.pem
  frazil serve --config /etc/frazil/serve.toml --check
  frazil serve --resp 10.0.0.1:6379 --insecure --cluster /etc/frazil/cluster.toml
  frazil serve --memcached 127.0.0.1:11211 --origin 'http://127.0.0.1:8080/items/{key}'
  frazil serve --http 127.0.0.1:8000 --origin http://127.0.0.1:8080 --memory 1GiB --policy s3-fifo")]
pub(crate) struct Args {
    /// Address for memcached's text and meta protocols: `HOST:PORT` or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    memcached: Vec<Address>,
    /// Address for RESP, the protocol of Redis: `HOST:PORT` or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    resp: Vec<Address>,
    /// Address for HTTP/1.1, served by a shared cache in front of `--origin`: `HOST:PORT` or `unix:PATH`
    #[arg(long, value_name = "ADDR", requires = "origin")]
    http: Vec<Address>,
    /// Address for `/health` and for `/metrics` of Prometheus, by HTTP: `HOST:PORT` or `unix:PATH`
    #[arg(long, value_name = "ADDR")]
    admin: Vec<Address>,
    /// Memory for items, index and buffers of connections together, as `64MiB`, `64MB` or `1e8`
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: usize,
    /// Serving threads; best one for each core that the server may use
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Store of items: `segment` is a log of segments of up to 1 MiB and takes the least memory, with items above 64 KiB beside it;
    /// `objects` allocates each item separately, and evicts by a policy
    #[arg(long, value_name = "NAME", default_value = "segment", value_parser = ["segment", "objects"])]
    store: String,
    /// Eviction policy of `--store objects`, of items above 64 KiB and of the cache for HTTP: `s3-fifo`, `w-tinylfu`, `lru` or any other online policy
    /// of `frazil simulate` except `gl-cache` and `lrb` [default: mobius]
    #[arg(long, value_name = "NAME")]
    policy: Option<Policy>,
    /// Largest item with its key, at most 1 MiB and a twelfth of the memory. The default is a segment: 1 MiB with 64 MiB of memory,
    /// 128 KiB with 16 MiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    item_max: Option<usize>,
    /// Longest line without its end, 1 to 64 KiB; a longer one closes the connection, except for memcached's `get` and `gets`
    /// [default: 2KiB in memcached's protocol, 64KiB in RESP]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| within(text, &LINE_BYTES))]
    line_max: Option<usize>,
    /// Longest key in bytes, 16 to 255, and at most 250 in memcached's protocol; requests with a longer one are refused, in RESP
    /// those that write it
    #[arg(long, value_name = "BYTES", default_value = "255", value_parser = |text: &str| within(text, &KEY_BYTES))]
    key_max: usize,
    /// Arguments of a request of RESP with its command, 16 to 1048576; more close the connection
    #[arg(long, value_name = "N", default_value = "1048576", value_parser = |text: &str| within(text, &ARGUMENTS))]
    arguments_max: usize,
    /// Requests of a connection that are served before the next has its turn; 0: all that have arrived, up to 64 KiB
    #[arg(long, value_name = "N", default_value_t = 0)]
    pipeline_max: usize,
    /// Unread replies of a connection, 4 KiB to 1 MiB, and one value more; its next requests wait until they are sent
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = |text: &str| within(text, &REPLY_BYTES))]
    replies_max: usize,
    /// Open connections; further ones are refused [default: 1024, or what the limit of open files allows]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Close a connection of memcached's protocol or RESP without a request for this time; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
    /// Close a connection of HTTP without a request for this time; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    http_idle_timeout: u64,
    /// Close a connection if a request takes longer than this to arrive, or the client reads no
    /// reply for this time; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    request_timeout: u64,
    /// File to which all entries are written at the end (SIGTERM, SIGINT), and from which they are
    /// restored at the start, while clients are served
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Ignore a snapshot older than this; 0: any age
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "snapshot")]
    snapshot_max_age: u64,
    /// Time at the end for clients to send the rest of their requests and to read their
    /// replies
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    drain_timeout: u64,
    /// Origin to fetch from on a miss. With `{key}`, as in `http://HOST:PORT/{key}`, it serves misses of `get`, `gets` and `mg`,
    /// and of `GET` and `MGET` in RESP. Without, as in `http://HOST:PORT`, it is the origin of `--http`, and the path of each
    /// request is appended. One of each kind may be given
    #[arg(long, value_name = "URL")]
    origin: Vec<OriginArg>,
    /// File whose first line is the token of `PURGE`: HTTP clients that send it as `Authorization: Bearer` can remove a URL
    #[arg(long, value_name = "FILE", requires = "origin")]
    purge_token_file: Option<PathBuf>,
    /// Store HTTP responses with `Set-Cookie` too, and send the cookie to all clients
    #[arg(long, requires = "origin")]
    http_store_cookies: bool,
    /// Timeout of a fetch; requests that wait for it get a miss, or 504 by HTTP
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "origin", value_parser = clap::value_parser!(u64).range(1..=3600))]
    origin_timeout: u64,
    /// Fetches in flight from each origin; further requests get a miss, or 503 by HTTP
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "origin")]
    origin_fetches: usize,
    /// Lifetime of a fetched value if its response has none
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "origin")]
    origin_ttl: u64,
    /// Time for which an absent value (404 or 410 from the origin) is remembered
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "origin")]
    origin_absent_ttl: u64,
    /// Requests that may wait for a fetch or for another client's write; further ones do not wait
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    waiters: usize,
    /// File of users in TOML, each with a hash of its password, classes of commands and prefixes of keys; reloaded at SIGHUP
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Certificate chain in PEM. With it all TCP addresses speak TLS only; reloaded at
    /// SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Certificates of authorities in PEM; clients need a certificate signed by one of them
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Map of a Redis Cluster in TOML: nodes with `name`, `address` and `slots`. This server serves its slots, and tells RESP
    /// clients which node has the others
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Allow addresses that other machines can reach without a password or certificate: anybody there can read and change all
    /// entries
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    recording: record::Args,
    /// File of TOML with flags, as `memory = "4GiB"`; flags on the command line win. Paths are relative
    /// to the file's folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the settings in force and exit; checks the files of users and for TLS
    #[arg(long)]
    check: bool,
    /// Read a password from standard input and print its hash, for a file of users
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
        bail!("{}: expected a token on the first line, found an empty line", path.display());
    }
    Ok(line.to_vec())
}

/// Reads the map of a cluster.
fn cluster(path: &Path) -> anyhow::Result<ClusterMap> {
    let named = || format!("--cluster {}", path.display());
    std::fs::read_to_string(path).with_context(named)?.parse().with_context(named)
}

/// Bytes of a text such as `64MiB`, `64MB` or `1e8`.
fn memory(text: &str) -> Result<usize, String> {
    let bytes =
        parse_bytes(text).ok_or("expected a number of bytes, as in `64MiB`, `64MB` or `1e8`")?;
    usize::try_from(bytes).map_err(|_| "more than this machine can address".into())
}

/// Such a number, if it is in a range.
fn within(text: &str, possible: &RangeInclusive<usize>) -> Result<usize, String> {
    let number = memory(text).ok().filter(|number| possible.contains(number));
    number.ok_or_else(|| format!("expected {} to {}", possible.start(), possible.end()))
}

impl Args {
    fn limits(&self) -> Limits {
        Limits {
            connections: self.connections.unwrap_or(Limits::default().connections),
            idle_seconds: self.idle_timeout,
            http_idle_seconds: self.http_idle_timeout,
            request_seconds: self.request_timeout,
            waiters: self.waiters,
            item_bytes: self.item_max,
            line_bytes: self.line_max,
            key_bytes: self.key_max,
            arguments: self.arguments_max,
            turn_requests: self.pipeline_max,
            reply_bytes: self.replies_max,
            ..Limits::default()
        }
    }

    /// The settings of the server.
    fn settings(&self, passed: Passed) -> Result<Settings, Failure> {
        let [memcached, resp, http, _] =
            passed.beside([self.memcached.len(), self.resp.len(), self.http.len(), 0]);
        let (keys, base) = self.origins(memcached + resp > 0, http > 0).map_err(Failure::usage)?;
        if self.purge_token_file.is_some() && http == 0 {
            return Err(Failure::usage(anyhow!("--purge-token-file needs `--http`")));
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
            snapshot: self.snapshot.clone(),
            limits: self.limits(),
            users: self.users.clone(),
            tls: self.tls(),
            cluster: self.cluster.as_deref().map(cluster).transpose()?,
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
                stores_cookies: self.http_store_cookies,
                ..HttpOrigin::new(base)
            }),
            purge_token,
            ..Settings::default()
        })
    }

    /// The origins of keys and of HTTP, each of which needs an address for its clients.
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
                bail!(
                    "two origins of the same kind: expected at most one with `{{key}}` and one without"
                );
            }
        }
        if keys.is_some() && !has_keys {
            bail!(
                "an origin with `{{key}}` needs `--memcached` or `--resp`; the origin of `--http` has no `{{key}}`"
            );
        }
        if http.is_some() != has_http {
            bail!(
                "`--http` needs an origin without `{{key}}`, as in `--origin http://127.0.0.1:8080`; an origin for \
                 `--memcached` or `--resp` has `{{key}}`"
            );
        }
        Ok((keys, http))
    }

    fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() })
    }

    /// Requires an address, and a password or certificate on each address that other machines can reach.
    fn check_addresses(&self, passed: &Passed) -> Result<(), Failure> {
        let all = |given: &[Address], passed: Vec<Address>| [given, &passed].concat();
        let keys = all(&[&self.memcached[..], &self.resp].concat(), passed.of_keys());
        let http = all(&self.http, passed.of_http());
        if keys.is_empty() && http.is_empty() {
            return Err(Failure::usage(anyhow!(
                "no address to listen on: give `--memcached ADDR`, `--resp ADDR` or `--http ADDR`, as in `--resp 127.0.0.1:6379`"
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
                "other machines can reach {open}, and clients need no password there: require one with `--users FILE`, \
                 or a certificate with `--tls-client-ca FILE`, or allow everybody with `--insecure`"
            )));
        }
        for (flag, addresses) in
            [("--http", http), ("--admin", all(&self.admin, passed.of_operators()))]
        {
            if let Some(open) = addresses.iter().find(is_open) {
                return Err(Failure::usage(anyhow!(
                    "other machines can reach {flag} {open}, which has no users: require a certificate with \
                     `--tls-client-ca FILE`, or allow everybody with `--insecure`"
                )));
            }
        }
        Ok(())
    }
}

/// Serves until a signal ends the process.
pub(crate) fn run(args: &Args) -> Done {
    if args.hash_password {
        return hash_password();
    }
    let passed = Passed::take().context("sockets of the service manager")?;
    args.check_addresses(&passed)?;
    let counts = [args.memcached.len(), args.resp.len(), args.http.len(), args.admin.len()];
    let counts = passed.beside(counts);
    let settings = args.settings(passed)?;
    let settings = with_possible_connections(settings, args.connections.is_some())?;
    if args.check {
        if let Some(tls) = args.tls() {
            tls.check().context("TLS")?;
        }
        crate::output::print(&config::effective(config::arguments()?, &settings)?)?;
        return Ok(());
    }
    // Registered before clients are served, so that no signal is lost.
    let signals = TERM_SIGNALS.iter().chain(&[SIGHUP]).chain(&WITHOUT_EFFECT);
    let signals = Signals::new(signals).context("signals")?;
    let server = start(settings)?;
    let handle = server.handle();
    // Before it is told that clients are served, so that their first requests are recorded.
    let recordings = match args.recording.begin(&handle) {
        Ok(recordings) => recordings,
        Err(error) => {
            handle.stop();
            serve_to_end(args, server)?;
            return Err(error.into());
        }
    };
    let protocols = ["memcached's protocol", "RESP", "HTTP", "/health and /metrics"];
    let names = protocols.into_iter().zip(counts);
    let names = names.flat_map(|(name, count)| std::iter::repeat_n(name, count));
    for (protocol, address) in names.zip(server.addresses()) {
        eprintln!("frazil: serving {protocol} at {address}");
    }
    tell_manager("READY=1");
    let ends = handle.clone();
    let patience = Duration::from_secs(args.drain_timeout);
    std::thread::spawn(move || end_at_signals(signals, &ends, patience));
    let ended = serve_to_end(args, server);
    recordings.end();
    ended
}

/// Restores the entries of the last run, waits for the end of the server and saves its entries.
fn serve_to_end(args: &Args, server: Server) -> Done {
    let handle = server.handle();
    let Some(path) = &args.snapshot else {
        return Ok(server.join().context("serving")?);
    };
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

/// Starts a server.
fn start(settings: Settings) -> anyhow::Result<Server> {
    Ok(Server::start(Settings { owns_process: true, note, ..settings })?)
}

/// Settings with as many connections and fetches as the limit of open files allows. A given number of connections
/// stays.
fn with_possible_connections(
    settings: Settings,
    has_connections: bool,
) -> anyhow::Result<Settings> {
    match settings.check() {
        Err(StartError::TooFewFiles(_, most)) => {
            let settings = settings.with_files(most, has_connections);
            settings.check()?;
            let fetches = settings.origin.iter().map(|origin| origin.fetches);
            let fetches = fetches.chain(settings.http_origin.iter().map(|origin| origin.fetches));
            let fetches: Vec<_> = fetches.map(|fetches| format!(", {fetches} fetches")).collect();
            let (connections, fetches) = (settings.limits.connections, fetches.concat());
            note(&format!(
                "limited to {connections} connections{fetches}, because the process may have only {most} open files (`ulimit -Hn`)"
            ));
            Ok(settings)
        }
        outcome => outcome.map(|()| settings).map_err(anyhow::Error::from),
    }
}

/// Prints the hash of the password on standard input, up to the end of its line.
fn hash_password() -> Done {
    let mut password = Vec::new();
    // Longer than the longest password, which is refused then.
    io::stdin().take(1024).read_to_end(&mut password).context("standard input")?;
    let end = password.iter().position(|&byte| byte == b'\n').unwrap_or(password.len());
    let line = &password[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let hash = frazil_server::hash_password(line).context("the password")?;
    crate::output::print(&format!("{hash}\n"))?;
    Ok(())
}

/// Reloads files at SIGHUP, and reports the results.
fn reload(handle: &Handle) {
    let outcomes = handle.reload();
    if outcomes.is_empty() {
        note("SIGHUP: no file of users or certificates to reload");
    }
    for (path, outcome) in outcomes {
        match outcome {
            Ok(()) => note(&format!("{}: reloaded", path.display())),
            Err(error) => note(&format!(
                "{}: {error}; the settings read before stay in force",
                path.display()
            )),
        }
    }
}

/// Notifies systemd, if it has started this process. Without effect on systems other than Linux.
fn tell_manager(notice: &str) {
    #[cfg(target_os = "linux")]
    notify::notify(notice);
    #[cfg(not(target_os = "linux"))]
    let _ = notice;
}

/// Signals that would end the process, and that tools send to other servers for other purposes.
const WITHOUT_EFFECT: [i32; 3] = [SIGUSR1, SIGUSR2, SIGALRM];

/// The first signal drains the server, the second stops it. SIGHUP reloads files.
fn end_at_signals(mut signals: Signals, handle: &Handle, patience: Duration) {
    let mut drains = false;
    for signal in signals.forever() {
        if WITHOUT_EFFECT.contains(&signal) {
            continue;
        }
        if signal == SIGHUP {
            reload(handle);
            continue;
        }
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        if !std::mem::replace(&mut drains, true) {
            note(&format!(
                "{name}: serving the requests that have arrived; a second signal ends at once"
            ));
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
    let unread = frazil_server::unread(path);
    match handle.restore(&unread, age_max) {
        Ok(Some(entries)) => {
            note(&format!("{shown}: {entries} entries read"));
            if let Err(error) = std::fs::remove_file(&unread) {
                note(&format!("{}: not removed: {error}", unread.display()));
            }
        }
        Ok(None) => note(&format!(
            "{shown}: older than --snapshot-max-age, ignored, kept as {}",
            unread.display()
        )),
        Err(RestoreError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
            note(&format!("{shown}: no such file yet"));
        }
        // The server works without the snapshot. The file may still be useful for diagnosis.
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            note(&format!("{shown}: {error}{cause}; serving without its entries"));
            note(&format!("{shown}: kept as {}", unread.display()));
        }
    }
}
