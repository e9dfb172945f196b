//! A value that is held.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use foldhash::fast::RandomState;

use crate::features::handles::Counting;

/// What became of an entry that [`HandleCache::insert_held`](crate::HandleCache::insert_held) has brought.
///
/// ```
/// use frazil::{HandleCache, Outcome};
/// let cache: HandleCache<u64, u64> = HandleCache::builder(0).build();
/// assert_eq!(cache.insert_held(1, 10, 1).unwrap().outcome, Outcome::Detached);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its key was absent.
    New,
    /// It has taken the place of another entry of its key.
    Replaced,
    /// It was not admitted: nobody finds it, and it is dropped when it is held no more.
    Detached,
}

/// A value of a [`HandleCache`](crate::HandleCache) that stays for as long as this, or a clone of it, is there:
/// though it is replaced or removed, and though the cache is dropped.
///
/// 16 bytes. A clone and a drop are a locked instruction each; the drop of the last one runs the destructors of key
/// and value if the entry is not resident any more.
///
/// ```
/// let cache: frazil::HandleCache<u64, String> = frazil::HandleCache::builder(100).build();
/// let held = cache.insert_held(1, "one".to_owned(), 1).unwrap().held;
/// drop(cache);
/// let other = held.clone();
/// assert_eq!(std::thread::spawn(move || other.len()).join().unwrap(), held.len());
/// ```
pub struct Held<K, V, S = RandomState> {
    core: NonNull<Counting<K, V, S>>,
    slot: u32,
    owns: PhantomData<Counting<K, V, S>>,
}

// SAFETY: it is a share of a key and a value, and of the core, which its last one may drop.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Send for Held<K, V, S> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Sync for Held<K, V, S> {}

impl<K, V, S> Held<K, V, S> {
    /// # Safety
    ///
    /// Somebody is counted in the slot for this, who lets go of it no more.
    #[inline(always)]
    pub(super) unsafe fn new(core: NonNull<Counting<K, V, S>>, slot: u32) -> Self {
        Held { core, slot, owns: PhantomData }
    }

    /// The slot in which somebody is counted from here on who lets go of it.
    #[inline(always)]
    pub(super) fn into_slot(self) -> u32 {
        std::mem::ManuallyDrop::new(self).slot
    }

    /// The slot in which it is counted, if it is of this cache.
    #[inline(always)]
    pub(super) fn slot_in(&self, core: &Counting<K, V, S>) -> Option<u32> {
        std::ptr::eq(self.core.as_ptr(), core).then_some(self.slot)
    }

    /// The address of the value, which stays held until [`HandleCache::from_raw`] has made a handle of it
    /// again: for a foreign interface, where a handle has to be one word.
    ///
    /// ```
    /// use frazil::{HandleCache, Held};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).build();
    /// let raw = Held::into_raw(cache.insert_held(1, 10, 1).unwrap().held);
    /// assert_eq!(cache.held_usage(), 1);
    /// // SAFETY: it came from `into_raw`, of this cache, and is used once.
    /// drop(unsafe { cache.from_raw(raw) });
    /// assert_eq!(cache.held_usage(), 0);
    /// ```
    ///
    /// [`HandleCache::from_raw`]: crate::HandleCache::from_raw
    #[inline(always)]
    pub fn into_raw(this: Self) -> NonNull<V> {
        let value = this.core().slab.value_address(this.slot);
        std::mem::forget(this);
        value
    }

    #[inline(always)]
    fn core(&self) -> &Counting<K, V, S> {
        // SAFETY: the core is there as long as somebody is counted in one of its slots.
        unsafe { self.core.as_ref() }
    }

    /// The key.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert_eq!(*cache.insert_held(1, 10, 1).unwrap().held.key(), 1);
    /// ```
    pub fn key(&self) -> &K {
        // SAFETY: its content is there as long as somebody is counted.
        unsafe { self.core().slab.key(self.slot) }
    }

    /// What the entry is charged.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert_eq!(cache.insert_held(1, 10, 7).unwrap().held.charge(), 7);
    /// ```
    pub fn charge(&self) -> u64 {
        self.core().slab.weight(self.slot)
    }
}

impl<K, V, S> Deref for Held<K, V, S> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        // SAFETY: as in `key`.
        unsafe { self.core().slab.value(self.slot) }
    }
}

impl<K, V, S> Clone for Held<K, V, S> {
    #[inline]
    fn clone(&self) -> Self {
        self.core().slab.refs(self.slot).hold_more();
        Held { core: self.core, slot: self.slot, owns: PhantomData }
    }
}

impl<K, V, S> Drop for Held<K, V, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: somebody is counted for this, and this is the last look.
        unsafe { Counting::release(self.core, self.slot) };
    }
}

impl<K, V: fmt::Debug, S> fmt::Debug for Held<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&**self).finish()
    }
}
