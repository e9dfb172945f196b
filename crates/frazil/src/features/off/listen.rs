//! In the place of `listen.rs`: no listener learns of entries that leave.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::core::Ending;
use crate::features::Featured;

/// The listener: there is none.
pub(crate) struct Listener<K, V>(Infallible, PhantomData<fn(K, V)>);

/// An operation with calls of a listener: there is none.
pub(crate) struct Telling<'c, K, V, S>(Infallible, PhantomData<&'c Featured<K, V, S>>);

impl<K, V, S> Featured<K, V, S> {
    #[inline(always)]
    pub(crate) fn telling(&self) -> Option<Telling<'_, K, V, S>> {
        None
    }

    #[cfg(feature = "expiry")]
    pub(crate) fn is_in_listener(&self) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn note(&self, _: u32, _: Ending) {}
}

impl<K, V, S> Telling<'_, K, V, S> {
    pub(crate) fn pause(&mut self) {
        match self.0 {}
    }

    pub(crate) fn resume(&mut self) {
        match self.0 {}
    }

    #[cfg(feature = "loading")]
    pub(crate) fn refuse(&mut self, _: K, _: V) {
        match self.0 {}
    }

    pub(crate) fn conclude(self, _: K, _: V) -> (K, V) {
        match self.0 {}
    }
}

impl<K, V, S> Drop for Telling<'_, K, V, S> {
    fn drop(&mut self) {
        match self.0 {}
    }
}
