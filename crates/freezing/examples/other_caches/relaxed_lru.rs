//! A sharded hash map with lists, as a host: the relaxed LRU of HHVM, which paper 2 puts its
//! overlay on.
//!
//! A look-up reads the map of a shard under a lock that readers share, and moves the entry to the
//! head of the shard's list, unless another thread has that list. A writer takes both locks.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::fast::RandomState;
use frazil_freezing::{Host, Insertion, Mark};

/// Shards, as many as in HHVM.
const SHARDS: usize = 16;
/// Entries that move under one lock.
const BATCH: usize = 256;
/// In place of a node where there is none.
const NONE: u32 = u32::MAX;

struct Entry<V> {
    value: V,
    mark: Mark,
    node: u32,
}

struct Node<K> {
    /// `None`: vacant, and `colder` is the next that is.
    key: Option<K>,
    hotter: u32,
    colder: u32,
    is_aside: bool,
}

/// The ends of one list.
#[derive(Clone, Copy)]
struct Ends {
    hottest: u32,
    coldest: u32,
    length: usize,
}

/// A shard's lists, dynamic and set aside, through the same nodes.
struct Lists<K> {
    nodes: Vec<Node<K>>,
    vacant: u32,
    ends: [Ends; 2],
}

impl<K> Lists<K> {
    fn new() -> Self {
        let ends = Ends { hottest: NONE, coldest: NONE, length: 0 };
        Lists { nodes: Vec::new(), vacant: NONE, ends: [ends; 2] }
    }

    fn node(&mut self, at: u32) -> &mut Node<K> {
        &mut self.nodes[at as usize]
    }

    fn unlink(&mut self, at: u32) {
        let &mut Node { hotter, colder, is_aside, .. } = self.node(at);
        match hotter {
            NONE => self.ends[usize::from(is_aside)].hottest = colder,
            _ => self.node(hotter).colder = colder,
        }
        match colder {
            NONE => self.ends[usize::from(is_aside)].coldest = hotter,
            _ => self.node(colder).hotter = hotter,
        }
        self.ends[usize::from(is_aside)].length -= 1;
    }

    fn push_hottest(&mut self, at: u32, is_aside: bool) {
        let old = self.ends[usize::from(is_aside)].hottest;
        let node = self.node(at);
        (node.hotter, node.colder, node.is_aside) = (NONE, old, is_aside);
        match old {
            NONE => self.ends[usize::from(is_aside)].coldest = at,
            _ => self.node(old).hotter = at,
        }
        let ends = &mut self.ends[usize::from(is_aside)];
        (ends.hottest, ends.length) = (at, ends.length + 1);
    }

    fn admit(&mut self, key: K) -> u32 {
        let node = Node { key: Some(key), hotter: NONE, colder: NONE, is_aside: false };
        let at = match self.vacant {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            at => {
                self.vacant = self.node(at).colder;
                *self.node(at) = node;
                at
            }
        };
        self.push_hottest(at, false);
        at
    }

    fn leave(&mut self, at: u32) -> Option<K> {
        self.unlink(at);
        let vacant = std::mem::replace(&mut self.vacant, at);
        let node = self.node(at);
        node.colder = vacant;
        node.key.take()
    }

    fn dynamic(&self) -> Ends {
        self.ends[0]
    }

    fn aside(&self) -> Ends {
        self.ends[1]
    }

    fn len(&self) -> usize {
        self.dynamic().length + self.aside().length
    }
}

type Map<K, V> = HashMap<K, Entry<V>, RandomState>;

struct Shard<K, V> {
    /// A thread that locks both locks this before the map.
    lists: Mutex<Lists<K>>,
    map: RwLock<Map<K, V>>,
}

impl<K, V> Shard<K, V> {
    fn lists(&self) -> MutexGuard<'_, Lists<K>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, Map<K, V>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map<K, V>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct RelaxedLru<K, V> {
    /// State of a shard.
    capacity: usize,
    hasher: RandomState,
    shards: Box<[Shard<K, V>]>,
}

impl<K: Hash, V> RelaxedLru<K, V> {
    /// Rounded up to as many for each shard.
    pub(crate) fn new(capacity: usize) -> Self {
        let shard = |_| Shard {
            lists: Mutex::new(Lists::new()),
            map: RwLock::new(HashMap::with_hasher(RandomState::default())),
        };
        let shards = (0..SHARDS).map(shard).collect();
        RelaxedLru { capacity: capacity.div_ceil(SHARDS), hasher: RandomState::default(), shards }
    }

    fn shard(&self, key: &K) -> &Shard<K, V> {
        &self.shards[(self.hasher.hash_one(key) >> 32) as usize % SHARDS]
    }
}

impl<K, V> Host for RelaxedLru<K, V>
where
    K: Hash + Eq + Clone + Send + Sync,
    V: Clone + Send + Sync,
{
    type Key = K;
    type Value = V;

    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lists().len()).sum()
    }

    fn get(&self, key: &K, hit: impl FnOnce(&Mark)) -> Option<V> {
        let shard = self.shard(key);
        let map = shard.read();
        let entry = map.get(key)?;
        hit(&entry.mark);
        // The lock of the map keeps the entry in place. This does not wait for a thread that has
        // the list.
        if let Ok(mut lists) = shard.lists.try_lock()
            && !lists.node(entry.node).is_aside
        {
            lists.unlink(entry.node);
            lists.push_hottest(entry.node, false);
        }
        Some(entry.value.clone())
    }

    fn insert(&self, key: &K, value: V) -> Insertion {
        let shard = self.shard(key);
        let mut lists = shard.lists();
        let mut map = shard.write();
        if let Some(entry) = map.get_mut(key) {
            entry.value = value;
            let node = entry.node;
            if !lists.node(node).is_aside {
                lists.unlink(node);
                lists.push_hottest(node, false);
            }
            return Insertion::Replaced;
        }
        let mut evicted = 0;
        if lists.len() >= self.capacity {
            let coldest = lists.dynamic().coldest;
            if coldest == NONE {
                return Insertion::Refused;
            }
            if let Some(victim) = lists.leave(coldest) {
                map.remove(&victim);
            }
            evicted = 1;
        }
        let node = lists.admit(key.clone());
        map.insert(key.clone(), Entry { value, mark: Mark::default(), node });
        Insertion::Admitted { evicted }
    }

    fn remove(&self, key: &K) -> Option<V> {
        let shard = self.shard(key);
        let mut lists = shard.lists();
        let entry = shard.write().remove(key)?;
        lists.leave(entry.node);
        Some(entry.value)
    }

    fn walk(&self, show: &mut dyn FnMut(&Mark)) {
        for shard in &self.shards {
            let (mut lists, map) = (shard.lists(), shard.read());
            let mut at = lists.dynamic().hottest;
            while at != NONE {
                let node = lists.node(at);
                if let Some(entry) = node.key.as_ref().and_then(|key| map.get(key)) {
                    show(&entry.mark);
                }
                at = node.colder;
            }
        }
    }

    fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&K, &V)) -> usize {
        let share = count as f64 / self.len().max(1) as f64;
        let mut done = 0;
        for shard in &self.shards {
            // Each its own hottest.
            let wanted = (shard.lists().len() as f64 * share).ceil() as usize;
            let mut left = wanted.min(count - done);
            while left > 0 {
                let (mut lists, map) = (shard.lists(), shard.read());
                for _ in 0..BATCH.min(left) {
                    let at = lists.dynamic().hottest;
                    if at == NONE {
                        left = 0;
                        break;
                    }
                    lists.unlink(at);
                    lists.push_hottest(at, true);
                    if let Some((key, entry)) =
                        lists.node(at).key.as_ref().and_then(|key| map.get_key_value(key))
                    {
                        copy(key, &entry.value);
                    }
                    left -= 1;
                    done += 1;
                }
            }
        }
        done
    }

    fn give_back(&self) {
        for shard in &self.shards {
            let mut is_left = true;
            while is_left {
                let mut lists = shard.lists();
                for _ in 0..BATCH {
                    // Set aside last: the coldest.
                    let at = lists.aside().hottest;
                    is_left = at != NONE;
                    if !is_left {
                        break;
                    }
                    lists.unlink(at);
                    lists.push_hottest(at, false);
                }
            }
        }
    }
}
