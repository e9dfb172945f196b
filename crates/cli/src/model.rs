//! `frazil model`: predicts throughput from the hit ratio and the costs of operations.

use anyhow::anyhow;
use clap::{Args as ClapArgs, ValueEnum};
use frazil_policy::{Online, PolicySpec};
use frazil_queueing::{
    Conditions, Distribution, LOOK_UP_US, MAX_MPL, ModelError, Network, PaperNetwork, Profile,
    SimulationOptions, StationLoad, Use, best_bypass, bounds, bypass, classify, flat_bypass,
    freeze, peak, simulate, solve, throughput,
};
use frazil_simulator::{CapacitySpec, Unit, parse_us};
use serde_json::json;

use crate::Done;
use crate::failure::{Failure, note};
use crate::output::{self, Output, Row, row};

/// Predict throughput from the hit ratio, by a closed queueing network of the cache.
///
/// A fixed number of requests, the MPL, circulates. Each looks its key up, after a miss waits for
/// the backend, and takes turns at stations such as a lock or the head of a list. If a station that
/// hits pass is the bottleneck, a higher hit ratio lowers the throughput.
///
/// Each hit ratio gives one row. The bottleneck is the station with the greatest demand, or the
/// cores: with a growing MPL it is the first to be saturated. ci95_low and ci95_high bound a
/// simulation's confidence interval.
///
/// The last lines print p_star, the range of hit ratios with the highest throughput, and the class.
/// p_star is searched from the lower of 0.4 and the lowest --hit-ratio up to 1; for a simulation,
/// and with --bypass best or flat, among the rows. The class is lru-like if, at an unlimited MPL, a
/// hit ratio of 1 gives over 1 % less than the best above 0.4; else fifo-like.
///
/// In a frozen network the share --frozen-hits of the hits needs one look-up in the frozen table
/// and no turn. All other requests look there first. Such a look-up takes the profile's time for
/// it, or without one the time of the policy's own look-up.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil model --network lru
  frazil model --network lru-prob:q=0.9 --backend 5us --solver bounds
  frazil model --network slru --hit-ratio 0.9 --mpl 144 --solver simulation --stations
  frazil model --network lru --hit-ratio 0.99 --bypass best
  frazil model --network frozen+lru --frozen-hits 0.9
  frazil calibrate --output machine.toml
  frazil model --network lru --profile machine.toml --capacity 10K --backend 1ms --output json")]
pub(crate) struct Args {
    /// The network of a policy. Profile `paper` has fifo, lru, lru-prob:q=0.5 (any q from 0 to 1),
    /// clock, slru and s3-fifo; a file has those it describes. The prefix frozen+ or
    /// frozen:share=S+ freezes a part of the cache.
    #[arg(long, value_name = "NAME[:KEY=VALUE]")]
    network: String,

    /// Of a frozen network: the share of the hits that the frozen part serves, from 0 to 1. It
    /// depends on the trace; `frazil simulate` counts it.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, allow_negative_numbers = true)]
    frozen_hits: Option<f64>,

    /// Hit ratios from 0 to 1: one, or a range.
    #[arg(long, value_name = "FROM..TO:STEP", default_value = "0.4..1.0:0.02",
          value_parser = HitRatios::parse, allow_hyphen_values = true)]
    hit_ratio: HitRatios,

    /// Requests in the system: the multiprogramming limit.
    #[arg(long, value_name = "N", default_value_t = 72, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=MAX_MPL as i64))]
    mpl: u32,

    /// Latency of a miss. The backend serves any number of requests at once.
    #[arg(long, value_name = "D", default_value = "100us", value_parser = parse_us,
          allow_hyphen_values = true)]
    backend: f64,

    /// Source of service times: paper (72 hyperthreads of a Xeon, 2024), or a TOML file written by
    /// `frazil calibrate`.
    #[arg(long, value_name = "paper|FILE", default_value = "paper")]
    profile: String,

    /// Capacity in entries, for profiles whose times depend on it [default: 100K].
    #[arg(long, value_name = "N")]
    capacity: Option<CapacitySpec>,

    /// Cores that serve requests [default: all of the profile's machine].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,

    /// Method. bounds: the upper bound min(N / (D + Z), 1 / D_max). mva: exact mean value analysis
    /// for exponential service. simulation: discrete events, with 95 % confidence intervals.
    #[arg(long, value_enum, default_value_t)]
    solver: Solver,

    /// Distribution of service times in a simulation. hyper-exponential has a squared coefficient
    /// of variation of 4.
    #[arg(long, value_enum, default_value_t)]
    service: Shape,

    /// Requests a simulation counts for each hit ratio, after a warm-up of a tenth as many
    /// [default: 200000, and 200 more for each request of the MPL].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=1 << 40))]
    requests: Option<u64>,

    /// Seed of a simulation.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Send a share of the requests straight to the backend: flat (the smallest share that keeps
    /// the exact throughput at its value at p_star), best (the share with the highest throughput),
    /// or a number.
    #[arg(long, value_name = "flat|best|SHARE", value_parser = Bypass::parse)]
    bypass: Option<Bypass>,

    /// Also print the response time, and each station's demand, utilisation and queue.
    #[arg(long)]
    stations: bool,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Solver {
    Bounds,
    #[default]
    Mva,
    Simulation,
}

impl Solver {
    fn name(self) -> &'static str {
        match self {
            Solver::Bounds => "bounds",
            Solver::Mva => "mva",
            Solver::Simulation => "simulation",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Shape {
    #[default]
    Exponential,
    Deterministic,
    HyperExponential,
}

impl Shape {
    fn distribution(self) -> Distribution {
        match self {
            Shape::Exponential => Distribution::Exponential,
            Shape::Deterministic => Distribution::Deterministic,
            Shape::HyperExponential => Distribution::HyperExponential { cv2: 4.0 },
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Bypass {
    Flat,
    Best,
    Share(f64),
}

impl Bypass {
    fn parse(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("flat", _) => Ok(Bypass::Flat),
            ("best", _) => Ok(Bypass::Best),
            (_, Ok(share)) if (0.0..=1.0).contains(&share) => Ok(Bypass::Share(share)),
            _ => Err("expected flat, best, or a share from 0 to 1".to_owned()),
        }
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

/// Most rows that a range may give.
const MOST_ROWS: f64 = 10_000.0;

/// The requested hit ratios, in rising order.
#[derive(Clone, Debug)]
struct HitRatios(Vec<f64>);

impl HitRatios {
    fn parse(text: &str) -> Result<Self, String> {
        let ratio = |text: &str| match text.parse() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
            _ => Err(format!("`{text}` is no hit ratio: expected a number from 0 to 1")),
        };
        let Some((from, rest)) = text.split_once("..") else {
            return Ok(HitRatios(vec![ratio(text)?]));
        };
        let (to, step) = rest.split_once(':').unwrap_or((rest, "0.02"));
        let (from, to): (f64, f64) = (ratio(from)?, ratio(to)?);
        let step = match step.parse::<f64>() {
            Ok(step) if step > 0.0 && step <= 1.0 => step,
            _ => return Err(format!("`{step}` is no step: expected a number above 0, up to 1")),
        };
        if from > to {
            return Err(format!("{from} is above {to}: expected FROM..TO:STEP"));
        }
        if (to - from) / step > MOST_ROWS {
            return Err(format!("more than {MOST_ROWS} hit ratios: expected a larger step"));
        }
        // Multiples of the step, so that errors do not add up. A last one that rounding has put
        // beyond the end becomes the end.
        let count = ((to - from) / step + 1e-9).floor() as usize;
        let at = |number: usize| {
            let ratio: f64 = from + step * number as f64;
            ((ratio * 1e12).round() / 1e12).min(to)
        };
        Ok(HitRatios((0..=count).map(at).collect()))
    }

    fn range(&self) -> (f64, f64) {
        (self.0.first().copied().unwrap_or(0.0), self.0.last().copied().unwrap_or(1.0))
    }
}

/// Whether a network's name has the prefix of a frozen share, and the rest of the name.
fn unfrozen(name: &str) -> Result<(bool, &str), Failure> {
    let Some((overlay, base)) = name.split_once('+') else { return Ok((false, name)) };
    let share = match overlay.split_once(":share=") {
        _ if overlay == "frozen" => "0",
        Some(("frozen", share)) => share,
        _ => return Ok((false, name)),
    };
    // The parser of policies checks which policy can freeze, and which share.
    let frozen = format!("frozen:share={share}+{base}").parse::<PolicySpec>();
    frozen.map(|_| (true, base)).map_err(Failure::usage)
}

/// The network's name without the frozen share, and the frozen part's share of the hits.
fn frozen_part(args: &Args) -> Result<(&str, Option<f64>), Failure> {
    match (unfrozen(&args.network)?, args.frozen_hits) {
        ((true, name), Some(hits)) => Ok((name, Some(hits))),
        ((false, name), None) => Ok((name, None)),
        ((true, _), None) => Err(Failure::usage(anyhow!(
            "--network {} needs --frozen-hits, the share of the hits that the frozen part serves; \
             `frazil simulate` counts it",
            args.network
        ))),
        ((false, name), Some(_)) => Err(Failure::usage(anyhow!(
            "--frozen-hits goes with a frozen network, such as frozen+{name}"
        ))),
    }
}

/// The source of networks.
enum Source {
    /// With the share of frozen hits.
    Paper(PaperNetwork, Option<f64>),
    Profile(Box<Profile>, String, Conditions),
}

impl Source {
    fn read(args: &Args) -> Result<Self, Failure> {
        let profile = args.profile.as_str();
        let (network, frozen_hits) = frozen_part(args)?;
        if profile == "paper" {
            if args.capacity.is_some() || args.threads.is_some() {
                let text = "--capacity and --threads go with a profile of a machine: the paper's \
                            times are of one capacity and 72 threads";
                return Err(Failure::usage(anyhow!(text)));
            }
            return Ok(Source::Paper(network.parse().map_err(Failure::usage)?, frozen_hits));
        }
        let mut conditions = Conditions { frozen_hits, ..Conditions::new(1.0, 0.0) };
        if let Some(capacity) = &args.capacity {
            let Some(entries) = capacity.known(Unit::Objects).ok().flatten() else {
                let text = "--capacity: expected a number of entries, such as 10K";
                return Err(Failure::usage(anyhow!(text)));
            };
            conditions.capacity = entries as f64;
        }
        conditions.cores = args.threads.map(usize::from);
        let parsed = crate::profile::read(profile)?;
        // An unknown name is bad usage; all other errors are the file's.
        match parsed.network_under(network, &conditions) {
            Err(error @ ModelError::Unknown(_)) => {
                let mut text = error.to_string();
                if is_measurable(network) {
                    text += &format!("; frazil calibrate --policy {network} --output FILE ");
                    text += "measures it";
                }
                Err(Failure::usage(anyhow!(text).context(profile.to_owned())))
            }
            _ => Ok(Source::Profile(Box::new(parsed), network.to_owned(), conditions)),
        }
    }

    fn network(&self, hit_ratio: f64, backend_us: f64, made: Use) -> Result<Network, ModelError> {
        match self {
            Source::Paper(paper, frozen) => {
                let network = paper.network(hit_ratio, backend_us, made)?;
                frozen.map_or(Ok(network.clone()), |hits| freeze(&network, hits, LOOK_UP_US))
            }
            Source::Profile(profile, name, conditions) => {
                let conditions = Conditions { hit_ratio, backend_us, ..conditions.clone() };
                profile.network_under(name, &conditions)
            }
        }
    }
}

/// Whether `frazil calibrate` accepts the name: a policy's, with its prefixes.
fn is_measurable(network: &str) -> bool {
    network.rsplit('+').next().is_some_and(|policy| policy.parse::<Online>().is_ok())
}

/// A row of the result.
struct Line {
    hit_ratio: f64,
    bypassed: f64,
    throughput_mops: f64,
    interval: Option<(f64, f64)>,
    bottleneck: Option<String>,
    response_us: f64,
    stations: Vec<StationLoad>,
}

/// The model and its arguments.
struct Model<'a> {
    args: &'a Args,
    source: Source,
}

impl Model<'_> {
    fn mpl(&self) -> usize {
        self.args.mpl as usize
    }

    fn plain(&self, hit_ratio: f64) -> Result<Network, ModelError> {
        let made = if self.args.solver == Solver::Bounds { Use::Bound } else { Use::Exact };
        self.source.network(hit_ratio, self.args.backend, made)
    }

    /// The highest exact throughput without a bypass: a property of the network, so it is searched
    /// over all hit ratios.
    fn peak_mops(&self) -> Result<f64, ModelError> {
        let network = |p| self.source.network(p, self.args.backend, Use::Exact);
        let throughput = |p| throughput(&network(p)?, self.mpl());
        Ok(peak((0.0, 1.0), throughput)?.throughput_mops)
    }

    /// The share that bypasses the cache at a hit ratio.
    fn bypassed(&self, hit_ratio: f64, peak_mops: Option<f64>) -> Result<f64, ModelError> {
        let network = || self.source.network(hit_ratio, self.args.backend, Use::Exact);
        Ok(match (self.args.bypass, peak_mops) {
            (Some(Bypass::Share(share)), _) => share,
            (Some(Bypass::Flat), Some(peak)) => flat_bypass(&network()?, self.mpl(), peak)?,
            (Some(Bypass::Best), _) => best_bypass(&network()?, self.mpl())?.share,
            _ => 0.0,
        })
    }

    fn network(&self, hit_ratio: f64, bypassed: f64) -> Result<Network, ModelError> {
        let network = self.plain(hit_ratio)?;
        if bypassed > 0.0 { bypass(&network, bypassed) } else { Ok(network) }
    }

    fn line(&self, hit_ratio: f64, peak_mops: Option<f64>) -> Result<Line, ModelError> {
        let bypassed = self.bypassed(hit_ratio, peak_mops)?;
        let network = self.network(hit_ratio, bypassed)?;
        // The bottleneck is the station with the greatest demand; that needs no solver.
        let bound = bounds(&network, self.mpl())?;
        let mut line = Line {
            hit_ratio,
            bypassed,
            throughput_mops: bound.upper_mops,
            interval: None,
            bottleneck: bound.bottleneck,
            response_us: self.args.mpl as f64 / bound.upper_mops,
            stations: Vec::new(),
        };
        let solution = match self.args.solver {
            Solver::Bounds => {
                let demands = network.stations().iter().zip(network.demands_us());
                let load = |(station, demand_us): (&frazil_queueing::Station, f64)| StationLoad {
                    name: station.name.clone(),
                    demand_us,
                    utilisation: demand_us * bound.upper_mops,
                    // Bounds do not give queues.
                    queue_length: f64::NAN,
                };
                line.stations = demands.map(load).collect();
                return Ok(line);
            }
            Solver::Mva => solve(&network, self.mpl())?,
            Solver::Simulation => {
                let requests =
                    self.args.requests.unwrap_or(200 * u64::from(self.args.mpl).max(1000));
                let options = SimulationOptions {
                    service: self.args.service.distribution(),
                    requests,
                    warmup: requests / 10,
                    seed: self.args.seed,
                    ..SimulationOptions::default()
                };
                let simulated = simulate(&network, self.mpl(), &options)?;
                line.interval = Some((simulated.low_mops, simulated.high_mops));
                simulated.solution
            }
        };
        line.throughput_mops = solution.throughput_mops;
        line.response_us = solution.response_us;
        line.stations = solution.stations;
        Ok(line)
    }

    /// The hit ratios of the highest throughput, and the class.
    fn verdict(&self, lines: &[Line], peak_mops: Option<f64>) -> Result<Row, ModelError> {
        let curve = |p| {
            let network = self.network(p, self.bypassed(p, peak_mops)?)?;
            match self.args.solver {
                Solver::Bounds => Ok(bounds(&network, self.mpl())?.upper_mops),
                _ => throughput(&network, self.mpl()),
            }
        };
        let (least, _) = self.args.hit_ratio.range();
        let (low, high) = match (self.args.solver, self.args.bypass) {
            // Each point of a curve with such a bypass is a search, so only the rows are used.
            (Solver::Simulation, _) | (_, Some(Bypass::Best | Bypass::Flat)) => highest_rows(lines),
            _ => {
                let peak = peak((least.min(0.4), 1.0), curve)?;
                (peak.low, peak.high)
            }
        };
        let demand = |p| {
            let network = self.source.network(p, self.args.backend, Use::Bound)?;
            let bound = bounds(&network, self.mpl())?;
            // Includes the demand on cores, if they are fewer than the requests.
            Ok(network.max_demand_us().max(bound.core_demand_us))
        };
        Ok(row! {
            "network" => self.args.network,
            "p_star" => [low, high],
            "class" => classify(demand)?.to_string(),
        })
    }
}

/// The first and the last row around the best that cannot be distinguished from it.
fn highest_rows(lines: &[Line]) -> (f64, f64) {
    let mut best = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.throughput_mops > lines[best].throughput_mops {
            best = at;
        }
    }
    let low = |line: &Line| line.interval.map_or(line.throughput_mops, |it| it.0);
    let high = |line: &Line| line.interval.map_or(line.throughput_mops, |it| it.1);
    let alike = |line: &&Line| high(line) >= low(&lines[best]);
    let first = lines[..best].iter().rev().take_while(alike).last();
    let last = lines[best..].iter().take_while(alike).last();
    let ratio = |line: Option<&Line>| line.map_or(lines[best].hit_ratio, |it| it.hit_ratio);
    (ratio(first), ratio(last))
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    let model = Model { args, source: Source::read(args)? };
    if args.service != Shape::default() && args.solver != Solver::Simulation {
        note(
            "--service has no effect without --solver simulation: the other solvers use means \
              only",
        );
    }
    let failed = |error: ModelError| Failure::Failed(anyhow!(error).context(args.profile.clone()));
    let peak_mops = match args.bypass {
        Some(Bypass::Flat) => Some(model.peak_mops().map_err(failed)?),
        _ => None,
    };
    let mut lines = Vec::new();
    for &hit_ratio in &args.hit_ratio.0 {
        lines.push(model.line(hit_ratio, peak_mops).map_err(failed)?);
    }
    let verdict = model.verdict(&lines, peak_mops).map_err(failed)?;
    let rows = || {
        let rows = lines.iter().map(|line| row(args, line));
        rows.chain([verdict.clone()]).collect::<Vec<_>>()
    };
    output::print(&match args.output {
        Output::Json => output::json(&rows()),
        Output::Csv => output::csv(&rows()),
        Output::Table => table(args, &lines, &verdict),
    })
}

/// A number that JSON can hold, or nothing.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn row(args: &Args, line: &Line) -> Row {
    let mut row = row! {
        "network" => args.network,
        "hit_ratio" => line.hit_ratio,
        "mpl" => args.mpl,
        "backend_us" => args.backend,
        "solver" => args.solver.name(),
        "throughput_mops" => finite(line.throughput_mops),
        "bottleneck" => line.bottleneck,
        "ci95_low" => line.interval.and_then(|it| finite(it.0)),
        "ci95_high" => line.interval.and_then(|it| finite(it.1)),
    };
    if let Some(hits) = args.frozen_hits {
        row.insert("frozen_hits".to_owned(), json!(hits));
    }
    if args.bypass.is_some() {
        row.insert("bypass".to_owned(), json!(line.bypassed));
    }
    if args.stations {
        row.insert("response_us".to_owned(), json!(finite(line.response_us)));
        let station = |it: &StationLoad| {
            json!({
                "name": it.name,
                "demand_us": it.demand_us,
                "utilisation": it.utilisation,
                "queue_length": finite(it.queue_length),
            })
        };
        let stations: Vec<_> = line.stations.iter().map(station).collect();
        row.insert("stations".to_owned(), json!(stations));
    }
    row
}

fn table(args: &Args, lines: &[Line], verdict: &Row) -> String {
    let mut headers = vec!["hit ratio", "M req/s"];
    let simulated = args.solver == Solver::Simulation;
    headers.extend(simulated.then_some("95 % interval"));
    headers.extend(args.bypass.map(|_| "bypass"));
    headers.extend(["response us", "bottleneck"]);
    headers.extend(args.stations.then_some("stations: utilisation, queue"));
    let row = |line: &Line| {
        let mut row =
            vec![format!("{:.4}", line.hit_ratio), output::number(line.throughput_mops, 4)];
        if let Some((low, high)) = line.interval {
            row.push(format!("{} to {}", output::number(low, 4), output::number(high, 4)));
        }
        if args.bypass.is_some() {
            row.push(output::percent(line.bypassed));
        }
        row.push(format!("{:.2}", line.response_us));
        row.push(line.bottleneck.clone().unwrap_or_else(|| "none".to_owned()));
        if args.stations {
            let station = |it: &StationLoad| match finite(it.queue_length) {
                Some(queue) => format!("{} {:.3}, {queue:.2}", it.name, it.utilisation),
                None => format!("{} {:.3}", it.name, it.utilisation),
            };
            row.push(line.stations.iter().map(station).collect::<Vec<_>>().join("; "));
        }
        row
    };
    let left = ["bottleneck", "stations: utilisation, queue"];
    let table = output::table(&headers, &left, lines.iter().map(row).collect());
    format!("{table}\n{}\n", sentence(args, verdict))
}

/// The verdict for people.
fn sentence(args: &Args, verdict: &Row) -> String {
    let p_star = |end: usize| verdict["p_star"][end].as_f64().unwrap_or(f64::NAN);
    let (low, high) = (p_star(0), p_star(1));
    // If p* comes from the rows, nothing is known beyond the last.
    let of_rows = args.solver == Solver::Simulation
        || matches!(args.bypass, Some(Bypass::Best | Bypass::Flat));
    let class = verdict["class"].as_str().unwrap_or_default();
    let who = format!("{} is {class}", args.network);
    if of_rows && args.hit_ratio.0.len() == 1 {
        return format!("{who}.");
    }
    let (whose, end) =
        if of_rows { ("of these rows, ", args.hit_ratio.range().1) } else { ("", 1.0) };
    let peak = if high - low < 5e-4 {
        format!("at a hit ratio of {high:.4}")
    } else {
        format!("from a hit ratio of {low:.4} to {high:.4}")
    };
    let after = if high < end - 5e-4 { "; more hits hurt" } else { "" };
    format!("{who}: {whose}throughput is highest {peak}{after}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_ratios_are_read() {
        let of = |text| HitRatios::parse(text).map(|it| it.0);
        assert_eq!(of("0.5"), Ok(vec![0.5]));
        assert_eq!(of("0.4..0.6:0.1"), Ok(vec![0.4, 0.5, 0.6]));
        assert_eq!(of("0.4..1.0:0.02").map(|it| (it.len(), it[30])), Ok((31, 1.0)));
        assert_eq!(of("0.9..1:0.03"), Ok(vec![0.9, 0.93, 0.96, 0.99]));
        for text in [
            "",
            "1.1",
            "-0.1",
            "nan",
            "0.5..0.4:0.1",
            "0..1:0",
            "0..1:-1",
            "0..1:1e-9",
            "0..",
            "..",
            "0..2:0.1",
            "0..1:x",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
