//! What threads tell those that serve: how waits have ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
    /// Copies that the client has are out of date; the ticket is the number of its connection.
    Stale(Stale),
    /// Those of another client are, which has asked for this one to be told.
    Redirected(Stale),
}

/// What a client may have a copy of that is out of date.
#[derive(Clone, Debug)]
pub(crate) enum Stale {
    Key(Arc<[u8]>),
    /// Anything.
    All,
}

/// In place of a connection: all of the thread that track.
pub(crate) const EVERYONE: u32 = u32::MAX;
/// Letters in a box from which on copies are no longer told of one by one.
const BOX_MAX: usize = 1 << 16;

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

    /// Tells connections that copies are out of date. If there are too many letters for a thread, all its connections are
    /// told that all copies are.
    pub(crate) fn tell(&self, to: impl Iterator<Item = ((u64, Place), Stale)>) {
        self.deliver(to.map(|(to, stale)| (to, News::Stale(stale))), BOX_MAX);
    }

    /// Sends all letters, and wakes each thread once.
    pub(crate) fn send(&self, letters: impl Iterator<Item = ((u64, Place), News)>) {
        self.deliver(letters, usize::MAX);
    }

    /// A thread whose box is not empty was woken before, and has not taken it out yet.
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
                // What is written until it is read is meant as well.
                there.push(Letter { slot: EVERYONE, ticket: 0, news: News::Stale(Stale::All) });
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_box_has_one_letter_for_all_that_is_out_of_date() {
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
        // Who waits is never left out.
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
