//! Many connections to a server from one thread: idle ones, some that send requests and never read, some that send a byte a
//! second.

use std::io::{self, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::asking::Asking;

/// Raises the limit of open files of this process, and of servers that it starts, for
/// `connections`.
pub(super) fn allow(connections: usize) -> anyhow::Result<()> {
    // The program has some other files open.
    let wanted = connections as u64 + 200;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|most| most.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .with_context(|| format!("{wanted} open files (`ulimit -n`)"))
}

/// A number of memcached's `stats`.
pub(super) fn stat(asking: &mut Asking, name: &str) -> io::Result<Option<u64>> {
    let mut line = asking.ask("stats\r\n")?;
    let mut found = None;
    while line != "END" {
        let value = line.strip_prefix("STAT ").and_then(|rest| rest.strip_prefix(name));
        found = value.and_then(|value| value.trim().parse().ok()).or(found);
        line = asking.line()?;
    }
    Ok(found)
}

/// Connections that stay open.
pub(super) fn connect(address: SocketAddr, count: usize) -> anyhow::Result<Vec<TcpStream>> {
    let connect = |_| -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    (0..count).map(connect).collect::<io::Result<_>>().context("a connection of many")
}

/// The number of connections that the server has not closed.
pub(super) fn open(streams: &[TcpStream]) -> usize {
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).is_ok()
            && matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    streams.iter().filter(is_open).count()
}

/// Has a number of connections send a request repeatedly, and read nothing, for a time. A
/// connection that the server closes connects again. Returns the number of closed connections.
pub(super) fn never_read(
    address: SocketAddr,
    count: usize,
    request: &str,
    time: Duration,
) -> anyhow::Result<usize> {
    let piece = request.repeat((16 << 10) / request.len());
    let connect = || -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    };
    let streams: io::Result<Vec<TcpStream>> = (0..count).map(|_| connect()).collect();
    // Each with the bytes of the piece sent so far.
    let mut clients: Vec<(TcpStream, usize)> =
        streams.context("a client that does not read")?.into_iter().map(|it| (it, 0)).collect();
    let (begun, mut closed) = (Instant::now(), 0);
    while begun.elapsed() < time {
        let mut moved = false;
        for (stream, sent) in &mut clients {
            match stream.write(&piece.as_bytes()[*sent..]) {
                Ok(more) => (*sent, moved) = ((*sent + more) % piece.len(), true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => {
                    closed += 1;
                    (*stream, *sent) = (connect().context("a client that was closed")?, 0);
                }
            }
        }
        if !moved {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(closed)
}

/// Connections that each send a byte a second, from a separate thread.
pub(super) struct Slow {
    is_sending: Arc<AtomicBool>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<usize>>,
}

impl Slow {
    /// Connects, and sends `request` byte by byte on each; it must last longer than the
    /// measurement. They send while [`Slow::send`] is set.
    pub(super) fn start(
        address: SocketAddr,
        count: usize,
        request: &'static str,
    ) -> anyhow::Result<Slow> {
        let streams = connect(address, count)?;
        let is_sending = Arc::<AtomicBool>::default();
        let stops = Arc::<AtomicBool>::default();
        let (sending, stopping) = (Arc::clone(&is_sending), Arc::clone(&stops));
        let work = move || {
            send_slowly(&streams, request.as_bytes(), &sending, &stopping);
            open(&streams)
        };
        let thread = Some(std::thread::Builder::new().spawn(work).context("a thread")?);
        Ok(Slow { is_sending, stops, thread })
    }

    pub(super) fn send(&self, is_sending: bool) {
        self.is_sending.store(is_sending, Relaxed);
    }

    /// Ends all connections, and returns the number that the server had not closed.
    pub(super) fn end(mut self) -> anyhow::Result<usize> {
        self.stops.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(open)) => Ok(open),
            _ => bail!("the thread of the slow connections panicked"),
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stops.store(true, Relaxed);
    }
}

/// Serves all connections once a second, in steps of a millisecond.
fn send_slowly(streams: &[TcpStream], request: &[u8], is_sending: &AtomicBool, stops: &AtomicBool) {
    let mut sent = 0;
    let mut due = 0.0;
    let mut before = Instant::now();
    while !stops.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        if is_sending.load(Relaxed) || sent < streams.len() {
            // A delayed thread does not catch up at once.
            let passed = (now - before).as_secs_f64().min(0.01);
            due += passed * streams.len() as f64;
        }
        before = now;
        while due >= 1.0 {
            let byte = request[sent / streams.len() % request.len()];
            // Connections closed by the server are counted at the end.
            let _ = (&streams[sent % streams.len()]).write(&[byte]);
            sent += 1;
            due -= 1.0;
        }
    }
}
