//! Insertion: an entry is admitted, replaces that of its key, or is refused.
//!
//! Two exchanges decide every race, and exactly one thread makes each. The exchange of the **index
//! word** ends a residency: the thread that makes it counts the end and gets the weight back. The
//! exchange of the **queue word** takes the slot: the thread that makes it retires the slot.
//! `docs/design/mobius.md` walks through the races.

use std::hash::{BuildHasher, Hash};

use crate::core::admission::{Admitted, Refusal, Refused};
use crate::core::hooks::{Hooks, Operation};
use crate::core::index::Mixed;
use crate::core::local::{Held, Stripe};
use crate::core::order::{Decision, Newcomer, Order};
use crate::core::slab::SlotRef;
use crate::core::{ATTEMPTS, Core, Ending, Found, SCAVENGES};
use crate::ensure::Ensure;
use crate::smr::protect::Protect;
use crate::smr::stripe::{Outside, add};

/// Attempts to grow the table while a thread runs user code under a stripe.
const GROW_TRIES_MAX: u32 = if cfg!(loom) { 0 } else { 200 };

/// The properties of an entry to insert, beside its key and value.
pub(crate) struct Admission<'i, I> {
    pub(crate) hash: u64,
    /// The mixed hash.
    pub(crate) mixed: Mixed,
    pub(crate) weight: u64,
    /// For the hook that gets its slot.
    pub(crate) incoming: &'i I,
}

/// A failed attempt at an insertion.
pub(super) struct InsertFailure<K, V> {
    pub(super) cause: FailureKind,
    pub(super) key: K,
    pub(super) value: V,
}

/// Why it failed.
#[derive(Clone, Copy)]
pub(super) enum FailureKind {
    /// This thread can reach no slot of a queue, or there is no vacant one.
    Shortage,
    /// The new entry is not admitted.
    Refused(Refusal),
    /// All entries that an eviction has looked at are held.
    Held,
    /// The key was inserted or removed meanwhile.
    Changed,
}

impl FailureKind {
    /// The result for a caller that has tried long enough.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            FailureKind::Refused(refusal) => refusal,
            FailureKind::Held | FailureKind::Shortage | FailureKind::Changed => Refusal::NoRoom,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Inserts an entry whose arrival was counted. An entry that is not admitted is passed to
    /// `refused`, which costs nothing if the caller does not want it back. The stripe is the
    /// calling thread's.
    #[inline(always)]
    pub(crate) fn admit<R>(
        &self,
        stripe: &Stripe<H::Local>,
        admission: Admission<'_, H::Incoming>,
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        self.order.read_clock(self);
        let Admission { hash, mixed, weight, .. } = admission;
        if self.is_too_heavy(if H::is_charged(admission.incoming) { weight } else { 0 }) {
            self.order.pass_over(self, hash, weight);
            let operation = H::operation(self);
            return Err(refused(self.refuse(operation, mixed, (key, value), Refusal::TooHeavy)));
        }
        let outcome = match H::look(self, &stripe.reader) {
            Some(hazard) => self.insert_under(stripe, &hazard, admission, key, value, refused),
            // Under another look-up of this thread: no time to wait.
            None => return self.insert_nested(stripe, admission, key, value, refused),
        };
        self.wait_if_overweight();
        outcome
    }

    /// From user code that a look-up of this thread runs.
    #[cold]
    #[inline(never)]
    fn insert_nested<R>(
        &self,
        stripe: &Stripe<H::Local>,
        admission: Admission<'_, H::Incoming>,
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        self.insert_under(stripe, &self.pinned(), admission, key, value, refused)
    }

    /// Finds a key, after its expired entry, if any, is removed.
    #[inline(always)]
    pub(crate) fn find_living(
        &self,
        protection: &impl Protect,
        mixed: Mixed,
        key: &K,
    ) -> Option<Found<'_>> {
        let found: Found<'_> = self.find(protection, mixed, key)?;
        if H::is_live(self, found.slot()) {
            return Some(found);
        }
        // A new entry does not replace it: it counts as absent.
        self.take_out_lapsed(mixed, found);
        self.find(protection, mixed, key)
    }

    /// Completes an insertion: most succeed at the first attempt.
    #[inline(always)]
    fn insert_under<R>(
        &self,
        stripe: &Stripe<H::Local>,
        protection: &impl Protect,
        admission: Admission<'_, H::Incoming>,
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let Admission { hash, mixed, weight, incoming } = admission;
        let operation = H::operation(self);
        let found = self.find_living(protection, mixed, &key);
        let mut held = self.hold_of(stripe);
        let newcomer = Newcomer::new(hash, weight);
        if found.is_none() {
            newcomer.recalled.set(self.order.recall(&held, hash, H::priority(incoming)));
        }
        match self.attempt(&mut held, mixed, (&newcomer, incoming), found, key, value) {
            Ok(()) => {
                self.settle(&mut held);
                let due = std::mem::take(&mut held.flushed);
                drop(held);
                drop(operation);
                if due {
                    self.reclaim_if_due();
                }
                Ok(if found.is_some() { Admitted::Replaced } else { Admitted::New })
            }
            Err(failure) => {
                let arrival = (&newcomer, incoming);
                self.persist(protection, (operation, held), mixed, arrival, failure, refused)
            }
        }
    }

    /// Completes an insertion that has failed once.
    #[cold]
    #[inline(never)]
    fn persist<'c, R>(
        &'c self,
        protection: &impl Protect,
        (mut operation, mut held): (H::Operation<'c, S>, Held<'c, H::Local>),
        mixed: Mixed,
        (newcomer, incoming): (&Newcomer, &H::Incoming),
        mut failure: InsertFailure<K, V>,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let mut scavenged = 0;
        let mut has_found_out = false;
        for attempt in 0..ATTEMPTS {
            match failure.cause {
                FailureKind::Changed => {}
                FailureKind::Held if !has_found_out && self.hooks.is_in_doubt() => {
                    has_found_out = true;
                    drop(held);
                    H::find_out(self);
                    held = self.hold();
                }
                // The skipped entries are behind the others now.
                FailureKind::Held if self.hooks.may_find_more(attempt) => {}
                FailureKind::Held => {
                    self.hooks.gave_up();
                    break;
                }
                FailureKind::Refused(_) => break,
                FailureKind::Shortage => {
                    drop(held);
                    operation.pause();
                    let relieved = self.relieve(&mut scavenged);
                    operation.resume();
                    held = self.hold();
                    if !relieved {
                        break;
                    }
                }
            }
            // Compares keys. An entry that has expired meanwhile is replaced, because its removal
            // would need another stripe. Done before key and value, which are dropped if it panics.
            let outside = Outside::new(held.outside());
            let InsertFailure { key, value, .. } = failure;
            let found = self.find(protection, mixed, &key);
            drop(outside);
            match self.attempt(&mut held, mixed, (newcomer, incoming), found, key, value) {
                Ok(()) => {
                    self.settle(&mut held);
                    drop(held);
                    drop(operation);
                    self.reclaim_if_due();
                    return Ok(if found.is_some() { Admitted::Replaced } else { Admitted::New });
                }
                Err(next) => failure = next,
            }
        }
        // It is not admitted, and the entry to replace is removed.
        self.order.forget(newcomer);
        self.settle(&mut held);
        drop(held);
        let InsertFailure { cause, key, value } = failure;
        Err(refused(self.refuse(operation, mixed, (key, value), cause.refusal())))
    }

    /// Makes more slots and credit available: grows the table, else reclaims, else takes over the
    /// slots and credit of idle threads, which `scavenged` counts. The caller holds no stripe.
    /// False if nothing helps.
    pub(crate) fn relieve(&self, scavenged: &mut u32) -> bool {
        if self.grow(GROW_TRIES_MAX) || self.reclaim() > 0 {
            return true;
        }
        if *scavenged == SCAVENGES {
            if self.outwait_reclaimers() {
                return true;
            }
            #[cfg(feature = "tracing")]
            self.tell_of_shortage();
            return false;
        }
        self.scavenge(*scavenged > 0);
        *scavenged += 1;
        true
    }

    /// One attempt at an insertion: gets credit, fills a slot, publishes and queues it. The entry
    /// of the same key, if there was one, is still protected.
    ///
    /// Spends credit and fills a slot only when no more user code can run, so that a panic of that
    /// loses nothing.
    #[inline(always)]
    pub(super) fn attempt(
        &self,
        held: &mut Held<'_, H::Local>,
        mixed: Mixed,
        (newcomer, incoming): (&Newcomer, &H::Incoming),
        found: Option<Found<'_>>,
        key: K,
        value: V,
    ) -> Result<(), InsertFailure<K, V>> {
        let entries = u64::from(found.is_none());
        let charges_orphans = self.hooks.charges_orphans();
        let (mut charge, mut old_charge, mut returned, mut growth) = (0, 0, 0, 0);
        if self.weights.is_some() {
            charge = if H::is_charged(incoming) { newcomer.weight } else { 0 };
            old_charge = found.map_or(0, |found| self.charge(found.slot()));
            returned = if charges_orphans { 0 } else { old_charge };
            growth = charge.saturating_sub(returned);
            if self.reclaim.is_crowded() {
                return Err(InsertFailure { cause: FailureKind::Shortage, key, value });
            }
        }
        let room = match found {
            Some(found) if growth > 0 => {
                self.make_room_to_grow(held, newcomer, growth, found.slot())
            }
            _ => self.make_room(held, newcomer, (entries, growth), |_| false),
        };
        if let Err(cause) = room {
            return Err(InsertFailure { cause, key, value });
        }
        let Some(slot) = self.reclaim.vacant(&self.segments, held, self) else {
            return Err(InsertFailure { cause: FailureKind::Shortage, key, value });
        };
        // SAFETY: vacant, and this thread's alone until it is published.
        let filled = unsafe { self.slab.fill(slot, key, value, newcomer.weight) };
        H::admitting(self, slot, incoming);
        self.index.note(mixed, slot);
        let home = self.index.home(mixed);
        let published = match found {
            None => home.admit(slot),
            Some(found) => {
                H::before_unlink(self, found.slot());
                self.index.replace(mixed, found.cell, found.word(), slot).then_some(found.cell)
            }
        };
        let Some(own) = published else {
            return Err(self.withdraw(held, slot, incoming, found.is_some()));
        };
        held.above.entry_credit -= entries;
        if self.weights.is_some() {
            held.above.weight_credit -= growth;
            held.above.weight_credit += returned.saturating_sub(charge);
            add(&held.local().counts.weight, charge.wrapping_sub(old_charge));
        }
        match found {
            None => add(&held.local().counts.insertions, 1),
            Some(found) => self.ended(held, found.slot(), Ending::Replaced, charges_orphans),
        }
        if !home.is_alone(own) {
            self.take_out_duplicates(held, mixed, own, (slot, newcomer, found));
        }
        self.queue(held, filled, newcomer, found);
        Ok(())
    }

    /// Takes back a filled slot that could not be published.
    #[cold]
    fn withdraw(
        &self,
        held: &mut Held<'_, H::Local>,
        slot: u32,
        incoming: &H::Incoming,
        replaces: bool,
    ) -> InsertFailure<K, V> {
        H::withdrawn(self, slot, incoming);
        // SAFETY: filled by this insertion and never published.
        let (key, value) = unsafe { self.slab.vacate(slot) };
        self.reclaim.hand_back(&self.segments, held, slot);
        let cause =
            if replaces { FailureKind::Changed } else { FailureKind::Refused(Refusal::NoRoom) };
        InsertFailure { cause, key, value }
    }

    /// Evicts other entries for a replacement that is heavier than the entry `old`. If the policy
    /// chooses `old`, it is kept in hand until there is enough credit; otherwise the policy could
    /// choose it again and again.
    #[cold]
    #[inline(never)]
    fn make_room_to_grow(
        &self,
        held: &mut Held<'_, H::Local>,
        newcomer: &Newcomer,
        growth: u64,
        old: u32,
    ) -> Result<(), FailureKind> {
        let taken = std::cell::Cell::new(false);
        // Also when the hash of a victim panics.
        let kept = Ensure::new(held, |held| {
            if taken.get() {
                self.put_back(held, old);
            }
        });
        let is_kept = |victim| victim == old && !taken.replace(true);
        let room = self.make_room(kept.on, newcomer, (0, growth), is_kept);
        drop(kept);
        let buffers = &mut **held;
        match buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            true => room,
            false => Err(FailureKind::Shortage),
        }
    }

    /// Evicts until there is credit in hand for an entry, and segments for everything that an
    /// insertion may need. Kept victims belong to the caller.
    #[inline(always)]
    fn make_room(
        &self,
        held: &mut Held<'_, H::Local>,
        newcomer: &Newcomer,
        (entries, growth): (u64, u64),
        is_kept: impl Fn(u32) -> bool,
    ) -> Result<(), FailureKind> {
        if self.gather(held, entries, growth)? {
            return Ok(());
        }
        self.evict_one(held, newcomer, entries, &is_kept)?;
        // Most need one victim. More in the same loop would cost that one 30 instructions.
        if self.gather(held, entries, growth)? {
            return Ok(());
        }
        self.evict_more(held, newcomer, (entries, growth), is_kept)
    }

    /// Where one victim was not enough.
    #[cold]
    #[inline(never)]
    fn evict_more(
        &self,
        held: &mut Held<'_, H::Local>,
        newcomer: &Newcomer,
        (entries, growth): (u64, u64),
        is_kept: impl Fn(u32) -> bool,
    ) -> Result<(), FailureKind> {
        // One eviction for each slot frees everything.
        for _ in 0..self.reclaim.slots() {
            // The capacity may have been lowered since its weight was looked at.
            if self.is_too_heavy(newcomer.weight) {
                return Err(FailureKind::Refused(Refusal::TooHeavy));
            }
            self.evict_one(held, newcomer, entries, &is_kept)?;
            if self.gather(held, entries, growth)? {
                return Ok(());
            }
        }
        Err(FailureKind::Shortage)
    }

    /// Whether there is credit for an entry, in hand or free. Fails if the segments that an
    /// insertion or an eviction may need are missing.
    #[inline(always)]
    fn gather(
        &self,
        held: &mut Held<'_, H::Local>,
        entries: u64,
        growth: u64,
    ) -> Result<bool, FailureKind> {
        let buffers = &mut **held;
        // Each time: victims of a locked policy leave no segment empty for those they fill.
        if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            return Err(FailureKind::Shortage);
        }
        let mut enough = self.entry_budget.gather(
            &mut buffers.above.entry_credit,
            entries,
            &mut buffers.traffic,
        );
        if let Some(weights) = &self.weights {
            enough &=
                weights.gather(&mut buffers.above.weight_credit, growth, &mut buffers.traffic);
        }
        Ok(enough)
    }

    /// Evicts an entry, as the policy chooses.
    #[inline(never)]
    fn evict_one(
        &self,
        held: &mut Held<'_, H::Local>,
        newcomer: &Newcomer,
        entries: u64,
        is_kept: &impl Fn(u32) -> bool,
    ) -> Result<(), FailureKind> {
        if entries > 0 && !self.hooks.may_evict() {
            return Err(FailureKind::Refused(Refusal::NoRoom));
        }
        // An entry that grows is not new: the policy may not refuse it.
        let newcomer = (entries > 0).then_some(newcomer);
        match self.order.evict(&mut self.queue_ctx(held), newcomer) {
            Decision::Victim(victim) if is_kept(victim) => Ok(()),
            Decision::Victim(victim) => {
                self.finish_eviction(held, victim, Ending::Evicted);
                Ok(())
            }
            Decision::Refuse => Err(FailureKind::Refused(Refusal::Unwanted)),
            Decision::Held => Err(FailureKind::Held),
            // Other threads own everything, and found it held.
            Decision::Empty if self.admits_beyond() => Err(FailureKind::Held),
            Decision::Empty => Err(FailureKind::Shortage),
        }
    }

    /// Queues a published slot, in the place of the one that it replaces.
    #[inline(always)]
    pub(super) fn queue(
        &self,
        held: &mut Held<'_, H::Local>,
        slot: SlotRef<'_>,
        newcomer: &Newcomer,
        replaced: Option<Found<'_>>,
    ) {
        self.hooks.queueing(slot.slot, replaced.map(|found| found.slot()));
        match replaced {
            None => {
                self.order.insert(&mut self.queue_ctx(held), slot, newcomer);
                self.hooks.queues_changed();
            }
            Some(found) => self.replaced(held, newcomer, found, slot),
        }
        self.hooks.queued(slot.slot);
        self.retire_if_dead(held, slot);
    }

    /// Puts a slot in the queue position of the one that it replaces, and gives up that one, which
    /// the caller protects.
    fn replaced(
        &self,
        held: &mut Held<'_, H::Local>,
        newcomer: &Newcomer,
        found: Found<'_>,
        slot: SlotRef<'_>,
    ) {
        let old = found.slot();
        if let Order::Locked(locked) = &self.order {
            // Missed before, and replaced at a further attempt.
            locked.forget(newcomer);
        } else {
            // A replacement is a use.
            for _ in 0..=self.slab.header(old).mark.count() {
                slot.header.mark.raise(self.mark_max);
            }
        }
        // Before the attempt to take it, so that a thread that owns it may still see it.
        let ours = self.die(old);
        let replaced = self.with_queue_ctx(held, |ctx| {
            let replaced = !ours && self.order.replace(ctx, old, slot.slot);
            if !replaced {
                self.order.insert(ctx, slot, newcomer);
            }
            if ours || replaced {
                ctx.retire(old);
            }
            replaced
        });
        if !ours && !replaced {
            self.retire_unfound(held, old);
        }
        // Under a lock it is set aside if the old one was.
        if !replaced || !matches!(self.order, Order::Locked(_)) {
            self.hooks.queues_changed();
        }
    }

    /// Counts and reports a refusal; no entry of the key stays. Returns the new entry.
    #[cold]
    fn refuse(
        &self,
        operation: H::Operation<'_, S>,
        mixed: Mixed,
        (mut key, mut value): (K, V),
        reason: Refusal,
    ) -> Refused<K, V> {
        self.take_out(mixed, &key, |_| (), Ending::Outdated);
        add(&self.hold().local().counts.refusals, 1);
        (key, value) = operation.conclude(key, value);
        Refused { key, value, reason }
    }
}
