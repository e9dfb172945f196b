//! Traces, generated workloads, and the replay of both through the policies of
//! [`frazil_policy`].
//!
//! ```
//! use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep, trace};
//!
//! let loaded = trace::load("zipf:1.0:objects=1K:requests=20K:seed=1", &Default::default())?;
//! let capacity = "10%".parse::<CapacitySpec>()?.resolve(&loaded.trace, Unit::Objects)?;
//! let cells: Vec<CellSpec> = ["fifo", "sieve"]
//!     .iter()
//!     .map(|name| Ok(CellSpec { policy: name.parse()?, capacity }))
//!     .collect::<Result<_, frazil_policy::SpecError>>()?;
//! let outcomes = sweep(&loaded.trace, &cells, &SweepOptions::default(), &|_| ());
//! assert!(outcomes[1].misses() < outcomes[0].misses());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod capacity;
mod curve;
mod delayed;
mod duration;
mod expiring;
mod fetch;
mod fetch_latency;
mod index;
mod replay;
mod stream;
mod sweep;
pub mod trace;
mod versatile;
mod workload_profile;

pub use capacity::{
    CapacityError, CapacitySpec, Unit, full_capacity, parse_bytes, parse_count, sample_capacity,
};
pub use curve::{Curve, CurvePoint, CurveSample, lru_curve, lru_curve_of};
pub use delayed::latencies_delayed;
pub use duration::{DurationError, parse_us};
pub use fetch::{Backends, FetchError, FetchLatency, Fetching, MOST_BACKENDS, ReplayClock};
pub use fetch_latency::FetchLatencyError;
pub use index::HASH_SEED;
pub use replay::{Held, Latency, Outcome, Waits, WorkSplit};
pub use stream::{StreamError, replay_stream};
pub use sweep::{
    CellSpec, GoOn, SweepOptions, feature_importance, replay_schedule, sweep, sweep_delayed,
    sweep_held, waits_by_object,
};
pub use workload_profile::{UpToSize, WorkingSet, WorkloadProfile};
