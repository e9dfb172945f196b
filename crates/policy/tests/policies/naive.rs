//! Each policy against a model written from its paper in the plainest way: a
//! vector that is searched from end to end.

use std::collections::VecDeque;

use crate::cache::Cache;
use crate::model::{Model, Step, agree};
use frazil_policy::{Belady, Clock, Fifo, Lru, Mobius, NEVER, Policy, S3Fifo, Sieve};
use proptest::prelude::*;

/// Skewed requests over few ids, with a delete now and then.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = prop_oneof![3 => 0u64..6, 2 => 0u64..40];
    let step = prop_oneof![
        12 => id.clone().prop_map(Step::Request),
        2 => id.prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..500)
}

/// Front = newest. `max` = 0 is FIFO; otherwise CLOCK that counts up to `max`.
struct ClockModel {
    queue: VecDeque<(u64, u8)>,
    capacity: usize,
    max: u8,
}

impl Model for ClockModel {
    fn request(&mut self, id: u64) -> bool {
        if let Some(object) = self.queue.iter_mut().find(|object| object.0 == id) {
            object.1 = (object.1 + 1).min(self.max);
            return true;
        }
        while self.queue.len() == self.capacity {
            let (oldest, count) = self.queue.pop_back().unwrap();
            if count > 0 {
                self.queue.push_front((oldest, count - 1));
            }
        }
        self.queue.push_front((id, 0));
        false
    }
    fn remove(&mut self, id: u64) {
        self.queue.retain(|object| object.0 != id);
    }
}

struct LruModel {
    recent: Vec<u64>,
    capacity: usize,
}

impl Model for LruModel {
    fn request(&mut self, id: u64) -> bool {
        let hit = self.recent.contains(&id);
        self.remove(id);
        self.recent.insert(0, id);
        self.recent.truncate(self.capacity);
        hit
    }
    fn remove(&mut self, id: u64) {
        self.recent.retain(|&object| object != id);
    }
}

/// Index 0 = oldest; the hand is an index, past the end = before the oldest.
struct SieveModel {
    queue: Vec<(u64, bool)>,
    hand: usize,
    capacity: usize,
}

impl Model for SieveModel {
    fn request(&mut self, id: u64) -> bool {
        if let Some(object) = self.queue.iter_mut().find(|object| object.0 == id) {
            object.1 = true;
            return true;
        }
        if self.queue.len() == self.capacity {
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            self.queue.remove(self.hand);
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
        self.queue.push((id, false));
        false
    }
    fn remove(&mut self, id: u64) {
        if let Some(place) = self.queue.iter().position(|object| object.0 == id) {
            self.queue.remove(place);
            if place < self.hand {
                self.hand -= 1;
            }
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
        }
    }
}

/// S3-FIFO as its paper's Algorithm 1, with main filled first and a ghost that forgets
/// by age; front = newest.
struct S3FifoModel {
    small: VecDeque<(u64, u8)>,
    main: VecDeque<(u64, u8)>,
    /// Ids, and the number of earlier evictions from the small queue.
    ghost: Vec<(u64, usize)>,
    evicted: usize,
    filling: bool,
    capacity: usize,
}

impl S3FifoModel {
    fn small_capacity(&self) -> usize {
        (self.capacity / 10).max(1)
    }
    fn evict(&mut self) {
        if self.small.len() > self.small_capacity() || self.main.is_empty() {
            while let Some((id, count)) = self.small.pop_back() {
                if count >= 2 {
                    self.main.push_front((id, 0));
                } else {
                    self.ghost.push((id, self.evicted));
                    self.evicted += 1;
                    return;
                }
            }
        }
        while let Some((id, count)) = self.main.pop_back() {
            if count == 0 {
                return;
            }
            self.main.push_front((id, count - 1));
        }
    }
}

impl Model for S3FifoModel {
    fn request(&mut self, id: u64) -> bool {
        let mut objects = self.small.iter_mut().chain(&mut self.main);
        if let Some(object) = objects.find(|object| object.0 == id) {
            object.1 = (object.1 + 1).min(3);
            return true;
        }
        let (evicted, window) = (self.evicted, self.capacity);
        let remembered =
            self.ghost.iter().any(|&(object, at)| object == id && evicted - at <= window);
        self.ghost.retain(|&(object, _)| object != id);
        if self.small.len() + self.main.len() == self.capacity {
            self.filling = false;
            self.evict();
        }
        let full = self.small.len() >= self.small_capacity();
        if remembered || (self.filling && full) { &mut self.main } else { &mut self.small }
            .push_front((id, 0));
        false
    }
    fn remove(&mut self, id: u64) {
        self.small.retain(|object| object.0 != id);
        self.main.retain(|object| object.0 != id);
    }
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn fifo(steps in steps(), capacity in 1usize..30) {
        let mut model = ClockModel { queue: VecDeque::new(), capacity, max: 0 };
        agree(&steps, Fifo::default(), capacity, &mut model)?;
    }

    #[test]
    fn lru(steps in steps(), capacity in 1usize..30) {
        let mut model = LruModel { recent: vec![], capacity };
        agree(&steps, Lru::default(), capacity, &mut model)?;
    }

    #[test]
    fn clock(steps in steps(), capacity in 1usize..30) {
        let mut model = ClockModel { queue: VecDeque::new(), capacity, max: 1 };
        agree(&steps, Clock::<1>::default(), capacity, &mut model)?;
        let mut model = ClockModel { queue: VecDeque::new(), capacity, max: 3 };
        agree(&steps, Clock::<3>::default(), capacity, &mut model)?;
    }

    #[test]
    fn sieve_and_mobius(steps in steps(), capacity in 1usize..30) {
        let mut model = SieveModel { queue: vec![], hand: 0, capacity };
        agree(&steps, Sieve::default(), capacity, &mut model)?;
        let mut model = SieveModel { queue: vec![], hand: 0, capacity };
        agree(&steps, Mobius::default(), capacity, &mut model)?;
    }

    #[test]
    fn s3_fifo(steps in steps(), capacity in 1usize..40) {
        let mut model = S3FifoModel {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: vec![],
            evicted: 0,
            filling: true,
            capacity,
        };
        agree(&steps, S3Fifo::new(capacity as u64), capacity, &mut model)?;
    }

    /// Belady against the best of all choices of victims.
    #[test]
    fn belady_is_optimal(ids in prop::collection::vec(0u64..5, 1..14), capacity in 1usize..4) {
        let next = |at: usize| {
            let later = ids[at + 1..].iter().position(|id| *id == ids[at]);
            later.map_or(NEVER, |distance| (at + 1 + distance) as u32)
        };
        let future: Vec<u32> = (0..ids.len()).map(next).collect();
        let mut cache = Cache::new(Belady::new(future.into()), capacity as u64);
        let hits = ids.iter().filter(|&&id| cache.request(id, 1)).count();
        prop_assert_eq!(ids.len() - hits, fewest_misses(&ids, &[], capacity));
    }

    /// Objects that all weigh `w` in a cache of `w` times the capacity behave as
    /// objects that weigh 1.
    #[test]
    fn equal_weights_change_nothing(steps in steps(), capacity in 10usize..40, weight in 2u64..9) {
        fn run<P: Policy>(steps: &[Step], policy: P, capacity: u64, weight: u64) -> Vec<bool> {
            let mut cache = Cache::new(policy, capacity * weight);
            steps.iter().map(|&step| match step {
                Step::Request(id) => cache.request(id, weight),
                Step::Remove(id) => { cache.remove(id); false }
            }).collect()
        }
        // Tenths and ghosts must scale too, so capacities are multiples of ten.
        let capacity = (capacity / 10 * 10) as u64;
        prop_assert_eq!(
            run(&steps, S3Fifo::new(capacity), capacity, 1),
            run(&steps, S3Fifo::new(capacity * weight), capacity, weight)
        );
        prop_assert_eq!(
            run(&steps, Sieve::default(), capacity, 1),
            run(&steps, Sieve::default(), capacity, weight)
        );
    }
}

/// Tries every victim at every eviction.
fn fewest_misses(ids: &[u64], resident: &[u64], capacity: usize) -> usize {
    let Some((id, rest)) = ids.split_first() else { return 0 };
    if resident.contains(id) {
        return fewest_misses(rest, resident, capacity);
    }
    let with = |kept: Vec<u64>| {
        let resident: Vec<u64> = kept.into_iter().chain([*id]).collect();
        1 + fewest_misses(rest, &resident, capacity)
    };
    if resident.len() < capacity {
        return with(resident.to_vec());
    }
    (0..resident.len())
        .map(|victim| {
            let mut kept = resident.to_vec();
            kept.remove(victim);
            with(kept)
        })
        .min()
        .unwrap_or(0)
}
