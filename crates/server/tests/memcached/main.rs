//! The server as clients of memcached meet it: over TCP, in this process.

mod bounds;
mod client;
mod dialects;
mod fetches;
mod hostile;
mod leases;
mod listen;
mod origin;
mod pieces;
mod times;
mod users;
mod waits;
