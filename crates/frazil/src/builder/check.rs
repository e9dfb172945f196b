//! Refuses settings that would have no effect.

use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::core::order::locked::SHARDS_MAX;
use crate::core::order::{hit_takes_lock, takes_lock};

const SHARDS_TOO_MANY: u32 = SHARDS_MAX + 1;

impl<K, V, S> Builder<K, V, S> {
    /// Finds a setting that would have no effect.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let policy = self.policy;
        if let (Some(promotion), false) = (self.promotion, hit_takes_lock(policy)) {
            return Err(BuildError::PromotionWithoutLock { policy, promotion });
        }
        if let (Some(fetches_per_second), false) = (self.bypass, hit_takes_lock(policy)) {
            return Err(BuildError::BypassWithoutLock { policy, fetches_per_second });
        }
        match self.shards {
            0 | SHARDS_TOO_MANY.. => return Err(BuildError::Shards(self.shards)),
            shards @ 2.. if !takes_lock(policy) => {
                return Err(BuildError::ShardsWithoutLock { policy, shards });
            }
            _ => {}
        }
        #[cfg(feature = "expiry")]
        self.check_lifetimes()?;
        #[cfg(feature = "loading")]
        self.check_fetching()?;
        #[cfg(feature = "freezing")]
        self.check_freezing()?;
        Ok(())
    }
}
