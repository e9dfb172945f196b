//! LFU: evicts the object requested least often since its insertion; among
//! equals, the one not requested for longest.
//!
//! One list holds all objects, the most frequent at its head, and the most
//! recently used first among equals. Objects of one frequency lie together: a
//! bucket, which knows its newest object and the bucket above. A hit moves its
//! object above the newest of the next frequency, or above its own bucket if no object has that
//! frequency yet. So all operations are O(1), and nothing searches for the least frequency: the
//! victim is the tail. (Shah, Mitra and Matani, 2010, who keep one list a frequency.) Counts end
//! with the residence: this is LFU without ghosts or aging, so an object that was popular once can
//! stay for ever.
//!
//! 12 bytes a slot and 16 to 20 a bucket, at most one bucket a slot.

use crate::{Eviction, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

/// The list by frequency.
const RANKED: usize = 0;
/// The frozen entries of that list, in their own buckets.
const FROZEN: usize = 1;
/// No bucket: above the highest.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    frequency: u64,
    newest: Slot,
    /// The bucket of the next frequency in use.
    higher: u32,
}

/// Least frequently used, exactly.
///
/// Hot first is by frequency, the most recently used first among equals: the reverse of the
/// order of eviction.
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

    /// Makes a bucket for one object that is already linked.
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
        if self.buckets[own as usize].newest == slot {
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
                // Alone in its bucket, and no bucket has the next frequency: the bucket rises with
                // it.
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
        let Some(victim) = self.lists.tail(RANKED) else {
            return Eviction::Empty;
        };
        self.leave(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        if slot.index() >= self.bucket_of.len() {
            self.bucket_of.resize(slot.index() + 1, NONE);
        }
        self.enter(slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.leave(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.lists.in_order(&[RANKED, FROZEN])
    }
}

impl HotFirst for Lfu {
    fn hottest(&self) -> Option<Slot> {
        self.lists.head(RANKED)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.lists.older(slot)
    }

    /// An entry hotter than the one frozen before it gets only that one's frequency.
    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        host.count(Work::Delink, 1);
        let frequency = self.buckets[self.bucket_of[slot.index()] as usize].frequency;
        self.leave(slot);
        let coldest = self.lists.tail(FROZEN).map(|tail| self.bucket_of[tail.index()]);
        self.lists.push_tail(FROZEN, slot);
        match coldest.filter(|&bucket| self.buckets[bucket as usize].frequency <= frequency) {
            Some(bucket) => self.bucket_of[slot.index()] = bucket,
            None => {
                self.found(Bucket { frequency, newest: slot, higher: coldest.unwrap_or(NONE) });
            }
        }
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.remove(host, slot);
    }

    /// Puts them in front of all others. A frozen frequency that is not above the next
    /// lower one rises to one more than that. The first that is high enough ends the work,
    /// at most O(frozen frequencies).
    ///
    /// The paper adds the highest dynamic frequency to each (§3.3). That would compound: each
    /// thaw adds the additions of earlier thaws. Frequencies that never fall would grow beyond
    /// any number of requests, and newly popular objects could not catch up.
    fn thaw(&mut self, host: &mut impl Host<()>) {
        let bucket = |slot: Slot| self.bucket_of[slot.index()];
        if let Some(mut above) = self.lists.tail(FROZEN).map(bucket)
            && let Some(highest) = self.lists.head(RANKED).map(bucket)
        {
            let mut below = self.buckets[highest as usize].frequency;
            self.buckets[highest as usize].higher = above;
            while let Some(Bucket { frequency, higher, .. }) = self.buckets.get_mut(above as usize)
                && *frequency <= below
            {
                below += 1;
                *frequency = below;
                above = *higher;
                host.count(Work::Mark, 1);
            }
        }
        self.lists.splice_all(FROZEN, RANKED);
        host.count(Work::Head, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    struct Ones;
    impl Host<()> for Ones {
        fn now(&self) -> u64 {
            0
        }
        fn meta(&self, _: Slot) -> &() {
            &()
        }
        fn hash(&self, slot: Slot) -> u64 {
            slot.0.into()
        }
        fn weight(&self, _: Slot) -> u64 {
            1
        }
    }

    /// Were the highest dynamic frequency added each time, these would pass 64 bits.
    #[test]
    fn frequencies_grow_by_requests_and_not_by_thaws() {
        let mut lfu = Lfu::default();
        let mut rng = Rng::new(1);
        for slot in (0..50).map(Slot) {
            lfu.insert(&mut Ones, slot, Incoming { hash: 0, weight: 1, pending: () });
            (0..rng.below(20)).for_each(|_| lfu.hit(&mut Ones, slot));
        }
        let order = lfu.coldest_first(&Ones);
        for _ in 0..5_000 {
            for _ in 0..rng.below(51) {
                let Some(slot) = lfu.hottest() else { break };
                lfu.freeze(&mut Ones, slot);
            }
            lfu.thaw(&mut Ones);
            assert_eq!(lfu.coldest_first(&Ones), order);
        }
        let frequency = |slot: Slot| lfu.buckets[lfu.bucket_of[slot.index()] as usize].frequency;
        let frequencies: Vec<u64> = order.iter().map(|&slot| frequency(slot)).collect();
        assert!(frequencies.is_sorted());
        assert!(frequencies[49] <= 20 + 50, "{frequencies:?}");
    }
}
