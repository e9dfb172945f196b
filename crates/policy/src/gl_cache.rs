//! GL-Cache: evicts groups of objects written at about the same time, the least useful
//! first by a model learned from the requests.
//!
//! Objects are written into groups one after the other. A group's utility is the saving by its
//! objects until they are requested next, Σ 1 / (T · size). A snapshot takes the seven features of
//! the groups, the utility of each is collected from the requests that follow, and gradient-boosted
//! trees learn the one from the other. To evict, the group of the least predicted utility is merged
//! with its neighbours by write time: the objects with the largest 1 / (size · age) stay, as many
//! as one group holds, and the others are evicted. Before there is a model the oldest groups are
//! merged in turn (Yang, Mao, Yue, Rashmi, FAST 2023). `docs/design/gl-cache.md` says what differs.
//!
//! A hit writes the object's record and its group's. An eviction shares a merge with the rest of
//! its groups, and a ranking of all groups with a share `fraction` of them. 12 bytes an object,
//! 60 a group, and 16 a ghost, at most one for each object resident at the snapshot in `samples`
//! groups.

mod costs;
mod ghosts;
mod groups;
mod learner;
mod model;
mod settings;

use std::sync::Arc;

use crate::{Eviction, Host, Incoming, NEVER, Policy, Slot, Work};
pub use costs::{DelayCosts, EqualCosts, FetchCosts, MissCosts};
use groups::{FEATURES, Groups, HEIR, NONE, Whereabouts};
use learner::Learner;
pub use model::GroupModel;
pub use settings::{Aim, GroupLearning, GroupMode, Interval, Sight};

/// Most groups in a merge, in usual merges, if most of their objects were deleted.
const MOST_MERGED: usize = 4;

/// The knowledge of a replayed trace that a host has beforehand. Unknown parts are empty.
#[derive(Clone, Debug, Default)]
pub struct TraceKnowledge {
    /// Positions of next requests, as [`Belady::new`](crate::Belady::new) takes them.
    pub next: Arc<[u32]>,
    /// The time of each request, in nanoseconds.
    pub times_ns: Arc<[u64]>,
    /// How many requests there are; 0 if that is not known.
    pub requests: u64,
}

/// GL-Cache. `C` has the cost of a miss.
#[derive(Clone, Debug)]
pub struct GlCache<C = EqualCosts> {
    settings: GroupLearning,
    trace: TraceKnowledge,
    groups: Groups,
    learner: Learner,
    costs: C,
    /// Requests so far. Wraps.
    now: u32,
    rates: Rates,
    /// The next objects to evict, the last first. May include objects that are not evicted after
    /// all.
    victims: Vec<Slot>,
    ranking: Ranking,
    /// Snapshots so far, and when a model was trained last, in requests; at first, when the first
    /// snapshot was taken.
    snapshots: u32,
    trained: u32,
    /// Objects written since the snapshot, and objects resident then.
    written: u64,
    resident_then: u64,
    next: Vec<u32>,
    scratch: Scratch,
}

/// Requests, writes and misses since a moment.
#[derive(Clone, Debug, Default)]
struct Rates {
    requests: u32,
    misses: u32,
    seconds: f64,
    /// Request rate, write rate and miss ratio as last measured.
    states: [f32; 3],
}

/// Groups, the least useful first.
#[derive(Clone, Debug, Default)]
struct Ranking {
    /// The ranking's number; groups outside it have another.
    number: u32,
    order: Vec<(u32, u32)>,
    position: usize,
    /// When the ranking is made anew.
    limit: usize,
}

/// Buffers for reuse.
#[derive(Clone, Debug, Default)]
struct Scratch {
    window: Vec<u32>,
    candidates: Vec<(u64, u32, Slot)>,
    rows: Vec<[f32; FEATURES]>,
    predicted: Vec<f32>,
}

/// State of an object while it is fetched.
#[derive(Clone, Copy, Debug)]
pub struct GroupFlight<F> {
    cost: F,
    /// Position of its next request, for an oracle.
    next: u32,
}

impl<C: MissCosts> GlCache<C> {
    /// Objects that have left a group of the last snapshot, and were not requested since then: at
    /// most one for each resident of that time.
    pub fn ghosts(&self) -> usize {
        self.learner.ghosts.len()
    }

    /// Each feature's share of the model's gain; all 0 without a model. [`GroupLearning::FEATURES`]
    /// names them.
    pub fn importance(&self) -> [f64; FEATURES] {
        self.learner.model.importance()
    }

    /// GL-Cache with these parameters. It reads the times of `trace`, and for an oracle the next
    /// requests.
    pub fn new(settings: GroupLearning, trace: TraceKnowledge) -> Self {
        GlCache {
            settings,
            trace,
            groups: Groups::new(&settings),
            learner: Learner::new(settings.samples, settings.boosting, !C::ARE_ONE),
            costs: C::default(),
            now: 0,
            rates: Rates { states: [0.0, 0.0, 1.0], ..Rates::default() },
            victims: Vec::new(),
            ranking: Ranking::default(),
            snapshots: 0,
            trained: 0,
            written: 0,
            resident_then: 0,
            next: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// The time of the current request, in seconds; one second a request if times are unknown.
    fn seconds(&self) -> f64 {
        let position = self.now.wrapping_sub(1) as usize;
        match self.trace.times_ns.get(position).or(self.trace.times_ns.last()) {
            Some(&ns) => ns as f64 / 1e9,
            None => f64::from(self.now),
        }
    }

    #[inline]
    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
        self.rates.requests += 1;
    }

    /// The next request for the object of the current request, if known.
    #[inline]
    fn foresee(&self) -> u32 {
        let position = self.now.wrapping_sub(1) as usize;
        self.trace.next.get(position).copied().unwrap_or(NEVER)
    }

    /// Records the next request for an object, for an oracle.
    #[inline]
    fn expect(&mut self, slot: Slot, next: u32) {
        if !self.trace.next.is_empty() {
            if self.next.len() <= slot.index() {
                self.next.resize(slot.index() + 1, NEVER);
            }
            self.next[slot.index()] = next;
        }
    }

    /// Requests until the object is requested next; `None` if it never is.
    fn distance(&self, slot: Slot) -> Option<u64> {
        let next = self.next.get(slot.index()).copied().unwrap_or(NEVER);
        (next != NEVER).then(|| (u64::from(next) + 1).saturating_sub(self.now.into()).max(1))
    }

    /// Writes an object at the end of the open group.
    #[inline]
    fn write(&mut self, host: &impl Host<()>, slot: Slot) {
        self.written += 1;
        let seconds = if self.groups.open == NONE { self.seconds() } else { 0.0 };
        if self.groups.write(slot, host.weight(slot), self.now, seconds) {
            self.close();
        }
    }

    /// Ends the open group, with the rates of the window in which it was written.
    fn close(&mut self) {
        if self.rates.requests >= self.settings.window {
            let seconds = self.seconds();
            let passed = seconds - self.rates.seconds;
            if passed > 0.0 {
                let Rates { requests, misses, .. } = self.rates;
                let rate = |count: u32| (f64::from(count) / passed) as f32;
                let states = [rate(requests), rate(misses), misses as f32 / requests as f32];
                self.rates = Rates { requests: 0, misses: 0, seconds, states };
            }
        }
        self.groups.close(self.rates.states);
    }

    /// Credits the sample that an evicted object belonged to.
    #[inline]
    fn give_ghost_its_due(&mut self, host: &mut impl Host<()>, hash: u64, size: u64) {
        host.count(Work::Ghost, 1);
        if let Some((sample, cost)) = self.learner.ghosts.take(hash) {
            self.learner.add_utility(sample, cost, self.now, size);
        }
    }

    /// A condemned object is requested. It would have missed if the whole group had been evicted at
    /// once, so it is written anew as after a miss.
    #[cold]
    fn spare(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.give_ghost_its_due(host, host.hash(slot), host.weight(slot));
        self.costs.hit(slot, host.now());
        self.write(host, slot);
    }

    /// Credits the sample that a resident belongs to or came from. Separate from
    /// [`Policy::hit`] to keep that small.
    #[inline(never)]
    fn give_due(&mut self, host: &mut impl Host<()>, slot: Slot, sample: u32) {
        if sample == HEIR {
            self.give_ghost_its_due(host, host.hash(slot), host.weight(slot));
        } else {
            let cost = self.costs.of(slot);
            self.learner.add_utility(sample, cost, self.now, host.weight(slot));
        }
    }

    /// Whether it is time for the next model, by the clock that the parameters name.
    fn is_due(&self, trained: u32) -> bool {
        let requests = u64::from(self.now.wrapping_sub(trained));
        match self.settings.interval {
            Interval::Requests(wanted) => requests >= wanted,
            Interval::Time(ns) => {
                let times = &self.trace.times_ns;
                let then = times.get(trained.wrapping_sub(1) as usize);
                let then = then.map_or(f64::from(trained), |&then| then as f64 / 1e9);
                self.seconds() - then >= ns as f64 / 1e9
            }
            Interval::Share(share) if self.trace.requests > 0 => {
                requests as f64 >= share * self.trace.requests as f64
            }
            Interval::Snapshot | Interval::Share(_) => false,
        }
    }

    /// Whether the last snapshot's groups have been watched for long enough: the first two for
    /// a quarter and half of the usual horizon, so that there is a model early.
    fn is_over(&self) -> bool {
        let part = f64::from(1u32 << self.snapshots.min(3)) / 8.0;
        self.written as f64 >= part * self.settings.horizon * self.resident_then as f64
    }

    /// Whether the interval depends on snapshots.
    fn trains_by_snapshots(&self) -> bool {
        match self.settings.interval {
            Interval::Snapshot => true,
            Interval::Share(_) => self.trace.requests == 0,
            Interval::Requests(_) | Interval::Time(_) => false,
        }
    }

    /// Trains when it is due, and takes the next snapshot when the last one ends.
    fn learn(&mut self) {
        if self.settings.utility == Sight::Future {
            return;
        }
        if self.snapshots > 0 {
            let due = self.is_due(self.trained);
            if !due && !self.is_over() {
                return;
            }
            self.learner.collect();
            if due || (self.trains_by_snapshots() && self.learner.model.is_stale()) {
                self.learner.model.train();
                self.trained = self.now;
                self.ranking.limit = 0;
            }
        } else {
            self.trained = self.now;
        }
        let grace = (self.settings.grace * f64::from(self.groups.live)) as f32;
        let seconds = self.seconds();
        self.learner.sample(&mut self.groups, self.now, seconds, grace);
        self.snapshots = self.snapshots.saturating_add(1);
        (self.written, self.resident_then) = (0, self.groups.live.into());
    }

    /// Ranks all closed groups.
    fn rank(&mut self, host: &impl Host<()>) {
        let groups: Vec<u32> = self.groups.closed().collect();
        let seconds = self.seconds();
        let mut predicted = std::mem::take(&mut self.scratch.predicted);
        match self.learner.model.trees() {
            Some(model) if self.settings.utility == Sight::Past => {
                let rows = groups.iter().map(|&group| self.groups.features(group, seconds));
                self.scratch.rows.clear();
                self.scratch.rows.extend(rows);
                model.predict(&self.scratch.rows, &mut predicted);
            }
            _ => {
                predicted.clear();
                predicted.extend(groups.iter().map(|&group| self.true_utility(host, group)));
            }
        }
        let ranking = &mut self.ranking;
        ranking.number = ranking.number.wrapping_add(1).max(1);
        ranking.order.clear();
        for (&group, &utility) in groups.iter().zip(&predicted) {
            let group_of = self.groups.get_mut(group);
            group_of.ranking = ranking.number;
            // Its utility per byte. A model may predict a negative one.
            let bytes = group_of.bytes.max(1) as f32;
            let utility = if utility > 0.0 { utility / bytes } else { utility * bytes };
            ranking.order.push((ordered(utility), group));
        }
        // Of equals the older group is evicted: they are in the order of their writing.
        ranking.order.sort_by_key(|&(utility, _)| utility);
        ranking.position = 0;
        ranking.limit = ((groups.len() as f64 * self.settings.fraction) as usize).max(1);
        self.scratch.predicted = predicted;
    }

    /// The utility of a group's objects until their next requests.
    fn true_utility(&self, host: &impl Host<()>, group: u32) -> f32 {
        let of_one = |slot: Slot| match self.distance(slot) {
            Some(distance) => {
                f64::from(self.costs.of(slot)) / (distance as f64 * host.weight(slot).max(1) as f64)
            }
            None => 0.0,
        };
        self.groups.members(group).map(of_one).sum::<f64>() as f32
    }

    /// The group that a merge begins with.
    fn choose(&mut self, host: &impl Host<()>) -> u32 {
        if self.learner.model.trees().is_none() && self.settings.utility == Sight::Past {
            // At its end the pointer would continue with the groups written last, merge after
            // merge.
            let (merge, cursor) = (self.settings.merge as usize, self.groups.cursor);
            let follow = self.groups.closed_from(cursor).take(merge).count() == merge;
            return if follow { cursor } else { self.groups.oldest };
        }
        loop {
            if self.ranking.position >= self.ranking.limit {
                self.rank(host);
            }
            let (_, group) = self.ranking.order[self.ranking.position];
            self.ranking.position += 1;
            if self.groups.get(group).ranking == self.ranking.number {
                return group;
            }
        }
    }

    /// Puts the group, and those written next after it, in the window, oldest first; or those
    /// before it if there are none after it. A half-empty group counts as the share of it that is
    /// live.
    fn choose_window(&mut self, first: u32) {
        let merge = self.settings.merge as usize;
        let enough = self.groups.limit() * (2 * self.settings.merge - 1) / 2;
        let window = &mut self.scratch.window;
        window.clear();
        window.push(first);
        let mut held = self.groups.get(first).live;
        let wants = |window: &Vec<u32>, held: u32| {
            window.len() < merge || (held < enough && window.len() < MOST_MERGED * merge)
        };
        let mut newer = self.groups.get(first).newer;
        while newer != NONE && newer != self.groups.open && wants(window, held) {
            window.push(newer);
            held += self.groups.get(newer).live;
            newer = self.groups.get(newer).newer;
        }
        let mut older = self.groups.get(first).older;
        while older != NONE && wants(window, held) {
            window.insert(0, older);
            held += self.groups.get(older).live;
            older = self.groups.get(older).older;
        }
    }

    /// Merges groups into one, and condemns the objects that do not stay. False if nothing is left.
    fn merge(&mut self, host: &mut impl Host<()>) -> bool {
        if self.groups.closed == 0 {
            self.close();
        }
        if self.groups.closed == 0 {
            return false;
        }
        let first = self.choose(host);
        self.choose_window(first);
        self.collect_candidates(host);
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        let share = candidates.len() / self.settings.merge as usize;
        let kept = share.min(self.groups.limit() as usize);
        if kept > 0 {
            candidates.select_nth_unstable(kept);
        }
        let (staying, going) = candidates.split_at_mut(kept);
        staying.sort_unstable_by_key(|&(_, order, _)| order);
        going.sort_unstable();
        for &mut (_, _, slot) in going {
            self.groups.condemn(slot);
            self.victims.push(slot);
        }
        let after = self.replace_window(host, staying);
        self.groups.cursor = after;
        self.scratch.candidates = candidates;
        true
    }

    /// Collects all objects in the window with the cost of keeping them. Objects not requested
    /// since their sample was taken get a ghost.
    fn collect_candidates(&mut self, host: &mut impl Host<()>) {
        let mut candidates = std::mem::take(&mut self.scratch.candidates);
        candidates.clear();
        let watched_for = self.now.wrapping_sub(self.learner.since);
        for &group in &self.scratch.window {
            let sample = self.groups.tally(group).sample;
            for slot in self.groups.members(group) {
                let idle = self.now.wrapping_sub(self.groups.object(slot).last);
                let cost = match self.settings.retention {
                    Sight::Past => u64::from(idle) + 1,
                    Sight::Future => self.distance(slot).unwrap_or(u64::MAX),
                };
                let mut cost = cost.saturating_mul(host.weight(slot).max(1));
                if !C::ARE_ONE {
                    // Non-negative numbers have the order of their bits.
                    cost = (cost as f64 / f64::from(self.costs.of(slot))).to_bits();
                }
                candidates.push((cost, candidates.len() as u32, slot));
                if sample < HEIR && idle >= watched_for {
                    let miss_cost = self.costs.of(slot);
                    self.learner.ghosts.insert(host.hash(slot), sample, miss_cost);
                }
            }
        }
        host.count(Work::Skip, candidates.len() as u32);
        self.scratch.candidates = candidates;
    }

    /// Replaces the window by a group of the staying objects. Returns the group after it.
    fn replace_window(&mut self, host: &impl Host<()>, staying: &[(u64, u32, Slot)]) -> u32 {
        let older = self.groups.get(self.scratch.window[0]).older;
        let (group, mut tally) = self.groups.mean(&self.scratch.window);
        for &group in &self.scratch.window {
            self.groups.end(group);
        }
        let is_active = |&&(_, _, slot): &&(u64, u32, Slot)| self.groups.object(slot).is_active();
        tally.active = staying.iter().filter(is_active).count() as f32;
        let mut after = older;
        if !staying.is_empty() {
            after = self.groups.begin(group, tally);
            self.groups.link(after, older);
            self.groups.closed += 1;
            for &(_, _, slot) in staying {
                self.groups.put(after, slot, host.weight(slot));
            }
        }
        if after == NONE { self.groups.oldest } else { self.groups.get(after).newer }
    }
}

/// A number whose order is that of `value`, which is not NaN.
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

impl<C: MissCosts> Policy for GlCache<C> {
    type Meta = ();
    type Pending = GroupFlight<C::Flight>;
    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.tick();
        host.count(Work::Mark, 1);
        if !self.trace.next.is_empty() {
            self.expect(slot, self.foresee());
        }
        let Whereabouts::Group(group) = self.groups.whereabouts(slot) else {
            self.spare(host, slot);
            return;
        };
        let last = self.groups.request(slot, group, self.now);
        let sample = self.groups.tally(group).sample;
        // Once since the snapshot.
        let is_first = self.now.wrapping_sub(last) >= self.now.wrapping_sub(self.learner.since);
        if sample != NONE && is_first {
            self.give_due(host, slot, sample);
        }
        self.costs.hit(slot, host.now());
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) -> Self::Pending {
        self.tick();
        self.rates.misses += 1;
        self.give_ghost_its_due(host, hash, weight);
        let cost = self.costs.miss(host.now(), host.fetch_ticks());
        GroupFlight { cost, next: self.foresee() }
    }

    fn delayed_hit(&mut self, host: &mut impl Host<()>, incoming: &mut Incoming<Self::Pending>) {
        self.tick();
        self.costs.delayed_hit(&mut incoming.pending.cost, host.now());
        incoming.pending.next = self.foresee();
    }

    #[inline]
    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        _incoming: Option<&Incoming<Self::Pending>>,
    ) -> Eviction {
        loop {
            while let Some(slot) = self.victims.pop() {
                if self.groups.whereabouts(slot) == Whereabouts::Condemned {
                    self.groups.forget(slot);
                    return Eviction::Victim(slot);
                }
            }
            self.learn();
            if !self.merge(host) {
                return Eviction::Empty;
            }
        }
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<Self::Pending>) {
        let GroupFlight { cost, next } = incoming.pending;
        self.expect(slot, next);
        self.costs.insert(slot, cost, host.fetch_ticks());
        self.write(host, slot);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.learner.ghosts.take(host.hash(slot));
        self.groups.remove(slot, host.weight(slot));
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        if let Whereabouts::Group(group) = self.groups.whereabouts(slot) {
            let group = self.groups.get_mut(group);
            group.bytes = group.bytes.saturating_sub(old_weight) + host.weight(slot);
        }
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let (mut copy, mut still) = (self.clone(), Still(host));
        let next = || match copy.evict(&mut still, None) {
            Eviction::Victim(slot) => Some(slot),
            Eviction::Refuse | Eviction::Empty => None,
        };
        std::iter::from_fn(next).collect()
    }
}

/// A read-only view of a host, which ignores reported work.
struct Still<'a, H>(&'a H);

impl<H: Host<()>> Host<()> for Still<'_, H> {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn meta(&self, slot: Slot) -> &() {
        self.0.meta(slot)
    }
    fn hash(&self, slot: Slot) -> u64 {
        self.0.hash(slot)
    }
    fn weight(&self, slot: Slot) -> u64 {
        self.0.weight(slot)
    }
}
