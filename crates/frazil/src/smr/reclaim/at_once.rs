//! Retired slots in caches whose holders are counted: nothing is in them, and they are free at
//! once.

use super::Reclaim;
use crate::smr::segments::Segments;
use crate::smr::stripe::{Buffers, Cursor};
use crate::sync::atomic::Ordering::Relaxed;

impl Reclaim {
    /// For a cache whose slots are empty and have no readers when they are retired.
    pub(crate) fn without_limbo(entries: u64) -> Self {
        let reclaim = Reclaim { frees_at_once: true, ..Reclaim::new(entries, None) };
        // Entries have weights, and the weight of retired ones does not matter.
        reclaim.weight_in_hand.store(u64::MAX - 1, Relaxed);
        reclaim
    }

    /// Frees it at once, where nothing waits.
    #[cold]
    #[inline(never)]
    pub(super) fn free_segment<W>(
        &self,
        segments: &Segments,
        buffers: &mut Buffers<W>,
        retired: Cursor,
    ) {
        if retired.next < segments.length() {
            self.fragments.fetch_add(1, Relaxed);
        }
        self.free.push(segments, retired.segment, &mut buffers.traffic);
    }
}
