//! An origin: an HTTP server with the values that the store lacks.
//!
//! Serving threads hand keys ([`Fetches::begin`]) to one fetching thread ([`fetcher`]).

#[cfg(not(loom))]
mod fetcher;
mod freshness;
#[cfg(not(loom))]
mod heads;
pub(crate) mod pool;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

use hyper::Uri;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::http;
use crate::mail::Outcome;
use crate::percent::encoded;
use crate::server::Shared;

/// Idle connections to the origin that are kept.
pub(crate) const KEPT: usize = 64;

/// An origin for keys, with its limits.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The URL of a key's value.
    pub url: OriginUrl,
    /// Timeout of a fetch, in milliseconds. Its waiters are then answered a miss.
    pub timeout_ms: u64,
    /// Fetches in flight. Further look-ups are answered a miss.
    pub fetches: usize,
    /// Lifetime of a value whose response specifies none, in seconds.
    pub lifetime_seconds: u64,
    /// Seconds for which an absent value (404 or 410) is remembered; 0: not at all.
    pub absent_seconds: u64,
}

impl Origin {
    /// With a timeout of five seconds, 1,024 fetches, 60 seconds for a value, 10 for an absent one.
    pub fn new(url: OriginUrl) -> Origin {
        Origin { url, timeout_ms: 5000, fetches: 1024, lifetime_seconds: 60, absent_seconds: 10 }
    }
}

/// A URL with `{key}` in its path or query: `http://HOST:PORT/{key}`.
///
/// ```
/// use frazil_server::OriginUrl;
///
/// assert!("http://127.0.0.1:8080/items/{key}".parse::<OriginUrl>().is_ok());
/// assert!("https://127.0.0.1/{key}".parse::<OriginUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    host: String,
    port: u16,
    /// The field `Host`.
    authority: String,
    before: String,
    after: String,
}

const KEY: &str = "{key}";

impl FromStr for OriginUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<OriginUrl, String> {
        if text.starts_with("https://") {
            return Err(
                "origins are fetched from over plain http only; put a TLS proxy in front of yours"
                    .into(),
            );
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(
                "expected a URL that begins with `http://`, as in `http://127.0.0.1:8080/{key}`"
                    .into(),
            );
        };
        let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let parts = target.split_once(KEY).filter(|(_, after)| !after.contains(KEY));
        let Some((before, after)) = parts else {
            return Err(
                "expected `{key}` once in the path or query, as in `http://HOST:PORT/{key}`".into(),
            );
        };
        let uri: Uri = format!("http://{authority}{before}key{after}")
            .parse()
            .map_err(|error| format!("malformed URL: {error}"))?;
        if authority.contains('@') || target.contains('#') {
            return Err("a user or fragment is not allowed in an origin's URL".into());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = match uri.authority().and_then(|authority| authority.port()) {
            Some(port) => port.as_u16(),
            None if uri.host() != Some(authority) => {
                return Err("expected a port after the colon".into());
            }
            None => 80,
        };
        let (before, after) = (before.to_owned(), after.to_owned());
        Ok(OriginUrl { host, port, authority: authority.to_owned(), before, after })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}{KEY}{}", self.authority, self.before, self.after)
    }
}

impl OriginUrl {
    /// Path and query for a key, percent-encoded except for letters, digits and `-._~`.
    fn target(&self, key: &[u8]) -> String {
        let mut target =
            String::with_capacity(self.before.len() + 3 * key.len() + self.after.len());
        target.push_str(&self.before);
        target.extend(encoded(key).map(char::from));
        target.push_str(&self.after);
        target
    }
}

/// A key to fetch.
#[derive(Debug)]
struct Job {
    key: Box<[u8]>,
    ticket: u64,
    /// Marks of the new entry.
    marks: u8,
}

#[derive(Debug)]
enum Order {
    Fetch(Job),
    Http(Box<http::Job>),
    Stop,
}

/// The channel to the fetching thread.
#[derive(Debug)]
pub(crate) struct Fetches {
    orders: UnboundedSender<Order>,
    under_way: AtomicUsize,
    pub(crate) counts: FetchCounts,
}

/// The counts of the fetching thread.
#[derive(Debug, Default)]
pub(crate) struct FetchCounts {
    /// Fetches that have ended, with any result.
    pub(crate) fetches: AtomicU64,
    /// Fetches without an answer about the value; with an absent value; with an uncacheable one.
    pub(crate) failed: AtomicU64,
    pub(crate) absent: AtomicU64,
    pub(crate) uncacheable: AtomicU64,
}

impl FetchCounts {
    /// All counts, in the order above.
    pub(crate) fn all(&self) -> [u64; 4] {
        [&self.fetches, &self.failed, &self.absent, &self.uncacheable]
            .map(|count| count.load(Relaxed))
    }
}

/// The receiving end of the channel, for [`start`].
pub(crate) struct Orders(UnboundedReceiver<Order>);

impl Fetches {
    pub(crate) fn new() -> (Fetches, Orders) {
        let (orders, received) = unbounded_channel();
        let (under_way, counts) = (AtomicUsize::new(0), FetchCounts::default());
        (Fetches { orders, under_way, counts }, Orders(received))
    }

    /// Counts one more fetch, if there may be one more.
    pub(crate) fn admits(&self, origin: &Origin) -> bool {
        let is_full = self.under_way.fetch_add(1, Relaxed) >= origin.fetches;
        if is_full {
            self.under_way.fetch_sub(1, Relaxed);
        }
        !is_full
    }

    /// An admitted fetch has ended, or was not begun.
    pub(crate) fn ended(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// Begins an admitted fetch. If the thread is gone, the waiters reach their timeout.
    pub(crate) fn begin(&self, key: &[u8], ticket: u64, marks: u8) {
        let job = Job { key: key.into(), ticket, marks };
        if self.orders.send(Order::Fetch(job)).is_err() {
            self.ended();
        }
    }

    /// Begins a fetch for HTTP. False: the thread is gone.
    pub(crate) fn begin_http(&self, job: http::Job) -> bool {
        self.orders.send(Order::Http(Box::new(job))).is_ok()
    }

    fn count(&self, outcome: &Outcome) {
        self.counts.fetches.fetch_add(1, Relaxed);
        match outcome {
            Outcome::Failed => self.counts.failed.fetch_add(1, Relaxed),
            Outcome::Absent => self.counts.absent.fetch_add(1, Relaxed),
            Outcome::Value(value) if !value.is_shared => {
                self.counts.uncacheable.fetch_add(1, Relaxed)
            }
            Outcome::Value(_) => 0,
        };
    }

    pub(crate) fn stop(&self) {
        // The thread may be gone already.
        let _ = self.orders.send(Order::Stop);
    }
}

/// Starts the fetching thread.
pub(crate) fn start(
    shared: Arc<Shared>,
    orders: Orders,
    on_end: impl Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let thread = std::thread::Builder::new().name("fetch".to_owned());
    thread.spawn(move || {
        let _on_end = on_end;
        fetcher::run(shared, orders.0)
    })
}

/// The models fetch nothing, and tokio has no sockets under loom.
#[cfg(loom)]
mod fetcher {
    use super::{Arc, Order, Shared, UnboundedReceiver, io};

    pub(super) fn run(_: Arc<Shared>, _: UnboundedReceiver<Order>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::OriginUrl;

    #[test]
    fn a_key_is_one_segment_of_the_path_whatever_is_in_it() {
        let url: OriginUrl = "http://[::1]:8080/a/{key}?b=c".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port), ("::1", 8080));
        assert_eq!(url.target(b"x/../y z\r\n%?\xff"), "/a/x%2F..%2Fy%20z%0D%0A%25%3F%FF?b=c");
        assert_eq!(url.to_string(), "http://[::1]:8080/a/{key}?b=c");
    }

    #[test]
    fn invalid_urls_of_origins_are_refused() {
        for text in [
            "https://a/{key}",
            "a/{key}",
            "http://a/",
            "http://a/{key}{key}",
            "http:///{key}",
            "http://u@a/{key}",
            "http://a/{key}#b",
            "http://a:x/{key}",
            "http://a:/{key}",
            "http://a b/{key}",
        ] {
            assert!(text.parse::<OriginUrl>().is_err(), "{text}");
        }
    }
}
