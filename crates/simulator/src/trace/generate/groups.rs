//! Workloads in which objects written at about the same time are of the same kind, as the group
//! features of [GL-Cache](frazil_policy::GlCache) assume. Traces span days, and rates change.
//!
//! - `diurnal`: a week of Zipf requests, more by day than by night; each night a backup reads cold
//!   objects in order, the same ones every night, at three times the rate.
//! - `bursts`: Zipf requests, and jobs that write many objects at once. Two of three jobs write
//!   logs, eight times as fast, that are never read; the others write uploads that are read for a
//!   while.
//! - `drift`: objects are born all the time, and newer ones are requested more. They come in waves.
//!   Odd waves have more than twice the births, and their objects are not requested again.
//!
//! Sizes are drawn from quantiles of real traces, and an object keeps its own.

use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::{Operation, Record};
use frazil_policy::object_hash;

const DAY_NS: f64 = 86_400e9;
/// Days in a trace.
const DAYS: f64 = 7.0;

/// Which of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Diurnal,
    Bursts,
    Drift,
}

impl Pattern {
    /// Exponent of the popularity.
    pub(super) fn alpha(self) -> f64 {
        match self {
            Pattern::Bursts => 1.0,
            Pattern::Diurnal | Pattern::Drift => 0.9,
        }
    }

    /// Sixteenths of the sizes of distinct objects in a real trace, in bytes.
    fn quantiles(self) -> &'static [u32; 17] {
        match self {
            // Block I/O of a virtual machine: cloudPhysicsIO.oracleGeneral.bin.zst.
            Pattern::Diurnal => &[
                512, 512, 4096, 4096, 8192, 8192, 12288, 61440, 65536, 65536, 65536, 65536, 65536,
                65536, 69632, 69632, 69632,
            ],
            // Content of a CDN: adaptsize/request.trace.xz.
            Pattern::Bursts => &[
                1, 183, 327, 541, 847, 1184, 1581, 2085, 2721, 3522, 4586, 5835, 7800, 10035,
                13844, 21923, 4092928,
            ],
            // Values of a key-value cache: twitter_cluster52.csv.zst.
            Pattern::Drift => {
                &[11, 16, 27, 54, 54, 54, 54, 54, 54, 54, 65, 230, 303, 382, 508, 693, 4985]
            }
        }
    }
}

/// The requests of a workload, one by one.
pub(super) struct Grouped {
    pattern: Pattern,
    ranks: Zipf<f64>,
    random: Xoshiro256PlusPlus,
    objects: u64,
    requests: u64,
    time_ns: f64,
    /// Time between two requests at the usual rate.
    usual_ns: f64,
    /// Objects scanned, written or born so far.
    brought: u64,
    /// The first object and the number of objects of each of the last uploads.
    uploads: Vec<(u64, u64)>,
    /// Numbers of waves, and objects born when each began.
    waves: Vec<u64>,
}

/// The part of each day in which a backup reads, and of each period in which a burst writes.
const SCAN: std::ops::Range<f64> = 0.05..0.25;
const BURST: f64 = 0.2;
/// Share of the requests of a backup or a burst meanwhile.
const SCAN_SHARE: f64 = 0.67;
const BURST_SHARE: f64 = 0.6;
/// Bursts and waves in a trace.
const PERIODS: u64 = 210;
/// Share of the requests between bursts for the last uploads, and the number of these.
const UPLOAD_SHARE: f64 = 0.25;
const UPLOADS: usize = 3;
/// Share of births in even waves, and in odd ones.
const BIRTHS: [f64; 2] = [0.15, 0.4];

impl Grouped {
    pub(super) fn new(
        pattern: Pattern,
        ranks: Zipf<f64>,
        random: Xoshiro256PlusPlus,
        objects: u64,
        requests: u64,
    ) -> Self {
        let mut grouped = Grouped {
            pattern,
            ranks,
            random,
            objects,
            requests,
            time_ns: 0.0,
            usual_ns: 1.0,
            brought: 0,
            uploads: Vec::new(),
            waves: vec![0],
        };
        // Gaps add up to seven days.
        let points = 10_000;
        let gaps = (0..points).map(|point| grouped.gap((point * requests) / points));
        let mean = gaps.sum::<f64>() / points as f64;
        grouped.usual_ns = DAYS * DAY_NS / (requests as f64 * mean);
        grouped
    }

    pub(super) fn next(&mut self, index: u64) -> Record {
        let (id, operation) = match self.pattern {
            Pattern::Diurnal => (self.diurnal(index), Operation::Get),
            Pattern::Bursts => self.bursts(index),
            Pattern::Drift => (self.drift(index), Operation::Get),
        };
        self.time_ns += self.gap(index) * self.usual_ns;
        let (time_ns, size) = (self.time_ns as u64, u64::from(self.size(id)));
        Record { time_ns, id, size, operation, ..Record::default() }
    }

    /// Position of a request in its day, from 0 to 1.
    fn hour(&self, index: u64) -> f64 {
        (index as f64 * DAYS / self.requests as f64).fract()
    }

    /// The number of a request's burst or wave, and its position in that.
    fn period(&self, index: u64) -> (u64, f64) {
        let exact = index as f64 * PERIODS as f64 / self.requests as f64;
        (exact as u64, exact.fract())
    }

    fn writes_logs(burst: u64) -> bool {
        !object_hash(burst, 1).is_multiple_of(3)
    }

    /// The time before a request, as a multiple of the usual one: longest at midnight, three times
    /// that at noon, and shorter while a job runs.
    fn gap(&self, index: u64) -> f64 {
        let hour = self.hour(index);
        let day = 1.0 + 0.8 * (1.0 - 6.0 * hour + 6.0 * hour * hour);
        let (period, part) = self.period(index);
        let faster = match self.pattern {
            Pattern::Diurnal if SCAN.contains(&hour) => 3.0,
            Pattern::Bursts if part < BURST && Self::writes_logs(period) => 8.0,
            Pattern::Bursts if part < BURST => 2.0,
            _ => 1.0,
        };
        day / faster
    }

    fn rank(&mut self) -> u64 {
        self.ranks.sample(&mut self.random) as u64 - 1
    }

    fn diurnal(&mut self, index: u64) -> u64 {
        let hour = self.hour(index);
        if SCAN.contains(&hour) && self.random.random::<f64>() < SCAN_SHARE {
            // Every night from the first on.
            let nightly = (SCAN.end - SCAN.start) * SCAN_SHARE * self.requests as f64 / DAYS;
            self.brought += 1;
            return self.objects + self.brought % (nightly as u64).max(1);
        }
        self.rank()
    }

    fn bursts(&mut self, index: u64) -> (u64, Operation) {
        let (burst, part) = self.period(index);
        if part < BURST && self.random.random::<f64>() < BURST_SHARE {
            let id = self.objects + self.brought;
            self.brought += 1;
            if !Self::writes_logs(burst) {
                match self.uploads.last_mut() {
                    Some((first, count)) if *first + *count == id => *count += 1,
                    _ => self.uploads.push((id, 1)),
                }
            }
            return (id, Operation::Set);
        }
        if !self.uploads.is_empty() && self.random.random::<f64>() < UPLOAD_SHARE {
            let last = self.uploads.len().min(UPLOADS);
            let upload = self.uploads.len() - 1 - self.random.random_range(0..last);
            let (first, count) = self.uploads[upload];
            return (first + self.random.random_range(0..count), Operation::Get);
        }
        (self.rank(), Operation::Get)
    }

    fn drift(&mut self, index: u64) -> u64 {
        let (wave, _) = self.period(index);
        if wave as usize >= self.waves.len() {
            self.waves.push(self.brought);
        }
        if self.brought == 0 || self.random.random::<f64>() < BIRTHS[wave as usize % 2] {
            self.brought += 1;
            return self.brought;
        }
        // A few attempts to find an object that is requested again.
        let mut id = self.brought;
        for _ in 0..8 {
            id = self.brought.saturating_sub(self.rank()).max(1);
            let of_wave = self.waves.partition_point(|&born| born < id) - 1;
            if of_wave.is_multiple_of(2) {
                break;
            }
        }
        id
    }

    /// The size of an object: between two quantiles that its id chooses.
    fn size(&self, id: u64) -> u32 {
        let exact = (object_hash(id, 3) >> 11) as f64 / (1u64 << 53) as f64 * 16.0;
        let quantiles = self.pattern.quantiles();
        let (low, high) = (quantiles[exact as usize], quantiles[exact as usize + 1]);
        // In a long tail most sizes between two distant quantiles are near the smaller one.
        let share = if high > 8 * low { exact.fract().powi(8) } else { exact.fract() };
        low + (f64::from(high - low) * share) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const OBJECTS: u64 = 2_000;
    const REQUESTS: u64 = 210_000;

    fn records(pattern: Pattern) -> Vec<Record> {
        let ranks = Zipf::new(OBJECTS as f64, pattern.alpha()).expect("it is one");
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut grouped = Grouped::new(pattern, ranks, random, OBJECTS, REQUESTS);
        (0..REQUESTS).map(|index| grouped.next(index)).collect()
    }

    fn lasts_a_week_with_sizes(records: &[Record], most: u32) {
        assert!(records.is_sorted_by_key(|record| record.time_ns));
        let days = records.last().expect("some").time_ns as f64 / DAY_NS;
        assert!((days - 7.0).abs() < 0.01, "{days}");
        let mut sizes = std::collections::BTreeMap::new();
        for record in records {
            let size = *sizes.entry(record.id).or_insert(record.size);
            assert!(size == record.size && size <= u64::from(most));
        }
    }

    #[test]
    fn every_night_the_same_objects_are_read_fast() {
        let records = records(Pattern::Diurnal);
        lasts_a_week_with_sizes(&records, 69_632);
        let scanned = |record: &&Record| record.id >= OBJECTS;
        let all = records.iter().filter(scanned).count();
        let distinct: std::collections::BTreeSet<u64> =
            records.iter().filter(scanned).map(|record| record.id).collect();
        let nights = all as f64 / distinct.len() as f64;
        assert!((6.9..7.1).contains(&nights), "{nights}");
        // A tenth of a day at night, and one at noon.
        let took = |from: usize| records[from + 3_000].time_ns - records[from].time_ns;
        assert!(took(2_000) < took(27_000), "{} {}", took(2_000), took(27_000));
    }

    #[test]
    fn logs_are_not_read_and_uploads_are() {
        let records = records(Pattern::Bursts);
        lasts_a_week_with_sizes(&records, 4_092_928);
        let mut written = std::collections::BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            match (record.operation, written.get_mut(&record.id)) {
                (Operation::Set, None) => _ = written.insert(record.id, (index as u64 / 1_000, 0)),
                (Operation::Get, Some((_, reads))) => *reads += 1,
                (Operation::Get, None) => assert!(record.id < OBJECTS),
                (operation, _) => panic!("{operation:?}"),
            }
        }
        let reads = |logs: bool| {
            let of_kind = |(burst, _): &&(u64, u32)| Grouped::writes_logs(*burst) == logs;
            let (mut objects, mut reads) = (0, 0);
            for (_, times) in written.values().filter(of_kind) {
                objects += 1;
                reads += times;
            }
            (objects, reads)
        };
        let ((logs, log_reads), (uploads, upload_reads)) = (reads(true), reads(false));
        assert!(logs > uploads && log_reads == 0);
        assert!(upload_reads > 2 * uploads, "{upload_reads} of {uploads}");
    }

    #[test]
    fn what_odd_waves_bring_is_hardly_asked_for_again() {
        let records = records(Pattern::Drift);
        lasts_a_week_with_sizes(&records, 4_985);
        let mut counts = std::collections::BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            let entry = counts.entry(record.id).or_insert((index / 1_000 % 2, 0));
            entry.1 += 1;
        }
        let of_kind = |odd: usize| counts.values().filter(move |(kind, _)| *kind == odd);
        let mean =
            |odd| of_kind(odd).map(|it| it.1).sum::<u32>() as f64 / of_kind(odd).count() as f64;
        assert!(of_kind(1).count() > 2 * of_kind(0).count());
        assert!(mean(0) > 5.0 * mean(1), "{} {}", mean(0), mean(1));
    }
}
