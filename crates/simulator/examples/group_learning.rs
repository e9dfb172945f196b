//! Hit ratios of GL-Cache beside other policies, and how far it is from its oracle.
//!
//! ```text
//! group_learning objects|bytes CAPACITY%,… TRACE…
//! ```
//!
//! Each line is a trace at a capacity. The last column but one is the oracle's, which ranks groups
//! by their true utility. The last is the missing share of the oracle's gain over FIFO.

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{ReadOptions, load};
use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep};

const POLICIES: [&str; 9] = [
    "fifo",
    "lru",
    "lhd",
    "lrb",
    "gl-cache:rounds=0",
    "gl-cache",
    "gl-cache:mode=t",
    "gl-cache:utility=future",
    "gl-cache:utility=future:retention=future",
];
const HEADS: [&str; 9] = ["fifo", "lru", "lhd", "lrb", "oldest", "E", "T", "oracle", "both"];
const FIFO: usize = 0;
const EFFICIENCY: usize = 5;
const ORACLE: usize = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [unit, capacities, traces @ ..] = &words[..] else {
        return Err("usage: group_learning objects|bytes CAPACITY%,… TRACE…".into());
    };
    let unit: Unit = unit.parse()?;
    let policies = POLICIES.map(str::parse::<PolicySpec>);
    print!("{:<42} {:>6}", "trace", "size");
    println!("{} {:>7}", HEADS.map(|head| format!(" {head:>7}")).concat(), "gap");
    let (mut sums, mut lines) = ([0.0; POLICIES.len()], 0.0);
    let line = |name: &str, size: &str, hits: [f64; POLICIES.len()]| {
        let gap = (hits[ORACLE] - hits[EFFICIENCY]) / (hits[ORACLE] - hits[FIFO]);
        let hits = hits.map(|hits| format!(" {hits:7.4}")).concat();
        println!("{name:<42} {size:>6}{hits} {:6.0}%", 100.0 * gap);
    };
    for spec in traces {
        let options =
            ReadOptions { times: true, sizes: unit == Unit::Bytes, ..ReadOptions::default() };
        let trace = load(spec, &options)?.trace;
        let name = spec.rsplit('/').next().unwrap_or(spec);
        for size in capacities.split(',') {
            let capacity = size.parse::<CapacitySpec>()?.resolve(&trace, unit)?;
            let mut cells = Vec::new();
            for policy in &policies {
                cells.push(CellSpec { policy: policy.clone()?, capacity });
            }
            let options = SweepOptions { unit, threads: 2, ..SweepOptions::default() };
            let mut hits = [0.0; POLICIES.len()];
            for (place, outcome) in sweep(&trace, &cells, &options, &|_| ()).iter().enumerate() {
                hits[place] = 1.0 - outcome.miss_ratio();
                sums[place] += hits[place];
            }
            line(name, size, hits);
            lines += 1.0;
        }
    }
    line("mean", "", sums.map(|sum| sum / lines));
    Ok(())
}
