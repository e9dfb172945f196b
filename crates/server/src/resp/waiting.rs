//! Waiting requests: what is kept of them, and their replies; `GETLEASE`.

use std::time::Duration;

use frazil_segment::{Attributes, Stored, Update};

use super::lookups::{self, Reader};
use super::reply::{self, Version};
use super::{Call, Done, Problem, number, tracking, write};
use crate::items;
use crate::mail::{News, Outcome};
use crate::marks::{STALE, WON, is_placeholder};
use crate::waits::{Again, Missing};
use crate::worker::Turn;
use crate::{memcached, session};

/// The longest wait of `GETLEASE`, in milliseconds.
const WAIT_MS_MAX: i64 = 60_000;
/// Attempts to find a key that comes and goes.
const TRIES: usize = 8;

/// A request to answer at the end of its wait.
#[derive(Debug)]
pub(crate) enum Ask {
    /// A key of `GET` or `MGET`.
    Get(Reader),
    Lease(Lease),
}

impl From<Ask> for session::Ask {
    fn from(ask: Ask) -> session::Ask {
        session::Ask::Resp(ask)
    }
}

/// The arguments of `GETLEASE`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    version: Version,
    /// Length of the lease.
    time: Duration,
    /// End of the wait.
    until_ms: u64,
}

/// Answers a request at the end of its wait, or waits again.
pub(crate) fn answer_late(key: &[u8], ask: &Ask, news: News, turn: &mut Turn<'_>) {
    let fetched = match &news {
        News::Fetched(Outcome::Value(value)) => Some(&value.value[..]),
        _ => None,
    };
    match (ask, fetched) {
        (Ask::Get(Reader { tracker: None, .. }), Some(value)) => reply::bulk(turn.out, value),
        (Ask::Get(reader @ Reader { tracker: Some(tracker), .. }), Some(value)) => {
            // A stored value is tracked; another may not be.
            if !lookups::answer(key, *reader, turn).is_there {
                reply::bulk(turn.out, value);
                tracking::tell_at_once(key, *tracker, turn);
            }
        }
        (Ask::Get(reader), None) => lookups::get_or_fetch(key, *reader, turn),
        (Ask::Lease(lease), Some(value)) => push(turn.out, Some(value), "hit", lease.version),
        (Ask::Lease(lease), None) => {
            // It may have waited for another's lease to end, without one of its own.
            let wins = turn.waits.again.and_then(|again| again.wins);
            turn.waits.again = Some(Again { until_ms: lease.until_ms, wins });
            if let Err(Problem(text)) = get(key, lease, turn) {
                reply::error(turn.out, &text);
            }
        }
    }
}

/// `GETLEASE key lease wait`, both in milliseconds. Replies the value; or the lease, which one client has at a time
/// and which entitles it to bring the value; or the result of waiting for the holder.
pub(super) fn getlease(call: &mut Call<'_, '_>) -> Done {
    let args = call.args;
    let time = number::integer(args.get(2)).and_then(|ms| u64::try_from(ms).ok());
    let time = time.filter(|&ms| ms > 0).map(Duration::from_millis);
    let wait_ms = number::integer(args.get(3)).filter(|ms| (0..=WAIT_MS_MAX).contains(ms));
    let (Some(time), Some(wait_ms)) = (time, wait_ms) else {
        return Err("ERR a lease has at least 1 millisecond, and a wait 60000 at most".into());
    };
    let turn = &mut *call.turn;
    let wait_ms = if call.session.may_wait() { wait_ms as u64 } else { 0 };
    let lease = Lease { version: call.session.version, time, until_ms: turn.now_ms + wait_ms };
    get(args.get(1), &lease, turn)
}

/// The state of an entry.
struct Seen {
    won: bool,
    /// Another client has the lease.
    lost: bool,
    is_placeholder: bool,
}

fn get(key: &[u8], lease: &Lease, turn: &mut Turn<'_>) -> Done {
    let shared = turn.shared;
    // The lease of a client that has left passes to this one.
    let wins = turn.waits.again.and_then(|again| again.wins);
    let wins = wins.is_some_and(|ticket| shared.items.flights.holds(key, ticket));
    for attempt in 0..TRIES {
        let bytes = answer_hit(key, lease.version, turn);
        let is_hit = bytes.is_some();
        // The request was counted before its wait.
        if attempt == 0 && turn.waits.again.is_none() {
            turn.count_get(key, bytes);
        }
        if is_hit {
            return Ok(());
        }
        let updated = items::rewrite(key, turn, |entry, value| {
            value.extend_from_slice(entry.value);
            let (is_won, is_stale) = (entry.marks & WON != 0, entry.marks & STALE != 0);
            let (won, is_placeholder) =
                (if is_won { wins } else { is_stale }, is_placeholder(entry));
            let seen = Seen { won, lost: is_won && !won, is_placeholder };
            if !won {
                return Update::Leave(seen);
            }
            // The next holder of the lease has the full time that it asks for.
            let lifetime = is_placeholder.then_some(Some(lease.time));
            Update::Write { flags: entry.flags, marks: entry.marks | WON, lifetime, result: seen }
        });
        let Some((seen, _)) = updated.map_err(|error| write::refusal(error, turn))? else {
            let attributes = Attributes { flags: 0, marks: WON, lifetime: Some(lease.time) };
            let made = shared.items.reserve(key, attributes);
            if made.map_err(|error| write::refusal(error, turn))?.0 == Stored::Stored {
                win(key, None, lease, turn);
                return Ok(());
            }
            continue;
        };
        let value = std::mem::take(turn.scratch);
        let shown = (!seen.is_placeholder).then_some(&value[..]);
        let mut waits = Missing::Answer;
        if seen.won {
            win(key, shown, lease, turn);
        } else if !seen.lost {
            push(turn.out, shown, "hit", lease.version);
        } else {
            waits = wait(key, lease, turn);
            if waits == Missing::Answer {
                push(turn.out, shown, "late", lease.version);
            }
        }
        *turn.scratch = value;
        if waits != Missing::Look {
            return Ok(());
        }
    }
    push(turn.out, None, "late", lease.version);
    Ok(())
}

/// Answers a key whose entry is neither won nor stale, and returns its bytes for a recording.
fn answer_hit(key: &[u8], version: Version, turn: &mut Turn<'_>) -> Option<Option<u64>> {
    let (out, store) = (&mut *turn.out, &turn.shared.items.store);
    let found = store.get_with(key, |entry| {
        let is_hit = entry.marks & (WON | STALE) == 0;
        is_hit.then(|| {
            push(out, Some(entry.value), "hit", version);
            store.recorded_bytes(&entry)
        })
    });
    found.flatten()
}

fn win(key: &[u8], value: Option<&[u8]>, lease: &Lease, turn: &mut Turn<'_>) {
    push(turn.out, value, "won", lease.version);
    let shared = turn.shared;
    turn.hold_lease(key, || memcached::is_won(key, shared));
}

/// Waits for the holder of a lease, until the lease ends at most.
fn wait(key: &[u8], lease: &Lease, turn: &mut Turn<'_>) -> Missing {
    let shared = turn.shared;
    let left_ms = || memcached::lease_left_ms(key, shared);
    let wait_ms = lease.until_ms.saturating_sub(turn.now_ms);
    turn.wait_for_lease(key, wait_ms, left_ms, || Ask::Lease(*lease).into())
}

fn push(out: &mut Vec<u8>, value: Option<&[u8]>, word: &str, version: Version) {
    reply::array(out, 2);
    reply::value(out, value, version);
    reply::bulk(out, word.as_bytes());
}
