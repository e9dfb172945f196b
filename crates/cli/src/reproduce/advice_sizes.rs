//! The sizes that `frazil advise` recommends for traces, beside plots of the curves, to see whether
//! a reader of the curve would choose the same.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use frazil_simulator::trace::printable;
use serde_json::Value;

use super::Report;
use super::advice_cells::files;
use crate::draw::{self, Look, Panel, Series, lines};
use crate::failure::{Failure, note};
use crate::output::{self, Row, grouped, row};
use crate::progress::Progress;

/// Added to real traces: objects requested once need no cache.
const ONCE: &str = "loop:objects=20K:requests=20K";
/// Used without real traces.
const GENERATED: [&str; 3] = [
    "zipf:1.0:objects=20K:requests=200K:seed=1",
    "mix:objects=20K:requests=200K:seed=1",
    "loop:objects=2K:requests=50K",
];
/// Most objects replayed.
const SAMPLE: &str = "60K";
const QUICK_SAMPLE: &str = "2K";
const NAMES: [&str; 3] = ["frugal", "balanced", "ample"];
/// Plots side by side.
const COLUMNS: usize = 2;

/// The advice for one trace.
struct Advised {
    name: String,
    cells: Vec<Value>,
    recommendation: Value,
}

/// Runs `advise` on each trace of a folder, or on generated ones.
pub(super) fn run(quick: bool, folder: Option<&Path>) -> Result<Report, Failure> {
    let mut traces: Vec<(String, String)> = Vec::new();
    match folder {
        Some(folder) => {
            for file in files(folder)? {
                let within = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
                traces.push((printable(&within), file.display().to_string()));
            }
        }
        None => traces.extend(GENERATED.map(|spec| (spec.to_owned(), spec.to_owned()))),
    }
    traces.push((ONCE.to_owned(), ONCE.to_owned()));
    let progress = Progress::of_steps("asking for advice".to_owned(), traces.len() as u64);
    let mut all = Vec::new();
    for (name, spec) in traces {
        match ask(&name, &spec, if quick { QUICK_SAMPLE } else { SAMPLE }) {
            Ok(advised) => all.push(advised),
            Err(error) => note(&format!("left out: {error:#}")),
        }
        progress.advance(1);
    }
    let panels: Vec<Panel> = all.iter().map(panel).collect();
    let svg = draw::grid("Misses by size, and the sizes that are told", &panels, COLUMNS);
    Ok(Report {
        measurements: all.iter().map(measurement).collect(),
        expectations: Vec::new(),
        figures: vec![("advice-sizes.svg".to_owned(), svg)],
        summary: table(&all),
    })
}

fn ask(name: &str, spec: &str, sample: &str) -> anyhow::Result<Advised> {
    let program = std::env::current_exe().context("no path to this program")?;
    let mut command = Command::new(program);
    // Cores affect sizes only if policies tie; a fixed number gives the same result on all
    // machines.
    command.args(["advise", "--output", "json", "--cores", "2", "--sample", sample]);
    let output = command.args(["--trace", spec]).output().context("cannot start frazil advise")?;
    if !output.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().map(|line| Ok(serde_json::from_str(line)?));
    let mut cells = rows.collect::<anyhow::Result<Vec<Value>>>()?;
    let recommendation = cells.pop().with_context(|| format!("{name}: no recommendation"))?;
    Ok(Advised { name: name.to_owned(), cells, recommendation })
}

impl Advised {
    fn capacity(&self, name: &str) -> Option<u64> {
        self.recommendation["sizes"][name]["capacity"].as_u64()
    }

    /// Size, in percent of all objects.
    fn percent(&self, capacity: u64) -> f64 {
        capacity as f64 / self.everything().max(1) as f64 * 100.0
    }

    /// The largest size of the grid holds everything.
    fn everything(&self) -> u64 {
        self.cells.iter().filter_map(|cell| cell["capacity"].as_u64()).max().unwrap_or(0)
    }

    fn is_cliff(&self, capacity: u64) -> bool {
        self.recommendation["cliff"].as_u64() == Some(capacity)
    }

    /// The sizes of the advice, each once with its names.
    fn marks(&self) -> Vec<(f64, String)> {
        let mut marks: Vec<(u64, String)> = Vec::new();
        for name in NAMES {
            let Some(capacity) = self.capacity(name) else { continue };
            match marks.last_mut().filter(|last| last.0 == capacity) {
                Some(_) if self.is_cliff(capacity) => {}
                Some(last) => last.1 += &format!(", {name}"),
                None if self.is_cliff(capacity) => marks.push((capacity, "cliff".to_owned())),
                None => marks.push((capacity, name.to_owned())),
            }
        }
        marks.into_iter().map(|(capacity, name)| (self.percent(capacity), name)).collect()
    }

    /// By size, the fewest misses of any policy, and those of LRU.
    fn curves(&self) -> [Vec<(f64, f64)>; 2] {
        let (mut best, mut lru) = (Vec::new(), Vec::new());
        for of_size in self.cells.chunk_by(|one, other| one["capacity"] == other["capacity"]) {
            let Some(capacity) = of_size.first().and_then(|cell| cell["capacity"].as_u64()) else {
                continue;
            };
            let misses = |cell: &Value| cell["miss_ratio"].as_f64().map(|it| it * 100.0);
            let least = of_size.iter().filter_map(misses).fold(100.0, f64::min);
            best.push((self.percent(capacity), least));
            let of_lru = of_size.iter().find(|cell| cell["policy"] == "lru").and_then(misses);
            lru.extend(of_lru.map(|misses| (self.percent(capacity), misses)));
        }
        [best, lru]
    }
}

fn panel(advised: &Advised) -> Panel {
    let [best, lru] = advised.curves();
    let line = |name: &str, number, points| Series {
        name: name.to_owned(),
        look: Look { number, apart: number > 0 },
        points,
    };
    let series = vec![line("best", 0, best), line("lru", 1, lru)];
    let x = "size, % of all objects";
    let panel = lines(advised.name.clone(), x, "% missed", series);
    Panel { logarithmic_x: true, named_at_ends: true, marks: advised.marks(), ..panel }
}

fn measurement(advised: &Advised) -> Row {
    row! {
        "trace" => advised.name,
        "everything" => advised.everything(),
        "sizes" => advised.recommendation["sizes"].clone(),
        "cliff" => advised.recommendation["cliff"].clone(),
        "avoidable" => advised.recommendation["avoidable"].clone(),
        "cautions" => advised.recommendation["cautions"].clone(),
    }
}

/// Sizes with their share of everything, and the remaining misses.
fn table(all: &[Advised]) -> String {
    let size = |advised: &Advised, name: &str| {
        let Some(capacity) = advised.capacity(name) else {
            return ["none", "", ""].map(str::to_owned);
        };
        let misses = advised.recommendation["sizes"][name]["miss_ratio"].as_f64();
        let share = output::number(advised.percent(capacity), 1);
        let cliff = if advised.is_cliff(capacity) { " cliff" } else { "" };
        [
            format!("{}{cliff}", grouped(capacity)),
            format!("{share} %"),
            misses.map_or_else(String::new, |it| format!("{:.1} %", it * 100.0)),
        ]
    };
    let line = |advised: &Advised| {
        let mut line = vec![advised.name.clone()];
        line.extend(NAMES.iter().flat_map(|name| size(advised, name)));
        line
    };
    let headers = [
        "trace", "frugal", "of all", "missed", "balanced", "of all", "missed", "ample", "of all",
        "missed",
    ];
    output::table(&headers, &["trace"], all.iter().map(line).collect())
}
