//! A server in this process, and connections to it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use frazil_server::{Address, ITEM_BYTES_MAX, Limits, Server, Settings, StoreKind};

/// Longest wait for a reply. A missing or extra reply shows by the next one.
const PATIENCE: Duration = Duration::from_secs(20);
const END: &[u8] = b"$5\r\n(end)\r\n";

/// Settings of a server at a free port.
pub(crate) fn settings() -> Settings {
    Settings {
        resp: vec!["127.0.0.1:0".parse().unwrap()],
        store: store(),
        limits: limits(),
        memory_bytes: 16 << 20,
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

pub(crate) fn start() -> Server {
    Server::start(settings()).unwrap()
}

/// Requests as arrays: one a line, words separated by blanks.
pub(crate) fn requests(lines: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        bytes.extend(request(&words));
    }
    bytes
}

pub(crate) fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Client {
        // Those of memcached come before.
        let address = match server.addresses().last() {
            Some(Address::Tcp(address)) => *address,
            other => panic!("{other:?}"),
        };
        Client::at(address)
    }

    pub(crate) fn at(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends requests, and expects exactly these replies, with blanks for ends of lines.
    #[track_caller]
    pub(crate) fn expect(&mut self, lines: &str, replies: &str) {
        let got = shown(&self.ask(&requests(lines)));
        let begin: String = lines.chars().take(200).collect();
        assert_eq!(got, replies.split_whitespace().collect::<Vec<_>>().join(" "), "{begin}");
    }

    /// Sends requests and returns their replies, which end at that of one more request.
    #[track_caller]
    pub(crate) fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        self.send(requests);
        self.send(&request(&["ECHO", "(end)"]));
        let mut replies = Vec::new();
        let mut buffer = [0; 4096];
        while !replies.ends_with(END) {
            let read = self.stream.read(&mut buffer);
            let read =
                read.unwrap_or_else(|error| panic!("{error} after {}", replies.escape_ascii()));
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
}

/// Replies with blanks for ends of lines.
pub(crate) fn shown(replies: &[u8]) -> String {
    let text = String::from_utf8_lossy(replies);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
