//! LHD: evicts the object with the fewest expected hits for its weight and time.
//!
//! The worth of a resident is its hit density: the probability of another hit,
//! over the time until it is hit or evicted, over its weight. The policy learns
//! probability and time. For each class of objects and each age (requests since an
//! object's own last one), hits and evictions are counted; these counts give the
//! density of an object of that class and age. Classes are the sum of an object's
//! last two ages by powers of two, and newcomers form their own class. The policy
//! evicts the least dense of a sample (Beckmann, Chen, Cidon, NSDI 2018).
//!
//! The sample is [`FRESH`] residents chosen by chance and the last [`RECENT`]
//! newcomers that ranked no better than the victims of the time. One request in 32
//! makes its object an explorer, which is kept for long, while explorers hold less than 1 % of the
//! capacity. So the policy observes hits at ages that are otherwise never reached. Counts decay by
//! a tenth each time densities are computed.
//!
//! The reference computes densities every 2²⁰ requests, which most of its traces
//! never reach; on those it is a fixed rule. Here the policy computes them once per turnover of the
//! cache, and more often early on, starting from a prior that counts as one event: half of all
//! objects are hit, after as long as they have waited already and their class suggests. Ages are in
//! buckets an eighth wide, not in 20,000 of equal width: 31 KiB of densities instead of 1.2 MiB,
//! and no scale to adapt. The reference draws 8 for long, then 32; 16 do as well. Together: lower
//! miss ratios on nearly all reference rows, by up to 15 points and one at the median.
//!
//! 28 bytes a slot, and 2.8 KiB for each class in use, 93 KiB at most; a hit is O(1),
//! an eviction compares `FRESH + RECENT` residents, and 8,000 steps every 512 to 2²⁰
//! requests.

use crate::aggregate_delay::{Delays, Keep};
use crate::buckets::{bucket_of, buckets_for, least_of};
use crate::{DelayAware, Eviction, Host, Incoming, Policy, Rng, SampleTable, Slot, Work};

/// Residents drawn by chance at an eviction.
const FRESH: usize = 16;
/// New objects that are compared with them.
const RECENT: usize = 8;
/// One request in this many makes an explorer.
const EXPLORE: u64 = 32;
/// Explorers may hold this part of the capacity.
const EXPLORER_SHARE: u64 = 100;
/// An explorer stays one until its age is this many times the capacity.
const EXPLORER_AGE: u64 = 64;
/// Factor on counts when densities are computed.
const DECAY: f32 = 0.9;
/// Counts below this become 0. Without it they would decay to numbers that are
/// slow to compute with.
const NEGLIGIBLE: f32 = 1e-6;
/// Least and most requests between two computations.
const INTERVAL: (u64, u64) = (512, 1 << 20);
/// Weight of the prior, in events, and the number of hits among them.
const PRIOR_EVENTS: f32 = 1.0;
const PRIOR_HITS: f32 = 0.5;
/// Age up to which the prior keeps new objects. Long, so that objects with hits survive a scan
/// until there are data.
const NEWCOMER_WAIT: f32 = 65536.0;

const BUCKETS: usize = buckets_for(u32::BITS);
/// New objects, and a class for each power of two.
const CLASSES: usize = u32::BITS as usize + 1;
const NEWCOMER: u8 = 0;

/// The data for an object's density. Packed, so that it takes 24 bytes with its slot.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Record {
    /// Time of the last request.
    touched: u64,
    weight: f32,
    /// Age when it was last hit.
    last_age: u32,
    class: u8,
    explorer: bool,
}

const _: () = assert!(size_of::<(Slot, Record)>() == 24);

/// The bucket of an age.
#[inline]
fn bucket(age: u32) -> usize {
    bucket_of(u64::from(age))
}

/// The class of objects whose last two ages have this sum.
#[inline]
fn class_of(ages: u32) -> u8 {
    (u32::BITS - ages.max(1).leading_zeros()) as u8
}

/// Hits and evictions at each age, and the densities computed from them.
#[derive(Clone, Debug)]
struct Counts {
    hits: [f32; BUCKETS],
    evictions: [f32; BUCKETS],
    densities: [f32; BUCKETS],
}

/// Objects of one class. Its counts are allocated at the first event: 2.8 KiB.
#[derive(Clone, Debug)]
struct Class {
    /// How long the prior lets an object of age 0 wait.
    wait: f32,
    counts: Option<Box<Counts>>,
}

/// The density that the prior gives the objects of a bucket.
#[inline]
fn prior(bucket: usize, wait: f32) -> f32 {
    PRIOR_HITS / (PRIOR_EVENTS * (least_of(bucket) as f32 + wait))
}

impl Class {
    fn new(class: usize) -> Self {
        let wait = if class == 0 { NEWCOMER_WAIT } else { (1u64 << (class - 1)) as f32 };
        Class { wait, counts: None }
    }

    #[inline]
    fn density(&self, bucket: usize) -> f32 {
        match &self.counts {
            Some(counts) => counts.densities[bucket],
            None => prior(bucket, self.wait),
        }
    }

    #[inline]
    fn counts(&mut self) -> &mut Counts {
        let wait = self.wait;
        self.counts.get_or_insert_with(|| {
            let densities = std::array::from_fn(|bucket| prior(bucket, wait));
            let none = [0.0; BUCKETS];
            Box::new(Counts { hits: none, evictions: none, densities })
        })
    }

    /// Computes densities from the greatest age down: future hits over future
    /// time, both summed over all objects that reached at least that age.
    fn compute(&mut self) {
        let Some(counts) = &mut self.counts else { return };
        let (mut hits, mut events, mut time) = (0.0, 0.0, 0.0);
        for bucket in (0..BUCKETS).rev() {
            for count in [&mut counts.hits[bucket], &mut counts.evictions[bucket]] {
                *count = if *count < NEGLIGIBLE { 0.0 } else { *count * DECAY };
            }
            let here = counts.hits[bucket] + counts.evictions[bucket];
            let age = least_of(bucket) as f32;
            let width = least_of(bucket + 1) as f32 - age;
            // Events in this bucket count as in its middle.
            time += (events + here / 2.0) * width;
            events += here;
            hits += counts.hits[bucket];
            counts.densities[bucket] =
                (hits + PRIOR_HITS) / (time + PRIOR_EVENTS * (age + self.wait));
        }
    }
}

/// Least hit density.
///
/// ```
/// use frazil_policy::{Eviction, Host, Incoming, Lhd, Policy, Slot};
///
/// struct Clock(u64);
/// impl Host<()> for Clock {
///     fn now(&self) -> u64 { self.0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, _: Slot) -> u64 { 1 }
/// }
///
/// let mut host = Clock(0);
/// let mut policy = Lhd::new(2, 1);
/// for slot in [Slot(0), Slot(1)] {
///     host.0 += 1;
///     let (hash, weight) = (host.hash(slot), host.weight(slot));
///     let pending = policy.miss(&mut host, hash, weight);
///     policy.insert(&mut host, slot, Incoming { hash, weight, pending });
/// }
/// host.0 += 1;
/// policy.hit(&mut host, Slot(0));
/// host.0 += 1;
/// assert_eq!(policy.evict(&mut host, None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Lhd {
    residents: SampleTable<Record>,
    classes: Vec<Class>,
    /// Requests so far.
    clock: u64,
    /// When densities are computed next.
    compute_at: u64,
    /// New objects to compare; some may have left since.
    recent: [Slot; RECENT],
    next_recent: usize,
    /// Moving average of the victims' ranks.
    victim_rank: f32,
    /// Weight of all explorers.
    exploring: u64,
    capacity: u64,
    rng: Rng,
}

impl Lhd {
    /// A policy for a cache of `capacity` whose samples and explorers depend on
    /// `seed`.
    pub fn new(capacity: u64, seed: u64) -> Self {
        Lhd {
            residents: SampleTable::new(),
            classes: (0..CLASSES).map(Class::new).collect(),
            clock: 0,
            compute_at: INTERVAL.0,
            recent: [Slot(u32::MAX); RECENT],
            next_recent: 0,
            victim_rank: 0.0,
            exploring: 0,
            capacity,
            rng: Rng::new(seed),
        }
    }

    #[inline]
    fn age(&self, record: &Record) -> u32 {
        u32::try_from(self.clock - record.touched).unwrap_or(u32::MAX)
    }

    /// Hit density; above all others for explorers.
    #[inline]
    fn rank(&self, record: &Record) -> f32 {
        let age = self.age(record);
        if record.explorer && u64::from(age) < EXPLORER_AGE * self.residents.len() as u64 {
            return f32::MAX;
        }
        self.classes[usize::from(record.class)].density(bucket(age)) / record.weight
    }

    /// Ends a request.
    #[inline]
    fn tick(&mut self) {
        self.clock += 1;
        if self.clock >= self.compute_at {
            self.compute();
        }
    }

    #[cold]
    fn compute(&mut self) {
        self.classes.iter_mut().for_each(Class::compute);
        // Often while data are few; in a small cache, which never has many data, not so often that
        // it dominates the cost.
        let early = (self.clock / 64).min(8 * INTERVAL.0);
        let interval = early.max(self.residents.len() as u64).clamp(INTERVAL.0, INTERVAL.1);
        self.compute_at = self.clock + interval;
    }

    /// Whether a requested object becomes an explorer, and counts it.
    #[inline]
    fn explore(&mut self, host: &impl Host<()>, slot: Slot) -> bool {
        if !self.rng.bits().is_multiple_of(EXPLORE)
            || self.exploring.saturating_mul(EXPLORER_SHARE) >= self.capacity
        {
            return false;
        }
        self.exploring += host.weight(slot);
        true
    }

    fn take(&mut self, host: &impl Host<()>, slot: Slot) -> Record {
        let record = self.residents.remove(slot);
        if record.explorer {
            self.exploring -= host.weight(slot);
        }
        record
    }

    /// The least dense of a sample, with densities times `factor`.
    #[inline]
    fn victim(&mut self, factor: impl Fn(Slot) -> f32) -> Option<(f32, Slot)> {
        let mut least: Option<(f32, Slot)> = None;
        let len = self.residents.len();
        for turn in 0..len.min(FRESH) {
            let place = if len > FRESH { self.rng.below(len as u64) as usize } else { turn };
            let (slot, record) = self.residents.at(place);
            let rank = self.rank(record) * factor(slot);
            if least.is_none_or(|(lowest, _)| rank < lowest) {
                least = Some((rank, slot));
            }
        }
        for slot in self.recent {
            let Some(record) = self.residents.get(slot) else { continue };
            let rank = self.rank(record) * factor(slot);
            if least.is_none_or(|(lowest, _)| rank < lowest) {
                least = Some((rank, slot));
            }
        }
        least
    }

    /// Takes out a victim with this rank.
    #[inline]
    fn detach(&mut self, host: &mut impl Host<()>, victim: Slot, rank: f32) {
        host.count(Work::Sample, (FRESH + RECENT) as u32);
        if rank < f32::MAX {
            self.victim_rank = DECAY * self.victim_rank + (1.0 - DECAY) * rank;
        }
        let record = self.take(host, victim);
        let age = self.age(&record);
        self.classes[usize::from(record.class)].counts().evictions[bucket(age)] += 1.0;
    }
}

impl Policy for Lhd {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let clock = self.clock;
        let record = self.residents.get_mut(slot);
        let age = u32::try_from(clock - record.touched).unwrap_or(u32::MAX);
        self.classes[usize::from(record.class)].counts().hits[bucket(age)] += 1.0;
        record.class = class_of(age.saturating_add(record.last_age));
        record.last_age = age;
        record.touched = clock;
        if std::mem::take(&mut record.explorer) {
            self.exploring -= host.weight(slot);
        }
        if self.explore(host, slot) {
            self.residents.get_mut(slot).explorer = true;
        }
        host.count(Work::Mark, 1);
        self.tick();
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some((rank, victim)) = self.victim(|_| 1.0) else {
            return Eviction::Empty;
        };
        self.detach(host, victim, rank);
        Eviction::Victim(victim)
    }

    /// Advances the clock; there are no data of an object that is not resident.
    fn delayed_hit(&mut self, _host: &mut impl Host<()>, _incoming: &mut Incoming<()>) {
        self.tick();
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        let explorer = self.explore(host, slot);
        let weight = host.weight(slot).max(1) as f32;
        let record = Record { touched: self.clock, weight, last_age: 0, class: NEWCOMER, explorer };
        self.residents.insert(slot, record);
        if self.rank(&record) < self.victim_rank {
            self.recent[self.next_recent] = slot;
            self.next_recent = (self.next_recent + 1) % RECENT;
        }
        self.tick();
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.take(host, slot);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let record = self.residents.get_mut(slot);
        record.weight = host.weight(slot).max(1) as f32;
        if record.explorer {
            self.exploring = self.exploring - old_weight + host.weight(slot);
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        // No rank is negative, so its bits order as it does.
        self.residents.ranked(|_, record| self.rank(record).to_bits())
    }
}

impl DelayAware for Lhd {
    fn evict_by(
        &mut self,
        host: &mut impl Host<()>,
        _incoming: Option<&Incoming<()>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction {
        let Some((_, victim)) = self.victim(|slot| delays.delay(slot) as f32) else {
            return Eviction::Empty;
        };
        // New objects are compared with victims by density alone.
        let rank = self.residents.get(victim).map_or(f32::MAX, |record| self.rank(record));
        self.detach(host, victim, rank);
        Eviction::Victim(victim)
    }

    fn coldest_by(&self, _host: &impl Host<()>, delays: &Delays<'_, impl Keep>) -> Vec<Slot> {
        self.residents
            .ranked(|slot, record| (self.rank(record) * delays.delay(slot) as f32).to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects that are all hit at the same age get denser up to it, and have almost no density
    /// after.
    #[test]
    fn densities_follow_what_was_counted() {
        let mut class = Class::new(3);
        class.counts().hits[bucket(100)] = 1000.0;
        class.counts().evictions[bucket(1000)] = 1000.0;
        class.compute();
        let density = |age| class.density(bucket(age));
        assert!(density(0) < density(50) && density(50) < density(90));
        assert!(density(120) < density(0) / 100.0);
        // Half are hit at 100, the others leave at about 1,000.
        let expected = 0.5 / (0.5 * 100.0 + 0.5 * 1000.0);
        assert!((density(0) / expected - 1.0).abs() < 0.1, "{} {expected}", density(0));
    }
}
