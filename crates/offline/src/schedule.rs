//! A schedule: an unsplit path for each object, such that all fit into the cache.
//!
//! First each object, least split flow first, gets the path of the greatest flow that fits. Then
//! one pass over the requests of an object, from the last to the first, finds its cheapest path
//! that fits, with the others fixed. A few objects that are requested at about the same time are
//! taken out together and put back one after the other, in a random order and with a random weight
//! of prices. A worse result is undone. All randomness is seeded, and steps, not time, bound the
//! work.

use frazil_policy::Rng;

use crate::program::{At, Program};
use crate::relaxation::{Relaxation, Solution};

/// How often objects are taken out and put back, for each object that has a choice.
const TRIES_AN_OBJECT: usize = 60;
/// Most objects taken out at a time.
const TOGETHER: u64 = 8;
/// Greatest distance of their requests.
const NEAR: u64 = 64;

/// A node of an object's path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) request: u32,
    pub(crate) at: At,
    /// Whether the object is held from here to the next request that it can be held for.
    pub(crate) held: bool,
}

/// The cost of the rest of a path from a node on, and its number of moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
struct Rest {
    cost: f64,
    room: u32,
}

/// A path for each object.
#[derive(Debug)]
pub(crate) struct Schedule<'p> {
    program: &'p Program,
    paths: Vec<Vec<Step>>,
    /// By moment: the number of objects held.
    full: Vec<u32>,
    total: u64,
    /// The rest from each node of the current object, and whether it is held there.
    rest: [Vec<(Rest, bool)>; 2],
}

impl<'p> Schedule<'p> {
    /// The schedule nearest to the relaxation's flows, improved until no improvement is found or
    /// `least`, a lower bound on any schedule, is reached.
    pub(crate) fn round(
        program: &'p Program,
        relaxation: &Relaxation,
        solution: &Solution,
        least: u64,
    ) -> Self {
        let nodes = vec![(Rest::default(), false); program.next.len()];
        let mut schedule = Schedule {
            program,
            paths: vec![Vec::new(); program.objects.len()],
            full: vec![0; program.moments],
            total: 0,
            rest: [nodes.clone(), nodes],
        };
        let flow = |request, at| relaxation.held(solution, request, at).clamp(0.0, 1.0);
        let split = |requests: &Vec<u32>| {
            let nodes = requests.iter().flat_map(|&it| [(it, At::Hit), (it, At::Miss)]);
            nodes
                .map(|(request, at)| flow(request, at))
                .map(|it| it.min(1.0 - it))
                .fold(0.0, f64::max)
        };
        let mut order: Vec<(f64, usize)> = program.objects.iter().map(split).zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let prices = relaxation.prices(solution);
        for &(_, object) in &order {
            // The reward for following the flow exceeds any cost of delays.
            let unit = program.fetch as f64;
            schedule.route(object, &sums(&prices, 1.0), |request, at| flow(request, at) * unit);
        }
        schedule.improve(&order, &prices, least);
        schedule
    }

    /// The records before which an object is evicted, with the object, in order: for
    /// [`frazil_simulator::replay_schedule`].
    pub(crate) fn leaving(&self) -> Vec<(u32, u32)> {
        let mut leaving = Vec::new();
        for (object, path) in (0u32..).zip(&self.paths) {
            for step in path.iter().filter(|step| !step.held) {
                let wait = if step.at == At::Hit { 1 } else { self.program.fetch };
                let record = u64::from(step.request) + wait;
                leaving.extend(u32::try_from(record).ok().map(|record| (record, object)));
            }
        }
        leaving.sort_unstable();
        leaving
    }

    fn improve(&mut self, order: &[(f64, usize)], prices: &[f64], least: u64) {
        let program = self.program;
        let has_choice = |object: usize| {
            let first = program.objects[object].first();
            first.is_some_and(|&first| program.target(first, At::Miss).is_some())
        };
        let objects: Vec<usize> =
            order.iter().map(|it| it.1).filter(|&object| has_choice(object)).collect();
        let weighed: Vec<Vec<f64>> = [0.0, 0.5, 1.0].map(|factor| sums(prices, factor)).into();
        let mut before = u64::MAX;
        while self.total < before && self.total > least {
            before = self.total;
            for &object in &objects {
                self.route(object, &weighed[0], |_, _| 0.0);
            }
        }
        let mut rng = Rng::new(1);
        for _ in 0..objects.len() * TRIES_AN_OBJECT {
            if self.total <= least {
                return;
            }
            self.put_back_otherwise(&mut rng, &weighed);
        }
    }

    /// Takes out a few objects and puts them back, and undoes that if the result is worse.
    fn put_back_otherwise(&mut self, rng: &mut Rng, weighed: &[Vec<f64>]) {
        let requests = self.program.object.len() as u64;
        let middle = rng.below(requests);
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..2 + rng.below(TOGETHER - 1) {
            let place = (middle + rng.below(NEAR)) % requests;
            let object = self.program.object[place as usize] as usize;
            if !chosen.contains(&object) {
                chosen.push(object);
            }
        }
        let total = self.total;
        let old: Vec<Vec<Step>> = chosen.iter().map(|&object| self.take_out(object)).collect();
        let prices = &weighed[rng.below(weighed.len() as u64) as usize];
        for &object in &chosen {
            self.route(object, prices, |_, _| 0.0);
        }
        for &object in &chosen {
            self.route(object, &weighed[0], |_, _| 0.0);
        }
        if self.total > total {
            for &object in &chosen {
                self.take_out(object);
            }
            for (&object, path) in chosen.iter().zip(old) {
                self.put_in(object, path);
            }
        }
    }

    /// Gives an object the cheapest path that fits. A place costs the difference of `prices`, and
    /// `bonus` rewards holding.
    fn route(&mut self, object: usize, prices: &[f64], bonus: impl Fn(u32, At) -> f64) {
        self.take_out(object);
        let program = self.program;
        let requests = &program.objects[object];
        for &request in requests.iter().rev() {
            for at in [At::Hit, At::Miss] {
                let mut best = (Rest::default(), false);
                if let Some(target) = program.target(request, at) {
                    let rest = |at: At| self.rest[at as usize][target as usize].0;
                    best.0 = rest(At::Miss);
                    let moments = program.held(request, at).unwrap_or_default();
                    if self.full[moments.clone()].iter().all(|&full| full < program.capacity) {
                        let mut held = rest(At::Hit);
                        held.cost +=
                            prices[moments.end] - prices[moments.start] - bonus(request, at);
                        held.room += moments.len() as u32;
                        if held < best.0 {
                            best = (held, true);
                        }
                    }
                }
                if at == At::Miss {
                    best.0.cost += program.delay[request as usize] as f64;
                }
                self.rest[at as usize][request as usize] = best;
            }
        }
        let mut path = Vec::new();
        let mut node = requests.first().map(|&first| (first, At::Miss));
        while let Some((request, at)) = node {
            let held = self.rest[at as usize][request as usize].1;
            path.push(Step { request, at, held });
            let at_target = if held { At::Hit } else { At::Miss };
            node = program.target(request, at).map(|target| (target, at_target));
        }
        self.put_in(object, path);
    }

    fn take_out(&mut self, object: usize) -> Vec<Step> {
        let path = std::mem::take(&mut self.paths[object]);
        for step in &path {
            if step.held {
                let moments = self.program.held(step.request, step.at).unwrap_or_default();
                self.full[moments].iter_mut().for_each(|full| *full -= 1);
            }
        }
        self.total -= self.cost(&path);
        path
    }

    fn put_in(&mut self, object: usize, path: Vec<Step>) {
        for step in &path {
            if step.held {
                let moments = self.program.held(step.request, step.at).unwrap_or_default();
                self.full[moments].iter_mut().for_each(|full| *full += 1);
            }
        }
        self.total += self.cost(&path);
        self.paths[object] = path;
    }

    fn cost(&self, path: &[Step]) -> u64 {
        let misses = path.iter().filter(|step| step.at == At::Miss);
        misses.map(|step| self.program.delay[step.request as usize]).sum()
    }
}

/// Cumulated price of places up to each moment, at a share of their prices.
fn sums(prices: &[f64], factor: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |price: &f64| {
        sum += price.max(0.0) * factor;
        sum
    };
    [0.0].into_iter().chain(prices.iter().map(add)).collect()
}
