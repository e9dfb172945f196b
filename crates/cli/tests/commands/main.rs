//! The command as users run it.
//!
//! One program, so that long tests run beside each other.

mod advise;
mod book;
mod by_trace;
mod calibrate;
mod command;
mod inputs;
mod latency;
mod lifetimes;
mod load;
mod model;
mod prose;
mod recording;
#[cfg(target_os = "linux")]
mod rocksdb;
mod serve;
#[cfg(target_os = "linux")]
mod serve_access;
#[cfg(target_os = "linux")]
mod serve_crash;
mod shell;
mod tasks;
