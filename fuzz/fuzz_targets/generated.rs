//! The language of generated workloads: what can be asked for is made, as far as a test has time.
#![no_main]

use frazil_simulator::trace::{ReadOptions, load};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|text: &str| -> Corpus {
    // Anything else names a file.
    if !["zipf", "uniform", "loop", "mix"].iter().any(|it| text.starts_with(it)) {
        return Corpus::Reject;
    }
    // Tables of a billion objects are a user's choice, and not one for a test.
    if text.contains(['K', 'M', 'G'])
        || text.split(|it: char| !it.is_ascii_digit()).any(|it| it.len() > 6)
    {
        return Corpus::Reject;
    }
    let options = ReadOptions { limit: Some(2_000), ..Default::default() };
    if let Ok(loaded) = load(text, &options) {
        assert!(loaded.trace.len() <= 2_000);
    }
    Corpus::Keep
});
