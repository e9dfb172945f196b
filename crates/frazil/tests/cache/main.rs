//! The cache from outside, a file for each kind of promise.
//!
//! One program, because several would each compile the same caches again. Tests that count memory
//! or events of a whole process are separate programs (`alone/`).
#![cfg(not(any(loom, shuttle)))]

// A cache of numbers, which most tests have, is compiled and optimised there.
use frazil_driver as _;

mod admission;
mod blocking;
#[path = "../../../policy/tests/policies/cache/mod.rs"]
mod cache;
mod capacity;
mod delays;
mod detached;
mod entry;
mod equivalent;
mod expiry;
mod extent;
mod fetching;
mod freezing;
mod frozen;
mod fused;
mod growth;
mod handle_charges;
mod handle_counts;
mod handle_frozen;
mod handle_model;
mod handle_priorities;
mod handles;
mod identity;
mod invalidating;
mod lifetimes;
mod limits;
mod listener;
mod loaders;
mod loading;
mod locked;
mod many;
mod nested;
mod own_key;
mod own_process;
mod poor_hashes;
#[cfg(all(target_os = "linux", not(miri)))]
mod processes;
mod prometheus;
mod recording;
mod refresh;
mod rivals;
#[cfg(all(target_os = "linux", not(miri)))]
mod sandbox;
mod settings;
mod shared_writes;
mod simulator;
mod snapshot;
mod stale;
mod stress;
mod stuck;
#[cfg(all(target_os = "linux", not(miri)))]
mod system_time;
mod tasks;
mod tracked;
mod visiting;
