//! Agreement of a calibration with itself: predictions from parts of its rounds, compared.
//!
//! A profile is good if another one of the same machine predicts the same. That does not need a
//! second calibration: every round measures everything, so each round, or every second round, is a
//! calibration of its own.

use std::collections::BTreeMap;

use frazil_queueing::{Conditions, Errors, Halves, Profile, throughput};

/// Hit ratios of the compared predictions.
const HIT_RATIOS: [f64; 3] = [0.5, 0.9, 1.0];
/// Cores of the compared predictions, besides the machine's own.
const CORES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The accuracy of a machine that is not measured again, in standard deviations of one round's
/// prediction. Two calibrations, each the median of five rounds, would differ by less than 0.8 two
/// thirds of the time, and, with so few rounds (Student's t), by less than 2.2 nineteen times in
/// twenty. The figure is larger because a machine differs from time to time, and a slow one has
/// fewer rounds.
const DEVIATIONS: f64 = 3.0;

/// With fewer rounds there is no result.
const FEWEST: usize = 3;
/// Larger errors are useless.
const MOST: f64 = 10.0;

/// The predictions of the parts.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    /// From the odd and the even rounds, on the machine's own cores.
    pub(super) halves: Option<Halves>,
    /// By policy, the data of [`Profile::error_at`].
    pub(super) errors: BTreeMap<String, Errors>,
}

/// Throughputs by policy, capacity and cores, at each hit ratio.
type Predictions = BTreeMap<(String, u64, usize), [f64; HIT_RATIOS.len()]>;

/// Compares the predictions of parts of `rounds` rounds. `part` makes a profile of the rounds with
/// the given numbers, if it can.
pub(super) fn agreement(
    rounds: usize,
    own_cores: usize,
    capacities: &[u64],
    part: impl Fn(&[usize]) -> Option<Profile>,
) -> Agreement {
    let mut cores = CORES.to_vec();
    cores.push(own_cores);
    cores.sort_unstable();
    cores.dedup();
    let all: Vec<usize> = (0..rounds).collect();
    let (even, odd): (Vec<usize>, Vec<usize>) = all.iter().partition(|&round| round % 2 == 0);
    let predicted = |rounds: &[usize], cores: &[usize]| {
        part(rounds).map(|profile| predictions(&profile, capacities, cores))
    };
    let halves = [&even, &odd].map(|half| predicted(half, &[own_cores]));
    let [Some(one), Some(other)] = halves else { return Agreement::default() };
    let single: Vec<Predictions> =
        all.iter().filter_map(|&round| predicted(&[round], &cores)).collect();
    let mut errors: BTreeMap<String, Errors> = BTreeMap::new();
    // In order of the policies, of the capacities, and of the cores.
    for (policy, capacity, cores) in single.first().into_iter().flat_map(BTreeMap::keys) {
        let key = (policy.clone(), *capacity, *cores);
        let of_rounds: Vec<&[f64; HIT_RATIOS.len()]> =
            single.iter().filter_map(|it| it.get(&key)).collect();
        let Some(deviation) = deviation(&of_rounds) else { continue };
        let error = rounded((DEVIATIONS * deviation).min(MOST));
        let known = errors.entry(policy.clone()).or_default();
        if known.last().is_none_or(|(last, _)| *last != *capacity as f64) {
            known.push((*capacity as f64, Vec::new()));
        }
        if let Some((_, by_cores)) = known.last_mut() {
            by_cores.push((*cores as f64, error));
        }
    }
    Agreement { halves: compared(&one, &other), errors }
}

/// The prediction of a profile for requests that wait for no backend, one for each core.
fn predictions(profile: &Profile, capacities: &[u64], cores: &[usize]) -> Predictions {
    let mut predictions = Predictions::new();
    for name in profile.networks.keys() {
        let alone = profile.only(name);
        for (&capacity, &cores) in
            capacities.iter().flat_map(|it| cores.iter().map(move |c| (it, c)))
        {
            let of = |hit_ratio: f64| {
                let mut conditions = Conditions::new(hit_ratio, 0.0);
                (conditions.capacity, conditions.cores) = (capacity as f64, Some(cores));
                let network = alone.network_under(name, &conditions).ok()?;
                throughput(&network, cores).ok()
            };
            let known = HIT_RATIOS.map(|hit_ratio| of(hit_ratio).unwrap_or(f64::NAN));
            predictions.insert((name.clone(), capacity, cores), known);
        }
    }
    predictions
}

/// The differences between two sets of predictions.
fn compared(one: &Predictions, other: &Predictions) -> Option<Halves> {
    let both = one.iter().filter_map(|(key, one)| Some((one, other.get(key)?)));
    let pairs = both.flat_map(|(one, other)| one.iter().zip(other));
    let apart = pairs.map(|(one, other)| 2.0 * (one - other).abs() / (one + other));
    let mut apart: Vec<f64> = apart.filter(|it| it.is_finite()).collect();
    apart.sort_by(f64::total_cmp);
    let beyond =
        |share: f64| Some(rounded(*apart.get((apart.len() as f64 * (1.0 - share)) as usize)?));
    Some(Halves { median: beyond(0.5)?, tenth: beyond(0.1)?, worst: rounded(*apart.last()?) })
}

/// The standard deviation of the logarithms of the rounds' predictions: over all hit ratios, each
/// about its own mean. `None` with too few rounds, or an invalid prediction.
fn deviation(rounds: &[&[f64; HIT_RATIOS.len()]]) -> Option<f64> {
    let (mut squares, mut free, mut fewest) = (0.0, 0.0, usize::MAX);
    for place in 0..HIT_RATIOS.len() {
        let logs: Vec<f64> =
            rounds.iter().map(|round| round[place].ln()).filter(|it| it.is_finite()).collect();
        fewest = fewest.min(logs.len());
        if logs.len() > 1 {
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
            free += logs.len() as f64 - 1.0;
        }
    }
    (fewest >= FEWEST && free > 0.0).then(|| (squares / free).sqrt())
}

/// Three decimals.
fn rounded(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One policy, with these times of a look-up on one core, and of a turn on more.
    fn profile(look_up_us: f64, turn_us: f64) -> Profile {
        let text = format!(
            "machine = {{ description = \"here\", cores = 2 }}\n\
             think.look-up = {{ mean_us = {look_up_us} }}\n\
             stations.turn = {{ service_us = {turn_us} }}\n\
             networks.lru.hit = {{ think = {{ look-up = 1 }}, stations = {{ turn = 1 }} }}\n\
             networks.lru.miss = {{ think = {{ look-up = 1 }}, stations = {{ turn = 1 }} }}\n"
        );
        Profile::parse(&text).unwrap()
    }

    #[test]
    fn rounds_that_agree_leave_no_doubt() {
        let found = agreement(4, 2, &[1_000], |_| Some(profile(0.1, 0.01)));
        assert_eq!(found.halves, Some(Halves { median: 0.0, tenth: 0.0, worst: 0.0 }));
        let cores: Vec<f64> = found.errors["lru"][0].1.iter().map(|it| it.0).collect();
        assert_eq!(cores, CORES.map(|cores| cores as f64));
        assert!(found.errors["lru"][0].1.iter().all(|it| it.1 == 0.0));
    }

    #[test]
    fn what_only_many_cores_show_is_an_error_of_many_cores() {
        // A turn is short beside the look-up, and 64 cores wait only for it.
        let found = agreement(4, 2, &[1_000], |rounds| {
            Some(profile(0.1, if rounds[0] % 2 == 0 { 0.001 } else { 0.003 }))
        });
        let error = |at: usize| found.errors["lru"][0].1[at].1;
        assert!(error(0) < 0.1, "{found:?}");
        assert!(error(6) > 1.0, "{found:?}");
        let halves = found.halves.unwrap();
        assert!(0.01 < halves.worst && halves.worst < 0.04, "{found:?}");
    }

    #[test]
    fn what_cannot_be_compared_says_nothing() {
        assert_eq!(agreement(4, 2, &[1_000], |_| None).halves, None);
        assert_eq!(agreement(1, 2, &[1_000], |_| None).halves, None);
        // Two of five rounds are usable.
        let found = agreement(5, 2, &[1_000], |rounds| {
            (rounds.len() > 1 || rounds[0] < 2).then(|| profile(0.1, 0.01))
        });
        assert!(found.halves.is_some() && found.errors.is_empty(), "{found:?}");
    }
}
