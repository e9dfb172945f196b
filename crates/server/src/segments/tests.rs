use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use frazil_segment::Eviction;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const MIB: usize = 1 << 20;
/// Keys have as many bytes, so this is the largest small value.
const KEY_BYTES: usize = 4;
const SMALL: usize = SMALL_BYTES_MAX - KEY_BYTES;

fn segments(bytes: usize, evicts: bool) -> (Segments, Arc<AtomicU64>) {
    let now_ms = Arc::new(AtomicU64::new(1));
    let eviction = if evicts { Eviction::default() } else { Eviction::Never };
    let small = Store::builder(bytes).segment_bytes(64 << 10).eviction(eviction);
    let small = small.clock(Arc::clone(&now_ms)).build().unwrap();
    let policy = Policy::default();
    let large = Objects::beside_segments(bytes / 2, MIB, policy, Arc::clone(&now_ms)).unwrap();
    (Segments::new(small, large, policy, evicts, MIB), now_ms)
}

fn lent(store: &Segments) -> u32 {
    store.stats_of_segments().withdrawn_segments
}

fn set(store: &Segments, key: u32, bytes: usize) -> Result<(Stored, u64), StoreError> {
    let value = vec![key as u8; bytes];
    store.write(&key.to_le_bytes(), &value, Attributes::default(), Expect::Anything)
}

/// An entry as the model has it.
#[derive(Clone)]
struct Known {
    value: Vec<u8>,
    flags: u32,
    deadline_ms: Option<u64>,
}

struct Model {
    store: Segments,
    now_ms: Arc<AtomicU64>,
    known: HashMap<u32, Known>,
    random: Xoshiro256PlusPlus,
}

impl Model {
    /// Values of sizes around the boundary, and others.
    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.random.random_range(0..6) {
            0 => self.random.random_range(0..100),
            1 => self.random.random_range(SMALL + 1..200_000),
            _ => self.random.random_range(SMALL - 2..SMALL + 3),
        };
        vec![self.random.random(); bytes]
    }

    fn attributes(&mut self) -> (Attributes, Option<u64>) {
        let lifetime = self.random.random_bool(0.3).then(|| self.random.random_range(1..20));
        let deadline_ms = lifetime.map(|left| left + self.now_ms.load(Relaxed));
        let lifetime = lifetime.map(Duration::from_millis);
        (Attributes { flags: self.random.random_range(0..9), marks: 0, lifetime }, deadline_ms)
    }

    fn check(&self, key: u32) {
        let bytes = key.to_le_bytes();
        let known = self.known.get(&key);
        let shown = known.map(|known| (known.value.clone(), known.flags));
        let seen = |entry: Entry<'_>| (entry.value.to_vec(), entry.flags);
        assert!(self.store.get_with(&bytes, seen) == shown, "{key}");
        assert!(self.store.peek(&bytes, seen) == shown);
        assert_eq!(self.store.contains(&bytes), shown.is_some());
        assert!(self.store.hold(&bytes).map(|held| seen(held.entry())) == shown);
        let mut many = Vec::new();
        self.store.get_many(&[&bytes], |at, entry| many.push((at, entry.map(seen))));
        assert!(many == [(0, shown)]);
        let in_small = self.store.small.contains(&bytes);
        let in_large = self.store.large.contains(&bytes);
        let is_large = known.map(|known| known.value.len() > SMALL);
        assert_eq!((in_small, in_large), (is_large == Some(false), is_large == Some(true)));
    }

    fn write(&mut self, key: u32) {
        let (value, (attributes, deadline_ms)) = (self.value(), self.attributes());
        let cas = self.store.peek(&key.to_le_bytes(), |entry| entry.cas);
        let (expect, meets) = match self.random.random_range(0..6) {
            0 => (Expect::Nothing, cas.is_none()),
            1 => (Expect::Something, cas.is_some()),
            2 => (Expect::Exactly(cas.unwrap_or(7)), cas.is_some()),
            3 => (Expect::Exactly(cas.unwrap_or(7) + 1), false),
            _ => (Expect::Anything, true),
        };
        let (stored, number) =
            self.store.write(&key.to_le_bytes(), &value, attributes, expect).unwrap();
        let refused = match (expect, cas) {
            (Expect::Exactly(_), Some(_)) => Stored::Exists,
            (Expect::Exactly(_), None) => Stored::NotFound,
            _ => Stored::NotStored,
        };
        assert_eq!(stored, if meets { Stored::Stored } else { refused }, "{expect:?} {cas:?}");
        if meets {
            self.known.insert(key, Known { value, flags: attributes.flags, deadline_ms });
            let shown = self.store.peek(&key.to_le_bytes(), |entry| entry.cas);
            assert_eq!(shown, Some(number));
            assert_ne!(shown, cas);
        }
    }

    /// Appends to a value, or cuts it, and keeps or changes its lifetime.
    fn update(&mut self, key: u32) {
        let (attributes, deadline_ms) = self.attributes();
        let bytes = self.value().len();
        let (keeps, leaves) = (self.random.random(), self.random.random_bool(0.1));
        let mut scratch = Vec::new();
        let updated = self.store.update(&key.to_le_bytes(), &mut scratch, |entry, value| {
            value.extend_from_slice(entry.value);
            value.resize(bytes, 3);
            if leaves {
                return Update::Leave(entry.value.len());
            }
            Update::Write {
                flags: attributes.flags,
                marks: 0,
                lifetime: if keeps { None } else { Some(attributes.lifetime) },
                result: entry.value.len(),
            }
        });
        let updated = updated.unwrap();
        let known = self.known.get_mut(&key);
        assert_eq!(updated.map(|(was, _)| was), known.as_ref().map(|known| known.value.len()));
        let Some(known) = known else { return };
        let cas = self.store.peek(&key.to_le_bytes(), |entry| entry.cas);
        assert_eq!(cas, updated.map(|(_, cas)| cas));
        if !leaves {
            known.value.resize(bytes, 3);
            known.flags = attributes.flags;
            known.deadline_ms = if keeps { known.deadline_ms } else { deadline_ms };
        }
    }

    fn delete(&mut self, key: u32) {
        let bytes = key.to_le_bytes();
        let cas = self.store.peek(&bytes, |entry| entry.cas);
        if self.random.random() {
            assert_eq!(self.store.delete(&bytes), self.known.remove(&key).is_some());
            return;
        }
        if let Some(cas) = cas {
            assert_eq!(self.store.delete_exactly(&bytes, cas + 1), Stored::Exists);
        }
        let deleted = self.store.delete_exactly(&bytes, cas.unwrap_or(3));
        let was_there = self.known.remove(&key).is_some();
        assert_eq!(deleted, if was_there { Stored::Stored } else { Stored::NotFound });
    }

    /// A scan, the number of items and a snapshot.
    fn check_all(&self) {
        let (mut keys, mut cursor) = (Vec::new(), Some(0));
        while let Some(at) = cursor {
            cursor = self.store.scan_with(at, |entry| keys.push(entry.key.to_vec()));
        }
        let mut known: Vec<_> = self.known.keys().map(|key| key.to_le_bytes().to_vec()).collect();
        keys.sort();
        known.sort();
        assert_eq!(keys, known);
        let path = std::env::temp_dir().join(format!("frazil-segments-{}", std::process::id()));
        assert_eq!(self.store.save(&path).unwrap(), known.len() as u64);
        let (other, _) = segments(16 * MIB, true);
        let some = known.first().filter(|_| known.len() > 1);
        if let Some(key) = some {
            other.write(key, &[9], Attributes::default(), Expect::Anything).unwrap();
        }
        let restored = other.restore_with(&path, |_, _| true).unwrap();
        // Little of their lifetimes may have passed.
        let lasting = self.known.values().filter(|known| known.deadline_ms.is_none()).count();
        assert!(restored + 1 >= lasting as u64 && restored <= known.len() as u64);
        for (key, entry) in self.known.iter().filter(|(_, entry)| entry.deadline_ms.is_none()) {
            let key = key.to_le_bytes();
            let is_newer = some.is_some_and(|some| some[..] == key);
            let value = if is_newer { &[9][..] } else { &entry.value };
            assert!(other.get_with(&key, |entry| entry.value == value).unwrap());
        }
        std::fs::remove_file(path).unwrap();
    }
}

/// All operations on values around the boundary, against a map.
#[test]
fn the_stores_are_one_store() {
    let (store, now_ms) = segments(16 * MIB, true);
    let random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut model = Model { store, now_ms, known: HashMap::new(), random };
    for step in 0..1200 {
        let key = model.random.random_range(0..40);
        match model.random.random_range(0..10) {
            0..4 => model.write(key),
            4..7 => model.update(key),
            7 => model.delete(key),
            _ => {
                let now = model.now_ms.fetch_add(1, Relaxed) + 1;
                let lives = |known: &Known| known.deadline_ms.is_none_or(|end| end > now);
                model.known.retain(|_, known| lives(known));
            }
        }
        model.check(key);
        if step % 300 == 299 {
            model.check_all();
            assert_eq!(model.store.small.validate_at_rest(), Ok(()));
        }
        if step == 800 {
            model.store.flush();
            model.known.clear();
        }
    }
    assert_eq!(model.store.stats().evicted_items, 0);
}

/// A key that is always present, and moves between the stores. Its value begins with its version.
#[test]
fn readers_never_miss_a_key_that_moves_and_see_no_older_value() {
    const VERSIONS: u64 = if cfg!(debug_assertions) { 20_000 } else { 100_000 };
    let (store, _) = segments(16 * MIB, true);
    let write = |version: u64| {
        let mut value = vec![0; if version.is_multiple_of(2) { 8 } else { SMALL + 1 }];
        value[..8].copy_from_slice(&version.to_le_bytes());
        store.write(b"key", &value, Attributes::default(), Expect::Anything).unwrap();
    };
    write(0);
    let version = |entry: Entry<'_>| u64::from_le_bytes(entry.value[..8].try_into().unwrap());
    let read = |way: u64| match way % 4 {
        0 => store.get_with(b"key", version),
        1 => store.peek(b"key", version),
        2 => store.hold(b"key").map(|held| version(held.entry())),
        _ => {
            let mut found = None;
            store.get_many(&[b"key"], |_, entry| found = entry.map(version));
            found
        }
    };
    std::thread::scope(|scope| {
        for reader in 0..2 {
            scope.spawn(move || {
                let (mut last, mut reads) = (0, reader);
                while last < VERSIONS {
                    let seen = read(reads).expect("the key is always present");
                    assert!(seen >= last, "{seen} after {last}");
                    (last, reads) = (seen, reads + 1);
                }
            });
        }
        (1..=VERSIONS).for_each(write);
    });
}

/// Large items take what is free, up to half, and from then on evict each other. What they no longer need goes back.
#[test]
fn large_items_borrow_segments_and_return_them() {
    let (store, now_ms) = segments(8 * MIB, true);
    let all = store.stats_of_segments().segments;
    for key in 0..200 {
        set(&store, key, 100_000).unwrap();
    }
    assert!((all / 2 - 1..=all / 2).contains(&lent(&store)), "{} of {all}", lent(&store));
    let large = store.large.live_items();
    assert!((4 * MIB / 110_000..4 * MIB / 100_000).contains(&(large as usize)), "{large}");
    assert_eq!(store.classes()[32].evicted, 200 - large);
    // Without pressure nothing goes back, and nothing is evicted.
    (0..50).for_each(|key| _ = set(&store, 1000 + key, 50_000).unwrap());
    assert_eq!(store.stats().evicted_items, 200 - large);
    // Only small items are written, so segments go back one by one.
    let fill =
        |from: u32| (from..from + 2500).for_each(|key| _ = set(&store, key, 50_000).unwrap());
    fill(10_000);
    assert_eq!((lent(&store), store.large.live_items()), (0, 0));
    // What is deleted or expired goes back before anything else is evicted.
    for end in ["deleted", "expired", "flushed"] {
        for key in 0..20 {
            let lifetime = Some(Duration::from_millis(5));
            let attributes = Attributes { lifetime, ..Attributes::default() };
            let value = vec![1; 100_000];
            store.write(&u32::to_le_bytes(key), &value, attributes, Expect::Anything).unwrap();
        }
        assert!(lent(&store) > 1, "{end}");
        match end {
            "deleted" => (0..20).for_each(|key| _ = store.delete(&u32::to_le_bytes(key))),
            "expired" => _ = now_ms.fetch_add(5, Relaxed),
            _ => store.flush(),
        }
        let evicted: u64 = store.classes().iter().map(|class| class.evicted).sum();
        fill(20_000);
        assert_eq!(lent(&store), 0, "{end}");
        assert_eq!(store.classes().iter().map(|class| class.evicted).sum::<u64>(), evicted);
    }
    assert_eq!(store.small.validate_at_rest(), Ok(()));
}

/// Large items that are requested stay, although only small ones are written.
#[test]
fn large_items_that_are_requested_keep_their_memory() {
    let (store, _) = segments(8 * MIB, true);
    (0..20).for_each(|key| _ = set(&store, key, 100_000).unwrap());
    for key in 0..4000 {
        set(&store, 1000 + key, 10_000).unwrap();
        assert!(store.get_with(&(key % 20).to_le_bytes(), |_| ()).is_some(), "{key}");
    }
    assert!(lent(&store) < 20 * 110_000 / (64 << 10) * 2, "{}", lent(&store));
}

/// A few large items among many small ones get their share of the memory.
#[test]
fn memory_is_divided_by_what_is_written() {
    let (store, _) = segments(16 * MIB, true);
    for key in 0..40_000 {
        set(&store, 1000 + key, 10_000).unwrap();
        if key % 200 == 0 {
            set(&store, key / 200, 100_000).unwrap();
        }
    }
    // A 21st of the bytes.
    let bytes = lent(&store) as usize * (64 << 10);
    assert!((MIB / 4..2 * MIB).contains(&bytes), "{bytes}");
}

/// Without eviction large items are refused when there is no room, and none goes.
#[test]
fn without_eviction_large_items_are_refused_instead() {
    let (store, _) = segments(4 * MIB, false);
    let stored = (0..1000).take_while(|&key| set(&store, key, 100_000).is_ok()).count() as u32;
    assert!((10..24).contains(&stored), "{stored}");
    assert_eq!(set(&store, 5000, 100_000), Err(StoreError::NoRoom));
    assert!((0..stored).all(|key| store.contains(&key.to_le_bytes())));
    // The same size fits in place of another.
    set(&store, 1, 100_000).unwrap();
    let small = (10_000..).take_while(|&key| set(&store, key, 10_000).is_ok()).count();
    assert!(small > 100, "{small}");
    // What is deleted can be used by either.
    (0..stored).for_each(|key| assert!(store.delete(&key.to_le_bytes())));
    let grown = store.update(&10_000u32.to_le_bytes(), &mut Vec::new(), |entry, value| {
        value.extend_from_slice(entry.value);
        value.extend_from_slice(b"more");
        Update::Write { flags: 0, marks: 0, lifetime: None, result: () }
    });
    assert!(grown.unwrap().is_some());
    set(&store, 5001, 10_000).unwrap();
    set(&store, 5002, 100_000).unwrap();
    assert_eq!(store.stats().evicted_items, 0);
}

/// Writers of several threads together do not make the cache evict below its capacity.
#[test]
fn without_eviction_no_large_item_of_another_thread_goes() {
    for _ in 0..5 {
        let (store, _) = segments(32 * MIB, false);
        let fill = |first: u32| {
            let keys = first..first + 1000;
            keys.filter(|&key| set(&store, key, 70_000).is_ok()).collect::<Vec<_>>()
        };
        let stored: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|thread| scope.spawn(move || fill(thread * 10_000))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(stored.len() > 150, "{}", stored.len());
        assert!(stored.iter().all(|key| store.contains(&key.to_le_bytes())));
        assert_eq!(store.stats().evicted_items, 0);
    }
}

/// Small writes take memory back only from large items that are stored, not from one that has room for itself.
#[test]
fn large_items_are_stored_while_small_ones_take_memory_back() {
    let (store, _) = segments(8 * MIB, true);
    (0..2_000).for_each(|key| _ = set(&store, 100_000 + key, 10_000).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let store = &store;
            scope.spawn(move || {
                (0..20_000).for_each(|key| _ = set(store, 200_000 + key, 10_000).unwrap());
            });
            scope.spawn(move || {
                for key in 0..1_000 {
                    let key = thread * 10 + key % 3;
                    set(store, key, 900_000).unwrap();
                    store.delete(&key.to_le_bytes());
                }
            });
        }
    });
}

/// The numbers of large items have places in their low 40 bits that no segment has.
#[test]
fn numbers_for_cas_are_those_of_one_store() {
    let (store, _) = segments(4 * MIB, true);
    for key in 0..300 {
        let (_, cas) = set(&store, key, SMALL + 1).unwrap();
        assert_eq!(cas >> 24 & 0xffff, 0xffff);
        let (_, cas) = set(&store, key, SMALL).unwrap();
        assert!((cas & 0xff_ffff_ffff) < 4 * MIB as u64);
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_old_value_stays() {
    let (store, _) = segments(4 * MIB, true);
    set(&store, 1, 10).unwrap();
    assert_eq!(set(&store, 1, MIB), Err(StoreError::TooLarge));
    assert_eq!(store.peek(&1u32.to_le_bytes(), |entry| entry.value.len()), Some(10));
    let long = [0; KEY_BYTES_MAX + 1];
    let written = store.write(&long, &[0; SMALL], Attributes::default(), Expect::Anything);
    assert_eq!(written, Err(StoreError::KeyTooLong));
}
