//! Sampled traces: requests for a share of the keys, as a cache records them.
//!
//! A sample is replayed at the same share of each capacity. Output shows capacities for all keys,
//! and counts of the sample.

use frazil_simulator::trace::{Operation, Origin, SampleBounds, Trace, printable};
use frazil_simulator::{CapacitySpec, CurveSample, Outcome, Unit, full_capacity, sample_capacity};

use crate::failure::note;
use crate::output::percent;

/// Default for the objects that a sample keeps: enough that W-TinyLFU's climber moves almost as
/// among all objects.
pub(crate) const OBJECTS: usize = 500_000;
/// The most records for each object of such a sample.
const RECORDS_PER_OBJECT: usize = 200;

/// The objects to replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SampleArg {
    All,
    Rate(f64),
    Objects(u32),
}

impl std::str::FromStr for SampleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no sample; write all, a share such as 1%, or objects such as 200K")
        };
        if text == "all" {
            return Ok(SampleArg::All);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let rate = percent.parse::<f64>().map_err(|_| wrong())? / 100.0;
            return (rate > 0.0 && rate <= 1.0).then_some(SampleArg::Rate(rate)).ok_or_else(wrong);
        }
        let capacity: CapacitySpec = text.parse().map_err(|_| wrong())?;
        let objects = capacity.known(Unit::Objects).ok().flatten().ok_or_else(wrong)?;
        // An error estimate needs a few groups of a few objects each.
        let objects = u32::try_from(objects).ok().filter(|&objects| objects >= 100);
        objects.map(SampleArg::Objects).ok_or_else(|| format!("`{text}`: from 100 to 4,000M"))
    }
}

impl SampleArg {
    /// For LRU's curve.
    pub(crate) fn of_curve(self) -> CurveSample {
        match self {
            SampleArg::All => CurveSample::All,
            SampleArg::Rate(rate) => CurveSample::Rate(rate),
            SampleArg::Objects(objects) => CurveSample::Objects(objects as usize),
        }
    }

    /// For replays.
    pub(crate) fn bounds(self) -> SampleBounds {
        let all = SampleBounds { rate: 1.0, objects: usize::MAX, records: usize::MAX };
        match self {
            SampleArg::All => all,
            SampleArg::Rate(rate) => SampleBounds { rate, ..all },
            SampleArg::Objects(objects) => {
                let objects = objects as usize;
                SampleBounds { objects, records: objects * RECORDS_PER_OBJECT, ..all }
            }
        }
    }
}

/// The population of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    rate: f64,
    /// The factor from its requests to those of a fair sample.
    correction: f64,
}

impl Sample {
    /// For a trace with `gets` gets; prints a note on standard error if it is a sample.
    pub(crate) fn of(name: &str, origin: &Origin, gets: u64) -> Self {
        let rate = origin.rate();
        let known = origin.recording.is_none_or(|it| it.rate >= 1.0 || it.gets.is_some());
        if rate < 1.0 {
            let uncorrected = match known {
                true => "",
                false => {
                    "; the number of requests for all keys is not known, so the ratios depend \
                         on which of the hottest keys the sample has"
                }
            };
            let what = match origin.sampled {
                Some(_) => "replays a sample, the requests for",
                None => "has the requests for",
            };
            let all = if origin.sampled.is_some() { "; --sample all replays all" } else { "" };
            note(&format!(
                "{}: {what} {} of the keys; capacities are those for all keys, and counts are \
                 those of the sample{uncorrected}{all}",
                printable(name),
                percent(rate)
            ));
        }
        let correction = origin.correction(gets);
        Sample { rate, correction }
    }

    /// As [`Sample::of`], of a trace in memory.
    pub(crate) fn of_trace(name: &str, origin: &Origin, trace: &Trace) -> Self {
        let others = trace.operations.iter().filter(|&&operation| operation != Operation::Get);
        Sample::of(name, origin, (trace.len() - others.count()) as u64)
    }

    /// The factor from its requests to those of a fair sample.
    pub(crate) fn correction(&self) -> f64 {
        self.correction
    }

    /// The capacity to replay the sample at.
    pub(crate) fn down(&self, capacity: u64) -> u64 {
        sample_capacity(capacity, self.rate)
    }

    /// The capacity for all keys.
    pub(crate) fn up(&self, capacity: u64) -> u64 {
        full_capacity(capacity, self.rate)
    }

    /// The sample's result, for as many requests as a fair sample has.
    pub(crate) fn corrected(&self, outcome: &Outcome) -> Outcome {
        outcome.among(self.correction)
    }
}
