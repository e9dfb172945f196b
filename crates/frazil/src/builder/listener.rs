//! Whom a builder is told to tell.

#[cfg(doc)]
use crate::Cache;
use crate::builder::Builder;
use crate::features::listen::Cause;

impl<K, V, S> Builder<K, V, S> {
    /// Who is told of every entry that goes or is not admitted, and why.
    ///
    /// Called once for each entry that was admitted and is not there any more, except for
    /// those that are there when the cache is dropped: [`clear`](Cache::clear) it before,
    /// if they matter. Called once, too, for a newcomer that is not admitted
    /// ([`Cause::Refused`]), after what it would have replaced ([`Cause::Replaced`]); but not
    /// for one that comes from the listener itself, or from a `Hash` or `Eq` that runs inside an
    /// operation: it could be refused again and again. Such code asks
    /// [`try_insert`](Cache::try_insert).
    ///
    /// The thread that caused it calls, before its operation returns, and holds nothing
    /// but a [pin](crate::Pin): the listener may use the cache, this one too, and sees the
    /// entry gone already. What it makes go itself is told after it has returned. While
    /// it runs nothing is reclaimed that went meanwhile, so let it be quick: send what
    /// takes long to another thread. Calls for one key from several threads come in no
    /// order. If it panics the panic goes on to the caller of the operation, which has
    /// taken effect, after the other entries of that operation have been told.
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
