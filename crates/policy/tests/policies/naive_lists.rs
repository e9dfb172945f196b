//! The policies of lists, counts and random draws against models written from
//! their papers in the plainest way: vectors that are searched from end to end.
//! Model and policy draw from the same random sequence.

use crate::cache::Cache;
use crate::model::{Model, Step, agree};
use frazil_policy::{
    Fifo, Lfu, Lru, LruDelayed, LruProb, LruSampled, Policy, Random, Rng, Slru, TwoQueue, Work,
};
use proptest::prelude::*;

/// Skewed requests over few ids, with a delete now and then.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![3 => 0u64..6, 2 => 0u64..40];
    let step = prop_oneof![
        12 => id.clone().prop_map(Step::Request),
        1 => id.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..500)
}

/// Hits and misses of a cache whose objects all have one weight.
fn run<P: Policy>(steps: &[Step], policy: P, capacity: u64, weight: u64) -> Vec<bool> {
    let mut cache = Cache::new(policy, capacity * weight);
    let mut step = |step: &Step| match *step {
        Step::Request(id) => cache.request(id, weight),
        Step::Remove(id) => {
            cache.remove(id);
            false
        }
    };
    steps.iter().map(&mut step).collect()
}

/// When a list model moves an object that was hit to its front.
enum Promote {
    /// Not with this probability.
    Unless(f64, Rng),
    /// Not before this much time has passed since it came to the front.
    After(u64),
}

/// Front = newest, with the time at which it came there.
struct ListModel {
    list: Vec<(u64, u64)>,
    now: u64,
    promote: Promote,
    capacity: usize,
}

impl Model for ListModel {
    fn request(&mut self, id: u64) -> bool {
        self.now += 1;
        let found = self.list.iter().position(|object| object.0 == id);
        if let Some(place) = found {
            let stays = match &mut self.promote {
                Promote::Unless(q, rng) => rng.unit() < *q,
                Promote::After(window) => self.now - self.list[place].1 < *window,
            };
            if stays {
                return true;
            }
            self.list.remove(place);
        }
        self.list.insert(0, (id, self.now));
        self.list.truncate(self.capacity);
        found.is_some()
    }
    fn remove(&mut self, id: u64) {
        self.list.retain(|object| object.0 != id);
    }
}

/// Residents with their last use; the last one takes the place of one that leaves.
struct SampleModel {
    residents: Vec<(u64, u64)>,
    now: u64,
    /// Draws for each victim.
    k: usize,
    rng: Rng,
    capacity: usize,
}

impl Model for SampleModel {
    fn request(&mut self, id: u64) -> bool {
        self.now += 1;
        if let Some(object) = self.residents.iter_mut().find(|object| object.0 == id) {
            object.1 = self.now;
            return true;
        }
        if self.residents.len() == self.capacity {
            let draw = |_| self.rng.below(self.capacity as u64) as usize;
            let drawn: Vec<usize> = (0..self.k).map(draw).collect();
            let victim = *drawn.iter().min_by_key(|&&place| self.residents[place].1).unwrap();
            self.residents.swap_remove(victim);
        }
        self.residents.push((id, self.now));
        false
    }
    fn remove(&mut self, id: u64) {
        if let Some(place) = self.residents.iter().position(|object| object.0 == id) {
            self.residents.swap_remove(place);
        }
    }
}

/// Segment 0 = probation; front = newest.
struct SlruModel {
    segments: Vec<Vec<u64>>,
    filling: bool,
    capacity: usize,
}

impl SlruModel {
    fn share(&self) -> usize {
        self.capacity / self.segments.len()
    }
    fn room(&self, segment: usize) -> usize {
        let rest = self.share() * (self.segments.len() - 1);
        if segment == 0 { self.capacity - rest } else { self.share() }
    }
}

impl Model for SlruModel {
    fn request(&mut self, id: u64) -> bool {
        let segments = 0..self.segments.len();
        let Some(segment) = segments.clone().find(|&s| self.segments[s].contains(&id)) else {
            if self.segments.iter().map(Vec::len).sum::<usize>() == self.capacity {
                self.filling = false;
                let lowest = segments.clone().find(|&s| !self.segments[s].is_empty()).unwrap();
                self.segments[lowest].pop();
            }
            let has_room = |&s: &usize| self.filling && self.segments[s].len() < self.room(s);
            let segment = segments.clone().find(has_room).unwrap_or(0);
            self.segments[segment].insert(0, id);
            return false;
        };
        self.remove(id);
        // It moves up by one, the surplus there moves down by one, and so on.
        let mut segment = (segment + 1).min(self.segments.len() - 1);
        self.segments[segment].insert(0, id);
        while segment > 0 && self.segments[segment].len() > self.share() {
            let fallen = self.segments[segment].pop().unwrap();
            segment -= 1;
            self.segments[segment].insert(0, fallen);
        }
        true
    }
    fn remove(&mut self, id: u64) {
        for segment in &mut self.segments {
            segment.retain(|&object| object != id);
        }
    }
}

/// The paper's three queues; front = newest.
struct TwoQueueModel {
    a1in: Vec<u64>,
    a1out: Vec<u64>,
    am: Vec<u64>,
    capacity: usize,
}

impl Model for TwoQueueModel {
    fn request(&mut self, id: u64) -> bool {
        if let Some(place) = self.am.iter().position(|&object| object == id) {
            self.am.remove(place);
            self.am.insert(0, id);
            return true;
        }
        if self.a1in.contains(&id) {
            return true;
        }
        let remembered = self.a1out.contains(&id);
        self.a1out.retain(|&object| object != id);
        if self.a1in.len() + self.am.len() == self.capacity {
            if self.a1in.len() > self.capacity / 4 {
                self.a1out.insert(0, self.a1in.pop().unwrap());
                self.a1out.truncate(self.capacity / 2);
            } else {
                self.am.pop();
            }
        }
        if remembered { &mut self.am } else { &mut self.a1in }.insert(0, id);
        false
    }
    fn remove(&mut self, id: u64) {
        self.a1in.retain(|&object| object != id);
        self.am.retain(|&object| object != id);
    }
}

/// Requests since it came, and the last of them.
struct LfuModel {
    objects: Vec<(u64, u64, u64)>,
    now: u64,
    capacity: usize,
}

impl Model for LfuModel {
    fn request(&mut self, id: u64) -> bool {
        self.now += 1;
        if let Some(object) = self.objects.iter_mut().find(|object| object.0 == id) {
            *object = (id, object.1 + 1, self.now);
            return true;
        }
        if self.objects.len() == self.capacity {
            let rank = |&place: &usize| (self.objects[place].1, self.objects[place].2);
            let victim = (0..self.capacity).min_by_key(rank).unwrap();
            self.objects.remove(victim);
        }
        self.objects.push((id, 1, self.now));
        false
    }
    fn remove(&mut self, id: u64) {
        self.objects.retain(|object| object.0 != id);
    }
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn lru_prob(steps in steps(), capacity in 1usize..30, q in 0u8..=4, seed: u64) {
        let q = f64::from(q) / 4.0;
        let promote = Promote::Unless(q, Rng::new(seed));
        let model = ListModel { list: vec![], now: 0, promote, capacity };
        agree(&steps, LruProb::new(q, seed), capacity, model)?;
    }

    #[test]
    fn lru_delayed(steps in steps(), capacity in 1usize..30, window in 0u64..60) {
        let promote = Promote::After(window);
        let model = ListModel { list: vec![], now: 0, promote, capacity };
        agree(&steps, LruDelayed::new(window), capacity, model)?;
    }

    #[test]
    fn lru_sampled(steps in steps(), capacity in 1usize..30, k in 1u8..8, seed: u64) {
        let rng = Rng::new(seed);
        let model = SampleModel { residents: vec![], now: 0, k: k.into(), rng, capacity };
        agree(&steps, LruSampled::new(k, seed), capacity, model)?;
    }

    #[test]
    fn random(steps in steps(), capacity in 1usize..30, seed: u64) {
        let model = SampleModel { residents: vec![], now: 0, k: 1, rng: Rng::new(seed), capacity };
        agree(&steps, Random::new(seed), capacity, model)?;
    }

    #[test]
    fn slru(steps in steps(), capacity in 1usize..30, segments in 1usize..=8) {
        let model = SlruModel { segments: vec![vec![]; segments], filling: true, capacity };
        agree(&steps, Slru::new(segments, capacity as u64), capacity, model)?;
    }

    #[test]
    fn two_queue(steps in steps(), capacity in 1usize..40) {
        let model = TwoQueueModel { a1in: vec![], a1out: vec![], am: vec![], capacity };
        agree(&steps, TwoQueue::new(capacity as u64), capacity, model)?;
    }

    #[test]
    fn lfu(steps in steps(), capacity in 1usize..30) {
        let model = LfuModel { objects: vec![], now: 0, capacity };
        agree(&steps, Lfu::default(), capacity, model)?;
    }

    /// At the ends of their parameters, variants of LRU are LRU or FIFO.
    #[test]
    fn extremes(steps in steps(), capacity in 1u64..30) {
        let lru = run(&steps, Lru::default(), capacity, 1);
        prop_assert_eq!(&run(&steps, LruProb::new(0.0, 1), capacity, 1), &lru);
        prop_assert_eq!(&run(&steps, LruDelayed::new(0), capacity, 1), &lru);
        prop_assert_eq!(&run(&steps, Slru::new(1, capacity), capacity, 1), &lru);
        let fifo = run(&steps, Fifo::default(), capacity, 1);
        prop_assert_eq!(&run(&steps, LruProb::new(1.0, 1), capacity, 1), &fifo);
        prop_assert_eq!(&run(&steps, LruDelayed::new(u64::MAX), capacity, 1), &fifo);
    }

    /// Objects that all weigh `w` in a cache of `w` times the capacity behave as
    /// objects that weigh 1.
    #[test]
    fn equal_weights_change_nothing(steps in steps(), quarter in 1u64..10, weight in 2u64..9) {
        // Shares must scale too, so capacities are multiples of four.
        let capacity = 4 * quarter;
        macro_rules! same {
            ($make:expr) => {{
                let make = $make;
                let light = run(&steps, make(capacity), capacity, 1);
                let heavy = run(&steps, make(capacity * weight), capacity, weight);
                prop_assert_eq!(light, heavy);
            }};
        }
        same!(|_| LruProb::new(0.5, 7));
        same!(|_| LruDelayed::new(5));
        same!(|_| LruSampled::new(3, 7));
        same!(|_| Random::new(7));
        same!(|capacity| Slru::new(2, capacity));
        same!(|capacity| Slru::new(4, capacity));
        same!(TwoQueue::new);
        same!(|_| Lfu::default());
    }

    /// Whatever the weights, from 0 to more than the cache, and however weights and the capacity
    /// change, the cache stays within bounds and can be emptied.
    #[test]
    fn any_weights(
        steps in prop::collection::vec((0u8..20, 0u64..30, 0u64..40), 1..300),
        capacity in 1u64..60,
    ) {
        fn check<P: Policy>(
            steps: &[(u8, u64, u64)],
            capacity: u64,
            policy: P,
        ) -> Result<(), TestCaseError> {
            let mut cache = Cache::new(policy, capacity);
            for &(step, id, number) in steps {
                match step {
                    0 => cache.remove(id),
                    1 => cache.set_capacity(number + 1),
                    2..6 => { cache.request(id, number % 2 * number); }
                    _ => { cache.request(id, 1 + id % 7); }
                }
                prop_assert!(cache.used() <= cache.capacity);
            }
            cache.set_capacity(0);
            prop_assert_eq!(cache.used(), 0);
            Ok(())
        }
        check(&steps, capacity, LruProb::new(0.5, 7))?;
        check(&steps, capacity, LruDelayed::new(5))?;
        check(&steps, capacity, LruSampled::new(3, 7))?;
        check(&steps, capacity, Random::new(7))?;
        check(&steps, capacity, Slru::new(2, capacity))?;
        check(&steps, capacity, Slru::new(4, capacity))?;
        check(&steps, capacity, TwoQueue::new(capacity))?;
        check(&steps, capacity, Lfu::default())?;
    }
}

/// A large object that would flush the whole protected segment is left below it.
#[test]
fn slru_protects_from_the_heavy() {
    // Heavy when it comes, or only once it is protected.
    for first_weight in [51, 10] {
        let mut cache = Cache::new(Slru::new(2, 100), 100);
        for id in (0..4).chain(0..4) {
            cache.request(id, 10);
        }
        cache.request(9, first_weight);
        assert!(cache.request(9, first_weight) && cache.request(9, 51));
        cache.request(10, 50);
        assert!((0..4).all(|id| cache.index.contains_key(&id)));
        assert!(!cache.index.contains_key(&9));
    }
}

#[test]
fn two_queue_refuses_what_would_flush_a1in() {
    let mut cache = Cache::new(TwoQueue::new(100), 100);
    for id in 0..10 {
        cache.request(id, 10);
    }
    cache.request(20, 26);
    assert!(!cache.index.contains_key(&20) && cache.index.len() == 10);
    cache.request(21, 25);
    assert!(cache.index.contains_key(&21) && cache.index.len() == 8);
}

#[test]
fn work_is_counted() {
    fn work<P: Policy>(policy: P, ids: &[u64]) -> [u64; 8] {
        let mut cache = Cache::new(policy, 4);
        for &id in ids {
            cache.request(id, 1);
        }
        // Nothing is looked up in the frozen part.
        let [counts @ .., 0, 0] = Work::ALL.map(|work| cache.slots.counts.get(work)) else {
            panic!("a policy alone freezes nothing");
        };
        counts
    }
    // Four insertions, a hit of the oldest, two evictions with insertions.
    let ids = [1, 2, 3, 4, 1, 5, 6];
    // Delink, head, tail, skip, ghost, sample, heap, mark.
    assert_eq!(work(LruProb::new(0.0, 1), &ids), [1, 7, 2, 0, 0, 0, 0, 0]);
    assert_eq!(work(LruProb::new(1.0, 1), &ids), [0, 6, 2, 0, 0, 0, 0, 0]);
    assert_eq!(work(LruDelayed::new(4), &ids), [1, 7, 2, 0, 0, 0, 0, 1]);
    assert_eq!(work(LruDelayed::new(5), &ids), [0, 6, 2, 0, 0, 0, 0, 0]);
    assert_eq!(work(LruSampled::new(5, 1), &ids), [0, 0, 0, 0, 0, 10, 0, 1]);
    assert_eq!(work(Random::new(1), &ids), [0, 0, 0, 0, 0, 2, 0, 0]);
    // The promoted object displaces one from protected, which was filled with 3 and 4.
    assert_eq!(work(Slru::new(2, 4), &ids), [1, 8, 3, 0, 0, 0, 0, 0]);
    // A miss looks up the ghost, an eviction from A1in adds to it.
    assert_eq!(work(TwoQueue::new(4), &ids), [0, 6, 2, 0, 8, 0, 0, 0]);
    assert_eq!(work(Lfu::default(), &ids), [1, 7, 2, 0, 0, 0, 0, 0]);
    // Alone at its frequency, an object only counts.
    assert_eq!(work(Lfu::default(), &[1, 1, 1]), [0, 1, 0, 0, 0, 0, 0, 2]);
}
