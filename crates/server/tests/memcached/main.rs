//! memcached's protocol over TCP, with the server in this process.

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
