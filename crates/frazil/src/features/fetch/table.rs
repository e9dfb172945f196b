//! All flights of a cache, by key.
//!
//! Shards by hash, each a small table under a mutex. Keys are compared, made and dropped outside
//! it: a look-up takes references to the flights with its hash, and checks before it adds one
//! whether others with its hash have come since.
//!
//! **Writers of the cache first check whether there is any flight** ([`Flights::is_empty`]): one
//! load of a line that is written only when a flight begins or ends. Another thread may begin a
//! flight of the same key meanwhile, and a writer that sees none does not overtake it. That is
//! right if the flight loads nothing older than the write, so:
//!
//! ```text
//! writer                               loader
//!   changes the source                   flying += 1           (SeqCst), fence
//!   flying == 0?           (SeqCst)      reads the source
//! ```
//!
//! If the writer sees 0, its load comes before the increment. Had the loader read the source as it
//! was before the change, it would have read before the writer wrote. If the source is behind a
//! lock, a channel, a system call, the increment then *happens before* the load, which is a
//! contradiction. If it is atomic with SeqCst the single order of all such operations contradicts
//! it. (A load with Relaxed would do for the first kind; on x86 both are the same instruction.)
//! Only a source written with a weaker ordering, with no fence after it, lets a loader read the old
//! value after the change; but there even a load that begins after the writer has returned may do
//! so.
//!
//! A flight that has failed and is *remembered* stays in the table, and so does one whose fetch
//! waits for a caller (`detached.rs`). Their shard also lists them, oldest first, which bounds
//! their number. A flight that is ended otherwise leaves an empty reference in the list.
//!
//! 128 bytes a shard, made for the first flight. A flight that ends leaves only spare capacity in
//! its shard's table.

use std::collections::VecDeque;
use std::sync::atomic::compiler_fence;
use std::sync::{Arc, OnceLock, Weak};

use equivalent::Equivalent;
use hashbrown::HashTable;

use crate::clock::Clock;
use crate::features::fetch::flight::Flight;
use crate::features::fetch::key::EntryKey;
use crate::features::fetch::tally::Tally;
use crate::features::fetch::timer::Timer;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use crate::sync::{CHECKED, Mutex, OwnLine};

const SHARDS: usize = if CHECKED { 1 } else { 32 };

/// The most errors that a shard remembers, with fetches that wait for a caller.
const REMEMBERED_MAX: usize = if CHECKED { 1 } else { 256 };
/// Number of these that a write of any key checks for expiry.
const TIDIED: u32 = 2;

/// Flights whose keys' hashes are alike.
#[derive(Debug)]
struct Shard<K, V> {
    flights: HashTable<Arc<Flight<K, V>>>,
    /// Failed and lingering flights, in the order in which they became so.
    remembered: VecDeque<Weak<Flight<K, V>>>,
}

type Locked<K, V> = OwnLine<Mutex<Shard<K, V>>>;

/// All flights of a cache.
pub(crate) struct Flights<K, V> {
    /// Made for the first flight.
    shards: OnceLock<Box<[Locked<K, V>]>>,
    /// Flights in the table, or about to be.
    flying: OwnLine<AtomicUsize>,
    /// With the rest it fills a line: a thread that writes it has come to load.
    pub(crate) tally: Tally,
    pub(crate) timer: Timer,
    /// The cache's clock, which times fetches and waits.
    pub(crate) clock: Clock,
}

// SAFETY: the holder of a flight borrows the cache that contains the table, and there is no borrow
// while the cache is moved; so keys and values move with it and are not shared.
unsafe impl<K: Send, V: Send> Send for Flights<K, V> {}

impl<K, V> Flights<K, V> {
    pub(crate) fn new(clock: Clock) -> Self {
        let shards = OnceLock::new();
        let (flying, tally) = (OwnLine::default(), Tally::default());
        Flights { shards, flying, tally, timer: Timer::new(), clock }
    }

    /// Whether no flight is under way that a write could have to overtake.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: partner is the increment in `find_or_begin`; see above.
        self.flying.0.load(SeqCst) == 0
    }

    /// Flights that are not over, and those that are remembered. O(flights).
    pub(crate) fn len(&self) -> (usize, usize) {
        let (remembered, under_way): (Vec<_>, Vec<_>) =
            self.all().partition(|flight| flight.is_remembered().is_some());
        (under_way.len(), remembered.len())
    }

    /// Active flights, whose turn is taken or called for: neither remembered nor left. O(flights).
    pub(crate) fn attended(&self) -> usize {
        self.all().filter(|flight| flight.is_kept().is_none()).count()
    }

    /// Bytes on the heap, of the empty table and the counts.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.shards.get().map_or(0, |shards| size_of_val(&**shards)) + self.tally.heap_bytes()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard<K, V>> {
        let shard = || Shard { flights: HashTable::new(), remembered: VecDeque::new() };
        let make = || (0..SHARDS).map(|_| OwnLine(Mutex::new(shard()))).collect();
        &self.shards.get_or_init(make)[(spread(hash) >> 32) as usize % SHARDS].0
    }

    /// Adds to `known` the flights with this hash that are not among them.
    fn gather(shard: &Shard<K, V>, hash: u64, known: &mut Vec<Arc<Flight<K, V>>>) {
        let flights = shard.flights.iter_hash(spread(hash));
        for flight in flights.filter(|flight| flight.hash == hash) {
            if !known.iter().any(|other| Arc::ptr_eq(other, flight)) {
                known.push(Arc::clone(flight));
            }
        }
    }

    /// The flight of `key`, if there is one.
    pub(crate) fn find<Q>(&self, hash: u64, key: &Q) -> Option<Arc<Flight<K, V>>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut candidates = Vec::new();
        Self::gather(&self.shard(hash).lock(), hash, &mut candidates);
        candidates.into_iter().find(|flight| key.equivalent(&flight.key))
    }

    /// The flight of `key`; or a new one and true, whose turn is the caller's, a task or a thread.
    pub(crate) fn find_or_begin<A>(
        &self,
        hash: u64,
        key: &A,
        by_task: bool,
    ) -> (Arc<Flight<K, V>>, bool)
    where
        A: EntryKey<K>,
    {
        let mut compared = Vec::new();
        let new = || Arc::new(Flight::new(hash, key.copy(), by_task));
        // Most find none, and then need not look before they have made one.
        let mut newcomer = self.is_empty().then(new);
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
                let rehash = |flight: &Arc<Flight<K, V>>| spread(flight.hash);
                shard.flights.insert_unique(spread(hash), newcomer, rehash);
                drop(shard);
                // Partner: a fence of the user's between a change of the source and the
                // write to the cache. On x86-64 the locked increment is one already.
                if cfg!(any(miri, loom, shuttle, not(target_arch = "x86_64"))) {
                    fence(SeqCst);
                }
                compiler_fence(SeqCst);
                return (flight, true);
            }
            drop(shard);
            let of_key = |flight: &&Arc<Flight<K, V>>| key.query().equivalent(&flight.key);
            if let Some(flight) = compared[from..].iter().find(of_key) {
                return (Arc::clone(flight), false);
            }
            newcomer.get_or_insert_with(new);
        }
    }

    /// Takes a flight out, if it is still there.
    pub(crate) fn remove(&self, flight: &Arc<Flight<K, V>>) {
        let mut shard = self.shard(flight.hash).lock();
        let is_it = |other: &Arc<_>| Arc::ptr_eq(other, flight);
        let found = shard.flights.find_entry(spread(flight.hash), is_it);
        if let Ok(entry) = found {
            // Not the last reference: the caller has one. So nothing is dropped under the lock.
            entry.remove();
            // No data depends on it: a thread that sees too high a number searches in vain.
            self.flying.0.fetch_sub(1, Relaxed);
        }
    }

    /// All flights, one shard after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Flight<K, V>>> {
        self.shards.get().into_iter().flatten().flat_map(|shard| {
            let flights: Vec<_> = shard.0.lock().flights.iter().cloned().collect();
            flights
        })
    }

    /// Lists a failed flight to remember, or one that lingers; forgets the oldest if there are too
    /// many.
    pub(crate) fn remember(&self, flight: &Arc<Flight<K, V>>) {
        let mut shard = self.shard(flight.hash).lock();
        // A flight may linger again: it becomes the newest, and takes one place.
        let is_it = |listed: &Weak<_>| std::ptr::eq(listed.as_ptr(), Arc::as_ptr(flight));
        if let Some(at) = shard.remembered.iter().rposition(is_it) {
            shard.remembered.remove(at);
        }
        let is_full = shard.remembered.len() >= REMEMBERED_MAX;
        let oldest = is_full.then(|| shard.remembered.pop_front()).flatten();
        shard.remembered.push_back(Arc::downgrade(flight));
        drop(shard);
        // Under no lock: keys and errors are dropped.
        if let Some(oldest) = oldest.as_ref().and_then(Weak::upgrade) {
            oldest.forget(self);
        }
    }

    /// Checks the two oldest that the shard of this hash remembers, and forgets expired ones. Reads
    /// the time only if there are any.
    pub(crate) fn tidy(&self, hash: u64, now: impl Fn() -> u64) {
        for _ in 0..TIDIED {
            let oldest = self.shard(hash).lock().remembered.front().cloned();
            let Some(listed) = oldest else { return };
            let flight = listed.upgrade();
            let until = flight.as_ref().and_then(|flight| flight.is_kept());
            if until.is_some_and(|until| now() < until) {
                return;
            }
            let mut shard = self.shard(hash).lock();
            if shard.remembered.front().is_some_and(|front| front.ptr_eq(&listed)) {
                shard.remembered.pop_front();
            }
            drop(shard);
            if let Some(flight) = flight {
                flight.forget(self);
            }
        }
    }

    /// Forgets all that has expired. O(flights).
    #[cfg(feature = "expiry")]
    pub(crate) fn forget_expired(&self, now: u64) {
        let has_expired =
            |flight: &Arc<Flight<K, V>>| flight.is_kept().is_some_and(|until| until <= now);
        self.all().filter(has_expired).for_each(|flight| flight.forget(self));
    }
}

/// Mixes the bits of poor hashers' hashes.
fn spread(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
