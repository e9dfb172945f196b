//! Paper 4's figures 2, 5 and 7 to 13, by shape.
//!
//! The paper's traces are of 103 virtual disks, 14 disks and one CDN; part of one is available.
//! [`super::gl_cells`] has the traces used here, half a million records of each. Figures 1, 3 and 4
//! are drawings. Figure 6, of a prototype, and 14, which is 7 after another warm-up, are omitted.

use std::path::Path;

use frazil_policy::GroupLearning;
use frazil_simulator::feature_importance;

use super::Report;
use super::gl_cells::{Cell, Load, loads, replay, reuse_times, shuffled, spread, variation};
use super::gl_expectations as expectations;
use crate::draw::{self, Look, Panel, Series, lines};
use crate::failure::Failure;
use crate::output::{self, Row, row};
use crate::progress::Progress;

pub(super) const E: &str = "gl-cache";
pub(super) const T: &str = "gl-cache:mode=t";
/// The policies of figures 7, 8 and 13; the first is the baseline.
pub(super) const COMPARED: [&str; 9] =
    ["fifo", "lru", "lecar", "cacheus", "hyperbolic", "lhd", "lrb", T, E];
/// Figure 5: objects and groups, by an oracle.
pub(super) const ORACLES: [&str; 3] =
    ["belady-size", "gl-cache:utility=future:retention=future", "gl-cache:utility=future"];
/// Numbers of features of figure 9c.
pub(super) const SHOWN: [&str; 4] =
    ["gl-cache:features=1", "gl-cache:features=2", "gl-cache:features=3", E];
/// Figures 10 to 12: one parameter of E varies.
pub(super) const SEGMENTS: [&str; 5] = [
    "gl-cache:segment=1",
    "gl-cache:segment=20",
    E,
    "gl-cache:segment=200",
    "gl-cache:segment=800",
];
pub(super) const FRACTIONS: [&str; 4] =
    [E, "gl-cache:fraction=0.05", "gl-cache:fraction=0.2", "gl-cache:fraction=0.5"];
pub(super) const MERGES: [&str; 4] =
    [E, "gl-cache:merge=3", "gl-cache:merge=5", "gl-cache:merge=10"];
/// Small and large caches, in percent of the footprint.
pub(super) const PERCENTS: [f64; 2] = [1.0, 10.0];
/// Capacity for figures 9 to 12.
pub(super) const PERCENT: f64 = 10.0;
/// Objects in the groups of figure 2.
pub(super) const GROUPS: [usize; 5] = [10, 30, 100, 300, 1_000];

/// Figure 2 for one trace.
pub(super) struct Grouping {
    pub(super) trace: String,
    /// By [`GROUPS`].
    pub(super) by_write_time: Vec<f64>,
    pub(super) by_chance: Vec<f64>,
    /// Spread between groups of a hundred.
    pub(super) spread: f64,
}

impl Grouping {
    fn of(load: &Load) -> Self {
        let times = reuse_times(&load.trace);
        let by_chance = shuffled(&times);
        let varies = |times: &[f64]| GROUPS.map(|group| variation(times, group)).to_vec();
        Grouping {
            trace: load.name.clone(),
            by_write_time: varies(&times),
            by_chance: varies(&by_chance),
            spread: spread(&times, 100),
        }
    }
}

/// Figure 9a and 9b: a trace, and the share of each feature.
pub(super) struct Importance {
    pub(super) trace: String,
    pub(super) shares: [f64; GroupLearning::FEATURES.len()],
}

/// The results.
pub(super) struct Findings {
    pub(super) groupings: Vec<Grouping>,
    pub(super) importances: Vec<Importance>,
    pub(super) cells: Vec<Cell>,
}

impl Findings {
    pub(super) fn of(&self, figure: u32) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.figure == figure)
    }

    /// The mean over traces, at one size, of a policy in a figure.
    pub(super) fn mean(
        &self,
        (figure, policy, percent): (u32, &str, f64),
        value: impl Fn(&Cell) -> f64,
    ) -> f64 {
        let is_it = |cell: &&Cell| cell.policy == policy && cell.percent == percent;
        let values: Vec<f64> = self.of(figure).filter(is_it).map(value).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    }

    /// Speed of a policy relative to FIFO on the same trace, as the geometric mean over traces.
    pub(super) fn speed(&self, figure: u32, policy: &str, percent: f64) -> f64 {
        let fifo = |trace: &str| {
            let mut fifo = self.of(7).filter(|it| it.policy == COMPARED[0]);
            fifo.find(|it| it.trace == trace && it.percent == percent).map_or(1.0, Cell::speed)
        };
        let value = |cell: &Cell| (cell.speed() / fifo(&cell.trace)).ln();
        self.mean((figure, policy, percent), value).exp()
    }
}

/// Runs the experiment, with generated traces if there are no real ones.
pub(super) fn run(quick: bool, folder: Option<&Path>) -> Result<Report, Failure> {
    let loads = loads(quick, folder)?;
    let figures: [(u32, &[&str], &[f64]); 6] = [
        (7, &COMPARED, &PERCENTS),
        (5, &ORACLES, &PERCENTS),
        (9, &SHOWN, &[PERCENT]),
        (10, &SEGMENTS, &[PERCENT]),
        (11, &FRACTIONS, &[PERCENT]),
        (12, &MERGES, &[PERCENT]),
    ];
    let steps: usize =
        figures.iter().map(|(_, policies, sizes)| policies.len() * sizes.len()).sum();
    let progress = Progress::of_steps("cells".to_owned(), (steps * loads.len()) as u64);
    let mut findings = Findings { groupings: vec![], importances: vec![], cells: vec![] };
    for load in &loads {
        findings.groupings.push(Grouping::of(load));
        let capacity = load.capacity(PERCENT)?;
        let usual = GroupLearning::default();
        findings.importances.push(Importance {
            trace: load.name.clone(),
            shares: feature_importance(&load.trace, usual, capacity, load.unit),
        });
        for (figure, policies, percents) in figures {
            let done = |cells| progress.advance(cells);
            findings.cells.extend(replay(figure, load, policies, percents, &done)?);
        }
    }
    Ok(report(&findings))
}

fn report(findings: &Findings) -> Report {
    let mut measurements: Vec<Row> = findings.cells.iter().map(Cell::row).collect();
    measurements.extend(findings.groupings.iter().map(grouping_row));
    measurements.extend(findings.importances.iter().map(importance_row));
    let summary = [
        grouping_table(findings),
        hit_table(findings),
        oracle_table(findings),
        speed_table(findings),
        importance_table(findings),
        parameter_table(findings),
    ];
    Report {
        measurements,
        expectations: expectations::all(findings),
        figures: vec![
            ("gl-cache-figure-2.svg".to_owned(), figure_2(findings)),
            ("gl-cache-figure-7.svg".to_owned(), figure_7(findings)),
            ("gl-cache-figure-13.svg".to_owned(), figure_13(findings)),
        ],
        summary: summary.join("\n"),
    }
}

fn grouping_row(grouping: &Grouping) -> Row {
    row! {
        "kind" => "grouping",
        "figure" => 2,
        "trace" => grouping.trace,
        "objects" => GROUPS,
        "variation_by_write_time" => grouping.by_write_time,
        "variation_by_chance" => grouping.by_chance,
        "spread" => grouping.spread,
    }
}

fn importance_row(importance: &Importance) -> Row {
    row! {
        "kind" => "importance",
        "figure" => 9,
        "trace" => importance.trace,
        "features" => GroupLearning::FEATURES,
        "shares" => importance.shares,
    }
}

fn grouping_table(findings: &Findings) -> String {
    let rows = findings.groupings.iter().map(|grouping| {
        let pairs = grouping.by_write_time.iter().zip(&grouping.by_chance);
        let mut line = vec![grouping.trace.clone()];
        line.extend(pairs.map(|(write, chance)| format!("{write:.2} {chance:.2}")));
        line.push(format!("{:.1}", grouping.spread));
        line
    });
    let sizes: Vec<String> = GROUPS.iter().map(|group| format!("of {group}")).collect();
    let mut headers = vec!["trace"];
    headers.extend(sizes.iter().map(String::as_str));
    headers.push("between");
    format!(
        "Figure 2: how much times between requests vary within groups, by write time and by chance;\n\
         and between groups of 100, nine tenths over one tenth\n\n{}",
        output::table(&headers, &["trace"], rows.collect())
    )
}

/// A table of traces and sizes, a column for each policy.
fn by_policy(
    findings: &Findings,
    title: &str,
    columns: &[(u32, &str)],
    show: impl Fn(&Cell) -> String,
) -> String {
    let (first_figure, first) = columns[0];
    let rows = findings.of(first_figure).filter(|cell| cell.policy == first).map(|cell| {
        let mut line = vec![cell.trace.clone(), format!("{} %", cell.percent)];
        for &(figure, policy) in columns {
            let mut same = findings.of(figure).filter(|it| it.policy == policy);
            let found = same.find(|it| it.trace == cell.trace && it.percent == cell.percent);
            line.push(found.map_or("-".to_owned(), &show));
        }
        line
    });
    let names = columns.iter().map(|&(_, policy)| policy);
    let headers: Vec<&str> = ["trace", "cache"].into_iter().chain(names).collect();
    format!("{title}\n\n{}", output::table(&headers, &["trace"], rows.collect()))
}

fn hit_table(findings: &Findings) -> String {
    let columns = COMPARED.map(|policy| (7, policy));
    let show = |cell: &Cell| format!("{:.4}", cell.hit_ratio());
    by_policy(findings, "Figure 7: hit ratios", &columns, show)
}

fn oracle_table(findings: &Findings) -> String {
    let columns: Vec<(u32, &str)> =
        [(7, "fifo"), (7, E)].into_iter().chain(ORACLES.map(|policy| (5, policy))).collect();
    let show = |cell: &Cell| format!("{:.4}", cell.hit_ratio());
    by_policy(findings, "Figure 5: hit ratios of oracles", &columns, show)
}

fn speed_table(findings: &Findings) -> String {
    let columns = COMPARED.map(|policy| (7, policy));
    let show = |cell: &Cell| format!("{:.3}", cell.speed());
    by_policy(findings, "Figure 8: million requests a second", &columns, show)
}

fn importance_table(findings: &Findings) -> String {
    let rows = findings.importances.iter().map(|importance| {
        let mut line = vec![importance.trace.clone()];
        line.extend(importance.shares.iter().map(|share| format!("{share:.2}")));
        line
    });
    let headers: Vec<&str> = ["trace"].into_iter().chain(GroupLearning::FEATURES).collect();
    format!(
        "Figure 9a and 9b: how much each feature's comparisons gained\n\n{}",
        output::table(&headers, &["trace"], rows.collect())
    )
}

fn parameter_table(findings: &Findings) -> String {
    let figures: [(u32, &[&str]); 4] =
        [(9, &SHOWN), (10, &SEGMENTS), (11, &FRACTIONS), (12, &MERGES)];
    let row = |figure: u32, policy: &str| {
        let hits = findings.mean((figure, policy, PERCENT), Cell::hit_ratio);
        let speed = findings.speed(figure, policy, PERCENT);
        vec![figure.to_string(), policy.to_owned(), format!("{hits:.4}"), format!("{speed:.3}")]
    };
    let rows = figures
        .iter()
        .flat_map(|&(figure, policies)| policies.iter().map(move |&policy| row(figure, policy)));
    format!(
        "Figures 9c and 10 to 12: means over all traces at {PERCENT} %, and speeds over FIFO's\n\n{}",
        output::table(&["figure", "policy", "hit ratio", "speed"], &["policy"], rows.collect())
    )
}

fn series(number: usize, name: &str, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), look: Look { number, apart: false }, points }
}

fn figure_2(findings: &Findings) -> String {
    let panel = |grouping: &Grouping| {
        let points = |values: &[f64]| {
            GROUPS.iter().zip(values).map(|(&group, &it)| ((group as f64).log10(), it)).collect()
        };
        let both = vec![
            series(0, "by write time", points(&grouping.by_write_time)),
            series(1, "by chance", points(&grouping.by_chance)),
        ];
        lines(&grouping.trace, "objects in a group, powers of ten", "deviation over mean", both)
    };
    let panels: Vec<Panel> = findings.groupings.iter().map(panel).collect();
    draw::grid("Times between requests vary within groups (figure 2)", &panels, 3)
}

fn figure_7(findings: &Findings) -> String {
    let of = |(number, &policy): (usize, &&str)| {
        let hits = |percent: f64, name: &str| findings.mean((7, name, percent), Cell::hit_ratio);
        let gain = |percent: f64| 100.0 * (hits(percent, policy) / hits(percent, "fifo") - 1.0);
        let points = PERCENTS.map(|percent| (percent.log10(), gain(percent)));
        series(number, policy, points.to_vec())
    };
    let all = COMPARED[1..].iter().enumerate().map(of).collect();
    let x = "cache size, powers of ten, % of the footprint";
    let panel = lines("", x, "% more hits than FIFO, mean of all traces", all);
    draw::figure("Hits beside FIFO (figure 7)", &[panel])
}

fn figure_13(findings: &Findings) -> String {
    let panel = |percent: f64| {
        let of = |(number, &policy): (usize, &&str)| {
            let speed = findings.speed(7, policy, percent).log10();
            let hits = findings.mean((7, policy, percent), Cell::hit_ratio);
            series(number, policy, vec![(speed, hits)])
        };
        let all = COMPARED.iter().enumerate().map(of).collect();
        lines(format!("{percent} %"), "speed over FIFO's, powers of ten", "hit ratio", all)
    };
    draw::figure("Speed and hits (figures 8 and 13)", &PERCENTS.map(panel))
}
