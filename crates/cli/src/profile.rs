//! Profiles in files: reads and checks them, and reports their quality.

use anyhow::{Context, bail};
use frazil_policy::Work;
use frazil_queueing::Profile;

use crate::failure::note;
use crate::output::{grouped, percent};

/// A profile is not reliable from this share of disturbed measurements, or distance of the two
/// halves, on: each figure is the median of several.
const FEW: f64 = 0.05;
/// Most names listed in a warning.
const ENOUGH: usize = 3;

/// Reads a profile, and warns if it is not reliable.
pub(crate) fn read(file: &str) -> anyhow::Result<Profile> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read the profile {file}"))?;
    let profile = parse(&text).with_context(|| file.to_owned())?;
    let warnings = [disturbance(&profile), disagreement(&profile), doubts(&profile)];
    for warning in warnings.into_iter().flatten() {
        note(&format!("{file}: {warning}"));
    }
    Ok(profile)
}

/// Parses a profile. Its work must be work that policies count.
pub(crate) fn parse(text: &str) -> anyhow::Result<Profile> {
    let profile = Profile::parse(text)?;
    let thinks = profile.think.iter().map(|(name, it)| ("think time", name, &it.work));
    let stations = profile.stations.iter().map(|(name, it)| ("station", name, &it.work));
    for (what, name, work) in thinks.chain(stations) {
        let Some(work) = work else { continue };
        if Work::ALL.iter().all(|known| known.name() != work) {
            let known = Work::ALL.map(Work::name).join(", ");
            bail!("work of {what} `{name}` is `{work}`, expected one of {known}");
        }
    }
    Ok(profile)
}

fn disturbance(profile: &Profile) -> Option<String> {
    let quality = profile.quality.filter(|it| it.disturbed_share() > FEW)?;
    Some(format!(
        "{} of {} measurements ({}) were disturbed: what is predicted is worth less; calibrate \
         again on a quieter machine",
        grouped(quality.disturbed),
        grouped(quality.runs),
        percent(quality.disturbed_share())
    ))
}

/// The warning of a profile that was written although it is noise.
fn disagreement(profile: &Profile) -> Option<String> {
    let apart = profile.quality?.halves.filter(|halves| halves.median > FEW)?;
    Some(format!(
        "what the two halves of the calibration predict is {} apart, {} at worst: what is predicted \
         is worth less; calibrate again on a quieter machine",
        percent(apart.median),
        percent(apart.worst)
    ))
}

/// A warning about figures with little data in a profile.
pub(crate) fn doubts(profile: &Profile) -> Option<String> {
    let doubtful = profile.doubtful();
    let more = if doubtful.len() > ENOUGH { ", …" } else { "" };
    let names = doubtful.iter().take(ENOUGH).cloned().collect::<Vec<_>>().join(", ");
    let count = doubtful.len();
    let are = if count == 1 { "figure is" } else { "figures are" };
    (count > 0)
        .then(|| format!("{count} {are} spread over more than twice the mean: {names}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "machine = { description = \"here\", cores = 2 }
        quality = { runs = 100, disturbed = 6 }
        think.skip = { mean_us = 0.01, spread_us = 0.03, work = \"skip\" }
        networks.fifo = { hit = {}, miss = { think = { skip = 1 } } }";

    #[test]
    fn what_a_profile_is_worth_is_said() {
        let profile = parse(TEXT).unwrap();
        assert!(disturbance(&profile).unwrap().starts_with("6 of 100 measurements (6.00 %)"));
        assert!(
            doubts(&profile)
                .unwrap()
                .ends_with("1 figure is spread over more than twice the mean: skip")
        );
        let apart = TEXT.replace(
            "disturbed = 6",
            "disturbed = 0, halves = { median = 0.06, tenth = 0.2, worst = 0.5 }",
        );
        let said = disagreement(&parse(&apart).unwrap()).unwrap();
        assert!(said.contains("6.00 % apart, 50.00 % at worst"), "{said}");
        assert_eq!(disagreement(&parse(&apart.replace("0.06", "0.05")).unwrap()), None);
        let quiet = TEXT.replace("disturbed = 6", "disturbed = 5").replace("0.03", "0.02");
        let profile = parse(&quiet).unwrap();
        assert_eq!((disturbance(&profile), doubts(&profile)), (None, None));
    }

    #[test]
    fn only_works_that_are_counted_are_known() {
        let error = parse(&TEXT.replace("\"skip\"", "\"skipp\"")).unwrap_err().to_string();
        assert!(error.starts_with("work of think time `skip` is `skipp`"), "{error}");
        assert!(error.contains("delink, head"), "{error}");
    }
}
