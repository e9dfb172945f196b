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
#[path = "../shared/client.rs"]
mod shared_client;
#[path = "../shared/socket.rs"]
mod socket;
#[path = "../shared/store.rs"]
mod store;
mod tracking;
mod transactions;
mod users;
mod waits;
