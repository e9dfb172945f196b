//! An array that grows and never moves, indexed by slot or by position.
//!
//! It consists of chunks that double: the first has 64 elements, and each later one as many as all
//! before it. A chunk is allocated when one of its elements is first used, and stays. Pointers to
//! chunks are biased: each points to where element 0 would be if the chunk began there. So an
//! element's address is one pointer, chosen by the logarithm of its number, and an offset: two
//! instructions more than in one allocation.
//!
//! Memory comes zeroed. A page of a large chunk that was never used is not mapped.

#[cfg(not(any(loom, shuttle)))]
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
// Not a checker's atomic: a thread knows a number only from the thread that made its chunk.
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::sync::{CHECKED, ZeroDefault};

/// The logarithm of the length of the first chunk; small under checkers, where each atomic is
/// expensive.
const FIRST_BITS: u32 = if CHECKED { 2 } else { 6 };
/// One for each binary logarithm of a number; those of the first chunk count as one.
const CHUNKS: usize = (u32::BITS - FIRST_BITS + 1) as usize;

/// The array.
#[derive(Debug)]
pub(crate) struct Chunks<T: ZeroDefault> {
    /// Null for chunks not made yet.
    biased: [AtomicPtr<T>; CHUNKS],
}

/// The chunk of an element.
#[inline(always)]
fn chunk_of(at: u32) -> usize {
    // In the width of an address, so that the subtraction becomes part of it.
    ((at | ((1 << FIRST_BITS) - 1)).ilog2() as usize).wrapping_sub(FIRST_BITS as usize - 1)
}

/// The first element of a chunk, and its length.
fn bounds(chunk: usize) -> (usize, usize) {
    match chunk {
        0 => (0, 1 << FIRST_BITS),
        _ => (1 << (FIRST_BITS as usize + chunk - 1), 1 << (FIRST_BITS as usize + chunk - 1)),
    }
}

impl<T: ZeroDefault> Default for Chunks<T> {
    fn default() -> Self {
        Chunks { biased: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())) }
    }
}

impl<T: ZeroDefault> Chunks<T> {
    /// The address of an element; invalid if its chunk was not made before.
    ///
    /// The caller has the number from the thread that made the chunk, directly or through others.
    #[inline(always)]
    pub(crate) fn address(&self, at: u32) -> *mut T {
        // SAFETY: a number of 32 bits has no logarithm above 31, for which there is a pointer.
        let biased = unsafe { self.biased.get_unchecked(chunk_of(at)) };
        biased.load(Relaxed).wrapping_add(at as usize)
    }

    /// An element, if its chunk was made.
    #[inline(always)]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        // SAFETY: as in `address`.
        let biased = unsafe { self.biased.get_unchecked(chunk_of(at)) };
        // Acquire: partner is the Release of `make`; the elements are made.
        let biased = biased.load(Acquire);
        // SAFETY: a pointer that is not null leads to a chunk with this element, which stays in
        // place for as long as this lives. Elements are changed only through shared references.
        (!biased.is_null()).then(|| unsafe { &*biased.wrapping_add(at as usize) })
    }

    /// An element; its chunk is made if necessary.
    #[inline(always)]
    pub(crate) fn get_or_make(&self, at: u32) -> &T {
        match self.get(at) {
            Some(element) => element,
            None => self.make(at),
        }
    }

    /// Ensures that the element of this number exists.
    #[inline]
    pub(crate) fn ensure(&self, at: u32) {
        self.get_or_make(at);
    }

    #[cold]
    #[inline(never)]
    fn make(&self, at: u32) -> &T {
        let chunk = chunk_of(at);
        let (first, length) = bounds(chunk);
        let made = Block::<T>::new(length);
        let biased = made.0.as_ptr().wrapping_sub(first);
        // Release: the elements; partner is the Acquire of `get`. Acquire: the elements of another
        // thread.
        let exchanged =
            self.biased[chunk].compare_exchange(std::ptr::null_mut(), biased, AcqRel, Acquire);
        let biased = match exchanged {
            Ok(_) => biased,
            Err(others) => {
                // SAFETY: made above with this length, and not shared.
                unsafe { made.free(length) };
                others
            }
        };
        // SAFETY: as in `get`.
        unsafe { &*biased.wrapping_add(at as usize) }
    }

    /// The elements of the chunks that were made, chunk by chunk, each with the number of its
    /// first.
    pub(crate) fn made(&self) -> impl Iterator<Item = (u32, &[T])> {
        self.biased.iter().enumerate().filter_map(|(chunk, biased)| {
            let (first, length) = bounds(chunk);
            // Acquire: as in `get`.
            let biased = biased.load(Acquire);
            // SAFETY: as in `get`; the chunk has this many elements from there on.
            (!biased.is_null()).then(|| unsafe {
                (first as u32, std::slice::from_raw_parts(biased.wrapping_add(first), length))
            })
        })
    }

    /// One more than the highest element whose chunk was made; 0 if there is none.
    #[cfg(feature = "expiry")]
    pub(crate) fn end(&self) -> u32 {
        self.made().map(|(first, elements)| first + elements.len() as u32).last().unwrap_or(0)
    }

    /// Bytes on the heap, whether mapped or not.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.made().map(|(_, elements)| size_of_val(elements)).sum()
    }
}

impl<T: ZeroDefault> Drop for Chunks<T> {
    fn drop(&mut self) {
        for (chunk, biased) in self.biased.iter().enumerate() {
            let (first, length) = bounds(chunk);
            let biased = biased.load(Relaxed);
            if let Some(made) = NonNull::new(biased).map(|_| biased.wrapping_add(first)) {
                // SAFETY: made by `make` with this length, and this is the last owner.
                unsafe { Block(NonNull::new_unchecked(made)).free(length) };
            }
        }
    }
}

/// Zeroed elements in one piece. The first begins a cache line.
pub(crate) struct Block<T>(pub(crate) NonNull<T>);

/// Before the first element, beside padding: the beginning of the allocation.
#[cfg(not(any(loom, shuttle)))]
const BEFORE: usize = size_of::<*mut u8>();

#[cfg(not(any(loom, shuttle)))]
impl<T: ZeroDefault> Block<T> {
    /// Alignment of elements: that of pages of 2 MB, if these are requested.
    fn alignment(length: usize) -> usize {
        let huge = crate::sync::wants_huge_pages(length.saturating_mul(size_of::<T>()));
        align_of::<T>().max(if huge { 1 << 21 } else { 64 })
    }

    fn layout(length: usize) -> Layout {
        // No larger alignment than the allocator's own: for others it writes zeros itself, and
        // every page is mapped.
        let bytes = length.checked_mul(size_of::<T>());
        let bytes = bytes.and_then(|bytes| bytes.checked_add(Self::alignment(length) + BEFORE));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, BEFORE).ok());
        layout.expect("a cache's parts fit into the address space")
    }

    pub(crate) fn new(length: usize) -> Self {
        let layout = Self::layout(length);
        // SAFETY: the size of the layout is not zero, but at least that of a pointer.
        let begin = unsafe { std::alloc::alloc_zeroed(layout) };
        if begin.is_null() {
            handle_alloc_error(layout);
        }
        let offset = begin.wrapping_add(BEFORE).align_offset(Self::alignment(length)) + BEFORE;
        // SAFETY: the layout has room for the pointer, the alignment and the elements; all-zero
        // bytes are elements (`ZeroDefault`).
        unsafe {
            let first = begin.add(offset);
            first.sub(BEFORE).cast::<*mut u8>().write(begin);
            crate::sync::advise_huge(first, length * size_of::<T>());
            Block(NonNull::new_unchecked(first.cast()))
        }
    }

    /// # Safety
    ///
    /// `new` has made it for this length, and it is no longer used. Elements are not dropped.
    pub(crate) unsafe fn free(self, length: usize) {
        let first = self.0.as_ptr().cast::<u8>();
        // SAFETY: `new` has noted there where the allocation begins.
        unsafe {
            let begin = first.sub(BEFORE).cast::<*mut u8>().read();
            std::alloc::dealloc(begin, Self::layout(length));
        }
    }
}

/// The checkers' atomics carry more than a number and are made one by one.
#[cfg(any(loom, shuttle))]
impl<T: ZeroDefault> Block<T> {
    pub(crate) fn new(length: usize) -> Self {
        let elements: Box<[T]> = (0..length).map(|_| T::default()).collect();
        Block(NonNull::new(Box::into_raw(elements).cast()).expect("a box is somewhere"))
    }

    /// # Safety
    ///
    /// As above.
    pub(crate) unsafe fn free(self, length: usize) {
        let elements = std::ptr::slice_from_raw_parts_mut(self.0.as_ptr(), length);
        // SAFETY: a box of this length (the caller's promise).
        drop(unsafe { Box::from_raw(elements) });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU64;

    #[test]
    fn chunks_follow_each_other_without_a_gap() {
        let mut next = 0;
        for chunk in 0..CHUNKS - 1 {
            let (first, length) = bounds(chunk);
            assert_eq!((first, chunk_of(first as u32)), (next, chunk));
            assert_eq!(chunk_of((first + length - 1) as u32), chunk);
            next = first + length;
        }
        assert_eq!(chunk_of(u32::MAX), CHUNKS - 1);
    }

    #[test]
    fn elements_stay_where_they_are() {
        let array = Chunks::<AtomicU64>::default();
        assert!(array.get(70_000).is_none());
        assert_eq!(array.heap_bytes(), 0);
        for at in (0..100_000).rev() {
            let element = array.get_or_make(at);
            assert!(at % 8 != 0 || std::ptr::from_ref(element).addr() % 64 == 0);
            element.store(u64::from(at) + 1, Relaxed);
        }
        for at in 0..100_000 {
            // SAFETY: made above.
            assert_eq!(unsafe { &*array.address(at) }.load(Relaxed), u64::from(at) + 1);
        }
        let seen: usize = array.made().map(|(_, elements)| elements.len()).sum();
        assert_eq!(seen, 1 << 17);
    }

    #[test]
    fn two_threads_that_make_a_chunk_share_it() {
        let array = Chunks::<AtomicU64>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..4_096).for_each(|at| _ = array.get_or_make(at).fetch_add(1, Relaxed));
                });
            }
        });
        let sum: u64 = array.made().flat_map(|(_, chunk)| chunk).map(|one| one.load(Relaxed)).sum();
        assert_eq!(sum, 2 * 4_096);
    }
}
