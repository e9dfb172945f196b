//! One of the traces: its data, and the result of each policy and size on it.

use anyhow::{Context, anyhow};
use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Loaded, Operation, Sizes, printable};
use frazil_simulator::{
    CapacityError, CapacitySpec, CellSpec, Curve, Outcome, SweepOptions, Unit, WorkloadProfile,
    lru_curve_of, sweep_delayed, sweep_held,
};

use super::candidate::Candidate;
use super::latency::{Counted, Fetches, Latencies, Waiting};
use super::memory::Resident;
use super::recommend::{Measured, SURE};
use crate::failure::Failure;
use crate::forecast::{Forecast, Predicted, Setting, frozen_hits};
use crate::lifetime_args::Told;
use crate::progress::Progress;
use crate::sample::Sample;

/// The used share of the capacity from which on a cache counts as filled: the last objects of a
/// trace may come at any time.
const FILLED: f64 = 0.95;

/// The settings common to all traces.
pub(crate) struct Question {
    pub(crate) policies: Vec<Candidate>,
    pub(crate) forecast: Forecast,
    pub(crate) options: SweepOptions,
    /// Whether latencies are needed of all cells, not only of those in the answer.
    pub(crate) times_all: bool,
}

/// One cell with all its counts.
pub(crate) struct Replayed {
    pub(crate) measured: Measured,
    /// Counts for all keys, by [`Sample::corrected`].
    pub(crate) outcome: Outcome,
    /// Counts of the sample.
    raw: Outcome,
    /// Counts of the sample in a replay in which fetches take time; `None` unless requested.
    delayed: Option<Outcome>,
    /// Waits of requests for fetches, if delayed hits matter.
    waiting: Option<Waiting>,
    pub(crate) resident: Option<Resident>,
    /// The replayed policy.
    spec: PolicySpec,
    /// `None` if the profile does not have the policy.
    pub(crate) predicted: Option<Predicted>,
    /// `None` if the policy freezes nothing.
    pub(crate) frozen: Option<FrozenPart>,
    /// `None` unless requested, or if the profile lacks the policy.
    pub(crate) latencies: Option<Latencies>,
}

impl Replayed {
    /// Mean latency of a request, with delayed hits if they are known.
    pub(crate) fn mean_us(&self) -> Option<f64> {
        match &self.latencies {
            Some(latencies) => Some(latencies.all.mean_us),
            None => self.predicted.as_ref().map(|it| it.response_us),
        }
    }

    /// Share of requests that are fetched. If delayed hits matter, a replay with fetches counts
    /// them.
    pub(crate) fn fetched(&self) -> f64 {
        self.waiting.map_or(self.measured.miss_ratio, |it| 1.0 - it.hit_ratio)
    }
}

/// The frozen part of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrozenPart {
    /// Share of the entries; 0 if freezing does not pay.
    pub(crate) share: f64,
    /// Share of the hits since the freezing. `None` if the trace ended before.
    pub(crate) hits: Option<f64>,
}

impl FrozenPart {
    fn of(candidate: &Candidate, policy: &PolicySpec, outcome: &Outcome) -> Option<Self> {
        let share = if let PolicySpec::Frozen { share, .. } = policy { *share } else { 0.0 };
        let hits = if share > 0.0 { frozen_hits(outcome) } else { Some(0.0) };
        candidate.freezes().then_some(FrozenPart { share, hits })
    }
}

/// A trace, and its cells.
pub(crate) struct Case<'a> {
    pub(crate) name: &'a str,
    pub(crate) loaded: Loaded,
    pub(crate) sample: Sample,
    unit: Unit,
    /// Distinct objects of all keys, or their summed sizes in bytes.
    pub(crate) everything: u64,
    /// By size, then in the order of the policies; some sizes lack some policies.
    pub(crate) cells: Vec<Replayed>,
    /// LRU's miss ratio by capacity. With a sample it also has its likely error.
    pub(crate) curve: Curve,
    /// LRU's miss ratio if all objects fit.
    first_requests: f64,
    /// Mean size of an object, if the trace has sizes.
    pub(crate) value_bytes: Option<f64>,
    /// Size of each object, if the trace has sizes.
    object_bytes: Sizes,
    requests_per_second: Option<f64>,
    /// Times of requests and durations of fetches.
    pub(crate) fetches: Fetches,
    /// Whether delayed hits may change the prediction; if so, it includes them.
    pub(crate) delays: bool,
    /// Gets a second of all keys: the request rate to serve, at which fetches are replayed. Given
    /// by the user, or by a recorded trace.
    pub(crate) asked: Option<f64>,
    /// The lifetimes of entries, if any may expire.
    pub(crate) lifetimes: Told,
    /// The lifetimes of the trace that are ignored, if the user requested that.
    pub(crate) ignored_lifetimes: Told,
}

/// Gets a second of all keys, if times were requested and time passes in the trace.
fn rate(loaded: &Loaded) -> Option<f64> {
    let Loaded { trace, origin } = loaded;
    let seconds = origin.span_ns? as f64 / 1e9;
    let others = trace.operations.iter().filter(|&&operation| operation != Operation::Get);
    let read = origin.sampled.map_or((trace.len() - others.count()) as u64, |it| it.gets) as f64;
    let recording = origin.recording.as_ref();
    let recorded = recording.and_then(|it| it.gets).map(|gets| gets as f64);
    let gets = recorded.unwrap_or(read / recording.map_or(1.0, |it| it.rate));
    (seconds > 0.0).then(|| gets / seconds)
}

impl<'a> Case<'a> {
    /// # Errors
    /// Bad usage if the unit is bytes and the trace has no sizes.
    pub(crate) fn new(
        name: &'a str,
        mut loaded: Loaded,
        unit: Unit,
        (backend_us, request_rate): (f64, Option<f64>),
        lifetimes: Told,
    ) -> Result<Self, Failure> {
        let sample = Sample::of_trace(name, &loaded.origin, &loaded.trace);
        let objects = loaded.trace.objects.len() as u64;
        let footprint = loaded.trace.footprint_bytes();
        let everything = sample.up(match unit {
            Unit::Objects => objects,
            Unit::Bytes => footprint.unwrap_or_default(),
        });
        let requests_per_second = rate(&loaded);
        // Entries expire by the trace's own times.
        let times_ns = lifetimes.is_some().then(|| loaded.trace.times_ns.clone());
        // The times of a generator are arbitrary, so waits follow them only if a request rate is
        // given.
        let recorded = requests_per_second.filter(|_| loaded.origin.format.is_some());
        let own = if request_rate.is_some() { requests_per_second } else { recorded };
        let mut fetches = Fetches::of(&mut loaded, backend_us, request_rate, own);
        if let Some(times_ns) = times_ns {
            loaded.trace.times_ns = times_ns;
            // In a replay in which fetches take time nothing expires, so its counts do not apply.
            fetches = fetches.unknown();
        }
        // Generators and some formats write an unknown size as 1.
        let mean_bytes = footprint.map(|bytes| bytes as f64 / objects.max(1) as f64);
        let value_bytes = mean_bytes.filter(|&bytes| bytes > 1.0);
        let object_bytes = value_bytes.map_or_else(Sizes::default, |_| loaded.trace.object_bytes());
        if unit == Unit::Objects {
            loaded.trace.sizes = Sizes::default();
        }
        let curve = lru_curve_of(&loaded, unit).with_context(|| name.to_owned());
        let curve = curve.map_err(Failure::Usage)?;
        // A single pass cannot follow expiries.
        let whole = curve.points(&[everything]).into_iter().find(|_| lifetimes.is_none());
        let first_requests = whole.map_or(1.0, |it| it.miss_ratio);
        let delays = fetches.may_matter(&loaded.trace, first_requests);
        Ok(Case {
            name,
            loaded,
            sample,
            unit,
            everything,
            cells: Vec::new(),
            curve,
            first_requests,
            value_bytes,
            object_bytes,
            requests_per_second,
            fetches,
            delays,
            asked: request_rate.or(recorded),
            lifetimes,
            ignored_lifetimes: None,
        })
    }

    /// Gets a second of all keys, if the times were kept and some pass.
    pub(crate) fn requests_per_second(&self) -> Option<f64> {
        self.requests_per_second
    }

    /// The lowest miss ratio of any size: mostly first requests for objects.
    pub(crate) fn least_misses(&self) -> f64 {
        let cells = self.cells.iter().map(|cell| cell.measured.miss_ratio);
        cells.fold(self.first_requests, f64::min)
    }

    /// The share of the trace after which 19/20 of this capacity is filled; 1 if it never is.
    pub(crate) fn until_filled(&self, capacity: u64) -> f64 {
        let ids = &self.loaded.trace.ids;
        let full = self.entries(capacity) * self.loaded.origin.rate() * FILLED;
        // Objects are numbered in order of appearance.
        let at = ids.iter().position(|&id| f64::from(id) + 1.0 >= full);
        at.map_or(1.0, |at| (at + 1) as f64 / ids.len().max(1) as f64)
    }

    /// The nearest capacity that a sample can distinguish from others.
    pub(crate) fn of_sample(&self, capacity: u64) -> u64 {
        self.sample.up(self.sample.down(capacity))
    }

    /// The standard error of LRU's miss ratio at a capacity; `None` unless this is a sample.
    pub(crate) fn error(&self, capacity: u64) -> Option<f64> {
        self.curve.points(&[capacity]).first()?.error
    }

    /// The results of a size.
    pub(crate) fn of_size(&self, capacity: u64) -> impl Iterator<Item = Measured> {
        let all = self.cells.iter().map(|cell| cell.measured);
        all.filter(move |cell| cell.capacity == capacity)
    }

    /// The cell of a policy at a requested capacity.
    pub(crate) fn cell(&self, policy: usize, capacity: u64) -> Option<&Replayed> {
        let mut cells = self.cells.iter().map(|cell| (&cell.measured, cell));
        let same = |it: &Measured| (it.policy, it.capacity) == (policy, capacity);
        cells.find(|(measured, _)| same(measured)).map(|(_, cell)| cell)
    }

    /// A size from the command line: a number is for all keys, a share is of this trace.
    pub(crate) fn resolve(&self, capacity: &CapacitySpec) -> Result<u64, Failure> {
        let resolved = capacity.resolve(&self.loaded.trace, self.unit);
        let known = |resolved| {
            let known = capacity.known(self.unit)?;
            Ok::<_, CapacityError>(known.unwrap_or_else(|| self.sample.up(resolved)))
        };
        let resolved = resolved.and_then(known).with_context(|| self.name.to_owned());
        resolved.map_err(Failure::Usage)
    }

    /// Its name in sentences.
    pub(crate) fn title(&self) -> String {
        if self.name == "-" { "standard input".to_owned() } else { printable(self.name) }
    }

    /// Gets of all keys, as far as the trace has them.
    pub(crate) fn requests(&self) -> u64 {
        let replayed = self.cells.first().map_or(0, |cell| cell.outcome.requests);
        self.loaded.origin.sampled.map_or(replayed, |sampled| sampled.gets)
    }

    /// Distinct objects; of all keys, if this command took the sample.
    pub(crate) fn objects(&self) -> u64 {
        let objects = self.loaded.trace.objects.len() as f64;
        (objects / self.loaded.origin.sampled.map_or(1.0, |sampled| sampled.rate)).round() as u64
    }

    pub(crate) fn workload_profile(&self) -> WorkloadProfile {
        let origin = &self.loaded.origin;
        WorkloadProfile::of(&self.loaded.trace, origin.rate(), self.sample.correction())
    }

    /// Replays every policy at every size.
    pub(crate) fn replay_all(
        &mut self,
        question: &Question,
        capacities: &[u64],
    ) -> Result<(), Failure> {
        let policies = 0..question.policies.len();
        let of_size = |&size| policies.clone().map(move |policy| (policy, size));
        let cells: Vec<(usize, u64)> = capacities.iter().flat_map(of_size).collect();
        self.cells = self.replay(question, &cells, "replaying")?;
        if self.cells.iter().any(|cell| cell.outcome.requests == 0) {
            let problem = "holds no requests, only sets and deletes";
            return Err(anyhow!("{}: {problem}", self.name).into());
        }
        let all_fits = self.cells.iter().any(|cell| cell.measured.capacity >= self.everything);
        if self.lifetimes.is_some() && !all_fits {
            // Expired entries miss again, which LRU's curve does not include.
            let whole = self.replay(question, &[(0, self.everything)], "replaying")?;
            self.first_requests = whole.first().map_or(1.0, |cell| cell.measured.miss_ratio);
        }
        Ok(())
    }

    /// Replays more cells, none of which was replayed before.
    pub(crate) fn add(
        &mut self,
        question: &Question,
        cells: &[(usize, u64)],
        what: &str,
    ) -> Result<(), Failure> {
        let replayed = self.replay(question, cells, what)?;
        self.cells.extend(replayed);
        self.cells.sort_by_key(|cell| (cell.measured.capacity, cell.measured.policy));
        Ok(())
    }

    /// The result of each cell: for candidates with several frozen shares, the fastest.
    pub(crate) fn replay(
        &self,
        question: &Question,
        cells: &[(usize, u64)],
        what: &str,
    ) -> Result<Vec<Replayed>, Failure> {
        let specs_of = |&(policy, capacity): &(usize, u64)| {
            let capacity = self.sample.down(capacity);
            let specs = question.policies[policy].replayed().into_iter();
            specs.map(move |policy| CellSpec { policy, capacity })
        };
        let trace = &self.loaded.trace;
        let specs: Vec<CellSpec> = cells.iter().flat_map(specs_of).collect();
        let total = trace.ids.len() as u64 * specs.len() as u64;
        let progress = Progress::of_records(what.to_owned(), total);
        let advance = |steps| progress.step(steps);
        let outcomes = sweep_held(trace, &specs, &question.options, &self.object_bytes, &advance);
        progress.complete()?;
        let mut done = specs.iter().zip(outcomes);
        let mut replayed = Vec::new();
        for cell in cells {
            let count = question.policies[cell.0].replayed().len();
            let mut best: Option<Replayed> = None;
            for (spec, outcome) in done.by_ref().take(count) {
                let next = self.replayed(question, *cell, &spec.policy, outcome)?;
                let mops = |it: &Replayed| it.measured.mops;
                if best.as_ref().is_none_or(|best| mops(best) < mops(&next)) {
                    best = Some(next);
                }
            }
            replayed.extend(best);
        }
        let mut cells: Vec<&mut Replayed> = replayed.iter_mut().collect();
        if self.delays {
            self.delay(question, &mut cells)?;
        }
        if question.times_all {
            self.time(question, &mut cells)?;
        }
        Ok(replayed)
    }

    /// Predicts cells again, with the waits of requests for the fetches of others. At each size the
    /// policy with the most misses is replayed first. The others follow only if the waits change
    /// its prediction, because a second replay of all cells takes longer than everything else.
    fn delay(&self, question: &Question, cells: &mut [&mut Replayed]) -> Result<(), Failure> {
        cells.sort_by(|one, other| {
            let misses = || other.measured.miss_ratio.total_cmp(&one.measured.miss_ratio);
            one.measured.capacity.cmp(&other.measured.capacity).then_with(misses)
        });
        let (mut first, mut others): (Vec<&mut Replayed>, Vec<&mut Replayed>) = Default::default();
        for cell in cells.iter_mut() {
            let capacity = cell.measured.capacity;
            let is_new = first.last().is_none_or(|last| last.measured.capacity != capacity);
            if is_new { first.push(cell) } else { others.push(cell) }
        }
        self.replay_fetches(question, &mut first)?;
        first.retain(|cell| self.counted(question, cell).delays_matter());
        let sizes: Vec<u64> = first.iter().map(|cell| cell.measured.capacity).collect();
        others.retain(|cell| sizes.contains(&cell.measured.capacity));
        self.replay_fetches(question, &mut others)?;
        for cell in first.into_iter().chain(others) {
            cell.waiting = self.counted(question, cell).waiting();
            self.foretell(question, cell)?;
        }
        Ok(())
    }

    /// Replays cells with fetches that take time, if the times are known, and only once.
    fn replay_fetches(
        &self,
        question: &Question,
        cells: &mut [&mut Replayed],
    ) -> Result<(), Failure> {
        let Fetches::Timed(fetching) = &self.fetches else { return Ok(()) };
        let trace = &self.loaded.trace;
        let mut cells: Vec<&mut &mut Replayed> =
            cells.iter_mut().filter(|cell| cell.delayed.is_none()).collect();
        let spec = |cell: &&mut &mut Replayed| CellSpec {
            policy: cell.spec,
            capacity: self.sample.down(cell.measured.capacity),
        };
        let specs: Vec<CellSpec> = cells.iter().map(spec).collect();
        let total = trace.ids.len() as u64 * specs.len() as u64;
        let progress = Progress::of_records("replaying fetches".to_owned(), total);
        let options = SweepOptions { count_work: false, ..question.options };
        let advance = |steps| progress.step(steps);
        let outcomes = sweep_delayed(trace, &specs, &options, fetching, &advance);
        progress.complete()?;
        for (cell, outcome) in cells.iter_mut().zip(outcomes) {
            cell.delayed = Some(outcome);
        }
        Ok(())
    }

    /// All counts of a cell.
    fn counted<'c>(&'c self, question: &Question, cell: &'c Replayed) -> Counted<'c> {
        Counted {
            plain: &cell.outcome,
            delayed: cell.delayed.as_ref(),
            delays_known: !matches!(self.fetches, Fetches::Untimed),
            sample: &self.sample,
            backend_us: question.forecast.setting.backend_us,
        }
    }

    /// Simulates the latencies of some cells, if not known yet.
    pub(crate) fn time_cells(
        &mut self,
        question: &Question,
        wanted: &[(usize, u64)],
    ) -> Result<(), Failure> {
        let mut cells = std::mem::take(&mut self.cells);
        let is_wanted = |cell: &&mut Replayed| {
            let Measured { policy, capacity, .. } = cell.measured;
            cell.latencies.is_none() && wanted.contains(&(policy, capacity))
        };
        let timed =
            self.time(question, &mut cells.iter_mut().filter(is_wanted).collect::<Vec<_>>());
        self.cells = cells;
        timed
    }

    fn time(&self, question: &Question, cells: &mut [&mut Replayed]) -> Result<(), Failure> {
        self.replay_fetches(question, cells)?;
        let Forecast { setting, .. } = &question.forecast;
        let progress = Progress::of_steps("timing requests".to_owned(), cells.len() as u64);
        for cell in cells {
            progress.advance(1);
            progress.complete()?;
            let counted = self.counted(question, cell);
            let (hit_ratio, entries) =
                (1.0 - counted.shares()[2], self.entries(cell.measured.capacity));
            let forecast = &question.forecast;
            let simulated =
                forecast.response_times(setting, &cell.spec, hit_ratio, &cell.raw, entries);
            let simulated = simulated.context("the response times of a cell")?;
            let known = simulated.as_ref().zip(cell.predicted.as_ref());
            let latencies = known.and_then(|(simulated, predicted)| {
                let beside = if cell.waiting.is_some() { 0.0 } else { counted.longer_us() };
                Latencies::of(&counted, simulated, predicted.response_us + beside)
            });
            cell.latencies = latencies;
        }
        Ok(())
    }

    fn replayed(
        &self,
        question: &Question,
        (policy, capacity): (usize, u64),
        spec: &PolicySpec,
        raw: Outcome,
    ) -> Result<Replayed, Failure> {
        // The work is that of the counted hits.
        let work_per_hit = raw.work_per_hit();
        let outcome = self.sample.corrected(&raw);
        let miss_ratio = outcome.miss_ratio();
        let (mops, doubt) = (None, SURE);
        let measured = Measured { policy, capacity, miss_ratio, work_per_hit, mops, doubt };
        let frozen = FrozenPart::of(&question.policies[policy], spec, &raw);
        let spec = *spec;
        let (predicted, latencies, delayed, waiting) = (None, None, None, None);
        let resident = self.resident(capacity, &raw);
        let mut cell = Replayed {
            measured,
            outcome,
            raw,
            delayed,
            waiting,
            resident,
            spec,
            predicted,
            frozen,
            latencies,
        };
        self.foretell(question, &mut cell)?;
        Ok(cell)
    }

    /// Predicts a cell in the requested setting.
    fn foretell(&self, question: &Question, cell: &mut Replayed) -> Result<(), Failure> {
        cell.predicted = self.predict(&question.forecast, &question.forecast.setting, cell)?;
        if let Some(predicted) = &cell.predicted {
            cell.measured.mops = Some(predicted.throughput_mops);
            if !question.forecast.is_measured() {
                cell.measured.doubt = predicted.doubt();
            }
        }
        Ok(())
    }

    /// The objects resident at the end of a cell's replay.
    fn resident(&self, capacity: u64, raw: &Outcome) -> Option<Resident> {
        let held = raw.held?;
        let value_bytes = self.value_bytes.and_then(|_| held.mean_bytes());
        let capacity_there = self.sample.down(capacity).max(1) as f64;
        let used = held.most as f64 / capacity_there;
        // The final content of a cache that is not full yet is unknown.
        let is_filling = used < 1.0 && self.until_filled(capacity) >= 1.0;
        let filled = if is_filling { 1.0 } else { used };
        let objects = match value_bytes {
            Some(bytes) if bytes > 0.0 => filled / bytes,
            _ => held.objects as f64 / held.looks.max(1) as f64 / capacity_there,
        };
        Some(Resident { value_bytes, filled, objects })
    }

    /// Bytes of the smallest value, if the trace has sizes.
    pub(crate) fn smallest_bytes(&self) -> Option<f64> {
        self.object_bytes.iter().min().map(|bytes| bytes as f64)
    }

    /// The share of all bytes that a cell misses, if the unit is bytes.
    pub(crate) fn byte_miss_ratio(&self, cell: &Replayed) -> Option<f64> {
        (self.unit == Unit::Bytes).then(|| cell.outcome.byte_miss_ratio())
    }

    /// The prediction for a cell in a setting. Waits for the fetches of others are included only
    /// for the requested backend, because only those are known.
    pub(crate) fn predict(
        &self,
        forecast: &Forecast,
        setting: &Setting,
        cell: &Replayed,
    ) -> Result<Option<Predicted>, Failure> {
        let is_asked = setting.backend_us == forecast.setting.backend_us;
        let (hit_ratio, setting) = match cell.waiting.filter(|_| is_asked) {
            Some(Waiting { hit_ratio, a_miss_us }) => {
                (hit_ratio, Setting { backend_us: a_miss_us, ..*setting })
            }
            None => (1.0 - cell.measured.miss_ratio, *setting),
        };
        let entries = self.entries(cell.measured.capacity);
        let predicted = forecast.predict(&setting, &cell.spec, hit_ratio, &cell.raw, entries);
        Ok(predicted.context("the prediction of a cell")?)
    }

    /// Number of objects of the mean size that fit a capacity.
    fn entries(&self, capacity: u64) -> f64 {
        let objects = self.sample.up(self.loaded.trace.objects.len() as u64) as f64;
        match self.unit {
            Unit::Objects => capacity as f64,
            Unit::Bytes => capacity as f64 / self.everything.max(1) as f64 * objects,
        }
    }
}
