//! What clients of all protocols do with a socket.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take. A server that owes none is found by what it answers next.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What comes until the server closes the connection.
#[track_caller]
pub(crate) fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        // The server closed it with bytes that it had not read.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error} after {}", bytes.escape_ascii()),
    }
}
