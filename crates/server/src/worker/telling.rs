//! Notices of stale copies, sent by a serving thread to tracking clients.

use super::{REPLY_BYTES, Worker};
use crate::mail::{EVERYONE, Stale};
use crate::resp;
use crate::session::Session;

impl Worker {
    /// Notifies a connection, given by place and number, that copies are out of date: its own, or those of a
    /// connection that redirects its messages to this one.
    pub(super) fn tell(&mut self, slot: u32, id: u64, stale: &Stale, is_redirected: bool) {
        if slot == EVERYONE {
            for slot in 0..self.connections.len() {
                self.tell_at(slot, None, stale, false);
            }
        } else {
            self.tell_at(slot as usize, Some(id), stale, is_redirected);
        }
    }

    fn tell_at(&mut self, slot: usize, id: Option<u64>, stale: &Stale, is_redirected: bool) {
        let Some(Some(mut connection)) = self.connections.get_mut(slot).map(Option::take) else {
            return;
        };
        let (held, begin) = (connection.held_bytes(), self.out.len());
        if let Session::Resp(session) = &mut connection.session
            && id.is_none_or(|id| session.id() == id)
            && !connection.closing
        {
            session.tell(stale, is_redirected, &self.shared, &mut self.out);
        }
        if self.out.len() > begin {
            if !connection.is_busy() {
                connection.stalled_ms = self.now_ms;
            }
            // After waiting replies, which may be older than the notice.
            self.keep_waits(slot, &mut connection, begin);
        }
        if self.out.len() > begin {
            self.parts.push((slot, begin..self.out.len()));
        }
        self.hold(held, connection.held_bytes());
        self.connections[slot] = Some(connection);
        if self.out.len() > REPLY_BYTES {
            self.send_all();
        }
        self.relieve();
    }

    /// Once a second: looks for tracked keys whose entries have expired or were evicted.
    pub(super) fn sweep_copies(&self) {
        let items = &self.shared.items;
        let part = (self.number, self.shared.settings.threads);
        let is_present = |key: &[u8]| resp::contains(&items.store, key);
        items.tracking.sweep(part, items.flights.mail(), is_present);
    }
}
