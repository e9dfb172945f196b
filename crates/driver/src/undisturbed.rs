//! The undisturbed part of a run, and its speed.
//!
//! On a machine that others use too, a thread loses its core for some milliseconds at a time.
//! Threads that wait for one another are slower then, or faster; the processor share of a whole run
//! shows only that it was disturbed. So each thread notes, every millisecond, its operations, its
//! processor time, and its wait for a core that another had. Only the moments count in which *all*
//! threads had their cores whenever they needed them. A thread that sleeps until a lock is free is
//! not disturbed. Reading both clocks takes some 1 µs.

use std::time::{Duration, Instant};

use crate::cores::{self, Queueing};

/// Least time between two notes.
const STEP: Duration = Duration::from_millis(1);
/// A thread with a smaller share of its core was disturbed, unless [`QUEUED`] holds.
const SHARE: f64 = 0.95;
/// A thread that waited for a core for no larger share than this was not disturbed: it slept.
const QUEUED: f64 = 0.1;

/// A shorter operation did not lose its core meanwhile.
const QUEUED_LEAST: Duration = Duration::from_micros(20);

/// The part of a run in which every thread had its own core.
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
    /// Million operations a second of all threads, as the median over that time; 0 if there was
    /// none.
    pub mops: f64,
    /// Length of that time in seconds; 0 if processor time is unknown.
    pub seconds: f64,
}

/// A thread's progress at a time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    processor: Duration,
    /// Time in the queue for a core, if known.
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

    /// Notes the progress of the calling thread, if a note is due.
    #[inline]
    pub(crate) fn note(&mut self, at: Instant, operations: u64) {
        if self.marks.last().is_none_or(|last| at.duration_since(last.at) >= STEP) {
            self.push(at, operations);
        }
    }

    /// The part of a latency, which ends now, that the calling thread waited for a core. Asks the
    /// system only for a latency long enough.
    #[inline]
    pub(crate) fn queued_in(&mut self, latency: Duration) -> Duration {
        if latency < QUEUED_LEAST { Duration::ZERO } else { self.queued_since_mark().min(latency) }
    }

    /// The wait for a core since the last mark.
    #[cold]
    fn queued_since_mark(&mut self) -> Duration {
        let last = self.marks.last().and_then(|last| last.queued);
        let now = self.queueing.as_ref().and_then(Queueing::so_far);
        now.zip(last).map_or(Duration::ZERO, |(now, last)| now.saturating_sub(last))
    }

    /// The wait for a core from the first mark to the last.
    pub(crate) fn queued(&self) -> Duration {
        let of = |mark: Option<&Mark>| mark.and_then(|mark| mark.queued);
        let ends = of(self.marks.last()).zip(of(self.marks.first()));
        ends.map_or(Duration::ZERO, |(last, first)| last.saturating_sub(first))
    }

    /// Notes the progress now.
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

/// The median speed over the time, so that a hiccup has little effect.
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

    /// Marks at milliseconds, each with the processor time and the operations so far.
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
        // The thread slept for most of its five milliseconds without a core.
        never.marks[0].queued = Some(Duration::from_millis(7));
        never.marks[1].queued = Some(Duration::from_millis(8));
        assert_eq!(undisturbed([&never].into_iter()).seconds, 0.01);
        never.marks[1].queued = Some(Duration::from_millis(9));
        assert_eq!(undisturbed([&never].into_iter()), Undisturbed::default());
    }
}
