//! The figures as tables, and what is demanded beside what was measured.

use std::fmt::Write as _;

use super::child::Answer;
use super::definition::{CacheDefinition, CellLine, Requirement};
use super::{LEAST_SHARE, Pair, Results};

fn pair(cell: &str, engine: &str) -> Pair {
    (cell.to_owned(), engine.to_owned())
}

/// The middle one of some numbers; NaN of none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Results {
    fn answers(&self, cell: &str, engine: &str, threads: usize) -> &[Answer] {
        let place = (pair(cell, engine), threads);
        self.speed.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Median of a figure over the rounds.
    fn median(&self, place: (&str, &str, usize), figure: fn(&Answer) -> f64) -> f64 {
        median(self.answers(place.0, place.1, place.2).iter().map(figure).collect())
    }

    /// Median over the rounds of one place's speed as a multiple of another's.
    fn ratio(&self, of: (&str, &str, usize), over: (&str, &str, usize)) -> f64 {
        let upper = self.answers(of.0, of.1, of.2).iter();
        let lower = self.answers(over.0, over.1, over.2).iter();
        median(upper.zip(lower).map(|(upper, lower)| upper.mops / lower.mops).collect())
    }
}

/// All tables.
pub(super) fn write(definition: &CacheDefinition, results: &Results) -> String {
    let mut text = String::new();
    for cell in &definition.cell {
        text += &cell_table(definition, cell, results);
    }
    text += &requirements(definition, results);
    if results.disturbed > 0 {
        let _ = writeln!(
            text,
            "{} measurements had less than {LEAST_SHARE} of a core after every repetition",
            results.disturbed
        );
    }
    text
}

fn cell_table(definition: &CacheDefinition, cell: &CellLine, results: &Results) -> String {
    let mut text = format!(
        "{}: {}, {} keys, capacity {}; median of {} processes of {} s\n",
        cell.name,
        cell.workload,
        definition.keys,
        cell.capacity,
        definition.rounds,
        definition.seconds
    );
    let _ = writeln!(
        text,
        "  {:7} {:16} {:>8}  {:13} {:>8} {:>6} {:>8} {:>6} {:>7} {:>8} {:>5} {:>7}",
        "threads",
        "engine",
        "M ops/s",
        "range",
        "multiple",
        "hits",
        "one pass",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "share",
        "B/entry"
    );
    for &threads in &cell.threads {
        for engine in definition.engines(cell) {
            let place = (cell.name.as_str(), engine.name.as_str(), threads);
            let speeds = results.answers(place.0, place.1, threads).iter().map(|a| a.mops);
            let (least, most) = speeds
                .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), s| (low.min(s), high.max(s)));
            let at = |figure| results.median(place, figure);
            let optional = |value: Option<&f64>, scale: f64| {
                value.map_or(String::new(), |value| format!("{:.1}", value * scale))
            };
            let _ = writeln!(
                text,
                "  {threads:7} {:16} {:8.2}  {:13} {:8.2} {:6.1} {:>8} {:6.0} {:7.0} {:8.0} {:5.2} {:>7}",
                engine.name,
                at(|a| a.mops),
                format!("{least:.1}–{most:.1}"),
                results.ratio(place, (place.0, &definition.baseline, threads)),
                100.0 * at(|a| a.hit_ratio),
                optional(results.pass.get(&pair(place.0, place.1)), 100.0),
                at(|a| a.p50_ns as f64),
                at(|a| a.p99_ns as f64),
                at(|a| a.p999_ns as f64),
                at(|a| a.cpu_share.unwrap_or(f64::NAN)),
                optional(results.bytes.get(&pair(place.0, place.1)), 1.0),
            );
        }
    }
    text + "\n"
}

/// One line of the demands.
struct Demand {
    what: String,
    ours: f64,
    theirs: f64,
    /// What is compared with the bound.
    value: f64,
    bound: Bound,
}

enum Bound {
    Least(f64),
    Most(f64),
}

fn requirements(definition: &CacheDefinition, results: &Results) -> String {
    let mut text = String::new();
    for requirement in &definition.require {
        for cell in &definition.cell {
            for demand in demands(requirement, cell, results) {
                let (word, bound, met) = match demand.bound {
                    Bound::Least(least) => ("at least", least, demand.value >= least),
                    Bound::Most(most) => ("at most", most, demand.value <= most),
                };
                let verdict = if met { "yes" } else { "NO" };
                let _ = writeln!(
                    text,
                    "  {:62} {:8.2} {:8.2} {:8.2}  {word} {bound}: {verdict}",
                    demand.what, demand.ours, demand.theirs, demand.value
                );
            }
        }
    }
    if text.is_empty() {
        return text;
    }
    let header = format!("  {:62} {:>8} {:>8} {:>8}\n", "", "this", "that", "figure");
    format!("What is demanded\n{header}{text}")
}

/// The demands of one requirement in one cell, as far as it was measured.
fn demands(requirement: &Requirement, cell: &CellLine, results: &Results) -> Vec<Demand> {
    let name = cell.name.as_str();
    let here = |named: &Option<String>| named.as_ref().is_none_or(|named| named == name);
    let mops = |answer: &Answer| answer.mops;
    let mut demands = Vec::new();
    match requirement {
        Requirement::Speed { engine, over, cell: named, threads, least } if here(named) => {
            for &count in &cell.threads {
                if threads.is_none_or(|threads| threads == count) {
                    let (of, over_place) =
                        ((name, engine.as_str(), count), (name, over.as_str(), count));
                    demands.push(Demand {
                        what: format!("{name}, {count} threads: M ops/s of {engine} over {over}"),
                        ours: results.median(of, mops),
                        theirs: results.median(over_place, mops),
                        value: results.ratio(of, over_place),
                        bound: Bound::Least(*least),
                    });
                }
            }
        }
        Requirement::Scaling { engine, cell: named, from, threads, least } if here(named) => {
            let (of, over) = ((name, engine.as_str(), *threads), (name, engine.as_str(), *from));
            demands.push(Demand {
                what: format!("{name}: M ops/s of {engine}, {threads} threads over {from}"),
                ours: results.median(of, mops),
                theirs: results.median(over, mops),
                value: results.ratio(of, over),
                bound: Bound::Least(*least),
            });
        }
        Requirement::P999 { engine, over, cell: named, threads, most } if here(named) => {
            let p999 = |answer: &Answer| answer.p999_ns as f64;
            let ours = results.median((name, engine, *threads), p999);
            let theirs = results.median((name, over, *threads), p999);
            demands.push(Demand {
                what: format!("{name}, {threads} threads: p99.9 in ns of {engine} over {over}"),
                ours,
                theirs,
                value: ours / theirs,
                bound: Bound::Most(*most),
            });
        }
        Requirement::HitRatio { engine, over, cell: named, least } if here(named) => {
            let points = |engine: &str| {
                results.pass.get(&pair(name, engine)).map_or(f64::NAN, |ratio| 100.0 * ratio)
            };
            demands.push(Demand {
                what: format!("{name}: hits of one pass, points of {engine} above {over}"),
                ours: points(engine),
                theirs: points(over),
                value: points(engine) - points(over),
                bound: Bound::Least(*least),
            });
        }
        Requirement::Memory { engine, cell: named, most } if here(named) => {
            let bytes = results.bytes.get(&pair(name, engine)).copied().unwrap_or(f64::NAN);
            demands.push(Demand {
                what: format!("{name}: bytes an entry of {engine}"),
                ours: bytes,
                theirs: f64::NAN,
                value: bytes,
                bound: Bound::Most(*most),
            });
        }
        _ => {}
    }
    demands.retain(|demand| !demand.value.is_nan());
    demands
}
