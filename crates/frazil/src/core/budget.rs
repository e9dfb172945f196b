//! How much may still be admitted: of entries, and of weight.
//!
//! The weight that an eviction frees stays with the thread that evicted, as credit for the entry
//! that it is about to admit; so in a full cache no thread writes a shared counter. An entry is
//! admitted only for credit that is in hand, so the sum of the residents never passes the capacity,
//! not even for a moment.

use crate::smr::stripe::Traffic;
use crate::sync::Line;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Budget {
    /// Credit in circulation: free, in hand, or in use. Only [`Budget::grow`] and
    /// [`Budget::withdraw`] change it.
    capacity: AtomicU64,
    /// Free credit: no thread owns it and no entry uses it.
    free: Line<AtomicU64>,
    /// Credit that a thread takes at once beyond its need, and may keep.
    chunk: AtomicU64,
}

impl Budget {
    pub(crate) fn new(capacity: u64, chunk: u64) -> Self {
        Budget {
            capacity: AtomicU64::new(capacity),
            free: Line(AtomicU64::new(capacity)),
            chunk: AtomicU64::new(chunk),
        }
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Relaxed)
    }

    /// The credit that a thread may keep from now on.
    pub(crate) fn set_chunk(&self, chunk: u64) {
        self.chunk.store(chunk, Relaxed);
    }

    /// Raises the capacity to `capacity`, if it is less. One thread at a time.
    pub(crate) fn grow(&self, capacity: u64) {
        let more = capacity.saturating_sub(self.capacity());
        // First, so that no one finds more in use than there may be.
        self.capacity.store(self.capacity() + more, Relaxed);
        self.free.0.fetch_add(more, Relaxed);
    }

    /// How much too much is in circulation for `capacity`.
    pub(crate) fn surplus(&self, capacity: u64) -> u64 {
        self.capacity().saturating_sub(capacity)
    }

    /// Withdraws credit beyond `capacity` from circulation, from the credit in hand and the free
    /// credit. Returns the amount. One thread at a time.
    pub(crate) fn withdraw(&self, credit: &mut u64, capacity: u64, traffic: &mut Traffic) -> u64 {
        let surplus = self.surplus(capacity);
        self.gather(credit, surplus, traffic);
        let withdrawn = surplus.min(*credit);
        *credit -= withdrawn;
        self.capacity.store(self.capacity() - withdrawn, Relaxed);
        withdrawn
    }

    /// Whether the credit in hand, filled up from the free credit, reaches `need`. If not, all free
    /// credit is in hand.
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
            let drawn = free.min(need.saturating_add(self.chunk.load(Relaxed)));
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

    /// Returns a thread's credit in hand beyond the amount that it may keep.
    #[inline(always)]
    pub(crate) fn settle(&self, credit: &mut u64, traffic: &mut Traffic) {
        let chunk = self.chunk.load(Relaxed);
        if *credit > 2 * chunk {
            self.free.0.fetch_add(*credit - chunk, Relaxed);
            traffic.writes += 1;
            *credit = chunk;
        }
    }

    /// Frees credit that an entry has used, if no thread owns it.
    pub(crate) fn refund(&self, credit: u64) {
        self.free.0.fetch_add(credit, Relaxed);
    }

    /// Credit that is neither in hand nor in use.
    pub(crate) fn free(&self) -> u64 {
        self.free.0.load(Relaxed)
    }

    /// Returns all credit that a thread owns.
    pub(crate) fn flush(&self, credit: &mut u64, traffic: &mut Traffic) {
        self.free.0.fetch_add(std::mem::take(credit), Relaxed);
        traffic.writes += 1;
    }
}
