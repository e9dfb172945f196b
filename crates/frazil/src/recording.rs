//! Recording requests to a file.

use std::hash::{BuildHasher, Hash};
use std::io;
use std::path::Path;

use crate::cache::Cache;
use crate::features::record::Recording;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Records the requests for a share of all keys to a file, which `frazil simulate` and `frazil
    /// advise` read, until the guard is dropped.
    ///
    /// `rate` is the share of the keys, above 0 and at most 1; all requests for a chosen key are
    /// recorded. A hundredth suits caches of 100,000 entries and more. Recording an operation takes
    /// some 25 ns, so a hundredth costs 0.25 ns an operation. A request takes 10 to 14 bytes of the
    /// file, 5 to 7 more with a lifetime. Each operation becomes a record:
    ///
    /// | operation | record |
    /// |---|---|
    /// | get that hits | get, with the entry's weight as size |
    /// | get that misses | get, with the insertion that follows it within a second, on any thread, and in its place; without one, a get of unknown size |
    /// | any other insertion | set |
    /// | `remove`, `invalidate` | delete |
    ///
    /// The record of an insertion with a lifetime, a set or a get that missed, has that lifetime as
    /// it began. How much uses extend it (time to idle, `expire_after_read`) is not recorded; the
    /// file notes that they do.
    ///
    /// `peek`, `contains_key`, `iter`, `clear` and `invalidate_all` are not recorded. Without a
    /// weigher there are no sizes. Times are those of the coarse clock, which ticks every 1 to 10
    /// ms, and never decrease in the file; records of several threads within a tick are interleaved
    /// evenly. So a miss and its insertion by another thread within the same tick may become a set
    /// and a get of unknown size.
    ///
    /// Keys are recorded as scrambled hashes. With the default hasher these differ from one cache
    /// to the next. With a hasher without a random seed, anyone who can guess a key can find out
    /// whether it was requested.
    ///
    /// No operation waits for the file: records that it cannot take are
    /// [lost](crate::Recorded::lost). The file can be read while it is written; at most the last
    /// second is missing.
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
    /// `InvalidInput` for an invalid rate, `ResourceBusy` while another recording of this cache is
    /// under way, and errors of the system for the file and for the thread that writes it. An
    /// existing file is overwritten.
    pub fn record(&self, path: impl AsRef<Path>, rate: f64) -> io::Result<Recording<'_>> {
        self.core.record(path.as_ref(), rate)
    }
}
