//! Frazil's policies in the block cache of the crate [`rocksdb`].
//!
//! ```no_run
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let options = frazil_block_cache::with_block_cache(&mut options, "capacity=1G;policy=s3-fifo")?;
//! let db = rocksdb::DB::open(&options, "path")?;
//! # Ok::<(), rocksdb::Error>(())
//! ```

// What the block cache calls: C++ has its functions by name.
use frazil_rocksdb as _;

unsafe extern "C" {
    safe fn frazil_register_block_cache();
}

/// The same options with a block cache of Frazil's, as described by a text: `capacity=1G;policy=s3-fifo`, and
/// the other options of `docs/rocksdb.md`.
///
/// Databases that are opened with these options share the cache. A later `set_block_based_table_factory`
/// replaces it.
///
/// The options that are answered keep nothing alive of what was set in `options` from Rust: keep those as long as the
/// database, if they have an environment, a comparator, a compaction filter or a logger.
///
/// # Errors
///
/// What RocksDB says of an option or a policy that there is not.
pub fn with_block_cache(
    options: &mut rocksdb::Options,
    cache: &str,
) -> Result<rocksdb::Options, rocksdb::Error> {
    frazil_register_block_cache();
    let text = format!("block_based_table_factory={{block_cache={{id=frazil://;{cache}}}}}");
    options.get_options_from_string(text)
}
