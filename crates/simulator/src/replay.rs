//! One cell of a sweep: a policy at a capacity, fed with a trace.
//!
//! The cell is the policy's host. Over a decoded trace objects are dense numbers, so the index is
//! an array (4 bytes an object of the trace); over a stream it is a hash table of the residents.
//! Slots are recycled, so that the policy's memory stays as small as the cache.
//!
//! The policy's type is a compile-time parameter, so the loop over records has no dynamic call.
//! Each policy is compiled for three kinds of cells and no more, because that is most of this
//! crate's build time: [`Objects`] and [`Bytes`], the fast ones, and
//! [`Versatile`](crate::versatile::Versatile), which decides at run time what it does.

use std::ops::Range;

use frazil_policy::{Eviction, Host, Incoming, Policy, Slot, Work, WorkCounts};

use crate::index::{DenseIndex, Index};
use crate::trace::{Operation, Sizes, Trace};

/// Latencies of gets; hits wait 0. In requests with [`ReplayClock::Request`], in nanoseconds with
/// [`ReplayClock::Trace`].
///
/// [`ReplayClock::Request`]: crate::ReplayClock::Request
/// [`ReplayClock::Trace`]: crate::ReplayClock::Trace
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Sum over all gets.
    pub total: u64,
    /// Median; to three digits.
    pub p50: u64,
    /// 99th percentile; to three digits.
    pub p99: u64,
    /// Waits of delayed hits, for the rest of a fetch.
    pub delayed_hits: Waits,
    /// Waits of misses, for a whole fetch.
    pub misses: Waits,
}

/// Waits of one kind of gets, in the unit of [`Latency`]; all 0 without such gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Sum over these gets.
    pub total: u64,
    /// The quantiles 0, 5, 10, … and 100 %; to three digits.
    pub twentieths: [u64; 21],
    /// 99th percentile; to three digits.
    pub p99: u64,
}

impl Waits {
    /// Median.
    ///
    /// ```
    /// let mut waits = frazil_simulator::Waits::default();
    /// waits.twentieths[10] = 7;
    /// assert_eq!(waits.p50(), 7);
    /// ```
    pub fn p50(&self) -> u64 {
        self.twentieths[10]
    }
}

/// Content of a cell, sampled at equal distances in the second half of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of samples.
    pub looks: u64,
    /// Resident objects, summed over the samples.
    pub objects: u64,
    /// Bytes of these objects, summed over the samples.
    pub bytes: u64,
    /// The largest used capacity in a sample.
    pub most: u64,
}

impl Held {
    /// Mean size of a resident object in bytes; `None` if there was none.
    ///
    /// ```
    /// let held = frazil_simulator::Held { looks: 2, objects: 10, bytes: 250, most: 6 };
    /// assert_eq!(held.mean_bytes(), Some(25.0));
    /// assert_eq!(frazil_simulator::Held::default().mean_bytes(), None);
    /// ```
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.objects > 0).then(|| self.bytes as f64 / self.objects as f64)
    }

    /// The samples of both.
    pub(crate) fn and(self, other: Held) -> Held {
        Held {
            looks: self.looks + other.looks,
            objects: self.objects + other.objects,
            bytes: self.bytes + other.bytes,
            most: self.most.max(other.most),
        }
    }
}

/// Result of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Counted gets.
    pub requests: u64,
    /// Gets that found their object.
    pub hits: u64,
    /// Gets that found a fetch of their object under way and waited for it; 0 if fetches take no
    /// time.
    pub delayed_hits: u64,
    /// Misses that would have hit if the entry had not expired; 0 without lifetimes.
    pub expired: u64,
    /// Latencies; `None` if fetches take no time.
    pub latency: Option<Latency>,
    /// Bytes requested; 0 unless the unit is bytes.
    pub bytes_requested: u64,
    /// Bytes requested and missed; 0 unless the unit is bytes.
    pub bytes_missed: u64,
    /// Time in the replay loop, over counted and warm-up records, in seconds.
    pub seconds: f64,
    /// Records replayed in that time.
    pub records: u64,
    /// Work on hits and elsewhere; zero unless it was counted.
    pub work: WorkSplit,
    /// Resident objects; `None` unless they were sampled.
    pub held: Option<Held>,
}

impl Outcome {
    /// Counts a get of an object of `size` bytes.
    #[inline(always)]
    pub(crate) fn count_get(&mut self, hit: bool, weighs_bytes: bool, size: u64) {
        self.requests += 1;
        self.hits += u64::from(hit);
        if weighs_bytes {
            self.bytes_requested += size;
            self.bytes_missed += if hit { 0 } else { size };
        }
    }

    /// Gets that found neither their object nor a fetch of it, and so started one.
    pub fn misses(&self) -> u64 {
        self.requests - self.hits - self.delayed_hits
    }

    /// The same misses among a multiple of the requests, with the difference in hits: for a sample
    /// with too many requests or too few ([`trace::Recording::correction`]). Bytes likewise.
    ///
    /// [`trace::Recording::correction`]: crate::trace::Recording::correction
    ///
    /// ```
    /// use frazil_simulator::Outcome;
    /// let sample = Outcome { requests: 1_000, hits: 900, ..Outcome::default() };
    /// assert_eq!(sample.among(0.5).miss_ratio(), 0.2);
    /// assert_eq!(sample.among(0.01).miss_ratio(), 1.0);
    /// ```
    pub fn among(&self, factor: f64) -> Outcome {
        let times = |count: u64| (count as f64 * factor).round() as u64;
        let others = self.misses() + self.delayed_hits;
        let requests = times(self.requests).max(others);
        Outcome {
            requests,
            hits: requests - others,
            bytes_requested: times(self.bytes_requested).max(self.bytes_missed),
            ..*self
        }
    }

    /// Misses over requests; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses(), self.requests)
    }

    /// Bytes missed over bytes requested; 0 without bytes.
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.bytes_missed, self.bytes_requested)
    }

    /// Mean latency of a get; `None` if fetches take no time.
    pub fn latency_mean(&self) -> Option<f64> {
        self.latency.map(|latency| ratio(latency.total, self.requests))
    }

    /// Records a second of the replay loop.
    pub fn records_per_second(&self) -> f64 {
        self.records as f64 / self.seconds.max(1e-9)
    }

    /// Units of work on the hit path, per hit.
    pub fn work_per_hit(&self) -> f64 {
        ratio(self.work.on_hits.total(), self.hits)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Work of the policy, by what caused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkSplit {
    /// Work inside [`Policy::hit`] of gets.
    pub on_hits: WorkCounts,
    /// All other work: sets, misses, evictions, insertions and removals.
    pub elsewhere: WorkCounts,
}

/// The work of a kind of cell beside look-ups, admissions and evictions. A kind pays nothing for
/// work that it does not do.
pub(crate) trait Kind {
    /// Whether an object weighs its size; 1 if not.
    fn weighs_bytes(&self) -> bool;
    /// Called when a get that hits begins (`true`), or any other work.
    #[inline(always)]
    fn enter(&mut self, _hit: bool) {}
    /// [`Host::count`].
    #[inline(always)]
    fn count(&mut self, _work: Work, _times: u32) {}
    /// [`Host::fetch_ticks`].
    #[inline(always)]
    fn fetch_ticks(&self) -> Option<u64> {
        None
    }
}

/// Every object weighs 1; nothing is counted, and no fetch takes time.
pub(crate) struct Objects;

impl Kind for Objects {
    #[inline(always)]
    fn weighs_bytes(&self) -> bool {
        false
    }
}

/// As [`Objects`], but an object weighs its size.
pub(crate) struct Bytes;

impl Kind for Bytes {
    #[inline(always)]
    fn weighs_bytes(&self) -> bool {
        true
    }
}

/// A cell as the policy sees it.
pub(crate) struct Residents<I: Index, M, K> {
    pub(crate) index: I,
    meta: Vec<M>,
    /// Object of each slot.
    object: Vec<I::Object>,
    /// Hash of each slot, for policies that remember evicted objects; else empty. A look-up through
    /// the object would be a second miss in the processor's cache, on every hit of W-TinyLFU.
    hash: Vec<u64>,
    /// Bytes of each slot; empty where objects are counted.
    weight: Sizes,
    /// Records so far; if fetches take time, the time on their clock.
    pub(crate) now: u64,
    pub(crate) kind: K,
}

impl<I: Index, M, K: Kind> Host<M> for Residents<I, M, K> {
    #[inline]
    fn now(&self) -> u64 {
        self.now
    }
    #[inline]
    fn meta(&self, slot: Slot) -> &M {
        &self.meta[slot.index()]
    }
    #[inline]
    fn hash(&self, slot: Slot) -> u64 {
        match self.hash.get(slot.index()) {
            Some(&hash) => hash,
            None => self.index.hash(self.object[slot.index()]),
        }
    }
    #[inline]
    fn weight(&self, slot: Slot) -> u64 {
        if self.kind.weighs_bytes() { self.weight.get(slot.index()).unwrap_or_default() } else { 1 }
    }
    #[inline(always)]
    fn fetch_ticks(&self) -> Option<u64> {
        self.kind.fetch_ticks()
    }
    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        self.kind.count(work, times);
    }
}

/// A policy at a capacity.
pub(crate) struct Cell<I: Index, P: Policy, K> {
    pub(crate) policy: P,
    pub(crate) residents: Residents<I, P::Meta, K>,
    free: Vec<Slot>,
    capacity: u64,
    pub(crate) used: u64,
    /// Whether a hit with a different size changes the resident's size.
    resize_on_get: bool,
    pub(crate) outcome: Outcome,
}

impl<P: Policy, K: Kind> Cell<DenseIndex<'_>, P, K> {
    /// Replays the records `range` of the trace whose objects the index knows.
    // Not inlined, so that its instructions can be counted apart.
    #[inline(never)]
    pub(crate) fn feed(&mut self, trace: &Trace, range: Range<usize>) {
        if trace.operations.is_empty() && !self.residents.kind.weighs_bytes() {
            let mut hits = 0;
            for &id in &trace.ids[range.clone()] {
                hits += u64::from(self.access(id, 1, Operation::Get));
            }
            self.outcome.records += range.len() as u64;
            self.outcome.requests += range.len() as u64;
            self.outcome.hits += hits;
            return;
        }
        for record in range {
            let size = trace.sizes.get(record).unwrap_or(1);
            let operation = trace.operations.get(record).copied().unwrap_or_default();
            self.step(trace.ids[record], size, operation);
        }
    }
}

impl<I: Index, P: Policy, K: Kind> Cell<I, P, K> {
    pub(crate) fn new(index: I, policy: P, capacity: u64, resize_on_get: bool, kind: K) -> Self {
        Cell {
            policy,
            residents: Residents {
                index,
                meta: Vec::new(),
                object: Vec::new(),
                hash: Vec::new(),
                weight: Sizes::default(),
                now: 0,
                kind,
            },
            free: Vec::new(),
            capacity,
            used: 0,
            resize_on_get,
            outcome: Outcome::default(),
        }
    }

    /// Resets the counts: the end of a warm-up.
    pub(crate) fn reset_counts(&mut self) {
        let Outcome { seconds, records, .. } = self.outcome;
        self.outcome = Outcome { seconds, records, ..Outcome::default() };
    }

    /// One record, of any operation and size.
    pub(crate) fn step(&mut self, object: I::Object, size: u64, operation: Operation) {
        self.outcome.records += 1;
        match operation {
            Operation::Get => {
                let hit = self.access(object, size, operation);
                self.outcome.count_get(hit, self.residents.kind.weighs_bytes(), size);
            }
            Operation::Set => {
                self.access(object, size, operation);
            }
            Operation::Delete => self.delete(object),
        }
    }

    /// Looks an object up for a get or a set, and admits it on a miss. True on a hit.
    #[inline(always)]
    fn access(&mut self, object: I::Object, size: u64, operation: Operation) -> bool {
        self.residents.now += 1;
        let Some(slot) = self.residents.index.find(object) else {
            self.admit(object, size);
            return false;
        };
        self.hit(slot, size, operation);
        true
    }

    /// A get or a set of a resident.
    #[inline(always)]
    fn hit(&mut self, slot: Slot, size: u64, operation: Operation) {
        let get = operation == Operation::Get;
        self.residents.kind.enter(get);
        self.policy.hit(&mut self.residents, slot);
        if self.residents.kind.weighs_bytes()
            && (!get || self.resize_on_get)
            && self.residents.weight.get(slot.index()) != Some(size)
        {
            self.residents.kind.enter(false);
            self.resize(slot, size);
        }
    }

    /// As [`Cell::hit`] if the object is resident; false if not.
    pub(crate) fn find(&mut self, object: I::Object, size: u64, operation: Operation) -> bool {
        let slot = self.residents.index.find(object);
        slot.inspect(|&slot| self.hit(slot, size, operation)).is_some()
    }

    pub(crate) fn weigh(&self, size: u64) -> u64 {
        if self.residents.kind.weighs_bytes() { size } else { 1 }
    }

    #[inline]
    pub(crate) fn admit(&mut self, object: I::Object, size: u64) {
        let (hash, pending) = self.miss(object, size);
        self.commit(object, size, hash, pending);
    }

    /// Reports a miss to the policy. Returns the object's hash, and the policy's pending data for
    /// its admission.
    #[inline(always)]
    pub(crate) fn miss(&mut self, object: I::Object, size: u64) -> (u64, P::Pending) {
        self.residents.kind.enter(false);
        let hash = self.residents.index.hash(object);
        let weight = self.weigh(size);
        (hash, self.policy.miss(&mut self.residents, hash, weight))
    }

    /// Admits an object that is not resident, unless it can't fit or the policy refuses it.
    #[inline(always)]
    pub(crate) fn commit(&mut self, object: I::Object, size: u64, hash: u64, pending: P::Pending) {
        let weight = self.weigh(size);
        let incoming = Incoming { hash, weight, pending };
        if weight > self.capacity {
            return;
        }
        // The new object gets the first victim's slot.
        let mut vacated = None;
        while self.used + weight > self.capacity {
            match self.policy.evict(&mut self.residents, Some(&incoming)) {
                Eviction::Victim(slot) => {
                    self.vacate(slot);
                    self.free.extend(vacated.replace(slot));
                }
                Eviction::Refuse => {
                    self.free.extend(vacated);
                    return;
                }
                Eviction::Empty => break,
            }
        }
        let slot = vacated.or_else(|| self.free.pop()).unwrap_or_else(|| self.grow(object));
        self.residents.index.insert(object, slot);
        self.residents.object[slot.index()] = object;
        if P::REMEMBERS {
            self.residents.hash[slot.index()] = hash;
        }
        if self.residents.kind.weighs_bytes() {
            self.residents.weight.set(slot.index(), size);
        }
        self.used += weight;
        self.policy.insert(&mut self.residents, slot, incoming);
    }

    /// Adds a slot.
    fn grow(&mut self, object: I::Object) -> Slot {
        let slot = Slot(self.residents.object.len() as u32);
        self.residents.object.push(object);
        self.residents.meta.push(P::Meta::default());
        if P::REMEMBERS {
            self.residents.hash.push(0);
        }
        if self.residents.kind.weighs_bytes() {
            self.residents.weight.push(0);
        }
        slot
    }

    /// Empties the slot of an object that the policy has evicted.
    #[inline]
    fn vacate(&mut self, slot: Slot) {
        let object = self.residents.object[slot.index()];
        self.residents.index.remove(object);
        self.used -= self.residents.weight(slot);
    }

    fn release(&mut self, slot: Slot) {
        self.vacate(slot);
        self.free.push(slot);
    }

    /// Applies a changed size to a resident, then evicts to fit.
    fn resize(&mut self, slot: Slot, size: u64) {
        let old = self.residents.weight.set(slot.index(), size);
        self.used = self.used - old + size;
        self.policy.reweigh(&mut self.residents, slot, old);
        if size > self.capacity {
            // The object can never fit: evicting all others first would be useless.
            self.policy.remove(&mut self.residents, slot);
            self.release(slot);
        }
        while self.used > self.capacity {
            match self.policy.evict(&mut self.residents, None) {
                Eviction::Victim(victim) => self.release(victim),
                Eviction::Refuse | Eviction::Empty => break,
            }
        }
    }

    pub(crate) fn delete(&mut self, object: I::Object) {
        self.residents.kind.enter(false);
        if let Some(slot) = self.residents.index.find(object) {
            self.policy.remove(&mut self.residents, slot);
            self.release(slot);
        }
    }

    /// Whether an object is resident.
    pub(crate) fn holds(&self, object: I::Object) -> bool {
        self.residents.index.find(object).is_some()
    }
}
