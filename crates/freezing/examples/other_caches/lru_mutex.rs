//! The crate `lru` behind a mutex, as a host: the code that programs use without a cache library.
//!
//! That crate's list cannot be split, so entries set aside move to a second one, one by one.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use frazil_freezing::{Host, Insertion, Mark};
use lru::LruCache;

/// Entries that move under one lock.
const BATCH: usize = 256;

type List<K, V> = LruCache<K, (V, Mark), RandomState>;

struct Lists<K: Hash + Eq, V> {
    dynamic: List<K, V>,
    /// The coldest is the last used.
    aside: List<K, V>,
}

pub(crate) struct LruMutex<K: Hash + Eq, V> {
    capacity: usize,
    /// Whether a hit moves an entry; otherwise it is FIFO.
    promotes: bool,
    lists: Mutex<Lists<K, V>>,
}

impl<K: Hash + Eq, V> LruMutex<K, V> {
    /// A cache of `capacity` entries, whose hits promote or not.
    pub(crate) fn new(capacity: usize, promotes: bool) -> Self {
        let list = || LruCache::unbounded_with_hasher(RandomState::default());
        let lists = Lists { dynamic: list(), aside: list() };
        LruMutex { capacity, promotes, lists: Mutex::new(lists) }
    }

    fn lock(&self) -> MutexGuard<'_, Lists<K, V>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Host for LruMutex<K, V>
where
    K: Hash + Eq + Clone + Send + Sync,
    V: Clone + Send + Sync,
{
    type Key = K;
    type Value = V;

    fn len(&self) -> usize {
        let lists = self.lock();
        lists.dynamic.len() + lists.aside.len()
    }

    fn get(&self, key: &K, hit: impl FnOnce(&Mark)) -> Option<V> {
        let Lists { dynamic, aside } = &mut *self.lock();
        let found = if self.promotes { dynamic.get(key) } else { dynamic.peek(key) };
        let (value, mark) = found.or_else(|| aside.peek(key))?;
        hit(mark);
        Some(value.clone())
    }

    fn insert(&self, key: &K, value: V) -> Insertion {
        let Lists { dynamic, aside } = &mut *self.lock();
        if let Some((old, _)) = dynamic.get_mut(key).or_else(|| aside.peek_mut(key)) {
            *old = value;
            return Insertion::Replaced;
        }
        let mut evicted = 0;
        if dynamic.len() + aside.len() >= self.capacity {
            if dynamic.pop_lru().is_none() {
                return Insertion::Refused;
            }
            evicted = 1;
        }
        dynamic.push(key.clone(), (value, Mark::default()));
        Insertion::Admitted { evicted }
    }

    fn remove(&self, key: &K) -> Option<V> {
        let Lists { dynamic, aside } = &mut *self.lock();
        dynamic.pop(key).or_else(|| aside.pop(key)).map(|(value, _)| value)
    }

    fn walk(&self, show: &mut dyn FnMut(&Mark)) {
        self.lock().dynamic.iter().for_each(|(_, (_, mark))| show(mark));
    }

    fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&K, &V)) -> usize {
        let mut done = 0;
        while done < count {
            let Lists { dynamic, aside } = &mut *self.lock();
            for _ in 0..BATCH.min(count - done) {
                let Some((key, entry)) = dynamic.pop_mru() else { return done };
                copy(&key, &entry.0);
                aside.push(key, entry);
                done += 1;
            }
        }
        done
    }

    fn give_back(&self) {
        loop {
            let Lists { dynamic, aside } = &mut *self.lock();
            for _ in 0..BATCH {
                let Some((key, entry)) = aside.pop_mru() else { return };
                dynamic.push(key, entry);
            }
        }
    }
}
