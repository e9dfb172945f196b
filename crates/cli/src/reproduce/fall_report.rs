//! The report of falling throughput: tables, curves and expectations.

use frazil_queueing::PaperNetwork;

use super::fall::{BACKENDS_US, Cell, Kept, MPL, POLICIES, Sweep};
use super::{Expectation, Report};
use crate::draw::{self, Look, Series};
use crate::median::median;
use crate::output;

/// Required accuracy of the prediction for a policy.
const CLOSE: f64 = 0.05;
/// Above this q probabilistic LRU is FIFO-like in the paper, which has 0.5 and 1 - 1/72.
const HIGH_Q: f64 = 0.9;
/// A smaller loss from the peak to the end is no fall, as in the model's classes.
const FALL: f64 = 0.01;

/// A curve: one policy, sweep and backend, by rising hit ratio.
struct Curve<'c> {
    sweep: Sweep,
    policy: &'static str,
    kept: Kept,
    backend_us: f64,
    cells: Vec<&'c Cell>,
}

impl Curve<'_> {
    fn name(&self) -> String {
        format!("{} by {}", labelled(self.policy, self.kept), self.sweep.name())
    }

    fn highest(&self, value: impl Fn(&Cell) -> f64) -> f64 {
        self.cells.iter().map(|cell| value(cell)).fold(0.0, f64::max)
    }

    /// Loss from the peak to the last hit ratio, as a share.
    fn loss(&self, value: impl Fn(&Cell) -> f64) -> f64 {
        let last = self.cells.last().map_or(0.0, |cell| value(cell));
        1.0 - last / self.highest(value).max(1e-9)
    }

    /// The point with the highest value.
    fn peak(&self, value: impl Fn(&Cell) -> f64) -> Option<&Cell> {
        self.cells.iter().copied().max_by(|one, other| value(one).total_cmp(&value(other)))
    }
}

/// A policy, and the mitigation.
fn labelled(policy: &str, kept: Kept) -> String {
    match kept {
        Kept::Costly => policy.to_owned(),
        _ => format!("{policy}, {}", kept.name()),
    }
}

fn curves(cells: &[Cell]) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for cell in cells {
        let Cell { sweep, policy, kept, backend_us, .. } = *cell;
        let found = curves.iter_mut().find(|it| {
            (it.sweep, it.policy, it.kept, it.backend_us) == (sweep, policy, kept, backend_us)
        });
        match found {
            Some(curve) => curve.cells.push(cell),
            None => curves.push(Curve { sweep, policy, kept, backend_us, cells: vec![cell] }),
        }
    }
    for curve in &mut curves {
        curve.cells.sort_by(|one, other| one.hit_ratio().total_cmp(&other.hit_ratio()));
    }
    curves
}

pub(super) fn report(cells: &[Cell], threads: usize) -> Report {
    let curves = curves(cells);
    let mut expectations = Vec::new();
    for (policy, network) in POLICIES {
        let of_policy = |sweep, kept| {
            let of = move |it: &&Curve<'_>| (it.sweep, it.policy, it.kept) == (sweep, policy, kept);
            curves.iter().filter(of).collect::<Vec<_>>()
        };
        for kept in [Kept::Costly, Kept::TailFree, Kept::TailCheap] {
            for of_sweep in Sweep::ALL.map(|sweep| of_policy(sweep, kept)) {
                if !of_sweep.is_empty() {
                    expectations.push(closeness(network, &of_sweep));
                    expectations.push(shape(network, &of_sweep));
                }
            }
        }
        let both = Sweep::ALL.map(|sweep| of_policy(sweep, Kept::Costly)).concat();
        expectations.push(class(network, &both));
    }
    expectations.extend(flatness(&curves));
    expectations.push(without(&curves));
    let summary = format!(
        "{threads} threads, {MPL} requests in flight, M requests/s foretold and measured\n\n{}{}",
        table(&curves),
        orders(cells)
    );
    let figures = figures(&curves);
    Report { measurements: Vec::new(), expectations, figures, summary }
}

/// The paper's figure of a policy.
fn figure(network: PaperNetwork) -> u32 {
    match network {
        PaperNetwork::Fifo => 5,
        PaperNetwork::LruProb { q } if q > HIGH_Q => 8,
        PaperNetwork::LruProb { .. } => 7,
        PaperNetwork::Clock => 10,
        PaperNetwork::Slru => 12,
        PaperNetwork::S3Fifo => 14,
        _ => 3,
    }
}

fn closeness(network: PaperNetwork, curves: &[&Curve<'_>]) -> Expectation {
    let errors: Vec<f64> =
        curves.iter().flat_map(|it| &it.cells).map(|cell| cell.error().abs()).collect();
    let (close, worst) = close_and_worst(&errors);
    let name = curves.first().map_or(String::new(), |it| it.name());
    Expectation {
        figure: figure(network),
        expected: format!("{name} is foretold to 5 %"),
        seen: format!(
            "{close} of {} points, median error {:.1} %, worst {:.1} %",
            errors.len(),
            median(&errors) * 100.0,
            worst * 100.0
        ),
        met: close == errors.len(),
    }
}

/// The number of errors within the limit, and the largest.
fn close_and_worst(errors: &[f64]) -> (usize, f64) {
    let close = errors.iter().filter(|&&error| error <= CLOSE).count();
    (close, errors.iter().copied().fold(0.0, f64::max))
}

/// Hit ratio of the highest throughput, and the loss from there on.
fn shape(network: PaperNetwork, curves: &[&Curve<'_>]) -> Expectation {
    let (mut met, mut seen) = (true, Vec::new());
    for curve in curves {
        let foretold = (curve.peak(|it| it.foretold), curve.loss(|it| it.foretold));
        let measured = (curve.peak(Cell::mops), curve.loss(Cell::mops));
        let (Some(expected), Some(found)) = (foretold.0, measured.0) else { continue };
        // On a flat curve the highest point may be anywhere.
        met &= expected.mops() >= (1.0 - FALL) * found.mops();
        met &= (foretold.1 > FALL) == (measured.1 > FALL);
        seen.push(format!(
            "{} us: {:.2} ({:.2}), {:.1} % ({:.1} %)",
            curve.backend_us,
            found.hit_ratio(),
            expected.hit_ratio(),
            measured.1 * 100.0,
            foretold.1 * 100.0
        ));
    }
    let name = curves.first().map_or(String::new(), |it| it.name());
    Expectation {
        figure: figure(network),
        expected: format!("{name} peaks and falls as foretold"),
        seen: format!("p* and loss, measured (foretold): {}", seen.join("; ")),
        met,
    }
}

/// The paper's class, for a cache with one server for each kind of operation.
fn class(network: PaperNetwork, curves: &[&Curve<'_>]) -> Expectation {
    use PaperNetwork::{Lru, LruProb, Slru};
    let falls = match network {
        LruProb { q } => q <= HIGH_Q,
        network => matches!(network, Lru | Slru),
    };
    let fallen = curves.iter().filter(|it| it.loss(Cell::mops) > FALL).count();
    let policy = curves.first().map_or("", |it| it.policy);
    let what = if falls { "falls before a hit ratio of 1" } else { "rises to a hit ratio of 1" };
    Expectation {
        figure: figure(network),
        expected: format!("{policy} {what}, as in the paper"),
        seen: format!("{fallen} of {} curves fall", curves.len()),
        met: if falls { fallen == curves.len() } else { fallen == 0 },
    }
}

/// Beyond p* a bypass keeps the throughput of the peak, or raises it.
fn flatness(curves: &[Curve<'_>]) -> [Expectation; 2] {
    let (mut kept, mut flat, mut least_seen, mut most_seen) = (true, true, Vec::new(), Vec::new());
    for curve in curves.iter().filter(|it| it.kept == Kept::Bypassed) {
        let place = (curve.sweep, curve.policy, curve.backend_us);
        let plain = curves
            .iter()
            .find(|it| it.kept == Kept::Costly && (it.sweep, it.policy, it.backend_us) == place);
        let Some(peak) = plain.and_then(|it| it.peak(Cell::mops)) else { continue };
        let beyond = curve.cells.iter().filter(|it| it.hit_ratio() >= peak.hit_ratio() - 0.01);
        let of_peak = beyond.map(|it| it.mops() / peak.mops());
        let (least, most) = of_peak.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), it| {
            (least.min(it), most.max(it))
        });
        kept &= least >= 1.0 - CLOSE;
        flat &= least >= 1.0 - CLOSE && most <= 1.0 + CLOSE;
        let place = format!("{} us by {}", curve.backend_us, curve.sweep.name());
        least_seen.push(format!("{place}: {least:.2}"));
        most_seen.push(format!("{place}: {most:.2}"));
    }
    let of = |what: &str, seen: Vec<String>, met| Expectation {
        figure: 3,
        expected: format!(
            "with a bypass LRU's throughput beyond p* stays within 5 % of the peak{what}"
        ),
        seen: format!("of the peak without: {}", seen.join(", ")),
        met,
    };
    [of(" or above", least_seen, kept), of(", and no higher", most_seen, flat)]
}

/// The unchanged cache.
fn without(curves: &[Curve<'_>]) -> Expectation {
    let own: Vec<&Curve<'_>> = curves.iter().filter(|it| it.kept == Kept::AsItIs).collect();
    let fallen: Vec<&&Curve<'_>> = own.iter().filter(|it| it.loss(Cell::mops) > CLOSE).collect();
    let loss = |it: &&&Curve<'_>| {
        let (us, loss) = (it.backend_us, it.loss(Cell::mops) * 100.0);
        format!("{} at {us} us by {}: {loss:.0} %", it.policy, it.sweep.name())
    };
    let falls: Vec<String> = fallen.iter().map(loss).collect();
    Expectation {
        figure: 3,
        expected: "LRU and SLRU fall without the spin too, by more than 5 %".to_owned(),
        seen: format!("{} of {} curves fall{}", falls.len(), own.len(), list(&falls)),
        met: falls.len() == own.len(),
    }
}

/// The addition to a sentence, if any.
fn list(items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!(": {}", items.join(", ")) }
}

fn table(curves: &[Curve<'_>]) -> String {
    let mut rows = Vec::new();
    // The curves of one cache, one for each backend, follow each other.
    for of_cache in curves.chunks(BACKENDS_US.len()) {
        let Some(first) = of_cache.first() else { continue };
        for (at, cell) in first.cells.iter().enumerate() {
            let mut row = vec![
                labelled(first.policy, first.kept),
                first.sweep.name().to_owned(),
                format!("{:.3}", cell.hit_ratio()),
            ];
            row.extend(
                of_cache.iter().map(|it| it.cells.get(at).map_or(String::new(), |it| one(it))),
            );
            rows.push(row);
        }
    }
    let mut headers = vec!["policy".to_owned(), "by".to_owned(), "hits".to_owned()];
    headers.extend(BACKENDS_US.map(|us| format!("{us} us")));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    output::table(&headers, &["policy", "by"], rows)
}

/// The number of accurate predictions, for either order in which due requests get a core.
fn orders(cells: &[Cell]) -> String {
    let mut text = String::from("\npoints foretold to 5 %, and the worst\n");
    type Foretold = fn(&Cell) -> f64;
    let names: [(&str, Foretold); 2] = [
        ("a client keeps its core until it waits", |it| it.foretold),
        ("who has waited longest gets the core", |it| it.gathered),
    ];
    for (name, foretold) in names {
        let costly = cells.iter().filter(|it| it.kept == Kept::Costly);
        let errors: Vec<f64> = costly.map(|it| it.error_of(foretold(it)).abs()).collect();
        let (close, worst) = close_and_worst(&errors);
        text += &format!("{name}: {close} of {}, {:.1} %\n", errors.len(), worst * 100.0);
    }
    text
}

fn one(cell: &Cell) -> String {
    let mops = cell.mops();
    match cell.kept {
        Kept::AsItIs => format!("- {mops:.3}"),
        Kept::Costly | Kept::TailFree | Kept::TailCheap => {
            format!("{:.3} {mops:.3} {:+.1}%", cell.foretold, cell.error() * 100.0)
        }
        Kept::Bypassed => format!("{:.2} past, {:.3} {mops:.3}", cell.bypassed(), cell.foretold),
    }
}

fn figures(curves: &[Curve<'_>]) -> Vec<(String, String)> {
    let line = |name: String, number, apart, curve: &Curve<'_>, value: fn(&Cell) -> f64| Series {
        name,
        look: Look { number, apart },
        points: curve.cells.iter().map(|it| (it.hit_ratio(), value(it))).collect(),
    };
    let mut files = Vec::new();
    for sweep in Sweep::ALL {
        let mut panels = Vec::new();
        for (policy, _) in POLICIES {
            let of =
                |it: &&Curve<'_>| (it.sweep, it.policy, it.kept) == (sweep, policy, Kept::Costly);
            let mut series = Vec::new();
            for (number, curve) in curves.iter().filter(of).enumerate() {
                let name = |what| format!("{} us, {what}", curve.backend_us);
                series.push(line(name("foretold"), number, true, curve, |it| it.foretold));
                series.push(line(name("measured"), number, false, curve, Cell::mops));
            }
            panels.push(draw::lines(policy, "hit ratio", "M requests/s", series));
        }
        let title = format!("Throughput by hit ratio, swept by {}", sweep.name());
        files.push((format!("fall-{}.svg", sweep.name()), draw::figure(&title, &panels)));
    }
    files
}
