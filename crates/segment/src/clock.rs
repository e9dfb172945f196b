//! The clock for lifetimes: the system's, or one that user code advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System(Instant),
    /// Milliseconds, counted elsewhere.
    Counted(Arc<AtomicU64>),
}

impl Clock {
    pub(crate) fn now_ms(&self) -> u64 {
        match self {
            Clock::System(start) => start.elapsed().as_millis() as u64,
            Clock::Counted(now) => now.load(Relaxed),
        }
    }
}
