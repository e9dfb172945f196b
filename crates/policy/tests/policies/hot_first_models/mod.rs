//! Policies of lists whose residents can be frozen, written in the plainest way: vectors of
//! ids that are searched from end to end, and sums that are computed anew each time.
#![allow(unreachable_pub)] // A module of a test.

use std::collections::BTreeMap;

/// Lists of ids, newest first; the last list is the hottest.
pub struct Parts {
    dynamic: Vec<Vec<u64>>,
    frozen: Vec<Vec<u64>>,
    weight: BTreeMap<u64, u64>,
}

impl Parts {
    fn sum(&self, ids: &[u64]) -> u64 {
        ids.iter().map(|id| self.weight[id]).sum()
    }
    fn weight_of(&self, list: usize) -> u64 {
        self.sum(&self.dynamic[list])
    }
    fn list_of(&self, id: u64) -> Option<usize> {
        self.dynamic.iter().position(|list| list.contains(&id))
    }
    fn take(&mut self, id: u64) {
        self.dynamic.iter_mut().chain(&mut self.frozen).for_each(|list| list.retain(|&o| o != id));
    }
    fn front(&mut self, id: u64, list: usize) {
        self.take(id);
        self.dynamic[list].insert(0, id);
    }
    fn last(&self, list: usize) -> Option<u64> {
        self.dynamic[list].last().copied()
    }
}

/// The rules in which policies differ.
pub trait Rules {
    /// How many lists it has.
    const LISTS: usize = 1;
    fn hit(&mut self, parts: &mut Parts, id: u64);
    /// A miss begins.
    fn miss(&mut self, parts: &Parts, id: u64, weight: u64) {
        let _ = (parts, id, weight);
    }
    /// The victim, which is still present; `None` if the newcomer, if any, is refused.
    fn victim(&mut self, parts: &mut Parts, newcomer: Option<u64>) -> Option<u64>;
    fn insert(&mut self, parts: &mut Parts, id: u64);
    fn capacity(&mut self, parts: &Parts, capacity: u64) {
        let _ = (parts, capacity);
    }
    /// An object is about to be frozen.
    fn freeze(&mut self, parts: &Parts, id: u64) {
        let _ = (parts, id);
    }
    /// The frozen objects are about to return.
    fn thaw(&mut self, parts: &Parts) {
        let _ = parts;
    }
}

/// A cache under such rules.
pub struct Model<R> {
    parts: Parts,
    rules: R,
    capacity: u64,
}

impl<R: Rules> Model<R> {
    pub fn new(rules: R, capacity: u64) -> Self {
        let lists = vec![vec![]; R::LISTS];
        let parts = Parts { dynamic: lists.clone(), frozen: lists, weight: BTreeMap::new() };
        Model { parts, rules, capacity }
    }

    fn frozen_weight(&self) -> u64 {
        self.parts.sum(&self.frozen())
    }

    fn used(&self) -> u64 {
        self.parts.sum(&self.walk()) + self.frozen_weight()
    }

    fn make_room(&mut self, weight: u64, newcomer: Option<u64>) -> bool {
        while self.used() + weight > self.capacity {
            match self.rules.victim(&mut self.parts, newcomer) {
                Some(id) => self.remove(id),
                None => return false,
            }
        }
        true
    }

    pub fn request(&mut self, id: u64, weight: u64) -> bool {
        if self.frozen().contains(&id) {
            self.parts.weight.insert(id, weight);
            self.make_room(0, None);
            return true;
        }
        if self.parts.list_of(id).is_some() {
            self.rules.hit(&mut self.parts, id);
            return true;
        }
        self.rules.miss(&self.parts, id, weight);
        if weight <= self.capacity && self.make_room(weight, Some(weight)) {
            self.parts.weight.insert(id, weight);
            self.rules.insert(&mut self.parts, id);
        }
        false
    }

    pub fn remove(&mut self, id: u64) {
        self.parts.take(id);
    }

    pub fn freeze(&mut self, count: usize) {
        for id in self.walk().into_iter().take(count) {
            self.rules.freeze(&self.parts, id);
            let list = self.parts.list_of(id).unwrap();
            self.parts.take(id);
            self.parts.frozen[list].push(id);
        }
    }

    pub fn tell(&mut self) {
        let left = self.capacity.saturating_sub(self.frozen_weight());
        self.rules.capacity(&self.parts, left);
    }

    pub fn thaw(&mut self) {
        self.rules.thaw(&self.parts);
        let Parts { dynamic, frozen, .. } = &mut self.parts;
        for (dynamic, frozen) in dynamic.iter_mut().zip(frozen) {
            frozen.append(dynamic);
            std::mem::swap(dynamic, frozen);
        }
    }

    /// The dynamic residents, hottest first.
    pub fn walk(&self) -> Vec<u64> {
        self.parts.dynamic.iter().rev().flatten().copied().collect()
    }

    /// The frozen residents, hottest first.
    pub fn frozen(&self) -> Vec<u64> {
        self.parts.frozen.iter().rev().flatten().copied().collect()
    }
}

/// When a list moves a hit object to its front.
pub enum Promote {
    Never,
    /// This many requests after it came to the front.
    After(u64),
}

/// FIFO, LRU, delayed LRU.
pub struct ListRules {
    promote: Promote,
    now: u64,
    came: BTreeMap<u64, u64>,
}

impl ListRules {
    pub fn new(promote: Promote) -> Self {
        ListRules { promote, now: 0, came: BTreeMap::new() }
    }
}

impl Rules for ListRules {
    fn hit(&mut self, parts: &mut Parts, id: u64) {
        self.now += 1;
        if let Promote::After(window) = self.promote
            && self.now - self.came[&id] >= window
        {
            self.came.insert(id, self.now);
            parts.front(id, 0);
        }
    }
    fn miss(&mut self, _: &Parts, _: u64, _: u64) {
        self.now += 1;
    }
    fn victim(&mut self, parts: &mut Parts, _: Option<u64>) -> Option<u64> {
        parts.last(0)
    }
    fn insert(&mut self, parts: &mut Parts, id: u64) {
        self.came.insert(id, self.now);
        parts.front(id, 0);
    }
}

/// LFU: the list is sorted by frequency, and by recency among equals.
#[derive(Default)]
pub struct LfuRules(BTreeMap<u64, u64>);

impl LfuRules {
    fn place(&mut self, parts: &mut Parts, id: u64, frequency: u64) {
        self.0.insert(id, frequency);
        parts.take(id);
        let list = &mut parts.dynamic[0];
        let place = list.iter().position(|other| self.0[other] <= frequency);
        list.insert(place.unwrap_or(list.len()), id);
    }
}

impl Rules for LfuRules {
    fn hit(&mut self, parts: &mut Parts, id: u64) {
        self.place(parts, id, self.0[&id] + 1);
    }
    fn victim(&mut self, parts: &mut Parts, _: Option<u64>) -> Option<u64> {
        parts.last(0)
    }
    fn insert(&mut self, parts: &mut Parts, id: u64) {
        self.place(parts, id, 1);
    }
    /// The object becomes the coldest of the frozen ones, even if it was requested since they were
    /// frozen.
    fn freeze(&mut self, parts: &Parts, id: u64) {
        let least = parts.frozen[0].last().map_or(u64::MAX, |last| self.0[last]);
        self.0.insert(id, least.min(self.0[&id]));
    }
    /// All objects of one frequency rise to at least one more than the next lower one has by then.
    fn thaw(&mut self, parts: &Parts) {
        let mut below = parts.dynamic[0].iter().map(|id| self.0[id]).max().unwrap_or(0);
        let mut before = None;
        for id in parts.frozen[0].iter().rev() {
            let frequency = self.0[id];
            if before != Some(frequency) {
                below = frequency.max(below + 1);
            }
            before = Some(frequency);
            self.0.insert(*id, below);
        }
    }
}

/// SLRU; list 0 is probation. At most four segments.
pub struct SlruRules {
    segments: usize,
    capacity: u64,
    filling: bool,
    shrunk: bool,
}

impl SlruRules {
    pub fn new(segments: usize, capacity: u64) -> Self {
        SlruRules { segments, capacity, filling: true, shrunk: false }
    }
    fn share(&self, segment: usize) -> u64 {
        let equal = self.capacity / self.segments as u64;
        if segment > 0 { equal } else { self.capacity - equal * (self.segments as u64 - 1) }
    }
    fn settle(&self, parts: &mut Parts, highest: usize) {
        for segment in (1..=highest).rev() {
            while parts.weight_of(segment) > self.share(segment) {
                let fallen = parts.last(segment).unwrap();
                parts.front(fallen, segment - 1);
            }
        }
    }
}

impl Rules for SlruRules {
    const LISTS: usize = 4;
    fn hit(&mut self, parts: &mut Parts, id: u64) {
        let segment = parts.list_of(id).unwrap();
        if segment + 1 < self.segments && parts.weight[&id] <= self.share(segment + 1) {
            parts.front(id, segment + 1);
            self.settle(parts, segment + 1);
        } else {
            parts.front(id, segment);
        }
    }
    fn victim(&mut self, parts: &mut Parts, _: Option<u64>) -> Option<u64> {
        self.filling = false;
        if std::mem::take(&mut self.shrunk) {
            self.settle(parts, self.segments - 1);
        }
        (0..self.segments).find_map(|segment| parts.last(segment))
    }
    fn insert(&mut self, parts: &mut Parts, id: u64) {
        let fits = |&segment: &usize| {
            self.filling && parts.weight_of(segment) + parts.weight[&id] <= self.share(segment)
        };
        parts.front(id, (0..self.segments).find(fits).unwrap_or(0));
    }
    fn capacity(&mut self, _: &Parts, capacity: u64) {
        self.filling |= capacity > self.capacity;
        self.shrunk |= capacity < self.capacity;
        self.capacity = capacity;
    }
}

/// Remembered hashes with their weights, the newest last.
type Ghosts = Vec<(u64, u64)>;

fn total(ghosts: &Ghosts) -> u64 {
    ghosts.iter().map(|ghost| ghost.1).sum()
}

fn forget(ghosts: &mut Ghosts, id: u64) -> bool {
    let known = ghosts.iter().position(|ghost| ghost.0 == id);
    known.map(|place| ghosts.remove(place)).is_some()
}

fn trim(ghosts: &mut Ghosts, room: u64) {
    while total(ghosts) > room {
        ghosts.remove(0);
    }
}

/// 2Q: list 0 is A1in, list 1 is Am.
pub struct TwoQueueRules {
    capacity: u64,
    a1out: Ghosts,
    known: bool,
}

impl TwoQueueRules {
    pub fn new(capacity: u64) -> Self {
        TwoQueueRules { capacity, a1out: vec![], known: false }
    }
}

impl Rules for TwoQueueRules {
    const LISTS: usize = 2;
    fn hit(&mut self, parts: &mut Parts, id: u64) {
        if parts.list_of(id) == Some(1) {
            parts.front(id, 1);
        }
    }
    fn miss(&mut self, _: &Parts, id: u64, _: u64) {
        self.known = forget(&mut self.a1out, id);
    }
    fn victim(&mut self, parts: &mut Parts, newcomer: Option<u64>) -> Option<u64> {
        let kin = self.capacity / 4;
        if newcomer.is_some_and(|weight| weight > kin.max(1)) {
            return None;
        }
        if parts.weight_of(0) <= kin {
            return parts.last(1).or(parts.last(0));
        }
        let oldest = parts.last(0)?;
        if parts.weight[&oldest] <= self.capacity / 2 {
            self.a1out.push((oldest, parts.weight[&oldest]));
            trim(&mut self.a1out, self.capacity / 2);
        }
        Some(oldest)
    }
    fn insert(&mut self, parts: &mut Parts, id: u64) {
        parts.front(id, self.known.into());
    }
    fn capacity(&mut self, _: &Parts, capacity: u64) {
        self.capacity = capacity;
        trim(&mut self.a1out, capacity / 2);
    }
}

/// ARC: list 0 is T1, list 1 is T2.
pub struct ArcRules {
    capacity: u64,
    target: f64,
    ghosts: [Ghosts; 2],
    known: [bool; 2],
    unit: Option<u64>,
    uneven: bool,
}

impl ArcRules {
    pub fn new(capacity: u64) -> Self {
        let ghosts = [vec![], vec![]];
        ArcRules { capacity, target: 0.0, ghosts, known: [false; 2], unit: None, uneven: false }
    }
    fn trim(&mut self, parts: &Parts) {
        let slack = if self.uneven { self.capacity / 2 } else { 0 };
        let [once, again] = [parts.weight_of(0), parts.weight_of(1)];
        trim(&mut self.ghosts[0], (self.capacity + slack).saturating_sub(once));
        let others = once + again + total(&self.ghosts[0]);
        trim(&mut self.ghosts[1], (2 * self.capacity + slack).saturating_sub(others));
    }
}

impl Rules for ArcRules {
    const LISTS: usize = 2;
    fn hit(&mut self, parts: &mut Parts, id: u64) {
        parts.front(id, 1);
    }
    fn miss(&mut self, _: &Parts, id: u64, weight: u64) {
        let [once, again] = [0, 1].map(|list| total(&self.ghosts[list]) as f64);
        self.known = [0, 1].map(|list| forget(&mut self.ghosts[list], id));
        let weight = weight as f64;
        match self.known {
            [true, _] => self.target += (again / once).max(1.0) * weight,
            [_, true] => self.target -= (once / again).max(1.0) * weight,
            _ => {}
        }
        self.target = self.target.clamp(0.0, self.capacity as f64);
    }
    fn victim(&mut self, parts: &mut Parts, newcomer: Option<u64>) -> Option<u64> {
        let once = parts.weight_of(0) as f64;
        let tie = newcomer.is_some() && self.known[1] && once == self.target;
        let first = if once > self.target || tie { 0 } else { 1 };
        let list = if parts.dynamic[first].is_empty() { 1 - first } else { first };
        let oldest = parts.last(list)?;
        self.ghosts[list].push((oldest, parts.weight[&oldest]));
        Some(oldest)
    }
    fn insert(&mut self, parts: &mut Parts, id: u64) {
        let weight = parts.weight[&id];
        self.uneven |= *self.unit.get_or_insert(weight) != weight;
        parts.front(id, (self.known != [false; 2]).into());
        self.trim(parts);
    }
    fn capacity(&mut self, parts: &Parts, capacity: u64) {
        self.capacity = capacity;
        self.target = self.target.min(capacity as f64);
        self.trim(parts);
    }
}
