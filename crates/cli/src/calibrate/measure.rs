//! The workloads of a calibration, and the figures of one round.
//!
//! Each policy runs at each capacity with hits only, and with a mix of hits and new keys, with 1,
//! 2, … threads. Policies that give second chances run two more mixes with one thread. The two
//! differ only in the keys that are requested again: resident ones, or new ones, which the hand
//! must then skip.

use std::time::{Duration, Instant};

use anyhow::Context;
use frazil_driver::{Backend, Distance, Frozen, Measured, Mix, Ours, Schedule, Setup, Stream};
use frazil_policy::{PolicySpec, Work};
use frazil_queueing::Quality;
use frazil_simulator::trace::Trace;
use frazil_simulator::{CellSpec, SweepOptions, sweep};

use crate::median::median;

/// Most measurements of a disturbed run.
const TRIES: usize = 3;
/// Undisturbed time that a run needs: a share of the measured time, and a number of seconds that is
/// always enough.
const ENOUGH: (f64, f64) = (0.5, 0.008);
/// Share of the capacity that is resident before new keys come.
const RESIDENT: f64 = 0.9;
/// Share of new keys in the mix.
const NEWCOMERS: f64 = 0.5;
/// Share of new keys in the mix with few misses.
const FEW_NEWCOMERS: f64 = 0.1;
/// The most new keys between a new key and its next request, as a share of the capacity: enough
/// that it has left the processor's caches.
const AGAIN: f64 = 0.5;
/// Requests of a stream: more than a core's own caches hold, as in a program.
const LENGTH: (usize, usize) = (1 << 21, 1 << 22);
/// Requests in flight while asynchronous misses are measured.
const IN_FLIGHT: usize = 16;

/// A time and the hit ratio at which it was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    /// µs from one request of a thread to its next.
    pub(crate) us: f64,
    pub(crate) hit_ratio: f64,
}

/// One policy at one capacity in one round.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// With 1, 2, … threads.
    pub(super) hits: Vec<Timed>,
    pub(super) mixed: Vec<Timed>,
    pub(super) rare: Vec<Timed>,
    /// Resident keys, and new keys that are requested again.
    pub(super) again: Option<[Timed; 2]>,
    /// Writes to lines that all threads write, for a miss.
    pub(super) writes: f64,
}

/// Items that an eviction skips, as the simulator counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skips {
    pub(super) mixed: f64,
    pub(super) again: [f64; 2],
}

/// The streams for a capacity.
pub(super) struct Ground {
    pub(super) capacity: u64,
    resident: Mix,
    few: Mix,
    hits: Vec<Stream>,
    mixed: Vec<Stream>,
    rare: Vec<Stream>,
    /// Streams with their own keys, more than fit.
    churn: Vec<Stream>,
    again: [Vec<Stream>; 2],
    mixes: [(Mix, Mix); 3],
    length: usize,
}

impl Ground {
    pub(super) fn new(capacity: u64, threads: usize) -> anyhow::Result<Self> {
        let least = |share: f64| ((capacity as f64 * share) as u32).max(1);
        let resident = Mix { resident: least(RESIDENT), newcomers: 0.0, again: 0 };
        let mixed = Mix { newcomers: NEWCOMERS, ..resident };
        let few = Mix { resident: least(0.1), newcomers: 0.0, again: 0 };
        // As many new keys in both, and twice as many other requests.
        let random = Mix { newcomers: 1.0 / 3.0, ..few };
        let back = least(AGAIN) as usize;
        let newest = Mix { newcomers: 1.0, again: back, ..few };
        let rare = Mix { newcomers: FEW_NEWCOMERS, ..resident };
        let more = Mix { resident: least(2.0), newcomers: 0.0, again: 0 };
        let length = (8 * capacity as usize).clamp(LENGTH.0, LENGTH.1);
        Ok(Ground {
            capacity,
            resident,
            few,
            hits: resident.streams(length, threads)?,
            mixed: mixed.streams(length, threads)?,
            rare: rare.streams(length, threads)?,
            churn: vec![more.stream(length, 1)?],
            again: [random.streams(length, 1)?, newest.streams(length, 1)?],
            mixes: [(resident, mixed), (few, random), (few, newest)],
            length,
        })
    }

    /// Counts the entries that the policy skips in each mix.
    pub(super) fn skips(&self, policy: PolicySpec) -> anyhow::Result<Skips> {
        let mut skips = Vec::new();
        for (before, mix) in &self.mixes {
            let requests = mix.numbers(self.length, 1)?.concat();
            let ids: Vec<u32> = (0..before.resident).chain(requests).collect();
            let objects = u64::from(ids.iter().copied().max().unwrap_or(0)) + 1;
            let warmup = u64::from(before.resident) + self.length as u64 / 4;
            let trace = Trace { ids, objects: (0..objects).collect(), ..Trace::default() };
            let cell = CellSpec { policy, capacity: self.capacity };
            let options = SweepOptions { warmup, count_work: true, ..SweepOptions::default() };
            let outcome = sweep(&trace, &[cell], &options, &|_| ());
            let outcome = outcome.first().context("a sweep gave nothing")?;
            let count = outcome.work.elsewhere.get(Work::Skip);
            skips.push(count as f64 / outcome.misses().max(1) as f64);
        }
        let [mixed, again @ ..] = skips.as_slice() else { return Ok(Skips::default()) };
        Ok(Skips { mixed: *mixed, again: [again[0], again[1]] })
    }

    /// Measures a policy.
    pub(super) fn measure(
        &self,
        policy: Setup,
        skips: bool,
        schedule: &Schedule,
        tally: &mut Tally,
    ) -> anyhow::Result<Figures> {
        let ours = Ours::<u64>::new(policy, self.capacity, 0);
        self.resident.preload(&ours)?;
        let mut figures = Figures::default();
        for threads in 1..=self.hits.len() {
            figures.hits.push(self.run(&ours, &self.hits[..threads], 0, schedule, tally));
        }
        self.age(&ours, self.resident)?;
        for threads in 1..=self.mixed.len() {
            let before = ours.cache().stats();
            let streams = &self.mixed[..threads];
            figures.mixed.push(self.run(&ours, streams, self.capacity / 4, schedule, tally));
            if threads == 1 {
                let after = ours.cache().stats();
                let misses = (after.insertions - before.insertions).max(1);
                let writes = after.shared_writes.saturating_sub(before.shared_writes);
                figures.writes = writes as f64 / misses as f64;
            }
        }
        for threads in 1..=self.rare.len() {
            let (streams, fill) = (&self.rare[..threads], self.capacity / 4);
            figures.rare.push(self.run(&ours, streams, fill, schedule, tally));
        }
        if skips {
            let ours = Ours::<u64>::new(policy, self.capacity, 0);
            self.age(&ours, self.few)?;
            let [residents, newcomers] = &self.again;
            let fill = self.capacity + self.capacity / 4;
            let mut run = |streams: &[Stream]| self.run(&ours, streams, fill, schedule, tally);
            figures.again = Some([run(residents), run(newcomers)]);
        }
        Ok(figures)
    }

    /// Fills a cache as if it had been in use: neighbours in memory did not arrive one after the
    /// other, so the processor cannot predict victims. Then inserts the resident keys.
    fn age(&self, ours: &Ours<u64>, residents: Mix) -> anyhow::Result<()> {
        let step = Duration::from_millis(5 + self.capacity / 50_000);
        let schedule = Schedule { warmup: step, measured: Duration::from_millis(1), slices: 1 };
        frazil_driver::run(ours, &self.churn, 2 * self.capacity, &schedule);
        Ok(residents.preload(ours)?)
    }

    fn run(
        &self,
        ours: &Ours<u64>,
        streams: &[Stream],
        fill: u64,
        schedule: &Schedule,
        tally: &mut Tally,
    ) -> Timed {
        tally.least_disturbed(schedule, streams.len(), || {
            frazil_driver::run(ours, streams, fill, schedule)
        })
    }

    /// µs to begin and end a fetch, for each miss: the difference of the mix, by one thread, with a
    /// backend that answers at once, and without one.
    pub(super) fn fetch_us(&self, schedule: &Schedule, tally: &mut Tally) -> anyhow::Result<f64> {
        let ours = Ours::<u64>::new(frazil::Policy::Fifo, self.capacity, 0);
        self.resident.preload(&ours)?;
        let streams = &self.mixed[..1];
        let backend = Backend::new(Duration::ZERO, IN_FLIGHT);
        let without = self.run(&ours, streams, self.capacity / 4, schedule, tally);
        let with = tally.least_disturbed(schedule, 1, || {
            frazil_driver::run_with_backend(&ours, streams, 0, schedule, backend)
        });
        Ok((with.us - without.us).max(0.0) / (1.0 - without.hit_ratio).max(1e-3))
    }

    /// µs of a hit on a frozen entry, with one thread. It is the same for every policy, and writes
    /// nothing that others read. `None` if the system does not permit freezing.
    pub(super) fn look_us(
        &self,
        schedule: &Schedule,
        tally: &mut Tally,
    ) -> anyhow::Result<Option<f64>> {
        let all = Setup { frozen: Frozen::Share(1.0), ..frazil::Policy::Lru.into() };
        let ours = Ours::<u64>::new(all, self.capacity, 0);
        self.resident.preload(&ours)?;
        let timed = self.run(&ours, &self.hits[..1], 0, schedule, tally);
        Ok((ours.cache().stats().frozen_hits > 0).then_some(timed.us))
    }
}

/// The quality of runs, and the required latency between cores.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    /// Runs measured again.
    pub(super) again: u64,
    /// Runs that count although they were disturbed every time.
    pub(crate) disturbed: u64,
    /// The required distance of cores in a run of several threads.
    pub(crate) distance: Distance,
    /// The end of the time in which runs are measured again.
    last_repeat: Option<Instant>,
}

impl Tally {
    /// For runs with this latency between cores.
    pub(crate) fn new(distance: Distance) -> Self {
        Tally { runs: 0, again: 0, disturbed: 0, distance, last_repeat: None }
    }

    /// The profile's record of it.
    pub(crate) fn quality(&self) -> Quality {
        Quality { runs: self.runs, disturbed: self.disturbed, halves: None }
    }

    /// From now on disturbed runs are measured again only until `last`.
    pub(super) fn repeat_until(&mut self, last: Instant) {
        self.last_repeat = Some(last);
    }

    fn may_repeat(&self) -> bool {
        self.last_repeat.is_none_or(|last| Instant::now() < last)
    }

    /// The first run that had its cores for long enough, with the right latency between them, or
    /// else the one that had them longest.
    pub(crate) fn least_disturbed(
        &mut self,
        schedule: &Schedule,
        threads: usize,
        run: impl Fn() -> Measured,
    ) -> Timed {
        self.least_disturbed_counted(schedule, threads, |_| (run(), ())).0
    }

    /// The same, with that run's counts. `run` gets the number of runs before it.
    pub(crate) fn least_disturbed_counted<C: Default>(
        &mut self,
        schedule: &Schedule,
        threads: usize,
        mut run: impl FnMut(usize) -> (Measured, C),
    ) -> (Timed, C) {
        self.runs += 1;
        let timed = |mops: f64, it: &Measured| Timed {
            us: threads as f64 / mops.max(1e-9),
            hit_ratio: it.hit_ratio,
        };
        let enough = (schedule.measured.as_secs_f64() * ENOUGH.0).min(ENOUGH.1);
        let mut best: Option<(Measured, C)> = None;
        let (mut attempts, mut all, mut far) = (0, 0, false);
        while attempts < TRIES && (attempts == 0 || self.may_repeat()) {
            if threads > 1 {
                self.distance.wait();
            }
            let began = Instant::now();
            let (measured, counted) = run(all);
            all += 1;
            let near = threads == 1 || self.distance.is_kept();
            if !near && self.distance.has_patience() {
                // The host moved the cores meanwhile.
                self.distance.spend(began.elapsed());
                self.again += 1;
                continue;
            }
            self.again += u64::from(attempts > 0);
            attempts += 1;
            far |= !near;
            let seconds = measured.undisturbed.seconds;
            if best.as_ref().is_none_or(|(best, _)| seconds > best.undisturbed.seconds) {
                best = Some((measured, counted));
            }
            if let Some((best, counted)) =
                best.take_if(|(best, _)| near && best.undisturbed.seconds >= enough)
            {
                return (timed(best.undisturbed.mops, &best), counted);
            }
        }
        let Some((best, counted)) = best else { return Default::default() };
        // If processor time is unknown, so is disturbance.
        let shared = best.cpu_share.is_some() && best.undisturbed.seconds < enough;
        self.disturbed += u64::from(shared || far);
        let whole = best.undisturbed.seconds < enough / 4.0;
        (timed(if whole { best.mops } else { best.undisturbed.mops }, &best), counted)
    }
}

/// µs of a write to a shared line that no other thread writes: the median of batches.
pub(super) fn write_us() -> f64 {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    const WRITES: u32 = 1 << 16;
    let line = AtomicU64::new(0);
    let batch = |_| {
        let began = Instant::now();
        for _ in 0..WRITES {
            std::hint::black_box(&line).fetch_add(1, Relaxed);
        }
        began.elapsed().as_secs_f64() * 1e6 / f64::from(WRITES)
    };
    median((0..15).map(batch))
}
