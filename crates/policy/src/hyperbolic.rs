//! Hyperbolic caching: evicts the object requested least often for its time in the cache.
//!
//! An object's priority is `requests / (time since its insertion × weight)`. It
//! falls with time, quickly at first, so newcomers start high and old objects
//! are judged by their request rate. Since the order of two objects may change
//! at any time, no queue can hold it: the policy evicts the lowest of a sample
//! (Blankstein, Sen, Freedman, ATC 2017).
//!
//! A sample is [`FRESH`] residents chosen by chance, and the [`KEPT`] lowest of
//! the samples before (Psounis, Prabhakar, INFOCOM 2001): an object that was
//! nearly evicted is a better candidate than most, so fewer draws are needed. The
//! reference draws 64 anew each time and leaves the weight out.
//!
//! 24 bytes a slot; a hit is O(1), an eviction compares `FRESH + KEPT`
//! residents.

use crate::{Eviction, Host, Incoming, Policy, Rng, SampleTable, Slot, Work};

/// Residents drawn by chance at an eviction; all, if there are no more.
const FRESH: usize = 20;
/// Candidates kept from one eviction to the next.
const KEPT: usize = 8;

/// The data for an object's priority. Packed, so that it takes 20 bytes with its slot.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Record {
    since: u64,
    requests: u32,
    weight: f32,
}

const _: () = assert!(size_of::<(Slot, Record)>() == 20);

impl Record {
    /// The reciprocal of the priority. 0 for an object just inserted.
    #[inline]
    fn idleness(&self, now: u64) -> f32 {
        now.saturating_sub(self.since) as f32 * self.weight / self.requests as f32
    }
}

/// Hyperbolic caching.
///
/// ```
/// use frazil_policy::{Eviction, Host, Hyperbolic, Incoming, Policy, Slot};
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
/// let mut policy = Hyperbolic::new(1);
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
pub struct Hyperbolic {
    residents: SampleTable<Record>,
    /// The lowest of the last sample except its victim, lowest first, each with
    /// its idleness at that time. Some may have left since.
    kept: Vec<(f32, Slot)>,
    rng: Rng,
}

impl Hyperbolic {
    /// A policy whose samples depend on `seed`.
    pub fn new(seed: u64) -> Self {
        Hyperbolic {
            residents: SampleTable::new(),
            kept: Vec::with_capacity(KEPT + 1),
            rng: Rng::new(seed),
        }
    }

    /// Judges the kept candidates anew, and forgets those that have left.
    #[inline]
    fn judge_kept(&mut self, now: u64) {
        let residents = &self.residents;
        self.kept.retain_mut(|candidate| match residents.get(candidate.1) {
            Some(record) => {
                candidate.0 = record.idleness(now);
                true
            }
            None => false,
        });
        // So few that a general sort would waste hundreds of instructions.
        for end in 1..self.kept.len() {
            let mut at = end;
            while at > 0 && self.kept[at - 1].0 < self.kept[at].0 {
                self.kept.swap(at - 1, at);
                at -= 1;
            }
        }
    }

    /// Takes a resident among the candidates if it is lower than one of them.
    #[inline]
    fn consider(&mut self, idleness: f32, slot: Slot) {
        let full = self.kept.len() > KEPT;
        if full && self.kept[KEPT].0 >= idleness {
            return;
        }
        if self.kept.iter().any(|candidate| candidate.1 == slot) {
            return;
        }
        if full {
            self.kept.pop();
        }
        let place = self.kept.partition_point(|candidate| candidate.0 >= idleness);
        self.kept.insert(place, (idleness, slot));
    }

    fn weight(host: &impl Host<()>, slot: Slot) -> f32 {
        host.weight(slot).max(1) as f32
    }
}

impl Policy for Hyperbolic {
    type Meta = ();
    /// Requests so far.
    type Pending = u32;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let record = self.residents.get_mut(slot);
        record.requests = record.requests.saturating_add(1);
        host.count(Work::Mark, 1);
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) -> u32 {
        1
    }

    #[inline]
    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<u32>) {
        incoming.pending = incoming.pending.saturating_add(1);
    }

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<u32>>) -> Eviction {
        let now = host.now();
        let len = self.residents.len();
        self.judge_kept(now);
        for turn in 0..len.min(FRESH) {
            let place = if len > FRESH { self.rng.below(len as u64) as usize } else { turn };
            let (slot, record) = self.residents.at(place);
            let idleness = record.idleness(now);
            self.consider(idleness, slot);
        }
        if self.kept.is_empty() {
            return Eviction::Empty;
        }
        host.count(Work::Sample, (FRESH + KEPT) as u32);
        let (_, victim) = self.kept.remove(0);
        self.residents.remove(victim);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<u32>) {
        let weight = Self::weight(host, slot);
        let record = Record { since: host.now(), requests: incoming.pending, weight };
        self.residents.insert(slot, record);
    }

    fn remove(&mut self, _host: &mut impl Host<()>, slot: Slot) {
        self.residents.remove(slot);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, _old_weight: u64) {
        self.residents.get_mut(slot).weight = Self::weight(host, slot);
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let now = host.now();
        // No idleness is negative, so its bits order as it does.
        self.residents.ranked(|_, record| !record.idleness(now).to_bits())
    }
}
