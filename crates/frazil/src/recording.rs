//! Recording requests to a file.

use std::hash::{BuildHasher, Hash};
use std::io;
use std::path::Path;

use crate::cache::Cache;
use crate::features::record::Recording;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Records the requests for a share of all keys to a file, which `frazil simulate` and
    /// `frazil advise` read, until the guard goes.
    ///
    /// `rate` is the share of the keys, above 0 and at most 1; all requests for a key that is
    /// chosen are recorded. A hundredth suits caches of 100,000 entries and more. A recorded
    /// operation takes some 25 ns longer, so a hundredth costs 0.25 ns an operation, and 10 to
    /// 14 bytes of the file a request, 5 to 7 more with a lifetime. What each operation becomes:
    ///
    /// | operation | record |
    /// |---|---|
    /// | get that hits | get, with the entry's weight as size |
    /// | get that misses | get, with the insertion that follows it within a second, on whatever thread, and in its place; without one, a get of unknown size |
    /// | any other insertion | set |
    /// | `remove`, `invalidate` | delete |
    ///
    /// An insertion that has a lifetime has it in its record, as it began: set, or get that missed.
    /// By how much uses move it (time to idle, `expire_after_read`) is not recorded; the file says
    /// that they do.
    ///
    /// `peek`, `contains_key`, `iter`, `clear` and `invalidate_all` are not recorded. Without a
    /// weigher there are no sizes. Times are those of the coarse clock, which ticks every 1 to 10 ms, and never
    /// decrease in the file; what several threads did within a tick is interleaved evenly. So a
    /// miss and its insertion by another thread within the same tick may become a set and a get of
    /// unknown size.
    ///
    /// Keys are recorded as scrambled hashes. With the default hasher these differ from one
    /// cache to the next; with one that is not seeded by chance, whoever can guess a key
    /// can tell whether it was asked for.
    ///
    /// No operation waits for the file: what it cannot take is [lost](crate::Recorded::lost). It can
    /// be read while it is written; at most a second of it is missing.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// let path = std::env::temp_dir().join(format!("doc-{}.frazil", std::process::id()));
    /// let recording = cache.record(&path, 1.0)?;
    /// for key in [1, 2, 1, 3] {
    ///     if cache.get(&key).is_none() {
    ///         cache.insert(key, key);
    ///     }
    /// }
    /// let recorded = recording.finish()?;
    /// assert_eq!((recorded.records, recorded.lost), (4, 0));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for a rate that is none, `ResourceBusy` while another recording of this
    /// cache is under way, and what the system says of the file and of the thread that writes
    /// it. A file that is there already is overwritten.
    pub fn record(&self, path: impl AsRef<Path>, rate: f64) -> io::Result<Recording<'_>> {
        self.core.record(path.as_ref(), rate)
    }
}
