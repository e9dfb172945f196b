//! The setting of the listener.

#[cfg(doc)]
use crate::Cache;
use crate::builder::Builder;
use crate::features::listen::Cause;

impl<K, V, S> Builder<K, V, S> {
    /// A function that the cache calls for every entry that leaves it or is not admitted, with the
    /// cause.
    ///
    /// The cache calls it once for each admitted entry that is no longer there, except for entries
    /// still there when the cache is dropped; call [`clear`](Cache::clear) before if they matter.
    /// It also calls it once for an entry that is not admitted ([`Cause::Refused`]), after the
    /// entry that it would have replaced ([`Cause::Replaced`]). It does not for insertions by the
    /// listener itself, or by a `Hash` or `Eq` inside an operation, because they could be refused
    /// again and again; such code can use [`try_insert`](Cache::try_insert).
    ///
    /// The thread that caused the event calls the listener before its operation returns, holding
    /// nothing but a [pin](crate::Pin). The listener may use the cache, this one too, and does not
    /// find the entry any more. Entries that the listener itself removes are reported after it has
    /// returned. While it runs, entries removed meanwhile are not reclaimed, so let it be quick and
    /// send long work to another thread. Calls for one key from several threads have no order. A
    /// panic of the listener becomes that of the operation, which has taken effect, after the other
    /// entries of that operation have been reported.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// static EVICTED: AtomicU64 = AtomicU64::new(0);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100)
    ///     .listener(|_key, _value, cause| {
    ///         if cause.was_evicted() {
    ///             EVICTED.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     })
    ///     .build();
    /// (0..250).for_each(|key| cache.insert(key, key));
    /// assert_eq!(EVICTED.load(Ordering::Relaxed), 150);
    /// ```
    pub fn listener(mut self, listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }
}
