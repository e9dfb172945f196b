//! How many requests bypass the cache while its lock limits it (paper 1, §5.2).
//!
//! The paper sends some requests to the backend "when cache load is high", and says neither when
//! that is nor how many. Here load is the number of waits for the policy's lock by request to the
//! cache. While it is above [`CROWDED`], the share that bypasses grows by a step at each look.
//! Otherwise it shrinks by a step, or to nothing if the previous look was long ago. A hit that
//! skips the policy if the lock is taken does not wait: with such promotions only misses can crowd
//! the lock.
//!
//! A look also bounds the share, so that misses and bypasses among the requests since the previous
//! look would together have been what the backend can serve. So the limit lags the requests by one
//! look: it bounds their mean and no burst.
//!
//! One share for all threads. A thread looks after [`STRIDE`] requests, at most every [`LOOK_NS`];
//! a look adds up the counts of all threads. Bypassing requests are spread evenly: the multiples of
//! the golden ratio, modulo 1, that lie below the share.

use std::hash::{BuildHasher, Hash};

use crate::core::Core;
use crate::core::hooks::Hooks;
use crate::core::local::Reads;
use crate::smr::stripe::add;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Requests of a thread between two looks; a power of two.
const STRIDE: u64 = 256;
/// Nanoseconds between two looks.
const LOOK_NS: u64 = 200_000;
/// Waits for a lock per request to the cache, from which on the lock limits the cache.
const CROWDED: f64 = 0.25;
/// A check this late after the previous one means that the cache is idle, unless threads wait.
const QUIET_NS: u64 = 100_000_000;
/// How much the share changes at a look.
const STEP: f64 = 1.0 / 64.0;
/// The largest share: requests that bypass do not reach the policy, and the cache must not forget
/// requested entries.
const MOST: f64 = 0.9;
/// 1 / the golden ratio, of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of the bypass.
#[derive(Debug)]
pub(crate) struct Bypass {
    fetches_per_second: u64,
    /// The share of the requests that bypass, in 2^-32.
    share: AtomicU32,
    last: Mutex<Counted>,
}

/// Counts of all threads at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    ns: u64,
    /// Gets, without those that bypassed.
    asked: u64,
    bypassed: u64,
    misses: u64,
    /// For a policy's lock.
    waits: u64,
}

impl Counted {
    /// Two threads may look at once, and the later one may have the smaller counts: then all
    /// differences are 0.
    fn since(self, before: Counted) -> Counted {
        Counted {
            ns: self.ns.saturating_sub(before.ns),
            asked: self.asked.saturating_sub(before.asked),
            bypassed: self.bypassed.saturating_sub(before.bypassed),
            misses: self.misses.saturating_sub(before.misses),
            waits: self.waits.saturating_sub(before.waits),
        }
    }
}

/// The new share to bypass, from the old share and the counts since.
fn next_share(share: f64, passed: Counted, fetches_per_second: u64) -> f64 {
    let (asked, bypassed) = (passed.asked as f64, passed.bypassed as f64);
    let crowded = passed.waits as f64 > CROWDED * asked;
    let wanted = match crowded {
        true => share + STEP,
        // Requests have become rare, and no thread waits.
        false if passed.ns > QUIET_NS => 0.0,
        false => share - STEP,
    };
    // The backend can serve `room` requests in that time, and the share `missed` of gets misses.
    let room = fetches_per_second as f64 * passed.ns as f64 * 1e-9;
    let missed = passed.misses as f64 / asked.max(1.0);
    // b r + (1 - b) m r = room
    let requests = (asked + bypassed).max(1.0);
    let spare = (room / requests - missed) / (1.0 - missed).max(1e-9);
    wanted.min(spare).clamp(0.0, MOST)
}

impl Bypass {
    pub(crate) fn new(fetches_per_second: u64) -> Self {
        let (share, last) = (AtomicU32::new(0), Mutex::new(Counted::default()));
        Bypass { fetches_per_second, share, last }
    }

    /// The share of the requests that bypass now.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.share.load(Relaxed)) / f64::from(u32::MAX)
    }

    /// Whether a thread's `number`th request bypasses.
    #[inline]
    fn chooses(&self, number: u64, reads: &Reads) -> bool {
        let share = self.share.load(Relaxed);
        let chosen = ((number.wrapping_mul(GOLDEN) >> 32) as u32) < share;
        if chosen {
            add(&reads.bypassed, 1);
        }
        chosen
    }

    /// Adapts to the counts, unless another thread does.
    fn follow(&self, now: Counted) {
        let Some(mut last) = self.last.try_lock() else { return };
        let passed = now.since(*last);
        if passed.ns < LOOK_NS {
            return;
        }
        *last = now;
        let share = next_share(self.share(), passed, self.fetches_per_second);
        self.share.store((share * f64::from(u32::MAX)) as u32, Relaxed);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Whether the next request of this thread bypasses the cache.
    #[inline]
    pub(crate) fn bypasses(&self) -> bool {
        let Some(bypass) = &self.bypass else { return false };
        let reads = &self.stripe().local.reads;
        // Not gets: some gets do not ask whether to bypass, so numbers would be skipped.
        let number = reads.asks.load(Relaxed);
        // Before the look: its clock may be user code, which asks again.
        add(&reads.asks, 1);
        if number.is_multiple_of(STRIDE) {
            self.look_at_waits(bypass);
        }
        bypass.chooses(number, reads)
    }

    #[cold]
    #[inline(never)]
    fn look_at_waits(&self, bypass: &Bypass) {
        // Before the counts: the clock may be user code, which may change them.
        let mut now = Counted { ns: self.clock.exact(), ..Counted::default() };
        for stripe in self.stripes.iter() {
            let reads = &stripe.local.reads;
            for (sum, count) in [
                (&mut now.asked, reads.gets()),
                (&mut now.bypassed, reads.bypassed.load(Relaxed)),
                (&mut now.misses, reads.misses.load(Relaxed)),
                (&mut now.waits, reads.waits.load(Relaxed)),
            ] {
                *sum = sum.wrapping_add(count);
            }
        }
        bypass.follow(now);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A millisecond at a million requests a second; some of them waited.
    fn passed(waits: u64, misses: u64) -> Counted {
        Counted { ns: 1_000_000, asked: 1_000, bypassed: 0, misses, waits }
    }

    #[test]
    fn the_share_follows_the_waits_within_what_the_backend_bears() {
        assert_eq!(next_share(0.0, passed(900, 0), 1_000_000), STEP);
        assert_eq!(next_share(0.5, passed(10, 0), 1_000_000), 0.5 - STEP);
        assert_eq!(next_share(0.0, passed(10, 0), 1_000_000), 0.0);
        assert_eq!(next_share(MOST, passed(900, 0), 10_000_000), MOST);
        // A tenth of a million a second; half of them are misses.
        let share = next_share(0.5, passed(900, 50), 100_000);
        assert!((share + (1.0 - share) * 0.05 - 0.1).abs() < 1e-9, "{share}");
        // Misses exceed what the backend can serve.
        assert_eq!(next_share(0.5, passed(900, 200), 100_000), 0.0);
        assert_eq!(next_share(0.0, Counted::default(), 100), 0.0);
        let quiet = Counted { ns: 2 * QUIET_NS, ..passed(10, 0) };
        assert_eq!(next_share(0.5, quiet, 1_000_000), 0.0, "nobody has waited for long");
        assert!(next_share(0.5, Counted { waits: 900, ..quiet }, 1_000_000) > 0.5);
    }

    #[test]
    fn as_many_are_chosen_as_the_share_says() {
        let (bypass, reads) = (Bypass::new(0), Reads::default());
        for share in [0.0, 0.1, 0.5, 0.9] {
            bypass.share.store((share * f64::from(u32::MAX)) as u32, Relaxed);
            let chosen = (0..1_000).filter(|&number| bypass.chooses(number, &reads)).count();
            assert!((chosen as f64 - 1_000.0 * share).abs() <= 3.0, "{share}: {chosen}");
        }
    }

    /// A cache whose clock is a millisecond later at each reading.
    fn ticking() -> crate::Tested {
        let clock = std::sync::atomic::AtomicU64::new(0);
        let cache = crate::Cache::builder(100)
            .policy(crate::Policy::Lru)
            .bypass(1_000_000_000)
            .clock(move || std::time::Duration::from_millis(clock.fetch_add(1, Relaxed)))
            .build();
        cache.insert(1, String::new());
        cache
    }

    /// Makes `strides` strides of requests, each request with `gets` gets unless it bypasses; the
    /// `waits` belong to no thread.
    fn ask(cache: &crate::Tested, strides: u64, gets: u64, waits: u64) {
        for request in 0..strides * STRIDE {
            if request.is_multiple_of(STRIDE) {
                add(&cache.core.stripe().local.reads.waits, waits);
            }
            if !cache.bypasses() {
                (0..gets).for_each(|_| assert!(cache.get(&1).is_some()));
            }
        }
    }

    #[test]
    fn requests_bypass_while_locks_are_waited_for() {
        let cache = ticking();
        let ask = |strides, waits| ask(&cache, strides, 1, waits);
        ask(20, STRIDE);
        let share = cache.bypassed_share();
        assert!((0.2..0.4).contains(&share), "{share}");
        let stats = cache.stats();
        assert_eq!(stats.hits + stats.bypassed, 20 * STRIDE);
        assert!(stats.bypassed > STRIDE, "{stats:?}");
        ask(30, 0);
        assert_eq!(cache.bypassed_share(), 0.0);
    }

    /// Gets that do not ask whether to bypass shift the number of gets, and so do other gets of the
    /// same request.
    #[test]
    fn gets_without_asking_keep_no_look_away() {
        let cache = ticking();
        assert!(cache.get(&1).is_some());
        ask(&cache, 20, 2, STRIDE);
        assert!(cache.bypassed_share() > 0.2, "{}", cache.bypassed_share());
    }

    /// A failed attempt at a lock is no wait, nor is a retry of anything else.
    #[test]
    fn retries_are_no_waits() {
        let cache = ticking();
        let reads = || &cache.core.stripe().local;
        for _ in 0..20 {
            add(&reads().reads.retries, STRIDE);
            add(&reads().counts.retries, STRIDE);
            ask(&cache, 1, 1, 0);
        }
        assert_eq!(cache.bypassed_share(), 0.0);
    }

    #[test]
    fn a_clock_that_asks_again_ends() {
        let cache = std::sync::Arc::new(std::sync::OnceLock::<crate::Tested>::new());
        let inner = std::sync::Arc::downgrade(&cache);
        let clock = move || {
            if let Some(cache) = inner.upgrade()
                && let Some(cache) = cache.get()
            {
                cache.bypasses();
            }
            std::time::Duration::ZERO
        };
        let builder = crate::Cache::builder(9).policy(crate::Policy::Lru).bypass(7);
        assert!(cache.set(builder.clock(clock).build()).is_ok());
        let Some(cache) = cache.get() else { panic!("it was set") };
        (0..3 * STRIDE).for_each(|_| assert!(!cache.bypasses()));
        assert!(cache.core.stripe().local.reads.asks.load(Relaxed) > 3 * STRIDE);
    }

    #[test]
    fn it_is_refused_where_hits_take_no_lock() {
        let build =
            |policy| crate::Cache::<u64, String>::builder(9).policy(policy).bypass(7).try_build();
        let error = build(crate::Policy::Mobius).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, "`bypass` is 7, but a hit of the policy mobius takes no lock");
        assert!(build(crate::Policy::Arc).is_ok());
    }

    #[test]
    fn a_look_too_early_changes_nothing() {
        let bypass = Bypass::new(10_000_000);
        let at = |ns, waits| Counted { ns, asked: 1_000, waits, ..Counted::default() };
        bypass.follow(at(LOOK_NS - 1, 1_000));
        assert_eq!(bypass.share(), 0.0);
        bypass.follow(at(LOOK_NS, 1_000));
        assert!((bypass.share() - STEP).abs() < 1e-6);
    }

    /// Read before the check that was applied last, except the clock.
    #[test]
    fn counts_that_are_older_are_none() {
        let bypass = Bypass::new(10_000_000);
        bypass.follow(Counted { ns: LOOK_NS, asked: 1_000, waits: 1_000, ..Counted::default() });
        bypass.follow(Counted { ns: 2 * LOOK_NS, asked: 1_000, waits: 990, ..Counted::default() });
        assert_eq!(bypass.share(), 0.0, "nobody has waited");
    }
}
