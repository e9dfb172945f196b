//! The features of a cache, beside keeping entries.
//!
//! Each feature has its own state, for the cache in [`Features`] and for each thread in [`Local`],
//! and builds on the core: the hooks below do its work at the steps of an operation
//! (`docs/design/layers.md`).
//!
//! Each can be left out at compile time. A module of `off/` then takes its place, with types of
//! size zero and empty functions, so that the hooks stay the same.

#[cfg_attr(not(feature = "expiry"), path = "off/expiry.rs")]
pub(crate) mod expiry;
#[cfg_attr(not(feature = "loading"), path = "off/fetch.rs")]
pub(crate) mod fetch;
#[cfg_attr(not(feature = "freezing"), path = "off/frozen.rs")]
pub(crate) mod frozen;
#[cfg_attr(not(any(feature = "freezing", feature = "recording")), path = "off/gate.rs")]
pub(crate) mod gate;
pub(crate) mod handles;
#[cfg_attr(not(feature = "listener"), path = "off/listen.rs")]
pub(crate) mod listen;
mod observe;
#[cfg_attr(not(feature = "recording"), path = "off/record.rs")]
pub(crate) mod record;
pub(crate) mod stats;

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::core::Core;
use crate::core::Ending;
use crate::core::hooks::{Hooks, Operation, PerThread};
use crate::core::slab::{At, Header};
use crate::smr::protect::{Hazard, Protect};
use crate::smr::stripe::Reader;
use expiry::{Expiry, Term};
use fetch::FetchState;
use frozen::MaybeFrozen;
use listen::{Listener, Telling};
use record::Recorder;

/// The features of a cache.
pub(crate) struct Features<K, V> {
    pub(crate) recorder: Recorder,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) expiry: Expiry<K, V>,
    pub(crate) frozen: MaybeFrozen<K, V>,
    pub(crate) fetch: FetchState<K, V>,
}

impl<K, V> Features<K, V> {
    pub(crate) fn heap_bytes(&self) -> usize {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.heap_bytes());
        self.fetch.heap_bytes() + self.expiry.heap_bytes() + frozen
    }
}

/// A core with all features.
pub(crate) type Featured<K, V, S> = Core<K, V, S, Features<K, V>>;

/// The features' data of each thread, written only by it.
#[derive(Debug, Default)]
pub(crate) struct Local {
    pub(crate) frozen: frozen::Local,
    #[cfg(feature = "listener")]
    pub(crate) listen: listen::Local,
}

impl<K, V> PerThread for Features<K, V> {
    type Local = Local;
    type Refs = ();
}

impl<K: Hash + Eq, V> Hooks<K, V> for Features<K, V> {
    type Incoming = Term;
    type Operation<'c, S: BuildHasher>
        = Option<Telling<'c, K, V, S>>
    where
        K: 'c,
        V: 'c,
        S: 'c;

    type Look<'c, S>
        = Hazard<'c>
    where
        K: 'c,
        V: 'c,
        S: 'c;

    #[inline(always)]
    fn look<'c, S>(_: &'c Featured<K, V, S>, reader: &'c Reader) -> Option<Hazard<'c>> {
        Hazard::of(reader)
    }

    #[inline(always)]
    fn second_look<'c, S>(_: &'c Featured<K, V, S>, reader: &'c Reader) -> Option<Hazard<'c>> {
        Hazard::second(reader)
    }

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
        core.hooks.frozen.as_ref()?.find(protection, hash, key)
    }

    #[inline(always)]
    fn is_live<S: BuildHasher>(core: &Featured<K, V, S>, slot: u32) -> bool {
        !core.has_expired(slot)
    }

    #[inline(always)]
    fn is_live_in_use<S: BuildHasher>(core: &Featured<K, V, S>, slot: u32, at: At<'_>) -> bool {
        !core.has_expired_in_use(slot, at)
    }

    #[cfg(feature = "loading")]
    #[inline(always)]
    fn arrived<S>(core: &Featured<K, V, S>, hash: u64, weight: u64, term: &Term) {
        let local = &core.stripe().local;
        if frozen::arrive(&local.reads, &local.features.frozen, hash) {
            core.end_timed_miss();
        }
        core.hooks.recorder.note_insertion(hash, weight, term);
    }

    #[inline(always)]
    fn admitting<S>(core: &Featured<K, V, S>, slot: u32, term: &Term) {
        // Read only now: a thread that gave the slot a deadline before has published them.
        if let Some(deadlines) = core.hooks.expiry.deadlines() {
            deadlines.begin(slot, *term, &core.slab.header(slot).hint);
        }
    }

    #[inline(always)]
    fn withdrawn<S>(core: &Featured<K, V, S>, slot: u32, _: &Term) {
        if let Some(deadlines) = core.hooks.expiry.deadlines() {
            deadlines.end(slot);
        }
    }

    #[inline(always)]
    fn queueing(&self, slot: u32, replaced: Option<u32>) {
        if let Some(frozen) = &self.frozen {
            frozen.overlay.queueing(slot, replaced);
        }
    }

    #[inline(always)]
    fn queued(&self, slot: u32) {
        if let Some(deadlines) = self.expiry.deadlines() {
            deadlines.queued(slot);
        }
    }

    #[inline(always)]
    fn may_evict(&self) -> bool {
        !self.frozen.as_ref().is_some_and(|frozen| frozen.overlay.is_whole())
    }

    #[inline(always)]
    fn queues_changed(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.overlay.clear_whole();
        }
    }

    #[inline(always)]
    fn sets_aside(&self) -> bool {
        self.frozen.is_some()
    }

    #[inline(always)]
    fn claims(&self, header: &Header) -> bool {
        self.frozen.as_ref().is_some_and(|frozen| frozen.overlay.claims(header))
    }

    #[inline(always)]
    fn before_unlink<S>(core: &Featured<K, V, S>, slot: u32) {
        if let Some(frozen) = &core.hooks.frozen {
            frozen.leave(core.slab.header(slot), slot);
        }
    }

    #[inline(always)]
    fn removed<S>(core: &Featured<K, V, S>, slot: u32, ending: Ending, _: bool) -> (Ending, bool) {
        let ending = core.hooks.expiry.ended(slot, ending);
        core.note(slot, ending);
        (ending, true)
    }
}

#[cfg(feature = "freezing")]
impl<K: Hash + Eq, V> frozen::Freezes<K, V> for Features<K, V> {
    fn overlay(&self) -> Option<&frozen::Overlay> {
        self.frozen.as_ref().map(|frozen| &frozen.overlay)
    }

    fn copies(&self) -> Option<&frozen::Copies<K, V>> {
        self.frozen.as_ref()?.copies.as_ref()
    }

    fn gate(&self) -> &gate::Gate {
        self.recorder.gate()
    }

    fn watched(local: &Local) -> &frozen::Local {
        &local.frozen
    }

    fn stats<S>(core: &Featured<K, V, S>) -> stats::Stats {
        core.stats()
    }

    fn wanted_capacity(&self) -> Option<u64> {
        None
    }

    fn exceeds_capacity<S: BuildHasher>(_: &Featured<K, V, S>) -> bool {
        false
    }

    fn has_set_aside<S>(_: &Featured<K, V, S>, _: &[u32]) {}

    fn has_taken_back<S>(_: &Featured<K, V, S>) {}
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

    #[cfg(feature = "loading")]
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
