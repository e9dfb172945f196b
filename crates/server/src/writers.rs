//! Locks of a store's writers, one for each stripe of keys, and their notes for a restore.

use std::hash::BuildHasher as _;
use std::path::Path;

use foldhash::fast::RandomState;
use frazil_segment::{Attributes, RestoreError, Restoring, StoreError};
use parking_lot::{Mutex, MutexGuard};

pub(crate) const STRIPES: usize = 256;

#[derive(Debug)]
struct Stripe<S> {
    lock: Mutex<()>,
    state: S,
}

/// The stripes of a store, each with a state that only the holder of its lock changes.
#[derive(Debug)]
pub(crate) struct Writers<S> {
    hasher: RandomState,
    stripes: Box<[Stripe<S>]>,
    restoring: Restoring,
}

/// The lock of a key's stripe.
pub(crate) struct Writer<'w, S> {
    pub(crate) state: &'w S,
    pub(crate) stripe: usize,
    hash: u64,
    restoring: &'w Restoring,
    _lock: MutexGuard<'w, ()>,
}

impl<S> Writer<'_, S> {
    /// Notes that the key is written or deleted, so that a restore does not bring back an older value.
    #[inline]
    pub(crate) fn note(&self) {
        self.restoring.note(self.hash);
    }
}

impl<S> Writers<S> {
    pub(crate) fn new(state: impl Fn() -> S) -> Writers<S> {
        let stripe = |_| Stripe { lock: Mutex::new(()), state: state() };
        Writers {
            hasher: RandomState::default(),
            stripes: (0..STRIPES).map(stripe).collect(),
            restoring: Restoring::default(),
        }
    }

    fn place(&self, key: &[u8]) -> (u64, usize) {
        let hash = self.hasher.hash_one(key);
        (hash, hash as usize % STRIPES)
    }

    #[inline]
    pub(crate) fn lock(&self, key: &[u8]) -> Writer<'_, S> {
        let (hash, at) = self.place(key);
        let stripe = &self.stripes[at];
        let _lock = stripe.lock.lock();
        Writer { state: &stripe.state, stripe: at, hash, restoring: &self.restoring, _lock }
    }

    /// The state of a key's stripe, for readers.
    pub(crate) fn state(&self, key: &[u8]) -> &S {
        &self.stripes[self.place(key).1].state
    }

    /// Calls `flush`, which removes all items, with all locks held: a change of a flushed item ends before, and stores
    /// nothing after it.
    pub(crate) fn flush(&self, flush: impl FnOnce()) {
        self.restoring.note_flush();
        let _locks: Vec<_> = self.stripes.iter().map(|stripe| stripe.lock.lock()).collect();
        flush();
    }

    /// Reads a snapshot, as [`frazil_segment::Store::restore_with`]. Calls `store` with the lock of each entry's key,
    /// unless the key was written or deleted, or all items flushed, since the restore was expected or began. `store`
    /// tells whether it has stored the entry.
    pub(crate) fn restore(
        &self,
        path: &Path,
        mut store: impl FnMut(&Writer<'_, S>, &[u8], &[u8], Attributes) -> Result<bool, StoreError>,
    ) -> Result<u64, RestoreError> {
        let restore = self.restoring.begin();
        self.pass_all_locks();
        frazil_segment::read_entries(path, |key, value, attributes| {
            let lock = self.lock(key);
            let is_allowed = self.restoring.allows(lock.hash, restore.flushes());
            if is_allowed { store(&lock, key, value, attributes) } else { Ok(false) }
        })
    }

    /// Has writers note their keys from now on, for a restore that will begin.
    pub(crate) fn expect_restore(&self) {
        self.restoring.expect();
        self.pass_all_locks();
    }

    pub(crate) fn expect_no_restore(&self) {
        self.restoring.end();
    }

    /// Waits for the present holders of locks. Later holders see everything stored before this.
    fn pass_all_locks(&self) {
        self.stripes.iter().for_each(|stripe| drop(stripe.lock.lock()));
    }
}
