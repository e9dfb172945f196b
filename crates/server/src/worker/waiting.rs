//! Waiting replies of a serving thread: kept, filled with news, and ended at their deadline.

use std::time::Duration;

use super::{Connection, REPLY_BYTES, TICK, Turn, Worker};
use crate::mail::{Letter, News};
use crate::waits::{Again, Hole, Lease, Part};
use crate::{memcached, session};

impl Worker {
    /// Time until the next deadline of a reply.
    pub(super) fn until_deadline(&self) -> Duration {
        let Some((deadline_ms, ..)) = self.deadlines.first() else { return TICK };
        Duration::from_millis(deadline_ms.saturating_sub(self.now_ms))
    }

    /// Lists connections for which a response of HTTP has arrived, or more of one.
    pub(super) fn resume(&mut self) {
        let Some(http) = &self.shared.http else { return };
        for slot in http.wakes.take(self.number) {
            let slot = slot as usize;
            let Some(Some(connection)) = self.connections.get_mut(slot) else { continue };
            if connection.session.waits() {
                connection.has_more = true;
                connection.stalled_ms = self.now_ms;
                self.list(slot);
            }
        }
    }

    /// Fills waiting replies from letters, and ends those at their deadline.
    pub(super) fn end_waits(&mut self) {
        if std::mem::take(&mut self.has_mail) {
            for Letter { slot, ticket, news } in self.shared.items.flights.mail().take(self.number)
            {
                match news {
                    News::Stale(stale) => self.tell(slot, ticket, &stale, false),
                    News::Redirected(stale) => self.tell(slot, ticket, &stale, true),
                    news => self.fill(slot as usize, ticket, news),
                }
            }
        }
        while let Some(&(deadline_ms, slot, ticket)) = self.deadlines.first()
            && deadline_ms <= self.now_ms
        {
            self.deadlines.pop_first();
            self.end(slot as usize, ticket);
        }
    }

    /// A reply, or the holder of its lease, has reached its deadline.
    fn end(&mut self, slot: usize, ticket: u64) {
        let Some(Some(connection)) = self.connections.get(slot) else { return };
        let Some(waits) = &connection.waits else { return };
        let Some(hole) = waits.holes().find(|hole| hole.ticket == ticket) else { return };
        let is_late = hole.until_ms <= self.now_ms;
        // If it no longer waits, a letter is on its way.
        if !self.shared.items.flights.stop_waiting(&hole.key, ticket) {
            return;
        }
        if is_late {
            self.counters().late_waits.add(1);
        }
        self.fill(slot, ticket, if is_late { News::Late } else { News::Look });
    }

    /// Answers the request of a hole.
    fn fill(&mut self, slot: usize, ticket: u64, news: News) {
        let Some(Some(mut connection)) = self.connections.get_mut(slot).map(Option::take) else {
            return;
        };
        let held = connection.held_bytes();
        let taken = connection.waits.as_mut().and_then(|waits| waits.take(ticket));
        if let Some((at, hole)) = taken {
            self.deadlines.remove(&(hole.deadline_ms, slot as u32, ticket));
            self.fill_at(slot, &mut connection, (at, hole), news);
            // The delay was the server's.
            (connection.served_ms, connection.stalled_ms) = (self.now_ms, self.now_ms);
        }
        self.hold(held, connection.held_bytes());
        let has_more = !connection.closing && (connection.has_more || connection.readable);
        self.connections[slot] = Some(connection);
        if has_more {
            self.list(slot);
        }
        if self.out.len() > REPLY_BYTES {
            self.send_all();
        }
        self.relieve();
    }

    fn fill_at(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        (at, hole): (usize, Hole),
        news: News,
    ) {
        let begin = self.out.len();
        let until_ms =
            if let News::Look | News::Again | News::Win = news { hole.until_ms } else { 0 };
        let wins = matches!(news, News::Win).then_some(hole.ticket);
        self.added.place.slot = slot as u32;
        self.added.room = 1;
        self.added.again = Some(Again { until_ms, wins });
        let (number, now_ms, scratch) = (self.number, self.now_ms, &mut self.scratch);
        let mut turn =
            Turn::begin(&self.shared, number, now_ms, &mut self.out, scratch, &mut self.added);
        session::answer_late(&hole.key, &hole.ask, news, &mut turn);
        drop(turn);
        self.added.again = None;
        if let Some(ticket) = wins
            && self.added.leases.iter().all(|lease| lease.ticket != ticket)
        {
            // The lease is gone meanwhile, and no other request would end its flight.
            memcached::give_up(&self.shared, self.number, &Lease { ticket, key: hole.key.clone() });
        }
        let waits_again = self.added.parts.pop();
        let part = match waits_again {
            Some((_, part)) => part,
            None if at == 0 => Part::Bytes(Vec::new()),
            None => Part::Bytes(self.out.drain(begin..).collect()),
        };
        if let Part::Hole(hole) = &part {
            self.deadlines.insert((hole.deadline_ms, slot as u32, hole.ticket));
        }
        self.keep_leases(connection);
        if let Some(waits) = &mut connection.waits {
            waits.fill(at, part);
        }
        self.take_filled(connection);
        // A closing connection is checked when its replies are sent, so it gets an entry, if an empty one.
        if self.out.len() > begin || connection.closing && connection.awaits_nothing() {
            self.parts.push((slot, begin..self.out.len()));
        }
    }

    /// Moves waiting replies, and those behind them, to the connection. Those left in `out` are sent.
    pub(super) fn keep_waits(&mut self, slot: usize, connection: &mut Connection, begin: usize) {
        self.keep_leases(connection);
        let is_first = connection.awaits_nothing();
        if self.added.parts.is_empty() && (is_first || self.out.len() == begin) {
            return;
        }
        let waits = connection.waits.get_or_insert_default();
        let mut from = begin;
        let mut first = if is_first { None } else { Some(begin) };
        for (at, part) in self.added.parts.drain(..) {
            if first.is_some() {
                waits.push(Part::Bytes(self.out[from..at].to_vec()));
            }
            first.get_or_insert(at);
            from = at;
            if let Part::Hole(hole) = &part {
                self.deadlines.insert((hole.deadline_ms, slot as u32, hole.ticket));
            }
            waits.push(part);
        }
        waits.push(Part::Bytes(self.out[from..].to_vec()));
        if let Some(first) = first {
            self.out.truncate(first);
        }
        self.take_filled(connection);
    }

    /// Appends the replies before the first hole to those to send.
    fn take_filled(&mut self, connection: &mut Connection) {
        let Some(waits) = &mut connection.waits else { return };
        while let Some(bytes) = waits.next() {
            self.out.extend_from_slice(&bytes);
        }
        if waits.is_empty() {
            connection.waits = None;
        }
    }

    fn keep_leases(&mut self, connection: &mut Connection) {
        let flights = &self.shared.items.flights;
        for lease in self.added.leases.drain(..) {
            let waits = connection.waits.get_or_insert_default();
            let is_held = |lease: &Lease| flights.holds(&lease.key, lease.ticket);
            if let Some(lease) = waits.hold(lease, is_held) {
                memcached::give_up(&self.shared, self.number, &lease);
            }
        }
        if connection.closing {
            // It cannot bring a value any more, and may itself be the next waiter.
            self.give_up_leases(connection);
        }
    }

    /// Passes on a connection's leases.
    pub(super) fn give_up_leases(&self, connection: &mut Connection) {
        let Some(waits) = &mut connection.waits else { return };
        for lease in waits.take_leases() {
            memcached::give_up(&self.shared, self.number, &lease);
        }
        if waits.is_empty() {
            connection.waits = None;
        }
    }

    /// A connection ends: its waits and leases end too.
    pub(super) fn abandon(&mut self, slot: usize, connection: &mut Connection) {
        self.give_up_leases(connection);
        let Some(waits) = connection.waits.take() else { return };
        for hole in waits.holes() {
            self.deadlines.remove(&(hole.deadline_ms, slot as u32, hole.ticket));
            let lease = Lease { ticket: hole.ticket, key: hole.key.clone() };
            memcached::give_up(&self.shared, self.number, &lease);
        }
    }
}
