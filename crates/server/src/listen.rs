//! Addresses, listening sockets and streams: TCP and Unix.

use std::fmt;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use crate::settings::Settings;
use crate::tls::{Tls, TlsStream};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of an interface; port 0 is any free port.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = io::Error;

    /// `unix:PATH`, `HOST:PORT` or `[IPV6]:PORT`; a host name stands for its first address.
    fn from_str(text: &str) -> io::Result<Address> {
        let malformed = || {
            io::Error::other(
                "expected HOST:PORT, as in `127.0.0.1:11211` or `[::1]:11211`, or unix:PATH",
            )
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(malformed()) } else { Ok(Address::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        if host.is_empty() || is_bare_ipv6 || port.parse::<u16>().is_err() {
            return Err(malformed());
        }
        let first = text.to_socket_addrs()?.next();
        first.map(Address::Tcp).ok_or_else(|| io::Error::other("the host name has no address"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// One listener for each of `threads`. A port has a socket for each, among which the system spreads connections;
    /// a path has one socket that all share.
    pub(crate) fn bind(
        address: &Address,
        settings: &Settings,
    ) -> io::Result<(Address, Vec<Listener>)> {
        let (threads, backlog) = (settings.threads, settings.limits.backlog);
        match address {
            Address::Tcp(address) => {
                let mut bound = *address;
                let is_shared = threads > 1;
                if is_shared && bound.port() != 0 {
                    // A socket that may share a port can be bound beside those of another server of the same user.
                    // One that may not fails if another server has the port.
                    bind_tcp(bound, false)?;
                }
                let mut listeners = Vec::with_capacity(threads);
                for _ in 0..threads {
                    let listener = tcp(bound, backlog, is_shared)?;
                    bound = listener.local_addr()?;
                    listeners.push(Listener::Tcp(listener));
                }
                Ok((Address::Tcp(bound), listeners))
            }
            Address::Unix(path) => {
                let listener = OwnedFd::from(unix(path, settings.unix_mode, backlog)?);
                let listener = std::os::unix::net::UnixListener::from(listener);
                let clones = (0..threads).map(|_| {
                    listener.try_clone().map(|one| Listener::Unix(UnixListener::from_std(one)))
                });
                Ok((Address::Unix(path.clone()), clones.collect::<io::Result<_>>()?))
            }
        }
    }

    /// One listener for each of `threads`, sharing a socket that listens already.
    pub(crate) fn adopt(socket: &Socket, threads: usize) -> io::Result<Vec<Listener>> {
        let is_unix = socket.local_addr()?.is_unix();
        let one = |socket: Socket| match is_unix {
            true => Listener::Unix(UnixListener::from_std(OwnedFd::from(socket).into())),
            false => Listener::Tcp(TcpListener::from_std(socket.into())),
        };
        (0..threads).map(|_| socket.try_clone().map(one)).collect()
    }

    /// Where it listens, if by TCP.
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Listener::Tcp(listener) => listener,
            Listener::Unix(listener) => listener,
        }
    }
}

/// A listening socket for one thread, and its bound address.
pub(crate) fn socket(address: &Address, settings: &Settings) -> io::Result<(Address, Socket)> {
    let backlog = settings.limits.backlog;
    match address {
        Address::Tcp(address) => {
            let socket = bind_tcp(*address, false)?;
            socket.listen(backlog)?;
            let bound = socket.local_addr()?.as_socket().unwrap_or(*address);
            Ok((Address::Tcp(bound), socket))
        }
        Address::Unix(path) => Ok((address.clone(), unix(path, settings.unix_mode, backlog)?)),
    }
}

fn tcp(address: SocketAddr, backlog: i32, is_shared: bool) -> io::Result<TcpListener> {
    let socket = bind_tcp(address, is_shared)?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn bind_tcp(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn unix(path: &Path, mode: Option<u32>, backlog: i32) -> io::Result<Socket> {
    if is_abandoned(path) {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    if let Some(mode) = mode {
        // Before it listens, so that no client without the permission connects.
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(backlog)?;
    Ok(socket)
}

/// Whether a path is a socket left by a server that has ended. Any other file stays, and so does a socket where that
/// is uncertain; the path then cannot be bound.
fn is_abandoned(path: &Path) -> bool {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let connect = || -> io::Result<()> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // A server with a full backlog is alive: the connect must not wait for it.
        socket.set_nonblocking(true)?;
        socket.connect(&socket2::SockAddr::unix(path)?)
    };
    is_socket && connect().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn tcp_ends(stream: &TcpStream) -> Option<(Address, Address)> {
    Some((Address::Tcp(stream.peer_addr().ok()?), Address::Tcp(stream.local_addr().ok()?)))
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// The client's IP address, unless it came by a Unix socket.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        let stream = match self {
            Stream::Tcp(stream) => stream,
            Stream::Tls(stream) => &stream.socket,
            Stream::Unix(_) => return None,
        };
        stream.peer_addr().ok().map(|address| address.ip())
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Its remote and local address; `None` if the system does not tell.
    pub(crate) fn ends(&self) -> Option<(Address, Address)> {
        match self {
            Stream::Tcp(stream) => tcp_ends(stream),
            Stream::Tls(stream) => tcp_ends(&stream.socket),
            Stream::Unix(stream) => {
                let path = Address::Unix(stream.local_addr().ok()?.as_pathname()?.to_owned());
                Some((path.clone(), path))
            }
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Stream::Tcp(stream) => stream,
            Stream::Unix(stream) => stream,
            Stream::Tls(stream) => &mut stream.socket,
        }
    }

    /// Wraps a TCP stream in TLS, if the server has it.
    pub(crate) fn secured(self, tls: Option<&Tls>) -> io::Result<Stream> {
        match (self, tls) {
            (Stream::Tcp(stream), Some(tls)) => Ok(Stream::Tls(Box::new(tls.stream(stream)?))),
            (stream, _) => Ok(stream),
        }
    }

    fn tls(&self) -> Option<&TlsStream> {
        match self {
            Stream::Tls(stream) => Some(stream),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// Whether it is in a handshake, so that nothing can be read yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(TlsStream::is_handshaking)
    }

    /// Whether it may have more to read after a short read.
    pub(crate) fn has_more(&self) -> bool {
        self.tls().is_some_and(TlsStream::has_more)
    }

    /// Whether it holds bytes that the socket has not accepted.
    pub(crate) fn holds_output(&self) -> bool {
        self.tls().is_some_and(TlsStream::holds_output)
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.tls().map_or(0, TlsStream::held_bytes)
    }

    /// Sends the bytes it holds, as far as the socket accepts them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = self { stream.flush() } else { Ok(()) }
    }

    /// Tells the client about the end of the stream, where the protocol can.
    pub(crate) fn end(&mut self) {
        if let Stream::Tls(stream) = self {
            stream.end();
        }
    }

    /// Sends no more.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        self.end();
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tls(stream) => stream.socket.shutdown(Shutdown::Write),
        }
    }

    /// Reads what is not looked at: with TLS, what is encrypted.
    pub(crate) fn discard(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            Stream::Tls(stream) => stream.socket.read(into),
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }

    pub(crate) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(from),
            Stream::Unix(stream) => stream.write(from),
            Stream::Tls(stream) => stream.write(from),
        }
    }
}
