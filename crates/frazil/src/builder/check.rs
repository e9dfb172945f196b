//! Settings that would be of no effect are refused.

use std::time::Duration;

use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::core::order::locked::{SHARDS_MAX, weighs_delay};
use crate::core::order::{hit_takes_lock, takes_lock};
use crate::features::fetch::fetching::OnError;
use crate::features::frozen::Freezing;

const SHARDS_TOO_MANY: u32 = SHARDS_MAX + 1;
/// Of 365 days each.
const LIFETIME_MAX: Duration = Duration::from_secs(1_000 * 365 * 86_400);

impl<K, V, S> Builder<K, V, S> {
    /// Finds a setting that would be of no effect.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let policy = self.policy;
        if let (Some(promotion), false) = (self.promotion, hit_takes_lock(policy)) {
            return Err(BuildError::PromotionWithoutLock { policy, promotion });
        }
        match self.shards {
            0 | SHARDS_TOO_MANY.. => return Err(BuildError::Shards(self.shards)),
            shards @ 2.. if !takes_lock(policy) => {
                return Err(BuildError::ShardsWithoutLock { policy, shards });
            }
            _ => {}
        }
        if self.backends.is_some() && !weighs_delay(policy) {
            return Err(BuildError::BackendsUnasked(policy));
        }
        let lifetimes = [self.terms.to_live, self.terms.to_idle].into_iter().flatten();
        if let Some(lifetime) = lifetimes.max().filter(|&lifetime| lifetime > LIFETIME_MAX) {
            return Err(BuildError::Lifetime(lifetime));
        }
        if !(0.0..=1.0).contains(&self.terms.jitter) {
            return Err(BuildError::Jitter(self.terms.jitter));
        }
        let remembers = self.negative_ttl.is_some() || !self.fetching.negative_ttl.is_zero();
        if remembers && self.fetching.on_error != OnError::Share {
            return Err(BuildError::NegativeTtlUnshared);
        }
        self.check_freezing()
    }

    fn check_freezing(&self) -> Result<(), BuildError> {
        let (policy, freezing) = (self.policy, self.freezing);
        if self.lifetime.is_some() && freezing != Freezing::Learned {
            return Err(BuildError::LifetimeUnlearned(freezing));
        }
        if freezing == Freezing::Never {
            return Ok(());
        }
        if takes_lock(policy) && !policy.can_freeze() {
            return Err(BuildError::CannotFreeze { policy, freezing });
        }
        match &self.copies {
            Some(None) => Err(BuildError::CopiesTooLarge(size_of::<(K, V)>())),
            Some(Some(_)) if self.terms.are_set() => Err(BuildError::CopiesExpire),
            _ => Ok(()),
        }
    }
}
