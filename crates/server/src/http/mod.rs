//! HTTP/1.1 as a shared cache before an origin (RFC 9111): the state of a connection, and the course of a request.
//!
//! A request is answered from the cache, or waits at a [`flight::Flight`], which the fetching thread fills
//! ([`fetch`]). While it waits it stays unserved in the connection's input, and is parsed again on each wake-up. So
//! pipelined requests are answered in order, and a connection waits for one response at a time.

mod base;
mod chunked;
mod conditional;
mod date;
mod fetch;
mod flight;
mod forward;
mod freshness;
mod object;
mod reply;
mod request;
mod table;
mod vary;
mod wakes;

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::worker::{Next, Served, Turn};
use chunked::Arrived;
use conditional::Part;
use flight::{Framed, Look, Read, Reading};
use object::Object;
use reply::{Answered, Sends, Shape};
use request::{Framing, Method, NoRequest, Request};

pub use base::{BaseUrl, HttpOrigin};
pub(crate) use fetch::{Job, fetch};
pub(crate) use table::{Http, HttpCounts};

/// The reply to a connection beyond the limit.
pub(crate) const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Size of a request's body. A larger one is answered 413.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The HTTP state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    state: State,
    /// Length of the complete request that waits.
    request_bytes: usize,
    /// Where the next chunk of its body begins, and the bytes of data before it.
    chunk_at: usize,
    chunk_bytes: usize,
    /// The client got `100 Continue`.
    has_continued: bool,
    /// The response that others wait for does not answer this request.
    is_alone: bool,
    /// The connection is closed after the reply.
    closes: bool,
    /// The last request was refused, perhaps in its midst.
    is_refused: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Between requests: the next is to arrive, or is in the input.
    #[default]
    Idle,
    /// The request in the input waits for a response.
    Waits(Reading),
    /// A stored body is being sent, up to `end`.
    Sends { object: Arc<Object>, at: usize, end: usize },
    /// An arriving body is being sent. `left` counts the announced bytes still to come.
    Streams { reading: Reading, framed: Framed, left: Option<u64>, sleeps: bool },
}

/// The result of a step.
enum Step {
    /// The reply has begun.
    Answered,
    Waits,
    /// The request is incomplete: this many bytes are needed at least.
    Needs(usize),
    /// The reply is the last one of the connection.
    Refused,
}

/// The result of sending a body.
enum Sent {
    All,
    /// There is more, but the buffer is full.
    More,
    Sleeps,
    Broken,
}

impl Session {
    /// Whether it waits for the fetching thread.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.state, State::Waits(_) | State::Streams { sleeps: true, .. })
    }

    /// Whether the client may still be sending what was refused.
    pub(crate) fn lingers(&self) -> bool {
        self.is_refused
    }
}

/// Serves the requests in `input`, and appends their replies to those of the turn.
pub(crate) fn serve(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Served {
    let mut consumed = 0;
    loop {
        let next = match send_body(session, turn) {
            // A request that waits is the last, and not yet answered.
            Sent::All if session.closes && !session.waits() => Next::Close,
            Sent::All => {
                if !matches!(session.state, State::Waits(_))
                    && !turn.begins_request(&input[consumed..])
                {
                    return Served { consumed, next: Next::Send };
                }
                match step(session, &input[consumed..], turn) {
                    Step::Answered => {
                        consumed += session.request_bytes;
                        *session = Session {
                            state: std::mem::take(&mut session.state),
                            closes: session.closes,
                            ..Session::default()
                        };
                        continue;
                    }
                    Step::Waits => Next::Wait,
                    Step::Needs(bytes) => Next::Read(bytes),
                    Step::Refused => {
                        session.is_refused = true;
                        consumed = input.len();
                        Next::Close
                    }
                }
            }
            Sent::More => Next::Send,
            Sent::Sleeps => Next::Wait,
            Sent::Broken => Next::Close,
        };
        return Served { consumed, next };
    }
}

/// Appends as much of the current body as the buffer takes.
fn send_body(session: &mut Session, turn: &mut Turn<'_>) -> Sent {
    loop {
        let room = turn.out_max.saturating_sub(turn.out.len());
        match &mut session.state {
            State::Idle | State::Waits(_) => return Sent::All,
            State::Sends { object, at, end } => {
                let to = (*at + room).min(*end);
                turn.out.extend_from_slice(&object.body()[*at..to]);
                *at = to;
                if to < *end {
                    return Sent::More;
                }
                session.state = State::Idle;
            }
            State::Streams { reading, framed, left, sleeps } => {
                *sleeps = false;
                if room == 0 {
                    return Sent::More;
                }
                let before = turn.out.len();
                match reading.read(turn.out, room, *framed) {
                    Read::Some => {
                        let sent = (turn.out.len() - before) as u64;
                        *left = left.map(|left| left.saturating_sub(sent));
                        continue;
                    }
                    Read::Sleeps => {
                        *sleeps = true;
                        return Sent::Sleeps;
                    }
                    Read::Broken => return Sent::Broken,
                    Read::Whole if *framed == Framed::Chunked => {
                        turn.out.extend_from_slice(b"0\r\n\r\n");
                    }
                    // The body is shorter than announced: the client would wait for the rest.
                    Read::Whole if left.is_some_and(|left| left > 0) => return Sent::Broken,
                    Read::Whole => {}
                }
                session.state = State::Idle;
            }
        }
    }
}

/// Serves the request at the beginning of `input`.
fn step(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Step {
    let mut space = [const { MaybeUninit::uninit() }; request::FIELDS_MAX];
    let request = match request::parse(input, &mut space) {
        Ok(request) => request,
        Err(NoRequest::Partial) => return Step::Needs(input.len() + 1),
        Err(NoRequest::Bad(status)) => return refuse(turn, status),
    };
    if session.request_bytes == 0 {
        match arrived(session, &request, input, turn) {
            Ok(Arrived::Whole(bytes)) => session.request_bytes = bytes,
            Ok(Arrived::Needs(bytes)) => return Step::Needs(bytes),
            Err(status) => return refuse(turn, status),
        }
        turn.counters.http_requests.add(1);
    }
    session.closes = request.closes;
    if let State::Waits(reading) = std::mem::take(&mut session.state)
        && let Some(step) = resume(session, &request, reading, turn)
    {
        return step;
    }
    let body = &input[request.head_bytes..session.request_bytes];
    forward::answer(session, &request, body, turn)
}

/// How much of a request has arrived.
fn arrived(
    session: &mut Session,
    request: &Request<'_, '_>,
    input: &[u8],
    turn: &mut Turn<'_>,
) -> Result<Arrived, u16> {
    let head = request.head_bytes;
    let most = BODY_BYTES_MAX.min(turn.shared.shares.buffer_bytes / 2);
    let arrived = match request.framing {
        Framing::Empty => return Ok(Arrived::Whole(head)),
        Framing::Length(bytes) if bytes > most as u64 => return Err(413),
        Framing::Length(bytes) if input.len() < head + bytes as usize => {
            Arrived::Needs(head + bytes as usize)
        }
        Framing::Length(bytes) => Arrived::Whole(head + bytes as usize),
        Framing::Chunked => {
            session.chunk_at = session.chunk_at.max(head);
            let (at, bytes) = (&mut session.chunk_at, &mut session.chunk_bytes);
            // The framing of chunks counts too.
            if input.len() - head > 2 * most {
                return Err(413);
            }
            match chunked::look(input, at, bytes, most) {
                Ok(arrived) => arrived,
                Err(chunked::Refused::Bad) => return Err(400),
                Err(chunked::Refused::TooLarge) => return Err(413),
            }
        }
    };
    if matches!(arrived, Arrived::Needs(_)) && request.expects && !session.has_continued {
        session.has_continued = true;
        turn.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    Ok(arrived)
}

/// Rejects a malformed request. The requests after it are not served.
fn refuse(turn: &mut Turn<'_>, status: u16) -> Step {
    turn.counters.http_refused.add(1);
    let shape = Shape { is_head: false, is_1_1: true, closes: true };
    reply::own(turn.out, status, shape, turn.shared.items.clock.unix(), "");
    Step::Refused
}

/// Answers a request with a bare status.
fn answer_own(request: &Request<'_, '_>, turn: &mut Turn<'_>, status: u16, more: &str) -> Step {
    let unix = turn.shared.items.clock.unix();
    reply::own(turn.out, status, Shape::of(request), unix, more);
    Step::Answered
}

/// Answers a request with a stored response, or a part of it.
fn answer_stored(
    session: &mut Session,
    request: &Request<'_, '_>,
    object: &Arc<Object>,
    turn: &mut Turn<'_>,
    how: Answered,
) -> Step {
    let is_plain =
        !request.if_none_match && request.if_modified_since.is_none() && request.range.is_none();
    let part = match is_plain {
        true => Part::All,
        false => conditional::part(request, object, Some(object.body().len())),
    };
    let body = reply::stored(turn.out, object, part, Shape::of(request), turn.now_ms, how);
    let room = turn.out_max.saturating_sub(turn.out.len());
    if body.len() <= room {
        turn.out.extend_from_slice(&object.body()[body]);
    } else {
        session.state = State::Sends { object: Arc::clone(object), at: body.start, end: body.end };
    }
    Step::Answered
}

/// Continues a request that waits for a response. `None`: it starts again.
fn resume(
    session: &mut Session,
    request: &Request<'_, '_>,
    reading: Reading,
    turn: &mut Turn<'_>,
) -> Option<Step> {
    let is_for_it = |object: &Object| reading.is_first() || object.meta.vary.matches(request);
    match reading.look() {
        Look::Sleeps => {
            session.state = State::Waits(reading);
            return Some(Step::Waits);
        }
        Look::Failed(status) => return Some(answer_own(request, turn, status, "")),
        Look::Stored { object, validated } if is_for_it(&object) => {
            let how = if validated { Answered::Validated } else { Answered::StandsIn };
            return Some(answer_stored(session, request, &object, turn, how));
        }
        Look::Begun(begun) if is_for_it(&begun.object) => {
            let (object, shape) = (&begun.object, Shape::of(request));
            let is_whole = request.method == Method::Get && !forward::is_passed_on(request);
            if is_whole && conditional::part(request, object, None) == Part::NotModified {
                let how = answered(&begun, &reading);
                reply::stored(turn.out, object, Part::NotModified, shape, turn.now_ms, how);
                return Some(Step::Answered);
            }
            let is_first = reading.is_first();
            let forwarded = reading.flight.forwarded;
            let sends = reply::arriving(turn.out, &begun, is_first, shape, turn.now_ms, forwarded);
            let framed = if sends == Sends::Chunked { Framed::Chunked } else { Framed::Plain };
            let left = begun.length.filter(|_| sends == Sends::Plain);
            session.closes |= sends == Sends::UntilClosed;
            if sends != Sends::Nothing {
                session.state = State::Streams { reading, framed, left, sleeps: false };
            }
            return Some(Step::Answered);
        }
        Look::Alone | Look::Stored { .. } | Look::Begun(_) => session.is_alone = true,
    }
    None
}

fn answered(begun: &flight::Begun, reading: &Reading) -> Answered {
    Answered::Fetched {
        forwarded: reading.flight.forwarded,
        status: begun.object.meta.status,
        is_stored: begun.is_stored,
        is_collapsed: !reading.is_first(),
    }
}
