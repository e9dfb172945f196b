//! A store with a learner takes no more memory than it states, as counted by the allocator.
#![cfg(not(any(loom, shuttle, miri)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use frazil_segment::{Attributes, Eviction, Store};

/// Bytes allocated and not freed, and their maximum.
struct Counted {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[global_allocator]
static HEAP: Counted = Counted { now: AtomicUsize::new(0), most: AtomicUsize::new(0) };

// SAFETY: all is the system's, and counted.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = self.now.fetch_add(layout.size(), Relaxed) + layout.size();
        self.most.fetch_max(now, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.now.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The peak growth of the heap, and what the store has subtracted from its capacity for it.
fn grown(capacity: usize, segment_bytes: usize) -> (usize, usize) {
    let now_ms = Arc::new(AtomicU64::new(0));
    let before = HEAP.now.load(Relaxed);
    HEAP.most.store(before, Relaxed);
    let builder = Store::builder(capacity).segment_bytes(segment_bytes).seed(7);
    let builder = builder.eviction(Eviction::GlCache).learn_in_place(true);
    let store = builder.clock(Arc::clone(&now_ms)).build().unwrap();
    let mut number = 0u64;
    while store.learner_stats().unwrap().rankings < 20 {
        store.set(&number.to_le_bytes(), &[1; 200], Attributes::default()).unwrap();
        store.get_with(&(number / 3 * 2).to_le_bytes(), |_| ());
        number += 1;
        now_ms.fetch_add(1, Relaxed);
    }
    let stats = store.stats();
    let beside = capacity - stats.segments as usize * stats.segment_bytes;
    (HEAP.most.load(Relaxed) - before, beside)
}

/// Many small segments, whose data are most of the memory, and few, where training takes most.
#[test]
fn a_learner_takes_what_was_subtracted() {
    let few = [(8 << 20, 64 << 10), (1 << 20, 16 << 10), (200 << 10, 1 << 10)];
    for (capacity, segment_bytes) in [(8 << 20, 1 << 10), (1 << 20, 1 << 10)].into_iter().chain(few)
    {
        let (grown, beside) = grown(capacity, segment_bytes);
        assert!(grown <= beside, "{grown} of {beside} bytes, segments of {segment_bytes}");
    }
}
