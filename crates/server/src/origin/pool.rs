//! Persistent connections to one origin.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use parking_lot::Mutex;

use super::KEPT;

/// Buffer of a connection for unread bytes of a response; a head must fit.
#[cfg(not(loom))]
const BUFFER_BYTES: usize = 64 << 10;

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(crate) struct Sender {
    requests: SendRequest<Outgoing>,
    /// The connection's stream expects a head ([`super::heads`]).
    awaits: Arc<AtomicBool>,
}

impl Sender {
    pub(crate) async fn send(
        &mut self,
        request: Request<Outgoing>,
    ) -> hyper::Result<Response<Incoming>> {
        // The request's way to the connection's task orders both.
        self.awaits.store(true, Relaxed);
        self.requests.send_request(request).await
    }
}

/// The complete body of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing(pub(crate) Bytes);

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    host: String,
    port: u16,
    kept: Mutex<Vec<Sender>>,
}

impl Pool {
    pub(crate) fn new(host: &str, port: u16) -> Pool {
        Pool { host: host.to_owned(), port, kept: Mutex::default() }
    }

    /// A kept connection. The origin may have closed it meanwhile.
    pub(crate) fn kept(&self) -> Option<Sender> {
        let mut kept = self.kept.lock();
        while let Some(sender) = kept.pop() {
            if sender.requests.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// The models do not connect, and tokio has no sockets under loom.
    #[cfg(loom)]
    pub(crate) async fn connect(&self) -> Option<Sender> {
        None
    }

    /// A new connection.
    #[cfg(not(loom))]
    pub(crate) async fn connect(&self) -> Option<Sender> {
        use super::heads::Heads;
        use hyper::client::conn::http1::Builder;
        use hyper_util::rt::TokioIo;
        use tokio::net::TcpStream;

        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.ok()?;
        // Without it a request only takes longer.
        let _ = stream.set_nodelay(true);
        let builder = Builder::new().max_buf_size(BUFFER_BYTES).clone();
        let awaits = Arc::default();
        let stream = Heads::new(stream, Arc::clone(&awaits));
        let (requests, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
        // The request on the connection reports its error.
        tokio::spawn(async move { connection.await.is_ok() });
        Some(Sender { requests, awaits })
    }

    /// Keeps a connection for the next fetch, after the end of its response.
    pub(crate) fn keep(self: &Arc<Pool>, mut sender: Sender) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            if sender.requests.ready().await.is_ok() {
                let mut kept = pool.kept.lock();
                if kept.len() < KEPT {
                    kept.push(sender);
                }
            }
        });
    }
}
