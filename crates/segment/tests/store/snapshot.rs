//! Snapshots: the restored entries, and damaged files.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil_segment::{Attributes, RestoreError, Store};

use crate::{Temporary, checked_version, value_of};

/// A crash or a full disk must not destroy the previous snapshot.
#[test]
fn a_snapshot_stays_whole_until_the_next_one_is() {
    let file = Temporary::new("replaced");
    let store = Store::builder(1 << 20).segment_bytes(64 << 10).build().unwrap();
    store.set(b"key", b"first", Attributes::default()).unwrap();
    store.save(&file.0).unwrap();
    let first = std::fs::read(&file.0).unwrap();
    let mut before = std::fs::File::open(&file.0).unwrap();
    store.set(b"key", b"second", Attributes::default()).unwrap();
    store.save(&file.0).unwrap();
    let mut seen = Vec::new();
    before.read_to_end(&mut seen).unwrap();
    assert!(seen == first, "the first snapshot was written over");
    assert!(std::fs::read(&file.0).unwrap() != first, "the second has the place of the first");

    let nowhere = file.0.with_extension("none").join("snapshot");
    store.save(&nowhere).unwrap_err();
}

#[test]
fn entries_come_back_with_flags_and_lifetimes() {
    /// The lifetimes end within this range.
    const NUMBERS: std::ops::Range<u64> = if cfg!(miri) { 950..1_050 } else { 0..3_000 };
    let file = Temporary::new("round");
    let clocks = [1_000, 50_000].map(|now| Arc::new(AtomicU64::new(now)));
    let [from, to] = [0, 1].map(|side| {
        let builder = Store::builder((4 << 20) << side).segment_bytes(64 << 10 >> side);
        builder.clock(Arc::clone(&clocks[side])).build().unwrap()
    });
    for number in NUMBERS {
        let lifetime = (number % 3 == 0).then(|| Duration::from_secs(1000 + number));
        let flags = if number % 2 == 0 { number as u32 } else { 0 };
        let key = number.to_le_bytes();
        let value = value_of(&key, number, 16 + number as usize % 900);
        let marks = number as u8;
        from.set(&key, &value, Attributes { flags, marks, lifetime }).unwrap();
    }
    // A third of the entries with a lifetime have expired, and one entry is too large for the other
    // store.
    clocks[0].store(2_001_000, Relaxed);
    from.set(b"large", &[0; 40_000], Attributes::default()).unwrap();
    let over = NUMBERS.filter(|number| number % 3 == 0 && 1000 + number <= 2000).count() as u64;
    let saved = Instant::now();
    assert_eq!(from.save(&file.0).unwrap(), NUMBERS.end - NUMBERS.start + 1 - over);
    assert_eq!(to.restore(&file.0).unwrap(), NUMBERS.end - NUMBERS.start - over);
    // A segment keeps the end of a lifetime of this length to some 60 ms.
    let passed = saved.elapsed() + Duration::from_secs(1);
    to.validate_at_rest().unwrap();
    for number in NUMBERS {
        let key = number.to_le_bytes();
        let [there, back] = [&from, &to].map(|store| {
            store.get_with(&key, |entry| {
                let flags = (entry.flags, entry.marks);
                (checked_version(&key, entry.value), flags, entry.lifetime)
            })
        });
        let Some((version, flags, Some(left))) = there else {
            assert_eq!(back, there, "{number}");
            continue;
        };
        let (version_back, flags_back, left_back) = back.unwrap();
        assert_eq!((version_back, flags_back), (version, flags));
        let left_back = left_back.unwrap();
        assert!(left_back <= left && left - left_back <= passed, "{left_back:?} of {left:?}");
    }
}

#[test]
fn damage_is_found_before_anything_is_put_in() {
    let file = Temporary::new("damage");
    let store = Store::builder(1 << 20).segment_bytes(4 << 10).build().unwrap();
    for number in 0..5u64 {
        let key = number.to_le_bytes();
        store.set(&key, &value_of(&key, number, 20), Attributes::default()).unwrap();
    }
    assert_eq!(store.save(&file.0).unwrap(), 5);
    let whole = std::fs::read(&file.0).unwrap();
    let other = Store::builder(1 << 20).segment_bytes(4 << 10).build().unwrap();
    let refuses = |bytes: &[u8], what: &str| {
        std::fs::write(&file.0, bytes).unwrap();
        let refused = matches!(other.restore(&file.0), Err(RestoreError::Damaged { .. }));
        assert!(refused && other.stats().items == 0, "{what}");
    };
    for at in (0..whole.len()).step_by(if cfg!(miri) { 11 } else { 1 }) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        refuses(&damaged, &format!("byte {at}"));
        refuses(&whole[..at], &format!("{at} bytes"));
    }
    refuses(&[&whole[..], b"."].concat(), "a byte more");
    std::fs::write(&file.0, &whole).unwrap();
    assert_eq!(other.restore(&file.0).unwrap(), 5);
}

/// A file of a store with `entries` entries, and an empty store.
fn saved(name: &str, entries: u64) -> (Temporary, Store) {
    let file = Temporary::new(name);
    let [from, to] =
        [0, 1].map(|_| Store::builder(16 << 20).segment_bytes(64 << 10).build().unwrap());
    for number in 0..entries {
        from.set(&number.to_le_bytes(), b"old", Attributes::default()).unwrap();
    }
    assert_eq!(from.save(&file.0).unwrap(), entries);
    (file, to)
}

/// Restores a store, and calls `beside` when the first entries are present.
fn restored_beside(file: &Temporary, store: &Store, beside: impl FnOnce()) {
    std::thread::scope(|scope| {
        let restores = scope.spawn(|| store.restore(&file.0).unwrap());
        // The restore may end first, if this thread has no core.
        while store.stats().items == 0 && !restores.is_finished() {
            std::hint::spin_loop();
        }
        beside();
        restores.join().unwrap();
    });
    store.validate_at_rest().unwrap();
}

#[test]
fn a_restore_leaves_what_is_written_and_deleted_meanwhile() {
    const ENTRIES: u64 = if cfg!(miri) { 500 } else { 60_000 };
    let (file, store) = saved("meanwhile", ENTRIES);
    // From the end, which the restore reaches last.
    let keys = (0..ENTRIES).rev().take(ENTRIES as usize * 2 / 3);
    restored_beside(&file, &store, || {
        for number in keys.clone() {
            let key = number.to_le_bytes();
            match number % 3 {
                0 => _ = store.delete(&key),
                1 => store.set(&key, b"new", Attributes::default()).unwrap(),
                // As if it was evicted since.
                _ => {
                    store.set(&key, b"new", Attributes::default()).unwrap();
                    store.delete(&key);
                }
            }
        }
    });
    for number in keys {
        let expected = (number % 3 == 1).then_some(true);
        let is_new = store.get_with(&number.to_le_bytes(), |entry| entry.value == b"new");
        assert_eq!(is_new, expected, "{number}");
    }
}

#[test]
fn a_flush_ends_a_restore() {
    let (file, store) = saved("flushed", if cfg!(miri) { 500 } else { 60_000 });
    restored_beside(&file, &store, || store.flush());
    let mut entries = Vec::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        cursor = store.scan(at, &mut entries);
    }
    assert_eq!(entries.len(), 0);
}

#[test]
fn what_is_present_stays_and_time_passes_for_what_is_in_the_file() {
    let file = Temporary::new("since");
    let [from, to] = [0, 1].map(|_| Store::builder(4 << 20).build().unwrap());
    for (key, lifetime) in [(b"short", 1), (b"large", 3_600_000), (b"there", 3_600_000)] {
        let lifetime = Some(Duration::from_millis(lifetime));
        from.set(key, b"old", Attributes { lifetime, ..Attributes::default() }).unwrap();
    }
    from.save(&file.0).unwrap();
    std::thread::sleep(Duration::from_millis(40));
    to.set(b"there", b"new", Attributes::default()).unwrap();
    assert_eq!(to.restore(&file.0).unwrap(), 1);
    assert!(!to.contains(b"short"));
    let left = to.get_with(b"large", |entry| entry.lifetime.unwrap()).unwrap();
    assert!(left <= Duration::from_millis(3_600_000 - 30), "{left:?}");
    assert_eq!(to.get_with(b"there", |entry| entry.value.to_vec()).unwrap(), b"new");
}

/// A server serves before it reads its file.
#[test]
fn what_is_deleted_and_flushed_before_an_expected_restore_stays_so() {
    let (file, store) = saved("expected", 50);
    store.expect_restore();
    store.delete(&7u64.to_le_bytes());
    assert_eq!(store.restore(&file.0).unwrap(), 49);
    assert!(!store.contains(&7u64.to_le_bytes()) && store.contains(&8u64.to_le_bytes()));
    let (file, store) = saved("expected-flush", 50);
    store.expect_restore();
    store.flush();
    assert_eq!(store.restore(&file.0).unwrap(), 0);
    // And undone: the next restore is another one.
    store.expect_restore();
    store.delete(&7u64.to_le_bytes());
    store.expect_no_restore();
    assert_eq!(store.restore(&file.0).unwrap(), 50);
}
