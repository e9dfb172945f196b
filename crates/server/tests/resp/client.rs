//! A server in this process, and connections to it.

use frazil_server::{Address, Server, Settings};

pub(crate) use super::shared_client::Client;
pub(crate) use super::store::{limits, store};

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

impl Client {
    pub(crate) fn new(server: &Server) -> Client {
        // Those of memcached come before.
        let address = match server.addresses().last() {
            Some(Address::Tcp(address)) => *address,
            other => panic!("{other:?}"),
        };
        Client::at(address)
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
        self.until(END)
    }
}

/// Replies with blanks for ends of lines.
pub(crate) fn shown(replies: &[u8]) -> String {
    let text = String::from_utf8_lossy(replies);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
