//! Time of the analysis for ten thousand requests: run with `--release`.

use std::time::Instant;

use frazil_queueing::{
    Kind, Network, PaperNetwork, Route, Service, Station, Step, Use, solve, throughput,
};

fn main() -> Result<(), frazil_queueing::ModelError> {
    let mpl = 10_000;
    let lru = PaperNetwork::Lru.network(0.9, 10_000.0, Use::Exact)?;
    show("three single servers", &lru, mpl)?;
    show("the same on 64 cores", &lru.clone().on_cores(64)?, mpl)?;
    show("the same on 1024 cores", &lru.on_cores(1024)?, mpl)?;
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
    let mut throughput_mops = 0.0;
    let mut least_ms = [f64::INFINITY; 2];
    for _ in 0..9 {
        let begin = Instant::now();
        throughput_mops = solve(network, mpl)?.throughput_mops;
        let middle = Instant::now();
        throughput(network, mpl)?;
        let took = [middle - begin, middle.elapsed()];
        least_ms = [0, 1].map(|at| least_ms[at].min(took[at].as_secs_f64() * 1e3));
    }
    let [all, alone] = least_ms;
    println!(
        "{what}: N = {mpl}, {throughput_mops:.6} Mops, {all:.3} ms; its throughput alone {alone:.3} ms"
    );
    Ok(())
}
