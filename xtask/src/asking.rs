//! A client of a server whose replies are lines, as memcached's and RESP's are, that asks for one thing after another.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for a part of a reply.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Asking(BufReader<TcpStream>);

impl Asking {
    /// # Errors
    ///
    /// Nobody listens there.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Asking> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Asking(BufReader::new(stream)))
    }

    /// Sends a request, and returns the first line of the reply.
    ///
    /// # Errors
    ///
    /// The connection is closed, or no line comes.
    pub(crate) fn ask(&mut self, request: &str) -> io::Result<String> {
        self.0.get_mut().write_all(request.as_bytes())?;
        self.line()
    }

    /// The next line, without its end.
    ///
    /// # Errors
    ///
    /// As for `ask`.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// A value of so many bytes, with the end of its line after it.
    ///
    /// # Errors
    ///
    /// As for `ask`, or it is no text.
    pub(crate) fn value(&mut self, bytes: usize) -> io::Result<String> {
        let mut value = vec![0; bytes + 2];
        self.0.read_exact(&mut value)?;
        value.truncate(bytes);
        String::from_utf8(value).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_reply_is_read_in_lines_and_values() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = Asking::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        server.write_all(b"VALUE a 0 4\r\n1\r\n2\r\nEND\r\n")?;
        drop(server.shutdown(std::net::Shutdown::Write));
        assert_eq!(client.ask("get a\r\n")?, "VALUE a 0 4");
        assert_eq!(client.value(4)?, "1\r\n2");
        assert_eq!(client.line()?, "END");
        assert_eq!(client.line().map_err(|error| error.kind()), Err(ErrorKind::UnexpectedEof));
        let mut request = [0; 7];
        server.read_exact(&mut request)?;
        assert_eq!(&request, b"get a\r\n");
        Ok(())
    }
}
