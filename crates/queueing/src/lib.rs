//! Predicts throughput from a hit ratio and the costs of operations: closed queueing networks of
//! caches, and three ways to solve them.
//!
//! A fixed number of requests, the multiprogramming limit (MPL), circulates. Each request thinks
//! (looks its key up, waits for the backend), which delays no other, and visits stations (locks,
//! ends of lists, other places where requests take turns), where it may queue. Hits and misses take
//! different routes, so the hit ratio moves demand between stations. If a station on the route of
//! hits is the bottleneck, more hits lower the throughput. That is the finding of paper 1, *Can
//! increasing the hit ratio hurt cache throughput?* (Qiu, Yang, Harchol-Balter, 2024).
//!
//! - [`Network`]: stations and routes; [`PaperNetwork`] makes those of the paper, [`Profile`] those
//!   of a measured machine.
//! - [`bounds`]: upper bounds; [`solve`]: exact mean values for exponential service; [`simulate`]:
//!   any service distribution, with confidence intervals.
//! - [`peak`] and [`classify`]: the hit ratio beyond which more hits do not help, and whether they
//!   hurt; [`bypass`], [`skip_promotions`] and [`freeze`]: countermeasures.
//!
//! ```
//! use frazil_queueing::{PaperNetwork, Use, bounds, solve};
//! let lru: PaperNetwork = "lru".parse()?;
//! // 72 requests, a backend of 100 µs: more hits, less throughput.
//! let at = |hit_ratio| solve(&lru.network(hit_ratio, 100.0, Use::Exact)?, 72);
//! assert!(at(0.99)?.throughput_mops < at(0.75)?.throughput_mops);
//! let bound = bounds(&lru.network(0.99, 100.0, Use::Bound)?, 72)?;
//! assert!((bound.upper_mops - 1.0 / (0.7 * 0.99)).abs() < 1e-9);
//! # Ok::<(), frazil_queueing::ModelError>(())
//! ```
//!
//! Times are microseconds, throughputs requests per microsecond, which are millions of
//! requests per second (Mops).
#![forbid(unsafe_code)]

mod batches;
mod bounds;
mod calibration;
mod cores;
mod curve;
mod distribution;
mod error;
mod fit;
mod mitigation;
mod mva;
mod network;
mod paper;
mod profile;
mod response_times;
mod simulate;
mod times;
mod wide;

pub use bounds::{Bounds, bounds};
pub use calibration::{Costs, Endpoints, Turns, costs};
pub use curve::{Class, Peak, classify, peak};
pub use distribution::Distribution;
pub use error::ModelError;
pub use mitigation::{BestBypass, best_bypass, bypass, flat_bypass, freeze, skip_promotions};
pub use mva::{MAX_MPL, Solution, StationLoad, solve, throughput};
pub use network::{Crowd, Kind, Network, Route, Service, Station, Step};
pub use paper::{LOOK_UP_US, ListCosts, PaperNetwork, Use};
pub use profile::{
    Conditions, Counts, Errors, Halves, Machine, NetworkCounts, Profile, Quality, StationTimes,
    ThinkTime, Visits,
};
pub use response_times::ResponseTimes;
pub use simulate::{Simulated, SimulationOptions, simulate};
pub use times::Times;
