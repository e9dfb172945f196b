//! The advice as charts in files: what the report shows, to put into a document.

use std::path::Path;

use anyhow::Context;
use frazil_simulator::{UpToSize, WorkingSet};

use super::Advice;
use super::case::{Case, Replayed};
use super::told::{Named, named};
use crate::draw::{self, Look, Panel, Series, lines};
use crate::failure::{Failure, note};

/// Writes them into a folder, which is made if need be: for each trace what each policy does at
/// each size, and what the workload is like.
pub(super) fn write(advice: &Advice<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (number, case) in advice.cases.iter().enumerate() {
        let of_several =
            if advice.cases.len() > 1 { format!("-{}", number + 1) } else { String::new() };
        for (name, svg) in [("size", over_size(advice, case)), ("workload", workload(case))] {
            let file = folder.join(format!("advise-{name}{of_several}.svg"));
            std::fs::write(&file, svg).with_context(|| file.display().to_string())?;
            note(&format!("wrote {}", file.display()));
        }
    }
    Ok(())
}

/// Miss ratio, throughput and latency of each policy.
fn over_size(advice: &Advice<'_>, case: &Case<'_>) -> String {
    let x = format!("capacity, % of all {}", advice.unit);
    let place =
        |cell: &Replayed| cell.measured.capacity as f64 / case.everything.max(1) as f64 * 100.0;
    let panel = |title: &str, y: &str, value: fn(&Replayed) -> Option<f64>| {
        let series = advice.policies.iter().enumerate().map(|(policy, name)| {
            let cells = case.cells.iter().filter(|cell| cell.measured.policy == policy);
            Series {
                name: name.to_string(),
                look: Look { number: policy, apart: policy >= 10 },
                points: cells.filter_map(|cell| Some((place(cell), value(cell)?))).collect(),
            }
        });
        let mut series: Vec<Series> = series.collect();
        let logarithmic = is_wide(&series);
        series.extend(marks(advice, case, &series));
        Panel { logarithmic_x: true, logarithmic, ..lines(title, &x, y, series) }
    };
    let predicted = |cell: &Replayed| Some(cell.predicted.as_ref()?.response_us);
    let panels = [
        panel("Misses", "% of requests", |cell| Some(cell.measured.miss_ratio * 100.0)),
        panel("Throughput", "M requests/s", |cell| cell.measured.mops),
        panel("Latency", "mean, µs", predicted),
    ];
    draw::figure(&case.title(), &panels)
}

/// An upright line at each of the sizes that have a name.
fn marks(advice: &Advice<'_>, case: &Case<'_>, series: &[Series]) -> Vec<Series> {
    let values = || series.iter().flat_map(|it| &it.points).map(|point| point.1);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let mark = |(number, size): (usize, Named)| {
        let at = size.capacity as f64 / case.everything.max(1) as f64 * 100.0;
        Series {
            name: size.names.join(", "),
            look: Look { number: advice.policies.len() + number, apart: true },
            points: vec![(at, low), (at, high)],
        }
    };
    // Of policies of unknown cost there may be nothing to mark.
    let all = if low <= high { named(advice) } else { Vec::new() };
    all.into_iter().enumerate().map(mark).collect()
}

/// Whether the lowest lines would lie on the axis.
fn is_wide(series: &[Series]) -> bool {
    let values = || series.iter().flat_map(|it| &it.points).map(|point| point.1);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    low > 0.0 && high > 30.0 * low
}

fn workload(case: &Case<'_>) -> String {
    let workload = case.workload_profile();
    let over = |panel: Panel| Panel { logarithmic_x: true, ..panel };
    let at = |number: u64| number.max(1) as f64;
    let line = |name: &str, number: usize, points: Vec<(f64, f64)>| Series {
        name: name.to_owned(),
        look: Look { number, apart: false },
        points,
    };
    let popularity = workload.popularity.iter().map(|&(rank, asked)| (at(rank), asked as f64));
    let popularity = vec![line("objects", 0, popularity.collect())];
    let mut popularity = over(lines("Popularity", "rank", "requests", popularity));
    popularity.logarithmic = true;
    let reuse = workload.reuse.iter().map(|&(gap, share)| (at(gap), share * 100.0)).collect();
    let sets = |value: fn(&WorkingSet) -> u64| {
        let points = workload.working_set.iter();
        points.map(|it| (it.requests as f64 / 1e6, value(it) as f64 / 1e3)).collect()
    };
    let sets = vec![
        line("distinct so far", 1, sets(|it| it.objects)),
        line("distinct since the last point", 2, sets(|it| it.recent)),
    ];
    let mut panels = vec![
        popularity,
        over(lines(
            "Reuse",
            "requests in between",
            "% of requests, at most so far apart",
            vec![line("requests", 3, reuse)],
        )),
        lines("Working set", "million requests", "thousand objects", sets),
    ];
    panels.extend(workload.sizes.map(|sizes| {
        let of = |share: fn(&UpToSize) -> f64| {
            let point = |it: &UpToSize| (at(u64::from(it.bytes)), share(it) * 100.0);
            sizes.iter().map(point).collect()
        };
        let series = vec![
            line("of objects", 4, of(|it| it.objects)),
            line("of bytes", 5, of(|it| it.footprint)),
        ];
        over(lines("Sizes", "bytes", "% no larger", series))
    }));
    let groups: Vec<&[Panel]> = panels.iter().map(std::slice::from_ref).collect();
    draw::figures(&case.title(), &groups)
}
