//! The cache without its features: index, entries, policies among threads, insertion and removal.
//!
//! It builds on [`smr`](crate::smr). It calls what features add to an operation through
//! [`Hooks`](hooks::Hooks), and names no feature (`docs/design/layers.md`).

pub(crate) mod admission;
pub(crate) mod budget;
pub(crate) mod bypass;
mod ending;
#[cfg(feature = "loading")]
mod exchange;
mod grow;
pub(crate) mod hooks;
pub(crate) mod index;
pub(crate) mod insert;
pub(crate) mod local;
pub(crate) mod order;
mod read;
mod reclaim;
mod remove;
pub(crate) mod resize;
#[cfg(feature = "tracing")]
mod shortages;
pub(crate) mod slab;
pub(crate) mod steps;
mod sweep;
mod work;

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use frazil_policy::{Mark, Online, Priority};

use crate::clock::Clock;
use crate::smr::protect::{Pinned, Protect};
use crate::smr::reclaim::Reclaim;
use crate::smr::refs::SlotRefs as _;
use crate::smr::segments::Segments;
use crate::smr::{fence, fork, thread};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};
use budget::Budget;
use bypass::Bypass;
pub(crate) use ending::Ending;
pub(crate) use grow::slots_for;
#[cfg(feature = "expiry")]
pub(crate) use grow::usual_slots;
use grow::{segments_for, words_for};
use hooks::PerThread;
use index::{Index, Mixed, Seen, Table};
use local::{Buffers, Reads, Stripe, Stripes};
#[cfg(feature = "measure")]
use order::locked::turns::ListCosts;
use order::locked::{Locked, Promotion};
use order::queue::Queue;
use order::{HELD_MAX, HELD_MAX_AGAIN, Headers, Order};
#[cfg(all(test, feature = "loading", not(any(loom, shuttle))))]
pub(crate) use reclaim::{YIELDS, YIELDS_MAX};
use resize::{Resize, WEIGHT_STEP_FROM, entries_max_for, fitting_step};
use slab::{At, Header, Slab};

/// Restarts of an operation because other threads changed its key, or took the capacity that it had
/// freed. Each time another thread has made progress.
const ATTEMPTS: usize = 64;

/// Times that an insertion gathers the slots and credit of idle threads.
const SCAVENGES: u32 = 3;

/// The weight of an entry.
pub(crate) type Weigher<K, V> = Box<dyn Fn(&K, &V) -> u64 + Send + Sync>;

/// The settings of a core.
pub(crate) struct Settings<K, V, S> {
    pub(crate) policy: Online,
    pub(crate) promotion: Option<Promotion>,
    pub(crate) shards: u32,
    /// Entries, or weight with a weigher.
    pub(crate) capacity: u64,
    /// The most entries ever, and the expected number.
    pub(crate) bound: u64,
    pub(crate) expected: u64,
    /// The most slots that travel between threads at once.
    pub(crate) batch: u32,
    /// Whether survivors of Mobius move as one.
    pub(crate) detects_runs: bool,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) hasher: S,
    pub(crate) clock: Clock,
    /// The most fetches of the backend in a second, where requests may bypass the cache.
    pub(crate) bypass: Option<u64>,
    #[cfg(feature = "measure")]
    pub(crate) list_costs: Option<ListCosts>,
}

/// A cache, with what hooks add to its operations.
pub(crate) struct Core<K, V, S, H: PerThread> {
    pub(crate) index: Index,
    pub(crate) slab: Slab<K, V, H::Refs>,
    pub(crate) order: Order,
    pub(crate) mark_max: u8,
    pub(crate) stripes: Stripes<H::Local>,
    pub(crate) reclaim: Reclaim,
    pub(crate) segments: Segments,
    /// The entries that may still be admitted.
    pub(crate) entry_budget: Budget,
    /// The weight that may still be admitted, with a weigher.
    pub(crate) weights: Option<Box<Budget>>,
    pub(crate) resize: Resize,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) hasher: S,
    pub(crate) clock: Clock,
    pub(crate) bypass: Option<Box<Bypass>>,
    pub(crate) policy: Online,
    /// By which threads remember their stripe.
    pub(crate) identity: u64,
    pub(crate) hooks: H,
    #[cfg(feature = "tracing")]
    shortages: shortages::Shortages,
}

/// A slot found by key, and the word that led to it.
#[derive(Clone, Copy)]
pub(crate) struct Found<'c> {
    pub(crate) cell: &'c AtomicU32,
    /// The word above and the slot below. Two fields are two registers. Three were in memory,
    /// stored one by one, and a load of all waited for the stores: 8 % of an insertion.
    word_and_slot: u64,
}

impl<'c> Found<'c> {
    #[inline(always)]
    pub(crate) fn new(cell: &'c AtomicU32, word: u32, slot: u32) -> Self {
        Found { cell, word_and_slot: u64::from(word) << 32 | u64::from(slot) }
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u32 {
        (self.word_and_slot >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn slot(self) -> u32 {
        self.word_and_slot as u32
    }
}

impl<'c> From<(Found<'c>, At<'c>)> for Found<'c> {
    #[inline(always)]
    fn from((found, _): (Found<'c>, At<'c>)) -> Self {
        found
    }
}

/// The part of it that a look-up needs and does not change: it stays in registers.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'c> {
    pub(crate) at: At<'c>,
    pub(crate) slot: u32,
}

impl<'c> From<(Found<'c>, At<'c>)> for Spot<'c> {
    #[inline(always)]
    fn from((found, at): (Found<'c>, At<'c>)) -> Self {
        Spot { at, slot: found.slot() }
    }
}

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    pub(crate) fn new(settings: Settings<K, V, S>, hooks: H) -> Self {
        fence::prepare();
        fork::prepare();
        let Settings { policy, capacity, bound, expected: entries, .. } = settings;
        let weighted = settings.weigher.is_some();
        let length = (1 << settings.batch.clamp(1, 16).ilog2()).min(fitting_step(entries));
        let entries_max = entries_max_for(capacity, bound, weighted);
        let step = length.min(fitting_step(entries_max.min(entries)));
        let capacity = if weighted { capacity } else { entries_max };
        let promotion = settings.promotion.unwrap_or(Promotion::of(policy));
        let shards = (promotion, settings.shards);
        let policy_in_force = (policy, settings.detects_runs);
        let order = Order::new(policy_in_force, shards, capacity, entries_max.min(entries));
        #[cfg(feature = "measure")]
        let order = match settings.list_costs {
            None => order,
            Some(costs) => {
                let entries = entries_max.min(entries);
                let locked = Locked::new(policy, promotion, 1, capacity, entries);
                Order::Locked(Box::new(locked.with_costs(costs)))
            }
        };
        let count = segments_for(slots_for(entries), order.slots_in_segment(length as u32));
        let segments = Segments::new(count as usize, length);
        segments.set_step(step as u32);
        Core {
            index: Index::new(words_for(entries)),
            slab: Slab::new(weighted),
            mark_max: order.mark_max(),
            order,
            stripes: Stripes::default(),
            reclaim: match H::Refs::COUNTED {
                true => Reclaim::without_limbo(entries),
                false => Reclaim::new(entries, weighted.then_some(capacity)),
            },
            entry_budget: Budget::new(entries_max, step as u64 - 1),
            weights: weighted.then(|| Box::new(Budget::new(capacity, capacity / WEIGHT_STEP_FROM))),
            resize: Resize::new(bound, entries, capacity),
            segments,
            weigher: settings.weigher,
            hasher: settings.hasher,
            clock: settings.clock,
            bypass: settings.bypass.map(|fetches| Box::new(Bypass::new(fetches))),
            policy,
            identity: thread::identity(),
            hooks,
            #[cfg(feature = "tracing")]
            shortages: shortages::Shortages::default(),
        }
    }

    /// The stripe of the calling thread.
    #[inline(always)]
    pub(crate) fn stripe(&self) -> &Stripe<H::Local> {
        thread::stripe(self.identity, &self.stripes)
    }

    /// Begins to protect the entries that this thread reads.
    #[inline(always)]
    pub(crate) fn pinned(&self) -> Pinned<'_> {
        Pinned::new(&self.stripe().reader, &self.reclaim)
    }

    /// The counted number of entries.
    pub(crate) fn entries(&self) -> u64 {
        let counted = self.stripes.iter().fold(0u64, |sum, stripe| {
            let counts = &stripe.local.counts;
            sum.wrapping_add(counts.insertions.load(Relaxed))
                .wrapping_sub(counts.evictions.load(Relaxed))
                .wrapping_sub(counts.removals.load(Relaxed))
                .wrapping_sub(counts.lapses.load(Relaxed))
        });
        likely(counted, self.entry_budget.capacity())
    }

    /// Their total weight; their number without a weigher.
    pub(crate) fn weight(&self) -> u64 {
        if self.weights.is_none() {
            return self.entries();
        }
        let counted = self
            .stripes
            .iter()
            .fold(0u64, |sum, stripe| sum.wrapping_add(stripe.local.counts.weight.load(Relaxed)));
        likely(counted, self.capacity())
    }

    /// The charge of the entry in a slot while it is resident.
    #[inline(always)]
    pub(crate) fn charge(&self, slot: u32) -> u64 {
        if self.slab.refs(slot).is_charged() { self.slab.weight(slot) } else { 0 }
    }

    /// The capacity in force, in entries or in weight.
    pub(crate) fn capacity(&self) -> u64 {
        self.weights.as_deref().unwrap_or(&self.entry_budget).capacity()
    }

    /// Whether so many entries are held that it is cheaper to admit new ones beyond the capacity,
    /// and to evict after releases, than to check all again.
    #[inline(always)]
    pub(crate) fn admits_beyond(&self) -> bool {
        self.hooks.admits_beyond(self.capacity())
    }

    /// Bytes of address space reserved so far.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.slab.heap_bytes()
            + self.order.heap_bytes()
            + self.segments.heap_bytes()
            + self.stripes.heap_bytes()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: PerThread> Core<K, V, S, H> {
    /// The hash of a key, and its form for the index.
    #[inline(always)]
    pub(crate) fn hashes<Q: Hash + ?Sized>(&self, key: &Q) -> (u64, Mixed) {
        let hash = self.hasher.hash_one(key);
        (hash, self.index.mix(hash))
    }

    /// Finds a key: [`Found`], or the requested part of it. The slot may be read while `protection`
    /// lives and is not reused.
    #[inline(always)]
    pub(crate) fn find<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        mixed: Mixed,
        key: &Q,
    ) -> Option<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<(Found<'c>, At<'c>)>,
    {
        let table = self.index.table();
        let look = |cell, word, slot| self.compare(protection, key, (cell, word, slot));
        let (found, home) = table.find_at_home(mixed, look);
        if found.is_none() && (home.displaced() || self.index.has_left(table)) {
            return self.find_further(protection, table, mixed, key);
        }
        found
    }

    // Apart, so that what `find` works with can stay in registers.
    #[inline(never)]
    fn find_further<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        table: &'c Table,
        mixed: Mixed,
        key: &Q,
    ) -> Option<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<(Found<'c>, At<'c>)>,
    {
        let look = |cell, word, slot| self.compare(protection, key, (cell, word, slot));
        let found = table.find_further(mixed, look);
        if found.is_none() && self.index.has_left(table) {
            return self.index.find(mixed, look);
        }
        found
    }

    /// Whether a word with the right tag leads to `key`.
    #[inline(always)]
    fn compare<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        key: &Q,
        (cell, word, slot): (&'c AtomicU32, u32, u32),
    ) -> Seen<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<(Found<'c>, At<'c>)>,
    {
        if !protection.protects(cell, word, slot) {
            return Seen::Changed;
        }
        if protection.has_ended() {
            return Seen::Other;
        }
        let at = self.slab.at(slot);
        // SAFETY: the word was in the index, so the slot is published, and it is
        // protected.
        if key.equivalent(unsafe { self.slab.key_at(at) }) {
            Seen::Match((Found::new(cell, word, slot), at).into())
        } else {
            Seen::Other
        }
    }

    /// Another slot of the key of `own_slot`, and whether its word comes before `own_word`, the
    /// word of `own_slot` in the cell `own`. `None` also if `own_word` is removed: the thread that
    /// took or replaced it handles the others. The caller protects `own_slot`.
    pub(crate) fn duplicate<'c, Q>(
        &'c self,
        protection: &impl Protect,
        mixed: Mixed,
        (own, own_word, own_slot): (&AtomicU32, u32, u32),
        key: &Q,
    ) -> Option<(Found<'c>, bool)>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut first = true;
        let look = |cell: &'c AtomicU32, word, slot| {
            // Not by its cell: the table may be replaced meanwhile.
            if slot == own_slot {
                first = false;
                return Seen::Other;
            }
            self.compare(protection, key, (cell, word, slot))
        };
        let found = self.index.find(mixed, look)?;
        (own.load(Relaxed) == own_word).then_some((found, first))
    }

    /// The word and the slot in a cell of a table, if there is one, protected as by
    /// [`Core::find`].
    #[inline]
    pub(crate) fn protected(
        &self,
        protection: &impl Protect,
        table: &Table,
        cell: &AtomicU32,
    ) -> Option<(u32, u32)> {
        loop {
            // Acquire: partner is the Release with which the word was published.
            let word = cell.load(Acquire);
            let slot = table.slot(word);
            if slot == 0 {
                return None;
            }
            // If not, another thread has changed it.
            if protection.protects(cell, word, slot) {
                return (!protection.has_ended()).then_some((word, slot));
            }
        }
    }

    /// Whether a look-up of its key finds this slot. Two threads may have admitted the key just
    /// now.
    #[cfg(feature = "freezing")]
    pub(crate) fn is_found(
        &self,
        protection: &impl Protect,
        mixed: Mixed,
        slot: u32,
        key: &K,
    ) -> bool {
        let look = |cell, word, other| {
            if other == slot {
                return Seen::Match(true);
            }
            match self.compare::<_, Found<'_>>(protection, key, (cell, word, other)) {
                Seen::Match(_) => Seen::Match(false),
                Seen::Other => Seen::Other,
                Seen::Changed => Seen::Changed,
            }
        };
        self.index.find(mixed, look) == Some(true)
    }

    // Apart, so that it takes no register of a hit under the policies without a lock.
    #[inline(never)]
    fn used_under_lock(&self, locked: &Locked, slot: u32) {
        locked.hit(self, slot);
    }

    /// Marks a hit, where the policy wants it. It was counted before.
    #[inline(always)]
    pub(crate) fn touch(&self, Spot { at, slot }: Spot<'_>) {
        let mark: &Mark = &self.slab.header_at(at).mark;
        if mark.count() < self.mark_max {
            match &self.order {
                Order::Locked(locked) if !locked.marks() => self.used_under_lock(locked, slot),
                _ => _ = mark.raise(self.mark_max),
            }
        }
    }
}

/// A sum of counts that were read one after the other. Counts of different moments may add up to
/// more than is possible, or to less than 0, which wraps.
fn likely(sum: u64, capacity: u64) -> u64 {
    if sum > capacity && sum > u64::MAX / 2 { 0 } else { sum.min(capacity) }
}

/// The entries, as policies see them.
impl<K: Hash, V, S: BuildHasher, H: PerThread> Headers for Core<K, V, S, H> {
    #[inline(always)]
    fn header(&self, slot: u32) -> &Header {
        self.slab.header(slot)
    }
    #[inline(always)]
    fn reads(&self) -> &Reads {
        &self.stripe().local.reads
    }
    fn each_idle(&self, take: &mut dyn FnMut(&mut Buffers)) {
        self.stripes.claims().for_each(|mut held| take(&mut held));
    }
    #[inline(always)]
    fn prefetch(&self, slot: u32) {
        self.slab.prefetch(slot);
    }
    #[inline(always)]
    fn weight(&self, slot: u32) -> u64 {
        self.slab.weight(slot)
    }
    #[inline(always)]
    fn priority(&self, slot: u32) -> Priority {
        self.slab.refs(slot).priority()
    }
    #[inline(always)]
    fn is_charged(&self, slot: u32) -> bool {
        self.slab.refs(slot).is_charged()
    }
    #[inline(always)]
    fn bottom(&self) -> Option<&Queue> {
        self.hooks.bottom()
    }
    #[inline(always)]
    fn claim(&self, slot: u32) -> bool {
        let is_claimed = self.slab.refs(slot).claim();
        if !is_claimed {
            H::passed_over(self, slot);
        }
        is_claimed
    }
    #[inline(always)]
    fn unclaim(&self, slot: u32) {
        H::unclaim(self, slot);
    }
    #[inline(always)]
    fn gave_up_lately(&self) -> bool {
        self.hooks.gave_up_lately()
    }
    #[inline(always)]
    fn held_max(&self) -> u32 {
        if self.admits_beyond() { HELD_MAX_AGAIN } else { HELD_MAX }
    }
    #[inline(always)]
    fn leaves_queue(&self, slot: u32) -> bool {
        self.slab.refs(slot).dequeue()
    }
    #[inline(always)]
    fn hash(&self, slot: u32) -> u64 {
        // SAFETY: a policy asks for a slot that it has taken, or under its lock for one
        // in its place: neither can be retired, let alone vacated.
        self.hasher.hash_one(unsafe { self.slab.key(slot) })
    }
    fn coarse_ns(&self) -> u64 {
        self.clock.coarse()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Cache, Tested};

    /// While the words of a table that was left are taken out of it, one after the other.
    #[test]
    fn an_entry_is_no_duplicate_of_itself_in_the_next_table() {
        let cache: Tested = Cache::builder(1 << 20).build();
        let core = &cache.core;
        cache.insert(1, String::new());
        let (_, mixed) = core.hashes(&1);
        let pinned = core.pinned();
        let found: Found<'_> = core.find(&pinned, mixed, &1).expect("it is there");
        let (cell, word, slot) = (found.cell, found.word(), found.slot());
        let before = core.index.table().len();
        (2..)
            .take_while(|_| core.index.table().len() == before)
            .for_each(|key| cache.insert(key, String::new()));
        cell.store(word, Relaxed);
        assert!(core.duplicate(&pinned, mixed, (cell, word, slot), &1).is_none());
        cell.store(0, Relaxed);
    }
}
