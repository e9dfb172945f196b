//! Errors of the builder.

use std::error::Error;
use std::fmt;
#[cfg(feature = "expiry")]
use std::time::Duration;

use crate::core::order::locked::SHARDS_MAX;
#[cfg(feature = "freezing")]
use crate::features::frozen::{COPY_BYTES_MAX, Freezing};
use crate::{Policy, Promotion};

/// Why a cache cannot be built from these settings: the error of
/// [`Builder::try_build`](crate::Builder::try_build).
///
/// Each setting is valid by itself, but one of them would have no effect beside another.
///
/// ```
/// use frazil::{BuildError, Cache, Policy};
/// let builder = Cache::<u64, u64>::builder(100).policy(Policy::Fifo).shards(4);
/// let error = builder.try_build().unwrap_err();
/// assert_eq!(error, BuildError::ShardsWithoutLock { policy: Policy::Fifo, shards: 4 });
/// assert_eq!(error.to_string(), "`shards` is 4, but the policy fifo has no lock to divide");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// [`promotion`](crate::Builder::promotion) for a policy whose hits take no lock.
    PromotionWithoutLock {
        /// The policy.
        policy: Policy,
        /// The requested value.
        promotion: Promotion,
    },
    /// [`bypass`](crate::Builder::bypass) for a policy whose hits take no lock.
    BypassWithoutLock {
        /// The policy.
        policy: Policy,
        /// The requested value.
        fetches_per_second: u64,
    },
    /// More than one of [`shards`](crate::Builder::shards) for a policy without a lock.
    ShardsWithoutLock {
        /// The policy.
        policy: Policy,
        /// The requested value.
        shards: u32,
    },
    /// A [`HandleCache`](crate::HandleCache) with a policy that loses an entry's state when it
    /// chooses the entry as victim, and so could not keep a held one.
    CannotHold(Policy),
    /// A number of [`shards`](crate::Builder::shards) out of range.
    Shards(u32),
    /// [`backends`](crate::Builder::backends) for a policy that does not weigh delay.
    #[cfg(feature = "loading")]
    BackendsUnasked(Policy),
    /// [`negative_ttl`](crate::Builder::negative_ttl), or that of
    /// [`Fetching`](crate::Fetching::negative_ttl), without
    /// [`OnError::Share`](crate::OnError::Share).
    #[cfg(feature = "loading")]
    NegativeTtlUnshared,
    /// [`freezing`](crate::Builder::freezing) with a policy that cannot freeze.
    #[cfg(feature = "freezing")]
    CannotFreeze {
        /// The policy.
        policy: Policy,
        /// The requested value.
        freezing: Freezing,
    },
    /// [`freezing_lifetime`](crate::Builder::freezing_lifetime) without
    /// [`Freezing::Learned`].
    #[cfg(feature = "freezing")]
    LifetimeUnlearned(Freezing),
    /// [`freezing_copies`](crate::Builder::freezing_copies) of keys and values that are too
    /// large, or aligned to more than eight bytes.
    #[cfg(feature = "freezing")]
    CopiesTooLarge(usize),
    /// [`freezing_copies`](crate::Builder::freezing_copies) where all entries have a lifetime.
    #[cfg(feature = "freezing")]
    CopiesExpire,
    /// A [`time_to_live`](crate::Builder::time_to_live) or
    /// [`time_to_idle`](crate::Builder::time_to_idle) above 1,000 years: probably a wrong unit, or
    /// a setting to leave out.
    #[cfg(feature = "expiry")]
    Lifetime(Duration),
    /// A [`jitter`](crate::Builder::jitter) outside 0 to 1.
    #[cfg(feature = "expiry")]
    Jitter(f64),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::PromotionWithoutLock { policy, promotion } => write!(
                f,
                "`promotion` is {promotion:?}, but a hit of the policy {policy} takes no lock"
            ),
            BuildError::BypassWithoutLock { policy, fetches_per_second } => write!(
                f,
                "`bypass` is {fetches_per_second}, but a hit of the policy {policy} takes no lock"
            ),
            BuildError::ShardsWithoutLock { policy, shards } => {
                write!(f, "`shards` is {shards}, but the policy {policy} has no lock to divide")
            }
            BuildError::CannotHold(policy) => {
                write!(f, "nothing can be held with the policy {policy}")
            }
            BuildError::Shards(shards) => {
                write!(f, "`shards` is {shards}: expected 1 to {SHARDS_MAX}")
            }
            #[cfg(feature = "loading")]
            BuildError::BackendsUnasked(policy) => write!(
                f,
                "`backends` is set, but the policy {policy} does not ask how long fetches take"
            ),
            #[cfg(feature = "loading")]
            BuildError::NegativeTtlUnshared => f.write_str(
                "`negative_ttl` is set, but `on_error` is Retry: no error is shared or remembered",
            ),
            #[cfg(feature = "freezing")]
            BuildError::CannotFreeze { policy, freezing } => write!(
                f,
                "`freezing` is {freezing:?}, but nothing of the policy {policy} can be frozen"
            ),
            #[cfg(feature = "freezing")]
            BuildError::LifetimeUnlearned(freezing) => write!(
                f,
                "`freezing_lifetime` is set, but `freezing` is {freezing:?}, and not Learned"
            ),
            #[cfg(feature = "freezing")]
            BuildError::CopiesTooLarge(bytes) => write!(
                f,
                "`freezing_copies` of keys and values of {bytes} bytes: no more than \
                 {COPY_BYTES_MAX} are copied"
            ),
            #[cfg(feature = "freezing")]
            BuildError::CopiesExpire => f.write_str(
                "`freezing_copies` is set, but nothing is copied where all entries have a lifetime",
            ),
            #[cfg(feature = "expiry")]
            BuildError::Lifetime(lifetime) => write!(
                f,
                "a lifetime of {lifetime:?}: expected at most 1,000 years, or no such setting"
            ),
            #[cfg(feature = "expiry")]
            BuildError::Jitter(share) => write!(f, "`jitter` is {share}: expected 0 to 1"),
        }
    }
}

impl Error for BuildError {}
