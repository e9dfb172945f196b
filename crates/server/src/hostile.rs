//! Sessions without sockets, for hostile input: the bytes of one client, cut anywhere, against a server of their own.
//!
//! This is the loop of `worker.rs` in small. It keeps the rest of the input that is not served yet, serves a session only when
//! the bytes that it wants have arrived, and bounds the replies of a turn. The clock stands still, and no request waits for
//! another.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use mio::net::UnixStream;
use mio::{Poll, Waker};

use crate::counters::Counters;
use crate::hot::HotKeys;
use crate::http::{BaseUrl, HttpOrigin};
use crate::items::Items;
use crate::listen::{Address, Stream};
use crate::mail::{Mail, Place};
use crate::memcached::Memcached;
use crate::origin::{Fetches, Orders};
use crate::quotas::Quotas;
use crate::resp::Resp;
use crate::server::{Shared, http_cache};
use crate::session::{self, Protocol, Session};
use crate::settings::{ITEM_BYTES_MAX, Limits, MEMORY_BYTES_MIN, Settings, Shares};
use crate::turnstile::Turnstile;
use crate::waits::{Added, HOLES_MAX};
use crate::worker::{Next, REPLY_BYTES, Served, Turn, WAKE};

/// 2026-01-01.
const UNIX_SECONDS: u64 = 1_767_225_600;
/// Bytes by which replies may exceed a turn's bound: those of the request that reached it.
const LAST_REPLY_BYTES: usize = ITEM_BYTES_MAX + (64 << 10);
/// The most turns in a row in which a session neither consumes input nor replies.
const IDLE_TURNS_MAX: usize = 10_000;
/// A client disconnects after this many bytes of replies.
const REPLIES_MAX: usize = 4 << 20;

/// The protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Text and meta.
    Memcached,
    /// RESP2, RESP3 and lines of words.
    Resp,
    /// HTTP/1.1; without an origin each request that is understood is answered 502.
    Http,
    /// HTTP/1.1 with an origin that never answers: the first request that needs a fetch is the last one served.
    HttpWithOrigin,
}

/// The server's replies to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// All replies, concatenated.
    pub replies: Vec<u8>,
    /// The server has closed the connection.
    pub is_closed: bool,
    /// The client has disconnected, because it was sent too much.
    pub has_gone: bool,
}

/// Descriptors that successive servers reuse.
struct Outside {
    _poll: Poll,
    wakers: Arc<[Waker]>,
    /// Never read or written.
    stream: Stream,
}

thread_local! {
    static OUTSIDE: RefCell<Option<Outside>> = const { RefCell::new(None) };
}

impl Outside {
    fn new() -> io::Result<Outside> {
        let poll = Poll::new()?;
        let wakers = Arc::new([Waker::new(poll.registry(), WAKE)?]);
        let (stream, _) = UnixStream::pair()?;
        Ok(Outside { _poll: poll, wakers, stream: Stream::Unix(stream) })
    }
}

/// Serves the bytes of a client in pieces that end at `cuts`, which ascend. Cuts outside `bytes` are ignored.
///
/// # Panics
///
/// If session or loop breaks a bound or their contract, which is what callers test; or if the system has no descriptors left.
pub fn serve(speaks: Speaks, bytes: &[u8], cuts: &[usize]) -> Told {
    OUTSIDE.with_borrow_mut(|outside| {
        let outside = outside.get_or_insert_with(|| Outside::new().expect("descriptors"));
        let (shared, _orders) = server(speaks, outside);
        let protocol = match speaks {
            Speaks::Memcached => Protocol::Memcached,
            Speaks::Resp => Protocol::Resp,
            Speaks::Http | Speaks::HttpWithOrigin => Protocol::Http,
        };
        let place = Place { thread: 0, slot: 0 };
        let mut client = Client {
            session: Session::new(protocol, &outside.stream, place, &shared),
            shared: &shared,
            input: Vec::new(),
            wanted: 0,
            out: Vec::new(),
            scratch: Vec::new(),
            added: Added::new(0),
            told: Told { replies: Vec::new(), is_closed: false, has_gone: false },
        };
        let mut from = 0;
        for &to in cuts.iter().chain([&bytes.len()]) {
            if from < to && to <= bytes.len() {
                client.send(&bytes[from..to]);
                from = to;
            }
        }
        client.told
    })
}

fn server(speaks: Speaks, outside: &Outside) -> (Shared, Option<Orders>) {
    let address = || vec![Address::Unix("hostile".into())];
    let none = Vec::new;
    let (memcached, resp, http) = match speaks {
        Speaks::Memcached => (address(), none(), none()),
        Speaks::Resp => (none(), address(), none()),
        Speaks::Http | Speaks::HttpWithOrigin => (none(), none(), address()),
    };
    let has_origin = speaks == Speaks::HttpWithOrigin;
    let base = || "http://127.0.0.1:1/base".parse::<BaseUrl>().expect("a URL");
    let settings = Settings {
        memcached,
        resp,
        http,
        memory_bytes: MEMORY_BYTES_MIN,
        // A request's wait depends on earlier requests, and so on the cuts.
        limits: Limits { waiters: 0, ..Limits::default() },
        http_origin: has_origin.then(|| HttpOrigin::new(base())),
        purge_token: has_origin.then(|| b"token".to_vec()),
        ..Settings::default()
    };
    let shares = Shares::of(&settings);
    let wakers = Arc::clone(&outside.wakers);
    let mut items = Items::new(&settings, shares, Mail::new(Arc::clone(&wakers))).expect("a store");
    items.clock.set_unix(UNIX_SECONDS);
    let (fetches, orders) = has_origin.then(Fetches::new).unzip();
    let shared = Shared {
        shares,
        items,
        access: None,
        tls: None,
        memcached: Memcached::new(&settings).expect("no users"),
        resp: Resp::new(&settings, None),
        hot: HotKeys::new(1),
        http: http_cache(&settings, shares, &wakers).expect("a cache"),
        turnstile: Turnstile::new(1),
        fetches,
        counters: [Counters::default()].into(),
        connections: Quotas::new(&settings),
        held_bytes: AtomicUsize::new(0),
        stops: AtomicBool::new(false),
        drains_until_ms: AtomicU64::new(u64::MAX),
        addresses: Vec::new(),
        wakers,
        settings,
    };
    (shared, orders)
}

struct Client<'s> {
    session: Session,
    shared: &'s Shared,
    /// Bytes received and not yet served.
    input: Vec<u8>,
    /// Bytes that the session needs before it is served again.
    wanted: usize,
    out: Vec<u8>,
    scratch: Vec<u8>,
    added: Added,
    told: Told,
}

impl Client<'_> {
    fn send(&mut self, piece: &[u8]) {
        if self.told.is_closed || self.told.has_gone || self.session.waits() {
            return;
        }
        self.input.extend_from_slice(piece);
        if self.input.len() < self.wanted {
            return;
        }
        let mut idle = 0;
        loop {
            let (taken, replied, next) = self.turn();
            idle = if taken + replied > 0 { 0 } else { idle + 1 };
            assert!(idle < IDLE_TURNS_MAX, "the session goes on for ever");
            self.told.has_gone = self.told.replies.len() > REPLIES_MAX;
            match next {
                Next::Send if !self.told.has_gone => {}
                Next::Read(wanted) => {
                    assert!(wanted > self.input.len(), "{wanted} bytes are there and wanted");
                    self.wanted = wanted;
                    return;
                }
                Next::Close => {
                    self.told.is_closed = true;
                    return;
                }
                Next::Send | Next::Wait => return,
            }
        }
    }

    /// One turn: the bytes taken, those replied, what the session waits for.
    fn turn(&mut self) -> (usize, usize, Next) {
        (self.added.room, self.wanted) = (HOLES_MAX, 0);
        let now_ms = self.shared.items.clock.now_ms();
        let (out, scratch, added) = (&mut self.out, &mut self.scratch, &mut self.added);
        let mut turn = Turn::begin(self.shared, 0, now_ms, out, scratch, added);
        let Served { consumed, next } = session::serve(&mut self.session, &self.input, &mut turn);
        drop(turn);
        assert!(consumed <= self.input.len(), "{consumed} of {} bytes taken", self.input.len());
        assert!(self.added.parts.is_empty(), "a reply waits");
        let replied = self.out.len();
        assert!(replied <= REPLY_BYTES + LAST_REPLY_BYTES, "{replied} bytes in one turn");
        self.input.drain(..consumed);
        self.added.leases.clear();
        self.told.replies.append(&mut self.out);
        (consumed, replied, next)
    }
}
