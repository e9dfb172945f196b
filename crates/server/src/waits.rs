//! Waiting replies: a connection's queue of parts, some of them holes, and the additions of a turn.

use std::collections::VecDeque;

use crate::flights::{Joined, Remember};
use crate::mail::{Outcome, Place};
use crate::session::Ask;
use crate::worker::Turn;

/// Waiting replies of one connection, after which it is not served until one has arrived.
pub(crate) const HOLES_MAX: usize = 256;
/// Leases remembered for one connection. Older ones run to their end when it disconnects.
const LEASES_MAX: usize = 64;
/// Memory of a hole with its part of a flight, without its request.
const HOLE_BYTES: usize = 320;

/// A waiting reply.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) ticket: u64,
    /// When it is checked at the latest.
    pub(crate) deadline_ms: u64,
    /// When its wait ends.
    pub(crate) until_ms: u64,
    pub(crate) key: Box<[u8]>,
    pub(crate) ask: Ask,
}

impl Hole {
    fn bytes(&self) -> usize {
        HOLE_BYTES + self.key.len() + self.ask.bytes()
    }
}

#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    Hole(Hole),
}

/// A lease of a connection.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) ticket: u64,
    pub(crate) key: Box<[u8]>,
}

impl Lease {
    fn bytes(&self) -> usize {
        HOLE_BYTES + self.key.len()
    }
}

/// The waits of a connection, only for one with a hole or a lease.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    parts: VecDeque<Part>,
    holes: usize,
    /// Of replies behind a hole.
    bytes: usize,
    /// Of all parts.
    held_bytes: usize,
    leases: VecDeque<Lease>,
}

impl Waits {
    /// Whether no reply waits.
    pub(crate) fn is_over(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.leases.is_empty()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Replies that may still wait, if `bytes_max` bytes may lie behind a hole.
    pub(crate) fn room(&self, bytes_max: usize) -> usize {
        if self.bytes >= bytes_max { 0 } else { HOLES_MAX.saturating_sub(self.holes) }
    }

    fn add(&mut self, part: &Part) {
        match part {
            Part::Bytes(bytes) => {
                self.bytes += bytes.len();
                self.held_bytes += bytes.capacity();
            }
            Part::Hole(hole) => {
                self.holes += 1;
                self.held_bytes += hole.bytes();
            }
        }
    }

    fn subtract(&mut self, part: &Part) {
        match part {
            Part::Bytes(bytes) => {
                self.bytes -= bytes.len();
                self.held_bytes -= bytes.capacity();
            }
            Part::Hole(hole) => {
                self.holes -= 1;
                self.held_bytes -= hole.bytes();
            }
        }
    }

    pub(crate) fn push(&mut self, part: Part) {
        if matches!(&part, Part::Bytes(bytes) if bytes.is_empty()) {
            return;
        }
        self.add(&part);
        self.parts.push_back(part);
    }

    /// Takes the hole of a ticket, with its place. The place stays empty until [`Waits::fill`].
    pub(crate) fn take(&mut self, ticket: u64) -> Option<(usize, Hole)> {
        let is_it = |part: &Part| matches!(part, Part::Hole(hole) if hole.ticket == ticket);
        let at = self.parts.iter().position(is_it)?;
        let part = std::mem::replace(&mut self.parts[at], Part::Bytes(Vec::new()));
        self.subtract(&part);
        let Part::Hole(hole) = part else { return None };
        Some((at, hole))
    }

    pub(crate) fn fill(&mut self, at: usize, part: Part) {
        self.add(&part);
        self.parts[at] = part;
    }

    /// The first part, if it is no hole.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.parts.front()?, Part::Bytes(_)) {
            return None;
        }
        let part = self.parts.pop_front()?;
        self.subtract(&part);
        let Part::Bytes(bytes) = part else { return None };
        Some(bytes)
    }

    pub(crate) fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.parts.iter().filter_map(|part| match part {
            Part::Hole(hole) => Some(hole),
            Part::Bytes(_) => None,
        })
    }

    pub(crate) fn take_leases(&mut self) -> VecDeque<Lease> {
        let leases = std::mem::take(&mut self.leases);
        self.held_bytes -= leases.iter().map(Lease::bytes).sum::<usize>();
        leases
    }

    /// Remembers a lease. If there are too many, those that `is_held` denies are dropped, then the oldest. Returns
    /// the one that is forgotten although it is held.
    pub(crate) fn hold(&mut self, lease: Lease, is_held: impl Fn(&Lease) -> bool) -> Option<Lease> {
        self.held_bytes += lease.bytes();
        self.leases.push_back(lease);
        if self.leases.len() <= LEASES_MAX {
            return None;
        }
        let before: usize = self.leases.iter().map(Lease::bytes).sum();
        self.leases.retain(is_held);
        let forgotten = if self.leases.len() > LEASES_MAX { self.leases.pop_front() } else { None };
        let after: usize = self.leases.iter().map(Lease::bytes).sum();
        self.held_bytes -= before - after;
        forgotten
    }
}

/// A turn's additions to the waits of its connection.
#[derive(Debug)]
pub(crate) struct Added {
    pub(crate) place: Place,
    /// Further replies that may wait.
    pub(crate) room: usize,
    /// Each with its place in the replies of the turn.
    pub(crate) parts: Vec<(usize, Part)>,
    pub(crate) leases: Vec<Lease>,
    /// Set when a request that waited is served again, instead of new ones.
    pub(crate) again: Option<Again>,
}

impl Added {
    pub(crate) fn new(thread: usize) -> Added {
        let place = Place { thread: thread as u32, slot: 0 };
        let (parts, leases) = (Vec::new(), Vec::new());
        Added { place, room: HOLES_MAX, parts, leases, again: None }
    }

    /// Whether no further reply may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.parts.len() >= self.room
    }
}

/// A request served again after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// When its wait ends; in the past if it may not wait again.
    pub(crate) until_ms: u64,
    /// The ticket of its lease, if it has it.
    pub(crate) wins: Option<u64>,
}

/// The course of a request whose key has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its reply is a hole.
    Waits,
    /// Look again: the value has been stored.
    Look,
    /// Answer with the present state.
    Answer,
}

impl Turn<'_> {
    fn deadline_ms(&self, wait_ms: u64) -> Option<u64> {
        let first = self.now_ms.saturating_add(wait_ms);
        let deadline_ms = self.waits.again.map_or(first, |again| again.until_ms);
        (deadline_ms > self.now_ms).then_some(deadline_ms)
    }

    /// Whether the request may wait: its timeout is ahead.
    pub(crate) fn may_wait(&self) -> bool {
        self.waits.again.is_none_or(|again| again.until_ms > self.now_ms)
    }

    fn push_hole(&mut self, at: usize, hole: Hole) {
        if self.waits.again.is_none() {
            self.counters.waits.add(1);
        }
        self.waits.parts.push((at, Part::Hole(hole)));
    }

    /// Fetches the value of a missing key. `at` is the reply's place in the replies of the turn, and `ask` its form.
    /// `marks` are those of the new entry.
    pub(crate) fn fetch(
        &mut self,
        key: &[u8],
        at: usize,
        marks: u8,
        ask: impl FnOnce() -> Ask,
    ) -> Missing {
        let shared = self.shared;
        let (Some(origin), Some(fetches)) = (&shared.settings.origin, &shared.fetches) else {
            return Missing::Answer;
        };
        // These paths would name the directory or its parent.
        if matches!(key, b"" | b"." | b"..") {
            return Missing::Answer;
        }
        let Some(deadline_ms) = self.deadline_ms(origin.timeout_ms) else { return Missing::Answer };
        let items = &shared.items;
        let is_present = || items.store.contains(key);
        let ticket = match items.flights.join(key, self.waits.place, self.now_ms, is_present) {
            Joined::Waits(ticket) => ticket,
            Joined::Begins(ticket) if fetches.admits(origin) => {
                fetches.begin(key, ticket, marks);
                ticket
            }
            Joined::Begins(ticket) => {
                self.counters.refused_fetches.add(1);
                let remember = Remember { now_ms: self.now_ms, for_ms: 0 };
                items.flights.fetched(key, ticket, Outcome::Failed, remember, |outcome| outcome);
                ticket
            }
            Joined::Present => return Missing::Look,
            Joined::Absent => return Missing::Answer,
            Joined::Full => {
                self.counters.refused_waits.add(1);
                return Missing::Answer;
            }
        };
        let (key, ask) = (key.into(), ask());
        self.push_hole(at, Hole { ticket, deadline_ms, until_ms: deadline_ms, key, ask });
        Missing::Waits
    }

    /// Waits for the holder of a key's lease, for at most `wait_ms`. `left_ms` tells how long the holder still has;
    /// `None`: there is no lease.
    pub(crate) fn wait_for_lease(
        &mut self,
        key: &[u8],
        wait_ms: u64,
        left_ms: impl FnOnce() -> Option<u64>,
        ask: impl FnOnce() -> Ask,
    ) -> Missing {
        let Some(until_ms) = self.deadline_ms(wait_ms) else { return Missing::Answer };
        let mut left = None;
        let is_won = || {
            left = left_ms();
            left.is_some()
        };
        match self.shared.items.flights.wait(key, self.waits.place, is_won) {
            Joined::Waits(ticket) => {
                let at = self.out.len();
                // The millisecond after, when the entry is gone.
                let lease_ms = left.unwrap_or(u64::MAX).saturating_add(1);
                let deadline_ms = until_ms.min(self.now_ms.saturating_add(lease_ms));
                let (key, ask) = (key.into(), ask());
                self.push_hole(at, Hole { ticket, deadline_ms, until_ms, key, ask });
                Missing::Waits
            }
            Joined::Full => {
                self.counters.refused_waits.add(1);
                Missing::Answer
            }
            _ => Missing::Look,
        }
    }

    /// Notes the connection's lease of a key. When the connection ends, the lease goes to the next waiter.
    pub(crate) fn hold_lease(&mut self, key: &[u8], is_won: impl FnOnce() -> bool) {
        let passed_on = self.waits.again.and_then(|again| again.wins);
        let flights = &self.shared.items.flights;
        let held = passed_on.filter(|&ticket| flights.holds(key, ticket));
        let ticket = held.or_else(|| flights.lease(key, self.waits.place, is_won));
        self.waits.leases.extend(ticket.map(|ticket| Lease { ticket, key: key.into() }));
    }
}
