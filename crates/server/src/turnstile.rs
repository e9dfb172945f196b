//! Exclusive execution: several operations on the store of which all others see none or all.
//!
//! Each serving thread holds its own lock while it serves a connection, passes a lease on or flushes, mostly without
//! contention, and the fetching thread while it stores. A thread that runs alone releases its own and takes the locks of all
//! threads in order, so two such threads cannot deadlock. A server with a single writing thread has no lock.

use parking_lot::{Mutex, MutexGuard};

use crate::worker::Turn;

/// A lock for each thread; none if there is one thread.
#[derive(Debug)]
pub(crate) struct Turnstile(Box<[Lock]>);

/// On its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lock(Mutex<()>);

/// A serving thread's relation to the others.
pub(crate) enum Place<'a> {
    /// No other thread serves: there is none, or they are locked out.
    Alone,
    /// Others serve too. A thread that is to run alone waits for this lock.
    Among { number: usize, _lock: MutexGuard<'a, ()> },
}

impl Turnstile {
    /// For `threads` threads that write.
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

/// Runs `work` while no other thread serves a connection. Waits until all have finished theirs.
pub(crate) fn alone<R>(turn: &mut Turn<'_>, work: impl FnOnce(&mut Turn<'_>) -> R) -> R {
    let Place::Among { number, .. } = turn.place else { return work(turn) };
    // Released before the others are taken; otherwise two threads could deadlock.
    turn.place = Place::Alone;
    let mut locks: Vec<_> = turn.shared.turnstile.0.iter().map(|lock| lock.0.lock()).collect();
    let result = work(turn);
    turn.place = Place::Among { number, _lock: locks.swap_remove(number) };
    result
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use frazil_segment::{Attributes, Expect};

    use crate::server::Server;
    use crate::settings::Settings;

    #[test]
    fn a_flush_that_is_due_waits_for_who_runs_alone() {
        let any = || vec!["127.0.0.1:0".parse().unwrap()];
        let settings =
            Settings { memcached: any(), resp: any(), threads: 2, ..Settings::default() };
        let server = Server::start(settings).unwrap();
        let shared = server.handle().shared;
        let items = &shared.items;
        items.write(b"key", b"value", Attributes::default(), Expect::Anything).unwrap();
        let alone = [0, 1].map(|thread| shared.turnstile.enter(thread));
        items.flush_in(1);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            shared.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(items.store.contains(b"key"));
        drop(alone);
        while items.store.contains(b"key") {
            assert!(begun.elapsed() < Duration::from_secs(20));
            shared.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
