//! Replays of real traces, and of small ones against models.
//!
//! One program, so that long tests run beside each other.

mod curves;
mod delayed_hits;
mod lifetimes;
mod operations;
mod reference;
mod trace_files;
