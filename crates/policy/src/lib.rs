//! Eviction policies as pure algorithms: no locks, no keys, no values, no unsafe
//! code.
//!
//! A [`Policy`] orders [`Slot`]s that a [`Host`] owns. The simulator and the
//! concurrent cache are hosts of the same code, so what is simulated is what
//! runs. One file a policy; each says what it costs and which paper it comes
//! from.
//!
//! A host in a few lines:
//!
//! ```
//! use frazil_policy::{Eviction, Host, Incoming, Mark, Policy, Sieve, Slot};
//!
//! struct Marks(Vec<Mark>);
//! impl Host<Mark> for Marks {
//!     fn now(&self) -> u64 { 0 }
//!     fn meta(&self, slot: Slot) -> &Mark { &self.0[slot.index()] }
//!     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
//!     fn weight(&self, _: Slot) -> u64 { 1 }
//! }
//!
//! let mut host = Marks((0..2).map(|_| Mark::default()).collect());
//! let mut sieve = Sieve::default();
//! for slot in [Slot(0), Slot(1)] {
//!     let pending = sieve.miss(&mut host, slot.0.into(), 1);
//!     sieve.insert(&mut host, slot, Incoming { hash: slot.0.into(), weight: 1, pending });
//! }
//! sieve.hit(&mut host, Slot(0));
//! assert_eq!(sieve.evict(&mut host, None), Eviction::Victim(Slot(1)));
//! ```
#![forbid(unsafe_code)]

mod belady;
mod cacheus;
mod clock;
mod fifo;
mod frequency;
mod ghost;
mod heap;
mod history;
mod host;
mod lecar;
mod lists;
mod lru;
mod mark;
mod mobius;
mod policy;
mod pool;
mod rng;
mod s3_fifo;
mod sieve;
mod spec;

pub use belady::{Belady, NEVER};
pub use cacheus::Cacheus;
pub use clock::Clock;
pub use fifo::Fifo;
pub use frequency::Frequencies;
pub use ghost::Ghost;
pub use heap::SlotHeap;
pub use history::History;
pub use host::{Host, Slot, Work, WorkCounts, object_hash};
pub use lecar::Lecar;
pub use lists::Lists;
pub use lru::Lru;
pub use mark::Mark;
pub use mobius::Mobius;
pub use policy::{Eviction, Incoming, Policy, SharedHit};
pub use pool::SlotPool;
pub use rng::Rng;
pub use s3_fifo::S3Fifo;
pub use sieve::Sieve;
pub use spec::{PolicySpec, PolicyVisitor, SpecError};
