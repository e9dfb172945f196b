//! MAD against a model that keeps the times of all requests and counts from them anew
//! whenever a victim is chosen, with objects in flight. MAD against its bases if no
//! request waits. The guarded policy against a model that replays all three caches.

use std::collections::BTreeMap;

use crate::cache::Cache;
use crate::model::Step;
use frazil_policy::{
    AdaptiveReplacement, Estimate, Guarded, IdleSince, Lhd, Lru, LruSampled, LruSets, Mad, MadBase,
    OfAll, OfResidents, Policy, Windows, object_hash,
};
use proptest::prelude::*;

const PAPER: Estimate =
    Estimate { windows: Windows::All, prior: 0, idle_since: IdleSince::Request };
const CAUTIOUS: Estimate =
    Estimate { windows: Windows::All, prior: 1, idle_since: IdleSince::Request };
/// One set that holds all.
const ALL: usize = usize::MAX;

/// Bursts of requests for few ids among requests for many, with a delete now and then.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        8 => (0u64..40).prop_map(|id| vec![Step::Request(id)]),
        2 => (0u64..10, 1usize..8).prop_map(|(id, len)| vec![Step::Request(id); len]),
        1 => (0u64..40).prop_map(|id| vec![Step::Remove(id)]),
    ];
    prop::collection::vec(one, 1..250).prop_map(|runs| runs.concat())
}

/// LRU-MAD as paper 5 describes it, slot by slot.
struct MadModel {
    /// Times of all requests that count, by id.
    times: BTreeMap<u64, Vec<u64>>,
    resident: Vec<u64>,
    /// Ids in flight, and the last tick of their fetches.
    flights: Vec<(u64, u64)>,
    fetch: u64,
    capacity: usize,
    /// Whether an eviction drops the object's data.
    forgets: bool,
    estimate: Estimate,
    /// Times of the residents' commits.
    commits: BTreeMap<u64, u64>,
    now: u64,
    /// Number of sets, and their largest mean size.
    sets: u64,
    ways: usize,
    /// Whether it evicts as LRU does.
    is_lru: bool,
}

impl MadModel {
    fn new(
        capacity: usize,
        fetch: u64,
        (forgets, estimate): (bool, Estimate),
        ways: usize,
    ) -> Self {
        MadModel {
            times: BTreeMap::new(),
            resident: vec![],
            flights: vec![],
            fetch,
            capacity,
            forgets,
            estimate,
            commits: BTreeMap::new(),
            now: 0,
            sets: 1,
            ways,
            is_lru: false,
        }
    }

    /// The mean of the windows that count, over the time since the last request.
    fn rank(&self, id: u64) -> f64 {
        let (mut start, mut delays) = (None, Vec::new());
        for &time in &self.times[&id] {
            match (start, delays.last_mut()) {
                (Some(began), Some(delay)) if time - began < self.fetch => {
                    *delay += self.fetch - (time - began);
                }
                _ => {
                    start = Some(time);
                    delays.push(self.fetch);
                }
            }
        }
        let prior = f64::from(self.estimate.prior);
        if self.estimate.windows == Windows::Ended && (delays.len() > 1 || prior > 0.0) {
            delays.pop();
        }
        let sum = delays.iter().sum::<u64>() as f64 + prior * self.fetch as f64;
        let idle = self.now - self.idle_since(id).0 + 1;
        sum / (delays.len() as f64 + prior) / idle as f64
    }

    /// The tick, and whether it is a commit's, which follows a request's.
    fn idle_since(&self, id: u64) -> (u64, bool) {
        match self.estimate.idle_since {
            IdleSince::Request => (*self.times[&id].last().expect("requested"), false),
            IdleSince::Commit => self.newest(id),
        }
    }

    /// The last request or, if that is later, the commit.
    fn newest(&self, id: u64) -> (u64, bool) {
        let requested = (*self.times[&id].last().expect("requested"), false);
        requested.max((self.commits[&id], true))
    }

    /// The wait of a request if it were the next.
    fn wait(&self, id: u64) -> u64 {
        let flight = self.flights.iter().find(|&&(other, _)| other == id);
        match flight {
            _ if self.resident.contains(&id) => 0,
            Some(&(_, last)) => last - self.now,
            None => self.fetch,
        }
    }

    /// Commits the fetches that end in a tick, at its end.
    fn land(&mut self) -> Option<u64> {
        let (id, _) = *self.flights.iter().find(|&&(_, last)| last == self.now)?;
        self.commit(id);
        Some(id)
    }

    /// True on a hit.
    fn request(&mut self, id: u64) -> bool {
        self.now += 1;
        self.times.entry(id).or_default().push(self.now);
        let hit = self.resident.contains(&id);
        if !hit && !self.flights.iter().any(|&(other, _)| other == id) {
            self.flights.push((id, self.now + self.fetch - 1));
        }
        hit
    }

    fn remove(&mut self, id: u64) {
        if let Some(place) = self.resident.iter().position(|&other| other == id) {
            self.drop_resident(place);
        }
    }

    fn drop_resident(&mut self, place: usize) {
        let id = self.resident.remove(place);
        if self.forgets {
            self.times.remove(&id);
        }
    }

    /// The new object's set, or the next that is not empty.
    fn candidates(&self, id: u64) -> Vec<usize> {
        let set_of = |id: u64| object_hash(id, 1) % self.sets;
        let sets = (0..self.sets).map(|further| (set_of(id) + further) % self.sets);
        let of_set = |set| {
            let is_in = |&place: &usize| set_of(self.resident[place]) == set;
            (0..self.resident.len()).filter(is_in).collect::<Vec<_>>()
        };
        sets.map(of_set).find(|set| !set.is_empty()).expect("residents")
    }

    fn commit(&mut self, id: u64) {
        self.flights.retain(|&(other, _)| other != id);
        if self.resident.len() == self.capacity {
            let of = |id: &u64| match self.is_lru {
                true => (0.0, self.newest(*id)),
                false => (self.rank(*id), self.idle_since(*id)),
            };
            let ranks: Vec<_> = self.resident.iter().map(of).collect();
            let least = self
                .candidates(id)
                .into_iter()
                .min_by(|&a, &b| ranks[a].partial_cmp(&ranks[b]).expect("numbers"))
                .expect("residents");
            self.drop_resident(least);
        }
        if self.resident.len() >= self.ways.saturating_mul(self.sets as usize) {
            self.sets *= 2;
        }
        self.resident.push(id);
        self.commits.insert(id, self.now);
    }
}

fn compare<P: Policy>(
    steps: &[Step],
    policy: P,
    capacity: usize,
    fetch: u64,
    (forgets, estimate): (bool, Estimate),
    ways: usize,
) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(policy, capacity as u64);
    cache.slots.fetch_ticks = Some(fetch);
    let mut model = MadModel::new(capacity, fetch, (forgets, estimate), ways);
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Request(id) => {
                prop_assert_eq!(cache.begin(id, 1), model.request(id), "step {}", number);
                if let Some(id) = model.land() {
                    cache.commit(id);
                }
            }
            Step::Remove(id) => {
                cache.remove(id);
                model.remove(id);
            }
        }
        let mut resident = model.resident.clone();
        resident.sort_unstable();
        let kept: Vec<u64> = cache.index.keys().copied().collect();
        prop_assert_eq!(kept, resident, "step {}", number);
    }
    Ok(())
}

/// Same hits as another policy if every fetch ends at once.
fn same_as<P: Policy, Q: Policy>(
    steps: &[Step],
    one: P,
    other: Q,
    fetch: Option<u64>,
) -> Result<(), TestCaseError> {
    let (mut one, mut other) = (Cache::new(one, 12), Cache::new(other, 12));
    one.slots.fetch_ticks = fetch;
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Request(id) => {
                prop_assert_eq!(one.request(id, 1), other.request(id, 1), "step {}", number);
            }
            Step::Remove(id) => {
                one.remove(id);
                other.remove(id);
            }
        }
        prop_assert_eq!(
            one.index.keys().collect::<Vec<_>>(),
            other.index.keys().collect::<Vec<_>>()
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn over_lru_it_is_the_model(
        steps in steps(),
        capacity in 1usize..16,
        fetch in 1u64..40,
        windows in prop_oneof![Just(Windows::All), Just(Windows::Ended)],
        prior in prop_oneof![Just(0u8), Just(2)],
        idle_since in prop_oneof![Just(IdleSince::Request), Just(IdleSince::Commit)],
    ) {
        let estimate = Estimate { windows, prior, idle_since };
        let resident: Mad<Lru, OfResidents> = Mad::new(Lru::default(), estimate);
        compare(&steps, resident, capacity, fetch, (true, estimate), ALL)?;
        let all: Mad<Lru, OfAll> = Mad::new(Lru::default(), estimate);
        compare(&steps, all, capacity, fetch, (false, estimate), ALL)?;
    }

    /// With one resident a sample holds all.
    #[test]
    fn a_sample_of_all_is_all(steps in steps(), fetch in 1u64..40) {
        let sampled: Mad<LruSampled> = Mad::new(LruSampled::new(64, 1), PAPER);
        compare(&steps, sampled, 1, fetch, (true, PAPER), ALL)?;
    }

    #[test]
    fn of_sets_it_is_the_model(
        steps in steps(),
        capacity in 1usize..30,
        fetch in 1u64..40,
        ways in 1u8..6,
    ) {
        let mad: Mad<LruSets> = Mad::new(LruSets::new(ways), PAPER);
        compare(&steps, mad, capacity, fetch, (true, PAPER), ways.into())?;
        let one: Mad<LruSets> = Mad::new(LruSets::new(64), PAPER);
        compare(&steps, one, capacity, fetch, (true, PAPER), ALL)?;
    }

    #[test]
    fn where_nobody_waits_it_is_its_base(steps in steps(), one_tick: bool) {
        let fetch = one_tick.then_some(1);
        same_as(&steps, Mad::<_, OfResidents>::new(Lru::default(), CAUTIOUS), Lru::default(), fetch)?;
        same_as(&steps, Mad::<_, OfAll>::new(Lru::default(), CAUTIOUS), Lru::default(), fetch)?;
        let arc = AdaptiveReplacement::new(12);
        let estimate = MadBase::Arc.usual_estimate();
        same_as(&steps, Mad::<_, OfResidents>::new(arc.clone(), estimate), arc, fetch)?;
        let lhd = Lhd::new(12, 5);
        same_as(&steps, Mad::<_, OfResidents>::new(lhd.clone(), CAUTIOUS), lhd, fetch)?;
    }
}

/// Objects requested in bursts stay, over each base.
#[test]
fn bursts_stay_over_every_base() {
    fn hits_of<P: Policy>(policy: P) -> usize {
        let mut cache = Cache::new(policy, 20);
        cache.slots.fetch_ticks = Some(30);
        let (mut flights, mut kept) = (Vec::new(), 0);
        for round in 0..400u64 {
            // A burst for one of 3, and then 20 objects that are requested twice, with a gap.
            let burst = round % 3;
            let ids = std::iter::repeat_n(burst, 5).chain(100 + 20 * (round / 2)..).take(25);
            for (turn, id) in ids.enumerate() {
                let hit = cache.begin(id, 1);
                kept += usize::from(hit && id < 10 && turn == 0);
                let now = cache.slots.now;
                if !hit && !flights.iter().any(|&(other, _)| other == id) {
                    flights.push((id, now + 29));
                }
                let (back, rest) = flights.iter().partition(|&&(_, last)| last == now);
                flights = rest;
                back.into_iter().for_each(|(id, _): (u64, u64)| cache.commit(id));
            }
        }
        kept
    }
    let lru =
        (hits_of(Lru::default()), hits_of(Mad::<_, OfResidents>::new(Lru::default(), CAUTIOUS)));
    let arc = AdaptiveReplacement::new(20);
    let arc = (hits_of(arc.clone()), hits_of(Mad::<_, OfResidents>::new(arc, CAUTIOUS)));
    let lhd = Lhd::new(20, 1);
    let lhd = (hits_of(lhd.clone()), hits_of(Mad::<_, OfResidents>::new(lhd, CAUTIOUS)));
    for (name, (base, mad)) in [("lru", lru), ("arc", arc), ("lhd", lhd)] {
        println!("{name}: the first of a burst is hit {base} times, with MAD {mad} times");
        assert!(mad > base, "{name}: {mad} {base}");
    }
}

/// Phases in turn: bursts among objects requested once, where MAD gains, and a loop in which
/// objects are requested again 10 requests after a fetch of 90, where it loses.
fn phases() -> Vec<u64> {
    let mut rng = frazil_policy::Rng::new(11);
    let mut ids = Vec::new();
    for phase in 0..6 {
        let end = ids.len() + 3_000;
        while ids.len() < end {
            match phase % 2 {
                0 => {
                    ids.extend(std::iter::repeat_n(1_000 + rng.below(4), 5));
                    ids.extend((0..25).map(|_| 10_000 + rng.below(5_000)));
                }
                _ => ids.extend(0..100),
            }
        }
    }
    ids
}

/// Three caches: LRU, MAD and guarded. The waits in the first two decide which of them the
/// third follows.
#[test]
fn guarded_it_is_the_model() {
    const FETCH: u64 = 90;
    const CAPACITY: usize = 14;
    let make = |_| Mad::<Lru, OfResidents>::new(Lru::default(), PAPER);
    let mut cache = Cache::new(Guarded::new(make, CAPACITY as u64), CAPACITY as u64);
    cache.slots.fetch_ticks = Some(FETCH);
    let model = || MadModel::new(CAPACITY, FETCH, (true, PAPER), ALL);
    let [mut lru, mut mad, mut guarded] = [model(), model(), model()];
    (lru.is_lru, guarded.is_lru) = (true, true);
    let (mut waited, mut changes) = ([0.0; 2], Vec::new());
    for (number, &id) in (1..).zip(&phases()) {
        waited[0] += lru.wait(id) as f64;
        waited[1] += mad.wait(id) as f64;
        if number % 256 == 0 {
            let margin = if guarded.is_lru { 0.002 } else { 0.0 };
            let is_lru = waited[1] >= waited[0] * (1.0 - margin);
            if is_lru != guarded.is_lru {
                changes.push(number / 3_000);
            }
            guarded.is_lru = is_lru;
            // The other memory bounds are shorter here.
            waited = waited.map(|sum| sum * 0.5f64.powf(256.0 / 16_384.0));
        }
        assert_eq!(cache.begin(id, 1), guarded.request(id), "request {number}");
        for shadow in [&mut lru, &mut mad] {
            shadow.request(id);
            shadow.land();
        }
        if let Some(id) = guarded.land() {
            cache.commit(id);
        }
        let mut resident = guarded.resident.clone();
        resident.sort_unstable();
        assert!(cache.index.keys().eq(&resident), "request {number}");
        if number % 20 == 0
            && let Some(&gone) = resident.last()
        {
            cache.remove(gone);
            [&mut lru, &mut mad, &mut guarded].into_iter().for_each(|model| model.remove(gone));
        }
    }
    println!("it changed in phases {changes:?}");
    assert!(changes.len() >= 2, "both must have been followed");
}
