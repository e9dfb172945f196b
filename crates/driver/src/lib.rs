//! The loop that drives any cache with many threads and measures it: Frazil's in `frazil bench`,
//! others in the benchmark, so that a comparison differs in the cache alone.
#![forbid(unsafe_code)]

mod backend;
mod compiled;
mod cores;
mod engine;
mod little;
mod machine;
mod memory;
mod mix;
mod ours;
mod pass;
mod replay;
mod run;
mod simulated;
mod stream;
mod transfer;
mod undisturbed;
mod workload;

pub use backend::Backend;
pub use cores::{cores, thread_time};
pub use engine::{Engine, Session, Shared};
pub use little::{Little, Pace};
pub use machine::{Processors, children_time, process_time};
pub use memory::bytes_per_entry;
pub use mix::Mix;
pub use ours::{Frozen, Ours, Pinned, PinnedSession, Setup, SetupError, Value};
pub use pass::{Pass, one_pass};
pub use replay::{Replay, replay};
pub use run::{Latencies, Measured, Schedule, run, run_with_backend};
pub use simulated::Simulated;
pub use stream::{Ask, MAX_OBJECTS, Operation, Stream, key};
pub use transfer::{Distance, transfer_ns};
pub use undisturbed::Undisturbed;
pub use workload::{Workload, WorkloadError, preload, trace_streams};
