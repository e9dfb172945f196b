//! Frazil's policies in the block cache of the crate [`rocksdb`].
//!
//! ```no_run
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let options = frazil_block_cache::with_block_cache(&mut options, "capacity=1G;policy=s3-fifo")?;
//! let db = rocksdb::DB::open(&options, "path")?;
//! # Ok::<(), rocksdb::Error>(())
//! ```

// Links the functions that the block cache calls: C++ finds them by name.
use frazil_rocksdb as _;

unsafe extern "C" {
    safe fn frazil_register_block_cache();
}

/// The same options with a block cache of Frazil, described by a text:
/// `capacity=1G;policy=s3-fifo`, and the other options of `docs/rocksdb.md`.
///
/// Databases opened with these options share the cache. A later
/// `set_block_based_table_factory` replaces it.
///
/// The returned options do not keep the objects alive that Rust set in `options`. If these have an
/// environment, a comparator, a compaction filter or a logger, keep `options` as long as the
/// database.
///
/// # Errors
///
/// RocksDB's error for an unknown option or policy.
pub fn with_block_cache(
    options: &mut rocksdb::Options,
    cache: &str,
) -> Result<rocksdb::Options, rocksdb::Error> {
    frazil_register_block_cache();
    let text = format!("block_based_table_factory={{block_cache={{id=frazil://;{cache}}}}}");
    options.get_options_from_string(text)
}
