//! The heads of an origin's responses, watched as they arrive: a line that ends without `\r` is an error, because the
//! parser would take what follows for a field of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Place of the status's first digit in a head.
const STATUS_AT: usize = "HTTP/1.1 ".len();

/// A stream whose responses begin with such heads.
pub(crate) struct Heads<S> {
    stream: S,
    /// A request was sent, so that a head comes next. Set before the request reaches this task.
    awaits: Arc<AtomicBool>,
    head: Option<Head>,
}

/// How much of a head has been seen.
#[derive(Default)]
struct Head {
    bytes: usize,
    line_bytes: usize,
    ends_with_return: bool,
    /// Another head follows this one.
    is_interim: bool,
}

impl<S> Heads<S> {
    pub(crate) fn new(stream: S, awaits: Arc<AtomicBool>) -> Heads<S> {
        Heads { stream, awaits, head: None }
    }

    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.awaits.swap(false, Relaxed) {
            self.head = Some(Head::default());
        }
        for &byte in bytes {
            let Some(head) = &mut self.head else { return Ok(()) };
            if head.bytes == STATUS_AT {
                head.is_interim = byte == b'1';
            }
            head.bytes += 1;
            if byte != b'\n' {
                head.line_bytes += 1;
                head.ends_with_return = byte == b'\r';
                continue;
            }
            if !head.ends_with_return {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a line of a response's head ends without a carriage return",
                ));
            }
            if head.line_bytes == 1 {
                self.head = head.is_interim.then(Head::default);
            } else {
                (head.line_bytes, head.ends_with_return) = (0, false);
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.look(&buffer.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
