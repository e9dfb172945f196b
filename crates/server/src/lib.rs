//! A cache server: a thread a core, one loop for all protocols, on the store of `frazil-segment`.
//!
//! It speaks memcached's text and meta protocol, and RESP for strings. [`Server::start`] binds and serves; the command
//! `frazil serve` does nothing else. How it works: `docs/design/server.md`.
//!
//! ```
//! use frazil_server::{Server, Settings};
//!
//! let settings = Settings { memcached: vec!["127.0.0.1:0".parse()?], ..Settings::default() };
//! let server = Server::start(settings)?;
//! println!("serving at {}", server.addresses()[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod admin;
mod clock;
mod connection;
mod counters;
mod flights;
mod gather;
mod handle;
mod items;
mod listen;
mod mail;
mod memcached;
mod metrics;
mod origin;
mod passed;
mod process;
mod resp;
mod server;
mod session;
mod settings;
mod tls;
mod turnstile;
mod waits;
mod worker;

pub use access::{hash_password, users_need_passwords};
pub use frazil_segment::RestoreError;
pub use handle::Handle;
pub use listen::Address;
pub use memcached::Options;
pub use origin::{Origin, OriginUrl};
pub use passed::Passed;
pub use server::{Server, StartError};
pub use settings::{ITEM_BYTES_MAX, Limits, MEMORY_BYTES_MIN, Settings};
pub use tls::TlsFiles;
