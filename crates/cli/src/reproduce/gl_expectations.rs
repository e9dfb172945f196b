//! Claims of paper 4, and the results of [`super::gl_cache`] beside them.

use super::Expectation;
use super::gl_cache::{
    COMPARED, E, FRACTIONS, Findings, GROUPS, Grouping, Importance, MERGES, ORACLES, PERCENT,
    PERCENTS, SEGMENTS, SHOWN, T,
};
use super::gl_cells::Cell;

/// Least ratio to LHD: within 2 %.
const NEAR: f64 = 0.98;
/// The least speeds of E and T, as shares of FIFO's.
const SPEEDS: [(&str, f64); 2] = [(E, 0.1), (T, 0.2)];
const TIMES_LRB: f64 = 100.0;

fn expectation(figure: u32, expected: &str, seen: String, met: bool) -> Expectation {
    Expectation { figure, expected: expected.to_owned(), seen, met }
}

/// All expectations.
pub(super) fn all(findings: &Findings) -> Vec<Expectation> {
    let mut all = figure_2(findings);
    all.push(figure_5(findings));
    all.extend(figure_7(findings));
    all.extend(figure_8(findings));
    all.extend(figure_9(findings));
    all.extend(figures_10_to_12(findings));
    all.push(figure_13(findings));
    all
}

fn shown(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ")
}

fn figure_2(findings: &Findings) -> Vec<Expectation> {
    let ratio = |place: usize| {
        let of = |grouping: &Grouping| {
            grouping.by_write_time[place] / grouping.by_chance[place].max(f64::MIN_POSITIVE)
        };
        let all: f64 = findings.groupings.iter().map(of).sum();
        all / findings.groupings.len().max(1) as f64
    };
    let ratios: Vec<f64> = (0..GROUPS.len()).map(ratio).collect();
    let spreads: Vec<f64> = findings.groupings.iter().map(|it| it.spread).collect();
    vec![
        expectation(
            2,
            "objects written at the same time vary less than objects by chance, at each group size",
            format!("{} of what varies by chance", shown(&ratios)),
            ratios.iter().all(|&ratio| ratio < 1.0),
        ),
        expectation(
            2,
            "the larger groups are the nearer they are to groups by chance",
            shown(&ratios),
            ratios.windows(2).all(|pair| pair[0] <= pair[1]),
        ),
        expectation(
            2,
            "on some trace groups of 100 differ by a factor of more than 10",
            format!("up to {:.1}", spreads.iter().copied().fold(0.0, f64::max)),
            spreads.iter().any(|&spread| spread > 10.0),
        ),
    ]
}

fn figure_5(findings: &Findings) -> Expectation {
    let mean = |policy, percent| findings.mean((5, policy, percent), Cell::hit_ratio);
    let pairs = PERCENTS.map(|percent| (mean(ORACLES[0], percent), mean(ORACLES[1], percent)));
    let seen: Vec<String> = pairs.map(|(of, by)| format!("{by:.4} and {of:.4}")).to_vec();
    expectation(
        5,
        "with an oracle groups hit nearly as often as objects: nine tenths, small and large caches",
        seen.join("; "),
        pairs.iter().all(|(objects, groups)| *groups >= 0.9 * objects),
    )
}

fn figure_7(findings: &Findings) -> Vec<Expectation> {
    let mean = |policy: &str| {
        let of = |percent| findings.mean((7, policy, percent), Cell::hit_ratio);
        PERCENTS.map(of).iter().sum::<f64>() / PERCENTS.len() as f64
    };
    let e = mean(E);
    let above = |rival: &'static str| {
        let other = mean(rival);
        let expected = format!("GL-Cache-E hits more often than {rival} in the mean");
        let seen = format!("{e:.4} and {other:.4}");
        Expectation { figure: 7, expected, seen, met: e > other }
    };
    let mut all: Vec<Expectation> = ["fifo", "lru", "lecar", "cacheus", "lrb"].map(above).into();
    let (lhd, t, lrb) = (mean("lhd"), mean(T), mean("lrb"));
    all.push(expectation(
        7,
        "and within 2 % of LHD or more often",
        format!("{e:.4} and {lhd:.4}"),
        e >= NEAR * lhd,
    ));
    all.push(expectation(
        7,
        "GL-Cache-T hits about as often as LRB: 2 % less at most",
        format!("{t:.4} and {lrb:.4}"),
        t >= NEAR * lrb,
    ));
    all
}

fn figure_8(findings: &Findings) -> Vec<Expectation> {
    let speeds = |policy| PERCENTS.map(|percent| findings.speed(7, policy, percent));
    let mut all = Vec::new();
    for (policy, least) in SPEEDS {
        let of = speeds(policy);
        let expected = format!("{policy} is at least {least} times as fast as FIFO");
        let met = of.iter().all(|&speed| speed >= least);
        all.push(Expectation { figure: 8, expected, seen: shown(&of), met });
    }
    let lrb = speeds("lrb");
    for policy in [E, T] {
        let times: Vec<f64> =
            speeds(policy).iter().zip(lrb).map(|(ours, lrb)| ours / lrb).collect();
        let seen = times.iter().map(|times| format!("{times:.0}")).collect::<Vec<_>>().join(", ");
        let expected = format!("{policy} is at least a hundred times as fast as LRB");
        let met = times.iter().all(|&times| times >= TIMES_LRB);
        all.push(Expectation { figure: 8, expected, seen, met });
    }
    let learned = ["lecar", "cacheus", "lhd", "lrb"];
    let fastest = learned.map(|policy| findings.speed(7, policy, PERCENTS[0]));
    let fastest = fastest.iter().copied().fold(0.0, f64::max);
    let e = findings.speed(7, E, PERCENTS[0]);
    all.push(expectation(
        8,
        "in small caches E is faster than every other one that learns",
        format!("{e:.4} and {fastest:.4} of FIFO"),
        e > fastest,
    ));
    all
}

fn figure_9(findings: &Findings) -> Vec<Expectation> {
    let shares = |feature: usize| {
        let all: f64 = findings.importances.iter().map(|it| it.shares[feature]).sum();
        all / findings.importances.len().max(1) as f64
    };
    let states: f64 = (0..3).map(shares).sum();
    let (size, age, frequency) = (shares(3), shares(4), shares(5) + shares(6));
    let most = |it: &Importance| it.shares.iter().copied().fold(0.0, f64::max);
    let dominant = findings.importances.iter().filter(|it| most(it) > 0.6).count();
    let hits: Vec<f64> =
        SHOWN.iter().map(|policy| findings.mean((9, policy, PERCENT), Cell::hit_ratio)).collect();
    vec![
        expectation(
            9,
            "frequency and age count more than size, and states of the cache count",
            format!("frequency {frequency:.2}, age {age:.2}, size {size:.2}, states {states:.2}"),
            frequency > size && age > size && states > 0.05,
        ),
        expectation(
            9,
            "no feature has more than six tenths on most traces",
            format!("on {dominant} of {}", findings.importances.len()),
            2 * dominant < findings.importances.len(),
        ),
        expectation(
            9,
            "all features hit more often than frequency alone",
            shown(&hits),
            hits.last() > hits.first(),
        ),
    ]
}

fn figures_10_to_12(findings: &Findings) -> Vec<Expectation> {
    let hits = |figure: u32, policies: &[&str]| -> Vec<f64> {
        let of = |policy: &&str| findings.mean((figure, policy, PERCENT), Cell::hit_ratio);
        policies.iter().map(of).collect()
    };
    let speeds = |figure: u32, policies: &[&str]| -> Vec<f64> {
        policies.iter().map(|policy| findings.speed(figure, policy, PERCENT)).collect()
    };
    let segments = hits(10, &SEGMENTS);
    let most = segments.iter().copied().fold(0.0, f64::max);
    let mut all = vec![expectation(
        10,
        "neither groups of one object nor the largest groups hit most often",
        shown(&segments),
        segments.first() < Some(&most) && segments.last() < Some(&most),
    )];
    let parameters: [(u32, &str, &[&str]); 3] = [
        (10, "larger groups", &SEGMENTS),
        (11, "rankings that serve more groups", &FRACTIONS),
        (12, "merges of more groups", &MERGES),
    ];
    for (figure, what, policies) in parameters {
        let (hits, speeds) = (hits(figure, policies), speeds(figure, policies));
        all.push(Expectation {
            figure,
            expected: format!("{what} are faster"),
            seen: shown(&speeds),
            met: speeds.last() > speeds.first(),
        });
        if figure > 10 {
            all.push(Expectation {
                figure,
                expected: format!("{what} hit less often"),
                seen: shown(&hits),
                met: hits.last() < hits.first(),
            });
        }
    }
    all
}

/// No other policy is both faster and hits more often.
fn figure_13(findings: &Findings) -> Expectation {
    let of = |policy: &str, percent: f64| {
        let hits = findings.mean((7, policy, percent), Cell::hit_ratio);
        (findings.speed(7, policy, percent), hits)
    };
    let mut better = Vec::new();
    for percent in PERCENTS {
        for ours in [E, T] {
            let (speed, hits) = of(ours, percent);
            let beats = |&&policy: &&&str| {
                let other = of(policy, percent);
                other.0 > speed && other.1 > hits
            };
            let rivals = COMPARED.iter().filter(beats);
            better.extend(rivals.map(|policy| format!("{policy} beats {ours} at {percent} %")));
        }
    }
    let seen = if better.is_empty() { "none".to_owned() } else { better.join("; ") };
    expectation(
        13,
        "no other policy is both faster and hits more often than E or T",
        seen,
        better.is_empty(),
    )
}
