//! HTTP over TCP, with the server and an origin in this process.

mod caching;
mod client;
mod hostile;
mod invalidation;
mod origin;
mod pieces;
mod proxying;
mod recordings;
#[path = "../shared/socket.rs"]
mod socket;
mod streams;
