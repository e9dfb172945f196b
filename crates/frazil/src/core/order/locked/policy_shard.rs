//! One policy of `frazil-policy` under one lock.
//!
//! The policy orders *places*, and a table maps a place to its slot: a replacement puts its slot in
//! the place of the old one without telling the policy. The slot's position has its place and
//! shard; it is 0 while the slot is in no place, and written under the lock. 4 bytes an entry, 8
//! more for policies that remember evicted entries, and the policy's own.

use frazil_policy::{Eviction, Priority, Slot};

use super::super::Absence;
use super::any_policy::{AnyPolicy, View};
use super::notes::{EPOCHS, TURN};
use super::set_aside::SetAside;
use super::{Caller, Decision, Newcomer, Shard, ticks};
use crate::core::local::Reads;
use crate::core::slab::{DEAD, Header};
#[cfg(feature = "freezing")]
use crate::smr::protect::Pinned;
use crate::smr::stripe::{Traffic, add};
use crate::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use crate::sync::{Mutex, MutexGuard, OwnLine};

/// The most new entries between their miss and their admission. With more, some report their miss
/// again when they are admitted.
const TICKETS: usize = 1 << 12;
/// The ticket of a new entry that is admitted right after its miss, or not at all.
const AT_ONCE: u32 = 0;

/// The most waiters of a fetch that are reported to a policy: 10 ns each, under its lock.
const TOLD_MAX: u64 = 1 << 12;
/// Weight of one fetch in the moving average of durations.
const LEARNING: f64 = 1.0 / 16.0;

/// The largest weight of an entry, and the largest capacity, reported to a policy: sums of both do
/// not overflow, with any weigher.
const WEIGHT_SEEN: u64 = 1 << 34;
pub(crate) const CAPACITY_SEEN: u64 = 1 << 62;

/// A weight as reported to a policy.
pub(super) fn seen(weight: u64) -> u64 {
    weight.min(WEIGHT_SEEN)
}

/// A policy behind a lock, and the slots that it orders.
///
/// Policies are called through a table of functions. The lock costs many times as much, and common
/// code is compiled once.
pub(crate) struct PolicyShard {
    shard: Shard,
    places: Mutex<Places>,
    /// Written under the lock, for threads that look for a shard that holds too much.
    held: AtomicU64,
    /// The policy's epoch. Separate from the data that the lock's holders write, because readers
    /// read it.
    epoch: OwnLine<AtomicU8>,
}

struct Places {
    policy: Box<dyn AnyPolicy>,
    table: Table,
    free: Vec<u32>,
    tickets: Tickets,
    aside: SetAside,
    /// The latest time reported to the policy.
    time: u64,
    /// Slots inserted in this epoch, or with a hit reported to the policy.
    fresh: usize,
}

/// New entries of which the policy has data, by ticket.
struct Tickets {
    /// Their hashes; of [`AT_ONCE`] none.
    hashes: Vec<Option<u64>>,
    /// Free tickets below that length.
    idle: Vec<u32>,
    /// The ticket that is taken from its holder next, should all be in use.
    oldest: usize,
}

impl Tickets {
    fn issue(&mut self, hash: u64) -> u32 {
        let ticket = self.idle.pop().unwrap_or_else(|| {
            if self.hashes.len() <= TICKETS {
                self.hashes.push(None);
                return (self.hashes.len() - 1) as u32;
            }
            self.oldest = self.oldest % TICKETS + 1;
            self.oldest as u32
        });
        self.hashes[ticket as usize] = Some(hash);
        ticket
    }

    /// The ticket of a new entry, unless another has it now.
    fn of(&self, newcomer: &Newcomer) -> Option<u32> {
        let ticket = newcomer.recalled.get();
        (*self.hashes.get(ticket as usize)? == Some(newcomer.hash)).then_some(ticket)
    }

    /// Takes it back.
    fn redeem(&mut self, newcomer: &Newcomer) -> Option<u32> {
        let ticket = self.of(newcomer);
        newcomer.recalled.set(0);
        let ticket = ticket?;
        self.hashes[ticket as usize] = None;
        self.idle.push(ticket);
        Some(ticket)
    }
}

/// Duration of a new entry's fetch, in ticks.
#[derive(Clone, Copy)]
struct Fetched {
    missed: u64,
    took: u64,
    landed: u64,
    /// Requests that came meanwhile, their total wait, and the wait of the last of them.
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

    /// Times of the waiters. A flight has only the sum of their delays: all except the last are
    /// reported as if they had come together.
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

/// The policy's view of a place.
#[derive(Clone)]
pub(super) struct Table {
    /// The slot by place; place 0 does not exist.
    pub(super) slots: Vec<u32>,
    /// By place; empty unless the policy remembers.
    pub(super) hashes: Vec<u64>,
    /// Typical duration of a fetch, in ticks, once there was one.
    usual: Option<f64>,
}

impl Table {
    pub(super) fn usual_fetch(&self) -> Option<u64> {
        self.usual.map(|ticks| (ticks.round() as u64).max(1))
    }

    fn view<'c>(&'c self, caller: &'c Caller<'c>, now: u64) -> View<'c> {
        View { caller, table: self, now, fetch: None, writes: 0 }
    }

    /// A policy's view for a new entry: the duration of its fetch, and the last tick of it, as in
    /// the simulator.
    fn view_of<'c>(
        &'c mut self,
        caller: &'c Caller<'c>,
        now: u64,
        newcomer: &Newcomer,
    ) -> View<'c> {
        let Some(fetched) = newcomer.absence.map(Fetched::new) else {
            return self.view(caller, now);
        };
        let took = fetched.took as f64;
        let usual = self.usual.map_or(took, |usual| usual + (took - usual) * LEARNING);
        self.usual = Some(usual);
        let mut view = self.view(caller, now.saturating_sub(1));
        view.fetch = Some(fetched.took);
        view
    }
}

impl PolicyShard {
    pub(super) fn new(shard: Shard, policy: Box<dyn AnyPolicy>) -> Self {
        let hashes = vec![0; policy.remembers().into()];
        let table = Table { slots: vec![0], hashes, usual: None };
        let tickets = Tickets { hashes: vec![None], idle: Vec::new(), oldest: 0 };
        let (free, aside, time, fresh) = (Vec::new(), SetAside::default(), 0, 0);
        let places = Places { policy, table, free, tickets, aside, time, fresh };
        let (places, epoch) = (Mutex::new(places), OwnLine(AtomicU8::new(1)));
        PolicyShard { shard, places, held: AtomicU64::new(0), epoch }
    }

    /// Takes the lock, and first reports the hits that the caller has noted.
    fn enter(&self, caller: &Caller<'_>, traffic: &mut Traffic) -> Entered<'_> {
        // The lock is written when it is taken and when it is left.
        traffic.writes += 2;
        #[cfg(feature = "measure")]
        if let Some(turns) = caller.turns
            && let Some((places, waited)) = turns.take(true, || self.places.try_lock())
        {
            traffic.retries += u64::from(waited);
            add(&caller.reads.waits, u64::from(waited));
            return self.catch_up(caller, places);
        }
        let places = self.places.try_lock().unwrap_or_else(|| {
            traffic.retries += 1;
            add(&caller.reads.waits, 1);
            self.places.lock()
        });
        self.catch_up(caller, places)
    }

    /// The same for a hit, which has no stripe for its counts.
    fn try_enter(&self, caller: &Caller<'_>, wait: bool) -> Option<Entered<'_>> {
        let places = self.try_lock(caller, wait)?;
        let mut entered = self.catch_up(caller, places);
        entered.writes += 2;
        Some(entered)
    }

    fn try_lock(&self, caller: &Caller<'_>, wait: bool) -> Option<MutexGuard<'_, Places>> {
        #[cfg(feature = "measure")]
        if let Some(turns) = caller.turns {
            let taken = turns.take(wait, || self.places.try_lock());
            if taken.as_ref().is_none_or(|&(_, waited)| waited) {
                add(&caller.reads.retries, 1);
                add(&caller.reads.waits, u64::from(wait));
            }
            return taken.map(|(places, _)| places);
        }
        self.places.try_lock().or_else(|| {
            add(&caller.reads.retries, 1);
            add(&caller.reads.waits, u64::from(wait));
            wait.then(|| self.places.lock())
        })
    }

    fn catch_up<'p>(&self, caller: &Caller<'_>, mut places: MutexGuard<'p, Places>) -> Entered<'p> {
        let before = caller.synchronize(places.time);
        let Places { policy, table, free, fresh, aside, time, .. } = &mut *places;
        *time = before.now;
        let mut writes = before.writes;
        let current = self.epoch();
        caller.reads.notes.take(|slot, request| {
            let Header { position, mark: heard, .. } = caller.headers.header(slot);
            let position = position.load(Relaxed);
            let Some(place) = self.shard.place(position) else {
                // A position of another shard, or a stale one.
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
            self.epoch.0.store((current + 1) % TURN, Relaxed);
            *fresh = 0;
        }
        Entered { places, now: before.now, writes }
    }

    pub(super) fn epoch(&self) -> u8 {
        self.epoch.0.load(Relaxed)
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
struct Entered<'p> {
    places: MutexGuard<'p, Places>,
    now: u64,
    writes: u64,
}

impl Entered<'_> {
    /// Leaves after a hit.
    fn leave(self, reads: &Reads) {
        add(&reads.shared_writes, self.writes);
    }
}

impl Places {
    /// Gives a slot a place.
    fn seat(&mut self, to: &PolicyShard, caller: &Caller<'_>, slot: u32, hash: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.table.slots.push(0);
            (self.table.slots.len() - 1) as u32
        });
        let Table { slots, hashes, .. } = &mut self.table;
        slots[place as usize] = slot;
        if !hashes.is_empty() {
            hashes.resize(slots.len(), 0);
            hashes[place as usize] = hash;
        }
        self.fresh += 1;
        let header = caller.headers.header(slot);
        header.position.store(to.shard.position(place), Relaxed);
        // That means never: half a turn of the epochs ago. SIEVE clears the mark later.
        header.mark.set((to.epoch() + TURN / 2) % TURN);
        place
    }

    /// Reports the removal of the entry in a place to the policy. Returns the writes to shared
    /// lines.
    fn remove(&mut self, caller: &Caller<'_>, now: u64, place: Slot) -> u64 {
        let Places { policy, table, aside, .. } = self;
        let mut view = table.view(caller, now);
        if aside.has(place) {
            aside.take(place, view.weight(place));
            // Its slot may be put back after all.
            #[cfg(feature = "freezing")]
            caller.headers.header(table.slots[place.index()]).take_back();
            if let Some(hot_first) = policy.hot_first() {
                hot_first.remove_aside(&mut view, place);
            }
        } else {
            aside.pass(&mut **policy, place);
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

    /// Reports a miss to the policy; its data are kept under a ticket. Returns the writes to shared
    /// lines.
    ///
    /// A fetched entry is reported now, with the times of its miss and of the requests during the
    /// fetch.
    fn miss(&mut self, caller: &Caller<'_>, now: u64, newcomer: &Newcomer, ticket: u32) -> u64 {
        let Places { policy, table, .. } = self;
        let (mut view, weight) = (table.view(caller, now), seen(newcomer.weight));
        if let Some(fetched) = newcomer.absence.map(Fetched::new) {
            (view.now, view.fetch) = (fetched.missed, Some(fetched.took));
            policy.miss(&mut view, newcomer.hash, weight, ticket);
            for time in fetched.delayed_hits() {
                view.now = time;
                policy.delayed_hit(&mut view, ticket);
            }
        } else {
            policy.miss(&mut view, newcomer.hash, weight, ticket);
        }
        view.writes
    }
}

impl std::fmt::Debug for PolicyShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyShard").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl PolicyShard {
    /// Reports the caller's notes to the policy. False if it may not wait for the lock and it is
    /// taken.
    pub(super) fn tell(&self, caller: &Caller<'_>, wait: bool) -> bool {
        self.try_enter(caller, wait).map(|entered| entered.leave(caller.reads)).is_some()
    }

    /// Reports one hit to the policy. False if it may not wait for the lock and it is taken.
    pub(super) fn hit(&self, caller: &Caller<'_>, slot: u32, wait: bool) -> bool {
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

    /// Reports a requested object that is too heavy to admit.
    pub(super) fn pass_over(&self, caller: &Caller<'_>, hash: u64, weight: u64) {
        let Entered { mut places, now, .. } = self.enter(caller, &mut Traffic::default());
        let newcomer = Newcomer::new(hash, weight);
        places.miss(caller, now, &newcomer, AT_ONCE);
    }

    /// A new entry is not admitted after all.
    pub(super) fn forget(&self, newcomer: &Newcomer) {
        self.places.lock().tickets.redeem(newcomer);
    }

    /// Admits a slot.
    pub(super) fn insert(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        slot: u32,
        newcomer: &Newcomer,
        priority: Priority,
    ) {
        let mut entered = self.enter(caller, traffic);
        let places = &mut *entered.places;
        let redeemed = places.tickets.redeem(newcomer);
        let (weight, hash) = (caller.headers.weight(slot), newcomer.hash);
        let place = places.seat(self, caller, slot, hash);
        let ticket = redeemed.unwrap_or_else(|| {
            let absence = newcomer.absence;
            let admitted = Newcomer { absence, ..Newcomer::new(hash, weight) };
            entered.writes += places.miss(caller, entered.now, &admitted, AT_ONCE);
            AT_ONCE
        });
        let Places { policy, table, .. } = places;
        let mut view = table.view_of(caller, entered.now, newcomer);
        policy.insert(&mut view, Slot(place), ticket, priority);
        traffic.writes += 1 + entered.writes + view.writes;
        self.hold(weight, 0);
    }

    /// Chooses and takes a victim. First reports the new entry, if the policy does not know it yet.
    pub(super) fn evict(
        &self,
        caller: &Caller<'_>,
        traffic: &mut Traffic,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        let mut entered = self.enter(caller, traffic);
        if let Some(newcomer) = newcomer.filter(|newcomer| newcomer.recalled.get() == 0) {
            let ticket = entered.places.tickets.issue(newcomer.hash);
            entered.writes += entered.places.miss(caller, entered.now, newcomer, ticket);
            newcomer.recalled.set(ticket);
        }
        let Places { policy, table, tickets, aside, .. } = &mut *entered.places;
        // The last tick of a new entry's fetch, as in the simulator.
        let is_fetched = newcomer.is_some_and(|newcomer| newcomer.absence.is_some());
        let mut view = table.view(caller, entered.now.saturating_sub(is_fetched.into()));
        let next = aside.after_cursor(&mut **policy);
        let ticket = newcomer.and_then(|newcomer| tickets.of(newcomer));
        let eviction = policy.evict(&mut view, ticket);
        if let Eviction::Victim(victim) = eviction
            && aside.cursor == Some(victim)
        {
            aside.cursor = next;
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

    /// Takes a slot out. False if it is in no place.
    pub(super) fn detach(&self, caller: &Caller<'_>, traffic: &mut Traffic, slot: u32) -> bool {
        let mut entered = self.enter(caller, traffic);
        let Some(place) = self.place_of(caller, slot) else { return false };
        let writes = entered.places.remove(caller, entered.now, Slot(place));
        traffic.writes += 1 + entered.writes + writes;
        entered.places.unseat(caller, place);
        self.hold(0, caller.headers.weight(slot));
        true
    }

    /// Puts `new` in the place of `old`, which is a use of it if `used`. False if `old` is in
    /// no place.
    pub(super) fn replace(
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
        #[cfg(feature = "freezing")]
        if is_aside {
            caller.headers.header(new).set_aside();
            aside.replace(new);
        }
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
        match policy.hot_first().filter(|_| is_aside) {
            Some(hot_first) => {
                hot_first.reweigh_aside(&mut view, Slot(place), seen(old_weight));
                aside.weight = aside.weight - seen(old_weight) + seen(weight);
            }
            None => policy.reweigh(&mut view, Slot(place), seen(old_weight)),
        }
        traffic.writes += entered.writes;
        self.hold(weight, old_weight);
        true
    }

    /// Takes out the first dead slot from the place `from` on, and returns its place.
    pub(super) fn take_dead(
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

    /// Sets the policy's capacity.
    pub(super) fn set_capacity(&self, capacity: u64) {
        self.places.lock().policy.set_capacity(capacity);
    }

    /// Begins to walk the order, hottest first: from now on no hits are reported to the policy.
    /// Returns the number of entries; 0 if none can be set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn begin_setting_aside(&self, caller: &Caller<'_>) -> u64 {
        let walks = self.places.lock().policy.hot_first().map(|hot_first| hot_first.walks());
        let Some(walks) = walks else { return 0 };
        // The policy is copied, and the copy computes the order outside of the lock, if it has no
        // ready order.
        let copied = |slot| self.place_of(caller, slot).map(Slot);
        let listed = if walks { Vec::new() } else { self.coldest_first(caller) };
        let listed: Vec<Slot> = listed.into_iter().filter_map(copied).collect();
        let mut entered = self.enter(caller, &mut Traffic::default());
        let Places { policy, table, free, aside, .. } = &mut *entered.places;
        aside.begin(&mut **policy, listed);
        (table.slots.len() - 1 - free.len()) as u64
    }

    /// Sets the next entries of the walk aside, and adds their slots to `slots`; the pin protects
    /// them, if there is one. Their headers are marked from here on. The lock is held for some 20
    /// ns a slot.
    #[cfg(feature = "freezing")]
    pub(super) fn set_aside_next(
        &self,
        caller: &Caller<'_>,
        count: u64,
        pinned: Option<&Pinned<'_>>,
        slots: &mut Vec<u32>,
    ) {
        let mut entered = self.enter(caller, &mut Traffic::default());
        let now = entered.now;
        let Places { policy, table, aside, .. } = &mut *entered.places;
        let set_aside = slots.len();
        for _ in 0..count {
            let is_seated = |place: Slot| table.slots[place.index()] != 0;
            let Some(place) = aside.next(&mut **policy, is_seated) else { break };
            let Some(hot_first) = policy.hot_first() else { break };
            let slot = table.slots[place.index()];
            // An uncharged entry leaves with its last holder.
            if !caller.headers.is_charged(slot) {
                continue;
            }
            let mut view = table.view(caller, now);
            hot_first.set_aside(&mut view, place);
            let weight = view.weight(place);
            aside.add(place, weight);
            // Under the lock, without which no thread takes it out of its place and retires it.
            pinned.into_iter().for_each(|pinned| pinned.keep(slot));
            caller.headers.prefetch(slot);
            slots.push(slot);
        }
        // Under the lock as well: a thread that takes one out clears the flag set here.
        for &slot in &slots[set_aside..] {
            caller.headers.header(slot).set_aside();
        }
    }

    /// Ends the walk; the policy gets the rest of its capacity. It is set under the lock, so that
    /// no older value follows a newer one.
    #[cfg(feature = "freezing")]
    pub(super) fn end_setting_aside(&self, capacity: &dyn Fn() -> u64) {
        let Places { policy, aside, .. } = &mut *self.places.lock();
        aside.end();
        policy.set_capacity(capacity().saturating_sub(aside.weight).max(1));
    }

    /// How many are set aside.
    #[cfg(feature = "freezing")]
    pub(super) fn aside_count(&self) -> u64 {
        self.places.lock().aside.count()
    }

    /// Their slots.
    #[cfg(feature = "freezing")]
    pub(super) fn aside(&self) -> Vec<u32> {
        let Places { table, aside, .. } = &*self.places.lock();
        aside.slots(&table.slots)
    }

    /// Returns the entries set aside to the policy, with all of its capacity. Returns the slots
    /// that have replaced some of them since; the caller resets their headers.
    #[cfg(feature = "freezing")]
    pub(super) fn take_back(&self, caller: &Caller<'_>, capacity: &dyn Fn() -> u64) -> Vec<u32> {
        let mut entered = self.enter(caller, &mut Traffic::default());
        let now = entered.now;
        let Places { policy, table, aside, .. } = &mut *entered.places;
        if let Some(hot_first) = policy.hot_first().filter(|_| aside.used) {
            hot_first.take_back(&mut table.view(caller, now));
            let slots = aside.replacements(&table.slots);
            aside.clear();
            policy.set_capacity(capacity());
            return slots;
        }
        Vec::new()
    }

    /// The slots that are in a place, each with its position.
    pub(super) fn slots(&self) -> Vec<(u32, u32)> {
        let places = self.places.lock();
        let seated = (0..).zip(&places.table.slots).filter(|&(_, &slot)| slot != 0);
        seated.map(|(place, &slot)| (self.shard.position(place), slot)).collect()
    }

    /// The slots that are in a place, in the order of eviction.
    pub(super) fn coldest_first(&self, caller: &Caller<'_>) -> Vec<u32> {
        let entered = self.enter(caller, &mut Traffic::default());
        let Places { policy, table, .. } = &*entered.places;
        let (policy, table, now) = (policy.copy(), table.clone(), entered.now);
        drop(entered);
        let order = policy.coldest_first(&mut table.view(caller, now));
        order.into_iter().map(|place| table.slots[place.index()]).collect()
    }

    /// Total weight of the slots in a place.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Bytes on the heap, beside the policy's own.
    pub(super) fn heap_bytes(&self) -> usize {
        let Places { policy, table, free, tickets, aside, .. } = &*self.places.lock();
        (table.slots.capacity() + free.capacity()) * size_of::<u32>()
            + table.hashes.capacity() * size_of::<u64>()
            + tickets.hashes.capacity() * size_of::<Option<u64>>()
            + policy.heap_bytes()
            + aside.heap_bytes()
    }
}
