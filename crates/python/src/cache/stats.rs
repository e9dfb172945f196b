//! Counts, for the user.

use pyo3::intern;
use pyo3::prelude::*;

/// Counts of a cache since it was made.
#[pyclass(frozen, get_all, eq, skip_from_py_object, module = "frazil")]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Requests that found their key.
    pub(super) hits: u64,
    /// Requests that did not find it. `in` does not count.
    pub(super) misses: u64,
    /// New entries.
    pub(super) inserts: u64,
    /// Values stored over others.
    pub(super) replacements: u64,
    /// Entries evicted because the cache was full.
    pub(super) evictions: u64,
    /// Entries that expired.
    pub(super) expirations: u64,
    /// Entries removed by `del`, `pop`, `popitem` or `clear`.
    pub(super) deletions: u64,
    /// Values that were not stored: too large, or refused by the policy.
    pub(super) refusals: u64,
    /// Calls of the functions given to `get_or_set`.
    pub(super) loads: u64,
    /// Entries now.
    pub(super) entries: u64,
    /// The sum of their sizes now.
    pub(super) size: u64,
}

#[pymethods]
impl CacheStats {
    /// Hits by hits and misses; 0.0 before the first of either.
    #[getter]
    fn hit_ratio(&self) -> f64 {
        let requests = self.hits + self.misses;
        if requests == 0 { 0.0 } else { self.hits as f64 / requests as f64 }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, ([u64; 11],))> {
        let make = py.import(intern!(py, "frazil._frazil"))?.getattr(intern!(py, "_stats"))?;
        Ok((make, (self.counts().map(|(_, count)| count),)))
    }

    fn __repr__(&self) -> String {
        let counts = self.counts().map(|(name, count)| format!("{name}={count}"));
        let (requests, others) = counts.split_at(2);
        let (requests, others) = (requests.join(", "), others.join(", "));
        format!("CacheStats({requests}, hit_ratio={:.3}, {others})", self.hit_ratio())
    }
}

impl CacheStats {
    /// In the order of [`_stats`].
    fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("hits", self.hits),
            ("misses", self.misses),
            ("inserts", self.inserts),
            ("replacements", self.replacements),
            ("evictions", self.evictions),
            ("expirations", self.expirations),
            ("deletions", self.deletions),
            ("refusals", self.refusals),
            ("loads", self.loads),
            ("entries", self.entries),
            ("size", self.size),
        ]
    }
}

/// Counts from a pickle.
#[pyfunction]
pub(crate) fn _stats(counts: [u64; 11]) -> CacheStats {
    let [hits, misses, inserts, replacements, evictions, expirations, deletions, ..] = counts;
    let [.., refusals, loads, entries, size] = counts;
    CacheStats {
        hits,
        misses,
        inserts,
        replacements,
        evictions,
        expirations,
        deletions,
        refusals,
        loads,
        entries,
        size,
    }
}
