//! Policies against models that are written from their papers, and what all of them promise.
//!
//! One program, because each would compile most policies again.

mod cache;
mod capacity;
mod hot_first;
mod hot_first_models;
mod interface;
mod model;
mod naive;
mod naive_adaptive;
mod naive_delays;
mod naive_experts;
mod naive_lists;
mod naive_ranked;
mod naive_ranks;
mod order;
mod overlay;
mod pins;
