//! The charts of the report as files, for use in other documents.

use std::path::Path;

use anyhow::Context;
use frazil_simulator::{Unit, UpToSize, WorkingSet};

use super::Advice;
use super::case::{Case, Replayed};
use super::costs::{Cost, Costs, costs};
use super::told::named;
use crate::draw::{self, Look, Panel, Series, lines};
use crate::failure::{Failure, note};
use crate::outputs;

/// With more lines their names are in a legend, because they do not fit beside the plot.
const MOST_ENDS: usize = 12;

/// Writes them into a folder, created if needed: the costs by size, if there are prices; for each
/// trace the results of each policy at each size, and the workload's properties.
pub(super) fn write(advice: &Advice<'_>, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    if let Some(costs) = costs(advice) {
        put(folder, "advise-cost.svg", &by_cost(advice, &costs))?;
    }
    for (number, case) in advice.cases.iter().enumerate() {
        let of_several =
            if advice.cases.len() > 1 { format!("-{}", number + 1) } else { String::new() };
        for (name, svg) in [("size", over_size(advice, case)), ("workload", workload(case))] {
            put(folder, &format!("advise-{name}{of_several}.svg"), &svg)?;
        }
    }
    Ok(())
}

fn put(folder: &Path, name: &str, svg: &str) -> Result<(), Failure> {
    let file = folder.join(name);
    outputs::write(&file, svg)?;
    note(&format!("wrote {}", file.display()));
    Ok(())
}

/// Costs of memory, of misses and of both by size, and the recommendation.
fn by_cost(advice: &Advice<'_>, costs: &Costs) -> String {
    let place = |it: &Cost| it.capacity as f64 / advice.everything.max(1) as f64 * 100.0;
    let line = |number, name: &str, value: fn(&Cost) -> f64| Series {
        name: name.to_owned(),
        look: Look { number, apart: false },
        points: costs.all.iter().map(|it| (place(it), value(it))).collect(),
    };
    let mut series = vec![
        line(0, "memory", |it| it.memory),
        line(1, "misses", |it| it.misses),
        line(2, "both", Cost::sum),
    ];
    let without = costs.all.iter().map(|it| (place(it), costs.without_cache)).collect();
    let look = Look { number: 5, apart: true };
    series.push(Series { name: "no cache".to_owned(), look, points: without });
    let x = format!("capacity, % of all {}; {}", advice.unit, costs.rate);
    let marks = costs.chosen.iter().map(|it| (place(it), costs.label.clone())).collect();
    let panel = lines("A month", &x, &costs.prices, series);
    draw::figure(
        "What memory and misses cost",
        &[Panel { logarithmic_x: true, named_at_ends: true, marks, ..panel }],
    )
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
        let series: Vec<Series> = series.collect();
        let logarithmic = is_wide(&series);
        let named_at_ends = series.len() <= MOST_ENDS;
        let marks = marks(advice, case);
        let panel = lines(title, &x, y, series);
        Panel { logarithmic_x: true, logarithmic, named_at_ends, marks, ..panel }
    };
    let predicted = |cell: &Replayed| Some(cell.predicted.as_ref()?.response_us);
    let mut panels =
        vec![panel("Misses", "% of requests", |cell| Some(cell.measured.miss_ratio * 100.0))];
    if advice.unit == Unit::Bytes {
        panels.push(panel("Bytes missed", "% of bytes", |cell| {
            Some(cell.outcome.byte_miss_ratio() * 100.0)
        }));
    }
    panels.extend([
        panel("Throughput", "M requests/s", |cell| cell.measured.mops),
        panel("Latency", "mean, µs", predicted),
    ]);
    draw::figure(&case.title(), &panels)
}

/// The sizes that have a name.
fn marks(advice: &Advice<'_>, case: &Case<'_>) -> Vec<(f64, String)> {
    let place = |capacity: u64| capacity as f64 / case.everything.max(1) as f64 * 100.0;
    named(advice).iter().map(|it| (place(it.capacity), it.names.join(", "))).collect()
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
            let point = |it: &UpToSize| (at(it.bytes), share(it) * 100.0);
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
