//! Lifetimes, by a clock that the test moves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frazil::Cause;

use super::adapter::{Builder, Cache, Expiry, Log, Mock, Shape};
use super::basics::told;

type Names = Cache<&'static str, &'static str>;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The number of calls of an expiry, by event.
#[derive(Clone, Default)]
struct Asked([Arc<AtomicU64>; 3]);

impl Asked {
    fn note(&self, event: usize) {
        self.0[event].fetch_add(1, SeqCst);
    }

    fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|event| self.0[event].load(SeqCst))
    }
}

/// A lifetime of 10 s from the chosen events; other events do not change it.
struct TenSeconds {
    asked: Asked,
    from_creation: bool,
    from_read: bool,
}

impl Expiry<&'static str, &'static str> for TenSeconds {
    fn after_create(&self, _: &&'static str, _: &&'static str) -> Option<Duration> {
        self.asked.note(0);
        self.from_creation.then_some(seconds(10))
    }

    fn after_read(
        &self,
        _: &&'static str,
        _: &&'static str,
        left: Option<Duration>,
    ) -> Option<Duration> {
        self.asked.note(1);
        if self.from_read { Some(seconds(10)) } else { left }
    }

    fn after_update(
        &self,
        _: &&'static str,
        _: &&'static str,
        left: Option<Duration>,
    ) -> Option<Duration> {
        self.asked.note(2);
        if self.from_creation { Some(seconds(10)) } else { left }
    }
}

/// Ten seconds from creation and replacement.
fn lives_ten_seconds(builder: Builder<&'static str, &'static str>) {
    let mock = Mock::default();
    let (builder, log) = builder.max_capacity(100).clock(&mock).log();
    let cache = builder.build();
    let step = || {
        mock.increment(seconds(5));
        cache.run_pending_tasks();
    };
    cache.insert("a", "alice");
    step();
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert!(cache.contains_key(&"a"));
    mock.increment(seconds(5));
    assert_eq!(cache.get(&"a"), None);
    assert!(!cache.contains_key(&"a"));
    assert_eq!(cache.iter().count(), 0);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);

    cache.insert("b", "bob");
    assert_eq!(cache.entry_count(), 1);
    step();
    assert_eq!(cache.get(&"b"), Some("bob"));
    cache.insert("b", "bill");
    step();
    assert_eq!(cache.get(&"b"), Some("bill"));
    assert_eq!(cache.entry_count(), 1);
    mock.increment(seconds(5));
    assert_eq!([cache.get(&"a"), cache.get(&"b")], [None, None]);
    assert!(!cache.contains_key(&"b"));
    assert_eq!(cache.iter().count(), 0);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    let ends = vec![
        ("a", "alice", Cause::Expired),
        ("b", "bob", Cause::Replaced),
        ("b", "bill", Cause::Expired),
    ];
    told(&log, ends);
}

pub(super) fn time_to_live(shape: Shape) {
    lives_ten_seconds(Names::builder(shape).time_to_live(seconds(10)));
}

pub(super) fn time_to_live_by_expiry_type(shape: Shape) {
    let asked = Asked::default();
    let expiry = TenSeconds { asked: asked.clone(), from_creation: true, from_read: false };
    lives_ten_seconds(Names::builder(shape).expire_after(expiry));
    let [creations, _, updates] = asked.counts();
    assert_eq!([creations, updates], [2, 1], "creations and updates that it was asked for");
}

/// Ten seconds from the last read. `from_creation`: or from the insertion.
fn idles_ten_seconds(
    builder: Builder<&'static str, &'static str>,
) -> Log<&'static str, &'static str> {
    let mock = Mock::default();
    let (builder, log) = builder.max_capacity(100).clock(&mock).log();
    let cache = builder.build();
    let step = |by| {
        mock.increment(seconds(by));
        cache.run_pending_tasks();
    };
    cache.insert("a", "alice");
    step(5);
    assert_eq!(cache.get(&"a"), Some("alice"));
    step(5);
    cache.insert("b", "bob");
    assert_eq!(cache.entry_count(), 2);
    step(2);
    // This does not count as a use.
    assert!(cache.contains_key(&"a") && cache.contains_key(&"b"));
    assert_eq!(cache.entry_count(), 2);
    // Ours may let an idle entry live a 64th longer.
    mock.increment(Duration::from_millis(3_160));
    assert_eq!(cache.get(&"a"), None);
    assert_eq!(cache.get(&"b"), Some("bob"));
    assert!(!cache.contains_key(&"a") && cache.contains_key(&"b"));
    assert_eq!(cache.iter().count(), 1);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 1);
    mock.increment(Duration::from_millis(10_160));
    assert_eq!([cache.get(&"a"), cache.get(&"b")], [None, None]);
    assert!(!cache.contains_key(&"a") && !cache.contains_key(&"b"));
    assert_eq!(cache.iter().count(), 0);
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    log
}

pub(super) fn time_to_idle(shape: Shape) {
    let log = idles_ten_seconds(Names::builder(shape).time_to_idle(seconds(10)));
    told(&log, vec![("a", "alice", Cause::Expired), ("b", "bob", Cause::Expired)]);
}

pub(super) fn time_to_idle_by_expiry_type(shape: Shape) {
    let asked = Asked::default();
    let expiry = TenSeconds { asked: asked.clone(), from_creation: false, from_read: true };
    let log = idles_ten_seconds(Names::builder(shape).expire_after(expiry));
    assert_eq!(asked.counts()[1], 2, "reads that it was asked for");
    told(&log, vec![("a", "alice", Cause::Expired), ("b", "bob", Cause::Expired)]);
}

pub(super) fn ensure_access_time_is_updated_immediately_after_read(shape: Shape) {
    let mock = Mock::default();
    let cache = Cache::<u64, u64>::builder(shape)
        .max_capacity(10)
        .time_to_idle(seconds(5))
        .clock(&mock)
        .build();
    cache.insert(1, 1);
    mock.increment(seconds(4));
    assert_eq!(cache.get(&1), Some(1));
    mock.increment(seconds(2));
    assert_eq!(cache.get(&1), Some(1));
    cache.run_pending_tasks();
    assert_eq!(cache.get(&1), Some(1));
}

/// The calls of an expiry by loads: creation if they load, a read if the key is present.
pub(super) fn test_expiry_using_get_with(shape: Shape) {
    let asked = Asked::default();
    let expiry = TenSeconds { asked: asked.clone(), from_creation: false, from_read: false };
    let cache = Names::builder(shape).max_capacity(100).expire_after(expiry).build();
    cache.get_with("a", || "alice");
    cache.get_with("a", || "alex");
    cache.invalidate(&"a");
    cache.get_with("a", || "amanda");
    assert_eq!(asked.counts(), [2, 1, 0], "creations, reads, updates that it was asked for");
}

/// One lifetime or none, by a switch.
struct Switched {
    expires: Arc<AtomicBool>,
    lifetime: Duration,
    upon_update: bool,
}

impl Switched {
    fn lifetime(&self) -> Option<Duration> {
        self.expires.load(SeqCst).then_some(self.lifetime)
    }
}

impl Expiry<&'static str, &'static str> for Switched {
    fn after_create(&self, _: &&'static str, _: &&'static str) -> Option<Duration> {
        self.lifetime()
    }

    fn after_update(
        &self,
        _: &&'static str,
        _: &&'static str,
        left: Option<Duration>,
    ) -> Option<Duration> {
        if self.upon_update { self.lifetime() } else { left }
    }
}

/// An update without a lifetime restores an expired entry.
pub(super) fn expire_after_update_none_on_expired_entry(shape: Shape) {
    let expires = Arc::new(AtomicBool::new(true));
    let expiry =
        Switched { expires: Arc::clone(&expires), lifetime: Duration::ZERO, upon_update: true };
    let cache = Names::builder(shape).max_capacity(100).expire_after(expiry).build();
    cache.insert("key", "first");
    assert_eq!(cache.get(&"key"), None);
    expires.store(false, SeqCst);
    cache.insert("key", "second");
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 1);
    assert_eq!(cache.get(&"key"), Some("second"));
}

pub(super) fn test_expire_after_create_only_no_stale_entries(shape: Shape) {
    let (mock, expires) = (Mock::default(), Arc::new(AtomicBool::new(true)));
    let expiry =
        Switched { expires: Arc::clone(&expires), lifetime: seconds(1), upon_update: false };
    let cache = Names::builder(shape).max_capacity(100).expire_after(expiry).clock(&mock).build();
    cache.insert("one", "value 1");
    assert_eq!(cache.get(&"one"), Some("value 1"));
    mock.increment(seconds(2));
    assert_eq!(cache.get(&"one"), None);

    // It had expired, so this is a creation.
    expires.store(false, SeqCst);
    cache.insert("one", "value 2");
    cache.run_pending_tasks();
    assert_eq!(cache.get(&"one"), Some("value 2"));

    expires.store(true, SeqCst);
    cache.insert("two", "v1");
    assert_eq!(cache.get(&"two"), Some("v1"));
    mock.increment(seconds(2));
    assert_eq!(cache.get(&"two"), None);
    cache.insert("two", "v2");
    cache.run_pending_tasks();
    assert_eq!(cache.get(&"two"), Some("v2"));
    mock.increment(seconds(2));
    assert_eq!(cache.get(&"two"), None);
    assert_eq!(cache.get(&"one"), Some("value 2"));
}

pub(super) fn test_optionally_get_with_expired_entry_bug(shape: Shape) {
    struct TwoSeconds;
    impl Expiry<u64, u64> for TwoSeconds {
        fn after_create(&self, _: &u64, _: &u64) -> Option<Duration> {
            Some(seconds(2))
        }
    }
    let mock = Mock::default();
    let cache = Cache::<u64, u64>::builder(shape)
        .max_capacity(100)
        .expire_after(TwoSeconds)
        .clock(&mock)
        .build();
    let mut loads = 0;
    let mut ask = || {
        cache.optionally_get_with(&1, || {
            loads += 1;
            Some(loads)
        })
    };
    assert_eq!(ask(), Some(1));
    mock.increment(Duration::from_millis(1_980));
    assert_eq!(ask(), Some(1));
    // Expired, and not removed yet.
    mock.increment(Duration::from_millis(30));
    assert_eq!(ask(), Some(2));
    mock.increment(seconds(10));
    cache.run_pending_tasks();
    assert_eq!(ask(), Some(3));
}

/// An entry that expires, is replaced and removed leaves nothing in the counts.
pub(super) fn test_race_between_updating_entry_and_processing_its_write_ops(shape: Shape) {
    let mock = Mock::default();
    let cache = Names::builder(shape).max_capacity(2).time_to_idle(seconds(1)).clock(&mock).build();
    cache.insert("a", "alice");
    cache.insert("b", "bob");
    cache.insert("c", "cathy");
    mock.increment(seconds(2));
    cache.insert("c", "cindy");
    assert_eq!(cache.remove(&"c"), Some("cindy"));
    mock.increment(seconds(2));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
}

/// An expected event of an expiry, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Create,
    /// A read with this number of seconds left.
    Read(u64),
    Update(u64),
}

/// The next event, and its answer in seconds.
type Line = (Event, Option<u64>);

/// Gives the set answer to the expected event, once.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Option<Line>>>);

impl Scripted {
    fn expect(&self, event: Event, answer: Option<u64>) {
        *self.0.lock().expect("no panic under it") = Some((event, answer));
    }

    fn answer(&self, actual: Event) -> Option<Duration> {
        let next = self.0.lock().expect("no panic under it").take();
        let (event, answer) = next.unwrap_or_else(|| panic!("{actual:?} was not expected"));
        assert_eq!(actual, event);
        answer.map(seconds)
    }

    fn was_asked(&self) {
        let next = *self.0.lock().expect("no panic under it");
        assert_eq!(next, None, "it was not asked");
    }
}

impl Expiry<u64, u64> for Scripted {
    fn after_create(&self, _: &u64, _: &u64) -> Option<Duration> {
        self.answer(Event::Create)
    }

    fn after_read(&self, _: &u64, _: &u64, left: Option<Duration>) -> Option<Duration> {
        self.answer(Event::Read(left.map_or(u64::MAX, |left| left.as_secs())))
    }

    fn after_update(&self, _: &u64, _: &u64, left: Option<Duration>) -> Option<Duration> {
        self.answer(Event::Update(left.map_or(u64::MAX, |left| left.as_secs())))
    }
}

/// A time to live of 16 s, one to idle of 7 s, and an expiry: the shortest holds.
pub(super) fn test_per_entry_expiration(shape: Shape) {
    const TTI: u64 = 7;
    /// The events of a key: seconds since the last, the event, and the answer.
    type Story = &'static [(u64, Event, Option<u64>)];
    use Event::{Create, Read, Update};
    // Each with the seconds from its last event to its end.
    let stories: [(Story, u64); 7] = [
        (&[(0, Create, Some(1))], 1),
        (&[(0, Create, None), (1, Read(TTI - 1), Some(3))], 3),
        (&[(0, Create, None), (1, Read(TTI - 1), None), (2, Update(TTI), Some(3))], 3),
        (&[(0, Create, None), (1, Read(TTI - 1), None), (2, Update(TTI), None)], 7),
        (&[(0, Create, Some(8)), (5, Read(TTI - 5), Some(8))], 7),
        (&[(0, Create, Some(8)), (5, Read(TTI - 5), Some(9)), (6, Read(TTI - 6), Some(10))], 5),
        (
            &[
                (0, Create, Some(9)),
                (6, Update(3), Some(8)),
                (6, Read(TTI - 6), Some(9)),
                (6, Read(TTI - 6), Some(5)),
            ],
            4,
        ),
    ];
    let (mock, script) = (Mock::default(), Scripted::default());
    let cache = Cache::<u64, u64>::builder(shape)
        .time_to_live(seconds(16))
        .time_to_idle(seconds(TTI))
        .expire_after(script.clone())
        .clock(&mock)
        .build();
    for (key, (story, end)) in (1..).zip(stories) {
        for &(later, event, answer) in story {
            mock.increment(seconds(later));
            cache.run_pending_tasks();
            script.expect(event, answer);
            match event {
                Create | Update(_) => cache.insert(key, key),
                Read(_) => assert_eq!(cache.get(&key), Some(key)),
            }
            script.was_asked();
            assert_eq!(cache.entry_count(), 1);
        }
        mock.increment(seconds(end) - Duration::from_millis(1));
        cache.run_pending_tasks();
        assert!(cache.contains_key(&key), "{story:?} ends too soon");
        mock.increment(Duration::from_millis(1));
        cache.run_pending_tasks();
        assert!(!cache.contains_key(&key), "{story:?} ends too late");
        mock.increment(seconds(1));
        cache.run_pending_tasks();
        assert_eq!(cache.entry_count(), 0);
    }
}
