//! Paper 5's figures 14 and 16 to 21, by shape, and a survey of all delayed-hit policies.
//!
//! Everything here is counted, not timed, and the same in every run. None of the paper's four
//! traces is available; [`super::delayed_cells`] has the traces used here, a million records of
//! each, with the durations of fetches in requests. Figure 14 is simulated here; the paper's is of
//! a prototype, and so is figure 15, which is omitted.

use std::path::Path;

use super::Report;
use super::delayed_cells::{Ask, BOUND, Cell, Gain, bound, gains, loads};
use super::delayed_expectations::{self as expectations, Findings};
use crate::draw::{self, Look, Panel, Series, lines};
use crate::failure::Failure;
use crate::output::{self, Row, percent, row};
use crate::progress::Progress;

/// Bases, and MAD over them.
pub(super) const PAIRS: [(&str, &str); 3] =
    [("lru", "mad"), ("arc", "mad:base=arc"), ("lhd", "mad:base=lhd")];
/// The policies of the survey; the first is the baseline.
pub(super) const SURVEYED: [&str; 14] = [
    "lru",
    "mad",
    "mad:windows=ended:prior=1",
    "mad:base=arc:windows=all:prior=0",
    "mad:base=arc",
    "mad:base=arc:idle-since=commit",
    "mad:base=lhd",
    "mad:base=lhd:windows=ended:prior=1",
    "guarded-mad",
    "la-cache",
    "delay-rank",
    "s3-fifo",
    GROUPS,
    GROUPS_BY_DELAY,
];
/// Learns groups by the gain, and by the waits saved.
pub(super) const GROUPS: &str = "gl-cache";
pub(super) const GROUPS_BY_DELAY: &str = "gl-cache:aim=delay";
/// Our policy, which should beat MAD.
pub(super) const OURS: &str = "guarded-mad";
/// Figure 14's policies, the second as in the paper's prototype.
const PROTOTYPE: [&str; 3] = ["lru", "mad:ways=64", OURS];
/// The policies in the figure of the gap to the best schedule, beside the bound.
const OFFLINE: [&str; 5] = ["lru", "mad", OURS, "belady", "belady-mad"];
/// Origins A, B and C, at 1 µs a request, and a third of the objects on each.
const ORIGINS: [&[u64]; 4] = [&[68_000], &[103_000], &[226_000], &[68_000, 103_000, 226_000]];
const FETCHES: [&[u64]; 7] = [&[1], &[10], &[100], &[1_000], &[10_000], &[100_000], &[1_000_000]];
const SURVEY_FETCHES: [&[u64]; 5] = [&[10], &[100], &[1_000], &[10_000], &[100_000]];
const SURVEY_PERCENTS: [f64; 3] = [0.1, 1.0, 10.0];
const SIZES: [f64; 5] = [0.1, 0.3, 1.0, 3.0, 10.0];
/// Capacity for figures 14 and 16 to 18, as in the paper.
const PERCENT: f64 = 5.0;
/// Capacity for the gap.
const GAP_PERCENT: f64 = 10.0;
/// Most traces in figures 16 to 19 and 21.
const SHOWN: usize = 4;
/// Least requests of an object in figure 20.
const OFTEN: usize = 10;

/// The results, cell by cell.
pub(super) struct Cells(pub(super) Vec<Cell>);

impl Cells {
    pub(super) fn of<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.0.iter().filter(move |cell| cell.figure == figure)
    }

    /// The same trace, size and fetch, of another policy.
    pub(super) fn beside(&self, cell: &Cell, policy: &str) -> Option<&Cell> {
        self.of(cell.figure).find(|other| {
            other.policy == policy
                && (other.trace == cell.trace && other.fetch == cell.fetch)
                && other.percent == cell.percent
        })
    }

    /// The reduction of the latency relative to another policy.
    pub(super) fn gain(&self, cell: &Cell, than: &str) -> Option<f64> {
        let other = self.beside(cell, than)?.latency();
        (other > 0.0).then(|| 1.0 - cell.latency() / other)
    }
}

/// Runs the experiment, with generated traces if there are no real ones.
pub(super) fn run(quick: bool, folder: Option<&Path>) -> Result<Report, Failure> {
    let loads = loads(quick, folder)?;
    let shown = &loads[..SHOWN.min(loads.len())];
    let pairs: Vec<&str> = PAIRS.iter().flat_map(|&(base, mad)| [base, mad]).collect();
    let last = loads.len() - 1;
    let ask = |figure, load, policies, percents, fetches| Ask {
        figure,
        load,
        policies,
        percents,
        fetches,
    };
    let mut asks = vec![ask("14", &loads[0], &PROTOTYPE[..], &[PERCENT][..], &ORIGINS[..])];
    for load in shown {
        asks.push(ask("16", load, &pairs, &[PERCENT], &FETCHES));
        asks.push(ask("19", load, &PROTOTYPE[..], &SIZES, &[&[100_000]]));
    }
    // The authors' trace is short enough for slow offline policies.
    asks.push(ask("gap", &loads[last], &OFFLINE, &[GAP_PERCENT], &FETCHES[..4]));
    let surveyed = if last > 0 && folder.is_some() { &loads[..last] } else { &loads[..] };
    for load in surveyed {
        asks.push(ask("survey", load, &SURVEYED, &SURVEY_PERCENTS, &SURVEY_FETCHES));
    }
    let total: usize =
        asks.iter().map(|ask| ask.policies.len() * ask.percents.len() * ask.fetches.len()).sum();
    let progress = Progress::of_steps("cells".to_owned(), total as u64);
    let mut cells = Vec::new();
    for ask in &asks {
        cells.extend(ask.replay(&|done| progress.advance(done as u64))?);
    }
    if loads[last].trace.len() <= frazil_offline::MOST_REQUESTS {
        cells.extend(bound("gap", &loads[last], GAP_PERCENT, &FETCHES[..4].concat())?);
    }
    let gains = gains(&loads[0], PERCENT, 10_000, OFTEN)?;
    Ok(report(&Findings { cells: Cells(cells), gains }))
}

fn report(findings: &Findings) -> Report {
    let cells = &findings.cells;
    let gain_row = |gain: &Gain| {
        row! {
            "kind" => "object",
            "figure" => "20",
            "burstiness" => gain.burstiness,
            "saved" => gain.saved,
            "waited" => gain.waited,
        }
    };
    let mut measurements: Vec<Row> = cells.0.iter().map(Cell::row).collect();
    measurements.extend(findings.gains.iter().map(gain_row));
    let figures = vec![
        ("delayed-hits-figure-16.svg".to_owned(), figure_16(cells)),
        ("delayed-hits-figure-19.svg".to_owned(), figure_19(cells)),
        ("delayed-hits-figure-20.svg".to_owned(), figure_20(findings)),
        ("delayed-hits-figure-21.svg".to_owned(), figure_21(cells)),
        ("delayed-hits-gap.svg".to_owned(), figure_gap(cells)),
    ];
    let summary = [
        latencies(cells, "14", "Figure 14: mean latency, in requests", &PROTOTYPE),
        pair_table(cells),
        gain_table(cells),
        burst_table(findings),
        latencies(cells, "gap", "The authors' trace, 10 % of the peak: mean latency", &OFFLINE),
        survey_table(cells),
        expectations::survey_summary(cells),
    ];
    Report {
        measurements,
        expectations: expectations::all(findings),
        figures,
        summary: summary.join("\n"),
    }
}

/// The traces of a figure, each once.
pub(super) fn traces<'a>(cells: &'a Cells, figure: &'a str) -> Vec<&'a str> {
    let mut names: Vec<&str> = cells.of(figure).map(|cell| cell.trace.as_str()).collect();
    names.dedup();
    names
}

/// A panel for each trace, a line for each policy.
fn panels(
    cells: &Cells,
    figure: &str,
    (x, y): (&str, &str),
    policies: &[(&str, &str)],
    point: impl Fn(&Cell, &str) -> Option<(f64, f64)>,
) -> Vec<Panel> {
    let panel = |trace: &str| {
        let series = policies.iter().enumerate().map(|(number, &(than, policy))| Series {
            name: policy.to_owned(),
            look: Look { number, apart: false },
            points: cells
                .of(figure)
                .filter(|cell| cell.trace == trace && cell.policy == policy)
                .filter_map(|cell| point(cell, than))
                .collect(),
        });
        lines(trace, x, y, series.collect())
    };
    traces(cells, figure).into_iter().map(panel).collect()
}

const POWERS: &str = "length of a fetch, powers of ten, requests";

fn figure_16(cells: &Cells) -> String {
    let gain = |cell: &Cell, than: &str| {
        Some(((cell.fetch as f64).log10(), 100.0 * cells.gain(cell, than)?))
    };
    let panels = panels(cells, "16", (POWERS, "% less latency than its base"), &PAIRS, gain);
    draw::figure("MAD over its bases, by the length of fetches (figures 16 to 18)", &panels)
}

fn figure_19(cells: &Cells) -> String {
    let policies = PROTOTYPE[1..].iter().map(|&policy| ("lru", policy)).collect::<Vec<_>>();
    let gain =
        |cell: &Cell, than: &str| Some((cell.percent.log10(), 100.0 * cells.gain(cell, than)?));
    let x = "cache size, powers of ten, % of the peak";
    let panels = panels(cells, "19", (x, "% less latency than LRU"), &policies, gain);
    draw::figure("By cache size, fetches of 100,000 requests (figure 19)", &panels)
}

fn figure_20(findings: &Findings) -> String {
    let points = findings.thirds(10);
    let series = Series {
        name: "objects by burstiness, a tenth each".to_owned(),
        look: Look { number: 0, apart: false },
        points: points.iter().map(|&(burstiness, gain)| (burstiness, 100.0 * gain)).collect(),
    };
    let panel = lines("", "burstiness (Goh and Barabási)", "% less latency", vec![series]);
    draw::figure("Which objects gain (figure 20)", &[panel])
}

fn figure_21(cells: &Cells) -> String {
    let change = |cell: &Cell, than: &str| {
        let base = cells.beside(cell, than)?.outcome.miss_ratio();
        let change = 100.0 * (cell.outcome.miss_ratio() / base - 1.0);
        Some(((cell.fetch as f64).log10(), change))
    };
    let panels = panels(cells, "16", (POWERS, "% more misses than its base"), &PAIRS, change);
    draw::figure("Misses of MAD over its bases (figure 21)", &panels)
}

fn figure_gap(cells: &Cells) -> String {
    let policies: Vec<(&str, &str)> =
        OFFLINE.into_iter().chain([BOUND]).map(|policy| ("belady", policy)).collect();
    let gain = |cell: &Cell, than: &str| {
        Some(((cell.fetch as f64).log10(), 100.0 * cells.gain(cell, than)?))
    };
    let panels = panels(cells, "gap", (POWERS, "% less latency than Belady"), &policies, gain);
    draw::figure("What knowing the future gains", &panels)
}

/// Mean latencies, a column for each policy.
fn latencies(cells: &Cells, figure: &str, title: &str, policies: &[&str]) -> String {
    let known: Vec<&str> = policies.iter().copied().chain([BOUND]).collect();
    let there = |name: &&str| cells.of(figure).any(|cell| cell.policy == **name);
    let columns: Vec<&str> = known.into_iter().filter(|name| there(name)).collect();
    let headers: Vec<&str> = ["trace", "fetch"].into_iter().chain(columns.clone()).collect();
    let first = |cell: &&Cell| cell.policy == policies[0];
    let rows = cells.of(figure).filter(first).map(|cell| {
        let latency = |name: &&str| {
            cells.beside(cell, name).map_or(String::new(), |it| format!("{:.1}", it.latency()))
        };
        let mut line = vec![cell.trace.clone(), output::grouped(cell.fetch)];
        line.extend(columns.iter().map(latency));
        line
    });
    format!("{title}\n\n{}", output::table(&headers, &["trace"], rows.collect()))
}

fn pair_table(cells: &Cells) -> String {
    let rows = cells.of("16").filter(|cell| cell.policy == "lru").map(|cell| {
        let mut line = vec![cell.trace.clone(), output::grouped(cell.fetch)];
        for (base, mad) in PAIRS {
            let Some(mad) = cells.beside(cell, mad) else { continue };
            let Some(base_cell) = cells.beside(cell, base) else { continue };
            let misses = mad.outcome.miss_ratio() / base_cell.outcome.miss_ratio() - 1.0;
            line.push(percent(cells.gain(mad, base).unwrap_or_default()));
            line.push(percent(misses));
        }
        line
    });
    let headers = ["trace", "fetch", "LRU-MAD", "misses", "ARC-MAD", "misses", "LHD-MAD", "misses"];
    format!(
        "Figures 16 to 18 and 21: less latency, and more misses, than the base; 5 % of the peak\n\n{}",
        output::table(&headers, &["trace"], rows.collect())
    )
}

fn gain_table(cells: &Cells) -> String {
    let rows = cells.of("19").filter(|cell| cell.policy == "lru").map(|cell| {
        let mut line = vec![cell.trace.clone(), format!("{} %", cell.percent)];
        for policy in &PROTOTYPE[1..] {
            let gain = cells.beside(cell, policy).and_then(|it| cells.gain(it, "lru"));
            line.push(percent(gain.unwrap_or_default()));
        }
        line
    });
    let headers = ["trace", "cache", PROTOTYPE[1], PROTOTYPE[2]];
    format!(
        "Figure 19: less latency than LRU, fetches of 100,000 requests\n\n{}",
        output::table(&headers, &["trace"], rows.collect())
    )
}

fn burst_table(findings: &Findings) -> String {
    let rows = findings
        .thirds(10)
        .into_iter()
        .map(|(burstiness, gain)| vec![format!("{burstiness:.2}"), percent(gain)]);
    format!(
        "Figure 20: objects asked for at least {OFTEN} times, by burstiness, a tenth each\n\n{}",
        output::table(&["burstiness", "less latency"], &[], rows.collect())
    )
}

/// Every cell, losses included.
fn survey_table(cells: &Cells) -> String {
    let rows = cells.of("survey").filter(|cell| cell.policy == SURVEYED[0]).map(|cell| {
        let ratio = |policy: &&str| {
            let gain = cells.beside(cell, policy).and_then(|it| cells.gain(it, SURVEYED[0]));
            gain.map_or("-".to_owned(), |gain| format!("{:.4}", 1.0 - gain))
        };
        let mut line = vec![
            cell.trace.clone(),
            output::grouped(cell.fetch),
            format!("{} %", cell.percent),
            format!("{:.1}", cell.latency()),
        ];
        line.extend(SURVEYED[1..].iter().map(ratio));
        line
    });
    let headers: Vec<&str> = ["trace", "fetch", "cache", "lru waits"]
        .into_iter()
        .chain(SURVEYED[1..].iter().copied())
        .collect();
    format!(
        "The survey: mean latency over LRU's, every cell\n\n{}",
        output::table(&headers, &["trace"], rows.collect())
    )
}
