//! Keys that clients keep copies of (`CLIENT TRACKING`), and who is told when one changes.
//!
//! One table for all threads, in parts with a lock each. A key is in it from when a client reads it until it changes
//! or the table is full; then all who have read it are told, and it is forgotten. Clients that ask for everything with a
//! prefix are in a list of their own. Who is told, and when: `docs/design/server-tracking.md`.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};

use parking_lot::{Mutex, RwLock};

use crate::mail::{Mail, Place, Stale};

const PARTS: usize = 64;
/// What a key takes beside its bytes, and what each client takes that has read it.
const KEY_BYTES: usize = 176;
const TRACKER_BYTES: usize = 32;
/// Keys that a thread looks for in the store each second.
const SWEPT: usize = 4096;

thread_local! {
    /// The connection that this thread serves, if it is not to be told of what it writes itself; else 0.
    static WRITER: Cell<u64> = const { Cell::new(0) };
}

/// What is written until this is dropped is not told to the connection.
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

/// A connection that is told, by its number, which is never used twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracker {
    pub(crate) id: u64,
    pub(crate) place: Place,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Tracking {
    /// Connections that track. Writers read it after they have written.
    count: AtomicUsize,
    clients: Mutex<HashMap<u64, Place>>,
    parts: Box<[Mutex<Part>]>,
    hasher: RandomState,
    /// Of each part.
    bytes_max: usize,
    prefixes: RwLock<Prefixes>,
}

#[derive(Debug, Default)]
struct Part {
    /// By hash, so that what must go is met in no order of the keys.
    keys: BTreeMap<u64, Tracked>,
    bytes: usize,
    /// The hash that went last to make room, and the one that was looked for last.
    evicted: u64,
    swept: u64,
}

#[derive(Debug)]
struct Tracked {
    key: Box<[u8]>,
    /// Whether there is an entry, as far as who reads it knows.
    is_present: bool,
    /// By number.
    by: Vec<Tracker>,
}

impl Tracked {
    fn bytes(&self) -> usize {
        KEY_BYTES + self.key.len() + self.by.len() * TRACKER_BYTES
    }
}

/// Who is told of all keys with a prefix, by the length of the prefix.
#[derive(Debug, Default)]
struct Prefixes {
    by_length: BTreeMap<usize, HashMap<Box<[u8]>, Trackers>>,
}

/// By number.
type Trackers = BTreeMap<u64, Place>;

/// What `INFO` shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    /// Clients of each key, added up.
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

    /// A connection is told from now on of what it reads, and of keys with these prefixes.
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

    /// It is told no more. Keys that it has read stay until they change.
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
        // Until the end, so that nobody joins and reads before the table is empty.
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

    /// A connection is about to read a key, and is told once when it changes. `is_present` says whether it has an entry.
    /// Answers whether it had not read it before.
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
        // Between this and the look at the store: partner of the one that writers have.
        fence(SeqCst);
        for Tracked { key, by, .. } in forgotten {
            tell(&key, by.into_iter(), mail);
        }
        is_new
    }

    /// A connection has not read a key after all.
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

    /// A key was written or deleted. There is a fence of `SeqCst` before: either this sees who has read the key, or that
    /// reader sees what was written.
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

    /// Everything was deleted.
    pub(crate) fn flushed(&self, mail: &Mail) {
        fence(SeqCst);
        if self.count.load(Relaxed) == 0 {
            return;
        }
        self.parts.iter().for_each(|part| *part.lock() = Part::default());
        let clients = self.clients.lock().clone();
        mail.tell(clients.into_iter().map(|to| (to, Stale::All)));
    }

    /// Looks for some of the keys that a thread has to look for, and tells of those that have expired or were evicted.
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

    /// Takes another key than that of `kept`, or that if it is the only one: each in turn.
    fn make_room(&mut self, kept: u64) -> Option<Tracked> {
        let after = self.keys.range((Excluded(self.evicted), Unbounded));
        let mut hashes = after.chain(&self.keys).map(|(&hash, _)| hash);
        let hash = hashes.find(|&hash| hash != kept).unwrap_or(kept);
        self.evicted = hash;
        self.take(hash)
    }

    /// Looks for the next so many keys, and takes those whose entry has come or gone.
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
