//! The server to measure, and connections to it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mio::event::Source;
use mio::{Interest, Registry, Token};

/// The longest time for a server to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The protocol of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Protocol {
    /// The text protocol.
    Memcached,
    /// RESP2.
    Redis,
    /// HTTP/1.1, only `GET`: the bytes before a key in a request, and behind it.
    Http { before: Vec<u8>, after: Vec<u8> },
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Memcached => "memcached's protocol",
            Protocol::Redis => "RESP",
            Protocol::Http { .. } => "HTTP/1.1",
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Tcp(String),
    Unix(PathBuf),
}

/// A server, from the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    url: String,
    place: Place,
    pub(super) protocol: Protocol,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let expected = || {
            "expected memcached://HOST:PORT, redis://HOST:PORT, memcached+unix:///PATH, \
             redis+unix:///PATH or http://HOST:PORT/{key}"
                .to_owned()
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
        let tcp = |text: &str| match text.rsplit_once(':') {
            Some((host, port))
                if !host.is_empty() && port.parse::<u16>().is_ok_and(|it| it > 0) =>
            {
                Ok(Place::Tcp(text.to_owned()))
            }
            _ => Err(format!("`{text}` is not HOST:PORT")),
        };
        let unix = || match rest.starts_with('/') && rest.len() > 1 {
            true => Ok(Place::Unix(PathBuf::from(rest))),
            false => Err(format!("`{rest}` is no absolute path, as in redis+unix:///run/a.sock")),
        };
        let (place, protocol) = match scheme {
            "memcached" => (tcp(rest.trim_end_matches('/'))?, Protocol::Memcached),
            "redis" => (tcp(rest.trim_end_matches('/'))?, Protocol::Redis),
            "memcached+unix" => (unix()?, Protocol::Memcached),
            "redis+unix" => (unix()?, Protocol::Redis),
            "http" => {
                let (host, path) = rest.split_once('/').ok_or_else(expected)?;
                (tcp(host)?, http(host, path)?)
            }
            _ => return Err(expected()),
        };
        Ok(Target { url: url.to_owned(), place, protocol })
    }
}

fn http(host: &str, path: &str) -> Result<Protocol, String> {
    let (first, rest) = path.split_once("{key}").ok_or("no `{key}` in the path")?;
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("only visible ASCII may be in the path".to_owned());
    }
    Ok(Protocol::Http {
        before: format!("GET /{first}").into_bytes(),
        after: format!("{rest} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes(),
    })
}

/// The address of a server, found once for all connections.
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Target {
    /// The path of a server that listens at a Unix socket.
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        match &self.place {
            Place::Tcp(_) => None,
            Place::Unix(path) => Some(path),
        }
    }

    /// Looks the host up. Returns the first of its addresses that accepts.
    ///
    /// # Errors
    ///
    /// No such host, or no address accepts.
    pub(super) fn address(&self) -> io::Result<Address> {
        let name = match &self.place {
            Place::Tcp(name) => name,
            Place::Unix(path) => return Ok(Address::Unix(path.clone())),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in name.to_socket_addrs()? {
            match std::net::TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(_) => return Ok(Address::Tcp(address)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A connection that never blocks.
pub(super) enum Stream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl Stream {
    /// # Errors
    ///
    /// Errors of the system.
    pub(super) fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, CONNECT_MAX)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(mio::net::TcpStream::from_std(stream)))
            }
            Address::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(mio::net::UnixStream::from_std(stream)))
            }
        }
    }

    /// Both ends, ours first, of a TCP connection.
    pub(super) fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Stream::Tcp(stream) => stream.local_addr().ok().zip(stream.peer_addr().ok()),
            Stream::Unix(_) => None,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, wanted: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, wanted),
            Stream::Unix(stream) => stream.register(registry, token, wanted),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        wanted: Interest,
    ) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.reregister(registry, token, wanted),
            Stream::Unix(stream) => stream.reregister(registry, token, wanted),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.deregister(registry),
            Stream::Unix(stream) => stream.deregister(registry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_protocol_and_place() {
        let tcp = |place: &str| Place::Tcp(place.to_owned());
        let unix = Place::Unix("/run/a.sock".into());
        for (url, place, protocol) in [
            ("memcached://localhost:11211", tcp("localhost:11211"), Protocol::Memcached),
            ("redis://[::1]:6379/", tcp("[::1]:6379"), Protocol::Redis),
            ("memcached+unix:///run/a.sock", unix.clone(), Protocol::Memcached),
            ("redis+unix:///run/a.sock", unix, Protocol::Redis),
        ] {
            let target: Target = url.parse().unwrap();
            assert_eq!((target.place, target.protocol), (place, protocol), "{url}");
        }
        let target: Target = "http://a:80/items/{key}?x=1".parse().unwrap();
        let Protocol::Http { before, after } = target.protocol else { panic!("HTTP") };
        assert_eq!(before, b"GET /items/");
        assert_eq!(after, b"?x=1 HTTP/1.1\r\nHost: a:80\r\n\r\n");
    }

    #[test]
    fn what_names_no_server_is_refused() {
        for (url, told) in [
            ("127.0.0.1:11211", "memcached://HOST:PORT"),
            ("https://a:443/{key}", "http://HOST:PORT/{key}"),
            ("memcached://a", "`a` is not HOST:PORT"),
            ("redis://a:0", "`a:0` is not HOST:PORT"),
            ("redis://:6379", "not HOST:PORT"),
            ("redis+unix://a.sock", "absolute path"),
            ("http://a:80/items", "`{key}`"),
            ("http://a:80/{key} b", "visible ASCII"),
        ] {
            let error = url.parse::<Target>().unwrap_err();
            assert!(error.contains(told), "{url}: {error}");
        }
    }
}
