//! All that changes a cache: insertion, eviction, removal.
//!
//! Two exchanges decide every race, and each is made by exactly one thread:
//! the exchange of the **index word** ends a residency (whoever makes it counts it and
//! gets the weight back), and the exchange of the **queue word** takes the slot (whoever
//! makes it retires it). `docs/design/mobius.md` walks through the races.

mod exchange;
mod reclaim;

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::admission::{Admitted, Refusal, Refused};
use crate::cache::{Cache, Found};
use crate::events;
use crate::evict::{Decision, Ensure, Hand, Newcomer, Order};
use crate::expiry::deadlines::Term;
use crate::index::Place;
use crate::listen::{self, Telling};
use crate::protect::{Hazard, Pinned, Protect};
use crate::record::Deed;
use crate::slab::DEAD;
use crate::stripe::{Held, Outside, Traffic, add};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::thread;

/// How often an insertion begins again because other threads changed its key, or took
/// what it had made room for. Each time another has got on.
const ATTEMPTS: usize = 64;

/// How often it tries again to make room in the table, while somebody runs code of the user's
/// under a stripe.
const PATIENCE: u32 = if cfg!(loom) { 0 } else { 200 };

/// How often it gathers what idle threads have in hand.
pub(crate) const SCAVENGES: u32 = 3;

/// An attempt at an insertion that did not end in an entry.
struct Setback<K, V> {
    cause: Cause,
    key: K,
    value: V,
}

/// Why it did not.
#[derive(Clone, Copy)]
enum Cause {
    /// This thread can reach no slot of a queue, or there is no vacant one.
    Shortage,
    /// The newcomer is not to be admitted.
    Refused(Refusal),
    /// The key came or went meanwhile.
    Changed,
}

impl Cause {
    /// What a caller is told who has tried for long enough.
    fn refusal(self) -> Refusal {
        match self {
            Cause::Refused(refusal) => refusal,
            Cause::Shortage | Cause::Changed => Refusal::NoRoom,
        }
    }
}

/// How a residency ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Made room for another.
    Evicted,
    /// Its deadline passed.
    Expired,
    /// Another entry of the same key has its place.
    Replaced,
    /// Another entry of the same key was admitted beside it, or refused.
    Outdated,
    /// Asked for.
    Removed,
}

impl Ending {
    /// What a listener is told.
    fn cause(self) -> listen::Cause {
        match self {
            Ending::Evicted => listen::Cause::Size,
            Ending::Expired => listen::Cause::Expired,
            Ending::Replaced | Ending::Outdated => listen::Cause::Replaced,
            Ending::Removed => listen::Cause::Removed,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Puts an entry in, in the place of the one of the same key if there is one.
    ///
    /// When the cache is full the policy chooses what goes. The newcomer itself may be
    /// refused: if it weighs more than the whole capacity, if the policy sees no use in
    /// it, or if pins hold up too many slots; then an entry of the same key goes all the
    /// same, so that no one reads what is out of date. [`try_insert`](Cache::try_insert) says
    /// what became of it. O(1) amortised; no step of it waits for a thread that evicts.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one");
    /// cache.insert(1, "uno");
    /// assert_eq!(cache.get(&1), Some("uno"));
    /// ```
    pub fn insert(&self, key: K, value: V) {
        // What has expired may be told before the entry is there.
        let _steps = self.listener.is_some().then(|| self.steps());
        let term = self.term(&key, &value);
        _ = self.put(key, value, term, drop);
    }

    /// Puts an entry in that lives as long as `term` says. One that is not admitted goes to
    /// `refused`: where nobody wants it back nobody pays for the way.
    #[inline(always)]
    pub(crate) fn put<R>(
        &self,
        key: K,
        value: V,
        term: Term,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let (hash, place) = self.place(&key);
        self.overtake(hash, &key);
        let weight = self.weigher.as_ref().map_or(1, |weigh| weigh(&key, &value));
        if self.stripe().reader.arrive(hash) {
            return self.admit_timed(place, (hash, weight, term), key, value, refused);
        }
        self.admit(place, (hash, weight, term), key, value, refused)
    }

    /// An insertion that ends a miss which is timed.
    #[cold]
    #[inline(never)]
    fn admit_timed<R>(
        &self,
        place: Place,
        traits: (u64, u64, Term),
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let outcome = self.admit(place, traits, key, value, refused);
        self.end_timed_miss();
        outcome
    }

    /// Puts an entry in whose arrival was counted.
    #[inline(always)]
    fn admit<R>(
        &self,
        place: Place,
        (hash, weight, term): (u64, u64, Term),
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        if self.recorder.wants(hash) {
            self.recorder.note(hash, Deed::Insert, weight);
        }
        self.order.read_clock(self);
        if self.is_beyond(weight) {
            self.order.pass_over(self, hash, weight);
            let entry = (key, value);
            return Err(refused(self.refuse(self.telling(), place, entry, Refusal::TooHeavy)));
        }
        let reader = &self.stripe().reader;
        match Hazard::of(&reader.hazard) {
            Some(hazard) => {
                self.insert_under(&hazard, place, (hash, weight, term), key, value, refused)
            }
            None => self.insert_nested(place, (hash, weight, term), key, value, refused),
        }
    }

    /// From code of the user's that a look-up of this thread runs.
    #[cold]
    #[inline(never)]
    fn insert_nested<R>(
        &self,
        place: Place,
        traits: (u64, u64, Term),
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let protection = Pinned::new(&self.stripe().reader, &self.reclaim);
        self.insert_under(&protection, place, traits, key, value, refused)
    }

    /// Finds a key, after what has expired of it is taken out.
    #[inline(always)]
    pub(crate) fn find_living(
        &self,
        protection: &impl Protect,
        place: Place,
        key: &K,
    ) -> Option<Found<'_>> {
        let found = self.find(protection, place, key)?;
        if !self.has_expired(found.slot) {
            return Some(found);
        }
        // Not a newcomer's to replace: it is absent.
        self.take_out_expired(place, &found);
        self.find(protection, place, key)
    }

    /// Sees an arrival through: most get in at the first attempt.
    #[inline(always)]
    fn insert_under<R>(
        &self,
        protection: &impl Protect,
        place: Place,
        (hash, weight, term): (u64, u64, Term),
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let telling = self.telling();
        let found = self.find_living(protection, place, &key);
        let mut held = self.hold();
        let newcomer = Newcomer::new(hash, weight, term);
        if found.is_none() {
            newcomer.recalled.set(self.order.miss(&held, hash));
        }
        match self.attempt(&mut held, place, &newcomer, found.as_ref(), key, value) {
            Ok(()) => {
                self.settle(&mut held);
                let due = std::mem::take(&mut held.flushed);
                drop(held);
                drop(telling);
                if due {
                    self.reclaim_if_due();
                }
                Ok(if found.is_some() { Admitted::Replaced } else { Admitted::New })
            }
            Err(setback) => {
                self.persist(protection, (telling, held), place, newcomer, setback, refused)
            }
        }
    }

    /// Sees an arrival through that has met with a setback.
    #[cold]
    #[inline(never)]
    fn persist<'c, R>(
        &'c self,
        protection: &impl Protect,
        (mut telling, mut held): (Option<Telling<'c, K, V, S>>, Held<'c>),
        place: Place,
        newcomer: Newcomer,
        mut setback: Setback<K, V>,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let mut scavenged = 0;
        for _ in 0..ATTEMPTS {
            match setback.cause {
                Cause::Changed => {}
                Cause::Refused(_) => break,
                Cause::Shortage => {
                    drop(held);
                    telling.iter_mut().for_each(Telling::pause);
                    let relieved = self.relieve(&mut scavenged);
                    telling.iter_mut().for_each(Telling::resume);
                    held = self.hold();
                    if !relieved {
                        break;
                    }
                }
            }
            let Setback { key, value, .. } = setback;
            let found = self.find(protection, place, &key);
            match self.attempt(&mut held, place, &newcomer, found.as_ref(), key, value) {
                Ok(()) => {
                    self.settle(&mut held);
                    drop(held);
                    drop(telling);
                    self.reclaim_if_due();
                    return Ok(if found.is_some() { Admitted::Replaced } else { Admitted::New });
                }
                Err(next) => setback = next,
            }
        }
        // It is not to be, and what it would have replaced goes.
        self.order.forget(&newcomer);
        self.settle(&mut held);
        drop(held);
        let Setback { cause, key, value } = setback;
        Err(refused(self.refuse(telling, place, (key, value), cause.refusal())))
    }

    /// Makes more slots and credit available, which the caller, who holds no stripe, has
    /// gathered so often. False if it is no use.
    fn relieve(&self, scavenged: &mut u32) -> bool {
        if self.grow(PATIENCE) || self.reclaim() > 0 {
            return true;
        }
        if *scavenged == SCAVENGES {
            #[cfg(feature = "tracing")]
            self.tell_of_shortage();
            return false;
        }
        self.scavenge(*scavenged > 0);
        *scavenged += 1;
        true
    }

    /// One attempt at an insertion: makes room, fills a slot, publishes and queues it. The
    /// entry of the same key, if there was one, is still protected.
    ///
    /// Credit is drawn and a slot filled only when no more of the user's code can run, so
    /// that a panic of that loses nothing.
    #[inline(always)]
    fn attempt(
        &self,
        held: &mut Held<'_>,
        place: Place,
        newcomer: &Newcomer,
        found: Option<&Found<'_>>,
        key: K,
        value: V,
    ) -> Result<(), Setback<K, V>> {
        let places = u64::from(found.is_none());
        let (mut old_weight, mut growth) = (0, 0);
        if self.weights.is_some() {
            old_weight = found.map_or(0, |found| self.slab.weight(found.slot));
            growth = newcomer.weight.saturating_sub(old_weight);
            if self.reclaim.is_crowded() {
                return Err(Setback { cause: Cause::Shortage, key, value });
            }
        }
        let room = match found {
            Some(found) if growth > 0 => self.make_room_to_grow(held, newcomer, growth, found.slot),
            _ => self.make_room(held, newcomer, places, growth, |_| false),
        };
        if let Err(cause) = room {
            return Err(Setback { cause, key, value });
        }
        let Some(slot) = self.reclaim.vacant(&self.segments, held, self) else {
            return Err(Setback { cause: Cause::Shortage, key, value });
        };
        // SAFETY: vacant, and this thread's alone until it is published.
        unsafe { self.slab.fill(slot, key, value, newcomer.weight) };
        // Asked only now: whoever gave the slot a deadline before has made them known.
        if let Some(deadlines) = self.expiry.deadlines() {
            deadlines.begin(slot, newcomer.term, &self.slab.header(slot).hint);
        }
        self.index.note(place, slot);
        let published = match found {
            None => self.index.admit(place, slot),
            Some(Found { cell, word, slot: old, .. }) => {
                self.leave(*old);
                self.index.replace(place, cell, *word, slot).then_some(*cell)
            }
        };
        let Some(own) = published else {
            return Err(self.withdraw(held, slot, found.is_some()));
        };
        held.places -= places;
        if self.weights.is_some() {
            held.credit -= growth;
            held.credit += old_weight.saturating_sub(newcomer.weight);
            add(&held.counts().weight, newcomer.weight.wrapping_sub(old_weight));
        }
        match found {
            None => add(&held.counts().insertions, 1),
            Some(found) => self.ended(held, found.slot, Ending::Replaced),
        }
        if !self.index.is_alone(place, own) {
            self.take_out_rivals(held, place, own, (slot, newcomer, found));
        }
        self.queue(held, slot, newcomer, found);
        Ok(())
    }

    /// Takes back a filled slot that could not be published.
    #[cold]
    fn withdraw(&self, held: &mut Held<'_>, slot: u32, replaces: bool) -> Setback<K, V> {
        if let Some(deadlines) = self.expiry.deadlines() {
            deadlines.end(slot);
        }
        // SAFETY: filled by this insertion and never published.
        let (key, value) = unsafe { self.slab.vacate(slot) };
        self.reclaim.hand_back(&self.segments, held, slot);
        let cause = if replaces { Cause::Changed } else { Cause::Refused(Refusal::NoRoom) };
        Setback { cause, key, value }
    }

    /// Makes room for a replacement that is heavier than the entry `old`, by the entries of others.
    /// If the policy chooses that one, it is kept in hand until there is room: only then can the
    /// policy choose no other again and again.
    #[cold]
    #[inline(never)]
    fn make_room_to_grow(
        &self,
        held: &mut Held<'_>,
        newcomer: &Newcomer,
        growth: u64,
        old: u32,
    ) -> Result<(), Cause> {
        let taken = std::cell::Cell::new(false);
        // Also when the hash of a victim panics.
        let kept = Ensure::new(held, |held| {
            if taken.get() {
                self.put_back(held, old);
            }
        });
        let is_kept = |victim| victim == old && !taken.replace(true);
        let room = self.make_room(kept.on, newcomer, 0, growth, is_kept);
        drop(kept);
        let buffers = &mut **held;
        match buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            true => room,
            false => Err(Cause::Shortage),
        }
    }

    /// Evicts until there is credit in hand for an entry, and segments for all that an
    /// insertion may need. Victims that are kept are the caller's.
    #[inline(always)]
    fn make_room(
        &self,
        held: &mut Held<'_>,
        newcomer: &Newcomer,
        places: u64,
        growth: u64,
        is_kept: impl Fn(u32) -> bool,
    ) -> Result<(), Cause> {
        // As many evictions as there are slots free all there is.
        let mut evictions = 0;
        while evictions <= self.reclaim.slots() {
            evictions += 1;
            let buffers = &mut **held;
            // Victims of a locked policy leave no segment empty for those they fill.
            if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                return Err(Cause::Shortage);
            }
            let mut enough = self.places.gather(&mut buffers.places, places, &mut buffers.traffic);
            if let Some(weights) = &self.weights {
                enough &= weights.gather(&mut buffers.credit, growth, &mut buffers.traffic);
            }
            if enough {
                return Ok(());
            }
            if places > 0 && self.frozen.as_ref().is_some_and(|frozen| frozen.is_whole()) {
                return Err(Cause::Refused(Refusal::NoRoom));
            }
            // The capacity may have been lowered since its weight was looked at. Most need
            // one victim.
            if evictions > 1 && self.is_beyond(newcomer.weight) {
                return Err(Cause::Refused(Refusal::TooHeavy));
            }
            // An entry that grows is no newcomer: the policy may not refuse it.
            let newcomer = (places > 0).then_some(newcomer);
            match self.order.evict(&mut self.hand_of(held), newcomer) {
                Decision::Victim(victim) if is_kept(victim) => {}
                Decision::Victim(victim) => _ = self.let_go(held, victim, Ending::Evicted),
                Decision::Refuse => return Err(Cause::Refused(Refusal::Unwanted)),
                Decision::Empty => return Err(Cause::Shortage),
            }
        }
        Err(Cause::Shortage)
    }

    /// Counts the end of a residency, right after the exchange of the index word with which
    /// this thread has ended it: the one place that all of them pass. The slot is still
    /// protected or taken, so key and value are there.
    #[inline(always)]
    fn ended(&self, held: &mut Held<'_>, slot: u32, ending: Ending) {
        self.take_out_frozen(slot);
        let mut ending = ending;
        if let Some(deadlines) = self.expiry.deadlines() {
            deadlines.end(slot);
            // Whoever comes by it, it went when all was invalidated.
            let is_found_over = matches!(ending, Ending::Evicted | Ending::Expired);
            if is_found_over && deadlines.generations.is_stale(slot) {
                ending = Ending::Removed;
            }
        }
        self.note(slot, ending.cause());
        // What replaces it has its place, and has paid for its weight.
        if ending != Ending::Replaced {
            held.places += 1;
            if self.weights.is_some() {
                let weight = self.slab.weight(slot);
                held.credit += weight;
                add(&held.counts().weight, weight.wrapping_neg());
            }
        }
        let counts = held.counts();
        let count = match ending {
            Ending::Evicted => &counts.evictions,
            Ending::Expired => &counts.expirations,
            Ending::Replaced => &counts.replacements,
            Ending::Outdated | Ending::Removed => &counts.removals,
        };
        add(count, 1);
        // A replacement is queued yet.
        if ending != Ending::Replaced {
            self.is_whole_no_more();
        }
    }

    /// After what may leave, or bring, an entry that is not frozen.
    #[inline(always)]
    fn is_whole_no_more(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.is_whole_no_more();
        }
    }

    /// Ends the residency of a slot that was taken, unless it has ended already. Whether
    /// it had not.
    #[inline(always)]
    pub(crate) fn let_go(&self, held: &mut Held<'_>, victim: u32, ending: Ending) -> bool {
        let put_back = |hand: &mut Hand<'_, Self>| self.order.put_back(hand, victim);
        let hash = self.hand_of(held).hash_of_taken(victim, put_back);
        self.leave(victim);
        let ours = self.index.unlink(self.index.place(hash), victim);
        if ours {
            self.ended(held, victim, ending);
            self.hand_of(held).retire(victim);
        } else {
            // Whoever has unlinked it has declared it dead or is about to; or its key has
            // another hash than it had, and it is still there for all to read.
            self.put_back(held, victim);
        }
        ours
    }

    /// Queues a slot that was taken, unless its residency has ended.
    pub(crate) fn put_back(&self, held: &mut Held<'_>, slot: u32) {
        // Acquire: partner is the Release with which it was declared dead; so all threads
        // that find the slot reclaimed see that it has left the index.
        let dead = self.slab.header(slot).state.load(Acquire) & DEAD != 0;
        self.hand(held, |hand| match dead {
            true => hand.retire(slot),
            false => self.order.put_back(hand, slot),
        });
        self.is_whole_no_more();
    }

    /// Sees to it that the key of a slot, just published in the cell `own` and not queued
    /// yet, is there once. Two threads may have admitted it, or one may have replaced what
    /// the other has admitted: the word that a look-up meets first stays. As long as it is
    /// not queued no eviction takes it away and shows what is older.
    #[cold]
    #[inline(never)]
    fn take_out_rivals(
        &self,
        held: &mut Held<'_>,
        place: Place,
        own: &AtomicU32,
        (slot, newcomer, found): (u32, &Newcomer, Option<&Found<'_>>),
    ) {
        // As it was published: nobody else takes it out, or it is settled that it goes.
        let own = (own, self.index.table().word(place, slot));
        let outside = Outside::new(held.outside());
        // Keys are compared: should that panic, this one goes, so that none is there twice,
        // and is queued all the same, for whoever dequeues it.
        let unsettled = Ensure::new(held, |held| {
            self.leave(slot);
            if self.index.unlink_cell(place, own.0, own.1) {
                self.bury(held, slot, Ending::Removed);
            }
            self.queue(held, slot, newcomer, found);
        });
        let held = &mut *unsettled.on;
        // The first hazard has `found` to protect. Not a pin where a hazard will do: a
        // thread that is suspended here should hold up next to nothing.
        let reader = &self.stripe().reader;
        match Hazard::of(&reader.second) {
            Some(hazard) => self.take_out_rivals_under(&hazard, held, place, own, slot),
            None => {
                let pinned = Pinned::new(reader, &self.reclaim);
                self.take_out_rivals_under(&pinned, held, place, own, slot);
            }
        }
        unsettled.waive();
        drop(outside);
    }

    fn take_out_rivals_under(
        &self,
        protection: &impl Protect,
        held: &mut Held<'_>,
        place: Place,
        own: (&AtomicU32, u32),
        slot: u32,
    ) {
        // SAFETY: published, but not queued, so nobody can take it, let alone retire it.
        let key = unsafe { self.slab.key(slot) };
        for _ in 0..ATTEMPTS {
            let own = (own.0, own.1, slot);
            let Some((rival, first)) = self.rival(protection, place, own, key) else { return };
            add(&held.counts().retries, 1);
            let (cell, word, slot) =
                if first { (own.0, own.1, slot) } else { (rival.cell, rival.word, rival.slot) };
            self.leave(slot);
            if self.index.unlink_cell(place, cell, word) {
                // Both were counted as admitted; this one counts as removed.
                self.bury(held, slot, Ending::Outdated);
            }
            if first {
                return;
            }
        }
    }

    /// Queues a published slot, in the place of the one that it replaces.
    #[inline(always)]
    fn queue(
        &self,
        held: &mut Held<'_>,
        slot: u32,
        newcomer: &Newcomer,
        replaced: Option<&Found<'_>>,
    ) {
        if let Some(watch) = self.frozen.as_ref().and_then(|frozen| frozen.watch()) {
            watch.admitted(slot, replaced.map(|found| found.slot));
        }
        match replaced {
            None => {
                self.order.insert(&mut self.hand_of(held), slot, newcomer);
                self.is_whole_no_more();
            }
            Some(found) => self.replaced(held, newcomer, found, slot),
        }
    }

    /// Puts a slot where the one was that it replaces, and gives that one up. The caller
    /// protects it.
    fn replaced(
        &self,
        held: &mut Held<'_>,
        newcomer: &Newcomer,
        &Found { slot: old, .. }: &Found<'_>,
        slot: u32,
    ) {
        if let Order::Locked(locked) = &self.order {
            // Missed before, and replaced at a further attempt.
            locked.forget(newcomer);
        } else {
            let (old_mark, mark) = (&self.slab.header(old).mark, &self.slab.header(slot).mark);
            mark.clear();
            // A replacement is a use.
            for _ in 0..=old_mark.count() {
                mark.raise(self.mark_max);
            }
        }
        // Before the attempt to take it, so that whoever has it in hand may still see it.
        let ours = self.die(old);
        let replaced = self.hand(held, |hand| {
            let replaced = !ours && self.order.replace(hand, old, slot);
            if !replaced {
                self.order.insert(hand, slot, newcomer);
            }
            if ours || replaced {
                hand.retire(old);
            }
            replaced
        });
        // Under a lock it is frozen if the old one was.
        if !replaced || !matches!(self.order, Order::Locked(_)) {
            self.is_whole_no_more();
        }
    }

    /// Counts a refusal and tells of it; nothing of the key stays. Hands the newcomer back.
    #[cold]
    fn refuse(
        &self,
        telling: Option<Telling<'_, K, V, S>>,
        place: Place,
        (mut key, mut value): (K, V),
        reason: Refusal,
    ) -> Refused<K, V> {
        self.take_out(place, &key, |_| (), Ending::Outdated);
        add(&self.hold().counts().refusals, 1);
        if let Some(telling) = telling {
            (key, value) = telling.conclude(key, value);
        }
        Refused { key, value, reason }
    }

    /// Removes `key` and returns a clone of its value.
    ///
    /// The value itself is dropped once no reader can be looking at it.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.remove("one"), Some(1));
    /// assert_eq!(cache.remove("one"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.take_out(self.place_to_remove(key), key, V::clone, Ending::Removed)
    }

    /// Removes `key`. Whether it was there. As [`Cache::remove`], for values that are
    /// not `Clone`.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, std::sync::Mutex<u64>> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10.into());
    /// assert!(cache.invalidate(&1));
    /// assert!(!cache.invalidate(&1));
    /// ```
    pub fn invalidate<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.take_out(self.place_to_remove(key), key, |_| (), Ending::Removed).is_some()
    }

    /// The place of a key that is to be removed, which overtakes a load of it, and is noted
    /// where requests are recorded.
    fn place_to_remove<Q>(&self, key: &Q) -> Place
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let (hash, place) = self.place(key);
        self.overtake(hash, key);
        self.order.read_clock(self);
        if self.recorder.wants(hash) {
            self.recorder.note(hash, Deed::Remove, 0);
        }
        place
    }

    fn take_out<Q, R>(
        &self,
        place: Place,
        key: &Q,
        read: impl Fn(&V) -> R,
        ending: Ending,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let telling = self.telling();
        let reader = &self.stripe().reader;
        let result = match Hazard::of(&reader.hazard) {
            Some(hazard) => self.take_out_under(&hazard, place, key, read, ending),
            None => {
                let pinned = Pinned::new(reader, &self.reclaim);
                self.take_out_under(&pinned, place, key, read, ending)
            }
        };
        drop(telling);
        self.reclaim_if_due();
        result
    }

    fn take_out_under<Q, R>(
        &self,
        protection: &impl Protect,
        place: Place,
        key: &Q,
        read: impl Fn(&V) -> R,
        ending: Ending,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        for attempt in 1..=ATTEMPTS {
            // None after a lost exchange: removed by another, which answers for it.
            let found = self.find(protection, place, key)?;
            let expired = self.has_expired(found.slot);
            let ending = if expired { Ending::Expired } else { ending };
            let gone = self.take_out_found(place, &found, key, ending);
            if expired {
                return None;
            }
            // Replaced as often as it was about to be removed: it was, before the last time.
            if gone || attempt == ATTEMPTS {
                // SAFETY: published until just now, and protected.
                return Some(read(unsafe { self.slab.value(found.slot) }));
            }
        }
        None
    }

    /// Takes out what a look-up has found and protects. False if it has changed meanwhile.
    fn take_out_found<Q>(&self, place: Place, found: &Found<'_>, key: &Q, ending: Ending) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        if !self.index.is_alone(place, found.cell) {
            let reader = &self.stripe().reader;
            // As in `take_out_rivals`.
            match Hazard::of(&reader.second) {
                Some(hazard) => self.take_out_older(&hazard, place, found, key),
                None => {
                    let pinned = Pinned::new(reader, &self.reclaim);
                    self.take_out_older(&pinned, place, found, key);
                }
            }
        }
        self.leave(found.slot);
        // No word changes but under a stripe.
        let mut held = self.hold();
        let (cell, word) = self.as_it_is(place, found);
        let gone = self.index.unlink_cell(place, cell, word);
        if gone {
            self.bury(&mut held, found.slot, ending);
        }
        gone
    }

    /// Where the word is that a look-up has found, should the table have been replaced since. The
    /// caller protects the slot, and holds a stripe.
    pub(crate) fn as_it_is<'c>(&'c self, place: Place, found: &Found<'c>) -> (&'c AtomicU32, u32) {
        let same = (found.cell, found.word);
        match found.cell.load(Relaxed) == found.word {
            true => same,
            false => self.index.locate(place, found.slot).unwrap_or(same),
        }
    }

    /// The same as something that was found.
    pub(crate) fn found_as_it_is<'c>(&'c self, place: Place, found: &Found<'c>) -> Found<'c> {
        let (cell, word) = self.as_it_is(place, found);
        Found { cell, word, ..*found }
    }

    /// Takes out what a look-up of a key would find if `found` went. Two threads may have
    /// admitted it, and the one that is to settle which stays may not have come to it.
    #[cold]
    #[inline(never)]
    fn take_out_older<Q>(&self, protection: &impl Protect, place: Place, found: &Found<'_>, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        for _ in 0..ATTEMPTS {
            let own = (found.cell, found.word, found.slot);
            let Some((older, first)) = self.rival(protection, place, own, key) else { return };
            if first {
                // Newer than `found`, which it is about to take out.
                return;
            }
            self.leave(older.slot);
            let mut held = self.hold();
            if self.index.unlink_cell(place, older.cell, older.word) {
                self.bury(&mut held, older.slot, Ending::Outdated);
            }
        }
    }

    /// Gives up a slot that the caller has unlinked and protects.
    pub(crate) fn bury(&self, held: &mut Held<'_>, slot: u32, ending: Ending) {
        self.ended(held, slot, ending);
        let buffers = &mut **held;
        if buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            let ours = self.die(slot);
            self.hand(held, |hand| {
                if ours || self.order.detach(hand, slot) {
                    hand.retire(slot);
                }
            });
        } else {
            // Without a segment to spare, whoever dequeues it retires it.
            self.slab.header(slot).die_later();
        }
        // Until now a policy under a lock may have counted it among what is frozen.
        self.is_whole_no_more();
        self.settle(held);
    }

    /// Declares dead what was unlinked. Whether it lies in no queue, so that it is the caller's
    /// to retire.
    #[inline(always)]
    fn die(&self, slot: u32) -> bool {
        let header = self.slab.header(slot);
        if self.frozen.is_some() {
            return header.die();
        }
        // Release: partner is the Acquire of `Hand::pop`.
        header.state.store(DEAD, Release);
        false
    }

    /// Removes all entries, frozen ones too, and thaws. Those that come meanwhile may stay.
    /// O(capacity).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..50).for_each(|key| cache.insert(key, key));
    /// cache.clear();
    /// assert!(cache.is_empty());
    /// ```
    pub fn clear(&self) {
        let steps = self.steps();
        steps.take(|| self.overtake_all());
        self.sweep(&steps, |_| true);
        // Where all was frozen, what comes now would be all that there is for ever.
        steps.take(|| self.thaw());
        steps.take(|| self.scavenge(false));
        events::event!(self, DEBUG, "cache cleared");
    }

    /// A stripe's buffers: the thread's own, or if those are in use, that of a number which
    /// no thread has.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Held<'_> {
        match self.stripe().own() {
            // After the light fence of `own`. Partner: the heavy fence of `Stripes::stop`.
            Some(held) if !self.stripes.is_stopped() => held,
            held => {
                drop(held);
                self.hold_another()
            }
        }
    }

    /// For a thread whose stripe another is taking things out of, or that is at work
    /// already and was called back by code of the user's. Nobody waits: there are more
    /// numbers than threads.
    #[cold]
    fn hold_another(&self) -> Held<'_> {
        let mut leases = Vec::new();
        loop {
            // For who replaces the table, and for nobody else.
            self.stripes.wait();
            if let Some(held) = self.stripe().own().filter(|_| !self.stripes.is_stopped()) {
                return held;
            }
            let lease = thread::Lease::new();
            if let Some(mut held) = self.stripes.of(lease.number()).own() {
                if self.stripes.is_stopped() {
                    continue;
                }
                held.traffic.retries += 1;
                // Whoever gets the number next finds the stripe busy.
                return held;
            }
            leases.push(lease);
        }
    }

    /// Lets a policy work with the buffers in hand.
    #[inline(always)]
    pub(crate) fn hand<R>(
        &self,
        held: &mut Held<'_>,
        work: impl FnOnce(&mut Hand<'_, Self>) -> R,
    ) -> R {
        work(&mut self.hand_of(held))
    }

    /// The hand itself: a closure may not be inlined.
    #[inline(always)]
    fn hand_of<'h>(&'h self, held: &'h mut Held<'_>) -> Hand<'h, Self> {
        let outside = held.outside();
        Hand {
            segments: &self.segments,
            reclaim: &self.reclaim,
            stripes: &self.stripes,
            headers: self,
            buffers: held,
            outside,
        }
    }

    /// Gives back credit beyond what a thread may keep, and counts what it did to shared lines.
    #[inline(always)]
    pub(crate) fn settle(&self, held: &mut Held<'_>) {
        let buffers = &mut **held;
        self.places.settle(&mut buffers.places, &mut buffers.traffic);
        if let Some(weights) = &self.weights {
            weights.settle(&mut buffers.credit, &mut buffers.traffic);
            self.reclaim.settle(&self.segments, buffers);
        }
        if buffers.traffic.retries | buffers.traffic.writes != 0 {
            let Traffic { retries, writes } = std::mem::take(&mut buffers.traffic);
            add(&held.counts().retries, retries);
            add(&held.counts().shared_writes, writes);
        }
    }
}
