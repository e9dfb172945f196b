//! A server: its threads, and what they share.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use mio::Waker;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::Socket;

use crate::access::{self, Access};
use crate::admin::{self, Admin};
use crate::counters::{Counters, Counts};
use crate::handle::Handle;
use crate::http::Http;
use crate::items::Items;
use crate::listen::{Address, Listener};
use crate::mail::Mail;
use crate::memcached::Memcached;
use crate::origin::{self, Fetches, Orders};
use crate::passed::{self, Purpose};
use crate::process;
use crate::resp::Resp;
use crate::session::Protocol;
use crate::settings::{MEMORY_BYTES_MIN, Settings, Shares};
use crate::store::StoreBuildError;
use crate::tls::Tls;
use crate::turnstile::Turnstile;
use crate::worker::Worker;

/// A cache server that runs.
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
    /// It answers until these have ended.
    admin: Option<JoinHandle<io::Result<()>>>,
    /// It fetches until these have ended.
    fetcher: Option<JoinHandle<io::Result<()>>>,
    /// It verifies passwords until these have ended.
    checker: Option<JoinHandle<io::Result<()>>>,
}

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The memory is less than [`MEMORY_BYTES_MIN`].
    TooLittleMemory,
    /// There are no threads.
    NoThreads,
    /// The store could not be made.
    Store(StoreBuildError),
    /// The cache of HTTP could not be made with this policy.
    Cache(frazil::BuildError),
    /// An address cannot be listened at.
    Listen(Address, io::Error),
    /// A file of users cannot be read.
    Users(io::Error),
    /// Files for TLS cannot be read.
    Tls(io::Error),
    /// The process may not have as many files open as there may be connections: how many it wants, and how
    /// many it may have at most.
    TooFewFiles(u64, u64),
    /// The system has no thread, or nothing to wait for sockets with.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::TooLittleMemory => {
                write!(f, "less memory than {} MiB", MEMORY_BYTES_MIN >> 20)
            }
            StartError::NoThreads => f.write_str("no thread to serve with: at least one"),
            StartError::Store(error) => write!(f, "no store: {error}"),
            StartError::Cache(error) => write!(f, "no cache for HTTP: {error}"),
            StartError::Listen(address, error) => write!(f, "cannot listen at {address}: {error}"),
            StartError::Users(error) => write!(f, "the file of users: {error}"),
            StartError::Tls(error) => write!(f, "TLS: {error}"),
            StartError::TooFewFiles(wanted, most) => write!(
                f,
                "so many connections want {wanted} open files, and the process may have {most} \
                 (`ulimit -Hn`): allow more, or fewer connections"
            ),
            StartError::System(error) => write!(f, "no thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// What all threads see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) shares: Shares,
    pub(crate) items: Items,
    /// Users and what they may do, if there are any.
    pub(crate) access: Option<Access>,
    /// How TLS is spoken, if it is.
    pub(crate) tls: Option<Tls>,
    pub(crate) memcached: Memcached,
    pub(crate) resp: Resp,
    /// The cache of HTTP, if it is spoken.
    pub(crate) http: Option<Http>,
    pub(crate) turnstile: Turnstile,
    /// The way to the origin, if there is one.
    pub(crate) fetches: Option<Fetches>,
    /// By thread.
    pub(crate) counters: Box<[Counters]>,
    /// Connections of all threads.
    pub(crate) connections: AtomicUsize,
    /// Bytes that connections of all threads hold ([`Connection::held_bytes`](crate::connection)).
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) stops: AtomicBool,
    /// When the server ends, drained or not, in milliseconds of its clock; `u64::MAX` while it does not drain.
    pub(crate) drains_until_ms: AtomicU64,
    pub(crate) addresses: Vec<Address>,
    wakers: Arc<[Waker]>,
}

impl Shared {
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut counts));
        counts
    }

    /// Has all threads end.
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
            // A thread that cannot be woken looks once a second.
            let _ = waker.wake();
        }
    }
}

impl Server {
    /// Binds all addresses and starts the threads. Raises the limit of open files of the process if it is
    /// too low for the connections.
    ///
    /// # Errors
    ///
    /// An address is in use, memory or threads are lacking, or the settings do not go together.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        if settings.memory_bytes < MEMORY_BYTES_MIN {
            return Err(StartError::TooLittleMemory);
        }
        if settings.threads == 0 {
            return Err(StartError::NoThreads);
        }
        allow_files(&settings)?;
        if settings.owns_process {
            process::part_large_blocks();
        }
        let shares = Shares::of(&settings);
        let memcached = Memcached::new(&settings.options).map_err(StartError::Users)?;
        let access = settings.users.as_deref().map(Access::new).transpose();
        let access = access.map_err(StartError::Users)?;
        let tls = settings.tls.as_ref().map(Tls::new).transpose().map_err(StartError::Tls)?;
        let (mut addresses, listeners) = bind(&settings)?;
        let admin = admin::bind(&settings);
        let admin = admin.map_err(|(address, error)| StartError::Listen(address, error))?;
        addresses.extend(admin.iter().map(|(address, _)| address.clone()));
        // The last is that of the thread for operators.
        let count = settings.threads + usize::from(!admin.is_empty());
        let (mut polls, wakers) = polls(count).map_err(StartError::System)?;
        let mail = Mail::new(Arc::clone(&wakers));
        let items = Items::new(&settings, shares, mail).map_err(StartError::Store)?;
        if settings.restores {
            items.store.expect_restore();
        }
        let fetches = settings.origin.is_some() || settings.http_origin.is_some();
        let (fetches, orders) = fetches.then(Fetches::new).unzip();
        // The one that fetches is a writer as well.
        let writers = settings.threads + usize::from(settings.origin.is_some());
        let shared = Arc::new(Shared {
            shares,
            items,
            access,
            tls,
            memcached,
            resp: Resp::new(&settings),
            http: http_cache(&settings, shares, &wakers)?,
            turnstile: Turnstile::new(if settings.speaks_resp() { writers } else { 1 }),
            fetches,
            counters: (0..settings.threads).map(|_| Counters::default()).collect(),
            connections: AtomicUsize::new(0),
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
        for (number, (poll, listeners)) in polls.into_iter().zip(listeners).enumerate() {
            let worker = Worker::new(Arc::clone(&shared), number, poll, listeners);
            let worker = worker.map_err(StartError::System)?;
            let stops = StopsAll(Arc::clone(&shared));
            let run = move || {
                let _stops = stops;
                worker.run()
            };
            server.threads.push(spawn(format!("serve-{number}"), run)?);
        }
        Ok(server)
    }

    /// Starts the threads that serve no connection: for operators, with the last poll; for fetches; for passwords.
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

    /// Where it listens, ports that were chosen filled in; in the order of the settings:
    /// memcached's, those of RESP, those of HTTP, those for operators; of each, sockets that were passed come last.
    pub fn addresses(&self) -> &[Address] {
        &self.shared.addresses
    }

    /// To drain it, or to save and restore its entries, from any thread.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// Waits until the server has ended, as the command `shutdown` or [`Handle::drain`] makes it.
    ///
    /// # Errors
    ///
    /// A thread could not wait for its sockets any more.
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

/// The cache of HTTP, where that is spoken.
fn http_cache(
    settings: &Settings,
    shares: Shares,
    wakers: &Arc<[Waker]>,
) -> Result<Option<Http>, StartError> {
    let http = settings.speaks_http().then(|| Http::new(settings, shares, Arc::clone(wakers)));
    http.transpose().map_err(StartError::Cache)
}

/// What so many threads wait with, and how each is woken.
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

/// Has all threads end when one does, by an error or a panic as well: its connections hang, and clients would
/// go on coming to its sockets. A server that drains ends thread by thread.
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
            // What went wrong there is told by `join` only.
            let _ = thread.join();
        }
    }
}

/// Files that a program has open beside its sockets.
const FILES_BESIDE: usize = 64;

/// Has the process allow as many open files as the server wants, as memcached does: at the limit a connection
/// would neither be accepted nor refused.
fn allow_files(settings: &Settings) -> Result<(), StartError> {
    let Settings { threads, limits, memcached, resp, http, passed, origin, http_origin, .. } =
        settings;
    let fetches = origin.iter().map(|origin| origin.fetches);
    let fetches = fetches.chain(http_origin.iter().map(|origin| origin.fetches));
    let fetches: usize = fetches.map(|fetches| fetches + origin::KEPT).sum();
    // A thread has a poll, a waker and a socket for each address.
    let sockets = memcached.len() + resp.len() + http.len() + passed.len();
    let of_threads = threads.saturating_mul(2 + sockets);
    let wanted = limits
        .connections
        .saturating_add(of_threads)
        .saturating_add(fetches)
        .saturating_add(FILES_BESIDE) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|&most| most < wanted) {
        return Err(StartError::TooFewFiles(wanted, most));
    }
    let raised = Rlimit { current: Some(wanted), ..limit };
    setrlimit(Resource::Nofile, raised).map_err(|error| StartError::System(error.into()))
}

/// By thread, its listeners and what is spoken there.
type Listeners = Vec<Vec<(Protocol, Listener)>>;

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
