//! A server: its threads, and their shared state.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use mio::Waker;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::Socket;

use crate::access::{self, Access};
use crate::admin::{self, Admin};
use crate::cluster::ClusterMapError;
use crate::counters::{Counters, Counts};
use crate::handle::Handle;
use crate::hot::HotKeys;
use crate::http::Http;
use crate::items::Items;
use crate::listen::{Address, Listener};
use crate::mail::Mail;
use crate::memcached::Memcached;
use crate::origin::{self, Fetches, Orders};
use crate::passed::{self, Purpose};
use crate::process;
use crate::quotas::Quotas;
use crate::resp::{Cluster, Resp};
use crate::session::Protocol;
use crate::settings::{MEMORY_BYTES_MIN, Settings, Shares};
use crate::snapshot;
use crate::store::StoreBuildError;
use crate::tls::Tls;
use crate::turnstile::Turnstile;
use crate::worker::Worker;

/// A running cache server.
///
/// Dropping it stops its threads and closes all connections.
///
/// ```
/// use std::io::{Read, Write};
/// use frazil_server::{Address, Server, Settings};
///
/// let settings = Settings { memcached: vec!["127.0.0.1:0".parse()?], ..Settings::default() };
/// let server = Server::start(settings)?;
/// let Address::Tcp(address) = &server.addresses()[0] else { unreachable!() };
/// let mut client = std::net::TcpStream::connect(address)?;
/// client.write_all(b"set key 0 0 5\r\nvalue\r\n")?;
/// let mut reply = [0; 8];
/// client.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"STORED\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    /// It answers until the others have ended.
    admin: Option<JoinHandle<io::Result<()>>>,
    /// It fetches until the others have ended.
    fetcher: Option<JoinHandle<io::Result<()>>>,
    /// It verifies passwords until the others have ended.
    checker: Option<JoinHandle<io::Result<()>>>,
}

/// Errors of starting a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The capacity is below [`MEMORY_BYTES_MIN`].
    TooLittleMemory,
    /// The number of threads is zero.
    NoThreads,
    /// A limit has an impossible value: its name, and the possible values.
    Limit(&'static str, RangeInclusive<usize>),
    /// The store could not be created.
    Store(StoreBuildError),
    /// The cache for HTTP could not be created with this policy.
    Cache(frazil::BuildError),
    /// An address cannot be listened on.
    Listen(Address, io::Error),
    /// A file of users cannot be read.
    Users(io::Error),
    /// Files for TLS cannot be read.
    Tls(io::Error),
    /// The cluster's map has no node for this server, or the server does not speak RESP.
    Cluster(ClusterMapError),
    /// The limit of open files is too low for the number of connections: files needed, and the hard limit.
    TooFewFiles(u64, u64),
    /// A snapshot could not be written to this file, or the one of the last run cannot be renamed.
    Snapshot(PathBuf, io::Error),
    /// The system has no thread or no poller left.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::TooLittleMemory => {
                write!(f, "expected a memory of at least {} MiB", MEMORY_BYTES_MIN >> 20)
            }
            StartError::NoThreads => f.write_str("expected at least one thread"),
            StartError::Limit(name, possible) => {
                write!(f, "{name}: expected {} to {}", possible.start(), possible.end())
            }
            StartError::Store(error) => write!(f, "the store cannot be created: {error}"),
            StartError::Cache(error) => write!(f, "the cache for HTTP cannot be created: {error}"),
            StartError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            StartError::Users(error) => write!(f, "file of users: {error}"),
            StartError::Tls(error) => write!(f, "TLS: {error}"),
            StartError::Cluster(error) => write!(f, "the map of the cluster: {error}"),
            StartError::TooFewFiles(wanted, most) => write!(
                f,
                "the connections need {wanted} open files, but the process may have only {most} \
                 (`ulimit -Hn`): raise that limit, or allow fewer connections"
            ),
            StartError::Snapshot(path, error) => {
                write!(f, "the snapshot {}: {error}", path.display())
            }
            StartError::System(error) => write!(f, "a thread cannot be started: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// The state shared by all threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) shares: Shares,
    pub(crate) items: Items,
    /// Users and their rights, if there is a file of them.
    pub(crate) access: Option<Access>,
    /// The set-up of TLS, if it is on.
    pub(crate) tls: Option<Tls>,
    pub(crate) memcached: Memcached,
    pub(crate) resp: Resp,
    pub(crate) hot: HotKeys,
    /// The cache for HTTP, if it is served.
    pub(crate) http: Option<Http>,
    pub(crate) turnstile: Turnstile,
    /// The channel to the fetching thread, if there is an origin.
    pub(crate) fetches: Option<Fetches>,
    /// By thread.
    pub(crate) counters: Box<[Counters]>,
    /// Connections of all threads.
    pub(crate) connections: Quotas,
    /// Bytes that connections of all threads hold ([`Connection::held_bytes`](crate::connection)).
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) stops: AtomicBool,
    /// The server's time at which it ends, drained or not, in milliseconds; `u64::MAX` while it does not drain.
    pub(crate) drains_until_ms: AtomicU64,
    pub(crate) addresses: Vec<Address>,
    pub(crate) wakers: Arc<[Waker]>,
}

impl Shared {
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut counts));
        counts
    }

    /// Ends all threads.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Relaxed);
        self.wake();
        if let Some(fetches) = &self.fetches {
            fetches.stop();
        }
        if let Some(access) = &self.access {
            access.checks.stop();
        }
    }

    pub(crate) fn wake(&self) {
        for waker in self.wakers.iter() {
            // A thread that cannot be woken checks once a second.
            let _ = waker.wake();
        }
    }
}

impl Server {
    /// Binds all addresses and starts the threads. Raises the process's limit of open files if it is too low for the
    /// connections.
    ///
    /// # Errors
    ///
    /// An address is in use, memory or threads are lacking, or the settings contradict each other.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        settings.check()?;
        allow_files(&settings)?;
        if settings.owns_process {
            process::part_large_blocks();
        }
        let shares = Shares::of(&settings);
        let memcached = Memcached::new(&settings).map_err(StartError::Users)?;
        let access = settings.users.as_deref().map(Access::new).transpose();
        let access = access.map_err(StartError::Users)?;
        let tls = settings.tls.as_ref().map(Tls::new).transpose().map_err(StartError::Tls)?;
        let (mut addresses, listeners) = bind(&settings)?;
        let cluster = cluster(&settings, &listeners).map_err(StartError::Cluster)?;
        let admin = admin::bind(&settings);
        let admin = admin.map_err(|(address, error)| StartError::Listen(address, error))?;
        addresses.extend(admin.iter().map(|(address, _)| address.clone()));
        // The last poll is for operators.
        let count = settings.threads + usize::from(!admin.is_empty());
        let (mut polls, wakers) = polls(count).map_err(StartError::System)?;
        let mail = Mail::new(Arc::clone(&wakers));
        let items = Items::new(&settings, shares, mail).map_err(StartError::Store)?;
        if settings.snapshot.is_some() {
            items.store.expect_restore();
        }
        let fetches = settings.origin.is_some() || settings.http_origin.is_some();
        let (fetches, orders) = fetches.then(Fetches::new).unzip();
        // The fetching thread is a writer as well.
        let writers = settings.threads + usize::from(settings.origin.is_some());
        let shared = Arc::new(Shared {
            shares,
            items,
            access,
            tls,
            memcached,
            resp: Resp::new(&settings, cluster),
            hot: HotKeys::new(settings.threads),
            http: http_cache(&settings, shares, &wakers)?,
            turnstile: Turnstile::new(if settings.speaks_resp() { writers } else { 1 }),
            fetches,
            counters: (0..settings.threads).map(|_| Counters::default()).collect(),
            connections: Quotas::new(&settings),
            held_bytes: AtomicUsize::new(0),
            stops: AtomicBool::new(false),
            drains_until_ms: AtomicU64::new(u64::MAX),
            addresses,
            wakers,
            settings,
        });
        let mut server = Server {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            admin: None,
            fetcher: None,
            checker: None,
        };
        server.start_beside(&mut polls, admin, orders)?;
        server.start_serving(polls.into_iter().zip(listeners))?;
        Ok(server)
    }

    /// Starts the threads that serve. None of them serves before all have started and no later start would read the
    /// snapshot of the last run.
    fn start_serving(
        &mut self,
        places: impl Iterator<Item = (mio::Poll, Vec<(Protocol, Listener)>)>,
    ) -> Result<(), StartError> {
        let mut gates = Vec::new();
        for (number, (poll, listeners)) in places.enumerate() {
            let worker = Worker::new(Arc::clone(&self.shared), number, poll, listeners);
            let worker = worker.map_err(StartError::System)?;
            let stops = StopsAll(Arc::clone(&self.shared));
            let (gate, opened) = mpsc::sync_channel(1);
            let run = move || {
                let _stops = stops;
                // It stays closed if the start fails.
                if opened.recv().is_ok() { worker.run() } else { Ok(()) }
            };
            self.threads.push(spawn(format!("serve-{number}"), run)?);
            gates.push(gate);
        }
        if let Some(path) = &self.shared.settings.snapshot {
            let aside = snapshot::put_aside(path);
            aside.map_err(|error| StartError::Snapshot(path.clone(), error))?;
        }
        for gate in gates {
            // A thread that has ended stops all.
            let _ = gate.send(());
        }
        Ok(())
    }

    /// Starts the threads without clients of keys: for operators, with the last poll; for fetches; for passwords.
    fn start_beside(
        &mut self,
        polls: &mut Vec<mio::Poll>,
        admin: Vec<(Address, Socket)>,
        orders: Option<Orders>,
    ) -> Result<(), StartError> {
        let shared = &self.shared;
        if !admin.is_empty()
            && let Some(poll) = polls.pop()
        {
            let admin = Admin::new(Arc::clone(shared), poll, admin).map_err(StartError::System)?;
            self.admin = Some(spawn("serve-admin".to_owned(), move || admin.run())?);
        }
        if let Some(orders) = orders {
            let stops = StopsAll(Arc::clone(shared));
            let thread = origin::start(Arc::clone(shared), orders, stops);
            self.fetcher = Some(thread.map_err(StartError::System)?);
        }
        if shared.access.is_some() {
            let (shared, stops) = (Arc::clone(shared), StopsAll(Arc::clone(shared)));
            let run = move || {
                let _stops = stops;
                access::run(&shared);
                Ok(())
            };
            self.checker = Some(spawn("serve-passwords".to_owned(), run)?);
        }
        Ok(())
    }

    /// Its addresses, with the ports chosen, in the order of the settings: memcached's, RESP's, HTTP's, the
    /// operators'. Passed sockets follow the addresses of their protocol.
    pub fn addresses(&self) -> &[Address] {
        &self.shared.addresses
    }

    /// A handle to drain it, or to save and restore its entries, from any thread.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// Waits for the end of the server: by the command `shutdown`, [`Handle::drain`] or [`Handle::stop`].
    ///
    /// # Errors
    ///
    /// A thread's poller has failed.
    pub fn join(mut self) -> io::Result<()> {
        let mut ended = Ok(());
        for thread in std::mem::take(&mut self.threads) {
            ended = ended.and(result_of(thread));
        }
        self.shared.stop();
        self.admin
            .take()
            .into_iter()
            .chain(self.fetcher.take())
            .chain(self.checker.take())
            .map(result_of)
            .fold(ended, Result::and)
    }
}

/// The cache for HTTP, if it is served.
pub(crate) fn http_cache(
    settings: &Settings,
    shares: Shares,
    wakers: &Arc<[Waker]>,
) -> Result<Option<Http>, StartError> {
    let http = settings.speaks_http().then(|| Http::new(settings, shares, Arc::clone(wakers)));
    http.transpose().map_err(StartError::Cache)
}

/// Pollers for `count` threads, and their wakers.
fn polls(count: usize) -> io::Result<(Vec<mio::Poll>, Arc<[Waker]>)> {
    let polls = (0..count).map(|_| mio::Poll::new()).collect::<io::Result<Vec<_>>>()?;
    let waker = |poll: &mio::Poll| Waker::new(poll.registry(), crate::worker::WAKE);
    let wakers = polls.iter().map(waker).collect::<io::Result<Arc<[_]>>>()?;
    Ok((polls, wakers))
}

fn spawn(
    name: String,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>, StartError> {
    std::thread::Builder::new().name(name).spawn(work).map_err(StartError::System)
}

fn result_of(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// Ends all threads at the end of one, including by an error or a panic: its connections would hang, while clients
/// went on connecting to its sockets. A draining server ends thread by thread.
struct StopsAll(Arc<Shared>);

impl Drop for StopsAll {
    fn drop(&mut self) {
        if self.0.drains_until_ms.load(Relaxed) == u64::MAX {
            self.0.stop();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        let beside = self.admin.take().into_iter().chain(self.fetcher.take());
        for thread in self.threads.drain(..).chain(beside).chain(self.checker.take()) {
            // `join` reports its error.
            let _ = thread.join();
        }
    }
}

/// Files that a program has open besides its sockets.
const FILES_BESIDE: usize = 64;

/// Open files that a server with these settings may need.
pub(crate) fn files_wanted(settings: &Settings) -> u64 {
    let Settings { threads, limits, memcached, resp, http, passed, origin, http_origin, .. } =
        settings;
    let fetches = origin.iter().map(|origin| origin.fetches);
    let fetches = fetches.chain(http_origin.iter().map(|origin| origin.fetches));
    let fetches: usize = fetches.map(|fetches| fetches + origin::KEPT).sum();
    // A thread has a poller, a waker and a socket for each address.
    let sockets = memcached.len() + resp.len() + http.len() + passed.len();
    let of_threads = threads.saturating_mul(2 + sockets);
    limits
        .connections
        .saturating_add(of_threads)
        .saturating_add(fetches)
        .saturating_add(FILES_BESIDE) as u64
}

/// Checks settings as far as that is possible without opening sockets.
pub(crate) fn check(settings: &Settings) -> Result<(), StartError> {
    if settings.memory_bytes < MEMORY_BYTES_MIN {
        return Err(StartError::TooLittleMemory);
    }
    if settings.threads == 0 {
        return Err(StartError::NoThreads);
    }
    if let Some((name, possible)) = settings.limits.impossible() {
        return Err(StartError::Limit(name, possible));
    }
    if let Some(path) = &settings.snapshot {
        let possible = frazil_segment::check_save(path);
        possible.map_err(|error| StartError::Snapshot(path.clone(), error))?;
    }
    let wanted = files_wanted(settings);
    match getrlimit(Resource::Nofile).maximum.filter(|&most| most < wanted) {
        Some(most) => Err(StartError::TooFewFiles(wanted, most)),
        None => Ok(()),
    }
}

/// Raises the process's limit of open files, as memcached does: at the limit a connection would be neither accepted
/// nor refused.
fn allow_files(settings: &Settings) -> Result<(), StartError> {
    let (wanted, limit) = (files_wanted(settings), getrlimit(Resource::Nofile));
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), ..limit };
    setrlimit(Resource::Nofile, raised).map_err(|error| StartError::System(error.into()))
}

/// The listeners of each thread, with their protocols.
type Listeners = Vec<Vec<(Protocol, Listener)>>;

/// The part of the cluster's map that this server serves.
fn cluster(settings: &Settings, listeners: &Listeners) -> Result<Option<Cluster>, ClusterMapError> {
    let Some(map) = &settings.cluster else { return Ok(None) };
    // Each thread listens everywhere.
    let all = listeners.first().into_iter().flatten();
    let resp: Vec<_> = all.filter(|(protocol, _)| *protocol == Protocol::Resp).collect();
    if resp.is_empty() {
        return Err(ClusterMapError::new("RESP is not served, and it is for no other".into()));
    }
    let addresses: Vec<_> = resp.iter().filter_map(|(_, one)| one.tcp_address()).collect();
    Ok(Some(Cluster::new(map.clone(), map.own(&addresses)?)))
}

fn bind(settings: &Settings) -> Result<(Vec<Address>, Listeners), StartError> {
    let mut by_thread: Listeners = (0..settings.threads).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    let protocols = [
        (Protocol::Memcached, &settings.memcached, Purpose::Memcached),
        (Protocol::Resp, &settings.resp, Purpose::Resp),
        (Protocol::Http, &settings.http, Purpose::Http),
    ];
    let mut add = |protocol, listeners: Vec<Listener>| {
        for (listener, thread) in listeners.into_iter().zip(&mut by_thread) {
            thread.push((protocol, listener));
        }
    };
    for (protocol, given, purpose) in protocols {
        for address in given {
            let bound = Listener::bind(address, settings);
            let (bound, listeners) =
                bound.map_err(|error| StartError::Listen(address.clone(), error))?;
            addresses.push(bound);
            add(protocol, listeners);
        }
        for socket in settings.passed.of(purpose) {
            let address = passed::address(socket);
            let listeners = Listener::adopt(socket, settings.threads);
            add(protocol, listeners.map_err(|error| StartError::Listen(address.clone(), error))?);
            addresses.push(address);
        }
    }
    Ok((addresses, by_thread))
}
