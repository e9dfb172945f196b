//! The controller of a cache: its input and its state.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use frazil_freezing::{
    Controlled, Counts, FreezingState, Learner, Samples, Steering, Subject, Teacher,
};
use frazil_policy::Online;

use super::learn::Watch;
use super::{Freezes, Overlay};
use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::order::Order;
use crate::events;
use crate::features::gate::Gate;
use crate::sync::Mutex;

/// The longest that the thread sleeps before it checks whether the cache still exists.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// The state of a cache that freezes by itself.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(super) watch: Watch,
    /// Held for a step.
    steering: Mutex<Steering>,
    /// The result of the last step. The lock is held only for a moment.
    pub(crate) state: Mutex<FreezingState>,
    /// Whether a thread runs the controller.
    pub(crate) controlled: Controlled,
}

impl Learned {
    /// A frozen share lasts `lifetime` times as long as its construction.
    pub(super) fn new(lifetime: Option<u32>) -> Self {
        let steering = lifetime.map_or_else(Steering::default, Steering::new);
        let state = steering.state();
        Learned {
            watch: Watch::default(),
            steering: Mutex::new(steering),
            state: Mutex::new(state),
            controlled: Controlled::default(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.watch.heap_bytes()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Freezes<K, V>> Core<K, V, S, H> {
    /// One step of the controller. Returns how long there will be nothing to do.
    pub(crate) fn step_freezing(&self, now: Duration) -> Duration {
        let Some(learned) = self.learned() else { return LOOK };
        let Some(mut held) = learned.steering.try_lock() else { return LOOK };
        let step = held.step(now, &Learning { core: self, watch: &learned.watch });
        let state = step.state;
        *learned.state.lock() = state.clone();
        // The receiver of an event may read the state, and thaw.
        drop(held);
        if step.frozen > 0 {
            events::event!(self, DEBUG, "frozen", entries = step.frozen, share = state.share);
        }
        if step.changed {
            events::event!(
                self,
                DEBUG,
                "freezing",
                phase = ?state.phase,
                reason = ?state.reason,
                share = state.share,
                frozen_hit_share = state.frozen_hit_share,
                dynamic_hit_share = state.dynamic_hit_share,
                latency_ns = state.latency_ns,
                threshold_ns = state.threshold_ns
            );
        }
        step.idle
    }

    /// The learner's state, in a cache that learns.
    pub(crate) fn learned(&self) -> Option<&Learned> {
        self.hooks.overlay()?.learned.as_deref()
    }

    /// Its controller; none in a cache that does not learn.
    pub(crate) fn controlled(&self) -> &Controlled {
        static NEVER: Controlled = Controlled::new();
        self.learned().map_or(&NEVER, |learned| &learned.controlled)
    }

    fn coldest_first(&self) -> Vec<u32> {
        self.order.coldest_first(self, &self.segments, &self.stripes)
    }

    /// Leaves the cache as if nothing had ever been frozen.
    pub(crate) fn end_freezing(&self) {
        let Some(learned) = self.learned() else { return };
        let gate = self.hooks.gate();
        learned.watch.learner.stop(gate);
        learned.watch.learner.stop_timing(gate);
        // Not waited for: user code may run in a step.
        if let Some(mut steering) = learned.steering.try_lock() {
            steering.restart();
            *learned.state.lock() = steering.state();
        }
        self.thaw();
    }
}

/// A cache that learns.
struct Learning<'c, K, V, S, H: PerThread> {
    core: &'c Core<K, V, S, H>,
    watch: &'c Watch,
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Freezes<K, V>> Subject for Learning<'_, K, V, S, H> {
    type Gate = Gate;

    fn gate(&self) -> &Gate {
        self.core.hooks.gate()
    }

    fn learner(&self) -> &Learner {
        &self.watch.learner
    }

    /// An order by frequency shows the hottest entries (§3.3); in a list that hits change, a marker
    /// does. Lock-free queues do neither: for Mobius's hottest tenth a marker predicted half of the
    /// hits, and it got a thirtieth.
    fn teacher(&self) -> Teacher {
        match (&self.core.order, self.core.policy) {
            (Order::Locked(_), Online::Lfu | Online::WTinyLfu | Online::Gdsf) => Teacher::Order,
            (Order::Locked(_), _) => Teacher::Marker,
            _ => Teacher::Count,
        }
    }

    fn entries(&self) -> u64 {
        self.core.entries()
    }

    fn counts(&self) -> Counts {
        let stats = H::stats(self.core);
        Counts {
            frozen_hits: stats.frozen_hits,
            hits: stats.hits,
            misses: stats.misses + stats.delayed_hits,
            loads: stats.loads,
            load_nanoseconds: stats.load_nanoseconds,
            gone: stats.evictions + stats.removals + stats.expirations,
        }
    }

    fn samples(&self) -> impl Iterator<Item = &Samples> {
        let stripes = self.core.stripes.iter();
        stripes.filter_map(|stripe| Some(&**H::watched(&stripe.local.features).samples.get()?))
    }

    fn is_frozen(&self) -> bool {
        self.core.hooks.overlay().is_some_and(Overlay::is_in_use)
    }

    fn set_all(&self, byte: u8) {
        self.watch.set_all(self.core.expected_slots(), byte);
    }

    fn give_ranks(&self, by_count: bool) {
        let mut order = self.core.coldest_first();
        if by_count {
            self.watch.sort_by_count(&mut order);
        }
        self.watch.give_ranks(self.core.expected_slots(), &order);
    }

    fn freeze(&self, share: f64) -> Option<u64> {
        self.core.freeze_untold(share)
    }

    fn thaw(&self) {
        self.core.thaw();
    }
}
