//! Tracked keys (`CLIENT TRACKING`): the clients to notify when a key changes.
//!
//! All threads share one table, in parts with a lock each. A key enters it when a client reads it. When the key
//! changes or the table is full, all clients that have read the key are notified and it leaves the table. Clients
//! that track all keys with a prefix are in a separate list. `docs/design/server-tracking.md` says who is notified
//! when.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};

use parking_lot::{Mutex, RwLock};

use crate::mail::{Mail, Place, Stale};

const PARTS: usize = 64;
/// Memory of a key without its bytes, and of each client that has read it.
const KEY_BYTES: usize = 176;
const TRACKER_BYTES: usize = 32;
/// Keys that a thread checks against the store each second.
const SWEPT: usize = 4096;

thread_local! {
    /// The connection that this thread serves, if it has `NOLOOP`; otherwise 0.
    static WRITER: Cell<u64> = const { Cell::new(0) };
}

/// Suppresses messages to the connection about its own writes, until it is dropped.
pub(crate) struct Unheard(());

impl Unheard {
    pub(crate) fn by(id: u64) -> Unheard {
        WRITER.set(id);
        Unheard(())
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        WRITER.set(0);
    }
}

/// A connection to notify, by its unique number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracker {
    pub(crate) id: u64,
    pub(crate) place: Place,
}

/// The table of tracked keys.
#[derive(Debug)]
pub(crate) struct Tracking {
    /// Connections that track. Writers read it after they have written.
    count: AtomicUsize,
    clients: Mutex<HashMap<u64, Place>>,
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    /// Limit of each part.
    bytes_max: usize,
    prefixes: RwLock<Prefixes>,
}

#[derive(Debug, Default)]
struct Part {
    /// By hash, so that evictions are in no order of the keys.
    keys: BTreeMap<u64, Tracked>,
    bytes: usize,
    /// The hash evicted last, and the one checked last.
    evicted: u64,
    swept: u64,
}

#[derive(Debug)]
struct Tracked {
    key: Box<[u8]>,
    /// Whether the key has an entry, as seen by its last reader.
    is_present: bool,
    /// Sorted by number.
    by: Vec<Tracker>,
}

impl Tracked {
    fn bytes(&self) -> usize {
        KEY_BYTES + self.key.len() + self.by.len() * TRACKER_BYTES
    }
}

/// The clients that track all keys with a prefix, by the length of the prefix.
#[derive(Debug, Default)]
struct Prefixes {
    by_length: BTreeMap<usize, HashMap<Box<[u8]>, Trackers>>,
}

/// Sorted by number.
type Trackers = BTreeMap<u64, Place>;

/// The sizes that `INFO` shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    /// Clients of each key, summed.
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Tracking {
    pub(crate) fn new(bytes_max: usize) -> Tracking {
        Tracking {
            count: AtomicUsize::new(0),
            clients: Mutex::default(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            bytes_max: bytes_max / PARTS,
            prefixes: RwLock::default(),
        }
    }

    /// Starts the tracking of a connection: of keys it reads, and of keys with these prefixes.
    pub(crate) fn join(&self, tracker: Tracker, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        for prefix in prefixes {
            let of_length = all.by_length.entry(prefix.len()).or_default();
            of_length.entry(prefix.clone()).or_default().insert(tracker.id, tracker.place);
        }
        if self.clients.lock().insert(tracker.id, tracker.place).is_none() {
            // Before any key is read: partner of the fence that writers have before they read it.
            self.count.fetch_add(1, SeqCst);
        }
    }

    /// Ends the tracking of a connection. The keys that it has read stay until they change.
    pub(crate) fn leave(&self, id: u64, prefixes: &[Box<[u8]>]) {
        let mut all = self.prefixes.write();
        for prefix in prefixes {
            let Some(of_length) = all.by_length.get_mut(&prefix.len()) else { continue };
            if let Some(trackers) = of_length.get_mut(prefix) {
                trackers.remove(&id);
                if trackers.is_empty() {
                    of_length.remove(prefix);
                }
            }
            if of_length.is_empty() {
                all.by_length.remove(&prefix.len());
            }
        }
        // Held to the end, so that no client joins and reads before the table is empty.
        let mut clients = self.clients.lock();
        if clients.remove(&id).is_some() && self.count.fetch_sub(1, SeqCst) == 1 {
            self.parts.iter().for_each(|part| *part.lock() = Part::default());
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn part(&self, hash: u64) -> &Mutex<Part> {
        &self.parts[hash as usize % PARTS]
    }

    /// Tracks a key before a connection reads it, for one message. `is_present`: whether it has an entry. Returns
    /// whether the connection is new to the key.
    pub(crate) fn remember(&self, key: &[u8], by: Tracker, is_present: bool, mail: &Mail) -> bool {
        let hash = self.hash(key);
        let mut part = self.part(hash).lock();
        let other = part.keys.get(&hash).is_some_and(|tracked| *tracked.key != *key);
        let mut forgotten = Vec::new();
        if other {
            forgotten.extend(part.take(hash));
        }
        let is_new = part.add(hash, key, by, is_present);
        while part.bytes > self.bytes_max
            && let Some(tracked) = part.make_room(hash)
        {
            forgotten.push(tracked);
        }
        drop(part);
        // Between this and the look at the store: partner of the writers' fence.
        fence(SeqCst);
        for Tracked { key, by, .. } in forgotten {
            tell(&key, by.into_iter(), mail);
        }
        is_new
    }

    /// Ends the tracking of a key that a connection has not read after all.
    pub(crate) fn forget(&self, key: &[u8], id: u64) {
        let hash = self.hash(key);
        let mut part = self.part(hash).lock();
        if part.keys.get(&hash).is_some_and(|tracked| *tracked.key == *key)
            && let Some(mut tracked) = part.take(hash)
        {
            tracked.by.retain(|tracker| tracker.id != id);
            if !tracked.by.is_empty() {
                part.bytes += tracked.bytes();
                part.keys.insert(hash, tracked);
            }
        }
    }

    /// A key was written or deleted, followed by a fence of `SeqCst`: either this thread sees the reader of the key,
    /// or that reader sees the write.
    #[inline]
    pub(crate) fn written(&self, key: &[u8], mail: &Mail) {
        if self.count.load(Relaxed) > 0 {
            self.invalidate(key, mail);
        }
    }

    #[cold]
    fn invalidate(&self, key: &[u8], mail: &Mail) {
        let hash = self.hash(key);
        let mut part = self.part(hash).lock();
        let is_it = part.keys.get(&hash).is_some_and(|tracked| *tracked.key == *key);
        let tracked = if is_it { part.take(hash) } else { None };
        drop(part);
        let mut trackers = tracked.map_or_else(Vec::new, |tracked| tracked.by);
        for (length, of_length) in self.prefixes.read().by_length.range(..=key.len()) {
            let with_prefix = of_length.get(&key[..*length]).into_iter().flatten();
            trackers.extend(with_prefix.map(|(&id, &place)| Tracker { id, place }));
        }
        let writer = WRITER.get();
        trackers.retain(|tracker| tracker.id != writer);
        tell(key, trackers.into_iter(), mail);
    }

    /// All entries were deleted.
    pub(crate) fn flushed(&self, mail: &Mail) {
        fence(SeqCst);
        if self.count.load(Relaxed) == 0 {
            return;
        }
        self.parts.iter().for_each(|part| *part.lock() = Part::default());
        let clients = self.clients.lock().clone();
        mail.tell(clients.into_iter().map(|to| (to, Stale::All)));
    }

    /// Checks some of a thread's keys, and notifies of those that have expired or were evicted.
    pub(crate) fn sweep(
        &self,
        (thread, threads): (usize, usize),
        mail: &Mail,
        is_present: impl Fn(&[u8]) -> bool,
    ) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        for part in self.parts.iter().skip(thread).step_by(threads) {
            let changed = part.lock().sweep(SWEPT * threads.min(PARTS) / PARTS, &is_present);
            for Tracked { key, by, .. } in changed {
                tell(&key, by.into_iter(), mail);
            }
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let prefixes = self.prefixes.read().by_length.values().map(HashMap::len).sum();
        let mut sizes = Sizes { clients: self.count.load(Relaxed), prefixes, ..Sizes::default() };
        for part in &self.parts {
            let part = part.lock();
            sizes.keys += part.keys.len();
            sizes.items += part.keys.values().map(|tracked| tracked.by.len()).sum::<usize>();
        }
        sizes
    }
}

fn tell(key: &[u8], trackers: impl ExactSizeIterator<Item = Tracker>, mail: &Mail) {
    if trackers.len() > 0 {
        let stale = Stale::Key(key.into());
        mail.tell(trackers.map(|Tracker { id, place }| ((id, place), stale.clone())));
    }
}

impl Part {
    fn add(&mut self, hash: u64, key: &[u8], by: Tracker, is_present: bool) -> bool {
        let tracked = match self.keys.entry(hash) {
            btree_map::Entry::Occupied(there) => there.into_mut(),
            btree_map::Entry::Vacant(vacant) => {
                self.bytes += KEY_BYTES + key.len();
                vacant.insert(Tracked { key: key.into(), is_present, by: Vec::new() })
            }
        };
        let place = tracked.by.binary_search_by_key(&by.id, |tracker| tracker.id);
        if let Err(at) = place {
            tracked.by.insert(at, by);
            self.bytes += TRACKER_BYTES;
        }
        place.is_err()
    }

    fn take(&mut self, hash: u64) -> Option<Tracked> {
        let tracked = self.keys.remove(&hash)?;
        self.bytes -= tracked.bytes();
        Some(tracked)
    }

    /// Takes the next key in turn other than `kept`, or `kept` if it is the only one.
    fn make_room(&mut self, kept: u64) -> Option<Tracked> {
        let after = self.keys.range((Excluded(self.evicted), Unbounded));
        let mut hashes = after.chain(&self.keys).map(|(&hash, _)| hash);
        let hash = hashes.find(|&hash| hash != kept).unwrap_or(kept);
        self.evicted = hash;
        self.take(hash)
    }

    /// Checks the next `count` keys, and takes those whose entry has come or gone.
    fn sweep(&mut self, count: usize, is_present: impl Fn(&[u8]) -> bool) -> Vec<Tracked> {
        let after = self.keys.range((Excluded(self.swept), Unbounded));
        let mut last = None;
        let mut changed = Vec::new();
        for (&hash, tracked) in after.chain(&self.keys).take(count.min(self.keys.len())) {
            last = Some(hash);
            if tracked.is_present != is_present(&tracked.key) {
                changed.push(hash);
            }
        }
        self.swept = last.unwrap_or(0);
        changed.into_iter().filter_map(|hash| self.take(hash)).collect()
    }
}
