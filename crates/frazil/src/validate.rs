//! Whether the parts of a cache agree: what the tests ask of it in the end.
//!
//! Everything is counted anew, from the index, the queues, the stacks and what stripes
//! own, and compared with each other: no slot, no segment and no credit may be
//! lost or be in two places. Nobody else uses the cache meanwhile, so nothing is vague.
//! O(capacity), in time and memory.

mod handles;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;
use crate::core::Core;
use crate::core::hooks::Hooks;
use crate::core::index::Seen;
use crate::core::order::Order;
use crate::core::order::position::Position;
use crate::core::order::s3_fifo::{SMALL, WEIGHT};
use crate::core::slab::{DEAD, OCCUPIED, Slab, VACANT};
#[cfg(feature = "freezing")]
use crate::features::frozen::{Copies, Freezes};
use crate::smr::reclaim::Contents as _;
use crate::smr::refs::SlotRefs as _;
use crate::smr::segments::{IDLE, SECOND, SLOT};
use crate::smr::stripe::Cursor;
use crate::sync::atomic::Ordering::Relaxed;
#[cfg(any(feature = "measure", loom, shuttle))]
use crate::sync::atomic::Ordering::SeqCst;

/// Findings after this many are left out.
const FINDINGS: usize = 20;

/// Where a slot is, beside the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// In a queue of the policy, at the position that the header should have.
    Queued {
        queue: usize,
        position: u32,
    },
    /// Frozen, and dropped by its queue.
    #[cfg_attr(not(feature = "freezing"), expect(dead_code, reason = "nothing is frozen"))]
    Loose,
    /// In a stripe's hands, to be used.
    Vacant,
    /// In a stripe's hands, vacated.
    Retired,
    Free,
    Limbo,
    /// In a cache with handles: in no queue, and held; or its content waits to be dropped; or it
    /// waits to be given back.
    Held,
    Due,
    Lost,
}

/// The findings so far.
struct Survey {
    slots: Vec<Option<Whereabouts>>,
    /// Where each segment is.
    segments: BTreeMap<u32, Option<String>>,
    /// Credit for entries, and of weight, that stripes own.
    entries_in_hand: u64,
    credit_in_hand: u64,
    /// The weight that stripes have not reported to S3-FIFO's small queue yet.
    unreported: u64,
    findings: Vec<String>,
}

impl Survey {
    fn found(&mut self, finding: String) {
        if self.findings.len() < FINDINGS {
            self.findings.push(finding);
        }
    }

    fn expect(&mut self, what: &str, counted: u64, found: u64) {
        if counted != found {
            self.found(format!("{what}: counted {counted}, found {found}"));
        }
    }

    fn slot(&mut self, slot: u32, whereabouts: Whereabouts) {
        match self.slots.get_mut(slot as usize) {
            Some(known @ None) => *known = Some(whereabouts),
            Some(Some(known)) => {
                let finding = format!("slot {slot} is {known:?} and {whereabouts:?}");
                self.found(finding);
            }
            None => self.found(format!("slot {slot}, {whereabouts:?}, was never handed out")),
        }
    }

    /// False if it is known already, or does not exist.
    fn segment(&mut self, segment: u32, whereabouts: String) -> bool {
        match self.segments.get_mut(&segment) {
            Some(known @ None) => {
                *known = Some(whereabouts);
                return true;
            }
            Some(Some(known)) => {
                let finding = format!("segment {segment} is {known} and {whereabouts}");
                self.found(finding);
            }
            None => self.found(format!("segment {segment}, {whereabouts}, was never handed out")),
        }
        false
    }

    /// The errors, with the slots not found anywhere.
    fn result(mut self) -> Result<(), String> {
        let known = std::mem::take(&mut self.segments);
        for (segment, _) in known.iter().filter(|(_, whereabouts)| whereabouts.is_none()) {
            self.found(format!("segment {segment} is nowhere"));
        }
        if self.findings.is_empty() { Ok(()) } else { Err(self.findings.join("\n")) }
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// Total weight of all entries at one moment, although threads are at work; `None` if they were
    /// too fast. [`Cache::weight`] limits its result to the capacity; this does not. For tests.
    #[cfg(any(feature = "measure", loom, shuttle))]
    #[doc(hidden)]
    pub fn weight_at_once(&self) -> Option<u64> {
        let read = || -> Vec<u64> {
            self.core.stripes.iter().map(|stripe| stripe.local.counts.weight.load(SeqCst)).collect()
        };
        let weights = read();
        // Read twice and found the same: it was so in between.
        let sum = |sum: u64, weight: &u64| sum.wrapping_add(*weight);
        (weights == read()).then(|| weights.iter().fold(0, sum))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Checks that the cache's parts agree with each other, and returns the errors. For tests.
    ///
    /// # Errors
    ///
    /// A list of inconsistencies, one on each line.
    #[doc(hidden)]
    pub fn validate(&mut self) -> Result<(), String> {
        let mut survey = self.core.survey();
        #[cfg(feature = "freezing")]
        self.core.survey_frozen(&mut survey);
        let indexed = self.core.check_index(&mut survey);
        if let Some(deadlines) = self.core.hooks.expiry.deadlines() {
            let is_resident = |slot| indexed.get(slot as usize).is_some_and(|indexed| *indexed);
            let findings = deadlines.check(is_resident).err();
            findings.into_iter().for_each(|finding| survey.found(finding));
        }
        self.core.check_residents(&mut survey, &indexed, self.weight(), 0);
        // A flight borrows the cache.
        survey.expect("flights", 0, self.core.hooks.fetch.attended() as u64);
        survey.result()
    }
}

#[cfg(feature = "freezing")]
impl<K: Hash + Eq, V, S: BuildHasher, H: Freezes<K, V>> Core<K, V, S, H> {
    /// The slots in no queue because they are frozen, and the copied ones.
    fn survey_frozen(&self, survey: &mut Survey) {
        for slot in self.reclaim.used().filter(|&slot| self.slab.header(slot).is_loose()) {
            survey.slot(slot, Whereabouts::Loose);
        }
        let listed = self.hooks.copies().map_or_else(Vec::new, Copies::listed);
        // The end of an entry finds its copy in the list.
        let copies = self.hooks.copies().map_or(0, Copies::count);
        survey.expect("copies listed", copies as u64, listed.len() as u64);
        for slot in listed {
            // It may be in a queue as well, but never a slot that may be reused.
            let known = survey.slots.get(slot as usize).copied().flatten();
            if !matches!(known, Some(Whereabouts::Loose | Whereabouts::Queued { .. })) {
                survey.found(format!("slot {slot} is among what is copied and {known:?}"));
            }
        }
        self.survey_aside(survey);
    }

    /// Slots marked as set aside in their headers are; with a policy under a lock also the other
    /// way round.
    fn survey_aside(&self, survey: &mut Survey) {
        let mut aside = vec![false; survey.slots.len()];
        self.aside().into_iter().for_each(|slot| aside[slot as usize] = true);
        let locked = matches!(self.order, Order::Locked(_));
        for slot in self.reclaim.used() {
            let header = self.slab.header(slot);
            let (says, is) = (header.is_aside(), aside[slot as usize]);
            let known = survey.slots[slot as usize];
            let resident = matches!(known, Some(Whereabouts::Loose | Whereabouts::Queued { .. }));
            // The header of an entry that was about to leave and has stayed has no mark.
            if resident && (says && !is || locked && is && !says && header.is_settled()) {
                survey.found(format!("slot {slot} is set aside ({is}) and says so ({says})"));
            }
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Where all slots and segments are.
    fn survey(&self) -> Survey {
        let used = self.reclaim.used();
        let mut survey = Survey {
            slots: vec![None; used.end as usize],
            segments: self.segments.used().map(|segment| (segment, None)).collect(),
            entries_in_hand: 0,
            credit_in_hand: 0,
            unreported: 0,
            findings: Vec::new(),
        };
        self.survey_queues(&mut survey);
        self.survey_stripes(&mut survey);
        self.survey_stacks(&mut survey);
        survey
    }

    /// The rings between stripes, and the places of a locked policy.
    fn survey_queues(&self, survey: &mut Survey) {
        for queue in self.order.queues().iter().chain(self.hooks.bottom()) {
            let number = queue.end();
            let mut count = 0;
            for segment in queue.ring().values() {
                count += 1;
                self.survey_queued(survey, number, segment, format!("in ring {number}"));
            }
            survey.expect("segments in a ring", queue.ring().len(), count);
        }
        if let Order::Locked(locked) = &self.order {
            let mut seated = locked.slots();
            for &(position, slot) in &seated {
                survey.slot(slot, Whereabouts::Queued { queue: 0, position });
            }
            let weight: u64 = seated.iter().map(|&(_, slot)| self.slab.weight(slot)).sum();
            survey.expect("weight under the lock", locked.held(), weight);
            // The policy's own count of its entries.
            let mut listed = locked.coldest_first(self);
            listed.sort_unstable();
            seated.sort_unstable_by_key(|&(_, slot)| slot);
            if !listed.iter().eq(seated.iter().map(|(_, slot)| slot)) {
                survey.found("the policy lists other slots than have a place".to_owned());
            }
        }
    }

    fn survey_queued(&self, survey: &mut Survey, queue: usize, segment: u32, place: String) {
        if segment == 0 || !survey.segment(segment, place) {
            return;
        }
        for index in 0..self.segments.length() {
            let position = self.segments.position(segment, index);
            let word = self.segments.word(position).load(Relaxed);
            if word != 0 {
                let (slot, mark) = (word & SLOT, word & SECOND);
                // All but the first have the same.
                let expected = if queue == 0 { 0 } else { SECOND };
                survey.expect("the mark of a slot", mark.into(), expected.into());
                let position = Position::new(position, mark).noted();
                survey.slot(slot, Whereabouts::Queued { queue, position });
            }
        }
    }

    /// The slots that each stripe owns.
    fn survey_stripes(&self, survey: &mut Survey) {
        for (number, stripe) in self.stripes.iter().enumerate() {
            let (reader, depth) = (&stripe.reader, &stripe.reader.depth);
            let named = reader.hazard.load(Relaxed) | reader.second.load(Relaxed);
            survey.expect("hazards at rest", 0, named.into());
            if depth.load(Relaxed) == 0 {
                survey.expect("names at rest", 0, reader.names.count().into());
            }
            let pinned = stripe.reader.pinned.load(Relaxed) != 0;
            survey.expect("pins", u64::from(depth.load(Relaxed) != 0), u64::from(pinned));
            let Some(held) = stripe.claim() else {
                survey.found(format!("stripe {number} is locked"));
                continue;
            };
            survey.entries_in_hand += held.above.entry_credit;
            survey.credit_in_hand += held.above.weight_credit;
            survey.unreported = survey.unreported.wrapping_add(held.above.unreported[WEIGHT]);
            for (queue, ends) in held.above.ends.iter().enumerate() {
                let [front, back] =
                    [("front", &ends.front), ("back", &ends.back)].map(|(end, cursor)| {
                        (cursor.segment, format!("{end} {queue} of stripe {number}"))
                    });
                self.survey_queued(survey, queue, front.0, front.1);
                self.survey_queued(survey, queue, back.0, back.1);
                self.survey_rest(survey, &ends.back, "a back");
            }
            self.survey_cursor(survey, &held.vacant, number, Whereabouts::Vacant);
            self.survey_cursor(survey, &held.retired, number, Whereabouts::Retired);
            for &segment in held.spares.held() {
                survey.segment(segment, format!("a spare of stripe {number}"));
                self.survey_rest(survey, &Cursor { segment, next: 0 }, "a spare");
            }
        }
    }

    fn survey_cursor(&self, survey: &mut Survey, cursor: &Cursor, stripe: usize, of: Whereabouts) {
        if cursor.segment == 0 || !survey.segment(cursor.segment, format!("{of:?} of {stripe}")) {
            return;
        }
        self.survey_idle(survey, cursor.segment, cursor.next, of);
        self.survey_rest(survey, cursor, "a segment of slots");
    }

    /// The first words of a segment that is in no queue. How many of them hold slots.
    fn survey_idle(&self, survey: &mut Survey, segment: u32, end: u32, of: Whereabouts) -> u64 {
        let mut slots = 0;
        for index in 0..end {
            let word = self.segments.word(self.segments.position(segment, index)).load(Relaxed);
            // Segments that came from the stack may have holes.
            if word != 0 {
                slots += 1;
                survey.slot(word ^ IDLE, of);
            }
        }
        slots
    }

    /// Words that are not in use yet, or not any more, hold nothing.
    fn survey_rest(&self, survey: &mut Survey, cursor: &Cursor, what: &str) {
        if cursor.segment == 0 {
            return;
        }
        for index in cursor.next..self.segments.length() {
            let position = self.segments.position(cursor.segment, index);
            let slot = self.segments.word(position).load(Relaxed);
            if slot != 0 {
                survey.found(format!("{what} holds slot {slot} where it should hold nothing"));
            }
        }
    }

    fn survey_stacks(&self, survey: &mut Survey) {
        let (mut waiting, mut waiting_weight) = (0, 0u64);
        for (stack, of) in
            self.reclaim.stacks().into_iter().zip([Whereabouts::Free, Whereabouts::Limbo])
        {
            for segment in stack.segments(&self.segments) {
                if !survey.segment(segment, format!("{of:?}")) {
                    break;
                }
                let slots = self.survey_idle(survey, segment, self.segments.length(), of);
                if of == Whereabouts::Limbo {
                    waiting += slots;
                    for (_, slot) in self.segments.slots(segment) {
                        waiting_weight = self.retired_weight(slot).wrapping_add(waiting_weight);
                    }
                }
            }
        }
        survey.expect("waiting slots", self.reclaim.waiting(), waiting);
        survey.expect("waiting weight", self.reclaim.waiting_weight(), waiting_weight);
        for segment in self.segments.empty().segments(&self.segments) {
            if !survey.segment(segment, "empty".to_owned()) {
                break;
            }
            self.survey_rest(survey, &Cursor { segment, next: 0 }, "an empty segment");
        }
    }

    /// Every word of the index leads to a resident slot, which a look-up finds. By slot, whether
    /// one does.
    fn check_index(&self, survey: &mut Survey) -> Vec<bool> {
        let of_occupied = |slot: u32| {
            let known = survey.slots.get(slot as usize).copied().flatten();
            let there = matches!(known, Some(Whereabouts::Queued { .. } | Whereabouts::Loose));
            there && self.slab.header(slot).state.load(Relaxed) & OCCUPIED != 0
        };
        let mut findings = Vec::new();
        let table = self.index.table();
        for bucket in 0..table.len() {
            for cell in table.cells(bucket) {
                let slot = table.slot(cell.load(Relaxed));
                if slot != 0 && !of_occupied(slot) {
                    let known = survey.slots.get(slot as usize);
                    findings.push(format!("slot {slot} is in the index and {known:?}"));
                    continue;
                }
                if slot == 0 {
                    continue;
                }
                // SAFETY: occupied, and the cache is exclusively borrowed.
                let key = unsafe { self.slab.key(slot) };
                let found = self.index.find(self.hashes(key).1, |found, _, other| {
                    // SAFETY: as above.
                    if of_occupied(other) && unsafe { self.slab.key(other) } == key {
                        Seen::Match(found)
                    } else {
                        Seen::Other
                    }
                });
                match found {
                    None => findings.push(format!("a look-up does not find slot {slot}")),
                    Some(found) if !std::ptr::eq(found, cell) => {
                        findings.push(format!("the key of slot {slot} is there twice"));
                    }
                    Some(_) => {}
                }
            }
        }
        if findings.is_empty() {
            // SAFETY: all words lead to occupied slots, as was just found.
            let mixed_of = |slot| self.hashes(unsafe { self.slab.key(slot) }).1;
            findings.extend(self.index.check(mixed_of).err());
        }
        findings.into_iter().for_each(|finding| survey.found(finding));
        let mut indexed = vec![false; survey.slots.len()];
        for cell in (0..table.len()).flat_map(|bucket| table.cells(bucket)) {
            if let Some(indexed) = indexed.get_mut(table.slot(cell.load(Relaxed)) as usize) {
                *indexed = true;
            }
        }
        indexed
    }

    /// Each slot is in exactly one place, and the counts of residents are right: `counted` is their
    /// weight, and the given credit is neither theirs nor free.
    fn check_residents(
        &self,
        survey: &mut Survey,
        indexed: &[bool],
        counted: u64,
        charged_beside: u64,
    ) {
        let (mut residents, mut weight, mut small_weight) = (0u64, 0u64, 0u64);
        for slot in self.reclaim.used() {
            let header = self.slab.header(slot);
            let state = header.state.load(Relaxed);
            match (survey.slots[slot as usize], indexed[slot as usize]) {
                (None, indexed) => {
                    survey.found(format!("slot {slot} is nowhere (in the index: {indexed})"));
                }
                (Some(Whereabouts::Queued { queue, position }), indexed) => {
                    let noted = header.position.load(Relaxed);
                    survey.expect("the position of a slot", noted.into(), position.into());
                    if !indexed && state & DEAD == 0 {
                        survey.found(format!("slot {slot} is queued, not indexed and not dead"));
                    }
                    residents += u64::from(indexed);
                    weight += if indexed { self.charge(slot) } else { 0 };
                    if matches!(self.order, Order::S3Fifo(_)) && queue == SMALL {
                        small_weight = small_weight.wrapping_add(self.slab.weight(slot));
                    }
                }
                (Some(Whereabouts::Loose), indexed) => {
                    if !indexed && state & DEAD == 0 {
                        survey.found(format!("slot {slot} is loose, not indexed and not dead"));
                    }
                    residents += u64::from(indexed);
                    weight += if indexed { self.charge(slot) } else { 0 };
                }
                (Some(Whereabouts::Vacant | Whereabouts::Free), _)
                    if Slab::<K, V, ()>::NEEDS_DROP && !H::Refs::COUNTED && state != VACANT =>
                {
                    survey.found(format!("slot {slot} is free and not vacant"));
                }
                // In the index as well? That was found there.
                (Some(_), _) => {}
            }
        }
        survey.expect("len", self.entries(), residents);
        survey.expect("weight", counted, weight);
        let in_hand = survey.entries_in_hand.wrapping_add(self.entry_budget.free());
        survey.expect(
            "entries, with those that may come",
            self.entry_budget.capacity(),
            residents.wrapping_add(in_hand),
        );
        if let Some(weights) = &self.weights {
            let in_hand =
                survey.credit_in_hand.wrapping_add(weights.free()).wrapping_add(charged_beside);
            survey.expect("credit", weights.capacity(), weight.wrapping_add(in_hand));
        }
        if let Order::S3Fifo(s3_fifo) = &self.order {
            let told = s3_fifo.told_small_weight().wrapping_add(survey.unreported);
            survey.expect("weight in the small queue", told, small_weight);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use crate::{Policy, Tested};

    /// A full cache, its parts in use: queues, limbo, free and vacant slots.
    fn used(policy: Policy) -> Tested {
        let weigher = |_: &u64, text: &String| text.len() as u64;
        let cache: Tested = Cache::builder(600).policy(policy).weigher(weigher).build();
        for key in 0..2_000 {
            cache.insert(key % 700, "some text"[..key as usize % 10].to_owned());
            if key % 7 == 0 {
                cache.invalidate(&(key / 2 % 700));
            }
        }
        cache
    }

    #[test]
    fn a_used_cache_is_in_order_with_every_policy() {
        for policy in Policy::ALL {
            used(policy).validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
        }
    }

    /// A word of the index, and the slot in it.
    fn a_word(cache: &Tested) -> (&AtomicU32, u32) {
        let table = cache.core.index.table();
        let mut cells = (0..table.len()).flat_map(|bucket| table.cells(bucket));
        let word = cells.find(|cell| cell.load(Relaxed) != 0).expect("an entry");
        (word, table.slot(word.load(Relaxed)))
    }

    #[test]
    fn all_damage_is_found() {
        type Damage<'d> = &'d dyn Fn(&Tested);
        let damages: [(&str, Damage<'_>); 8] = [
            ("an entry lost from the index", &|cache| a_word(cache).0.store(0, Relaxed)),
            ("a word with another tag", &|cache| {
                let (word, _) = a_word(cache);
                word.store(word.load(Relaxed) ^ 1 << 31, Relaxed);
            }),
            ("an entry lost from its queue", &|cache| {
                let (_, slot) = a_word(cache);
                let position = Position::of(cache.core.slab.header(slot)).position();
                cache.core.segments.word(position).store(0, Relaxed);
            }),
            ("a slot retired while resident", &|cache| {
                let (_, slot) = a_word(cache);
                let mut held = cache.core.stripe().claim().expect("free");
                assert!(
                    held.spares
                        .stock(&cache.core.segments, &mut crate::smr::stripe::Traffic::default())
                );
                cache.core.reclaim.retire(&cache.core.segments, &mut held, slot);
            }),
            ("an entry too many", &|cache| {
                cache.core.stripe().claim().expect("free").above.entry_credit += 1
            }),
            ("credit lost", &|cache| {
                let mut held = cache.core.stripe().claim().expect("free");
                held.above.weight_credit = held.above.weight_credit.wrapping_sub(1);
            }),
            ("a segment lost", &|cache| {
                let mut held = cache.core.stripe().claim().expect("free");
                assert!(
                    held.spares
                        .stock(&cache.core.segments, &mut crate::smr::stripe::Traffic::default())
                );
                held.spares.draw();
            }),
            ("small weight forgotten", &|cache| {
                let mut held = cache.core.stripe().claim().expect("free");
                held.above.unreported[WEIGHT] = held.above.unreported[WEIGHT].wrapping_add(1);
            }),
        ];
        for (what, damage) in damages {
            let mut cache = used(Policy::S3Fifo);
            damage(&cache);
            let findings = cache.validate().expect_err(what);
            println!("{what}: {findings}");
            // Its destructor need not cope with damage.
            std::mem::forget(cache);
        }
    }
}
