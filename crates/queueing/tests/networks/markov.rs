//! Compares the analysis with the Markov chain of the same network, solved by elimination.
//!
//! The chain shares nothing with the analysis: its states are the numbers of requests at each
//! place, its transitions single departures, its routing a matrix of chances. Its balance equations
//! are solved without subtractions (Grassmann, Taksar, Heyman 1985).

use std::collections::HashMap;

use frazil_queueing::{Kind, Network, Route, Service, Station, Step, solve};

/// A closed network as a chain; at place 0 requests think.
struct Chain {
    /// For each place: departures per µs by the number of requests there.
    rate: Vec<Box<dyn Fn(usize) -> f64>>,
    routing: Vec<Vec<f64>>,
}

struct Steady {
    throughput: f64,
    /// By place: the mean number there, and the chance that it is empty.
    mean: Vec<f64>,
    empty: Vec<f64>,
}

impl Chain {
    fn states(places: usize, mpl: usize) -> Vec<Vec<usize>> {
        if places == 1 {
            return vec![vec![mpl]];
        }
        let mut all = Vec::new();
        for here in 0..=mpl {
            for mut rest in Chain::states(places - 1, mpl - here) {
                rest.insert(0, here);
                all.push(rest);
            }
        }
        all
    }

    fn solve(&self, mpl: usize) -> Steady {
        let places = self.rate.len();
        let states = Chain::states(places, mpl);
        let number: HashMap<&[usize], usize> =
            states.iter().enumerate().map(|(at, state)| (state.as_slice(), at)).collect();
        let mut flow = vec![vec![0.0; states.len()]; states.len()];
        for (from, state) in states.iter().enumerate() {
            for one in 0..places {
                for other in (0..places).filter(|&other| state[one] > 0 && other != one) {
                    let mut next = state.clone();
                    next[one] -= 1;
                    next[other] += 1;
                    flow[from][number[next.as_slice()]] +=
                        (self.rate[one])(state[one]) * self.routing[one][other];
                }
            }
        }
        let steady = eliminate(flow);
        let mean = |of: &dyn Fn(&[usize]) -> f64| -> f64 {
            states.iter().zip(&steady).map(|(state, chance)| of(state) * chance).sum()
        };
        Steady {
            throughput: mean(&|state| if state[0] > 0 { (self.rate[0])(state[0]) } else { 0.0 }),
            mean: (0..places).map(|at| mean(&|state| state[at] as f64)).collect(),
            empty: (0..places).map(|at| mean(&|state| f64::from(state[at] == 0))).collect(),
        }
    }

    /// Visits to each place between two visits to place 0, by iterating the routing.
    #[expect(clippy::needless_range_loop, reason = "indices are states, as in `eliminate`")]
    fn visits(&self) -> Vec<f64> {
        let places = self.rate.len();
        let mut visits = vec![0.0; places];
        let mut here = self.routing[0].clone();
        visits[0] = 1.0;
        for _ in 0..10_000 {
            let mut next = vec![0.0; places];
            for at in 1..places {
                visits[at] += here[at];
                for to in 0..places {
                    next[to] += here[at] * self.routing[at][to];
                }
            }
            here = next;
        }
        visits
    }
}

/// The steady state of a chain by its rates.
#[expect(clippy::needless_range_loop, reason = "indices are states, of rows and columns alike")]
fn eliminate(mut flow: Vec<Vec<f64>>) -> Vec<f64> {
    let count = flow.len();
    for last in (1..count).rev() {
        let out: f64 = flow[last][..last].iter().sum();
        for from in 0..last {
            flow[from][last] /= out;
            for to in (0..last).filter(|&to| to != from) {
                flow[from][to] += flow[from][last] * flow[last][to];
            }
        }
    }
    let mut steady = vec![1.0];
    for state in 1..count {
        steady.push((0..state).map(|from| steady[from] * flow[from][state]).sum());
    }
    let total: f64 = steady.iter().sum();
    steady.iter().map(|weight| weight / total).collect()
}

/// Solves a network of these services both ways, with requests thinking in place 0.
fn compare(think_us: f64, services: &[Service], routing: Vec<Vec<f64>>, mpl: usize) {
    let mut rate: Vec<Box<dyn Fn(usize) -> f64>> =
        vec![Box::new(move |thinking| thinking as f64 / think_us)];
    for service in services {
        // Written out here, so that `Service::time_us` is checked too.
        rate.push(match service.clone() {
            Service::Single(us) => Box::new(move |_| 1.0 / us),
            Service::Multi { service_us, servers } => {
                Box::new(move |present| present.min(servers) as f64 / service_us)
            }
            Service::LoadDependent(times) => {
                Box::new(move |present| 1.0 / times[present.min(times.len()) - 1])
            }
        });
    }
    let chain = Chain { rate, routing };
    let visits = chain.visits();
    let expected = chain.solve(mpl);

    let station = |(at, service): (usize, &Service)| Station {
        name: at.to_string(),
        service: service.clone(),
    };
    let stations: Vec<Station> = services.iter().enumerate().map(station).collect();
    let visit = |station| Step::Visit { station, visits: visits[station + 1] };
    let mut steps = vec![Step::Wait(think_us)];
    steps.extend((0..services.len()).map(visit));
    let route = Route { kind: Kind::Miss, share: 1.0, steps };
    let found = solve(&Network::new(stations, vec![route]).unwrap(), mpl).unwrap();

    let close = |what: &str, one: f64, other: f64| {
        let near = (one - other).abs() <= 1e-9 * other.abs().max(1e-3);
        assert!(near, "{what} of {services:?}, {mpl}: {one}, the chain has {other}");
    };
    close("throughput", found.throughput_mops, expected.throughput);
    close("response", found.response_us, mpl as f64 / expected.throughput);
    for (at, load) in found.stations.iter().enumerate() {
        close("queue", load.queue_length, expected.mean[at + 1]);
        let utilisation = match &services[at] {
            Service::Multi { service_us, servers } => {
                expected.throughput * visits[at + 1] * service_us / *servers as f64
            }
            _ => 1.0 - expected.empty[at + 1],
        };
        close("utilisation", load.utilisation, utilisation);
    }
}

/// Chances of going from place to place; rows differ.
fn routing(places: usize) -> Vec<Vec<f64>> {
    let row = |from: usize| {
        let weight = |to: usize| {
            if from == to { 0.0 } else { 1.0 + ((from * 7 + to * 3) % 5) as f64 }
        };
        let total: f64 = (0..places).map(weight).sum();
        (0..places).map(|to| weight(to) / total).collect()
    };
    (0..places).map(row).collect()
}

#[test]
fn the_analysis_is_the_chain() {
    let single = Service::Single;
    let multi = |service_us, servers| Service::Multi { service_us, servers };
    let hand_over = || Service::LoadDependent(vec![0.3, 0.5, 0.65, 0.7]);
    let quicker = || Service::LoadDependent(vec![0.9, 0.5, 0.4]);
    let networks: Vec<Vec<Service>> = vec![
        vec![single(0.7)],
        vec![single(0.7), single(0.59), single(0.4)],
        vec![multi(1.5, 2)],
        vec![multi(1.5, 3), single(0.5)],
        vec![hand_over()],
        vec![quicker(), single(0.4)],
        vec![hand_over(), multi(2.0, 2), single(0.45)],
        vec![hand_over(), quicker(), multi(1.0, 4)],
    ];
    for services in &networks {
        for mpl in [1, 2, 3, 5, 7] {
            for think_us in [0.2, 4.0] {
                compare(think_us, services, routing(services.len() + 1), mpl);
            }
        }
    }
}

/// Stations below, at and far beyond saturation, where the textbook's formula for an empty station
/// has lost all digits.
#[test]
fn a_long_queue_costs_no_digits() {
    for services in [
        vec![Service::Multi { service_us: 3.0, servers: 3 }, Service::Single(0.1)],
        vec![Service::LoadDependent(vec![0.5, 0.9, 1.2]), Service::Single(0.2)],
    ] {
        for think_us in [0.1, 30.0] {
            compare(think_us, &services, routing(3), 40);
        }
    }
}
