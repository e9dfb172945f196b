//! A cache server: a thread a core, one loop for all protocols, on the store of `frazil-segment`.
//!
//! It speaks memcached's text and meta protocols, RESP for strings, and HTTP/1.1 as a cache before an origin.
//! [`Server::start`] binds and serves; the command `frazil serve` does nothing else. The design:
//! `docs/design/server.md`.
//!
//! ```
//! use frazil_server::{Server, Settings};
//!
//! let settings = Settings { memcached: vec!["127.0.0.1:0".parse()?], ..Settings::default() };
//! let server = Server::start(settings)?;
//! println!("serving at {}", server.addresses()[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The models lack the fetching thread, which uses some of it.
#![cfg_attr(loom, allow(dead_code))]

mod access;
mod admin;
mod cache_control;
mod clock;
mod cluster;
mod connection;
mod counters;
mod flights;
mod gather;
mod handle;
#[cfg(feature = "hostile")]
pub mod hostile;
mod hot;
mod http;
mod items;
mod listen;
mod mail;
mod marks;
mod memcached;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod objects;
mod origin;
mod passed;
mod percent;
mod process;
mod quotas;
mod recording;
mod resp;
mod segments;
mod server;
mod session;
mod settings;
mod snapshot;
mod store;
mod sync;
mod tls;
mod tracking;
mod turnstile;
mod user;
mod waits;
mod worker;
mod writers;

pub use access::{hash_password, users_need_passwords};
pub use cluster::{ClusterMap, ClusterMapError};
pub use frazil::Policy;
pub use frazil_recording::Recorded;
pub use frazil_segment::RestoreError;
pub use handle::Handle;
pub use http::{BaseUrl, HttpOrigin};
pub use listen::Address;
pub use memcached::Options;
pub use origin::{Origin, OriginUrl};
pub use passed::Passed;
pub use recording::{Recordable, Recording};
pub use server::{Server, StartError};
pub use settings::{
    ARGUMENTS, ITEM_BYTES_MAX, KEY_BYTES, LINE_BYTES, Limits, MEMORY_BYTES_MIN, REPLY_BYTES,
    Settings,
};
pub use snapshot::unread;
pub use store::{StoreBuildError, StoreKind};
pub use tls::TlsFiles;
pub use user::{SwitchUserError, switch_user};
