//! The server as clients of memcached meet it: over TCP, in this process.

mod bounds;
mod client;
mod dialects;
mod hostile;
mod listen;
mod pieces;
mod times;
