//! The server as clients of memcached meet it: over TCP, in this process.

mod bounds;
pub(crate) mod client;
mod dialects;
mod fetches;
mod hostile;
mod leases;
mod listen;
pub(crate) mod origin;
mod pieces;
mod times;
mod users;
mod waits;
