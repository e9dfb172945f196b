//! `MULTI`, `EXEC` and `WATCH`.
//!
//! Requests after `MULTI` are queued as received. `EXEC` executes them while no other thread serves a connection
//! ([`turnstile`]), so all others see none or all of them.

use super::cluster::CROSSES;
use super::request::{self, Bounds, Parsed};
use super::table::{self, DENYOOM};
use super::{Call, Done, Session, reply, seen, write};
use crate::turnstile;
use crate::worker::Turn;

/// Keys that a connection watches.
const WATCHED_MAX: usize = 4096;
pub(super) const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// The error of an `EXEC` that fails because of another.
pub(super) fn aborted(why: &str) -> String {
    let why = why.strip_prefix("ERR ").unwrap_or(why);
    format!("EXECABORT Transaction discarded because of: {why}")
}

/// Requests queued until `EXEC`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    requests: Vec<u8>,
    count: usize,
    /// A request was refused: none is executed.
    pub(super) is_broken: bool,
    /// A request takes memory.
    takes_memory: bool,
    /// The slot of the first request with keys.
    slot: Option<u16>,
    /// The requests have keys of several slots.
    crosses_slots: bool,
}

/// Keys that must not change before `EXEC`, each with the number of its entry, or without one.
#[derive(Debug, Default)]
pub(super) struct Watched {
    keys: Vec<(Box<[u8]>, Option<u64>)>,
    key_bytes: usize,
}

impl Watched {
    pub(super) fn held_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<(Box<[u8]>, Option<u64>)>() + self.key_bytes
    }

    fn add(&mut self, key: &[u8], cas: Option<u64>) {
        self.key_bytes += key.len();
        self.keys.push((key.into(), cas));
    }
}

impl Transaction {
    pub(super) fn held_bytes(&self) -> usize {
        self.requests.capacity()
    }

    /// Records the slot of a request's keys.
    pub(super) fn note_slot(&mut self, slot: Option<u16>) {
        if let Some(slot) = slot {
            self.crosses_slots |= *self.slot.get_or_insert(slot) != slot;
        }
    }

    /// Queues a request. `false`: the queue would exceed this many bytes.
    pub(super) fn keep(
        &mut self,
        args: &request::Args<'_>,
        command: &table::Command,
        bytes_max: usize,
    ) -> bool {
        if self.requests.len() + args.as_bytes().len() > bytes_max {
            self.is_broken = true;
            self.requests = Vec::new();
            return false;
        }
        reply::array(&mut self.requests, args.len());
        self.requests.extend_from_slice(args.as_bytes());
        self.count += 1;
        self.takes_memory |= command.is(DENYOOM);
        true
    }
}

pub(super) fn multi(call: &mut Call<'_, '_>) -> Done {
    if call.session.transaction.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.transaction = Some(Box::default());
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn discard(call: &mut Call<'_, '_>) -> Done {
    call.session.transaction.take().ok_or("ERR DISCARD without MULTI")?;
    call.session.watched = None;
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn watch(call: &mut Call<'_, '_>) -> Done {
    let Call { session, args, turn } = call;
    if session.transaction.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let watched = session.watched.get_or_insert_default();
    for key in args.from(1) {
        if watched.keys.len() == WATCHED_MAX {
            turn.counters.many_watched.add(1);
            return Err("ERR a connection watches no more than 4096 keys".into());
        }
        let cas = seen::peek(&turn.shared.items.store, key, |entry| entry.cas);
        watched.add(key, cas);
    }
    reply::ok(turn.out);
    Ok(())
}

pub(super) fn unwatch(call: &mut Call<'_, '_>) -> Done {
    call.session.watched = None;
    reply::ok(call.turn.out);
    Ok(())
}

pub(super) fn exec(call: &mut Call<'_, '_>) -> Done {
    let transaction = call.session.transaction.take().ok_or("ERR EXEC without MULTI")?;
    let watched = call.session.watched.take();
    if transaction.is_broken {
        return Err(ABORTED.into());
    }
    if transaction.crosses_slots {
        return Err(CROSSES.into());
    }
    if transaction.takes_memory && call.turn.shared.resp.is_full(call.turn) {
        let why = write::OUT_OF_MEMORY;
        return Err(aborted(why).into());
    }
    let session = &mut *call.session;
    turnstile::alone(call.turn, |turn| {
        let store = &turn.shared.items.store;
        let mut keys = watched.iter().flat_map(|watched| &watched.keys);
        if keys.any(|(key, cas)| seen::peek(store, key, |entry| entry.cas) != *cas) {
            reply::null_array(turn.out, session.version);
        } else {
            run(&transaction, session, turn);
        }
    });
    Ok(())
}

/// Executes all requests. If their replies are too many they are dropped and the connection is closed: the changes
/// cannot be undone.
fn run(transaction: &Transaction, session: &mut Session, turn: &mut Turn<'_>) {
    let begin = turn.out.len();
    let bytes_max = super::request_bytes_max(turn);
    let before = session.out_max;
    session.out_max = before.min(begin + bytes_max);
    session.is_in_exec = true;
    reply::array(turn.out, transaction.count);
    let mut rest = &transaction.requests[..];
    let mut are_too_many = false;
    while !rest.is_empty()
        && let Parsed::Request(args, _, bytes) = request::parse(rest, Bounds::NONE)
    {
        super::run(session, &args, turn);
        if session.has_too_many_replies(turn) {
            are_too_many = true;
            turn.out.truncate(begin);
        }
        rest = &rest[bytes..];
    }
    if are_too_many {
        turn.counters.large_transactions.add(1);
        turn.out.truncate(begin);
        session.closes |= before == usize::MAX;
    }
    session.is_in_exec = false;
    session.out_max = before;
}
