//! `frazil calibrate`: what operations cost on this machine, as a profile.

mod assemble;
pub(crate) mod measure;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args as ClapArgs;
use frazil::Policy;
use frazil_driver::{Distance, Schedule, Setup};
use frazil_queueing::{Machine, Profile, Quality, Turns};
use frazil_simulator::{CapacitySpec, Unit};

use crate::Done;
use crate::date;
use crate::failure::{Failure, note};
use crate::output;
use crate::profile::doubts;
use crate::progress::Progress;
use assemble::{Common, Measured, Point, gives_chances};
use measure::{Figures, Ground, Skips, Tally};

/// Measure what operations cost in the cache on this machine, for frazil model --profile.
///
/// Drives the real cache: hits and misses, by one thread and by as many as there are cores, at
/// several capacities, in rounds in which the policies take turns. Written are the time that
/// requests compute, the time that they keep others from a lock or a queue, and what an item
/// costs that an eviction skips, each with its spread over the rounds.
///
/// Only moments count in which every thread had its core; runs that had too few are repeated,
/// three times at most. FIFO, whose hits take no turn, is always measured, for comparison.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil calibrate --output machine.toml
  frazil calibrate --policy lru,sieve,w-tinylfu --seconds 30 --output machine.toml
  frazil model --profile machine.toml --network lru --capacity 10K --backend 5us")]
pub(crate) struct Args {
    /// Policies, as frazil bench takes them.
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE],…",
        value_delimiter = ',',
        default_value = "lru,fifo,lru-prob:q=0.5,clock,slru,s3-fifo,sieve,mobius"
    )]
    policy: Vec<String>,

    /// The file to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// How long to measure, about; a disturbed machine takes longer.
    #[arg(long, value_name = "S", default_value_t = 90.0, value_parser = parse_seconds,
          allow_negative_numbers = true)]
    seconds: f64,

    /// Write the profile even if more than half of the measurements were disturbed.
    #[arg(long)]
    force: bool,

    /// Capacities to measure at; costs between them are interpolated.
    #[arg(long, value_name = "N,…", default_value = "1K,10K,100K,300K,1M", value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,
}

/// Rounds in which each policy is measured once.
const ROUNDS: usize = 5;
/// More threads than this are not measured; the last figure stands for more.
const MOST_THREADS: usize = 8;
/// More disturbed measurements than this, and there is no profile.
const MOST_DISTURBED: f64 = 0.5;
/// About at how many entries the summary has its figures.
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
    // Before minutes are spent: whether it can be written.
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
                refuse_disturbed(&tally.quality())?;
            }
            Ok((profile, tally, text))
        });
    let (profile, tally, text) = calibrated.inspect_err(|_| {
        if is_new {
            let _ = std::fs::remove_file(&args.output);
        }
    })?;
    std::fs::write(&args.output, text).with_context(failed)?;
    if tally.disturbed > 0 {
        note(&format!(
            "{} of {} runs were disturbed, or their cores further apart than at other times: the figures are \
             worth less; measure again on a quieter machine",
            tally.disturbed, tally.runs
        ));
    }
    if let Some(doubts) = doubts(&profile) {
        note(&doubts);
    }
    output::print(&summary(&profile, &capacities, &args.output, &tally))
}

/// A profile that is mostly noise is none: whoever finds the file does not see how it was made.
fn refuse_disturbed(quality: &Quality) -> anyhow::Result<()> {
    if quality.disturbed_share() <= MOST_DISTURBED {
        return Ok(());
    }
    bail!(
        "{} of {} runs were disturbed, over half of them, so nothing is written; measure on a \
         quieter machine, or with --force to have it all the same",
        quality.disturbed,
        quality.runs
    )
}

/// Policies with the names under which a profile has them: those they were asked for by.
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

/// Who takes turns in a cache of this setup.
fn turns(setup: Setup) -> Turns {
    match setup.policy {
        _ if setup.takes_no_lock() => Turns::Queue,
        // Its hits raise a mark.
        Policy::Sieve => Turns::Misses,
        _ => Turns::All,
    }
}

/// Measures policies at rising capacities for about so many seconds.
pub(crate) fn calibrate(
    asked: &[(String, Setup)],
    capacities: &[u64],
    seconds: f64,
) -> Result<(Profile, Tally), Failure> {
    let mut policies: Vec<Setup> = Vec::new();
    let fifo = Setup::from(Policy::Fifo);
    for policy in [fifo].into_iter().chain(asked.iter().map(|(_, policy)| *policy)) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let cores = frazil_driver::cores();
    let threads = cores.min(MOST_THREADS);
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
    let skips_of = |number, at| skips.get(&(number, at)).copied().unwrap_or_default();
    let chances = |number| number == 0 || gives_chances(skips_of(number, 0));
    let runs_of = |number| 3 * threads + if chances(number) { 2 } else { 0 };
    // And one among what is frozen.
    let runs = (0..policies.len()).map(runs_of).sum::<usize>() + 1;
    let runs = ROUNDS * runs * capacities.len();
    // A quarter goes to filling caches; a warm-up is a quarter of what is measured.
    let schedule = Schedule { slices: 1, ..Schedule::seconds(seconds * 0.6 / runs as f64) };
    let mut tally = Tally::new(Distance::least());
    let progress = Progress::of_steps("calibrating".to_owned(), (ROUNDS * capacities.len()) as u64);
    let mut figures: BTreeMap<(usize, usize), Vec<Figures>> = BTreeMap::new();
    let looks_us = capacities.iter().map(|&capacity| (capacity, Vec::new())).collect();
    let mut common = Common { write_us: measure::write_us(), fetch_us: Vec::new(), looks_us };
    for _ in 0..ROUNDS {
        for (at, ground) in grounds.iter().enumerate() {
            for (number, &policy) in policies.iter().enumerate() {
                let measured = ground.measure(policy, chances(number), &schedule, &mut tally)?;
                figures.entry((number, at)).or_default().push(measured);
            }
            common.looks_us[at].1.extend(ground.look_us(&schedule, &mut tally)?);
            progress.advance(1);
        }
        if let Some(ground) = grounds.first() {
            common.fetch_us.push(ground.fetch_us(&schedule, &mut tally)?);
        }
    }
    let number_of = |policy| policies.iter().position(|it| *it == policy).unwrap_or(0);
    let measured: Vec<Measured> = asked
        .iter()
        .map(|(name, policy)| (name, number_of(*policy), *policy))
        .map(|(name, number, policy)| {
            let point = |(at, ground): (usize, &Ground)| Point {
                capacity: ground.capacity,
                rounds: figures.get(&(number, at)).cloned().unwrap_or_default(),
                skips: skips_of(number, at),
                fifo: figures.get(&(0, at)).cloned().unwrap_or_default(),
            };
            let points = grounds.iter().enumerate().map(point).collect();
            Measured { name: name.clone(), turns: turns(policy), points }
        })
        .collect();
    let machine = machine(cores, &tally);
    let profile = assemble::profile(machine, tally.quality(), &measured, &common);
    Ok((profile.map_err(|error| anyhow!(error))?, tally))
}

/// This machine, for people.
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

/// What was written, for people.
fn summary(profile: &Profile, capacities: &[u64], file: &Path, tally: &Tally) -> String {
    let ns = |times: &frazil_queueing::Times, capacity: f64| {
        let times = times.at(capacity);
        let times: Vec<String> = times.iter().map(|us| format!("{:.1}", us * 1e3)).collect();
        times.join(" ")
    };
    // Of those that were measured the one that is nearest.
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
        format!("a hit of what is frozen takes {} ns", ns(&it.mean_us, middle))
    });
    format!(
        "{}\nAt {} entries, with 1, 2, … threads; {look}. {} runs, {} of them measured again. \
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
        let of = |disturbed| refuse_disturbed(&Quality { runs: 100, disturbed });
        assert!(of(0).is_ok() && of(50).is_ok());
        let error = of(51).unwrap_err().to_string();
        assert!(error.contains("51 of 100") && error.contains("--force"), "{error}");
    }
}
