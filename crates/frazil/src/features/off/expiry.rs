//! Replaces `expiry/` without the feature: no entry has a lifetime.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::time::Duration;

use crate::core::Ending;
use crate::core::slab::At;
use crate::features::Featured;
use crate::sync::atomic::AtomicU16;

/// The builder's settings of lifetimes.
pub(crate) struct Terms<K, V>(PhantomData<fn(K, V)>);

impl<K, V> Default for Terms<K, V> {
    fn default() -> Self {
        Terms(PhantomData)
    }
}

#[cfg(feature = "freezing")]
impl<K, V> Terms<K, V> {
    pub(crate) fn are_set(&self) -> bool {
        false
    }
}

/// When an entry expires: never.
#[derive(Clone, Copy)]
pub(crate) struct Term;

#[cfg(feature = "recording")]
impl Term {
    pub(crate) fn recorded_ns(&self) -> u64 {
        0
    }
}

/// The hooks of expiry.
pub(crate) struct Expiry<K, V>(PhantomData<fn(K, V)>);

/// There are none.
pub(crate) enum Deadlines {}

impl<K, V> Expiry<K, V> {
    pub(crate) fn new(_: Terms<K, V>, _: u64) -> Self {
        Expiry(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn deadlines(&self) -> Option<&Deadlines> {
        None
    }

    #[inline(always)]
    pub(crate) fn ended(&self, _: u32, ending: Ending) -> Ending {
        ending
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        0
    }

    #[cfg(feature = "recording")]
    pub(crate) fn recorded(&self) -> frazil_recording::Lifetimes {
        frazil_recording::Lifetimes::None
    }
}

impl Deadlines {
    pub(crate) fn begin(&self, _: u32, _: Term, _: &AtomicU16) {
        match *self {}
    }

    pub(crate) fn queued(&self, _: u32) {
        match *self {}
    }

    pub(crate) fn end(&self, _: u32) {
        match *self {}
    }

    #[cfg(feature = "loading")]
    pub(crate) fn limit(&self, _: u32) -> u64 {
        match *self {}
    }

    pub(crate) fn check(&self, _: impl Fn(u32) -> bool) -> Result<(), String> {
        match *self {}
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    #[inline(always)]
    pub(crate) fn expire_share(&self) {}

    #[inline(always)]
    pub(crate) fn term(&self, _: &K, _: &V) -> Term {
        Term
    }

    #[cfg(feature = "loading")]
    pub(crate) fn term_for(&self, _: &K, _: Duration) -> Term {
        Term
    }

    pub(crate) fn term_restored(&self, _: &K, _: &V, _: Option<Duration>) -> Term {
        Term
    }

    pub(crate) fn outlive_all(&self) {
        unreachable!("all is cleared instead");
    }

    #[inline(always)]
    pub(crate) fn has_expired(&self, _: u32) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn has_expired_in_use(&self, _: u32, _: At<'_>) -> bool {
        false
    }

    pub(crate) fn left_in_use(&self, _: u32) -> Option<Duration> {
        Some(Duration::MAX)
    }
}
