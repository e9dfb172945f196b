//! FrozenHot (EuroSys 2023) for any cache.
//!
//! The hottest entries of a cache get most of its hits. This crate serves them for a while from a
//! table that is read without locks, and leaves the other entries to the cache and its policy. It
//! learns how much to freeze, and when it pays.
//!
//! - [`Overlay`] is for another cache: implement [`Host`] for it, seven methods around existing
//!   operations, and put an overlay on it.
//! - [`Steering`] and [`Learner`] are for a cache with a frozen part of its own, such as Frazil's:
//!   it implements [`Subject`], and the controller calls it.
//!
//! `docs/design/freezing-other-caches.md` has the protocol and measured gains.

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
