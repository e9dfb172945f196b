//! Recordings: the record of each operation in the file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use frazil_recording::{Decoder, End, FOR_EVER, Lifetimes, Operation, Record};
use frazil_segment::{Attributes, Store};

use crate::Temporary;

/// All records of a file, and its end.
fn read(path: &Path) -> (Vec<Record>, End) {
    let bytes = std::fs::read(path).unwrap();
    let (mut decoder, mut records, mut at) = (Decoder::default(), Vec::new(), 0);
    while at < bytes.len() {
        at += decoder.decode(&bytes[at..], &mut records).unwrap();
    }
    let header = decoder.header().unwrap();
    assert!(header.has_sizes && header.lifetimes == Lifetimes::Told);
    (records, decoder.end().unwrap())
}

#[test]
#[cfg_attr(miri, ignore = "a log has 65,536 words, which take minutes to make")]
fn operations_are_recorded_with_sizes_and_lifetimes() {
    let file = Temporary::new("operations");
    // A clock of user code is for lifetimes, not for the times of requests.
    let store = Store::builder(4 << 20).clock(Arc::new(AtomicU64::new(5))).build().unwrap();
    let minute = Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(60)) };
    store.set(b"before", b"", minute).unwrap();
    let recording = store.record(&file.0, 1.0).unwrap();
    assert!(store.record(&file.0, 1.0).is_err(), "one is under way");
    assert!(store.get(b"a", &mut Vec::new()).is_none());
    store.set(b"a", b"12345", minute).unwrap();
    assert!(store.get(b"a", &mut Vec::new()).is_some());
    store.get_many(&[b"a", b"b"], |_, _| ());
    store.set(b"c", b"12", Attributes::default()).unwrap();
    store.add(b"c", b"123", Attributes::default()).unwrap();
    store.append(b"c", b"3456").unwrap();
    assert!(store.contains(b"c") && !store.contains(b"d"));
    assert!(store.hold(b"c").is_some());
    store.delete(b"c");
    let recorded = recording.finish().unwrap();
    store.set(b"after", b"", minute).unwrap();
    let (records, end) = read(&file.0);
    assert_eq!((recorded.records, recorded.lost), (end.records, end.lost));
    assert_eq!((end.lost, end.gets), (0, Some(6)));
    let minute_ns = Some(60_000_000_000);
    let seen: Vec<_> =
        records.iter().map(|record| (record.operation, record.size, record.lifetime_ns)).collect();
    assert_eq!(
        seen,
        [
            // A head of seven bytes with a deadline, a key of one, five of value.
            (Operation::Get, Some(13), minute_ns),
            (Operation::Get, Some(13), None),
            (Operation::Get, Some(13), None),
            (Operation::Set, Some(7), Some(FOR_EVER)),
            (Operation::Get, Some(7), None),
            (Operation::Set, Some(11), Some(FOR_EVER)),
            (Operation::Get, Some(11), None),
            (Operation::Delete, None, None),
            // No write followed the miss, so it waited until the end.
            (Operation::Get, None, None),
        ]
    );
    assert_eq!(records[0].id, records[1].id);
    assert_ne!(records[0].id, records[3].id);
}

#[test]
#[cfg_attr(miri, ignore = "a log has 65,536 words, which take minutes to make")]
fn a_share_of_the_keys_is_recorded_from_all_threads() {
    const KEYS: u64 = if cfg!(miri) { 100 } else { 20_000 };
    let file = Temporary::new("share");
    let store = Store::builder(8 << 20).seed(3).build().unwrap();
    let recording = store.record(&file.0, 0.25).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..KEYS {
                    store.get(&number.to_le_bytes(), &mut Vec::new());
                }
            });
        }
    });
    let recorded = recording.finish().unwrap();
    let (records, end) = read(&file.0);
    assert_eq!((end.gets, records.len() as u64), (Some(4 * KEYS), recorded.records));
    // For each key all requests or none.
    let mut ids: Vec<_> = records.iter().map(|record| record.id).collect();
    ids.sort_unstable();
    let all = records.len() as u64 + recorded.lost;
    assert_eq!(all % 4, 0);
    assert!(all.abs_diff(KEYS) < KEYS / 10, "{all} of {}", 4 * KEYS);
    if recorded.lost == 0 {
        assert!(ids.chunks(4).all(|same| same.iter().all(|&id| id == same[0])));
    }
    assert!(store.record("/none/none", 0.5).is_err());
    assert!(store.record(&file.0, 0.0).is_err() && store.record(&file.0, 1.5).is_err());
}

/// A forked process has the recording but not the thread that writes it. It does not wait for the
/// thread, and the file belongs to the parent.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_forked_process_leaves_a_recording_to_its_parent() {
    let file = Temporary::new("forked");
    let store = Store::builder(4 << 20).build().unwrap();
    let recording = store.record(&file.0, 1.0).unwrap();
    store.set(b"parent", b"1", Attributes::default()).unwrap();
    // SAFETY: the child calls nothing but the store, the allocator, which is sound after a fork,
    // and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        store.set(b"child", b"1", Attributes::default()).unwrap();
        let failed = recording.finish().is_err();
        drop(store);
        // SAFETY: it ends this process, without the exit handlers.
        unsafe { libc::_exit(i32::from(!failed)) };
    }
    crate::expect_end_of(child);
    store.set(b"parent", b"2", Attributes::default()).unwrap();
    assert_eq!(recording.finish().unwrap().records, 2);
    assert_eq!(read(&file.0).0.len(), 2);
}
