//! What a cache can do beside keeping entries.
//!
//! Each feature has its own state, for the cache in [`Features`] and for each thread in [`Local`],
//! and stands on the core: what it does at the steps of an operation it does in the hooks below
//! (`docs/design/layers.md`).

pub(crate) mod expiry;
pub(crate) mod fetch;
pub(crate) mod frozen;
pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod observe;
pub(crate) mod record;
pub(crate) mod stats;

use std::cell::OnceCell;
use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;

use equivalent::Equivalent;

use crate::core::Core;
use crate::core::Ending;
use crate::core::hooks::{Hooks, Operation, PerThread};
use crate::core::slab::At;
use crate::smr::protect::Protect;
use crate::sync::atomic::AtomicU64;
use expiry::Expiry;
use expiry::deadlines::Term;
use fetch::Fetch;
use frozen::Frozen;
use frozen::control::Learned;
use frozen::learn::Samples;
use listen::{Departed, Listener, Telling};
use record::Recorder;

/// The features of a cache.
pub(crate) struct Features<K, V> {
    pub(crate) recorder: Recorder,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) expiry: Expiry<K, V>,
    pub(crate) frozen: Option<Box<Frozen<K, V>>>,
    pub(crate) fetch: Fetch<K, V>,
}

impl<K, V> Features<K, V> {
    /// What is learnt of freezing, in a cache that learns.
    pub(crate) fn learned(&self) -> Option<&Learned> {
        self.frozen.as_ref()?.learned.as_deref()
    }
}

/// A core with all features.
pub(crate) type Featured<K, V, S> = Core<K, V, S, Features<K, V>>;

/// What features keep for each thread. Written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// The hash of the key whose miss is timed until its insertion, or 0.
    pub(crate) timed_miss: AtomicU64,
    /// What was seen of its requests, in a cache that learns what to freeze.
    pub(crate) samples: OnceLock<Box<Samples>>,
    /// What its thread has to tell the listener. Nobody else looks at it.
    pub(crate) departed: OnceCell<Box<Departed>>,
}

// SAFETY: `departed` is reached by `listen.rs` alone, through the stripe of the calling thread.
unsafe impl Sync for Local {}

impl<K, V> PerThread for Features<K, V> {
    type Local = Local;
}

impl<K: Hash + Eq, V> Hooks<K, V> for Features<K, V> {
    type Incoming = Term;
    type Operation<'c, S: BuildHasher>
        = Option<Telling<'c, K, V, S>>
    where
        K: 'c,
        V: 'c,
        S: 'c;

    #[inline(always)]
    fn operation<'c, S: BuildHasher>(core: &'c Featured<K, V, S>) -> Option<Telling<'c, K, V, S>> {
        core.telling()
    }

    #[inline(always)]
    fn answer<'p, Q: Equivalent<K> + ?Sized, S: BuildHasher>(
        core: &'p Featured<K, V, S>,
        protection: &'p impl Protect,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V> {
        let frozen = core.hooks.frozen.as_ref()?;
        core.find_frozen(frozen, protection, hash, key)
    }

    #[inline(always)]
    fn is_live<S: BuildHasher>(core: &Featured<K, V, S>, slot: u32) -> bool {
        !core.has_expired(slot)
    }

    #[inline(always)]
    fn is_live_in_use<S: BuildHasher>(core: &Featured<K, V, S>, slot: u32, at: At<'_>) -> bool {
        !core.has_expired_in_use(slot, at)
    }

    #[inline(always)]
    fn arrived<S>(core: &Featured<K, V, S>, hash: u64, weight: u64) {
        if observe::arrive(&core.stripe().local, hash) {
            core.end_timed_miss();
        }
        core.hooks.recorder.note_insertion(hash, weight);
    }

    #[inline(always)]
    fn admitting<S>(core: &Featured<K, V, S>, slot: u32, term: &Term) {
        // Asked only now: whoever gave the slot a deadline before has made them known.
        if let Some(deadlines) = core.hooks.expiry.deadlines() {
            deadlines.begin(slot, *term, &core.slab.header(slot).hint);
        }
    }

    #[inline(always)]
    fn withdrawn(&self, slot: u32) {
        if let Some(deadlines) = self.expiry.deadlines() {
            deadlines.end(slot);
        }
    }

    #[inline(always)]
    fn queueing(&self, slot: u32, replaced: Option<u32>) {
        if let Some(watch) = self.frozen.as_ref().and_then(|frozen| frozen.watch()) {
            watch.admitted(slot, replaced);
        }
    }

    #[inline(always)]
    fn may_evict(&self) -> bool {
        !self.frozen.as_ref().is_some_and(|frozen| frozen.is_whole())
    }

    #[inline(always)]
    fn queues_changed(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.is_whole_no_more();
        }
    }

    #[inline(always)]
    fn sets_aside(&self) -> bool {
        self.frozen.is_some()
    }

    #[inline(always)]
    fn before_unlink<S>(core: &Featured<K, V, S>, slot: u32) {
        if let Some(frozen) = &core.hooks.frozen {
            frozen.leave(core.slab.header(slot), slot);
        }
    }

    #[inline(always)]
    fn removed<S>(core: &Featured<K, V, S>, slot: u32, ending: Ending) -> Ending {
        let Features { frozen, expiry, .. } = &core.hooks;
        if let Some(frozen) = frozen {
            frozen.take_out(slot);
        }
        let ending = expiry.ended(slot, ending);
        core.note(slot, ending);
        ending
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Operation<K, V> for Option<Telling<'_, K, V, S>> {
    #[inline(always)]
    fn pause(&mut self) {
        self.iter_mut().for_each(Telling::pause);
    }

    #[inline(always)]
    fn resume(&mut self) {
        self.iter_mut().for_each(Telling::resume);
    }

    #[inline(always)]
    fn refuse(&mut self, key: K, value: V) {
        if let Some(telling) = self {
            telling.refuse(key, value);
        }
    }

    #[inline(always)]
    fn conclude(self, key: K, value: V) -> (K, V) {
        match self {
            Some(telling) => telling.conclude(key, value),
            None => (key, value),
        }
    }
}
