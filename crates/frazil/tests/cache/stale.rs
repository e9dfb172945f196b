//! A request after a removal has returned does not get the removed value, whatever others load
//! meanwhile.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

use crate::extent::{HANG_LIMIT, policies};
use crate::tasks;
use frazil::Cache;

/// User code that the cache calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Hash,
    Eq,
    /// Of a key.
    Copy,
    /// Of a value.
    Clone,
}

type Plan = VecDeque<(Call, Box<dyn FnOnce()>)>;

thread_local! {
    /// What to do at the next call of that kind on this thread, and then at the next.
    static PLAN: RefCell<Plan> = const { RefCell::new(VecDeque::new()) };
}

fn called(call: Call) {
    let act = PLAN.with_borrow_mut(|plan| {
        let is_next = plan.front().is_some_and(|(next, _)| *next == call);
        is_next.then(|| plan.pop_front()).flatten()
    });
    if let Some((_, act)) = act {
        act();
    }
}

fn plan(call: Call, act: impl FnOnce() + 'static) {
    PLAN.with_borrow_mut(|plan| plan.push_back((call, Box::new(act))));
}

struct Key(u64);

impl Clone for Key {
    fn clone(&self) -> Key {
        called(Call::Copy);
        Key(self.0)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        called(Call::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        called(Call::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

#[derive(Debug, PartialEq)]
struct Value(&'static str);

impl Clone for Value {
    fn clone(&self) -> Value {
        called(Call::Clone);
        Value(self.0)
    }
}

type Tested = Cache<Key, Value>;

/// A signal with which two threads continue one after the other.
fn steps() -> (Sender<()>, Receiver<()>) {
    channel()
}

fn wait(step: &Receiver<()>) {
    step.recv_timeout(HANG_LIMIT).expect("the other goes on");
}

/// A removal, and its call of user code after it has looked for loads and before it removes the
/// entry.
type Removal = (&'static str, Call, fn(&Tested));

const REMOVALS: [Removal; 5] = [
    ("invalidate", Call::Eq, |cache| assert!(cache.invalidate(&Key(1)))),
    ("remove", Call::Eq, |cache| assert!(cache.remove(&Key(1)).is_some())),
    ("clear", Call::Hash, Cache::clear),
    ("retain", Call::Hash, |cache| cache.retain(|_, _| false)),
    ("insert", Call::Eq, |cache| cache.insert(Key(1), Value("new"))),
];

#[test]
fn who_asks_after_a_removal_does_not_get_what_was_removed() {
    for policy in policies() {
        for removal in REMOVALS {
            let what = format!("{policy}, {}", removal.0);
            let cache = Cache::builder(100).policy(policy).build();
            assert_eq!(asked_after(&cache, removal), Value("new"), "{what}");
            assert_eq!(cache.get(&Key(1)), Some(Value("new")), "{what}");
            assert_eq!(cache.flights(), 0, "{what}");
        }
    }
}

/// A loader that has missed finds, when it is about to load, the entry being removed, and clones it
/// slowly. Returns what requests get meanwhile, after the removal.
fn asked_after(cache: &Tested, (_, call, remove): Removal) -> Value {
    let (missed, misses) = steps();
    let (go, goes) = steps();
    let (cloning, clones) = steps();
    let (release, released) = steps();
    std::thread::scope(|scope| {
        let loader = scope.spawn(move || {
            // For the flight that it is about to begin.
            plan(Call::Copy, move || {
                missed.send(()).unwrap();
                wait(&goes);
            });
            plan(Call::Clone, move || {
                cloning.send(()).unwrap();
                wait(&released);
            });
            cache.get_or_insert_with(&Key(1), || Value("loaded by the first"))
        });
        wait(&misses);
        cache.insert(Key(1), Value("old"));
        plan(call, move || {
            go.send(()).unwrap();
            wait(&clones);
        });
        remove(cache);
        PLAN.with_borrow(|plan| assert!(plan.is_empty(), "not called as planned"));
        let mut asked = Box::pin(cache.get_or_insert_async(&Key(1), async { Value("new") }));
        let at_once = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        release.send(()).unwrap();
        let value = match at_once {
            Poll::Ready(value) => value,
            Poll::Pending => tasks::block_on(asked),
        };
        // It had requested the key before the removal returned.
        assert_eq!(loader.join().unwrap(), Value("old"));
        value
    })
}

/// A value being loaded when a removal begins is as old as the removed one. Requests after the
/// removal do not get it, whether the key was present or not.
#[test]
fn who_asks_after_a_removal_does_not_get_what_was_being_loaded() {
    type Remove = fn(&Tested);
    let removals: [(&str, Remove); 6] = [
        ("invalidate", |cache| _ = cache.invalidate(&Key(1))),
        ("remove", |cache| _ = cache.remove(&Key(1))),
        ("clear", Cache::clear),
        ("invalidate_all", Cache::invalidate_all),
        ("retain", |cache| cache.retain(|key, _| key.0 != 1)),
        ("retain nothing", |cache| cache.retain(|_, _| false)),
    ];
    for policy in policies() {
        for (what, remove) in removals {
            let cache: Tested = Cache::builder(100).policy(policy).build();
            let arrives = tasks::Signal::default();
            let mut loads = Box::pin(cache.get_or_insert_async(&Key(1), async {
                arrives.given().await;
                Value("old")
            }));
            assert!(loads.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            remove(&cache);
            let mut asks = Box::pin(cache.get_or_insert_async(&Key(1), async { Value("new") }));
            let asked = asks.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(asked, Poll::Ready(Value("new")), "{policy}, {what}");
            arrives.give();
            assert_eq!(tasks::block_on(loads), Value("old"), "{policy}, {what}");
            assert_eq!(cache.get(&Key(1)), Some(Value("new")), "{policy}, {what}");
        }
    }
}
