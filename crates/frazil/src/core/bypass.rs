//! How many requests bypass the cache while its lock is what limits it (paper 1, §5.2).
//!
//! The paper sends some requests to the backend "when cache load is high", and does not say when
//! that is or how many. Here load is counted: of the requests that asked the cache, how many found
//! a lock taken. While that is more than [`CROWDED`] the share that bypasses grows by a step at
//! each look, and else it shrinks by one. Whatever the lock says, misses and bypasses together stay
//! within the fetches that the backend can bear: what it has left over is all that is spent.
//!
//! One share for all threads, looked at by whoever has asked for [`STRIDE`] times, at most every
//! [`LOOK_NS`]; a look adds up the counts of all threads. Which requests bypass is spread evenly:
//! the multiples of the golden ratio, modulo 1, that lie below the share.

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
/// Waits for a lock in each request that asks the cache, from which on the lock is what limits it.
const CROWDED: f64 = 0.25;
/// How much the share changes at a look.
const STEP: f64 = 1.0 / 64.0;
/// The most: what bypasses tells the policy nothing, and the cache is not to forget what is asked
/// for.
const MOST: f64 = 0.9;
/// 1 / the golden ratio, of 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of it.
#[derive(Debug)]
pub(crate) struct Bypass {
    fetches_per_second: u64,
    /// The share of the requests, in 2^-32.
    share: AtomicU32,
    last: Mutex<Counted>,
}

/// Counts of all threads at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    ns: u64,
    /// Gets, those that bypassed not among them.
    asked: u64,
    bypassed: u64,
    misses: u64,
    /// Locks that were found taken.
    waits: u64,
}

impl Counted {
    fn since(self, before: Counted) -> Counted {
        Counted {
            ns: self.ns.saturating_sub(before.ns),
            asked: self.asked.wrapping_sub(before.asked),
            bypassed: self.bypassed.wrapping_sub(before.bypassed),
            misses: self.misses.wrapping_sub(before.misses),
            waits: self.waits.wrapping_sub(before.waits),
        }
    }
}

/// The share that is to bypass, from what it was and what was counted since.
fn next_share(share: f64, passed: Counted, fetches_per_second: u64) -> f64 {
    let (asked, bypassed) = (passed.asked as f64, passed.bypassed as f64);
    let crowded = passed.waits as f64 > CROWDED * asked;
    let wanted = if crowded { share + STEP } else { share - STEP };
    // The backend has room for so many in that time, and of those who ask so many miss.
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

    /// The share of the requests that is to bypass now.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.share.load(Relaxed)) / f64::from(u32::MAX)
    }

    /// Whether the next request of a thread bypasses.
    #[inline]
    fn chooses(&self, reads: &Reads) -> bool {
        let share = self.share.load(Relaxed);
        let number = reads.gets().wrapping_add(reads.bypassed.load(Relaxed));
        let chosen = ((number.wrapping_mul(GOLDEN) >> 32) as u32) < share;
        if chosen {
            add(&reads.bypassed, 1);
        }
        chosen
    }

    /// Follows what was counted, unless another thread does.
    fn follow(&self, now: Counted) {
        let Some(mut last) = self.last.try_lock() else { return };
        let passed = now.since(*last);
        if passed.ns < LOOK_NS {
            return;
        }
        *last = now;
        drop(last);
        let share = next_share(self.share(), passed, self.fetches_per_second);
        self.share.store((share * f64::from(u32::MAX)) as u32, Relaxed);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Whether the next request of this thread is to bypass the cache.
    #[inline]
    pub(crate) fn bypasses(&self) -> bool {
        let Some(bypass) = &self.bypass else { return false };
        let reads = &self.stripe().local.reads;
        if reads.gets().wrapping_add(reads.bypassed.load(Relaxed)).is_multiple_of(STRIDE) {
            self.look_at_waits(bypass);
        }
        bypass.chooses(reads)
    }

    #[cold]
    #[inline(never)]
    fn look_at_waits(&self, bypass: &Bypass) {
        // The clock may be code of the user's: before the counts, which it may change.
        let mut now = Counted { ns: self.clock.exact(), ..Counted::default() };
        for stripe in self.stripes.iter() {
            let (reads, counts) = (&stripe.local.reads, &stripe.local.counts);
            for (sum, count) in [
                (&mut now.asked, reads.gets()),
                (&mut now.bypassed, reads.bypassed.load(Relaxed)),
                (&mut now.misses, reads.misses.load(Relaxed)),
                (
                    &mut now.waits,
                    reads.retries.load(Relaxed).wrapping_add(counts.retries.load(Relaxed)),
                ),
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

    /// A millisecond of a million requests a second, of which some waited.
    fn passed(waits: u64, misses: u64) -> Counted {
        Counted { ns: 1_000_000, asked: 1_000, bypassed: 0, misses, waits }
    }

    #[test]
    fn the_share_follows_the_waits_within_what_the_backend_bears() {
        assert_eq!(next_share(0.0, passed(900, 0), 1_000_000), STEP);
        assert_eq!(next_share(0.5, passed(10, 0), 1_000_000), 0.5 - STEP);
        assert_eq!(next_share(0.0, passed(10, 0), 1_000_000), 0.0);
        assert_eq!(next_share(MOST, passed(900, 0), 10_000_000), MOST);
        // A tenth of a million a second, of which misses take a half.
        let share = next_share(0.5, passed(900, 50), 100_000);
        assert!((share + (1.0 - share) * 0.05 - 0.1).abs() < 1e-9, "{share}");
        // They take more than there is.
        assert_eq!(next_share(0.5, passed(900, 200), 100_000), 0.0);
        assert_eq!(next_share(0.0, Counted::default(), 100), 0.0);
    }

    #[test]
    fn as_many_are_chosen_as_the_share_says() {
        let (bypass, reads) = (Bypass::new(0), Reads::default());
        for share in [0.0, 0.1, 0.5, 0.9] {
            bypass.share.store((share * f64::from(u32::MAX)) as u32, Relaxed);
            let mut chosen = 0;
            for _ in 0..1_000 {
                if bypass.chooses(&reads) {
                    chosen += 1;
                } else {
                    add(&reads.hits, 1);
                }
            }
            assert!((f64::from(chosen) - 1_000.0 * share).abs() <= 3.0, "{share}: {chosen}");
        }
    }

    /// A look is a millisecond after the one before; the waits are not those of any thread.
    #[test]
    fn requests_bypass_while_locks_are_waited_for() {
        let clock = std::sync::atomic::AtomicU64::new(0);
        let cache: crate::Tested = crate::Cache::builder(100)
            .policy(crate::Policy::Lru)
            .bypass(1_000_000_000)
            .clock(move || std::time::Duration::from_millis(clock.fetch_add(1, Relaxed)))
            .build();
        cache.insert(1, String::new());
        let ask = |strides: u64, waits: u64| {
            for request in 0..strides * STRIDE {
                if request.is_multiple_of(STRIDE) {
                    add(&cache.core.stripe().local.reads.retries, waits);
                }
                if !cache.bypasses() {
                    assert!(cache.get(&1).is_some());
                }
            }
        };
        ask(20, STRIDE);
        let share = cache.bypassed_share();
        assert!((0.2..0.4).contains(&share), "{share}");
        let stats = cache.stats();
        assert_eq!(stats.hits + stats.bypassed, 20 * STRIDE);
        assert!(stats.bypassed > STRIDE, "{stats:?}");
        ask(30, 0);
        assert_eq!(cache.bypassed_share(), 0.0);
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
}
