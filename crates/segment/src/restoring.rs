//! What is written while a snapshot is restored: a restore must not bring back what is older.
//!
//! Whoever writes or deletes a key while a restore runs notes it, and the restore stores none that
//! is noted. Both do so with the key's stripe of the index locked, so one of them comes first. A
//! flush ends the restore.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard};

/// Bits by hash, 1 MiB of them: of a million keys that are written meanwhile one in nine hides
/// another that was not.
const BITS: u64 = 1 << 23;

/// The state of the restore of a store, if there is one.
#[derive(Debug)]
pub(crate) struct Restoring {
    /// One restore at a time.
    turn: Mutex<()>,
    is_active: AtomicBool,
    /// Bits by hash of the keys that were written or deleted; none where nothing is restored.
    noted: Mutex<Vec<u64>>,
    /// Flushes so far, and those before keys were noted.
    flushes: AtomicU64,
    flushes_before: AtomicU64,
}

impl Restoring {
    pub(crate) fn new() -> Restoring {
        Restoring {
            turn: Mutex::new(()),
            is_active: AtomicBool::new(false),
            noted: Mutex::new(Vec::new()),
            flushes: AtomicU64::new(0),
            flushes_before: AtomicU64::new(0),
        }
    }

    /// Has writers note keys from now on, unless they do: those that find the lock of a stripe
    /// after the caller has taken all.
    pub(crate) fn expect(&self) {
        let mut noted = self.noted.lock();
        if noted.is_empty() {
            *noted = vec![0; (BITS / 64) as usize];
            self.flushes_before.store(self.flushes.load(Relaxed), Relaxed);
            self.is_active.store(true, Relaxed);
        }
    }

    /// Has writers note no more.
    pub(crate) fn end(&self) {
        self.is_active.store(false, Relaxed);
        *self.noted.lock() = Vec::new();
    }

    /// The same as [`Restoring::expect`], until it is dropped. Waits until another restore has
    /// ended.
    pub(crate) fn begin(&self) -> Restore<'_> {
        let turn = self.turn.lock();
        self.expect();
        Restore { restoring: self, flushes: self.flushes_before.load(Relaxed), _turn: turn }
    }

    /// A key is written or deleted. Its stripe is locked.
    #[inline]
    pub(crate) fn note(&self, hash: u64) {
        // The stripe's lock shows it to those who come after `expect`.
        if self.is_active.load(Relaxed) {
            let mut noted = self.noted.lock();
            if let Some((word, bit)) = place(&noted, hash) {
                noted[word] |= bit;
            }
        }
    }

    /// A flush applies to all entries, also to those not restored yet. Called before the store
    /// flushes.
    pub(crate) fn note_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Whether an entry that lies in its segment may still be restored. Its stripe is locked.
    ///
    /// If its segment was opened after a flush, this sees that flush: it was noted before the lock
    /// was taken under which segments are opened.
    pub(crate) fn allows(&self, hash: u64, flushes: u64) -> bool {
        let noted = self.noted.lock();
        let is_noted = place(&noted, hash).is_some_and(|(word, bit)| noted[word] & bit != 0);
        !is_noted && self.flushes.load(Relaxed) == flushes
    }
}

fn place(noted: &[u64], hash: u64) -> Option<(usize, u64)> {
    // Their number is a power of two, or 0.
    let bits = (noted.len() as u64 * 64).checked_sub(1)?;
    let bit = hash & bits;
    Some(((bit / 64) as usize, 1 << (bit % 64)))
}

/// A restore that runs.
pub(crate) struct Restore<'a> {
    restoring: &'a Restoring,
    /// As many as there were when writers began to note.
    pub(crate) flushes: u64,
    _turn: MutexGuard<'a, ()>,
}

impl Restore<'_> {
    /// Whether a flush has ended it.
    pub(crate) fn is_over(&self) -> bool {
        self.restoring.flushes.load(Relaxed) != self.flushes
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.restoring.end();
    }
}
