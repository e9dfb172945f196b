//! Instances of our cache for the driver, compiled here for its users.
//!
//! rustc compiles generic code in the crate that uses it, unless a dependency has compiled it
//! already; it checks that at optimisation levels 0 and 1, those of tests. So tests need not
//! optimise the command, the benchmarks and the cache's tests, which have more code than this. A
//! release build would compile it twice for nothing.
#![cfg(all(debug_assertions, not(test)))]

use std::sync::Arc;
use std::time::Duration;

use frazil::{Builder, Cache, FreezingState, Stats};

use crate::{
    Backend, Engine, Measured, Mix, Ours, Pass, Pinned, Schedule, Setup, Simulated, Stream,
    WorkloadError, bytes_per_entry, one_pass, preload, run, run_with_backend,
};

/// All uses of an engine.
#[expect(dead_code, reason = "what is named is compiled, and called by other crates")]
struct Driven<E> {
    run: fn(&E, &[Stream], u64, &Schedule) -> Measured,
    run_with_backend: fn(&E, &[Stream], u64, &Schedule, Backend) -> Measured,
    one_pass: fn(&E, &Stream) -> Pass,
    preload: fn(&E, u64),
    preload_mix: fn(&Mix, &E) -> Result<(), WorkloadError>,
    bytes_per_entry: fn(fn() -> E, u64) -> Option<f64>,
}

impl<E: Engine> Driven<E> {
    const ALL: Self = Driven {
        run,
        run_with_backend,
        one_pass,
        preload,
        preload_mix: Mix::preload,
        bytes_per_entry,
    };
}

#[used]
static NUMBERS: Driven<Ours<u64>> = Driven::ALL;
#[used]
static NUMBERS_PINNED: Driven<Pinned<u64>> = Driven::ALL;
#[used]
static BYTES: Driven<Ours<Arc<[u8]>>> = Driven::ALL;
#[used]
static BYTES_PINNED: Driven<Pinned<Arc<[u8]>>> = Driven::ALL;

/// Their constructors.
type New<V> = fn(Setup, u64, usize) -> Ours<V>;
#[used]
static MADE: (New<u64>, New<Arc<[u8]>>) = (Ours::new, Ours::new);

/// A cache with the misses of a replay.
type Replayed = Cache<u64, u64, Simulated>;

/// Requests to it.
#[expect(dead_code, reason = "as above")]
struct Asked {
    built: fn(Builder<u64, u64, Simulated>) -> Replayed,
    get: fn(&Replayed, &u64) -> Option<u64>,
    insert: fn(&Replayed, u64, u64),
    invalidate: fn(&Replayed, &u64) -> bool,
    stats: fn(&Replayed) -> Stats,
    freeze: fn(&Replayed, f64) -> u64,
    thaw: fn(&Replayed),
    step_freezing: fn(&Replayed, Duration) -> Duration,
    freezing_state: fn(&Replayed) -> Option<FreezingState>,
}

#[used]
static SIMULATED: Asked = Asked {
    built: Builder::build,
    get: Cache::get,
    insert: Cache::insert,
    invalidate: Cache::invalidate,
    stats: Cache::stats,
    freeze: Cache::freeze,
    thaw: Cache::thaw,
    step_freezing: Cache::step_freezing,
    freezing_state: Cache::freezing_state,
};
