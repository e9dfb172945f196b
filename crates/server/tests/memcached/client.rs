//! A server in this process, and connections to it.

use std::net::SocketAddr;

use frazil_server::{Address, Options, Server, Settings};

pub(crate) use super::shared_client::Client;
pub(crate) use super::store::{limits, store};

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

pub(crate) fn address(server: &Server) -> SocketAddr {
    match server.addresses() {
        [Address::Tcp(address), ..] => *address,
        other => panic!("{other:?}"),
    }
}

impl Client {
    pub(crate) fn new(server: &Server) -> Client {
        Client::at(address(server))
    }

    /// Sends requests, and expects exactly these replies.
    #[track_caller]
    pub(crate) fn expect(&mut self, requests: &str, replies: &str) {
        assert_eq!(self.ask(requests.as_bytes()).escape_ascii().to_string(), escaped(replies));
    }

    /// Sends requests and returns their replies, which end at that of one more request.
    #[track_caller]
    pub(crate) fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        self.send(requests);
        self.send(b"mn\r\n");
        self.until(b"MN\r\n")
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
