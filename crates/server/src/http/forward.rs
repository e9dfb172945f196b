//! The start of a request: answered from the cache, or forwarded to the origin.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{
    CONTENT_LENGTH, HOST, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, VIA,
};
use hyper::{HeaderMap, Uri};

use super::fetch::{Job, Target, method};
use super::flight::{Flight, Forwarded, Reading};
use super::freshness::Use;
use super::object::{Object, is_of_connection};
use super::reply::Answered;
use super::request::{Framing, Method, Request};
use super::table::{Begins, Http, weight};
use super::{HttpOrigin, Session, Step, answer_own, answer_stored, chunked};
use crate::origin::pool::Outgoing;
use crate::worker::Turn;

/// Whether the origin must see the request unchanged, with its conditions and ranges.
pub(super) fn is_passed_on(request: &Request<'_, '_>) -> bool {
    request.method != Method::Get || request.framing != Framing::Empty || request.is_for_origin
}

/// How a request is forwarded.
struct Plan {
    forwarded: Forwarded,
    stored: Option<Arc<Object>>,
    /// With its own conditions and ranges.
    as_it_is: bool,
    /// Other requests may not join it.
    is_alone: bool,
    may_store: bool,
}

impl Plan {
    fn passing(forwarded: Forwarded) -> Plan {
        Plan { forwarded, stored: None, as_it_is: true, is_alone: true, may_store: false }
    }
}

/// Answers a complete request.
pub(super) fn answer(
    session: &mut Session,
    request: &Request<'_, '_>,
    body: &[u8],
    turn: &mut Turn<'_>,
) -> Step {
    let shared = turn.shared;
    let (Some(http), Some(origin)) = (&shared.http, &shared.settings.http_origin) else {
        return answer_own(request, turn, 502, "");
    };
    let mut key = std::mem::take(turn.scratch);
    let default_port = if shared.tls.is_some() { ":443" } else { ":80" };
    request.key_into(&origin.base.authority, default_port, &mut key);
    let step = with_key(session, request, body, turn, (http, origin), &key);
    *turn.scratch = key;
    step
}

fn with_key(
    session: &mut Session,
    request: &Request<'_, '_>,
    body: &[u8],
    turn: &mut Turn<'_>,
    (http, origin): (&Http, &HttpOrigin),
    key: &[u8],
) -> Step {
    let way = Way { http, origin, key };
    match request.method {
        Method::Purge => return purge(request, turn, http, key),
        Method::Other { .. } => {
            return way.send(session, request, body, turn, Plan::passing(Forwarded::Method));
        }
        Method::Get | Method::Head => {}
    }
    if request.framing != Framing::Empty || request.is_for_origin {
        return way.send(session, request, body, turn, Plan::passing(Forwarded::Bypass));
    }
    loop {
        let plan = match way.look(session, request, turn) {
            Found::Answered(step) => return step,
            Found::Not(plan) => plan,
        };
        if request.asked.only_if_cached {
            return answer_own(request, turn, 504, "");
        }
        if plan.is_alone {
            return way.send(session, request, body, turn, plan);
        }
        // The response has been stored meanwhile, or the next look finds that it is not shared.
        let Some(step) = way.join(session, request, turn, plan) else { continue };
        return step;
    }
}

/// Purges a URL.
fn purge(request: &Request<'_, '_>, turn: &mut Turn<'_>, http: &Http, key: &[u8]) -> Step {
    let Some(token) = &turn.shared.settings.purge_token else {
        return answer_own(request, turn, 405, "allow: GET, HEAD\r\n");
    };
    let given = request.authorization.and_then(|given| {
        let (scheme, given) = given.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(given.trim_ascii())
    });
    if !given.is_some_and(|given| is_same(given, token)) {
        return answer_own(request, turn, 401, "www-authenticate: Bearer\r\n");
    }
    let was_there = http.invalidate(key);
    answer_own(request, turn, if was_there { 200 } else { 404 }, "")
}

/// Compares in constant time, so the time does not reveal the first difference.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differ = given.iter().zip(token).fold(0, |differ, (one, other)| differ | (one ^ other));
    given.len() == token.len() && differ == 0
}

enum Found {
    Answered(Step),
    Not(Plan),
}

/// The way of a request to the origin.
struct Way<'w> {
    http: &'w Http,
    origin: &'w HttpOrigin,
    key: &'w [u8],
}

impl Way<'_> {
    /// Answers from the cache, or returns how to ask the origin.
    fn look(&self, session: &mut Session, request: &Request<'_, '_>, turn: &mut Turn<'_>) -> Found {
        let asked = &request.asked;
        let pin = self.http.cache.pin();
        let variants = pin.get(self.key);
        let object = variants.and_then(|variants| variants.matching(request));
        if let Some(object) = object {
            let usable = object.meta.life.usable(turn.now_ms, asked);
            if usable != Use::No {
                turn.counters.http_hits.add(1);
                if self.http.requests.is_on() {
                    let bytes = variants.map(|variants| weight(self.key, variants));
                    self.http.requests.looked_up(self.key, bytes);
                }
                let left = object.meta.life.left_seconds(turn.now_ms);
                let step = answer_stored(session, request, object, turn, Answered::Hit(left));
                if usable == Use::Revalidating {
                    turn.counters.http_stale.add(1);
                    let object = Arc::clone(object);
                    drop(pin);
                    self.refresh(request, turn, object);
                }
                return Found::Answered(step);
            }
        }
        if self.http.requests.is_on() {
            self.http.requests.looked_up(self.key, None);
        }
        let is_own = asked.no_cache
            || asked.no_store
            || asked.max_age.is_some()
            || asked.min_fresh > 0
            || request.authorization.is_some();
        let is_head = request.method == Method::Head;
        let stored = object.filter(|object| !is_head && !asked.no_store && object.has_validator());
        let is_range = request.range.is_some() && stored.is_none();
        let forwarded = match (object, variants) {
            (Some(object), _) if object.meta.life.is_fresh(turn.now_ms) => Forwarded::Request,
            (Some(_), _) => Forwarded::Stale,
            (None, Some(_)) => Forwarded::VaryMiss,
            (None, None) => Forwarded::UriMiss,
        };
        let as_it_is = is_head || is_range;
        // A response that cannot be validated may still stand in for the origin.
        let stands_in = object.filter(|object| {
            !is_head && !asked.no_store && object.meta.life.stands_in(turn.now_ms)
        });
        Found::Not(Plan {
            forwarded,
            stored: stored.or(stands_in).filter(|_| !as_it_is).cloned(),
            as_it_is,
            is_alone: is_own || as_it_is || session.is_alone,
            may_store: !asked.no_store && !as_it_is,
        })
    }

    /// Fetches a stale response anew in the background, while clients get the stored one.
    fn refresh(&self, request: &Request<'_, '_>, turn: &mut Turn<'_>, object: Arc<Object>) {
        let forwarded = Forwarded::Stale;
        let begins = self.http.begin(self.key, forwarded, None, turn.now_ms, || false);
        if let Begins::First(flight) = begins {
            let plan = Plan {
                forwarded,
                stored: Some(object),
                as_it_is: false,
                is_alone: false,
                may_store: true,
            };
            // If it cannot be sent, the next request tries again.
            let _ = self.begin(request, &[], turn, plan, flight);
        }
    }

    /// Joins the fetch of a response, or begins it. `None`: the response has been stored.
    fn join(
        &self,
        session: &mut Session,
        request: &Request<'_, '_>,
        turn: &mut Turn<'_>,
        plan: Plan,
    ) -> Option<Step> {
        let is_present = || {
            let variants = self.http.cache.peek(self.key);
            let object = variants.as_ref().and_then(|variants| variants.matching(request));
            object.is_some_and(|object| {
                object.meta.life.usable(turn.now_ms, &request.asked) != Use::No
            })
        };
        let place = Some(turn.waits.place);
        match self.http.begin(self.key, plan.forwarded, place, turn.now_ms, is_present) {
            Begins::Look => None,
            Begins::Joined(reading) => {
                turn.counters.http_collapsed.add(1);
                Some(super::resume(session, request, reading, turn).unwrap_or_else(|| {
                    // The arriving response answers other requests only.
                    let plan = Plan { is_alone: true, ..plan };
                    self.send(session, request, &[], turn, plan)
                }))
            }
            Begins::First(flight) => {
                let reading = flight.join(turn.waits.place);
                Some(self.fly(session, request, &[], turn, plan, (flight, reading)))
            }
        }
    }

    /// Forwards a request whose response no other request shares.
    fn send(
        &self,
        session: &mut Session,
        request: &Request<'_, '_>,
        body: &[u8],
        turn: &mut Turn<'_>,
        plan: Plan,
    ) -> Step {
        let flight = self.http.alone(self.key, plan.forwarded);
        let reading = flight.join(turn.waits.place);
        self.fly(session, request, body, turn, plan, (flight, reading))
    }

    fn fly(
        &self,
        session: &mut Session,
        request: &Request<'_, '_>,
        body: &[u8],
        turn: &mut Turn<'_>,
        plan: Plan,
        (flight, reading): (Arc<Flight>, Option<Reading>),
    ) -> Step {
        if let Err(status) = self.begin(request, body, turn, plan, flight) {
            return answer_own(request, turn, status, "");
        }
        // Only a flight that has ended cannot be joined.
        let Some(reading) = reading else { return answer_own(request, turn, 502, "") };
        match super::resume(session, request, reading, turn) {
            Some(step) => step,
            None => answer_own(request, turn, 502, ""),
        }
    }

    /// Hands a request to the fetching thread. On failure the flight ends, and those who joined get the error.
    fn begin(
        &self,
        request: &Request<'_, '_>,
        body: &[u8],
        turn: &mut Turn<'_>,
        plan: Plan,
        flight: Arc<Flight>,
    ) -> Result<(), u16> {
        let fail = |status: u16| {
            self.http.leave(&flight, None);
            flight.fail(&self.http.wakes, status);
            Err(status)
        };
        let is_unsafe = request.method == Method::Other { is_safe: false };
        let Some(outgoing) = self.outgoing((request, turn.peer), body, &plan) else {
            return fail(400);
        };
        let invalidates = is_unsafe.then(|| {
            let host = self.key.len() - request.target.len();
            let host = String::from_utf8_lossy(&self.key[..host]).into_owned();
            Target { host, path: request.target.to_owned() }
        });
        if !self.http.admits(self.origin.fetches) {
            turn.counters.refused_fetches.add(1);
            return fail(503);
        }
        let job = Job {
            flight: Arc::clone(&flight),
            request: outgoing,
            stored: plan.stored,
            may_store: plan.may_store,
            is_authorized: request.authorization.is_some(),
            invalidates,
        };
        let is_sent = turn.shared.fetches.as_ref().is_some_and(|fetches| fetches.begin_http(job));
        if !is_sent {
            self.http.ended();
            return fail(502);
        }
        Ok(())
    }

    /// The request as sent to the origin. `None`: it cannot be written.
    fn outgoing(
        &self,
        (request, peer): (&Request<'_, '_>, Option<IpAddr>),
        body: &[u8],
        plan: &Plan,
    ) -> Option<hyper::Request<Outgoing>> {
        let mut fields = fields_of(request, plan)?;
        if let Some(peer) = peer {
            fields.insert(HeaderName::from_static(FORWARDED_FOR), forwarded_for(request, peer)?);
        }
        let host = match request.host {
            b"" => self.origin.base.authority.as_bytes(),
            host => host,
        };
        fields.insert(HOST, HeaderValue::from_bytes(host).ok()?);
        if let Some(stored) = plan.stored.as_ref() {
            let meta = &stored.meta;
            for (name, value) in
                [(IF_NONE_MATCH, &meta.etag), (IF_MODIFIED_SINCE, &meta.last_modified_text)]
            {
                if let Some(value) = value {
                    fields.insert(name, HeaderValue::from_bytes(value).ok()?);
                }
            }
        }
        let body = match request.framing {
            Framing::Empty => Bytes::new(),
            Framing::Length(_) => Bytes::copy_from_slice(body),
            Framing::Chunked => Bytes::from(chunked::data(body, 0)),
        };
        if !body.is_empty() || request.method == (Method::Other { is_safe: false }) {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let mut outgoing = hyper::Request::new(Outgoing(body));
        *outgoing.method_mut() = method(request.method_name)?;
        let target = format!("{}{}", self.origin.base.prefix, request.target);
        *outgoing.uri_mut() = target.parse::<Uri>().ok()?;
        *outgoing.headers_mut() = fields;
        Some(outgoing)
    }
}

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The addresses that the request names, and its client's behind them.
fn forwarded_for(request: &Request<'_, '_>, peer: IpAddr) -> Option<HeaderValue> {
    let mut list = Vec::new();
    for given in request.values(FORWARDED_FOR) {
        list.extend_from_slice(given);
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(peer.to_canonical().to_string().as_bytes());
    HeaderValue::from_bytes(&list).ok()
}

/// Conditional fields that this cache answers itself.
const ANSWERED_HERE: [&str; 4] = ["if-none-match", "if-modified-since", "range", "if-range"];

/// The fields of a request that are forwarded.
fn fields_of(request: &Request<'_, '_>, plan: &Plan) -> Option<HeaderMap> {
    let listed = |name: &str| {
        let lists = request.values("connection");
        let mut names = lists.flat_map(|list| list.split(|&byte| byte == b','));
        names.any(|of| of.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let mut fields = HeaderMap::with_capacity(request.fields.len() + 4);
    for field in request.fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let is_dropped = is_of_connection(name.as_str())
            || matches!(name.as_str(), "expect" | "host" | "http2-settings")
            || !plan.as_it_is && ANSWERED_HERE.contains(&name.as_str())
            || listed(name.as_str());
        // Origins that read `_` as `-` would take it for a field that this cache has not seen.
        let is_double = name.as_str().contains('_') && {
            let read = name.as_str().replace('_', "-");
            is_of_connection(&read) || matches!(&*read, "expect" | "host" | FORWARDED_FOR)
        };
        if !is_dropped && !is_double {
            fields.append(name, HeaderValue::from_bytes(field.value).ok()?);
        }
    }
    let version = if request.is_1_1 { "1.1 frazil" } else { "1.0 frazil" };
    fields.append(VIA, HeaderValue::from_static(version));
    Some(fields)
}
