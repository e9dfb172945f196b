//! The store of items: segments, or an allocation for each. Protocols see no difference other than speed and memory.
//! A recording notes the requests here ([`RequestLog`]).

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use frazil_segment::{
    Attributes, Entry, Eviction, Expect, RestoreError, Stats, StoreError, Stored, Update,
};

use crate::clock::Clock;
use crate::marks;
use crate::objects::{self, ClassStats, Objects};
use crate::recording::RequestLog;
use crate::segments::Segments;
use crate::settings::{Settings, Shares};

/// The kind of store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// A log of segments: compact, evicts by segment (`frazil-segment`). Items above 64 KiB are in allocations beside
    /// it, evicted by [`Settings::policy`].
    #[default]
    Segment,
    /// An allocation for each item, evicted by [`Settings::policy`].
    Objects,
}

/// Errors of creating a store.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreBuildError {
    /// [`StoreKind::Segment`].
    Segment(frazil_segment::BuildError),
    /// [`StoreKind::Objects`].
    Objects(frazil::BuildError),
    /// [`StoreKind::Objects`] always evicts, but [`Settings::evicts`] is off.
    Evicts,
}

impl fmt::Display for StoreBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreBuildError::Segment(error) => error.fmt(f),
            StoreBuildError::Objects(error) => error.fmt(f),
            StoreBuildError::Evicts => {
                f.write_str("the store of objects always evicts; only the store of segments can refuse items instead")
            }
        }
    }
}

impl std::error::Error for StoreBuildError {}

/// Cursors of a scan with the same bits in some places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorRange {
    /// The bits that differ.
    pub(crate) differ: u64,
    /// The others.
    pub(crate) bits: u64,
}

impl CursorRange {
    pub(crate) const ALL: CursorRange = CursorRange { differ: u64::MAX, bits: 0 };

    pub(crate) fn first(self) -> u64 {
        self.bits
    }

    pub(crate) fn has(self, cursor: u64) -> bool {
        cursor & !self.differ == self.bits
    }

    /// One of them, for random bits.
    pub(crate) fn at_random(self, random: u64) -> u64 {
        random & self.differ | self.bits
    }
}

/// The answer to a write whose condition is not met.
pub(crate) fn refusal(expect: Expect, present: Option<u64>) -> Option<Stored> {
    match (expect, present) {
        (Expect::Nothing, Some(_)) | (Expect::Something, None) => Some(Stored::NotStored),
        (Expect::Exactly(_), None) => Some(Stored::NotFound),
        (Expect::Exactly(cas), Some(present)) if present != cas => Some(Stored::Exists),
        _ => None,
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "a server has one, and a look-up one pointer less to follow"
)]
#[derive(Debug)]
enum Kind {
    Segments(Segments),
    Objects(Objects),
}

#[derive(Debug)]
pub(crate) struct Store {
    kind: Kind,
    pub(crate) requests: RequestLog,
}

/// An entry that is kept alive while it is held.
#[derive(Debug)]
pub(crate) enum Held<'a> {
    InSegment(frazil_segment::Held<'a>),
    Object(objects::Held),
}

impl Held<'_> {
    pub(crate) fn entry(&self) -> Entry<'_> {
        match self {
            Held::InSegment(held) => *held.entry(),
            Held::Object(held) => held.entry(),
        }
    }
}

/// Calls the function of the same name and arguments of either store.
macro_rules! either {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        match &$self.kind {
            Kind::Segments(store) => store.$name($($argument),*),
            Kind::Objects(store) => store.$name($($argument),*),
        }
    };
}

impl Kind {
    fn new(settings: &Settings, shares: Shares, clock: &Clock) -> Result<Kind, StoreBuildError> {
        match settings.store {
            StoreKind::Segment => {
                let store = frazil_segment::Store::builder(shares.store_bytes);
                let eviction = if settings.evicts { Eviction::default() } else { Eviction::Never };
                let store = store.segment_bytes(shares.segment_bytes).eviction(eviction);
                let store =
                    store.clock(clock.shared()).build().map_err(StoreBuildError::Segment)?;
                let (policy, item_bytes) = (settings.policy, shares.item_bytes);
                let most = shares.store_bytes / 2;
                let large = Objects::beside_segments(most, item_bytes, policy, clock.shared());
                let large = large.map_err(StoreBuildError::Objects)?;
                let both = Segments::new(store, large, policy, settings.evicts, item_bytes);
                Ok(Kind::Segments(both))
            }
            StoreKind::Objects if !settings.evicts => Err(StoreBuildError::Evicts),
            StoreKind::Objects => {
                let bytes = (shares.store_bytes, shares.item_bytes);
                let most = settings.owns_process.then_some(settings.memory_bytes as u64);
                let store = Objects::new(bytes, most, settings.policy, clock.shared());
                store.map(Kind::Objects).map_err(StoreBuildError::Objects)
            }
        }
    }
}

impl Store {
    pub(crate) fn new(
        settings: &Settings,
        shares: Shares,
        clock: &Clock,
    ) -> Result<Store, StoreBuildError> {
        let kind = Kind::new(settings, shares, clock)?;
        Ok(Store { kind, requests: RequestLog::new() })
    }

    #[inline]
    pub(crate) fn get_with<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        either!(self.get_with(key, read))
    }

    #[inline]
    pub(crate) fn get_many(&self, keys: &[&[u8]], each: impl FnMut(usize, Option<Entry<'_>>)) {
        either!(self.get_many(keys, each));
    }

    /// Bytes of memory that an entry takes; none for one without a value yet.
    fn charge(&self, entry: &Entry<'_>) -> Option<u64> {
        let is_there = !marks::is_placeholder(entry);
        is_there.then(|| either!(self.item_charge(entry.key.len(), entry.value.len())))
    }

    /// The bytes of an entry that a client's look-up has found, for [`Store::looked_up`]. None without a recording.
    #[inline]
    pub(crate) fn recorded_bytes(&self, entry: &Entry<'_>) -> Option<u64> {
        if self.requests.is_on() { self.charge(entry) } else { None }
    }

    /// Notes a client's look-up for a recording, with the bytes of the entry that it found. A client's request is noted
    /// once, however often the server looks.
    #[inline]
    pub(crate) fn looked_up(&self, key: &[u8], bytes: Option<u64>) {
        if self.requests.is_on() {
            self.requests.looked_up(key, bytes);
        }
    }

    /// Notes an entry that was stored, unless it has no value yet.
    pub(crate) fn note_written(
        &self,
        key: &[u8],
        value: &[u8],
        marks: u8,
        lifetime: Option<Duration>,
    ) {
        if !self.requests.is_on() {
            return;
        }
        let mut entry = Entry::new(key, value);
        entry.marks = marks;
        if let Some(bytes) = self.charge(&entry) {
            self.requests.written(key, bytes, lifetime);
        }
    }

    pub(crate) fn peek<R>(&self, key: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        either!(self.peek(key, read))
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        either!(self.contains(key))
    }

    pub(crate) fn hold(&self, key: &[u8]) -> Option<Held<'_>> {
        match &self.kind {
            Kind::Segments(store) => store.hold(key),
            Kind::Objects(store) => store.hold(key).map(Held::Object),
        }
    }

    pub(crate) fn write(
        &self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expect: Expect,
    ) -> Result<(Stored, u64), StoreError> {
        let Attributes { marks, lifetime, .. } = attributes;
        let written = either!(self.write(key, value, attributes, expect));
        if matches!(written, Ok((Stored::Stored, _))) {
            self.note_written(key, value, marks, lifetime);
        }
        written
    }

    pub(crate) fn update<R>(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        decide: impl FnMut(&Entry<'_>, &mut Vec<u8>) -> Update<R>,
    ) -> Result<Option<(R, u64)>, StoreError> {
        either!(self.update(key, value, decide))
    }

    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        if self.requests.is_on() {
            self.requests.deleted(key);
        }
        either!(self.delete(key))
    }

    pub(crate) fn delete_exactly(&self, key: &[u8], cas: u64) -> Stored {
        let deleted = either!(self.delete_exactly(key, cas));
        if self.requests.is_on() && deleted == Stored::Stored {
            self.requests.deleted(key);
        }
        deleted
    }

    pub(crate) fn flush(&self) {
        either!(self.flush())
    }

    /// Visits about ten entries, and returns the next cursor. Begins with 0.
    pub(crate) fn scan_with(&self, cursor: u64, each: impl FnMut(&Entry<'_>)) -> Option<u64> {
        either!(self.scan_with(cursor, each))
    }

    /// The cursors of the scan, in one range or two that lie in one place each, for random bits: a range is the first with a
    /// probability in proportion to its items.
    pub(crate) fn ranges_at_random(&self, random: u64) -> (CursorRange, Option<CursorRange>) {
        match &self.kind {
            Kind::Segments(segments) => segments.ranges_at_random(random),
            Kind::Objects(_) => (CursorRange::ALL, None),
        }
    }

    pub(crate) fn live_items(&self) -> u64 {
        either!(self.live_items())
    }

    pub(crate) fn stats(&self) -> Stats {
        either!(self.stats())
    }

    /// As [`Store::stats`], without large items beside segments.
    pub(crate) fn stats_of_first_class(&self) -> Stats {
        match &self.kind {
            Kind::Segments(store) => store.stats_of_segments(),
            Kind::Objects(store) => store.stats(),
        }
    }

    /// Large items beside segments, by memcached's classes. Visits all of them.
    pub(crate) fn classes(&self) -> Vec<ClassStats> {
        match &self.kind {
            Kind::Segments(store) => store.classes(),
            Kind::Objects(_) => Vec::new(),
        }
    }

    /// Bytes of the items and the index.
    pub(crate) fn used_bytes(&self) -> u64 {
        either!(self.used_bytes())
    }

    /// A page for Prometheus. Reads all segments, if there are any.
    pub(crate) fn metrics(&self) -> String {
        either!(self.metrics())
    }

    pub(crate) fn save(&self, path: &Path) -> io::Result<u64> {
        either!(self.save(path))
    }

    /// Restores a snapshot, without what clients had won: they are gone.
    pub(crate) fn restore(&self, path: &Path) -> Result<u64, RestoreError> {
        either!(self.restore_with(path, marks::outlives))
    }

    pub(crate) fn expect_restore(&self) {
        either!(self.expect_restore())
    }

    pub(crate) fn expect_no_restore(&self) {
        either!(self.expect_no_restore())
    }
}
