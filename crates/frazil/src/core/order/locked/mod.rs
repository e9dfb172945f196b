//! Any policy of `frazil-policy` among threads: under a lock, or several.
//!
//! The work of a hit is its *promotion*: it waits for the lock, tries it, or notes the hit for
//! later (`notes.rs`). Before it there may be a *gate* without a lock: by chance, or by the time of
//! the last promotion. `docs/design/features.md` says what is reported to a policy, and when.

mod any_policy;
mod notes;
mod policy_shard;
mod set_aside;
#[cfg(feature = "measure")]
pub(crate) mod turns;

use std::sync::OnceLock;

use frazil_policy::{LruDelayed, LruProb, Online, Priority, Rng};

use super::{Decision, Headers, Newcomer, QueueCtx};
use crate::chunks::Chunks;
use crate::core::local::Reads;
#[cfg(feature = "freezing")]
use crate::smr::protect::Pinned;
use crate::smr::stripe::{Traffic, add};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::{CHECKED, OwnLine};

pub(crate) use notes::Notes;
use notes::TURN;
use policy_shard::{CAPACITY_SEEN, PolicyShard};

/// Entries of a cache for each hit that a thread may note before it reports.
const NOTE_FROM: u64 = if CHECKED { 4 } else { 512 };

/// CACHEUS evicts the most recently used of the least used entries: just those whose hits are noted
/// and not reported.
fn notes_for(policy: Online, entries: u64) -> u32 {
    let most = if matches!(policy, Online::Cacheus { .. }) { 1 } else { notes::ENOUGH };
    (entries / NOTE_FROM).clamp(1, most.into()) as u32
}

/// The capacity of each of `1 << bits` shards.
fn share(capacity: u64, bits: u32) -> u64 {
    (capacity.min(CAPACITY_SEEN) >> bits).max(1)
}

/// Entries that are set aside under one hold of a lock.
#[cfg(feature = "freezing")]
const ASIDE_BATCH: u64 = 256;

/// The most shards.
pub(crate) const SHARDS_MAX: u32 = 64;

/// The work of a hit for a policy under a lock. Hits of other policies set a mark and take no lock.
///
/// ```
/// use frazil::{Cache, Policy, Promotion};
/// let cache: Cache<u64, u64> =
///     Cache::builder(1_000).policy(Policy::Lru).promotion(Promotion::Adaptive).build();
/// cache.insert(1, 1);
/// assert_eq!(cache.get(&1), Some(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Promotion {
    /// Waits for the lock, every time: the textbook's LRU. Default of
    /// [`Policy::Lru`](crate::Policy::Lru), [`LruProb`](crate::Policy::LruProb) and
    /// [`LruDelayed`](crate::Policy::LruDelayed).
    EveryHit,
    /// Does nothing if the lock is taken. Of [`Policy::LruRelaxed`](crate::Policy::LruRelaxed).
    TryLock,
    /// Notes the hit. A thread applies 32 noted hits under one lock if that is free, or up to 64
    /// later. The more often the lock is taken, the more hits it skips, first those of entries
    /// whose hits the policy got recently. Default of all other policies. A single thread skips
    /// nothing.
    Adaptive,
}

impl Promotion {
    /// The default promotion of a policy.
    pub(crate) fn of(policy: Online) -> Self {
        match policy {
            Online::Lru | Online::LruProb { .. } | Online::LruDelayed { .. } => Promotion::EveryHit,
            Online::LruRelaxed => Promotion::TryLock,
            _ => Promotion::Adaptive,
        }
    }
}

/// Whether a hit only raises a mark, without a call of the policy under its lock.
#[inline(always)]
pub(super) fn marks(policy: Online) -> bool {
    mark_max(policy).is_some()
}

/// The highest mark that a hit sets, for policies whose hits only raise a mark. All except SIEVE
/// run without a lock, unless an experiment puts them under one.
pub(super) fn mark_max(policy: Online) -> Option<u8> {
    match policy {
        Online::Sieve => Some(1),
        #[cfg(feature = "measure")]
        Online::Fifo => Some(0),
        #[cfg(feature = "measure")]
        Online::Clock { bits } => Some((1 << bits.clamp(1, 2)) - 1),
        #[cfg(feature = "measure")]
        Online::Mobius => Some(1),
        #[cfg(feature = "measure")]
        Online::S3Fifo => Some(super::s3_fifo::MAX_COUNT),
        _ => None,
    }
}

/// The condition under which a hit concerns the policy.
#[derive(Clone, Copy, Debug)]
enum Gate {
    Open,
    /// It is skipped with probability `q`.
    Chance {
        q: f64,
        seed: u64,
    },
    /// It is skipped if its object was promoted less than this number of requests ago.
    Window(u64),
}

/// One of `1 << bits` shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard {
    number: u32,
    bits: u32,
}

impl Shard {
    /// The position of a slot at a place of this shard.
    fn position(self, place: u32) -> u32 {
        place << self.bits | self.number
    }

    /// The place in a position of this shard; `None` for positions of other shards, and for no
    /// position.
    fn place(self, position: u32) -> Option<u32> {
        let place = position >> self.bits;
        (place != 0 && !self.is_other(position)).then_some(place)
    }

    /// Whether a position lies in another shard.
    fn is_other(self, position: u32) -> bool {
        position >> self.bits != 0 && position & ((1 << self.bits) - 1) != self.number
    }
}

/// A thread that calls a policy.
pub(crate) struct Caller<'c> {
    headers: &'c dyn Headers,
    reads: &'c Reads,
    stamps: Option<&'c Chunks<std::sync::atomic::AtomicU64>>,
    clock: &'c Ticks,
    #[cfg(feature = "measure")]
    turns: Option<&'c turns::Turns>,
}

/// The clock of a policy.
#[derive(Debug)]
enum Ticks {
    /// The policy does not use it.
    None,
    /// Requests of all threads, as far as they were reported.
    Requests(Box<OwnLine<AtomicU64>>),
    /// The cache's clock, in units of `1 << TICK_BITS` nanoseconds, for policies that weigh the
    /// duration of fetches. It is the coarse clock, or the latest exact time that a fetch has read
    /// if that is later. If misses are frequent enough for delays to matter, they advance it, so a
    /// hit reads one line and no exact clock. Nanoseconds.
    ///
    /// A clock may be user code. So only [`Ticks::read`] reads it, and a thread uses a time read
    /// before it takes the policy's lock.
    Real(Box<OwnLine<AtomicU64>>),
}

/// A tick of 1.024 µs: the 32 bits of a note are 73 minutes.
const TICK_BITS: u32 = 10;

/// `nanoseconds` in ticks.
fn ticks(nanoseconds: u64) -> u64 {
    nanoseconds >> TICK_BITS
}

/// Whether a policy uses the duration of fetches.
#[cfg(feature = "loading")]
pub(crate) fn weighs_delay(policy: Online) -> bool {
    matches!(Ticks::of(policy), Ticks::Real(_))
}

impl Ticks {
    fn of(policy: Online) -> Self {
        match policy {
            Online::Mad { .. } | Online::GuardedMad { .. } => Ticks::Real(Box::default()),
            // These two get no data of fetches: they use only rates here.
            Online::LaCache { .. }
            | Online::DelayRank { .. }
            | Online::LruDelayed { .. }
            | Online::LruSampled { .. }
            | Online::Hyperbolic { .. }
            | Online::Lhd { .. } => Ticks::Requests(Box::default()),
            _ => Ticks::None,
        }
    }

    /// The time in the note of a hit: its low half.
    #[inline(always)]
    fn stamp(&self, headers: &dyn Headers, reads: &Reads) -> u64 {
        match self {
            Ticks::Real(_) => self.read(headers, reads),
            _ => reads.requests(),
        }
    }

    /// Reads the clock for the calling thread. May run user code: under no lock, and not while an
    /// operation is half done.
    #[inline(always)]
    fn read(&self, headers: &dyn Headers, reads: &Reads) -> u64 {
        let Ticks::Real(latest) = self else { return 0 };
        let shown = ticks(latest.0.load(Relaxed).max(headers.coarse_ns()));
        // Not a value read before the clock: the clock may have called the cache.
        let now = shown.max(reads.clock.load(Relaxed));
        reads.clock.store(now, Relaxed);
        now
    }

    /// A new entry has read the clock.
    fn advance(&self, newcomer: &Newcomer, traffic: &mut Traffic) {
        if let (Ticks::Real(latest), Some(absence)) = (self, newcomer.absence)
            && latest.0.load(Relaxed) < absence.landed
        {
            latest.0.fetch_max(absence.landed, Relaxed);
            traffic.writes += 1;
        }
    }
}

/// The time of a policy at the last request of a thread, and its form in a note.
struct Time {
    now: u64,
    request: u64,
    /// Writes to the clock that it took to read it.
    writes: u64,
}

impl Time {
    /// The time of a recent request, from the low half of its stamp.
    fn at(&self, request: u32) -> u64 {
        self.now.saturating_sub(u64::from((self.request as u32).wrapping_sub(request)))
    }
}

impl Caller<'_> {
    /// The time for a policy whose lock the caller holds and whose latest time is `last`: its time
    /// does not run backwards. If the clock counts requests, publishes this thread's count.
    fn synchronize(&self, last: u64) -> Time {
        let clock = match self.clock {
            Ticks::None => return Time { now: 0, request: 0, writes: 0 },
            Ticks::Real(latest) => {
                let known = ticks(latest.0.load(Relaxed)).max(self.reads.clock.load(Relaxed));
                let now = known.max(last);
                return Time { now, request: now, writes: 0 };
            }
            Ticks::Requests(clock) => &clock.0,
        };
        let request = self.reads.requests();
        let untold = request - self.reads.told.load(Relaxed);
        let now = if untold == 0 {
            clock.load(Relaxed)
        } else {
            clock.fetch_add(untold, Relaxed) + untold
        };
        self.reads.told.store(request, Relaxed);
        self.reads.clock.store(now, Relaxed);
        Time { now, request, writes: u64::from(untold != 0) }
    }
}

#[derive(Debug)]
pub(crate) struct Locked {
    /// Made at the first report to the policy.
    policy_shards: OnceLock<Box<[PolicyShard]>>,
    /// Binary logarithm of the number of shards, a power of two.
    bits: u32,
    /// By how much a hash is shifted to become a shard's number.
    shift: u32,
    policy: Online,
    promotion: Promotion,
    gate: Gate,
    /// Number of hits that a thread notes before it reports them if the lock is free; at most twice
    /// as many. Noted hits are hidden from the decisions of others, so there are few in a small
    /// cache.
    notes: AtomicU32,
    /// Threads that have seeded their generator.
    drawing: AtomicU64,
    /// By slot, for policies that keep a time beside the entry.
    stamps: OnceLock<Box<Chunks<std::sync::atomic::AtomicU64>>>,
    stamped: bool,
    clock: Ticks,
    capacity: AtomicU64,
    #[cfg(feature = "measure")]
    turns: Option<Box<turns::Turns>>,
}

impl Locked {
    /// `policy` for `entries` entries in `shards` shards, rounded up to a power of two.
    pub(crate) fn new(
        policy: Online,
        promotion: Promotion,
        shards: u32,
        capacity: u64,
        entries: u64,
    ) -> Self {
        let bits = shards.clamp(1, SHARDS_MAX).next_power_of_two().ilog2();
        let gate = match policy {
            Online::LruProb { q, seed } => Gate::Chance { q, seed },
            Online::LruDelayed { window } => Gate::Window(window),
            _ => Gate::Open,
        };
        let stamped = matches!(policy, Online::LruDelayed { .. } | Online::LruSampled { .. });
        Locked {
            policy_shards: OnceLock::new(),
            bits,
            shift: u64::BITS - bits,
            promotion,
            gate,
            notes: AtomicU32::new(notes_for(policy, entries)),
            policy,
            drawing: AtomicU64::new(0),
            stamps: OnceLock::new(),
            stamped,
            clock: Ticks::of(policy),
            capacity: AtomicU64::new(capacity),
            #[cfg(feature = "measure")]
            turns: None,
        }
    }

    /// The same with list operations that cost more.
    #[cfg(feature = "measure")]
    pub(crate) fn with_costs(self, costs: turns::ListCosts) -> Self {
        Locked { turns: Some(Box::new(turns::Turns::new(costs))), ..self }
    }

    /// The costs that were set.
    #[cfg(feature = "measure")]
    pub(crate) fn turns(&self) -> Option<&turns::Turns> {
        self.turns.as_deref()
    }

    /// How many shards there are.
    pub(crate) fn shards(&self) -> u32 {
        1 << self.bits
    }

    fn policy_shards(&self) -> &[PolicyShard] {
        if let Some(policy_shards) = self.policy_shards.get() {
            return policy_shards;
        }
        // A thread that changes it meanwhile informs the shards. Loaded before: a checker may
        // suspend a thread at a load, and must not while others wait for its result.
        let capacity = self.capacity.load(Relaxed);
        // The gate of `lru-prob` has drawn already.
        let policy = match self.policy {
            Online::LruProb { .. } => Online::Lru,
            policy => policy,
        };
        let policy_shard = |number| {
            let policy = any_policy::new(policy, share(capacity, self.bits));
            PolicyShard::new(Shard { number, bits: self.bits }, policy)
        };
        self.policy_shards.get_or_init(|| (0..1 << self.bits).map(policy_shard).collect())
    }

    fn stamps(&self) -> Option<&Chunks<std::sync::atomic::AtomicU64>> {
        self.stamped.then(|| &**self.stamps.get_or_init(Box::default))
    }

    /// The shards, once the policy has had a report.
    fn used(&self) -> &[PolicyShard] {
        self.policy_shards.get().map_or(&[], |policy_shards| policy_shards)
    }

    /// Follows a change of the capacity, with which there are `entries` at most.
    pub(crate) fn set_capacity(&self, capacity: u64, entries: u64) {
        self.capacity.store(capacity, Relaxed);
        self.notes.store(notes_for(self.policy, entries), Relaxed);
        let share = share(capacity, self.bits);
        self.policy_shards().iter().for_each(|policy_shard| policy_shard.set_capacity(share));
    }

    /// Begins to set the hottest aside, a share of each shard's.
    #[cfg(feature = "freezing")]
    pub(crate) fn walk<'l, H: Headers>(&'l self, headers: &'l H, share: f64) -> Walk<'l> {
        let (caller, policy_shards) = (self.caller(headers), self.policy_shards());
        let mut walk = Walk { locked: self, caller, share, policy_shards, left: 0 };
        walk.begin();
        walk
    }

    /// Returns the entries set aside to the policy. The caller resets the headers of the slots that
    /// a [walk](Self::walk) has returned; this returns the others, which have replaced some of
    /// them. One thread at a time sets aside and takes back.
    #[cfg(feature = "freezing")]
    pub(crate) fn take_back<H: Headers>(&self, headers: &H) -> Vec<u32> {
        let caller = self.caller(headers);
        let capacity = || share(self.capacity.load(Relaxed), self.bits);
        let of_shard = |policy_shard: &PolicyShard| policy_shard.take_back(&caller, &capacity);
        self.used().iter().flat_map(of_shard).collect()
    }

    /// The slots set aside.
    #[cfg(feature = "freezing")]
    pub(crate) fn aside(&self) -> Vec<u32> {
        self.used().iter().flat_map(|policy_shard| policy_shard.aside()).collect()
    }

    /// Their number.
    #[cfg(feature = "freezing")]
    pub(crate) fn aside_count(&self) -> u64 {
        self.used().iter().map(|policy_shard| policy_shard.aside_count()).sum()
    }

    /// Whether a hit only raises a mark, without a call of the policy.
    #[inline(always)]
    pub(crate) fn marks(&self) -> bool {
        marks(self.policy)
    }

    /// How far a hit raises the mark then.
    pub(crate) fn mark_max(&self) -> Option<u8> {
        mark_max(self.policy)
    }

    /// Whether the policy uses the duration of fetches.
    #[inline(always)]
    #[cfg(feature = "loading")]
    pub(crate) fn weighs_delay(&self) -> bool {
        matches!(self.clock, Ticks::Real(_))
    }

    fn caller<'c, H: Headers>(&'c self, headers: &'c H) -> Caller<'c> {
        Caller {
            headers,
            reads: headers.reads(),
            stamps: self.stamps(),
            clock: &self.clock,
            #[cfg(feature = "measure")]
            turns: self.turns.as_deref(),
        }
    }

    /// The number of the shard that a hash belongs to.
    fn home(&self, hash: u64) -> usize {
        // The index takes the upper bits of the hash as it is.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.checked_shr(self.shift).unwrap_or(0) as usize
    }

    fn policy_shard_of<H: Headers>(&self, headers: &H, slot: u32) -> &PolicyShard {
        let position = headers.header(slot).position.load(Relaxed);
        &self.policy_shards()[position as usize & ((1 << self.bits) - 1)]
    }

    /// Handles a hit of a slot that the caller protects.
    #[inline(always)]
    pub(crate) fn hit<H: Headers>(&self, headers: &H, slot: u32) {
        let reads = headers.reads();
        if !self.is_due(reads, slot) {
            return;
        }
        match self.promotion {
            Promotion::Adaptive => {
                let notes = &reads.notes;
                let lately = notes.lately();
                if lately != 0 && self.heard_of(headers, slot, lately) {
                    add(&notes.skipped, 1);
                } else if notes.push(
                    slot,
                    self.clock.stamp(headers, reads),
                    self.notes.load(Relaxed),
                ) {
                    self.tell(headers);
                }
            }
            promotion => {
                self.clock.read(headers, reads);
                let wait = promotion == Promotion::EveryHit;
                if !self.policy_shard_of(headers, slot).hit(&self.caller(headers), slot, wait) {
                    add(&reads.notes.skipped, 1);
                }
            }
        }
    }

    /// Whether the policy got a hit of this slot less than `epochs` epochs ago.
    fn heard_of<H: Headers>(&self, headers: &H, slot: u32, epochs: u32) -> bool {
        let header = headers.header(slot);
        let shard = header.position.load(Relaxed) as usize & ((1 << self.bits) - 1);
        let now = self.policy_shards()[shard].epoch();
        u32::from((now + TURN - header.mark.count()) % TURN) < epochs
    }

    /// Whether a hit passes the gate.
    #[inline(always)]
    fn is_due(&self, reads: &Reads, slot: u32) -> bool {
        match self.gate {
            Gate::Open => true,
            Gate::Chance { q, seed } => self.draw(reads, q, seed),
            Gate::Window(window) => {
                let stamps = self.stamps();
                let promoted = stamps.map_or(0, |stamps| stamps.get_or_make(slot).load(Relaxed));
                LruDelayed::is_due(window, promoted, reads.now())
            }
        }
    }

    /// Each thread has its own random numbers; the first has those of the simulator.
    fn draw(&self, reads: &Reads, q: f64, seed: u64) -> bool {
        let (begun, chance) = (&reads.drawing, &reads.chance);
        if begun.load(Relaxed) == 0 {
            begun.store(1, Relaxed);
            chance.store(seed.wrapping_add(self.drawing.fetch_add(1, Relaxed) << 32), Relaxed);
        }
        let mut rng = Rng::new(chance.load(Relaxed));
        let promotes = LruProb::promotes(q, &mut rng);
        chance.store(rng.state(), Relaxed);
        promotes
    }

    /// Reports the hits that the calling thread has noted, or later, if the lock is taken and there
    /// is space for more notes.
    #[cold]
    #[inline(never)]
    fn tell<H: Headers>(&self, headers: &H) {
        let caller = self.caller(headers);
        let notes = &caller.reads.notes;
        let enough = self.notes.load(Relaxed);
        let full = notes.is_full(enough);
        // In a small cache a few notes fill the buffer soon, and each matters.
        let wait = full && (enough < notes::ENOUGH || !notes.is_most_crowded());
        let retries = caller.reads.retries.load(Relaxed);
        let mut told = true;
        if let [policy_shard] = self.policy_shards() {
            told = policy_shard.tell(&caller, wait);
        } else {
            let mut noted = 0u64;
            for slot in notes.slots() {
                let position = headers.header(slot).position.load(Relaxed);
                noted |= 1 << (position as usize & ((1 << self.bits) - 1));
            }
            for (number, policy_shard) in self.policy_shards().iter().enumerate() {
                told &= noted >> number & 1 == 0 || policy_shard.tell(&caller, wait);
            }
        }
        if caller.reads.retries.load(Relaxed) == retries {
            notes.relax()
        } else {
            notes.crowd()
        }
        if full && !told {
            notes.discard();
        }
    }

    /// Reads the clock for the calling thread, if the policy uses it.
    pub(crate) fn read_clock<H: Headers>(&self, headers: &H) {
        self.clock.read(headers, headers.reads());
    }

    /// Reports a requested object that is too heavy to admit to a policy.
    pub(crate) fn pass_over<H: Headers>(&self, headers: &H, hash: u64, weight: u64) {
        self.policy_shards()[self.home(hash)].pass_over(&self.caller(headers), hash, weight);
    }

    /// A new entry is not admitted after all.
    pub(crate) fn forget(&self, newcomer: &Newcomer) {
        if newcomer.recalled.get() != 0 {
            self.policy_shards()[self.home(newcomer.hash)].forget(newcomer);
        }
    }

    pub(crate) fn insert<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        slot: u32,
        newcomer: &Newcomer,
        priority: Priority,
    ) {
        let caller = self.caller(ctx.headers);
        let policy_shard = &self.policy_shards()[self.home(newcomer.hash)];
        self.clock.advance(newcomer, &mut ctx.buffers.traffic);
        policy_shard.insert(&caller, &mut ctx.buffers.traffic, slot, newcomer, priority);
    }

    /// A victim from the new entry's own shard if that holds its share, else from the next shard
    /// above its share.
    pub(crate) fn evict<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        let caller = self.caller(ctx.headers);
        let traffic = &mut ctx.buffers.traffic;
        if let Some(newcomer) = newcomer {
            self.clock.advance(newcomer, traffic);
        }
        if let [policy_shard] = self.policy_shards() {
            return policy_shard.evict(&caller, traffic, newcomer);
        }
        let count = self.policy_shards().len();
        let share = self.capacity.load(Relaxed) / count as u64;
        let home = newcomer.map_or(0, |newcomer| self.home(newcomer.hash));
        let from = |at: usize| &self.policy_shards()[(home + at) % count];
        // The excess of a new entry's weight over the share comes from one of them.
        let coming = newcomer.map_or(1, |newcomer| newcomer.weight);
        let full = (1..count).find(|&at| from(at).held() > share);
        let first =
            if from(0).held().saturating_add(coming) > share { 0 } else { full.unwrap_or(0) };
        for at in first..first + count {
            let newcomer = newcomer.filter(|_| at == 0);
            let decision = from(at).evict(&caller, traffic, newcomer);
            if decision != Decision::Empty {
                return decision;
            }
        }
        Decision::Empty
    }

    pub(crate) fn detach<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32) -> bool {
        let policy_shard = self.policy_shard_of(ctx.headers, slot);
        policy_shard.detach(&self.caller(ctx.headers), &mut ctx.buffers.traffic, slot)
    }

    pub(crate) fn replace<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        old: u32,
        new: u32,
    ) -> bool {
        let caller = self.caller(ctx.headers);
        let used = self.is_due(caller.reads, old);
        let policy_shard = self.policy_shard_of(ctx.headers, old);
        policy_shard.replace(&caller, &mut ctx.buffers.traffic, [old, new], used)
    }

    /// Retires dead slots that are in a place, as long as there are segments for them. Returns
    /// whether there were.
    pub(crate) fn remove_dead<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>) -> bool {
        for policy_shard in self.used() {
            let mut from = 0;
            loop {
                let (segments, buffers) = (ctx.segments, &mut *ctx.buffers);
                if !buffers.spares.stock(segments, &mut buffers.traffic) {
                    return false;
                }
                let caller = self.caller(ctx.headers);
                let dead = policy_shard.take_dead(&caller, &mut buffers.traffic, from);
                let Some((slot, place)) = dead else { break };
                ctx.retire(slot);
                from = place + 1;
            }
        }
        true
    }

    /// Their total weight.
    pub(crate) fn held(&self) -> u64 {
        self.used().iter().map(|policy_shard| policy_shard.held()).sum()
    }

    /// The slots in the order of eviction; of several shards, those evicted at the same time next
    /// to each other.
    pub(crate) fn coldest_first<H: Headers>(&self, headers: &H) -> Vec<u32> {
        self.read_clock(headers);
        let caller = self.caller(headers);
        let mut orders: Vec<Vec<u32>> = self
            .policy_shards()
            .iter()
            .map(|policy_shard| policy_shard.coldest_first(&caller))
            .collect();
        if let [order] = &mut *orders {
            return std::mem::take(order);
        }
        let ranked = |order: Vec<u32>| {
            let length = order.len().max(1) as f64;
            (0..).zip(order).map(move |(rank, slot)| (f64::from(rank) / length, slot))
        };
        let mut all: Vec<(f64, u32)> = orders.into_iter().flat_map(ranked).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    /// The slots that are in a place, each with its position.
    pub(crate) fn slots(&self) -> Vec<(u32, u32)> {
        self.used().iter().flat_map(|policy_shard| policy_shard.slots()).collect()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let policy_shards: usize =
            self.used().iter().map(|policy_shard| policy_shard.heap_bytes()).sum();
        policy_shards + self.stamps.get().map_or(0, |stamps| stamps.heap_bytes())
    }
}

/// A walk that sets the hottest entries aside, hottest first, shard by shard.
#[cfg(feature = "freezing")]
pub(crate) struct Walk<'l> {
    locked: &'l Locked,
    caller: Caller<'l>,
    share: f64,
    /// The shard being walked, and those to come.
    policy_shards: &'l [PolicyShard],
    /// How many of it are left to set aside.
    left: u64,
}

#[cfg(feature = "freezing")]
impl Walk<'_> {
    fn begin(&mut self) {
        if let [policy_shard, ..] = self.policy_shards {
            self.left =
                (policy_shard.begin_setting_aside(&self.caller) as f64 * self.share).round() as u64;
        }
    }

    fn end(&mut self) {
        if let [policy_shard, others @ ..] = self.policy_shards {
            let capacity = || share(self.locked.capacity.load(Relaxed), self.locked.bits);
            policy_shard.end_setting_aside(&capacity);
            self.policy_shards = others;
        }
    }

    /// Sets some aside, and returns their slots, which the pin protects if there is one. False at
    /// the end.
    pub(crate) fn next(&mut self, pinned: Option<&Pinned<'_>>, slots: &mut Vec<u32>) -> bool {
        slots.clear();
        while let [policy_shard, ..] = self.policy_shards {
            policy_shard.set_aside_next(&self.caller, self.left.min(ASIDE_BATCH), pinned, slots);
            self.left -= slots.len() as u64;
            if !slots.is_empty() {
                return true;
            }
            self.end();
            self.begin();
        }
        false
    }
}

#[cfg(feature = "freezing")]
impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Barrier;

    use super::*;
    use crate::core::local::Buffers;
    use crate::core::slab::Header;

    /// Slots that all weigh 1. With a barrier, a thread that reads a weight waits for the test,
    /// twice, and has the policy's lock meanwhile.
    struct Waiting<'t> {
        headers: Vec<Header>,
        reads: Reads,
        barrier: Option<&'t Barrier>,
    }

    impl<'t> Waiting<'t> {
        fn new(barrier: Option<&'t Barrier>) -> Self {
            let headers = (0..10).map(|_| Header::default()).collect();
            Waiting { headers, reads: Reads::default(), barrier }
        }
    }

    impl Headers for Waiting<'_> {
        fn header(&self, slot: u32) -> &Header {
            &self.headers[slot as usize]
        }
        fn reads(&self) -> &Reads {
            &self.reads
        }
        fn each_idle(&self, _take: &mut dyn FnMut(&mut Buffers)) {}
        fn prefetch(&self, _slot: u32) {}
        fn weight(&self, _slot: u32) -> u64 {
            if let Some(barrier) = self.barrier {
                barrier.wait();
                barrier.wait();
            }
            1
        }
        fn hash(&self, slot: u32) -> u64 {
            slot.into()
        }
        fn coarse_ns(&self) -> u64 {
            0
        }
    }

    fn insert(locked: &Locked, headers: &Waiting<'_>, slot: u32) {
        let newcomer = Newcomer::new(slot.into(), 1);
        let caller = locked.caller(headers);
        let policy_shard = &locked.policy_shards()[0];
        policy_shard.insert(&caller, &mut Default::default(), slot, &newcomer, Priority::Low);
    }

    fn victim(locked: &Locked, headers: &Waiting<'_>) -> Decision {
        locked.policy_shards()[0].evict(&locked.caller(headers), &mut Default::default(), None)
    }

    fn skipped(headers: &Waiting<'_>) -> u64 {
        headers.reads.notes.skipped.load(Relaxed)
    }

    /// Runs `act` while another thread has the lock.
    fn while_taken(locked: &Locked, act: impl FnOnce()) {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| insert(locked, &Waiting::new(Some(&barrier)), 9));
            barrier.wait();
            // A failure in it must not leave the thread waiting.
            let outcome = catch_unwind(AssertUnwindSafe(act));
            barrier.wait();
            outcome.unwrap_or_else(|panic| resume_unwind(panic));
        });
        // The other thread's headers had the slot.
        assert!(locked.policy_shards()[0].slots().iter().any(|&(_, slot)| slot == 9));
    }

    #[test]
    fn what_finds_the_lock_taken_is_told_later_and_lately_heard_of_is_passed_over() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::Lru, Promotion::Adaptive, 1, 1 << 20, 1 << 20);
        (1..=3).for_each(|slot| insert(&locked, &headers, slot));
        // One more would wait for the lock.
        let room = 2 * notes::ENOUGH - 1;
        while_taken(&locked, || (0..room).for_each(|_| locked.hit(&headers, 1)));
        assert_eq!(skipped(&headers), 0);
        assert_eq!(headers.reads.notes.slots().count(), room as usize);
        assert!(headers.reads.notes.lately() > 1, "there were some vain attempts");
        assert_eq!(victim(&locked, &headers), Decision::Victim(2), "it was told after all");
        // The policy got a hit of slot 1 just now, of slot 3 never.
        locked.hit(&headers, 1);
        assert_eq!(skipped(&headers), 1);
        for slot in [3, 4].repeat(2_000) {
            let epoch = locked.policy_shards()[0].epoch();
            headers.header(slot).mark.set((epoch + TURN / 2) % TURN);
            locked.hit(&headers, slot);
        }
        assert_eq!(headers.reads.notes.lately(), 0, "nobody is in the way any more");
        (0..1_000).for_each(|_| locked.hit(&headers, 3));
        assert_eq!(skipped(&headers), 1);
        assert_eq!(victim(&locked, &headers), Decision::Victim(9));
    }

    #[test]
    fn what_a_crowded_lock_cannot_bear_is_thrown_away() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::Lru, Promotion::Adaptive, 1, 1 << 20, 1 << 20);
        (1..=3).for_each(|slot| insert(&locked, &headers, slot));
        (0..100).for_each(|_| headers.reads.notes.crowd());
        assert!(headers.reads.notes.is_most_crowded());
        let hits = 2 * notes::ENOUGH;
        while_taken(&locked, || (0..hits).for_each(|_| locked.hit(&headers, 1)));
        assert_eq!(skipped(&headers), hits.into());
        assert_eq!(victim(&locked, &headers), Decision::Victim(1));
    }

    /// Miss ratio of one thread, for which the lock always is most crowded if `crowded`.
    fn misses(capacity: u64, crowded: bool) -> f64 {
        const REQUESTS: u32 = 400_000;
        let builder = crate::Cache::builder(capacity).policy(Online::Lru);
        let cache: crate::Tested = builder.promotion(Promotion::Adaptive).build();
        let mut rng = Rng::new(5);
        let mut misses = 0;
        for _ in 0..REQUESTS {
            // Popularity falls about as in Zipf's law.
            let key = 10_000f64.powf(rng.unit()) as u64;
            for stripe in cache.core.stripes.iter().filter(|_| crowded) {
                (0..notes::EPOCHS).for_each(|_| stripe.local.reads.notes.crowd());
            }
            if cache.get(&key).is_none() {
                misses += 1;
                cache.insert(key, String::new());
            }
        }
        f64::from(misses) / f64::from(REQUESTS)
    }

    #[test]
    fn what_is_passed_over_at_worst_hardly_matters() {
        for capacity in [100, 1_000, 5_000, 9_000] {
            let points = 100.0 * (misses(capacity, true) - misses(capacity, false));
            assert!(points.abs() < 0.3, "{capacity}: {points} points");
        }
    }

    #[test]
    fn a_relaxed_hit_does_not_wait() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::LruRelaxed, Promotion::TryLock, 1, 100, 100);
        (1..=2).for_each(|slot| insert(&locked, &headers, slot));
        while_taken(&locked, || locked.hit(&headers, 1));
        assert_eq!(skipped(&headers), 1);
        let Reads { retries, waits, .. } = &headers.reads;
        assert_eq!((retries.load(Relaxed), waits.load(Relaxed)), (1, 0));
        assert_eq!(victim(&locked, &headers), Decision::Victim(1));
        locked.hit(&headers, 2);
        insert(&locked, &headers, 3);
        locked.hit(&headers, 2);
        // Slot 9 is older than the rest.
        assert_eq!(victim(&locked, &headers), Decision::Victim(9));
    }

    #[test]
    fn who_waits_for_the_lock_is_counted_once() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::Lru, Promotion::EveryHit, 1, 100, 100);
        insert(&locked, &headers, 1);
        locked.hit(&headers, 1);
        let waits = || headers.reads.waits.load(Relaxed);
        assert_eq!(waits(), 0, "the lock was free");
        std::thread::scope(|scope| {
            while_taken(&locked, || {
                scope.spawn(|| locked.hit(&headers, 1));
                let began = std::time::Instant::now();
                while waits() == 0 && began.elapsed().as_secs() < 60 {
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!(waits(), 1);
    }

    #[test]
    fn a_stale_note_promotes_nothing() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::Lru, Promotion::Adaptive, 1, 1 << 20, 1 << 20);
        (1..=2).for_each(|slot| insert(&locked, &headers, slot));
        locked.hit(&headers, 1);
        let caller = locked.caller(&headers);
        // By another thread, which has noted nothing.
        headers.header(1).position.store(0, Relaxed);
        assert!(locked.policy_shards()[0].tell(&caller, true));
        assert_eq!(headers.reads.notes.slots().count(), 0);
        assert_eq!(locked.policy_shards()[0].slots().len(), 2);
    }

    #[test]
    fn more_newcomers_than_tickets_are_admitted_all_the_same() {
        let headers = Waiting::new(None);
        let locked = Locked::new(Online::Arc, Promotion::Adaptive, 1, 4, 4);
        (1..=4).for_each(|slot| insert(&locked, &headers, slot));
        let caller = locked.caller(&headers);
        // Each is reported, and then not admitted, as if its thread had panicked.
        let newcomers: Vec<Newcomer> =
            (0..2 * (1 << 12) + 10).map(|hash| Newcomer::new(100 + hash, 1)).collect();
        let unheard = || Newcomer::new(1, 1);
        let mut last = 0;
        for newcomer in &newcomers {
            let policy_shard = &locked.policy_shards()[0];
            let decision = policy_shard.evict(&caller, &mut Default::default(), Some(newcomer));
            let Decision::Victim(slot) = decision else { panic!("{decision:?}") };
            policy_shard.insert(&caller, &mut Default::default(), slot, &unheard(), Priority::Low);
            last = slot;
        }
        assert!(locked.heap_bytes() < 1 << 20, "what waits is bounded");
        let Decision::Victim(_) = victim(&locked, &headers) else { panic!("it holds four") };
        locked.policy_shards()[0].insert(
            &caller,
            &mut Default::default(),
            last,
            &newcomers[0],
            Priority::Low,
        );
        newcomers.iter().for_each(|newcomer| locked.forget(newcomer));
    }
}
