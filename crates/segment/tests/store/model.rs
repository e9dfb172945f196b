//! Sequences of operations against a naive map.
//!
//! The store may evict, so a key of the map may be missing. Present entries must equal the
//! map's, and the number missing must equal the store's count of evictions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{Attributes, Eviction, Expect, Store, StoreError, Stored, Update};
use proptest::prelude::*;

use crate::value_of;

#[derive(Clone, Debug)]
enum Operation {
    Set(u16, usize, Attributes),
    Add(u16, usize, Attributes),
    Replace(u16, usize),
    Append(u16, usize),
    Prepend(u16, usize),
    Cas(u16, usize, bool),
    Delete(u16),
    DeleteExactly(u16, bool),
    Update(u16, usize, u8, Option<Option<Duration>>),
    Flush,
    Touch(u16, Option<Duration>),
    Incr(u16, u64),
    Decr(u16, u64),
    Number(u16, u64),
    Get(u16),
    Hold(u16),
    GetMany(Vec<u16>),
    Wait(u64),
    Scan,
}

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    value: Vec<u8>,
    flags: u32,
    marks: u8,
    deadline_ms: Option<u64>,
    /// How much earlier it may expire: a 4,000th of its lifetime, and a started millisecond.
    early_ms: u64,
}

/// Of an item: a word, flags, the end of its lifetime, marks.
const HEAD_BYTES_MAX: usize = 4 + 4 + 3 + 1;

struct Model {
    store: Store,
    map: HashMap<Vec<u8>, Kept>,
    now_ms: Arc<AtomicU64>,
    version: u64,
    /// Keys that were missing.
    lost: u64,
}

fn key(number: u16) -> Vec<u8> {
    // Of different lengths, including the longest and the empty one.
    let length = if number == 0 { 0 } else { usize::from(number) * 37 % 255 + 1 };
    let mut key = number.to_string().into_bytes();
    key.resize(length.max(if number == 0 { 0 } else { key.len() }), b'k');
    key
}

impl Model {
    fn new(eviction: Eviction, kib: usize) -> Model {
        let now_ms = Arc::new(AtomicU64::new(1));
        // As much as two models take.
        let kib = if eviction == Eviction::GlCache { kib + 30 } else { kib };
        let store = Store::builder(kib << 10)
            .segment_bytes(if cfg!(miri) { 1 << 10 } else { 4 << 10 })
            .eviction(eviction)
            .learn_in_place(true)
            .clock(Arc::clone(&now_ms))
            .seed(7)
            .build()
            .unwrap();
        Model { store, map: HashMap::new(), now_ms, version: 0, lost: 0 }
    }

    fn now(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    fn value(&mut self, key: &[u8], length: usize) -> Vec<u8> {
        self.version += 1;
        value_of(key, self.version, length)
    }

    fn kept(&self, value: Vec<u8>, attributes: Attributes) -> Kept {
        // A lifetime of 34 years is unlimited.
        let lifetime = attributes.lifetime.filter(|lifetime| lifetime.as_millis() < 1 << 40);
        let lifetime_ms = lifetime.map(|lifetime| lifetime.as_millis() as u64);
        let early_ms = lifetime_ms.unwrap_or(0) / 4000 + 1;
        let deadline_ms = lifetime_ms.map(|lifetime| self.now() + lifetime);
        Kept { value, flags: attributes.flags, marks: attributes.marks, deadline_ms, early_ms }
    }

    /// The store's entry of a key, after removing missing and expired ones from the map.
    fn look(&mut self, key: &[u8]) -> Option<Kept> {
        let now = self.now();
        let there = self.store.get_with(key, |entry| {
            assert_eq!(entry.key, key);
            let left = entry.lifetime.map(|left| left.as_millis() as u64);
            (entry.value.to_vec(), (entry.flags, entry.marks), left)
        });
        let Some((value, marks, left)) = there else {
            if let Some(kept) = self.map.remove(key) {
                let is_over = kept.deadline_ms.is_some_and(|end| end <= now + kept.early_ms);
                self.lost += u64::from(!is_over);
            }
            return None;
        };
        let kept = self.map.get(key).expect("a key that was never there or deleted");
        assert_eq!((&value, marks), (&kept.value, (kept.flags, kept.marks)), "{key:?}");
        assert_eq!(left.is_some(), kept.deadline_ms.is_some());
        if let (Some(end), Some(left)) = (kept.deadline_ms, left) {
            assert!(now < end && now + left <= end, "an entry that is over: {now} {end} {left}");
        }
        Some(kept.clone())
    }

    /// Whether an item fits into a segment, whatever its head holds.
    fn surely_fits(&self, key: &[u8], value: &[u8]) -> bool {
        HEAD_BYTES_MAX + key.len() + value.len() <= self.store.stats().segment_bytes
    }

    fn store_if(
        &mut self,
        key: &[u8],
        wanted: bool,
        stored: Result<Stored, StoreError>,
        new: Kept,
    ) {
        let fits = self.surely_fits(key, &new.value);
        match stored {
            Ok(Stored::Stored) => {
                assert!(wanted);
                self.map.insert(key.to_vec(), new);
            }
            // The write made room first, which may evict the old entry.
            Ok(_) => assert!(!wanted || !self.store.contains(key)),
            Err(StoreError::TooLarge) => assert!(!fits),
            Err(error) => panic!("{error}"),
        }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Set(number, length, attributes) => {
                let key = key(number);
                let value = self.value(&key, length);
                let stored = self.store.write(&key, &value, attributes, Expect::Anything);
                if let Ok((_, cas)) = stored {
                    // It may expire at once.
                    assert_eq!(self.store.peek(&key, |entry| entry.cas).unwrap_or(cas), cas);
                }
                let stored = stored.map(|(stored, _)| stored);
                let kept = self.kept(value, attributes);
                self.store_if(&key, true, stored, kept);
            }
            Operation::Add(number, length, attributes) => {
                let key = key(number);
                let wanted = self.look(&key).is_none();
                let value = self.value(&key, length);
                let stored = self.store.add(&key, &value, attributes);
                let kept = self.kept(value, attributes);
                self.store_if(&key, wanted, stored, kept);
            }
            Operation::Replace(number, length) => {
                let key = key(number);
                let wanted = self.look(&key).is_some();
                let value = self.value(&key, length);
                let stored = self.store.replace(&key, &value, Attributes::default());
                let kept = self.kept(value, Attributes::default());
                self.store_if(&key, wanted, stored, kept);
            }
            Operation::Append(number, length) | Operation::Prepend(number, length) => {
                let key = key(number);
                let part = vec![b'+'; length];
                let there = self.look(&key);
                let mut new = there.clone().unwrap_or(self.kept(Vec::new(), Attributes::default()));
                let stored = if matches!(operation, Operation::Append(..)) {
                    new.value.extend(&part);
                    self.store.append(&key, &part)
                } else {
                    new.value.splice(0..0, part.iter().copied());
                    self.store.prepend(&key, &part)
                };
                self.store_if(&key, there.is_some(), stored, new);
            }
            Operation::Cas(number, length, right) => {
                let key = key(number);
                let cas = self.store.get_with(&key, |entry| entry.cas);
                let wanted = self.look(&key).is_some() && right;
                let value = self.value(&key, length);
                let cas = cas.unwrap_or(1).wrapping_add(u64::from(!right));
                let stored = self.store.cas(&key, &value, Attributes::default(), cas);
                let kept = self.kept(value, Attributes::default());
                // A write makes room, which may move or evict the old entry.
                let moved = matches!(stored, Ok(Stored::Exists | Stored::NotFound));
                self.store_if(&key, wanted && !moved, stored, kept);
            }
            other => self.run_other(other),
        }
    }

    fn run_other(&mut self, operation: Operation) {
        match operation {
            Operation::Delete(number) => {
                let key = key(number);
                let there = self.look(&key).is_some();
                assert_eq!(self.store.delete(&key), there);
                self.map.remove(&key);
            }
            Operation::DeleteExactly(number, right) => self.delete_exactly(number, right),
            Operation::Update(number, length, marks, lifetime) => {
                self.update(number, length, marks, lifetime);
            }
            Operation::Flush => {
                self.store.flush();
                self.map.clear();
            }
            Operation::Touch(number, lifetime) => {
                let key = key(number);
                let there = self.look(&key);
                let touched = match (self.store.touch(&key, lifetime), &there) {
                    // There is no room for its deadline.
                    (Err(StoreError::TooLarge), Some(there)) => {
                        return assert!(!self.surely_fits(&key, &there.value));
                    }
                    (touched, _) => touched.unwrap(),
                };
                if let (Some(there), true) = (&there, touched) {
                    let attributes =
                        Attributes { flags: there.flags, marks: there.marks, lifetime };
                    let kept = self.kept(there.value.clone(), attributes);
                    self.map.insert(key, kept);
                } else {
                    assert!(!touched);
                }
            }
            Operation::Number(number, value) => {
                let key = key(number);
                let value = value.to_string().into_bytes();
                self.store.set(&key, &value, Attributes::default()).unwrap();
                let kept = self.kept(value, Attributes::default());
                self.map.insert(key, kept);
            }
            Operation::Incr(number, by) => self.count(number, by, true),
            Operation::Decr(number, by) => self.count(number, by, false),
            Operation::Get(number) => {
                let key = key(number);
                let there = self.look(&key);
                let mut value = b"before".to_vec();
                let flags = self.store.get(&key, &mut value);
                assert_eq!(flags, there.as_ref().map(|kept| kept.flags));
                assert_eq!(value[6..], there.map(|kept| kept.value).unwrap_or_default());
            }
            Operation::Hold(number) => self.hold(number),
            Operation::GetMany(numbers) => {
                let keys: Vec<_> = numbers.into_iter().map(key).collect();
                let there: Vec<_> = keys.iter().map(|key| self.look(key)).collect();
                let mut next = 0;
                self.store.get_many(&keys, |at, entry| {
                    assert_eq!(at, next);
                    next += 1;
                    let value = entry.map(|entry| entry.value);
                    assert_eq!(value, there[at].as_ref().map(|kept| &kept.value[..]));
                });
                assert_eq!(next, keys.len());
            }
            Operation::Wait(ms) => _ = self.now_ms.fetch_add(ms, Relaxed),
            Operation::Scan => self.scan(),
            _ => unreachable!("a write with a value"),
        }
    }

    fn delete_exactly(&mut self, number: u16, right: bool) {
        let key = key(number);
        let there = self.look(&key).is_some();
        let cas = self.store.peek(&key, |entry| entry.cas).unwrap_or(1);
        let deleted = self.store.delete_exactly(&key, cas ^ u64::from(!right));
        let expected = match (there, right) {
            (false, _) => Stored::NotFound,
            (true, false) => Stored::Exists,
            (true, true) => Stored::Stored,
        };
        assert_eq!(deleted, expected);
        if deleted == Stored::Stored {
            self.map.remove(&key);
        }
    }

    fn update(
        &mut self,
        number: u16,
        length: usize,
        marks: u8,
        lifetime: Option<Option<Duration>>,
    ) {
        let key = key(number);
        let there = self.look(&key);
        let updated = self.store.update(&key, &mut vec![7; 3], |entry, value| {
            assert!(value.is_empty());
            if length == 0 {
                return Update::Leave(entry.cas);
            }
            value.extend(entry.value);
            value.resize(length, b'+');
            Update::Write { flags: 9, marks, lifetime, result: entry.cas }
        });
        // The write made room, which may evict or move the old entry.
        let (Some((old, new)), Some(mut kept)) = (updated.unwrap(), there) else { return };
        assert_eq!(old == new, length == 0);
        assert_eq!(self.store.peek(&key, |entry| entry.cas).unwrap_or(new), new);
        if length == 0 {
            return;
        }
        kept.value.resize(length, b'+');
        let attributes = Attributes { flags: 9, marks, lifetime: lifetime.flatten() };
        let renewed = self.kept(kept.value.clone(), attributes);
        let kept = match lifetime {
            Some(_) => renewed,
            None => Kept { deadline_ms: kept.deadline_ms, early_ms: kept.early_ms, ..renewed },
        };
        self.map.insert(key, kept);
    }

    fn count(&mut self, number: u16, by: u64, up: bool) {
        let key = key(number);
        let there = self.look(&key);
        let store = &self.store;
        let counted = if up { store.incr(&key, by) } else { store.decr(&key, by) };
        // `parse` would accept a sign.
        let digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let old = there.as_ref().map(|kept| {
            let text = std::str::from_utf8(&kept.value).ok().filter(digits);
            text.and_then(|text| text.parse::<u64>().ok())
        });
        match (old, counted) {
            (Some(Some(old)), Ok(Some(new))) => {
                assert_eq!(new, if up { old.wrapping_add(by) } else { old.saturating_sub(by) });
                let kept = there.map(|kept| Kept { value: new.to_string().into_bytes(), ..kept });
                self.map.insert(key, kept.unwrap());
            }
            (Some(None), Err(StoreError::NotANumber)) => {}
            // The write made room, which may evict the old entry.
            (_, Ok(None)) => {}
            (old, counted) => panic!("{old:?} counted to {counted:?}"),
        }
    }

    /// A held entry does not change, whatever is written meanwhile.
    fn hold(&mut self, number: u16) {
        let key = key(number);
        let there = self.look(&key);
        // The guard must not borrow the model.
        let held = self.store.hold(&key).map(|held| held.entry().value.to_vec());
        assert_eq!(held, there.as_ref().map(|kept| kept.value.clone()));
        let Some(kept) = there else { return };
        let held = self.store.hold(&key).unwrap();
        let rounds = self.store.stats().capacity_bytes / 500;
        for round in 0..rounds {
            let other = [b"other".to_vec(), round.to_string().into_bytes()].concat();
            self.store.set(&other, &value_of(&other, 1, 500), Attributes::default()).unwrap();
        }
        assert_eq!(held.entry().value, kept.value);
        drop(held);
        for round in 0..rounds {
            let other = [b"other".to_vec(), round.to_string().into_bytes()].concat();
            self.store.delete(&other);
        }
    }

    fn scan(&mut self) {
        let (mut entries, mut cursor) = (Vec::new(), Some(0));
        while let Some(at) = cursor {
            cursor = self.store.scan(at, &mut entries);
            assert_ne!(cursor, Some(at));
        }
        let keys: Vec<_> = self.map.keys().cloned().collect();
        let there = keys.iter().filter(|key| self.look(key).is_some()).count();
        assert_eq!(entries.len(), there, "entries, each once");
        for entry in entries {
            assert_eq!(self.map[&entry.key].value, entry.value);
        }
    }

    fn check(&mut self) {
        self.store.validate_at_rest().unwrap();
        let stats = self.store.stats();
        assert!(self.lost <= stats.evicted_items, "{} lost, {stats:?}", self.lost);
    }
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let flags = prop_oneof![4 => Just(0u32), 1 => any::<u32>(), 1 => 1..70_000u32];
    let marks = prop_oneof![3 => Just(0u8), 1 => any::<u8>()];
    (flags, marks, lifetime()).prop_map(|(flags, marks, lifetime)| Attributes {
        flags,
        marks,
        lifetime,
    })
}

fn lifetime() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        3 => Just(None),
        1 => (0..2000u64).prop_map(|ms| Some(Duration::from_millis(ms))),
        1 => (0..100_000u64).prop_map(|s| Some(Duration::from_secs(s))),
        1 => Just(Some(Duration::MAX)),
    ]
}

fn operation(keys: u16) -> impl Strategy<Value = Operation> {
    let length = prop_oneof![8 => 0..900usize, 1 => 0..5000usize];
    let number = 0..keys;
    prop_oneof![
        12 => (number.clone(), length.clone(), attributes()).prop_map(|(key, length, attributes)|
            Operation::Set(key, length, attributes)),
        2 => (number.clone(), length.clone(), attributes()).prop_map(|(key, length, attributes)|
            Operation::Add(key, length, attributes)),
        2 => (number.clone(), length.clone()).prop_map(|(key, length)| Operation::Replace(key, length)),
        2 => (number.clone(), 0..50usize).prop_map(|(key, length)| Operation::Append(key, length)),
        2 => (number.clone(), 0..50usize).prop_map(|(key, length)| Operation::Prepend(key, length)),
        2 => (number.clone(), length.clone(), any::<bool>()).prop_map(|(key, length, right)|
            Operation::Cas(key, length, right)),
        3 => number.clone().prop_map(Operation::Delete),
        2 => (number.clone(), any::<bool>()).prop_map(|(key, right)|
            Operation::DeleteExactly(key, right)),
        2 => (number.clone(), 0..900usize, any::<u8>(), prop::option::of(lifetime())).prop_map(
            |(key, length, marks, lifetime)| Operation::Update(key, length, marks, lifetime)),
        1 => Just(Operation::Flush),
        2 => (number.clone(), lifetime()).prop_map(|(key, left)| Operation::Touch(key, left)),
        2 => (number.clone(), any::<u64>()).prop_map(|(key, by)| Operation::Incr(key, by)),
        2 => (number.clone(), any::<u64>()).prop_map(|(key, by)| Operation::Decr(key, by)),
        2 => (number.clone(), any::<u64>()).prop_map(|(key, value)| Operation::Number(key, value)),
        6 => number.clone().prop_map(Operation::Get),
        1 => prop::collection::vec(number, 0..40).prop_map(Operation::GetMany),
        2 => (0..1000u64).prop_map(Operation::Wait),
        1 => (0..10_000_000u64).prop_map(Operation::Wait),
        1 => Just(Operation::Scan),
    ]
}

fn eviction() -> impl Strategy<Value = Eviction> {
    use Eviction::{ClosestToExpiry, Fifo, FifoMerge, GlCache, Random};
    prop_oneof![Just(Fifo), Just(FifoMerge), Just(Random), Just(ClosestToExpiry), Just(GlCache)]
}

/// Cases of a test, and operations of a case.
const CASES: u32 = if cfg!(miri) { 1 } else { 200 };
const OPERATIONS: usize = if cfg!(miri) { 50 } else { 400 };

fn config() -> ProptestConfig {
    // Without failure files, for Miri, which has no directories.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_is_a_map_that_evicts(
        eviction in eviction(),
        operations in prop::collection::vec(operation(150), 1..OPERATIONS),
    ) {
        let mut model = Model::new(eviction, 60);
        for operation in operations {
            model.run(operation);
            model.check();
        }
    }

    #[test]
    fn where_all_fits_nothing_is_lost(
        eviction in eviction(),
        operations in prop::collection::vec(operation(20), 1..OPERATIONS),
    ) {
        // A fifth is live, in up to twenty-one classes of lifetimes.
        let mut model = Model::new(eviction, 400);
        for operation in operations {
            model.run(operation);
            model.check();
        }
        prop_assert_eq!(model.store.stats().evicted_items, 0);
    }

    #[test]
    fn what_is_held_stays_in_place(
        eviction in eviction(),
        operations in prop::collection::vec(
            prop_oneof![
                4 => operation(20),
                1 => (0..20u16).prop_map(Operation::Hold),
            ],
            1..OPERATIONS / 10,
        ),
    ) {
        let mut model = Model::new(eviction, 60);
        for operation in operations {
            if !matches!(operation, Operation::Scan) {
                model.run(operation);
            }
            model.store.validate_at_rest().unwrap();
        }
    }
}
