//! What a policy that weighs delay learns of fetches: it keeps slow keys, and evicts as the
//! simulator does. The test moves the clock.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use frazil::{Builder, Cache, FetchError};
use frazil_driver::Simulated;
use frazil_policy::{Rng, object_hash};
use frazil_simulator::trace::Trace;
use frazil_simulator::{
    Backends, CellSpec, FetchLatency, Fetching, HASH_SEED, ReplayClock, SweepOptions, sweep_delayed,
};

/// The unit of time that the cache passes to policies.
const TICK_NS: u64 = 1 << 10;

/// A clock that the test moves.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn cache<S>(&self, builder: Builder<u64, u64, S>) -> Builder<u64, u64, S> {
        let time = self.clone();
        builder.clock(move || Duration::from_nanos(time.0.load(Relaxed) * TICK_NS))
    }

    fn wait(&self, ticks: u64) {
        self.0.fetch_add(ticks, Relaxed);
    }
}

/// Fetches keys, each with its duration, and returns those that the cache still has.
fn survivors(policy: &str, backends: bool, fetches: &[(u64, u64)]) -> Vec<u64> {
    let time = TestClock::default();
    let mut builder = Cache::builder(10).policy(policy.parse().unwrap());
    if backends {
        builder = builder.backends(|key: &u64| (key / 100) as u8);
    }
    let cache = time.cache(builder).build();
    for &(key, ticks) in fetches {
        time.wait(1);
        let fetched = cache.get_or_fetch_blocking(&key, || {
            time.wait(ticks);
            Ok::<_, ()>(key)
        });
        assert_eq!(fetched, Ok(key));
    }
    let mut keys: Vec<u64> = cache.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn what_takes_long_to_fetch_stays() {
    let slow = (100..105).map(|key| (key, 10_000));
    let fast = (200..220).map(|key| (key, 10));
    let fetches: Vec<_> = slow.chain(fast).collect();
    assert_eq!(survivors("lru", false, &fetches), (210..220).collect::<Vec<_>>());
    let kept: Vec<u64> = (100..105).chain(215..220).collect();
    assert_eq!(survivors("mad", false, &fetches), kept);
    assert_eq!(survivors("mad:sample=64", false, &fetches), kept);
}

#[test]
fn what_takes_long_is_learned_by_backend_if_there_are_backends() {
    let fetches: Vec<_> = (100..104)
        .map(|key| (key, 10_000))
        // This fetch takes no time.
        .chain([(104, 10)])
        .chain((200..220).map(|key| (key, 10)))
        .collect();
    let by_object: Vec<u64> = (100..104).chain(214..220).collect();
    assert_eq!(survivors("mad", false, &fetches), by_object);
    let by_backend: Vec<u64> = (100..105).chain(215..220).collect();
    assert_eq!(survivors("mad", true, &fetches), by_backend);
}

#[test]
fn those_who_wait_make_a_key_worth_keeping() {
    let time = TestClock::default();
    let cache = time.cache(Cache::builder(4).policy("mad".parse().unwrap())).build();
    let context = &mut Context::from_waker(Waker::noop());
    for key in 0..4 {
        let done = Cell::new(false);
        let fetch = || async {
            poll_fn(|_| if done.get() { Poll::Ready(Ok::<_, ()>(key)) } else { Poll::Pending })
                .await
        };
        // Three callers wait for the second key.
        let callers = if key == 1 { 4 } else { 1 };
        let mut calls: Vec<_> =
            (0..callers).map(|_| Box::pin(cache.get_or_fetch(&key, fetch()))).collect();
        for call in &mut calls {
            assert!(call.as_mut().poll(context).is_pending());
            time.wait(10);
        }
        time.wait(60);
        done.set(true);
        for call in &mut calls {
            assert_eq!(call.as_mut().poll(context), Poll::Ready(Ok(key)));
        }
    }
    for key in 4..7 {
        time.wait(1);
        let fetch = || {
            time.wait(100);
            Ok::<_, ()>(key)
        };
        assert_eq!(cache.get_or_fetch_blocking(&key, fetch), Ok(key));
    }
    assert!(cache.contains_key(&1), "LRU would have evicted it");
    assert!(!cache.contains_key(&0) && !cache.contains_key(&2) && !cache.contains_key(&3));
}

/// Requests, delayed hits among them, and the sum of their waits.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    hits: u64,
    delayed_hits: u64,
    misses: u64,
    latency: u64,
}

const LATENCIES: [u64; 2] = [30, 400];

/// Replays keys, one a tick, through a cache whose fetches take as long as the simulator's.
fn replay(policy: &str, capacity: u64, keys: &[u64]) -> Seen {
    type Call<'c> = Pin<Box<dyn Future<Output = Result<u64, FetchError<()>>> + 'c>>;
    let time = TestClock::default();
    let builder = Cache::builder(capacity).policy(policy.parse().unwrap());
    let cache = time.cache(builder.with_hasher(Simulated::default())).build();
    let context = &mut Context::from_waker(Waker::noop());
    let mut seen = Seen::default();
    // By the time of their end; of several the first to start.
    let mut flights: BTreeMap<(u64, usize), Vec<Call<'_>>> = BTreeMap::new();
    let mut by_key: HashMap<u64, (u64, usize)> = HashMap::new();
    for (number, key) in keys.iter().enumerate() {
        time.wait(1);
        let now = time.0.load(Relaxed);
        while let Some((at, calls)) =
            flights.first_entry().filter(|it| it.key().0 <= now).map(|it| it.remove_entry())
        {
            for mut call in calls {
                let Poll::Ready(Ok(key)) = call.as_mut().poll(context) else {
                    panic!("it is back at {at:?}")
                };
                by_key.remove(&key);
            }
        }
        let hash = u128::from(object_hash(*key, HASH_SEED));
        let took = LATENCIES[((hash * LATENCIES.len() as u128) >> 64) as usize];
        let begun = std::rc::Rc::new(Cell::new(false));
        let (time, asked) = (&time, begun.clone());
        let fetch = async move {
            asked.set(true);
            poll_fn(|_| match time.0.load(Relaxed) >= now + took {
                true => Poll::Ready(Ok::<_, ()>(*key)),
                false => Poll::Pending,
            })
            .await
        };
        let mut call: Call<'_> = Box::pin(cache.get_or_fetch(key, fetch));
        if call.as_mut().poll(context).is_ready() {
            seen.hits += 1;
            continue;
        }
        if begun.get() {
            seen.misses += 1;
            by_key.insert(*key, (now + took, number));
        } else {
            seen.delayed_hits += 1;
        }
        let flight = by_key[key];
        seen.latency += flight.0 - now;
        flights.entry(flight).or_default().push(call);
    }
    seen
}

const OBJECTS: u64 = 2_000;

/// Keys, some of them in bursts, with others between.
fn bursts() -> Vec<u64> {
    let mut rng = Rng::new(7);
    let mut keys = Vec::new();
    while keys.len() < 40_000 {
        let key = (OBJECTS as f64).powf(rng.unit()) as u64;
        let burst = if key.is_multiple_of(5) { 8 } else { 1 };
        for _ in 0..burst {
            keys.push(key);
            keys.extend((rng.unit() < 0.5).then(|| (OBJECTS as f64).powf(rng.unit()) as u64));
        }
    }
    keys
}

/// The guarded policy waits less than LRU where MAD does, and not longer where MAD waits longer.
#[test]
fn who_guards_mad_hears_of_fetches() {
    let latency = |policy, keys: &[u64]| replay(policy, 20, keys).latency as f64;
    let [bursts, turns] = [bursts(), (0..40_000).map(|number| number % 410).collect()];
    let over_lru = |policy, keys: &[u64]| latency(policy, keys) / latency("lru", keys);
    let guarded = [over_lru("guarded-mad", &bursts), over_lru("guarded-mad", &turns)];
    let mad = [over_lru("mad", &bursts), over_lru("mad", &turns)];
    println!("guarded {guarded:.4?} of LRU's, MAD {mad:.4?}");
    // Without knowledge of fetches it would have 0.78.
    assert!(mad[0] < 0.7 && guarded[0] < 0.7, "{mad:?} {guarded:?}");
    assert!(mad[1] > 1.05 && guarded[1] <= 1.0, "{mad:?} {guarded:?}");
}

#[test]
fn the_cache_evicts_what_the_simulator_does() {
    let keys = bursts();
    let trace = Trace {
        ids: keys.iter().map(|&key| key as u32).collect(),
        objects: (0..OBJECTS).collect(),
        ..Trace::default()
    };
    let latency = FetchLatency::Keyed(Backends::new(&LATENCIES).unwrap());
    let fetching = Fetching::new(&trace, latency, ReplayClock::Request).unwrap();
    for policy in ["lru", "mad", "mad:prior=1"] {
        for capacity in [20, 200] {
            let cell = CellSpec { policy: policy.parse().unwrap(), capacity };
            let outcomes =
                sweep_delayed(&trace, &[cell], &SweepOptions::default(), &fetching, &|_| ());
            let outcome = &outcomes[0];
            let simulated = Seen {
                hits: outcome.hits,
                delayed_hits: outcome.delayed_hits,
                misses: outcome.misses(),
                latency: outcome.latency.unwrap().total,
            };
            assert_eq!(replay(policy, capacity, &keys), simulated, "{policy}, {capacity}");
        }
    }
}
