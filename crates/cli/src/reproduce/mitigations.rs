//! Remedies if hits are too many for their lock: requests that bypass the cache, hits that do not
//! promote (paper 1, §5.2), and frozen entries (paper 2). Predicted by the model, and measured.
//!
//! Paper 1 names the first two in a sentence each and measures neither; paper 2 has no model.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use frazil_driver::{Backend, Mix, Ours, Schedule, Setup, Stream, Workload, one_pass};
use frazil_queueing::{
    Conditions, ModelError, Profile, best_bypass, bypass, skip_promotions, solve,
};

use super::{Expectation, Report, calibrated};
use crate::calibrate::measure::Tally;
use crate::failure::Failure;
use crate::median::median;
use crate::output::{self, Row, row};
use crate::progress::Progress;

/// Requests in flight: enough that the backend is no bottleneck.
const MPL: usize = 64;
const ALPHA: f64 = 0.9;
/// Entries of the cache, relative to the keys: all fit, or nine of ten requests hit.
const CAPACITIES: [f64; 2] = [1.1, 0.59];
const BACKENDS_US: [f64; 2] = [5.0, 100.0];

/// The mitigation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    /// This share of the requests goes to the backend.
    Bypass(f64),
    /// This share of the hits promotes nothing: probabilistic LRU.
    Skip(f64),
    /// Requests that the lock cannot serve go to the backend; the model does not predict their
    /// number.
    Adaptive,
    /// This share of the entries is frozen.
    Freeze(f64),
}

const REMEDIES: [Remedy; 11] = [
    Remedy::Bypass(0.0),
    Remedy::Bypass(0.05),
    Remedy::Bypass(0.2),
    Remedy::Bypass(0.5),
    Remedy::Skip(0.5),
    Remedy::Skip(0.9),
    Remedy::Skip(0.99),
    Remedy::Adaptive,
    Remedy::Freeze(0.1),
    Remedy::Freeze(0.5),
    Remedy::Freeze(0.9),
];

impl Remedy {
    fn name(self) -> String {
        match self {
            Remedy::Bypass(0.0) => "none".to_owned(),
            Remedy::Bypass(share) => format!("bypass {share}"),
            Remedy::Skip(share) => format!("skip {share}"),
            Remedy::Adaptive => "adaptive".to_owned(),
            Remedy::Freeze(share) => format!("frozen {share}"),
        }
    }

    fn setup(self) -> Result<Setup, Failure> {
        let name = match self {
            Remedy::Bypass(_) => "lru".to_owned(),
            Remedy::Skip(share) => format!("lru-prob:q={share}"),
            Remedy::Adaptive => "adaptive+lru".to_owned(),
            Remedy::Freeze(share) => format!("frozen:share={share}+lru"),
        };
        name.parse().map_err(Failure::usage)
    }

    /// The model's LRU with this mitigation under given conditions; for freezing it gets the frozen
    /// hits' share of the hits.
    fn predict(
        self,
        profile: &Profile,
        conditions: &Conditions,
        frozen_hits: f64,
    ) -> Result<Option<f64>, ModelError> {
        let mut conditions = conditions.clone();
        if let Remedy::Freeze(_) = self {
            conditions.frozen_hits = Some(frozen_hits);
        }
        let network = profile.network_under("lru", &conditions)?;
        let network = match self {
            Remedy::Bypass(share) => bypass(&network, share)?,
            Remedy::Skip(share) => skip_promotions(&network, share)?,
            Remedy::Freeze(_) => network,
            Remedy::Adaptive => return Ok(None),
        };
        Ok(Some(solve(&network, MPL)?.throughput_mops))
    }
}

struct Cell {
    capacity: u64,
    backend_us: f64,
    remedy: Remedy,
    predicted: Option<f64>,
    measured: Vec<f64>,
    hit_ratios: Vec<f64>,
    /// Frozen hits, as a share of all hits.
    frozen_shares: Vec<f64>,
    /// Runs that count although they were disturbed.
    disturbed: usize,
}

impl Cell {
    fn mops(&self) -> f64 {
        median(&self.measured)
    }

    fn row(&self, threads: usize) -> Row {
        row! {
            "remedy" => self.remedy.name(),
            "capacity" => self.capacity,
            "hit_ratio" => median(&self.hit_ratios),
            "frozen_share_of_hits" => median(&self.frozen_shares),
            "threads" => threads,
            "backend_us" => self.backend_us,
            "mpl" => MPL,
            "predicted_mops" => self.predicted,
            "measured_mops" => self.mops(),
            "measured_mops_each" => self.measured,
            "disturbed" => self.disturbed,
        }
    }
}

pub(super) fn run(quick: bool, folder: &Path) -> Result<Report, Failure> {
    let (keys, requests, rounds, millis) =
        if quick { (20_000, 100_000, 1, 5) } else { (200_000, 2_000_000, 5, 80) };
    let threads = frazil_driver::cores().min(8);
    let (seconds, grounds) =
        if quick { (1.0, &[1_000, 10_000][..]) } else { (40.0, &[10_000, 100_000, 300_000][..]) };
    let place = (folder, "mitigations-machine.toml");
    let (profile, tally, mut summary) = calibrated(&["lru"], grounds, seconds, place)?;
    let mut tally = Tally::new(tally.distance);
    let streams = Workload::Zipf { alpha: ALPHA }
        .streams(keys, requests * threads, threads)
        .map_err(Failure::usage)?;
    let run = Duration::from_millis(millis);
    let schedule = Schedule { warmup: run / 4, measured: run, slices: 1 };
    let mut cells = Vec::new();
    for share in CAPACITIES {
        for backend_us in BACKENDS_US {
            let capacity = (keys as f64 * share) as u64;
            let cell = |remedy| {
                let [measured, hit_ratios, frozen_shares] = Default::default();
                let (predicted, disturbed) = (None, 0);
                Cell {
                    capacity,
                    backend_us,
                    remedy,
                    predicted,
                    measured,
                    hit_ratios,
                    frozen_shares,
                    disturbed,
                }
            };
            cells.extend(REMEDIES.map(cell));
        }
    }
    let progress = Progress::of_steps("measuring".to_owned(), (rounds * cells.len()) as u64);
    for _ in 0..rounds {
        for cell in &mut cells {
            measure(cell, keys, &streams, &schedule, &mut tally)?;
            progress.advance(1);
        }
    }
    let mut best = Vec::new();
    for cells in cells.chunks_mut(REMEDIES.len()) {
        best.push(predict(cells, &profile, threads)?);
    }
    if let Some(look) = profile.think.get(Profile::FROZEN_HIT) {
        let look_us = look.mean_us.at(keys as f64).first().copied().unwrap_or_default();
        summary += &format!("a look among what is frozen takes {:.1} ns\n", look_us * 1e3);
    }
    summary += &format!(
        "{} of {} runs disturbed every time they were tried\n",
        tally.disturbed, tally.runs
    );
    let mut report = report(&cells, &best, threads);
    report.summary += &format!("\n{summary}");
    Ok(report)
}

fn measure(
    cell: &mut Cell,
    keys: u64,
    streams: &[Stream],
    schedule: &Schedule,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let ours = Ours::<u64>::new(cell.remedy.setup()?, cell.capacity, 0);
    let all = Mix { resident: keys as u32, newcomers: 0.0, again: 0 };
    all.preload(&ours).map_err(Failure::usage)?;
    let latency = Duration::from_secs_f64(cell.backend_us * 1e-6);
    let mut backend = Backend::new(latency, MPL);
    if let Remedy::Bypass(share) = cell.remedy {
        backend.bypass = share;
    }
    let before = tally.disturbed;
    let timed = tally.least_disturbed(schedule, streams.len(), || {
        frazil_driver::run_with_backend(&ours, streams, cell.capacity / 4, schedule, backend)
    });
    cell.measured.push(streams.len() as f64 / timed.us);
    cell.hit_ratios.push(timed.hit_ratio);
    let before_pass = ours.cache().stats();
    one_pass(&ours, &streams[0]);
    let after = ours.cache().stats();
    let hits = (after.hits - before_pass.hits).max(1);
    let frozen = after.frozen_hits - before_pass.frozen_hits;
    cell.frozen_shares.push(frozen as f64 / hits as f64);
    cell.disturbed += usize::from(tally.disturbed > before);
    Ok(())
}

/// Predicts the cells of one point, which differ in the mitigation, at the hit ratio measured
/// without mitigation; and returns the best bypass.
fn predict(cells: &mut [Cell], profile: &Profile, threads: usize) -> Result<f64, Failure> {
    let Some(first) = cells.first() else { return Ok(0.0) };
    let mut conditions = Conditions::new(median(&first.hit_ratios), first.backend_us);
    conditions.capacity = first.capacity as f64;
    conditions.cores = Some(threads);
    let predict = || {
        for cell in cells {
            let frozen_hits = median(&cell.frozen_shares);
            cell.predicted = cell.remedy.predict(profile, &conditions, frozen_hits)?;
        }
        best_bypass(&profile.network_under("lru", &conditions)?, MPL)
    };
    Ok(predict().map_err(|error: ModelError| anyhow!(error))?.share)
}

fn report(cells: &[Cell], best: &[f64], threads: usize) -> Report {
    let mut rows = Vec::new();
    let mut expectations = Vec::new();
    for (cells, best) in cells.chunks(REMEDIES.len()).zip(best) {
        let [none, ..] = cells else { continue };
        for cell in cells {
            let gain = |mops: f64, none: f64| format!("{mops:.2} ({:.2})", mops / none.max(1e-9));
            let predicted = cell.predicted.zip(none.predicted);
            rows.push(vec![
                cell.remedy.name(),
                format!("{} us", cell.backend_us),
                format!("{:.3}", median(&cell.hit_ratios)),
                predicted.map_or("-".to_owned(), |(mops, none)| gain(mops, none)),
                gain(cell.mops(), none.mops()),
            ]);
        }
        let skipped = cells.iter().filter(|it| matches!(it.remedy, Remedy::Skip(_)));
        let most = skipped.map(Cell::mops).fold(0.0, f64::max) / none.mops().max(1e-9);
        let bypassed = cells.iter().filter(|it| matches!(it.remedy, Remedy::Bypass(_)));
        let sent = bypassed.map(Cell::mops).fold(0.0, f64::max) / none.mops().max(1e-9);
        let place = format!("{} us, {:.2} hits", none.backend_us, median(&none.hit_ratios));
        for cell in cells.iter().filter(|it| matches!(it.remedy, Remedy::Freeze(_))) {
            let error =
                cell.predicted.map_or(1.0, |mops| (mops / cell.mops().max(1e-9) - 1.0).abs());
            expectations.push(Expectation {
                figure: 3,
                expected: format!("{} at {place} is foretold to a quarter", cell.remedy.name()),
                seen: format!(
                    "off by {:.1} %; {:.1} % of the hits are frozen",
                    error * 100.0,
                    median(&cell.frozen_shares) * 100.0
                ),
                met: error <= 0.25,
            });
        }
        expectations.push(Expectation {
            figure: 3,
            expected: format!("leaving promotions out buys more than a bypass at {place}"),
            seen: format!("{most:.2} and {sent:.2} times; the model's best bypass is {best:.2}"),
            met: most > sent,
        });
    }
    let headers = ["what is done", "backend", "hits", "foretold (times)", "measured (times)"];
    let table = output::table(&headers, &["what is done"], rows);
    Report {
        measurements: cells.iter().map(|cell| cell.row(threads)).collect(),
        expectations,
        figures: Vec::new(),
        summary: format!("LRU, {threads} threads, M requests/s, {MPL} in flight\n\n{table}"),
    }
}
