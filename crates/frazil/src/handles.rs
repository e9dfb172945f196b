//! A cache whose values can be held, as its users see it.

mod builder;
#[cfg(feature = "freezing")]
mod freezing;
mod held;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::ptr::NonNull;

use equivalent::Equivalent;
use foldhash::fast::RandomState;
use frazil_policy::Priority;
#[cfg(feature = "recording")]
use frazil_recording::Lifetimes;

use crate::Stats;
use crate::core::admission::{Admitted, Refusal, Refused};
use crate::core::index::Mixed;
use crate::core::{Ending, Spot, insert};
use crate::features::frozen;
use crate::features::handles::{Counted, Counting, Newcomer};
use crate::features::record::Event;
use crate::smr::fence;
use crate::smr::refs::SlotRefs as _;
use crate::smr::stripe::add;
use crate::sync::atomic::Ordering::Relaxed;
pub use builder::HandleBuilder;
pub use held::{Held, Outcome};

/// A concurrent cache whose values can be held: the value of a [`Held`] stays as long as the
/// handle, even if the cache evicts the entry or is dropped.
///
/// Each insertion gives the entry's charge, and the capacity is a sum of charges. An eviction skips
/// held entries. An entry that is removed or replaced while it is held is no longer found or
/// charged. The thread that releases it last drops it at once, outside of the cache's locks.
///
/// A [`Cache`](crate::Cache) returns clones, or references under a [`Pin`](crate::Pin) of one
/// thread, and its look-ups execute no locked instruction. This cache executes two, one to hold and
/// one to release; or none if threads have contended for the entry or it is frozen, because then
/// each thread counts its own holds. Use it if values are large, are used for long or sent to other
/// threads, and must be dropped as soon as they are no longer used: buffers, blocks of a file,
/// pages.
///
/// ```
/// use frazil::HandleCache;
/// let cache: HandleCache<u64, Vec<u8>> = HandleCache::builder(1 << 20).build();
/// let block = cache.insert_held(7, vec![1; 4096], 4096)?.held;
/// assert!(cache.erase(&7) && cache.hold(&7).is_none());
/// assert_eq!((cache.usage(), cache.held_usage()), (4096, 4096), "it is held");
/// std::thread::spawn(move || assert_eq!(block[0], 1)).join().unwrap();
/// assert_eq!(cache.usage(), 0, "the other thread has let go of it");
/// # Ok::<(), frazil::Refused<u64, Vec<u8>>>(())
/// ```
pub struct HandleCache<K, V, S = RandomState> {
    core: NonNull<Counting<K, V, S>>,
    owns: PhantomData<Counting<K, V, S>>,
}

// SAFETY: it is a core, which is shared with all holders: so keys, values and the hasher go to
// other threads and are used by several.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Send for HandleCache<K, V, S> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Sync for HandleCache<K, V, S> {}

/// An entry that was admitted, and how.
type Admission<'c, K, V, S> = (Arrival<'c, K, V, S>, Admitted);

/// An insertion under way: releases the slot that it got, unless that is taken.
struct Arrival<'c, K, V, S> {
    core: &'c Counting<K, V, S>,
    newcomer: Newcomer,
}

impl<K, V, S> Arrival<'_, K, V, S> {
    /// The slot in which it is counted.
    fn take(&self) -> u32 {
        self.newcomer.slot.take()
    }
}

impl<K, V, S> Drop for Arrival<'_, K, V, S> {
    fn drop(&mut self) {
        let slot = self.take();
        if slot != 0 {
            // SAFETY: it is counted, and the core is borrowed.
            unsafe { Counting::release(NonNull::from_ref(self.core), self.core.slab.refs(slot)) };
        }
    }
}

impl<K, V> HandleCache<K, V> {
    /// Begins a cache of this capacity, a sum of charges.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, String> = frazil::HandleCache::builder(1_000).build();
    /// assert_eq!((cache.capacity(), cache.usage()), (1_000, 0));
    /// ```
    pub fn builder(capacity: u64) -> HandleBuilder<K, V> {
        HandleBuilder::new(capacity)
    }
}

impl<K, V, S> HandleCache<K, V, S> {
    #[inline(always)]
    pub(crate) fn core(&self) -> &Counting<K, V, S> {
        // SAFETY: the core waits for its cache before it is freed.
        unsafe { self.core.as_ref() }
    }

    /// Total charge of all entries that are resident or held. O(threads); exact while no operation
    /// runs, and `u64::MAX` if it is more.
    ///
    /// It may exceed the [`capacity`](Self::capacity) by held entries that are no longer resident,
    /// unless the cache is [strict](HandleBuilder::strict).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 60);
    /// assert_eq!(cache.usage(), 60);
    /// ```
    pub fn usage(&self) -> u64 {
        self.core().usage()
    }

    /// Total charge of all held entries, resident or not; `u64::MAX` if it is more. Reads all
    /// entries, O(entries). Exact while no operation runs.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 60);
    /// let held = cache.hold(&1);
    /// assert_eq!(cache.held_usage(), 60);
    /// drop(held);
    /// assert_eq!(cache.held_usage(), 0);
    /// ```
    pub fn held_usage(&self) -> u64 {
        self.core().held_usage()
    }

    /// The last requested capacity. More is in use while too much is held: [`usage`](Self::usage).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert_eq!(cache.capacity(), 100);
    /// ```
    pub fn capacity(&self) -> u64 {
        self.core().hooks.asked_capacity()
    }

    /// Whether the cache is [strict](HandleBuilder::strict).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert!(!cache.is_strict());
    /// ```
    pub fn is_strict(&self) -> bool {
        self.core().hooks.is_strict()
    }

    /// Makes the cache [strict](HandleBuilder::strict) from now on, or not. Held entries beyond the
    /// capacity stay; those removed before, while they were held, are not charged against it.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(1).build();
    /// let _held = cache.insert_held(1, 10, 1).unwrap();
    /// let _beyond = cache.insert_held(2, 20, 1).unwrap();
    /// cache.set_strict(true);
    /// assert!(cache.insert_held(3, 30, 1).is_err());
    /// ```
    pub fn set_strict(&self, strict: bool) {
        self.core().hooks.set_strict(strict);
    }

    /// Number of homes in which the hash table keeps its entries, up to 15 in each.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 60);
    /// assert!(cache.homes() >= 1);
    /// ```
    pub fn homes(&self) -> usize {
        self.core().index.table().len()
    }

    /// The statistics of the cache: holds are gets. O(threads).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.hold(&1);
    /// assert_eq!(cache.stats().misses, 1);
    /// ```
    pub fn stats(&self) -> Stats {
        self.core().counted()
    }

    /// Number of resident entries. O(threads); exact while no thread writes.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 60);
    /// assert_eq!(cache.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.core().entries() as usize
    }

    /// Bytes of address space that the cache has reserved so far, without the data that keys and
    /// values point to.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(1_000_000).build();
    /// assert!(cache.reserved_bytes() < 20_000);
    /// ```
    pub fn reserved_bytes(&self) -> usize {
        self.core().reserved_bytes()
    }

    /// Whether no entry is resident. O(threads).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert!(cache.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> HandleCache<K, V, S> {
    /// A handle of the value of `key`, and a hit for the policy. O(1), without a lock except LRU's.
    ///
    /// ```
    /// let cache: frazil::HandleCache<String, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert("answer".to_owned(), 42, 1);
    /// let held = cache.hold("answer").unwrap();
    /// cache.clear();
    /// assert_eq!((*held, held.key().as_str()), (42, "answer"));
    /// assert!(cache.hold("answer").is_none());
    /// ```
    #[inline]
    pub fn hold<Q>(&self, key: &Q) -> Option<Held<K, V, S>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let hashes = self.core().hashes(key);
        if self.core().hooks.recorder.wants(hashes.0) {
            return self.hold_observed(hashes, key);
        }
        self.hold_hashed(hashes, key)
    }

    /// The same for an observed operation, for a recording or for learning what to freeze.
    #[cold]
    #[inline(never)]
    fn hold_observed<Q>(&self, hashes: (u64, Mixed), key: &Q) -> Option<Held<K, V, S>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let core = self.core();
        let look = core.begin_look();
        let held = self.hold_hashed(hashes, key);
        if let Some(look) = look {
            look.end(hashes.0, held.is_some(), || held.as_ref().map(|held| held.refs().slot()));
        }
        let (event, weight) = match &held {
            Some(held) => (Event::Hit, held.charge()),
            None => (Event::Miss, 0),
        };
        core.hooks.recorder.note(hashes.0, event, weight);
        held
    }

    #[inline(always)]
    fn hold_hashed<Q>(&self, (hash, mixed): (u64, Mixed), key: &Q) -> Option<Held<K, V, S>>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let core = self.core();
        let local = &core.stripe().local;
        let counted = Counted::new(core, &local.features);
        let Some(found) = core.find::<_, Spot<'_>>(&counted, mixed, key) else {
            local.reads.miss(hash);
            return None;
        };
        if core.hooks.is_frozen(core.slab.header_at(found.at)) {
            add(&local.reads.hook_hits, 1);
        } else {
            add(&local.reads.hits, 1);
            core.touch(found);
        }
        counted.keep();
        // SAFETY: it is counted, and only this handle releases it.
        Some(unsafe { Held::new(self.core, core.slab.value_address(found.at)) })
    }

    /// Inserts an entry with a charge, replaces the entry of the same key if there is one, and
    /// returns the result.
    ///
    /// O(1) amortised; it skips at most 64 held entries, or 576 while others are not held.
    ///
    /// ```
    /// use frazil::{Admitted, HandleCache};
    /// let cache: HandleCache<u64, &str> = HandleCache::builder(100).build();
    /// assert_eq!(cache.insert(1, "one", 60), Ok(Admitted::New));
    /// assert_eq!(cache.insert(1, "uno", 60), Ok(Admitted::Replaced));
    /// assert!(cache.insert(2, "two", 101).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], with key and value, if the entry is not admitted: its charge exceeds the
    /// capacity; or all entries that could be evicted for it are held, or are behind too many held
    /// ones; or the policy refuses it (S3-FIFO refuses a new entry with a charge above a tenth of a
    /// full capacity). The previous entry of the key is removed nevertheless.
    pub fn insert(&self, key: K, value: V, charge: u64) -> Result<Admitted, Refused<K, V>> {
        self.insert_with(key, value, charge, Priority::Low)
    }

    /// Inserts an entry, as [`insert`](Self::insert), with a priority: where the policy starts it.
    /// A hit treats all entries alike, and FIFO ignores priorities.
    ///
    /// Without a hit, an entry of [`Priority::Bottom`] is evicted before all of [`Priority::Low`],
    /// and one of [`Priority::High`] is spared once when the policy reaches it. S3-FIFO does not
    /// refuse the latter. If a thread requests high priority for half of its insertions or more,
    /// the excess gets low priority. O(1) amortised.
    ///
    /// ```
    /// use frazil::{HandleCache, Priority};
    /// let cache: HandleCache<u64, &str> = HandleCache::builder(2).build();
    /// cache.insert_with(1, "scanned", 1, Priority::Bottom)?;
    /// cache.insert(2, "two", 1)?;
    /// cache.insert(3, "three", 1)?;
    /// assert!(cache.hold(&1).is_none() && cache.hold(&2).is_some());
    /// # Ok::<(), frazil::Refused<u64, &str>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn insert_with(
        &self,
        key: K,
        value: V,
        charge: u64,
        priority: Priority,
    ) -> Result<Admitted, Refused<K, V>> {
        self.admit(key, value, charge, priority).map(|(_, admitted)| admitted)
    }

    /// Inserts an entry, as [`insert`](Self::insert), and holds it.
    ///
    /// Unless the cache is [strict](HandleBuilder::strict), it is admitted beyond the capacity if
    /// nothing else can be evicted. The excess is evicted when it is [released](Self::release), or
    /// by later insertions. An entry that [`insert`](Self::insert) would refuse, because its charge
    /// exceeds the capacity or the policy refuses it, is admitted too: it is found while it is
    /// held, nothing is evicted for it, and it leaves with its last handle. Both have a bound of
    /// 2^60: on the capacity with what was admitted beyond it, and on the sum of charges of entries
    /// that `insert` would refuse. If the bound would be exceeded, or if the capacity is 0 or is
    /// lowered at this moment, the entry is held and not admitted: no look-up finds it, and it is
    /// dropped with its last handle.
    ///
    /// ```
    /// use frazil::{HandleCache, Outcome};
    /// let cache: HandleCache<u64, &str> = HandleCache::builder(100).build();
    /// let one = cache.insert_held(1, "one", 60).unwrap();
    /// let two = cache.insert_held(2, "two", 60).unwrap();
    /// assert_eq!((one.outcome, two.outcome), (Outcome::New, Outcome::New));
    /// assert_eq!((cache.usage(), cache.capacity()), (120, 100));
    /// assert!(cache.release(one.held, false), "it was too much");
    /// assert_eq!(cache.usage(), 60);
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], with key and value, if the cache is strict and the entry is not admitted;
    /// otherwise only if the cache has the most entries possible, 2^29.
    pub fn insert_held(
        &self,
        key: K,
        value: V,
        charge: u64,
    ) -> Result<Insertion<K, V, S>, Refused<K, V>> {
        self.insert_held_with(key, value, charge, Priority::Low)
    }

    /// Inserts an entry and holds it, as [`insert_held`](Self::insert_held), with a priority, as
    /// [`insert_with`](Self::insert_with).
    ///
    /// ```
    /// use frazil::{HandleCache, Outcome, Priority};
    /// let cache: HandleCache<u64, &str> = HandleCache::builder(100).build();
    /// let index = cache.insert_held_with(1, "index", 60, Priority::High).unwrap();
    /// assert_eq!(index.outcome, Outcome::New);
    /// ```
    ///
    /// # Errors
    ///
    /// As [`insert_held`](Self::insert_held).
    pub fn insert_held_with(
        &self,
        key: K,
        value: V,
        charge: u64,
        priority: Priority,
    ) -> Result<Insertion<K, V, S>, Refused<K, V>> {
        match self.admit(key, value, charge, priority) {
            Ok(admission) => Ok(self.insertion(admission)),
            Err(refused) if self.is_strict() => Err(refused),
            Err(refused) => self.insert_beyond(refused, charge, priority),
        }
    }

    fn insertion(&self, (arrival, admitted): Admission<'_, K, V, S>) -> Insertion<K, V, S> {
        let slab = &self.core().slab;
        let value = slab.value_address(slab.at(arrival.take()));
        // SAFETY: it is counted, and does not release it again.
        let held = unsafe { Held::new(self.core, value) };
        let outcome = match admitted {
            Admitted::New => Outcome::New,
            Admitted::Replaced => Outcome::Replaced,
        };
        Insertion { held, outcome }
    }

    /// Admits an entry beyond the capacity, or only holds it.
    #[cold]
    #[inline(never)]
    fn insert_beyond(
        &self,
        mut refused: Refused<K, V>,
        charge: u64,
        priority: Priority,
    ) -> Result<Insertion<K, V, S>, Refused<K, V>> {
        let core = self.core();
        // Nothing is evicted for an entry that the policy refuses.
        let is_uncharged = refused.reason != Refusal::NoRoom && core.hooks.asked_capacity() > 0;
        // First: it may panic.
        let hashes = core.hashes(&refused.key);
        let may_be = match is_uncharged {
            true => core.may_be_uncharged(charge),
            false => core.exceed(charge),
        };
        if may_be {
            let newcomer = Newcomer { priority, is_uncharged, ..Newcomer::default() };
            match self.admit_once(hashes, refused.key, refused.value, (charge, newcomer)) {
                Ok(admission) => {
                    let insertion = self.insertion(admission);
                    if is_uncharged {
                        core.list_uncharged(hashes.1, insertion.held.refs().slot());
                    }
                    return Ok(insertion);
                }
                Err(again) => refused = again,
            }
            if is_uncharged {
                core.uncharged_in_vain(charge);
            }
        }
        let held = self.detach(refused, charge)?;
        Ok(Insertion { held, outcome: Outcome::Detached })
    }

    fn detach(&self, refused: Refused<K, V>, charge: u64) -> Result<Held<K, V, S>, Refused<K, V>> {
        let core = self.core();
        let slot = core.detach(refused, charge)?;
        // SAFETY: it is counted.
        Ok(unsafe { Held::new(self.core, core.slab.value_address(core.slab.at(slot))) })
    }

    /// Holds a value without admitting it, at any capacity: no look-up finds it, nothing is evicted
    /// for it, and it is dropped with its last handle. It counts in [`usage`](Self::usage) with its
    /// charge, also if the cache is [strict](HandleBuilder::strict). O(1).
    ///
    /// ```
    /// use frazil::HandleCache;
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(0).strict(true).build();
    /// let held = cache.hold_detached(1, 10, 0)?;
    /// assert_eq!((*held, cache.len()), (10, 0));
    /// # Ok::<(), frazil::Refused<u64, u64>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], with key and value, if the cache has the most entries possible, 2^29.
    pub fn hold_detached(
        &self,
        key: K,
        value: V,
        charge: u64,
    ) -> Result<Held<K, V, S>, Refused<K, V>> {
        self.detach(Refused { key, value, reason: Refusal::NoRoom }, charge)
    }

    fn admit(
        &self,
        key: K,
        value: V,
        charge: u64,
        priority: Priority,
    ) -> Result<Admission<'_, K, V, S>, Refused<K, V>> {
        let core = self.core();
        core.find_lost();
        core.shrink_if_asked();
        let (hash, mixed) = core.hashes(&key);
        if core.hooks.recorder.wants(hash) {
            core.hooks.recorder.note(hash, Event::Insert, charge);
        }
        let newcomer = Newcomer { priority, ..Newcomer::default() };
        self.admit_once((hash, mixed), key, value, (charge, newcomer))
    }

    fn admit_once(
        &self,
        (hash, mixed): (u64, Mixed),
        key: K,
        value: V,
        (charge, mut newcomer): (u64, Newcomer),
    ) -> Result<Admission<'_, K, V, S>, Refused<K, V>> {
        let core = self.core();
        let stripe = core.stripe();
        let ends_timed_miss =
            frozen::arrive(&stripe.local.reads, &stripe.local.features.frozen, hash);
        newcomer.priority = stripe.local.features.grant(newcomer.priority);
        let arrival = Arrival { core, newcomer };
        let admit = |key, value| {
            let incoming = &arrival.newcomer;
            let admission = insert::Admission { hash, mixed, weight: charge, incoming };
            core.admit(stripe, admission, key, value, |refused| refused)
        };
        let removals = || stripe.local.counts.removals.load(Relaxed);
        let before = removals();
        let mut admitted = admit(key, value);
        // If orphans are charged, the entry to replace was charged beside it and is removed by now:
        // if it is not held, there may be enough free capacity.
        if core.hooks.is_strict() && removals() != before {
            admitted = admitted.or_else(|Refused { key, value, .. }| {
                admit(key, value).map(|_| Admitted::Replaced)
            });
        }
        if ends_timed_miss {
            core.end_timed_miss();
        }
        Ok((arrival, admitted?))
    }

    /// Removes `key`, and returns whether it was present. Its value is dropped with its last
    /// handle.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 1);
    /// assert!(cache.erase(&1) && !cache.erase(&1));
    /// ```
    pub fn erase<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let core = self.core();
        let (hash, mixed) = core.hashes(key);
        if core.hooks.recorder.wants(hash) {
            core.hooks.recorder.note(hash, Event::Remove, 0);
        }
        core.order.read_clock(core);
        core.take_out(mixed, key, |_| (), Ending::Removed).is_some()
    }

    /// Removes the very entry that is held, if it is still resident. Returns whether it was.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// let held = cache.insert_held(1, 10, 1).unwrap().held;
    /// cache.insert(1, 20, 1);
    /// assert!(!cache.erase_held(&held), "another one has its place");
    /// ```
    pub fn erase_held(&self, held: &Held<K, V, S>) -> bool {
        held.is_of(self.core()) && self.core().end_residency(held.refs().slot())
    }

    /// Releases a handle. If it was the last one, removes the entry if `erase_if_last`, or if usage
    /// exceeds the capacity. Returns whether this has dropped the value.
    ///
    /// The drop of a [`Held`] does the same, except that the excess over the capacity stays until
    /// the next insertion.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// let held = cache.insert_held(1, 10, 1).unwrap().held;
    /// assert!(!cache.release(held, false));
    /// assert!(cache.release(cache.hold(&1).unwrap(), true));
    /// assert!(cache.is_empty());
    /// ```
    #[inline]
    pub fn release(&self, held: Held<K, V, S>, erase_if_last: bool) -> bool {
        let core = self.core();
        if !held.is_of(core) {
            return false;
        }
        let refs = held.refs();
        // Frozen entries are not evicted for entries that came beside them.
        let exceeds =
            || core.exceeds_capacity() && !core.hooks.is_frozen(core.slab.header(refs.slot()));
        let is_to_go = erase_if_last || exceeds() || !refs.is_charged();
        if is_to_go {
            match core.let_go_beside_others(refs) {
                Ok(()) => {
                    std::mem::forget(held);
                    return false;
                }
                Err(seen) if seen.is_held_once() => {
                    core.end_residency(refs.slot());
                    core.shrink_if_asked();
                }
                // Its residency has ended, or many threads use it at once.
                Err(_) => {}
            }
        }
        let held = std::mem::ManuallyDrop::new(held);
        // SAFETY: it is counted, and the core is borrowed.
        unsafe { Counting::release(self.core, held.refs()) }
    }

    /// Makes threads count the holders of an entry themselves, as if threads had met there. For
    /// tests.
    #[doc(hidden)]
    pub fn spread(&self, held: &Held<K, V, S>) {
        if held.is_of(self.core()) {
            self.core().spread(held.refs().slot());
        }
    }

    /// The handle of an address that [`Held::into_raw`] has returned.
    ///
    /// # Safety
    ///
    /// The address came from [`Held::into_raw`] of a handle of this cache, and is made into a
    /// handle once.
    #[inline]
    pub unsafe fn from_raw(&self, value: NonNull<V>) -> Held<K, V, S> {
        // SAFETY: it is of this cache, and a holder is counted (the caller's promise).
        unsafe { Held::new(self.core, value) }
    }

    /// Calls a function for all entries, each with its key and charge, in an order that depends on
    /// the hashes. O(capacity). An entry resident throughout is passed once, one that comes or
    /// leaves meanwhile at most once.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 7);
    /// let mut shown = Vec::new();
    /// cache.for_each(|key, value, charge| shown.push((*key, *value, charge)));
    /// assert_eq!(shown, [(1, 10, 7)]);
    /// ```
    pub fn for_each(&self, mut show: impl FnMut(&K, &V, u64)) {
        let core = self.core();
        core.each_entry(|slot, key, value| show(key, value, core.slab.weight(slot)));
    }

    /// Removes all entries that are not held, including frozen ones, and thaws. Entries that come
    /// meanwhile may stay. O(capacity).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 1);
    /// let _held = cache.insert_held(2, 20, 1).unwrap();
    /// cache.clear_unheld();
    /// assert!(cache.hold(&1).is_none() && cache.hold(&2).is_some());
    /// ```
    pub fn clear_unheld(&self) {
        let core = self.core();
        let steps = core.steps();
        steps.take(|| core.thaw());
        core.recount_all();
        // The sweep itself is counted as a holder of the entry that it visits.
        core.sweep(&steps, |slot| core.is_held_once(slot));
        steps.take(|| core.scavenge(false));
    }

    /// Removes all entries, frozen ones too, and thaws. Entries inserted meanwhile may stay.
    /// O(capacity).
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// cache.insert(1, 10, 1);
    /// cache.clear();
    /// assert!(cache.is_empty());
    /// ```
    pub fn clear(&self) {
        let core = self.core();
        let steps = core.steps();
        // Then the words count all their holders.
        steps.take(|| core.thaw());
        core.sweep(&steps, |_| true);
        steps.take(|| core.scavenge(false));
    }

    /// Changes the capacity, evicts the excess, and returns the capacity in force: it is more than
    /// requested if entries to evict are held. Thaws frozen entries. O(evicted entries + held
    /// entries).
    ///
    /// Later insertions bring it down, once those are released: each evicts up to 4 more entries.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// (0..100).for_each(|key| _ = cache.insert(key, key, 1));
    /// assert_eq!(cache.set_capacity(10), 10);
    /// assert_eq!(cache.usage(), 10);
    /// ```
    pub fn set_capacity(&self, capacity: u64) -> u64 {
        let core = self.core();
        let steps = core.steps();
        // Frozen entries could not be evicted.
        steps.take(|| core.thaw());
        core.recount_all();
        let in_force = core.set_capacity(&steps, capacity);
        // Either this finds entries frozen meanwhile, or the thread that froze them finds the
        // requested capacity. Partner: the heavy fence of `freeze_untold`.
        fence::light();
        if in_force <= capacity || !core.hooks.is_anything_frozen() {
            return in_force;
        }
        // It was frozen meanwhile, by a thread that had not yet seen the requested capacity.
        steps.take(|| core.thaw());
        core.set_capacity(&steps, capacity)
    }
}

#[cfg(feature = "recording")]
impl<K, V, S> HandleCache<K, V, S> {
    /// Records the requests for a share of all keys to a file, as
    /// [`Cache::record`](crate::Cache::record) does: [`hold`](Self::hold) is a get, and an entry's
    /// charge is its size.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// let path = std::env::temp_dir().join(format!("held-{}.frazil", std::process::id()));
    /// let recording = cache.record(&path, 1.0)?;
    /// for key in [1, 2, 1, 3] {
    ///     if cache.hold(&key).is_none() {
    ///         cache.insert(key, key, 10);
    ///     }
    /// }
    /// assert_eq!(recording.finish()?.records, 4);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of [`Cache::record`](crate::Cache::record).
    pub fn record(
        &self,
        path: impl AsRef<std::path::Path>,
        rate: f64,
    ) -> std::io::Result<crate::Recording<'_>> {
        let core = self.core();
        core.record_with(&core.hooks.recorder, path.as_ref(), rate, Lifetimes::None)
    }
}

/// Result of [`HandleCache::insert_held`]: a handle, and the outcome of the insertion.
///
/// ```
/// use frazil::{HandleCache, Outcome};
/// let cache: HandleCache<u64, u64> = HandleCache::builder(100).build();
/// let insertion = cache.insert_held(1, 10, 1).unwrap();
/// assert_eq!((*insertion.held, insertion.outcome), (10, Outcome::New));
/// ```
pub struct Insertion<K, V, S = RandomState> {
    /// The value, held.
    pub held: Held<K, V, S>,
    /// The outcome of the insertion.
    pub outcome: Outcome,
}

impl<K, V, S> fmt::Debug for Insertion<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Insertion").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl<K, V, S> Drop for HandleCache<K, V, S> {
    fn drop(&mut self) {
        // SAFETY: the core came from a box, and all users by way of the cache end with it.
        unsafe { Counting::close(self.core) };
    }
}

impl<K, V, S> fmt::Debug for HandleCache<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleCache")
            .field("len", &self.len())
            .field("usage", &self.usage())
            .field("held_usage", &self.held_usage())
            .finish_non_exhaustive()
    }
}
