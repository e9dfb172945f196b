//! The cache under chosen interleavings: `cargo xtask check shuttle`.
#![cfg(shuttle)]

mod copies;
mod expiry;
#[path = "../cache/extent.rs"]
mod extent;
mod fetching;
mod handles;
mod loading;
mod operations;
mod resize;
mod schedules;
mod snapshot;
#[path = "../cache/tracked/mod.rs"]
mod tracked;
mod waiting;
