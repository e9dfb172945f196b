//! What a miss waits for: nothing, or a backend that answers after a fixed time.
//!
//! A slow backend is not asked; the time is what counts. Each thread has a number of
//! requests in flight, its part of the MPL, as a server has that does not block on a
//! miss: a request that hits makes room for the next at once; one that misses takes its
//! place with it until the time is over, and then inserts. A thread all of whose
//! requests wait polls the clock, so its core is busy either way. Two requests of one
//! absent key both wait: single flight is another matter.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::Session;
use crate::run::{BATCH, Latencies};

/// Where misses are sent, and how many requests there are at a time.
///
/// ```
/// use std::time::Duration;
/// let flash = frazil_driver::Backend { latency: Duration::from_micros(100), mpl: 16 };
/// assert_eq!(flash.mpl, 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Time from a miss to the insertion.
    pub latency: Duration,
    /// The multiprogramming level: requests of all threads that are in flight at a time.
    /// Less than one a thread counts as one.
    pub mpl: usize,
}

impl Backend {
    /// The part of one of so many threads.
    pub(crate) fn part(self, thread: usize, threads: usize) -> Fetching {
        let part = self.mpl / threads + usize::from(thread < self.mpl % threads);
        Fetching { latency: self.latency, part: part.max(1), waiting: VecDeque::new() }
    }
}

/// What becomes of misses.
pub(crate) trait Misses {
    /// Operations between two looks at what the other threads must know.
    const BATCH: usize;

    /// Called before each operation, which may have to wait.
    fn make_room(&mut self, session: &mut impl Session, latencies: &mut Latencies);

    /// A key that was not there, asked for at a time if that is to be known. Whether it is
    /// over; if not, its latency will be recorded when it is.
    fn miss(&mut self, session: &mut impl Session, key: u64, asked: Option<Instant>) -> bool;

    /// Called once a batch.
    fn look(&mut self, session: &mut impl Session, latencies: &mut Latencies);
}

/// Misses are over at once.
pub(crate) struct Immediate;

impl Misses for Immediate {
    const BATCH: usize = BATCH;

    #[inline(always)]
    fn make_room(&mut self, _: &mut impl Session, _: &mut Latencies) {}

    #[inline(always)]
    fn miss(&mut self, session: &mut impl Session, key: u64, _: Option<Instant>) -> bool {
        session.insert(key);
        true
    }

    #[inline(always)]
    fn look(&mut self, _: &mut impl Session, _: &mut Latencies) {}
}

/// A miss that waits.
struct Waiting {
    key: u64,
    due: Instant,
    /// When it was asked for, if it is timed.
    asked: Option<Instant>,
}

/// The requests of one thread.
pub(crate) struct Fetching {
    latency: Duration,
    part: usize,
    /// In the order in which they are due: all wait equally long.
    waiting: VecDeque<Waiting>,
}

impl Fetching {
    /// Inserts what is due.
    fn finish(&mut self, session: &mut impl Session, latencies: &mut Latencies) {
        // Each insertion takes time, in which more may have become due.
        while let Some(first) = self.waiting.front() {
            if Instant::now() < first.due {
                return;
            }
            let key = first.key;
            session.insert(key);
            let over = self.waiting.pop_front();
            if let Some(asked) = over.and_then(|over| over.asked) {
                latencies.record(asked.elapsed());
            }
        }
    }
}

impl Misses for Fetching {
    /// Fewer, because each may wait.
    const BATCH: usize = 64;

    #[inline(always)]
    fn make_room(&mut self, session: &mut impl Session, latencies: &mut Latencies) {
        while self.waiting.len() >= self.part {
            self.finish(session, latencies);
        }
    }

    fn miss(&mut self, _: &mut impl Session, key: u64, asked: Option<Instant>) -> bool {
        self.waiting.push_back(Waiting { key, due: Instant::now() + self.latency, asked });
        false
    }

    /// Between two looks a request that is due waits; but then the thread has others to
    /// serve, and nothing is lost but its latency, by some microseconds.
    fn look(&mut self, session: &mut impl Session, latencies: &mut Latencies) {
        self.finish(session, latencies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes what is inserted.
    #[derive(Default)]
    struct Noted(Vec<u64>);

    impl Session for Noted {
        fn get(&mut self, _: u64) -> Option<u64> {
            None
        }
        fn insert(&mut self, key: u64) {
            self.0.push(key);
        }
        fn remove(&mut self, _: u64) {}
    }

    #[test]
    fn the_parts_add_up() {
        for (mpl, threads) in [(16, 3), (2, 2), (72, 7)] {
            let backend = Backend { latency: Duration::ZERO, mpl };
            let parts = (0..threads).map(|thread| backend.part(thread, threads).part);
            assert_eq!(parts.sum::<usize>(), mpl);
        }
        assert_eq!(Backend { latency: Duration::ZERO, mpl: 1 }.part(3, 4).part, 1);
    }

    #[test]
    fn as_many_wait_as_may_and_each_for_as_long() {
        let latency = Duration::from_millis(20);
        let mut fetching = Backend { latency, mpl: 2 }.part(0, 1);
        let (mut session, mut latencies) = (Noted::default(), Latencies::new());
        let began = Instant::now();
        for key in 0..2 {
            fetching.make_room(&mut session, &mut latencies);
            fetching.miss(&mut session, key, (key == 0).then_some(began));
        }
        fetching.look(&mut session, &mut latencies);
        assert!(session.0.is_empty() || began.elapsed() >= latency, "{:?}", session.0);
        fetching.make_room(&mut session, &mut latencies);
        assert!(began.elapsed() >= latency);
        assert_eq!(session.0[0], 0, "in order");
        assert!(latencies.quantile_ns(1.0) >= 20_000_000, "one was timed");
    }
}
