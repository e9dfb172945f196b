//! A server in this process, and connections to it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use frazil_server::{Address, ITEM_BYTES_MAX, Limits, Options, Server, Settings, StoreKind};

/// Longest wait for a reply. A missing or extra reply shows by the next one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Settings of a server at a free port, whose clock tests can move.
pub(crate) fn settings() -> Settings {
    Settings {
        memcached: vec!["127.0.0.1:0".parse().unwrap()],
        store: store(),
        limits: limits(),
        memory_bytes: 16 << 20,
        options: Options { debug: true, ..Options::default() },
        ..Settings::default()
    }
}

/// Items of up to 1 MiB, even with a small capacity.
pub(crate) fn limits() -> Limits {
    Limits { item_bytes: Some(ITEM_BYTES_MAX), ..Limits::default() }
}

/// The store under test; `cargo xtask test` runs the tests once with each.
pub(crate) fn store() -> StoreKind {
    match std::env::var("FRAZIL_TEST_STORE") {
        Ok(name) if name == "objects" => StoreKind::Objects,
        _ => StoreKind::Segment,
    }
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    match server.addresses() {
        [Address::Tcp(address), ..] => *address,
        other => panic!("{other:?}"),
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Client {
        let stream = TcpStream::connect(address(server)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads this many bytes.
    #[track_caller]
    pub(crate) fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends requests, and expects exactly these replies.
    #[track_caller]
    pub(crate) fn expect(&mut self, requests: &str, replies: &str) {
        assert_eq!(self.ask(requests.as_bytes()).escape_ascii().to_string(), escaped(replies));
    }

    /// Sends requests and returns their replies, which end at that of one more request.
    #[track_caller]
    pub(crate) fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        const END: &[u8] = b"MN\r\n";
        self.send(requests);
        self.send(b"mn\r\n");
        let mut replies = Vec::new();
        let mut buffer = [0; 4096];
        while !replies.ends_with(END) {
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "closed after {}", replies.escape_ascii());
            replies.extend_from_slice(&buffer[..read]);
        }
        replies.truncate(replies.len() - END.len());
        replies
    }

    /// The bytes up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return bytes,
                Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                // The server closed the connection with unread bytes.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A count of `stats` or `stats waits`.
    #[track_caller]
    pub(crate) fn stat(&mut self, name: &str) -> u64 {
        let text = String::from_utf8(self.ask(b"stats\r\nstats waits\r\n")).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        found.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }
}

fn escaped(text: &str) -> String {
    text.as_bytes().escape_ascii().to_string()
}
