//! The language of generated workloads: each valid one is generated, as far as a test has time.

use frazil_simulator::trace::{ReadOptions, load};

/// Parses an input; panics if the generator breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Anything else names a file.
    const NAMES: [&str; 7] = ["zipf", "uniform", "loop", "mix", "diurnal", "bursts", "drift"];
    if !NAMES.iter().any(|it| text.starts_with(it)) {
        return;
    }
    // Tables of a billion objects are a user's choice, and not one for a test.
    if text.contains(['K', 'M', 'G'])
        || text.split(|it: char| !it.is_ascii_digit()).any(|it| it.len() > 6)
    {
        return;
    }
    let options = ReadOptions { limit: Some(2_000), ..Default::default() };
    if let Ok(loaded) = load(text, &options) {
        assert!(loaded.trace.len() <= 2_000);
    }
}
