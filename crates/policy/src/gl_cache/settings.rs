//! The parameters of GL-Cache, by name.

use std::fmt;
use std::str::FromStr;

use super::groups::FEATURES;
use super::model::LEAST_SAMPLES;
use crate::parameters::Parameters;
use crate::{Boosting, SpecError};

/// The paper's two settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupMode {
    /// Efficiency: small groups; half of the merged objects stay. The default.
    #[default]
    Efficiency,
    /// Throughput: large groups; a fifth of the merged objects stay.
    Throughput,
}

/// When a new model is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Interval {
    /// At the end of a snapshot, if a quarter of the samples would be new. The default.
    #[default]
    Snapshot,
    /// After this number of requests.
    Requests(u64),
    /// After this time by the trace's clock, in nanoseconds. Without times a request takes a
    /// second.
    Time(u64),
    /// A share of the trace's requests. Without a known end it is [`Interval::Snapshot`].
    Share(f64),
}

/// The aim to minimise: the weight in the utility.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// Misses. The default.
    #[default]
    Hits,
    /// The total wait of requests, if fetches take time.
    Delay,
    /// The time that fetches take, from a column of the trace or by their backends.
    Cost,
}

/// Whether a choice uses the past or the future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// The past: the model, and an object's last request.
    #[default]
    Past,
    /// By when objects are requested next: the oracles of the paper's figure 5.
    Future,
}

/// GL-Cache's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLearning {
    /// Where the defaults of the next three come from.
    pub mode: GroupMode,
    /// The weight in the utility.
    pub aim: Aim,
    /// Most objects in a group: S_group.
    pub segment: u32,
    /// Groups that are merged into one: N_merge.
    pub merge: u32,
    /// Share of the ranked groups that one ranking serves: F_eviction.
    pub fraction: f64,
    /// The time for which the groups of a snapshot are watched: until this multiple of the
    /// number of residents was written, or a model is trained.
    pub horizon: f64,
    /// From one model to the next.
    pub interval: Interval,
    /// Addition to the time until an object's next request in the utility, as a share of the number
    /// of residents, in requests. Requests sooner than that hit under any decision.
    pub grace: f64,
    /// Most groups that a model is trained on.
    pub samples: u32,
    /// Requests over which rates are measured.
    pub window: u32,
    /// Number of features that the model sees, the most informative first: requests, age, mean
    /// size, objects requested, request rate, write rate, miss ratio.
    pub features: u32,
    /// How trees are grown.
    pub boosting: Boosting,
    /// The rank of groups.
    pub utility: Sight,
    /// The choice of the objects of merged groups that stay.
    pub retention: Sight,
}

/// Most samples: a ghost's note of its sample has 14 bits, and 0 is none.
const MOST_SAMPLES: u32 = (1 << 14) - 1;
/// Most objects in a group. A group's array takes up to 4 bytes for each of them even where
/// deletes have left it one object.
const MOST_SEGMENT: u32 = 4_096;
const MODES: [&str; 2] = ["e", "t"];
const AIMS: [&str; 3] = ["hits", "delay", "cost"];
const SIGHTS: [&str; 2] = ["past", "future"];
/// Nanoseconds of each unit of time, the longest first.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("s", 1_000_000_000),
];

impl Default for GroupLearning {
    fn default() -> Self {
        Self::of(GroupMode::Efficiency)
    }
}

impl GroupLearning {
    /// The paper's parameters of a mode.
    pub fn of(mode: GroupMode) -> Self {
        let (segment, merge, fraction) = match mode {
            GroupMode::Efficiency => (60, 2, 0.02),
            GroupMode::Throughput => (200, 5, 0.1),
        };
        GroupLearning {
            mode,
            aim: Aim::Hits,
            segment,
            merge,
            fraction,
            horizon: 1.0,
            interval: Interval::Snapshot,
            grace: 0.2,
            samples: 8_192,
            window: 2_000,
            features: FEATURES as u32,
            boosting: Boosting::default(),
            utility: Sight::Past,
            retention: Sight::Past,
        }
    }

    /// The names of the features, in the order of
    /// [`GlCache::importance`](crate::GlCache::importance).
    pub const FEATURES: [&'static str; FEATURES] =
        ["request rate", "write rate", "miss ratio", "mean size", "age", "requests", "active"];

    /// Whether it needs the future requests.
    pub fn is_offline(&self) -> bool {
        [self.utility, self.retention].contains(&Sight::Future)
    }

    pub(crate) fn read(given: &mut Parameters<'_>) -> Result<Self, SpecError> {
        let mode = [GroupMode::Efficiency, GroupMode::Throughput][given.word("mode", 0, &MODES)?];
        let usual = Self::of(mode);
        let sight = |place: usize| [Sight::Past, Sight::Future][place];
        Ok(GroupLearning {
            mode,
            aim: [Aim::Hits, Aim::Delay, Aim::Cost][given.word("aim", 0, &AIMS)?],
            segment: given.number("segment", usual.segment, 1, MOST_SEGMENT)?,
            merge: given.number("merge", usual.merge, 2, 100)?,
            fraction: given.number("fraction", usual.fraction, 0.0, 1.0)?,
            horizon: given.number("horizon", usual.horizon, 0.001, 1000.0)?,
            interval: given.value("interval", usual.interval, INTERVALS)?,
            grace: given.number("grace", usual.grace, 0.0, 100.0)?,
            samples: given.number("samples", usual.samples, LEAST_SAMPLES, MOST_SAMPLES)?,
            window: given.number("window", usual.window, 1, u32::MAX)?,
            features: given.number("features", usual.features, 1, FEATURES as u32)?,
            boosting: Boosting::given(given, usual.boosting, 0)?,
            utility: sight(given.word("utility", 0, &SIGHTS)?),
            retention: sight(given.word("retention", 0, &SIGHTS)?),
        })
    }
}

const SNAPSHOT: &str = "snapshot";
const INTERVALS: &str =
    "interval=snapshot, requests (100000), time (6h) or a share of the trace (10%)";

impl FromStr for Interval {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let positive = |text: &str| match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= 1e15 => Ok(number),
            _ => Err(()),
        };
        if text == SNAPSHOT {
            return Ok(Interval::Snapshot);
        }
        if let Some(number) = text.strip_suffix('%') {
            let share = positive(number)? / 100.0;
            return if share <= 1.0 { Ok(Interval::Share(share)) } else { Err(()) };
        }
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let (number, unit) = (positive(digits)?, &text[digits.len()..]);
        if unit.is_empty() {
            return digits.parse().map(Interval::Requests).map_err(|_| ());
        }
        let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(())?;
        match (number * *ns as f64) as u64 {
            0 => Err(()),
            ns => Ok(Interval::Time(ns)),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Interval::Snapshot => f.write_str(SNAPSHOT),
            Interval::Requests(requests) => write!(f, "{requests}"),
            // Dividing a percentage by 100 and multiplying again may not restore it.
            Interval::Share(share) => write!(f, "{}%", (share * 1e11).round() / 1e9),
            Interval::Time(ns) => {
                let whole = |(_, unit): &&(&str, u64)| ns.is_multiple_of(*unit);
                let most = UNITS.iter().filter(whole).max_by_key(|(_, unit)| *unit);
                most.map_or(Ok(()), |(name, unit)| write!(f, "{}{name}", ns / unit))
            }
        }
    }
}

impl fmt::Display for GroupLearning {
    /// Prints only parameters that differ from the mode's defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::of(self.mode);
        let mut say = |key: &str, ours: &dyn fmt::Display, unusual: bool| {
            if unusual { write!(f, ":{key}={ours}") } else { Ok(()) }
        };
        say("mode", &MODES[self.mode as usize], self.mode != GroupMode::Efficiency)?;
        say("aim", &AIMS[self.aim as usize], self.aim != usual.aim)?;
        say("segment", &self.segment, self.segment != usual.segment)?;
        say("merge", &self.merge, self.merge != usual.merge)?;
        say("fraction", &self.fraction, self.fraction != usual.fraction)?;
        say("horizon", &self.horizon, self.horizon != usual.horizon)?;
        say("interval", &self.interval, self.interval != usual.interval)?;
        say("grace", &self.grace, self.grace != usual.grace)?;
        say("samples", &self.samples, self.samples != usual.samples)?;
        say("window", &self.window, self.window != usual.window)?;
        say("features", &self.features, self.features != usual.features)?;
        self.boosting.say(&usual.boosting, &mut say)?;
        let named = |sight: Sight| SIGHTS[sight as usize];
        say("utility", &named(self.utility), self.utility != usual.utility)?;
        say("retention", &named(self.retention), self.retention != usual.retention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_parse_and_print_themselves() {
        for text in
            ["snapshot", "100000", "1d", "36h", "90m", "5s", "20ms", "7us", "3ns", "7%", "0.29%"]
        {
            let interval: Interval = text.parse().expect("it parses");
            assert_eq!(interval.to_string(), text);
        }
        for text in ["", "0", "-1", "1.5", "101%", "nan%", "1w", "x", "0.1ns", "1e20"] {
            assert_eq!(text.parse::<Interval>(), Err(()), "{text}");
        }
    }
}
