//! Makes a profile from measurements: each figure is the median of the rounds, and their range is
//! its spread.

use std::collections::BTreeMap;

use frazil_queueing::{
    Costs, Counts, Endpoints, Machine, ModelError, NetworkCounts, Profile, Quality, StationTimes,
    ThinkTime, Times, Turns, Visits, costs,
};

use super::measure::{Figures, Skips, Timed};
use crate::median::median;

/// Least difference between two mixes in skipped items that shows the cost of one.
const LEAST_SKIPS: f64 = 0.2;
/// The least time: times by number may not be 0 for one number and more for others.
const LEAST_US: f64 = 1e-4;

/// The figures of one policy at one capacity.
pub(super) struct Point {
    pub(super) capacity: u64,
    pub(super) rounds: Vec<Figures>,
    pub(super) skips: Skips,
    /// FIFO's rounds at that capacity.
    pub(super) fifo: Vec<Figures>,
}

/// A policy and its costs at each capacity.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) turns: Turns,
    pub(super) points: Vec<Point>,
}

/// Figures that belong to no policy.
pub(super) struct Common {
    pub(super) write_us: f64,
    /// By round.
    pub(super) fetch_us: Vec<f64>,
    /// Time of a look-up in the frozen table, by capacity and round.
    pub(super) looks_us: Vec<(u64, Vec<f64>)>,
}

impl Common {
    /// The rounds of these numbers.
    pub(super) fn of(&self, rounds: &[usize]) -> Common {
        let some = |all: &[f64]| rounds.iter().filter_map(|&it| all.get(it).copied()).collect();
        let looks = self.looks_us.iter().map(|(capacity, all)| (*capacity, some(all)));
        Common {
            write_us: self.write_us,
            fetch_us: some(&self.fetch_us),
            looks_us: looks.collect(),
        }
    }
}

/// Whether the mixes show the cost of skipped items at all.
pub(super) fn gives_chances(skips: Skips) -> bool {
    skips.again[1] - skips.again[0] > LEAST_SKIPS
}

/// Makes the profile.
pub(super) fn profile(
    machine: Machine,
    quality: Quality,
    policies: &[Measured],
    common: &Common,
) -> Result<Profile, ModelError> {
    let mut profile = Profile {
        machine,
        quality: Some(quality),
        think: BTreeMap::new(),
        stations: BTreeMap::new(),
        networks: BTreeMap::new(),
    };
    let fetch = ThinkTime {
        mean_us: Times::One(median(&common.fetch_us)),
        spread_us: Some(Times::One(deviation(&common.fetch_us))),
        only_with_backend: true,
        work: None,
    };
    profile.think.insert("fetch".to_owned(), fetch);
    let mut looks = Column::default();
    for (capacity, rounds) in common.looks_us.iter().filter(|(_, rounds)| !rounds.is_empty()) {
        let each: Vec<&[f64]> = rounds.iter().map(std::slice::from_ref).collect();
        looks.push(*capacity, &[median(rounds)], &each);
    }
    if !looks.figures.is_empty() {
        profile.think.insert(Profile::FROZEN_HIT.to_owned(), looks.think(None));
    }
    for policy in policies {
        add(&mut profile, policy, common)?;
    }
    profile.check()?;
    Ok(profile)
}

/// A figure at each capacity, with its spread.
#[derive(Default)]
struct Column {
    figures: Vec<(f64, Vec<f64>)>,
    spreads: Vec<(f64, Vec<f64>)>,
}

impl Column {
    fn push(&mut self, capacity: u64, figure: &[f64], rounds: &[&[f64]]) {
        if figure.is_empty() {
            return;
        }
        let spread = |at: usize| {
            let of: Vec<f64> = rounds.iter().filter_map(|it| it.get(at).copied()).collect();
            rounded(deviation(&of))
        };
        let figures = figure.iter().map(|&us| rounded(us.max(LEAST_US))).collect();
        self.figures.push((capacity as f64, figures));
        self.spreads.push((capacity as f64, (0..figure.len()).map(spread).collect()));
    }

    fn think(self, work: Option<&str>) -> ThinkTime {
        ThinkTime {
            mean_us: Times::ByCapacity(self.figures),
            spread_us: Some(Times::ByCapacity(self.spreads)),
            only_with_backend: false,
            work: work.map(str::to_owned),
        }
    }

    fn station(self, at: &str, work: Option<&str>) -> StationTimes {
        StationTimes {
            service_us: Times::ByCapacity(self.figures),
            spread_us: Some(Times::ByCapacity(self.spreads)),
            at: Some(at.to_owned()),
            by_cores: true,
            work: work.map(str::to_owned),
        }
    }
}

fn add(profile: &mut Profile, policy: &Measured, common: &Common) -> Result<(), ModelError> {
    let mut columns: [Column; 6] = std::array::from_fn(|_| Column::default());
    let mut skipped = Vec::new();
    for point in &policy.points {
        let together = costs_of(&point.rounds, &point.fifo, point, policy.turns, common)?;
        let mut rounds = Vec::new();
        for (one, fifo) in point.rounds.iter().zip(&point.fifo) {
            let (one, fifo) = (std::slice::from_ref(one), std::slice::from_ref(fifo));
            // A single round may be too noisy to use.
            rounds.extend(costs_of(one, fifo, point, policy.turns, common).ok());
        }
        let of = |pick: fn(&Priced) -> &[f64]| -> Vec<&[f64]> { rounds.iter().map(pick).collect() };
        let picks: [fn(&Priced) -> &[f64]; 6] = [
            |it| &it.costs.think_hit_us,
            |it| &it.costs.think_miss_us,
            |it| &it.costs.hold_hit_us,
            |it| &it.costs.hold_miss_us,
            |it| &it.skip_us,
            |it| &it.costs.meet_us,
        ];
        for (column, pick) in columns.iter_mut().zip(picks) {
            column.push(point.capacity, pick(&together), &of(pick));
        }
        skipped.push(point.skips.mixed);
    }
    let [think_hit, think_miss, hold_hit, hold_miss, skip, meet] = columns;
    let name = |what: &str| format!("{}.{what}", policy.name);
    let once = |what: &str| BTreeMap::from([(name(what), Visits::Constant(1.0))]);
    let at = if policy.turns == Turns::Queue { "queue" } else { "lock" };
    profile.think.insert(name("hit"), think_hit.think(None));
    profile.think.insert(name("miss"), think_miss.think(None));
    let mut hit = Counts { think: once("hit"), ..Counts::default() };
    let mut miss = Counts { think: once("miss"), stations: once("miss") };
    miss.think.insert("fetch".to_owned(), Visits::Constant(1.0));
    profile.stations.insert(name("miss"), hold_miss.station(at, None));
    if let Some(visits) = meetings(&policy.points) {
        profile.think.insert(name("meet"), meet.think(None));
        hit.think.insert(name("meet"), visits.clone());
        miss.think.insert(name("meet"), visits);
    }
    if !hold_hit.figures.is_empty() {
        profile.stations.insert(name("hit"), hold_hit.station(at, None));
        hit.stations = once("hit");
    }
    if !skip.figures.is_empty() {
        let visits = Visits::Constant(rounded(median(&skipped)));
        // Without a lock the thread owns the item while it examines it.
        if policy.turns == Turns::Queue {
            profile.think.insert(name("skip"), skip.think(Some("skip")));
            miss.think.insert(name("skip"), visits);
        } else {
            profile.stations.insert(name("skip"), skip.station(at, Some("skip")));
            miss.stations.insert(name("skip"), visits);
        }
    }
    profile
        .networks
        .insert(policy.name.clone(), NetworkCounts { hit, miss, ..NetworkCounts::default() });
    Ok(())
}

/// The share of the contention that applies, by hit ratio: none in the mix, where turns include it;
/// all if misses are few; none without misses.
fn meetings(points: &[Point]) -> Option<Visits> {
    let ratio = |of: fn(&Figures) -> &Vec<Timed>| {
        let all = points.iter().flat_map(|point| &point.rounds);
        let ratios: Vec<f64> =
            all.filter_map(|round| of(round).last().map(|it| it.hit_ratio)).collect();
        rounded(median(&ratios))
    };
    let (mixed, rare) = (ratio(|it| &it.mixed), ratio(|it| &it.rare));
    let rises = 0.0 < mixed && mixed < rare && rare < 1.0;
    rises.then(|| Visits::ByHitRatio(vec![(mixed, 0.0), (rare, 1.0), (1.0, 0.0)]))
}

/// The cost of a request, and of an item skipped.
struct Priced {
    costs: Costs,
    skip_us: Vec<f64>,
}

fn costs_of(
    rounds: &[Figures],
    fifo: &[Figures],
    point: &Point,
    turns: Turns,
    common: &Common,
) -> Result<Priced, ModelError> {
    let skips = gives_chances(point.skips);
    let skip_us = if skips { skip_us(rounds, fifo, point.skips) } else { None };
    let mut endpoints = endpoints(rounds, common.write_us);
    endpoints.elsewhere_us = skip_us.unwrap_or(0.0) * point.skips.mixed;
    let reference = self::endpoints(fifo, common.write_us);
    let costs = costs(&endpoints, &reference, turns)?;
    Ok(Priced { costs, skip_us: skip_us.into_iter().collect() })
}

/// Medians of the rounds.
fn endpoints(rounds: &[Figures], write_us: f64) -> Endpoints {
    let medians = |of: fn(&Figures) -> &Vec<Timed>, what: fn(&Timed) -> f64| -> Vec<f64> {
        let threads = rounds.iter().map(|round| of(round).len()).min().unwrap_or(0);
        let at = |at: usize| median(rounds.iter().map(|it| what(&of(it)[at])));
        (0..threads).map(at).collect()
    };
    let writes = median(rounds.iter().map(|round| round.writes));
    Endpoints {
        hits_us: medians(|it| &it.hits, |it| it.us),
        mixed_us: medians(|it| &it.mixed, |it| it.us),
        mixed_hit_ratio: medians(|it| &it.mixed, |it| it.hit_ratio),
        rare_us: medians(|it| &it.rare, |it| it.us),
        rare_hit_ratio: medians(|it| &it.rare, |it| it.hit_ratio),
        elsewhere_us: 0.0,
        queue_us: writes * write_us,
    }
}

/// The extra cost of the second mix's misses over the first's, minus FIFO's difference, for an item
/// skipped: FIFO finds the same keys near and far, and skips nothing.
fn skip_us(rounds: &[Figures], fifo: &[Figures], skips: Skips) -> Option<f64> {
    let miss = |rounds: &[Figures], mix: usize| {
        let of = |what: fn(&Timed) -> f64| -> Vec<f64> {
            rounds.iter().filter_map(|it| it.again.map(|again| what(&again[mix]))).collect()
        };
        let hits: Vec<f64> =
            rounds.iter().filter_map(|it| it.hits.first().map(|it| it.us)).collect();
        let (us, p) = (of(|it| it.us), median(of(|it| it.hit_ratio)));
        (!us.is_empty() && p < 1.0).then(|| (median(&us) - p * median(&hits)) / (1.0 - p))
    };
    let ours = miss(rounds, 1)? - miss(rounds, 0)?;
    let theirs = miss(fifo, 1)? - miss(fifo, 0)?;
    Some(((ours - theirs) / (skips.again[1] - skips.again[0])).max(0.0))
}

/// Four digits: the rest is noise, and makes files hard to read.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

/// The standard deviation; 0 for fewer than two numbers.
fn deviation(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 {
        return 0.0;
    }
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let squares: f64 = numbers.iter().map(|it| (it - mean).powi(2)).sum();
    (squares / (numbers.len() - 1) as f64).sqrt()
}
