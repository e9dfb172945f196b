//! RESP over TCP, with the server in this process.

mod bounds;
pub(crate) mod client;
mod cluster;
mod commands;
mod hostile;
mod hotkeys;
#[path = "../memcached/origin.rs"]
mod origin;
mod pieces;
mod tracking;
mod transactions;
mod users;
mod waits;
