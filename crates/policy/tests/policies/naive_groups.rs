//! GL-Cache against a model written from its paper and `docs/design/gl-cache.md` in the plainest
//! way: groups are vectors, a group's utility is collected through one map, and all counts are
//! computed on demand. Only the trees are the same.

use std::collections::BTreeMap;

use frazil_policy::{
    BoostedTrees, Boosting, Fifo, GlCache, GroupLearning, GroupMode, Interval, Policy, Rng,
    Samples, TraceKnowledge,
};
use proptest::prelude::*;

use crate::cache::Cache;

/// Fewest groups in a cache.
const LEAST_GROUPS: usize = 32;

#[derive(Clone, Debug)]
enum Step {
    Request(u64, u64),
    Remove(u64),
}

#[derive(Clone, Debug)]
struct Object {
    weight: u64,
    last: u64,
    active: bool,
}

#[derive(Clone, Debug)]
struct Group {
    /// No two groups have the same.
    number: usize,
    members: Vec<u64>,
    /// Objects written into it, including deleted ones.
    filled: usize,
    written: f64,
    requests: f32,
    active: f32,
    states: [f32; 3],
    open: bool,
}

struct Model {
    settings: GroupLearning,
    capacity: u64,
    now: u64,
    begun: usize,
    groups: Vec<Group>,
    objects: BTreeMap<u64, Object>,
    condemned: Vec<u64>,
    /// Requests and misses of the window, and when it began.
    window: (u64, u64, f64),
    states: [f32; 3],
    /// Objects that have yet to credit their sample, and that sample.
    watched: BTreeMap<u64, usize>,
    since: Option<u64>,
    grace: f32,
    written: usize,
    resident_then: usize,
    current: Samples<7>,
    kept: Samples<7>,
    fresh: usize,
    trees: Option<BoostedTrees<7>>,
    ranking: Vec<usize>,
    position: usize,
    limit: usize,
    /// The group that the next merge begins with; `None` is the oldest.
    cursor: Option<usize>,
    trained: usize,
    trained_at: u64,
    snapshots: usize,
}

impl Model {
    fn new(settings: GroupLearning, capacity: u64) -> Self {
        Model {
            settings,
            capacity,
            now: 0,
            begun: 0,
            groups: vec![],
            objects: BTreeMap::new(),
            condemned: vec![],
            window: (0, 0, 0.0),
            states: [0.0, 0.0, 1.0],
            watched: BTreeMap::new(),
            since: None,
            grace: 0.0,
            written: 0,
            resident_then: 0,
            current: Samples::default(),
            kept: Samples::default(),
            fresh: 0,
            trees: None,
            ranking: vec![],
            position: 0,
            limit: 0,
            cursor: None,
            trained: 0,
            trained_at: 0,
            snapshots: 0,
        }
    }

    fn live(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }

    fn most(&self) -> usize {
        (self.live() / LEAST_GROUPS).clamp(1, self.settings.segment as usize)
    }

    fn used(&self) -> u64 {
        self.objects.values().map(|object| object.weight).sum()
    }

    fn home(&self, id: u64) -> Option<usize> {
        self.groups.iter().position(|group| group.members.contains(&id))
    }

    fn collect(&mut self, id: u64, weight: u64) {
        if let (Some(sample), Some(since)) = (self.watched.remove(&id), self.since) {
            let time = (self.now - since) as f32 + self.grace;
            self.current.labels[sample] += 1.0 / (time * weight.max(1) as f32);
        }
    }

    fn request(&mut self, id: u64, weight: u64) -> bool {
        self.now += 1;
        self.window.0 += 1;
        let Some(old) = self.objects.get(&id).map(|object| object.weight) else {
            self.window.1 += 1;
            self.collect(id, weight);
            if weight <= self.capacity {
                self.make_room(weight);
                self.write(id, weight);
            }
            return false;
        };
        self.collect(id, old);
        match self.home(id) {
            None => self.write(id, old),
            Some(home) => {
                let object = self.objects.get_mut(&id).unwrap();
                self.groups[home].requests += 1.0;
                self.groups[home].active += if object.active { 0.0 } else { 1.0 };
                (object.last, object.active) = (self.now, true);
            }
        }
        self.objects.get_mut(&id).unwrap().weight = weight;
        if weight != old {
            self.make_room(0);
        }
        true
    }

    fn remove(&mut self, id: u64) {
        if self.objects.remove(&id).is_none() {
            return;
        }
        self.watched.remove(&id);
        if let Some(home) = self.home(id) {
            let group = &mut self.groups[home];
            group.members.retain(|&member| member != id);
            if group.members.is_empty() && !group.open {
                self.end(home);
            }
        }
    }

    /// Removes a group. A merge that would begin with it begins with the next.
    fn end(&mut self, place: usize) {
        let group = self.groups.remove(place);
        if self.cursor == Some(group.number) {
            self.cursor = self.groups.get(place).map(|next| next.number);
        }
    }

    fn write(&mut self, id: u64, weight: u64) {
        self.written += 1;
        if !self.groups.last().is_some_and(|group| group.open) {
            self.begun += 1;
            self.groups.push(Group {
                number: self.begun,
                members: vec![],
                filled: 0,
                written: self.now as f64,
                requests: 0.0,
                active: 0.0,
                states: [0.0; 3],
                open: true,
            });
        }
        self.objects.insert(id, Object { weight, last: self.now, active: false });
        let open = self.groups.last_mut().unwrap();
        open.members.push(id);
        open.filled += 1;
        if open.filled >= self.most() {
            self.close();
        }
    }

    fn close(&mut self) {
        let (requests, misses, began) = self.window;
        let passed = self.now as f64 - began;
        if requests >= u64::from(self.settings.window) && passed > 0.0 {
            self.states = [
                (requests as f64 / passed) as f32,
                (misses as f64 / passed) as f32,
                misses as f32 / requests as f32,
            ];
            self.window = (0, 0, self.now as f64);
        }
        if let Some(open) = self.groups.last_mut().filter(|group| group.open) {
            (open.open, open.states) = (false, self.states);
            if open.members.is_empty() {
                self.end(self.groups.len() - 1);
            }
        }
    }

    fn closed(&self) -> Vec<&Group> {
        self.groups.iter().filter(|group| !group.open).collect()
    }

    fn bytes(&self, group: &Group) -> u64 {
        group.members.iter().map(|id| self.objects[id].weight).sum()
    }

    fn features(&self, group: &Group) -> [f32; 7] {
        let bytes = self.bytes(group);
        let [request_rate, write_rate, miss_ratio] = group.states;
        let mean_size = bytes as f32 / group.members.len() as f32;
        let age = (self.now as f64 - group.written) as f32;
        [request_rate, write_rate, miss_ratio, mean_size, age, group.requests, group.active]
    }

    fn make_room(&mut self, weight: u64) {
        while self.used() + weight > self.capacity {
            while let Some(id) = self.condemned.pop() {
                if self.objects.contains_key(&id) && self.home(id).is_none() {
                    self.objects.remove(&id);
                    break;
                }
            }
            if self.used() + weight > self.capacity && self.condemned.is_empty() {
                self.learn();
                self.merge();
            }
        }
    }

    fn learn(&mut self) {
        if self.since.is_some() {
            let due = match self.settings.interval {
                Interval::Requests(requests) => self.now - self.trained_at >= requests,
                _ => false,
            };
            let part = [0.25, 0.5, 1.0][self.snapshots.min(2)];
            let wanted = part * self.settings.horizon * self.resident_then as f64;
            if !due && (self.written as f64) < wanted {
                return;
            }
            self.snapshots += 1;
            self.collect_samples();
            if due
                || (self.settings.interval == Interval::Snapshot
                    && self.fresh * 4 >= self.kept.rows.len())
            {
                self.train();
                self.trained_at = self.now;
                self.limit = 0;
            }
        } else {
            self.trained_at = self.now;
        }
        self.since = Some(self.now);
        self.grace = (self.settings.grace * self.live() as f64) as f32;
        (self.written, self.resident_then) = (0, self.live());
        self.watched.clear();
        let all: Vec<Group> = self.closed().into_iter().cloned().collect();
        let every = all.len().div_ceil(self.settings.samples as usize).max(1);
        let sampled: Vec<&Group> = all.iter().step_by(every).collect();
        self.current.rows = sampled.iter().map(|group| self.features(group)).collect();
        self.current.labels = vec![0.0; sampled.len()];
        for (sample, group) in sampled.iter().enumerate() {
            self.watched.extend(group.members.iter().map(|&id| (id, sample)));
        }
    }

    fn collect_samples(&mut self) {
        let most = self.current.labels.iter().copied().fold(0.0, f32::max);
        if most == 0.0 {
            return;
        }
        self.fresh += self.current.rows.len();
        self.kept.rows.append(&mut self.current.rows);
        self.kept.labels.extend(self.current.labels.iter().map(|label| label / most));
        while self.kept.rows.len() > self.settings.samples as usize {
            self.kept.rows.remove(0);
            self.kept.labels.remove(0);
        }
    }

    fn train(&mut self) {
        if self.kept.rows.len() < 32 {
            return;
        }
        self.fresh = 0;
        let part = |valid: bool| Samples {
            rows: self
                .kept
                .rows
                .iter()
                .enumerate()
                .filter(|(i, _)| (i % 10 == 0) == valid)
                .map(|(_, row)| *row)
                .collect(),
            labels: self
                .kept
                .labels
                .iter()
                .enumerate()
                .filter(|(i, _)| (i % 10 == 0) == valid)
                .map(|(_, label)| *label)
                .collect(),
        };
        self.trees = Some(BoostedTrees::fit(&part(false), &part(true), &self.settings.boosting));
        self.trained += 1;
    }

    /// The place of the group that a merge begins with.
    fn choose(&mut self) -> usize {
        let Some(trees) = &self.trees else {
            let place = self.groups.iter().position(|group| Some(group.number) == self.cursor);
            let merge = self.settings.merge as usize;
            return place.filter(|&place| place + merge <= self.closed().len()).unwrap_or(0);
        };
        loop {
            if self.position >= self.limit {
                let closed = self.closed();
                let rows: Vec<_> = closed.iter().map(|group| self.features(group)).collect();
                let mut utilities = vec![];
                trees.predict(&rows, &mut utilities);
                let mut order: Vec<usize> = (0..rows.len()).collect();
                for (utility, group) in utilities.iter_mut().zip(&closed) {
                    let bytes = self.bytes(group).max(1) as f32;
                    *utility = if *utility > 0.0 { *utility / bytes } else { *utility * bytes };
                }
                order.sort_by(|&a, &b| utilities[a].total_cmp(&utilities[b]));
                let ranking: Vec<usize> = order.iter().map(|&it| closed[it].number).collect();
                self.limit = ((rows.len() as f64 * self.settings.fraction) as usize).max(1);
                (self.ranking, self.position) = (ranking, 0);
            }
            let number = self.ranking[self.position];
            self.position += 1;
            if let Some(place) = self.groups.iter().position(|group| group.number == number) {
                return place;
            }
        }
    }

    fn merge(&mut self) {
        if self.closed().is_empty() {
            self.close();
        }
        let merge = self.settings.merge as usize;
        let first = self.choose();
        let (mut from, mut to) = (first, first + 1);
        let enough = self.most() * (2 * merge - 1) / 2;
        let closed = self.closed().len();
        let wants = |groups: &[Group]| {
            let held: usize = groups.iter().map(|group| group.members.len()).sum();
            groups.len() < merge || (held < enough && groups.len() < 4 * merge)
        };
        while to < closed && wants(&self.groups[from..to]) {
            to += 1;
        }
        while from > 0 && wants(&self.groups[from..to]) {
            from -= 1;
        }
        let window: Vec<Group> = self.groups.drain(from..to).collect();
        let members: Vec<u64> = window.iter().flat_map(|group| group.members.clone()).collect();
        let cost =
            |id: &u64| (self.now - self.objects[id].last + 1) * self.objects[id].weight.max(1);
        let mut by_cost = members.clone();
        by_cost.sort_by_key(cost);
        let live = self.live() + members.len();
        let most = (live / LEAST_GROUPS).clamp(1, self.settings.segment as usize);
        let going = by_cost.split_off((members.len() / merge).min(most));
        let staying: Vec<u64> = members.into_iter().filter(|id| by_cost.contains(id)).collect();
        self.condemned.extend(going);
        self.cursor = self.groups.get(from).map(|next| next.number);
        if staying.is_empty() {
            return;
        }
        let count = window.len() as f32;
        let sum = |of: &dyn Fn(&Group) -> f32| window.iter().map(of).fold(0.0, |a, b| a + b);
        self.begun += 1;
        let merged = Group {
            number: self.begun,
            filled: staying.len(),
            active: staying.iter().filter(|id| self.objects[id].active).count() as f32,
            members: staying,
            written: window.iter().map(|it| it.written).sum::<f64>() / f64::from(count),
            requests: sum(&|it| it.requests) / count,
            states: std::array::from_fn(|state| sum(&|it| it.states[state]) / count),
            open: false,
        };
        self.groups.insert(from, merged);
    }
}

/// Loops, scans and popular objects in turn, so that groups differ; now and then a delete.
fn steps(seed: u64, count: usize, ids: u64, weights: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut scanned = 10_000;
    let step = |number: usize| {
        let id = match (number / 150 % 3, rng.below(10)) {
            (_, 0..4) => rng.below(ids / 8 + 1),
            (0, _) => ids + number as u64 % (ids / 2 + 1),
            (1, _) => {
                scanned += 1;
                scanned
            }
            _ => rng.below(ids),
        };
        // Overwritten with another weight now and then.
        let weight = if weights == 1 { 1 } else { (id + rng.below(20) / 19) % weights };
        if rng.below(40) == 0 { Step::Remove(id) } else { Step::Request(id, weight) }
    };
    (0..count).map(step).collect()
}

/// Puts both through the same steps. Returns how often a model was trained.
fn agree(settings: GroupLearning, capacity: u64, steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut cache = Cache::new(<GlCache>::new(settings, TraceKnowledge::default()), capacity);
    let mut model = Model::new(settings, capacity);
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Request(id, weight) => {
                let hit = cache.request(id, weight);
                prop_assert_eq!(hit, model.request(id, weight), "step {}", number);
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.remove(id);
            }
        }
        prop_assert!(cache.used() <= capacity);
        prop_assert_eq!(cache.used(), model.used(), "step {}", number);
        prop_assert!(cache.policy.ghosts() <= model.watched.len().min(model.resident_then));
    }
    let ours: Vec<u64> = cache.index.keys().copied().collect();
    let theirs: Vec<u64> = model.objects.keys().copied().collect();
    prop_assert_eq!(ours, theirs);
    Ok(model.trained)
}

fn settings(mode: GroupMode, segment: u32, interval: Interval) -> GroupLearning {
    let boosting = Boosting { rounds: 4, depth: 3, ..Boosting::default() };
    let usual = GroupLearning::of(mode);
    GroupLearning { segment, interval, samples: 100, window: 20, boosting, ..usual }
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn it_equals_its_model(
        seed in any::<u64>(),
        ids in 20u64..400,
        capacity in 1u64..250,
        weights in prop_oneof![Just(1u64), Just(2), Just(7)],
        throughput in any::<bool>(),
        segment in 1u32..7,
        horizon in prop_oneof![Just(0.3), Just(1.0), Just(2.5)],
        interval in prop_oneof![
            Just(Interval::Snapshot),
            (1u64..600).prop_map(Interval::Requests),
        ],
    ) {
        let mode = if throughput { GroupMode::Throughput } else { GroupMode::Efficiency };
        let steps = steps(seed, 2_000, ids, weights);
        let settings = GroupLearning { horizon, ..settings(mode, segment, interval) };
        agree(settings, capacity, &steps)?;
    }
}

/// The property is useless if nothing is learned.
#[test]
fn models_are_trained_meanwhile() {
    for mode in [GroupMode::Efficiency, GroupMode::Throughput] {
        let steps = steps(3, 12_000, 300, 1);
        let trained = agree(settings(mode, 4, Interval::Snapshot), 150, &steps);
        assert!(trained.expect("they agree") >= 3);
    }
}

/// Before there is a model it keeps new objects about as well as FIFO, and requested ones
/// better: its pointer does not stay at the new end.
#[test]
fn without_a_model_it_is_no_worse_than_fifo() {
    let boosting = Boosting { rounds: 0, ..Boosting::default() };
    let settings = GroupLearning { boosting, ..GroupLearning::default() };
    fn hits(policy: impl Policy) -> usize {
        let (mut cache, mut rng) = (Cache::new(policy, 3_000), Rng::new(5));
        let mut hit = |number: u64| {
            // New objects, often very new ones.
            let age = rng.below(10_000).min(rng.below(10_000));
            cache.request(20_000 + number / 4 - age, 1)
        };
        (0..60_000).filter(|&number| hit(number)).count()
    }
    let ours = hits(<GlCache>::new(settings, TraceKnowledge::default()));
    let fifo = hits(Fifo::default());
    assert!(ours as f64 > 0.97 * fifo as f64, "{ours} {fifo}");
}

/// The same hits on a fixed course, on every machine and with every build.
#[test]
fn it_is_deterministic() {
    let hits = |settings: GroupLearning| {
        let mut cache = Cache::new(<GlCache>::new(settings, TraceKnowledge::default()), 700);
        let hit = |step: &Step| match *step {
            Step::Request(id, weight) => cache.request(id, weight),
            Step::Remove(id) => {
                cache.remove(id);
                false
            }
        };
        steps(9, 60_000, 3_000, 3).iter().map(hit).filter(|&hit| hit).count()
    };
    let both =
        [GroupMode::Efficiency, GroupMode::Throughput].map(|mode| hits(GroupLearning::of(mode)));
    assert_eq!(both, [18_950, 19_471]);
}
