//! Each online policy by its name when the capacity changes: the host evicts the
//! surplus, and the policy continues like one built for the new capacity: its counts in
//! objects and the borders between its parts follow.

use crate::cache::Cache;
use frazil_policy::{Online, Policy, PolicyVisitor, Rng};
use proptest::prelude::*;

/// Policies that remember nothing once they are empty: then they behave as new ones. Of
/// the others, some learn, some always draw from the same generator, and GDSF's
/// priorities are rounded at a level that only rises.
const FORGETFUL: [&str; 12] = [
    "fifo",
    "lru",
    "lru-relaxed",
    "lru-delayed",
    "clock",
    "slru",
    "two-queue",
    "sieve",
    "mobius",
    "s3-fifo",
    "lfu",
    "lirs",
];

fn policies() -> impl Iterator<Item = Online> {
    Online::ALL.into_iter().chain([Online::Slru { segments: 4 }])
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Request(u64, u64),
    Capacity(u64),
}

fn steps(resizes: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => (0u64..60, 1u64..6).prop_map(|(id, weight)| Step::Request(id, weight)),
        30 => (0u64..10, 1u64..6).prop_map(|(id, weight)| Step::Request(id, weight)),
        resizes => (0u64..80).prop_map(Step::Capacity),
    ];
    prop::collection::vec(step, 0..300)
}

/// Steps with ids from `first_id` up, in weights up to `heaviest`. Returns the hits, or the error.
fn drive<P: Policy>(
    cache: &mut Cache<P>,
    steps: &[Step],
    first_id: u64,
    heaviest: u64,
) -> Result<Vec<bool>, String> {
    let mut hits = Vec::new();
    for step in steps {
        match *step {
            Step::Request(id, weight) => {
                hits.push(cache.request(first_id + id, weight.min(heaviest)));
            }
            Step::Capacity(capacity) => cache.set_capacity(capacity),
        }
        if cache.used() > cache.capacity {
            return Err(format!("{} of {} after {step:?}", cache.used(), cache.capacity));
        }
    }
    Ok(hits)
}

/// A course through capacities that ends with nothing resident.
struct Resized<'a> {
    capacity: u64,
    steps: &'a [Step],
    heaviest: u64,
}

impl PolicyVisitor for &Resized<'_> {
    type Output = Result<(), String>;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Result<(), String> {
        let mut cache = Cache::new(policy, self.capacity);
        drive(&mut cache, self.steps, 0, self.heaviest)?;
        cache.set_capacity(0);
        if cache.used() > 0 { Err("one is lost".to_owned()) } else { Ok(()) }
    }
}

/// The hits of a course after a path of capacities.
struct Led<'a> {
    /// Capacities on the path. After each, `before` runs.
    way: &'a [u64],
    before: &'a [Step],
    /// Whether everything is evicted before the last change.
    emptied: bool,
    capacity: u64,
    steps: &'a [Step],
    heaviest: u64,
}

impl PolicyVisitor for Led<'_> {
    type Output = Result<Vec<bool>, String>;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output {
        let first = self.way.first().copied().unwrap_or(self.capacity);
        let mut cache = Cache::new(policy, first);
        for &capacity in self.way {
            cache.set_capacity(capacity);
            drive(&mut cache, self.before, 1_000, self.heaviest)?;
        }
        if self.emptied {
            cache.set_capacity(0);
        }
        cache.set_capacity(self.capacity);
        drive(&mut cache, self.steps, 0, self.heaviest)
    }
}

/// The same course with and without that path.
fn both_ways(policy: Online, led: Led<'_>) -> [Result<Vec<bool>, String>; 2] {
    let made_for = led.way.first().copied().unwrap_or(led.capacity);
    let straight = Led { way: &[], emptied: false, ..led };
    [policy.visit(led.capacity, straight), policy.visit(made_for, led)]
}

proptest! {
    #[test]
    fn what_is_too_much_goes(
        capacity in 1u64..60,
        steps in steps(5),
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        for policy in policies() {
            let outcome = policy.visit(capacity, &Resized { capacity, steps: &steps, heaviest });
            prop_assert_eq!(outcome, Ok(()), "{}", policy);
        }
    }

    #[test]
    fn made_for_a_capacity_or_led_to_it_is_one(
        way in prop::collection::vec(0u64..80, 1..4),
        capacity in 1u64..60,
        steps in steps(0),
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        for policy in policies() {
            let led = Led { way: &way, before: &[], emptied: false, capacity, steps: &steps, heaviest };
            let [made, led] = both_ways(policy, led);
            prop_assert!(made.is_ok());
            prop_assert_eq!(made, led, "{}", policy);
        }
    }

    #[test]
    fn once_empty_it_is_as_new(
        before in steps(3),
        capacity in 1u64..60,
        steps in steps(0),
        heaviest in prop_oneof![Just(1u64), Just(5)],
    ) {
        for policy in policies().filter(|policy| FORGETFUL.contains(&policy.name())) {
            let led = Led { way: &[40], before: &before, emptied: true, capacity, steps: &steps, heaviest };
            let [new, emptied] = both_ways(policy, led);
            prop_assert!(new.is_ok());
            prop_assert_eq!(new, emptied, "{}", policy);
        }
    }
}

/// The hit ratio over the second half of a skewed course.
fn settled(hits: &[bool]) -> f64 {
    let late = &hits[hits.len() / 2..];
    late.iter().filter(|&&hit| hit).count() as f64 / late.len() as f64
}

/// In the long run a policy that was led to a capacity hits no less often than one that was made
/// for it, whatever it has learned on the way. Except LFU, which keeps objects that were once
/// frequent for ever, and LA-Cache: there new objects with fewer than four requests rank below once
/// frequent ones and are forgotten sooner.
#[test]
fn in_the_long_run_the_way_is_forgotten() {
    let skewed = |seed: u64, count: u64| -> Vec<Step> {
        let mut rng = Rng::new(seed);
        let mut id = |number: u64| match rng.below(4) {
            0 => 10_000 + number,
            1 => number / 8 + rng.below(50),
            _ => (rng.unit().powi(4) * 2000.0) as u64,
        };
        (0..count).map(|number| Step::Request(id(number), 1 + number % 5)).collect()
    };
    let (before, steps) = (skewed(1, 4_000), skewed(2, 10_000));
    let ways: [(&[u64], u64); 5] = [
        (&[500, 20], 300),
        (&[500, 1], 300),
        (&[20, 500], 40),
        (&[500, 1, 2_000], 300),
        (&[5_000], 50),
    ];
    // Down and up again; the others in a long run.
    let ways = if crate::is_long() { &ways[..] } else { &ways[1..3] };
    let keeps = |policy: &Online| matches!(policy, Online::Lfu | Online::LaCache { .. });
    let policies = policies().filter(|policy| !keeps(policy));
    for (policy, heaviest) in policies.flat_map(|policy| [(policy, 1), (policy, 5)]) {
        for &(way, capacity) in ways {
            let led =
                Led { way, before: &before, emptied: false, capacity, steps: &steps, heaviest };
            let [made, led] = both_ways(policy, led).map(|hits| settled(&hits.expect("it fits")));
            assert!(
                led >= made - 0.03,
                "{policy} {heaviest} {way:?} {capacity}: {led:.3} and not {made:.3}"
            );
        }
    }
}
