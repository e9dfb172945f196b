//! One policy of `frazil-policy` under one lock.
//!
//! The policy orders *places*, and a table leads from a place to the slot that is there:
//! a replacement puts its slot in the place of the old one, and the policy need not know.
//! The slot's position says its place and shard; it is 0 while the slot is in no place, and
//! written under the lock. 4 bytes an entry, 8 more for policies that remember, and the
//! policy's own.

use std::any::Any;

use frazil_policy::{Eviction, Host, Incoming, Policy, Slot, Work};

use super::super::Absence;
use super::notes::{EPOCHS, TURN};
use super::set_aside::{SetAside, Ways};
use super::{Caller, Decision, Headers, Newcomer, Shard, ticks};
use crate::chunks::Chunks;
use crate::core::local::Reads;
use crate::core::slab::{DEAD, Header};
#[cfg(feature = "freezing")]
use crate::smr::protect::Pinned;
use crate::smr::stripe::{Traffic, add};
use crate::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::sync::{Mutex, MutexGuard};

/// Newcomers between their miss and their admission, at most. Of more than that some are
/// missed anew when they are admitted.
const TICKETS: usize = 1 << 12;

/// The most that a policy is told of who waited for a fetch: 10 ns each, under its lock.
const TOLD_MAX: u64 = 1 << 12;
/// How much one fetch moves what they are taken to last on the whole.
const LEARNING: f64 = 1.0 / 16.0;

/// The most that a policy is told an entry weighs, and that there is room for: sums of both
/// do not overflow, whatever the weigher says.
const WEIGHT_SEEN: u64 = 1 << 34;
pub(crate) const CAPACITY_SEEN: u64 = 1 << 62;

/// A weight as a policy is told it.
fn seen(weight: u64) -> u64 {
    weight.min(WEIGHT_SEEN)
}

/// A policy behind a lock, whatever its type.
///
/// Called through a table of functions: the lock costs many times as much, and the policies
/// are compiled once and not for every type of keys and values.
pub(crate) trait PolicyShard: Send + Sync + std::fmt::Debug {
    /// Tells the policy what the caller has noted. False if it may not wait for the lock
    /// and it is taken.
    fn tell(&self, caller: &Caller<'_>, wait: bool) -> bool;

    /// Tells the policy of one hit. False if it may not wait for the lock and it is taken.
    fn hit(&self, caller: &Caller<'_>, slot: u32, wait: bool) -> bool;

    /// Tells the policy of an object that was asked for and is too heavy to be admitted.
    fn pass_over(&self, caller: &Caller<'_>, hash: u64, weight: u64);

    /// A newcomer is not admitted after all.
    fn forget(&self, newcomer: &Newcomer);

    /// Admits a slot.
    fn insert(&self, caller: &Caller<'_>, traffic: &mut Traffic, slot: u32, newcomer: &Newcomer);

    /// Chooses and takes a victim. Tells the policy first of a newcomer that it has not
    /// heard of.
    fn evict(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        newcomer: Option<&Newcomer>,
    ) -> Decision;

    /// Takes a slot out. False if it is in no place.
    fn detach(&self, caller: &Caller<'_>, traffic: &mut Traffic, slot: u32) -> bool;

    /// Puts `new` in the place of `old`, which is a use of it if `used`. False if `old` is in
    /// no place.
    fn replace(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        slots: [u32; 2],
        used: bool,
    ) -> bool;

    /// Takes out the first slot from the place `from` on that is dead, and says where it was.
    fn take_dead(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        from: u32,
    ) -> Option<(u32, u32)>;

    /// Tells the policy of another capacity.
    fn set_capacity(&self, capacity: u64);

    /// Begins to walk the order, hottest first: from now on the policy hears of no hit. How many
    /// entries there are; 0 where nothing can be set aside.
    #[cfg(feature = "freezing")]
    fn begin_setting_aside(&self, caller: &Caller<'_>) -> u64;

    /// Sets the next so many of the walk aside, and adds their slots to `slots`; the pin keeps
    /// them. The lock is held for some 20 ns a slot.
    #[cfg(feature = "freezing")]
    fn set_aside_next(
        &self,
        caller: &Caller<'_>,
        count: u64,
        pinned: &Pinned<'_>,
        slots: &mut Vec<u32>,
    );

    /// Ends the walk; the policy makes do with what is left of its capacity.
    #[cfg(feature = "freezing")]
    fn end_setting_aside(&self, capacity: u64);

    /// How many are set aside.
    #[cfg(feature = "freezing")]
    fn aside(&self) -> u64;

    /// Gives the policy back what was set aside, and all of its capacity.
    #[cfg(feature = "freezing")]
    fn take_back(&self, caller: &Caller<'_>, capacity: u64);

    /// The slots that are in a place, each with its position.
    fn slots(&self) -> Vec<(u32, u32)>;

    /// The slots that are in a place, in the order in which they would go.
    fn coldest_first(&self, caller: &Caller<'_>) -> Vec<u32>;

    /// What the slots in a place weigh together.
    fn held(&self) -> u64;

    /// Bytes on the heap, beside the policy's own.
    fn heap_bytes(&self) -> usize;
}

pub(crate) struct LockedShard<P: Policy> {
    shard: Shard,
    places: Mutex<Places<P>>,
    /// Written under the lock, for those who look for a shard that holds too much.
    held: AtomicU64,
}

struct Places<P: Policy> {
    policy: P,
    table: PlaceData<P::Meta>,
    free: Vec<u32>,
    /// What the policy remembers of newcomers, by ticket. Ticket 0 does not exist.
    awaited: Vec<Option<Incoming<P::Pending>>>,
    /// Tickets below that length that nobody has.
    idle: Vec<u32>,
    /// The ticket that is taken from its holder next, should all be in use.
    oldest: usize,
    aside: SetAside<P>,
    /// The latest that the policy has heard of.
    time: u64,
    /// Slots that came in this epoch, or of which the policy has heard a hit.
    fresh: usize,
}

/// What a newcomer's fetch was, in ticks.
#[derive(Clone, Copy)]
struct Fetched {
    missed: u64,
    took: u64,
    landed: u64,
    /// How many came meanwhile, how long they waited, together, and how long the last of them.
    waiters: u64,
    delay: u64,
    least: u64,
}

impl Fetched {
    fn new(absence: Absence) -> Self {
        let Absence { landed, fetch, waiters, delay, least } = absence;
        let (landed, took) = (ticks(landed), ticks(fetch).max(1));
        let (delay, least) = (ticks(delay), ticks(least));
        Fetched { missed: landed.saturating_sub(took), took, landed, waiters, delay, least }
    }

    /// When they came. A flight knows the sum of their delays and not each: all but the last are
    /// told as if they had come together.
    fn delayed_hits(&self) -> impl Iterator<Item = u64> + use<> {
        let Fetched { missed, landed, waiters, delay, least, .. } = *self;
        let others = waiters.saturating_sub(1);
        let together = delay.saturating_sub(least);
        (0..others.min(TOLD_MAX - 1))
            .map(move |number| together / others + u64::from(number < together % others))
            .chain((waiters > 0).then_some(least))
            .map(move |delay| landed.saturating_sub(delay).max(missed))
    }
}

/// What the policy may ask for of a place.
struct PlaceData<M> {
    /// The slot by place; place 0 does not exist.
    slots: Vec<u32>,
    /// By place; empty unless the policy remembers.
    hashes: Vec<u64>,
    /// By place; empty, or of nothing, where the meta lies elsewhere.
    metas: Vec<M>,
    /// What a fetch takes on the whole, in ticks, once there was one.
    usual: Option<f64>,
}

/// The cache as the policy sees it during one call.
pub(super) struct View<'c, M> {
    headers: &'c dyn Headers,
    stamps: Option<&'c Chunks<std::sync::atomic::AtomicU64>>,
    table: &'c PlaceData<M>,
    now: u64,
    fetch: Option<u64>,
    /// Writes to the neighbours of those that lists were changed for.
    writes: u64,
}

impl<M: 'static> Host<M> for View<'_, M> {
    fn now(&self) -> u64 {
        self.now
    }

    /// A mark lies in the slot's header and a time among the stamps, because readers look
    /// at them without the lock; all else beside the place.
    #[inline(always)]
    fn meta(&self, place: Slot) -> &M {
        let slot = self.table.slots[place.index()];
        let mark: &dyn Any = &self.headers.header(slot).mark;
        if let Some(mark) = mark.downcast_ref() {
            return mark;
        }
        let stamp = self.stamps.map(|stamps| stamps.get_or_make(slot) as &dyn Any);
        stamp
            .and_then(|stamp| stamp.downcast_ref())
            .unwrap_or_else(|| &self.table.metas[place.index()])
    }

    fn hash(&self, place: Slot) -> u64 {
        self.table.hashes.get(place.index()).copied().unwrap_or_default()
    }

    fn weight(&self, place: Slot) -> u64 {
        seen(self.headers.weight(self.table.slots[place.index()]))
    }

    fn fetch_ticks(&self) -> Option<u64> {
        self.fetch
    }

    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        if matches!(work, Work::Delink | Work::Head | Work::Tail) {
            self.writes += 2 * u64::from(times);
        }
    }
}

impl<P: Policy + Send + 'static> LockedShard<P> {
    pub(crate) fn new(policy: P, shard: Shard, ways: Option<Ways<P>>) -> Self {
        let (hashes, metas, usual) = (Vec::new(), Vec::new(), None);
        let table = PlaceData { slots: vec![0], hashes, metas, usual };
        let (free, idle, awaited) = (Vec::new(), Vec::new(), vec![None]);
        let (oldest, time, fresh, aside) = (0, 0, 0, SetAside::new(ways));
        let mut places = Places { policy, table, free, awaited, idle, oldest, aside, time, fresh };
        places.table.reserve(0, P::REMEMBERS);
        LockedShard { shard, places: Mutex::new(places), held: AtomicU64::new(0) }
    }

    /// Takes the lock, and tells the policy first what its caller has noted before.
    fn enter(&self, caller: &Caller<'_>, traffic: &mut Traffic) -> Entered<'_, P> {
        // The lock is written when it is taken and when it is left.
        traffic.writes += 2;
        let places = self.places.try_lock().unwrap_or_else(|| {
            traffic.retries += 1;
            self.places.lock()
        });
        self.catch_up(caller, places)
    }

    /// The same for a hit, which has no stripe in hand to count in.
    fn try_enter(&self, caller: &Caller<'_>, wait: bool) -> Option<Entered<'_, P>> {
        let places = self.places.try_lock().or_else(|| {
            add(&caller.reads.retries, 1);
            wait.then(|| self.places.lock())
        })?;
        let mut entered = self.catch_up(caller, places);
        entered.writes += 2;
        Some(entered)
    }

    fn catch_up<'p>(
        &self,
        caller: &Caller<'_>,
        mut places: MutexGuard<'p, Places<P>>,
    ) -> Entered<'p, P> {
        let before = caller.synchronize(places.time);
        let Places { policy, table, free, fresh, aside, time, .. } = &mut *places;
        *time = before.now;
        let mut writes = before.writes;
        let epoch = self.epoch(caller);
        let current = epoch.load(Relaxed);
        caller.reads.notes.take(|slot, request| {
            let Header { position, mark: heard, .. } = caller.headers.header(slot);
            let position = position.load(Relaxed);
            let Some(place) = self.shard.place(position) else {
                // Of another shard, or stale.
                return self.shard.is_other(position);
            };
            if aside.hides(Slot(place)) {
                return false;
            }
            if heard.count() != current {
                heard.set(current);
                *fresh += 1;
            }
            let mut view = table.view(caller, before.at(request));
            policy.hit(&mut view, Slot(place));
            writes += view.writes;
            false
        });
        if *fresh * EPOCHS > table.slots.len() - free.len() {
            epoch.store((current + 1) % TURN, Relaxed);
            *fresh = 0;
        }
        Entered { places, now: before.now, writes }
    }

    /// What epoch the policy is in.
    fn epoch<'c>(&self, caller: &Caller<'c>) -> &'c AtomicU8 {
        &caller.epochs[self.shard.number as usize].0
    }

    /// The place of a slot, if it is in one.
    fn place_of(&self, caller: &Caller<'_>, slot: u32) -> Option<u32> {
        self.shard.place(caller.headers.header(slot).position.load(Relaxed))
    }

    fn hold(&self, more: u64, less: u64) {
        let held = self.held.load(Relaxed).wrapping_add(more).wrapping_sub(less);
        self.held.store(held, Relaxed);
    }
}

/// A shard whose lock is held, up to date.
struct Entered<'p, P: Policy> {
    places: MutexGuard<'p, Places<P>>,
    now: u64,
    writes: u64,
}

impl<P: Policy> Entered<'_, P> {
    /// Leaves after a hit.
    fn leave(self, reads: &Reads) {
        add(&reads.shared_writes, self.writes);
    }
}

impl<M: Default> PlaceData<M> {
    fn reserve(&mut self, place: usize, remembers: bool) {
        if remembers && self.hashes.len() <= place {
            self.hashes.resize(place + 1, 0);
        }
        if self.metas.len() <= place {
            self.metas.resize_with(place + 1, M::default);
        }
    }

    fn view<'c>(&'c self, caller: &Caller<'c>, now: u64) -> View<'c, M> {
        let Caller { headers, stamps, .. } = *caller;
        let fetch = self.usual.map(|ticks| (ticks.round() as u64).max(1));
        View { headers, stamps, table: self, now, fetch, writes: 0 }
    }

    /// The same places; what lies beside them begins anew.
    fn copy(&self) -> Self {
        PlaceData {
            slots: self.slots.clone(),
            hashes: self.hashes.clone(),
            metas: self.metas.iter().map(|_| M::default()).collect(),
            usual: self.usual,
        }
    }
}

impl<P: Policy + 'static> Places<P> {
    /// Gives a slot a place.
    fn seat(&mut self, shard: Shard, caller: &Caller<'_>, slot: u32, hash: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.table.slots.push(0);
            (self.table.slots.len() - 1) as u32
        });
        self.table.reserve(place as usize, P::REMEMBERS);
        self.table.slots[place as usize] = slot;
        self.fresh += 1;
        if let Some(kept) = self.table.hashes.get_mut(place as usize) {
            *kept = hash;
        }
        let header = caller.headers.header(slot);
        header.position.store(shard.position(place), Relaxed);
        // Never, that is: half a turn of the epochs ago. SIEVE clears the mark later.
        let epoch = caller.epochs[shard.number as usize].0.load(Relaxed);
        header.mark.set((epoch + TURN / 2) % TURN);
        place
    }

    /// Tells the policy that what is in a place goes. Writes to shared lines.
    fn remove(&mut self, caller: &Caller<'_>, now: u64, place: Slot) -> u64 {
        let Places { policy, table, aside, .. } = self;
        let mut view = table.view(caller, now);
        if aside.has(place) {
            aside.take(place, view.weight(place));
            if let Some(ways) = &aside.ways {
                (ways.remove)(policy, &mut view, place);
            }
        } else {
            aside.pass(policy, place);
            policy.remove(&mut view, place);
        }
        view.writes
    }

    /// Takes a slot from its place; the policy knows already.
    fn unseat(&mut self, caller: &Caller<'_>, place: u32) -> u32 {
        let slot = std::mem::take(&mut self.table.slots[place as usize]);
        self.free.push(place);
        caller.headers.header(slot).position.store(0, Relaxed);
        slot
    }

    /// Keeps what the policy remembers of a newcomer, under a ticket.
    fn expect(&mut self, incoming: Incoming<P::Pending>) -> u32 {
        let ticket = self.idle.pop().unwrap_or_else(|| {
            if self.awaited.len() <= TICKETS {
                self.awaited.push(None);
                return (self.awaited.len() - 1) as u32;
            }
            self.oldest = self.oldest % TICKETS + 1;
            self.oldest as u32
        });
        self.awaited[ticket as usize] = Some(incoming);
        ticket
    }

    /// Tells the policy of an object that is not there, and says what it remembers. Adds to
    /// `writes` those to shared lines.
    ///
    /// Of one that was fetched it hears now, and hears when that was: of the miss, and of those
    /// who came meanwhile.
    fn miss(
        &mut self,
        caller: &Caller<'_>,
        now: u64,
        writes: &mut u64,
        newcomer: &Newcomer,
    ) -> Incoming<P::Pending> {
        let (hash, weight) = (newcomer.hash, seen(newcomer.weight));
        let Places { policy, table, .. } = self;
        let mut view = table.view(caller, now);
        let fetched = newcomer.absence.map(Fetched::new);
        if let Some(fetched) = fetched {
            (view.now, view.fetch) = (fetched.missed, Some(fetched.took));
        }
        let mut incoming = Incoming { hash, weight, pending: policy.miss(&mut view, hash, weight) };
        for time in fetched.iter().flat_map(Fetched::delayed_hits) {
            view.now = time;
            policy.delayed_hit(&mut view, &mut incoming);
        }
        *writes += view.writes;
        incoming
    }

    /// The view of a policy that a newcomer is brought to: how long its fetch took, and the last
    /// tick of that, as in the simulator.
    fn view_of<'c>(
        table: &'c mut PlaceData<P::Meta>,
        caller: &Caller<'c>,
        now: u64,
        newcomer: &Newcomer,
    ) -> View<'c, P::Meta> {
        let Some(fetched) = newcomer.absence.map(Fetched::new) else {
            return table.view(caller, now);
        };
        let took = fetched.took as f64;
        let usual = table.usual.map_or(took, |usual| usual + (took - usual) * LEARNING);
        table.usual = Some(usual);
        let mut view = table.view(caller, now.saturating_sub(1));
        view.fetch = Some(fetched.took);
        view
    }

    /// What was kept of a newcomer, unless its ticket went to another.
    fn redeem(&mut self, newcomer: &Newcomer) -> Option<Incoming<P::Pending>> {
        let ticket = newcomer.recalled.take();
        let kept = self.awaited.get_mut(ticket as usize)?;
        let redeemed = kept.take_if(|kept| kept.hash == newcomer.hash)?;
        self.idle.push(ticket);
        Some(redeemed)
    }
}

impl<P: Policy> std::fmt::Debug for LockedShard<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedShard").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<P: Policy + Clone + Send + 'static> PolicyShard for LockedShard<P> {
    fn tell(&self, caller: &Caller<'_>, wait: bool) -> bool {
        self.try_enter(caller, wait).map(|entered| entered.leave(caller.reads)).is_some()
    }

    fn hit(&self, caller: &Caller<'_>, slot: u32, wait: bool) -> bool {
        let Some(mut entered) = self.try_enter(caller, wait) else { return false };
        let Places { policy, table, aside, .. } = &mut *entered.places;
        if let Some(place) = self.place_of(caller, slot)
            && !aside.hides(Slot(place))
        {
            let mut view = table.view(caller, entered.now);
            policy.hit(&mut view, Slot(place));
            entered.writes += view.writes;
        }
        entered.leave(caller.reads);
        true
    }

    fn pass_over(&self, caller: &Caller<'_>, hash: u64, weight: u64) {
        let mut entered = self.enter(caller, &mut Traffic::default());
        let Entered { places, now, writes } = &mut entered;
        places.miss(caller, *now, writes, &Newcomer::new(hash, weight));
    }

    fn forget(&self, newcomer: &Newcomer) {
        self.places.lock().redeem(newcomer);
    }

    fn insert(&self, caller: &Caller<'_>, traffic: &mut Traffic, slot: u32, newcomer: &Newcomer) {
        let mut entered = self.enter(caller, traffic);
        let places = &mut *entered.places;
        let redeemed = places.redeem(newcomer);
        let (weight, hash) = (caller.headers.weight(slot), newcomer.hash);
        let place = places.seat(self.shard, caller, slot, hash);
        let incoming = redeemed.unwrap_or_else(|| {
            let absence = newcomer.absence;
            let admitted = Newcomer { absence, ..Newcomer::new(hash, weight) };
            places.miss(caller, entered.now, &mut entered.writes, &admitted)
        });
        let Places { policy, table, .. } = places;
        let mut view = Places::<P>::view_of(table, caller, entered.now, newcomer);
        policy.insert(&mut view, Slot(place), incoming);
        traffic.writes += 1 + entered.writes + view.writes;
        self.hold(weight, 0);
    }

    fn evict(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        let mut entered = self.enter(caller, traffic);
        if let Some(newcomer) = newcomer.filter(|newcomer| newcomer.recalled.get() == 0) {
            let Entered { places, now, writes } = &mut entered;
            let incoming = places.miss(caller, *now, writes, newcomer);
            newcomer.recalled.set(places.expect(incoming));
        }
        let Places { policy, table, awaited, aside, .. } = &mut *entered.places;
        // The last tick of a newcomer's fetch, as in the simulator.
        let is_fetched = newcomer.is_some_and(|newcomer| newcomer.absence.is_some());
        let mut view = table.view(caller, entered.now.saturating_sub(is_fetched.into()));
        let incoming = newcomer.and_then(|newcomer| {
            let kept = awaited.get(newcomer.recalled.get() as usize)?.as_ref();
            kept.filter(|kept| kept.hash == newcomer.hash)
        });
        let walk = aside.walking.then(|| aside.after_cursor(policy));
        let eviction = policy.evict(&mut view, incoming);
        if let (Some((Some(cursor), next)), Eviction::Victim(victim)) = (walk, eviction)
            && cursor == victim
        {
            aside.go_on_from(next);
        }
        traffic.writes += entered.writes + view.writes;
        match eviction {
            Eviction::Victim(place) => {
                traffic.writes += 1;
                let slot = entered.places.unseat(caller, place.0);
                self.hold(0, caller.headers.weight(slot));
                Decision::Victim(slot)
            }
            Eviction::Refuse => Decision::Refuse,
            Eviction::Empty => Decision::Empty,
        }
    }

    fn detach(&self, caller: &Caller<'_>, traffic: &mut Traffic, slot: u32) -> bool {
        let mut entered = self.enter(caller, traffic);
        let Some(place) = self.place_of(caller, slot) else { return false };
        let writes = entered.places.remove(caller, entered.now, Slot(place));
        traffic.writes += 1 + entered.writes + writes;
        entered.places.unseat(caller, place);
        self.hold(0, caller.headers.weight(slot));
        true
    }

    fn replace(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        [old, new]: [u32; 2],
        used: bool,
    ) -> bool {
        let mut entered = self.enter(caller, traffic);
        let Some(place) = self.place_of(caller, old) else { return false };
        let Places { policy, table, aside, .. } = &mut *entered.places;
        let is_aside = aside.has(Slot(place));
        if used && !aside.hides(Slot(place)) {
            let mut view = table.view(caller, entered.now);
            policy.hit(&mut view, Slot(place));
            entered.writes += view.writes;
        }
        let [old_header, header] = [old, new].map(|slot| caller.headers.header(slot));
        header.mark.set(old_header.mark.count());
        if let Some(stamps) = caller.stamps {
            stamps.get_or_make(new).store(stamps.get_or_make(old).load(Relaxed), Relaxed);
        }
        table.slots[place as usize] = new;
        header.position.store(self.shard.position(place), Relaxed);
        old_header.position.store(0, Relaxed);
        let [old_weight, weight] = [old, new].map(|slot| caller.headers.weight(slot));
        let mut view = table.view(caller, entered.now);
        match &aside.ways {
            Some(ways) if is_aside => {
                (ways.reweigh)(policy, &mut view, Slot(place), seen(old_weight));
                aside.weight = aside.weight - seen(old_weight) + seen(weight);
            }
            _ => policy.reweigh(&mut view, Slot(place), seen(old_weight)),
        }
        traffic.writes += entered.writes;
        self.hold(weight, old_weight);
        true
    }

    fn take_dead(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        from: u32,
    ) -> Option<(u32, u32)> {
        let mut entered = self.enter(caller, traffic);
        let Places { table, .. } = &*entered.places;
        let dead = |place: &u32| {
            let slot = table.slots[*place as usize];
            // Acquire: partner is the Release with which it was declared dead.
            slot != 0 && caller.headers.header(slot).state.load(Acquire) & DEAD != 0
        };
        let place = (from.max(1)..table.slots.len() as u32).find(dead)?;
        entered.places.remove(caller, entered.now, Slot(place));
        let slot = entered.places.unseat(caller, place);
        self.hold(0, caller.headers.weight(slot));
        Some((slot, place))
    }

    fn set_capacity(&self, capacity: u64) {
        self.places.lock().policy.set_capacity(capacity);
    }

    #[cfg(feature = "freezing")]
    fn begin_setting_aside(&self, caller: &Caller<'_>) -> u64 {
        let keeps_order = match &self.places.lock().aside.ways {
            None => return 0,
            Some(ways) => ways.walks,
        };
        // Copied, and asked outside of the lock, where it has to be put together.
        let copied = |slot| self.place_of(caller, slot).map(Slot);
        let listed = if keeps_order { Vec::new() } else { self.coldest_first(caller) };
        let listed: Vec<Slot> = listed.into_iter().filter_map(copied).collect();
        let mut entered = self.enter(caller, &mut Traffic::default());
        let Places { policy, table, free, aside, .. } = &mut *entered.places;
        aside.begin(policy, listed);
        (table.slots.len() - 1 - free.len()) as u64
    }

    #[cfg(feature = "freezing")]
    fn set_aside_next(
        &self,
        caller: &Caller<'_>,
        count: u64,
        pinned: &Pinned<'_>,
        slots: &mut Vec<u32>,
    ) {
        let mut entered = self.enter(caller, &mut Traffic::default());
        let now = entered.now;
        let Places { policy, table, aside, .. } = &mut *entered.places;
        for _ in 0..count {
            let is_seated = |place: Slot| table.slots[place.index()] != 0;
            let Some(place) = aside.next(policy, is_seated) else { return };
            let Some(ways) = &aside.ways else { return };
            let mut view = table.view(caller, now);
            (ways.set_aside)(policy, &mut view, place);
            let weight = view.weight(place);
            aside.add(place, weight);
            let slot = table.slots[place.index()];
            // Under the lock, without which nobody takes it out of its place and retires it.
            pinned.keep(slot);
            slots.push(slot);
        }
    }

    #[cfg(feature = "freezing")]
    fn end_setting_aside(&self, capacity: u64) {
        let Places { policy, aside, .. } = &mut *self.places.lock();
        aside.end();
        policy.set_capacity(capacity.saturating_sub(aside.weight).max(1));
    }

    #[cfg(feature = "freezing")]
    fn aside(&self) -> u64 {
        self.places.lock().aside.count()
    }

    #[cfg(feature = "freezing")]
    fn take_back(&self, caller: &Caller<'_>, capacity: u64) {
        let mut entered = self.enter(caller, &mut Traffic::default());
        let now = entered.now;
        let Places { policy, table, aside, .. } = &mut *entered.places;
        if let Some(ways) = aside.ways.as_ref().filter(|_| aside.used) {
            (ways.take_back)(policy, &mut table.view(caller, now));
            aside.clear();
            policy.set_capacity(capacity);
        }
    }

    fn slots(&self) -> Vec<(u32, u32)> {
        let places = self.places.lock();
        let seated = (0..).zip(&places.table.slots).filter(|&(_, &slot)| slot != 0);
        seated.map(|(place, &slot)| (self.shard.position(place), slot)).collect()
    }

    fn coldest_first(&self, caller: &Caller<'_>) -> Vec<u32> {
        let entered = self.enter(caller, &mut Traffic::default());
        let Places { policy, table, .. } = &*entered.places;
        let (policy, table, now) = (policy.clone(), table.copy(), entered.now);
        drop(entered);
        let order = policy.coldest_first(&table.view(caller, now));
        order.into_iter().map(|place| table.slots[place.index()]).collect()
    }

    fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    fn heap_bytes(&self) -> usize {
        let Places { table, free, awaited, aside, .. } = &*self.places.lock();
        (table.slots.capacity() + free.capacity()) * size_of::<u32>()
            + table.hashes.capacity() * size_of::<u64>()
            + table.metas.capacity() * size_of::<P::Meta>()
            + awaited.capacity() * size_of::<Option<Incoming<P::Pending>>>()
            + aside.heap_bytes()
    }
}
