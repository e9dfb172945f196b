//! The server as clients of HTTP meet it: over TCP, before an origin, both in this process.

mod caching;
mod client;
mod hostile;
mod invalidation;
mod origin;
mod pieces;
#[path = "../shared/socket.rs"]
mod socket;
mod streams;
