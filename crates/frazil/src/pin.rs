//! Values read in place.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use equivalent::Equivalent;

use crate::cache::Cache;
use crate::core::Spot;
use crate::core::hooks::Hooks;
use crate::core::local::Reads;
use crate::features::{Featured, Features};
use crate::smr::protect::Pinned;
use crate::smr::thread::NumberInUse;

/// A guard that keeps every entry it shows from being dropped: [`Cache::pin`].
///
/// One pin serves any number of gets. A hit through it clones nothing, executes no locked
/// instruction, and writes no shared line once the entry's mark is set: it costs the look-up alone.
///
/// While a pin lives, the entries that its gets have found keep their memory, even after they leave
/// the cache; with a listener, so do entries that its own thread removes or evicts. There may be a
/// quarter of the entries and 512 more in that state, 16 times the entries up to 16,384, and a
/// quarter of the weight. Beyond that the cache refuses new entries
/// ([`Stats::refusals`](crate::Stats::refusals)) until pins are dropped. So hold a pin for a batch
/// of gets, not for the life of a thread. A pin stays on its thread, which keeps the slots of all
/// its gets: up to 64 KiB, or 64 bytes for each entry of the pin that has returned most.
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
/// (0..3).for_each(|key| cache.insert(key, format!("value {key}")));
/// let pin = cache.pin();
/// let lengths: usize = (0..3).filter_map(|key| pin.get(&key)).map(String::len).sum();
/// assert_eq!(lengths, 21);
/// ```
pub struct Pin<'c, K, V, S = foldhash::fast::RandomState> {
    core: &'c Featured<K, V, S>,
    reads: &'c Reads,
    protection: Pinned<'c>,
    _number: NumberInUse,
    /// The stripe belongs to the thread.
    not_send: PhantomData<*const ()>,
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// A guard through which values are read in place; [`Pin`] documents what it keeps alive.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one".to_owned());
    /// let pin = cache.pin();
    /// let text: &String = pin.get(&1).unwrap();
    /// cache.remove(&1);
    /// assert_eq!(text, "one"); // still there while the pin lives
    /// ```
    #[inline]
    pub fn pin(&self) -> Pin<'_, K, V, S> {
        Pin::new(self)
    }
}

impl<'c, K: Hash + Eq, V, S: BuildHasher> Pin<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        let core = &cache.core;
        let stripe = core.stripe();
        let protection = Pinned::new(&stripe.reader, &core.reclaim);
        Pin {
            core,
            reads: &stripe.local.reads,
            protection,
            _number: NumberInUse::new(),
            not_send: PhantomData,
        }
    }

    /// The value of `key`; counts as a hit or a miss, for the policy too.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.pin().get("one"), Some(&1));
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let hash = self.core.hasher.hash_one(key);
        if self.core.hooks.recorder.wants(hash) {
            return self.core.observed(key, true, |hash| {
                self.core.get_under(&self.protection, self.reads, hash, key)
            });
        }
        self.core.get_under(&self.protection, self.reads, hash, key)
    }

    /// The key and the value of `key`; neither the policy nor the counts see it.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.pin().peek("one"), Some((&"one".to_owned(), &1)));
    /// assert_eq!(cache.stats().hits, 0);
    /// ```
    #[inline]
    pub fn peek<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let (_, mixed) = self.core.hashes(key);
        let Spot { slot, at } = self.core.find(&self.protection, mixed, key)?;
        if !Features::is_live(self.core, slot) {
            return None;
        }
        // SAFETY: published, and protected while the pin lives, which both borrow.
        Some(unsafe { (self.core.slab.key_at(at), self.core.slab.value_at(at)) })
    }
}

impl<K, V, S> std::fmt::Debug for Pin<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::cell::RefCell;
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;

    /// A pin among its thread's variables.
    struct Kept {
        number: u32,
        _pin: Pin<'static, u64, String>,
        handed_on: mpsc::Sender<bool>,
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // More threads than can have started and ended beside this test.
            let together = Arc::new(Barrier::new(32));
            let others = (0..32).map(|_| {
                let together = Arc::clone(&together);
                std::thread::spawn(move || {
                    let number = crate::smr::thread::number();
                    together.wait();
                    number
                })
            });
            let others: Vec<_> = others.collect();
            let numbers = others.into_iter().map(|other| other.join().expect("no panic"));
            let numbers: Vec<u32> = numbers.collect();
            self.handed_on.send(numbers.contains(&self.number)).expect("someone waits");
        }
    }

    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }

    /// Two threads of one number would write to one stripe.
    #[test]
    fn a_number_is_not_handed_on_while_a_pin_lives() {
        let cache: &'static crate::Tested = Box::leak(Box::new(Cache::builder(10).build()));
        let (handed_on, answer) = mpsc::channel();
        let keep = move || {
            // Registered before the thread's number is, and so destroyed after it.
            KEPT.with(|kept| {
                let kept = &mut *kept.borrow_mut();
                let number = crate::smr::thread::number();
                *kept = Some(Kept { number, _pin: cache.pin(), handed_on });
            });
        };
        std::thread::spawn(keep).join().expect("no panic");
        assert_eq!(answer.recv(), Ok(false));
    }
}
