//! Claims of paper 2 as rules. A claim without a measurement is not judged.

use frazil::FreezingPhase;

use super::Expectation;
use super::frozen_cells::{Cell, History, Side, Spot};
use super::frozen_curve::{HitLatency, Hits, Promise};
use crate::median::median;
use crate::output::{self, row};

/// The paper's LFU: a hit waits for its lock, and counts.
pub(super) const LFU: &str = "every-hit+lfu";

/// Gains above this count as no loss.
const NO_LOSS: f64 = 0.97;
/// Acceptable loss of hits without a gain, as a share of all requests.
const FEW_HITS: f64 = 0.01;
/// A gain above the noise of these rounds.
const GAIN: f64 = 1.1;

/// All measurements.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) cells: Vec<Cell>,
    pub(super) hits: Vec<Hits>,
    pub(super) histories: Vec<History>,
    pub(super) promises: Vec<Promise>,
    pub(super) latencies: Vec<HitLatency>,
    pub(super) beside: Vec<Beside>,
}

/// A policy that never freezes, at a spot.
pub(super) struct Beside {
    pub(super) spot: Spot,
    pub(super) side: Side,
}

impl Beside {
    pub(super) fn row(&self) -> output::Row {
        let Spot { figure, policy, percent, threads, backend_us } = self.spot;
        row! {
            "kind" => "beside",
            "figure" => figure,
            "workload" => "zipf",
            "policy" => policy,
            "capacity_percent" => percent,
            "threads" => threads,
            "backend_us" => backend_us,
            "mops" => self.side.mops(),
            "hit_ratio" => self.side.hit_ratio(),
        }
    }
}

/// The number of traces on which LRU is better than FIFO by some measure, and on which it is worse.
pub(super) struct Face {
    pub(super) what: &'static str,
    pub(super) frozen: bool,
    pub(super) lru: usize,
    pub(super) fifo: usize,
    /// Traces with a difference below a hundredth.
    pub(super) even: usize,
}

impl Findings {
    /// The spots of a policy in figure 8, with the most threads.
    fn of_policy(&self, policy: &str) -> Vec<&Cell> {
        let most = self.cells.iter().map(|cell| cell.spot.threads).max().unwrap_or(1);
        let wanted = |cell: &&Cell| {
            (cell.spot.figure, cell.spot.policy, cell.spot.threads) == (8, policy, most)
        };
        self.cells.iter().filter(wanted).collect()
    }

    /// The median gain of a policy, if it was measured.
    fn gain_of(&self, policy: &str) -> Option<f64> {
        let cells = self.of_policy(policy);
        (!cells.is_empty()).then(|| median(cells.iter().map(|cell| cell.gain())))
    }

    /// Traces, by the measures of figure 15.
    pub(super) fn faces(&self) -> Vec<Face> {
        let on = |policy: &str| self.of_policy(policy).into_iter().filter(|it| it.load != "zipf");
        let pairs: Vec<(&Cell, &Cell)> = on("lru")
            .filter_map(|lru| Some((lru, on("fifo").find(|fifo| fifo.load == lru.load)?)))
            .collect();
        let face = |what, frozen, value: fn(&Cell) -> f64| {
            let over = |one: &Cell, other: &Cell| value(one) > 1.01 * value(other);
            let lru = pairs.iter().filter(|(lru, fifo)| over(lru, fifo)).count();
            let fifo = pairs.iter().filter(|(lru, fifo)| over(fifo, lru)).count();
            Face { what, frozen, lru, fifo, even: pairs.len() - lru - fifo }
        };
        if pairs.len() < 2 {
            return Vec::new();
        }
        vec![
            face("hits", false, |cell| cell.base.hit_ratio()),
            face("hits", true, |cell| cell.frozen.hit_ratio()),
            face("throughput", false, |cell| cell.base.mops()),
            face("throughput", true, |cell| cell.frozen.mops()),
        ]
    }

    /// The spots of figure 14.
    pub(super) fn lasting(&self) -> impl Iterator<Item = &History> {
        self.histories.iter().filter(|it| it.spot.figure == 14)
    }

    /// LRU under Zipf's law.
    fn zipf_lru(&self, threads: usize) -> Vec<&Cell> {
        let is = |cell: &&Cell| {
            cell.load == "zipf" && cell.spot.policy == "lru" && cell.spot.threads == threads
        };
        self.cells.iter().filter(is).collect()
    }

    fn history(&self, load: &str, policy: &str, threads: usize) -> Option<&History> {
        let is = |it: &&History| {
            let spot = it.spot;
            it.load == load && (spot.figure, spot.policy, spot.threads) == (13, policy, threads)
        };
        self.histories.iter().find(is)
    }
}

pub(super) fn expectations(findings: &Findings) -> Vec<Expectation> {
    let mut all: Vec<Expectation> = findings.promises.iter().map(figure_5).collect();
    all.extend(figure_8(findings));
    all.extend(figure_9(findings));
    all.extend(figure_10(findings));
    all.extend(findings.hits.iter().filter(|hits| SCANS.contains(&hits.load)).map(figure_11));
    all.extend(findings.latencies.iter().map(figure_12));
    let phases = findings.histories.iter().filter(|it| it.spot.figure == 13);
    all.extend(phases.flat_map(figure_13));
    all.extend(figure_14(findings));
    all.extend(figure_15(findings));
    all.extend(figure_16(findings));
    all
}

fn expect(figure: u32, expected: impl Into<String>, seen: String, met: bool) -> Expectation {
    Expectation { figure, expected: expected.into(), seen, met }
}

fn figure_5(promise: &Promise) -> Expectation {
    let Promise { policy, share, learnt, got } = promise;
    expect(
        5,
        format!("{policy}: the curve foretells to 8 points the hits of {:.0} %", 100.0 * share),
        format!("{} learnt, {} got", output::percent(learnt[0]), output::percent(got[0])),
        promise.apart() < 0.08,
    )
}

fn figure_8(findings: &Findings) -> Vec<Expectation> {
    let mut all = Vec::new();
    for policy in ["lru", LFU] {
        if let Some(gain) = findings.gain_of(policy) {
            let expected = format!("{policy} gains over {GAIN} in the median of the workloads");
            all.push(expect(8, expected, format!("{gain:.2}"), gain > GAIN));
        }
    }
    let gains = [LFU, "lru", "fifo"].map(|policy| findings.gain_of(policy));
    if let [Some(lfu), Some(lru), Some(fifo)] = gains {
        let seen = format!("lfu {lfu:.2}, lru {lru:.2}, fifo {fifo:.2}");
        let expected = "LFU gains the most and FIFO the least";
        all.push(expect(8, expected, seen, lfu > lru && lru > fifo));
    }
    all.extend(losses(findings));
    for narrow in findings.zipf_lru(1) {
        let same = |cell: &&&Cell| cell.spot.percent == narrow.spot.percent;
        if let Some(wide) = findings.zipf_lru(2).iter().find(same) {
            let seen = format!("{:.2} by one thread, {:.2} by two", narrow.gain(), wide.gain());
            let met = wide.gain() > narrow.gain();
            all.push(expect(8, "LRU gains more with more threads, Zipf", seen, met));
        }
    }
    all
}

/// The largest value, which should never exceed its limit, and its place.
fn losses(findings: &Findings) -> Vec<Expectation> {
    let measured = || findings.cells.iter().filter(|cell| cell.spot.figure == 8);
    let place = |cell: &Cell| {
        let Spot { policy, percent, threads, .. } = cell.spot;
        format!("{policy} {} {percent} %, threads: {threads}", cell.load)
    };
    let all = measured().count();
    let mut losses = Vec::new();
    if let Some(worst) = measured().min_by(|one, other| one.gain().total_cmp(&other.gain())) {
        let below = measured().filter(|cell| cell.gain() <= NO_LOSS).count();
        let gain = worst.gain();
        let seen = format!("{below} of {all} below; at worst {gain:.2} ({})", place(worst));
        let expected = format!("nowhere a loss: a gain above {NO_LOSS} in every cell");
        losses.push(expect(8, expected, seen, gain > NO_LOSS));
    }
    let whole = |one: &&Cell, other: &&Cell| one.whole_gain().total_cmp(&other.whole_gain());
    if let Some(worst) = measured().min_by(whole) {
        let below = measured().filter(|cell| cell.whole_gain() <= NO_LOSS).count();
        let gain = worst.whole_gain();
        let seen = format!("{below} of {all} below; at worst {gain:.2} ({})", place(worst));
        let expected = format!("nor over the whole run, learning in it: above {NO_LOSS}");
        losses.push(expect(8, expected, seen, gain > NO_LOSS));
    }
    let lost = |cell: &&Cell| -cell.hits_more();
    let vain = measured().filter(|cell| cell.gain() <= 1.0);
    if let Some(worst) = vain.max_by(|one, other| lost(one).total_cmp(&lost(other))) {
        let most = lost(&worst);
        let seen = format!("at most {} ({})", output::percent(most), place(worst));
        let expected = "no hit ratio falls by over a point where nothing is gained";
        losses.push(expect(8, expected, seen, most <= FEW_HITS));
    }
    losses
}

fn figure_9(findings: &Findings) -> Vec<Expectation> {
    let share = |policy: &str| {
        let cells = findings.of_policy(policy);
        (!cells.is_empty()).then(|| median(cells.iter().map(|cell| cell.frozen_hits())))
    };
    let mut all = Vec::new();
    for policy in ["lru", LFU] {
        if let Some(share) = share(policy) {
            let expected =
                format!("{policy}: over half of the hits are of what is frozen, in the median");
            all.push(expect(9, expected, output::percent(share), share > 0.5));
        }
    }
    if let (Some(lru), Some(fifo)) = (share("lru"), share("fifo")) {
        let seen = format!("lru {}, fifo {}", output::percent(lru), output::percent(fifo));
        all.push(expect(9, "less of FIFO's hits than of LRU's", seen, fifo < lru));
    }
    all
}

fn figure_10(findings: &Findings) -> Vec<Expectation> {
    let mean = |policy, threads| Some(findings.history("zipf", policy, threads)?.mean_share());
    let mut all = Vec::new();
    if let (Some(lru), Some(fifo)) = (mean("lru", 2), mean("fifo", 2)) {
        let seen = format!("lru {}, fifo {}", output::percent(lru), output::percent(fifo));
        let expected = "the mean share frozen over the time is larger with LRU than with FIFO";
        all.push(expect(10, expected, seen, lru > fifo));
    }
    if let (Some(one), Some(two)) = (mean("lru", 1), mean("lru", 2)) {
        let seen = format!("{} by one, {} by two", output::percent(one), output::percent(two));
        all.push(expect(10, "and larger with more threads, LRU", seen, two > one));
    }
    all
}

/// Workloads that mostly request objects in order, repeatedly.
const SCANS: [&str; 3] = ["loop", "lirs-loop", "p3"];

/// The least relevant change: the paper omits smaller ones as well.
const CHANGE: f64 = 1.02;

fn figure_11(hits: &Hits) -> Expectation {
    let [base, frozen] = hits.ratios;
    expect(
        11,
        format!("{} on {}, which scans, hits more often frozen", hits.policy, hits.load),
        format!("{} and frozen {}", output::percent(base), output::percent(frozen)),
        frozen > CHANGE * base,
    )
}

fn figure_12(it: &HitLatency) -> Expectation {
    let seen = format!("{:.0} ns frozen, {:.0} ns not", it.frozen_ns, it.thawed_ns);
    let threads = it.threads;
    if it.policy == "fifo" {
        let met = (it.frozen_ns / it.thawed_ns.max(1e-9) - 1.0).abs() < 0.25;
        let expected =
            format!("fifo: a frozen hit takes as long, to a quarter (threads: {threads})");
        return expect(12, expected, seen, met);
    }
    let expected = format!("{}: a frozen hit takes less (threads: {threads})", it.policy);
    expect(12, expected, seen, it.frozen_ns < it.thawed_ns)
}

fn figure_13(history: &History) -> Vec<Expectation> {
    use FreezingPhase::{Frozen, Waiting};
    let spot = history.spot;
    let name = format!("{} on {}, threads: {}", spot.policy, history.load, spot.threads);
    let frozen = history.time_in(Frozen);
    let was = expect(
        13,
        format!("{name}: frozen for longer than anything else"),
        output::percent(frozen),
        frozen > 0.5,
    );
    let faster = history.mops(Frozen).zip(history.mops(Waiting)).map(|(frozen, waiting)| {
        expect(
            13,
            format!("{name}: faster while frozen than before"),
            format!("{frozen:.2} and {waiting:.2} M requests/s"),
            frozen > waiting,
        )
    });
    std::iter::once(was).chain(faster).collect()
}

fn figure_14(findings: &Findings) -> Vec<Expectation> {
    let at =
        |lifetime: u32| findings.lasting().find(|it| it.lifetime == lifetime)?.mops_since_frozen();
    let (Some(short), Some(usual), Some(long)) = (at(2), at(20), at(60)) else {
        return Vec::new();
    };
    let seen = format!("{short:.2} at 2, {usual:.2} at 20, {long:.2} at 60, M requests/s");
    vec![
        expect(14, "a lifetime of 20 is faster than one of 2", seen.clone(), usual > short),
        expect(14, "and as fast as one of 60, to a quarter", seen, usual > 0.75 * long),
    ]
}

fn figure_15(findings: &Findings) -> Vec<Expectation> {
    let faces = findings.faces();
    let by =
        |what: &str, frozen| faces.iter().find(|face| (face.what, face.frozen) == (what, frozen));
    let (Some(hits), Some(alone), Some(frozen)) =
        (by("hits", false), by("throughput", false), by("throughput", true))
    else {
        return Vec::new();
    };
    let seen = |face: &Face| format!("lru {}, fifo {}", face.lru, face.fifo);
    let more = format!("{}; frozen+ {}", seen(alone), seen(frozen));
    vec![
        expect(15, "LRU hits more often than FIFO", seen(hits), hits.lru > hits.fifo),
        expect(15, "and yet FIFO is faster", seen(alone), alone.fifo > alone.lru),
        expect(15, "LRU is faster on more traces by freezing", more, frozen.lru > alone.lru),
    ]
}

fn figure_16(findings: &Findings) -> Vec<Expectation> {
    let cells = findings.zipf_lru(2);
    let fixed = |cell: &&&Cell| cell.spot.backend_us == 5;
    let size = |cell: &&&Cell| cell.spot.percent.to_bits();
    let by_size = |one: &&&Cell, other: &&&Cell| one.spot.percent.total_cmp(&other.spot.percent);
    let mut all = Vec::new();
    let smallest = cells.iter().filter(fixed).min_by(by_size);
    let largest = cells.iter().filter(fixed).max_by(by_size);
    let sizes = smallest.zip(largest).filter(|(small, large)| size(small) != size(large));
    if let Some((small, large)) = sizes {
        let seen = format!(
            "{:.2} at {} %, {:.2} at {} %",
            small.gain(),
            small.spot.percent,
            large.gain(),
            large.spot.percent
        );
        let expected = "16a: LRU gains more in a larger cache";
        all.push(expect(16, expected, seen, large.gain() > small.gain()));
    }
    let sweep: Vec<&Cell> = findings.cells.iter().filter(|it| it.load == "zipf-small").collect();
    if let [first, .., last] = sweep[..] {
        let seen = format!(
            "{:.2} at {} us, {:.2} at {} us",
            first.gain(),
            first.spot.backend_us,
            last.gain(),
            last.spot.backend_us
        );
        let expected = "16b: LRU gains more with a faster backend";
        all.push(expect(16, expected, seen, first.gain() > last.gain()));
    }
    all
}
