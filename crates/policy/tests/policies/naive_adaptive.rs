//! ARC, LIRS and W-TinyLFU, each against a model written from its paper in the
//! plainest way: vectors that are searched from end to end.

use crate::cache::Cache;
use crate::model::{Model, Step, agree};
use frazil_policy::{AdaptiveReplacement, Lirs, Policy, Sketch, WTinyLfu, object_hash};
use proptest::prelude::*;

/// Skewed requests over few ids and over many, with a delete now and then.
fn steps(ids: u64) -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![3 => 0..ids.div_ceil(6), 3 => 0..ids];
    let step = prop_oneof![
        14 => id.clone().prop_map(Step::Request),
        1 => id.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..700)
}

fn take(list: &mut Vec<u64>, id: u64) -> bool {
    let place = list.iter().position(|&other| other == id);
    place.map(|place| list.remove(place)).is_some()
}

/// ARC as its paper's Figure 4, case by case; index 0 = newest.
struct ArcModel {
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
    p: f64,
    c: usize,
}

impl ArcModel {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || (in_b2 && t1 == self.p) || self.t2.is_empty()) {
            self.b1.insert(0, self.t1.pop().unwrap());
        } else {
            self.b2.insert(0, self.t2.pop().unwrap());
        }
    }
}

impl Model for ArcModel {
    fn request(&mut self, id: u64) -> bool {
        // After deletes the cache has room, and nothing must be replaced.
        let full = self.t1.len() + self.t2.len() == self.c;
        let ratio = |a: usize, b: usize| (a as f64 / b as f64).max(1.0);
        let (b1, b2) = (self.b1.len(), self.b2.len());
        if take(&mut self.t1, id) || take(&mut self.t2, id) {
            self.t2.insert(0, id);
            return true;
        }
        if take(&mut self.b1, id) {
            self.p = (self.p + ratio(b2, b1)).min(self.c as f64);
            if full {
                self.replace(false);
            }
            self.t2.insert(0, id);
            return false;
        }
        if take(&mut self.b2, id) {
            self.p = (self.p - ratio(b1, b2)).max(0.0);
            if full {
                self.replace(true);
            }
            self.t2.insert(0, id);
            return false;
        }
        let l1 = self.t1.len() + self.b1.len();
        let all = l1 + self.t2.len() + self.b2.len();
        if l1 == self.c && self.t1.len() == self.c {
            self.t1.pop();
        } else {
            if l1 == self.c {
                self.b1.pop();
            } else if all == 2 * self.c {
                self.b2.pop();
            }
            if full {
                self.replace(false);
            }
        }
        self.t1.insert(0, id);
        false
    }
    fn remove(&mut self, id: u64) {
        let _ = take(&mut self.t1, id) || take(&mut self.t2, id);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Lir,
    Resident,
    NonResident,
}

/// LIRS with its stack in full; index 0 = newest.
struct LirsModel {
    stack: Vec<(u64, State)>,
    queue: Vec<u64>,
    capacity: usize,
}

impl LirsModel {
    fn lir_capacity(&self) -> usize {
        self.capacity - (self.capacity / 100).max(1)
    }
    fn count(&self, state: State) -> usize {
        self.stack.iter().filter(|entry| entry.1 == state).count()
    }
    fn pull(&mut self, id: u64) -> Option<State> {
        let place = self.stack.iter().position(|entry| entry.0 == id)?;
        Some(self.stack.remove(place).1)
    }
    fn prune(&mut self) {
        while self.stack.last().is_some_and(|entry| entry.1 != State::Lir) {
            self.stack.pop();
        }
    }
    /// Puts a LIR object on top, and demotes the lowest if there are too many.
    fn push_lir(&mut self, id: u64) {
        self.stack.insert(0, (id, State::Lir));
        self.prune();
        if self.count(State::Lir) > self.lir_capacity() {
            let (lowest, _) = self.stack.pop().unwrap();
            self.queue.insert(0, lowest);
            self.prune();
        }
    }
    fn evict(&mut self) {
        let victim = self.queue.pop().unwrap();
        if let Some(entry) = self.stack.iter_mut().find(|entry| entry.0 == victim) {
            entry.1 = State::NonResident;
        }
    }
    fn bound(&mut self) {
        while self.count(State::NonResident) > self.capacity {
            let oldest = self.stack.iter().rposition(|entry| entry.1 == State::NonResident);
            self.stack.remove(oldest.unwrap());
        }
    }
}

impl Model for LirsModel {
    fn request(&mut self, id: u64) -> bool {
        let state = self.pull(id);
        let queued = self.queue.contains(&id);
        let hit = queued || state == Some(State::Lir);
        match state {
            Some(State::Lir) => self.push_lir(id),
            Some(State::Resident) => {
                take(&mut self.queue, id);
                self.push_lir(id);
            }
            None if queued => {
                take(&mut self.queue, id);
                self.queue.insert(0, id);
                self.stack.insert(0, (id, State::Resident));
            }
            Some(State::NonResident) | None => {
                if self.count(State::Lir) + self.queue.len() == self.capacity {
                    self.evict();
                }
                let room = self.count(State::Lir) < self.lir_capacity();
                if state.is_some() || room {
                    self.push_lir(id);
                } else {
                    self.queue.insert(0, id);
                    self.stack.insert(0, (id, State::Resident));
                }
            }
        }
        self.prune();
        self.bound();
        hit
    }
    fn remove(&mut self, id: u64) {
        if self.queue.contains(&id) || self.stack.contains(&(id, State::Lir)) {
            take(&mut self.queue, id);
            self.pull(id);
            self.prune();
        }
    }
}

/// W-TinyLFU over the policy's own sketch; index 0 = newest.
struct WTinyLfuModel {
    window: Vec<u64>,
    probation: Vec<u64>,
    protected: Vec<u64>,
    sketch: Sketch,
    capacity: usize,
    window_capacity: usize,
    /// The climber: requests and hits of this sample, the ratio before, the next
    /// step, the share of the window.
    requests: u64,
    hits: u64,
    before: f64,
    step: f64,
    share: f64,
}

impl WTinyLfuModel {
    fn new(capacity: usize) -> Self {
        WTinyLfuModel {
            window: vec![],
            probation: vec![],
            protected: vec![],
            sketch: Sketch::new(),
            capacity,
            window_capacity: (capacity / 100).max(1),
            requests: 0,
            hits: 0,
            before: 0.0,
            step: 0.03,
            share: 0.01,
        }
    }
    fn main_capacity(&self) -> usize {
        self.capacity - self.window_capacity
    }
    fn main(&self) -> usize {
        self.probation.len() + self.protected.len()
    }
    fn len(&self) -> usize {
        self.window.len() + self.main()
    }
    fn climb(&mut self) {
        let ratio = self.hits as f64 / self.requests as f64;
        if ratio - self.before < 0.001 {
            self.step *= -1.0;
        }
        if (ratio - self.before).abs() >= 0.05 {
            self.step = self.step.signum() * 0.03;
        }
        self.share = (self.share + self.step).clamp(0.01, 0.8);
        self.window_capacity = ((self.capacity as f64 * self.share) as usize).max(1);
        self.step *= 0.98;
        self.before = ratio;
        (self.requests, self.hits) = (0, 0);
    }
    fn pop_main(&mut self) -> Option<u64> {
        self.probation.pop().or_else(|| self.protected.pop())
    }
    /// Frees space for one new object in the window.
    fn evict(&mut self) {
        for _ in 0..2 {
            if self.window.len() < self.window_capacity && self.main() > self.main_capacity() {
                let oldest = self.pop_main().unwrap();
                self.window.insert(0, oldest);
            }
        }
        loop {
            let Some(candidate) = self.window.pop() else {
                self.pop_main();
                return;
            };
            // The candidate and the new object are not in it now.
            let fits = self.window.len() + 2 <= self.window_capacity;
            if !fits && self.main() < self.main_capacity() {
                self.probation.insert(0, candidate);
                continue;
            }
            let frequency = |id| self.sketch.estimate(object_hash(id, 1));
            let victim = self.probation.last().or(self.protected.last());
            if victim.is_some_and(|&victim| frequency(candidate) >= frequency(victim) + 2) {
                self.pop_main();
                self.probation.insert(0, candidate);
            }
            return;
        }
    }
}

impl Model for WTinyLfuModel {
    fn request(&mut self, id: u64) -> bool {
        self.requests += 1;
        if take(&mut self.window, id) {
            self.window.insert(0, id);
            self.hits += 1;
            return true;
        }
        self.sketch.add(object_hash(id, 1));
        if take(&mut self.protected, id) {
            self.hits += 1;
            self.protected.insert(0, id);
            return true;
        }
        if take(&mut self.probation, id) {
            self.hits += 1;
            self.protected.insert(0, id);
            while self.protected.len() > self.main_capacity() * 4 / 5 {
                let oldest = self.protected.pop().unwrap();
                self.probation.insert(0, oldest);
            }
            return true;
        }
        if self.requests >= (4 * self.len() as u64).max(1_000) {
            self.climb();
        }
        if self.len() == self.capacity {
            self.evict();
        }
        self.window.insert(0, id);
        self.sketch.grow(self.len() as u64);
        while self.window.len() > self.window_capacity && self.main() < self.main_capacity() {
            let oldest = self.window.pop().unwrap();
            self.probation.insert(0, oldest);
        }
        false
    }
    fn remove(&mut self, id: u64) {
        let _ = take(&mut self.window, id)
            || take(&mut self.probation, id)
            || take(&mut self.protected, id);
    }
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn arc(steps in steps(50), capacity in 1usize..30) {
        let mut model =
            ArcModel { t1: vec![], t2: vec![], b1: vec![], b2: vec![], p: 0.0, c: capacity };
        agree(&steps, AdaptiveReplacement::new(capacity as u64), capacity, &mut model)?;
    }

    #[test]
    fn lirs(steps in steps(50), capacity in 1usize..30) {
        let mut model = LirsModel { stack: vec![], queue: vec![], capacity };
        agree(&steps, Lirs::new(capacity as u64), capacity, &mut model)?;
    }

    /// With a queue of more than one.
    #[test]
    fn larger_lirs(steps in steps(600), capacity in 100usize..400) {
        let mut model = LirsModel { stack: vec![], queue: vec![], capacity };
        agree(&steps, Lirs::new(capacity as u64), capacity, &mut model)?;
    }

    /// Repeated, so that the window climbs.
    #[test]
    fn w_tiny_lfu(steps in steps(60), capacity in 1usize..50) {
        let steps = steps.repeat(8);
        let mut model = WTinyLfuModel::new(capacity);
        agree(&steps, WTinyLfu::new(capacity as u64), capacity, &mut model)?;
    }

    #[test]
    fn larger_w_tiny_lfu(steps in steps(900), capacity in 100usize..400) {
        let steps = steps.repeat(20);
        let mut model = WTinyLfuModel::new(capacity);
        agree(&steps, WTinyLfu::new(capacity as u64), capacity, &mut model)?;
    }

    /// Objects that all weigh `w` in a cache of `w` times the capacity behave as
    /// objects that weigh 1.
    #[test]
    fn equal_weights_change_nothing(steps in steps(400), tens in 1u64..4, weight in 2u64..9) {
        fn run<P: Policy>(steps: &[Step], policy: P, capacity: u64, weight: u64) -> Vec<bool> {
            let mut cache = Cache::new(policy, capacity * weight);
            steps.iter().map(|&step| match step {
                Step::Request(id) => cache.request(id, weight),
                Step::Remove(id) => { cache.remove(id); false }
            }).collect()
        }
        // Hundredths must scale too, so capacities are multiples of a hundred.
        let capacity = 100 * tens;
        prop_assert_eq!(
            run(&steps, Lirs::new(capacity), capacity, 1),
            run(&steps, Lirs::new(capacity * weight), capacity, weight)
        );
        // ARC's target is a fraction, which only powers of two scale exactly.
        let weight = weight.next_power_of_two();
        prop_assert_eq!(
            run(&steps, AdaptiveReplacement::new(capacity), capacity, 1),
            run(&steps, AdaptiveReplacement::new(capacity * weight), capacity, weight)
        );
        // The first sample ends after all steps: later windows are not whole objects.
        prop_assert_eq!(
            run(&steps, WTinyLfu::new(capacity), capacity, 1),
            run(&steps, WTinyLfu::new(capacity * weight), capacity, weight)
        );
    }

    /// Weights of all sizes, 0 among them, with resizing: nothing is lost, nothing
    /// panics, and the cache never holds too much.
    #[test]
    fn any_weights(
        steps in prop::collection::vec((0u64..40, 0u64..30, 0u8..12), 1..400),
        capacity in 1u64..200,
    ) {
        fn run<P: Policy>(steps: &[(u64, u64, u8)], policy: P, capacity: u64) {
            let mut cache = Cache::new(policy, capacity);
            for &(id, weight, kind) in steps {
                match kind {
                    0 => cache.remove(id),
                    1 => cache.set_capacity(weight * id / 4),
                    _ => { cache.request(id, weight); }
                }
                assert!(cache.used() <= cache.capacity);
            }
            cache.set_capacity(0);
            assert_eq!(cache.used(), 0);
        }
        run(&steps, AdaptiveReplacement::new(capacity), capacity);
        run(&steps, Lirs::new(capacity), capacity);
        run(&steps, WTinyLfu::new(capacity), capacity);
    }
}
