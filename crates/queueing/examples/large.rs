//! How long the analysis takes for ten thousand requests: run with `--release`.

use std::time::Instant;

use frazil_queueing::{Kind, Network, PaperNetwork, Route, Service, Station, Step, Use, solve};

fn main() -> Result<(), frazil_queueing::ModelError> {
    let mpl = 10_000;
    let lru = PaperNetwork::Lru.network(0.9, 10_000.0, Use::Exact)?;
    show("three single servers", &lru, mpl)?;
    show("the same on 64 cores", &lru.on_cores(64)?, mpl)?;
    let stations = vec![
        Station {
            name: "lock".to_owned(),
            service: Service::LoadDependent((1..=64).map(|j| 0.3 + 0.01 * f64::from(j)).collect()),
        },
        Station {
            name: "workers".to_owned(),
            service: Service::Multi { service_us: 60.0, servers: 64 },
        },
    ];
    let visit = |station| Step::Visit { station, visits: 1.0 };
    let steps = vec![Step::Wait(10_000.0), visit(0), visit(1)];
    let network = Network::new(stations, vec![Route { kind: Kind::Miss, share: 1.0, steps }])?;
    show("a lock of 64 levels, 64 servers", &network, mpl)
}

fn show(what: &str, network: &Network, mpl: usize) -> Result<(), frazil_queueing::ModelError> {
    let mut least_ms = f64::INFINITY;
    let mut throughput_mops = 0.0;
    for _ in 0..9 {
        let begin = Instant::now();
        throughput_mops = solve(network, mpl)?.throughput_mops;
        least_ms = least_ms.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    println!("{what}: N = {mpl}, {throughput_mops:.6} Mops, {least_ms:.3} ms");
    Ok(())
}
