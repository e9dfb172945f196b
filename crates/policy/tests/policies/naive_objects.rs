//! LRB against a model written from its paper and `docs/design/gl-cache.md` in the plainest way: an
//! object is the list of its requests, and every feature is computed from that list on demand. Only
//! the trees and the random numbers are the same.

use std::collections::BTreeMap;

use frazil_policy::{
    BoostedTrees, Boosting, Lrb, Lru, ObjectLearning, Policy, Rng, Samples, object_hash,
};
use proptest::prelude::*;

use crate::cache::Cache;

#[derive(Clone, Debug)]
enum Step {
    Request(u64, u64),
    Remove(u64),
}

#[derive(Clone, Debug)]
struct Object {
    size: u64,
    requests: Vec<u64>,
    samples: Vec<u64>,
    is_resident: bool,
    is_old: bool,
}

struct Model {
    settings: ObjectLearning,
    capacity: u64,
    rng: Rng,
    now: u64,
    window: u64,
    objects: BTreeMap<u64, Object>,
    /// In the order in which random draws index them.
    known: Vec<u64>,
    residents: Vec<u64>,
    /// Residents that were not requested within the window, the first of them first.
    old: Vec<u64>,
    training: Samples<44>,
    trees: Option<BoostedTrees<44>>,
    trained: usize,
    evicted_old: usize,
}

/// 2^(-gap / 2^19) for the slowest count, and the square of the next slower one for each other.
fn decays(gap: u64) -> Vec<f32> {
    let mut decays = vec![(-(gap as f32) / 524_288.0).exp2()];
    for _ in 1..10 {
        decays.insert(0, decays[0] * decays[0]);
    }
    decays
}

impl Model {
    fn new(settings: ObjectLearning, capacity: u64) -> Self {
        Model {
            settings,
            capacity,
            rng: Rng::new(settings.seed),
            now: 0,
            window: 0,
            objects: BTreeMap::new(),
            known: vec![],
            residents: vec![],
            old: vec![],
            training: Samples::default(),
            trees: None,
            trained: 0,
            evicted_old: 0,
        }
    }

    fn used(&self) -> u64 {
        self.residents.iter().map(|id| self.objects[id].size).sum()
    }

    fn features(&self, object: &Object, now: u64) -> [f32; 44] {
        let age = now - object.requests.last().unwrap();
        let gaps: Vec<u64> = object.requests.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut counts = [1.0_f32; 10];
        for &gap in &gaps {
            for (count, decay) in counts.iter_mut().zip(decays(gap)) {
                *count = 1.0 + *count * decay;
            }
        }
        let newest: Vec<u64> = gaps.into_iter().rev().take(31).collect();
        let mut features = vec![age as f32];
        features.extend(newest.iter().map(|&gap| gap as f32));
        features.resize(32, self.window as f32 * 2.0);
        features.push(object.size as f32);
        let within = (1..=newest.len()).filter(|&n| newest[..n].iter().sum::<u64>() < self.window);
        features.push(within.count() as f32);
        features.extend(counts.iter().zip(decays(age)).map(|(count, decay)| count * decay));
        features.try_into().unwrap()
    }

    /// Labels samples, the last first; without a request the label is twice the window.
    fn settle(&mut self, id: u64, is_requested: bool) {
        let object = self.objects[&id].clone();
        for &sampled in object.samples.iter().rev() {
            self.training.rows.push(self.features(&object, sampled));
            let distance = if is_requested { self.now - sampled } else { 2 * self.window };
            self.training.labels.push((distance as f32).ln_1p());
        }
        self.objects.get_mut(&id).unwrap().samples.clear();
        if self.training.rows.len() >= self.settings.batch as usize {
            let (trained, none) = (std::mem::take(&mut self.training), Samples::default());
            self.trees = Some(BoostedTrees::fit(&trained, &none, &self.settings.boosting));
            self.trained += 1;
        }
    }

    fn forget(&mut self, id: u64) {
        self.objects.remove(&id);
        let place = self.known.iter().position(|&known| known == id).unwrap();
        self.known.swap_remove(place);
    }

    fn tick(&mut self) {
        self.now += 1;
        loop {
            let young = self.objects.iter().filter(|(_, object)| !object.is_old);
            let oldest = young.min_by_key(|(_, object)| *object.requests.last().unwrap());
            let Some((&id, object)) = oldest else { break };
            let (last, is_resident) = (*object.requests.last().unwrap(), object.is_resident);
            if self.window == 0 || self.now - last < self.window {
                break;
            }
            self.settle(id, false);
            if is_resident {
                self.objects.get_mut(&id).unwrap().is_old = true;
                self.old.push(id);
            } else {
                self.forget(id);
            }
        }
    }

    fn request(&mut self, id: u64, weight: u64) -> bool {
        self.tick();
        let is_hit = self.residents.contains(&id);
        if self.objects.contains_key(&id) {
            self.settle(id, true);
            let object = self.objects.get_mut(&id).unwrap();
            object.requests.push(self.now);
            object.is_old = false;
            self.old.retain(|&old| old != id);
        } else {
            let requests = vec![self.now];
            let new = Object {
                size: weight,
                requests,
                samples: vec![],
                is_resident: false,
                is_old: false,
            };
            self.objects.insert(id, new);
            self.known.push(id);
        }
        if !is_hit {
            self.objects.get_mut(&id).unwrap().size = weight;
        }
        if self.window > 0 && self.now.is_multiple_of(u64::from(self.settings.every)) {
            let chosen = self.known[self.rng.below(self.known.len() as u64) as usize];
            self.objects.get_mut(&chosen).unwrap().samples.push(self.now);
        }
        if is_hit {
            self.objects.get_mut(&id).unwrap().size = weight;
            self.make_room(0);
        } else if weight <= self.capacity {
            self.make_room(weight);
            // Making room for it may have forgotten it.
            self.objects.get_mut(&id).unwrap().is_resident = true;
            self.residents.push(id);
        }
        is_hit
    }

    fn remove(&mut self, id: u64) {
        if self.residents.contains(&id) {
            self.leave(id);
            self.old.retain(|&old| old != id);
            self.forget(id);
        }
    }

    fn leave(&mut self, id: u64) {
        let place = self.residents.iter().position(|&resident| resident == id).unwrap();
        self.residents.swap_remove(place);
    }

    fn make_room(&mut self, weight: u64) {
        while self.used() + weight > self.capacity {
            if self.window == 0 {
                let given = u64::from(self.settings.window);
                self.window = if given > 0 { given } else { (8 * self.now).max(64) };
            }
            if let Some(&id) = self.old.first() {
                self.old.remove(0);
                self.leave(id);
                self.settle(id, false);
                self.forget(id);
                self.evicted_old += 1;
                continue;
            }
            let id = self.choose();
            self.leave(id);
            self.objects.get_mut(&id).unwrap().is_resident = false;
        }
    }

    fn choose(&mut self) -> u64 {
        let (wanted, len) = (self.settings.candidates as usize, self.residents.len());
        let mut drawn = self.residents.clone();
        if len > wanted {
            drawn =
                (0..wanted).map(|_| self.residents[self.rng.below(len as u64) as usize]).collect();
        }
        let distance = |id: &u64| {
            let object = &self.objects[id];
            let Some(trees) = &self.trees else {
                return (self.now - object.requests.last().unwrap()) as f64;
            };
            let mut predicted = vec![];
            trees.predict(&[self.features(object, self.now)], &mut predicted);
            f64::from(predicted[0]) + (object.size.max(1) as f64).ln()
        };
        let mut chosen = drawn[0];
        for &id in &drawn[1..] {
            if distance(&id) > distance(&chosen) {
                chosen = id;
            }
        }
        chosen
    }
}

/// Popular objects, loops and scans in turn; now and then a delete.
fn steps(seed: u64, count: usize, ids: u64, weights: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let step = |number: usize| {
        let id = match (number / 100 % 3, rng.below(10)) {
            (_, 0..4) => rng.below(ids / 8 + 1),
            (0, _) => ids + number as u64 % (ids / 2 + 1),
            (1, _) => 10_000 + number as u64,
            _ => rng.below(ids),
        };
        let weight = if weights == 1 { 1 } else { (id + rng.below(20) / 19) % weights };
        if rng.below(40) == 0 { Step::Remove(id) } else { Step::Request(id, weight) }
    };
    (0..count).map(step).collect()
}

/// Puts both through the same steps. Returns the model.
fn agree(settings: ObjectLearning, capacity: u64, steps: &[Step]) -> Result<Model, TestCaseError> {
    let mut cache = Cache::new(Lrb::new(settings), capacity);
    let mut model = Model::new(settings, capacity);
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Request(id, weight) => {
                let hit = cache.request(id, weight);
                prop_assert_eq!(hit, model.request(id, weight), "step {}", number);
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.remove(id);
            }
        }
        prop_assert!(cache.used() <= capacity);
        prop_assert_eq!(cache.policy.known(), model.objects.len(), "step {}", number);
    }
    let ours: Vec<u64> = cache.index.keys().copied().collect();
    model.residents.sort_unstable();
    prop_assert_eq!(&ours, &model.residents);
    Ok(model)
}

fn settings(batch: u32, every: u32, candidates: u32) -> ObjectLearning {
    let boosting = Boosting { rounds: 3, depth: 3, ..Boosting::default() };
    ObjectLearning { batch, every, candidates, boosting, ..ObjectLearning::default() }
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn it_equals_its_model(
        seed in any::<u64>(),
        ids in 20u64..300,
        capacity in 1u64..120,
        weights in prop_oneof![Just(1u64), Just(2), Just(7)],
        window in prop_oneof![Just(0u32), 20u32..600],
        (batch, every, candidates) in (32u32..90, 1u32..4, 1u32..9),
    ) {
        let steps = steps(seed, 1_200, ids, weights);
        let settings = ObjectLearning { window, ..settings(batch, every, candidates) };
        agree(settings, capacity, &steps)?;
    }
}

/// The property is useless if nothing is learned or nothing grows old.
#[test]
fn models_are_trained_and_residents_grow_old_meanwhile() {
    let settings = ObjectLearning { window: 150, ..settings(64, 1, 4) };
    let model = agree(settings, 100, &steps(3, 4_000, 300, 1)).expect("they agree");
    assert!(
        model.trained >= 10 && model.evicted_old >= 10,
        "{} {}",
        model.trained,
        model.evicted_old
    );
}

/// A loop larger than the cache: LRU never hits, and a policy that predicts requests does.
#[test]
fn it_learns_a_loop() {
    fn hits(policy: impl Policy) -> usize {
        let mut cache = Cache::new(policy, 150);
        (0..40_000u64).filter(|number| cache.request(number % 200, 1)).count()
    }
    let settings =
        ObjectLearning { batch: 512, every: 1, window: 1_000, ..ObjectLearning::default() };
    assert_eq!(hits(Lru::default()), 0);
    let ours = hits(Lrb::new(settings));
    assert!(ours > 20_000, "{ours}");
}

/// Records stay within the window, however many objects are requested once.
#[test]
fn memory_is_bounded_by_the_window() {
    let settings = ObjectLearning { window: 500, ..settings(64, 1, 4) };
    let mut cache = Cache::new(Lrb::new(settings), 100);
    for id in 0..20_000 {
        cache.request(object_hash(id, 3), 1);
        assert!(id < 1_000 || cache.policy.known() <= 500, "{}", cache.policy.known());
    }
}
