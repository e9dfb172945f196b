//! How much may still be admitted: of entries, and of weight.
//!
//! What an eviction frees stays with the thread that evicted, as credit for what it is
//! about to admit; so in a full cache no thread writes a shared counter. An entry is
//! admitted only for credit that is in hand, so the sum of the residents never passes
//! the capacity, not even for a moment.

use crate::stripe::Traffic;
use crate::sync::OwnLine;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Budget {
    capacity: u64,
    /// What no thread has in hand and no entry uses.
    free: OwnLine<AtomicU64>,
    /// What a thread takes at once beyond its need, and may keep.
    chunk: u64,
}

impl Budget {
    pub(crate) fn new(capacity: u64, chunk: u64) -> Self {
        Budget { capacity, free: OwnLine(AtomicU64::new(capacity)), chunk }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether the credit in hand, filled up from what is free, comes to `need`. If not,
    /// all that was free is in hand.
    #[inline(always)]
    pub(crate) fn gather(&self, credit: &mut u64, need: u64, traffic: &mut Traffic) -> bool {
        if *credit < need {
            *credit += self.draw(need - *credit, traffic);
        }
        *credit >= need
    }

    #[inline(always)]
    fn draw(&self, need: u64, traffic: &mut Traffic) -> u64 {
        let mut free = self.free.0.load(Relaxed);
        while free > 0 {
            let drawn = free.min(need.saturating_add(self.chunk));
            match self.free.0.compare_exchange(free, free - drawn, Relaxed, Relaxed) {
                Ok(_) => {
                    traffic.writes += 1;
                    return drawn;
                }
                Err(now) => free = now,
            }
            traffic.retries += 1;
        }
        0
    }

    /// Gives back what a thread has in hand beyond what it may keep.
    #[inline(always)]
    pub(crate) fn settle(&self, credit: &mut u64, traffic: &mut Traffic) {
        if *credit > 2 * self.chunk {
            self.free.0.fetch_add(*credit - self.chunk, Relaxed);
            traffic.writes += 1;
            *credit = self.chunk;
        }
    }

    /// What is neither in hand nor in use.
    pub(crate) fn free(&self) -> u64 {
        self.free.0.load(Relaxed)
    }

    /// Gives back all that a thread has in hand.
    pub(crate) fn flush(&self, credit: &mut u64, traffic: &mut Traffic) {
        self.free.0.fetch_add(std::mem::take(credit), Relaxed);
        traffic.writes += 1;
    }
}
