//! The counts of caches as a page for Prometheus. Feature `prometheus`.
//!
//! The program serves the page where it serves its other metrics: the cache opens no port. The page
//! is text in the exposition format, version 0.0.4 ([`CONTENT_TYPE`]). In that format all samples
//! of a metric stand together below its one description, so a [`Page`] first collects the caches
//! and is written at the end.
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
//! Misses are the requests without hits and delayed hits. They have no counter of their own: a
//! request that waits for a load counts as a miss until the value arrives and makes it a delayed
//! hit, and Prometheus takes a counter that decreases by one for a restart.
//!
//! A cache that freezes by itself has the metrics `frazil_frozen_share` and `frazil_freezing_…`:
//! [`Cache::freezing_state`] as of the controller's last step. Those of phases have a label
//! `phase`.
//!
//! Without the [features](crate#cargo-features) `loading` and `freezing` the metrics of both are
//! missing.
//!
//! Adding a cache costs what [`Cache::stats`] and [`Cache::fetch_stats`] do, and 6 kB of text: too
//! much for a loop, nothing every few seconds.

#[cfg(feature = "loading")]
mod fetches;
#[cfg(feature = "freezing")]
mod freezing;

use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::{Cache, HandleCache, Stats};

/// The content type of a [`Page`]: the header `Content-Type`.
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

/// A value, the suffix of the metric's name, and the label that distinguishes it from the metric's
/// other values: for a histogram's bucket, the largest value that it counts.
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

/// A value that only grows while the cache lives.
fn counter(name: &'static str, help: &'static str, value: impl ToString) -> Metric {
    Metric { name, kind: "counter", help, samples: vec![Sample::new("", value)] }
}

/// A value that rises and falls.
fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric { name, kind: "gauge", help, samples: vec![Sample::new("", value)] }
}

/// Nanoseconds in seconds, the unit of Prometheus, exactly.
fn seconds(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    format!("{}.{:09}", nanoseconds / SECOND, nanoseconds % SECOND)
}

/// The values of a cache beside its counts.
struct Sizes {
    entries: u64,
    weight: u64,
    /// For a cache with handles.
    held_weight: Option<u64>,
    capacity: u64,
    reserved_bytes: u64,
}

/// All metrics of a cache, in the order of the page.
fn measure<K: Hash + Eq, V, S: BuildHasher>(cache: &Cache<K, V, S>) -> Vec<Metric> {
    let sizes = Sizes {
        entries: cache.core.entries(),
        weight: cache.weight(),
        held_weight: None,
        capacity: cache.capacity(),
        reserved_bytes: cache.reserved_bytes() as u64,
    };
    let metrics = measure_counts(cache.stats(), &sizes).into_iter();
    #[cfg(feature = "loading")]
    let metrics = metrics.chain(fetches::measure(cache.fetch_stats()));
    #[cfg(feature = "freezing")]
    let metrics = metrics.chain(freezing::measure(cache.freezing_state().as_ref()));
    metrics.collect()
}

/// The same for a cache with handles, which loads nothing.
fn measure_handles<K: Hash + Eq, V, S: BuildHasher>(cache: &HandleCache<K, V, S>) -> Vec<Metric> {
    let sizes = Sizes {
        entries: cache.len() as u64,
        weight: cache.usage(),
        held_weight: Some(cache.held_usage()),
        capacity: cache.capacity(),
        reserved_bytes: cache.reserved_bytes() as u64,
    };
    let metrics = measure_counts(cache.stats(), &sizes).into_iter();
    #[cfg(feature = "loading")]
    let metrics = metrics.chain(fetches::measure(crate::FetchStats::default()));
    #[cfg(feature = "freezing")]
    let metrics = metrics.chain(freezing::measure(cache.freezing_state().as_ref()));
    metrics.collect()
}

fn measure_counts(stats: Stats, sizes: &Sizes) -> Vec<Metric> {
    // Without `..`, so that a count which is not in the table below does not compile.
    let Stats {
        hits,
        frozen_hits,
        misses,
        bypassed,
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
    } = stats;
    let requests = hits.wrapping_add(delayed_hits).wrapping_add(misses);
    let load_seconds = seconds(load_nanoseconds);
    let held = "Weight of held entries, resident or not.";
    let mut held_weight = gauge("frazil_held_weight", held, sizes.held_weight.unwrap_or(0));
    if sizes.held_weight.is_none() {
        held_weight.samples.clear();
    }
    vec![
        counter("frazil_requests_total", "Gets, with a loader or without.", requests),
        counter("frazil_hits_total", "Requests that found their key.", hits),
        counter("frazil_frozen_hits_total", "Hits of frozen entries.", frozen_hits),
        counter("frazil_bypassed_total", "Requests that went past the cache.", bypassed),
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
        gauge("frazil_waiting", "Removed entries that wait to be dropped.", waiting),
        gauge("frazil_entries", "Entries that are there.", sizes.entries),
        gauge("frazil_weight", "Weight of the entries, in the capacity's unit.", sizes.weight),
        held_weight,
        gauge("frazil_capacity", "The most that the entries may weigh.", sizes.capacity),
        gauge(
            "frazil_reserved_bytes",
            "Bytes laid out for entries and table.",
            sizes.reserved_bytes,
        ),
    ]
}

/// A page of metrics: caches, each with its values at the moment it was added.
///
/// Make one for each request, add the caches, and serve the output of [`Display`](fmt::Display).
/// Counters have names in `_total`; they begin at 0 with each cache, which Prometheus takes for a
/// restart.
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

    /// Adds the metrics of `cache`, with the label `cache="name"`.
    ///
    /// Any text may be a name. If two caches have the same name the page shows the later one,
    /// because a sample may appear only once. O(threads + caches).
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
        self.add(name, measure(cache));
        self
    }

    /// As [`with`](Page::with), for a cache with handles. Its weight is that of all resident and
    /// held entries, and may exceed the capacity.
    ///
    /// ```
    /// use frazil::{HandleCache, prometheus::Page};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).build();
    /// let _held = cache.insert_held(1, 10, 7).unwrap();
    /// let page = Page::new().with_handles("blocks", &cache).to_string();
    /// assert!(page.contains("frazil_held_weight{cache=\"blocks\"} 7\n"));
    /// ```
    #[must_use]
    pub fn with_handles<K: Hash + Eq, V, S: BuildHasher>(
        mut self,
        name: &str,
        cache: &HandleCache<K, V, S>,
    ) -> Self {
        self.add(name, measure_handles(cache));
        self
    }

    fn add(&mut self, name: &str, metrics: Vec<Metric>) {
        match self.caches.iter_mut().find(|(other, _)| other == name) {
            Some((_, others)) => *others = metrics,
            None => self.caches.push((name.to_owned(), metrics)),
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((_, first)) = self.caches.first() else { return Ok(()) };
        for (index, Metric { name, kind, help, .. }) in first.iter().enumerate() {
            // Metrics that no cache here has are not described.
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
