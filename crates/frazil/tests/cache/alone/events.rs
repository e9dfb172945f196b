//! The events that a cache emits to `tracing`, seen by a minimal subscriber.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::task::{Context, Poll, Waker};

use frazil::{Cache, Freezing, Policy};
// A cache of numbers is compiled and optimised there.
use frazil_driver as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An event: its level, its message, and its other fields.
#[derive(Clone, Debug)]
struct Told {
    level: Level,
    message: String,
    fields: BTreeMap<&'static str, String>,
}

impl Told {
    fn number(&self, field: &str) -> u64 {
        self.fields[field].parse().unwrap()
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            name => _ = self.fields.insert(name, value),
        }
    }
}

/// Keeps events; runs an action at each.
struct Log {
    told: Arc<Mutex<Vec<Told>>>,
    then: Arc<dyn Fn() + Send + Sync>,
}

thread_local! {
    /// Where this thread's events go.
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// One for the whole process, set before any cache is built: where threads have subscribers
/// of their own, an event that is first reached by a thread without one is switched off for
/// all of them.
struct ByThread;

static SUBSCRIBED: Once = Once::new();

impl Subscriber for ByThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "frazil"
    }
    fn event(&self, event: &Event<'_>) {
        // Taken during `then`, so that events caused by `then` are not logged.
        let Some(log) = LOG.take() else { return };
        let level = *event.metadata().level();
        let mut told = Told { level, message: String::new(), fields: BTreeMap::new() };
        event.record(&mut told);
        log.told.lock().unwrap().push(told);
        (log.then)();
        LOG.set(Some(log));
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        unreachable!("a cache has no spans")
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn subscribe() {
    SUBSCRIBED.call_once(|| tracing::subscriber::set_global_default(ByThread).unwrap());
}

/// The events while `work` runs; `then` runs inside each event.
fn events_with(then: impl Fn() + Send + Sync + 'static, work: impl FnOnce()) -> Vec<Told> {
    subscribe();
    let told = Arc::<Mutex<Vec<Told>>>::default();
    LOG.set(Some(Log { told: Arc::clone(&told), then: Arc::new(then) }));
    work();
    LOG.take();
    std::mem::take(&mut *told.lock().unwrap())
}

fn events(work: impl FnOnce()) -> Vec<Told> {
    events_with(|| (), work)
}

fn cache(capacity: u64) -> Cache<u64, u64> {
    subscribe();
    Cache::builder(capacity).build()
}

#[test]
fn a_cache_that_is_built_says_what_it_is() {
    let told = events(|| {
        cache(1_000);
        cache(2_000);
    });
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].level, &*told[0].message), (Level::DEBUG, "cache built"));
    assert_eq!(told[0].fields["policy"], "mobius");
    assert_eq!((told[0].number("capacity"), told[1].number("capacity")), (1_000, 2_000));
    // Nothing is reserved yet.
    assert!(told[0].number("reserved_bytes") < 10_000);
    assert_ne!(told[0].number("cache"), told[1].number("cache"));
}

#[test]
fn threads_that_block_for_tasks_are_told_of() {
    let cache = cache(100);
    let mut context = Context::from_waker(Waker::noop());
    let ready = AtomicBool::new(false);
    let mut task = Box::pin(cache.get_or_insert_async(
        &1,
        poll_fn(|_| match ready.load(SeqCst) {
            true => Poll::Ready(10),
            false => Poll::Pending,
        }),
    ));
    let told = events(|| {
        assert!(task.as_mut().poll(&mut context).is_pending());
        // This thread has polled it, and would wait for itself.
        assert_eq!(cache.get_or_insert_with(&1, || 20), 20);
    });
    assert_eq!((told.len(), told[0].level, told[0].number("unblocked")), (1, Level::WARN, 1));
    std::thread::scope(|scope| {
        let blocks = scope.spawn(|| events(|| _ = cache.get_or_insert_with(&1, || unreachable!())));
        while cache.fetch_stats().blocked == 0 {
            std::thread::yield_now();
        }
        ready.store(true, SeqCst);
        assert!(task.as_mut().poll(&mut context).is_ready());
        let told = blocks.join().unwrap();
        assert_eq!((told.len(), told[0].level, told[0].number("blocked")), (1, Level::WARN, 1));
    });
}

#[test]
fn what_happens_all_the_time_is_not_told() {
    let cache = cache(1_000);
    let told = events(|| {
        for key in 0..10_000 {
            cache.get(&(key / 2));
            cache.insert(key, 0);
            cache.insert(key, 1);
            cache.remove(&(key / 3));
        }
    });
    assert!(cache.stats().evictions > 0 && cache.stats().hits > 0);
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_cleared_cache_says_so() {
    let cache = cache(100);
    let told = events(|| cache.clear());
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].level, &*told[0].message), (Level::DEBUG, "cache cleared"));
}

#[test]
fn a_changed_capacity_is_told_with_what_holds() {
    subscribe();
    let cache: Cache<u64, u64> = Cache::builder(100).entries(100).build();
    let told = events(|| _ = cache.set_capacity(500));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].level, &*told[0].message), (Level::DEBUG, "capacity set"));
    assert_eq!((told[0].number("wanted"), told[0].number("capacity")), (500, 100));
}

#[test]
fn a_recording_tells_its_beginning_and_its_end() {
    let cache = cache(100);
    let path = std::env::temp_dir().join(format!("frazil-events-{}", std::process::id()));
    let told = events(|| {
        let recording = cache.record(&path, 1.0).unwrap();
        (0..10).for_each(|key| _ = cache.get(&key));
        drop(recording);
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].level, &*told[0].message), (Level::DEBUG, "recording began"));
    assert_eq!(told[0].fields["path"], path.display().to_string());
    assert_eq!((told[1].level, &*told[1].message), (Level::DEBUG, "recording ended"));
    assert_eq!((told[1].number("records"), told[1].number("lost")), (10, 0));
    assert_eq!(told[0].number("cache"), told[1].number("cache"));
}

/// Into a pipe without a reader.
#[cfg(target_os = "linux")]
#[test]
fn a_recording_that_failed_and_was_dropped_is_told() {
    let cache = cache(100);
    let told = events(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let recording = cache.record(path, 1.0).unwrap();
        drop(reader);
        (0..10).for_each(|key| _ = cache.get(&key));
        drop(recording);
    });
    let last = told.last().unwrap();
    assert_eq!((last.level, &*last.message), (Level::WARN, "recording failed"));
    assert!(last.fields["error"].contains("pipe"), "{last:?}");
}

/// Replaces entries that a pin has shown and therefore holds up.
fn hold_up(cache: &Cache<u64, u64>, then: impl Fn() + Send + Sync + 'static) -> Vec<Told> {
    (0..2_000).for_each(|key| cache.insert(key, 0));
    events_with(then, || {
        let pin = cache.pin();
        for key in (0..20_000).map(|turn| 1_000 + turn % 1_000) {
            pin.get(&key);
            cache.insert(key, 1);
        }
    })
}

#[test]
fn a_pin_that_shows_too_much_is_told_of_before_newcomers_are_refused() {
    let cache = cache(1_000);
    let told = hold_up(&cache, || ());
    let of = |message| told.iter().filter(move |event| event.message == message);
    assert!(told.iter().all(|event| event.level == Level::WARN && event.number("pins") == 1));
    assert_eq!(told[0].message, "slots held up by pins");

    let refusals = cache.stats().refusals;
    assert!(refusals > 1_000);
    let counted: Vec<u64> =
        of("newcomers refused: no slot").map(|event| event.number("refusals")).collect();
    let doublings: Vec<u64> = (0..=refusals.ilog2()).map(|power| 1 << power).collect();
    assert_eq!(counted, doublings);
    let held: Vec<u64> = of("slots held up by pins").map(|event| event.number("held_up")).collect();
    assert!(held.len() <= 3 && held.windows(2).all(|pair| pair[0] * 2 <= pair[1]), "{held:?}");
    let first = &told[0];
    assert!(first.number("held_up") > first.number("spare") / 2, "{first:?}");
}

#[test]
fn a_pin_that_ends_soon_is_not_told_of() {
    let cache = cache(1_000);
    let told = events(|| {
        for key in 0..20_000 {
            let pin = cache.pin();
            cache.insert(key, 0);
            drop(pin);
        }
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_subscriber_may_call_the_cache() {
    let cache = Arc::new(cache(1_000));
    let shared = Arc::clone(&cache);
    let told = hold_up(&cache, move || {
        shared.insert(0, 1);
        shared.get(&0);
        shared.clear();
    });
    assert!(!told.is_empty());
    cache.clear();
    cache.insert(0, 2);
    assert_eq!(cache.get(&0), Some(2));
}

/// A subscriber may call the cache: no lock is held that it needs.
#[test]
fn who_is_told_that_something_is_frozen_may_have_it_thawed() {
    for freezing in [Freezing::ByHand, Freezing::Learned] {
        let shared: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
        let told = Arc::clone(&shared);
        let thaw = move || told.get().into_iter().for_each(Cache::thaw);
        events_with(thaw, || {
            let cache = shared.get_or_init(|| Cache::builder(100).freezing(freezing).build());
            (0..100).for_each(|key| cache.insert(key, key));
            assert_eq!(cache.freeze(1.0), 100);
            (0..100).for_each(|key| assert_eq!(cache.get(&key), Some(key)));
            assert_eq!(cache.stats().frozen_hits, 0);
        });
    }
}

#[test]
fn who_is_told_of_a_phase_finds_the_cache_in_it() {
    let seconds = std::time::Duration::from_secs;
    let shared: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
    let (told, seen) = (Arc::clone(&shared), Arc::new(Mutex::new(Vec::new())));
    let found = Arc::clone(&seen);
    let look = move || {
        let state = told.get().and_then(Cache::freezing_state);
        found.lock().unwrap().extend(state.map(|state| format!("{:?}", state.reason)));
    };
    events_with(look, || {
        let built = Cache::builder(1_000).freezing(Freezing::Learned).build();
        let cache = shared.get_or_init(|| built);
        cache.step_freezing(seconds(1));
        (0..100).for_each(|key| cache.insert(key, key));
        cache.step_freezing(seconds(2));
    });
    assert_eq!(*seen.lock().unwrap(), ["Grew"]);
}

#[test]
fn what_freezing_does_is_told_with_its_reason() {
    let seconds = std::time::Duration::from_secs;
    let mut cache = None;
    let told = events(|| {
        let cache: &Cache<u64, u64> = cache
            .insert(Cache::builder(1_000).policy(Policy::Lru).freezing(Freezing::Learned).build());
        cache.step_freezing(seconds(1));
        (0..100).for_each(|key| cache.insert(key, 0));
        cache.step_freezing(seconds(2));
        cache.step_freezing(seconds(3));
    });
    let told: Vec<&Told> = told.iter().filter(|told| told.message == "freezing").collect();
    let [grew] = *told else { panic!("{told:?}") };
    assert_eq!(grew.level, Level::DEBUG);
    assert_eq!((&*grew.fields["phase"], &*grew.fields["reason"]), ("Waiting", "Grew"));
    for field in ["share", "frozen_hit_share", "dynamic_hit_share", "latency_ns", "threshold_ns"] {
        assert_eq!(grew.fields[field], "0.0", "{field}");
    }
}
