//! libFuzzer's inputs for `frazil_fuzz::snapshot::feed`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| frazil_fuzz::snapshot::feed(input));
