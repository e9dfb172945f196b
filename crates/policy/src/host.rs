//! The interface between a policy and the program that runs it.
//!
//! A policy orders *slots*. The host owns everything else: keys, values, the
//! index, weights, expiry, and one small [`Meta`](crate::Policy::Meta) per slot
//! beside the entry, so that a hit can mark it through a shared reference
//! without touching the policy. The simulator and the concurrent cache are two
//! hosts of the same policies.

/// The place of a resident object: a small number that the host assigns and recycles. It identifies
/// nothing beyond one residence; data that outlives an eviction (ghosts, sketches) uses
/// [`Host::hash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index of an array.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A unit of work that takes time in a concurrent cache. The queueing model uses the counts of each
/// on hits and on misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Work {
    /// An object is taken out of the middle of a list.
    Delink,
    /// The head of a list (its newest end) changes.
    Head,
    /// The tail of a list (its oldest end) changes.
    Tail,
    /// An object is examined as a candidate and given another chance.
    Skip,
    /// A ghost list is looked up or changed.
    Ghost,
    /// An object is sampled at random.
    Sample,
    /// A level of a heap or tree is walked.
    Heap,
    /// A mark beside the entry is written.
    Mark,
    /// An object is found in the frozen part.
    FrozenHit,
    /// An object is not found in the frozen part.
    FrozenMiss,
}

impl Work {
    /// Every kind of work, in the order in which [`WorkCounts`] numbers them.
    pub const ALL: [Work; 10] = [
        Work::Delink,
        Work::Head,
        Work::Tail,
        Work::Skip,
        Work::Ghost,
        Work::Sample,
        Work::Heap,
        Work::Mark,
        Work::FrozenHit,
        Work::FrozenMiss,
    ];

    /// The literature's name, as it appears in tables.
    pub fn name(self) -> &'static str {
        match self {
            Work::Delink => "delink",
            Work::Head => "head",
            Work::Tail => "tail",
            Work::Skip => "skip",
            Work::Ghost => "ghost",
            Work::Sample => "sample",
            Work::Heap => "heap",
            Work::Mark => "mark",
            Work::FrozenHit => "frozen-hit",
            Work::FrozenMiss => "frozen-miss",
        }
    }
}

/// How often each kind of [`Work`] was done.
///
/// ```
/// use frazil_policy::{Work, WorkCounts};
/// let mut counts = WorkCounts::default();
/// counts.add(Work::Delink, 1);
/// counts.add(Work::Head, 1);
/// assert_eq!(counts.get(Work::Delink), 1);
/// assert_eq!(counts.total(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts([u64; Work::ALL.len()]);

impl WorkCounts {
    /// Adds `times` units of `work`.
    #[inline]
    pub fn add(&mut self, work: Work, times: u32) {
        self.0[work as usize] += u64::from(times);
    }

    /// Units of `work` so far.
    pub fn get(&self, work: Work) -> u64 {
        self.0[work as usize]
    }

    /// Units of all kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The host as a policy sees it during one call.
///
/// `M` is the policy's [`Meta`](crate::Policy::Meta). All methods are O(1). A
/// host answers for slots that are resident, for the victim of an eviction until
/// [`evict`](crate::Policy::evict) returns, and for a slot that is being removed
/// until [`remove`](crate::Policy::remove) returns.
pub trait Host<M> {
    /// The host's clock, in ticks that never run backwards: requests or
    /// nanoseconds. Read only by policies that age by time.
    fn now(&self) -> u64;

    /// The policy's own word beside the entry.
    fn meta(&self, slot: Slot) -> &M;

    /// Seeded 64-bit hash of the object's original id ([`crate::object_hash`]).
    fn hash(&self, slot: Slot) -> u64;

    /// Weight of the object in the unit of the capacity; 1 where objects are counted.
    fn weight(&self, slot: Slot) -> u64;

    /// Duration of a fetch, in ticks of [`now`](Self::now): during
    /// [`insert`](crate::Policy::insert) that of the new object, else that of a typical fetch, as
    /// far as the host knows. `None` if a miss is served at once, as in a plain replay: then no
    /// request can arrive meanwhile. Only policies that weigh delays and the offline optima read
    /// it.
    #[inline(always)]
    fn fetch_ticks(&self) -> Option<u64> {
        None
    }

    /// Reports work. A host that does not count leaves it empty, and the call disappears.
    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        let _ = (work, times);
    }
}

/// Seeded 64-bit hash of an object's original id, by which policies identify objects.
///
/// A bijection for each seed (the finaliser of SplitMix64 over the id and the
/// seed), so two numeric ids never collide.
///
/// ```
/// use frazil_policy::object_hash;
/// assert_eq!(object_hash(7, 1), object_hash(7, 1));
/// assert_ne!(object_hash(7, 1), object_hash(7, 2));
/// ```
#[inline]
pub fn object_hash(id: u64, seed: u64) -> u64 {
    let mut x = id.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
