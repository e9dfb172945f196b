//! Messages to serving threads: ended waits and stale copies.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mio::Waker;
use parking_lot::Mutex;

/// The place of a waiting reply: a connection of a thread. Tickets are unique, so a new connection in the same slot
/// does not get the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) thread: u32,
    pub(crate) slot: u32,
}

/// The result of a wait.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The key was written or deleted.
    Look,
    /// The waiter has the lease now.
    Win,
    /// The fetched value is for another client only.
    Again,
    Fetched(Outcome),
    /// The wait has reached its timeout.
    Late,
    /// A tracked copy of this client is out of date. The ticket is the number of its connection.
    Stale(Stale),
    /// A tracked copy of another client is out of date, which redirects its messages to this one.
    Redirected(Stale),
}

/// The copies that are out of date.
#[derive(Clone, Debug)]
pub(crate) enum Stale {
    Key(Arc<[u8]>),
    /// All of them.
    All,
}

/// In place of a connection: all connections of the thread that track.
pub(crate) const EVERYONE: u32 = u32::MAX;
/// Letters in a box above which a single message replaces those of single copies.
const BOX_MAX: usize = 1 << 16;

/// The result of a fetch.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Value(Arc<Fetched>),
    /// The origin has no value.
    Absent,
    /// The origin has not answered, or with an error.
    Failed,
}

/// A fetched value.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) value: Vec<u8>,
    /// Its number for `cas`; 0 if it is not stored.
    pub(crate) cas: u64,
    pub(crate) lifetime_seconds: u64,
    /// Whether other clients may have it.
    pub(crate) is_shared: bool,
    /// Until no thread has it to answer any more.
    pub(crate) _counted: Counted,
}

/// Bytes of a value that is being fetched, or has been and is not answered yet: they count among those of all such values
/// until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Counted {
    /// None yet, of those that `all` counts.
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Counted {
        Counted { all: Arc::clone(all), bytes: 0 }
    }

    /// Counts more, and says whether all are `most` at most.
    #[must_use]
    pub(crate) fn add(&mut self, bytes: usize, most: usize) -> bool {
        self.bytes += bytes;
        self.all.fetch_add(bytes, Relaxed) + bytes <= most
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

/// News for a waiting reply of a connection.
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

    /// Tells connections that copies are out of date. A thread with too many letters gets one instead, for all its
    /// connections and copies.
    pub(crate) fn tell(&self, to: impl Iterator<Item = ((u64, Place), Stale)>) {
        self.deliver(to.map(|(to, stale)| (to, News::Stale(stale))), BOX_MAX);
    }

    /// Sends all letters, and wakes each thread once.
    pub(crate) fn send(&self, letters: impl Iterator<Item = ((u64, Place), News)>) {
        self.deliver(letters, usize::MAX);
    }

    /// A thread with a letter in its box has been woken before, and has not emptied the box yet.
    fn deliver(&self, letters: impl Iterator<Item = ((u64, Place), News)>, box_max: usize) {
        let mut by_thread: Vec<Vec<Letter>> = self.boxes.iter().map(|_| Vec::new()).collect();
        for ((ticket, Place { thread, slot }), news) in letters {
            by_thread[thread as usize].push(Letter { slot, ticket, news });
        }
        for (thread, letters) in by_thread.into_iter().enumerate().filter(|(_, of)| !of.is_empty())
        {
            let mut there = self.boxes[thread].lock();
            let was_empty = there.is_empty();
            if there.len() + letters.len() <= box_max {
                there.extend(letters);
            } else if there.last().is_none_or(|last| last.slot != EVERYONE) {
                // It covers what is written until it is read.
                there.push(Letter { slot: EVERYONE, ticket: 0, news: News::Stale(Stale::All) });
            }
            drop(there);
            if was_empty {
                // A thread that cannot be woken reads its box once a second.
                let _ = self.wakers[thread].wake();
            }
        }
    }

    /// Takes a thread's letters.
    pub(crate) fn take(&self, thread: usize) -> Vec<Letter> {
        std::mem::take(&mut *self.boxes[thread].lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_box_gets_one_letter_for_all_copies() {
        let poll = mio::Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), mio::Token(0)).unwrap();
        let mail = Mail::new(Arc::new([waker]));
        let place = Place { thread: 0, slot: 7 };
        let tell = |count: u64| {
            mail.tell((0..count).map(|id| ((id, place), Stale::Key(Arc::new([])))));
        };
        tell(BOX_MAX as u64);
        tell(1);
        tell(1000);
        let letters = mail.take(0);
        assert_eq!(letters.len(), BOX_MAX + 1);
        assert!(letters[..BOX_MAX].iter().all(|letter| letter.slot == 7));
        let Letter { slot: EVERYONE, news: News::Stale(Stale::All), .. } = letters[BOX_MAX] else {
            panic!("{:?}", letters[BOX_MAX]);
        };
        // A letter to a waiter is never dropped.
        tell(BOX_MAX as u64);
        mail.send([((0, place), News::Win)].into_iter());
        assert_eq!(mail.take(0).len(), BOX_MAX + 1);
    }

    /// A thread that is busy does not hold as much as may be fetched meanwhile.
    #[test]
    fn a_value_counts_until_all_threads_have_answered_with_it() {
        let polls = [mio::Poll::new().unwrap(), mio::Poll::new().unwrap()];
        let wakers = polls.each_ref().map(|of| Waker::new(of.registry(), mio::Token(0)).unwrap());
        let mail = Mail::new(Arc::new(wakers));
        let all = Arc::default();
        let has_room = || Counted::new(&all).add(60, 100);
        let mut _counted = Counted::new(&all);
        assert!(_counted.add(60, 100));
        let (value, cas, lifetime_seconds) = (vec![0; 60], 0, 1);
        let fetched = Fetched { value, cas, lifetime_seconds, is_shared: true, _counted };
        let outcome = Outcome::Value(Arc::new(fetched));
        let places = [0, 1].map(|thread| Place { thread, slot: 0 });
        mail.send(places.map(|place| ((0, place), News::Fetched(outcome.clone()))).into_iter());
        drop(outcome);
        for thread in 0..2 {
            assert!(!has_room());
            drop(mail.take(thread));
        }
        assert!(has_room());
    }
}
