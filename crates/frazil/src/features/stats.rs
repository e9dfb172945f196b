//! The counts of a cache.

use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::local::Local;
use crate::features::Featured;
use crate::sync::atomic::Ordering::Relaxed;

use std::time::Duration;

/// Counts since the cache was built, summed over its threads.
///
/// Counts of a feature that is [left out](crate#cargo-features) are 0.
///
/// Every thread counts for itself, without a locked instruction and without a line that
/// another thread writes; so counting costs about a nanosecond. Read while threads are
/// at work, the numbers are of slightly different moments.
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(2).build();
/// for key in [1, 2, 1, 3] {
///     if cache.get(&key).is_none() {
///         cache.insert(key, key);
///     }
/// }
/// let stats = cache.stats();
/// assert_eq!((stats.hits, stats.misses, stats.insertions, stats.evictions), (1, 3, 3, 1));
/// assert_eq!(stats.hit_ratio(), 0.25);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Gets that found their key.
    pub hits: u64,
    /// Hits in the [frozen](crate::Cache::freeze) part; `hits` includes them.
    pub frozen_hits: u64,
    /// Gets that did not find their key and found no load under way, so that the caller had to
    /// load; or that waited and got no value (see [`FetchStats`](crate::FetchStats)).
    pub misses: u64,
    /// Requests for which [`bypasses`](crate::Cache::bypasses) returned true; neither hits nor
    /// misses.
    pub bypassed: u64,
    /// Gets that found their key being loaded, waited, and got the loaded value. Hits, delayed hits
    /// and misses together are the requests.
    pub delayed_hits: u64,
    /// Values that loaders have returned.
    pub loads: u64,
    /// Loaders that returned an error, panicked, or were dropped before their end.
    pub load_failures: u64,
    /// Total time of the loads that returned a value, in nanoseconds.
    pub load_nanoseconds: u64,
    /// Entries admitted for absent keys.
    pub insertions: u64,
    /// Entries that replaced one of the same key.
    pub replacements: u64,
    /// Entries evicted by the policy.
    pub evictions: u64,
    /// Entries removed, one by one or all together.
    pub removals: u64,
    /// Entries removed because they had expired.
    pub expirations: u64,
    /// New entries not admitted: heavier than the capacity, rejected by the policy, or without a
    /// slot because pins hold too many.
    pub refusals: u64,
    /// Hits that a policy under a lock did not apply, because the lock was taken.
    pub promotions_skipped: u64,
    /// Contention: attempts that failed because another thread made progress, and locks found
    /// taken. Compared with the other counts it shows how much threads hinder each other.
    pub retries: u64,
    /// Writes to lines that every thread writes: the ends of queues and stacks, the free capacity,
    /// sums. With several threads each moves a line between cores, and most carry a batch of
    /// entries. For a policy under a lock: two for the lock, two for the neighbours in each change
    /// of a list, one for the free list, one for the clock of policies that have one. Writes that
    /// concern one entry (its word in the index, its slot, its place in a queue, a ghost) are not
    /// counted, nor are failed attempts, which are retries.
    pub shared_writes: u64,
    /// Removed entries that wait to be dropped, because a reader might still see them. Together
    /// with the present entries they are at most the entries that the cache was built for, a
    /// quarter of that, 512, and 16 for each up to 16,384. Up to 16 entries that a thread has
    /// collected and not handed in yet are not counted.
    pub waiting: u64,
}

impl Stats {
    /// Hits over requests, which are hits, delayed hits and misses; 0 before the first get.
    ///
    /// ```
    /// assert_eq!(frazil::Stats::default().hit_ratio(), 0.0);
    /// ```
    pub fn hit_ratio(&self) -> f64 {
        let gets = self.hits + self.delayed_hits + self.misses;
        if gets == 0 { 0.0 } else { self.hits as f64 / gets as f64 }
    }

    /// Mean time of a load; zero before the first.
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(2).build();
    /// cache.get_or_insert_with(&1, || {
    ///     std::thread::sleep(Duration::from_millis(2));
    ///     1
    /// });
    /// assert!(cache.stats().mean_load() >= Duration::from_millis(2));
    /// ```
    pub fn mean_load(&self) -> Duration {
        Duration::from_nanos(self.load_nanoseconds.checked_div(self.loads).unwrap_or(0))
    }
}

impl<K, V, S> Featured<K, V, S> {
    /// All counts, added up.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counted();
        self.hooks.fetch.add_to(&mut stats);
        stats
    }
}

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    /// The counts of all threads, summed.
    pub(crate) fn counted(&self) -> Stats {
        let mut stats = Stats {
            waiting: self.reclaim.waiting(),
            shared_writes: self.reclaim.shared_writes(),
            ..Stats::default()
        };
        for stripe in self.stripes.iter() {
            let Local { reads, counts, .. } = &stripe.local;
            for (sum, count) in [
                (&mut stats.hits, &reads.hits),
                (&mut stats.frozen_hits, &reads.hook_hits),
                (&mut stats.misses, &reads.misses),
                (&mut stats.bypassed, &reads.bypassed),
                (&mut stats.promotions_skipped, &reads.notes.skipped),
                (&mut stats.insertions, &counts.insertions),
                (&mut stats.replacements, &counts.replacements),
                (&mut stats.evictions, &counts.evictions),
                (&mut stats.removals, &counts.removals),
                (&mut stats.expirations, &counts.lapses),
                (&mut stats.refusals, &counts.refusals),
                (&mut stats.retries, &counts.retries),
                (&mut stats.shared_writes, &counts.shared_writes),
            ] {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
            // The additions of hits under a lock to the counts of writers.
            for (sum, count) in [
                (&mut stats.retries, &reads.retries),
                (&mut stats.shared_writes, &reads.shared_writes),
            ] {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        stats.hits += stats.frozen_hits;
        stats
    }
}
