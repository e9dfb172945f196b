//! Ten thousand requests: nothing overflows, vanishes or cancels.

use frazil_queueing::{
    Crowd, Kind, Network, Route, Service, Station, Step, bounds, solve, throughput,
};

fn network(think_us: f64, services: Vec<Service>) -> Network {
    let visit = |station| Step::Visit { station, visits: 1.0 };
    let mut steps = vec![Step::Wait(think_us)];
    steps.extend((0..services.len()).map(visit));
    let named = |(at, service): (usize, Service)| Station { name: at.to_string(), service };
    let stations = services.into_iter().enumerate().map(named).collect();
    Network::new(stations, vec![Route { kind: Kind::Miss, share: 1.0, steps }]).unwrap()
}

fn close(what: &str, one: f64, other: f64) {
    assert!((one / other - 1.0).abs() <= 1e-9, "{what}: {one} {other}");
}

/// A load-dependent station with constant speed is a single server, solved by another recursion.
#[test]
fn two_ways_to_one_result() {
    // Below, at and beyond saturation: N* is (Z + D) / D_max.
    for think_us in [0.0, 100.0, 7_000.0, 100_000.0] {
        for mpl in [1, 2, 100, 10_000] {
            let plain = network(think_us, vec![Service::Single(0.7), Service::Single(0.59)]);
            let levels = |us, levels| Service::LoadDependent(vec![us; levels]);
            let alike = network(think_us, vec![levels(0.7, 64), levels(0.59, 3)]);
            let (plain, alike) = (solve(&plain, mpl).unwrap(), solve(&alike, mpl).unwrap());
            close("throughput", alike.throughput_mops, plain.throughput_mops);
            for (one, other) in alike.stations.iter().zip(&plain.stations) {
                close("queue", one.queue_length, other.queue_length);
                close("utilisation", one.utilisation, other.utilisation);
            }
        }
    }
}

/// The queues add up to all requests, and the bounds hold.
#[test]
fn requests_are_kept_and_bounds_hold() {
    let hand_over =
        || Service::LoadDependent((1..=200).map(|j| 0.3 + 0.002 * f64::from(j)).collect());
    for services in [
        vec![Service::Multi { service_us: 40.0, servers: 64 }, Service::Single(0.6)],
        vec![hand_over(), Service::Multi { service_us: 3.0, servers: 5 }, Service::Single(0.69)],
        vec![hand_over(), Service::Multi { service_us: 3.45, servers: 5 }],
        // The chance that all are idle is e⁻⁷⁸⁰ at 6000 µs.
        vec![Service::Multi { service_us: 900.0, servers: 2_000 }],
    ] {
        for think_us in [0.0, 50.0, 6_000.0, 1e6] {
            let network = network(think_us, services.clone());
            for mpl in [65, 3_000, 10_000] {
                let solution = solve(&network, mpl).unwrap();
                assert_eq!(throughput(&network, mpl).unwrap(), solution.throughput_mops);
                let queues: f64 = solution.stations.iter().map(|it| it.queue_length).sum();
                close("requests", solution.throughput_mops * think_us + queues, mpl as f64);
                let bounds = bounds(&network, mpl).unwrap();
                assert!(solution.throughput_mops <= bounds.upper_mops * (1.0 + 1e-9));
                for load in &solution.stations {
                    assert!((0.0..=1.0 + 1e-9).contains(&load.utilisation), "{load:?}");
                }
            }
        }
    }
}

/// Fewer cores than requests, in two steps by hand: the part with cores alone for each number, and
/// a station with those speeds beside the backend.
#[test]
fn cores_are_one_station() {
    let lock = Station { name: "lock".to_owned(), service: Service::Single(0.3) };
    let visit = Step::Visit { station: 0, visits: 1.0 };
    let route = |steps| vec![Route { kind: Kind::Miss, share: 1.0, steps }];
    // Equal times with one and two at work, then different ones, then equal again.
    let crowd = Crowd { compute: vec![1.0, 1.0, 1.25, 1.5], stations: vec![vec![1.0, 1.0, 3.0]] };
    let of = |steps| Network::new(vec![lock.clone()], route(steps)).unwrap();
    let of = |steps| of(steps).on_cores(7).unwrap().crowded(crowd.clone()).unwrap();
    let inner = of(vec![Step::Compute(2.0), visit]);
    let times = (1..=7).map(|running| solve(&inner, running).unwrap().throughput_mops.recip());
    let cores = Station { name: "c".to_owned(), service: Service::LoadDependent(times.collect()) };
    for wait_us in [0.0, 50.0] {
        let whole = of(vec![Step::Compute(2.0), visit, Step::Wait(wait_us)]);
        let outer = Network::new(vec![cores.clone()], route(vec![visit, Step::Wait(wait_us)]));
        let outer = outer.unwrap();
        for mpl in [8, 40, 1_000] {
            let (found, expected) = (solve(&whole, mpl).unwrap(), solve(&outer, mpl).unwrap());
            close("throughput", found.throughput_mops, expected.throughput_mops);
            assert_eq!(throughput(&whole, mpl).unwrap(), found.throughput_mops);
            close("queue", found.stations[1].queue_length, expected.stations[0].queue_length);
        }
    }
}

/// A search solves often, so time for each number of cores at each number of requests would be
/// minutes. This takes a tenth of a second (2 cores, 2026-11-23); the test prints the time.
#[test]
fn a_thousand_cores_are_soon_searched() {
    let lock = Station { name: "lock".to_owned(), service: Service::Single(0.01) };
    let steps = |wait_us| {
        let visit = Step::Visit { station: 0, visits: 1.0 };
        vec![Step::Compute(2.0), visit, Step::Wait(wait_us)]
    };
    let begin = std::time::Instant::now();
    for wait_us in (1..=50).cycle().take(1_000) {
        let steps = steps(f64::from(wait_us));
        let route = Route { kind: Kind::Miss, share: 1.0, steps };
        let network = Network::new(vec![lock.clone()], vec![route]).unwrap();
        let found = throughput(&network.on_cores(1_024).unwrap(), 16 * 1_024).unwrap();
        assert!((found - 100.0).abs() < 1e-6, "the lock is busy: {found}");
    }
    let took = begin.elapsed();
    println!("1,000 times 1,024 cores and 16,384 requests: {took:?}");
    assert!(took.as_secs() < 60, "{took:?}");
}
