//! CACHEUS: two experts made for scans and for churn, and a learning rate that
//! adapts.
//!
//! As in LeCaR every object is in both experts' orders. One of them, drawn at random by weight,
//! chooses the victim; a weight shrinks when that expert's history remembers a miss.
//!
//! *SR-LRU* resists scans. Newcomers enter the list SR; objects requested again, in
//! SR or in a history, move to the list R. R's surplus is demoted to SR's head, and
//! SR's tail is the candidate. A request for a demoted object shows that R is too
//! small, one for a new object in LRU's history that SR is. The border then moves
//! by one object, or by the ratio of new objects in that history to demoted ones
//! (or its inverse) if that is more. *CR-LFU* resists churn: of the least
//! frequently used its candidate is the one used *last*, so that some of many equal
//! objects stay. Each history holds half as much as the cache.
//!
//! The learning rate climbs the hill of the hit ratio: after as many requests as
//! the cache holds objects it continues in its direction if the hit ratio rose, and turns back if
//! it fell. If the rate stood still and the hit ratio falls, it jumps by a quarter; after ten such
//! falls it starts anew (Rodriguez et al., FAST 2021).
//!
//! The authors begin with equal weights, nearly all of the cache for R, and
//! undiscounted regret; that loses 12 points to LRU on `lirs/zigzag` at 500
//! objects, whose hits come only from the newest objects, which CR-LFU evicts.
//! Here LRU begins at 0.98 (all frequencies are 1 then, so LFU knows nothing), SR
//! with a fifth, regret is discounted by its age as in LeCaR, and the learning
//! rate starts at half of theirs and does not fall below that. With this no row is
//! more than half a point above the reference, and the median one is 1.0 below.
//!
//! The reference begins with equal halves. When SR alone is full it evicts from SR
//! without a regret.
//!
//! 21 bytes a slot and 84 an evicted object in the histories, which together hold
//! no more objects than the cache; O(1), demotions amortised. Exponentials are
//! computed only at misses that a history remembers.

use std::f64::consts::LN_2;

use crate::{Eviction, Frequencies, History, Host, Incoming, Lists, Policy, Rng, Slot, Work};

/// Lists: new and demoted objects, and reused ones.
const SR: usize = 0;
const R: usize = 1;
/// Experts: SR-LRU and CR-LFU.
const LRU: usize = 0;
const LFU: usize = 1;
/// Flags of a slot.
const IN_R: u8 = 1;
const DEMOTED: u8 = 2;
const NEW: u8 = 4;

const FIRST_WEIGHT_OF_LRU: f64 = 0.98;
/// No expert's weight falls below this, so that each can recover.
const LEAST_WEIGHT: f64 = 0.01;
/// ln 0.005: a regret fades to that share after `N` requests in a cache of `N`
/// objects.
const LN_DISCOUNT: f64 = -5.298_317_366_548_036;
/// SR's first part of the capacity, as a fraction.
const SR_SHARE: (u64, u64) = (1, 5);

/// A history's record of an evicted object.
#[derive(Clone, Copy, Debug)]
struct Evicted {
    /// Requests then, modulo 2³²: greater ages look smaller.
    at: u32,
    /// At most [`Frequencies::MAX`].
    frequency: u16,
    /// Never requested again while it was resident.
    new: bool,
}

/// CACHEUS.
///
/// ```
/// use frazil_policy::Cacheus;
/// // The same seed makes the same choices.
/// let policy = Cacheus::new(1000, 1);
/// assert_eq!(policy.weight_of_lru(), 0.98);
/// ```
#[derive(Clone, Debug)]
pub struct Cacheus {
    lists: Lists<2>,
    flags: Vec<u8>,
    /// Weight of each list.
    weight: [u64; 2],
    /// Capacity of SR; R has the rest.
    sr_limit: u64,
    /// Capacity of SR when the border last moved, and the whole capacity then, so that many changes
    /// of capacity are rounded only once.
    sr_share: (u64, u64),
    capacity: u64,
    /// Objects with the flag [`DEMOTED`], all of them in SR.
    demoted: u64,
    /// New objects in LRU's history.
    new_evicted: u64,
    frequencies: Frequencies,
    histories: History<2, Evicted>,
    /// LFU's weight is 1 minus this.
    weight_of_lru: f64,
    learning: LearningRate,
    rng: Rng,
    /// Requests so far: the clock.
    requests: u64,
    len: usize,
    /// The most objects resident at once at this capacity.
    most: usize,
    /// Whether the last change of capacity was a decrease. Evictions without a new object are due
    /// to it.
    shrunk: bool,
}

/// The share `of` / `whole` of `capacity`, but at least 1.
fn part((of, whole): (u64, u64), capacity: u64) -> u64 {
    let part = u128::from(of) * u128::from(capacity) / u128::from(whole);
    u64::try_from(part).unwrap_or(capacity).min(capacity).max(1)
}

impl Cacheus {
    /// A policy for a cache of `capacity` in the host's unit of weight, whose
    /// choices depend on `seed`.
    pub fn new(capacity: u64, seed: u64) -> Self {
        Cacheus {
            lists: Lists::new(),
            flags: Vec::new(),
            weight: [0; 2],
            sr_limit: part(SR_SHARE, capacity),
            sr_share: SR_SHARE,
            capacity,
            demoted: 0,
            new_evicted: 0,
            frequencies: Frequencies::new(),
            histories: History::new(),
            weight_of_lru: FIRST_WEIGHT_OF_LRU,
            learning: LearningRate::new(),
            rng: Rng::new(seed),
            requests: 0,
            len: 0,
            most: 0,
            shrunk: false,
        }
    }

    /// How probable it is that LRU chooses the next victim.
    pub fn weight_of_lru(&self) -> f64 {
        self.weight_of_lru
    }

    /// Bytes that the histories take up.
    pub fn history_bytes(&self) -> usize {
        self.histories.bytes()
    }

    #[inline]
    fn count_request(&mut self) {
        self.requests += 1;
        if self.requests >= self.learning.period_end {
            self.learning.update(self.requests, self.most, &mut self.rng);
        }
    }

    #[inline]
    fn push(&mut self, list: usize, slot: Slot, weight: u64, flags: u8) {
        self.lists.push_head(list, slot);
        if slot.index() >= self.flags.len() {
            self.flags.resize(slot.index() + 1, 0);
        }
        self.flags[slot.index()] = flags;
        self.weight[list] += weight;
    }

    fn r_limit(&self) -> u64 {
        self.capacity.saturating_sub(self.sr_limit)
    }

    /// Demotes from R's tail while R exceeds its capacity; with `leave_room` also
    /// while R is full.
    #[inline]
    fn demote(&mut self, host: &mut impl Host<()>, leave_room: bool) {
        let limit = self.r_limit();
        while self.weight[R] > limit || (leave_room && self.weight[R] == limit) {
            let Some(slot) = self.lists.tail(R) else {
                return;
            };
            let weight = host.weight(slot);
            self.lists.unlink(slot);
            self.weight[R] -= weight;
            self.push(SR, slot, weight, DEMOTED);
            self.demoted += 1;
            host.count(Work::Tail, 1);
            host.count(Work::Head, 1);
        }
    }

    /// Moves the border between SR and R for the sake of an object that the
    /// smaller of them should have kept.
    fn move_border(&mut self, grow_sr: bool, weight: u64) {
        let weight = weight.max(1);
        let most = self.capacity.saturating_sub(weight);
        let ratio = |of: u64, to: u64| (of + to / 2) / to.max(1);
        if grow_sr {
            let objects = ratio(self.demoted, self.new_evicted.max(1)).max(1);
            let limit = self.sr_limit.saturating_add(objects.saturating_mul(weight));
            self.sr_limit = limit.min(most).max(self.sr_limit);
        } else {
            let objects = ratio(self.new_evicted, self.demoted.max(1)).max(1);
            let old = self.r_limit();
            let limit = old.saturating_add(objects.saturating_mul(weight));
            self.sr_limit = self.capacity.saturating_sub(limit.min(most).max(old));
        }
        self.sr_share = (self.sr_limit, self.capacity.max(1));
    }

    fn regret(&mut self, expert: usize, evicted: Evicted) {
        let age = f64::from((self.requests as u32).wrapping_sub(evicted.at));
        let regret = (LN_DISCOUNT * age / self.most.max(1) as f64).exp();
        let factor = (-self.learning.rate * regret).exp();
        let mut weights = [self.weight_of_lru, 1.0 - self.weight_of_lru];
        weights[expert] *= factor;
        let share = weights[LRU] / (weights[LRU] + weights[LFU]);
        self.weight_of_lru = share.clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT);
    }

    /// Takes `hash` out of the history that remembers it.
    #[inline]
    fn take(&mut self, hash: u64) -> Option<(usize, Evicted)> {
        let (expert, evicted) = self.histories.take(hash)?;
        if expert == LRU && evicted.new {
            self.new_evicted -= 1;
        }
        Some((expert, evicted))
    }

    fn record(&mut self, host: &mut impl Host<()>, expert: usize, victim: Slot) {
        let new = self.flags[victim.index()] & NEW != 0;
        let frequency = self.frequencies.frequency(victim) as u16;
        let evicted = Evicted { at: self.requests as u32, frequency, new };
        self.set_limits();
        let (hash, weight) = (host.hash(victim), host.weight(victim));
        if self.histories.record(expert, hash, weight, evicted) {
            self.new_evicted += u64::from(expert == LRU && new);
        }
        self.forget_surplus(expert);
        host.count(Work::Ghost, 1);
    }

    #[inline]
    fn set_limits(&mut self) {
        for expert in [LRU, LFU] {
            self.histories.set_limits(expert, self.capacity / 2, self.most / 2);
        }
    }

    #[inline]
    fn forget_surplus(&mut self, expert: usize) {
        while let Some(evicted) = self.histories.forget_surplus(expert) {
            self.new_evicted -= u64::from(expert == LRU && evicted.new);
        }
    }

    #[inline]
    fn admit(&mut self, host: &mut impl Host<()>, slot: Slot, list: usize, frequency: u32) {
        let flags = if list == R { IN_R } else { NEW };
        self.push(list, slot, host.weight(slot), flags);
        self.frequencies.insert(slot, frequency);
        self.len += 1;
        self.most = self.most.max(self.len);
        host.count(Work::Head, 2);
        self.demote(host, true);
    }

    #[inline]
    fn detach(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let flags = self.flags[slot.index()];
        self.lists.unlink(slot);
        self.weight[usize::from(flags & IN_R)] -= host.weight(slot);
        self.demoted -= u64::from(flags & DEMOTED != 0);
        self.frequencies.remove(slot);
        self.len -= 1;
    }
}

impl Policy for Cacheus {
    type Meta = ();
    /// The frequency with which a reused object will enter; `None` for a new one.
    type Pending = Option<u32>;

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.count_request();
        self.learning.hits += 1;
        self.frequencies.raise(slot);
        host.count(Work::Delink, 1);
        host.count(Work::Head, 1);
        let flags = self.flags[slot.index()];
        if flags & IN_R == 0 {
            let weight = host.weight(slot);
            if flags & DEMOTED != 0 {
                self.move_border(false, weight);
                self.demoted -= 1;
            }
            self.lists.unlink(slot);
            self.weight[SR] -= weight;
            self.push(R, slot, weight, IN_R);
            self.demote(host, false);
        } else if self.lists.head(R) != Some(slot) {
            self.lists.move_to_head(R, slot);
        } else {
            return;
        }
        host.count(Work::Delink, 1);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) -> Option<u32> {
        self.count_request();
        host.count(Work::Ghost, 1);
        let (expert, evicted) = self.take(hash)?;
        if expert == LRU && evicted.new {
            self.move_border(true, weight);
        }
        self.regret(expert, evicted);
        Some(u32::from(evicted.frequency) + 1)
    }

    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<Option<u32>>) {
        self.count_request();
        incoming.pending = Some(incoming.pending.unwrap_or(1).saturating_add(1));
    }

    #[inline]
    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<Option<u32>>>,
    ) -> Eviction {
        let lru = self.lists.tail(SR).or(self.lists.tail(R));
        let candidates = [lru, self.frequencies.most_recent()];
        let expert = if self.rng.unit() < self.weight_of_lru { LRU } else { LFU };
        let Some(victim) = candidates[expert] else {
            return Eviction::Empty;
        };
        self.learning.begin(self.requests, self.most);
        self.detach(host, victim);
        if self.shrunk && incoming.is_none() {
            self.most = self.len;
        }
        host.count(Work::Tail, 1);
        host.count(Work::Delink, 1);
        if candidates[LRU] != candidates[LFU] {
            self.record(host, expert, victim);
        }
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<Option<u32>>) {
        match incoming.pending {
            Some(frequency) => self.admit(host, slot, R, frequency),
            None => self.admit(host, slot, SR, 1),
        }
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.detach(host, slot);
        host.count(Work::Delink, 2);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let list = usize::from(self.flags[slot.index()] & IN_R);
        self.weight[list] = self.weight[list] - old_weight + host.weight(slot);
        self.demote(host, false);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.sr_limit = part(self.sr_share, capacity);
        self.shrunk = capacity < self.capacity && self.len > 0;
        self.capacity = capacity;
        self.most = self.len;
        self.set_limits();
        self.forget_surplus(LRU);
        self.forget_surplus(LFU);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        if self.weight_of_lru >= 0.5 {
            self.lists.in_order(&[SR, R])
        } else {
            self.frequencies.most_recent_first()
        }
    }
}

/// How strongly a regret counts: climbs towards the best hit ratio.
#[derive(Clone, Debug)]
struct LearningRate {
    rate: f64,
    previous_rate: f64,
    /// Hit ratio of the last period, in thousandths: finer changes are noise.
    hit_ratio: i64,
    /// Periods in a row that were no better while the rate stood still.
    idle: u32,
    /// Hits in this period.
    hits: u64,
    period_end: u64,
}

impl LearningRate {
    /// Periods without success after which the rate starts anew.
    const PATIENCE: u32 = 10;

    fn new() -> Self {
        LearningRate {
            rate: 0.0,
            previous_rate: 0.0,
            hit_ratio: 0,
            idle: 0,
            hits: 0,
            period_end: u64::MAX,
        }
    }

    /// The first period begins when the cache is full.
    #[inline]
    fn begin(&mut self, now: u64, objects: usize) {
        if self.period_end == u64::MAX {
            self.rate = Self::least(objects);
            self.hits = 0;
            self.period_end = now + objects.max(1) as u64;
        }
    }

    /// Initial value and lower bound of the rate, for a cache of `objects` objects.
    fn least(objects: usize) -> f64 {
        (LN_2 / (2.0 * objects.max(1) as f64)).sqrt()
    }

    #[cold]
    fn update(&mut self, now: u64, objects: usize, rng: &mut Rng) {
        let objects_now = objects.max(1) as u64;
        let hit_ratio = (self.hits as f64 * 1000.0 / objects_now as f64).round() as i64;
        let rise = hit_ratio - self.hit_ratio;
        let step = self.rate - self.previous_rate;
        self.previous_rate = self.rate;
        if rise != 0 && step != 0.0 {
            let onwards = if (rise > 0) == (step > 0.0) { 1.0 } else { -1.0 };
            self.rate += onwards * (self.rate * step).abs();
            self.idle = 0;
        } else if rise < 0 || (rise == 0 && hit_ratio == 0) {
            self.idle += 1;
            if self.idle >= Self::PATIENCE {
                self.rate = 0.0;
                self.idle = 0;
            } else if rise < 0 {
                self.rate *= if rng.below(2) == 0 { 1.25 } else { 0.75 };
            }
        }
        self.rate = self.rate.clamp(Self::least(objects), 1.0);
        self.hit_ratio = hit_ratio;
        self.hits = 0;
        self.period_end = now + objects_now;
    }
}
