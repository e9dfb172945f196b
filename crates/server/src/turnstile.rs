//! How a thread does several operations on the store so that all others see none or all of them.
//!
//! Each thread that serves holds a lock of its own while it serves a connection, passes a lease on or flushes, which nobody
//! else wants mostly, and the one that fetches while it stores. Who is to be alone lets its own go and takes the locks of all threads, in their
//! order, so two of them never wait for each other. A server of one thread that writes has no lock.

use parking_lot::{Mutex, MutexGuard};

use crate::worker::Turn;

/// One lock for each thread, or none if there is one thread.
#[derive(Debug)]
pub(crate) struct Turnstile(Box<[Lock]>);

/// On its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lock(Mutex<()>);

/// How a thread that serves stands to the others.
pub(crate) enum Place<'a> {
    /// There are no others that could come between, or it keeps them out.
    Alone,
    /// Others serve meanwhile; who wants to be alone waits for this.
    Among { number: usize, _lock: MutexGuard<'a, ()> },
}

impl Turnstile {
    /// For so many threads that change what clients see.
    pub(crate) fn new(threads: usize) -> Turnstile {
        let locks = if threads > 1 { threads } else { 0 };
        Turnstile((0..locks).map(|_| Lock::default()).collect())
    }

    /// Begins to serve, when no thread runs alone.
    pub(crate) fn enter(&self, number: usize) -> Place<'_> {
        match self.0.get(number) {
            Some(lock) => Place::Among { number, _lock: lock.0.lock() },
            None => Place::Alone,
        }
    }
}

/// Runs `work` while no other thread serves a connection. Waits until all have served theirs.
pub(crate) fn alone<R>(turn: &mut Turn<'_>, work: impl FnOnce(&mut Turn<'_>) -> R) -> R {
    let Place::Among { number, .. } = turn.place else { return work(turn) };
    // Released before others are taken; otherwise two threads would wait for each other.
    turn.place = Place::Alone;
    let mut locks: Vec<_> = turn.shared.turnstile.0.iter().map(|lock| lock.0.lock()).collect();
    let result = work(turn);
    turn.place = Place::Among { number, _lock: locks.swap_remove(number) };
    result
}
