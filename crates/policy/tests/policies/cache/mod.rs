//! A small cache that hosts any policy: the plainest possible host, with
//! everything that a real one has (weights, a clock, deletes, resizing).
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part of it.

use std::collections::BTreeMap;

use frazil_policy::{Eviction, Host, Incoming, Policy, Slot, Work, WorkCounts, object_hash};

/// The cache as the policy sees it.
#[derive(Default)]
pub struct Slots<M> {
    pub now: u64,
    pub meta: Vec<M>,
    pub weight: Vec<u64>,
    pub id: Vec<u64>,
    pub counts: WorkCounts,
    /// Whether the policy may call for hashes.
    pub remembers: bool,
    /// Duration of fetches, if they take time.
    pub fetch_ticks: Option<u64>,
}

impl<M> Host<M> for Slots<M> {
    fn now(&self) -> u64 {
        self.now
    }
    fn meta(&self, slot: Slot) -> &M {
        &self.meta[slot.index()]
    }
    fn hash(&self, slot: Slot) -> u64 {
        assert!(self.remembers, "the policy said that it would not ask");
        object_hash(self.id[slot.index()], 1)
    }
    fn weight(&self, slot: Slot) -> u64 {
        self.weight[slot.index()]
    }
    fn fetch_ticks(&self) -> Option<u64> {
        self.fetch_ticks
    }
    fn count(&mut self, work: Work, times: u32) {
        self.counts.add(work, times);
    }
}

/// A cache of ids.
pub struct Cache<P: Policy> {
    pub policy: P,
    pub slots: Slots<P::Meta>,
    pub index: BTreeMap<u64, Slot>,
    pub capacity: u64,
    pub free: Vec<Slot>,
    /// Fetches under way.
    flights: BTreeMap<u64, Incoming<P::Pending>>,
}

impl<P: Policy> Cache<P> {
    pub fn new(policy: P, capacity: u64) -> Self {
        Cache {
            policy,
            slots: Slots {
                now: 0,
                meta: vec![],
                weight: vec![],
                id: vec![],
                counts: WorkCounts::default(),
                remembers: P::REMEMBERS,
                fetch_ticks: None,
            },
            index: BTreeMap::new(),
            capacity,
            free: vec![],
            flights: BTreeMap::new(),
        }
    }

    pub fn used(&self) -> u64 {
        self.index.values().map(|slot| self.slots.weight[slot.index()]).sum()
    }

    /// A request whose fetch takes no time. True on a hit.
    pub fn request(&mut self, id: u64, weight: u64) -> bool {
        if self.begin(id, weight) {
            return true;
        }
        self.commit(id);
        false
    }

    /// A request; a miss starts a fetch that [`Cache::commit`] ends. True on a hit.
    pub fn begin(&mut self, id: u64, weight: u64) -> bool {
        self.slots.now += 1;
        if let Some(&slot) = self.index.get(&id) {
            self.policy.hit(&mut self.slots, slot);
            let old = self.slots.weight[slot.index()];
            if old != weight {
                self.slots.weight[slot.index()] = weight;
                self.policy.reweigh(&mut self.slots, slot, old);
                self.make_room(0, None);
            }
            return true;
        }
        if let Some(flight) = self.flights.get_mut(&id) {
            self.policy.delayed_hit(&mut self.slots, flight);
            return false;
        }
        let hash = object_hash(id, 1);
        let pending = self.policy.miss(&mut self.slots, hash, weight);
        self.flights.insert(id, Incoming { hash, weight, pending });
        false
    }

    /// The fetch for `id` has ended.
    pub fn commit(&mut self, id: u64) {
        let Some(incoming) = self.flights.remove(&id) else { return };
        if incoming.weight > self.capacity || !self.make_room(incoming.weight, Some(&incoming)) {
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.meta.push(P::Meta::default());
            self.slots.weight.push(0);
            self.slots.id.push(0);
            Slot(self.slots.id.len() as u32 - 1)
        });
        self.slots.id[slot.index()] = id;
        self.slots.weight[slot.index()] = incoming.weight;
        self.index.insert(id, slot);
        self.policy.insert(&mut self.slots, slot, incoming);
    }

    pub fn remove(&mut self, id: u64) {
        if let Some(slot) = self.index.remove(&id) {
            self.policy.remove(&mut self.slots, slot);
            self.free.push(slot);
        }
    }

    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.policy.set_capacity(capacity);
        self.make_room(0, None);
    }

    /// Evicts one, without a new object.
    pub fn shed(&mut self) {
        let less = self.used().saturating_sub(1);
        let capacity = std::mem::replace(&mut self.capacity, less);
        self.make_room(0, None);
        self.capacity = capacity;
    }

    /// Evicts until `weight` fits. False if the policy refused.
    pub fn make_room(&mut self, weight: u64, incoming: Option<&Incoming<P::Pending>>) -> bool {
        while self.used() + weight > self.capacity {
            match self.policy.evict(&mut self.slots, incoming) {
                Eviction::Victim(slot) => {
                    self.index.remove(&self.slots.id[slot.index()]);
                    self.free.push(slot);
                }
                Eviction::Refuse | Eviction::Empty => return false,
            }
        }
        true
    }
}
