//! The policies' queues: a slot is taken once, and queues trade places once.

use std::sync::Arc;

use super::{large_model, together};
use crate::Policy;
use crate::core::local::Buffers;
use crate::core::order::locked::Promotion;
use crate::core::order::testing::Bench;
use crate::core::order::{Decision, Headers, Newcomer, Order};
use crate::core::slab::DEAD;
use crate::sync::atomic::Ordering::Release;

fn newcomer() -> Newcomer {
    Newcomer::new(0, 1)
}

struct Queued {
    bench: Bench,
    order: Order,
}

impl Queued {
    /// Slots up to `last`, in segments of one.
    fn new(policy: Policy, last: u32) -> Self {
        let bench = Bench::new(last, 1);
        let order =
            Order::new((policy, true), (Promotion::of(policy), 1), last.into(), last.into());
        Queued { bench, order }
    }

    fn insert(&self, slot: u32) {
        let slot = self.bench.headers.slot_ref(slot);
        self.order.insert(&mut self.bench.ctx(&mut Buffers::default()), slot, &newcomer());
    }

    /// Takes a victim and retires it.
    fn evict(&self) -> Option<u32> {
        let mut buffers = Buffers::default();
        let decision = self.order.evict(&mut self.bench.ctx(&mut buffers), None);
        self.order.flush(&mut self.bench.ctx(&mut buffers));
        match decision {
            Decision::Victim(slot) => Some(slot),
            _ => None,
        }
    }

    fn mark(&self, slot: u32) {
        self.bench.headers.header(slot).mark.raise(1);
    }

    fn drain(&self) -> Vec<u32> {
        std::iter::from_fn(|| self.evict()).collect()
    }

    fn trades(&self) -> u64 {
        match &self.order {
            Order::Mobius(mobius) => mobius.trades(),
            _ => 0,
        }
    }
}

#[test]
fn two_evictors_trade_the_queues_once() {
    large_model(|| {
        let queued = Arc::new(Queued::new(Policy::Mobius, 2));
        for slot in [1, 2] {
            queued.insert(slot);
            queued.mark(slot);
        }
        let threads: [fn(&Queued) -> Vec<u32>; 2] =
            [|queued| Vec::from_iter(queued.evict()), |queued| Vec::from_iter(queued.evict())];
        let mut victims = together(&queued, &threads).concat();
        // All marked entries have moved to the other queue.
        assert_eq!(queued.trades(), 1);
        victims.extend(queued.drain());
        victims.sort_unstable();
        assert_eq!(victims, [1, 2]);
    });
}

#[test]
fn an_entry_that_comes_while_queues_trade_is_not_lost() {
    loom::model(|| {
        let queued = Arc::new(Queued::new(Policy::Mobius, 2));
        queued.insert(1);
        queued.mark(1);
        let threads: [fn(&Queued) -> Vec<u32>; 2] = [
            |queued| Vec::from_iter(queued.evict()),
            |queued| {
                queued.insert(2);
                Vec::new()
            },
        ];
        let mut victims = together(&queued, &threads).concat();
        victims.extend(queued.drain());
        victims.sort_unstable();
        assert_eq!(victims, [1, 2]);
    });
}

/// A removal takes the slot from the middle of the queue, an evictor from its end.
#[test]
fn a_slot_is_taken_by_the_evictor_or_the_removal() {
    for policy in [Policy::Fifo, Policy::Mobius] {
        loom::model(move || {
            let queued = Arc::new(Queued::new(policy, 2));
            queued.insert(1);
            let evictor: fn(&Queued) -> bool = |queued| {
                let mut buffers = Buffers::default();
                let mut ctx = queued.bench.ctx(&mut buffers);
                if let Decision::Victim(slot) = queued.order.evict(&mut ctx, None) {
                    // Perhaps into the very word that it was queued in.
                    ctx.retire(slot);
                }
                false
            };
            let removal: fn(&Queued) -> bool = |queued| {
                let mut buffers = Buffers::default();
                queued.bench.headers.header(1).state.store(DEAD, Release);
                queued.order.detach(&mut queued.bench.ctx(&mut buffers), 1)
            };
            let detached = together(&queued, &[evictor, removal]).contains(&true);
            // The evictor retires the slot that it takes, dead or alive; the removal has not.
            assert_eq!(u64::from(detached) + queued.bench.reclaim.waiting(), 1);
            assert!(queued.drain().is_empty());
        });
    }
}

/// A removal may come before the slot is queued, without evictions: one of the two takes it
/// nevertheless.
#[test]
fn a_slot_that_dies_before_it_is_queued_is_taken_once() {
    for policy in [Policy::Fifo, Policy::Mobius] {
        loom::model(move || {
            let queued = Arc::new(Queued::new(policy, 2));
            let insertion: fn(&Queued) -> bool = |queued| {
                queued.insert(1);
                let mut buffers = Buffers::default();
                let mut ctx = queued.bench.ctx(&mut buffers);
                ctx.has_died(queued.bench.headers.slot_ref(1)) && queued.order.detach(&mut ctx, 1)
            };
            let removal: fn(&Queued) -> bool = |queued| {
                let mut buffers = Buffers::default();
                let mut ctx = queued.bench.ctx(&mut buffers);
                queued.bench.headers.header(1).state.store(DEAD, Release);
                queued.order.detach(&mut ctx, 1) || queued.order.detach_late(&mut ctx, 1)
            };
            let taken = together(&queued, &[insertion, removal]);
            assert_eq!(taken.into_iter().filter(|taken| *taken).count(), 1);
            assert!(queued.drain().is_empty());
        });
    }
}

/// A replacement takes the old slot's place, or finds that an evictor has it.
#[test]
fn a_replacement_and_an_evictor_do_not_both_have_the_slot() {
    loom::model(|| {
        let queued = Arc::new(Queued::new(Policy::Mobius, 2));
        queued.insert(1);
        let evictor: fn(&Queued) -> Vec<u32> = |queued| Vec::from_iter(queued.evict());
        let replacement: fn(&Queued) -> Vec<u32> = |queued| {
            let mut buffers = Buffers::default();
            let replaced = queued.order.replace(&mut queued.bench.ctx(&mut buffers), 1, 2);
            Vec::from_iter(replaced.then_some(1))
        };
        let mut taken = together(&queued, &[evictor, replacement]).concat();
        taken.extend(queued.drain());
        taken.sort_unstable();
        assert!(taken == [1] || taken == [1, 2], "{taken:?}");
    });
}
