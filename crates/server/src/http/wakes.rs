//! Wake-ups of connections by the fetching thread.

use std::fmt;
use std::sync::Arc;

use mio::Waker;
use parking_lot::Mutex;

use crate::mail::Place;

/// For each thread, the list of connections to serve. A new connection in the place of a closed one may be served
/// once without need.
pub(crate) struct Wakes {
    lists: Box<[Mutex<Vec<u32>>]>,
    wakers: Arc<[Waker]>,
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes").field("lists", &self.lists.len()).finish_non_exhaustive()
    }
}

impl Wakes {
    pub(crate) fn new(wakers: Arc<[Waker]>) -> Wakes {
        Wakes { lists: wakers.iter().map(|_| Mutex::default()).collect(), wakers }
    }

    /// Lists connections, and wakes each of their threads once. A thread whose list is not empty has been woken
    /// before.
    pub(crate) fn send(&self, places: impl Iterator<Item = Place>) {
        let mut threads = Vec::new();
        for Place { thread, slot } in places {
            let mut list = self.lists[thread as usize].lock();
            if list.is_empty() {
                threads.push(thread);
            }
            list.push(slot);
        }
        for thread in threads {
            // A thread that cannot be woken reads its list once a second.
            let _ = self.wakers[thread as usize].wake();
        }
    }

    /// Takes a thread's list.
    pub(crate) fn take(&self, thread: usize) -> Vec<u32> {
        std::mem::take(&mut *self.lists[thread].lock())
    }
}
