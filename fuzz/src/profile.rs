//! Profiles: an accepted one has for each policy a network that can be solved, or an error.

use frazil_queueing::{Conditions, Profile, bounds, solve};

/// Reads an input; panics if the reader breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::parse(text) else { return };
    let written = profile.to_toml().expect("what was accepted can be written");
    assert_eq!(Profile::parse(&written).as_ref(), Ok(&profile));
    for name in profile.networks.keys().take(4) {
        let Ok(network) = profile.network_under(name, &Conditions::new(0.9, 100.0)) else {
            continue;
        };
        if let (Ok(solution), Ok(bounds)) = (solve(&network, 16), bounds(&network, 16)) {
            assert!(solution.throughput_mops >= 0.0);
            assert!(solution.throughput_mops <= bounds.upper_mops * (1.0 + 1e-6));
        }
    }
}
