//! The policies that rank residents, each against a model written from its paper
//! in the plainest way: a vector that is searched from end to end.

use std::collections::BTreeMap;

use crate::cache::Cache;
use crate::model::Step;
use frazil_policy::{BeladySize, Gdsf, Hyperbolic, Lhd, NEVER, Policy, Rng, Slot};
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

/// Weights from 0 up, the same for an id at all times.
fn weight_of(id: u64) -> u64 {
    [1, 3, 7, 20, 0, 2][id as usize % 6]
}

/// The effect of a request.
#[derive(Debug, PartialEq)]
struct Seen {
    hit: bool,
    admitted: bool,
    victims: Vec<u64>,
}

fn request<P: Policy>(cache: &mut Cache<P>, id: u64, weight: u64) -> Seen {
    let before: Vec<u64> = cache.index.keys().copied().collect();
    let hit = cache.request(id, weight);
    let victims = before.into_iter().filter(|old| !cache.index.contains_key(old)).collect();
    Seen { hit, admitted: cache.index.contains_key(&id), victims }
}

/// GDSF by the paper's formula, with the new object as one of the candidates.
struct GdsfModel {
    objects: Vec<GdsfObject>,
    inflation: f64,
    now: u64,
    capacity: u64,
}

struct GdsfObject {
    id: u64,
    weight: u64,
    requests: u32,
    priority: f64,
    last: u64,
}

impl GdsfModel {
    fn request(&mut self, id: u64, weight: u64) -> Seen {
        self.now += 1;
        let worth = |requests: u32| f64::from(requests) / weight.max(1) as f64;
        if let Some(object) = self.objects.iter_mut().find(|object| object.id == id) {
            object.requests += 1;
            object.priority = self.inflation + worth(object.requests);
            object.last = self.now;
            return Seen { hit: true, admitted: true, victims: vec![] };
        }
        let mut victims = vec![];
        if weight > self.capacity {
            return Seen { hit: false, admitted: false, victims };
        }
        let priority = self.inflation + worth(1);
        self.objects.push(GdsfObject { id, weight, requests: 1, priority, last: self.now });
        while self.objects.iter().map(|object| object.weight).sum::<u64>() > self.capacity {
            let place = (0..self.objects.len())
                .min_by(|&a, &b| {
                    let (a, b) = (&self.objects[a], &self.objects[b]);
                    a.priority.total_cmp(&b.priority).then(a.last.cmp(&b.last))
                })
                .unwrap();
            let victim = self.objects.remove(place);
            self.inflation = victim.priority;
            if victim.id == id {
                break;
            }
            victims.push(victim.id);
        }
        victims.sort_unstable();
        let admitted = self.objects.iter().any(|object| object.id == id);
        Seen { hit: false, admitted, victims }
    }
}

/// An observer's knowledge of a resident.
#[derive(Clone, Copy)]
struct Watched {
    since: u64,
    requests: u32,
}

fn idleness(watched: Watched, now: u64, weight: u64) -> f64 {
    (now - watched.since) as f64 * weight.max(1) as f64 / f64::from(watched.requests)
}

/// LHD as its paper defines hit density, each density summed separately. Explorers
/// share the policy's random numbers.
struct LhdModel {
    residents: BTreeMap<u64, LhdObject>,
    /// Hits and evictions of each class by age bucket.
    counts: Vec<Vec<[f64; 2]>>,
    densities: Vec<Vec<f64>>,
    /// The least age of each bucket.
    starts: Vec<u64>,
    clock: u64,
    compute_at: u64,
    capacity: u64,
    rng: Rng,
}

#[derive(Clone, Copy)]
struct LhdObject {
    touched: u64,
    weight: u64,
    last_age: u64,
    class: usize,
    explorer: bool,
}

impl LhdModel {
    fn new(capacity: u64, seed: u64) -> Self {
        let doublings = (4..32).flat_map(|bit| (8..16).map(move |eighth| eighth << (bit - 3)));
        let starts: Vec<u64> = (0..16).chain(doublings).chain([1 << 32]).collect();
        let counts = vec![vec![[0.0; 2]; starts.len() - 1]; 33];
        let mut model = LhdModel {
            residents: BTreeMap::new(),
            densities: vec![],
            counts,
            starts,
            clock: 0,
            compute_at: 512,
            capacity,
            rng: Rng::new(seed),
        };
        model.compute();
        model
    }

    fn compute(&mut self) {
        let density = |class: usize, from: usize| {
            let counts = &self.counts[class];
            let hits: f64 = counts[from..].iter().map(|count| count[0]).sum();
            let events = |count: &[f64; 2]| count[0] + count[1];
            let mut time = 0.0;
            for (bucket, count) in counts.iter().enumerate().skip(from) {
                // Events here have lived through all earlier buckets and half of
                // this one.
                let width = (self.starts[bucket + 1] - self.starts[bucket]) as f64;
                let lived = (self.starts[bucket] - self.starts[from]) as f64 + width / 2.0;
                time += events(count) * lived;
            }
            let wait = if class == 0 { 65536.0 } else { 2f64.powi(class as i32 - 1) };
            (hits + 0.5) / (time + self.starts[from] as f64 + wait)
        };
        let buckets = self.starts.len() - 1;
        self.densities =
            (0..33).map(|class| (0..buckets).map(|from| density(class, from)).collect()).collect();
    }

    fn bucket(&self, object: LhdObject) -> usize {
        let age = self.clock - object.touched;
        self.starts.iter().rposition(|&start| start <= age).unwrap()
    }

    /// `None` for an explorer.
    fn rank(&self, object: LhdObject) -> Option<f64> {
        if object.explorer && self.clock - object.touched < 64 * self.residents.len() as u64 {
            return None;
        }
        let density = self.densities[object.class][self.bucket(object)];
        Some(density / object.weight.max(1) as f64)
    }

    fn explore(&mut self) -> bool {
        let explorers = self.residents.values().filter(|object| object.explorer);
        let exploring: u64 = explorers.map(|object| object.weight).sum();
        self.rng.bits().is_multiple_of(32) && exploring * 100 < self.capacity
    }

    fn request(&mut self, id: u64, weight: u64, seen: &Seen) -> Result<(), TestCaseError> {
        prop_assert_eq!(seen.hit, self.residents.contains_key(&id));
        if let Some(&object) = self.residents.get(&id) {
            let bucket = self.bucket(object);
            self.counts[object.class][bucket][0] += 1.0;
            let age = self.clock - object.touched;
            let class = (age + object.last_age).max(1).ilog2() as usize + 1;
            let object = LhdObject { touched: self.clock, last_age: age, class, ..object };
            self.residents.insert(id, LhdObject { explorer: false, ..object });
            let explorer = self.explore();
            self.residents.insert(id, LhdObject { explorer, ..object });
        } else if weight <= self.capacity {
            self.evict(seen)?;
            let explorer = self.explore();
            let touched = self.clock;
            let object = LhdObject { touched, weight, last_age: 0, class: 0, explorer };
            self.residents.insert(id, object);
        } else {
            return Ok(());
        }
        self.clock += 1;
        if self.clock == self.compute_at {
            for count in self.counts.iter_mut().flatten().flatten() {
                *count *= 0.9;
            }
            self.compute();
            self.compute_at += 512;
        }
        Ok(())
    }

    /// Victims are evicted one by one, each the least dense of the rest.
    fn evict(&mut self, seen: &Seen) -> Result<(), TestCaseError> {
        let rank = |model: &Self, id: &u64| model.rank(model.residents[id]).unwrap_or(f64::MAX);
        let mut victims = seen.victims.clone();
        while !victims.is_empty() {
            let least = self.residents.keys().map(|id| rank(self, id)).fold(f64::MAX, f64::min);
            victims.sort_by(|a, b| rank(self, b).total_cmp(&rank(self, a)));
            let victim = victims.pop().unwrap();
            let of_victim = rank(self, &victim);
            prop_assert!(of_victim <= least * 1.0001, "{seen:?}: {of_victim}, least {least}");
            let object = self.residents[&victim];
            let bucket = self.bucket(object);
            self.counts[object.class][bucket][1] += 1.0;
            self.residents.remove(&victim);
        }
        Ok(())
    }
}

/// Positions of next requests.
fn future(ids: &[u64]) -> Vec<u32> {
    let next = |at: usize| {
        let later = ids[at + 1..].iter().position(|id| *id == ids[at]);
        later.map_or(NEVER, |distance| (at + 1 + distance) as u32)
    };
    (0..ids.len()).map(next).collect()
}

/// Tries every victim, and refusal, at every eviction.
fn fewest_misses(ids: &[u64], resident: &[u64], capacity: usize) -> usize {
    let Some((id, rest)) = ids.split_first() else { return 0 };
    if resident.contains(id) {
        return fewest_misses(rest, resident, capacity);
    }
    let mut least = fewest_misses(rest, resident, capacity);
    let with: Vec<u64> = resident.iter().copied().chain([*id]).collect();
    if with.len() <= capacity {
        least = least.min(fewest_misses(rest, &with, capacity));
    } else {
        for victim in 0..resident.len() {
            let mut kept = with.clone();
            kept.remove(victim);
            least = least.min(fewest_misses(rest, &kept, capacity));
        }
    }
    1 + least
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn gdsf(steps in steps(), capacity in 1u64..60, weighted in any::<bool>()) {
        let mut cache = Cache::new(Gdsf::default(), capacity);
        let mut model = GdsfModel { objects: vec![], inflation: 0.0, now: 0, capacity };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Request(id) => {
                    let weight = if weighted { weight_of(id) } else { 1 };
                    let seen = request(&mut cache, id, weight);
                    prop_assert_eq!(seen, model.request(id, weight), "step {}", number);
                }
                Step::Remove(id) => {
                    cache.remove(id);
                    model.objects.retain(|object| object.id != id);
                }
            }
            prop_assert!(cache.used() <= capacity);
        }
    }

    /// In a cache no larger than a sample, which is 20, the victim is the lowest of
    /// all.
    #[test]
    fn hyperbolic(steps in steps(), capacity in 1u64..=20, weighted in any::<bool>()) {
        let mut cache = Cache::new(Hyperbolic::new(1), capacity);
        let mut watched: BTreeMap<u64, Watched> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Request(id) => {
                    let weight = |id| if weighted { weight_of(id).max(1) } else { 1 };
                    let seen = request(&mut cache, id, weight(id));
                    let now = cache.slots.now;
                    prop_assert_eq!(seen.hit, watched.contains_key(&id));
                    // Victims are evicted one by one, each the idlest of the rest.
                    for _ in 0..seen.victims.len() {
                        let idle = |id: &u64| idleness(watched[id], now, weight(*id));
                        let most = watched.keys().map(idle).fold(0.0, f64::max);
                        let victim = seen.victims.iter().copied().find(|id| {
                            watched.contains_key(id) && idle(id) >= most * (1.0 - 1e-6)
                        });
                        let Some(victim) = victim else {
                            return Err(TestCaseError::fail(format!("{seen:?} at {now}, most {most}")));
                        };
                        watched.remove(&victim);
                    }
                    if seen.admitted {
                        watched.entry(id).or_insert(Watched { since: now, requests: 0 }).requests += 1;
                    }
                }
                Step::Remove(id) => {
                    cache.remove(id);
                    watched.remove(&id);
                }
            }
        }
    }

    /// With equal weights no policy that may refuse misses less.
    #[test]
    fn belady_size_is_optimal(ids in prop::collection::vec(0u64..5, 1..12), capacity in 1usize..4) {
        for weight in [1, 3] {
            let policy = BeladySize::new(future(&ids).into());
            let mut cache = Cache::new(policy, capacity as u64 * weight);
            let hits = ids.iter().filter(|&&id| cache.request(id, weight)).count();
            prop_assert_eq!(ids.len() - hits, fewest_misses(&ids, &[], capacity));
        }
    }

    /// With unequal weights no resident costs much more than the victim, and a
    /// refused object costs at least as much as every resident.
    #[test]
    fn belady_size_evicts_the_dearest(
        ids in prop::collection::vec(0u64..30, 1..300),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        capacity in 1u64..60,
    ) {
        let next = future(&ids);
        let removed: Vec<usize> = removed.iter().map(|index| index.index(ids.len())).collect();
        let mut cache = Cache::new(BeladySize::new(next.clone().into()), capacity);
        let mut known: BTreeMap<u64, u32> = BTreeMap::new();
        for (at, &id) in ids.iter().enumerate() {
            let cost = |next: u32, id: u64| match next {
                NEVER => f64::INFINITY,
                _ => (f64::from(next) - at as f64) * weight_of(id).max(1) as f64,
            };
            let seen = request(&mut cache, id, weight_of(id));
            prop_assert_eq!(seen.hit, known.contains_key(&id));
            let cheapest =
                seen.victims.iter().map(|id| cost(known[id], *id)).fold(f64::INFINITY, f64::min);
            known.retain(|id, _| !seen.victims.contains(id));
            let dearest = known.iter().map(|(id, next)| cost(*next, *id)).fold(0.0, f64::max);
            prop_assert!(cheapest * 1.125 >= dearest, "{cheapest} went, {dearest} stays");
            if seen.admitted {
                known.insert(id, next[at]);
            } else if weight_of(id) <= capacity {
                prop_assert!(cost(next[at], id) * 1.125 >= dearest);
            }
            if removed.contains(&at) {
                cache.remove(ids[at / 2]);
                known.remove(&ids[at / 2]);
            }
        }
    }

    /// Whatever happens, residents are never lost or evicted twice.
    #[test]
    fn lhd_keeps_account(steps in steps(), capacity in 1u64..60, seed in any::<u64>()) {
        let mut cache = Cache::new(Lhd::new(capacity, seed), capacity);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Request(id) => {
                    let known = cache.index.contains_key(&id);
                    let seen = request(&mut cache, id, weight_of(id) + number as u64 / 100 % 2);
                    prop_assert_eq!(seen.hit, known);
                }
                Step::Remove(id) => cache.remove(id),
            }
            prop_assert!(cache.used() <= capacity);
        }
        cache.set_capacity(0);
        prop_assert_eq!(cache.used(), 0);
    }

    /// Objects that all weigh `w` in a cache of `w` times the capacity behave as
    /// objects that weigh 1.
    #[test]
    fn equal_weights_change_nothing(steps in steps(), capacity in 1u64..40, power in 1u32..9) {
        fn run<P: Policy>(steps: &[Step], policy: P, capacity: u64, weight: u64) -> Vec<bool> {
            let mut cache = Cache::new(policy, capacity * weight);
            steps.iter().map(|&step| match step {
                Step::Request(id) => cache.request(id, weight),
                Step::Remove(id) => { cache.remove(id); false }
            }).collect()
        }
        // Powers of two, so that scaling rounds nothing.
        let weight = 1u64 << power;
        prop_assert_eq!(
            run(&steps, Gdsf::default(), capacity, 1),
            run(&steps, Gdsf::default(), capacity, weight)
        );
        prop_assert_eq!(
            run(&steps, Hyperbolic::new(1), capacity, 1),
            run(&steps, Hyperbolic::new(1), capacity, weight)
        );
        prop_assert_eq!(
            run(&steps, Lhd::new(capacity, 1), capacity, 1),
            run(&steps, Lhd::new(capacity * weight, 1), capacity, weight)
        );
    }
}

proptest! {
    // Long runs, so that densities are computed several times.
    #![proptest_config(crate::cases(40))]

    /// In a cache no larger than a sample, which is 16, the victim is the least
    /// dense of all.
    #[test]
    fn lhd(capacity in 1u64..=16, seed in any::<u64>(), weighted in any::<bool>()) {
        let mut cache = Cache::new(Lhd::new(capacity, seed), capacity);
        let mut model = LhdModel::new(capacity, seed);
        let mut rng = Rng::new(!seed);
        let ids = 2 * capacity + rng.below(40);
        for number in 0..3000 {
            let id = if rng.below(3) == 0 { rng.below(ids) } else { rng.below(capacity) };
            let id = if number / 500 % 2 == 1 { number % ids } else { id };
            let weight = if weighted { weight_of(id).max(1) } else { 1 };
            let seen = request(&mut cache, id, weight);
            model.request(id, weight, &seen)?;
            if rng.below(40) == 0 {
                let id = rng.below(ids);
                cache.remove(id);
                model.residents.remove(&id);
            }
        }
    }
}

/// In a large cache the victim is one of the idlest, though the policy sees only a sample.
#[test]
fn hyperbolic_evicts_from_the_idle_end() {
    let capacity = 1000;
    let mut cache = Cache::new(Hyperbolic::new(1), capacity);
    let mut rng = Rng::new(2);
    let mut watched: BTreeMap<u64, Watched> = BTreeMap::new();
    let (mut evictions, mut idle_tenth) = (0, 0);
    for _ in 0..30_000 {
        let id = rng.below(3000).min(rng.below(3000));
        let seen = request(&mut cache, id, 1);
        let now = cache.slots.now;
        for victim in &seen.victims {
            let idle = |id: &u64| idleness(watched[id], now, 1);
            let idler = watched.keys().filter(|id| idle(id) > idle(victim)).count();
            evictions += 1;
            idle_tenth += usize::from(idler < 100);
        }
        for victim in &seen.victims {
            watched.remove(victim);
        }
        watched.entry(id).or_insert(Watched { since: now, requests: 0 }).requests += 1;
    }
    assert!(evictions > 5000 && idle_tenth * 100 > evictions * 95, "{idle_tenth} of {evictions}");
}

/// A loop larger than the cache: LHD learns to keep a part of it, where policies
/// by recency never hit.
#[test]
fn lhd_learns_a_loop() {
    let mut cache = Cache::new(Lhd::new(100, 1), 100);
    let hits = (0..200_000u64).filter(|request| cache.request(request % 200, 1)).count();
    // The best possible is a half.
    assert!(hits > 80_000, "{hits}");
}

/// LHD keeps small objects rather than large ones that are requested as often.
#[test]
fn lhd_prefers_the_light() {
    let mut cache = Cache::new(Lhd::new(1000, 1), 1000);
    let mut rng = Rng::new(3);
    let mut hits = [0, 0];
    for _ in 0..100_000 {
        let id = rng.below(400);
        let heavy = id.is_multiple_of(2);
        hits[usize::from(heavy)] += u64::from(cache.request(id, if heavy { 50 } else { 5 }));
    }
    assert!(hits[0] > 4 * hits[1], "{hits:?}");
}

/// Requests during the fetch count.
#[test]
fn requests_in_flight_count() {
    fn check<P: Policy>(policy: P) {
        let mut cache = Cache::new(policy, 2);
        for id in [1, 1, 1, 2] {
            cache.begin(id, 1);
        }
        cache.commit(1);
        cache.commit(2);
        cache.request(3, 1);
        assert!(cache.index.contains_key(&1) && !cache.index.contains_key(&2));
    }
    check(Gdsf::default());
    check(Hyperbolic::new(1));
}

/// The same seed gives the same victims, another seed others.
#[test]
fn chance_follows_the_seed() {
    fn victims<P: Policy>(policy: P) -> Vec<Slot> {
        let mut cache = Cache::new(policy, 200);
        let mut rng = Rng::new(4);
        for _ in 0..5000 {
            cache.request(rng.below(500), 1);
        }
        cache.index.values().copied().collect()
    }
    assert_eq!(victims(Hyperbolic::new(7)), victims(Hyperbolic::new(7)));
    assert_ne!(victims(Hyperbolic::new(7)), victims(Hyperbolic::new(8)));
    assert_eq!(victims(Lhd::new(200, 7)), victims(Lhd::new(200, 7)));
    assert_ne!(victims(Lhd::new(200, 7)), victims(Lhd::new(200, 8)));
}
