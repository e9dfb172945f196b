//! Discrete-event simulation of a network: for service that is not exponential, and as the
//! check on the analysis.
//!
//! Events wait in a heap, so an event costs O(log MPL). Requests follow the steps of their routes.
//! Thinking requests are kept apart from queued ones, so that none waits for one that has not
//! arrived (the paper's own program keeps both in one list). A station whose speed depends on its
//! queue does the remaining work of the request in service at its current speed. For exponential
//! times that is exactly the analysis's station.
//!
//! Requests start at random moments, a warm-up is cut off, and the rest gives a 95 % interval
//! by batch means (`batches.rs`). The seed decides everything.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::batches::estimate;
use crate::cores::{CORES, needs_core, work_us};
use crate::mva::{check_mpl, check_time};
use crate::{
    Distribution, Kind, ModelError, Network, ResponseTimes, Service, Solution, StationLoad, Step,
};

/// How to simulate.
///
/// ```
/// use frazil_queueing::{Distribution, SimulationOptions};
/// let options = SimulationOptions { seed: 7, ..SimulationOptions::default() };
/// assert_eq!(options.service, Distribution::Exponential);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationOptions {
    /// Distribution of service times.
    pub service: Distribution,
    /// Distribution of think times. The paper's program has them deterministic.
    pub think: Distribution,
    /// Requests that are counted.
    pub requests: u64,
    /// Requests before the counted ones.
    pub warmup: u64,
    /// Batches of the interval, 2 to 1000. Each should be many times the MPL.
    pub batches: u32,
    /// The seed of random numbers.
    pub seed: u64,
    /// Whether the core of a finished request goes to the next request of the same client, which
    /// keeps it until it waits for the backend. If not, it goes to the request that has waited
    /// longest. That bunches requests: those that return together from the backend start again only
    /// when all have been served, and leave together again.
    pub keeps_core: bool,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        SimulationOptions {
            service: Distribution::Exponential,
            think: Distribution::Deterministic,
            requests: 200_000,
            warmup: 20_000,
            batches: 20,
            seed: 1,
            keeps_core: false,
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Mean values over the requests counted.
    pub solution: Solution,
    /// Lower end of the throughput's 95 % interval, Mops.
    pub low_mops: f64,
    /// Upper end of the interval; infinite if there are too few batches.
    pub high_mops: f64,
    /// Response times of hits, from the start of the request.
    pub hits: ResponseTimes,
    /// Response times of all others, including the backend.
    pub misses: ResponseTimes,
}

/// Simulates a network with `mpl` requests. O(requests × steps × log MPL).
///
/// # Errors
///
/// An MPL of 0 or above [`MAX_MPL`](crate::MAX_MPL); no time in any step; fewer requests than
/// batches; a distribution that does not exist.
///
/// ```
/// use frazil_queueing::{PaperNetwork, SimulationOptions, Use, simulate, solve};
/// let network = PaperNetwork::Lru.network(0.9, 5.0, Use::Exact)?;
/// let options = SimulationOptions { requests: 20_000, ..SimulationOptions::default() };
/// let seen = simulate(&network, 16, &options)?.solution.throughput_mops;
/// let exact = solve(&network, 16)?.throughput_mops;
/// assert!((seen / exact - 1.0).abs() < 0.05);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn simulate(
    network: &Network,
    mpl: usize,
    options: &SimulationOptions,
) -> Result<Simulated, ModelError> {
    check_mpl(mpl)?;
    check_time(network)?;
    options.service.check()?;
    options.think.check()?;
    let batches = u64::from(options.batches);
    if !(2..=1000).contains(&batches) || options.requests < batches {
        let text = format!(
            "{} requests in {batches} batches, expected 2 to 1000 batches of a request or more",
            options.requests
        );
        return Err(ModelError::Malformed(text));
    }
    Ok(Run::new(network, mpl, *options).run())
}

/// An event: a request has ended its thinking, or a server its visit.
struct Event {
    time: f64,
    /// Ties go to the event planned first, so that a seed determines the run.
    number: u64,
    what: What,
}

enum What {
    Thought(u32),
    Served {
        station: usize,
        request: u32,
    },
    /// Planned at this stamp of the station; invalid if the station's stamp has changed.
    WorkedOff {
        station: usize,
        stamp: u64,
    },
}

impl Ord for Event {
    /// The next event is the greatest, because the heap is a max-heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

struct Request {
    route: usize,
    step: usize,
    /// Visits left of the step, once they are drawn.
    visits: Option<u64>,
    has_core: bool,
    began: f64,
}

/// The integral over time of a number of requests.
#[derive(Default)]
struct Level {
    now: usize,
    since: f64,
    area: f64,
}

impl Level {
    fn set(&mut self, level: usize, time: f64) {
        self.area += self.now as f64 * (time - self.since);
        (self.now, self.since) = (level, time);
    }

    fn restart(&mut self, time: f64) {
        (self.area, self.since) = (0.0, time);
    }
}

/// A station at work.
struct Place {
    /// The waiting requests; at a load-dependent station the first is in service.
    queue: VecDeque<u32>,
    present: Level,
    busy: Level,
    /// For a load-dependent station: the remaining work at the speed with one present, at a given
    /// time.
    left: f64,
    left_at: f64,
    stamp: u64,
}

struct Run<'n> {
    network: &'n Network,
    options: SimulationOptions,
    mpl: usize,
    rng: Xoshiro256PlusPlus,
    time: f64,
    events: BinaryHeap<Event>,
    planned: u64,
    requests: Vec<Request>,
    places: Vec<Place>,
    /// Free cores; `None` if there is one for each request.
    free: Option<usize>,
    /// Requests that wait for a core.
    runnable: VecDeque<u32>,
    /// Requests that have just got a core.
    resumed: Vec<u32>,
    inside: Level,
    completed: u64,
    batch_began: f64,
    durations: Vec<f64>,
    hits: ResponseTimes,
    misses: ResponseTimes,
}

impl<'n> Run<'n> {
    fn new(network: &'n Network, mpl: usize, options: SimulationOptions) -> Self {
        let place = |_| Place {
            queue: VecDeque::new(),
            present: Level::default(),
            busy: Level::default(),
            left: 0.0,
            left_at: 0.0,
            stamp: 0,
        };
        let mut run = Run {
            network,
            options,
            mpl,
            rng: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            time: 0.0,
            events: BinaryHeap::new(),
            planned: 0,
            requests: Vec::with_capacity(mpl),
            places: network.stations().iter().map(place).collect(),
            free: network.cores().filter(|&cores| cores < mpl),
            runnable: VecDeque::new(),
            resumed: Vec::new(),
            inside: Level::default(),
            completed: 0,
            batch_began: 0.0,
            durations: Vec::new(),
            hits: ResponseTimes::default(),
            misses: ResponseTimes::default(),
        };
        // Not all at once: with constant think times they would stay together for long.
        let spread = network.think_us() + network.demands_us().iter().sum::<f64>();
        for request in 0..mpl as u32 {
            let route = run.draw_route();
            let start = spread * run.rng.random::<f64>();
            let idle = Request { route, step: 0, visits: None, has_core: false, began: start };
            run.requests.push(idle);
            run.plan(start, What::Thought(request));
        }
        run
    }

    fn run(mut self) -> Simulated {
        let end = self.options.warmup.saturating_add(self.batch() * self.batches());
        while self.completed < end {
            // There is one for each request at every moment, so this does not end the loop.
            let Some(event) = self.events.pop() else { break };
            self.time = event.time;
            match event.what {
                What::Thought(request) => self.proceed(request, end),
                What::Served { station, request } => {
                    self.served(station);
                    self.proceed(request, end);
                }
                What::WorkedOff { station, stamp } => {
                    if let Some(request) = self.worked_off(station, stamp) {
                        self.proceed(request, end);
                    }
                }
            }
            while let Some(request) = self.resumed.pop() {
                self.proceed(request, end);
            }
        }
        self.result()
    }

    fn batches(&self) -> u64 {
        u64::from(self.options.batches)
    }

    /// Requests of a batch.
    fn batch(&self) -> u64 {
        self.options.requests / self.batches()
    }

    fn plan(&mut self, time: f64, what: What) {
        self.events.push(Event { time, number: self.planned, what });
        self.planned += 1;
    }

    fn draw_route(&mut self) -> usize {
        let mut left = self.rng.random::<f64>();
        let routes = self.network.routes();
        for (index, route) in routes.iter().enumerate() {
            left -= route.share;
            if left < 0.0 {
                return index;
            }
        }
        // Rounding: the last route with a share.
        routes.iter().rposition(|route| route.share > 0.0).unwrap_or(0)
    }

    /// Advances a request until it thinks, queues, or waits for a core.
    fn proceed(&mut self, request: u32, end: u64) {
        let network = self.network;
        loop {
            let Request { route, step, .. } = self.requests[request as usize];
            let next = network.routes()[route].steps.get(step);
            if next.is_some_and(needs_core) && !self.take_core(request) {
                return;
            }
            match next {
                None => {
                    if !self.options.keeps_core {
                        self.release_core(request);
                    }
                    self.complete(request);
                    if self.completed >= end {
                        return;
                    }
                    let route = self.draw_route();
                    let it = &mut self.requests[request as usize];
                    (it.route, it.step, it.began) = (route, 0, self.time);
                }
                Some(&(Step::Wait(us) | Step::Compute(us))) => {
                    let mut us = us;
                    if next.is_some_and(needs_core) {
                        us *= network.crowd(network.running(self.mpl));
                    } else {
                        self.release_core(request);
                    }
                    self.requests[request as usize].step += 1;
                    let time = self.time + self.options.think.draw(us, &mut self.rng);
                    return self.plan(time, What::Thought(request));
                }
                Some(&Step::Visit { station, visits }) => {
                    if self.visit(request, visits) {
                        return self.arrive(station, request);
                    }
                }
            }
        }
    }

    /// The time of a visit to an otherwise empty station.
    fn alone_us(&self, station: usize) -> f64 {
        let crowd = self.network.station_crowd(station, self.network.running(self.mpl));
        self.network.stations()[station].service.time_us(1) * crowd
    }

    /// Whether the request has a visit left; if not, moves it to its next step.
    fn visit(&mut self, request: u32, visits: f64) -> bool {
        let more = self.rng.random::<f64>() < visits.fract();
        let it = &mut self.requests[request as usize];
        let left = it.visits.unwrap_or(visits as u64 + u64::from(more));
        if left == 0 {
            it.visits = None;
            it.step += 1;
            return false;
        }
        it.visits = Some(left - 1);
        true
    }

    fn complete(&mut self, request: u32) {
        self.completed += 1;
        let Some(counted) = self.completed.checked_sub(self.options.warmup) else { return };
        let Request { route, began, .. } = self.requests[request as usize];
        let times = match self.network.routes()[route].kind {
            Kind::Hit => &mut self.hits,
            Kind::Miss | Kind::Bypass => &mut self.misses,
        };
        times.add(self.time - began, 1.0);
        if counted == 0 {
            self.restart();
            (self.hits, self.misses) = (ResponseTimes::default(), ResponseTimes::default());
        } else if counted.is_multiple_of(self.batch()) {
            self.durations.push(self.time - self.batch_began);
            self.batch_began = self.time;
        }
    }

    /// Ends the warm-up.
    fn restart(&mut self) {
        self.batch_began = self.time;
        for place in &mut self.places {
            place.present.set(place.present.now, self.time);
            place.busy.set(place.busy.now, self.time);
            place.present.restart(self.time);
            place.busy.restart(self.time);
        }
        self.inside.set(self.inside.now, self.time);
        self.inside.restart(self.time);
    }

    fn take_core(&mut self, request: u32) -> bool {
        let Some(free) = self.free else { return true };
        if self.requests[request as usize].has_core {
            return true;
        }
        self.inside.set(self.inside.now + 1, self.time);
        if free == 0 {
            self.runnable.push_back(request);
            return false;
        }
        self.free = Some(free - 1);
        self.requests[request as usize].has_core = true;
        true
    }

    fn release_core(&mut self, request: u32) {
        let Some(free) = self.free else { return };
        if !std::mem::take(&mut self.requests[request as usize].has_core) {
            return;
        }
        self.inside.set(self.inside.now - 1, self.time);
        match self.runnable.pop_front() {
            Some(next) => {
                self.requests[next as usize].has_core = true;
                self.resumed.push(next);
            }
            None => self.free = Some(free + 1),
        }
    }

    fn arrive(&mut self, station: usize, request: u32) {
        let time = self.time;
        let place = &mut self.places[station];
        place.present.set(place.present.now + 1, time);
        match &self.network.stations()[station].service {
            Service::LoadDependent(_) => {
                self.work_on(station, 1);
                let place = &mut self.places[station];
                place.busy.set(1, time);
                place.queue.push_back(request);
                if place.queue.len() == 1 {
                    self.begin(station);
                }
                self.replan(station);
            }
            service => {
                if place.busy.now < servers(service) {
                    place.busy.set(place.busy.now + 1, time);
                    self.serve(station, request);
                } else {
                    place.queue.push_back(request);
                }
            }
        }
    }

    /// Starts a visit at a server of a station.
    fn serve(&mut self, station: usize, request: u32) {
        let mean = self.alone_us(station);
        let time = self.time + self.options.service.draw(mean, &mut self.rng);
        self.plan(time, What::Served { station, request });
    }

    /// Ends a visit at a server of a station.
    fn served(&mut self, station: usize) {
        let time = self.time;
        let place = &mut self.places[station];
        place.present.set(place.present.now - 1, time);
        match place.queue.pop_front() {
            Some(next) => self.serve(station, next),
            None => place.busy.set(place.busy.now - 1, time),
        }
    }

    /// Accounts for the work since the last change of a load-dependent station, at the speed for
    /// the number present before `newcomers`.
    fn work_on(&mut self, station: usize, newcomers: usize) {
        let service = &self.network.stations()[station].service;
        let place = &mut self.places[station];
        let before = (place.present.now - newcomers).max(1);
        place.left -= (self.time - place.left_at) * speed(service, before);
        place.left_at = self.time;
    }

    /// Starts the service of the first in a load-dependent station's queue.
    fn begin(&mut self, station: usize) {
        let mean = self.alone_us(station);
        self.places[station].left = self.options.service.draw(mean, &mut self.rng);
        self.places[station].left_at = self.time;
    }

    fn replan(&mut self, station: usize) {
        let service = &self.network.stations()[station].service;
        let place = &mut self.places[station];
        place.stamp += 1;
        let time = self.time + place.left.max(0.0) / speed(service, place.present.now);
        let what = What::WorkedOff { station, stamp: place.stamp };
        self.plan(time, what);
    }

    /// Removes the finished request, unless the plan has changed meanwhile.
    fn worked_off(&mut self, station: usize, stamp: u64) -> Option<u32> {
        if self.places[station].stamp != stamp {
            return None;
        }
        let time = self.time;
        let place = &mut self.places[station];
        let done = place.queue.pop_front();
        place.present.set(place.present.now - 1, time);
        if place.queue.is_empty() {
            place.stamp += 1;
            place.busy.set(0, time);
        } else {
            self.begin(station);
            self.replan(station);
        }
        done
    }

    fn result(mut self) -> Simulated {
        let batch = self.batch() as f64;
        let total: f64 = self.durations.iter().sum();
        let estimate = estimate(&self.durations);
        let throughput = batch / estimate.mean;
        let time = self.time;
        let demands = self.network.demands_us();
        let mut stations = Vec::new();
        for ((station, place), demand_us) in
            self.network.stations().iter().zip(&mut self.places).zip(demands)
        {
            place.present.set(0, time);
            place.busy.set(0, time);
            stations.push(StationLoad {
                name: station.name.clone(),
                demand_us,
                utilisation: place.busy.area / total / servers(&station.service) as f64,
                queue_length: place.present.area / total,
            });
        }
        if let Some(cores) = self.network.cores().filter(|_| self.free.is_some()) {
            self.inside.set(0, time);
            let demand_us = work_us(self.network, cores) / cores as f64;
            stations.push(StationLoad {
                name: CORES.to_owned(),
                demand_us,
                utilisation: throughput * demand_us,
                queue_length: self.inside.area / total,
            });
        }
        let response_us = self.mpl as f64 / throughput;
        let most = estimate.mean - estimate.half;
        Simulated {
            solution: Solution { throughput_mops: throughput, response_us, stations },
            low_mops: batch / (estimate.mean + estimate.half),
            high_mops: if most > 0.0 { batch / most } else { f64::INFINITY },
            hits: self.hits,
            misses: self.misses,
        }
    }
}

fn servers(service: &Service) -> usize {
    if let Service::Multi { servers, .. } = service { *servers } else { 1 }
}

/// Speed of a load-dependent station, relative to that with one present.
fn speed(service: &Service, present: usize) -> f64 {
    let time = service.time_us(present);
    // Either all of its times are 0, or none.
    if time > 0.0 { service.time_us(1) / time } else { 1.0 }
}
