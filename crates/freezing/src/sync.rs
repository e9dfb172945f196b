//! The atomics, as the hardware has them or as a model checker does: of the same kind as in the
//! cache that hands its own to the learner.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic;
