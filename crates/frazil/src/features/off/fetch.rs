//! In the place of `fetch/`: nothing is ever being loaded.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use equivalent::Equivalent;

use crate::clock::Clock;
use crate::features::Featured;
use crate::features::stats::Stats;

/// The builder's settings of loads and fetches.
pub(crate) struct Settings<K>(PhantomData<fn(K)>);

impl<K> Default for Settings<K> {
    fn default() -> Self {
        Settings(PhantomData)
    }
}

/// A cache's state for them.
pub(crate) struct FetchState<K, V>(PhantomData<fn(K, V)>);

impl<K, V> FetchState<K, V> {
    pub(crate) fn new(_: &Clock, _: Settings<K>) -> Self {
        FetchState(PhantomData)
    }

    pub(crate) fn attended(&self) -> usize {
        0
    }

    pub(crate) fn add_to(&self, _: &mut Stats) {}

    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    #[inline(always)]
    pub(crate) fn overtake<Q: Equivalent<K> + ?Sized>(&self, _: u64, _: &Q) {}

    #[inline(always)]
    pub(crate) fn overtake_loads(&self) {}

    #[inline(always)]
    pub(crate) fn overtake_all(&self) {}
}
