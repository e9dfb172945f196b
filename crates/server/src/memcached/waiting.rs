//! Waiting requests: what is kept of them, and their replies.

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

/// A request to answer at the end of its wait.
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
    /// Bytes of memory outside of this enum.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Ask::Get(_) => 0,
            Ask::Meta(line) => line.len(),
        }
    }
}

/// Answers a request at the end of its wait, or waits again.
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

/// Whether a client has won the key, and has not yet brought its value.
pub(crate) fn is_won(key: &[u8], shared: &Shared) -> bool {
    lease_left_ms(key, shared).is_some()
}

/// Milliseconds that the holder of the lease has left to bring the value; `None`: there is no lease.
pub(crate) fn lease_left_ms(key: &[u8], shared: &Shared) -> Option<u64> {
    let left = shared.items.store.peek(key, |entry| {
        let left = entry.lifetime.map_or(u64::MAX, |left| left.as_millis() as u64);
        (entry.marks & WON != 0).then_some(left)
    });
    left.flatten()
}

/// Ends the wait or the lease of a client that leaves. If no other client waits, the next one wins the entry. Called
/// outside of a turn.
pub(crate) fn give_up(shared: &Shared, thread: usize, lease: &Lease) {
    let store = &shared.items.store;
    // A thread that runs alone sees no lease pass on. Taken before the lock of the flights, as everywhere.
    let _place = shared.turnstile.enter(thread);
    shared.items.flights.leave(&lease.key, lease.ticket, || {
        let placeholder =
            store.peek(&lease.key, |entry| is_placeholder(&entry).then_some(entry.cas));
        if let Some(Some(cas)) = placeholder {
            store.delete_exactly(&lease.key, cas);
            return;
        }
        let mut value = Vec::new();
        // Without memory for the change, the entry stays won until its lifetime ends.
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

/// Waits for the client that has won the key of an `mg` with the flag `w`.
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
