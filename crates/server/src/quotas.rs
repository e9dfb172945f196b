//! The number of open connections, and what each protocol may take of it.
//!
//! Silent clients of one port must not shut out those of another. So each protocol that is served has an eighth of the
//! connections to itself; the rest is for whoever comes first.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::session::Protocol;
use crate::settings::Settings;

/// What a protocol has to itself, as a part of all connections.
const OWN_PART: usize = 8;

#[derive(Debug)]
pub(crate) struct Quotas {
    most: usize,
    /// By protocol: connections that no other may take, and those that are open.
    own: [usize; 3],
    open: [AtomicUsize; 3],
}

impl Quotas {
    pub(crate) fn new(settings: &Settings) -> Quotas {
        let most = settings.limits.connections;
        let served = [settings.speaks_memcached(), settings.speaks_resp(), settings.speaks_http()];
        let own = served.map(|is_served| if is_served { most / OWN_PART } else { 0 });
        Quotas { most, own, open: Default::default() }
    }

    /// Counts one more connection. False: there is none left for this protocol. Threads that ask at the same time may
    /// exceed the number by one each.
    pub(crate) fn admits(&self, protocol: Protocol) -> bool {
        let at = protocol as usize;
        let others = (0..self.own.len()).filter(|&other| other != at);
        let taken: usize =
            others.map(|other| self.open[other].load(Relaxed).max(self.own[other])).sum();
        let is_admitted = taken + self.open[at].load(Relaxed) < self.most;
        if is_admitted {
            self.open[at].fetch_add(1, Relaxed);
        }
        is_admitted
    }

    pub(crate) fn leaves(&self, protocol: Protocol) {
        self.open[protocol as usize].fetch_sub(1, Relaxed);
    }

    /// Open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.iter().map(|open| open.load(Relaxed)).sum()
    }
}
