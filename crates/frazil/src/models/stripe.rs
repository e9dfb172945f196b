//! The biased lock of a stripe: never two holders at once, and each sees what the last one wrote.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::together;
use crate::smr::stripe::Stripe;

struct Guarded {
    stripe: Stripe,
    /// Written by the holder of the stripe.
    content: UnsafeCell<u32>,
}

// SAFETY: the models touch `content` only while they hold the stripe, which loom checks.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn change(&self) {
        // SAFETY: loom checks this access.
        self.content.with_mut(|content| unsafe { *content += 1 });
    }

    /// Works as the owner; returns how often it had the stripe.
    fn own(&self) -> u32 {
        let held = self.stripe.own();
        if held.is_some() {
            self.change();
        }
        u32::from(held.is_some())
    }

    /// Works as another thread.
    fn claim(&self) -> u32 {
        let held = self.stripe.claim();
        if held.is_some() {
            self.change();
        }
        u32::from(held.is_some())
    }
}

fn check(threads: &'static [fn(&Guarded) -> u32]) {
    loom::model(|| {
        let guarded = Arc::new(Guarded { stripe: Stripe::default(), content: UnsafeCell::new(0) });
        let worked: u32 = together(&guarded, threads).iter().sum();
        // SAFETY: the threads have ended.
        assert_eq!(guarded.content.with(|content| unsafe { *content }), worked);
        // A thread that gave up has left no flag.
        assert_eq!((guarded.own(), guarded.claim()), (1, 1));
    });
}

#[test]
fn owner_and_claimant_exclude_each_other() {
    check(&[|guarded| guarded.own() + guarded.own(), Guarded::claim]);
}

#[test]
fn two_claimants_and_the_owner_exclude_each_other() {
    check(&[Guarded::own, Guarded::claim, Guarded::claim]);
}

/// As user code in a callback does.
#[test]
fn who_is_called_back_while_at_work_finds_the_stripe_taken() {
    loom::model(|| {
        let stripe: Stripe = Stripe::default();
        let held = stripe.own();
        assert!(held.is_some() && stripe.own().is_none() && stripe.claim().is_none());
        drop(held);
        let held = stripe.claim();
        assert!(held.is_some() && stripe.own().is_none() && stripe.claim().is_none());
    });
}
