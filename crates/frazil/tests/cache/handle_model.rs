//! A cache with handles beside a map that knows which values were dropped.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil::{Freezing, HandleCache, Held, Insertion, Outcome, Policy, Priority};

use crate::tracked::Chance;

/// Policies whose entries can be held.
pub(crate) const POLICIES: [Policy; 5] =
    [Policy::Fifo, Policy::Clock { bits: 2 }, Policy::Mobius, Policy::S3Fifo, Policy::Lru];

/// Counts that it was dropped.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Arc<AtomicU64>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// All parts of the cache agree. No handle is released meanwhile.
pub(crate) fn validate<K: std::hash::Hash + Eq, V>(cache: &mut HandleCache<K, V>) {
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// Any priority.
pub(crate) fn any_priority(chance: &mut Chance) -> Priority {
    [Priority::Bottom, Priority::Low, Priority::High][chance.below(3) as usize]
}

/// Operations in a long run; few where they are interpreted.
pub(crate) const STEPS: u64 = if cfg!(miri) { 3_000 } else { 40_000 };

thread_local! {
    /// Serial numbers of values that were dropped.
    pub(crate) static DROPPED: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

/// A value with its own number, whose drop is noted.
pub(crate) struct Noted(pub(crate) u64);

impl Drop for Noted {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| assert!(dropped.insert(self.0), "dropped twice"));
    }
}

/// The state of a value.
struct Fate {
    key: u64,
    charge: u64,
}

/// The cache, and what must be true of it.
pub(crate) struct Model {
    cache: Option<HandleCache<u64, Noted>>,
    strict: bool,
    /// The capacity at its construction.
    capacity: u64,
    /// By serial number, until it is dropped.
    living: BTreeMap<u64, Fate>,
    /// By key, the value that a look-up may find.
    current: BTreeMap<u64, u64>,
    held: Vec<Held<u64, Noted>>,
    next: u64,
    /// Limit of the residents' charge, or in a strict cache of the usage: the previous sum, or the
    /// capacity if that is more, and charges admitted beyond it since.
    bound: u64,
    /// Entries held at their insertion that the policy may have refused: nothing is evicted for
    /// them.
    beside: BTreeSet<u64>,
    policy: Policy,
    /// Entries known to be frozen, if it freezes.
    frozen: Option<BTreeSet<u64>>,
    /// Freezes that froze something.
    pub(crate) freezes: u64,
}

impl Model {
    pub(crate) fn new(policy: Policy, capacity: u64, strict: bool) -> Self {
        DROPPED.with_borrow_mut(BTreeSet::clear);
        let builder = HandleCache::builder(capacity).policy(policy).strict(strict);
        Model::of(builder.build(), policy, None)
    }

    /// The same for a cache that is frozen now and then.
    pub(crate) fn frozen(policy: Policy, capacity: u64, strict: bool) -> Self {
        DROPPED.with_borrow_mut(BTreeSet::clear);
        let builder = HandleCache::builder(capacity).policy(policy).strict(strict);
        let cache = builder.freezing(Freezing::ByHand).build();
        Model::of(cache, policy, Some(BTreeSet::new()))
    }

    fn of(cache: HandleCache<u64, Noted>, policy: Policy, frozen: Option<BTreeSet<u64>>) -> Self {
        let (living, current, held, beside) = Default::default();
        let (strict, capacity) = (cache.is_strict(), cache.capacity());
        let cache = Some(cache);
        let (next, bound, freezes) = (0, capacity, 0);
        Model {
            cache,
            strict,
            capacity,
            living,
            current,
            held,
            next,
            bound,
            beside,
            policy,
            frozen,
            freezes,
        }
    }

    /// Freezes a share, or thaws all, if it freezes.
    pub(crate) fn freeze(&mut self, chance: &mut Chance) {
        let Some(frozen) = &mut self.frozen else { return };
        let cache = self.cache.as_ref().expect("it is there");
        frozen.clear();
        if chance.below(4) == 0 {
            return cache.thaw();
        }
        let frozen_now = cache.freeze([0.3, 0.8, 1.0][chance.below(3) as usize]);
        self.freezes += u64::from(frozen_now > 0);
        // If only some are frozen, only the policy knows which.
        if frozen_now == cache.len() as u64 {
            frozen.extend(self.current.values());
        }
        self.settle();
    }

    /// An entry known to be frozen leaves.
    fn forget_frozen(&mut self) {
        self.frozen.iter_mut().for_each(BTreeSet::clear);
    }

    pub(crate) fn cache(&self) -> &HandleCache<u64, Noted> {
        self.cache.as_ref().expect("it is there")
    }

    fn make(&mut self, key: u64, charge: u64) -> Noted {
        self.next += 1;
        self.living.insert(self.next, Fate { key, charge });
        Noted(self.next)
    }

    fn is_held(&self, serial: u64) -> bool {
        self.held.iter().any(|held| held.0 == serial)
    }

    /// Notes the dropped values; none of them may be held.
    fn settle(&mut self) {
        let dropped = DROPPED.with_borrow_mut(std::mem::take);
        for serial in dropped {
            assert!(!self.is_held(serial), "what is held was dropped");
            let fate = self.living.remove(&serial).expect("it was made, and not dropped before");
            self.beside.remove(&serial);
            if self.current.get(&fate.key) == Some(&serial) {
                let is_frozen = self.frozen.as_ref().is_some_and(|frozen| frozen.contains(&serial));
                assert!(!is_frozen, "{serial} was evicted, and is frozen");
                self.current.remove(&fate.key);
            }
        }
        let Some(cache) = &self.cache else { return };
        // Values that are neither resident nor held were dropped at once.
        let residents: BTreeSet<u64> = self.current.values().copied().collect();
        for serial in self.living.keys() {
            assert!(residents.contains(serial) || self.is_held(*serial), "{serial} waits");
        }
        assert_eq!(cache.len(), residents.len());
        let charge = |serials: &BTreeSet<u64>| -> u64 {
            serials.iter().map(|serial| self.living[serial].charge).sum()
        };
        let held: BTreeSet<u64> = self.held.iter().map(|held| held.0).collect();
        // Not always, because it recounts holders in the words.
        if self.next.is_multiple_of(4) {
            assert_eq!(cache.held_usage(), charge(&held));
        }
        assert_eq!(cache.usage(), self.living.values().map(|fate| fate.charge).sum::<u64>());
        let bounded = if self.strict { self.living.keys().copied().collect() } else { residents };
        let surely = charge(&(&bounded - &self.beside));
        assert!(surely <= self.bound, "{surely} of {}", self.bound);
        // Other entries may take the place of those in `beside`.
        self.bound = charge(&bounded).max(cache.capacity());
    }

    fn insert(&mut self, key: u64, charge: u64, priority: Priority) {
        let value = self.make(key, charge);
        let serial = value.0;
        let before = self.current.remove(&key);
        match self.cache().insert_with(key, value, charge, priority) {
            Ok(_) => _ = self.current.insert(key, serial),
            Err(refused) => assert_eq!(refused.value.0, serial),
        }
        // `settle` checks its end.
        _ = before;
    }

    fn insert_held(&mut self, key: u64, charge: u64, priority: Priority) {
        let value = self.make(key, charge);
        let serial = value.0;
        let before = self.current.remove(&key);
        let capacity = self.cache().capacity();
        let share = if self.policy == Policy::S3Fifo { (capacity / 10).max(1) } else { capacity };
        if !self.strict && charge > share {
            self.beside.insert(serial);
        }
        match self.cache().insert_held_with(key, value, charge, priority) {
            Ok(Insertion { held, outcome }) => {
                assert_eq!((held.0, *held.key(), held.charge()), (serial, key, charge));
                match outcome {
                    Outcome::Detached => assert!(!self.strict),
                    Outcome::New => {}
                    Outcome::Replaced => assert!(before.is_some()),
                }
                if outcome != Outcome::Detached {
                    self.current.insert(key, serial);
                    self.bound += if self.strict { 0 } else { charge };
                }
                self.held.push(held);
            }
            Err(refused) => assert!(self.strict && refused.value.0 == serial),
        }
    }

    fn hold(&mut self, key: u64) {
        let found = self.cache().hold(&key);
        assert_eq!(found.as_ref().map(|held| held.0), self.current.get(&key).copied(), "{key}");
        self.held.extend(found);
    }

    fn let_go(&mut self, chance: &mut Chance) {
        if !self.held.is_empty() {
            let at = chance.below(self.held.len() as u64) as usize;
            let held = self.held.swap_remove(at);
            let serial = held.0;
            match chance.below(3) {
                0 => drop(held),
                how => {
                    let is_last = !self.is_held(serial);
                    let (key, was_resident) = (*held.key(), self.is_current(serial));
                    let was_dropped = self.cache().release(held, how == 1);
                    if how == 1 && is_last {
                        self.frozen.iter_mut().for_each(|frozen| _ = frozen.remove(&serial));
                    }
                    let is_kept = was_resident && (how != 1 || !is_last);
                    assert!(was_dropped || is_kept || !is_last, "{key}");
                    assert!(is_last || !was_dropped, "{key}: others hold it");
                }
            }
        }
    }

    fn is_current(&self, serial: u64) -> bool {
        self.current.values().any(|current| *current == serial)
    }

    /// This entry is removed, and no other of its key.
    fn erase_held(&mut self, chance: &mut Chance) {
        let Some(held) = self.held.get(chance.below(self.held.len() as u64 + 1) as usize) else {
            return;
        };
        let (key, was_resident) = (*held.key(), self.is_current(held.0));
        assert_eq!(self.cache().erase_held(held), was_resident);
        if was_resident {
            self.current.remove(&key);
        }
    }

    /// All are visited once, with their charges.
    fn look_at_all(&self) {
        let mut shown = BTreeMap::new();
        self.cache().for_each(|key, value, charge| {
            assert_eq!(charge, self.living[&value.0].charge);
            assert_eq!(shown.insert(*key, value.0), None);
        });
        assert_eq!(shown, self.current);
    }

    pub(crate) fn validate(&mut self) {
        validate(self.cache.as_mut().expect("it is there"));
    }

    pub(crate) fn step(&mut self, chance: &mut Chance, keys: u64, charge_max: u64) {
        let (key, charge) = (chance.below(keys), chance.below(charge_max + 1));
        match chance.below(106) {
            0..20 => self.insert(key, charge, any_priority(chance)),
            20..35 => self.insert_held(key, charge, any_priority(chance)),
            35..60 => self.hold(key),
            60..85 => self.let_go(chance),
            85..90 if !self.held.is_empty() => {
                let at = chance.below(self.held.len() as u64) as usize;
                self.held.push(self.held[at].clone());
            }
            90 if chance.below(20) == 0 => {
                self.forget_frozen();
                let capacity = chance.below(2 * self.capacity + 1);
                assert!(self.cache().set_capacity(capacity) >= capacity);
            }
            90..99 => {
                let was_there = self.current.remove(&key).is_some();
                assert_eq!(self.cache().erase(&key), was_there);
            }
            99 if chance.below(20) == 0 => {
                self.forget_frozen();
                self.current.clear();
                self.cache().clear();
            }
            100.. => self.held.iter().for_each(|held| self.cache().spread(held)),
            99 => match chance.below(8) {
                0 => {
                    self.forget_frozen();
                    self.cache().clear_unheld();
                    assert_eq!(self.cache().len(), {
                        let held = |serial: &&u64| self.is_held(**serial);
                        self.current.values().filter(held).count()
                    });
                }
                // Entries that left while the cache was not strict are not charged once it is.
                1 if self.living.len() == self.current.len() => {
                    self.strict = !self.strict;
                    self.cache().set_strict(self.strict);
                    // From here on the bound has another meaning.
                    self.bound = u64::MAX;
                }
                2..5 => self.look_at_all(),
                _ => self.erase_held(chance),
            },
            _ => {}
        }
        self.settle();
    }

    /// Drops the cache first, or its handles.
    pub(crate) fn end(&mut self, cache_first: bool) {
        self.validate();
        if !cache_first {
            self.held.clear();
            self.settle();
            self.validate();
            assert_eq!(self.cache().held_usage(), 0);
        }
        self.cache = None;
        self.current.clear();
        self.settle();
        let held: BTreeSet<u64> = self.held.iter().map(|held| held.0).collect();
        assert!(self.living.keys().eq(&held), "the rest is dropped with the cache");
        self.held.clear();
        self.settle();
        assert!(self.living.is_empty());
    }
}
