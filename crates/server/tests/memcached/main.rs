//! memcached's protocol over TCP, with the server in this process.

mod bounds;
mod client;
mod dialects;
mod fetches;
mod hostile;
mod leases;
mod listen;
mod numbers;
mod origin;
mod pieces;
mod recordings;
#[path = "../shared/client.rs"]
mod shared_client;
#[path = "../shared/socket.rs"]
mod socket;
#[path = "../shared/store.rs"]
mod store;
mod times;
mod users;
mod waits;
