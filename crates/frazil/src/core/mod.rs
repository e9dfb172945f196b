//! The cache without its features: index, entries, policies among threads, insertion and removal.
//!
//! It stands on [`smr`](crate::smr). What features add to an operation it calls through
//! hooks, by no feature's name (`docs/design/layers.md`).

pub(crate) mod admission;
pub(crate) mod budget;
pub(crate) mod index;
pub(crate) mod order;
pub(crate) mod resize;
pub(crate) mod slab;
pub(crate) mod write;
