//! Notices to a listener.

use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::Duration;

use frazil::{Cause, Policy};

use super::adapter::{Cache, Mock, Shape};
use super::basics::told;
use crate::wait::{Gate, waiting};

type Names = Cache<&'static str, &'static str>;

/// As in `basic_single_thread` about refusals, and about which of the three is removed.
pub(super) fn test_removal_notifications(shape: Shape) {
    let builder = Names::builder(shape).max_capacity(3).eviction_policy(Policy::WTinyLfu);
    let (builder, log) = builder.log();
    let cache = builder.build();
    cache.insert("a", "alice");
    cache.invalidate(&"a");
    told(&log, vec![("a", "alice", Cause::Removed)]);
    assert_eq!(cache.entry_count(), 0);
    let three = [("b", "bob"), ("c", "cathy"), ("d", "david")];
    three.into_iter().for_each(|(key, value)| cache.insert(key, value));
    assert_eq!(cache.entry_count(), 3);

    for attempt in 0.. {
        assert!(attempt < 20, "it is never let in");
        let value = if attempt == 0 { "emily" } else { "eliza" };
        cache.insert("e", value);
        assert_eq!(cache.entry_count(), 3);
        if cache.get(&"e").is_some() {
            break;
        }
        told(&log, vec![("e", value, Cause::Size)]);
    }
    let gone = three.into_iter().find(|(key, _)| !cache.contains_key(key));
    let gone = gone.expect("one made room");
    told(&log, vec![(gone.0, gone.1, Cause::Size)]);

    let (key, old) = three.into_iter().find(|it| it.0 != gone.0).expect("two stay");
    cache.insert(key, "dennis");
    told(&log, vec![(key, old, Cause::Replaced)]);
    assert_eq!(cache.entry_count(), 3);
}

/// Expired entries are reported as such, whatever operation finds them. Theirs counts them until
/// then; in ours the first `get` that finds one may remove it.
pub(super) fn test_immediate_removal_notifications_with_updates(shape: Shape) {
    let mock = Mock::default();
    let (builder, log) = Names::builder(shape)
        .time_to_live(Duration::from_secs(7))
        .time_to_idle(Duration::from_secs(5))
        .clock(&mock)
        .log();
    let cache = builder.build();
    let expires_idle = || {
        mock.increment(Duration::from_secs(6));
        assert_eq!(cache.get(&"alice"), None);
    };
    let expires_by_age = |value| {
        mock.increment(Duration::from_secs(4));
        assert_eq!(cache.get(&"alice"), Some(value));
        cache.run_pending_tasks();
        mock.increment(Duration::from_secs(4));
        assert_eq!(cache.get(&"alice"), None);
    };
    cache.insert("alice", "a0");
    expires_idle();
    cache.insert("alice", "a1");
    told(&log, vec![("alice", "a0", Cause::Expired)]);
    expires_by_age("a1");
    cache.insert("alice", "a2");
    told(&log, vec![("alice", "a1", Cause::Expired)]);
    expires_idle();
    cache.invalidate(&"alice");
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    told(&log, vec![("alice", "a2", Cause::Expired)]);
    cache.insert("alice", "a3");
    expires_by_age("a3");
    cache.invalidate(&"alice");
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    told(&log, vec![("alice", "a3", Cause::Expired)]);
}

/// The second notice of a key waits until the first has been handled.
pub(super) fn test_key_lock_used_by_immediate_removal_notifications() {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let (in_first, may_go_on) = (Gate::default(), Gate::default());
    let listener = {
        let (events, in_first, may_go_on) =
            (Arc::clone(&events), in_first.clone(), may_go_on.clone());
        move |_: &&str, value: &&str, cause: Cause| {
            let note = |what| {
                events.lock().expect("no panic under it").push(format!("{what} {value} {cause:?}"));
            };
            note("begin");
            if *value == "a0" {
                in_first.open();
                may_go_on.pass();
            }
            note("end");
        }
    };
    let cache = Names::builder(Shape::Sync).eviction_listener(listener).build();
    cache.insert("alice", "a0");
    let first = cache.clone();
    let first = spawn(move || first.insert("alice", "a1"));
    in_first.pass();
    let second = cache.clone();
    let second = waiting(move || second.insert("alice", "a2"));
    let third = cache.clone();
    let third = waiting(move || third.invalidate(&"alice"));
    may_go_on.open();
    for thread in [first, second, third] {
        thread.join().expect("no panic");
    }
    let events = events.lock().expect("no panic under it");
    let expected = [
        "begin a0 Replaced",
        "end a0 Replaced",
        "begin a1 Replaced",
        "end a1 Replaced",
        "begin a2 Removed",
        "end a2 Removed",
    ];
    assert_eq!(*events, expected);
}

/// A listener that panics does not disturb writers.
pub(super) fn recover_from_panicking_eviction_listener(shape: Shape) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&log);
    let listener = move |key: &&'static str, value: &&'static str, cause| {
        assert_ne!(*value, "panic now!");
        written.lock().expect("no panic under it").push((*key, *value, cause));
    };
    let cache = Names::builder(shape).eviction_listener(listener).build();
    cache.insert("alice", "a0");
    cache.insert("alice", "panic now!");
    told(&log, vec![("alice", "a0", Cause::Replaced)]);
    cache.insert("alice", "a2");
    cache.invalidate(&"alice");
    cache.run_pending_tasks();
    // Their listener gets no more notices.
    told(&log, vec![]);
}
