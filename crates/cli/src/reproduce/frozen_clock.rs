//! A cache whose clock only its requests move, so that its controller measures and does the same in
//! every run.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use frazil::{Builder, Cache, Freezing, Policy, Stats};
use frazil_driver::Simulated;

use crate::failure::Failure;

/// Nanoseconds of a request: a frozen hit, another hit, and a miss with the insertion of its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) frozen_ns: u64,
    pub(super) dynamic_ns: u64,
    pub(super) miss_ns: u64,
}

impl Costs {
    /// Time of the requests that a cache has counted.
    fn time(&self, stats: &Stats) -> Duration {
        let dynamic = stats.hits - stats.frozen_hits;
        Duration::from_nanos(
            stats.frozen_hits * self.frozen_ns
                + dynamic * self.dynamic_ns
                + stats.misses * self.miss_ns,
        )
    }
}

type Asked = Cache<u64, u64, Simulated>;

/// A cache with one thread.
pub(super) struct Bench<'a> {
    pub(super) cache: Arc<Asked>,
    costs: Costs,
    keys: Box<dyn Iterator<Item = u64> + 'a>,
    asked: u64,
    stepped: Duration,
    /// Time until the next step of the controller; `None` without it.
    idle: Option<Duration>,
}

/// Requests between two checks whether the controller is due: a check sums the counts of all
/// threads.
const LOOK: u64 = 16;

impl<'a> Bench<'a> {
    /// A cache of a policy by name, and its requests, which end with the keys.
    pub(super) fn new(
        policy: &str,
        freezing: Freezing,
        capacity: u64,
        costs: Costs,
        keys: impl Iterator<Item = u64> + 'a,
    ) -> Result<Self, Failure> {
        let counted = Arc::new(OnceLock::<Weak<Asked>>::new());
        let told = Arc::clone(&counted);
        let now = move || {
            let cache = told.get().and_then(Weak::upgrade);
            cache.map_or(Duration::ZERO, |cache| costs.time(&cache.stats()))
        };
        let policy: Policy = policy.parse().map_err(Failure::usage)?;
        let builder: Builder<u64, u64> = Cache::builder(capacity).policy(policy);
        let builder = builder.clock(now).freezing(freezing);
        let cache = Arc::new(builder.with_hasher(Simulated::default()).build());
        counted.get_or_init(|| Arc::downgrade(&cache));
        let idle = (freezing == Freezing::Learned).then_some(Duration::ZERO);
        let (keys, stepped) = (Box::new(keys), Duration::ZERO);
        Ok(Bench { cache, costs, keys, asked: 0, stepped, idle })
    }

    /// The time on the cache's clock.
    pub(super) fn now(&self) -> Duration {
        self.costs.time(&self.cache.stats())
    }

    /// Stops the controller.
    pub(super) fn control_no_more(&mut self) {
        self.idle = None;
    }

    /// Makes `requests` requests. Returns the shares of frozen hits, and of misses.
    pub(super) fn ask(&mut self, requests: u64) -> [f64; 2] {
        let before = self.cache.stats();
        for _ in 0..requests {
            self.request();
        }
        let now = self.cache.stats();
        let frozen = (now.frozen_hits - before.frozen_hits) as f64;
        let misses = (now.misses - before.misses) as f64;
        [frozen, misses].map(|count| count / requests.max(1) as f64)
    }

    /// A request, and a step of the controller if one is due.
    pub(super) fn request(&mut self) {
        let Some(key) = self.keys.next() else { return };
        if self.cache.get(&key).is_none() {
            self.cache.insert(key, key);
        }
        self.asked += 1;
        let Some(idle) = self.idle.filter(|_| self.asked.is_multiple_of(LOOK)) else { return };
        let now = self.now();
        if now - self.stepped >= idle {
            self.stepped = now;
            self.idle = Some(self.cache.step_freezing(now));
        }
    }
}
