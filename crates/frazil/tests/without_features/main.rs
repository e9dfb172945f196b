//! The cache without features: the stand-ins do nothing, and count what the features would.
//!
//! `cargo xtask test` compiles this package alone. Beside others it gets the cache with their
//! features, and does nothing.
#![cfg(not(any(loom, shuttle)))]

#[path = "../../../policy/tests/policies/cache/mod.rs"]
mod cache;
#[path = "../cache/identity.rs"]
mod identity;
#[path = "../cache/tracked/mod.rs"]
mod tracked;

use frazil::{Cache, Policy};
use frazil_policy::{Policy as Algorithm, PolicyVisitor};

use identity::Identity;
use tracked::{Census, Chance, Tracked};

const CAPACITY: u64 = 100;
const THREADS: u64 = 4;
/// Operations a thread and cache.
const OPERATIONS: u64 = 2_000;

type Tested<'c> = Cache<u64, Tracked<'c>>;

/// The living values are those in the cache, and the parts of the cache agree.
fn check(cache: &mut Tested<'_>, census: &Census, policy: Policy) {
    cache.flush();
    assert_eq!(census.living(), cache.len() as i64, "{policy}");
    let stats = cache.stats();
    let gone = stats.evictions + stats.removals;
    assert_eq!((stats.insertions - gone, stats.expirations), (cache.len() as u64, 0), "{policy}");
    cache.validate().unwrap_or_else(|findings| panic!("{policy}:\n{findings}"));
}

#[test]
fn one_thread_finds_what_it_put_in_and_all_that_goes_is_dropped() {
    for policy in Policy::ALL {
        let census = Census::default();
        let mut cache: Tested<'_> = Cache::builder(CAPACITY).policy(policy).build();
        let insert = |key| cache.insert(key, Tracked::new(&census, key));
        (0..CAPACITY / 2).for_each(insert);
        (0..CAPACITY / 2).for_each(|key| cache.get(&key).expect("there is room").check(key));
        // Replaced, removed and removed in vain.
        (0..10).for_each(insert);
        assert_eq!(cache.stats().replacements, 10, "{policy}");
        cache.remove(&0).expect("it is there").check(0);
        assert!(cache.invalidate(&1) && !cache.invalidate(&1) && cache.remove(&0).is_none());
        assert!(cache.get(&0).is_none() && cache.peek(&1).is_none(), "{policy}");
        check(&mut cache, &census, policy);
        // Evicted, or refused.
        (0..10 * CAPACITY).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
        let stats = cache.stats();
        assert!(stats.evictions + stats.refusals >= 9 * CAPACITY, "{policy}");
        assert!(cache.len() as u64 <= CAPACITY && !cache.is_empty(), "{policy}");
        cache.iter().for_each(|(key, value)| value.check(key));
        check(&mut cache, &census, policy);
        cache.retain(|key, _| key % 2 == 0);
        assert!(cache.keys().all(|key| key % 2 == 0), "{policy}");
        check(&mut cache, &census, policy);
        for clear in [Tested::clear, Tested::invalidate_all] {
            (0..10).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
            assert!(!cache.is_empty(), "{policy}");
            clear(&cache);
            assert_eq!((cache.len(), cache.peek(&5).is_some()), (0, false), "{policy}");
            check(&mut cache, &census, policy);
        }
        (0..CAPACITY).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

/// One thread's share.
fn work<'c>(cache: &Tested<'c>, census: &'c Census, mut chance: Chance) {
    for _ in 0..OPERATIONS {
        let key = chance.below(3 * CAPACITY);
        match chance.below(20) {
            0..10 => match cache.get(&key) {
                Some(value) => value.check(key),
                None => cache.insert(key, Tracked::new(census, key)),
            },
            10..15 => cache.insert(key, Tracked::new(census, key)),
            15..18 => _ = cache.remove(&key).map(|value| value.check(key)),
            18 => _ = cache.pin().get(&key).map(|value| value.check(key)),
            _ if chance.below(50) == 0 => cache.clear(),
            _ => _ = cache.invalidate(&key),
        }
    }
}

#[test]
fn threads_lose_nothing_and_drop_nothing_twice() {
    for policy in Policy::ALL {
        let census = Census::default();
        let mut cache: Tested<'_> = Cache::builder(CAPACITY).policy(policy).build();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, census) = (&cache, &census);
                scope.spawn(move || work(cache, census, Chance(thread)));
            }
        });
        assert!(cache.len() as u64 <= CAPACITY, "{policy}");
        check(&mut cache, &census, policy);
        cache.clear();
        check(&mut cache, &census, policy);
    }
}

/// The cache beside the policy in its plainest host, request by request.
struct Compare(Policy);

impl PolicyVisitor for Compare {
    type Output = ();
    fn visit<P: Algorithm + Clone + Send + 'static>(self, plain: P) {
        let Compare(policy) = self;
        let mut plain = cache::Cache::new(plain, CAPACITY);
        let cache: Cache<u64, u64, Identity> =
            Cache::builder(CAPACITY).policy(policy).with_hasher(Identity::default()).build();
        let mut chance = Chance(1);
        for turn in 0..20 * CAPACITY {
            let most = chance.below(3 * CAPACITY) + 1;
            let id = if turn % 5 == 0 { 3 * CAPACITY + turn } else { chance.below(most) };
            // Now and then without a get before.
            let hit = if turn % 7 == 0 { cache.peek(&id) } else { cache.get(&id) }.is_some();
            if !hit || turn % 7 == 0 {
                cache.insert(id, id);
            }
            assert_eq!(hit, plain.request(id, 1), "{policy}, request {turn}");
        }
        assert_eq!(cache.weight(), plain.used(), "{policy}");
    }
}

#[test]
fn one_thread_misses_exactly_as_the_plain_policy_does() {
    for policy in Policy::ALL {
        policy.visit(CAPACITY, Compare(policy));
    }
}
