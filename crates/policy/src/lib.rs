//! Eviction policies as pure algorithms: no locks, no keys, no values, no unsafe
//! code.
//!
//! A [`Policy`] orders [`Slot`]s that a [`Host`] owns. The simulator and the concurrent cache host
//! the same code, so the simulation runs what the cache runs. Each policy has one file, which names
//! its costs and its paper.
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

mod aged_ghost;
mod aggregate_delay;
mod arc;
mod arrivals;
mod belady;
mod belady_mad;
mod belady_size;
mod boosted_trees;
mod buckets;
mod cacheus;
mod clock;
mod delay_rank;
mod fifo;
mod frequency;
mod gdsf;
mod ghost;
mod gl_cache;
mod guarded;
mod heap;
mod history;
mod host;
mod hot_first;
mod hyperbolic;
mod lecar;
mod lfu;
mod lhd;
mod lirs;
mod lists;
mod lrb;
mod lru;
mod lru_delayed;
mod lru_prob;
mod lru_sampled;
mod lru_sets;
mod mad;
mod mark;
mod mobius;
mod nearest;
mod online;
mod overlay;
mod parameters;
mod policy;
mod pool;
mod priority;
mod random;
mod ranked;
mod rng;
mod s3_fifo;
mod sample;
mod shadow;
mod sieve;
mod sketch;
mod slru;
mod spec;
mod two_queue;
mod w_tiny_lfu;

pub use aged_ghost::AgedGhost;
pub use aggregate_delay::{Counters, Delays, Keep, OfAll, OfResidents, Windows};
pub use arc::{AdaptiveReplacement, ArcGhost};
pub use belady::{Belady, NEVER};
pub use belady_mad::{BeladyMad, NextDelay};
pub use belady_size::BeladySize;
pub use boosted_trees::{BoostedTrees, Boosting, Samples};
pub use cacheus::Cacheus;
pub use clock::Clock;
pub use delay_rank::{DelayRank, FetchTimes, Known, Rank};
pub use fifo::Fifo;
pub use frequency::Frequencies;
pub use gdsf::Gdsf;
pub use ghost::Ghost;
pub use gl_cache::{
    Aim, DelayCosts, EqualCosts, FetchCosts, GlCache, GroupFlight, GroupLearning, GroupMode,
    GroupModel, Interval, MissCosts, Sight, TraceKnowledge,
};
pub use guarded::Guarded;
pub use heap::SlotHeap;
pub use history::History;
pub use host::{Host, Slot, Work, WorkCounts, object_hash};
pub use hot_first::HotFirst;
pub use hyperbolic::Hyperbolic;
pub use lecar::Lecar;
pub use lfu::Lfu;
pub use lhd::Lhd;
pub use lirs::Lirs;
pub use lists::Lists;
pub use lrb::{Lrb, ObjectLearning};
pub use lru::Lru;
pub use lru_delayed::LruDelayed;
pub use lru_prob::LruProb;
pub use lru_sampled::LruSampled;
pub use lru_sets::LruSets;
pub use mad::{DelayAware, Estimate, IdleSince, InFlight, Mad};
pub use mark::Mark;
pub use mobius::Mobius;
pub use nearest::nearest;
pub use online::{Candidates, MadBase, Online};
pub use policy::{Eviction, Incoming, Policy};
pub use pool::SlotPool;
pub use priority::Priority;
pub use random::Random;
pub use rng::Rng;
pub use s3_fifo::S3Fifo;
pub use sample::SampleTable;
pub use sieve::Sieve;
pub use sketch::Sketch;
pub use slru::Slru;
pub use spec::{KnownTrace, PolicySpec, PolicyVisitor, SpecError};
pub use two_queue::TwoQueue;
pub use w_tiny_lfu::WTinyLfu;
