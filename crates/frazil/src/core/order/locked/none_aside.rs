//! In the place of `set_aside.rs` where no caller sets anything aside.

use std::convert::Infallible;
use std::marker::PhantomData;

use frazil_policy::{HotFirst, Policy, Slot};

use super::policy_shard::View;

/// A policy's ways with what is set aside, which nobody asks for.
pub(super) struct Ways<P: Policy>(PhantomData<P>);

impl<P: HotFirst> Ways<P> {
    pub(super) fn new() -> Self {
        Ways(PhantomData)
    }
}

/// Those that a shard has: none.
pub(super) struct Unused<P: Policy> {
    _never: Infallible,
    pub(super) remove: fn(&mut P, &mut View<'_, P::Meta>, Slot),
    pub(super) reweigh: fn(&mut P, &mut View<'_, P::Meta>, Slot, u64),
}

/// What a shard has set aside: nothing.
pub(super) struct SetAside<P: Policy> {
    pub(super) ways: Option<Unused<P>>,
    pub(super) walking: bool,
    pub(super) weight: u64,
}

impl<P: Policy> SetAside<P> {
    pub(super) fn new(_: Option<Ways<P>>) -> Self {
        SetAside { ways: None, walking: false, weight: 0 }
    }

    #[inline(always)]
    pub(super) fn has(&self, _: Slot) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn hides(&self, _: Slot) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn pass(&mut self, _: &P, _: Slot) {}

    pub(super) fn after_cursor(&self, _: &P) -> (Option<Slot>, Option<Slot>) {
        (None, None)
    }

    pub(super) fn go_on_from(&mut self, _: Option<Slot>) {}

    pub(super) fn take(&mut self, _: Slot, _: u64) {}

    pub(super) fn heap_bytes(&self) -> usize {
        0
    }
}
