//! A client of a protocol of keys.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::socket;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn at(address: SocketAddr) -> Client {
        Client { stream: socket::connect(address) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads as many bytes.
    #[track_caller]
    pub(crate) fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// What comes before `end`, behind which nothing has come yet.
    #[track_caller]
    pub(crate) fn until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        while !bytes.ends_with(end) {
            let read = self.stream.read(&mut buffer);
            let read =
                read.unwrap_or_else(|error| panic!("{error} after {}", bytes.escape_ascii()));
            assert!(read > 0, "closed after {}", bytes.escape_ascii());
            bytes.extend_from_slice(&buffer[..read]);
        }
        bytes.truncate(bytes.len() - end.len());
        bytes
    }

    /// What comes until the server closes the connection.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        socket::rest(&mut self.stream)
    }
}
