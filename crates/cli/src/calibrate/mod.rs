//! `frazil calibrate`: measures the costs of operations on this machine, and writes them as a
//! profile.

mod agreement;
mod assemble;
pub(crate) mod measure;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args as ClapArgs;
use frazil::Policy;
use frazil_driver::{Distance, Schedule, Setup};
use frazil_queueing::{Halves, Machine, Profile, Quality, Turns};
use frazil_simulator::{CapacitySpec, Unit};

use crate::Done;
use crate::bench::measured_entry_bytes;
use crate::completions::cached_policies;
use crate::date;
use crate::failure::{Failure, note};
use crate::forecast::COMPARED;
use crate::output;
use crate::outputs;
use crate::profile::doubts;
use crate::progress::Progress;
use agreement::agreement;
use assemble::{Common, Measured, Point, gives_chances};
use measure::{Figures, Ground, Skips, Tally};

/// Measure the costs of cache operations on this machine, for --profile of `advise` and `model`.
///
/// `calibrate` drives the real cache with hits and misses, with one thread up to one for each core,
/// at several capacities. In each round every policy is measured once. The profile has, with the
/// spread over the rounds: the time that requests compute, the time that they occupy a lock or
/// queue, and the cost of each entry that an eviction skips. It also has the memory of an entry
/// beyond its key and value.
///
/// Only periods count in which every thread had a core to itself. Runs with too few of them are
/// repeated, at most three times. FIFO, whose hits take no turn, is always measured for comparison.
///
/// The odd and the even rounds are compared as two calibrations. If their predictions for this
/// machine differ too much, or if too many runs were disturbed, the figures are noise, and no
/// profile is written. The profile also has the spread of the rounds' predictions for up to 64
/// cores, from which `advise` makes its ranges.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil calibrate --output machine.toml
  frazil calibrate --policy lru,sieve,w-tinylfu --seconds 30 --output machine.toml
  frazil model --profile machine.toml --network lru --capacity 10K --backend 5us")]
pub(crate) struct Args {
    /// Policies, as for `frazil bench`.
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE],…",
        value_delimiter = ',',
        default_value = COMPARED,
        value_parser = cached_policies(),
        hide_possible_values = true
    )]
    policy: Vec<String>,

    /// The file to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// Seconds to measure, about. Filling the caches and repeating disturbed runs comes on top; on
    /// a machine that other programs use, the whole command can take several times as long.
    #[arg(long, value_name = "S", default_value_t = 90.0, value_parser = parse_seconds,
          allow_negative_numbers = true)]
    seconds: f64,

    /// Write the profile even if the measurements are mostly noise.
    #[arg(long)]
    force: bool,

    /// Capacities to measure at; costs between them are interpolated.
    #[arg(long, value_name = "N,…", default_value = "1K,10K,100K,300K,1M", value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,
}

/// Rounds in which each policy is measured once.
const ROUNDS: usize = 5;
/// The fewest rounds, on a machine that is too slow for all.
const LEAST_ROUNDS: usize = 2;
/// Calibration may take this multiple of the requested time if runs are disturbed and repeated.
const PATIENCE: f64 = 1.5;
/// More threads than this are not measured; the last figure stands for more.
const MOST_THREADS: usize = 8;
/// With a larger share of disturbed measurements no profile is written.
const MOST_DISTURBED: f64 = 0.1;
/// Halves with larger differences are noise: in half of their predictions, in a tenth, in one.
const MOST_APART: [f64; 3] = [0.05, 0.25, 1.0];
/// Entries whose memory is measured, and bytes of a key and a value in it.
const MEMORY_ENTRIES: u64 = 1_000_000;
const KEY_AND_VALUE: f64 = 16.0;
/// The approximate capacity of the figures in the summary.
const SHOWN: f64 = 1e5;
/// The fewest and the most entries that make sense.
const CAPACITIES: std::ops::RangeInclusive<u64> = 100..=100_000_000;

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0.1 to 86400".to_owned()),
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    let capacities = capacities(args)?;
    let policies = setups(&args.policy)?;
    // Checks that the file can be written before spending minutes.
    let failed = || format!("cannot write {}", args.output.display());
    let is_new = !args.output.exists();
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&args.output)
        .with_context(failed)?;
    let calibrated =
        calibrate(&policies, &capacities, args.seconds).and_then(|(profile, tally)| {
            let text = profile.to_toml().map_err(|error| anyhow!(error))?;
            if !args.force {
                profile.quality.as_ref().map_or(Ok(()), refuse_noise)?;
            }
            Ok((profile, tally, text))
        });
    let (profile, tally, text) = calibrated.inspect_err(|_| {
        if is_new {
            let _ = std::fs::remove_file(&args.output);
        }
    })?;
    outputs::write(&args.output, &text)?;
    if tally.disturbed > 0 {
        note(&format!(
            "{} of {} runs were disturbed: another program ran, or the host had moved the cores \
             apart; the profile is less exact; calibrate again on a quieter machine",
            tally.disturbed, tally.runs
        ));
    }
    if let Some(doubts) = doubts(&profile) {
        note(&doubts);
    }
    output::print(&summary(&profile, &capacities, &args.output, &tally))
}

/// Refuses a profile that is mostly noise: its reader would not see how it was made.
fn refuse_noise(quality: &Quality) -> anyhow::Result<()> {
    let Quality { runs, disturbed, halves } = *quality;
    let mut why = Vec::new();
    if quality.disturbed_share() > MOST_DISTURBED {
        let most = output::percent(MOST_DISTURBED);
        why.push(format!("{disturbed} of {runs} runs were disturbed, more than {most}"));
    }
    match halves {
        Some(Halves { median, tenth, worst }) => {
            let apart = [median, tenth, worst];
            if apart.iter().zip(MOST_APART).any(|(apart, most)| *apart > most) {
                let [median, tenth, worst] = apart.map(output::percent);
                let most = MOST_APART.map(output::percent);
                why.push(format!(
                    "the predictions of its halves are {median} apart, {tenth} in a tenth of all \
                     cases and {worst} at worst, more than {}, {} or {}",
                    most[0], most[1], most[2]
                ));
            }
        }
        None => why.push("its halves cannot be compared".to_owned()),
    }
    if why.is_empty() {
        return Ok(());
    }
    bail!(
        "the measurements are noise: {}; no profile is written; calibrate on a quieter machine, \
         or write it anyway with --force",
        why.join("; ")
    )
}

/// Policies with their names in the profile: the names on the command line.
pub(crate) fn setups(names: &[String]) -> Result<Vec<(String, Setup)>, Failure> {
    let mut setups: Vec<(String, Setup)> = Vec::new();
    for name in names {
        let setup = (name.clone(), name.parse().map_err(Failure::usage)?);
        if !setups.contains(&setup) {
            setups.push(setup);
        }
    }
    Ok(setups)
}

fn capacities(args: &Args) -> Result<Vec<u64>, Failure> {
    let mut capacities = Vec::new();
    for capacity in &args.capacity {
        match capacity.known(Unit::Objects).ok().flatten() {
            Some(entries) if CAPACITIES.contains(&entries) => capacities.push(entries),
            _ => {
                let text = "expected a number of entries, from 100 to 100M, as in 10K";
                return Err(Failure::usage(anyhow!("--capacity {capacity}: {text}")));
            }
        }
    }
    capacities.sort_unstable();
    capacities.dedup();
    Ok(capacities)
}

/// The operations that take turns in a cache of this setup.
fn turns(setup: Setup) -> Turns {
    match setup.policy {
        _ if setup.takes_no_lock() => Turns::Queue,
        // A hit only sets a mark.
        Policy::Sieve => Turns::Misses,
        _ => Turns::All,
    }
}

/// Measures policies at rising capacities for about the requested seconds.
pub(crate) fn calibrate(
    asked: &[(String, Setup)],
    capacities: &[u64],
    seconds: f64,
) -> Result<(Profile, Tally), Failure> {
    let cores = frazil_driver::cores();
    let threads = cores.min(MOST_THREADS);
    let plan = Plan::new(asked, capacities, threads)?;
    let patience = Duration::from_secs_f64(seconds * (PATIENCE - 1.0) / 2.0);
    let mut tally = Tally::new(Distance::least().with_patience(patience));
    let raw = plan.measure(capacities, seconds, &mut tally)?;
    let machine = machine(threads, &tally);
    // The results of the rounds with these numbers.
    let assembled = |rounds: &[usize]| {
        let measured = plan.of_rounds(asked, &raw, rounds);
        let common = raw.common.of(rounds);
        assemble::profile(machine.clone(), tally.quality(), &measured, &common)
    };
    let all: Vec<usize> = (0..raw.rounds).collect();
    let mut profile = assembled(&all).map_err(|error| anyhow!(error))?;
    let agreement = agreement(raw.rounds, threads, capacities, |rounds| assembled(rounds).ok());
    if let Some(quality) = &mut profile.quality {
        quality.halves = agreement.halves;
    }
    for (name, policy) in asked {
        let bytes = measured_entry_bytes(*policy, MEMORY_ENTRIES, None)?;
        if let Some(network) = profile.networks.get_mut(name) {
            // Only the digits on which two measurements agree.
            network.entry_bytes = bytes.map(|bytes| (bytes - KEY_AND_VALUE).max(0.0).round());
        }
    }
    for (name, errors) in agreement.errors {
        if let Some(network) = profile.networks.get_mut(&name) {
            network.errors = Some(errors);
        }
    }
    Ok((profile, tally))
}

/// The measurements of every round.
struct Plan {
    /// FIFO first.
    policies: Vec<Setup>,
    /// By capacity.
    grounds: Vec<Ground>,
    /// By policy and capacity.
    skips: BTreeMap<(usize, usize), Skips>,
    threads: usize,
}

/// The results, by round.
struct Raw {
    /// By policy and capacity.
    figures: BTreeMap<(usize, usize), Vec<Figures>>,
    common: Common,
    rounds: usize,
}

impl Plan {
    fn new(asked: &[(String, Setup)], capacities: &[u64], threads: usize) -> Result<Self, Failure> {
        let mut policies: Vec<Setup> = Vec::new();
        let fifo = Setup::from(Policy::Fifo);
        for policy in [fifo].into_iter().chain(asked.iter().map(|(_, policy)| *policy)) {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        let mut grounds = Vec::new();
        for &capacity in capacities {
            grounds.push(Ground::new(capacity, threads).map_err(Failure::usage)?);
        }
        let mut skips: BTreeMap<(usize, usize), Skips> = BTreeMap::new();
        for (number, policy) in policies.iter().enumerate() {
            let spec = policy.policy.to_string().parse().map_err(Failure::usage)?;
            for (at, ground) in grounds.iter().enumerate() {
                let counted = ground.skips(spec)?;
                skips.insert((number, at), counted);
                if !gives_chances(counted) {
                    break;
                }
            }
        }
        Ok(Plan { policies, grounds, skips, threads })
    }

    fn skips(&self, number: usize, at: usize) -> Skips {
        self.skips.get(&(number, at)).copied().unwrap_or_default()
    }

    fn chances(&self, number: usize) -> bool {
        number == 0 || gives_chances(self.skips(number, 0))
    }

    /// The time of each run, such that all of them take `seconds`.
    fn schedule(&self, seconds: f64) -> Schedule {
        let runs_of = |number| 3 * self.threads + if self.chances(number) { 2 } else { 0 };
        // One more for frozen entries.
        let runs = (0..self.policies.len()).map(runs_of).sum::<usize>() + 1;
        let runs = ROUNDS * runs * self.grounds.len();
        // A quarter goes to filling caches; warming takes a quarter of the measured time.
        Schedule { slices: 1, ..Schedule::seconds(seconds * 0.6 / runs as f64) }
    }

    fn measure(&self, capacities: &[u64], seconds: f64, tally: &mut Tally) -> Result<Raw, Failure> {
        let schedule = self.schedule(seconds);
        let steps = (ROUNDS * capacities.len()) as u64;
        let progress = Progress::of_steps("calibrating".to_owned(), steps);
        let mut figures: BTreeMap<(usize, usize), Vec<Figures>> = BTreeMap::new();
        let looks_us = capacities.iter().map(|&capacity| (capacity, Vec::new())).collect();
        let mut common = Common { write_us: measure::write_us(), fetch_us: Vec::new(), looks_us };
        let began = Instant::now();
        let share_of = |rounds: usize| {
            Duration::from_secs_f64(seconds * PATIENCE * rounds as f64 / ROUNDS as f64)
        };
        let mut rounds = 0;
        while rounds < ROUNDS {
            // A slow machine has fewer rounds, but at least one for each half.
            let next = began.elapsed().mul_f64((rounds + 1) as f64 / rounds.max(1) as f64);
            if rounds >= LEAST_ROUNDS && next > share_of(ROUNDS) {
                break;
            }
            rounds += 1;
            tally.repeat_until(began + share_of(rounds));
            for (at, ground) in self.grounds.iter().enumerate() {
                for (number, &policy) in self.policies.iter().enumerate() {
                    let chances = self.chances(number);
                    let measured = ground.measure(policy, chances, &schedule, tally)?;
                    figures.entry((number, at)).or_default().push(measured);
                }
                common.looks_us[at].1.extend(ground.look_us(&schedule, tally)?);
                progress.advance(1);
            }
            if let Some(ground) = self.grounds.first() {
                common.fetch_us.push(ground.fetch_us(&schedule, tally)?);
            }
        }
        Ok(Raw { figures, common, rounds })
    }

    /// The results of the rounds with these numbers for the requested policies.
    fn of_rounds(&self, asked: &[(String, Setup)], raw: &Raw, rounds: &[usize]) -> Vec<Measured> {
        let figures = |key| {
            let all = raw.figures.get(&key).map_or(&[][..], Vec::as_slice);
            rounds.iter().filter_map(|&round| all.get(round).cloned()).collect()
        };
        let measured = |(name, policy): &(String, Setup)| {
            let number = self.policies.iter().position(|it| it == policy).unwrap_or(0);
            let point = |(at, ground): (usize, &Ground)| Point {
                capacity: ground.capacity,
                rounds: figures((number, at)),
                skips: self.skips(number, at),
                fifo: figures((0, at)),
            };
            let points = self.grounds.iter().enumerate().map(point).collect();
            Measured { name: name.clone(), turns: turns(*policy), points }
        };
        asked.iter().map(measured).collect()
    }
}

/// The machine, measured with one thread on each of `cores`.
fn machine(cores: usize, tally: &Tally) -> Machine {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let version = env!("CARGO_PKG_VERSION");
    let rounded = tally.distance.transfer_ns().map(|ns| (ns * 10.0).round() / 10.0);
    Machine {
        description: format!("{model}, frazil {version}"),
        cores,
        measured: Some(date::today()),
        transfer_ns: rounded,
    }
}

/// The written profile, for people.
fn summary(profile: &Profile, capacities: &[u64], file: &Path, tally: &Tally) -> String {
    let ns = |times: &frazil_queueing::Times, capacity: f64| {
        let times = times.at(capacity);
        let times: Vec<String> = times.iter().map(|us| format!("{:.1}", us * 1e3)).collect();
        times.join(" ")
    };
    // The nearest of those measured.
    let far = |&capacity: &u64| ((capacity as f64).ln() - SHOWN.ln()).abs();
    let nearest = capacities.iter().copied().min_by(|a, b| far(a).total_cmp(&far(b)));
    let shown = nearest.unwrap_or(SHOWN as u64);
    let middle = shown as f64;
    let mut rows = Vec::new();
    for name in profile.networks.keys() {
        let think = |what: &str| {
            let it = profile.think.get(&format!("{name}.{what}"));
            it.map_or("-".to_owned(), |it| ns(&it.mean_us, middle))
        };
        let turn = |what: &str| {
            let it = profile.stations.get(&format!("{name}.{what}"));
            it.map_or("-".to_owned(), |it| ns(&it.service_us, middle))
        };
        let skip = if think("skip") == "-" { turn("skip") } else { think("skip") };
        rows.push(vec![name.clone(), think("hit"), think("miss"), turn("hit"), turn("miss"), skip]);
    }
    let headers = ["policy", "hit ns", "miss ns", "hit's turn", "miss's turn", "item skipped"];
    let look = profile.think.get(Profile::FROZEN_HIT);
    let look = look.map_or("nothing can be frozen here".to_owned(), |it| {
        format!("a hit in the frozen part takes {} ns", ns(&it.mean_us, middle))
    });
    let halves = profile.quality.and_then(|quality| quality.halves);
    let apart = halves.map_or(String::new(), |Halves { median, worst, .. }| {
        let [median, worst] = [median, worst].map(output::percent);
        format!("; predictions of its halves are {median} apart, {worst} at worst")
    });
    format!(
        "{}\nAt {} entries, with 1, 2, … threads; {look}. {} runs, {} of them measured again{apart}. \
         Written to {}.\n",
        output::table(&headers, &["policy"], rows),
        output::grouped(shown),
        tally.runs,
        tally.again,
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_no_profile() {
        let quality = |disturbed, median, worst| Quality {
            runs: 100,
            disturbed,
            halves: Some(Halves { median, tenth: median, worst }),
        };
        assert!(refuse_noise(&quality(0, 0.0, 0.0)).is_ok());
        assert!(refuse_noise(&quality(10, 0.05, 1.0)).is_ok());
        let refused = |quality| refuse_noise(&quality).unwrap_err().to_string();
        let error = refused(quality(11, 0.0, 0.0));
        assert!(error.contains("11 of 100") && error.contains("--force"), "{error}");
        assert!(refused(quality(0, 0.051, 0.1)).contains("5.10 % apart"));
        assert!(refused(quality(0, 0.01, 1.01)).contains("101.00 % at worst"));
        let tenth = Halves { median: 0.01, tenth: 0.26, worst: 0.3 };
        let tenth = refused(Quality { halves: Some(tenth), ..quality(0, 0.0, 0.0) });
        assert!(tenth.contains("26.00 % in a tenth"), "{tenth}");
        assert!(refused(Quality { halves: None, ..quality(0, 0.0, 0.0) }).contains("compared"));
    }
}
