//! The heap, counted.
//!
//! The memory of a process includes memory that the allocator keeps, which grows for minutes while
//! threads come and go. The bytes allocated and not freed do not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes on the heap now.
pub(crate) fn bytes() -> u64 {
    BYTES.load(Relaxed)
}

// SAFETY: every call goes to the system's allocator, with its layout unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
