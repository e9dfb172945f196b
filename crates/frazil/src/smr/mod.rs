//! Safe memory reclamation: when a slot that has left the cache may be used again.
//!
//! The lowest layer of the cache. It knows threads, slots by their numbers and groups of them, and
//! nothing of keys, values, policies or features (`docs/design/layers.md`).

pub(crate) mod fence;
pub(crate) mod fork;
mod named;
pub(crate) mod names;
pub(crate) mod progress;
pub(crate) mod protect;
pub(crate) mod reclaim;
pub(crate) mod refs;
pub(crate) mod segments;
pub(crate) mod spread;
pub(crate) mod stripe;
pub(crate) mod thread;
