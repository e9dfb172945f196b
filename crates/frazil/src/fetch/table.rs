//! All flights of a cache, by key.
//!
//! Shards by hash, each a small table under a mutex. Keys are compared, made and dropped
//! outside it: those with the hash asked for are taken along as references, and whoever adds
//! one looks again whether others with its hash have come since.
//!
//! **Writers of the cache ask first whether there is any flight** ([`Table::is_empty`]): one
//! load of a line that is written only when a flight begins or ends. It may be answered
//! while another thread begins a flight of the same key, and the writer, who sees none, will
//! not overtake it. That is right if what that flight loads is no older than the write, so:
//!
//! ```text
//! writer                               loader
//!   changes the source                   flying += 1           (SeqCst), fence
//!   flying == 0?           (SeqCst)      reads the source
//! ```
//!
//! If the writer sees 0, its load comes before the increment. Had the loader read what the
//! source was before the change, it would have read before the writer wrote; where the
//! source is behind a lock, a channel, a system call, the increment then *happens before* the
//! load, which contradicts it, and where it is atomic with SeqCst the single order of all
//! such operations does. (A load with Relaxed would do for the first kind; on x86 both are the
//! same instruction.) Only a source written with less, with no fence after it, lets a loader
//! read the old after the change; but there even a load that begins after the writer has
//! returned may do so.
//!
//! 128 bytes a shard. A flight that ends leaves nothing but room in its shard's table.

use std::borrow::Borrow;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::fetch::Tally;
use crate::fetch::flight::Flight;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use crate::sync::{CHECKED, Mutex, OwnLine};

const SHARDS: usize = if CHECKED { 1 } else { 32 };

type Shard<K, V> = OwnLine<Mutex<HashTable<Arc<Flight<K, V>>>>>;

/// All flights of a cache.
pub(crate) struct Table<K, V> {
    shards: Box<[Shard<K, V>]>,
    /// Flights in the table, or about to be.
    flying: OwnLine<AtomicUsize>,
    pub(crate) tally: OwnLine<Tally>,
}

// SAFETY: whoever has a flight borrows the cache that the table is part of, and nobody else
// does while that is moved; so keys and values go with it and are not shared.
unsafe impl<K: Send, V: Send> Send for Table<K, V> {}

impl<K, V> Table<K, V> {
    pub(crate) fn new() -> Self {
        let shard = || OwnLine(Mutex::new(HashTable::new()));
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Table { shards, flying: OwnLine::default(), tally: OwnLine::default() }
    }

    /// Whether no flight is under way that a write could have to overtake.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: partner is the increment in `find_or_begin`; see above.
        self.flying.0.load(SeqCst) == 0
    }

    /// Flights in the table. O(shards).
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Bytes on the heap, of the empty table.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.shards)
    }

    fn shard(&self, hash: u64) -> &Mutex<HashTable<Arc<Flight<K, V>>>> {
        &self.shards[(spread(hash) >> 32) as usize % SHARDS].0
    }

    /// Adds to `known` the flights with this hash that are not among them.
    fn gather(shard: &HashTable<Arc<Flight<K, V>>>, hash: u64, known: &mut Vec<Arc<Flight<K, V>>>) {
        for flight in shard.iter_hash(spread(hash)).filter(|flight| flight.hash == hash) {
            if !known.iter().any(|other| Arc::ptr_eq(other, flight)) {
                known.push(Arc::clone(flight));
            }
        }
    }

    /// The flight of `key`, if there is one.
    pub(crate) fn find<Q>(&self, hash: u64, key: &Q) -> Option<Arc<Flight<K, V>>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut candidates = Vec::new();
        Self::gather(&self.shard(hash).lock(), hash, &mut candidates);
        candidates.into_iter().find(|flight| flight.key.borrow() == key)
    }

    /// The flight of `key`, or a new one: then true.
    pub(crate) fn find_or_begin<Q>(&self, hash: u64, key: &Q) -> (Arc<Flight<K, V>>, bool)
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut compared = Vec::new();
        let mut newcomer = None;
        // Each time round another thread has begun a flight with this very hash.
        loop {
            let from = compared.len();
            let mut shard = self.shard(hash).lock();
            Self::gather(&shard, hash, &mut compared);
            if compared.len() == from
                && let Some(newcomer) = newcomer.take()
            {
                // SeqCst: partner is the load in `is_empty`; see above.
                self.flying.0.fetch_add(1, SeqCst);
                let flight = Arc::clone(&newcomer);
                shard.insert_unique(spread(hash), newcomer, |flight| spread(flight.hash));
                drop(shard);
                // Partner: a fence of the user's between a change of the source and the
                // write to the cache.
                fence(SeqCst);
                return (flight, true);
            }
            drop(shard);
            let of_key = |flight: &&Arc<Flight<K, V>>| flight.key.borrow() == key;
            if let Some(flight) = compared[from..].iter().find(of_key) {
                return (Arc::clone(flight), false);
            }
            newcomer.get_or_insert_with(|| Arc::new(Flight::new(hash, key.to_owned())));
        }
    }

    /// Takes a flight out, if it is still there.
    pub(crate) fn remove(&self, flight: &Arc<Flight<K, V>>) {
        let mut shard = self.shard(flight.hash).lock();
        let found = shard.find_entry(spread(flight.hash), |other| Arc::ptr_eq(other, flight));
        if let Ok(entry) = found {
            // Not the last reference: the caller has one. So nothing is dropped under the lock.
            entry.remove();
            // No data hangs on it: who sees too high a number looks for nothing.
            self.flying.0.fetch_sub(1, Relaxed);
        }
    }

    /// All flights, one shard after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Flight<K, V>>> {
        self.shards.iter().flat_map(|shard| {
            let flights: Vec<_> = shard.0.lock().iter().cloned().collect();
            flights
        })
    }
}

/// Mixes the bits of poor hashers' hashes.
fn spread(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
