//! Profiles as files.

use frazil_queueing::{Profile, ThinkTime, Times};

const TEXT: &str = r#"
machine = { description = "a machine", cores = 4, measured = "2026-01-31" }
think.look-up = { mean_us = 0.05, spread_us = 0.01 }
stations.lock = { service_us = [0.06, 0.11], spread_us = [0.01, 0.02] }
networks."lru-prob:q=0.5".hit = { think = { look-up = 1 }, stations = { lock = 0.5 } }
networks."lru-prob:q=0.5".miss = { stations = { lock = [[0.4, 2], [1, 2.5]] } }
"#;

#[test]
fn a_profile_written_is_the_profile_read() {
    let profile = Profile::parse(TEXT).unwrap();
    assert_eq!(
        profile.think["look-up"],
        ThinkTime {
            mean_us: Times::One(0.05),
            spread_us: Some(Times::One(0.01)),
            ..ThinkTime::default()
        }
    );
    let written = profile.to_toml().unwrap();
    assert_eq!(Profile::parse(&written).unwrap(), profile, "{written}");
    let network = profile.network("lru-prob:q=0.5", 0.7, 100.0).unwrap();
    assert_eq!(network.cores(), Some(4));
    let visits = 0.7 * 0.5 + 0.3 * 2.25;
    assert!((network.visits(0) - visits).abs() < 1e-12);
    assert!((network.demands_us()[0] - visits * 0.11).abs() < 1e-12);
    assert!((network.think_us() - (0.7 * 0.05 + 30.0)).abs() < 1e-12);
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut profile = Profile::parse(TEXT).unwrap();
    profile.think.insert(
        "clone".to_owned(),
        ThinkTime { mean_us: Times::One(f64::NAN), ..ThinkTime::default() },
    );
    assert!(profile.to_toml().is_err());
    assert!(profile.network("lru-prob:q=0.5", 0.7, 100.0).is_err());
}

/// Any damage gives a profile or an error.
#[test]
fn no_text_is_too_bad() {
    for cut in 0..TEXT.len() {
        let _ = Profile::parse(&TEXT[..cut]);
        for byte in ["\"", "]", "{", "-", "9", "\n", "é"] {
            let text = format!("{}{byte}{}", &TEXT[..cut], &TEXT[cut + 1..]);
            if let Ok(profile) = Profile::parse(&text) {
                for name in profile.networks.keys() {
                    let _ = profile.network(name, 0.5, 1.0);
                }
            }
        }
    }
}
