//! Keys written during a restore of a snapshot: the restore must not bring back older values.
//!
//! A writer that writes or deletes a key while a restore runs notes it, and the restore stores no noted
//! key. Both do so with the key's stripe of the index locked, so one of them comes first. A
//! flush ends the restore.

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard};

/// Bits by hash, 1 MiB of them. After a million keys were written meanwhile, one in nine of the
/// others counts as written and is not restored.
const BITS: u64 = 1 << 23;

/// Notes of writers while a store restores a snapshot, so that the restore does not bring back older values.
///
/// A store that restores with [`read_entries`](crate::read_entries) has one, and locks by key: a
/// writer or deleter of a key calls [`note`](Restoring::note), and the restore calls
/// [`allows`](Restoring::allows), both with that lock held.
///
/// ```
/// let restoring = frazil_segment::Restoring::default();
/// let restore = restoring.begin();
/// let flushes = restore.flushes();
/// restoring.note(7);
/// assert!(!restoring.allows(7, flushes) && restoring.allows(8, flushes));
/// restoring.note_flush();
/// assert!(restore.is_over() && !restoring.allows(8, flushes));
/// ```
#[derive(Debug)]
pub struct Restoring {
    /// One restore at a time.
    turn: Mutex<()>,
    is_active: AtomicBool,
    /// Bits by hash of the keys that were written or deleted; empty if no restore runs.
    noted: Mutex<Vec<u64>>,
    /// Number of flushes so far, and before keys were noted.
    flushes: AtomicU64,
    flushes_before: AtomicU64,
}

impl Default for Restoring {
    fn default() -> Restoring {
        Restoring {
            turn: Mutex::new(()),
            is_active: AtomicBool::new(false),
            noted: Mutex::new(Vec::new()),
            flushes: AtomicU64::new(0),
            flushes_before: AtomicU64::new(0),
        }
    }
}

impl Restoring {
    /// Makes writers note keys from now on, if they do not yet: writers that take the lock of a
    /// stripe after the caller has taken all.
    pub fn expect(&self) {
        let mut noted = self.noted.lock();
        if noted.is_empty() {
            *noted = vec![0; (BITS / 64) as usize];
            self.flushes_before.store(self.flushes.load(Relaxed), Relaxed);
            self.is_active.store(true, Relaxed);
        }
    }

    /// Makes writers stop noting.
    pub fn end(&self) {
        self.is_active.store(false, Relaxed);
        *self.noted.lock() = Vec::new();
    }

    /// The same as [`Restoring::expect`], until it is dropped. Waits until another restore has ended.
    pub fn begin(&self) -> Restore<'_> {
        let turn = self.turn.lock();
        self.expect();
        Restore { restoring: self, flushes: self.flushes_before.load(Relaxed), _turn: turn }
    }

    /// Notes that a key is written or deleted. Its stripe is locked.
    #[inline]
    pub fn note(&self, hash: u64) {
        // The stripe's lock shows it to writers after `expect`.
        if self.is_active.load(Relaxed) {
            let (at, bit) = place(hash);
            // There are no bits if the restore has ended since.
            if let Some(word) = self.noted.lock().get_mut(at) {
                *word |= bit;
            }
        }
    }

    /// Notes a flush of everything, including entries not yet restored. Call it before the store
    /// flushes.
    pub fn note_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Whether an entry that lies in its segment may still be restored. Its stripe is locked.
    ///
    /// If its segment was opened after a flush, this sees that flush: it was noted before the lock
    /// for opening segments was taken.
    pub fn allows(&self, hash: u64, flushes: u64) -> bool {
        let (at, bit) = place(hash);
        let is_noted = self.noted.lock().get(at).is_some_and(|word| word & bit != 0);
        !is_noted && self.flushes.load(Relaxed) == flushes
    }
}

/// The word of a hash, and its bit there.
fn place(hash: u64) -> (usize, u64) {
    let bit = hash % BITS;
    ((bit / 64) as usize, 1 << (bit % 64))
}

/// A running restore ([`Restoring::begin`]). Writers stop noting once it is dropped.
///
/// ```
/// let restoring = frazil_segment::Restoring::default();
/// let restore: frazil_segment::Restore<'_> = restoring.begin();
/// assert!(!restore.is_over());
/// ```
#[derive(Debug)]
pub struct Restore<'a> {
    restoring: &'a Restoring,
    flushes: u64,
    _turn: MutexGuard<'a, ()>,
}

impl Restore<'_> {
    /// Flushes until writers began to note, for [`Restoring::allows`].
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Whether a flush has ended the restore.
    pub fn is_over(&self) -> bool {
        self.restoring.flushes.load(Relaxed) != self.flushes
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.restoring.end();
    }
}
