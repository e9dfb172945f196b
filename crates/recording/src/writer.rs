//! The writer of a recording: turns notes on many logs into records in one order.
//!
//! **Order.** A round empties all logs and writes the notes older than 50 ms. A note is too late
//! only if its thread was suspended for that long between dating and adding it; then it gets a
//! later date. Notes of several threads within one tick of the clock are interleaved evenly: the
//! first of ten notes of one goes before the second of twenty of another. So the whole file is in
//! order of time.
//!
//! **Pairs.** A miss waits for the insertion that serves it, on whatever thread, and both
//! become one get, in the insertion's place, where the cache changes, and with the
//! insertion's lifetime. A miss that waits longer than a second is written without a size.
//!
//! About 40 ns a note.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use crate::event_log::{Event, EventLogs, Note};
use crate::recorder::Recorded;
use crate::{Encoder, Operation, Record};
use foldhash::fast::RandomState;

/// Longest time between two rounds.
const ROUND: Duration = Duration::from_millis(50);
/// Time between two flushes of all records to the file.
const FLUSH: Duration = Duration::from_millis(500);
/// How long after its date a note may be added.
const LATE_NS: u64 = 50_000_000;
/// How long a miss waits for its insertion.
const PAIR_WAIT_NS: u64 = 1_000_000_000;
/// Most misses that wait.
const WAITING: usize = 1 << 16;

/// The writer's thread. It may start long after threads began to take notes: it receives the
/// time of that beginning and the count of notes lost before.
pub(super) fn run(
    logs: &EventLogs,
    clock: fn() -> u64,
    file: Encoder<BufWriter<File>>,
    (begun_ns, lost_before): (u64, u64),
) -> io::Result<Recorded> {
    let mut order = Order::default();
    let mut pairs = Pairs::new(Output { file, begun_ns, last_ns: 0, failure: None });
    let mut flushed = Instant::now();
    loop {
        // Acquire: partner is the Release with which the recording ends.
        let mut stop = logs.stop.load(Acquire);
        if !stop {
            std::thread::park_timeout(ROUND);
            stop = logs.stop.load(Acquire);
        }
        let now_ns = clock();
        order.gather(logs, begun_ns);
        let until_ns = if stop { u64::MAX } else { now_ns.saturating_sub(LATE_NS) };
        order.drain(until_ns, |note| pairs.see(note));
        if stop {
            pairs.give_up(u64::MAX, now_ns);
            let lost = logs.lost().wrapping_sub(lost_before);
            return pairs.out.finish(lost, logs.gets.load(Relaxed));
        }
        pairs.give_up(until_ns.saturating_sub(PAIR_WAIT_NS), until_ns);
        if flushed.elapsed() >= FLUSH {
            flushed = Instant::now();
            pairs.out.flush();
        }
    }
}

/// Notes being sorted into one order.
#[derive(Default)]
struct Order {
    /// By log: the notes that are not yet old enough.
    held: Vec<Vec<Note>>,
    /// Notes with their times, and their order within a tick.
    ready: Vec<(u64, u32, Note)>,
}

impl Order {
    /// Empties all logs. Late notes of an earlier recording are discarded.
    fn gather(&mut self, logs: &EventLogs, begun_ns: u64) {
        logs.read(|number, note| {
            if note.time_ns >= begun_ns {
                if self.held.len() <= number {
                    self.held.resize_with(number + 1, Vec::new);
                }
                self.held[number].push(note);
            }
        });
    }

    /// Passes all notes older than `until_ns` to `see`, in order.
    fn drain(&mut self, until_ns: u64, mut see: impl FnMut(&Note)) {
        for notes in &mut self.held {
            let old = notes.partition_point(|note| note.time_ns < until_ns);
            for tick in notes[..old].chunk_by(|a, b| a.time_ns == b.time_ns) {
                let part =
                    |index: usize| (((2 * index as u64 + 1) << 31) / tick.len() as u64) as u32;
                let ready = |(index, note): (usize, &Note)| (note.time_ns, part(index), *note);
                self.ready.extend(tick.iter().enumerate().map(ready));
            }
            notes.drain(..old);
        }
        // Stable, and fast if already in order, as with one thread.
        self.ready.sort_by_key(|&(time_ns, part, _)| (time_ns, part));
        self.ready.drain(..).for_each(|(_, _, note)| see(&note));
    }
}

/// Gets that missed and wait for their insertion.
struct Pairs {
    /// By hash: the number of waiting gets, and since when.
    waiting: HashMap<u64, (u64, u64), RandomState>,
    /// In the order in which they began to wait; some no longer do.
    queue: VecDeque<(u64, u64)>,
    out: Output,
}

impl Pairs {
    fn new(out: Output) -> Self {
        Pairs { waiting: HashMap::default(), queue: VecDeque::new(), out }
    }

    fn see(&mut self, note: &Note) {
        let &Note { time_ns, hash, weight, lifetime_ns, event } = note;
        if event == Event::Miss {
            let (count, since_ns) = self.waiting.entry(hash).or_insert((0, time_ns));
            *count += 1;
            if *count == 1 {
                self.queue.push_back((*since_ns, hash));
            }
            if self.queue.len() > WAITING {
                self.give_up_first(time_ns);
            }
            return;
        }
        let served = self.waiting.remove(&hash);
        let size = (event != Event::Remove).then_some(weight);
        let lifetime_ns = (lifetime_ns > 0).then_some(lifetime_ns);
        let mut write = |size, operation| {
            let id = scramble(hash);
            self.out.write(Record { time_ns, id, size, operation, lifetime_ns });
        };
        for _ in 0..served.map_or(0, |(count, _)| count) {
            write(size, Operation::Get);
        }
        match event {
            Event::Hit => write(size, Operation::Get),
            Event::Insert if served.is_none() => write(size, Operation::Set),
            Event::Remove => write(None, Operation::Delete),
            // Served the waiting gets.
            Event::Insert | Event::Miss => {}
        }
    }

    /// Writes gets that have waited since before `before_ns`, without a size.
    fn give_up(&mut self, before_ns: u64, now_ns: u64) {
        while self.queue.front().is_some_and(|&(since_ns, _)| since_ns < before_ns) {
            self.give_up_first(now_ns);
        }
    }

    fn give_up_first(&mut self, now_ns: u64) {
        let Some((since_ns, hash)) = self.queue.pop_front() else { return };
        // Unless it was served, even if another get of its key waits again.
        let waits = self.waiting.get(&hash).is_some_and(|waiting| waiting.1 == since_ns);
        if waits && let Some((count, _)) = self.waiting.remove(&hash) {
            let (id, operation) = (scramble(hash), Operation::Get);
            let record = Record { time_ns: now_ns, id, size: None, operation, lifetime_ns: None };
            (0..count).for_each(|_| self.out.write(record));
        }
    }
}

/// The file, until it fails.
struct Output {
    file: Encoder<BufWriter<File>>,
    begun_ns: u64,
    last_ns: u64,
    failure: Option<io::Error>,
}

impl Output {
    /// Writes a record that has the clock's time.
    fn write(&mut self, record: Record) {
        // Lost notes may be dated a little later than the next ones.
        self.last_ns = self.last_ns.max(record.time_ns.saturating_sub(self.begun_ns));
        let record = Record { time_ns: self.last_ns, ..record };
        self.attempt(|file| file.push(&record));
    }

    fn flush(&mut self) {
        self.attempt(Encoder::flush);
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Encoder<BufWriter<File>>) -> io::Result<()>) {
        // After a failure notes are discarded, unnoticed by the threads that take them.
        if self.failure.is_none() {
            self.failure = work(&mut self.file).err();
        }
    }

    fn finish(self, lost: u64, gets: u64) -> io::Result<Recorded> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let records = self.file.records();
        let bytes = self.file.finish(lost, Some(gets))?;
        Ok(Recorded { records, lost, bytes })
    }
}

/// The id of a key with this hash: unique, but not the hash itself. The last step of
/// MurmurHash3.
fn scramble(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The system may let the writer wait while the threads fill their logs.
    #[test]
    fn what_was_lost_before_the_writer_ran_is_counted() {
        let logs = EventLogs::new();
        let note = Note { time_ns: 9, hash: 3, weight: 1, lifetime_ns: 0, event: Event::Hit };
        while logs.lost() < 7 {
            logs.push(0, &note, |_| ());
        }
        let before = (8, logs.lost());
        while logs.lost() < 12 {
            logs.push(0, &note, |_| ());
        }
        logs.stop.store(true, Relaxed);
        let path = std::env::temp_dir().join(format!("frazil-late-{}", std::process::id()));
        let header = crate::Header {
            rate: 1.0,
            start_unix_ns: 0,
            has_sizes: false,
            lifetimes: crate::Lifetimes::None,
        };
        let file = BufWriter::new(File::create(&path).unwrap());
        let ended = run(&logs, || 20, Encoder::new(file, &header).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(ended.unwrap().lost, 5);
    }

    /// Notes of threads in one tick are spread evenly, and notes not old enough wait.
    #[test]
    fn notes_of_many_tapes_come_in_one_order() {
        let note =
            |time_ns, hash| Note { time_ns, hash, weight: 1, lifetime_ns: 0, event: Event::Hit };
        let mut order = Order {
            held: vec![
                vec![note(1, 10), note(1, 11), note(1, 12), note(1, 13), note(3, 14)],
                vec![],
                vec![note(0, 20), note(1, 21), note(1, 22), note(2, 23), note(3, 24)],
            ],
            ready: Vec::new(),
        };
        let mut seen = Vec::new();
        order.drain(3, |note| seen.push(note.hash));
        assert_eq!(seen, [20, 10, 21, 11, 12, 22, 13, 23]);
        seen.clear();
        order.drain(u64::MAX, |note| seen.push(note.hash));
        assert_eq!(seen, [14, 24]);
    }
}
