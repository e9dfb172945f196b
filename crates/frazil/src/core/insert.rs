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

/// How often it tries again to make room in the table, while somebody runs code of the user's
/// under a stripe.
const GROW_TRIES_MAX: u32 = if cfg!(loom) { 0 } else { 200 };

/// What is known of an entry that is to be inserted, beside its key and value.
pub(crate) struct Admission<'i, I> {
    pub(crate) hash: u64,
    /// Of the hash.
    pub(crate) mixed: Mixed,
    pub(crate) weight: u64,
    /// For the hook that is told of its slot.
    pub(crate) incoming: &'i I,
}

/// An attempt at an insertion that did not end in an entry.
pub(super) struct InsertFailure<K, V> {
    pub(super) cause: FailureKind,
    pub(super) key: K,
    pub(super) value: V,
}

/// Why it did not.
#[derive(Clone, Copy)]
pub(super) enum FailureKind {
    /// This thread can reach no slot of a queue, or there is no vacant one.
    Shortage,
    /// The newcomer is not to be admitted.
    Refused(Refusal),
    /// All that an eviction has looked at is held.
    Held,
    /// The key came or went meanwhile.
    Changed,
}

impl FailureKind {
    /// What a caller is told who has tried for long enough.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            FailureKind::Refused(refusal) => refusal,
            FailureKind::Held | FailureKind::Shortage | FailureKind::Changed => Refusal::NoRoom,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Puts an entry in whose arrival was counted. One that is not admitted goes to `refused`: where
    /// nobody wants it back nobody pays for the way. The stripe is the calling thread's.
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

    /// From code of the user's that a look-up of this thread runs.
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

    /// Finds a key, after what has expired of it is taken out.
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
        // Not a newcomer's to replace: it is absent.
        self.take_out_lapsed(mixed, found);
        self.find(protection, mixed, key)
    }

    /// Sees an arrival through: most get in at the first attempt.
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

    /// Sees an arrival through that has failed once.
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
                // What was passed over is behind the others now.
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
            // Keys are compared. One that has expired meanwhile is replaced: to take it out another
            // stripe would have to be held. Before the key and value, which are dropped if that panics.
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
        // It is not to be, and what it would have replaced goes.
        self.order.forget(newcomer);
        self.settle(&mut held);
        drop(held);
        let InsertFailure { cause, key, value } = failure;
        Err(refused(self.refuse(operation, mixed, (key, value), cause.refusal())))
    }

    /// Makes more slots and credit available: grows the table, else reclaims, else takes over what
    /// idle threads have in hand, which `scavenged` counts. The caller holds no stripe. False if it is
    /// no use.
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

    /// One attempt at an insertion: makes room, fills a slot, publishes and queues it. The
    /// entry of the same key, if there was one, is still protected.
    ///
    /// Credit is spent and a slot filled only when no more of the user's code can run, so
    /// that a panic of that loses nothing.
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

    /// Makes room for a replacement that is heavier than the entry `old`, by the entries of others.
    /// If the policy chooses that one, it is kept in hand until there is room: only then can the
    /// policy choose no other again and again.
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

    /// Evicts until there is credit in hand for an entry, and segments for all that an
    /// insertion may need. Victims that are kept are the caller's.
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
        // Most need one victim. Two more in the same loop would cost that one 30 instructions.
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
        // As many evictions as there are slots free all there is.
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

    /// Whether there is credit in hand for an entry, with what is free. Fails if there are not the
    /// segments that an insertion or an eviction may need.
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
        // An entry that grows is no newcomer: the policy may not refuse it.
        let newcomer = (entries > 0).then_some(newcomer);
        match self.order.evict(&mut self.queue_ctx(held), newcomer) {
            Decision::Victim(victim) if is_kept(victim) => Ok(()),
            Decision::Victim(victim) => {
                self.finish_eviction(held, victim, Ending::Evicted);
                Ok(())
            }
            Decision::Refuse => Err(FailureKind::Refused(Refusal::Unwanted)),
            Decision::Held => Err(FailureKind::Held),
            // Others have all in hand, which was held when they looked at it.
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

    /// Puts a slot where the one was that it replaces, and gives that one up. The caller
    /// protects it.
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
        // Before the attempt to take it, so that whoever has it in hand may still see it.
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

    /// Counts a refusal and tells of it; nothing of the key stays. Hands the newcomer back.
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
