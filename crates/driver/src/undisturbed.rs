//! The undisturbed part of a run, and how fast that part was.
//!
//! On a machine that others use too, a thread loses its core for some milliseconds at a time.
//! Threads that wait for one another are slower then, or faster; the share of the processor
//! of a whole run says that it was disturbed, and no more. So each thread notes, every
//! millisecond, how far it has come, how much of the processor it got and how long it waited
//! for a core that another had; what counts are the moments in which *all* threads had their
//! cores whenever they wanted them. A thread that sleeps until a lock is free is not disturbed.
//! Reading both clocks takes some 1 µs.

use std::time::{Duration, Instant};

use crate::cores::{self, Queueing};

/// Time between two notes, at least.
const STEP: Duration = Duration::from_millis(1);
/// A thread that got less of the processor was disturbed,
const SHARE: f64 = 0.95;
/// unless it waited for a core for no more than this: for the rest of the time it slept.
const QUEUED: f64 = 0.1;

/// An operation that took less did not lose its core on the way.
const QUEUED_LEAST: Duration = Duration::from_micros(20);

/// The part of a run in which every thread had a core to itself.
///
/// ```
/// use frazil_driver::{Ours, Schedule, Workload, run};
/// let streams = Workload::Hit.streams(1_000, 10_000, 1)?;
/// let ours = Ours::<u64>::new(frazil::Policy::Mobius, 1_000, 0);
/// let undisturbed = run(&ours, &streams, 0, &Schedule::seconds(0.05)).undisturbed;
/// assert!(undisturbed.seconds <= 0.1 && undisturbed.mops >= 0.0);
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Undisturbed {
    /// Million operations a second of all threads in half of that time or more; 0 if there was
    /// none.
    pub mops: f64,
    /// How long that was, in seconds; 0 where processor time is not known.
    pub seconds: f64,
}

/// How far a thread was at a time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    processor: Duration,
    /// Time in the queue for a core, if that is known.
    queued: Option<Duration>,
    operations: u64,
}

/// A thread's notes of its own work.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<Mark>,
    queueing: Option<Queueing>,
}

/// A piece of one thread's time in which it had its core.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: Instant,
    to: Instant,
    operations_per_second: f64,
}

impl Marks {
    /// Discards the notes.
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }

    /// Notes how far the calling thread is, if it is time to.
    #[inline]
    pub(crate) fn note(&mut self, at: Instant, operations: u64) {
        if self.marks.last().is_none_or(|last| at.duration_since(last.at) >= STEP) {
            self.push(at, operations);
        }
    }

    /// For how long of a latency, up to now, the calling thread waited for a core. Asks the
    /// system only if it was so long that it may have.
    #[inline]
    pub(crate) fn queued_in(&mut self, latency: Duration) -> Duration {
        if latency < QUEUED_LEAST { Duration::ZERO } else { self.queued_since_mark().min(latency) }
    }

    /// For how long since the last mark.
    #[cold]
    fn queued_since_mark(&mut self) -> Duration {
        let last = self.marks.last().and_then(|last| last.queued);
        let now = self.queueing.as_ref().and_then(Queueing::so_far);
        now.zip(last).map_or(Duration::ZERO, |(now, last)| now.saturating_sub(last))
    }

    /// For how long from the first mark to the last.
    pub(crate) fn queued(&self) -> Duration {
        let of = |mark: Option<&Mark>| mark.and_then(|mark| mark.queued);
        let ends = of(self.marks.last()).zip(of(self.marks.first()));
        ends.map_or(Duration::ZERO, |(last, first)| last.saturating_sub(first))
    }

    /// Notes it now.
    #[cold]
    pub(crate) fn push(&mut self, at: Instant, operations: u64) {
        let Some(processor) = cores::thread_time() else { return };
        let queueing = self.queueing.get_or_insert_with(Queueing::of_this_thread);
        let queued = queueing.so_far();
        self.marks.push(Mark { at, processor, queued, operations });
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.marks.windows(2).filter_map(|marks| {
            let [one, other] = marks else { return None };
            let wall = other.at.duration_since(one.at).as_secs_f64();
            let got = other.processor.saturating_sub(one.processor).as_secs_f64();
            let operations = other.operations.saturating_sub(one.operations) as f64;
            let piece =
                Piece { from: one.at, to: other.at, operations_per_second: operations / wall };
            let queued = other.queued.zip(one.queued).map(|(other, one)| other.saturating_sub(one));
            let slept = queued.is_some_and(|queued| queued.as_secs_f64() <= QUEUED * wall);
            (wall > 0.0 && (got >= SHARE * wall || slept)).then_some(piece)
        })
    }
}

/// The time in which no thread was disturbed, and the speed of all of them in it.
pub(crate) fn undisturbed<'m>(threads: impl Iterator<Item = &'m Marks>) -> Undisturbed {
    let both = |some: Vec<Piece>, marks: &Marks| -> Vec<Piece> {
        let mut shared = Vec::new();
        let mut others = marks.pieces().peekable();
        let mut some = some.into_iter().peekable();
        while let (Some(one), Some(other)) = (some.peek(), others.peek()) {
            let (from, to) = (one.from.max(other.from), one.to.min(other.to));
            if from < to {
                let operations_per_second = one.operations_per_second + other.operations_per_second;
                shared.push(Piece { from, to, operations_per_second });
            }
            if one.to < other.to {
                some.next()
            } else {
                others.next()
            };
        }
        shared
    };
    let mut threads = threads;
    let Some(first) = threads.next() else { return Undisturbed::default() };
    let pieces = threads.fold(first.pieces().collect(), both);
    middle(pieces)
}

/// The speed that was reached in half of the time, so that a hiccup costs no more than itself.
fn middle(mut pieces: Vec<Piece>) -> Undisturbed {
    let seconds = |piece: &Piece| piece.to.duration_since(piece.from).as_secs_f64();
    let time: f64 = pieces.iter().map(seconds).sum();
    pieces.sort_by(|one, other| one.operations_per_second.total_cmp(&other.operations_per_second));
    let mut left = time / 2.0;
    for piece in &pieces {
        left -= seconds(piece);
        if left <= 0.0 {
            return Undisturbed { mops: piece.operations_per_second / 1e6, seconds: time };
        }
    }
    Undisturbed::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks at milliseconds, each with the processor time and the operations up to there.
    fn marks(began: Instant, noted: &[(u64, u64, u64)]) -> Marks {
        let mark = |&(at, processor, operations): &(u64, u64, u64)| Mark {
            at: began + Duration::from_millis(at),
            processor: Duration::from_millis(processor),
            queued: None,
            operations,
        };
        Marks { marks: noted.iter().map(mark).collect(), queueing: None }
    }

    #[test]
    fn only_what_all_threads_had_counts() {
        let began = Instant::now();
        // Disturbed from 2 to 6 ms,
        let one = marks(began, &[(0, 0, 0), (2, 2, 2000), (6, 3, 2500), (10, 7, 6500)]);
        // and from 8 to 9.
        let other = marks(began, &[(1, 0, 0), (4, 3, 9000), (8, 7, 17_000), (9, 7, 17_000)]);
        let alone = undisturbed([&one].into_iter());
        assert_eq!((alone.seconds, alone.mops), (0.006, 1.0));
        let both = undisturbed([&one, &other].into_iter());
        // From 1 to 2 at 1 + 3, from 6 to 8 at 1 + 2 thousand a millisecond.
        assert!((both.seconds - 0.003).abs() < 1e-9, "{both:?}");
        assert!((both.mops - 3.0).abs() < 1e-9, "{both:?}");
        assert_eq!(undisturbed(std::iter::empty()), Undisturbed::default());
        let mut never = marks(began, &[(0, 0, 0), (10, 5, 100)]);
        assert_eq!(undisturbed([&one, &never].into_iter()), Undisturbed::default());
        // It slept for most of the five milliseconds that it was off its core.
        never.marks[0].queued = Some(Duration::from_millis(7));
        never.marks[1].queued = Some(Duration::from_millis(8));
        assert_eq!(undisturbed([&never].into_iter()).seconds, 0.01);
        never.marks[1].queued = Some(Duration::from_millis(9));
        assert_eq!(undisturbed([&never].into_iter()), Undisturbed::default());
    }
}
