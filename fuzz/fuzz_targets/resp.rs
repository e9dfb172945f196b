//! libFuzzer's inputs for `frazil_fuzz::server::feed_resp`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| frazil_fuzz::server::feed_resp(input));
