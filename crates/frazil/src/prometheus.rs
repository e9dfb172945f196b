//! The counts of caches as a page that Prometheus reads. Feature `prometheus`.
//!
//! A program serves the page at an address of its own, where it serves its other metrics:
//! the cache opens no port. The page is text in the exposition format, version 0.0.4
//! ([`CONTENT_TYPE`]), in which all samples of a metric must stand together below its one
//! description; so a [`Page`] collects several caches first and is written at the end.
//!
//! ```
//! use frazil::{Cache, prometheus::Page};
//! let rows: Cache<u64, u64> = Cache::builder(1_000).build();
//! let users: Cache<String, u64> = Cache::builder(100).build();
//! rows.get(&1);
//!
//! let page = Page::new().with("rows", &rows).with("users", &users).to_string();
//! assert!(page.starts_with(
//!     r##"# HELP frazil_requests_total Gets, with a loader or without.
//! ## TYPE frazil_requests_total counter
//! frazil_requests_total{cache="rows"} 1
//! frazil_requests_total{cache="users"} 0
//! "##
//! ));
//! ```
//!
//! Misses are what requests there are beyond hits and delayed hits. They are no counter: who
//! waits for a load has missed, until a value comes and it was a delayed hit, and a counter
//! that goes down by one is to Prometheus one that began again.
//!
//! A cache that freezes by itself has metrics of its own, `frazil_frozen_share` and
//! `frazil_freezing_…`: [`Cache::freezing_state`] as of the controller's last step. Those of
//! phases have a label `phase`.
//!
//! A cache costs what [`Cache::stats`] and [`Cache::fetch_stats`] do, and 6 kB of text: nothing to do in a loop, and
//! nothing to notice every few seconds.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::{Cache, Distribution, FetchStats, FreezingPhase, FreezingState, Stats};

/// The type to serve a [`Page`] as: the header `Content-Type`.
///
/// ```
/// assert!(frazil::prometheus::CONTENT_TYPE.starts_with("text/plain; version=0.0.4"));
/// ```
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One metric of one cache at one moment.
#[derive(Clone, Debug)]
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// A value, what follows on the metric's name, and the label that tells it from its metric's
/// others: of a histogram's bucket, the largest value that it counts.
#[derive(Clone, Debug)]
struct Sample {
    suffix: &'static str,
    label: Option<(&'static str, String)>,
    value: String,
}

impl Sample {
    fn new(suffix: &'static str, value: impl ToString) -> Self {
        Sample { suffix, label: None, value: value.to_string() }
    }
}

/// What only grows while the cache lives.
fn counter(name: &'static str, help: &'static str, value: impl ToString) -> Metric {
    Metric { name, kind: "counter", help, samples: vec![Sample::new("", value)] }
}

/// What goes up and down.
fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric { name, kind: "gauge", help, samples: vec![Sample::new("", value)] }
}

/// Values by size: of each power of two, how many are less. Powers, so that they are exact.
fn histogram(
    (name, help): (&'static str, &'static str),
    distribution: &Distribution,
    powers: impl Iterator<Item = u32>,
    unit: fn(u64) -> String,
) -> Metric {
    let mut samples: Vec<Sample> = powers
        .map(|power| Sample {
            suffix: "_bucket",
            label: Some(("le", unit((1 << power) - 1))),
            value: distribution.below(power).to_string(),
        })
        .collect();
    let count = distribution.count().to_string();
    let (suffix, label) = ("_bucket", Some(("le", "+Inf".to_owned())));
    samples.push(Sample { suffix, label, value: count.clone() });
    samples.push(Sample::new("_sum", unit(distribution.sum())));
    samples.push(Sample::new("_count", count));
    Metric { name, kind: "histogram", help, samples }
}

/// From a microsecond to 69 seconds, by fours.
const TIMES: std::ops::RangeInclusive<u32> = 10..=36;

/// Nanoseconds in the unit that Prometheus wants times to have, without a loss.
fn seconds(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    format!("{}.{:09}", nanoseconds / SECOND, nanoseconds % SECOND)
}

/// All that is told of a cache, in the order of the page.
fn measure<K: Hash + Eq, V, S: BuildHasher>(cache: &Cache<K, V, S>) -> Vec<Metric> {
    // Without `..`, so that a count which is not in the table below does not compile.
    let Stats {
        hits,
        frozen_hits,
        misses,
        delayed_hits,
        loads,
        load_failures,
        load_nanoseconds,
        insertions,
        replacements,
        evictions,
        removals,
        expirations,
        refusals,
        promotions_skipped,
        retries,
        shared_writes,
        waiting,
    } = cache.stats();
    let requests = hits.wrapping_add(delayed_hits).wrapping_add(misses);
    let load_seconds = seconds(load_nanoseconds);
    let reserved_bytes = cache.reserved_bytes() as u64;
    let mut metrics = vec![
        counter("frazil_requests_total", "Gets, with a loader or without.", requests),
        counter("frazil_hits_total", "Requests that found their key.", hits),
        counter("frazil_frozen_hits_total", "Hits among what is frozen.", frozen_hits),
        counter("frazil_delayed_hits_total", "Requests that shared another's load.", delayed_hits),
        counter("frazil_loads_total", "Values that loaders have returned.", loads),
        counter("frazil_load_failures_total", "Loaders that returned none.", load_failures),
        counter("frazil_load_seconds_total", "Time that the loads took together.", load_seconds),
        counter("frazil_insertions_total", "Entries admitted for absent keys.", insertions),
        counter("frazil_replacements_total", "Entries that replaced one.", replacements),
        counter("frazil_evictions_total", "Entries that went to make room.", evictions),
        counter("frazil_removals_total", "Entries that were removed.", removals),
        counter("frazil_expirations_total", "Entries whose time had come.", expirations),
        counter("frazil_refusals_total", "Newcomers not admitted.", refusals),
        counter(
            "frazil_promotions_skipped_total",
            "Hits kept from a busy policy.",
            promotions_skipped,
        ),
        counter("frazil_retries_total", "Attempts vain for other threads' progress.", retries),
        counter("frazil_shared_writes_total", "Writes to lines that all write.", shared_writes),
        gauge("frazil_waiting", "Entries that are gone and wait to be dropped.", waiting),
        gauge("frazil_entries", "Entries that are there.", cache.core.entries()),
        gauge("frazil_weight", "Weight of the entries, in the capacity's unit.", cache.weight()),
        gauge("frazil_capacity", "The most that the entries may weigh.", cache.capacity()),
        gauge("frazil_reserved_bytes", "Bytes laid out for entries and table.", reserved_bytes),
    ];
    metrics.extend(measure_fetches(cache.fetch_stats()));
    metrics.extend(measure_freezing(cache.freezing_state().as_ref()));
    metrics
}

/// What is told of a cache that freezes by itself; of others the same metrics, without a sample.
fn measure_freezing(state: Option<&FreezingState>) -> [Metric; 8] {
    type Value = fn(&FreezingState) -> String;
    let one = |name, kind, help, value: Value| {
        let samples = state.iter().map(|state| Sample::new("", value(state))).collect();
        Metric { name, kind, help, samples }
    };
    let by_phase = |name, kind, help, value: fn(&FreezingState, FreezingPhase) -> String| {
        let samples = |state| {
            PHASES.map(|(phase, name)| Sample {
                label: Some(("phase", name.to_owned())),
                ..Sample::new("", value(state, phase))
            })
        };
        Metric { name, kind, help, samples: state.map(samples).into_iter().flatten().collect() }
    };
    let (counter, gauge) = ("counter", "gauge");
    [
        one("frazil_frozen_share", gauge, "Share of the entries that is frozen, to 1.", |state| {
            state.share.to_string()
        }),
        by_phase(
            "frazil_freezing_phase",
            gauge,
            "1 for the phase in which the freezing is.",
            |state, phase| u8::from(state.phase == phase).to_string(),
        ),
        by_phase(
            "frazil_freezing_phase_seconds_total",
            counter,
            "How long it was in each phase.",
            |state, phase| format!("{:.3}", state.time_in(phase).as_secs_f64()),
        ),
        one(
            "frazil_freezing_constructions_total",
            counter,
            "How often something was frozen for more than a trial.",
            |state| state.constructions.to_string(),
        ),
        one(
            "frazil_freezing_refreshes_total",
            counter,
            "How often the same share was frozen anew.",
            |state| state.refreshes.to_string(),
        ),
        one(
            "frazil_freezing_failures_total",
            counter,
            "How often freezing did not pay, and a sleep followed.",
            |state| state.failures.to_string(),
        ),
        one(
            "frazil_freezing_latency_seconds",
            gauge,
            "What a request took of late, by timed samples.",
            |state| format!("{:.9}", state.latency_ns / 1e9),
        ),
        one(
            "frazil_freezing_threshold_seconds",
            gauge,
            "What it may take while something is frozen.",
            |state| format!("{:.9}", state.threshold_ns / 1e9),
        ),
    ]
}

/// The phases of a cache that freezes by itself, by their names here.
const PHASES: [(FreezingPhase, &str); 6] = [
    (FreezingPhase::Waiting, "waiting"),
    (FreezingPhase::Learning, "learning"),
    (FreezingPhase::Trying, "trying"),
    (FreezingPhase::Constructing, "constructing"),
    (FreezingPhase::Frozen, "frozen"),
    (FreezingPhase::Sleeping, "sleeping"),
];

/// What is told of loads and fetches beside what all counts tell.
fn measure_fetches(stats: FetchStats) -> [Metric; 10] {
    let FetchStats {
        latency,
        delay,
        waiters,
        shared_errors,
        remembered_errors,
        timed_out,
        too_many_waiters,
        blocked,
        unblocked,
        errors,
    } = stats;
    let times = || TIMES.step_by(2);
    let fetch = ("frazil_fetch_seconds", "How long loads took that brought a value.");
    let delays = ("frazil_delay_seconds", "How long delayed hits waited for their value.");
    let waiting = ("frazil_fetch_waiters", "How many waited, by load that brought a value.");
    [
        counter("frazil_shared_errors_total", "Requests that got another's error.", shared_errors),
        counter(
            "frazil_remembered_errors_total",
            "Requests answered by an error of before.",
            remembered_errors,
        ),
        counter("frazil_timed_out_total", "Requests that waited too long.", timed_out),
        counter(
            "frazil_too_many_waiters_total",
            "Requests beside too many that wait.",
            too_many_waiters,
        ),
        counter("frazil_blocked_total", "Threads that blocked for a task's load.", blocked),
        counter("frazil_unblocked_total", "Threads that were kept from that.", unblocked),
        gauge("frazil_errors", "Errors that are remembered.", errors),
        histogram(fetch, &latency, times(), seconds),
        histogram(delays, &delay, times(), seconds),
        histogram(waiting, &waiters, (0..=16).step_by(2), |count| count.to_string()),
    ]
}

/// A page of metrics: caches, each with the values it had when it was added.
///
/// Make one for each request, add the caches, and serve what [`Display`](fmt::Display)
/// writes. Counters have names in `_total`; they begin at 0 with each cache, which
/// Prometheus takes for a restart.
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.insert(1, 1);
/// let page = frazil::prometheus::Page::new().with("numbers", &cache);
/// assert!(page.to_string().contains("frazil_entries{cache=\"numbers\"} 1\n"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The caches' names, and their metrics: the same ones in the same order for all.
    caches: Vec<(String, Vec<Metric>)>,
}

impl Page {
    /// A page without caches, which is empty.
    ///
    /// ```
    /// assert_eq!(frazil::prometheus::Page::new().to_string(), "");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Page::default()
    }

    /// Adds what `cache` has counted, with the label `cache="name"`.
    ///
    /// Any text will do as a name. Of two caches with one name the page shows the latter,
    /// because a sample may be there only once. O(threads + caches).
    ///
    /// ```
    /// use frazil::{Cache, prometheus::Page};
    /// let cache: Cache<u64, u64> = Cache::builder(100).build();
    /// let page = Page::new().with("a \"b\"", &cache).to_string();
    /// assert!(page.contains(r#"frazil_capacity{cache="a \"b\""} 100"#));
    /// ```
    #[must_use]
    pub fn with<K: Hash + Eq, V, S: BuildHasher>(
        mut self,
        name: &str,
        cache: &Cache<K, V, S>,
    ) -> Self {
        let metrics = measure(cache);
        match self.caches.iter_mut().find(|(other, _)| other == name) {
            Some((_, others)) => *others = metrics,
            None => self.caches.push((name.to_owned(), metrics)),
        }
        self
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((_, first)) = self.caches.first() else { return Ok(()) };
        for (index, Metric { name, kind, help, .. }) in first.iter().enumerate() {
            // What is of no cache here is not described.
            if self.caches.iter().all(|(_, metrics)| metrics[index].samples.is_empty()) {
                continue;
            }
            writeln!(f, "# HELP {name} {help}")?;
            writeln!(f, "# TYPE {name} {kind}")?;
            for (cache, metrics) in &self.caches {
                let cache = Escaped(cache);
                for Sample { suffix, label, value } in &metrics[index].samples {
                    write!(f, "{name}{suffix}{{cache=\"{cache}\"")?;
                    if let Some((label, of)) = label {
                        write!(f, ",{label}=\"{of}\"")?;
                    }
                    writeln!(f, "}} {value}")?;
                }
            }
        }
        Ok(())
    }
}

/// A label's value, as it stands between quotes.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}
