//! The memory of all segments, in one piece.
//!
//! It is a mapping of the system, with huge pages where available. Its pages cost nothing until
//! used, and a vector of zeroes would not be aligned to huge pages. Under Miri, and on systems
//! other than Unix, it is an allocation.

use std::io;
use std::ptr::NonNull;

use crate::sync::atomic::AtomicU64;

/// Where a huge page may begin.
#[cfg(all(unix, not(miri)))]
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Words of eight bytes must be aligned, and lines should be.
const LINE_BYTES: usize = 64;
/// The largest page of memory: a piece of whole pages can be returned to the system.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// Where a piece of memory begins, and its length.
type Piece = (NonNull<u8>, usize);

#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// The memory to free: the system's mapping, which is longer than ours, or the allocation.
    whole: Piece,
    /// A checker's atomics are larger than a word and cannot lie in the memory itself.
    #[cfg(any(loom, shuttle))]
    words: Box<[AtomicU64]>,
}

// SAFETY: the memory is owned, and `Segments` and `Index` decide who may read or write which
// part of it; no part of it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of `bytes`, all zero.
    pub(crate) fn new(bytes: usize) -> io::Result<Mapping> {
        let (base, whole) = system::map(bytes)?;
        Ok(Mapping {
            base,
            bytes,
            whole,
            #[cfg(any(loom, shuttle))]
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    #[inline(always)]
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.bytes, "{offset} of {}", self.bytes);
        // SAFETY: places belong to segments, and all segments lie in the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Returns the memory of a piece to the system if it consists of whole pages, and keeps huge
    /// pages from covering it again.
    ///
    /// # Safety
    ///
    /// Nothing reads the piece before it is written again.
    pub(crate) unsafe fn release(&self, offset: usize, bytes: usize) {
        if offset.is_multiple_of(PAGE_BYTES_MAX) && bytes.is_multiple_of(PAGE_BYTES_MAX) {
            debug_assert!(offset + bytes <= self.bytes);
            system::release(self.at(offset), bytes);
        }
    }

    /// Allows huge pages for a piece that was released.
    pub(crate) fn reclaim(&self, offset: usize, bytes: usize) {
        if offset.is_multiple_of(PAGE_BYTES_MAX) && bytes.is_multiple_of(PAGE_BYTES_MAX) {
            debug_assert!(offset + bytes <= self.bytes);
            system::reclaim(self.at(offset), bytes);
        }
    }

    /// The eight words of a line.
    ///
    /// # Safety
    ///
    /// The line lies in memory that holds only atomic words, from before this call on and for as
    /// long as the mapping lives.
    #[inline(always)]
    pub(crate) unsafe fn line(&self, offset: usize) -> &[AtomicU64; 8] {
        debug_assert!(offset.is_multiple_of(LINE_BYTES) && offset < self.bytes);
        #[cfg(any(loom, shuttle))]
        return self.words[offset / 8..][..8].try_into().expect("eight words");
        // SAFETY: the line is aligned and lies in the mapping, and is only accessed as atomics.
        #[cfg(not(any(loom, shuttle)))]
        unsafe {
            &*self.at(offset).cast()
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        system::unmap(self.whole);
    }
}

/// Prefetches a line that will be read soon.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect but on time.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(all(unix, not(miri)))]
mod system {
    use super::{HUGE_PAGE_BYTES, NonNull, Piece, io};

    pub(super) fn map(bytes: usize) -> io::Result<(NonNull<u8>, Piece)> {
        let whole = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new private mapping, at a place of the system's choice, affects no other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                whole,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skipped = start.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: less than a huge page is skipped, and the mapping is longer by one.
        let base = unsafe { start.add(skipped) };
        #[cfg(target_os = "linux")]
        // SAFETY: advice on our own mapping; refused, it changes nothing.
        unsafe {
            libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
        }
        Ok((base, (start, whole)))
    }

    /// Huge pages are forbidden first: the system would fill one that is partly empty.
    pub(super) fn release(start: *mut u8, bytes: usize) {
        #[cfg(target_os = "linux")]
        // SAFETY: the caller's memory lies in our mapping, and its content is no longer needed. Refused, either
        // advice changes nothing.
        unsafe {
            libc::madvise(start.cast(), bytes, libc::MADV_NOHUGEPAGE);
            libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, bytes);
    }

    pub(super) fn reclaim(start: *mut u8, bytes: usize) {
        #[cfg(target_os = "linux")]
        // SAFETY: advice on memory of our own mapping; refused, it changes nothing.
        unsafe {
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, bytes);
    }

    pub(super) fn unmap((start, bytes): Piece) {
        // SAFETY: the mapping is ours, whole, and its owner is being dropped.
        unsafe {
            libc::munmap(start.as_ptr().cast(), bytes);
        }
    }
}

#[cfg(not(all(unix, not(miri))))]
mod system {
    use std::alloc::{Layout, handle_alloc_error};

    use super::{LINE_BYTES, NonNull, Piece, io};

    fn layout(bytes: usize) -> io::Result<Layout> {
        Layout::from_size_align(bytes, LINE_BYTES).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn map(bytes: usize) -> io::Result<(NonNull<u8>, Piece)> {
        let layout = layout(bytes)?;
        // SAFETY: stores are never empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Ok((start, (start, bytes)))
    }

    pub(super) fn release(_: *mut u8, _: usize) {}

    pub(super) fn reclaim(_: *mut u8, _: usize) {}

    pub(super) fn unmap((start, bytes): Piece) {
        if let Ok(layout) = layout(bytes) {
            // SAFETY: allocated above, with this layout.
            unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
        }
    }
}
