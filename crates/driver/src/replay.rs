//! A replay of a trace from its beginning on an empty cache by several threads: the simulator's
//! replay, but timed.
//!
//! A short trace is replayed on several caches one after the other, each empty, so that threads
//! start and end only once. Threads meet before each cache: if they were at different caches they
//! would not contend.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Immediate, Misses};
use crate::cores;
use crate::engine::{Engine, Session};
use crate::little::Timed;
use crate::run::{Tally, operate};
use crate::stream::Stream;

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// Million operations a second of all threads, from the first that begins to the last that
    /// ends. Includes the wait for fetches.
    pub mops: f64,
    /// Share of the gets that found their key; 0 without one.
    pub hit_ratio: f64,
    /// Processor time over wall-clock time of the thread that got least; `None` if it is unknown,
    /// or there are more threads than cores.
    pub cpu_share: Option<f64>,
}

/// The result of a thread.
struct Report {
    began: Instant,
    ended: Instant,
    processor: Option<Duration>,
    tally: Tally,
}

/// Replays all streams on one engine after the other, with a thread for each stream. Misses are
/// inserted at once, or after the backend's latency. O(engines × operations).
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::{Ask, Operation, Ours, Stream, replay};
///
/// let asked = [1, 2, 1, 1].map(|number| Operation::new(Ask::Get, number));
/// let caches = [Policy::Lru, Policy::Lru].map(|policy| Ours::<u64>::new(policy, 100, 0));
/// let replay = replay(&caches, &[Stream::new(asked, 0)], None);
/// assert_eq!(replay.hit_ratio, 0.5);
/// ```
pub fn replay<E: Engine>(engines: &[E], streams: &[Stream], backend: Option<Backend>) -> Replay {
    match backend {
        None => all(engines, streams, |_| Immediate),
        Some(backend) => all(engines, streams, |thread| backend.part(thread, streams.len())),
    }
}

fn all<E: Engine, M: Misses>(
    engines: &[E],
    streams: &[Stream],
    misses_of: impl Fn(usize) -> M + Sync,
) -> Replay {
    let (arrived, allowed) = (AtomicUsize::new(0), cores::allowed());
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let (arrived, allowed, misses_of) = (&arrived, &allowed, &misses_of);
        let threads = streams.len();
        let thread = |(thread, stream)| {
            scope.spawn(move || {
                cores::take_turn(thread, allowed);
                let meeting = Meeting { arrived, threads, wanted: 0 };
                work(engines, stream, misses_of(thread), meeting)
            })
        };
        let threads: Vec<_> = streams.iter().enumerate().map(thread).collect();
        let report = |thread: std::thread::ScopedJoinHandle<'_, Report>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(report).collect()
    });
    summary(&reports)
}

/// Polls of the other threads before a thread yields its core.
const LOOKS: u32 = 10_000;

/// A meeting of threads. They poll: a sleeping thread would begin tens of microseconds after the
/// others, and some passes take no longer than that.
struct Meeting<'a> {
    arrived: &'a AtomicUsize,
    threads: usize,
    /// Number of arrivals of all threads at which the next meeting ends.
    wanted: usize,
}

impl Meeting<'_> {
    fn wait(&mut self) {
        self.wanted += self.threads;
        // It orders nothing but the start; threads share caches by borrowing.
        self.arrived.fetch_add(1, Relaxed);
        let mut looks = 0;
        while self.arrived.load(Relaxed) < self.wanted {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Drop for Meeting<'_> {
    /// The others do not wait for a thread that panics.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.arrived.store(usize::MAX / 2, Relaxed);
        }
    }
}

fn work<E: Engine, M: Misses>(
    engines: &[E],
    stream: &Stream,
    mut misses: M,
    mut meeting: Meeting<'_>,
) -> Report {
    meeting.wait();
    let (began, processor) = (Instant::now(), cores::thread_time());
    let (mut tally, mut timed) = (Tally::default(), Timed::new());
    for engine in engines {
        let mut session = engine.session();
        for batch in stream.operations.chunks(M::BATCH) {
            session.rest();
            for operation in batch {
                misses.make_room(&mut session, &mut timed);
                operate(&mut session, &mut misses, *operation, stream.prefix, None, &mut tally);
            }
            misses.look(&mut session, &mut timed);
        }
        misses.drain(&mut session, &mut timed);
        meeting.wait();
    }
    std::hint::black_box(tally.read);
    let spent = cores::thread_time().zip(processor).map(|(now, then)| now.saturating_sub(then));
    Report { began, ended: Instant::now(), processor: spent, tally }
}

fn summary(reports: &[Report]) -> Replay {
    let began = reports.iter().map(|it| it.began).min();
    let ended = reports.iter().map(|it| it.ended).max();
    let wall = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began);
    let sum = |of: fn(&Tally) -> u64| reports.iter().map(|it| of(&it.tally)).sum::<u64>() as f64;
    let gets = sum(|it| it.hits + it.misses);
    let share = |it: &Report| {
        let wall = (it.ended - it.began).as_secs_f64();
        Some(it.processor?.as_secs_f64() / wall.max(1e-9))
    };
    let shares: Option<Vec<f64>> = reports.iter().map(share).collect();
    let least = shares.and_then(|shares| shares.into_iter().min_by(f64::total_cmp));
    Replay {
        mops: sum(Tally::operations) / wall.as_secs_f64().max(1e-9) / 1e6,
        hit_ratio: sum(|it| it.hits) / gets.max(1.0),
        cpu_share: least.filter(|_| reports.len() <= cores::cores()),
    }
}

#[cfg(test)]
mod tests {
    use frazil::Policy;
    use frazil_simulator::trace::load;

    use super::*;
    use crate::{Ours, one_pass, trace_streams};

    #[test]
    fn each_cache_is_asked_for_all_from_the_beginning() {
        let trace = load("zipf:0.8:objects=500:requests=5001", &Default::default()).unwrap().trace;
        let whole = trace_streams(&trace, 1, true).unwrap();
        let once = one_pass(&Ours::<u64>::new(Policy::Lru, 50, 0), &whole[0]).hit_ratio();
        for caches in [1, 3] {
            let caches: Vec<_> =
                (0..caches).map(|_| Ours::<u64>::new(Policy::Lru, 50, 0)).collect();
            assert_eq!(replay(&caches, &whole, None).hit_ratio, once);
        }
        let dealt = trace_streams(&trace, 2, true).unwrap();
        let both = replay(&[Ours::<u64>::new(Policy::Lru, 50, 0)], &dealt, None);
        assert!((both.hit_ratio - once).abs() < 0.1, "{both:?}, {once}");
    }

    struct Panics;

    impl crate::Shared for Panics {
        fn get(&self, key: u64) -> Option<u64> {
            assert_ne!(key, crate::key(7, 0), "seven");
            Some(key)
        }

        fn insert(&self, _: u64) {}

        fn remove(&self, _: u64) {}
    }

    impl Engine for Panics {
        type Session<'a> = &'a Self;

        fn session(&self) -> &Self {
            self
        }
    }

    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        let ask = |number| Stream::new([crate::Operation::new(crate::Ask::Get, number)], 0);
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let run = || replay(&[Panics, Panics], &[ask(7), ask(8)], None);
            ended.send(std::panic::catch_unwind(run).is_err())
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn fetches_are_waited_for_and_inserted() {
        let trace = load("loop:objects=10:requests=10", &Default::default()).unwrap().trace;
        let streams = trace_streams(&trace, 1, true).unwrap();
        let cache = [Ours::<u64>::new(Policy::Lru, 100, 0)];
        let latency = Duration::from_millis(20);
        let began = Instant::now();
        let replay = replay(&cache, &streams, Some(Backend::new(latency, 16)));
        assert!(began.elapsed() >= latency && replay.hit_ratio == 0.0, "{replay:?}");
        assert_eq!(one_pass(&cache[0], &streams[0]).misses, 0, "all were inserted");
    }
}
