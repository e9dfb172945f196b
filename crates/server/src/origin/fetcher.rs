//! The thread that fetches: HTTP/1.1 to one origin, on connections that are used again.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{Attributes, Stored};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

use super::freshness::{self, Freshness};
use super::{Job, KEPT, Order, Origin};
use crate::flights::Remember;
use crate::mail::{Fetched, Outcome};
use crate::server::Shared;

/// How long it is remembered that a value is not to be stored.
const UNCACHEABLE_MS: u64 = 60_000;

struct Fetcher {
    shared: Arc<Shared>,
    origin: Origin,
    kept: Arc<Mutex<Vec<SendRequest<String>>>>,
    /// Of bodies that are arriving.
    bytes: AtomicUsize,
}

/// Fetches until it is told to stop; what is under way then ends unanswered, as its clients' connections do.
pub(super) fn run(
    shared: Arc<Shared>,
    origin: Origin,
    mut orders: UnboundedReceiver<Order>,
) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let (kept, bytes) = (Arc::default(), AtomicUsize::new(0));
    let fetcher = Arc::new(Fetcher { shared, origin, kept, bytes });
    runtime.block_on(async {
        while let Some(Order::Fetch(job)) = orders.recv().await {
            let fetcher = Arc::clone(&fetcher);
            tokio::spawn(async move { fetcher.fetch(job).await });
        }
    });
    // A name that is being resolved is not waited for.
    runtime.shutdown_background();
    Ok(())
}

/// Why there is no value.
struct Failed;

/// A response that was read.
struct Answer {
    status: StatusCode,
    freshness: Freshness,
    body: Vec<u8>,
}

/// A fetch that ends when this is dropped, whatever its task has come to: who waits for it is told, and nobody waits for
/// one that is no more.
struct Fetch<'f> {
    fetcher: &'f Fetcher,
    job: Job,
    outcome: Outcome,
    /// How long it is remembered that nothing is stored.
    for_ms: u64,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let shared = &self.fetcher.shared;
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Failed);
        if let Some(fetches) = &shared.fetches {
            fetches.count(&outcome);
            fetches.ended();
        }
        // The thread has slept since a clock was set.
        let remember = Remember { now_ms: shared.items.clock.update(), for_ms: self.for_ms };
        let Job { key, ticket, .. } = &self.job;
        let store = |outcome| self.fetcher.store(&self.job, outcome);
        // Before the flights are locked, as by those who serve: a transaction writes while it has all turnstiles.
        let _place = shared.turnstile.enter(shared.settings.threads);
        shared.items.flights.fetched(key, *ticket, outcome, remember, store);
    }
}

impl Fetcher {
    async fn fetch(&self, job: Job) {
        let mut fetch = Fetch { fetcher: self, job, outcome: Outcome::Failed, for_ms: 0 };
        let limit = Duration::from_millis(self.origin.timeout_ms);
        let answer = tokio::time::timeout(limit, self.ask(&fetch.job.key)).await;
        match answer.unwrap_or(Err(Failed)) {
            Ok(Answer { status: StatusCode::OK, freshness, body }) => {
                let lifetime_seconds = match freshness {
                    Freshness::Seconds(seconds) => seconds,
                    Freshness::Unsaid => self.origin.lifetime_seconds,
                    Freshness::Once => 0,
                };
                let is_shared = lifetime_seconds > 0;
                fetch.for_ms = if is_shared { 0 } else { UNCACHEABLE_MS };
                let fetched = Fetched { value: body, cas: 0, lifetime_seconds, is_shared };
                fetch.outcome = Outcome::Value(Arc::new(fetched));
            }
            Ok(Answer { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => {
                fetch.for_ms = self.origin.absent_seconds.saturating_mul(1000);
                fetch.outcome = Outcome::Absent;
            }
            _ => {}
        }
    }

    /// Stores a value that all may have, if no client has written one meanwhile.
    fn store(&self, job: &Job, outcome: Outcome) -> Outcome {
        let Outcome::Value(fetched) = outcome else { return outcome };
        if !fetched.is_shared {
            return Outcome::Value(fetched);
        }
        let lifetime = Some(Duration::from_secs(fetched.lifetime_seconds));
        let attributes = Attributes { flags: 0, marks: job.marks, lifetime };
        // What finds no memory is answered all the same.
        let stored = self.shared.items.bring(&job.key, &fetched.value, attributes);
        let cas = if let Ok((Stored::Stored, cas)) = stored { cas } else { 0 };
        match Arc::try_unwrap(fetched) {
            Ok(fetched) => Outcome::Value(Arc::new(Fetched { cas, ..fetched })),
            Err(fetched) => Outcome::Value(fetched),
        }
    }

    async fn ask(&self, key: &[u8]) -> Result<Answer, Failed> {
        // One that was kept may have been closed by the origin, which tells nothing of the value: asked once more.
        if let Some(mut sender) = self.kept()
            && let Ok(response) = sender.send_request(self.request(key)?).await
        {
            return self.read(key, response, sender).await;
        }
        let address = (self.origin.url.host.as_str(), self.origin.url.port);
        let stream = TcpStream::connect(address).await.map_err(|_| Failed)?;
        // Without it a request only waits longer.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Failed)?;
        // What ends the connection is told to the request on it.
        tokio::spawn(async move { connection.await.is_ok() });
        let response = sender.send_request(self.request(key)?).await.map_err(|_| Failed)?;
        self.read(key, response, sender).await
    }

    fn kept(&self) -> Option<SendRequest<String>> {
        let mut kept = self.kept.lock();
        while let Some(sender) = kept.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn request(&self, key: &[u8]) -> Result<Request<String>, Failed> {
        let url = &self.origin.url;
        let request = Request::get(url.target(key)).header(HOST, &url.authority);
        let request = request.header(ACCEPT, "*/*").header(USER_AGENT, "frazil");
        request.body(String::new()).map_err(|_| Failed)
    }

    async fn read(
        &self,
        key: &[u8],
        response: Response<Incoming>,
        mut sender: SendRequest<String>,
    ) -> Result<Answer, Failed> {
        let status = response.status();
        let freshness = freshness::of(response.headers());
        let mut counted = Counted { fetcher: self, bytes: 0 };
        let body = self.body(key, response.into_body(), &mut counted).await?;
        drop(counted);
        let kept = Arc::clone(&self.kept);
        // Whoever fetches next has it, once the connection has seen the end of this response.
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                let mut kept = kept.lock();
                if kept.len() < KEPT {
                    kept.push(sender);
                }
            }
        });
        Ok(Answer { status, freshness, body })
    }

    async fn body(
        &self,
        key: &[u8],
        mut body: Incoming,
        counted: &mut Counted<'_>,
    ) -> Result<Vec<u8>, Failed> {
        let mut value = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|_| Failed)?;
            let Some(data) = frame.data_ref() else { continue };
            if self.shared.items.is_too_large(key.len(), value.len() + data.len()) {
                return Err(Failed);
            }
            counted.add(data.len())?;
            value.extend_from_slice(data);
        }
        Ok(value)
    }
}

/// Bytes of one body, of those of all.
struct Counted<'f> {
    fetcher: &'f Fetcher,
    bytes: usize,
}

impl Counted<'_> {
    fn add(&mut self, bytes: usize) -> Result<(), Failed> {
        self.bytes += bytes;
        let all = self.fetcher.bytes.fetch_add(bytes, Relaxed) + bytes;
        if all > self.fetcher.shared.shares.fetched_bytes { Err(Failed) } else { Ok(()) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.fetcher.bytes.fetch_sub(self.bytes, Relaxed);
    }
}
