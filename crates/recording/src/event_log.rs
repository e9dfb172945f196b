//! Notes on their way from the threads to the writer: a ring for each thread.
//!
//! Only the thread moves `tail`, or the one that has taken a shared log, and only the writer
//! `head`, with plain stores. Notes that
//! do not fit are counted and discarded. A lock for each note, even without contention,
//! costs more than the rest of the note: its locked instruction waits until the stores
//! before it are done, and those go to memory that the writer has read. Threads that share
//! logs pay that ([`EventLogs::push_shared`]).
//!
//! 10 ns a note; 32 bytes a note that fits, 524 kB a thread.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;

use crate::SIZE_MAX;

/// Number of logs. Notes for others are lost.
const LOGS: usize = 1024;
/// Notes that a log holds: a power of two.
const NOTES: u64 = 1 << 14;
/// Words of a note.
const WORDS: usize = 4;

/// The kind of an operation and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A get that found its key.
    Hit,
    /// A get that did not find its key.
    Miss,
    /// An insertion, whether it was admitted or not.
    Insert,
    /// A removal, whether there was an entry or not.
    Remove,
}

/// One operation on a chosen key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// By the clock of the recorder.
    pub time_ns: u64,
    /// Hash of the key.
    pub hash: u64,
    /// The entry's size. Sizes above [`SIZE_MAX`] are written as [`SIZE_MAX`].
    pub weight: u64,
    /// For an insertion, the entry's lifetime; 0 if no entry has one, [`FOR_EVER`](crate::FOR_EVER)
    /// where others have.
    pub lifetime_ns: u64,
    /// The kind of operation and its outcome.
    pub event: Event,
}

/// The thread's own part, on lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Own {
    /// Notes taken since the beginning.
    tail: AtomicU64,
    /// Notes that did not fit, since the beginning.
    lost: AtomicU64,
    /// Whether a thread is adding a note, of those that share the log.
    is_taken: AtomicBool,
}

/// Notes that the writer has read.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Head(AtomicU64);

/// The notes of one thread.
#[derive(Debug)]
struct EventLog {
    own: Own,
    head: Head,
    words: Box<[AtomicU64]>,
}

impl EventLog {
    fn new() -> Self {
        EventLog {
            own: Own::default(),
            head: Head::default(),
            words: (0..NOTES as usize * WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn words(&self, number: u64) -> &[AtomicU64] {
        let first = (number % NOTES) as usize * WORDS;
        &self.words[first..first + WORDS]
    }

    /// Adds a note, for the thread whose log it is. Returns whether the log has just
    /// become half full.
    #[inline(always)]
    fn push(&self, note: &Note, near: impl FnOnce(*const u8)) -> bool {
        let tail = self.own.tail.load(Relaxed);
        // Acquire: partner is the Release of `read`, so that only notes already read are
        // overwritten.
        let held = tail.wrapping_sub(self.head.0.load(Acquire));
        if held >= NOTES {
            self.own.lost.store(self.own.lost.load(Relaxed).wrapping_add(1), Relaxed);
            return false;
        }
        let words = self.words(tail);
        words[0].store(note.time_ns, Relaxed);
        words[1].store(note.hash, Relaxed);
        words[2].store(note.weight.min(SIZE_MAX) << 2 | note.event as u64, Relaxed);
        words[3].store(note.lifetime_ns, Relaxed);
        // Release: the words; partner is the Acquire of `read`.
        self.own.tail.store(tail.wrapping_add(1), Release);
        // The writer has read this memory: fetch it for the note after the next.
        near(self.words(tail.wrapping_add(2)).as_ptr().cast());
        held + 1 == NOTES / 2
    }

    /// Passes the unread notes to the writer.
    fn read(&self, mut see: impl FnMut(Note)) {
        let head = self.head.0.load(Relaxed);
        // Acquire: partner is the Release of `push`.
        let tail = self.own.tail.load(Acquire);
        for number in 0..tail.wrapping_sub(head).min(NOTES) {
            let words = self.words(head.wrapping_add(number));
            let sized = words[2].load(Relaxed);
            let event = [Event::Hit, Event::Miss, Event::Insert, Event::Remove][sized as usize & 3];
            let (time_ns, hash) = (words[0].load(Relaxed), words[1].load(Relaxed));
            let (weight, lifetime_ns) = (sized >> 2, words[3].load(Relaxed));
            see(Note { time_ns, hash, weight, lifetime_ns, event });
        }
        // Release: partner is the Acquire of `push`.
        self.head.0.store(tail, Release);
    }
}

/// State shared by a cache and the writer. Made for the first recording, kept for the next.
#[derive(Debug)]
pub(super) struct EventLogs {
    /// By the number of the thread.
    logs: Box<[OnceLock<Box<EventLog>>]>,
    writer: Mutex<Option<Thread>>,
    /// Notes without a log, and those whose log another thread was adding to.
    unlogged: AtomicU64,
    /// Gets of all keys during the recording, set at its end.
    pub(super) gets: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl EventLogs {
    pub(super) fn new() -> Self {
        EventLogs {
            logs: (0..LOGS).map(|_| OnceLock::new()).collect(),
            writer: Mutex::new(None),
            unlogged: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Adds a note to a log.
    #[inline(always)]
    pub(super) fn push(&self, log: usize, note: &Note, near: impl FnOnce(*const u8)) {
        let Some(log) = self.logs.get(log) else {
            return self.lose();
        };
        if log.get_or_init(|| Box::new(EventLog::new())).push(note, near) {
            self.wake();
        }
    }

    /// Adds a note to a log that threads share. It is lost while another thread adds one.
    pub(super) fn push_shared(&self, log: usize, note: &Note, near: impl FnOnce(*const u8)) {
        let Some(log) = self.logs.get(log) else {
            return self.lose();
        };
        let log = log.get_or_init(|| Box::new(EventLog::new()));
        // Acquire: partner is the Release below, so that this thread sees the `tail` of the one before.
        if log.own.is_taken.swap(true, Acquire) {
            return self.lose();
        }
        let is_half_full = log.push(note, near);
        // Release: partner is the Acquire above.
        log.own.is_taken.store(false, Release);
        if is_half_full {
            self.wake();
        }
    }

    /// Counts a note that reached no log.
    fn lose(&self) {
        self.unlogged.fetch_add(1, Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // If the lock is taken, another thread is waking the writer.
        match self.writer.try_lock() {
            Ok(writer) => writer.iter().for_each(Thread::unpark),
            Err(TryLockError::Poisoned(writer)) => {
                writer.into_inner().iter().for_each(Thread::unpark);
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Sets the thread to wake.
    pub(super) fn written_by(&self, writer: Thread) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    }

    /// Passes the unread notes to the writer, each with the number of its log.
    pub(super) fn read(&self, mut see: impl FnMut(usize, Note)) {
        for (number, log) in self.logs.iter().enumerate() {
            if let Some(log) = log.get() {
                log.read(|note| see(number, note));
            }
        }
    }

    /// Notes lost since the logs were made.
    pub(super) fn lost(&self) -> u64 {
        let of = |log: &EventLog| log.own.lost.load(Relaxed);
        let lost = self.logs.iter().filter_map(OnceLock::get).map(|log| of(log));
        lost.fold(self.unlogged.load(Relaxed), u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::ScopedJoinHandle;

    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let logs = EventLogs::new();
        let note =
            |hash| Note { time_ns: 1, hash, weight: 7, lifetime_ns: 5, event: Event::Insert };
        for round in 1..=3 {
            (0..NOTES + 5).for_each(|hash| logs.push(0, &note(hash), |_| ()));
            assert_eq!(logs.lost(), 5 * round);
            let mut read = Vec::new();
            logs.read(|_, note| read.push(note));
            assert_eq!(read, (0..NOTES).map(note).collect::<Vec<_>>());
        }
    }

    #[test]
    fn threads_that_share_a_log_write_whole_notes() {
        const EACH: u64 = if cfg!(miri) { 500 } else { 300_000 };
        let logs = EventLogs::new();
        let note =
            |hash| Note { time_ns: hash, hash, weight: hash, lifetime_ns: 0, event: Event::Hit };
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            let (logs, note) = (&logs, &note);
            let threads = [0, 1, 2].map(|thread| {
                scope.spawn(move || {
                    for number in 0..EACH {
                        logs.push_shared(7, &note(thread * EACH + number), |_| ());
                    }
                })
            });
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                logs.read(|_, note| read.push(note));
            }
        });
        logs.read(|_, note| read.push(note));
        assert_eq!(read.len() as u64 + logs.lost(), 3 * EACH);
        for thread in 0..3 {
            let of = |note: &&Note| note.hash / EACH == thread;
            assert!(read.iter().filter(of).is_sorted_by(|a, b| a.hash < b.hash));
        }
        assert!(read.iter().all(|found| *found == note(found.hash)));
    }

    #[test]
    fn what_fits_is_read_once_and_in_order() {
        const ALL: u64 = if cfg!(miri) { 2_000 } else { 2_000_000 };
        let logs = EventLogs::new();
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for hash in 0..ALL {
                    let note = Note {
                        time_ns: hash,
                        hash,
                        weight: hash,
                        lifetime_ns: hash,
                        event: Event::Miss,
                    };
                    logs.push(0, &note, |_| ());
                }
            });
            while !writer.is_finished() {
                logs.read(|_, note| read.push(note));
            }
        });
        logs.read(|_, note| read.push(note));
        assert_eq!(read.len() as u64 + logs.lost(), ALL);
        assert!(read.is_sorted_by(|a, b| a.hash < b.hash));
        let is_whole =
            |note: &Note| [note.time_ns, note.weight, note.lifetime_ns] == [note.hash; 3];
        assert!(read.iter().all(is_whole));
    }
}
