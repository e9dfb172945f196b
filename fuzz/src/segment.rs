//! The segment store: sequences of operations against a naive map, and `validate` between.
//!
//! The first byte chooses the eviction policy. An operation is four bytes: its kind, its key, and
//! two for a length or a number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil_segment::{Attributes, Eviction, Store, Stored};

const OPERATIONS_MAX: usize = 192;
const EVICTIONS: [Eviction; 5] = [
    Eviction::Fifo,
    Eviction::FifoMerge,
    Eviction::Random,
    Eviction::ClosestToExpiry,
    Eviction::GlCache,
];

/// A value, and when it expires.
type Kept = (Vec<u8>, Option<u64>);

/// Runs the operations, and panics if the store differs from the map.
pub fn feed(bytes: &[u8]) {
    let Some((&first, operations)) = bytes.split_first() else { return };
    let now_ms = Arc::new(AtomicU64::new(1));
    let eviction = EVICTIONS[usize::from(first) % 5];
    // A learner takes more than the segments do.
    let kib = if eviction == Eviction::GlCache { 70 } else { 40 };
    let builder =
        Store::builder(kib << 10).segment_bytes(1 << 10).clock(Arc::clone(&now_ms)).seed(1);
    let store = builder.learn_in_place(true).eviction(eviction).build().expect("a store");
    let mut map = HashMap::<Vec<u8>, Kept>::new();
    for (turn, operation) in operations.chunks_exact(4).take(OPERATIONS_MAX).enumerate() {
        run(&store, &mut map, &now_ms, operation);
        if turn % 64 == 63 {
            store.validate_at_rest().expect("a sound store");
        }
    }
    store.validate_at_rest().expect("a sound store");
    let lost = map.keys().filter(|key| !store.contains(key)).count() as u64;
    let over = map.values().filter(|(_, end)| end.is_some()).count() as u64;
    let evicted = store.stats().evicted_items;
    assert!(lost <= evicted + over, "{lost} lost, {evicted} evicted");
}

fn run(store: &Store, map: &mut HashMap<Vec<u8>, Kept>, now_ms: &AtomicU64, operation: &[u8]) {
    let [what, which, low, high] = *operation else { return };
    let key = vec![which; usize::from(which % 40)];
    let number = u16::from_le_bytes([low, high]);
    let value = vec![low; usize::from(number % 1200)];
    let now = now_ms.load(Relaxed);
    let there = store.get_with(&key, |entry| entry.value.to_vec());
    // Any entry may be missing; a present one has the right value and has not expired.
    match (&there, map.get(&key)) {
        (Some(value), Some((kept, end))) => {
            assert!(value == kept && end.is_none_or(|end| now < end), "{key:?} at {now}");
        }
        (Some(_), None) => panic!("{key:?} was never there, or deleted"),
        (None, _) => _ = map.remove(&key),
    }
    let lifetime_ms = (what & 8 != 0).then(|| u64::from(number));
    let lifetime = lifetime_ms.map(Duration::from_millis);
    let attributes = Attributes { flags: u32::from(what >> 4), marks: 0, lifetime };
    let kept = (value.clone(), lifetime_ms.map(|lifetime| now + lifetime));
    match what % 8 {
        0 | 1 if store.set(&key, &value, attributes).is_ok() => _ = map.insert(key, kept),
        2 if store.add(&key, &value, attributes) == Ok(Stored::Stored) => {
            assert!(there.is_none());
            map.insert(key, kept);
        }
        3 => {
            let mut both = there.unwrap_or_default();
            both.extend_from_slice(&value);
            if store.append(&key, &value) == Ok(Stored::Stored) {
                map.get_mut(&key).expect("an entry").0 = both;
            }
        }
        4 => {
            assert_eq!(store.delete(&key), there.is_some());
            map.remove(&key);
        }
        5 if store.touch(&key, lifetime) == Ok(true) => {
            map.get_mut(&key).expect("an entry").1 = kept.1;
        }
        6 => {
            if let Ok(Some(sum)) = store.incr(&key, u64::from(number)) {
                map.get_mut(&key).expect("an entry").0 = sum.to_string().into_bytes();
            }
        }
        7 => _ = now_ms.fetch_add(u64::from(number), Relaxed),
        _ => {}
    }
}
