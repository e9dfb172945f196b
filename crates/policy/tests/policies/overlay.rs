//! A share of a policy's residents, frozen: against the policy alone and against the
//! documentation, on random courses.

use std::collections::BTreeSet;

use crate::cache::Cache;
use frazil_policy::{Online, Policy, PolicySpec, PolicyVisitor, Rng, Slot, Work};
use proptest::prelude::*;

/// Each policy that can be frozen, and a share of it.
fn frozen(share: f64) -> Vec<PolicySpec> {
    let spec = |base: &Online| format!("frozen:share={share}+{base}").parse().ok();
    Online::ALL.iter().filter_map(spec).collect()
}

/// Requests until the cache is warm, and as many after.
struct Course {
    capacity: u64,
    /// Number of objects; lower ones are requested more often.
    objects: u64,
    weights: u64,
    seed: u64,
}

const WARM: usize = 40_000;

#[derive(Debug, PartialEq)]
struct Seen {
    /// For each request, whether it hit.
    hits: Vec<bool>,
    frozen_hits: u64,
    frozen_misses: u64,
    /// The entries present when it became warm that are still present.
    kept: usize,
}

impl PolicyVisitor for &Course {
    type Output = Seen;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Seen {
        let mut cache = Cache::new(policy, self.capacity);
        let mut rng = Rng::new(self.seed);
        let mut hits = Vec::new();
        let mut resident = BTreeSet::new();
        for number in 0..2 * WARM {
            if number == WARM {
                resident = cache.index.keys().copied().collect();
            }
            let id = (self.objects as f64 * rng.unit().powi(4)) as u64;
            hits.push(cache.request(id, 1 + id % self.weights));
            assert!(cache.used() <= self.capacity);
        }
        let order: BTreeSet<Slot> = cache.policy.coldest_first(&cache.slots).into_iter().collect();
        assert!(order.iter().eq(cache.index.values().collect::<BTreeSet<_>>()), "all are listed");
        let count = |work| cache.slots.counts.get(work);
        Seen {
            hits,
            frozen_hits: count(Work::FrozenHit),
            frozen_misses: count(Work::FrozenMiss),
            kept: resident.iter().filter(|id| cache.index.contains_key(id)).count(),
        }
    }
}

fn see(spec: PolicySpec, course: &Course) -> Seen {
    spec.visit(course.capacity, &(), course)
}

#[test]
fn nothing_frozen_is_the_policy_alone() {
    let course = Course { capacity: 500, objects: 5_000, weights: 3, seed: 1 };
    for spec in frozen(0.0) {
        let PolicySpec::Frozen { base, .. } = spec else { panic!("{spec}") };
        assert_eq!(see(spec, &course), see(PolicySpec::Online(base), &course), "{spec}");
    }
}

#[test]
fn all_frozen_never_changes_again() {
    let course = Course { capacity: 500, objects: 5_000, weights: 1, seed: 2 };
    for spec in frozen(1.0) {
        let seen = see(spec, &course);
        assert_eq!(seen.kept, 500, "{spec}");
        let hits = seen.hits[WARM..].iter().filter(|hit| **hit).count() as u64;
        let looks = seen.frozen_hits + seen.frozen_misses;
        assert!(looks >= WARM as u64, "{spec}: {looks} looks");
        assert!(seen.frozen_hits >= hits && hits > 0, "{spec}");
        // No miss is hit again, so all later hits are frozen hits.
        let since = &seen.hits[seen.hits.len() - looks as usize..];
        assert_eq!(since.iter().filter(|hit| **hit).count() as u64, seen.frozen_hits, "{spec}");
    }
}

#[test]
fn what_is_hot_is_what_is_frozen() {
    // A tenth of the residents serves over three tenths of the hits, except where a hit moves
    // an entry once in a thousand requests and a thousand are resident.
    let course = Course { capacity: 1_000, objects: 5_000, weights: 1, seed: 3 };
    let in_order = |spec: &PolicySpec| !spec.to_string().ends_with("lru-delayed");
    for spec in frozen(0.1).into_iter().filter(in_order) {
        let seen = see(spec, &course);
        let looks = (seen.frozen_hits + seen.frozen_misses) as usize;
        let since = &seen.hits[seen.hits.len() - looks..];
        let hits = since.iter().filter(|hit| **hit).count() as f64;
        assert!(seen.frozen_hits as f64 > 0.3 * hits, "{spec}: {} of {hits}", seen.frozen_hits);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(u64, u64),
    Remove(u64),
    Capacity(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => (0u64..60, 1u64..6).prop_map(|(id, weight)| Step::Request(id, weight)),
        5 => (0u64..60).prop_map(Step::Remove),
        3 => (0u64..80).prop_map(Step::Capacity),
    ];
    prop::collection::vec(step, 0..200)
}

/// Work that may be counted once entries are frozen.
struct Anything<'a>(&'a [Step]);

impl PolicyVisitor for Anything<'_> {
    type Output = ();

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) {
        let mut cache = Cache::new(policy, 60);
        for number in 0..25_000 {
            cache.request(number * number % 59, 1 + number % 3);
        }
        for step in self.0 {
            match *step {
                Step::Request(id, weight) => _ = cache.request(id, weight),
                Step::Remove(id) => cache.remove(id),
                Step::Capacity(capacity) => cache.set_capacity(capacity),
            }
            let resident: BTreeSet<Slot> = cache.index.values().copied().collect();
            let order = cache.policy.coldest_first(&cache.slots);
            assert_eq!(order.len(), resident.len());
            assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), resident);
            assert!(cache.used() <= cache.capacity);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn all_that_a_host_may_do(steps in steps(), share in 0.0f64..=1.0) {
        for spec in frozen(share) {
            spec.visit(60, &(), Anything(&steps));
        }
    }
}
