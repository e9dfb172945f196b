//! In the place of `frozen/`: nothing is ever frozen.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use equivalent::Equivalent;

use crate::core::Core;
use crate::core::hooks::Hooks;
use crate::core::local::Reads;
use crate::core::slab::Header;
use crate::smr::protect::Protect;

/// The builder's settings of freezing.
pub(crate) struct Settings<K, V>(PhantomData<fn(K, V)>);

impl<K, V> Default for Settings<K, V> {
    fn default() -> Self {
        Settings(PhantomData)
    }
}

/// The state of every cache for it.
pub(crate) type MaybeFrozen<K, V> = Option<Frozen<K, V>>;

/// The state of a cache that freezes: there is none.
pub(crate) struct Frozen<K, V> {
    pub(crate) overlay: Overlay,
    of: PhantomData<fn(K, V)>,
}

/// The state of every cache with handles.
pub(crate) type MaybeOverlay = Option<Overlay>;

/// The same for one with handles.
pub(crate) struct Overlay(Infallible);

/// The data of each thread.
#[derive(Debug, Default)]
pub(crate) struct Local;

impl Local {
    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }
}

impl<K, V> Frozen<K, V> {
    pub(crate) fn new(_: Settings<K, V>) -> MaybeFrozen<K, V> {
        None
    }

    pub(crate) fn leave(&self, _: &Header, _: u32) {
        match self.overlay.0 {}
    }

    pub(crate) fn find<'p, Q: Equivalent<K> + ?Sized>(
        &'p self,
        _: &'p impl Protect,
        _: u64,
        _: &Q,
    ) -> Option<&'p V> {
        match self.overlay.0 {}
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self.overlay.0 {}
    }
}

impl Overlay {
    pub(crate) fn heap_bytes(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn queueing(&self, _: u32, _: Option<u32>) {
        match self.0 {}
    }

    pub(crate) fn is_whole(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn clear_whole(&self) {
        match self.0 {}
    }

    pub(crate) fn leave(&self, _: &Header) {
        match self.0 {}
    }

    pub(crate) fn claims(&self, _: &Header) -> bool {
        match self.0 {}
    }

    pub(crate) fn has_aside(&self, _: &Header) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_in_use(&self) -> bool {
        match self.0 {}
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    #[inline(always)]
    pub(crate) fn thaw(&self) {}

    #[inline(always)]
    pub(crate) fn append_frozen(&self, _: &mut Vec<u32>) {}
}

/// Counts the arrival of a key that a thread is about to insert. It ends no miss that is timed.
#[inline(always)]
pub(crate) fn arrive(reads: &Reads, _: &Local, hash: u64) -> bool {
    reads.arrive(hash);
    false
}

/// A get that is looked at: there is none.
pub(crate) struct Look(Infallible);

impl<K: Hash + Eq, V, S, H: Hooks<K, V>> Core<K, V, S, H> {
    #[inline(always)]
    pub(crate) fn begin_look(&self) -> Option<Look> {
        None
    }

    #[inline(always)]
    pub(crate) fn begin_look_untimed(&self) -> Option<Look> {
        None
    }

    pub(crate) fn end_timed_miss(&self) {}
}

impl Look {
    pub(crate) fn end(self, _: u64, _: bool, _: impl FnOnce() -> Option<u32>) {
        match self.0 {}
    }
}
