//! In the place of `frozen/`: nothing is ever frozen.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use equivalent::Equivalent;

use crate::core::local;
use crate::core::slab::Header;
use crate::features::{self, Featured};
use crate::smr::protect::Protect;

/// What a builder says of it.
pub(crate) struct Settings<K, V>(PhantomData<fn(K, V)>);

impl<K, V> Default for Settings<K, V> {
    fn default() -> Self {
        Settings(PhantomData)
    }
}

/// What every cache has for it.
pub(crate) type MaybeFrozen<K, V> = Option<Frozen<K, V>>;

/// What a cache that freezes has for it: there is none.
pub(crate) struct Frozen<K, V>(Infallible, PhantomData<fn(K, V)>);

/// What is kept for each thread.
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

    pub(crate) fn queueing(&self, _: u32, _: Option<u32>) {
        match self.0 {}
    }

    pub(crate) fn is_whole(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn clear_whole(&self) {
        match self.0 {}
    }

    pub(crate) fn leave(&self, _: &Header, _: u32) {
        match self.0 {}
    }

    pub(crate) fn find<'p, Q: Equivalent<K> + ?Sized>(
        &'p self,
        _: &'p impl Protect,
        _: u64,
        _: &Q,
    ) -> Option<&'p V> {
        match self.0 {}
    }

    pub(crate) fn claims(&self, _: &Header) -> bool {
        match self.0 {}
    }

    pub(crate) fn copied(&self) -> Vec<u32> {
        match self.0 {}
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self.0 {}
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    #[inline(always)]
    pub(crate) fn thaw(&self) {}

    #[inline(always)]
    pub(crate) fn append_frozen(&self, _: &mut Vec<u32>) {}
}

/// Counts the arrival of a key that a thread is about to insert. It ends no miss that is timed.
#[inline(always)]
pub(crate) fn arrive(local: &local::Local<features::Local>, hash: u64) -> bool {
    local.reads.arrive(hash);
    false
}

/// A get that is looked at: there is none.
pub(crate) struct Look(Infallible);

impl<K, V, S> Featured<K, V, S> {
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
