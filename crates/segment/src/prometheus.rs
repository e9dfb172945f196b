//! The counts of stores as a page for Prometheus. Feature `prometheus`.
//!
//! The program serves the page with its other metrics: the store opens no port. The page is text in
//! the exposition format, version 0.0.4 ([`CONTENT_TYPE`]). In that format all samples of a metric
//! stand together, so a [`Page`] first collects the stores and is written at the end.
//!
//! ```
//! use frazil_segment::{Store, prometheus::Page};
//! let sessions = Store::builder(4 << 20).build()?;
//! sessions.get(b"nobody", &mut Vec::new());
//!
//! let page = Page::new().with("sessions", &sessions).to_string();
//! assert!(page.starts_with(
//!     r##"# HELP frazil_segment_hits_total Look-ups that found an entry.
//! ## TYPE frazil_segment_hits_total counter
//! frazil_segment_hits_total{store="sessions"} 0
//! ## HELP frazil_segment_misses_total Look-ups that found none.
//! ## TYPE frazil_segment_misses_total counter
//! frazil_segment_misses_total{store="sessions"} 1
//! "##
//! ));
//! # Ok::<(), frazil_segment::BuildError>(())
//! ```
//!
//! There may be tens of thousands of segments, so the page has quantiles of their statistics, with
//! a label `quantile` from 0, the least, to 1, the greatest. Stores with a learner have metrics
//! `frazil_segment_learner_…`. Adding a store costs as much as [`Store::stats`],
//! [`Store::segments`] and [`Store::learner_stats`].

use std::fmt;

use crate::{LearnerStats, SegmentStats, Stats, Store};

/// The content type of a [`Page`]: the header `Content-Type`.
///
/// ```
/// assert!(frazil_segment::prometheus::CONTENT_TYPE.starts_with("text/plain; version=0.0.4"));
/// ```
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The quantiles given for segments.
const QUANTILES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// One metric of one store at one moment.
#[derive(Clone, Debug)]
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Values, each with its distinguishing label.
    samples: Vec<(Option<(&'static str, String)>, String)>,
}

impl Metric {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Metric {
        Metric { name, kind, help, samples: Vec::new() }
    }

    fn value(mut self, value: impl ToString) -> Metric {
        self.samples.push((None, value.to_string()));
        self
    }

    fn labelled(mut self, label: &'static str, of: impl ToString, value: f64) -> Metric {
        self.samples.push((Some((label, of.to_string())), value.to_string()));
        self
    }
}

fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric::new(name, "counter", help).value(value)
}

fn gauge(name: &'static str, help: &'static str, value: impl ToString) -> Metric {
    Metric::new(name, "gauge", help).value(value)
}

fn of_store(stats: &Stats) -> Vec<Metric> {
    // Without `..`, so that a count missing from the table below does not compile.
    let Stats {
        hits,
        misses,
        writes,
        evicted_items,
        expired_items,
        expired_reads,
        flushed_reads,
        kept_items,
        merges,
        items,
        live_bytes,
        capacity_bytes,
        segment_bytes,
        segments,
        free_segments,
        withdrawn_segments,
        index_segments,
        index_lines,
        overflow_lines,
    } = *stats;
    vec![
        counter("frazil_segment_hits_total", "Look-ups that found an entry.", hits),
        counter("frazil_segment_misses_total", "Look-ups that found none.", misses),
        counter("frazil_segment_writes_total", "Values stored.", writes),
        counter("frazil_segment_evictions_total", "Entries that made room.", evicted_items),
        counter("frazil_segment_expirations_total", "Entries that were over.", expired_items),
        counter(
            "frazil_segment_expired_reads_total",
            "Misses of an entry that was over.",
            expired_reads,
        ),
        counter(
            "frazil_segment_flushed_reads_total",
            "Misses of an entry that was flushed.",
            flushed_reads,
        ),
        counter("frazil_segment_kept_total", "Entries that merges kept.", kept_items),
        counter("frazil_segment_merges_total", "Merges of segments.", merges),
        gauge("frazil_segment_entries", "Entries that are there.", items),
        gauge("frazil_segment_live_bytes", "Bytes of their items.", live_bytes),
        gauge("frazil_segment_capacity_bytes", "Capacity of the store.", capacity_bytes),
        gauge("frazil_segment_bytes", "The size of a segment.", segment_bytes),
        gauge("frazil_segment_segments", "Segments.", segments),
        gauge(
            "frazil_segment_withdrawn_segments",
            "Segments that are out of use.",
            withdrawn_segments,
        ),
        gauge("frazil_segment_free_segments", "Segments that nothing is in.", free_segments),
        gauge("frazil_segment_index_segments", "Segments of the index.", index_segments),
        gauge("frazil_segment_index_lines", "Lines of the index, 64 bytes each.", index_lines),
        gauge("frazil_segment_overflow_lines", "Lines beside those.", overflow_lines),
    ]
}

/// A value of a segment, if it has one.
type Of = fn(&SegmentStats) -> Option<f64>;

fn of_segments(all: &[SegmentStats]) -> Vec<Metric> {
    let metrics: [(&str, &str, Of); 6] = [
        ("frazil_segment_age_seconds", "How long ago a segment was opened.", |it| {
            Some(it.age.as_secs_f64())
        }),
        ("frazil_segment_filled_bytes", "Bytes written to a segment.", |it| {
            Some(it.filled_bytes as f64)
        }),
        ("frazil_segment_live_items", "Entries in a segment.", |it| Some(f64::from(it.live_items))),
        ("frazil_segment_requests", "Requests of a segment's entries.", |it| {
            it.learned.map(|learned| learned.requests as f64)
        }),
        ("frazil_segment_active_items", "Entries of a segment that were requested.", |it| {
            it.learned.map(|learned| f64::from(learned.active_items))
        }),
        ("frazil_segment_utility", "Predicted utility of a segment.", |it| {
            it.learned.and_then(|learned| learned.utility).map(f64::from)
        }),
    ];
    let told = metrics.into_iter().map(|(name, help, of)| {
        let mut values: Vec<f64> = all.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        let metric = Metric::new(name, "gauge", help);
        let Some(last) = values.len().checked_sub(1) else { return metric };
        QUANTILES.iter().fold(metric, |metric, quantile| {
            metric.labelled("quantile", quantile, values[(last as f64 * quantile) as usize])
        })
    });
    told.collect()
}

fn of_learner(stats: &LearnerStats) -> Vec<Metric> {
    // Without `..`, as above.
    let LearnerStats {
        snapshots,
        trainings,
        training,
        model_age,
        samples,
        error,
        importance,
        rankings,
        chosen_segments,
        chosen_utility,
        chosen_items,
        chosen_misses,
        sampled_share,
        noted_keys,
        unnoted_keys,
    } = *stats;
    macro_rules! name {
        ($name:literal) => {
            concat!("frazil_segment_learner_", $name)
        };
    }
    let age = Metric::new(name!("model_age_seconds"), "gauge", "How old the model is.");
    let shares = Metric::new(name!("importance"), "gauge", "What each feature gained the model.");
    let features = LearnerStats::FEATURES.iter().zip(importance);
    vec![
        counter(name!("snapshots_total"), "Snapshots of segments.", snapshots),
        counter(name!("trainings_total"), "Models made.", trainings),
        gauge(
            name!("training_seconds"),
            "How long the last model took.",
            format!("{:.9}", training.as_secs_f64()),
        ),
        model_age.map_or(age.clone(), |since| age.value(since.as_secs_f64())),
        gauge(name!("samples"), "Segments that the model was made of.", samples),
        gauge(name!("error"), "The model's error on segments held back.", error),
        features.fold(shares, |shares, (name, share)| shares.labelled("feature", name, share)),
        counter(name!("rankings_total"), "Rankings of all segments.", rankings),
        counter(name!("chosen_segments_total"), "Segments that it chose.", chosen_segments),
        gauge(name!("chosen_utility"), "Mean predicted utility of those.", chosen_utility),
        counter(name!("chosen_items_total"), "Entries that went with them.", chosen_items),
        counter(name!("chosen_misses_total"), "Look-ups of those since.", chosen_misses),
        gauge(name!("sampled_share"), "The share of keys that are sampled.", sampled_share),
        gauge(name!("noted_keys"), "Sampled keys that are noted.", noted_keys),
        counter(name!("unnoted_keys_total"), "Those that found no room.", unnoted_keys),
    ]
}

/// All metrics of a store, in the order of the page; a metric that the store does not have has no
/// samples.
fn measure(store: &Store) -> Vec<Metric> {
    let segments: Vec<_> = store.segments().collect();
    let learner = store.learner_stats();
    let mut of_learner = of_learner(&learner.unwrap_or_default());
    if learner.is_none() {
        of_learner.iter_mut().for_each(|metric| metric.samples.clear());
    }
    let metrics = of_store(&store.stats()).into_iter().chain(of_segments(&segments));
    metrics.chain(of_learner).collect()
}

/// A page of metrics: stores, each with its values at the moment it was added.
///
/// ```
/// use frazil_segment::{Store, prometheus::Page};
/// let store = Store::builder(4 << 20).build()?;
/// store.set(b"key", b"value", Default::default())?;
/// let page = Page::new().with("numbers", &store);
/// assert!(page.to_string().contains("frazil_segment_entries{store=\"numbers\"} 1\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The stores' names, and their metrics: the same ones in the same order for all.
    stores: Vec<(String, Vec<Metric>)>,
}

impl Page {
    /// A page without stores, which is empty.
    ///
    /// ```
    /// assert_eq!(frazil_segment::prometheus::Page::new().to_string(), "");
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Page::default()
    }

    /// Adds the metrics of `store`, with the label `store="name"`. Any text may be a name. If two
    /// stores have the same name the page shows the later one, because a sample may appear only
    /// once.
    ///
    /// ```
    /// use frazil_segment::{Store, prometheus::Page};
    /// let store = Store::builder(4 << 20).build()?;
    /// let page = Page::new().with("a \"b\"", &store).to_string();
    /// assert!(page.contains(r#"frazil_segment_capacity_bytes{store="a \"b\""} 4194304"#));
    /// # Ok::<(), frazil_segment::BuildError>(())
    /// ```
    #[must_use]
    pub fn with(mut self, name: &str, store: &Store) -> Self {
        let metrics = measure(store);
        match self.stores.iter_mut().find(|(other, _)| other == name) {
            Some((_, others)) => *others = metrics,
            None => self.stores.push((name.to_owned(), metrics)),
        }
        self
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((_, first)) = self.stores.first() else { return Ok(()) };
        for (index, Metric { name, kind, help, .. }) in first.iter().enumerate() {
            // Metrics that no store of the page has are not described.
            if self.stores.iter().all(|(_, metrics)| metrics[index].samples.is_empty()) {
                continue;
            }
            writeln!(f, "# HELP {name} {help}")?;
            writeln!(f, "# TYPE {name} {kind}")?;
            for (store, metrics) in &self.stores {
                let store = escaped(store);
                for (label, value) in &metrics[index].samples {
                    write!(f, "{name}{{store=\"{store}\"")?;
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

/// A label's value, escaped for quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
