//! Policies against models that are written from their papers, and the properties that all share.
//!
//! One program, because each would compile most policies again.

mod boosted_trees;
mod cache;
mod capacity;
mod group_aims;
mod hot_first;
mod hot_first_models;
mod interface;
mod model;
mod naive;
mod naive_adaptive;
mod naive_delays;
mod naive_experts;
mod naive_groups;
mod naive_lists;
mod naive_objects;
mod naive_ranked;
mod naive_ranks;
mod order;
mod overlay;

use proptest::prelude::ProptestConfig;

/// Whether to try all cases, as before a release.
fn is_long() -> bool {
    std::env::var_os("FRAZIL_LONG").is_some()
}

/// Cases of a property: `most` in a long run, and a fifth of them in any other.
fn cases(most: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if is_long() { most } else { most / 5 })
}
