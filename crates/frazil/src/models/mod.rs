//! The lock-free protocols, each alone, under every interleaving.
//!
//! `cargo xtask check loom` runs them: loom replaces the atomics of `sync.rs` and tries
//! all orders of their operations, and all values that a load may return. A model is
//! tiny, because the orders multiply: two threads beside the first, a handful of
//! operations each. The models check the code that runs in the cache and no copy of it.

#[cfg(feature = "freezing")]
mod copies;
#[cfg(feature = "expiry")]
mod expiry;
mod index;
mod names;
mod order;
mod reclaim;
mod refs;
mod ring;
mod segments;
mod spread;
mod stripe;

use std::sync::Arc;

/// Runs `threads` at the same time, and returns their results.
fn together<S, R>(shared: &Arc<S>, threads: &[fn(&S) -> R]) -> Vec<R>
where
    S: Send + Sync + 'static,
    R: Send + 'static,
{
    let running: Vec<_> = threads
        .iter()
        .map(|&work| {
            let shared = shared.clone();
            loom::thread::spawn(move || work(&shared))
        })
        .collect();
    running.into_iter().map(|thread| thread.join().expect("a thread of the model")).collect()
}

/// For a model larger than the others: threads are preempted one time fewer.
fn large_model(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.map(|bound| bound.saturating_sub(1));
    model.check(work);
}
