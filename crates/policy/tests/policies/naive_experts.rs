//! LeCaR and CACHEUS against models written from their papers in the plainest
//! way: vectors that are searched from end to end. Models and policies draw from
//! the same random numbers.

use crate::cache::Cache;
use crate::model::Step;
use frazil_policy::{Cacheus, Lecar, Policy, Rng};
use proptest::prelude::*;

/// Skewed requests over few ids, with runs of ids that never return and a delete
/// now and then.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![3 => 0u64..6, 2 => 0u64..40, 2 => 0u64..90];
    let step = prop_oneof![
        15 => id.clone().prop_map(Step::Request),
        1 => id.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..700)
}

/// A cache of whole objects, as simple as can be.
trait Model {
    /// True on a hit.
    fn request(&mut self, id: u64) -> bool;
    fn remove(&mut self, id: u64);
    fn weight_of_lru(&self) -> f64;
}

fn agree<P: Policy>(
    steps: &[Step],
    policy: P,
    weight_of_lru: impl Fn(&P) -> f64,
    capacity: usize,
    model: &mut dyn Model,
) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(policy, capacity as u64);
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Request(id) => {
                prop_assert_eq!(cache.request(id, 1), model.request(id), "step {}", number);
                prop_assert!(cache.used() <= capacity as u64);
                let error = (weight_of_lru(&cache.policy) - model.weight_of_lru()).abs();
                prop_assert!(error < 1e-9, "weights differ at step {}", number);
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.remove(id);
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Object {
    id: u64,
    frequency: u32,
    used: u64,
    demoted: bool,
    new: bool,
}

#[derive(Clone, Copy)]
struct Ghost {
    id: u64,
    frequency: u32,
    evicted: u64,
    new: bool,
}

/// The common part: two histories, oldest first, and the experts' weights.
struct Experts {
    histories: [Vec<Ghost>; 2],
    weights: [f64; 2],
    capacity: usize,
    rng: Rng,
    now: u64,
    /// The most objects resident at once.
    most: usize,
}

impl Experts {
    fn new(capacity: usize, weight_of_lru: f64, seed: u64) -> Self {
        Experts {
            histories: [vec![], vec![]],
            weights: [weight_of_lru, 1.0 - weight_of_lru],
            capacity,
            rng: Rng::new(seed),
            now: 0,
            most: 0,
        }
    }

    /// Which expert's history remembers `id`.
    fn remembered(&mut self, id: u64) -> Option<(usize, Ghost)> {
        (0..2).find_map(|expert| {
            let place = self.histories[expert].iter().position(|ghost| ghost.id == id)?;
            Some((expert, self.histories[expert].remove(place)))
        })
    }

    fn regret(&mut self, expert: usize, ghost: Ghost, learning_rate: f64) {
        let discount = 0.005f64.powf(1.0 / self.most as f64);
        let regret = discount.powi((self.now - ghost.evicted) as i32);
        self.weights[expert] *= (-learning_rate * regret).exp();
        let sum: f64 = self.weights.iter().sum();
        self.weights = self.weights.map(|weight| (weight / sum).clamp(0.01, 0.99));
    }

    fn choose(&mut self) -> usize {
        usize::from(self.rng.unit() >= self.weights[0])
    }

    fn record(&mut self, expert: usize, victim: Object) {
        let Object { id, frequency, new, .. } = victim;
        self.histories[expert].push(Ghost { id, frequency, evicted: self.now, new });
        if self.histories[expert].len() > self.capacity / 2 {
            self.histories[expert].remove(0);
        }
    }
}

struct LecarModel {
    experts: Experts,
    resident: Vec<Object>,
}

impl Model for LecarModel {
    fn request(&mut self, id: u64) -> bool {
        self.experts.now += 1;
        let used = self.experts.now;
        if let Some(object) = self.resident.iter_mut().find(|object| object.id == id) {
            object.frequency += 1;
            object.used = used;
            return true;
        }
        let mut frequency = 1;
        if let Some((expert, ghost)) = self.experts.remembered(id) {
            frequency = ghost.frequency + 1;
            self.experts.regret(expert, ghost, 0.45);
        }
        if self.resident.len() == self.experts.capacity {
            let places = 0..self.resident.len();
            let lru = places.clone().min_by_key(|&place| self.resident[place].used).unwrap();
            let rank = |&place: &usize| (self.resident[place].frequency, self.resident[place].used);
            let lfu = places.min_by_key(rank).unwrap();
            let expert = self.experts.choose();
            let victim = self.resident.remove([lru, lfu][expert]);
            if lru != lfu {
                self.experts.record(expert, victim);
            }
        }
        self.resident.push(Object { id, frequency, used, demoted: false, new: false });
        self.experts.most = self.experts.most.max(self.resident.len());
        false
    }
    fn remove(&mut self, id: u64) {
        self.resident.retain(|object| object.id != id);
    }
    fn weight_of_lru(&self) -> f64 {
        self.experts.weights[0]
    }
}

/// The learning rate: hit ratios in thousandths.
#[derive(Default)]
struct Climb {
    rates: Vec<f64>,
    ratios: Vec<i64>,
    idle: u32,
    hits: u64,
    end: Option<u64>,
}

impl Climb {
    fn least(objects: usize) -> f64 {
        0.5 * (2.0 * 2f64.ln() / objects as f64).sqrt()
    }
    fn rate(&self) -> f64 {
        self.rates.last().copied().unwrap_or(0.0)
    }
    fn update(&mut self, experts: &mut Experts) {
        if self.end != Some(experts.now) {
            return;
        }
        let ratio = (1000.0 * self.hits as f64 / experts.most as f64).round() as i64;
        let before = |back: usize| self.rates.iter().rev().nth(back).copied().unwrap_or(0.0);
        let (rate, step) = (before(0), before(0) - before(1));
        let rise = ratio - self.ratios.last().copied().unwrap_or(0);
        let direction = rise as f64 * step;
        let mut next = rate;
        if direction > 0.0 {
            next += rate * step.abs();
            self.idle = 0;
        } else if direction < 0.0 {
            next -= rate * step.abs();
            self.idle = 0;
        } else if rise < 0 || ratio == 0 {
            self.idle += 1;
            if self.idle == 10 {
                next = Self::least(experts.most);
                self.idle = 0;
            } else if rise < 0 {
                next *= [1.25, 0.75][experts.rng.below(2) as usize];
            }
        }
        self.rates.push(next.max(Self::least(experts.most)).min(1.0));
        self.ratios.push(ratio);
        self.hits = 0;
        self.end = Some(experts.now + experts.most as u64);
    }
}

/// Front = newest.
struct CacheusModel {
    experts: Experts,
    sr: Vec<Object>,
    r: Vec<Object>,
    r_limit: usize,
    climb: Climb,
}

impl CacheusModel {
    fn demoted(&self) -> f64 {
        self.sr.iter().filter(|object| object.demoted).count() as f64
    }
    fn new_evicted(&self) -> f64 {
        self.experts.histories[0].iter().filter(|ghost| ghost.new).count() as f64
    }
    fn demote_to(&mut self, most: usize) {
        while self.r.len() > most {
            let object = self.r.pop().unwrap();
            self.sr.insert(0, Object { demoted: true, new: false, ..object });
        }
    }
    fn hit(&mut self, id: u64) -> bool {
        let used = self.experts.now;
        let mut object = if let Some(place) = self.r.iter().position(|object| object.id == id) {
            self.r.remove(place)
        } else if let Some(place) = self.sr.iter().position(|object| object.id == id) {
            if self.sr[place].demoted {
                let step = (self.new_evicted() / self.demoted()).round().max(1.0) as usize;
                let most = (self.experts.capacity - 1).max(self.r_limit);
                self.r_limit = (self.r_limit + step).min(most);
            }
            self.sr.remove(place)
        } else {
            return false;
        };
        object =
            Object { frequency: object.frequency + 1, used, demoted: false, new: false, ..object };
        self.r.insert(0, object);
        self.demote_to(self.r_limit);
        true
    }
    fn evict(&mut self) {
        let lru = *self.sr.last().or(self.r.last()).unwrap();
        let all = self.sr.iter().chain(&self.r);
        let lfu = *all.min_by_key(|object| (object.frequency, u64::MAX - object.used)).unwrap();
        let expert = self.experts.choose();
        let victim = [lru, lfu][expert];
        if self.climb.end.is_none() {
            self.climb.rates.push(Climb::least(self.experts.most));
            self.climb.hits = 0;
            self.climb.end = Some(self.experts.now + self.experts.most as u64);
        }
        self.remove(victim.id);
        if lru.id != lfu.id {
            self.experts.record(expert, victim);
        }
    }
}

impl Model for CacheusModel {
    fn request(&mut self, id: u64) -> bool {
        self.experts.now += 1;
        self.climb.update(&mut self.experts);
        if self.hit(id) {
            self.climb.hits += 1;
            return true;
        }
        let remembered = self.experts.remembered(id);
        if let Some((expert, ghost)) = remembered {
            if expert == 0 && ghost.new {
                let step = (self.demoted() / self.new_evicted().max(1.0)).round().max(1.0);
                let sr_limit = self.experts.capacity - self.r_limit;
                let most = (self.experts.capacity - 1).max(sr_limit);
                self.r_limit = self.experts.capacity - (sr_limit + step as usize).min(most);
            }
            self.experts.regret(expert, ghost, self.climb.rate());
        }
        if self.sr.len() + self.r.len() == self.experts.capacity {
            self.evict();
        }
        let used = self.experts.now;
        let object = Object { id, frequency: 1, used, demoted: false, new: true };
        match remembered {
            Some((_, ghost)) => {
                let frequency = ghost.frequency + 1;
                self.r.insert(0, Object { frequency, new: false, ..object });
            }
            None => self.sr.insert(0, object),
        }
        self.experts.most = self.experts.most.max(self.sr.len() + self.r.len());
        // An admission leaves room in R for the next hit in SR.
        self.demote_to(self.r_limit.saturating_sub(1));
        false
    }
    fn remove(&mut self, id: u64) {
        self.sr.retain(|object| object.id != id);
        self.r.retain(|object| object.id != id);
    }
    fn weight_of_lru(&self) -> f64 {
        self.experts.weights[0]
    }
}

/// Steps in bytes, with everything that a host may do.
#[derive(Clone, Copy, Debug)]
enum ByteStep {
    Request(u64, u64),
    Wait(u64, u64),
    Arrive(u64),
    Remove(u64),
    Resize(u64),
}

fn byte_steps() -> impl Strategy<Value = Vec<ByteStep>> {
    let id = prop_oneof![0u64..6, 0u64..40];
    let weight = prop_oneof![4 => 1u64..8, 1 => Just(0), 1 => 8u64..130];
    let step = prop_oneof![
        20 => (id.clone(), weight.clone()).prop_map(|(id, weight)| ByteStep::Request(id, weight)),
        2 => (id.clone(), weight).prop_map(|(id, weight)| ByteStep::Wait(id, weight)),
        2 => id.clone().prop_map(ByteStep::Arrive),
        2 => id.prop_map(ByteStep::Remove),
        1 => (0u64..120).prop_map(ByteStep::Resize),
    ];
    prop::collection::vec(step, 1..500)
}

/// Invariants: the capacity is kept, weights stay in their bounds, histories hold
/// no more than the cache held, and all residents can be evicted.
fn holds<P: Policy>(
    steps: &[ByteStep],
    policy: P,
    weight_of_lru: impl Fn(&P) -> f64,
    history_bytes: impl Fn(&P) -> usize,
) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(policy, 100);
    let mut most = 0;
    for &step in steps {
        match step {
            ByteStep::Request(id, weight) => {
                cache.request(id, weight);
            }
            ByteStep::Wait(id, weight) => {
                cache.begin(id, weight);
            }
            ByteStep::Arrive(id) => cache.commit(id),
            ByteStep::Remove(id) => cache.remove(id),
            ByteStep::Resize(capacity) => cache.set_capacity(capacity),
        }
        prop_assert!(cache.used() <= cache.capacity);
        prop_assert!((0.01..=0.99).contains(&weight_of_lru(&cache.policy)));
        most = most.max(cache.index.len());
        prop_assert!(history_bytes(&cache.policy) <= 300 * most + 3000);
    }
    for id in 100..130 {
        cache.request(id, 1);
    }
    cache.set_capacity(0);
    prop_assert_eq!(cache.used(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases(600))]

    #[test]
    fn lecar(steps in steps(), capacity in 1usize..40, seed in any::<u64>()) {
        let mut model =
            LecarModel { experts: Experts::new(capacity, 0.5, seed), resident: vec![] };
        let policy = Lecar::new(capacity as u64, seed);
        agree(&steps, policy, Lecar::weight_of_lru, capacity, &mut model)?;
    }

    #[test]
    fn cacheus(steps in steps(), capacity in 1usize..40, seed in any::<u64>()) {
        let mut model = CacheusModel {
            experts: Experts::new(capacity, 0.98, seed),
            sr: vec![],
            r: vec![],
            r_limit: capacity - (capacity / 5).max(1),
            climb: Climb::default(),
        };
        let policy = Cacheus::new(capacity as u64, seed);
        agree(&steps, policy, Cacheus::weight_of_lru, capacity, &mut model)?;
    }

    #[test]
    fn nothing_breaks_in_bytes(steps in byte_steps(), seed in 0u64..4) {
        let lecar = Lecar::new(100, seed);
        holds(&steps, lecar, Lecar::weight_of_lru, Lecar::history_bytes)?;
        let cacheus = Cacheus::new(100, seed);
        holds(&steps, cacheus, Cacheus::weight_of_lru, Cacheus::history_bytes)?;
    }

    /// Objects that all weigh `w` in a cache of `w` times the capacity behave as
    /// objects that weigh 1.
    #[test]
    fn equal_weights_change_nothing(steps in steps(), tens in 1u64..5, weight in 2u64..9) {
        fn run<P: Policy>(steps: &[Step], policy: P, capacity: u64, weight: u64) -> Vec<bool> {
            let mut cache = Cache::new(policy, capacity * weight);
            steps.iter().map(|&step| match step {
                Step::Request(id) => cache.request(id, weight),
                Step::Remove(id) => { cache.remove(id); false }
            }).collect()
        }
        // Shares must scale too, so capacities are multiples of ten.
        let capacity = 10 * tens;
        prop_assert_eq!(
            run(&steps, Lecar::new(capacity, 1), capacity, 1),
            run(&steps, Lecar::new(capacity * weight, 1), capacity, weight)
        );
        prop_assert_eq!(
            run(&steps, Cacheus::new(capacity, 1), capacity, 1),
            run(&steps, Cacheus::new(capacity * weight, 1), capacity, weight)
        );
    }
}

#[test]
fn the_seed_decides() {
    fn hits(policy: impl Policy) -> Vec<bool> {
        let mut cache = Cache::new(policy, 20);
        let mut ids = Rng::new(9);
        (0..5000).map(|_| cache.request(ids.below(40) * ids.below(40) / 20, 1)).collect()
    }
    assert_eq!(hits(Lecar::new(20, 3)), hits(Lecar::new(20, 3)));
    assert_ne!(hits(Lecar::new(20, 3)), hits(Lecar::new(20, 4)));
    assert_eq!(hits(Cacheus::new(20, 3)), hits(Cacheus::new(20, 3)));
    assert_ne!(hits(Cacheus::new(20, 3)), hits(Cacheus::new(20, 4)));
}

/// In bytes a history could hold many light objects beside few heavy residents.
/// It holds half the number that was resident at once.
#[test]
fn histories_are_bounded_in_entries() {
    fn check<P: Policy>(policy: P, history_bytes: impl Fn(&P) -> usize) {
        let mut cache = Cache::new(policy, 1000);
        for round in 0..2000 {
            let light = 10 * round;
            // The experts disagree on which of the two light ones to evict first.
            for id in [light, light, light + 1, light + 2] {
                cache.request(id, 1);
            }
            // Heavy ones leave no trace: they are deleted.
            cache.request(light + 3, 1000);
            cache.remove(light + 3);
        }
        let bytes = history_bytes(&cache.policy);
        assert!(bytes <= 3000, "{bytes}");
    }
    check(Lecar::new(1000, 1), Lecar::history_bytes);
    check(Cacheus::new(1000, 1), Cacheus::history_bytes);
}
