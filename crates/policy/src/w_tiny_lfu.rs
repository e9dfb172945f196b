//! W-TinyLFU: what leaves a small window enters the main cache only if it was
//! requested more often than what would have to go for it.
//!
//! Newcomers enter the window, an LRU list. Its oldest is the candidate for main;
//! main's oldest is the victim; the one that a sketch of past requests has seen
//! less often leaves the cache, the candidate if they are equal. Main is a
//! segmented LRU: objects enter probation, a hit there moves them to protected,
//! which holds up to 80 % of main and returns its oldest to probation (Einziger,
//! Friedman and Manes, ACM TOS 2017).
//!
//! The window starts at 1 % of the capacity and then climbs: after each sample of
//! requests it moves by a step, the same way as before if the hit ratio rose and
//! the other way if it fell; steps shrink, and start anew when the hit ratio
//! jumps (Einziger, Eytan, Friedman and Manes, Middleware 2018). FIXME
//!
//! FIXME

use crate::{Eviction, Host, Incoming, Lists, Policy, Sketch, Slot, Work};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// One part in so many of the capacity is the window's at first, and at least.
const WINDOW_SHARE: u64 = 100;
/// The most victims that one candidate may displace.
const MOST_VICTIMS: u32 = 16;
/// Requests of a sample, for each resident.
const SAMPLE_AN_OBJECT: u64 = 10;
/// The first step of the window, as a share of the capacity.
const STEP: f64 = 0.0625;
/// What is left of a step at the next sample.
const STEP_DECAY: f64 = 0.98;
/// A change of the hit ratio that starts the climb anew.
const RESTART: f64 = 0.05;

/// W-TinyLFU.
///
/// ```
/// use frazil_policy::{Eviction, Host, Incoming, Policy, Slot, WTinyLfu};
///
/// struct Ones;
/// impl Host<()> for Ones {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { frazil_policy::object_hash(slot.0.into(), 1) }
///     fn weight(&self, _: Slot) -> u64 { 1 }
/// }
///
/// let mut policy = WTinyLfu::new(2);
/// for slot in [Slot(0), Slot(1)] {
///     let hash = Ones.hash(slot);
///     let pending = policy.miss(&mut Ones, hash, 1);
///     policy.insert(&mut Ones, slot, Incoming { hash, weight: 1, pending });
/// }
/// policy.hit(&mut Ones, Slot(0));
/// assert_eq!(policy.evict(&mut Ones, None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    lists: Lists<3>,
    /// Which list a slot is in.
    list_of: Vec<u8>,
    weight: [u64; 3],
    len: u64,
    sketch: Sketch,
    capacity: u64,
    window_capacity: u64,
    climber: Climber,
}

/// Moves the border between window and main towards more hits.
#[derive(Clone, Debug, Default)]
struct Climber {
    requests: u64,
    hits: u64,
    /// Hit ratio of the sample before.
    before: f64,
    /// How far the window moves next, as a share of the capacity; negative to
    /// shrink it.
    step: f64,
    /// The window, as a share of the capacity.
    window: f64,
}

impl Climber {
    fn new() -> Self {
        Climber { step: STEP, window: 1.0 / WINDOW_SHARE as f64, ..Climber::default() }
    }

    /// Ends a sample: moves the window, and chooses the next step.
    #[cold]
    fn climb(&mut self) {
        let ratio = self.hits as f64 / self.requests as f64;
        let change = ratio - self.before;
        if change < 0.0 {
            self.step = -self.step;
        }
        if change.abs() >= RESTART {
            self.step = STEP.copysign(self.step);
        }
        self.window = (self.window + self.step).clamp(1.0 / WINDOW_SHARE as f64, 0.8);
        self.step *= STEP_DECAY;
        self.before = ratio;
        self.requests = 0;
        self.hits = 0;
    }
}

impl WTinyLfu {
    /// A policy for a cache of `capacity` in the host's unit of weight.
    pub fn new(capacity: u64) -> Self {
        let mut policy = WTinyLfu {
            lists: Lists::new(),
            list_of: Vec::new(),
            weight: [0; 3],
            len: 0,
            sketch: Sketch::new(),
            capacity: 0,
            window_capacity: 0,
            climber: Climber::new(),
        };
        policy.set_capacity(capacity);
        policy
    }

    fn main_weight(&self) -> u64 {
        self.weight[PROBATION] + self.weight[PROTECTED]
    }

    fn main_capacity(&self) -> u64 {
        self.capacity - self.window_capacity
    }

    #[inline]
    fn push(&mut self, host: &mut impl Host<()>, list: usize, slot: Slot) {
        self.lists.push_head(list, slot);
        if slot.index() >= self.list_of.len() {
            self.list_of.resize(slot.index() + 1, 0);
        }
        self.list_of[slot.index()] = list as u8;
        self.weight[list] += host.weight(slot);
        self.len += 1;
        host.count(Work::Head, 1);
    }

    #[inline]
    fn unlink(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lists.unlink(slot);
        self.weight[usize::from(self.list_of[slot.index()])] -= host.weight(slot);
        self.len -= 1;
    }

    /// Moves a resident to the head of `list`.
    #[inline]
    fn transfer(&mut self, host: &mut impl Host<()>, slot: Slot, list: usize) {
        let weight = host.weight(slot);
        let from = usize::from(self.list_of[slot.index()]);
        self.weight[from] -= weight;
        self.weight[list] += weight;
        self.list_of[slot.index()] = list as u8;
        self.lists.move_to_head(list, slot);
        host.count(Work::Head, 1);
    }

    /// Sees to the climber; called where time is being lost anyway.
    #[inline]
    fn sample(&mut self) {
        self.climber.requests += 1;
        if self.climber.requests >= SAMPLE_AN_OBJECT * self.len.max(1) {
            self.climber.climb();
            self.set_window();
        }
    }

    fn set_window(&mut self) {
        let window = (self.capacity as f64 * self.climber.window) as u64;
        self.window_capacity = window.max(1).min(self.capacity);
    }

    /// Whether something requested `frequency` times deserves the place of main's
    /// oldest objects of a weight of `wanted` together.
    fn beats_main(&self, host: &mut impl Host<()>, frequency: u32, wanted: u64) -> bool {
        let mut victim = self.lists.tail(PROBATION).or_else(|| self.lists.tail(PROTECTED));
        let (mut freed, mut sum) = (0, 0);
        for _ in 0..MOST_VICTIMS {
            let Some(slot) = victim else { return false };
            sum += self.sketch.estimate(host.hash(slot));
            if sum >= frequency {
                return false;
            }
            freed += host.weight(slot);
            if freed >= wanted {
                return true;
            }
            victim = self.lists.newer(slot);
            if victim.is_none() && self.list_of[slot.index()] == PROBATION as u8 {
                victim = self.lists.tail(PROTECTED);
            }
        }
        false
    }

    fn detach(&mut self, host: &mut impl Host<()>, slot: Option<Slot>) -> Eviction {
        let Some(victim) = slot else { return Eviction::Empty };
        self.unlink(host, victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    fn main_victim(&self) -> Option<Slot> {
        self.lists.tail(PROBATION).or_else(|| self.lists.tail(PROTECTED))
    }
}

impl Policy for WTinyLfu {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.climber.requests += 1;
        self.climber.hits += 1;
        self.sketch.add(host.hash(slot));
        host.count(Work::Ghost, 1);
        let list = match usize::from(self.list_of[slot.index()]) {
            WINDOW => WINDOW,
            _ => PROTECTED,
        };
        if self.lists.head(list) == Some(slot) {
            return;
        }
        host.count(Work::Delink, 1);
        self.transfer(host, slot, list);
        let protected_capacity = self.main_capacity() / 5 * 4;
        while self.weight[PROTECTED] > protected_capacity {
            let Some(oldest) = self.lists.tail(PROTECTED) else { break };
            self.transfer(host, oldest, PROBATION);
            host.count(Work::Tail, 1);
        }
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, _weight: u64) {
        self.sketch.add(hash);
        host.count(Work::Ghost, 1);
        self.sample();
    }

    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<()>>) -> Eviction {
        let weight = incoming.map_or(0, |new| new.weight);
        if let Some(new) = incoming.filter(|new| new.weight > self.window_capacity) {
            // Too heavy for the window: it competes itself.
            let used = self.main_weight() + self.weight[WINDOW];
            let wanted = (used + new.weight).saturating_sub(self.capacity);
            let frequency = self.sketch.estimate(new.hash);
            if !self.beats_main(host, frequency, wanted) {
                return Eviction::Refuse;
            }
            let victim = self.main_victim();
            return self.detach(host, victim);
        }
        while self.weight[WINDOW].saturating_add(weight) > self.window_capacity {
            let Some(candidate) = self.lists.tail(WINDOW) else { break };
            let candidate_weight = host.weight(candidate);
            let main = self.main_weight() + candidate_weight;
            if main <= self.main_capacity() {
                self.transfer(host, candidate, PROBATION);
                host.count(Work::Tail, 1);
                continue;
            }
            let wanted = main - self.main_capacity();
            let frequency = self.sketch.estimate(host.hash(candidate));
            if !self.beats_main(host, frequency, wanted) {
                return self.detach(host, Some(candidate));
            }
            let victim = self.main_victim();
            self.transfer(host, candidate, PROBATION);
            return self.detach(host, victim);
        }
        let victim = self.main_victim().or_else(|| self.lists.tail(WINDOW));
        self.detach(host, victim)
    }

    /// Back into protected, which is asked last.
    fn put_back(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.push(host, PROTECTED, slot);
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<()>) {
        let heavy = incoming.weight > self.window_capacity;
        self.push(host, if heavy { PROBATION } else { WINDOW }, slot);
        self.sketch.grow(self.len);
        while self.weight[WINDOW] > self.window_capacity {
            let Some(oldest) = self.lists.tail(WINDOW) else { break };
            if self.main_weight() + host.weight(oldest) > self.main_capacity() {
                break;
            }
            self.transfer(host, oldest, PROBATION);
            host.count(Work::Tail, 1);
        }
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.unlink(host, slot);
        host.count(Work::Delink, 1);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let weight = &mut self.weight[usize::from(self.list_of[slot.index()])];
        *weight = *weight - old_weight + host.weight(slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.set_window();
    }
}
