//! Settings that would have no effect beside others are refused, with an error.

use std::time::Duration;

use frazil::{BuildError, Builder, Cache, Freezing, Policy, Promotion};

/// Whether a policy runs under a lock, so that it has promotions and shards.
pub(crate) fn takes_lock(policy: Policy) -> bool {
    !matches!(policy, Policy::Fifo | Policy::Clock { .. } | Policy::Mobius | Policy::S3Fifo)
}

fn builder(policy: Policy) -> Builder<u64, u64> {
    Cache::builder(100).policy(policy)
}

fn refusal<K: std::hash::Hash + Eq, V>(builder: Builder<K, V>) -> Option<BuildError> {
    builder.try_build().err()
}

#[test]
fn a_policy_without_a_lock_has_no_shards_and_a_hit_without_one_no_promotions() {
    for policy in Policy::ALL {
        let promotion = Promotion::Adaptive;
        let (promoted, sharded) = (builder(policy).promotion(promotion), builder(policy).shards(4));
        let refusals = [refusal(promoted), refusal(sharded)];
        // A hit of SIEVE only marks, so a promotion would do nothing.
        let promotes = takes_lock(policy) && policy != Policy::Sieve;
        let expected = [
            (!promotes).then_some(BuildError::PromotionWithoutLock { policy, promotion }),
            (!takes_lock(policy)).then_some(BuildError::ShardsWithoutLock { policy, shards: 4 }),
        ];
        assert_eq!(refusals, expected, "{policy}");
        // Every policy has one part.
        assert_eq!(refusal(builder(policy).shards(1)), None, "{policy}");
    }
}

#[test]
fn a_lifetime_beyond_a_thousand_years_is_a_mistake() {
    let thousand_years = 1_000 * 365 * 86_400;
    for (seconds, is_refused) in [(thousand_years, false), (thousand_years + 1, true)] {
        let lifetime = Duration::from_secs(seconds);
        let expected = is_refused.then_some(BuildError::Lifetime(lifetime));
        assert_eq!(refusal(builder(Policy::Mobius).time_to_live(lifetime)), expected);
        assert_eq!(refusal(builder(Policy::Mobius).time_to_idle(lifetime)), expected);
    }
}

#[test]
fn there_are_1_to_64_shards() {
    for shards in [0, 65, u32::MAX] {
        let refused = refusal(builder(Policy::Lru).shards(shards));
        assert_eq!(refused, Some(BuildError::Shards(shards)));
    }
    assert_eq!(refusal(builder(Policy::Lru).shards(64)), None);
}

#[test]
fn backends_are_for_policies_that_weigh_delay() {
    for policy in Policy::ALL {
        let refused = refusal(builder(policy).backends(|_| 0));
        let asks = matches!(policy, Policy::Mad { .. } | Policy::GuardedMad { .. });
        assert_eq!(refused, (!asks).then_some(BuildError::BackendsUnasked(policy)), "{policy}");
    }
}

/// Exactly the policies are refused for which `freeze` does nothing.
#[test]
fn freezing_is_for_policies_that_can() {
    for policy in Policy::ALL {
        for freezing in [Freezing::ByHand, Freezing::Learned] {
            match builder(policy).freezing(freezing).try_build() {
                Ok(cache) => {
                    (0..100).for_each(|key| cache.insert(key, key));
                    assert!(cache.freeze(1.0) > 0, "{policy}");
                }
                Err(error) => {
                    assert_eq!(error, BuildError::CannotFreeze { policy, freezing });
                    assert!(takes_lock(policy) && !policy.can_freeze(), "{policy}");
                }
            }
        }
        assert_eq!(refusal(builder(policy).freezing(Freezing::Never)), None, "{policy}");
    }
}

#[test]
fn what_is_said_of_freezing_needs_it() {
    for freezing in [Freezing::Never, Freezing::ByHand] {
        let refused = refusal(builder(Policy::Lru).freezing_lifetime(9).freezing(freezing));
        assert_eq!(refused, Some(BuildError::LifetimeUnlearned(freezing)));
    }
    let large = Cache::<u64, [u64; 6]>::builder(100).freezing_copies(Freezing::ByHand);
    assert_eq!(refusal(large), Some(BuildError::CopiesTooLarge(56)));
    let fits = Cache::<u64, [u64; 5]>::builder(100).freezing_copies(Freezing::ByHand);
    assert_eq!(refusal(fits), None);
    let copies = builder(Policy::Lru).freezing_copies(Freezing::ByHand);
    let expiring = copies.time_to_live(Duration::from_secs(60));
    assert_eq!(refusal(expiring), Some(BuildError::CopiesExpire));
}

#[test]
#[should_panic = "no cache can be built: `shards` is 8, but the policy mobius has no lock to divide"]
fn build_panics_with_the_reason() {
    let _ = builder(Policy::Mobius).shards(8).build();
}
