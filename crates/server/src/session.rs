//! The protocol of a connection: the loop calls one function of it.

use crate::listen::Stream;
use crate::mail::{News, Place};
use crate::server::Shared;
use crate::worker::{Served, Turn};
use crate::{http, memcached, resp};

/// A protocol of clients, chosen by the address they connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Memcached,
    Resp,
    Http,
}

impl Protocol {
    /// The reply to a client whose connection exceeds the limit.
    pub(crate) fn too_many_connections(self) -> &'static [u8] {
        match self {
            Protocol::Memcached => memcached::TOO_MANY_CONNECTIONS,
            Protocol::Resp => resp::TOO_MANY_CONNECTIONS,
            Protocol::Http => http::TOO_MANY_CONNECTIONS,
        }
    }
}

/// The state of a connection's protocol between wake-ups.
#[derive(Debug)]
pub(crate) enum Session {
    Memcached(memcached::Session),
    Resp(resp::Session),
    Http(http::Session),
}

impl Session {
    pub(crate) fn new(
        protocol: Protocol,
        stream: &Stream,
        place: Place,
        shared: &Shared,
    ) -> Session {
        match protocol {
            Protocol::Memcached => Session::Memcached(memcached::Session::new(shared)),
            Protocol::Resp => Session::Resp(resp::Session::new(stream, place, shared)),
            Protocol::Http => Session::Http(http::Session::default()),
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Session::Memcached(_) => Protocol::Memcached,
            Session::Resp(_) => Protocol::Resp,
            Session::Http(_) => Protocol::Http,
        }
    }

    /// Bytes of memory beyond those of a connection without a request.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Session::Memcached(_) | Session::Http(_) => 0,
            Session::Resp(session) => session.held_bytes(),
        }
    }

    /// Whether it waits for another thread, and is not read meanwhile.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Session::Http(session) if session.waits())
    }

    /// Whether the client may still be sending a refused request.
    pub(crate) fn lingers(&self) -> bool {
        matches!(self, Session::Http(session) if session.lingers())
    }

    /// Whether it is inside a request of which it keeps nothing, and which it passes over as it arrives.
    pub(crate) fn is_within_request(&self) -> bool {
        match self {
            Session::Memcached(session) => session.is_within_request(),
            Session::Resp(session) => session.is_within_request(),
            Session::Http(_) => false,
        }
    }

    /// Whether another connection has killed it, or its user was changed.
    pub(crate) fn is_killed(&self) -> bool {
        match self {
            Session::Memcached(session) => session.pass().is_revoked(),
            Session::Resp(session) => session.is_killed(),
            Session::Http(_) => false,
        }
    }

    /// Whether a password is being verified. Until then nothing is served.
    pub(crate) fn waits_for_verdict(&self) -> bool {
        match self {
            Session::Memcached(session) => session.pass().waits(),
            Session::Resp(session) => session.pass().waits(),
            Session::Http(_) => false,
        }
    }
}

/// Serves all complete requests in `input`, and appends their replies to those of the turn.
pub(crate) fn serve(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Served {
    match session {
        Session::Memcached(session) => memcached::serve(session, input, turn),
        Session::Resp(session) => resp::serve(session, input, turn),
        Session::Http(session) => http::serve(session, input, turn),
    }
}

/// A request to answer at the end of its wait.
#[derive(Debug)]
pub(crate) enum Ask {
    Memcached(memcached::Ask),
    Resp(resp::Ask),
}

impl Ask {
    /// Bytes of memory outside of this enum.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ask::Memcached(ask) => ask.bytes(),
            Ask::Resp(_) => 0,
        }
    }
}

/// Answers a request at the end of its wait, or waits again.
pub(crate) fn answer_late(key: &[u8], ask: &Ask, news: News, turn: &mut Turn<'_>) {
    match ask {
        Ask::Memcached(ask) => memcached::answer_late(key, ask, news, turn),
        Ask::Resp(ask) => resp::answer_late(key, ask, news, turn),
    }
}
