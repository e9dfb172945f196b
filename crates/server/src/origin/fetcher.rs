//! The fetching thread: HTTP/1.1 to one origin, over persistent connections.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use frazil_segment::{Attributes, Stored};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use tokio::sync::mpsc::UnboundedReceiver;

use super::freshness::{self, Freshness};
use super::pool::{Outgoing, Pool, Sender};
use super::{Job, Order, Origin};
use crate::flights::Remember;
use crate::http;
use crate::mail::{Counted, Fetched, Outcome};
use crate::server::Shared;

/// Milliseconds for which a value is remembered as uncacheable.
const UNCACHEABLE_MS: u64 = 60_000;
/// Threads that resolve an origin's name.
const RESOLVERS_MAX: usize = 8;

struct Fetcher {
    shared: Arc<Shared>,
    origin: Origin,
    pool: Arc<Pool>,
    /// Bytes of values that are arriving, or that no thread has sent yet.
    bytes: Arc<AtomicUsize>,
}

/// Fetches until it is stopped. Fetches in flight then end without an answer, as do their clients' connections.
pub(super) fn run(shared: Arc<Shared>, mut orders: UnboundedReceiver<Order>) -> io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.max_blocking_threads(RESOLVERS_MAX).enable_io().enable_time();
    let runtime = runtime.build()?;
    let fetcher = shared.settings.origin.clone().map(|origin| {
        let pool = Arc::new(Pool::new(&origin.url.host, origin.url.port));
        let bytes = Arc::default();
        Arc::new(Fetcher { shared: Arc::clone(&shared), origin, pool, bytes })
    });
    let http = shared.settings.http_origin.clone().map(|origin| {
        let pool = Arc::new(Pool::new(&origin.base.host, origin.base.port));
        (Arc::new(origin), pool)
    });
    runtime.block_on(async {
        while let Some(order) = orders.recv().await {
            match (order, &fetcher, &http) {
                (Order::Fetch(job), Some(fetcher), _) => {
                    let fetcher = Arc::clone(fetcher);
                    tokio::spawn(async move { fetcher.fetch(job).await });
                }
                (Order::Http(job), _, Some((origin, pool))) => {
                    let (shared, origin) = (Arc::clone(&shared), Arc::clone(origin));
                    let pool = Arc::clone(pool);
                    tokio::spawn(async move { http::fetch(&shared, &origin, &pool, *job).await });
                }
                (Order::Stop, ..) => break,
                // HTTP jobs are sent only where there is an origin for them.
                _ => {}
            }
        }
    });
    // Does not wait for the resolution of a name.
    runtime.shutdown_background();
    Ok(())
}

/// A fetch without an answer about the value.
struct Failed;

/// A response, read to its end.
struct Answer {
    status: StatusCode,
    freshness: Freshness,
    body: Vec<u8>,
    counted: Counted,
}

/// A fetch. Dropping it notifies its waiters at the latest, so that none waits for a task that is gone.
struct Fetch<'f> {
    fetcher: &'f Fetcher,
    job: Job,
    outcome: Outcome,
    /// Milliseconds for which an outcome that is not stored is remembered.
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
        // The clock may be old: the thread has slept since it was set.
        let remember = Remember { now_ms: shared.items.clock.update(), for_ms: self.for_ms };
        let Job { key, ticket, .. } = &self.job;
        let store = |outcome| self.fetcher.store(&self.job, outcome);
        // After the serving threads. Before the lock on the flights, as they do: a transaction writes while it has
        // all turnstiles.
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
            Ok(Answer { status: StatusCode::OK, freshness, body, counted }) => {
                let lifetime_seconds = match freshness {
                    Freshness::Seconds(seconds) => seconds,
                    Freshness::Unsaid => self.origin.lifetime_seconds,
                    Freshness::Once => 0,
                };
                let is_shared = lifetime_seconds > 0;
                fetch.for_ms = if is_shared { 0 } else { UNCACHEABLE_MS };
                let (value, cas, _counted) = (body, 0, counted);
                let fetched = Fetched { value, cas, lifetime_seconds, is_shared, _counted };
                fetch.outcome = Outcome::Value(Arc::new(fetched));
            }
            Ok(Answer { status: StatusCode::NOT_FOUND | StatusCode::GONE, .. }) => {
                fetch.for_ms = self.origin.absent_seconds.saturating_mul(1000);
                fetch.outcome = Outcome::Absent;
            }
            _ => {}
        }
    }

    /// Stores a value that is shared, unless a client has written one meanwhile.
    fn store(&self, job: &Job, outcome: Outcome) -> Outcome {
        let Outcome::Value(fetched) = outcome else { return outcome };
        if !fetched.is_shared {
            return Outcome::Value(fetched);
        }
        let lifetime = Some(Duration::from_secs(fetched.lifetime_seconds));
        let attributes = Attributes { flags: 0, marks: job.marks, lifetime };
        // Without memory the value is still delivered.
        let stored = self.shared.items.bring(&job.key, &fetched.value, attributes);
        let cas = match stored {
            Ok((Stored::Stored, cas)) if self.shared.settings.options.cas => cas,
            _ => 0,
        };
        match Arc::try_unwrap(fetched) {
            Ok(fetched) => Outcome::Value(Arc::new(Fetched { cas, ..fetched })),
            Err(fetched) => Outcome::Value(fetched),
        }
    }

    async fn ask(&self, key: &[u8]) -> Result<Answer, Failed> {
        // The origin may have closed a kept connection, which tells nothing about the value: try once more.
        if let Some(mut sender) = self.pool.kept()
            && let Ok(response) = sender.send(self.request(key)?).await
        {
            return self.read(key, response, sender).await;
        }
        let mut sender = self.pool.connect().await.ok_or(Failed)?;
        let response = sender.send(self.request(key)?).await.map_err(|_| Failed)?;
        self.read(key, response, sender).await
    }

    fn request(&self, key: &[u8]) -> Result<Request<Outgoing>, Failed> {
        let url = &self.origin.url;
        let request = Request::get(url.target(key)).header(HOST, &url.authority);
        let request = request.header(ACCEPT, "*/*").header(USER_AGENT, "frazil");
        request.body(Outgoing::default()).map_err(|_| Failed)
    }

    async fn read(
        &self,
        key: &[u8],
        response: Response<Incoming>,
        sender: Sender,
    ) -> Result<Answer, Failed> {
        let status = response.status();
        let freshness = freshness::of(response.headers());
        let mut counted = Counted::new(&self.bytes);
        let body = match self.body(key, response.into_body(), &mut counted).await {
            // The page of an error such as 404 may have any length.
            Err(Failed) if status != StatusCode::OK => {
                return Ok(Answer { status, freshness, body: Vec::new(), counted });
            }
            body => body?,
        };
        self.pool.keep(sender);
        Ok(Answer { status, freshness, body, counted })
    }

    async fn body(
        &self,
        key: &[u8],
        mut body: Incoming,
        counted: &mut Counted,
    ) -> Result<Vec<u8>, Failed> {
        let mut value = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let frame = frame.map_err(|_| Failed)?;
            let Some(data) = frame.data_ref() else { continue };
            if self.shared.items.is_too_large(key.len(), value.len() + data.len()) {
                return Err(Failed);
            }
            if !counted.add(data.len(), self.shared.shares.fetched_bytes) {
                return Err(Failed);
            }
            value.extend_from_slice(data);
        }
        Ok(value)
    }
}
