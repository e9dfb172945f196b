//! LFU: the object requested least often since it came goes; among equals, the
//! one not requested for longest.
//!
//! One list holds all objects, the most frequent at its head, and the most
//! recently used first among equals. Objects of one frequency lie together: a
//! bucket, which knows its newest object and the bucket above. A hit moves its
//! object above the newest of the next frequency, or above its own bucket where
//! nobody has that frequency yet. So all is O(1), and no search for the least
//! frequency is ever needed: the victim is the tail. (Shah, Mitra and Matani,
//! 2010, who keep one list a frequency.) Counts end with the residence: this is
//! LFU without ghosts or aging, and what was popular once can stay for ever.
//!
//! 12 bytes a slot and 16 to 20 a bucket, at most one bucket a slot.

use crate::{Eviction, Host, Incoming, Lists, Policy, Slot, Work};

/// The list by frequency.
const RANKED: usize = 0;
/// Objects that could not be claimed, examined after all others.
const ASIDE: usize = 1;
/// No bucket: of an object that was put aside, and above the highest.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    frequency: u64,
    newest: Slot,
    /// The bucket of the next frequency that anybody has.
    higher: u32,
}

/// Least frequently used, exactly.
///
/// ```
/// use frazil_policy::Lfu;
/// let policy = Lfu::default();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Lfu {
    lists: Lists<2>,
    /// The bucket of a slot.
    bucket_of: Vec<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
}

impl Lfu {
    /// Links a slot at the newest end of frequency 1.
    #[inline]
    fn enter(&mut self, slot: Slot) {
        let lowest = self.lists.tail(RANKED).map(|tail| self.bucket_of[tail.index()]);
        match lowest.filter(|&bucket| self.buckets[bucket as usize].frequency == 1) {
            Some(bucket) => self.join(slot, bucket),
            None => {
                self.lists.push_tail(RANKED, slot);
                let higher = lowest.unwrap_or(NONE);
                self.found(Bucket { frequency: 1, newest: slot, higher });
            }
        }
    }

    /// Links a slot as the newest of a bucket.
    #[inline]
    fn join(&mut self, slot: Slot, bucket: u32) {
        let Bucket { newest, .. } = &mut self.buckets[bucket as usize];
        self.lists.push_above(*newest, slot);
        *newest = slot;
        self.bucket_of[slot.index()] = bucket;
    }

    /// Makes a bucket of one object that is linked already.
    fn found(&mut self, bucket: Bucket) -> u32 {
        let place = self.free.pop().unwrap_or(self.buckets.len() as u32);
        match self.buckets.get_mut(place as usize) {
            Some(freed) => *freed = bucket,
            None => self.buckets.push(bucket),
        }
        self.bucket_of[bucket.newest.index()] = place;
        place
    }

    /// The object below with its bucket.
    #[inline]
    fn below(&self, slot: Slot) -> Option<(Slot, u32)> {
        self.lists.older(slot).map(|below| (below, self.bucket_of[below.index()]))
    }

    /// Takes a linked slot out of its bucket, and out of the list.
    #[inline]
    fn leave(&mut self, slot: Slot) {
        let own = self.bucket_of[slot.index()];
        if own != NONE && self.buckets[own as usize].newest == slot {
            match self.below(slot) {
                Some((heir, bucket)) if bucket == own => self.buckets[own as usize].newest = heir,
                below => {
                    if let Some((_, lower)) = below {
                        self.buckets[lower as usize].higher = self.buckets[own as usize].higher;
                    }
                    self.free.push(own);
                }
            }
        }
        self.lists.unlink(slot);
    }
}

impl Policy for Lfu {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.bucket_of[slot.index()] == NONE {
            self.leave(slot);
            self.enter(slot);
        }
        let own = self.bucket_of[slot.index()];
        let Bucket { frequency, newest, higher } = self.buckets[own as usize];
        let wanted = frequency + 1;
        if higher != NONE && self.buckets[higher as usize].frequency == wanted {
            self.leave(slot);
            self.join(slot, higher);
        } else {
            if newest != slot {
                self.lists.unlink(slot);
                self.lists.push_above(newest, slot);
            } else if let Some((heir, _)) = self.below(slot).filter(|below| below.1 == own) {
                self.buckets[own as usize].newest = heir;
            } else {
                // Alone, and nobody in its way: the bucket rises with it.
                self.buckets[own as usize].frequency = wanted;
                host.count(Work::Mark, 1);
                return;
            }
            let founded = self.found(Bucket { frequency: wanted, newest: slot, higher });
            self.buckets[own as usize].higher = founded;
        }
        host.count(Work::Delink, 1);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(victim) = self.lists.tail(RANKED).or(self.lists.tail(ASIDE)) else {
            return Eviction::Empty;
        };
        self.leave(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    /// Aside, because nothing in the ranking fits: at the bottom it would be
    /// examined next, and at the top it would stay for ever.
    fn put_back(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.bucket_of[slot.index()] = NONE;
        self.lists.push_head(ASIDE, slot);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        if slot.index() >= self.bucket_of.len() {
            self.bucket_of.resize(slot.index() + 1, NONE);
        }
        self.enter(slot);
        host.count(Work::Head, 1);
        // One at a time, so that a crowd of them can't block every eviction.
        if let Some(aside) = self.lists.tail(ASIDE) {
            self.lists.unlink(aside);
            self.enter(aside);
            host.count(Work::Tail, 1);
            host.count(Work::Head, 1);
        }
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.leave(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.lists.from_tail(RANKED).chain(self.lists.from_tail(ASIDE)).collect()
    }
}
