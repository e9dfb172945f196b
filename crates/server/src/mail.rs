//! What threads tell those that serve: how waits have ended.

use std::fmt;
use std::sync::Arc;

use mio::Waker;
use parking_lot::Mutex;

/// Where a reply waits: a connection of a thread. Tickets are never used twice, so a connection that has taken another's
/// slot is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) thread: u32,
    pub(crate) slot: u32,
}

/// How a wait has ended.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The key was written or deleted.
    Look,
    /// The lease is the waiter's now.
    Win,
    /// What was fetched is another's only.
    Again,
    Fetched(Outcome),
    /// Its time is over.
    Late,
}

/// What a fetch has brought.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Value(Arc<Fetched>),
    /// The origin has no value.
    Absent,
    /// The origin did not answer, or with an error.
    Failed,
}

/// A value that was fetched.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) value: Vec<u8>,
    /// Its number for `cas`, 0 if it is not stored.
    pub(crate) cas: u64,
    pub(crate) lifetime_seconds: u64,
    /// Whether others may be given it too.
    pub(crate) is_shared: bool,
}

/// News for a hole of a connection.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) slot: u32,
    pub(crate) ticket: u64,
    pub(crate) news: News,
}

/// A box for each thread.
pub(crate) struct Mail {
    boxes: Box<[Mutex<Vec<Letter>>]>,
    wakers: Arc<[Waker]>,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("boxes", &self.boxes.len()).finish_non_exhaustive()
    }
}

impl Mail {
    pub(crate) fn new(wakers: Arc<[Waker]>) -> Mail {
        Mail { boxes: wakers.iter().map(|_| Mutex::default()).collect(), wakers }
    }

    /// Sends all letters, and wakes each thread once. A thread whose box is not empty was woken before, and has not
    /// taken it out yet.
    pub(crate) fn send(&self, letters: impl Iterator<Item = ((u64, Place), News)>) {
        let mut by_thread: Vec<Vec<Letter>> = self.boxes.iter().map(|_| Vec::new()).collect();
        for ((ticket, Place { thread, slot }), news) in letters {
            by_thread[thread as usize].push(Letter { slot, ticket, news });
        }
        for (thread, letters) in by_thread.into_iter().enumerate().filter(|(_, of)| !of.is_empty())
        {
            let mut there = self.boxes[thread].lock();
            let was_empty = there.is_empty();
            there.extend(letters);
            drop(there);
            if was_empty {
                // A thread that cannot be woken looks once a second.
                let _ = self.wakers[thread].wake();
            }
        }
    }

    /// Takes a thread's letters.
    pub(crate) fn take(&self, thread: usize) -> Vec<Letter> {
        std::mem::take(&mut *self.boxes[thread].lock())
    }
}
