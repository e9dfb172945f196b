//! Snapshots: what comes back, and files that are damaged.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{Attributes, RestoreError, Store};

use crate::{Temporary, checked_version, value_of};

/// A crash or a full disk must not cost the snapshot that was there before.
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
    /// The end of the lifetimes lies within.
    const NUMBERS: std::ops::Range<u64> = if cfg!(miri) { 950..1_050 } else { 0..3_000 };
    let file = Temporary::new("round");
    let clocks = [1_000, 50_000].map(|now| Arc::new(AtomicU64::new(now)));
    let [from, to] = [0, 1].map(|side| {
        let builder = Store::builder((4 << 20) << side).segment_bytes(64 << 10 >> side);
        builder.clock(Arc::clone(&clocks[side])).build().unwrap()
    });
    for number in NUMBERS {
        let lifetime = (number % 3 == 0).then(|| Duration::from_millis(1000 + number));
        let flags = if number % 2 == 0 { number as u32 } else { 0 };
        let key = number.to_le_bytes();
        let value = value_of(&key, number, 16 + number as usize % 900);
        let marks = number as u8;
        from.set(&key, &value, Attributes { flags, marks, lifetime }).unwrap();
    }
    // A third of what has a lifetime is over, and one entry is too large for the other store.
    clocks[0].store(3_000, Relaxed);
    from.set(b"large", &[0; 40_000], Attributes::default()).unwrap();
    let over = NUMBERS.filter(|number| number % 3 == 0 && 1000 + number <= 2000).count() as u64;
    assert_eq!(from.save(&file.0).unwrap(), NUMBERS.end - NUMBERS.start + 1 - over);
    assert_eq!(to.restore(&file.0).unwrap(), NUMBERS.end - NUMBERS.start - over);
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
        assert!(
            left_back.unwrap() <= left && left - left_back.unwrap() <= Duration::from_millis(2)
        );
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
