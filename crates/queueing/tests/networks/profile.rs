//! Profiles as files.

use frazil_queueing::{
    Conditions, Profile, SimulationOptions, ThinkTime, Times, bounds, peak, simulate, solve,
    throughput,
};

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

const MEASURED: &str = r#"
machine = { description = "a machine", cores = 4 }
think.look-up = { mean_us = [[1e3, [0.01, 0.02]], [1e5, [0.04]]], spread_us = 0.001 }
think.fetch = { mean_us = 0.08, only_with_backend = true }
stations.hit = { at = "lock", by_cores = true, service_us = [0.03, 0.09] }
stations.miss = { at = "lock", by_cores = true, service_us = [0.06, 0.12] }
stations.skip = { at = "lock", by_cores = true, service_us = 0.01, work = "skip" }
networks.sieve.hit = { think = { look-up = 1 }, stations = { hit = 1 } }
networks.sieve.miss = { think = { look-up = 1, fetch = 1 }, stations = { miss = 1, skip = 2 } }
"#;

/// One request, or two, take the times in the file, in the order of the operations.
#[test]
fn conditions_choose_among_the_times() {
    let profile = Profile::parse(MEASURED).unwrap();
    assert_eq!(Profile::parse(&profile.to_toml().unwrap()).unwrap(), profile);
    let response = |conditions: &Conditions, mpl| {
        solve(&profile.network_under("sieve", conditions).unwrap(), mpl).unwrap().response_us
    };
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    let mut conditions = Conditions::new(0.5, 0.0);
    (conditions.capacity, conditions.cores) = (1e3, Some(1));
    close(response(&conditions, 1), 0.01 + 0.5 * 0.03 + 0.5 * (0.06 + 2.0 * 0.01));
    conditions.work.insert("skip".to_owned(), [0.0, 5.0]);
    close(response(&conditions, 1), 0.01 + 0.5 * 0.03 + 0.5 * (0.06 + 5.0 * 0.01));
    conditions.capacity = 1e4;
    close(response(&conditions, 1), 0.02 + 0.5 * 0.03 + 0.5 * (0.06 + 5.0 * 0.01));
    conditions.backend_us = 7.0;
    close(response(&conditions, 1), 0.02 + 0.5 * 0.03 + 0.5 * (7.0 + 0.08 + 0.06 + 5.0 * 0.01));
    // Two: 0.02 for the look-up and one lock of 0.09, part of which the other waits for.
    let mut two = Conditions::new(1.0, 0.0);
    (two.capacity, two.cores) = (1e3, Some(2));
    close(response(&two, 2), 0.02 + 0.09 * (1.0 + 0.09 / 0.11));
    let network = profile.network_under("sieve", &two).unwrap();
    close(network.demands_us()[0], 0.09);
    let simulated = simulate(&network, 2, &SimulationOptions::default()).unwrap();
    let exact = solve(&network, 2).unwrap().throughput_mops;
    assert!((simulated.solution.throughput_mops / exact - 1.0).abs() < 0.02, "{simulated:?}");
    for mpl in [1, 2, 16] {
        let bounds = bounds(&network, mpl).unwrap();
        let exact = solve(&network, mpl).unwrap().throughput_mops;
        assert!(bounds.lower_mops <= exact && exact <= bounds.upper_mops, "{mpl}: {bounds:?}");
    }
}

/// A lock that only misses take, for two operations, as the share of misses goes to 0.
#[test]
fn turns_of_the_last_miss_take_as_long_as_all_others() {
    let text = MEASURED.replacen("stations = { hit = 1 }", "stations = { hit = 0 }", 1);
    let free = MEASURED.replacen("[0.03, 0.09]", "0", 1);
    for text in [text, free] {
        let profile = Profile::parse(&text).unwrap();
        for misses in [0.5, 1e-6, 1e-9, 1e-12, f64::EPSILON, 0.0] {
            let hit_ratio = 1.0 - misses;
            let network = profile.network("sieve", hit_ratio, 0.0).unwrap();
            let demand_us = (1.0 - hit_ratio) * (0.12 + 2.0 * 0.01);
            let found = network.demands_us()[0];
            assert!((found - demand_us).abs() <= 1e-9 * demand_us, "{misses}: {found}");
            solve(&network, 64).unwrap();
        }
        let throughput = |p| throughput(&profile.network("sieve", p, 5.0)?, 64);
        assert!(peak((0.4, 1.0), throughput).unwrap().high > 0.9999);
    }
}

/// A frozen hit takes a look-up and no turn; the time of a turn is that of the other requests.
#[test]
fn hits_of_what_is_frozen_take_a_look() {
    let mut profile = Profile::parse(MEASURED).unwrap();
    let mut conditions = Conditions::new(0.8, 5.0);
    conditions.capacity = 1e3;
    let response = |profile: &Profile, conditions: &Conditions| {
        solve(&profile.network_under("sieve", conditions).unwrap(), 1).unwrap().response_us
    };
    // In the file: a hit has 0.01 and a turn of 0.03, a miss 0.01, 0.08, 5 and 0.06 + 0.02.
    let (hit, miss) = (0.01 + 0.03, 0.01 + 0.08 + 5.0 + 0.06 + 0.02);
    assert!((response(&profile, &conditions) - 0.8 * hit - 0.2 * miss).abs() < 1e-9);
    for (look, frozen) in [(None, 0.75), (Some(0.002), 0.75), (Some(0.002), 0.0), (Some(0.3), 1.0)]
    {
        if let Some(us) = look {
            let look = ThinkTime { mean_us: Times::One(us), ..ThinkTime::default() };
            profile.think.insert(Profile::FROZEN_HIT.to_owned(), look);
        }
        conditions.frozen_hits = Some(frozen);
        let look: f64 = look.unwrap_or(0.01);
        let expected = look + 0.8 * (1.0 - frozen) * hit + 0.2 * miss;
        let seen = response(&profile, &conditions);
        assert!((seen - expected).abs() < 1e-9, "{look} {frozen}: {seen} {expected}");
        // The lock's time is the mean over the requests that take it.
        let network = profile.network_under("sieve", &conditions).unwrap();
        let demand = 0.8 * (1.0 - frozen) * 0.09 + 0.2 * (0.12 + 2.0 * 0.01);
        let seen = network.demands_us()[0];
        assert!((seen - demand).abs() < 1e-9, "{look} {frozen}: {seen} {demand}");
    }
    conditions.frozen_hits = Some(1.5);
    assert!(profile.network_under("sieve", &conditions).is_err());
}

#[test]
fn what_makes_no_sense_is_named() {
    for (from, to, word) in [
        ("mean_us = 0.08, ", "", "mean_us"),
        ("mean_us = 0.08", "mean_us = -0.08", "fetch"),
        ("mean_us = 0.08", "mean_us = []", "fetch"),
        ("mean_us = 0.08", "mean_us = \"fast\"", "by capacity"),
        ("[1e5, [0.04]]", "[1e3, [0.04]]", "look-up"),
        ("[1e5, [0.04]]", "[1e5, []]", "look-up"),
        ("[1e5, [0.04]]", "[0, [0.04]]", "look-up"),
        ("service_us = [0.06, 0.12]", "service_us = [0.06, nan]", "miss"),
        ("service_us = [0.06, 0.12]", "service_us = [0.06], spread_us = [1, 2]", "spread_us"),
        ("stations = { hit = 1 }", "stations = { hits = 1 }", "hits"),
        ("stations = { hit = 1 }", "stations = { hit = -1 }", "hit"),
        ("by_cores", "by_core", "by_core"),
        (
            "stations.miss = { at = \"lock\"",
            "stations.miss = { at = \"cores\"",
            "at of station `miss`",
        ),
        ("mean_us = 0.08", "mean_us = 1e300", "`fetch` is 1e300, expected"),
        ("mean_us = 0.08", "mean_us = -1e-300", "`fetch` is -1e-300, expected"),
        ("cores = 4 }", "cores = 4 }\nquality = { runs = 3, disturbed = 4 }", "4 disturbed of 3"),
    ] {
        let text = MEASURED.replacen(from, to, 1);
        assert_ne!(text, MEASURED, "{from}");
        let error = Profile::parse(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{from} to {to}: {error}");
    }
    for reserved in ["cores", "backend", "none", "\"\""] {
        let text = TEXT.replace("lock", reserved);
        let error = Profile::parse(&text).unwrap_err().to_string();
        let name = reserved.trim_matches('"');
        assert!(error.starts_with(&format!("station `{name}`: ")), "{error}");
    }
    let (none, _) = TEXT.split_once("networks").unwrap();
    let error = Profile::parse(&format!("{none}networks = {{}}")).unwrap_err().to_string();
    assert!(error.starts_with("networks: "), "{error}");
    let mixed = MEASURED.replacen("by_cores = true, service_us = 0.01", "service_us = 0.01", 1);
    let error = Profile::parse(&mixed).unwrap().network("sieve", 0.5, 0.0).unwrap_err();
    assert!(error.to_string().contains("by_cores"), "{error}");
    let mut conditions = Conditions::new(0.5, 0.0);
    conditions.capacity = 0.0;
    assert!(Profile::parse(MEASURED).unwrap().network_under("sieve", &conditions).is_err());
}

/// Any damage gives a profile or an error.
#[test]
fn no_text_is_too_bad() {
    for (text, cut) in
        [TEXT, MEASURED].iter().flat_map(|text| (0..text.len()).map(move |cut| (text, cut)))
    {
        let _ = Profile::parse(&text[..cut]);
        for byte in ["\"", "]", "{", "-", "9", "\n", "é"] {
            let text = format!("{}{byte}{}", &text[..cut], &text[cut + 1..]);
            if let Ok(profile) = Profile::parse(&text) {
                for name in profile.networks.keys() {
                    let _ = profile.network(name, 0.5, 1.0);
                }
            }
        }
    }
}
