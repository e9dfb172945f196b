//! The operator's HTTP: health of the server, and its counts for Prometheus.
//!
//! A separate thread answers one request after another. Each client has [`PATIENCE`] in total, so it delays others,
//! and the end of the server, by no more than that.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket2::Socket;

use crate::listen::{self, Address};
use crate::metrics;
use crate::passed::{self, Purpose};
use crate::server::Shared;
use crate::settings::Settings;
use crate::worker::WAKE;

/// Size of a request's head. Nothing else of a request is read.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Time for a request to arrive and its reply to be taken, together.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read after the reply. Closing a socket with unread bytes resets it, and the client may
/// lose the reply.
const REST_BYTES_MAX: usize = 64 << 10;

/// The thread's work: it answers until the server ends.
pub(crate) struct Admin {
    shared: Arc<Shared>,
    poll: Poll,
    listeners: Vec<Socket>,
}

/// A reply: status, type of content, content.
type Reply = (&'static str, &'static str, String);

const PLAIN: &str = "text/plain; charset=utf-8";

/// Binds the addresses, and answers them with the ports chosen.
pub(crate) fn bind(settings: &Settings) -> Result<Vec<(Address, Socket)>, (Address, io::Error)> {
    let bind = |address: &Address| {
        let bound = listen::socket(address, settings);
        bound.map_err(|error| (address.clone(), error))
    };
    let passed = settings.passed.of(Purpose::Admin).map(|socket| {
        let address = passed::address(socket);
        let clone = socket.try_clone();
        clone.map(|clone| (address.clone(), clone)).map_err(|error| (address, error))
    });
    settings.admin.iter().map(bind).chain(passed).collect()
}

impl Admin {
    pub(crate) fn new(
        shared: Arc<Shared>,
        poll: Poll,
        sockets: Vec<(Address, Socket)>,
    ) -> io::Result<Admin> {
        let listeners: Vec<Socket> = sockets.into_iter().map(|(_, socket)| socket).collect();
        for (token, listener) in listeners.iter().enumerate() {
            let source = &mut SourceFd(&listener.as_raw_fd());
            poll.registry().register(source, Token(token), Interest::READABLE)?;
        }
        Ok(Admin { shared, poll, listeners })
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.answer(event.token().0);
            }
            if self.shared.stops.load(Relaxed) {
                return Ok(());
            }
        }
    }

    /// Answers all waiting clients. An error of one ends its connection only.
    fn answer(&self, listener: usize) {
        while !self.shared.stops.load(Relaxed) {
            let accepted = self.listeners[listener].accept();
            let served = accepted.map(|(stream, _)| self.serve(stream));
            // Without a free descriptor, the next event tries again.
            let goes_on = [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];
            if served.is_err_and(|error| !goes_on.contains(&error.kind())) {
                return;
            }
        }
    }

    fn serve(&self, stream: Socket) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        // TLS is for TCP only: nobody can listen in on a socket at a path.
        let is_tcp = !stream.local_addr()?.is_unix();
        let mut stream = Patient { stream, until: Instant::now() + PATIENCE };
        match self.shared.tls.as_ref().filter(|_| is_tcp) {
            None => self.exchange(&mut stream)?,
            Some(tls) => {
                let mut session = tls.session()?;
                self.exchange(&mut rustls::Stream::new(&mut session, &mut stream))?;
                session.send_close_notify();
                session.write_tls(&mut stream)?;
            }
        }
        stream.stream.shutdown(Shutdown::Write)?;
        let mut rest = stream.take(REST_BYTES_MAX as u64);
        io::copy(&mut rest, &mut io::sink()).map(|_| ())
    }

    /// Reads a request and answers it.
    fn exchange(&self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let head = read_head(stream)?;
        let (status, kind, body) = self.reply(&head);
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut reply = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            body.len()
        );
        if !head.starts_with(b"HEAD ") {
            reply.push_str(&body);
        }
        stream.write_all(reply.as_bytes())?;
        stream.flush()
    }

    fn reply(&self, head: &[u8]) -> Reply {
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let mut words = line.split(|&byte| byte == b' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
        let Some(target) = target.filter(|_| is_http && words.next().is_none()) else {
            return ("400 Bad Request", PLAIN, "not a request of HTTP/1\n".into());
        };
        if !matches!(method, Some(b"GET" | b"HEAD")) {
            return ("405 Method Not Allowed", PLAIN, "GET or HEAD\n".into());
        }
        match target.split(|&byte| byte == b'?').next().unwrap_or_default() {
            b"/health" if self.shared.drains_until_ms.load(Relaxed) < u64::MAX => {
                ("503 Service Unavailable", PLAIN, "draining\n".into())
            }
            b"/health" => ("200 OK", PLAIN, "serving\n".into()),
            b"/metrics" => ("200 OK", metrics::CONTENT_TYPE, metrics::page(&self.shared)),
            _ => ("404 Not Found", PLAIN, "/health and /metrics are here\n".into()),
        }
    }
}

/// Reads up to the empty line that ends a request's head.
fn read_head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&part[..read]),
        }
    }
    Ok(head)
}

/// A socket whose reads and writes all fail after one deadline.
struct Patient {
    stream: Socket,
    until: Instant,
}

impl Patient {
    fn wait(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))
    }
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.stream.read(into)
    }
}

impl Write for Patient {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.wait()?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
