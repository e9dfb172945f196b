//! Whatever is pinned, a host finds the residents that are not: each online policy by
//! its name, against a host that tries four times as often as it has residents.

use crate::cache::Cache;
use frazil_policy::{Online, Policy, PolicyVisitor, Rng};

/// Few, many, and more than any policy samples at once.
const CAPACITIES: [u64; 5] = [1, 2, 5, 20, 70];

struct Pins {
    capacity: u64,
    seed: u64,
    /// The most that an object weighs.
    heaviest: u64,
    /// Whether a newcomer always finds a place where there is one.
    admits: bool,
}

impl Pins {
    /// A request for one of few objects or many, which may be heavier than before.
    fn request<P: Policy>(&self, rng: &mut Rng, cache: &mut Cache<P>) {
        let of = if rng.below(2) == 0 { self.capacity / 3 + 1 } else { 4 * self.capacity };
        let id = rng.below(of);
        let weight = 1 + rng.below(self.heaviest);
        let resident = cache.index.get(&id).map(|slot| cache.slots.weight[slot.index()]);
        // One that grew would have to find room among the pinned.
        cache.request(id, resident.unwrap_or(weight));
    }

    /// Pins all but one, and returns that.
    fn pin<P: Policy>(&self, rng: &mut Rng, cache: &mut Cache<P>) -> u64 {
        cache.pinned = cache.index.keys().copied().collect();
        let unpinned = rng.below(cache.index.len() as u64) as usize;
        let id = *cache.index.keys().nth(unpinned).expect("a resident");
        cache.pinned.remove(&id);
        id
    }
}

impl PolicyVisitor for &Pins {
    type Output = Result<(), String>;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Result<(), String> {
        let mut rng = Rng::new(self.seed);
        let mut cache = Cache::new(policy, self.capacity * self.heaviest);
        for round in 0..6 {
            cache.pinned.clear();
            for _ in 0..self.capacity * rng.below(8) {
                self.request(&mut rng, &mut cache);
            }
            // All come back, and then one is deleted, or is overwritten by a lighter one.
            for _ in 0..rng.below(4) {
                cache.pinned = cache.index.keys().copied().collect();
                self.request(&mut rng, &mut cache);
                let one = cache.index.keys().nth(rng.below(self.capacity) as usize).copied();
                match one {
                    Some(id) if rng.below(3) == 0 => cache.remove(id),
                    Some(id) => _ = cache.request(id, 1),
                    None => {}
                }
            }
            if cache.index.is_empty() {
                continue;
            }
            let id = self.pin(&mut rng, &mut cache);
            let newcomer = 1_000_000 + round;
            if self.admits && cache.used() == cache.capacity && rng.below(2) == 0 {
                cache.request(newcomer, 1);
                if !cache.index.contains_key(&newcomer) {
                    return Err(format!("no place for a newcomer in round {round}"));
                }
            } else {
                cache.shed();
            }
            if cache.index.contains_key(&id) {
                return Err(format!("one is hidden in round {round}"));
            }
        }
        cache.pinned.clear();
        cache.set_capacity(0);
        if cache.used() > 0 { Err("one is lost".to_owned()) } else { Ok(()) }
    }
}

/// Pins all, asks for a newcomer, unpins all, and asks for others only, again and again.
/// How many of the first stay.
struct Unpinned(u64);

impl PolicyVisitor for Unpinned {
    type Output = usize;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> usize {
        let mut cache = Cache::new(policy, self.0);
        (0..self.0).for_each(|id| _ = cache.request(id, 1));
        let first = cache.index.clone();
        cache.pinned = first.keys().copied().collect();
        cache.request(1_000_000, 1);
        cache.pinned.clear();
        let mut rng = Rng::new(1);
        for _ in 0..200 * self.0 {
            let id = 2_000_000 + rng.below(3 * self.0);
            (0..4).for_each(|_| _ = cache.request(id, 1));
        }
        first.keys().filter(|id| cache.index.contains_key(id)).count()
    }
}

fn hidden(spec: Online) -> Vec<String> {
    let mut found = Vec::new();
    for capacity in CAPACITIES {
        for heaviest in [1, 4] {
            for seed in 0..30 {
                // GDSF and LA-Cache may find all others worth more, and so may any where
                // weights differ.
                let refuses = matches!(spec, Online::Gdsf | Online::LaCache { .. });
                let admits = heaviest == 1 && !refuses;
                let pins = Pins { capacity, seed, heaviest, admits };
                let outcome = spec.visit(capacity * heaviest, &pins);
                if let Err(error) = outcome {
                    found.push(format!("{spec}: {error}, {capacity} {heaviest} {seed}"));
                }
            }
        }
    }
    found
}

fn online() -> impl Iterator<Item = Online> {
    let variants = [Online::Slru { segments: 4 }, Online::LruSampled { k: 1, seed: 1 }];
    Online::ALL.into_iter().chain(variants)
}

#[test]
fn what_came_back_can_go() {
    for spec in online() {
        for capacity in [2, 20, 70] {
            let stay = spec.visit(capacity, Unpinned(capacity));
            assert_eq!(stay, 0, "{spec} {capacity}");
        }
    }
}

#[test]
fn pins_hide_nobody() {
    // In a set in which there is room for all that come, the oldest can stay.
    let sets: Online = "mad:ways=4".parse().expect("it is known");
    let found: Vec<String> = online().chain([sets]).flat_map(hidden).collect();
    assert!(found.is_empty(), "{} of them:\n{}", found.len(), found.join("\n"));
}
