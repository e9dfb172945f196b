//! Generated workloads: the same trace for a seed on every machine.
//!
//! Xoshiro256++ and a distribution computed in software (`libm`) make the draws the same
//! everywhere. Ids go through the same table as those of a file, so that a generated trace has no
//! property that a file's lacks. 20 to 60 ns a request.

mod groups;

use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use groups::{Grouped, Pattern};

use crate::capacity::parse_count;

use super::decode::{BATCH, Columns, Limited, MAX_RECORDS, Sink};
use super::{Progress, ReadOptions, Record, TraceError};

/// Time between two requests.
const INTERVAL_NS: u64 = 1_000;
/// Most objects: what 32 bits can number.
const MAX_OBJECTS: u64 = u32::MAX as u64 - 1;

/// The kind of workload.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Zipf { alpha: f64 },
    Uniform,
    Loop,
    Mix,
    Grouped(Pattern),
}

/// A workload as specified.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generator {
    kind: Kind,
    objects: u64,
    requests: u64,
    seed: u64,
}

impl Generator {
    /// Parses a specification; `Ok(None)` if it names no generator.
    pub(super) fn parse(spec: &str) -> Result<Option<Self>, TraceError> {
        let wrong = |problem: String| TraceError::Generator {
            spec: spec.escape_debug().to_string(),
            problem,
        };
        let mut parts = spec.split(':');
        let (kind, objects, requests) = match parts.next() {
            Some("zipf") => {
                let alpha = parts.next().unwrap_or_default();
                let alpha = parse_alpha(alpha).map_err(wrong)?;
                (Kind::Zipf { alpha }, 1_000_000, 20_000_000)
            }
            Some("uniform") => (Kind::Uniform, 1_000_000, 20_000_000),
            Some("loop") => (Kind::Loop, 1_000_000, 20_000_000),
            Some("mix") => (Kind::Mix, 400_000, 4_000_000),
            Some("diurnal") => (Kind::Grouped(Pattern::Diurnal), 400_000, 10_000_000),
            Some("bursts") => (Kind::Grouped(Pattern::Bursts), 400_000, 10_000_000),
            Some("drift") => (Kind::Grouped(Pattern::Drift), 400_000, 10_000_000),
            _ => return Ok(None),
        };
        let mut generator = Self { kind, objects, requests, seed: 1 };
        for part in parts {
            generator.set(part).map_err(wrong)?;
        }
        Ok(Some(generator))
    }

    fn set(&mut self, part: &str) -> Result<(), String> {
        let (key, value) =
            part.split_once('=').ok_or_else(|| format!("expected key=value, found {part:?}"))?;
        match key {
            "objects" => self.objects = parse_within(key, value, 1..=MAX_OBJECTS)?,
            "requests" => self.requests = parse_within(key, value, 1..=MAX_RECORDS)?,
            "seed" if self.kind != Kind::Loop => {
                self.seed = parse_within(key, value, 0..=u64::MAX)?;
            }
            _ => {
                let seed = if self.kind == Kind::Loop { "" } else { ", seed" };
                return Err(format!(
                    "unknown key {key:?}, expected one of: objects, requests{seed}"
                ));
            }
        }
        Ok(())
    }

    /// Generates the requests into a sink; `spec` is their name in an error.
    pub(super) fn generate(
        &self,
        spec: &str,
        options: &ReadOptions<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), TraceError> {
        let random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let sink = Limited::of(sink, options);
        match self.kind {
            Kind::Zipf { alpha } => {
                let ranks = self.ranks(alpha, spec)?;
                let mut random = random;
                self.push_all(spec, sink, options.progress, |_| ranks.sample(&mut random) as u64)
            }
            Kind::Uniform => {
                let mut random = random;
                self.push_all(spec, sink, options.progress, |_| {
                    random.random_range(0..self.objects)
                })
            }
            Kind::Loop => self.push_all(spec, sink, options.progress, |index| index % self.objects),
            Kind::Mix => {
                let mut mix = Mix::new(self, self.ranks(MIX_ALPHA, spec)?, random);
                self.push_all(spec, sink, options.progress, |index| mix.next(index))
            }
            Kind::Grouped(pattern) => {
                let ranks = self.ranks(pattern.alpha(), spec)?;
                let (objects, requests) = (self.objects, self.requests);
                let mut grouped = Grouped::new(pattern, ranks, random, objects, requests);
                self.push_records(spec, sink, options.progress, |index| grouped.next(index))
            }
        }
    }

    fn ranks(&self, alpha: f64, spec: &str) -> Result<Zipf<f64>, TraceError> {
        Zipf::new(self.objects as f64, alpha).map_err(|error| TraceError::Generator {
            spec: spec.escape_debug().to_string(),
            problem: error.to_string(),
        })
    }

    /// Makes requests from their ids, batch by batch.
    fn push_all(
        &self,
        spec: &str,
        sink: Limited<'_>,
        progress: Option<Progress<'_>>,
        mut id: impl FnMut(u64) -> u64,
    ) -> Result<(), TraceError> {
        let sizes = self.kind == Kind::Mix;
        let size_of = Sizes::new();
        self.push_records(spec, sink, progress, |index| {
            let id = id(index);
            let size = if sizes { u64::from(size_of.of(id)) } else { 1 };
            Record { time_ns: index * INTERVAL_NS, id, size, ..Record::default() }
        })
    }

    /// Pushes requests as they are made, batch by batch.
    fn push_records(
        &self,
        spec: &str,
        mut sink: Limited<'_>,
        progress: Option<Progress<'_>>,
        mut record: impl FnMut(u64) -> Record,
    ) -> Result<(), TraceError> {
        let sizes = matches!(self.kind, Kind::Mix | Kind::Grouped(_));
        let columns = Columns { times: true, sizes, ..Columns::default() };
        let mut records = Vec::with_capacity(BATCH);
        let mut index = 0;
        while index < self.requests {
            records.clear();
            let end = self.requests.min(index + BATCH as u64);
            records.extend((index..end).map(&mut record));
            let more = sink
                .push(&records, columns)
                .map_err(|problem| TraceError::TooLarge { file: spec.to_owned(), problem })?;
            if !more {
                break;
            }
            index = end;
            if progress.is_some_and(|progress| progress(index, self.requests).is_break()) {
                return Err(TraceError::Stopped { file: spec.to_owned() });
            }
        }
        Ok(())
    }
}

fn parse_alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(alpha) if (0.0..=10.0).contains(&alpha) => Ok(alpha),
        _ => {
            Err(format!("expected an exponent from 0 to 10 first, as in zipf:0.9, found {text:?}"))
        }
    }
}

/// A whole number within bounds, such as 1000, 10K or 1e6.
fn parse_within(key: &str, text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    parse_count(text).filter(|number| bounds.contains(number)).ok_or_else(|| {
        format!("expected {key} from {} to {}, found {text:?}", bounds.start(), bounds.end())
    })
}

/// Exponent of the popularity in a mix.
const MIX_ALPHA: f64 = 0.9;
/// Share of a mix's requests for objects that are requested only once.
const ONE_HIT_SHARE: f64 = 0.2;
/// Requests from the beginning of a scan to that of the next.
const SCAN_PERIOD: u64 = 50_000;
/// Requests during a scan; every other one belongs to the scan.
const SCAN_REQUESTS: u64 = 10_000;
/// The hot set has moved by this share of the objects when the trace ends.
const DRIFT: f64 = 0.01;

/// A workload with a little of everything.
///
/// A fifth of the requests are for objects that never return. The others are Zipf by rank, and the
/// ranks move: now and then a cold object becomes the hottest, and all the others sink by one rank.
/// A tenth of the time, a sequential scan over other ids takes every other request; each scan
/// continues where the one before ended.
struct Mix {
    ranks: Zipf<f64>,
    random: Xoshiro256PlusPlus,
    objects: u64,
    /// Requests per step of the drift.
    drift_every: u64,
    scanned: u64,
    one_hits: u64,
}

impl Mix {
    fn new(generator: &Generator, ranks: Zipf<f64>, random: Xoshiro256PlusPlus) -> Self {
        let steps = (generator.objects as f64 * DRIFT).max(1.0);
        Self {
            ranks,
            random,
            objects: generator.objects,
            drift_every: (generator.requests as f64 / steps).max(1.0) as u64,
            scanned: 0,
            one_hits: 0,
        }
    }

    fn next(&mut self, index: u64) -> u64 {
        let phase = index % SCAN_PERIOD;
        if phase >= SCAN_PERIOD - SCAN_REQUESTS && phase.is_multiple_of(2) {
            self.scanned += 1;
            return self.objects + self.scanned % self.objects;
        }
        if self.random.random::<f64>() < ONE_HIT_SHARE {
            self.one_hits += 1;
            return 2 * self.objects + self.one_hits;
        }
        let rank = self.ranks.sample(&mut self.random) as u64 - 1;
        // An object's rank is its number plus the drift, around the end.
        let drift = index / self.drift_every % self.objects;
        (rank + self.objects - drift) % self.objects
    }
}

/// Log-normal sizes: median 2 KiB, and an object keeps its own.
struct Sizes {
    distribution: Option<LogNormal<f64>>,
}

impl Sizes {
    fn new() -> Self {
        // ln 2048, and a tail with a few objects in a thousand above 64 KiB.
        let distribution = LogNormal::new(7.625, 1.3).ok();
        Self { distribution }
    }

    fn of(&self, id: u64) -> u32 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(id);
        let size = self.distribution.map_or(1.0, |d| d.sample(&mut random));
        size.clamp(16.0, 16_777_216.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::decode::Builder;
    use crate::trace::{Trace, info};

    fn generated(spec: &str, options: &ReadOptions<'_>) -> Trace {
        let generator = Generator::parse(spec).unwrap().unwrap();
        let mut builder = Builder::new(options);
        generator.generate(spec, options, &mut builder).unwrap();
        builder.finish(&mut crate::trace::Oddities::default())
    }

    fn with_times() -> ReadOptions<'static> {
        ReadOptions { times: true, ..ReadOptions::default() }
    }

    #[test]
    fn specifications_have_defaults() {
        let zipf = Generator {
            kind: Kind::Zipf { alpha: 0.9 },
            objects: 1_000_000,
            requests: 20_000_000,
            seed: 1,
        };
        assert_eq!(Generator::parse("zipf:0.9").unwrap(), Some(zipf.clone()));
        let told = "zipf:0.9:objects=1M:seed=1:requests=20000K";
        assert_eq!(Generator::parse(told).unwrap(), Some(zipf));
        assert_eq!(Generator::parse("zipfian.csv").unwrap(), None);
        assert_eq!(Generator::parse("").unwrap(), None);
    }

    #[test]
    fn wrong_specifications_say_why() {
        for (spec, expected) in [
            ("zipf", "zipf: expected an exponent"),
            ("zipf:objects=5", "expected an exponent"),
            ("zipf:-1", "expected an exponent"),
            ("zipf:nan", "expected an exponent"),
            ("zipf:1:objects=0", "expected objects from 1 to 4294967294, found \"0\""),
            ("uniform:objects=5G", "expected objects"),
            ("uniform:requests=4294967296", "expected requests from 1 to 4294967295"),
            ("uniform:requests=99999999999999999999G", "expected requests"),
            ("uniform:requests=+5", "expected requests"),
            ("uniform:requests=", "expected requests"),
            ("uniform:requests=K", "expected requests"),
            ("uniform:requests", "expected key=value"),
            ("uniform:size=3", "unknown key \"size\", expected one of: objects, requests, seed"),
            ("drift:size=3", "unknown key \"size\", expected one of: objects, requests, seed"),
            ("bursts:objects=0", "expected objects from 1"),
            ("loop:seed=3", "unknown key \"seed\", expected one of: objects, requests"),
        ] {
            let error = Generator::parse(spec).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_seed_gives_one_trace() {
        let first = generated("zipf:1:objects=100:requests=10", &with_times());
        let ids: Vec<u64> = first.ids.iter().map(|&id| first.objects[id as usize]).collect();
        assert_eq!(ids, [35, 1, 93, 1, 65, 1, 1, 9, 79, 2]);
        assert_eq!(first.times_ns[9], 9_000);
        assert!(first.sizes.is_empty() && first.operations.is_empty());
        let other = generated("zipf:1:objects=100:requests=10:seed=2", &with_times());
        assert_ne!(first.objects, other.objects);
    }

    #[test]
    fn a_loop_goes_round() {
        let trace = generated("loop:objects=3:requests=7", &ReadOptions::default());
        assert_eq!(trace.ids, [0, 1, 2, 0, 1, 2, 0]);
        let limit = ReadOptions { limit: Some(2), ..ReadOptions::default() };
        assert_eq!(generated("loop:objects=3", &limit).ids, [0, 1]);
    }

    #[test]
    fn popularity_is_as_asked() {
        let zipf = generated("zipf:0.8:objects=10K:requests=1M", &ReadOptions::default());
        let alpha = info(&zipf).zipf_alpha.unwrap();
        assert!((alpha - 0.8).abs() < 0.03, "{alpha}");
        let uniform = generated("uniform:objects=1K:requests=100K", &ReadOptions::default());
        assert_eq!(uniform.objects.len(), 1_000);
        let most = info(&uniform).max_requests;
        assert!(most < 150, "{most}");
    }

    #[test]
    fn a_mix_has_a_little_of_everything() {
        let trace = generated("mix:objects=20K:requests=400K", &ReadOptions::default());
        let facts = info(&trace);
        assert!(facts.one_hit_wonder_share > 0.5, "{facts:?}");
        let scanned = |id: &u64| (20_000..40_000).contains(id);
        assert_eq!(trace.objects.iter().filter(|id| scanned(id)).count(), 20_000);
        let first_size = trace.sizes.get(0).unwrap();
        let again: Vec<u64> = trace
            .ids
            .iter()
            .zip(trace.sizes.iter())
            .filter_map(|(id, size)| (*id == 0).then_some(size))
            .collect();
        assert!(!again.is_empty() && again.iter().all(|&size| size == first_size));
        let mean = trace.sizes.iter().map(|s| s as f64).sum::<f64>() / 400_000.0;
        assert!((3_000.0..8_000.0).contains(&mean), "{mean}");
    }
}
