//! Any policy of `frazil-policy` under a lock, with hits that only mark.
//!
//! The policy orders *places*, and a table leads from a place to the slot that is there:
//! a replacement puts its slot in the place of the old one, and the policy need not know.
//! The place is the slot's position, as in the lock-free queues; it is 0 while the slot
//! is in no place, and written under the lock. 4 bytes an entry and the policy's own.

use frazil_policy::{Eviction, Host, Incoming, Mark, SharedHit, Slot, Work};

use super::{Decision, Hand, Headers, Newcomer};
use crate::slab::DEAD;
use crate::sync::atomic::Ordering::{Acquire, Relaxed};
use crate::sync::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct Locked<P> {
    places: Mutex<Places<P>>,
}

#[derive(Debug)]
struct Places<P> {
    policy: P,
    /// The slot by place; place 0 does not exist.
    slots: Vec<u32>,
    free: Vec<u32>,
}

/// The cache as the policy sees it during one call.
struct View<'c, H> {
    headers: &'c H,
    slots: &'c [u32],
    /// Writes to the neighbours of those that lists were changed for.
    writes: u64,
}

impl<H: Headers> Host<Mark> for View<'_, H> {
    fn now(&self) -> u64 {
        0
    }
    fn meta(&self, place: Slot) -> &Mark {
        &self.headers.header(self.slots[place.index()]).mark
    }
    fn hash(&self, place: Slot) -> u64 {
        self.headers.hash(self.slots[place.index()])
    }
    fn weight(&self, place: Slot) -> u64 {
        self.headers.weight(self.slots[place.index()])
    }
    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        if matches!(work, Work::Delink | Work::Head | Work::Tail) {
            self.writes += 2 * u64::from(times);
        }
    }
}

impl<P: SharedHit<Meta = Mark, Pending = ()>> Locked<P> {
    pub(crate) fn new(policy: P) -> Self {
        Locked { places: Mutex::new(Places { policy, slots: vec![0], free: Vec::new() }) }
    }

    fn lock<H>(&self, hand: &mut Hand<'_, H>) -> MutexGuard<'_, Places<P>> {
        // The lock is written when it is taken and when it is left.
        hand.buffers.traffic.writes += 2;
        self.places.try_lock().unwrap_or_else(|| {
            hand.buffers.traffic.retries += 1;
            self.places.lock()
        })
    }

    pub(crate) fn insert<H: Headers>(
        &self,
        hand: &mut Hand<'_, H>,
        slot: u32,
        newcomer: &Newcomer,
    ) {
        let mut places = self.lock(hand);
        let Places { policy, slots, free } = &mut *places;
        let place = free.pop().unwrap_or_else(|| {
            slots.push(0);
            (slots.len() - 1) as u32
        });
        slots[place as usize] = slot;
        hand.headers.header(slot).position.store(place, Relaxed);
        let mut view = View { headers: hand.headers, slots, writes: 0 };
        let Newcomer { hash, weight, .. } = *newcomer;
        policy.insert(&mut view, Slot(place), Incoming { hash, weight, pending: () });
        hand.buffers.traffic.writes += 1 + view.writes;
    }

    pub(crate) fn evict<H: Headers>(&self, hand: &mut Hand<'_, H>) -> Decision {
        let mut places = self.lock(hand);
        let Places { policy, slots, free } = &mut *places;
        let mut view = View { headers: hand.headers, slots, writes: 0 };
        let eviction = policy.evict(&mut view, None);
        hand.buffers.traffic.writes += view.writes;
        match eviction {
            Eviction::Victim(place) => {
                hand.buffers.traffic.writes += 1;
                let slot = slots[place.index()];
                free.push(place.0);
                hand.headers.header(slot).position.store(0, Relaxed);
                Decision::Victim(slot)
            }
            Eviction::Refuse => Decision::Refuse,
            Eviction::Empty => Decision::Empty,
        }
    }

    pub(crate) fn detach<H: Headers>(&self, hand: &mut Hand<'_, H>, slot: u32) -> bool {
        let mut places = self.lock(hand);
        let Places { policy, slots, free } = &mut *places;
        let place = hand.headers.header(slot).position.load(Relaxed);
        if place == 0 {
            return false;
        }
        let mut view = View { headers: hand.headers, slots, writes: 0 };
        policy.remove(&mut view, Slot(place));
        hand.buffers.traffic.writes += 1 + view.writes;
        free.push(place);
        hand.headers.header(slot).position.store(0, Relaxed);
        true
    }

    pub(crate) fn replace<H: Headers>(&self, hand: &mut Hand<'_, H>, old: u32, new: u32) -> bool {
        let mut places = self.lock(hand);
        let Places { policy, slots, .. } = &mut *places;
        let place = hand.headers.header(old).position.load(Relaxed);
        if place == 0 {
            return false;
        }
        slots[place as usize] = new;
        hand.headers.header(new).position.store(place, Relaxed);
        hand.headers.header(old).position.store(0, Relaxed);
        let old_weight = hand.headers.weight(old);
        policy.reweigh(
            &mut View { headers: hand.headers, slots, writes: 0 },
            Slot(place),
            old_weight,
        );
        true
    }

    /// Retires the dead that are in a place, as long as there are segments for them.
    pub(crate) fn bury_dead<H: Headers>(&self, hand: &mut Hand<'_, H>) {
        let mut places = self.lock(hand);
        let Places { policy, slots, free } = &mut *places;
        for place in 1..slots.len() as u32 {
            let slot = slots[place as usize];
            let header = hand.headers.header(slot);
            // A free place still names the slot that was there last.
            let in_place = header.position.load(Relaxed) == place;
            // Acquire: partner is the Release with which it was declared dead.
            if !in_place || header.state.load(Acquire) != DEAD {
                continue;
            }
            if !hand.buffers.spares.stock(hand.segments, &mut hand.buffers.traffic) {
                return;
            }
            let mut view = View { headers: hand.headers, slots, writes: 0 };
            policy.remove(&mut view, Slot(place));
            hand.buffers.traffic.writes += 1 + view.writes;
            free.push(place);
            header.position.store(0, Relaxed);
            hand.retire(slot);
        }
    }

    /// The slots that are in a place, each with it.
    pub(crate) fn slots(&self) -> Vec<(u32, u32)> {
        let places = self.places.lock();
        let mut slots = places.slots.clone();
        places.free.iter().for_each(|&place| slots[place as usize] = 0);
        (0..).zip(slots).filter(|&(_, slot)| slot != 0).collect()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let places = self.places.lock();
        (places.slots.capacity() + places.free.capacity()) * size_of::<u32>()
    }
}
