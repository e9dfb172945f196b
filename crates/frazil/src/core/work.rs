//! The buffers that a thread holds while it works.

use std::hash::{BuildHasher, Hash};

use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::local::{Held, Stripe};
use crate::core::order::QueueCtx;
use crate::smr::stripe::{Traffic, add};
use crate::smr::thread;

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    /// A stripe's buffers: the thread's own, or, if those are in use, those of a number that no
    /// thread has.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Held<'_, H::Local> {
        self.hold_of(self.stripe())
    }

    /// The same for a thread that already has its stripe.
    #[inline(always)]
    pub(super) fn hold_of<'c>(&'c self, stripe: &'c Stripe<H::Local>) -> Held<'c, H::Local> {
        stripe.reader.progress.pass(self.reclaim.epoch());
        match stripe.own() {
            // After the light fence of `own`. Partner: the heavy fence of `Stripes::stop`.
            Some(held) if !self.stripes.is_stopped() => held,
            held => {
                drop(held);
                self.hold_another()
            }
        }
    }

    /// For a thread whose stripe another thread is emptying, or that is already at work and was
    /// called back by user code. No thread waits: there are more numbers than threads.
    #[cold]
    fn hold_another(&self) -> Held<'_, H::Local> {
        let mut leases = Vec::new();
        loop {
            // Only for a thread that replaces the table.
            self.stripes.wait();
            if let Some(held) = self.stripe().own().filter(|_| !self.stripes.is_stopped()) {
                return held;
            }
            let lease = thread::Lease::new();
            let stripe = self.stripes.of(lease.number());
            if let Some(mut held) = stripe.own() {
                stripe.set_claimant();
                if self.stripes.is_stopped() {
                    continue;
                }
                held.traffic.retries += 1;
                // The next owner of the number finds the stripe busy.
                return held;
            }
            leases.push(lease);
        }
    }

    /// Returns credit beyond a thread's limit, and counts its writes to shared lines.
    #[inline(always)]
    pub(crate) fn settle(&self, held: &mut Held<'_, H::Local>) {
        let buffers = &mut **held;
        self.entry_budget.settle(&mut buffers.above.entry_credit, &mut buffers.traffic);
        if let Some(weights) = &self.weights {
            weights.settle(&mut buffers.above.weight_credit, &mut buffers.traffic);
            self.reclaim.settle(&self.segments, buffers);
        }
        if buffers.traffic.retries | buffers.traffic.writes != 0 {
            let Traffic { retries, writes } = std::mem::take(&mut buffers.traffic);
            add(&held.local().counts.retries, retries);
            add(&held.local().counts.shared_writes, writes);
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: PerThread> Core<K, V, S, H> {
    /// Lets a policy work with these buffers.
    #[inline(always)]
    pub(crate) fn with_queue_ctx<R>(
        &self,
        held: &mut Held<'_, H::Local>,
        work: impl FnOnce(&mut QueueCtx<'_, Self>) -> R,
    ) -> R {
        work(&mut self.queue_ctx(held))
    }

    /// The context itself, because a closure may not be inlined.
    #[inline(always)]
    pub(super) fn queue_ctx<'h>(&'h self, held: &'h mut Held<'_, H::Local>) -> QueueCtx<'h, Self> {
        let outside = held.outside();
        QueueCtx {
            segments: &self.segments,
            reclaim: &self.reclaim,
            headers: self,
            buffers: held,
            outside,
        }
    }
}
