//! Snapshots: a cache restores any bytes or returns an error, and is sound afterwards.

use frazil::Cache;

use crate::write_anew;

/// Restores an input; panics if the cache breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("frazil-fuzz-{}-snapshot", std::process::id()));
    write_anew(&path, bytes);
    let cache: Cache<u64, u64> = Cache::builder(64).build();
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let decode = |bytes: &[u8]| Some((number(bytes.get(..8)?)?, number(bytes.get(8..)?)?));
    if let Ok(restored) = cache.restore(&path, decode) {
        assert!(cache.len() as u64 <= restored.min(64));
    }
    cache.insert(1, 2);
    assert_eq!(cache.get(&1), Some(2));
}
