//! The latency of a miss: none, or a backend that answers after a fixed time.
//!
//! The driver calls no backend; it only simulates the latency. Each thread has a number of requests
//! in flight, its part of the MPL, like a server that does not block on a miss. A request that hits
//! frees its place at once. One that misses keeps its place until the latency is over, and then
//! inserts. A thread whose requests all wait polls the clock, so its core is busy either way. Two
//! requests for one absent key both wait: there is no single flight.
//!
//! Alternatively each place is a client's, as in a closed queueing network: a client has its thread
//! until it must wait, and then the client that is due has it. The first way inserts all entries
//! that are due and then requests as many keys at once, which are due together again.
//!
//! A share of the gets may bypass the cache and go straight to the backend, as paper 1 (§5.2)
//! proposes if hits limit the throughput. The share is fixed, or the cache chooses it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use frazil_policy::Rng;

use crate::engine::Session;
use crate::little::{Pace, Timed};
use crate::run::BATCH;

/// The latency of misses, and the number of requests in flight.
///
/// ```
/// use std::time::Duration;
/// let flash = frazil_driver::Backend::new(Duration::from_micros(100), 16);
/// assert_eq!((flash.mpl, flash.bypass, flash.keeps_thread), (16, 0.0, false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backend {
    /// Time from a miss to the insertion.
    pub latency: Duration,
    /// The multiprogramming level: requests in flight of all threads, at least one a thread.
    pub mpl: usize,
    /// Share of the gets that bypass the cache, at random.
    pub bypass: f64,
    /// Whether a place keeps its thread until it must wait. If not, all entries that are due are
    /// inserted once in a batch of operations.
    pub keeps_thread: bool,
}

impl Backend {
    /// A backend that only misses use.
    ///
    /// ```
    /// let ram = frazil_driver::Backend::new(std::time::Duration::ZERO, 1);
    /// assert_eq!(ram.bypass, 0.0);
    /// ```
    pub fn new(latency: Duration, mpl: usize) -> Self {
        Backend { latency, mpl, bypass: 0.0, keeps_thread: false }
    }

    /// One thread's part of the requests in flight.
    pub(crate) fn part(self, thread: usize, threads: usize) -> Fetching {
        let part = self.mpl / threads + usize::from(thread < self.mpl % threads);
        Fetching {
            latency: self.latency,
            part: part.max(1),
            bypass: self.bypass,
            keeps_thread: self.keeps_thread,
            chance: Rng::new(thread as u64),
            waiting: VecDeque::new(),
            waited_ns: 0.0,
            until: Instant::now(),
        }
    }
}

/// The handling of misses.
pub(crate) trait Misses {
    /// Operations between two updates of the state shared with other threads.
    const BATCH: usize;
    /// Whether operations may wait while others run.
    const WAITS: bool;

    /// Called before each operation; may wait.
    fn make_room(&mut self, session: &mut impl Session, timed: &mut Timed);

    /// A request that missed, with its start if it is timed. Returns whether it is finished; if
    /// not, its latency is recorded when it is.
    fn miss(&mut self, session: &mut impl Session, key: u64, asked: Option<Instant>) -> bool;

    /// Whether a get goes straight to the backend.
    fn bypasses(&mut self, session: &mut impl Session) -> bool;

    /// A get that hit, with its start if it is timed. Returns whether it is finished.
    fn pass_by(&mut self, asked: Option<Instant>) -> bool;

    /// Called once a batch.
    fn look(&mut self, session: &mut impl Session, timed: &mut Timed);

    /// Waits for all requests in flight.
    fn drain(&mut self, session: &mut impl Session, timed: &mut Timed);

    /// Begins to measure the number of requests in flight.
    fn restart(&mut self);

    /// The thread's work since then: `operations` in the processor time `on_core`.
    fn pace(&mut self, timed: &Timed, on_core: Duration, operations: u64) -> Pace;
}

/// Misses finish at once.
pub(crate) struct Immediate;

impl Misses for Immediate {
    const BATCH: usize = BATCH;
    const WAITS: bool = false;

    #[inline(always)]
    fn make_room(&mut self, _: &mut impl Session, _: &mut Timed) {}

    #[inline(always)]
    fn miss(&mut self, session: &mut impl Session, key: u64, _: Option<Instant>) -> bool {
        session.insert(key);
        true
    }

    #[inline(always)]
    fn bypasses(&mut self, _: &mut impl Session) -> bool {
        false
    }

    #[inline(always)]
    fn pass_by(&mut self, _: Option<Instant>) -> bool {
        true
    }

    #[inline(always)]
    fn look(&mut self, _: &mut impl Session, _: &mut Timed) {}

    fn drain(&mut self, _: &mut impl Session, _: &mut Timed) {}

    fn restart(&mut self) {}

    fn pace(&mut self, timed: &Timed, on_core: Duration, operations: u64) -> Pace {
        timed.pace(on_core.as_nanos() as f64, 0.0, operations)
    }
}

/// A miss that waits.
struct Waiting {
    /// The key to insert, unless the request bypassed the cache.
    key: Option<u64>,
    due: Instant,
    /// Start of the request, if it is timed.
    asked: Option<Instant>,
}

/// The requests of one thread.
pub(crate) struct Fetching {
    latency: Duration,
    part: usize,
    bypass: f64,
    keeps_thread: bool,
    chance: Rng,
    /// In the order in which they are due, because all wait equally long.
    waiting: VecDeque<Waiting>,
    /// Time that requests have waited from the last restart to `until`, in ns.
    waited_ns: f64,
    until: Instant,
}

impl Fetching {
    fn wait(&mut self, key: Option<u64>, asked: Option<Instant>) {
        let now = Instant::now();
        self.sum_up(now);
        self.waiting.push_back(Waiting { key, due: now + self.latency, asked });
    }

    /// Called before the number of waiting requests changes.
    fn sum_up(&mut self, now: Instant) {
        let passed = now.duration_since(self.until);
        self.waited_ns += passed.as_nanos() as f64 * self.waiting.len() as f64;
        self.until = now;
    }

    /// Inserts the entries that are due.
    fn finish(&mut self, session: &mut impl Session, timed: &mut Timed) {
        // Each insertion takes time, in which more may have become due.
        while self.finish_first(session, timed) {}
    }

    /// Inserts the first entry if it is due; returns whether it was.
    fn finish_first(&mut self, session: &mut impl Session, timed: &mut Timed) -> bool {
        let Some(first) = self.waiting.front().filter(|first| Instant::now() >= first.due) else {
            return false;
        };
        if let Some(key) = first.key {
            session.insert(key);
        }
        let now = Instant::now();
        self.sum_up(now);
        let over = self.waiting.pop_front();
        if let Some(asked) = over.and_then(|over| over.asked) {
            timed.record(now.duration_since(asked), Duration::ZERO);
        }
        true
    }
}

impl Misses for Fetching {
    /// Fewer, because each may wait.
    const BATCH: usize = 64;
    const WAITS: bool = true;

    #[inline(always)]
    fn make_room(&mut self, session: &mut impl Session, timed: &mut Timed) {
        while self.waiting.len() >= self.part {
            if self.keeps_thread {
                self.finish_first(session, timed);
            } else {
                self.finish(session, timed);
            }
        }
    }

    fn miss(&mut self, _: &mut impl Session, key: u64, asked: Option<Instant>) -> bool {
        self.wait(Some(key), asked);
        false
    }

    fn bypasses(&mut self, session: &mut impl Session) -> bool {
        session.bypasses() || self.bypass > 0.0 && self.chance.unit() < self.bypass
    }

    fn pass_by(&mut self, asked: Option<Instant>) -> bool {
        self.wait(None, asked);
        false
    }

    /// Between two calls a request that is due waits. The thread serves others then, so the only
    /// loss is some microseconds of latency.
    fn look(&mut self, session: &mut impl Session, timed: &mut Timed) {
        if !self.keeps_thread {
            self.finish(session, timed);
        }
    }

    fn drain(&mut self, session: &mut impl Session, timed: &mut Timed) {
        while !self.waiting.is_empty() {
            self.finish(session, timed);
        }
    }

    fn restart(&mut self) {
        (self.waited_ns, self.until) = (0.0, Instant::now());
    }

    /// The thread has one operation in flight, except while it polls.
    fn pace(&mut self, timed: &Timed, on_core: Duration, operations: u64) -> Pace {
        self.sum_up(Instant::now());
        let idle_ns = on_core.as_nanos() as f64;
        timed.pace(self.waited_ns + idle_ns, idle_ns, operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes the inserted entries.
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
            let backend = Backend::new(Duration::ZERO, mpl);
            let parts = (0..threads).map(|thread| backend.part(thread, threads).part);
            assert_eq!(parts.sum::<usize>(), mpl);
        }
        assert_eq!(Backend::new(Duration::ZERO, 1).part(3, 4).part, 1);
    }

    #[test]
    fn what_passes_the_cache_by_is_not_inserted() {
        let backend = Backend { bypass: 0.25, ..Backend::new(Duration::ZERO, 2) };
        let mut fetching = backend.part(0, 1);
        let (mut session, mut timed) = (Noted::default(), Timed::new());
        let passed = (0..10_000).filter(|_| fetching.bypasses(&mut session)).count();
        assert!((2_300..2_700).contains(&passed), "{passed}");
        fetching.pass_by(Some(Instant::now()));
        fetching.miss(&mut session, 7, None);
        fetching.look(&mut session, &mut timed);
        assert_eq!(session.0, [7]);
        assert!(timed.latencies.quantile_ns(1.0) > 0, "it took its time");
    }

    #[test]
    fn a_place_keeps_its_thread_until_it_waits() {
        let backend = Backend { keeps_thread: true, ..Backend::new(Duration::ZERO, 3) };
        let mut fetching = backend.part(0, 1);
        let (mut session, mut timed) = (Noted::default(), Timed::new());
        for key in [1, 2] {
            fetching.make_room(&mut session, &mut timed);
            fetching.miss(&mut session, key, None);
        }
        fetching.make_room(&mut session, &mut timed);
        fetching.look(&mut session, &mut timed);
        assert!(session.0.is_empty(), "the third has the thread");
        fetching.miss(&mut session, 3, None);
        fetching.make_room(&mut session, &mut timed);
        fetching.make_room(&mut session, &mut timed);
        assert_eq!(session.0, [1], "one at a time");
        fetching.drain(&mut session, &mut timed);
        assert_eq!(session.0, [1, 2, 3]);
    }

    #[test]
    fn as_many_wait_as_may_and_each_for_as_long() {
        let latency = Duration::from_millis(20);
        let mut fetching = Backend::new(latency, 2).part(0, 1);
        let (mut session, mut timed) = (Noted::default(), Timed::new());
        let began = Instant::now();
        for key in 0..2 {
            fetching.make_room(&mut session, &mut timed);
            fetching.miss(&mut session, key, (key == 0).then_some(began));
        }
        fetching.look(&mut session, &mut timed);
        assert!(session.0.is_empty() || began.elapsed() >= latency, "{:?}", session.0);
        fetching.make_room(&mut session, &mut timed);
        assert!(began.elapsed() >= latency);
        assert_eq!(session.0[0], 0, "in order");
        assert!(timed.latencies.quantile_ns(1.0) >= 20_000_000, "one was timed");
    }
}
