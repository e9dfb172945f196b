//! The state shared by all sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil_segment::Stats;
use parking_lot::Mutex;

use super::Problem;
use super::clients::Clients;
use super::cluster::Cluster;
use super::hotkeys::Period;
use super::table::COMMANDS;
use crate::counters::{Counter, Counts};
use crate::hot::mix;
use crate::server::Shared;
use crate::settings::Settings;
use crate::worker::Turn;

#[derive(Debug)]
pub(crate) struct Resp {
    pub(super) clients: Arc<Clients>,
    /// Bytes of memory from which on commands that take memory are refused; 0: no limit of its own.
    pub(super) memory_max: AtomicU64,
    /// The counts at the last `CONFIG RESETSTAT`.
    pub(super) since: Mutex<(Counts, Stats)>,
    calls_before: Mutex<Vec<Called>>,
    /// By thread, then by command.
    calls: Box<[Box<[Calls]>]>,
    /// Places of `GET` and `MGET`, which are counted without a search.
    pub(super) get: usize,
    pub(super) mget: usize,
    chance: AtomicU64,
    /// The period of `HOTKEYS`.
    pub(super) hot_period: Mutex<Option<Period>>,
    /// Which keys are served, if others are served elsewhere.
    pub(super) cluster: Option<Cluster>,
}

/// Requests of a command, counted by one thread.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) all: Counter,
    /// Rejected before execution.
    pub(super) refused: Counter,
    /// Executed with an error.
    pub(super) failed: Counter,
}

/// The sum of all threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Called {
    pub(super) all: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
}

impl Resp {
    pub(crate) fn new(settings: &Settings, cluster: Option<Cluster>) -> Resp {
        let threads = if settings.speaks_resp() { settings.threads } else { 0 };
        let place = |name| COMMANDS.iter().position(|command| command.name == name).unwrap_or(0);
        let calls = || COMMANDS.iter().map(|_| Calls::default()).collect();
        Resp {
            clients: Arc::default(),
            memory_max: AtomicU64::new(0),
            since: Mutex::default(),
            calls_before: Mutex::default(),
            calls: (0..threads).map(|_| calls()).collect(),
            get: place("get"),
            mget: place("mget"),
            chance: AtomicU64::new(0),
            hot_period: Mutex::default(),
            cluster,
        }
    }

    /// Whether a key is served.
    #[inline]
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.has(key))
    }

    /// The slot of a request's keys, in a cluster. An error if they are not served together here.
    #[inline]
    pub(super) fn slot_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Option<u16>, Problem> {
        self.cluster.as_ref().map_or(Ok(None), |cluster| cluster.slot_of(keys))
    }

    pub(super) fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }

    pub(super) fn calls_of(&self, thread: usize, command: usize) -> &Calls {
        &self.calls[thread][command]
    }

    fn calls_ever(&self) -> Vec<Called> {
        let mut sums = vec![Called::default(); COMMANDS.len()];
        for of_thread in &self.calls {
            for (sum, calls) in sums.iter_mut().zip(of_thread) {
                sum.all += calls.all.get();
                sum.refused += calls.refused.get();
                sum.failed += calls.failed.get();
            }
        }
        sums
    }

    /// The counts of each command since the last reset, with its place.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, Called)> {
        let mut ever = self.calls_ever();
        for (called, before) in ever.iter_mut().zip(self.calls_before.lock().iter()) {
            called.all -= before.all;
            called.refused -= before.refused;
            called.failed -= before.failed;
        }
        ever.into_iter().enumerate()
    }

    pub(super) fn reset(&self, shared: &Shared) {
        *self.calls_before.lock() = self.calls_ever();
        *self.since.lock() = (shared.counts(), shared.items.store.stats());
    }

    /// Bytes of the items and the index.
    pub(super) fn used_bytes(&self, turn: &Turn<'_>) -> u64 {
        turn.shared.items.store.used_bytes()
    }

    /// Whether commands that take memory are refused.
    #[inline]
    pub(super) fn is_full(&self, turn: &Turn<'_>) -> bool {
        let most = self.memory_max.load(Relaxed);
        most > 0 && self.used_bytes(turn) > most
    }

    pub(super) fn random(&self) -> u64 {
        mix(self.chance.fetch_add(1, Relaxed))
    }
}
