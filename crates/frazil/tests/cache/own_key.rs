//! User code that the cache calls while a key is loaded or computed, and that requests the same
//! key: it never waits for itself.

use crate::own_process::is_alone;
use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::extent::HANG_LIMIT;
use crate::fused::quietly_when;
use frazil::{Cache, Compute, Equivalent, Fetching, OnError, Policy, ToKey};

/// The user code that requests the key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Hash,
    Eq,
    KeyClone,
    ValueClone,
    Clock,
    Weigher,
    Lifetime,
    Update,
    Read,
    Backend,
    NegativeTtl,
    ToKey,
    /// Not in every call: removed values are dropped when nobody has the turn.
    ValueDrop,
}

const WHO: [Who; 12] = [
    Who::Hash,
    Who::Eq,
    Who::KeyClone,
    Who::ValueClone,
    Who::Clock,
    Who::Weigher,
    Who::Lifetime,
    Who::Update,
    Who::Read,
    Who::Backend,
    Who::NegativeTtl,
    Who::ToKey,
];

type Asking = Rc<dyn Fn()>;

thread_local! {
    /// Which code requests the key, and at which of its calls.
    static PLAN: Cell<Option<(Who, u32)>> = const { Cell::new(None) };
    static ASKING: RefCell<Option<Asking>> = const { RefCell::new(None) };
}

fn called(who: Who) {
    let Some((planned, call)) = PLAN.get().filter(|(planned, _)| *planned == who) else { return };
    PLAN.set((call > 1).then(|| (planned, call - 1)));
    if call == 1 {
        let asking = ASKING.with_borrow(Option::clone).expect("set with the plan");
        asking();
    }
}

#[derive(Debug)]
struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called(Who::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        called(Who::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Key {
        called(Who::KeyClone);
        Key(self.0)
    }
}

#[derive(Debug)]
struct Value(u64);

impl Drop for Value {
    fn drop(&mut self) {
        called(Who::ValueDrop);
    }
}

impl Clone for Value {
    fn clone(&self) -> Value {
        called(Who::ValueClone);
        Value(self.0)
    }
}

/// A query equivalent to a key.
struct Query(u64);

impl Hash for Query {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called(Who::Hash);
        self.0.hash(state);
    }
}

impl Equivalent<Key> for Query {
    fn equivalent(&self, key: &Key) -> bool {
        called(Who::Eq);
        self.0 == key.0
    }
}

impl ToKey<Key> for Query {
    fn to_key(&self) -> Key {
        called(Who::ToKey);
        Key(self.0)
    }
}

type Tested = Cache<Key, Value>;
type Call = (&'static str, fn(&Tested));

/// Ways to request the key; each is tried within each.
const CALLS: [Call; 10] = [
    ("load", |cache| _ = cache.get_or_insert_with(&Key(1), || Value(1))),
    ("fetch", |cache| _ = cache.get_or_fetch_blocking(&Key(1), || Ok::<_, ()>(Value(1)))),
    ("failing", |cache| _ = cache.get_or_fetch_blocking(&Key(1), || Err::<Value, _>(()))),
    ("compute", |cache| _ = cache.entry(Key(1)).and_compute(|_| Compute::Put(Value(1)))),
    ("look", |cache| _ = cache.entry(Key(1)).and_compute(|_| Compute::Keep)),
    ("computing task", |cache| {
        let compute = |_: Option<Value>| async {
            pending_once().await;
            Compute::Put(Value(1))
        };
        run(cache.entry(Key(1)).and_compute_async(compute), 2);
    }),
    ("equivalent", |cache| _ = cache.get_or_insert_with(&Query(1), || Value(1))),
    ("task", |cache| {
        run(cache.get_or_insert_async(&Key(1), async { Value(1) }), 1);
    }),
    ("pending task", |cache| {
        let load = async {
            pending_once().await;
            Value(1)
        };
        run(cache.get_or_insert_async(&Key(1), load), 2);
    }),
    ("detached", |cache| {
        let fetch = async {
            pending_once().await;
            Ok::<_, ()>(Value(1))
        };
        _ = run(cache.entry(Key(1)).or_fetch_detached(fetch), 2);
    }),
];

/// Ready when it is polled for the second time.
fn pending_once() -> impl Future<Output = ()> {
    let mut ready = false;
    std::future::poll_fn(move |_| match std::mem::replace(&mut ready, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

/// Polls as often as a loader needs.
fn run<T>(task: impl Future<Output = T>, polls: u32) -> T {
    let mut task = std::pin::pin!(task);
    for _ in 0..polls {
        if let Poll::Ready(done) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
    panic!("it waits for itself");
}

fn cache(policy: Policy) -> Tested {
    let ticks = AtomicU64::new(0);
    let builder = Cache::builder(8);
    let builder = match policy {
        Policy::Mad { .. } | Policy::GuardedMad { .. } => builder.backends(|_| {
            called(Who::Backend);
            0
        }),
        _ => builder,
    };
    builder
        .fetching(Fetching { on_error: OnError::Share, ..Fetching::default() })
        .negative_ttl(|_: &()| {
            called(Who::NegativeTtl);
            Duration::from_micros(10)
        })
        .expire_after_update(|_, _, left| {
            called(Who::Update);
            left
        })
        .expire_after_read(|_, _, left| {
            called(Who::Read);
            left
        })
        .policy(policy)
        .weigher(|_: &Key, _: &Value| {
            called(Who::Weigher);
            1
        })
        .expire_after(|_, _| {
            called(Who::Lifetime);
            Some(Duration::from_secs(1_000))
        })
        .clock(move || {
            called(Who::Clock);
            Duration::from_micros(ticks.fetch_add(1, Relaxed))
        })
        .build()
}

fn mad() -> Policy {
    "mad".parse().expect("a policy")
}

/// Each call of each kind requests the key in turn; returns how many did, and how many had to
/// panic.
fn ask_from(
    who: Who,
    (name, outer): Call,
    (inner_name, inner): Call,
    is_there: bool,
) -> (u32, u32) {
    let (mut asked, mut panics) = (0, 0);
    for call in 1..40 {
        let what = format!("{who:?} number {call} in {name}, {inner_name}, there: {is_there}");
        let asks_backends = who == Who::Backend;
        let mut cache = Rc::new(cache(if asks_backends { mad() } else { Policy::Lru }));
        if is_there {
            cache.insert(Key(1), Value(0));
        }
        let within = Rc::downgrade(&cache);
        ASKING.set(Some(Rc::new(move || inner(&within.upgrade().expect("in use")))));
        PLAN.set(Some((who, call)));
        let outcome = catch_unwind(AssertUnwindSafe(|| outer(&cache)));
        let has_asked = PLAN.take().is_none();
        if let Err(panic) = outcome {
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(message.contains("the very key"), "{what}: {message}");
            panics += 1;
        }
        assert_eq!(cache.flights(), 0, "{what}");
        ASKING.take();
        let tested = Rc::get_mut(&mut cache).expect("nobody else has it");
        tested.validate().unwrap_or_else(|found| panic!("{what}:\n{found}"));
        if !has_asked {
            break;
        }
        asked += 1;
    }
    (asked, panics)
}

#[test]
fn who_asks_for_the_key_that_is_loaded_never_waits_for_itself() {
    if !is_alone("own_key::who_asks_for_the_key_that_is_loaded_never_waits_for_itself") {
        return;
    }
    quietly_when(|message| message.contains("the very key"));
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        for who in WHO {
            let mut counts = (0, 0);
            for (outer, inner) in CALLS.into_iter().flat_map(|it| CALLS.map(|inner| (it, inner))) {
                for is_there in [false, true] {
                    let (asked, panics) = ask_from(who, outer, inner, is_there);
                    counts = (counts.0 + asked, counts.1 + panics);
                }
            }
            ended.send((who, counts)).unwrap();
        }
    });
    for who in WHO {
        let (asks, (asked, panics)) =
            ends.recv_timeout(HANG_LIMIT).unwrap_or_else(|_| panic!("{who:?} hangs"));
        println!("{asks:?} asked {asked} times, within a turn {panics} times");
        // A read is over when a turn begins.
        assert!(asked > 0 && (panics > 0 || asks == Who::Read), "{asks:?}: {asked}, {panics}");
    }
}

/// Writers remove and drop ended entries, but never a writer that has the turn.
fn ask_from_what_is_over((name, outer): Call, (inner_name, inner): Call, is_stale: bool) {
    let what = format!("{inner_name} in {name}, stale: {is_stale}");
    let seconds = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&seconds);
    let clock = move || Duration::from_secs(shown.load(Relaxed));
    let builder = Cache::builder(1_000).time_to_live(Duration::from_secs(10)).clock(clock);
    let mut cache: Rc<Tested> = Rc::new(builder.build());
    (10..500).for_each(|key| cache.insert(Key(key), Value(key)));
    if is_stale {
        cache.invalidate_all();
    } else {
        seconds.store(100, Relaxed);
    }
    let within = Rc::downgrade(&cache);
    ASKING.set(Some(Rc::new(move || inner(&within.upgrade().expect("in use")))));
    // One of those in a writer's share: calls also drop a few values of their own.
    PLAN.set(Some((Who::ValueDrop, 30)));
    let calls = || {
        for _ in 0..20 {
            outer(&cache);
            cache.invalidate(&Key(1));
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(calls));
    assert!(PLAN.take().is_none(), "{what}: none was dropped");
    outcome.unwrap_or_else(|_| panic!("{what}"));
    ASKING.take();
    assert_eq!(cache.flights(), 0, "{what}");
    let tested = Rc::get_mut(&mut cache).expect("nobody else has it");
    tested.validate().unwrap_or_else(|found| panic!("{what}:\n{found}"));
}

#[test]
fn what_is_over_may_ask_for_the_key_that_is_loaded() {
    for (outer, inner) in CALLS.into_iter().flat_map(|it| CALLS.map(|inner| (it, inner))) {
        for is_stale in [false, true] {
            ask_from_what_is_over(outer, inner, is_stale);
        }
    }
}
