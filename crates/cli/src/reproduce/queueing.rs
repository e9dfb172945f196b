//! Paper 1's figures 3, 5, 7, 8, 10, 12 and 14: throughput by hit ratio, by the upper bound,
//! by exact mean value analysis, and by simulation. Its prototype, the third line of the
//! paper's figures, is not repeated here.
//!
//! Times are the paper's, so nothing here depends on this machine, and the simulation only on its
//! seed. For the paper's statement that results are insensitive to the distribution of service
//! times, three distributions show its limits.

use frazil_queueing::{
    Class, Distribution, ModelError, PaperNetwork, Peak, SimulationOptions, Use, bounds, classify,
    peak, simulate, throughput,
};

use super::classes::{self, Classified};
use super::{Expectation, Report};
use crate::draw::{self, Look, Series};
use crate::failure::Failure;
use crate::output::{self, Row, row};
use crate::progress::Progress;

/// Disks of every figure, µs: past, present and future ones.
const BACKENDS_US: [f64; 3] = [500.0, 100.0, 5.0];
/// The paper's cores.
const MPL: usize = 72;
/// Requests in flight of figure 12.
const MPLS: [usize; 3] = [16, 72, 144];
/// Hit ratios in hundredths: steps of 5, and of 2 at the end.
const HIT_RATIOS: [u32; 16] = [40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 92, 94, 96, 98, 100];

const HYPER: Distribution = Distribution::HyperExponential { cv2: 4.0 };

/// A figure of the paper, its network, and the paper's finding.
struct Figure {
    number: u32,
    network: PaperNetwork,
    mpls: &'static [usize],
    class: Class,
}

const fn figure(number: u32, network: PaperNetwork, class: Class) -> Figure {
    Figure { number, network, mpls: &[MPL], class }
}

const LRU: Figure = figure(3, PaperNetwork::Lru, Class::LruLike);

const FIGURES: [Figure; 7] = [
    LRU,
    figure(5, PaperNetwork::Fifo, Class::FifoLike),
    figure(7, PaperNetwork::LruProb { q: 0.5 }, Class::LruLike),
    figure(8, PaperNetwork::LruProb { q: 1.0 - 1.0 / 72.0 }, Class::FifoLike),
    figure(10, PaperNetwork::Clock, Class::FifoLike),
    Figure { mpls: &MPLS, ..figure(12, PaperNetwork::Slru, Class::LruLike) },
    figure(14, PaperNetwork::S3Fifo, Class::FifoLike),
];

/// A point of a curve.
struct Point {
    hit_ratio: f64,
    bound: f64,
    mva: f64,
    simulated: f64,
    interval: (f64, f64),
    /// With constant service times, and with times that vary more than exponential ones; only for
    /// LRU.
    others: Option<(f64, f64)>,
}

/// A curve: one network, MPL and disk.
struct Curve {
    figure: u32,
    network: PaperNetwork,
    mpl: usize,
    backend_us: f64,
    points: Vec<Point>,
    bound_peak: Peak,
    mva_peak: Peak,
}

impl Curve {
    fn measure(
        figure: &Figure,
        (mpl, backend_us): (usize, f64),
        requests: u64,
        done: &dyn Fn(),
    ) -> Result<Self, ModelError> {
        let network = figure.network;
        let bound = |p| Ok(bounds(&network.network(p, backend_us, Use::Bound)?, mpl)?.upper_mops);
        let exact = |p| throughput(&network.network(p, backend_us, Use::Exact)?, mpl);
        let mut points = Vec::new();
        for (seed, hundredths) in (1..).zip(HIT_RATIOS) {
            let hit_ratio = f64::from(hundredths) / 100.0;
            let made = network.network(hit_ratio, backend_us, Use::Exact)?;
            let run = |service| {
                let options = SimulationOptions {
                    service,
                    requests,
                    warmup: requests / 10,
                    // Each point has its own seed; with one seed all errors would have the same
                    // sign.
                    seed,
                    ..SimulationOptions::default()
                };
                simulate(&made, mpl, &options)
            };
            let simulated = run(Distribution::Exponential)?;
            let others = if figure.number == LRU.number {
                let mops = |service| Ok(run(service)?.solution.throughput_mops);
                Some((mops(Distribution::Deterministic)?, mops(HYPER)?))
            } else {
                None
            };
            points.push(Point {
                hit_ratio,
                bound: bound(hit_ratio)?,
                mva: exact(hit_ratio)?,
                simulated: simulated.solution.throughput_mops,
                interval: (simulated.low_mops, simulated.high_mops),
                others,
            });
            done();
        }
        Ok(Curve {
            figure: figure.number,
            network,
            mpl,
            backend_us,
            points,
            bound_peak: peak((0.4, 1.0), bound)?,
            mva_peak: peak((0.4, 1.0), exact)?,
        })
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.points.iter().map(|point| {
            row! {
                "kind" => "throughput",
                "figure" => self.figure,
                "network" => self.network.to_string(),
                "mpl" => self.mpl,
                "backend_us" => self.backend_us,
                "hit_ratio" => point.hit_ratio,
                "bound_mops" => point.bound,
                "mva_mops" => point.mva,
                "simulation_mops" => point.simulated,
                "ci95_low" => point.interval.0,
                "ci95_high" => point.interval.1,
                "response_us" => self.mpl as f64 / point.mva,
                "deterministic_mops" => point.others.map(|others| others.0),
                "hyper_exponential_mops" => point.others.map(|others| others.1),
            }
        })
    }

    /// Loss from the peak to a hit ratio of 1, as a share.
    fn loss(&self) -> f64 {
        1.0 - self.points.last().map_or(f64::NAN, |it| it.mva) / self.mva_peak.throughput_mops
    }
}

/// Runs the experiment.
pub(super) fn run(quick: bool) -> Result<Report, Failure> {
    // With fewer than some thousand, batches are too short for 144 requests in flight.
    let requests = if quick { 4_000 } else { 400_000 };
    let curves: usize = FIGURES.iter().map(|it| it.mpls.len() * BACKENDS_US.len()).sum();
    let steps = curves * HIT_RATIOS.len();
    let progress = Progress::of_steps("simulating".to_owned(), steps as u64);
    let failed = |error: ModelError| Failure::Failed(error.into());
    let mut measured = Vec::new();
    for figure in &FIGURES {
        for &mpl in figure.mpls {
            for backend_us in BACKENDS_US {
                let done = || progress.advance(1);
                let curve = Curve::measure(figure, (mpl, backend_us), requests, &done);
                measured.push(curve.map_err(failed)?);
            }
        }
    }
    drop(progress);
    let classified = classes::classes()?;
    let rows = measured.iter().flat_map(Curve::rows);
    let mut expectations = expectations(&measured).map_err(failed)?;
    expectations.extend(classes::expectations(&classified));
    Ok(Report {
        measurements: rows.chain(classified.iter().flat_map(Classified::rows)).collect(),
        expectations,
        figures: figures(&measured),
        summary: summary(&measured) + &classes::table(&classified),
    })
}

fn of(curves: &[Curve], figure: u32, mpl: usize) -> impl Iterator<Item = &Curve> {
    curves.iter().filter(move |it| (it.figure, it.mpl) == (figure, mpl))
}

fn expectations(curves: &[Curve]) -> Result<Vec<Expectation>, ModelError> {
    let mut all = Vec::new();
    for figure in &FIGURES {
        all.push(class(figure)?);
        for &mpl in figure.mpls {
            all.push(shape(figure, mpl, of(curves, figure.number, mpl)));
        }
        let of_figure = || curves.iter().filter(|it| it.figure == figure.number);
        all.push(below_bound(figure.number, of_figure()));
        all.push(agreement(figure.number, of_figure()));
    }
    all.push(disks(curves));
    all.push(concurrency(curves));
    all.push(insensitivity(curves));
    all.push(response(curves));
    Ok(all)
}

/// Table 1, derived from demands, so from routing.
fn class(figure: &Figure) -> Result<Expectation, ModelError> {
    let demand = |p| Ok(figure.network.network(p, 100.0, Use::Bound)?.max_demand_us());
    let class = classify(demand)?;
    Ok(Expectation {
        figure: figure.number,
        expected: format!("{} is {} by its demands", figure.network, figure.class),
        seen: class.to_string(),
        met: class == figure.class,
    })
}

/// Whether throughput falls at the end, for every disk. One percent is the threshold of the
/// classes.
fn shape<'c>(figure: &Figure, mpl: usize, curves: impl Iterator<Item = &'c Curve>) -> Expectation {
    let falls = figure.class == Class::LruLike;
    let losses: Vec<(f64, f64)> = curves.map(|it| (it.backend_us, it.loss())).collect();
    let seen = |&(us, loss): &(f64, f64)| format!("{:.1} % at {us} us", 100.0 * loss.max(0.0));
    let seen: Vec<String> = losses.iter().map(seen).collect();
    let what = if falls { "falls before a hit ratio of 1" } else { "rises to a hit ratio of 1" };
    Expectation {
        figure: figure.number,
        expected: format!("throughput {what} with every disk, {mpl} requests"),
        seen: format!("a loss from the peak of {}", seen.join(", ")),
        met: losses.iter().all(|&(_, loss)| (loss > 0.01) == falls),
    }
}

/// At a saturated station the throughput is the bound, and by chance one interval in forty is above
/// it.
fn below_bound<'c>(figure: u32, curves: impl Iterator<Item = &'c Curve>) -> Expectation {
    let (mut count, mut above, mut most) = (0_u32, 0_u32, 0.0_f64);
    for point in curves.flat_map(|it| &it.points) {
        count += 1;
        above += u32::from(point.interval.0 > point.bound);
        most = most.max(point.simulated / point.bound);
    }
    Expectation {
        figure,
        expected: "the simulation lies below the bound, but for one interval in twenty".to_owned(),
        seen: format!("{above} of {count} intervals above it, {most:.3} times at most"),
        met: above * 20 <= count,
    }
}

/// Not in the paper, which has no exact solution: a check of our own simulation.
fn agreement<'c>(figure: u32, curves: impl Iterator<Item = &'c Curve>) -> Expectation {
    let (mut count, mut covered, mut apart) = (0_u32, 0_u32, 0.0_f64);
    for point in curves.flat_map(|it| &it.points) {
        count += 1;
        covered += u32::from((point.interval.0..=point.interval.1).contains(&point.mva));
        apart = apart.max((point.simulated / point.mva - 1.0).abs());
    }
    Expectation {
        figure,
        expected: "the simulation is the exact solution, to 5 %".to_owned(),
        seen: format!("{:.2} % apart at most, {covered} of {count} intervals", 100.0 * apart),
        met: apart <= 0.05,
    }
}

/// p* of each curve, read as in the paper's figures: the beginning of the fall.
fn p_stars<'c>(curves: impl Iterator<Item = &'c Curve>) -> Vec<(f64, f64)> {
    curves.map(|it| (it.bound_peak.high, it.mva_peak.high)).collect()
}

fn falling(stars: &[(f64, f64)]) -> bool {
    stars.windows(2).all(|two| two[0].0 >= two[1].0 - 1e-6 && two[0].1 >= two[1].1 - 1e-6)
}

fn listed(stars: &[(f64, f64)]) -> String {
    let pair = |&(bound, exact): &(f64, f64)| format!("{bound:.3} ({exact:.3})");
    stars.iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn disks(curves: &[Curve]) -> Expectation {
    let stars = p_stars(of(curves, 12, MPL));
    Expectation {
        figure: 12,
        expected: "p* of SLRU moves earlier as disks get faster, 72 requests".to_owned(),
        seen: format!("500, 100, 5 us: bound (exact) {}", listed(&stars)),
        met: falling(&stars),
    }
}

fn concurrency(curves: &[Curve]) -> Expectation {
    let at = |us: f64| curves.iter().filter(move |it| it.figure == 12 && it.backend_us == us);
    let all = BACKENDS_US.map(|us| p_stars(at(us)));
    Expectation {
        figure: 12,
        expected: "p* of SLRU moves earlier with more requests, every disk".to_owned(),
        seen: format!("100 us, 16, 72, 144 requests: bound (exact) {}", listed(&all[1])),
        met: all.iter().all(|stars| falling(stars)),
    }
}

fn insensitivity(curves: &[Curve]) -> Expectation {
    let (mut most, mut place) = (0.0_f64, String::new());
    for curve in of(curves, LRU.number, MPL) {
        for point in &curve.points {
            let Some((deterministic, hyper)) = point.others else { continue };
            for (name, other) in [("deterministic", deterministic), ("hyper-exponential", hyper)] {
                let apart = (other / point.simulated - 1.0).abs();
                if apart > most {
                    most = apart;
                    place = format!("{name}, {} us, {}", curve.backend_us, point.hit_ratio);
                }
            }
        }
    }
    Expectation {
        figure: LRU.number,
        expected: "LRU is insensitive to the distribution of service times, to 5 %".to_owned(),
        seen: format!("{:.1} % from exponential at most ({place})", 100.0 * most),
        met: most <= 0.05,
    }
}

/// §3.2: the response time rises where throughput falls; in a closed system it must.
fn response(curves: &[Curve]) -> Expectation {
    let mut met = true;
    let mut seen = Vec::new();
    for curve in of(curves, LRU.number, MPL) {
        let least = curve.mpl as f64 / curve.mva_peak.throughput_mops;
        let last = curve.points.last().map_or(f64::NAN, |it| curve.mpl as f64 / it.mva);
        met &= last > least;
        seen.push(format!("{least:.1} to {last:.1} us at {} us", curve.backend_us));
    }
    Expectation {
        figure: LRU.number,
        expected: "the mean response time of LRU rises beyond p*".to_owned(),
        seen: format!("from p* to a hit ratio of 1, {}", seen.join(", ")),
        met,
    }
}

fn series(name: &str, number: usize, apart: bool, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), look: Look { number, apart }, points }
}

fn panel(curve: &Curve) -> draw::Panel {
    let of = |value: &dyn Fn(&Point) -> f64| -> Vec<(f64, f64)> {
        curve.points.iter().map(|it| (it.hit_ratio, value(it))).collect()
    };
    let title = format!("disk of {} us, {} requests", curve.backend_us, curve.mpl);
    let three = vec![
        series("upper bound", 6, false, of(&|it| it.bound)),
        series("exact (MVA)", 1, false, of(&|it| it.mva)),
        series("simulation", 0, true, of(&|it| it.simulated)),
    ];
    draw::lines(title, "hit ratio", "M requests/s", three)
}

fn figures(curves: &[Curve]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for figure in &FIGURES {
        for &mpl in figure.mpls {
            let panels: Vec<draw::Panel> = of(curves, figure.number, mpl).map(panel).collect();
            let apart = if figure.mpls.len() > 1 { format!("-{mpl}") } else { String::new() };
            let title = format!("Throughput of {} by hit ratio", figure.network);
            let file = format!("queueing-figure-{}{apart}.svg", figure.number);
            files.push((file, draw::figure(&title, &panels)));
        }
    }
    let panels: Vec<draw::Panel> = of(curves, LRU.number, MPL).map(shapes).collect();
    let title = "LRU by the distribution of service times";
    files.push(("queueing-distributions.svg".to_owned(), draw::figure(title, &panels)));
    files
}

/// The three distributions of a curve.
fn shapes(curve: &Curve) -> draw::Panel {
    let of = |value: &dyn Fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        let point = |it: &Point| (it.hit_ratio, value(it).unwrap_or(f64::NAN));
        curve.points.iter().map(point).collect()
    };
    let three = vec![
        series("deterministic", 2, false, of(&|it| it.others.map(|others| others.0))),
        series("exponential", 0, false, of(&|it| Some(it.simulated))),
        series("hyper-exponential", 1, false, of(&|it| it.others.map(|others| others.1))),
    ];
    draw::lines(format!("disk of {} us", curve.backend_us), "hit ratio", "M requests/s", three)
}

fn summary(curves: &[Curve]) -> String {
    let headers = [
        "figure",
        "network",
        "MPL",
        "disk us",
        "p* of the bound",
        "p* exact",
        "M req/s at p*",
        "M req/s at 1",
    ];
    let interval = |peak: &Peak| {
        if peak.high - peak.low < 5e-4 {
            format!("{:.4}", peak.high)
        } else {
            format!("{:.4} to {:.4}", peak.low, peak.high)
        }
    };
    let row = |it: &Curve| {
        vec![
            it.figure.to_string(),
            it.network.to_string(),
            it.mpl.to_string(),
            it.backend_us.to_string(),
            interval(&it.bound_peak),
            interval(&it.mva_peak),
            format!("{:.3}", it.mva_peak.throughput_mops),
            format!("{:.3}", it.points.last().map_or(f64::NAN, |last| last.mva)),
        ]
    };
    output::table(&headers, &["network"], curves.iter().map(row).collect())
}
