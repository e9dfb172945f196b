//! The cost of choosing a victim by aggregate delay: evictions of the variants of `mad` in a host
//! that has only slots, each with the insertion after it.
//!
//! ```sh
//! cargo run --release -p frazil-policy --example mad_eviction
//! ```

use std::time::Instant;

use frazil_policy::{
    Eviction, Host, Incoming, Online, Policy, PolicyVisitor, Rng, Slot, object_hash,
};

const EVICTIONS: u64 = 200_000;
/// Number of runs; the median counts.
const ROUNDS: usize = 5;
/// Ticks that a fetch takes, and hits between two misses.
const FETCH: u64 = 1_000;
const HITS: u64 = 4;

struct Slots<M> {
    now: u64,
    meta: Vec<M>,
    ids: Vec<u64>,
}

impl<M> Host<M> for Slots<M> {
    fn now(&self) -> u64 {
        self.now
    }
    fn meta(&self, slot: Slot) -> &M {
        &self.meta[slot.index()]
    }
    fn hash(&self, slot: Slot) -> u64 {
        object_hash(self.ids[slot.index()], 1)
    }
    fn weight(&self, _: Slot) -> u64 {
        1
    }
    fn fetch_ticks(&self) -> Option<u64> {
        Some(FETCH)
    }
}

/// Fills a cache of this many entries, and then times evictions.
struct Timed(u64);

impl PolicyVisitor for Timed {
    /// Nanoseconds for one eviction with its insertion, and for the eviction alone.
    type Output = [f64; 2];

    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> [f64; 2] {
        let mut host = Slots { now: 0, meta: Vec::new(), ids: Vec::new() };
        let mut rng = Rng::new(3);
        let incoming = |policy: &mut P, host: &mut Slots<P::Meta>, id: u64| {
            host.now += 1;
            let hash = object_hash(id, 1);
            let pending = policy.miss(host, hash, 1);
            Incoming { hash, weight: 1, pending }
        };
        for id in 0..self.0 {
            let newcomer = incoming(&mut policy, &mut host, id);
            host.meta.push(P::Meta::default());
            host.ids.push(id);
            policy.insert(&mut host, Slot(id as u32), newcomer);
        }
        let (mut alone, began) = (0.0, Instant::now());
        let mut hits = 0.0;
        for id in self.0..self.0 + EVICTIONS {
            let hitting = Instant::now();
            for _ in 0..HITS {
                host.now += 1;
                // The slot just evicted is used again at once.
                policy.hit(&mut host, Slot(rng.below(self.0) as u32));
            }
            hits += hitting.elapsed().as_nanos() as f64;
            let newcomer = incoming(&mut policy, &mut host, id);
            let evicting = Instant::now();
            let Eviction::Victim(slot) = policy.evict(&mut host, Some(&newcomer)) else { continue };
            alone += evicting.elapsed().as_nanos() as f64;
            host.ids[slot.index()] = id;
            policy.insert(&mut host, slot, newcomer);
        }
        let all = began.elapsed().as_nanos() as f64 - hits;
        [all, alone].map(|ns| ns / EVICTIONS as f64)
    }
}

fn main() {
    println!("{:<28} {:>10} {:>14} {:>14}", "policy", "residents", "evict ns", "with insert");
    for name in ["lru", "mad", "mad:sample=64", "mad:ways=64", "mad:base=arc", "delay-rank"] {
        let policy: Online = name.parse().expect("a policy");
        for residents in [10_000, 100_000, 1_000_000] {
            let mut rounds: Vec<[f64; 2]> =
                (0..ROUNDS).map(|_| policy.visit(residents, Timed(residents))).collect();
            rounds.sort_by(|one, other| one[1].total_cmp(&other[1]));
            let [all, alone] = rounds[ROUNDS / 2];
            println!("{name:<28} {residents:>10} {alone:>14.0} {all:>14.0}");
        }
    }
}
