//! Claims of paper 5, and the results of [`super::delayed_hits`] beside them.

use super::Expectation;
use super::delayed_cells::{BOUND, Cell, Gain, UNSEEN};
use super::delayed_hits::{Cells, GROUPS, GROUPS_BY_DELAY, OURS, PAIRS, SURVEYED, traces};
use crate::output::{self, percent};

/// Largest acceptable latency relative to LRU's, in any cell.
const MOST_LOSS: f64 = 1.005;

/// The replayed cells.
pub(super) struct Findings {
    pub(super) cells: Cells,
    pub(super) gains: Vec<Gain>,
}

impl Findings {
    /// Objects by burstiness in `parts` parts: the mean burstiness of each, and the reduction of
    /// its waits.
    pub(super) fn thirds(&self, parts: usize) -> Vec<(f64, f64)> {
        let mut gains: Vec<&Gain> = self.gains.iter().collect();
        gains.sort_by(|one, other| one.burstiness.total_cmp(&other.burstiness));
        let each = gains.len().div_ceil(parts).max(1);
        let part = |gains: &[&Gain]| {
            let sum = |of: fn(&Gain) -> f64| gains.iter().map(|&gain| of(gain)).sum::<f64>();
            let waited = sum(|gain| gain.waited).max(1.0);
            (sum(|gain| gain.burstiness) / gains.len() as f64, sum(|gain| gain.saved) / waited)
        };
        gains.chunks(each).map(part).collect()
    }
}

/// The geometric mean and the greatest of some ratios.
fn geometric(ratios: &[f64]) -> (f64, f64) {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    ((logs / ratios.len().max(1) as f64).exp(), worst)
}

/// Mean latencies of a policy over LRU's, in the given cells of the survey.
fn ratios(cells: &Cells, policy: &str, of: impl Fn(&Cell) -> bool) -> Vec<f64> {
    let those = cells.of("survey").filter(|cell| cell.policy == policy && of(cell));
    those.filter_map(|cell| cells.gain(cell, "lru")).map(|gain| 1.0 - gain).collect()
}

fn is_unseen(cell: &Cell) -> bool {
    UNSEEN.contains(&cell.trace.as_str())
}

/// Geometric means and worst cells, over all cells and over those used for no choice.
pub(super) fn survey_summary(cells: &Cells) -> String {
    let rows = SURVEYED[1..].iter().map(|&policy| {
        let (all, worst) = geometric(&ratios(cells, policy, |_| true));
        let (unseen, unseen_worst) = geometric(&ratios(cells, policy, is_unseen));
        let show = |value: f64| format!("{value:.4}");
        // There are none among generated traces.
        let of_unseen = |value| if unseen_worst > 0.0 { show(value) } else { "-".to_owned() };
        let losses = ratios(cells, policy, |_| true).iter().filter(|&&it| it > MOST_LOSS).count();
        let mut line = vec![policy.to_owned(), show(all), show(worst), losses.to_string()];
        line.extend([of_unseen(unseen), of_unseen(unseen_worst)]);
        line
    });
    let headers =
        ["policy", "mean of all", "worst", "cells above 1.005", "mean of unseen", "worst unseen"];
    format!(
        "The survey: geometric means of latency over LRU's\n\n{}",
        output::table(&headers, &["policy"], rows.collect())
    )
}

fn expectation(figure: u32, expected: &str, seen: String, met: bool) -> Expectation {
    Expectation { figure, expected: expected.to_owned(), seen, met }
}

/// All expectations.
pub(super) fn all(findings: &Findings) -> Vec<Expectation> {
    let cells = &findings.cells;
    let mut all = vec![figure_14(cells)];
    all.extend(figures_16_to_18(cells));
    all.extend([figure_19(cells), figure_20(findings), figure_21(cells)]);
    all.extend(gap(cells));
    all.extend(survey(cells));
    all
}

fn figure_14(cells: &Cells) -> Expectation {
    let mad = cells.of("14").filter(|cell| cell.policy == "mad:ways=64");
    let gains: Vec<f64> = mad.filter_map(|cell| cells.gain(cell, "lru")).collect();
    // Origins A, B, C and all three.
    let rising = gains.len() == 4 && gains[0] < gains[1] && gains[1] < gains[2];
    let seen: Vec<String> = gains.iter().map(|&gain| percent(gain)).collect();
    expectation(
        14,
        "LRU-MAD waits less at each origin and with all three, the more the further away",
        seen.join(", "),
        rising && gains.iter().all(|&gain| gain > 0.0),
    )
}

fn figures_16_to_18(cells: &Cells) -> Vec<Expectation> {
    let gains = |of: &dyn Fn(&Cell) -> bool| {
        let of_pair = |(base, mad): (&'static str, &'static str)| {
            let those = cells.of("16").filter(move |cell| cell.policy == mad && of(cell));
            those.filter_map(move |cell| cells.gain(cell, base)).collect::<Vec<f64>>()
        };
        PAIRS.into_iter().flat_map(of_pair).collect::<Vec<f64>>()
    };
    let range = |gains: &[f64]| {
        let least = gains.iter().copied().fold(f64::MAX, f64::min);
        let most = gains.iter().copied().fold(f64::MIN, f64::max);
        (least, format!("{} to {}", percent(least), percent(most)))
    };
    let (least, all) = range(&gains(&|_| true));
    let mean = |fetches: &dyn Fn(u64) -> bool| {
        let gains = gains(&|cell| fetches(cell.fetch));
        gains.iter().sum::<f64>() / gains.len().max(1) as f64
    };
    let (short, long) = (mean(&|fetch| fetch <= 100), mean(&|fetch| fetch >= 1_000));
    let one = mean(&|fetch| fetch == 1);
    vec![
        expectation(16, "MAD never waits longer than its base", all, least >= 0.0),
        expectation(16, "with fetches of one request MAD is its base", percent(one), one == 0.0),
        expectation(
            16,
            "it gains more with fetches of 1,000 requests and more than of 100 and fewer",
            format!("{} and {}", percent(long), percent(short)),
            long > short,
        ),
    ]
}

fn figure_19(cells: &Cells) -> Expectation {
    let gain_at = |trace: &str, small: bool| {
        let mad = cells.of("19").filter(|it| it.trace == trace && it.policy == "mad:ways=64");
        let those = mad.filter(|cell| (cell.percent <= 1.0) == small);
        let gains: Vec<f64> = those.filter_map(|cell| cells.gain(cell, "lru")).collect();
        gains.iter().sum::<f64>() / gains.len().max(1) as f64
    };
    let traces = traces(cells, "19");
    let of = |small| traces.iter().map(|trace| gain_at(trace, small)).collect::<Vec<f64>>();
    let (small, large) = (of(true), of(false));
    let show = |gains: &[f64]| gains.iter().map(|&it| percent(it)).collect::<Vec<_>>().join(", ");
    expectation(
        19,
        "LRU-MAD gains at every trace, both in caches of up to 1 % of the peak and in larger ones",
        format!("{}; {}", show(&small), show(&large)),
        small.iter().chain(&large).all(|&gain| gain > 0.0),
    )
}

fn figure_20(findings: &Findings) -> Expectation {
    let thirds = findings.thirds(3);
    let seen: Vec<String> = thirds.iter().map(|&(_, gain)| percent(gain)).collect();
    let met = thirds.len() == 3 && thirds[2].1 > thirds[0].1;
    expectation(
        20,
        "the third of the objects that is burstiest gains more than the least bursty",
        seen.join(", "),
        met,
    )
}

fn figure_21(cells: &Cells) -> Expectation {
    let change = |(base, mad): (&'static str, &'static str)| {
        let those = cells.of("16").filter(move |cell| cell.policy == mad);
        those.filter_map(move |cell| {
            let base = cells.beside(cell, base)?.outcome.miss_ratio();
            Some(cell.outcome.miss_ratio() / base - 1.0)
        })
    };
    let most = PAIRS.into_iter().flat_map(change).fold(f64::MIN, f64::max);
    let expected = "MAD misses at most a tenth more often than its base";
    expectation(21, expected, format!("at most {}", percent(most)), most <= 0.1)
}

fn gap(cells: &Cells) -> Vec<Expectation> {
    let gains = |policy: &'static str| {
        let those = cells.of("gap").filter(move |cell| cell.policy == policy);
        those.filter_map(|cell| cells.gain(cell, "belady")).collect::<Vec<f64>>()
    };
    let (mad, greedy) = (gains("mad"), gains("belady-mad"));
    let show = |gains: &[f64]| gains.iter().map(|&it| percent(it)).collect::<Vec<_>>().join(", ");
    let mut all = vec![
        expectation(
            5,
            "who knows the future and weighs delays waits no longer than Belady",
            show(&greedy),
            greedy.iter().all(|&gain| gain >= 0.0),
        ),
        expectation(
            5,
            "the longer fetches take, the nearer MAD comes to Belady",
            show(&mad),
            mad.windows(2).all(|pair| pair[1] >= pair[0]),
        ),
    ];
    let bound = gains(BOUND);
    if !bound.is_empty() {
        let met = bound.iter().zip(&greedy).all(|(bound, greedy)| bound >= greedy);
        let expected = "BELATEDLY waits no longer than the greedy one";
        all.push(expectation(5, expected, show(&bound), met));
    }
    all
}

fn survey(cells: &Cells) -> Vec<Expectation> {
    let of = |policy| geometric(&ratios(cells, policy, |_| true));
    let ((ours, worst), (mad, mad_worst)) = (of(OURS), of("mad"));
    let mut all = vec![expectation(
        5,
        "over all cells of the survey one of ours waits less than MAD in the geometric mean, and \
         nowhere more than 0.5 % longer than LRU",
        format!("{OURS} {ours:.4}, worst {worst:.4}; mad {mad:.4}, worst {mad_worst:.4}"),
        ours < mad && worst <= MOST_LOSS,
    )];
    let [groups, by_delay] = [GROUPS, GROUPS_BY_DELAY].map(|policy| of(policy).0);
    all.push(expectation(
        5,
        "groups whose utility is weighted with waits (paper 4) wait less than those of hits, and \
         than MAD over LRU",
        format!("{GROUPS_BY_DELAY} {by_delay:.4}, {GROUPS} {groups:.4}, mad {mad:.4}"),
        by_delay < groups.min(mad),
    ));
    let of = |policy| geometric(&ratios(cells, policy, is_unseen));
    let ((ours, worst), (mad, mad_worst)) = (of(OURS), of("mad"));
    if worst > 0.0 {
        all.push(expectation(
            5,
            "the same over the traces that nothing was chosen by",
            format!("{OURS} {ours:.4}, worst {worst:.4}; mad {mad:.4}, worst {mad_worst:.4}"),
            ours < mad && worst <= MOST_LOSS,
        ));
    }
    all
}
