//! Space: how much it holds, reclamation, and edge cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{Attributes, BuildError, Eviction, Store, StoreError};

use crate::{checked_version, value_of};

const ALL: [Eviction; 5] = [
    Eviction::Fifo,
    Eviction::FifoMerge,
    Eviction::Random,
    Eviction::ClosestToExpiry,
    Eviction::GlCache,
];

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn replaced_and_deleted_space_is_won_back() {
    for eviction in ALL {
        let store = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(eviction).build();
        let store = store.unwrap();
        // 500 to 690 keys of 512 bytes: up to 38 % of the space for items. Half of it is safe:
        // then two neighbours fit into one.
        for round in 0..20u64 {
            for number in 0..2000u64 {
                let key = (number % (500 + 10 * round)).to_le_bytes();
                store.set(&key, &value_of(&key, round, 500), Attributes::default()).unwrap();
                if number % 7 == 0 {
                    let other = (number | 1 << 32).to_le_bytes();
                    store.set(&other, &[0; 3000], Attributes::default()).unwrap();
                    assert!(store.delete(&other));
                }
            }
            for number in 0..500 + 10 * round {
                let key = u64::to_le_bytes(number);
                let version = store.get_with(&key, |entry| checked_version(&key, entry.value));
                assert!(version.is_some_and(|version| version == round), "{eviction:?} {number}");
            }
            store.validate_at_rest().unwrap();
        }
        assert_eq!(store.stats().evicted_items, 0, "{eviction:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn the_index_grows_and_finds_everything() {
    // 64 lines at first; small items fill it many times over.
    let store = Store::builder(4 << 20).segment_bytes(4 << 10).build().unwrap();
    let keys = 60_000u32;
    for number in 0..keys {
        store.set(&number.to_le_bytes(), &number.to_be_bytes(), Attributes::default()).unwrap();
    }
    for number in 0..keys {
        let found = store.get_with(&number.to_le_bytes(), |entry| entry.value.to_vec());
        assert_eq!(found, Some(number.to_be_bytes().to_vec()));
    }
    store.validate_at_rest().unwrap();
    let stats = store.stats();
    assert_eq!((stats.items, stats.evicted_items), (u64::from(keys), 0));
    let lines = stats.index_lines + stats.overflow_lines;
    assert!(lines * 64 <= 12 * stats.items, "{stats:?}");
    // All but a few are deleted, and their chains with them.
    for number in 16..keys {
        assert!(store.delete(&number.to_le_bytes()));
    }
    store.validate_at_rest().unwrap();
    assert_eq!((store.stats().items, store.stats().overflow_lines), (16, 0));
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn the_index_takes_half_of_all_segments_and_no_more() {
    let store = Store::builder(256 << 10).segment_bytes(4 << 10).seed(3).build().unwrap();
    // Ten bytes an item, plus eleven in the index.
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..40_000u32 {
                    let key = (number << 1 | writer).to_le_bytes();
                    store.set(&key, b"12", Attributes::default()).unwrap();
                    let stats = store.stats();
                    assert!(stats.index_segments <= stats.segments / 2, "{stats:?}");
                }
            });
        }
    });
    store.validate_at_rest().unwrap();
    let stats = store.stats();
    assert!(stats.evicted_items > 0 && stats.index_segments == stats.segments / 2, "{stats:?}");
}

#[test]
fn lifetimes_are_rounded_up_to_milliseconds() {
    let now_ms = Arc::new(AtomicU64::new(10));
    let store = Store::builder(4 << 20).clock(Arc::clone(&now_ms)).build().unwrap();
    for (micros, there) in [(0, 0), (1, 1), (100, 1), (1000, 1), (1001, 2), (2500, 3)] {
        let lifetime = Some(Duration::from_micros(micros));
        now_ms.store(10, Relaxed);
        store.set(b"key", b"", Attributes { flags: 0, marks: 0, lifetime }).unwrap();
        for passed in 0..4 {
            now_ms.store(10 + passed, Relaxed);
            assert_eq!(store.contains(b"key"), passed < there, "{micros} us after {passed} ms");
        }
    }
    store
        .set(b"key", b"", Attributes { flags: 0, marks: 0, lifetime: Some(Duration::MAX) })
        .unwrap();
    now_ms.store(u64::MAX, Relaxed);
    assert!(store.contains(b"key"));
}

#[test]
fn a_scan_meets_each_entry_once_while_the_index_grows() {
    const FIRST: u32 = if cfg!(miri) { 150 } else { 1000 };
    let segment_bytes = if cfg!(miri) { 1 << 10 } else { 4 << 10 };
    let store = Store::builder(4 << 20).segment_bytes(segment_bytes).build().unwrap();
    for number in 0..FIRST {
        store.set(&number.to_le_bytes(), b"", Attributes::default()).unwrap();
    }
    let (mut entries, mut cursor, mut more) = (Vec::new(), Some(0), FIRST);
    while let Some(at) = cursor {
        cursor = store.scan(at, &mut entries);
        for _ in 0..20 {
            store.set(&more.to_le_bytes(), b"", Attributes::default()).unwrap();
            more += 1;
        }
    }
    let mut met: Vec<u32> =
        entries.iter().map(|entry| u32::from_le_bytes(entry.key[..].try_into().unwrap())).collect();
    met.sort_unstable();
    assert!(met.windows(2).all(|pair| pair[0] < pair[1]), "an entry twice");
    assert_eq!(met[..FIRST as usize], (0..FIRST).collect::<Vec<_>>());
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn expired_items_go_in_bulk_before_any_eviction() {
    let now_ms = Arc::new(AtomicU64::new(0));
    let builder = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(Eviction::Fifo);
    let store = builder.clock(Arc::clone(&now_ms)).build().unwrap();
    let for_ever = |number: u64| (number | 1 << 40).to_le_bytes();
    for number in 0..500 {
        store.set(&for_ever(number), &[1; 500], Attributes::default()).unwrap();
    }
    // A tenth of the capacity each second, for three seconds.
    let lifetime = Some(Duration::from_secs(3));
    for second in 0..100u64 {
        now_ms.store(second * 1000, Relaxed);
        for number in 0..200 {
            let key = (second * 1000 + number).to_le_bytes();
            store.set(&key, &[2; 500], Attributes { flags: 0, marks: 0, lifetime }).unwrap();
        }
        store.validate_at_rest().unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.evicted_items, 0, "{stats:?}");
    assert!(stats.expired_items > 18_000, "{stats:?}");
    assert!((0..500).all(|number| store.contains(&for_ever(number))));
}

/// Within a class the order of writing is not that of deadlines: here a segment that lives longer
/// was written first.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn expired_items_behind_live_ones_go_before_any_eviction() {
    for eviction in ALL {
        let now_ms = Arc::new(AtomicU64::new(0));
        let builder = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(eviction).seed(3);
        let store = builder.clock(Arc::clone(&now_ms)).build().unwrap();
        let set = |number: u64, seconds: Option<u64>| {
            let lifetime = seconds.map(Duration::from_secs);
            let attributes = Attributes { flags: 0, marks: 0, lifetime };
            store.set(&number.to_le_bytes(), &[1; 500], attributes).unwrap();
        };
        (0..40).for_each(|number| set(number, Some(65)));
        (100..1700).for_each(|number| set(number, Some(17)));
        now_ms.store(20_000, Relaxed);
        (10_000..10_500).for_each(|number| set(number, None));
        let stats = store.stats();
        assert_eq!(stats.evicted_items, 0, "{eviction:?}: {stats:?}");
        store.validate_at_rest().unwrap();
    }
}

/// The segment that ends first is not the one that was written first.
#[test]
fn what_ends_first_goes_first_within_a_class() {
    let now_ms = Arc::new(AtomicU64::new(0));
    let builder = Store::builder(1 << 20).segment_bytes(16 << 10).seed(3).clock(now_ms);
    let store = builder.eviction(Eviction::ClosestToExpiry).build().unwrap();
    let set = |number: u64, seconds: u64| {
        let attributes =
            Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(seconds)) };
        store.set(&number.to_le_bytes(), &[1; 500], attributes).unwrap();
    };
    // One class, whose lifetimes are up to 67 seconds.
    (0..310).for_each(|number| set(number, 60));
    (1000..1620).for_each(|number| set(number, 20));
    (2000..3470).for_each(|number| set(number, 60));
    let left = |range: std::ops::Range<u64>| {
        range.filter(|number| store.contains(&number.to_le_bytes())).count()
    };
    assert!(store.stats().evicted_items > 300);
    assert!(left(1000..1620) < 40, "{} of what ends first", left(1000..1620));
    assert!(left(0..310) > 300, "{} of what was written first", left(0..310));
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn merges_keep_what_is_asked_for() {
    let store = Store::builder(1 << 20).segment_bytes(16 << 10).seed(3).build().unwrap();
    let hot = |number: u64| (number | 1 << 40).to_le_bytes();
    for number in 0..20_000u64 {
        store.set(&number.to_le_bytes(), &[2; 500], Attributes::default()).unwrap();
        // One in ten is hot.
        if number < 2000 && number % 10 == 0 {
            store.set(&hot(number / 10), &[1; 500], Attributes::default()).unwrap();
        }
        store.get_with(&hot(number % 200), |_| ());
    }
    let kept = (0..200).filter(|&number| store.contains(&hot(number))).count();
    assert_eq!(kept, 200);
    store.validate_at_rest().unwrap();
}

/// Entries that are not requested are evicted in time, whatever their lifetime.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn merges_come_to_each_class() {
    for kib in [1 << 10, 2 << 10] {
        let store = Store::builder(kib << 10).segment_bytes(16 << 10).seed(3).build().unwrap();
        let attributes =
            Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(3600)) };
        let old = |number: u64| (number | 1 << 40).to_le_bytes();
        (0..1700).for_each(|number| store.set(&old(number), &[1; 500], attributes).unwrap());
        for number in 0..20_000u64 {
            store.set(&number.to_le_bytes(), &[2; 500], Attributes::default()).unwrap();
        }
        let stay = (0..1700).filter(|&number| store.contains(&old(number))).count();
        // Except for the open segment.
        assert!(stay < 40, "{stay} of 1700 stay that nobody asked for, in {kib} KiB");
        store.validate_at_rest().unwrap();
    }
}

/// Only the full segment of a class that has just one is requested.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn a_segment_that_is_alone_stays_while_others_can_be_merged() {
    let store = Store::builder(1 << 20).segment_bytes(16 << 10).seed(3).build().unwrap();
    let attributes = Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(3600)) };
    let hot = |number: u64| (number | 1 << 40).to_le_bytes();
    (0..45).for_each(|number| store.set(&hot(number), &[1; 500], attributes).unwrap());
    for number in 0..20_000u64 {
        store.set(&number.to_le_bytes(), &[2; 500], Attributes::default()).unwrap();
        store.get_with(&hot(number % 45), |_| ());
    }
    let kept = (0..45).filter(|&number| store.contains(&hot(number))).count();
    assert_eq!(kept, 45);
    store.validate_at_rest().unwrap();
}

#[test]
fn memory_that_is_held_is_refused_and_comes_back() {
    let store = Store::builder(64 << 10).segment_bytes(4 << 10).build().unwrap();
    let mut held = Vec::new();
    let refused = (0..1000u64).find(|number| {
        let key = number.to_le_bytes();
        let stored = store.set(&key, &value_of(&key, *number, 1000), Attributes::default());
        held.extend(store.hold(&key));
        stored == Err(StoreError::NoRoom)
    });
    assert!(refused.is_some());
    for held in &held {
        checked_version(held.entry().key, held.entry().value);
    }
    drop(held);
    store.set(b"key", &[0; 1000], Attributes::default()).unwrap();
    store.validate_at_rest().unwrap();
}

#[test]
fn limits_are_answered() {
    let store = Store::builder(4 << 20).build().unwrap();
    let plain = Attributes::default();
    assert_eq!(store.set(&[0; 256], b"", plain), Err(StoreError::KeyTooLong));
    assert!(!store.contains(&[0; 256]) && !store.delete(&[0; 300]));
    let segment = store.stats().segment_bytes;
    assert_eq!(store.set(&[0; 255], &vec![0; segment - 258], plain), Err(StoreError::TooLarge));
    assert_eq!(store.set(&[0; 255], &vec![0; segment - 259], plain), Ok(()));
    assert_eq!(store.set(b"big", &vec![0; 1 << 20], plain), Err(StoreError::TooLarge));
    store.set(b"text", b"18446744073709551616", plain).unwrap();
    assert_eq!(store.incr(b"text", 1), Err(StoreError::NotANumber));
    store.set(b"text", b"18446744073709551615", plain).unwrap();
    assert_eq!(store.incr(b"text", 2), Ok(Some(1)));
    assert_eq!(store.incr(b"none", 2), Ok(None));
    assert!(matches!(Store::builder(0).build(), Err(BuildError::TooSmall { .. })));
    let odd = Store::builder(1 << 20).segment_bytes(3000).build();
    assert!(matches!(odd, Err(BuildError::SegmentBytes { segment_bytes: 3000 })));
    let Err(BuildError::TooSmall { least_bytes }) = Store::builder(0).segment_bytes(1024).build()
    else {
        panic!("no store of nothing")
    };
    assert!(Store::builder(least_bytes).segment_bytes(1024).build().is_ok());
    assert!(Store::builder(least_bytes - 1).segment_bytes(1024).build().is_err());
}

/// A clock of user code may show any number.
#[test]
#[cfg_attr(miri, ignore = "thousands of writes")]
fn a_clock_that_is_at_its_end_disturbs_nothing() {
    for eviction in ALL {
        let now_ms = Arc::new(AtomicU64::new(u64::MAX - 5));
        let builder = Store::builder(256 << 10).segment_bytes(4 << 10).eviction(eviction).seed(3);
        let store = builder.clock(now_ms).learn_in_place(true).build().unwrap();
        for number in 0..2000u64 {
            let lifetime = (number % 3 == 0).then_some(Duration::from_secs(number % 50));
            let attributes = Attributes { flags: 0, marks: 0, lifetime };
            store.set(&number.to_le_bytes(), &[1; 300], attributes).unwrap();
            store.get_with(&(number / 2).to_le_bytes(), |_| ());
        }
        store.validate_at_rest().unwrap();
        assert!(store.segments().count() > 0, "{eviction:?}");
    }
}

/// A merge of segments on both sides of a flush keeps only items written after it.
#[test]
fn a_flush_parts_what_was_before_from_what_comes_after() {
    let store = Store::builder(1 << 20).segment_bytes(4 << 10).seed(3).build().unwrap();
    let rounds = if cfg!(miri) { 2 } else { 30 };
    let value = |key: &[u8], version: u64| value_of(key, version, 300);
    for round in 0..rounds {
        // Different keys in each round, so that only the flush unlinks them.
        let key = |number: u64| (number + 1000 * (round + 1)).to_le_bytes();
        for key in (0..200).map(key) {
            store.set(&key, &value(&key, 1), Attributes::default()).unwrap();
        }
        store.flush();
        assert!((0..200).map(key).all(|key| !store.contains(&key)));
        assert!(!store.delete(&key(1)) && store.incr(&key(2), 1) == Ok(None));
        for key in (0..100).map(u64::to_le_bytes) {
            store.set(&key, &value(&key, round), Attributes::default()).unwrap();
        }
        store.validate_at_rest().unwrap();
    }
    for key in (0..100).map(u64::to_le_bytes) {
        let version = store.get_with(&key, |entry| checked_version(&key, entry.value));
        assert_eq!(version, Some(rounds - 1));
    }
    assert_eq!(store.stats().evicted_items, 0);
}

#[test]
fn what_is_never_evicted_is_refused_when_there_is_no_room() {
    let store = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(Eviction::Never);
    let store = store.build().unwrap();
    let key = |number: u32| number.to_le_bytes();
    let full = (0..).find(|&number| {
        let stored = store.set(&key(number), &[7; 1000], Attributes::default());
        assert!(matches!(stored, Ok(()) | Err(StoreError::NoRoom)));
        stored.is_err()
    });
    let full = full.unwrap();
    assert!((700..1024).contains(&full), "{full}");
    assert!((0..full).all(|number| store.contains(&key(number))));
    store.validate_at_rest().unwrap();
    assert_eq!(store.stats().evicted_items, 0);
    (0..full).step_by(2).for_each(|number| assert!(store.delete(&key(number))));
    store.set(&key(full), &[7; 1000], Attributes::default()).unwrap();
}

/// With small items the index is refused lines first: it may take half of all segments.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn nothing_is_displaced_where_nothing_is_evicted() {
    let store = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(Eviction::Never);
    let store = store.build().unwrap();
    let key = |number: u32| number.to_le_bytes();
    let full = (0..).find(|&number| {
        let stored = store.set(&key(number), b"", Attributes::default());
        assert!(matches!(stored, Ok(()) | Err(StoreError::NoRoom)));
        stored.is_err()
    });
    let full = full.unwrap();
    assert!((20_000..100_000).contains(&full), "{full}");
    assert!((0..full).all(|number| store.contains(&key(number))));
    store.validate_at_rest().unwrap();
    assert_eq!(store.stats().evicted_items, 0);
}

/// Half of the segments can be withdrawn, from a store at work too; the others hold what was there as far as it fits.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn segments_are_withdrawn_and_given_back() {
    for eviction in ALL.into_iter().chain([Eviction::Never]) {
        let store = Store::builder(4 << 20).segment_bytes(64 << 10).eviction(eviction).build();
        let store = store.unwrap();
        let fill = |from: u64| {
            let set = |number: &u64| {
                let key = number.to_le_bytes();
                store.set(&key, &value_of(&key, 1, 500), Attributes::default()).is_ok()
            };
            (from..from + 8000).take_while(set).count()
        };
        let filled = fill(0);
        assert!(store.is_full(), "{eviction:?}");
        let withdrawn = (0..).take_while(|_| store.withdraw()).count() as u32;
        let all = store.stats().segments;
        if eviction == Eviction::Never {
            // None of them is free, and nothing is evicted for it.
            assert!(withdrawn <= 2 && filled > 6000, "{withdrawn} {filled}");
            (0..filled as u64).for_each(|key| assert!(store.delete(&key.to_le_bytes())));
            while store.withdraw() {}
        }
        assert_eq!(store.stats().withdrawn_segments, all / 2, "{eviction:?}");
        store.validate_at_rest().unwrap();
        fill(10_000);
        let most = u64::from(all.div_ceil(2)) * (64 << 10);
        assert!((most / 3..=most).contains(&store.stats().live_bytes), "{eviction:?}");
        for number in 0..20_000u64 {
            let key = number.to_le_bytes();
            store.get_with(&key, |entry| assert_eq!(checked_version(&key, entry.value), 1));
        }
        while store.give_back() {}
        assert_eq!(store.stats().withdrawn_segments, 0);
        fill(20_000);
        assert!(store.stats().live_bytes > most, "{eviction:?}");
        store.validate_at_rest().unwrap();
    }
}
