//! The hardware's atomics or a model checker's: the same kind as in the cache that passes its
//! own to the learner.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic;
