//! The figures of paper 2 that need only one cache. Figure 5: the learned hits beside the real
//! ones; figure 11: the change of hits. Both use a clock that hits and misses move, so that they
//! repeat exactly. Figure 12: the time of a hit.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::anyhow;
use frazil::{CurvePoint, Freezing, FreezingPhase, Policy};
use frazil_driver::{Engine, Ours, Session, Setup, key};
use frazil_simulator::trace::{self, Trace};

use super::frozen_clock::{Bench, Costs};
use crate::failure::Failure;
use crate::output::{self, row};

/// Shares that are frozen to compare with the curve.
const SHARES: [f64; 3] = [0.1, 0.3, 0.5];

/// The hits of a share by the curve, and as counted.
pub(super) struct Promise {
    pub(super) policy: &'static str,
    pub(super) share: f64,
    /// Shares of frozen hits and of misses, of all requests.
    pub(super) learnt: [f64; 2],
    pub(super) got: [f64; 2],
}

impl Promise {
    /// The difference of the frozen hits.
    pub(super) fn apart(&self) -> f64 {
        (self.learnt[0] - self.got[0]).abs()
    }

    pub(super) fn row(&self) -> output::Row {
        row! {
            "kind" => "curve",
            "figure" => 5,
            "policy" => self.policy,
            "share" => self.share,
            "learnt_frozen_hits" => self.learnt[0],
            "learnt_misses" => self.learnt[1],
            "frozen_hits" => self.got[0],
            "misses" => self.got[1],
        }
    }
}

/// Frozen and other hits take equally long, so only more hits are a gain.
const COSTS: Costs = Costs { frozen_ns: 100, dynamic_ns: 100, miss_ns: 5_000 };

/// Lets a cache learn, and then freezes some shares of it.
pub(super) fn promises(policy: &'static str, objects: u64) -> Result<Vec<Promise>, Failure> {
    let capacity = objects / 4;
    let trace = zipf(objects, 50 * objects)?;
    let mut bench = Bench::new(policy, Freezing::Learned, capacity, COSTS, endless(&trace))?;
    let mut curve = Vec::new();
    // Waiting and learning take some 20 requests an entry each, and some seconds on the clock.
    for _ in 0..200 * capacity.max(100_000) {
        bench.request();
        let state = bench.cache.freezing_state();
        let state = state.ok_or_else(|| anyhow!("{policy} does not freeze by itself"))?;
        if !matches!(state.phase, FreezingPhase::Waiting | FreezingPhase::Learning) {
            curve = state.curve().to_vec();
            break;
        }
    }
    bench.control_no_more();
    bench.cache.thaw();
    let mut promises = Vec::new();
    for share in SHARES {
        // Restores the order of a cache with nothing frozen.
        bench.ask(10 * capacity);
        bench.cache.freeze(share);
        let got = bench.ask(10 * capacity);
        bench.cache.thaw();
        if let Some(learnt) = nearest(&curve, share) {
            let learnt = [learnt.frozen_hits, learnt.misses];
            promises.push(Promise { policy, share, learnt, got });
        }
    }
    Ok(promises)
}

/// The effect of freezing on the hits of a trace.
pub(super) struct Hits {
    pub(super) load: &'static str,
    pub(super) policy: &'static str,
    pub(super) percent: f64,
    /// Without freezing, and with the chosen share frozen.
    pub(super) ratios: [f64; 2],
    /// With everything frozen by hand, and again when it is old.
    pub(super) whole: f64,
    /// Frozen hits, as a share of all hits; and the frozen share at the end.
    pub(super) frozen_hits: f64,
    pub(super) share: f64,
}

impl Hits {
    /// The relative change of the hit ratio, if there was a hit.
    pub(super) fn change(&self) -> Option<f64> {
        let [base, frozen] = self.ratios;
        (base > 0.0).then(|| (frozen - base) / base)
    }

    pub(super) fn row(&self) -> output::Row {
        row! {
            "kind" => "hits",
            "figure" => 11,
            "workload" => self.load,
            "policy" => self.policy,
            "capacity_percent" => self.percent,
            "hit_ratio" => self.ratios[0],
            "frozen_hit_ratio" => self.ratios[1],
            "change" => self.change(),
            "whole_hit_ratio" => self.whole,
            "frozen_share_of_hits" => self.frozen_hits,
            "share" => self.share,
        }
    }
}

/// Requests for the controller before hits are counted, and least number of counted requests.
const HITS_COUNTED: u64 = 1_000_000;

/// Counts hits on a trace from its second turn on, with freezing and without.
pub(super) fn hits(
    load: &'static str,
    trace: &Trace,
    policy: &'static str,
    percent: f64,
) -> Result<Hits, Failure> {
    let capacity = ((trace.objects.len() as f64 * percent / 100.0) as u64).max(1);
    let turn = trace.len().max(1) as u64;
    let requests = turn * HITS_COUNTED.div_ceil(turn);
    let (mut ratios, mut share, mut frozen_hits) = ([0.0; 2], 0.0, 0.0);
    for (ratio, freezing) in ratios.iter_mut().zip([Freezing::Never, Freezing::Learned]) {
        let mut bench = Bench::new(policy, freezing, capacity, COSTS, endless(trace))?;
        bench.ask(requests);
        let [frozen, missed] = bench.ask(requests);
        *ratio = 1.0 - missed;
        frozen_hits = frozen / ratio.max(1e-9);
        share = bench.cache.freezing_state().map_or(0.0, |state| state.share);
    }
    let whole = whole(policy, capacity, trace, requests)?;
    Ok(Hits { load, policy, percent, ratios, whole, frozen_hits, share })
}

/// The hit ratio of a trace's second turn with everything frozen for three times as many requests
/// as there are entries, then nothing frozen for as many, without a controller that checks whether
/// it pays.
fn whole(policy: &str, capacity: u64, trace: &Trace, requests: u64) -> Result<f64, Failure> {
    let mut bench = Bench::new(policy, Freezing::ByHand, capacity, COSTS, endless(trace))?;
    bench.ask(requests);
    let before = bench.cache.stats().hits;
    let mut left = requests;
    while left > 0 {
        let thawed = capacity.min(left);
        bench.ask(thawed);
        bench.cache.freeze(1.0);
        let frozen = (3 * capacity).min(left - thawed);
        bench.ask(frozen);
        bench.cache.thaw();
        left -= thawed + frozen;
    }
    Ok((bench.cache.stats().hits - before) as f64 / requests.max(1) as f64)
}

fn nearest(curve: &[CurvePoint], share: f64) -> Option<CurvePoint> {
    let distance = |point: &CurvePoint| (point.share - share).abs();
    curve.iter().copied().min_by(|one, other| distance(one).total_cmp(&distance(other)))
}

/// A trace, repeated endlessly.
fn endless(trace: &Trace) -> impl Iterator<Item = u64> {
    trace.ids.iter().cycle().map(|&id| u64::from(id))
}

fn zipf(objects: u64, requests: u64) -> Result<Trace, Failure> {
    let spec = format!("zipf:0.99:objects={objects}:requests={requests}:seed=1");
    Ok(trace::load(&spec, &Default::default())?.trace)
}

/// Times of hits with a policy, in nanoseconds, with half of its entries frozen and without.
pub(super) struct HitLatency {
    pub(super) policy: &'static str,
    pub(super) threads: usize,
    /// The frozen hits' share of the hits.
    pub(super) frozen_share: f64,
    /// Hits on frozen keys; on the same keys while nothing is frozen; on the other keys while some
    /// are frozen; and on these while nothing is.
    pub(super) frozen_ns: f64,
    pub(super) thawed_ns: f64,
    /// Hits on the same keys in a cache with the same content whose hits do no work: look-ups in
    /// the ordinary index without a change of the order.
    pub(super) indexed_ns: f64,
    pub(super) other_ns: f64,
    pub(super) other_thawed_ns: f64,
}

impl HitLatency {
    /// The mean of all hits with half of the entries frozen, and without frozen entries.
    pub(super) fn means(&self) -> [f64; 2] {
        let mean =
            |one: f64, other: f64| self.frozen_share * one + (1.0 - self.frozen_share) * other;
        [mean(self.frozen_ns, self.other_ns), mean(self.thawed_ns, self.other_thawed_ns)]
    }

    pub(super) fn row(&self) -> output::Row {
        row! {
            "kind" => "latency",
            "figure" => 12,
            "policy" => self.policy,
            "threads" => self.threads,
            "frozen_share_of_hits" => self.frozen_share,
            "frozen_ns" => self.frozen_ns,
            "same_keys_not_frozen_ns" => self.thawed_ns,
            "same_keys_by_index_alone_ns" => self.indexed_ns,
            "others_beside_frozen_ns" => self.other_ns,
            "others_ns" => self.other_thawed_ns,
        }
    }
}

/// Times hits of a cache of a quarter of the objects, half of which is frozen by hand.
pub(super) fn hit_latency(
    policy: &'static str,
    objects: u64,
    threads: usize,
) -> Result<HitLatency, Failure> {
    let setup: Setup = format!("frozen:share=0.5+{policy}").parse().map_err(Failure::usage)?;
    let ours = Ours::<u64>::new(setup, objects / 4, 0);
    let trace = zipf(objects, 8 * objects)?;
    let mut session = ours.session();
    for &id in &trace.ids {
        if session.get(key(id, 0)).is_none() {
            session.insert(key(id, 0));
        }
    }
    ours.warmed();
    let (mut frozen, mut others) = (Vec::new(), Vec::new());
    for key in trace.ids.iter().map(|&id| key(id, 0)).take(objects as usize) {
        let before = ours.cache().stats().frozen_hits;
        if session.get(key).is_some() {
            let is_frozen = ours.cache().stats().frozen_hits > before;
            if is_frozen { &mut frozen } else { &mut others }.push(key);
        }
    }
    let hits = (frozen.len() + others.len()).max(1) as f64;
    let [frozen_ns, other_ns] = [&frozen, &others].map(|keys| time(&ours, keys, threads));
    ours.cache().thaw();
    let [thawed_ns, other_thawed_ns] = [&frozen, &others].map(|keys| time(&ours, keys, threads));
    let frozen_share = frozen.len() as f64 / hits;
    let plain = Ours::<u64>::new(Policy::Fifo, objects / 4, 0);
    let mut session = plain.session();
    frozen.iter().chain(&others).for_each(|&key| session.insert(key));
    let indexed_ns = time(&plain, &frozen, threads);
    Ok(HitLatency {
        policy,
        threads,
        frozen_share,
        frozen_ns,
        thawed_ns,
        indexed_ns,
        other_ns,
        other_thawed_ns,
    })
}

/// Rounds in which hits are timed; the least time counts, because disturbances only add time.
const ROUNDS: usize = 7;

/// Nanoseconds of a hit, with threads that each request all keys.
fn time(ours: &Ours<u64>, keys: &[u64], threads: usize) -> f64 {
    let start = Barrier::new(threads);
    let ask = |thread: usize| {
        // Each starts from another key, so that they do not follow one another.
        let (front, back) = keys.split_at(thread * keys.len() / threads);
        let mut session = ours.session();
        start.wait();
        let began = Instant::now();
        let read = back.iter().chain(front).filter_map(|&key| session.get(key));
        std::hint::black_box(read.fold(0, u64::wrapping_add));
        began.elapsed().as_nanos() as f64 / keys.len().max(1) as f64
    };
    let round = || {
        std::thread::scope(|scope| {
            let ask = &ask;
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || ask(thread))).collect();
            let times = running
                .into_iter()
                .map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            times.sum::<f64>() / threads as f64
        })
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}
