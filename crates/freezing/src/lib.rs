//! FrozenHot (EuroSys 2023) for any cache.
//!
//! The hottest entries of a cache get most of its hits. This crate serves them for a while from a
//! table that is read without locks, leaves the rest to the cache and its policy, and learns how much
//! is worth it, when it pays, and when it does not.
//!
//! - [`Overlay`] is for somebody else's cache: implement [`Host`] for it, seven methods around what
//!   it does anyway, and put an overlay on it.
//! - [`Steering`] and [`Learner`] are for a cache that has a place of its own for what is frozen, as
//!   Frazil's has: it implements [`Subject`], and is told what to do.
//!
//! `docs/design/freezing-other-caches.md` has the protocol, and the gains that were measured.

mod control;
mod controller;
mod curve;
mod host;
mod learn;
#[cfg(all(test, loom))]
mod models;
mod overlay;
mod published;
mod state;
mod steering;
mod sync;
mod table;
mod threads;
mod verdict;

pub use control::{Controlled, FreezingControl};
pub use controller::{Phase, Reason};
pub use curve::CurvePoint;
pub use host::{Host, Insertion, Mark};
pub use learn::{BURST, Gate, Learner, NEWCOMER, Samples, byte_of_rank, overhead_ns};
pub use overlay::{Overlay, Steps};
pub use state::FreezingState;
pub use steering::{Counts, Steering, Step, Subject, Teacher};
pub use verdict::{Tried, Verdict};
