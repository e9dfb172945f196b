//! Compares the simulation with the analysis.

use frazil_queueing::{
    Distribution, Kind, Network, PaperNetwork, Route, Service, SimulationOptions, Station, Step,
    Use, bounds, simulate, solve,
};

fn one_route(services: Vec<Service>, steps: Vec<Step>) -> Network {
    let named = |(at, service): (usize, Service)| Station { name: at.to_string(), service };
    let stations = services.into_iter().enumerate().map(named).collect();
    Network::new(stations, vec![Route { kind: Kind::Hit, share: 1.0, steps }]).unwrap()
}

const VISIT: [Step; 2] =
    [Step::Visit { station: 0, visits: 1.0 }, Step::Visit { station: 1, visits: 1.3 }];

/// Think times are deterministic: a delay is insensitive to its distribution.
#[test]
fn intervals_cover_the_exact_value_as_often_as_they_say() {
    let hand_over = Service::LoadDependent(vec![0.3, 0.45, 0.5]);
    let levels = one_route(
        vec![hand_over, Service::Multi { service_us: 1.1, servers: 2 }],
        vec![Step::Wait(9.0), VISIT[0], VISIT[1]],
    );
    let networks = [
        (PaperNetwork::Lru.network(0.8, 100.0, Use::Exact).unwrap(), 72),
        (PaperNetwork::S3Fifo.network(0.7, 5.0, Use::Exact).unwrap(), 16),
        (levels, 12),
    ];
    for (network, mpl) in networks {
        let exact = solve(&network, mpl).unwrap().throughput_mops;
        let covered = (0..200).filter(|&seed| {
            let options = SimulationOptions {
                requests: 20_000,
                warmup: 2_000,
                batches: 10,
                seed,
                ..SimulationOptions::default()
            };
            let seen = simulate(&network, mpl, &options).unwrap();
            (seen.low_mops..=seen.high_mops).contains(&exact)
        });
        let covered = covered.count();
        println!("{covered} of 200 intervals cover {exact}");
        assert!(covered >= 186, "{covered} of 200 intervals cover {exact}");
    }
}

#[test]
fn every_mean_is_the_analysis_s() {
    let services = || {
        vec![
            Service::LoadDependent(vec![0.3, 0.45, 0.5]),
            Service::Multi { service_us: 1.1, servers: 2 },
        ]
    };
    for think_us in [0.5, 10.0] {
        let network = one_route(services(), vec![Step::Wait(think_us), VISIT[0], VISIT[1]]);
        let exact = solve(&network, 12).unwrap();
        for think in [Distribution::Deterministic, Distribution::Exponential] {
            let options =
                SimulationOptions { requests: 400_000, think, ..SimulationOptions::default() };
            let seen = simulate(&network, 12, &options).unwrap().solution;
            let near = |one: f64, other: f64| (one - other).abs() < 0.02 * other.abs().max(0.3);
            assert!(near(seen.throughput_mops, exact.throughput_mops), "{seen:?} {exact:?}");
            assert!(near(seen.response_us, exact.response_us), "{seen:?} {exact:?}");
            for (one, other) in seen.stations.iter().zip(&exact.stations) {
                assert!(near(one.utilisation, other.utilisation), "{one:?} {other:?}");
                assert!(near(one.queue_length, other.queue_length), "{one:?} {other:?}");
            }
        }
    }
}

/// Fewer cores than requests: the analysis is an approximation here, the simulation gives and
/// takes each core.
#[test]
fn cores_limit_alike_in_both() {
    let steps = |wait| vec![Step::Compute(0.4), Step::Wait(wait), VISIT[0], Step::Compute(0.2)];
    for (cores, wait_us) in [(1, 5.0), (2, 0.0), (2, 5.0), (4, 0.0), (4, 20.0), (11, 5.0)] {
        let services = vec![Service::Single(0.2)];
        let network = one_route(services, steps(wait_us)).on_cores(cores).unwrap();
        let exact = solve(&network, 12).unwrap();
        let seen = simulate(&network, 12, &SimulationOptions::default()).unwrap().solution;
        let ratio = exact.throughput_mops / seen.throughput_mops;
        println!("{cores} cores, wait {wait_us}: {exact:?} {seen:?}");
        assert!((ratio - 1.0).abs() < 0.06, "{cores} cores, wait {wait_us}: {ratio}");
        assert!(exact.throughput_mops <= cores as f64 / 0.8 + 1e-9);
        // 0.6 µs of think time and 0.2 at the station, shared by the cores.
        assert!((exact.stations[1].demand_us * cores as f64 - 0.8).abs() < 1e-12, "{exact:?}");
        let bound = bounds(&network, 12).unwrap();
        let within = bound.lower_mops..=bound.upper_mops * (1.0 + 1e-9);
        assert!(within.contains(&exact.throughput_mops), "{bound:?} {exact:?}");
        let held = |load: &frazil_queueing::StationLoad| (load.name.clone(), load.queue_length);
        let (one, other) = (held(&exact.stations[1]), held(&seen.stations[1]));
        assert_eq!((one.0.as_str(), other.0.as_str()), ("cores", "cores"));
        assert!((one.1 - other.1).abs() < 0.8, "{one:?} {other:?}");
    }
    // Without stations this is exactly a multi-server.
    let work = one_route(vec![], vec![Step::Compute(0.5), Step::Wait(3.0)]).on_cores(3).unwrap();
    let servers = Service::Multi { service_us: 0.5, servers: 3 };
    let visit = Step::Visit { station: 0, visits: 1.0 };
    let stations = one_route(vec![servers], vec![visit, Step::Wait(3.0)]);
    let (work, stations) = (solve(&work, 30).unwrap(), solve(&stations, 30).unwrap());
    assert!((work.throughput_mops / stations.throughput_mops - 1.0).abs() < 1e-12);
    assert!(
        (work.stations[0].queue_length / stations.stations[0].queue_length - 1.0).abs() < 1e-12
    );
}

/// One core: half of the requests leave it for 10 µs, and then use it for 0.9 µs.
#[test]
fn clients_that_keep_a_core_do_not_gather() {
    let (compute, wait) = (Step::Compute(0.001), Step::Wait(10.0));
    let hit = Route { kind: Kind::Hit, share: 0.5, steps: vec![compute] };
    let steps = vec![compute, wait, Step::Compute(0.9)];
    let miss = Route { kind: Kind::Miss, share: 0.5, steps };
    let network = Network::new(vec![], vec![hit, miss]).unwrap().on_cores(1).unwrap();
    let misses = |keeps_core| {
        let service = Distribution::Deterministic;
        let options = SimulationOptions { keeps_core, service, ..SimulationOptions::default() };
        simulate(&network, 10, &options).unwrap().solution.throughput_mops / 2.0
    };
    // Spread requests are served as they come; bunched ones one after the other, and then all are
    // away.
    assert!((misses(true) / (10.0 / 10.9) - 1.0).abs() < 0.02, "{}", misses(true));
    assert!((misses(false) / (10.0 / 19.0) - 1.0).abs() < 0.1, "{}", misses(false));
}

#[test]
fn a_seed_is_a_run_and_bad_options_are_refused() {
    let network = PaperNetwork::Clock.network(0.8, 5.0, Use::Exact).unwrap();
    let options = SimulationOptions { requests: 2_000, ..SimulationOptions::default() };
    let run = |options| simulate(&network, 8, &options);
    assert_eq!(run(options), run(options));
    assert_ne!(run(options), run(SimulationOptions { seed: 2, ..options }));
    assert!(run(SimulationOptions { requests: 5, ..options }).is_err());
    assert!(run(SimulationOptions { batches: 1, ..options }).is_err());
    let service = Distribution::HyperExponential { cv2: 0.5 };
    assert!(run(SimulationOptions { service, ..options }).is_err());
    assert!(simulate(&network, 0, &options).is_err());
    assert!(simulate(&network, 2_000_000, &options).is_err());
    let nothing = one_route(vec![Service::Single(0.0)], vec![VISIT[0]]);
    assert!(simulate(&nothing, 8, &options).is_err() && solve(&nothing, 8).is_err());
}
