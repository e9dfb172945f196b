//! A client of HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::socket;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    reader: BufReader<TcpStream>,
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Fields, a line each.
    pub(crate) fields: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Whether the cache has answered.
    pub(crate) fn is_hit(&self) -> bool {
        self.field("cache-status").is_some_and(|status| status.contains("; hit"))
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let stream = socket::connect(address);
        let reader = BufReader::new(stream.try_clone().unwrap());
        Client { stream, reader }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a request for a host, and reads its reply. `fields` are lines with their ends.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str, fields: &str) -> Reply {
        self.send(format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
        self.reply(line.starts_with("HEAD"))
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), "")
    }

    /// Status and fields of a reply.
    #[track_caller]
    pub(crate) fn head(&mut self) -> Reply {
        let (mut first, mut fields, mut line) = (String::new(), String::new(), String::new());
        while self.reader.read_line(&mut line).unwrap() > 2 {
            match first.is_empty() {
                true => first.clone_from(&line),
                false => fields += &line.replace('\r', ""),
            }
            line.clear();
        }
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {first:?}"));
        Reply { status: status.parse().unwrap(), fields, body: Vec::new() }
    }

    /// A whole reply.
    #[track_caller]
    pub(crate) fn reply(&mut self, is_head: bool) -> Reply {
        let mut reply = self.head();
        if is_head || matches!(reply.status, 204 | 304 | 100) {
            return reply;
        }
        if let Some(length) = reply.field("content-length") {
            reply.body = self.bytes(length.parse().unwrap());
        } else if reply.field("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                reply.body.extend(chunk);
            }
        } else {
            self.reader.read_to_end(&mut reply.body).unwrap();
        }
        reply
    }

    #[track_caller]
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The next chunk of a body; `None`: the body has ended.
    #[track_caller]
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut bytes = self.bytes(size + 2);
        assert_eq!(bytes.split_off(size), b"\r\n");
        (size > 0).then_some(bytes)
    }

    /// The bytes up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        socket::rest(&mut self.reader)
    }
}
