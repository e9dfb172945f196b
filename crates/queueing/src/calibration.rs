//! Derives costs from measured throughputs: the time that a request computes by itself, and the
//! time that it holds a place where requests take turns.
//!
//! A cache is driven at *endpoints*: all requests hit, and a mix with misses, with 1, 2, … threads
//! that do nothing else. One thread gives the sum of thinking and holding. FIFO's hit takes no
//! turn, so it gives the thinking time, and the rest of another policy's hit is holding. With more
//! threads, the holding time is the one with which the exact solution of the network gives the
//! measured throughput. So it includes the cost of a hand-over, of the cache lines that move with
//! it, and of work that threads do instead of waiting. It depends on the number of threads at work,
//! not of those present: a line written by another core must come from there, whether that core
//! waits or not. (The number present gives no usable time for a queue: two threads hardly ever meet
//! there, and the time when they do came out as a hundred times that of one.)

use crate::{Kind, ModelError, Network, Route, Service, Station, Step, solve};

/// The operations that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Misses, which write lines that all threads write; a lock-free queue.
    Queue,
    /// Misses, under a lock.
    Misses,
    /// Hits and misses.
    All,
}

/// Measurements of a policy at a capacity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endpoints {
    /// µs from one request of a thread to its next, all hits, with 1, 2, … threads.
    pub hits_us: Vec<f64>,
    /// The same with a mix of hits and misses.
    pub mixed_us: Vec<f64>,
    /// Share of the hits in the mix, with 1, 2, … threads.
    pub mixed_hit_ratio: Vec<f64>,
    /// The same with few misses; may be empty.
    pub rare_us: Vec<f64>,
    /// Share of the hits with few misses.
    pub rare_hit_ratio: Vec<f64>,
    /// µs of a miss of the mix that other figures include (items skipped).
    pub elsewhere_us: f64,
    /// µs at the shared lines of a [`Turns::Queue`] for a miss of one thread.
    pub queue_us: f64,
}

/// Costs of requests with 1, 2, … threads at work: computing, and holding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// µs of a hit without its turn.
    pub think_hit_us: Vec<f64>,
    /// µs of a miss without its turn.
    pub think_miss_us: Vec<f64>,
    /// µs of a hit's turn; empty if it takes none.
    pub hold_hit_us: Vec<f64>,
    /// µs of a miss's turn.
    pub hold_miss_us: Vec<f64>,
    /// Extra computing time of a request if misses are few, beyond the hits and misses of the mix:
    /// each miss moves lines that the hits of other threads read. 0 with one thread.
    pub meet_us: Vec<f64>,
}

/// The shortest turn, µs: smaller differences are noise, and a station needs a time above 0.
const LEAST_US: f64 = 1e-3;
/// The longest turn, µs.
const MOST_US: f64 = 1e4;

impl Endpoints {
    /// µs of a miss with one thread, without the part that other figures include.
    fn miss_us(&self) -> Result<f64, ModelError> {
        let (hit, mixed) = (first(&self.hits_us)?, first(&self.mixed_us)?);
        let p = first(&self.mixed_hit_ratio)?;
        if p >= 1.0 {
            let text = "a mix in which all hit says nothing of misses".to_owned();
            return Err(ModelError::Malformed(text));
        }
        let miss = (mixed - p * hit) / (1.0 - p) - self.elsewhere_us;
        // A miss includes a look-up, as a hit does.
        Ok(miss.max(hit))
    }
}

fn first(times: &[f64]) -> Result<f64, ModelError> {
    let text = || ModelError::Malformed("a policy was not measured with one thread".to_owned());
    times.first().copied().ok_or_else(text)
}

/// The costs of a policy that reproduce its endpoints, given those of FIFO at the same capacity,
/// whose hits take no turn. O(threads²) small solutions.
///
/// ```
/// use frazil_queueing::{Endpoints, Turns, costs};
/// let of = |hits_us: [f64; 2], mixed_us| Endpoints {
///     hits_us: hits_us.to_vec(),
///     mixed_us,
///     mixed_hit_ratio: vec![0.5, 0.5],
///     ..Endpoints::default()
/// };
/// let fifo = of([0.01, 0.01], vec![0.03, 0.03]);
/// let lru = of([0.04, 0.08], vec![0.08, 0.16]);
/// let costs = costs(&lru, &fifo, Turns::All)?;
/// assert!((costs.hold_hit_us[0] - 0.03).abs() < 1e-12);
/// assert!((costs.hold_miss_us[0] - 0.07).abs() < 1e-12);
/// assert!(costs.hold_hit_us[1] > 0.03, "two threads take longer than twice the time");
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
///
/// # Errors
///
/// No measurement with one thread; no misses in the mix; impossible times.
pub fn costs(it: &Endpoints, fifo: &Endpoints, turns: Turns) -> Result<Costs, ModelError> {
    let (hit, miss) = (first(&it.hits_us)?, it.miss_us()?);
    let hold_hit = match turns {
        Turns::All => (hit - first(&fifo.hits_us)?).clamp(LEAST_US.min(hit / 2.0), hit),
        _ => 0.0,
    };
    let hold_miss = match turns {
        Turns::Queue => it.queue_us,
        _ => miss - fifo.miss_us()?,
    };
    let least = hold_hit.max(LEAST_US).min(miss / 2.0);
    let hold_miss = hold_miss.clamp(least, miss.max(least));
    let mut costs = Costs {
        think_hit_us: vec![hit - hold_hit],
        think_miss_us: vec![miss - hold_miss],
        hold_hit_us: if turns == Turns::All { vec![hold_hit] } else { Vec::new() },
        hold_miss_us: vec![hold_miss],
        meet_us: vec![0.0],
    };
    let threads = it.hits_us.len().min(it.mixed_us.len()).min(it.mixed_hit_ratio.len());
    for threads in 2..=threads {
        let at = threads - 1;
        if turns == Turns::All {
            // The computing of other threads slows a look-up, with any policy.
            let slower = slowdown(&fifo.hits_us, at);
            let think = fit_think((hit - hold_hit) * slower, &costs, it, (1.0, at))?;
            costs.think_hit_us.push(think);
            let held = fit_hold(&costs, it, (1.0, at))?;
            costs.hold_hit_us.push(held);
        } else {
            costs.think_hit_us.push(it.hits_us[at].max(hit));
        }
        let p = it.mixed_hit_ratio[at];
        let slower = costs.think_hit_us[at] / costs.think_hit_us[0].max(1e-9);
        let think = fit_think((miss - hold_miss) * slower.max(1.0), &costs, it, (p, at))?;
        costs.think_miss_us.push(think);
        let held = fit_hold(&costs, it, (p, at))?;
        costs.hold_miss_us.push(held);
        let meet = fit_meet(&costs, it, at)?;
        costs.meet_us.push(meet);
    }
    Ok(costs)
}

/// Factor by which the work of other threads slows a request that takes no turn.
fn slowdown(hits_us: &[f64], at: usize) -> f64 {
    match (hits_us.first(), hits_us.get(at)) {
        (Some(&alone), Some(&us)) if alone > 0.0 => (us / alone).max(1.0),
        _ => 1.0,
    }
}

/// A think time with this number of threads: the expected one, or less if that, even with a station
/// that serves all at once, gives less than the measured throughput.
fn fit_think(
    foreseen: f64,
    costs: &Costs,
    it: &Endpoints,
    (p, at): (f64, usize),
) -> Result<f64, ModelError> {
    let of = |think: f64| {
        let mut costs = costs.clone();
        let (thinks, holds) = match p {
            1.0 => (&mut costs.think_hit_us, &mut costs.hold_hit_us),
            _ => (&mut costs.think_miss_us, &mut costs.hold_miss_us),
        };
        thinks.push(think);
        holds.push(least_hold(holds));
        throughput(&costs, p, at + 1)
    };
    let measured = measured(it, p, at);
    let alone = if p == 1.0 { costs.think_hit_us[0] } else { costs.think_miss_us[0] };
    if of(foreseen)? >= measured {
        return Ok(foreseen);
    }
    bisect(alone.min(foreseen), foreseen, measured, of)
}

/// The time of a turn that gives the measured throughput with this number of threads.
fn fit_hold(costs: &Costs, it: &Endpoints, (p, at): (f64, usize)) -> Result<f64, ModelError> {
    let of = |held: f64| {
        let mut costs = costs.clone();
        let holds = if p == 1.0 { &mut costs.hold_hit_us } else { &mut costs.hold_miss_us };
        holds.push(held);
        throughput(&costs, p, at + 1)
    };
    let known = if p == 1.0 { &costs.hold_hit_us } else { &costs.hold_miss_us };
    bisect(least_hold(known), MOST_US, measured(it, p, at), of)
}

/// The extra computing time that gives the throughput measured with few misses.
fn fit_meet(costs: &Costs, it: &Endpoints, at: usize) -> Result<f64, ModelError> {
    let (Some(&us), Some(&p)) = (it.rare_us.get(at), it.rare_hit_ratio.get(at)) else {
        return Ok(0.0);
    };
    let threads = at + 1;
    let of = |meet: f64| {
        let mut costs = costs.clone();
        costs.think_hit_us[at] += meet;
        costs.think_miss_us[at] += meet;
        throughput(&costs, p, threads)
    };
    let measured = threads as f64 / us;
    if of(0.0)? <= measured { Ok(0.0) } else { bisect(0.0, MOST_US, measured, of) }
}

/// Threads that skip work instead of waiting for each other may be faster together than alone.
fn least_hold(known: &[f64]) -> f64 {
    let alone = known.first().copied().unwrap_or_default();
    alone / (known.len() + 1) as f64
}

/// Requests per µs of all threads.
fn measured(it: &Endpoints, p: f64, at: usize) -> f64 {
    let us = if p == 1.0 { it.hits_us[at] } else { it.mixed_us[at] };
    (at + 1) as f64 / us
}

/// The argument at which a falling function has a value; the nearer end if there is none.
fn bisect(
    low: f64,
    high: f64,
    value: f64,
    of: impl Fn(f64) -> Result<f64, ModelError>,
) -> Result<f64, ModelError> {
    let (mut low, mut high) = (low, high);
    // Enough to separate any two numbers between the ends.
    for _ in 0..80 {
        let middle = if high > 4.0 * low { (low * high).sqrt() } else { f64::midpoint(low, high) };
        // A geometric mean with 0 would stay at 0.
        let middle = if middle > 0.0 { middle } else { high / 1024.0 };
        if of(middle)? > value { low = middle } else { high = middle }
    }
    Ok(f64::midpoint(low, high))
}

/// Throughput of the network with these costs and this number of threads.
fn throughput(costs: &Costs, p: f64, threads: usize) -> Result<f64, ModelError> {
    let at = |times: &[f64], at: usize| times.get(at).or(times.last()).copied().unwrap_or_default();
    let mean =
        |hit: &[f64], miss: &[f64]| p * at(hit, threads - 1) + (1.0 - p) * at(miss, threads - 1);
    let think = mean(&costs.think_hit_us, &costs.think_miss_us);
    let turn = mean(&costs.hold_hit_us, &costs.hold_miss_us);
    let mut steps = vec![Step::Compute(think)];
    let mut stations = Vec::new();
    if turn > 0.0 {
        let service = Service::Single(turn);
        stations.push(Station { name: "turns".to_owned(), service });
        steps.push(Step::Visit { station: 0, visits: 1.0 });
    }
    let route = Route { kind: Kind::Hit, share: 1.0, steps };
    Ok(solve(&Network::new(stations, vec![route])?, threads)?.throughput_mops)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endpoints of a cache with these costs.
    fn endpoints(costs: &Costs, p: f64) -> Endpoints {
        let times = |p| {
            (1..=costs.think_hit_us.len())
                .map(|threads| threads as f64 / throughput(costs, p, threads).unwrap())
                .collect()
        };
        Endpoints {
            hits_us: times(1.0),
            mixed_us: times(p),
            mixed_hit_ratio: vec![p; costs.think_hit_us.len()],
            queue_us: costs.hold_miss_us[0],
            rare_us: times(0.9),
            rare_hit_ratio: vec![0.9; costs.think_hit_us.len()],
            ..Endpoints::default()
        }
    }

    fn close(one: &[f64], other: &[f64]) {
        assert_eq!(one.len(), other.len(), "{one:?} {other:?}");
        for (one, other) in one.iter().zip(other) {
            assert!((one - other).abs() < 1e-6 * other.max(1e-3), "{one:?} {other:?}");
        }
    }

    #[test]
    fn known_costs_are_recovered() {
        // FIFO's only figure for turns is `queue_us`.
        let fifo = Costs {
            think_hit_us: vec![0.010, 0.012, 0.015],
            think_miss_us: vec![0.060, 0.072, 0.090],
            hold_hit_us: Vec::new(),
            hold_miss_us: vec![0.005, 0.030, 0.040],
            meet_us: Vec::new(),
        };
        let reference = endpoints(&fifo, 0.5);
        let found = costs(&reference, &reference, Turns::Queue).unwrap();
        close(&found.think_miss_us, &fifo.think_miss_us);
        close(&found.hold_miss_us, &fifo.hold_miss_us);
        close(&found.think_hit_us, &fifo.think_hit_us);
        assert!(found.hold_hit_us.is_empty());
        // The costs explain all of it; no contention is left.
        assert!(found.meet_us.iter().all(|us| *us < 1e-9), "{found:?}");
        let mut slower = reference.clone();
        slower.rare_us[1] += 0.02;
        let found = costs(&slower, &reference, Turns::Queue).unwrap();
        // A little more than the added time: a thread that computes does not wait.
        assert!((0.02..0.021).contains(&found.meet_us[1]), "{found:?}");

        let lru = Costs {
            // FIFO's turn is think time for a policy with a lock.
            think_hit_us: fifo.think_hit_us.clone(),
            think_miss_us: vec![0.065, 0.078, 0.0975],
            hold_hit_us: vec![0.030, 0.070, 0.090],
            hold_miss_us: vec![0.080, 0.150, 0.170],
            meet_us: Vec::new(),
        };
        let found = costs(&endpoints(&lru, 0.4), &reference, Turns::All).unwrap();
        close(&found.think_hit_us, &lru.think_hit_us);
        close(&found.think_miss_us, &lru.think_miss_us);
        close(&found.hold_hit_us, &lru.hold_hit_us);
        close(&found.hold_miss_us, &lru.hold_miss_us);

        let sieve = Costs { hold_hit_us: Vec::new(), ..lru };
        let found = costs(&endpoints(&sieve, 0.5), &reference, Turns::Misses).unwrap();
        close(&found.hold_miss_us, &sieve.hold_miss_us);
    }

    #[test]
    fn skipped_items_are_taken_off() {
        let fifo = Costs {
            think_hit_us: vec![0.01],
            think_miss_us: vec![0.05],
            hold_hit_us: Vec::new(),
            hold_miss_us: vec![0.01],
            meet_us: Vec::new(),
        };
        let mut measured = endpoints(&fifo, 0.5);
        measured.mixed_us[0] += 0.5 * 0.02;
        measured.elsewhere_us = 0.02;
        let found = costs(&measured, &measured, Turns::Queue).unwrap();
        close(&found.think_miss_us, &fifo.think_miss_us);
    }

    #[test]
    fn noise_gives_costs_all_the_same() {
        let of = |hits_us: [f64; 2], mixed_us: [f64; 2]| Endpoints {
            hits_us: hits_us.to_vec(),
            mixed_us: mixed_us.to_vec(),
            mixed_hit_ratio: vec![0.5, 0.6],
            ..Endpoints::default()
        };
        let fifo = of([0.03, 0.04], [0.05, 0.06]);
        // Faster than FIFO; impossibly fast with two threads; a miss that costs nothing.
        for strange in [of([0.02, 0.01], [0.04, 0.01]), of([0.04, 1e3], [0.01, 1e3])] {
            for turns in [Turns::Queue, Turns::Misses, Turns::All] {
                let found = costs(&strange, &fifo, turns).unwrap();
                for times in [&found.think_hit_us, &found.hold_miss_us, &found.hold_hit_us] {
                    assert!(times.iter().all(|us| us.is_finite() && *us >= 0.0), "{found:?}");
                }
            }
        }
        let all_hit = Endpoints { mixed_hit_ratio: vec![1.0, 1.0], ..fifo.clone() };
        assert!(costs(&all_hit, &fifo, Turns::All).is_err());
        assert!(costs(&Endpoints::default(), &fifo, Turns::All).is_err());
    }
}
