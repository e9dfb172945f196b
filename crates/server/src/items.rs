//! The store with what all protocols share: limits, expiry times, flushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::Duration;

use frazil_segment::{Attributes, Entry, Expect, StoreError, Stored, Update};

use crate::clock::Clock;
use crate::flights::Flights;
use crate::mail::Mail;
use crate::settings::{Settings, Shares};
use crate::store::{Store, StoreBuildError};
use crate::tracking::Tracking;
use crate::worker::Turn;

/// Expiry times above this are dates: 30 days in seconds.
const DATE_SECONDS: i64 = 60 * 60 * 24 * 30;
/// No flush is scheduled.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Items {
    /// For reads only. Writes and deletions of clients use the functions here, which notify the flights and clients
    /// with tracked copies.
    pub(crate) store: Store,
    pub(crate) flights: Flights,
    pub(crate) tracking: Arc<Tracking>,
    pub(crate) clock: Clock,
    item_bytes_max: usize,
    pub(crate) key_bytes_max: usize,
    /// When all entries are to be flushed.
    flush_ms: AtomicU64,
}

impl Items {
    pub(crate) fn new(
        settings: &Settings,
        shares: Shares,
        mail: Mail,
    ) -> Result<Items, StoreBuildError> {
        let clock = Clock::new();
        Ok(Items {
            store: Store::new(settings, shares, &clock)?,
            flights: Flights::new(settings.limits.waiters, shares.memo_bytes, mail),
            tracking: Arc::new(Tracking::new(shares.tracked_bytes)),
            clock,
            item_bytes_max: shares.item_bytes,
            key_bytes_max: settings.limits.key_bytes,
            flush_ms: AtomicU64::new(NEVER),
        })
    }

    /// Whether a value is too large for the store, known before it arrives.
    pub(crate) fn is_too_large(&self, key_bytes: usize, value_bytes: usize) -> bool {
        key_bytes + value_bytes > self.item_bytes_max
    }

    /// The length of a value that a request announces, unless that is too large.
    pub(crate) fn length(&self, key_bytes: usize, announced: u64) -> Option<usize> {
        let length = usize::try_from(announced).ok()?;
        (length <= self.item_bytes_max && !self.is_too_large(key_bytes, length)).then_some(length)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        if key.len() > self.key_bytes_max { Err(StoreError::KeyTooLong) } else { Ok(()) }
    }

    /// Makes an entry for a key that has none, and whose value a client is to bring. There is no value yet, so no wait ends.
    pub(crate) fn reserve(
        &self,
        key: &[u8],
        attributes: Attributes,
    ) -> Result<(Stored, u64), StoreError> {
        self.check_key(key)?;
        self.store.write(key, b"", attributes, Expect::Nothing)
    }

    /// Writes for a client, as [`frazil_segment::Store::write`].
    pub(crate) fn write(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        self.check_key(key)?;
        let written = self.store.write(key, value, attributes, expect);
        // A refused write may have removed the old entry.
        if !matches!(written, Ok((Stored::NotStored | Stored::Exists | Stored::NotFound, _))) {
            self.flights.written(key);
            self.changed(key, true);
        }
        written
    }

    /// Notifies clients with tracked copies, after the flights: their fence separates a write and this.
    #[inline]
    fn changed(&self, key: &[u8], is_changed: bool) {
        if is_changed {
            self.tracking.written(key, self.flights.mail());
        }
    }

    /// Stores a fetched value, if the key has none.
    pub(crate) fn bring(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
    ) -> Result<(Stored, u64), StoreError> {
        let write = || self.store.write(key, value, attributes, Expect::Nothing);
        let stored = self.check_key(key).and_then(|()| write());
        // As in `Flights::written`, which is not called: the waiters wait for this very value.
        fence(SeqCst);
        self.changed(key, matches!(stored, Ok((Stored::Stored, _))));
        stored
    }

    /// Deletes for a client, as [`frazil_segment::Store::delete`].
    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        self.flights.overtake(key);
        let is_there = self.store.delete(key);
        self.flights.deleted(key);
        self.changed(key, is_there);
        is_there
    }

    /// Deletes for a client, as [`frazil_segment::Store::delete_exactly`].
    pub(crate) fn delete_exactly(&self, key: &[u8], cas: u64) -> Stored {
        self.flights.overtake(key);
        let deleted = self.store.delete_exactly(key, cas);
        // An entry with another number stays, and its lease with its holder.
        if deleted != Stored::Exists {
            self.flights.deleted(key);
        }
        self.changed(key, deleted == Stored::Stored);
        deleted
    }

    /// The lifetime of an entry with memcached's expiry `time`: 0 never expires, up to 30 days are seconds from now,
    /// more is a Unix time in seconds, and a negative one has expired already.
    pub(crate) fn lifetime(&self, time: i64) -> Option<Duration> {
        match time {
            0 => None,
            ..0 => Some(Duration::ZERO),
            1..=DATE_SECONDS => Some(Duration::from_secs(time as u64)),
            _ => Some(Duration::from_secs((time as u64).saturating_sub(self.clock.unix()))),
        }
    }

    /// Flushes all entries after a delay.
    pub(crate) fn flush_in(&self, delay_ms: u64) {
        if delay_ms == 0 {
            self.flush_ms.store(NEVER, Relaxed);
            self.flush();
        } else {
            self.flush_ms.store(self.clock.now_ms().saturating_add(delay_ms), Relaxed);
        }
    }

    /// Whether a flush is due. Called once a wake-up, so it is one load.
    pub(crate) fn is_flush_due(&self, now_ms: u64) -> bool {
        self.flush_ms.load(Relaxed) <= now_ms
    }

    /// Does a flush that is due, unless another thread does it.
    pub(crate) fn tend(&self, now_ms: u64) {
        let due = self.flush_ms.load(Relaxed);
        if due > now_ms {
            return;
        }
        // The first thread flushes.
        if self.flush_ms.compare_exchange(due, NEVER, Relaxed, Relaxed).is_ok() {
            self.flush();
        }
    }

    fn flush(&self) {
        self.flights.overtake_all();
        self.store.flush();
        self.tracking.flushed(self.flights.mail());
    }
}

/// Changes an entry as [`frazil_segment::Store::update`] does. The new value is then in the turn's scratch buffer,
/// and counts as work of the turn. A new lifetime alone ends no wait. A recording notes a look-up and a write.
pub(crate) fn update<R>(
    key: &[u8],
    turn: &mut Turn<'_>,
    mut decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
) -> Result<Option<(R, u64)>, StoreError> {
    let (mut writes, mut changes) = (false, false);
    let store = &turn.shared.items.store;
    let (mut bytes, mut attributes) = (None, (0, None));
    let updated = rewrite(key, turn, |entry, value| {
        let update = decide(entry, value);
        bytes = store.recorded_bytes(entry);
        if let Update::Write { marks, lifetime, .. } = &update {
            attributes = (*marks, lifetime.unwrap_or(entry.lifetime));
        }
        (writes, changes) = match &update {
            Update::Leave(_) => (false, false),
            // The entry expires at once.
            Update::Write { lifetime: Some(Some(Duration::ZERO)), .. } => (true, true),
            Update::Write { marks, .. } => (true, *marks != entry.marks || value != entry.value),
        };
        update
    });
    let items = &turn.shared.items;
    items.store.looked_up(key, bytes);
    if writes && matches!(updated, Ok(Some(_))) {
        items.store.note_written(key, turn.scratch, attributes.0, attributes.1);
        if changes {
            items.flights.written(key);
        } else {
            // As in `Flights::written`: a new lifetime concerns tracked copies too, and ends no wait.
            fence(SeqCst);
        }
        items.changed(key, true);
    }
    updated
}

/// As [`update`], for changes that only mark the holder of a lease: waiters go on waiting.
pub(crate) fn rewrite<R>(
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::mail::Place;
    use crate::store::StoreKind;
    use crate::tracking::Tracker;

    /// A client that is told before could read the old entry once more, and would not hear of its end.
    #[test]
    fn clients_are_told_after_the_change() {
        let resp = vec!["127.0.0.1:0".parse().unwrap()];
        let settings = Settings { resp, store: StoreKind::Objects, ..Settings::default() };
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let mail = Mail::new(Arc::new([waker]));
        let items = Items::new(&settings, Shares::of(&settings), mail).unwrap();
        let tracker = Tracker { id: 1, place: Place { thread: 0, slot: 0 } };
        items.tracking.join(tracker, &[]);
        let write = || items.write(b"key", b"x", Attributes::default(), Expect::Anything).unwrap();
        let changes: [&(dyn Fn() + Sync); 3] =
            [&|| _ = write(), &|| assert!(items.delete(b"key")), &|| {
                let cas = items.store.peek(b"key", |entry| entry.cas).unwrap();
                assert_eq!(items.delete_exactly(b"key", cas), Stored::Stored);
            }];
        for change in changes {
            write();
            items.tracking.remember(b"key", tracker, true, items.flights.mail());
            let (begun, ended) = (Barrier::new(2), Barrier::new(2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Meanwhile the key's lock is held.
                    let held = items.store.update(b"key", &mut Vec::new(), |_, _| {
                        begun.wait();
                        ended.wait();
                        Update::Leave(())
                    });
                    held.unwrap().unwrap();
                });
                begun.wait();
                let changing = scope.spawn(change);
                std::thread::sleep(Duration::from_millis(20));
                let told_before = items.flights.mail().take(0).len();
                ended.wait();
                changing.join().unwrap();
                assert_eq!((told_before, items.flights.mail().take(0).len()), (0, 1));
            });
        }
    }
}
