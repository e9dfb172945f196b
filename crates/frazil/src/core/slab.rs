//! The entries: key, value, and eight bytes for the policy, in slots that are recycled.
//!
//! Memory is allocated in chunks, as slots are first used, and never freed while the cache lives.
//! So a thread that has once learnt a slot's number can read its header, however late. 8 bytes an
//! entry beside key and value; with a weigher 8 more.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use frazil_policy::Mark;

use crate::chunks::Chunks;
use crate::once_box::OnceBox;
use crate::smr::refs::SlotRefs;
use crate::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{CHECKED, ZeroDefault};

/// The slot is empty.
pub(crate) const VACANT: u8 = 0;
/// The slot holds a key and a value.
pub(crate) const OCCUPIED: u8 = 1;
/// Removed or replaced by a thread that could not take it out of its queue: the thread that
/// dequeues it retires it.
pub(crate) const DEAD: u8 = 2;
/// Its residency is about to end, or has ended. This flag and those below occur only in caches that
/// set entries aside, beside `OCCUPIED` or alone.
#[cfg(feature = "freezing")]
pub(crate) const LEAVING: u8 = 4;
/// Its queue must leave it alone, and drops it when it reaches it. A policy under a lock keeps its
/// place.
pub(crate) const ASIDE: u8 = 8;
/// It was dropped, and is in no queue: the thread that clears this flag owns it.
pub(crate) const LOOSE: u8 = 16;

/// A policy's data beside an entry.
#[derive(Debug, Default)]
pub(crate) struct Header {
    /// Where the slot lies: see `Position` in `core/order/position.rs`. Policies under a lock keep
    /// their own kind of place here.
    pub(crate) position: AtomicU32,
    /// `visited`, or a small count. For policies under a lock other than SIEVE, the epoch of the
    /// last reported hit: see `order/locked/notes.rs`.
    pub(crate) mark: Mark,
    /// [`VACANT`], [`OCCUPIED`] or [`DEAD`], and flags.
    pub(crate) state: AtomicU8,
    /// How far away the entry's deadline is: see `features/expiry/hints.rs`. 0 if it never had one.
    pub(crate) hint: AtomicU16,
}

impl Header {
    /// Declares it dead. Returns whether it is in no queue, so that the caller owns it.
    #[inline]
    pub(crate) fn die(&self) -> bool {
        // Release: partner is the Acquire of `QueueCtx::pop`. Acquire: partner is `loosen`.
        self.state.swap(DEAD, AcqRel) & LOOSE != 0
    }

    /// Declares it dead, and leaves it to the thread that reaches it in a queue or takes it back.
    pub(crate) fn die_later(&self) {
        // Release: as in `die`.
        let _ = self.state.fetch_update(Release, Relaxed, |state| Some(DEAD | state & LOOSE));
    }

    /// A queue has reached it. Returns whether the queue drops it.
    pub(crate) fn loosen(&self) -> bool {
        self.exchange(ASIDE, LOOSE)
    }

    /// Takes it into the caller's hand, if it lies in no queue because it is set aside.
    #[cfg(any(feature = "expiry", feature = "freezing"))]
    pub(crate) fn take_loose(&self) -> bool {
        self.exchange(LOOSE, 0)
    }

    /// Exchanges one flag for another, if it is set.
    #[inline]
    fn exchange(&self, one: u8, other: u8) -> bool {
        // Acquire and Release: its holder passes it on.
        let exchanged = |state| (state & one != 0).then_some(state & !one | other);
        self.state.fetch_update(AcqRel, Acquire, exchanged).is_ok()
    }
}

/// A slot, with its header: for code that has already found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRef<'s> {
    pub(crate) slot: u32,
    pub(crate) header: &'s Header,
}

/// The work of setting aside.
#[cfg(feature = "freezing")]
impl Header {
    /// Whether it is resident and stays.
    pub(crate) fn is_settled(&self) -> bool {
        self.state.load(Relaxed) & (OCCUPIED | DEAD | LEAVING) == OCCUPIED
    }

    /// Whether its queue has dropped it.
    #[inline]
    pub(crate) fn is_loose(&self) -> bool {
        self.state.load(Relaxed) & LOOSE != 0
    }

    /// Whether it is resident and set aside.
    #[inline(always)]
    pub(crate) fn is_aside(&self) -> bool {
        self.state.load(Relaxed) & (ASIDE | LOOSE) != 0
    }

    /// Marks that the residency is about to end, in a cache that sets entries aside.
    #[inline]
    pub(crate) fn leave(&self) {
        // Relaxed: `set_aside` exchanges the same word, and all other readers are behind a heavy
        // fence.
        self.state.fetch_or(LEAVING, Relaxed);
    }

    /// Asks its queue to leave it alone, or notes that a policy under a lock has set it aside.
    /// False if its residency is ending.
    pub(crate) fn set_aside(&self) -> bool {
        self.state.compare_exchange(OCCUPIED, OCCUPIED | ASIDE, AcqRel, Relaxed).is_ok()
    }

    /// It is no longer left alone. Returns whether it was in no queue, so that the caller has it in
    /// hand.
    pub(crate) fn take_back(&self) -> bool {
        // If it is dropped between the two the second sees it.
        !self.exchange(ASIDE, 0) && self.take_loose()
    }
}

// The smallest entry, key and value of 8 bytes, is 24.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Header>() == 8);

struct Content<K, V, R: SlotRefs> {
    header: Header,
    /// Of size zero in caches without counted holders.
    refs: R,
    key: MaybeUninit<K>,
    value: MaybeUninit<V>,
    _aligned: [R::Align; 0],
}

/// Memory for an entry.
struct Cell<K, V, R: SlotRefs>(Room<K, V, R>);

type Room<K, V, R> = UnsafeCell<MaybeUninit<Content<K, V, R>>>;

impl<K, V, R: SlotRefs> Default for Cell<K, V, R> {
    fn default() -> Self {
        Cell(UnsafeCell::new(MaybeUninit::uninit()))
    }
}

// SAFETY: any bytes are a cell of `MaybeUninit`.
unsafe impl<K, V, R: SlotRefs> ZeroDefault for Cell<K, V, R> {}

/// The address of a slot: for code that reads several parts of it, and computes the address once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'s>(NonNull<()>, PhantomData<&'s ()>);

/// All slots of a cache, numbered from 1.
pub(crate) struct Slab<K, V, R: SlotRefs = ()> {
    entries: Chunks<Cell<K, V, R>>,
    /// By slot; none where every entry weighs 1.
    weights: OnceBox<Chunks<AtomicU64>>,
    weighted: bool,
}

// SAFETY: a slab owns its keys and values; moving it moves them.
unsafe impl<K: Send, V: Send, R: SlotRefs + Send> Send for Slab<K, V, R> {}
// SAFETY: through `&Slab` threads get `&K` and `&V`, so both must be Sync; and a thread may
// drop what another has put in, so both must be Send.
unsafe impl<K: Send + Sync, V: Send + Sync, R: SlotRefs + Send + Sync> Sync for Slab<K, V, R> {}

impl<K, V, R: SlotRefs> Slab<K, V, R> {
    pub(crate) fn new(weighted: bool) -> Self {
        Slab { entries: Chunks::default(), weights: OnceBox::new(), weighted }
    }

    #[inline(always)]
    fn entry(&self, slot: u32) -> *mut Content<K, V, R> {
        debug_assert_ne!(slot, 0);
        // Slots come from `Reclaim::vacant`, which has prepared each of them; every word that holds
        // a slot holds one of those. So the address is of allocated memory.
        self.entries.address(slot).cast()
    }

    /// Where a slot is.
    #[inline(always)]
    pub(crate) fn at(&self, slot: u32) -> At<'_> {
        // SAFETY: a slot of the slab has an address, as argued in `entry`.
        At(unsafe { NonNull::new_unchecked(self.entry(slot).cast()) }, PhantomData)
    }

    /// The policy's data of a slot of this slab.
    #[inline(always)]
    pub(crate) fn header_at(&self, at: At<'_>) -> &Header {
        // SAFETY: it came from `at`, of this slab, and otherwise as in `header`.
        unsafe { &(*at.0.cast::<Content<K, V, R>>().as_ptr()).header }
    }

    /// The key of an occupied slot of this slab.
    ///
    /// # Safety
    ///
    /// As for [`Slab::key`].
    #[inline(always)]
    pub(crate) unsafe fn key_at(&self, at: At<'_>) -> &K {
        // SAFETY: as in `key`.
        unsafe { (*at.0.cast::<Content<K, V, R>>().as_ptr()).key.assume_init_ref() }
    }

    /// The value of an occupied slot of this slab.
    ///
    /// # Safety
    ///
    /// As for [`Slab::key`].
    #[inline(always)]
    pub(crate) unsafe fn value_at(&self, at: At<'_>) -> &V {
        // SAFETY: as in `key`.
        unsafe { (*at.0.cast::<Content<K, V, R>>().as_ptr()).value.assume_init_ref() }
    }

    /// Makes the header of a slot that was never used.
    ///
    /// # Safety
    ///
    /// The caller alone knows the slot, and does this once.
    pub(crate) unsafe fn prepare(&self, slot: u32) {
        self.entries.ensure(slot);
        // Memory comes zeroed, and so do a header and the count of holders: `header_if_made` and
        // `refs_if_made` may be reading them. A checker's atomics are not zeroed.
        #[cfg(any(loom, shuttle))]
        // SAFETY: in bounds, inside a cell, and the slot is not shared (the caller's promise).
        unsafe {
            (&raw mut (*self.entry(slot)).header).write(Header::default());
            (&raw mut (*self.entry(slot)).refs).write(R::default());
        }
        self.refs(slot).prepare(slot);
    }

    /// The same as [`header`](Self::header) for a slot that may never have been prepared; `None` if
    /// there is no memory for it. Under a checker there never is.
    #[cfg(feature = "expiry")]
    #[inline]
    pub(crate) fn header_if_made(&self, slot: u32) -> Option<&Header> {
        if CHECKED {
            return None;
        }
        let cell = self.entries.get(slot)?;
        // SAFETY: the chunk is made, and zeroed: a header, all atomics, without other writers.
        Some(unsafe { &(*cell.0.get().cast::<Content<K, V, R>>()).header })
    }

    /// The policy's data of a slot.
    #[inline(always)]
    pub(crate) fn header(&self, slot: u32) -> &Header {
        // SAFETY: prepared before its number was handed out; never unmapped; all atomics.
        unsafe { &(*self.entry(slot)).header }
    }

    /// The holders of a slot.
    #[inline(always)]
    pub(crate) fn refs(&self, slot: u32) -> &R {
        // SAFETY: as in `header`.
        unsafe { &(*self.entry(slot)).refs }
    }

    /// The holders of a slot that may never have been prepared; `None` if it has no memory. Under a
    /// checker only for a prepared one.
    pub(crate) fn refs_if_made(&self, slot: u32) -> Option<&R> {
        if CHECKED {
            return Some(self.refs(slot));
        }
        let cell = self.entries.get(slot)?;
        // SAFETY: the chunk is made, and zeroed; all atomics, without other writers.
        Some(unsafe { &(*cell.0.get().cast::<Content<K, V, R>>()).refs })
    }

    /// Where the value of a slot of this slab is.
    #[inline(always)]
    pub(crate) fn value_address(&self, at: At<'_>) -> NonNull<V> {
        // SAFETY: it came from `at`, of this slab.
        unsafe {
            NonNull::new_unchecked(
                (&raw mut (*at.0.cast::<Content<K, V, R>>().as_ptr()).value).cast(),
            )
        }
    }

    /// The key beside a value.
    ///
    /// # Safety
    ///
    /// The address came from [`value_address`](Self::value_address), and otherwise as for
    /// [`Slab::key`].
    pub(crate) unsafe fn key_beside<'s>(value: NonNull<V>) -> &'s K {
        // SAFETY: it lies at this offset inside a slot, and there is a key (the caller's promise).
        unsafe {
            let entry = value.byte_sub(std::mem::offset_of!(Content<K, V, R>, value));
            (*entry.cast::<Content<K, V, R>>().as_ptr()).key.assume_init_ref()
        }
    }

    /// The holders of the slot that a value lies in.
    ///
    /// # Safety
    ///
    /// The address came from [`value_address`](Self::value_address) of a slab that still exists.
    #[inline(always)]
    pub(crate) unsafe fn refs_beside<'s>(value: NonNull<V>) -> &'s R {
        // SAFETY: it lies at this offset inside a slot (the caller's promise).
        let entry = unsafe { value.byte_sub(std::mem::offset_of!(Content<K, V, R>, value)) };
        // SAFETY: it belongs to a slot (the caller's promise), and otherwise as in `header`.
        unsafe { &(*entry.cast::<Content<K, V, R>>().as_ptr()).refs }
    }

    /// Prefetches a slot's line.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: u32) {
        crate::core::index::prefetch_for_writing(self.entry(slot).cast());
    }

    /// Prefetches a slot's line, because it will be read soon.
    #[inline(always)]
    pub(crate) fn prefetch_for_reading(&self, slot: u32) {
        crate::core::index::prefetch_for_reading(self.entry(slot).cast());
    }

    /// Puts a key and a value into a vacant slot.
    ///
    /// # Safety
    ///
    /// The caller owns the slot: it came from [`crate::smr::reclaim`] and was not published.
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, slot: u32, key: K, value: V, weight: u64) -> SlotRef<'_> {
        let entry = self.entry(slot);
        // SAFETY: the caller owns the slot, so it has no readers, and it lies in a cell. The
        // header, which others may read, is not written. As in `header`.
        let header = unsafe {
            (&raw mut (*entry).key).write(MaybeUninit::new(key));
            (&raw mut (*entry).value).write(MaybeUninit::new(value));
            &(*entry).header
        };
        if R::COUNTED {
            self.refs(slot).set_weight(weight);
        } else if self.weighted {
            self.weights.get_or_make(Chunks::default).get_or_make(slot).store(weight, Relaxed);
        }
        header.mark.clear();
        header.state.store(OCCUPIED, Relaxed);
        SlotRef { slot, header }
    }

    /// A slot, with its header.
    #[inline(always)]
    pub(crate) fn slot_ref(&self, slot: u32) -> SlotRef<'_> {
        SlotRef { slot, header: self.header(slot) }
    }

    /// The key of an occupied slot.
    ///
    /// # Safety
    ///
    /// The slot is published, and for as long as the reference lives it can't be
    /// vacated: the caller has taken it out of its queue, or protects it (hazard, pin).
    #[inline(always)]
    pub(crate) unsafe fn key(&self, slot: u32) -> &K {
        // SAFETY: occupied, and not vacated meanwhile (the caller's promise).
        unsafe { (*self.entry(slot)).key.assume_init_ref() }
    }

    /// The value of an occupied slot.
    ///
    /// # Safety
    ///
    /// As for [`Slab::key`].
    #[inline(always)]
    pub(crate) unsafe fn value(&self, slot: u32) -> &V {
        // SAFETY: as in `key`.
        unsafe { (*self.entry(slot)).value.assume_init_ref() }
    }

    /// The weight of an occupied slot; 1 without a weigher.
    #[inline(always)]
    pub(crate) fn weight(&self, slot: u32) -> u64 {
        if R::COUNTED {
            return self.refs(slot).weight();
        }
        let weight = self.weights.get().and_then(|weights| weights.get(slot));
        weight.map_or(1, |weight| weight.load(Relaxed))
    }

    /// Drops key and value of a slot. Its queue may still have to find it dead.
    ///
    /// # Safety
    ///
    /// The slot has both, and they are the caller's, who drops them once.
    pub(crate) unsafe fn drop_content(&self, slot: u32) {
        let entry = self.entry(slot);
        // SAFETY: key and value exist, and no other thread uses them (the caller's promise). The
        // value is dropped too if dropping the key panics.
        let content =
            unsafe { ((*entry).key.assume_init_read(), (*entry).value.assume_init_read()) };
        drop(content);
    }

    /// Takes key and value out of an occupied slot.
    ///
    /// # Safety
    ///
    /// The caller owns the slot: it is unlinked, out of its queue, and unprotected.
    pub(crate) unsafe fn vacate(&self, slot: u32) -> (K, V) {
        debug_assert_ne!(self.header(slot).state.load(Relaxed), VACANT);
        self.header(slot).state.store(VACANT, Relaxed);
        let entry = self.entry(slot);
        // SAFETY: occupied, and no other thread can reach it (the caller's promise).
        unsafe { ((*entry).key.assume_init_read(), (*entry).value.assume_init_read()) }
    }

    /// Bytes on the heap, whether mapped or not.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.heap_bytes() + self.weights.get().map_or(0, |weights| weights.heap_bytes())
    }

    /// Whether vacating a slot runs a destructor.
    pub(crate) const NEEDS_DROP: bool = std::mem::needs_drop::<K>() || std::mem::needs_drop::<V>();
}
