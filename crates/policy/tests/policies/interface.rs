//! The interface covers the needs of later policies and hosts: one small proof for
//! each of refusal, the clock, objects in flight, victims that cannot be released,
//! weights and resizing, the hot-first cut, operation counts, and marks set meanwhile.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cache::Cache;
use frazil_policy::{
    AdaptiveReplacement, AgedGhost, BeladySize, Cacheus, Clock, Eviction, Fifo, Gdsf, Host,
    Hyperbolic, Incoming, Lecar, Lfu, Lhd, Lirs, Lists, Lru, LruDelayed, LruProb, LruSampled, Mark,
    Mobius, Online, Policy, PolicyVisitor, Random, S3Fifo, Sieve, Slot, Slru, TwoQueue, WTinyLfu,
    Work,
};

/// Keeps the first entries, and refuses all others when it is full.
#[derive(Default)]
struct FirstCome(Lru);

impl Policy for FirstCome {
    type Meta = ();
    type Pending = ();
    fn hit(&mut self, _: &mut impl Host<()>, _: Slot) {}
    fn miss(&mut self, _: &mut impl Host<()>, _: u64, _: u64) {}
    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<()>>) -> Eviction {
        match incoming {
            Some(_) => Eviction::Refuse,
            None => self.0.evict(host, None),
        }
    }
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<()>) {
        self.0.insert(host, slot, incoming);
    }
    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.0.remove(host, slot);
    }
    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        self.0.coldest_first(host)
    }
}

#[test]
fn a_newcomer_can_be_refused() {
    let mut cache = Cache::new(FirstCome::default(), 2);
    for id in [1, 2, 3, 4] {
        cache.request(id, 1);
    }
    assert!(cache.request(1, 1) && cache.request(2, 1) && !cache.request(3, 1));
    // Without an incoming object it may not refuse: a shrinking cache shrinks.
    cache.set_capacity(1);
    assert_eq!(cache.used(), 1);
}

/// Evicts by aggregate delay over time since the last access, as MAD does, and
/// learns both from the clock and from requests that arrive during the fetch.
#[derive(Default)]
struct Delay {
    resident: Vec<Slot>,
}

#[derive(Default)]
struct DelayMeta {
    delay: AtomicU64,
    last_access: AtomicU64,
}

struct DelayPending {
    since: u64,
    delay: u64,
}

impl Delay {
    fn rank(host: &impl Host<DelayMeta>, slot: Slot) -> u64 {
        let meta = host.meta(slot);
        meta.delay.load(Relaxed) / (host.now() - meta.last_access.load(Relaxed) + 1)
    }
}

impl Policy for Delay {
    type Meta = DelayMeta;
    type Pending = DelayPending;

    fn hit(&mut self, host: &mut impl Host<DelayMeta>, slot: Slot) {
        host.meta(slot).last_access.store(host.now(), Relaxed);
    }
    fn miss(&mut self, host: &mut impl Host<DelayMeta>, _: u64, _: u64) -> DelayPending {
        DelayPending { since: host.now(), delay: 10 }
    }
    fn delayed_hit(
        &mut self,
        host: &mut impl Host<DelayMeta>,
        incoming: &mut Incoming<DelayPending>,
    ) {
        let waited = host.now() - incoming.pending.since;
        incoming.pending.delay += 10u64.saturating_sub(waited);
    }
    fn evict(
        &mut self,
        host: &mut impl Host<DelayMeta>,
        _: Option<&Incoming<DelayPending>>,
    ) -> Eviction {
        let rank = |&place: &usize| Self::rank(host, self.resident[place]);
        let Some(place) = (0..self.resident.len()).min_by_key(rank) else {
            return Eviction::Empty;
        };
        Eviction::Victim(self.resident.swap_remove(place))
    }
    fn insert(
        &mut self,
        host: &mut impl Host<DelayMeta>,
        slot: Slot,
        incoming: Incoming<DelayPending>,
    ) {
        host.meta(slot).delay.store(incoming.pending.delay, Relaxed);
        host.meta(slot).last_access.store(host.now(), Relaxed);
        self.resident.push(slot);
    }
    fn remove(&mut self, _: &mut impl Host<DelayMeta>, slot: Slot) {
        self.resident.retain(|&other| other != slot);
    }
    fn coldest_first(&self, host: &impl Host<DelayMeta>) -> Vec<Slot> {
        let mut order = self.resident.clone();
        order.sort_by_cached_key(|&slot| Self::rank(host, slot));
        order
    }
}

#[test]
fn requests_in_flight_and_the_clock_reach_the_policy() {
    let mut cache = Cache::new(Delay::default(), 2);
    // Three requests wait for object 1, one for object 2.
    for id in [1, 1, 1, 2] {
        cache.begin(id, 1);
    }
    cache.commit(1);
    cache.commit(2);
    cache.request(3, 1);
    assert!(cache.request(1, 1), "the object that many waited for stays");
    assert!(!cache.index.contains_key(&2));
    // Equal delays: the clock decides which was requested longer ago.
    let mut cache = Cache::new(Delay::default(), 2);
    for id in [5, 6, 5, 7] {
        cache.request(id, 1);
    }
    assert!(cache.index.contains_key(&5) && !cache.index.contains_key(&6));
}

/// A host whose readers mark everything again as fast as the policy lowers it.
struct Eager(Vec<Mark>);

impl Host<Mark> for Eager {
    fn now(&self) -> u64 {
        0
    }
    fn meta(&self, slot: Slot) -> &Mark {
        while self.0[slot.index()].raise(3) {}
        &self.0[slot.index()]
    }
    fn hash(&self, slot: Slot) -> u64 {
        slot.0.into()
    }
    fn weight(&self, _: Slot) -> u64 {
        1
    }
}

#[test]
fn eviction_ends_while_readers_mark() {
    fn check<P: Policy<Meta = Mark>>(mut policy: P) {
        let mut host = Eager((0..20).map(|_| Mark::default()).collect());
        for slot in (0..20).map(Slot) {
            let pending = policy.miss(&mut host, slot.0.into(), 1);
            policy.insert(&mut host, slot, Incoming { hash: slot.0.into(), weight: 1, pending });
        }
        for _ in 0..20 {
            assert!(matches!(policy.evict(&mut host, None), Eviction::Victim(_)));
        }
        assert_eq!(policy.evict(&mut host, None), Eviction::Empty);
    }
    check(Clock::<1>::default());
    check(Clock::<3>::default());
    check(Sieve::default());
    check(Mobius::default());
    check(S3Fifo::new(20));
}

#[test]
fn s3_fifo_follows_the_capacity() {
    // A new object heavier than the small queue is refused under pressure: the bound follows.
    let mut cache = Cache::new(S3Fifo::new(20), 20);
    for id in 0..30 {
        cache.request(id, 1);
    }
    cache.request(100, 5);
    assert!(!cache.index.contains_key(&100));
    cache.set_capacity(100);
    for id in 200..400 {
        cache.request(id, 1);
    }
    cache.request(100, 5);
    assert!(cache.index.contains_key(&100));
}

/// A host with a ghost that cannot grow relies on this.
#[test]
fn s3_fifo_gives_objects_that_weigh_one_a_ghost_of_fixed_size() {
    for capacity in [1, 2, 57, 58, 100, 1_234] {
        let mut cache = Cache::new(S3Fifo::new(capacity), capacity);
        for request in 0..10 * capacity {
            // Every third object is requested again soon, so that all paths are taken.
            cache.request(if request % 3 == 0 { request / 2 } else { request }, 1);
        }
        let fixed = AgedGhost::new(capacity, capacity);
        assert_eq!(cache.policy.ghost_bytes(), fixed.bytes(), "{capacity}");
    }
}

#[test]
fn s3_fifo_remembers_a_capacity_of_lighter_objects() {
    let mut cache = Cache::new(S3Fifo::new(10_000), 10_000);
    for id in 0..1_000 {
        cache.request(id, 50);
    }
    let of_heavy = cache.policy.ghost_bytes();
    for id in 1_000..6_000 {
        cache.request(id, 5);
    }
    assert!(cache.policy.ghost_bytes() >= AgedGhost::new(10_000, 2_000).bytes());
    assert!(cache.policy.ghost_bytes() > 4 * of_heavy);
}

#[test]
fn a_victim_that_cannot_be_let_go_is_inserted_again() {
    fn check<P: Policy>(policy: P) {
        let mut cache = Cache::new(policy, 4);
        for id in 0..20 {
            cache.request(id, 1);
        }
        let Eviction::Victim(slot) = cache.policy.evict(&mut cache.slots, None) else {
            panic!("nothing to evict")
        };
        // As another object: its host may not know its hash.
        let pending = cache.policy.miss(&mut cache.slots, 7, 1);
        cache.policy.insert(&mut cache.slots, slot, Incoming { hash: 7, weight: 1, pending });
        for id in 10..30 {
            cache.request(id, 1);
        }
        assert_eq!(cache.used(), 4);
        cache.set_capacity(0);
        assert_eq!(cache.used(), 0, "nothing that was inserted again is lost");
    }
    check(Fifo::default());
    check(Lru::default());
    check(Clock::<1>::default());
    check(Sieve::default());
    check(Mobius::default());
    check(S3Fifo::new(4));
    check(LruProb::new(0.5, 1));
    check(LruDelayed::new(3));
    check(LruSampled::new(5, 1));
    check(Slru::new(2, 4));
    check(Slru::new(4, 4));
    check(TwoQueue::new(4));
    check(Lfu::default());
    check(Random::new(1));
    check(Gdsf::default());
    check(Hyperbolic::new(1));
    check(Lhd::new(4, 1));
    // Next requests move further away, so that newcomers cost most until the end.
    check(BeladySize::new((0..200).rev().map(|request| 300 + request).collect()));
    check(Lecar::new(4, 1));
    check(Cacheus::new(4, 1));
    check(AdaptiveReplacement::new(4));
    check(Lirs::new(4));
    check(WTinyLfu::new(4));
}

#[test]
fn weights_and_capacity_change() {
    fn check<P: Policy>(policy: P) {
        let mut cache = Cache::new(policy, 100);
        for round in 0..50u64 {
            for id in 0..20 {
                // Weights change from round to round, on hits too.
                cache.request(id, 1 + (id * 7 + round * 3) % 30);
                assert!(cache.used() <= cache.capacity);
            }
            cache.set_capacity(40 + (round * 17) % 100);
            assert!(cache.used() <= cache.capacity);
        }
        // Whatever the policy counted, it can still evict everything.
        cache.set_capacity(0);
        assert_eq!(cache.used(), 0);
    }
    check(Fifo::default());
    check(Lru::default());
    check(Clock::<3>::default());
    check(Sieve::default());
    check(Mobius::default());
    check(S3Fifo::new(100));
    check(LruProb::new(0.5, 1));
    check(LruDelayed::new(3));
    check(LruSampled::new(5, 1));
    check(Slru::new(2, 100));
    check(Slru::new(4, 100));
    check(TwoQueue::new(100));
    check(Lfu::default());
    check(Random::new(1));
    check(Gdsf::default());
    check(Hyperbolic::new(1));
    check(Lhd::new(100, 1));
    check(BeladySize::new((0..1000).map(|request| request + 20).collect()));
    check(Lecar::new(100, 1));
    check(Cacheus::new(100, 1));
    check(AdaptiveReplacement::new(100));
    check(Lirs::new(100));
    check(WTinyLfu::new(100));
}

/// FrozenHot's requirement on a list: its hottest part cut off in one step, and returned.
trait HotFirst: Policy {
    type Frozen;
    fn cut(&mut self, last: Slot) -> Self::Frozen;
    fn rejoin(&mut self, frozen: Self::Frozen);
    fn promotion(&mut self, on: bool);
}

const DYNAMIC: usize = 0;
const FROZEN: usize = 1;

#[derive(Default)]
struct FreezingLru {
    lists: Lists<2>,
    frozen: bool,
    still: bool,
}

impl Policy for FreezingLru {
    type Meta = ();
    type Pending = ();
    fn hit(&mut self, _: &mut impl Host<()>, slot: Slot) {
        if !self.still {
            self.lists.move_to_head(DYNAMIC, slot);
        }
    }
    fn miss(&mut self, _: &mut impl Host<()>, _: u64, _: u64) {}
    fn evict(&mut self, _: &mut impl Host<()>, _: Option<&Incoming<()>>) -> Eviction {
        match self.lists.tail(DYNAMIC) {
            Some(victim) => {
                self.lists.unlink(victim);
                Eviction::Victim(victim)
            }
            None => Eviction::Empty,
        }
    }
    fn insert(&mut self, _: &mut impl Host<()>, slot: Slot, _: Incoming<()>) {
        self.lists.push_head(DYNAMIC, slot);
    }
    fn remove(&mut self, _: &mut impl Host<()>, slot: Slot) {
        self.lists.unlink(slot);
    }
    fn coldest_first(&self, _: &impl Host<()>) -> Vec<Slot> {
        self.lists.from_tail(DYNAMIC).chain(self.lists.from_tail(FROZEN)).collect()
    }
}

/// The right to rejoin the part that was cut off.
struct FrozenList;

impl HotFirst for FreezingLru {
    type Frozen = FrozenList;
    fn cut(&mut self, last: Slot) -> FrozenList {
        self.lists.splice_head(DYNAMIC, last, FROZEN);
        self.frozen = true;
        FrozenList
    }
    fn rejoin(&mut self, FrozenList: FrozenList) {
        if let Some(last) = self.lists.tail(FROZEN) {
            self.lists.splice_head(FROZEN, last, DYNAMIC);
        }
        self.frozen = false;
    }
    fn promotion(&mut self, on: bool) {
        self.still = !on;
    }
}

#[test]
fn the_hottest_part_of_a_list_is_cut_off_and_rejoins() {
    let mut cache = Cache::new(FreezingLru::default(), 6);
    for id in 0..6 {
        cache.request(id, 1);
    }
    cache.policy.promotion(false);
    cache.request(0, 1);
    let third = cache.index[&3];
    let frozen = cache.policy.cut(third);
    for id in 10..13 {
        cache.request(id, 1);
    }
    assert!([3, 4, 5].iter().all(|id| cache.index.contains_key(id)), "frozen objects stay");
    assert!([0, 1, 2].iter().all(|id| !cache.index.contains_key(id)));
    cache.policy.rejoin(frozen);
    let order = |cache: &Cache<FreezingLru>| -> Vec<u64> {
        cache.policy.lists.iter(DYNAMIC).map(|slot| cache.slots.id[slot.index()]).collect()
    };
    assert_eq!(order(&cache), [5, 4, 3, 12, 11, 10]);
    cache.policy.promotion(true);
    cache.request(10, 1);
    assert_eq!(order(&cache)[0], 10);
}

#[test]
fn work_is_counted() {
    let mut cache = Cache::new(Lru::default(), 2);
    for id in [1, 2, 1, 1, 3] {
        cache.request(id, 1);
    }
    // Insertions 1, 2, 3 and the one hit that moves; the repeated hit moves nothing.
    assert_eq!(cache.slots.counts.get(Work::Head), 4);
    assert_eq!(cache.slots.counts.get(Work::Delink), 1);
    assert_eq!(cache.slots.counts.get(Work::Tail), 1);

    let mut cache = Cache::new(Sieve::default(), 2);
    for id in [1, 2, 1, 1, 3] {
        cache.request(id, 1);
    }
    assert_eq!(cache.slots.counts.get(Work::Mark), 1, "a mark is written once");
    assert_eq!(cache.slots.counts.get(Work::Skip), 1);
}

/// Slots of one policy, each of weight 1.
struct Slots<M>(Vec<M>);

impl<M> Host<M> for Slots<M> {
    fn now(&self) -> u64 {
        0
    }
    fn meta(&self, slot: Slot) -> &M {
        &self.0[slot.index()]
    }
    fn hash(&self, slot: Slot) -> u64 {
        slot.0.into()
    }
    fn weight(&self, _: Slot) -> u64 {
        1
    }
}

/// Victims in order, after a number of hits on each slot; by the policy, or by marks up to a limit.
struct Victims {
    by_marks: Option<u8>,
}

impl PolicyVisitor for Victims {
    type Output = Vec<Eviction>;

    fn visit<P: Policy + Clone + Send + 'static>(self, mut policy: P) -> Vec<Eviction> {
        let mut host = Slots((0..30).map(|_| P::Meta::default()).collect());
        for slot in (0..30).map(Slot) {
            let hash = slot.0.into();
            let pending = policy.miss(&mut host, hash, 1);
            policy.insert(&mut host, slot, Incoming { hash, weight: 1, pending });
        }
        for slot in (0..30).map(Slot) {
            for _ in 0..slot.0 % 7 {
                match self.by_marks {
                    None => policy.hit(&mut host, slot),
                    Some(limit) => {
                        let meta: &dyn Any = host.meta(slot);
                        if let Some(mark) = meta.downcast_ref::<Mark>() {
                            mark.raise(limit);
                        }
                    }
                }
            }
        }
        (0..31).map(|_| policy.evict(&mut host, None)).collect()
    }
}

#[test]
fn a_hit_is_a_mark_where_a_limit_is_stated() {
    for policy in Online::ALL.into_iter().chain([Online::Clock { bits: 2 }]) {
        let by_hits = policy.visit(30, Victims { by_marks: None });
        match policy.mark_limit() {
            limit @ Some(_) => {
                assert_eq!(policy.visit(30, Victims { by_marks: limit }), by_hits, "{policy}");
            }
            // Marks change nothing in a policy that has none.
            None => assert_ne!(policy, Online::Mobius),
        }
    }
}
