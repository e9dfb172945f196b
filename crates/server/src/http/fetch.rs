//! Fetches from the origin, and the use of its responses. Runs on the fetching thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_LOCATION, DATE, ETAG, HeaderName, LAST_MODIFIED, LOCATION, SET_COOKIE,
    TRANSFER_ENCODING,
};
use hyper::{HeaderMap, Method, Request, Response};

use super::flight::{Begun, Flight, Room};
use super::freshness::{self, Times};
use super::object::{Meta, Object, is_of_connection, listed, updated};
use super::request::canonical;
use super::table::Http;
use super::vary::Vary;
use super::{base::HttpOrigin, date};
use crate::cache_control::Said;
use crate::origin::pool::{Outgoing, Pool};
use crate::server::Shared;

/// Timeout for the next bytes of a body, in multiples of that for a head.
const BODY_PATIENCE: u32 = 6;

/// A request to send to the origin.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) flight: Arc<Flight>,
    pub(crate) request: Request<Outgoing>,
    /// The stored response to validate.
    pub(crate) stored: Option<Arc<Object>>,
    /// Whether the response may be stored if its fields permit it.
    pub(crate) may_store: bool,
    pub(crate) is_authorized: bool,
    /// The URL that a successful response invalidates.
    pub(crate) invalidates: Option<Target>,
}

/// The URL of an unsafe request.
#[derive(Debug)]
pub(crate) struct Target {
    /// In lower case.
    pub(crate) host: String,
    pub(crate) path: String,
}

/// A fetch. Its flight ends at the latest when this is dropped.
struct Fetch<'f> {
    http: &'f Http,
    shared: &'f Shared,
    flight: Arc<Flight>,
    stores_cookies: bool,
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.http.leave(&self.flight, None);
        // Without effect if the flight has ended.
        self.flight.fail(&self.http.wakes, 502);
        self.http.ended();
        self.http.counts.fetches.fetch_add(1, Relaxed);
    }
}

/// Fetches the response to a request.
pub(crate) async fn fetch(shared: &Shared, origin: &HttpOrigin, pool: &Arc<Pool>, job: Job) {
    let Some(http) = &shared.http else { return };
    let stores_cookies = origin.stores_cookies;
    let fetch = Fetch { http, shared, flight: Arc::clone(&job.flight), stores_cookies };
    let patience = Duration::from_millis(origin.timeout_ms);
    let asked_ms = shared.items.clock.update();
    let asked = tokio::time::timeout(patience, ask(pool, job.request)).await;
    let (response, sender, request) = match asked {
        Ok(Some(answer)) => answer,
        Ok(None) => return fetch.failed(job.stored.as_ref(), 502),
        Err(_) => return fetch.failed(job.stored.as_ref(), 504),
    };
    let received_ms = shared.items.clock.update();
    let times = Times { asked_ms, received_ms, received_unix_ms: shared.items.clock.unix_ms() };
    let (mut head, body) = response.into_parts();
    let status = head.status.as_u16();
    // No request asks for another protocol, so this answers none.
    if status < 200 {
        return fetch.failed(job.stored.as_ref(), 502);
    }
    if let Some(stored) = &job.stored {
        let stands_in = stored.meta.life.stands_in(received_ms);
        if matches!(status, 500 | 502 | 503 | 504) && stands_in {
            return fetch.failed(Some(stored), status);
        }
        if status == 304 {
            if !fetch.stores_cookies {
                head.headers.remove(SET_COOKIE);
            }
            let response = Head { fields: &head.headers, status, times };
            fetch.validated(stored, &response, &request);
            return pool.keep(sender);
        }
    }
    if let Some(target) = &job.invalidates
        && (200..400).contains(&status)
    {
        target.invalidate(http, &job.flight.key, &head.headers);
    }
    let reason = head.extensions.get::<hyper::ext::ReasonPhrase>();
    let reason = reason.map_or(head.status.canonical_reason().unwrap_or("").as_bytes(), |reason| {
        reason.as_bytes()
    });
    let response = Head { fields: &head.headers, status, times };
    fetch.begin(&response, reason, &request, job.may_store, job.is_authorized);
    let with_readers = Duration::from_millis(origin.reader_timeout_ms);
    if fetch.body(body, patience * BODY_PATIENCE, with_readers).await {
        pool.keep(sender);
    }
}

type Answer = (Response<Incoming>, crate::origin::pool::Sender, HeaderMap);

/// Sends a request. An idempotent one is tried on a kept connection first, and sent again on a new one if the origin
/// has closed that meanwhile. Any other is sent on a new connection.
async fn ask(pool: &Arc<Pool>, request: Request<Outgoing>) -> Option<Answer> {
    let fields = request.headers().clone();
    if request.method().is_idempotent()
        && let Some(mut sender) = pool.kept()
        && let Ok(response) = sender.send(again(&request)).await
    {
        return Some((response, sender, fields));
    }
    let mut sender = pool.connect().await?;
    let response = sender.send(request).await.ok()?;
    Some((response, sender, fields))
}

fn again(request: &Request<Outgoing>) -> Request<Outgoing> {
    let mut again = Request::new(request.body().clone());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    again
}

/// The head of a response.
struct Head<'r> {
    fields: &'r HeaderMap,
    status: u16,
    times: Times,
}

impl Head<'_> {
    /// The metadata of the response. `None`: it answers no other request.
    fn meta(&self, request: &HeaderMap) -> (Meta, bool) {
        let vary = Vary::of(self.fields, request);
        let is_for_others = vary.is_some();
        let boxed = |name: HeaderName| -> Option<Box<[u8]>> {
            self.fields.get(name).map(|value| value.as_bytes().trim_ascii().into())
        };
        let meta = Meta {
            status: self.status,
            life: freshness::life(self.fields, self.status, self.times),
            vary: vary.unwrap_or_default(),
            etag: boxed(ETAG),
            date: freshness::date(self.fields, self.times),
            last_modified: freshness::last_modified(self.fields, self.times),
            last_modified_text: boxed(LAST_MODIFIED),
        };
        (meta, is_for_others)
    }

    /// Status line and fields for all clients, then the fields for the first one only.
    fn write(&self, reason: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(format!("HTTP/1.1 {} ", self.status).as_bytes());
        bytes.extend_from_slice(reason);
        bytes.extend_from_slice(b"\r\n");
        let (listed, withheld) = (listed(self.fields), Said::of(self.fields).0.withheld);
        let mut for_one = Vec::new();
        for (name, value) in self.fields {
            let name = name.as_str();
            if is_of_connection(name) || listed.iter().any(|of| of == name) {
                continue;
            }
            let is_for_one = withheld.iter().any(|of| of == name);
            let bytes = if is_for_one { &mut for_one } else { &mut bytes };
            for part in [name.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        if !self.fields.contains_key(DATE) {
            bytes.extend_from_slice(b"date: ");
            date::write(&mut bytes, self.times.unix());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"via: 1.1 frazil\r\n");
        (bytes, for_one)
    }
}

impl Fetch<'_> {
    fn now_ms(&self) -> u64 {
        self.shared.items.clock.update()
    }

    /// No response came: a stored one may stand in for it.
    fn failed(&self, stored: Option<&Arc<Object>>, status: u16) {
        self.http.counts.failed.fetch_add(1, Relaxed);
        self.http.leave(&self.flight, None);
        let now_ms = self.now_ms();
        match stored.filter(|stored| stored.meta.life.stands_in(now_ms)) {
            Some(stored) => {
                self.flight.stored(&self.http.wakes, Arc::clone(stored), true, false);
            }
            None => self.flight.fail(&self.http.wakes, status),
        }
    }

    /// The origin has validated the stored response.
    fn validated(&self, stored: &Arc<Object>, response: &Head<'_>, request: &HeaderMap) {
        self.http.counts.validated.fetch_add(1, Relaxed);
        let (mut meta, _) = response.meta(request);
        // Fields that the 304 omits are unchanged.
        let mut fields = stored_fields(stored);
        // Without a date it is dated now.
        fields.remove(DATE);
        for name in response.fields.keys() {
            fields.remove(name);
        }
        for (name, value) in response.fields {
            fields.append(name.clone(), value.clone());
        }
        meta.life = freshness::life(&fields, stored.meta.status, response.times);
        let (head, _) = response.write(b"");
        let object = Arc::new(updated(stored, meta, &head));
        let is_shared = object.meta.life.is_fresh(response.times.received_ms);
        self.http.store(&self.flight, &object);
        if !is_shared {
            self.http.leave(&self.flight, Some(response.times.received_ms));
        }
        self.flight.stored(&self.http.wakes, object, is_shared, true);
    }

    /// Whether a response sets a cookie, which would make its client another's.
    fn is_for_one(&self, fields: &HeaderMap) -> bool {
        let sets = !self.stores_cookies && fields.contains_key(SET_COOKIE);
        sets && !Said::of(fields).0.withheld.iter().any(|name| name == SET_COOKIE.as_str())
    }

    /// The head has arrived.
    fn begin(
        &self,
        response: &Head<'_>,
        reason: &[u8],
        request: &HeaderMap,
        may_store: bool,
        is_authorized: bool,
    ) {
        let (fields, status) = (response.fields, response.status);
        let (meta, is_for_others) = response.meta(request);
        let now_ms = response.times.received_ms;
        let is_fresh = meta.life.is_fresh(now_ms);
        let (head, withheld) = response.write(reason);
        let is_storable = may_store
            && is_for_others
            && !self.is_for_one(fields)
            && freshness::is_storable(fields, status, is_authorized, response.times);
        // With a transfer coding, Content-Length does not hold.
        let length = fields.get(CONTENT_LENGTH).filter(|_| !fields.contains_key(TRANSFER_ENCODING));
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let object = Arc::new(Object::new(meta, head.clone(), head.len()));
        // A response that is stale on arrival is worth storing only if it can be validated or used stale.
        let may_be_stale = object.meta.life.may_be_stale(now_ms);
        let is_useful = is_fresh || object.has_validator() || may_be_stale;
        let is_small = length.is_none_or(|length| length <= self.http.bounds.object_max as u64);
        let is_stored = is_storable && is_useful && is_small;
        let is_shared = is_storable && is_fresh && is_small;
        if !is_shared {
            // It is unknown what unauthorized clients would get.
            self.http.leave(&self.flight, (may_store && !is_authorized).then_some(now_ms));
        }
        let begun = Begun { object, length, withheld: withheld.into(), is_shared, is_stored };
        self.flight.begin(&self.http.wakes, begun, &head);
    }

    /// Reads the body. True: the connection can be reused.
    async fn body(&self, mut body: Incoming, patience: Duration, with_readers: Duration) -> bool {
        let (flight, wakes) = (&self.flight, &self.http.wakes);
        let mut blocked = Duration::ZERO;
        loop {
            if !self.waits_for_room(with_readers, &mut blocked).await {
                return false;
            }
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let frame = match tokio::time::timeout(patience, frame).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(_))) | Err(_) => return false,
            };
            let Some(data) = frame.data_ref() else { continue };
            if flight.keeps() && !flight.may_keep(data.len()) {
                self.http.leave(flight, Some(self.now_ms()));
                flight.let_go();
            }
            flight.push(wakes, data);
        }
        if let Some(object) = flight.complete() {
            self.http.store(flight, &object);
        }
        flight.end(wakes);
        true
    }

    /// Waits until there is space for more of the body. False: no reader is left. `blocked` is the total time for
    /// which readers have stalled others.
    async fn waits_for_room(&self, patience: Duration, blocked: &mut Duration) -> bool {
        loop {
            match self.flight.room() {
                Room::Is => return true,
                Room::Gone => return false,
                Room::Full => {
                    let begun = Instant::now();
                    let waits = self.flight.wait_for_room();
                    let left = patience.saturating_sub(*blocked);
                    let has_moved = tokio::time::timeout(left, waits).await.is_ok();
                    // A lone reader may be slow. Beside others its time is counted, because it stalls them.
                    if self.flight.has_several_readers() {
                        *blocked += begun.elapsed();
                    }
                    if !has_moved || *blocked >= patience {
                        self.flight.cut(&self.http.wakes);
                        *blocked = Duration::ZERO;
                    }
                }
            }
        }
    }
}

/// The fields of a stored response, parsed.
fn stored_fields(stored: &Object) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in super::object::lines(stored.fields()) {
        let name = super::object::name_of(line);
        let value = line.get(name.len() + 1..).unwrap_or_default().trim_ascii();
        let (name, value) = (
            HeaderName::from_bytes(name),
            hyper::header::HeaderValue::from_maybe_shared(Bytes::copy_from_slice(value)),
        );
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}

fn is_secure(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https:")
}

impl Target {
    /// Invalidates the URL, and the URLs of the same host that the response names.
    fn invalidate(&self, http: &Http, key: &[u8], fields: &HeaderMap) {
        http.invalidate(key);
        for name in [LOCATION, CONTENT_LOCATION] {
            let value = fields.get(name).and_then(|value| value.to_str().ok());
            if let Some(path) = value.and_then(|value| self.resolve(value)) {
                http.invalidate(format!("{}{path}", self.host).as_bytes());
            }
        }
    }

    /// Path and query of a reference, if it names the same host.
    fn resolve(&self, reference: &str) -> Option<String> {
        let reference = reference.split('#').next().unwrap_or_default();
        let absolute = ["http://", "https://", "//"].into_iter().find_map(|scheme| {
            let begins = reference.get(..scheme.len())?.eq_ignore_ascii_case(scheme);
            begins.then(|| &reference[scheme.len()..])
        });
        if let Some(rest) = absolute {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let path = if path.is_empty() { "/" } else { path };
            let port = if reference.get(..6).is_some_and(is_secure) { ":443" } else { ":80" };
            let host = canonical(host.as_bytes(), port);
            return host.eq_ignore_ascii_case(self.host.as_bytes()).then(|| path.to_owned());
        }
        if reference.starts_with('/') {
            return Some(reference.to_owned());
        }
        if reference.is_empty() {
            return Some(self.path.clone());
        }
        let path = self.path.split('?').next().unwrap_or_default();
        let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        Some(format!("{folder}{reference}"))
    }
}

/// The method of this name; `None` if malformed.
pub(crate) fn method(name: &str) -> Option<Method> {
    Method::from_bytes(name.as_bytes()).ok()
}
