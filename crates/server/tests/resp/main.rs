//! The server as clients of Redis meet it: over TCP, in this process.

mod bounds;
pub(crate) mod client;
mod commands;
mod hostile;
mod pieces;
mod transactions;
