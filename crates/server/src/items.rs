//! The store with what all protocols add to it: limits, times as clients write them, flushes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{BuildError, Entry, Eviction, Store, StoreError, Update};

use crate::clock::Clock;
use crate::settings::{Settings, Shares};
use crate::worker::Turn;

/// Seconds from which on a lifetime is a date: 30 days.
const DATE_SECONDS: i64 = 60 * 60 * 24 * 30;
/// No flush is due.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    item_bytes_max: usize,
    segment_bytes: usize,
    /// When everything that is there is to go.
    flush_ms: AtomicU64,
}

impl Items {
    pub(crate) fn new(settings: &Settings, shares: Shares) -> Result<Items, BuildError> {
        let clock = Clock::new();
        let store = Store::builder(shares.store_bytes).segment_bytes(shares.segment_bytes);
        let eviction = if settings.evicts { Eviction::default() } else { Eviction::Never };
        Ok(Items {
            store: store.eviction(eviction).clock(clock.shared()).build()?,
            clock,
            segment_bytes: shares.segment_bytes,
            item_bytes_max: settings.limits.item_bytes,
            flush_ms: AtomicU64::new(NEVER),
        })
    }

    /// Whether a value is too large to be stored, before it has arrived.
    pub(crate) fn is_too_large(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let bytes = key_bytes + value_bytes;
        bytes > self.item_bytes_max || bytes + HEAD_BYTES_MAX > self.segment_bytes
    }

    /// The lifetime of an entry with the expiry `time` of memcached's protocol: 0 is for ever, up
    /// to 30 days are seconds from now, more is a date in seconds since 1970, and below 0 the entry
    /// has expired.
    pub(crate) fn lifetime(&self, time: i64) -> Option<Duration> {
        match time {
            0 => None,
            ..0 => Some(Duration::ZERO),
            1..=DATE_SECONDS => Some(Duration::from_secs(time as u64)),
            _ => Some(Duration::from_secs((time as u64).saturating_sub(self.clock.unix()))),
        }
    }

    /// Flushes all entries, now or in so many milliseconds.
    pub(crate) fn flush_in(&self, delay_ms: u64) {
        if delay_ms == 0 {
            self.flush_ms.store(NEVER, Relaxed);
            self.store.flush();
        } else {
            self.flush_ms.store(self.clock.now_ms() + delay_ms, Relaxed);
        }
    }

    /// Does a flush that has become due. Called once a wake-up, so it is mostly one load.
    pub(crate) fn tend(&self, now_ms: u64) {
        let due = self.flush_ms.load(Relaxed);
        if due > now_ms {
            return;
        }
        // One thread flushes, whichever is first.
        if self.flush_ms.compare_exchange(due, NEVER, Relaxed, Relaxed).is_ok() {
            self.store.flush();
        }
    }
}

/// Changes an entry as [`frazil_segment::Store::update`] does; its new value is in the turn's scratch
/// buffer after it, and counts as work of the turn.
pub(crate) fn update<R>(
    key: &[u8],
    turn: &mut Turn<'_>,
    decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
) -> Result<Option<(R, u64)>, StoreError> {
    let updated = turn.shared.items.store.update(key, turn.scratch, decide);
    if !matches!(updated, Ok(None)) {
        turn.spend(turn.scratch.len());
    }
    updated
}

/// The most bytes of an item's head in its segment.
const HEAD_BYTES_MAX: usize = 12;
