//! Values read in place.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use equivalent::Equivalent;

use crate::cache::{Cache, Spot};
use crate::features::record::Deed;
use crate::smr::protect::{KeepingAll, Pinned, Protect};
use crate::smr::stripe::{Reader, add};
use crate::smr::thread::Lodger;
use crate::sync::atomic::Ordering::Relaxed;

/// A guard that keeps every entry it shows from being dropped: [`Cache::pin`].
///
/// One pin serves any number of gets. A hit through it clones nothing, executes no locked
/// instruction, and writes no line that other threads read once the entry's mark is set:
/// it costs the look-up.
///
/// While a pin lives, what its first 16 gets have found keeps its memory, whatever becomes of the
/// entries. With the next get it keeps all that is evicted, replaced or removed from then on. There
/// is room for a quarter of the entries and 512 more in that state, and a quarter of the weight;
/// when that is used up the cache refuses newcomers
/// ([`Stats::refusals`](crate::Stats::refusals)) until the pin goes. So hold it for a batch of
/// gets, not for the life of a thread. It stays on its thread.
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
/// (0..3).for_each(|key| cache.insert(key, format!("value {key}")));
/// let pin = cache.pin();
/// let lengths: usize = (0..3).filter_map(|key| pin.get(&key)).map(String::len).sum();
/// assert_eq!(lengths, 21);
/// ```
pub struct Pin<'c, K, V, S = foldhash::fast::RandomState> {
    cache: &'c Cache<K, V, S>,
    reader: &'c Reader,
    protection: Pinned<'c>,
    /// The same once it keeps all.
    all: KeepingAll,
    _lodger: Lodger,
    /// The stripe belongs to the thread.
    not_send: PhantomData<*const ()>,
}

impl<'c, K: Hash + Eq, V, S: BuildHasher> Pin<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        let reader = &cache.stripe().reader;
        let protection = Pinned::new(reader, &cache.reclaim);
        Pin {
            cache,
            reader,
            protection,
            all: KeepingAll,
            _lodger: Lodger::new(),
            not_send: PhantomData,
        }
    }

    /// The value of `key`, and a hit or a miss for the policy and the counts.
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
        let hash = self.cache.hasher.hash_one(key);
        if self.cache.recorder.wants(hash) {
            return self.get_observed(key);
        }
        if self.protection.keeps_all() {
            self.get_at(&self.all, hash, key)
        } else {
            self.get_naming(hash, key)
        }
    }

    // Of the first gets of a pin. Apart, so that of the others no more is compiled than they need.
    #[inline(never)]
    fn get_naming<Q>(&self, hash: u64, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.get_at(&self.protection, hash, key)
    }

    // As `Cache::get_observed`.
    #[cold]
    #[inline(never)]
    fn get_observed<Q>(&self, key: &Q) -> Option<&V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let cache = self.cache;
        let (hash, place) = cache.place(key);
        let weight = cache.recorder.records(hash).then(|| cache.weight_of(place, key));
        let look = cache.begin_look();
        let value = self.get_at(&self.protection, hash, key);
        if let Some(look) = look {
            let slot = || cache.find(&self.protection, place, key).map(|found| found.slot);
            look.end(hash, value.is_some(), slot);
        }
        if let Some(weight) = weight {
            let deed = if value.is_some() { Deed::Hit } else { Deed::Miss };
            cache.recorder.note(hash, deed, weight);
        }
        value
    }

    #[inline(always)]
    fn get_at<'p, Q>(&'p self, protection: &'p impl Protect, hash: u64, key: &Q) -> Option<&'p V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if let Some(frozen) = &self.cache.frozen
            && let Some(value) = self.cache.find_frozen(frozen, protection, hash, key)
        {
            add(&self.reader.frozen_hits, 1);
            return Some(value);
        }
        let place = self.cache.index.place(hash);
        let Some(found) = self.cache.find_as::<_, Spot<'_>>(protection, place, key) else {
            add(&self.reader.misses, 1);
            self.reader.missed.store(hash, Relaxed);
            return None;
        };
        if self.cache.has_expired_in_use(found.slot, found.at) {
            self.cache.miss_expired(self.reader, key, found.slot);
            return None;
        }
        add(&self.reader.hits, 1);
        self.cache.touch(found);
        // SAFETY: published, and protected while the pin lives, which the value borrows.
        Some(unsafe { self.cache.slab.value_at(found.at) })
    }

    /// The key and the value of `key`, without a trace: no mark, no count.
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
        let (_, place) = self.cache.place(key);
        let Spot { slot, at } = self.cache.find_as(&self.protection, place, key)?;
        if self.cache.has_expired(slot) {
            return None;
        }
        // SAFETY: published, and protected while the pin lives, which both borrow.
        Some(unsafe { (self.cache.slab.key_at(at), self.cache.slab.value_at(at)) })
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
        _pin: Pin<'static, u64, u64>,
        handed_on: mpsc::Sender<bool>,
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // More threads than can have come and gone beside this test.
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
        let cache: &'static Cache<u64, u64> = Box::leak(Box::new(Cache::builder(10).build()));
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
