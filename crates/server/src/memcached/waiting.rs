//! Requests that wait: how they are kept, and how they are answered when the wait has ended.

use std::time::Duration;

use super::lookups::{self, Shape};
use super::operate::WON;
use super::{Tokens, meta};
use crate::mail::{News, Outcome};
use crate::marks::is_placeholder;
use crate::server::Shared;
use crate::session;
use crate::waits::{Lease, Missing};
use crate::worker::Turn;

/// What is to be answered when the wait for a key has ended.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A key of `get` or `gets`.
    Get(Shape),
    /// The line of `mg`.
    Meta(Box<[u8]>),
}

impl From<Ask> for session::Ask {
    fn from(ask: Ask) -> session::Ask {
        session::Ask::Memcached(ask)
    }
}

impl Ask {
    /// Bytes of memory beside this.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ask::Get(_) => 0,
            Ask::Meta(line) => line.len(),
        }
    }
}

/// Answers a request whose wait has ended, or has it wait again.
pub(crate) fn answer_late(key: &[u8], ask: &Ask, news: News, turn: &mut Turn<'_>) {
    let fetched = match &news {
        News::Fetched(Outcome::Value(value)) => Some(&**value),
        _ => None,
    };
    match ask {
        Ask::Meta(line) => meta::get_again(Tokens::of(line).all(), fetched, turn),
        Ask::Get(shape) => match fetched {
            Some(fetched) => {
                let cas = shape.cas.then_some(fetched.cas);
                lookups::answer(turn.out, key, 0, &fetched.value, cas);
                lookups::end(*shape, turn);
            }
            None => lookups::get_or_fetch(key, *shape, turn),
        },
    }
}

/// Whether a client has won the key, and has not brought its value.
pub(crate) fn is_won(key: &[u8], shared: &Shared) -> bool {
    lease_left_ms(key, shared).is_some()
}

/// How long who has won the key still has to bring its value; `None`: it has not to.
pub(crate) fn lease_left_ms(key: &[u8], shared: &Shared) -> Option<u64> {
    let left = shared.items.store.peek(key, |entry| {
        let left = entry.lifetime.map_or(u64::MAX, |left| left.as_millis() as u64);
        (entry.marks & WON != 0).then_some(left)
    });
    left.flatten()
}

/// Who waited under a ticket, or holds the lease, does not any more. If nobody else waits, the next client wins. For a
/// thread that is not serving a request.
pub(crate) fn give_up(shared: &Shared, thread: usize, lease: &Lease) {
    let store = &shared.items.store;
    // Who runs alone sees no lease pass on. Before the flights are locked, as by all.
    let _place = shared.turnstile.enter(thread);
    shared.items.flights.leave(&lease.key, lease.ticket, || {
        let placeholder =
            store.peek(&lease.key, |entry| is_placeholder(&entry).then_some(entry.cas));
        if let Some(Some(cas)) = placeholder {
            store.delete_exactly(&lease.key, cas);
            return;
        }
        let mut value = Vec::new();
        // What finds no memory stays won until its lifetime ends.
        let _ = store.update(&lease.key, &mut value, |entry, value| {
            if entry.marks & WON == 0 {
                return frazil_segment::Update::Leave(());
            }
            value.extend_from_slice(entry.value);
            let (flags, marks) = (entry.flags, entry.marks & !WON);
            frazil_segment::Update::Write { flags, marks, lifetime: None, result: () }
        });
    });
}

/// Waits for who has won the key of `mg`, which asks for it with the flag `w`.
pub(super) fn wait_for_lease(
    key: &[u8],
    wait: Duration,
    line: impl FnOnce() -> Box<[u8]>,
    turn: &mut Turn<'_>,
) -> Missing {
    let shared = turn.shared;
    let left_ms = || lease_left_ms(key, shared);
    turn.wait_for_lease(key, wait.as_millis() as u64, left_ms, || Ask::Meta(line()).into())
}
