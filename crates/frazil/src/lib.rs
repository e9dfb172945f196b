//! A concurrent cache whose hits take no lock and write no shared line.
#![warn(missing_docs)]

mod budget;
mod builder;
mod cache;
mod evict;
mod fence;
mod index;
mod iter;
mod pin;
mod policy;
mod protect;
mod reclaim;
mod slab;
mod stats;
mod stripe;
mod sync;
mod thread;
mod validate;
mod write;

pub use builder::Builder;
pub use cache::Cache;
pub use iter::Iter;
pub use pin::Pin;
pub use policy::{Policy, PolicyError};
pub use stats::Stats;
