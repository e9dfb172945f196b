//! One load for each key: who loads, who waits, what is stored, and that nothing is left in the
//! table of flights, however a loader ends.

use crate::extent::{HANG_LIMIT, policies, turns};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::fused::{DROP_BURNS, FUSE, Fused, Planned, burn, quietly};
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Policy};

/// A task that is polled by hand, and knows whether it was woken.
struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl<'f, T> Task<'f, T> {
    fn new(future: impl Future<Output = T> + 'f) -> Self {
        Task { future: Box::pin(future), woken: Arc::default() }
    }

    fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> u64 {
        self.woken.0.load(Relaxed)
    }
}

type Small = Cache<u64, u64>;

fn small() -> Small {
    Cache::builder(100).build()
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn many_threads_that_ask_for_one_key_load_it_once() {
    const THREADS: u64 = if cfg!(miri) { 4 } else { 64 };
    for turn in 0..if cfg!(miri) { 1 } else { 20 } {
        let cache = small();
        let (together, loads) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, together, loads) = (&cache, &together, &loads);
                let load = move || {
                    std::thread::yield_now();
                    loads.fetch_add(1, Relaxed) + 7
                };
                scope.spawn(move || {
                    together.wait();
                    let value = if (thread + turn) % 2 == 0 {
                        cache.get_or_insert_with(&1, load)
                    } else {
                        block_on(cache.get_or_insert_async(&1, async { load() }))
                    };
                    assert_eq!(value, 7);
                });
            }
        });
        let stats = cache.stats();
        assert_eq!((loads.into_inner(), stats.loads, stats.misses), (1, 1, 1));
        assert_eq!(stats.hits + stats.delayed_hits + stats.misses, THREADS);
        assert_eq!((cache.flights(), cache.get(&1)), (0, Some(7)));
    }
}

#[test]
fn those_who_wait_get_the_value_even_if_the_cache_refuses_it() {
    let cache: Small = Cache::builder(10).weigher(|_, _| 11).build();
    let (sender, receiver) = mpsc::channel();
    let mut first = Task::new(cache.get_or_insert_async(&1, async {
        poll_fn(|_| receiver.try_recv().map_or(Poll::Pending, Poll::Ready)).await
    }));
    let mut others: Vec<_> = (0..3)
        .map(|_| Task::new(cache.get_or_insert_async(&1, async { unreachable!("a second load") })))
        .collect();
    assert_eq!(first.poll(), Poll::Pending);
    assert!(others.iter_mut().all(|task| task.poll().is_pending()));
    assert_eq!(cache.flights(), 1);
    sender.send(5).unwrap();
    assert_eq!(first.poll(), Poll::Ready(5));
    for task in &mut others {
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll(), Poll::Ready(5));
    }
    drop((first, others));
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.delayed_hits, stats.hits), (1, 3, 0));
    assert_eq!((stats.loads, stats.refusals), (1, 1));
    assert_eq!((cache.flights(), cache.len()), (0, 0));
}

#[test]
fn an_error_is_its_callers_and_the_next_loads() {
    let cache = small();
    let broken = Cell::new(false);
    let mut first = Task::new(cache.try_get_or_insert_async(&1, async {
        poll_fn(|_| if broken.get() { Poll::Ready(()) } else { Poll::Pending }).await;
        Err("broken")
    }));
    let mut second = Task::new(cache.try_get_or_insert_async(&1, async { Err("again") }));
    let mut third = Task::new(cache.try_get_or_insert_async(&1, async { Ok::<_, &str>(3) }));
    let mut fourth = Task::new(cache.try_get_or_insert_async(&1, async { Ok::<_, &str>(4) }));
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    assert!(fourth.poll().is_pending());
    broken.set(true);
    assert_eq!(first.poll(), Poll::Ready(Err("broken")));
    // One waiter is woken, not all.
    assert_eq!((second.wakes(), third.wakes(), fourth.wakes()), (1, 0, 0));
    assert_eq!(second.poll(), Poll::Ready(Err("again")));
    assert_eq!((third.wakes(), fourth.wakes()), (1, 0));
    assert_eq!(third.poll(), Poll::Ready(Ok(3)));
    assert_eq!(fourth.wakes(), 1);
    assert_eq!(fourth.poll(), Poll::Ready(Ok(3)));
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.load_failures), (1, 2));
    assert_eq!((stats.misses, stats.delayed_hits), (3, 1));
    assert_eq!(cache.flights(), 0);
}

#[test]
fn a_cancelled_loader_wakes_the_next_and_a_cancelled_waiter_passes_it_on() {
    let cache = small();
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, async { 2 }));
    let mut third = Task::new(cache.get_or_insert_async(&1, async { 3 }));
    let mut fourth = Task::new(cache.get_or_insert_async(&1, async { 4 }));
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    assert!(fourth.poll().is_pending());
    // A waiter that was not called leaves without waking anyone.
    drop(fourth);
    drop(first);
    assert_eq!((second.wakes(), third.wakes()), (1, 0));
    drop(second);
    assert_eq!(third.wakes(), 1);
    assert_eq!(third.poll(), Poll::Ready(3));
    assert_eq!((cache.flights(), cache.get(&1)), (0, Some(3)));
    assert_eq!(cache.stats().load_failures, 1);
}

#[test]
fn nothing_is_left_when_all_are_cancelled() {
    let cache = small();
    for orders in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let mut tasks: Vec<_> =
            (0..3).map(|_| Some(Task::new(cache.get_or_insert_async(&1, pending())))).collect();
        tasks.iter_mut().flatten().for_each(|task| assert!(task.poll().is_pending()));
        assert_eq!(cache.flights(), 1);
        for task in orders {
            tasks[task] = None;
        }
        assert_eq!(cache.flights(), 0);
    }
    // A new caller may take a vacant flight before the woken waiter.
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, async { 2 }));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    drop(first);
    assert_eq!(cache.get_or_insert_with(&1, || 9), 9);
    assert_eq!(second.poll(), Poll::Ready(9));
    assert_eq!(cache.flights(), 0);
}

#[test]
fn one_is_woken_at_a_time() {
    let cache = small();
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut third = Task::new(cache.get_or_insert_async(&1, async { 3 }));
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    drop(first);
    // Takes the turn before the second has come, and leaves it again.
    let mut newcomer = Task::new(cache.get_or_insert_async(&1, pending()));
    assert!(newcomer.poll().is_pending());
    drop(newcomer);
    assert_eq!((second.wakes(), third.wakes()), (1, 0));
    drop(second);
    assert_eq!((third.wakes(), third.poll()), (1, Poll::Ready(3)));
    assert_eq!(cache.flights(), 0);
}

/// A waker that does something when the last of it is dropped.
struct Parting(Box<dyn Fn() + Send + Sync>);

impl Wake for Parting {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Parting {
    fn drop(&mut self) {
        self.0();
    }
}

#[test]
fn one_that_leaves_does_not_give_away_the_turn_of_another() {
    let cache = Arc::new(small());
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, async { 2 }));
    let shared = Arc::clone(&cache);
    let newcomer = async move { shared.get_or_insert_async(&1, pending()).await };
    let newcomer = Arc::new(Mutex::new(Box::pin(newcomer)));
    let other = Arc::clone(&newcomer);
    // The new caller takes the turn while the third leaves a flight that it found vacant.
    let parting = Parting(Box::new(move || {
        let polled = other.lock().unwrap().as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }));
    let mut third = Box::pin(cache.get_or_insert_async(&1, async { 3 }));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    let waker = Waker::from(Arc::new(parting));
    assert!(third.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    drop(first);
    drop(third);
    assert_eq!(cache.flights(), 1);
    assert!(second.poll().is_pending(), "two have the turn");
    drop(newcomer);
    assert_eq!(second.poll(), Poll::Ready(2));
    assert_eq!(cache.flights(), 0);
}

#[test]
fn a_panic_is_its_callers_and_the_next_loads() {
    const THREADS: u64 = 8;
    quietly();
    for failing in 0..=THREADS {
        let cache = small();
        let (together, loads) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
        let panics = AtomicU64::new(0);
        let load = || {
            let number = loads.fetch_add(1, Relaxed);
            if number < failing { panic_any(Planned) } else { number }
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    match catch_unwind(AssertUnwindSafe(|| cache.get_or_insert_with(&1, load))) {
                        Ok(value) => assert_eq!(value, failing),
                        Err(_) => _ = panics.fetch_add(1, Relaxed),
                    }
                });
            }
        });
        assert_eq!(panics.into_inner(), failing);
        assert_eq!(loads.load(Relaxed), (failing + 1).min(THREADS));
        assert_eq!(cache.stats().load_failures, failing);
        assert_eq!(cache.flights(), 0);
    }
}

#[test]
fn a_write_overtakes_a_load() {
    type Write = fn(&Small);
    let writes: [(Write, Option<u64>); 5] = [
        (|cache| _ = cache.invalidate(&1), None),
        (|cache| _ = cache.remove(&1), None),
        (|cache| cache.clear(), None),
        (|cache| cache.insert(1, 20), Some(20)),
        (|cache| _ = cache.invalidate(&2), Some(10)),
    ];
    for (write, left) in writes {
        let cache = small();
        let (reached, goes_on) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let loader = scope.spawn(|| {
                cache.get_or_insert_with(&1, || {
                    reached.wait();
                    goes_on.wait();
                    10
                })
            });
            reached.wait();
            let mut before = Task::new(cache.get_or_insert_async(&1, async { unreachable!() }));
            assert!(before.poll().is_pending());
            write(&cache);
            let mut after = Task::new(cache.get_or_insert_async(&1, async { 30 }));
            // Neither waits for the stale value nor gets it.
            match left {
                Some(10) => assert!(after.poll().is_pending()),
                left => assert_eq!(after.poll(), Poll::Ready(left.unwrap_or(30))),
            }
            goes_on.wait();
            assert_eq!(loader.join().unwrap(), 10);
            assert_eq!(before.poll(), Poll::Ready(10));
        });
        assert_eq!(cache.get(&1), Some(left.unwrap_or(30)));
        assert_eq!(cache.flights(), 0);
    }
}

#[test]
fn an_overtaken_load_that_fails_lets_all_start_anew() {
    let cache = small();
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, async { 2 }));
    let mut third = Task::new(cache.get_or_insert_async(&1, async { unreachable!() }));
    assert!(first.poll().is_pending() && second.poll().is_pending() && third.poll().is_pending());
    cache.invalidate(&1);
    assert_eq!(cache.flights(), 0);
    drop(first);
    assert_eq!((second.wakes(), third.wakes()), (1, 1));
    assert_eq!(second.poll(), Poll::Ready(2));
    assert_eq!(third.poll(), Poll::Ready(2));
    assert_eq!((cache.get(&1), cache.flights()), (Some(2), 0));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.delayed_hits, stats.misses), (2, 0, 2));
}

#[test]
fn a_write_between_a_failure_and_its_heir_lets_that_start_anew() {
    let cache = small();
    let mut first = Task::new(cache.get_or_insert_async(&1, pending()));
    let mut second = Task::new(cache.get_or_insert_async(&1, async { unreachable!() }));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    drop(first);
    cache.insert(1, 5);
    assert_eq!(cache.flights(), 0);
    assert_eq!(second.poll(), Poll::Ready(5));
}

#[test]
fn a_loader_may_use_its_own_key() {
    let cache = small();
    let nested = cache.get_or_insert_with(&1, || cache.get_or_insert_with(&1, || 5) + 1);
    assert_eq!((nested, cache.get(&1)), (6, Some(6)));
    let inserted = cache.get_or_insert_with(&2, || {
        cache.insert(2, 20);
        21
    });
    assert_eq!((inserted, cache.get(&2)), (21, Some(20)));
    let removed = cache.get_or_insert_with(&3, || {
        cache.invalidate(&3);
        cache.clear();
        31
    });
    assert_eq!((removed, cache.get(&3)), (31, None));
    let nested = block_on(cache.get_or_insert_async(&4, async {
        cache.get_or_insert_async(&4, async { 40 }).await
            + cache.get_or_insert_with(&4, || 1)
            + cache.entry(5).or_insert_with(|| cache.get_or_insert_with(&4, || 0))
    }));
    assert_eq!((nested, cache.get(&4)), (41, Some(41)));
    assert_eq!(cache.flights(), 0);
}

type Act = Rc<dyn Fn()>;

thread_local! {
    /// What to do when the key with this number is hashed next.
    static ON_HASH: RefCell<Option<(u64, Act)>> = const { RefCell::new(None) };
}

/// A key whose hash runs `ON_HASH`.
#[derive(Clone, PartialEq, Eq)]
struct Busy(u64);

impl Hash for Busy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let act = ON_HASH.with_borrow_mut(|planned| {
            planned.take_if(|(number, _)| *number == self.0).map(|(_, act)| act)
        });
        if let Some(act) = act {
            act();
        }
        self.0.hash(state);
    }
}

/// The hash of the victim evicted for a loaded value runs on the storing thread.
#[test]
fn what_is_written_while_a_load_is_stored_outlasts_it() {
    let acts: [fn(&Cache<Busy, u64>); 4] = [
        |cache| _ = cache.invalidate(&Busy(9)),
        |cache| cache.insert(Busy(9), 90),
        |cache| cache.clear(),
        // Would wait for the same flight that is being stored.
        |cache| assert_eq!(cache.get_or_insert_with(&Busy(9), || 99), 99),
    ];
    for policy in [Policy::Fifo, Policy::Clock { bits: 1 }, Policy::Mobius] {
        for (number, act) in acts.into_iter().enumerate() {
            let cache: Rc<Cache<Busy, u64>> = Rc::new(Cache::builder(3).policy(policy).build());
            (0..3).for_each(|key| cache.insert(Busy(key), key));
            let inner = Rc::clone(&cache);
            ON_HASH.set(Some((0, Rc::new(move || act(&inner)))));
            assert_eq!(cache.get_or_insert_with(&Busy(9), || 10), 10);
            assert!(ON_HASH.take().is_none(), "{policy}: no victim was hashed");
            let left = cache.get(&Busy(9));
            let stale = number < 3 && left == Some(10);
            assert!(!stale, "{policy}, {number}: stored though it was overtaken");
            assert_eq!(cache.flights(), 0);
            let mut cache = Rc::into_inner(cache).expect("nobody else has it");
            cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
        }
    }
}

/// The hash of a victim panics while another thread waits for the store to be over.
#[test]
fn a_store_that_panics_holds_up_no_writer() {
    quietly();
    let cache: Arc<Cache<Busy, u64>> = Arc::new(Cache::builder(3).policy(Policy::Fifo).build());
    (0..3).for_each(|key| cache.insert(Busy(key), key));
    let (storing, stores) = mpsc::channel();
    let (ended, end) = mpsc::channel();
    let other = Arc::clone(&cache);
    std::thread::spawn(move || {
        stores.recv().unwrap();
        other.invalidate(&Busy(9));
        ended.send(()).unwrap();
    });
    let act: Act = Rc::new(move || {
        storing.send(()).unwrap();
        // Until it waits, most probably; before that it has nothing to wait for.
        std::thread::sleep(Duration::from_millis(50));
        panic_any(Planned);
    });
    ON_HASH.set(Some((0, act)));
    let outcome = catch_unwind(AssertUnwindSafe(|| cache.get_or_insert_with(&Busy(9), || 10)));
    assert!(outcome.is_err());
    assert_eq!(end.recv_timeout(HANG_LIMIT), Ok(()), "it waits for ever");
    assert_eq!((cache.flights(), cache.get(&Busy(9))), (0, None));
}

#[test]
fn futures_and_caches_may_be_sent() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let cache = small();
    assert_eq!(block_on(sent(cache.get_or_insert_async(&1, async { 2 }))), 2);
    // Values that can be sent but not shared make a cache that can be sent but not shared.
    let cache: Cache<u64, Cell<u64>> = sent(Cache::builder(10).build());
    assert_eq!(cache.get_or_insert_with(&1, || Cell::new(3)).get(), 3);
}

/// Sources that change and fail, with every operation on few keys. No caller gets a value that was
/// stale when it asked.
#[test]
fn no_load_brings_back_what_was_out_of_date() {
    const KEYS: u64 = 5;
    let turn_count = if cfg!(miri) { 20 } else { turns(30_000) };
    quietly();
    let counts = || -> Vec<AtomicU64> { (0..KEYS).map(|_| AtomicU64::new(0)).collect() };
    for capacity in [2, 100] {
        let cache: Small = Cache::builder(capacity).build();
        // By key: the source's value, and its value when a write to the cache was over.
        let (source, known) = (counts(), counts());
        let read = |key: u64| source[key as usize].load(SeqCst);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, source, known, read) = (&cache, &source, &known, &read);
                scope.spawn(move || {
                    let mut chance = Chance(thread);
                    for _ in 0..turn_count {
                        let key = chance.below(KEYS);
                        let oldest = known[key as usize].load(SeqCst);
                        let fails = chance.below(4);
                        let load = move || match fails {
                            0 => Err(()),
                            1 => panic_any(Planned),
                            _ => Ok(read(key)),
                        };
                        let value = match chance.below(8) {
                            0 => {
                                let new = source[key as usize].fetch_add(1, SeqCst) + 1;
                                cache.invalidate(&key);
                                known[key as usize].fetch_max(new, SeqCst);
                                continue;
                            }
                            1 => cache.get(&key),
                            2..5 => {
                                let load = async { load() };
                                let task = cache.try_get_or_insert_async(&key, load);
                                catch_unwind(AssertUnwindSafe(|| block_on(task)))
                                    .ok()
                                    .and_then(Result::ok)
                            }
                            5 => {
                                let mut task =
                                    Task::new(cache.get_or_insert_async(&key, pending()));
                                let _ = task.poll();
                                std::thread::yield_now();
                                None
                            }
                            _ => {
                                let load = || cache.try_get_or_insert_with(&key, load);
                                catch_unwind(AssertUnwindSafe(load)).ok().and_then(Result::ok)
                            }
                        };
                        assert!(value.is_none_or(|value| value >= oldest), "{value:?} < {oldest}");
                    }
                });
            }
        });
        let stats = cache.stats();
        assert!(stats.loads > 0 && stats.load_failures > 0);
        assert_eq!(cache.flights(), 0);
    }
}

/// Counted values, through loads, computations and panics of all user code.
#[test]
fn panics_anywhere_leave_nothing_behind() {
    quietly();
    for policy in policies() {
        for in_drop in [false, true] {
            panic_in(policy, in_drop);
        }
    }
}

fn panic_in(policy: Policy, in_drop: bool) {
    let turn_count = if cfg!(miri) { 60 } else { turns(20_000) };
    DROP_BURNS.set(in_drop);
    let census = Census::default();
    let mut cache: Cache<Fused<'_>, Fused<'_>> = Cache::builder(40)
        .policy(policy)
        .entries(8)
        .weigher(|_, value: &Fused<'_>| {
            burn();
            value.0.key % 5
        })
        .build();
    let new = |number| Fused(Tracked::new(&census, number));
    let (mut chance, mut panics) = (Chance(1), 0);
    for turn in 0..turn_count {
        let number = chance.below(20);
        let answer = chance.below(4);
        FUSE.set(chance.below(16));
        let outcome = catch_unwind(AssertUnwindSafe(|| match chance.below(4) {
            0 => cache.insert(new(number), new(1)),
            1 => {
                cache.entry(new(number)).and_compute(|old| {
                    burn();
                    match answer {
                        0 => frazil::Compute::Remove,
                        1 => frazil::Compute::Keep,
                        _ => frazil::Compute::Put(new(old.map_or(0, |old| old.0.key + 1))),
                    }
                });
            }
            _ => drop(cache.get_or_insert_with(&new(number), || {
                burn();
                new(number)
            })),
        }));
        FUSE.set(0);
        panics += u64::from(outcome.is_err());
        assert_eq!(cache.flights(), 0, "{policy}, turn {turn}");
        if turn % 64 == 0 {
            cache.validate().unwrap_or_else(|found| panic!("{policy}, turn {turn}:\n{found}"));
        }
    }
    assert!(panics > turn_count / 10, "{panics}");
    drop(cache);
    // A function whose local variable panics when it is dropped forgets its return value, because
    // of the compiler.
    assert!(census.living() == 0 || in_drop && census.living() > 0, "{policy}");
}
