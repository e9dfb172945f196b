//! Prints the figures as tables, and each requirement beside the measurement.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::child::Answer;
use super::definition::{CacheDefinition, CellLine, Requirement};
use super::{LEAST_SHARE, Pair, Results};

fn pair(cell: &str, engine: &str) -> Pair {
    (cell.to_owned(), engine.to_owned())
}

/// The median of some numbers; NaN for none.
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

    /// Hit ratio in percent: of one pass, or of the run with `threads` threads.
    fn hit_points(&self, cell: &str, engine: &str, threads: Option<usize>) -> f64 {
        100.0
            * match threads {
                Some(threads) => self.median((cell, engine, threads), |answer| answer.hit_ratio),
                None => self.pass.get(&pair(cell, engine)).copied().unwrap_or(f64::NAN),
            }
    }

    /// One place's speed as a multiple of another's: the median over the rounds.
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
    if results.disturbed + results.repeated > 0 {
        let _ = writeln!(
            text,
            "{} of {} measurements had less than {LEAST_SHARE} of a core; {} were made again",
            results.disturbed,
            results.speed.values().map(Vec::len).sum::<usize>(),
            results.repeated
        );
    }
    if let Some(ns) = results.distance.and_then(|distance| distance.transfer_ns()) {
        let _ = writeln!(
            text,
            "With several threads: while a line took {ns:.0} ns from core to core, to half of it; \
             {} measurements were made again because that changed",
            results.moved
        );
    }
    text
}

fn cell_table(definition: &CacheDefinition, cell: &CellLine, results: &Results) -> String {
    let mut text = format!(
        "{}: workload {}, {} keys, capacity {}; medians of {} processes of {} s\n",
        cell.name,
        cell.workload,
        definition.keys,
        cell.capacity,
        definition.rounds,
        definition.seconds
    );
    let _ = writeln!(
        text,
        "  {:>7} {:12} {:>8} {:13} {:>6} {:>6} {:>8} {:>6} {:>6} {:>8} {:>9} {:>5} {:>7} {:>6}",
        "threads",
        "engine",
        "M ops/s",
        "range",
        "times",
        "hits",
        "one pass",
        "p50 ns",
        "p99",
        "p99.9",
        "little",
        "cpu",
        "B/entry",
        "instr"
    );
    for &threads in &cell.threads {
        for engine in definition.engines(cell) {
            let line = engine_line(definition, (&cell.name, &engine.name, threads), results);
            let _ = writeln!(text, "  {threads:7} {:12} {line}", engine.name);
        }
    }
    text + "\n"
}

/// The figures of one engine in one cell with a number of threads.
fn engine_line(
    definition: &CacheDefinition,
    place: (&str, &str, usize),
    results: &Results,
) -> String {
    let (cell, engine, threads) = place;
    let speeds = results.answers(cell, engine, threads).iter().map(|answer| answer.mops);
    let extremes = |(low, high): (f64, f64), speed: f64| (low.min(speed), high.max(speed));
    let (least, most) = speeds.fold((f64::INFINITY, 0.0), extremes);
    let at = |figure| results.median(place, figure);
    let percent = |ratio: f64| figure(100.0 * ratio, 1);
    let little = figure(at(|answer| answer.little.unwrap_or(f64::NAN)), 2);
    // Of the median round, like all figures.
    let valid = at(|answer| f64::from(u8::from(answer.latencies_valid)));
    let little = if valid == 0.0 { format!("{little} no") } else { little };
    let plain = |number: f64| figure(number, 1);
    let of = |figures: &HashMap<Pair, f64>, write: fn(f64) -> String| {
        figures.get(&pair(cell, engine)).map_or("-".to_owned(), |&figure| write(figure))
    };
    let range = if most > 0.0 { format!("{least:.1}–{most:.1}") } else { "-".to_owned() };
    format!(
        "{:>8} {range:13} {:>6} {:>6} {:>8} {:>6} {:>6} {:>8} {little:>9} {:>5} {:>7} {:>6}",
        figure(at(|answer| answer.mops), 2),
        figure(results.ratio(place, (cell, &definition.baseline, threads)), 2),
        percent(at(|answer| answer.hit_ratio)),
        of(&results.pass, percent),
        figure(at(|answer| answer.p50_ns as f64), 0),
        figure(at(|answer| answer.p99_ns as f64), 0),
        figure(at(|answer| answer.p999_ns as f64), 0),
        figure(at(|answer| answer.cpu_share.unwrap_or(f64::NAN)), 2),
        of(&results.bytes, plain),
        of(&results.instructions, plain),
    )
}

/// A figure, or a dash without a measurement.
fn figure(value: f64, decimals: usize) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.decimals$}") }
}

/// One line in the table of demands.
struct Demand {
    what: String,
    ours: f64,
    /// The figure of the other engine, if the comparison is with one and not with the bound.
    theirs: Option<f64>,
    /// The figure to compare with the bound.
    value: f64,
    bound: Bound,
}

enum Bound {
    Least(f64),
    Most(f64),
}

impl Demand {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::Least(least) => self.value >= least,
            Bound::Most(most) => self.value <= most,
        }
    }

    fn line(&self) -> String {
        let theirs = figure(self.theirs.unwrap_or(f64::NAN), 2);
        let bound = match self.bound {
            Bound::Least(least) => format!("at least {least}"),
            Bound::Most(most) => format!("at most {most}"),
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        format!(
            "  {:54} {:8.2} {theirs:>8} {:8.2}  {bound:13}  {verdict}\n",
            self.what, self.ours, self.value
        )
    }
}

fn requirements(definition: &CacheDefinition, results: &Results) -> String {
    let mut demanded = Vec::new();
    for requirement in &definition.require {
        for cell in &definition.cell {
            demanded.extend(demands(requirement, cell, results));
        }
    }
    if demanded.is_empty() {
        return String::new();
    }
    let mut text =
        format!("{:56} {:>8} {:>8} {:>8}\n", "What is demanded", "ours", "theirs", "figure");
    demanded.iter().for_each(|demand| text += &demand.line());
    let met = demanded.iter().filter(|demand| demand.is_met()).count();
    text + &format!("  {met} of {} met\n", demanded.len())
}

/// The demand on a figure without noise, if it was measured.
fn at_most(what: String, measured: Option<&f64>, most: f64) -> Option<Demand> {
    let &value = measured?;
    Some(Demand { what, ours: value, theirs: None, value, bound: Bound::Most(most) })
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
                    let (of, than) = ((name, engine.as_str(), count), (name, over.as_str(), count));
                    demands.push(Demand {
                        what: format!("{name}, threads {count}: {engine} over {over}, M ops/s"),
                        ours: results.median(of, mops),
                        theirs: Some(results.median(than, mops)),
                        value: results.ratio(of, than),
                        bound: Bound::Least(*least),
                    });
                }
            }
        }
        Requirement::Scaling { engine, cell: named, from, threads, least } if here(named) => {
            let (of, than) = ((name, engine.as_str(), *threads), (name, engine.as_str(), *from));
            demands.push(Demand {
                what: format!("{name}: {engine}, threads {threads} over {from}, M ops/s"),
                ours: results.median(of, mops),
                theirs: Some(results.median(than, mops)),
                value: results.ratio(of, than),
                bound: Bound::Least(*least),
            });
        }
        Requirement::P999 { engine, over, cell: named, threads, most } if here(named) => {
            let p999 = |answer: &Answer| answer.p999_ns as f64;
            let ours = results.median((name, engine, *threads), p999);
            let theirs = results.median((name, over, *threads), p999);
            demands.push(Demand {
                what: format!("{name}, threads {threads}: {engine} over {over}, p99.9 in ns"),
                ours,
                theirs: Some(theirs),
                value: ours / theirs,
                bound: Bound::Most(*most),
            });
        }
        Requirement::HitRatio { engine, over, cell: named, threads, least } if here(named) => {
            let points = |engine: &str| results.hit_points(name, engine, *threads);
            let of = threads.map_or("one pass".to_owned(), |threads| format!("threads {threads}"));
            demands.push(Demand {
                what: format!("{name}, {of}: {engine} less {over}, % hits"),
                ours: points(engine),
                theirs: Some(points(over)),
                value: points(engine) - points(over),
                bound: Bound::Least(*least),
            });
        }
        Requirement::Memory { engine, cell: named, most } if here(named) => {
            let what = format!("{name}: {engine}, bytes an entry");
            demands.extend(at_most(what, results.bytes.get(&pair(name, engine)), *most));
        }
        Requirement::Instructions { engine, cell: named, most } if here(named) => {
            let what = format!("{name}: {engine}, instructions an operation");
            demands.extend(at_most(what, results.instructions.get(&pair(name, engine)), *most));
        }
        _ => {}
    }
    demands.retain(|demand| !demand.value.is_nan());
    demands
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds of three rounds.
    fn results(ours: [f64; 3], theirs: [f64; 3]) -> Results {
        let answers = |speeds: [f64; 3]| {
            speeds.map(|mops| Answer { mops, p999_ns: 10 * mops as u64, ..Answer::default() })
        };
        let mut results = Results::default();
        for (engine, speeds) in [("mobius", ours), ("quick_cache", theirs)] {
            results.speed.insert((pair("c", engine), 2), answers(speeds).to_vec());
        }
        results.pass.insert(pair("c", "mobius"), 0.80);
        results.pass.insert(pair("c", "quick_cache"), 0.81);
        results.bytes.insert(pair("c", "mobius"), 48.5);
        results.instructions.insert(pair("c", "mobius"), 162.0);
        results
    }

    fn definition(requirement: &str) -> CacheDefinition {
        let text = format!(
            "rounds = 3\nseconds = 1.0\nkeys = 10\noperations = 10\nbaseline = \"quick_cache\"\n\
             [[engine]]\nname = \"mobius\"\n[[engine]]\nname = \"quick_cache\"\n\
             [[cell]]\nname = \"c\"\nworkload = \"hit\"\ncapacity = \"10\"\nthreads = [2, 8]\n\
             [[require]]\nengine = \"mobius\"\n{requirement}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds() {
        // The machine was four times slower in the last round, for both.
        let results = results([20.0, 10.0, 5.0], [10.0, 8.0, 2.0]);
        let place = |engine| ("c", engine, 2);
        assert_eq!(results.ratio(place("mobius"), place("quick_cache")), 2.0);
        assert_eq!(results.median(place("mobius"), |answer| answer.mops), 10.0);
    }

    #[test]
    fn demands_are_met_or_missed() {
        let results = results([20.0, 10.0, 5.0], [10.0, 8.0, 2.0]);
        let speed = "figure = \"speed\"\nover = \"quick_cache\"\nleast = ";
        let tail = "figure = \"p999\"\nover = \"quick_cache\"\nthreads = 2\nmost = ";
        let hits = "figure = \"hit_ratio\"\nover = \"quick_cache\"\nleast = ";
        let memory = "figure = \"memory\"\nmost = ";
        let instructions = "figure = \"instructions\"\nmost = ";
        let scaling = "figure = \"scaling\"\nfrom = 2\nthreads = 2\nleast = ";
        for (requirement, bound, met) in [
            (speed, 2.0, true),
            (speed, 2.1, false),
            (tail, 1.3, true),
            (tail, 1.2, false),
            (hits, -1.1, true),
            (hits, -0.9, false),
            (memory, 48.5, true),
            (memory, 48.4, false),
            (instructions, 162.0, true),
            (instructions, 161.9, false),
            (scaling, 1.0, true),
            (scaling, 1.1, false),
        ] {
            let text = requirements(&definition(&format!("{requirement}{bound:?}")), &results);
            let summary = if met { "1 of 1 met" } else { "0 of 1 met" };
            assert!(text.contains(summary), "{requirement}{bound}: {text}");
            assert_eq!(text.contains("MISSED"), !met);
        }
    }

    #[test]
    fn what_was_not_measured_is_not_demanded() {
        let unmeasured = "figure = \"speed\"\nover = \"quick_cache\"\nthreads = 8\nleast = 1.0";
        let results = results([1.0; 3], [1.0; 3]);
        assert_eq!(requirements(&definition(unmeasured), &results), "");
    }
}
