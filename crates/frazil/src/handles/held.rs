//! Handles: values that stay readable while a handle exists.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use foldhash::fast::RandomState;

use crate::core::slab::Slab;
use crate::features::handles::Counting;
use crate::smr::refs::{Refs, SlotRefs as _};

/// The outcome of an insertion by [`HandleCache::insert_held`](crate::HandleCache::insert_held).
///
/// ```
/// use frazil::{HandleCache, Outcome};
/// let cache: HandleCache<u64, u64> = HandleCache::builder(100).build();
/// assert_eq!(cache.insert_held(1, 10, 200).unwrap().outcome, Outcome::New);
/// assert_eq!(cache.insert_held(2, 20, u64::MAX).unwrap().outcome, Outcome::Detached);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its key was absent.
    New,
    /// It replaced another entry of its key.
    Replaced,
    /// It was not admitted: no look-up finds it, and it is dropped with its last handle.
    Detached,
}

/// A value of a [`HandleCache`](crate::HandleCache) that stays as long as this or a clone of it
/// exists, even if the entry is replaced or removed, or the cache dropped.
///
/// 16 bytes. A clone and a drop are a locked instruction each; the drop of the last one runs the
/// destructors of key and value if the entry is not resident any more.
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
    value: NonNull<V>,
    owns: PhantomData<Counting<K, V, S>>,
}

// SAFETY: it is a share of a key and a value, and of the core, which its last one may drop.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Send for Held<K, V, S> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Send + Sync> Sync for Held<K, V, S> {}

impl<K, V, S> Held<K, V, S> {
    /// # Safety
    ///
    /// It is the value of a slot of this core, in which a holder is counted for this handle that
    /// does not release it otherwise.
    #[inline(always)]
    pub(super) unsafe fn new(core: NonNull<Counting<K, V, S>>, value: NonNull<V>) -> Self {
        Held { core, value, owns: PhantomData }
    }

    /// The word that counts it.
    #[inline(always)]
    pub(super) fn refs(&self) -> &Refs {
        // SAFETY: the value of a slot, whose core exists as long as a holder is counted in it.
        unsafe { Slab::<K, V, Refs>::refs_beside(self.value) }
    }

    /// Whether it is of this cache.
    #[inline(always)]
    pub(super) fn is_of(&self, core: &Counting<K, V, S>) -> bool {
        std::ptr::eq(self.core.as_ptr(), core)
    }

    /// Turns the handle into the value's address, for a foreign interface in which a handle must be
    /// one word. The value stays held until [`HandleCache::from_raw`] makes a handle of it again.
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
        std::mem::ManuallyDrop::new(this).value
    }

    /// The key.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert_eq!(*cache.insert_held(1, 10, 1).unwrap().held.key(), 1);
    /// ```
    pub fn key(&self) -> &K {
        // SAFETY: its content exists as long as a holder is counted.
        unsafe { Slab::<K, V, Refs>::key_beside(self.value) }
    }

    /// The entry's charge.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert_eq!(cache.insert_held(1, 10, 7).unwrap().held.charge(), 7);
    /// ```
    pub fn charge(&self) -> u64 {
        self.refs().weight()
    }
}

impl<K, V, S> Deref for Held<K, V, S> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        // SAFETY: as in `key`.
        unsafe { self.value.as_ref() }
    }
}

impl<K, V, S> Clone for Held<K, V, S> {
    #[inline]
    fn clone(&self) -> Self {
        let refs = self.refs();
        // SAFETY: the core exists as long as a holder is counted.
        if !unsafe { self.core.as_ref() }.hold_more(refs) {
            refs.hold_more();
        }
        Held { core: self.core, value: self.value, owns: PhantomData }
    }
}

impl<K, V, S> Drop for Held<K, V, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a holder is counted for this handle, and this is its last access.
        unsafe { Counting::release(self.core, self.refs()) };
    }
}

impl<K, V: fmt::Debug, S> fmt::Debug for Held<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&**self).finish()
    }
}
