//! The same for a cache with handles, including held entries and content that waits to be dropped.

use std::hash::{BuildHasher, Hash};

use super::{Survey, Whereabouts};
use crate::features::handles::Counting;
use crate::handles::HandleCache;
use crate::smr::refs::SlotRefs as _;

impl<K: Hash + Eq, V, S: BuildHasher> HandleCache<K, V, S> {
    /// Checks that the cache's parts agree with each other, and returns the errors. No handle may
    /// be released meanwhile. For tests.
    ///
    /// # Errors
    ///
    /// A list of inconsistencies, one on each line.
    #[doc(hidden)]
    pub fn validate(&mut self) -> Result<(), String> {
        let core = self.core();
        core.recount_all();
        let mut survey = core.survey();
        #[cfg(feature = "freezing")]
        core.survey_frozen(&mut survey);
        core.survey_held(&mut survey);
        let indexed = core.check_index(&mut survey);
        let (charged, uncharged) = core.check_words(&mut survey, &indexed);
        core.check_uncharged(&mut survey, &indexed);
        let orphans = charged.saturating_add(uncharged);
        survey.expect("usage", core.usage(), core.weight().saturating_add(orphans));
        core.check_residents(&mut survey, &indexed, core.weight(), charged);
        survey.result()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Counting<K, V, S> {
    /// The slots that are in no queue and not free.
    fn survey_held(&self, survey: &mut Survey) {
        for slot in self.lost_slots() {
            survey.slot(slot, Whereabouts::Lost);
        }
        let due = self.due_slots();
        for slot in self.reclaim.used() {
            if survey.slots[slot as usize].is_some() {
                continue;
            }
            if due.contains(&slot) {
                survey.slot(slot, Whereabouts::Due);
            } else if self.slab.refs(slot).look().count() > 0 {
                survey.slot(slot, Whereabouts::Held);
            }
        }
    }

    /// Total weight of uncharged residents.
    fn check_uncharged(&self, survey: &mut Survey, indexed: &[bool]) {
        let residents = self.reclaim.used().filter(|&slot| indexed[slot as usize]);
        let uncharged = residents.filter(|&slot| !self.slab.refs(slot).is_charged());
        let weight = uncharged.map(|slot| self.slab.weight(slot)).sum();
        survey.expect("not charged for", self.uncharged_weight(), weight);
    }

    /// Each slot is where its word says. Returns the weight of charged orphans, and that of
    /// uncharged orphans and residents.
    fn check_words(&self, survey: &mut Survey, indexed: &[bool]) -> (u64, u64) {
        let due = self.due_slots();
        let (mut charged, mut uncharged) = (0u64, 0u64);
        for slot in self.reclaim.used() {
            let (word, weight) = (self.slab.refs(slot).look(), self.slab.weight(slot));
            let fits = match survey.slots[slot as usize] {
                Some(Whereabouts::Queued { .. } | Whereabouts::Loose) if indexed[slot as usize] => {
                    word.is_resident()
                }
                Some(Whereabouts::Queued { .. } | Whereabouts::Loose) => {
                    !word.is_dequeued()
                        && (word.is_orphan() && word.count() > 0 && !word.is_dropped()
                            || word.is_ended()
                                && word.count() == 0
                                && word.is_dropped() != due.contains(&slot))
                }
                Some(Whereabouts::Held) => {
                    word.is_orphan() && word.is_dequeued() && !word.is_dropped()
                }
                Some(Whereabouts::Due) => {
                    word.is_ended()
                        && word.is_dequeued()
                        && word.count() == 0
                        && !word.is_orphan()
                        && !word.is_dropped()
                }
                Some(_) => word.is_vacant(),
                // It is found elsewhere.
                None => true,
            };
            if !fits {
                let known = survey.slots[slot as usize];
                survey.found(format!("slot {slot} is {known:?} and says {word:?}"));
            }
            if word.is_orphan() || word.is_resident() && !self.slab.refs(slot).is_charged() {
                let orphans = if word.is_charged() { &mut charged } else { &mut uncharged };
                *orphans = orphans.saturating_add(weight);
            }
        }
        (charged, uncharged)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::handles::Held;
    use crate::{Policy, Priority};

    type Tested = HandleCache<u64, String>;
    type Handles = Vec<Held<u64, String>>;

    /// A full cache with orphans, and entries of all priorities, some of them held.
    fn used(policy: Policy, strict: bool) -> (Tested, Handles) {
        let cache: Tested = HandleCache::builder(600).policy(policy).strict(strict).build();
        let mut held = Vec::new();
        for key in 0..2_000 {
            let priority = [Priority::Bottom, Priority::Low, Priority::High][key as usize % 3];
            let new = cache.insert_held_with(key % 700, String::new(), key % 10, priority);
            if key % 41 == 0 {
                held.extend(new.ok().map(|new| new.held));
            }
            if key % 7 == 0 {
                cache.erase(&(key / 2 % 700));
            }
        }
        (cache, held)
    }

    #[test]
    fn a_used_cache_is_in_order() {
        for policy in
            [Policy::Fifo, Policy::Clock { bits: 2 }, Policy::Mobius, Policy::S3Fifo, Policy::Lru]
        {
            for strict in [false, true] {
                let (mut cache, held) = used(policy, strict);
                let core = cache.core();
                let is_orphan = |slot| core.slab.refs(slot).look().is_orphan();
                assert!(core.reclaim.used().any(is_orphan), "{policy}: nothing to be found");
                cache.validate().unwrap_or_else(|found| panic!("{policy}, {strict}: {found}"));
                drop(held);
                cache.validate().unwrap_or_else(|found| panic!("{policy}, {strict}: {found}"));
            }
        }
    }

    #[test]
    fn all_damage_is_found() {
        #[track_caller]
        fn a_slot(cache: &Tested, is_it: impl Fn(crate::smr::refs::Seen) -> bool) -> u32 {
            let core = cache.core();
            let found = core.reclaim.used().find(|&slot| is_it(core.slab.refs(slot).look()));
            found.expect("there is one")
        }
        type Damage = fn(&Tested);
        let damages: [(&str, Damage); 5] = [
            ("a vacant slot that is held", |cache| {
                cache.clear();
                cache.core().slab.refs(a_slot(cache, |word| word.is_vacant())).hold_more();
            }),
            ("a resident that was claimed", |cache| {
                let slot = a_slot(cache, |word| word.is_resident() && word.count() == 0);
                assert!(crate::smr::refs::SlotRefs::claim(cache.core().slab.refs(slot)));
            }),
            ("an orphan that was dropped", |cache| {
                let slot = a_slot(cache, |word| word.is_orphan() && word.is_dequeued());
                cache.core().slab.refs(slot).dropped();
            }),
            ("a charge that has changed", |cache| {
                let slot = a_slot(cache, |word| word.is_orphan());
                let refs = cache.core().slab.refs(slot);
                crate::smr::refs::SlotRefs::set_weight(refs, 1_000);
            }),
            ("credit lost", |cache| {
                let mut held = cache.core().stripe().claim().expect("free");
                held.above.weight_credit = held.above.weight_credit.wrapping_sub(1);
            }),
        ];
        for (what, damage) in damages {
            let (mut cache, held) = used(Policy::Mobius, true);
            cache.validate().unwrap_or_else(|found| panic!("{what}: {found}"));
            damage(&cache);
            let findings = cache.validate().expect_err(what);
            println!("{what}: {findings}");
            // Destructors need not cope with damage.
            std::mem::forget((cache, held));
        }
    }
}
