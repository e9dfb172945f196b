//! Eviction algorithms.
