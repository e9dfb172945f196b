//! The page for Prometheus, parsed by a reader that knows only the format's rules.

use std::collections::{BTreeMap, HashSet};
use std::sync::Barrier;
use std::time::Duration;

use frazil::prometheus::Page;
use frazil::{Cache, Freezing, FreezingPhase, Policy};

/// Metric, then label `cache`, then value.
type Samples = BTreeMap<String, BTreeMap<String, f64>>;

/// A valid name of the format's grammar.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A label beside `cache`, if there is one: its name and value.
type Second<'t> = Option<(&'t str, &'t str)>;

/// The value of the label of `{cache="…"}`, unescaped, name and value of a second label if there
/// is one, and what follows the brace.
fn label(text: &str) -> Option<(String, Second<'_>, &str)> {
    let rest = text.strip_prefix("{cache=\"")?;
    let mut value = String::new();
    let mut characters = rest.char_indices();
    loop {
        match characters.next()? {
            (_, '\\') => value.push(match characters.next()?.1 {
                '\\' => '\\',
                '"' => '"',
                'n' => '\n',
                _ => return None,
            }),
            (at, '"') => {
                let rest = &rest[at + 1..];
                return match rest.strip_prefix(',') {
                    None => Some((value, None, rest.strip_prefix('}')?)),
                    Some(rest) => {
                        let (second, rest) = rest.split_once("\"}")?;
                        Some((value, Some(second.split_once("=\"")?), rest))
                    }
                };
            }
            (_, '\n') => return None,
            (_, other) => value.push(other),
        }
    }
}

/// Reads a page: every metric is described once, before its samples, which follow at once;
/// no sample is there twice; counters are named as such.
fn read(page: &str) -> Samples {
    let mut samples = Samples::new();
    let mut described = HashSet::new();
    let (mut helped, mut typed, mut is_histogram) = ("", "", false);
    assert!(page.is_empty() || page.ends_with('\n'));
    // Not `lines`, which would hide a carriage return.
    for line in page.split_terminator('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect(line);
            assert!(is_name(name) && !text.is_empty() && !text.contains('\\'), "{line}");
            assert!(described.insert(name), "described twice: {line}");
            helped = name;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect(line);
            assert_eq!(name, helped, "a type without its help");
            assert_ne!(name, typed, "its type is told twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            (typed, is_histogram) = (name, kind == "histogram");
        } else {
            let name = &line[..line.find('{').expect(line)];
            let suffix = name.strip_prefix(typed).expect("not below its own description");
            assert_eq!(!suffix.is_empty(), is_histogram, "{line}");
            assert!(["", "_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            let (cache, second, rest) = label(&line[name.len()..]).expect(line);
            let of_phase = name.starts_with("frazil_freezing_phase");
            let wanted = (suffix == "_bucket").then_some("le").or(of_phase.then_some("phase"));
            assert_eq!(second.map(|(label, _)| label), wanted, "{line}");
            let value = rest.strip_prefix(' ').expect(line).parse().expect(line);
            let name = name.to_owned() + second.map_or("", |(_, of)| of);
            let twice = samples.entry(name).or_default().insert(cache, value);
            assert_eq!(twice, None, "there twice: {line}");
        }
    }
    let has_sample = |name: &&str| samples.range(name.to_string()..).next().is_some();
    assert!(described.iter().all(has_sample), "described, but without a sample");
    samples
}

/// The bounds and counts of a histogram's buckets, in the order of the bounds.
fn buckets(samples: &Samples, name: &str) -> Vec<(f64, f64)> {
    let of_bound = samples.iter().filter_map(|(metric, caches)| {
        let bound = metric.strip_prefix(name)?.strip_prefix("_bucket")?;
        Some((bound.parse().expect(metric), caches["c"]))
    });
    let mut buckets: Vec<(f64, f64)> = of_bound.collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    buckets
}

/// Gets, and insertions after misses, of more keys than fit.
fn used(capacity: u64) -> Cache<u64, u64> {
    let cache = Cache::builder(capacity).policy(Policy::Fifo).weigher(|_, _| 3).build();
    for key in (0..10).chain([9, 9, 9]) {
        if cache.get(&key).is_none() {
            cache.insert(key, key);
        }
    }
    cache.insert(9, 0);
    cache.remove(&9);
    cache.insert_for(9, 9, Duration::ZERO);
    cache.purge();
    cache
}

#[test]
fn every_count_is_there_under_its_name() {
    let cache = used(15);
    let samples = read(&Page::new().with("c", &cache).to_string());
    let value = |name: &str| samples[&format!("frazil_{name}")]["c"] as u64;
    assert_eq!((value("requests_total"), value("hits_total")), (13, 3));
    assert_eq!((value("insertions_total"), value("replacements_total")), (11, 1));
    assert_eq!((value("evictions_total"), value("removals_total")), (5, 1));
    assert_eq!(value("expirations_total"), 1);
    assert_eq!((value("entries"), value("weight"), value("capacity")), (4, 12, 15));
    assert_eq!(value("reserved_bytes"), cache.reserved_bytes() as u64);
    // As many metrics as there are counts (in the debug form), four gauges, seven of fetches, and
    // three histograms.
    let counts = format!("{:?}", cache.stats()).matches(": ").count();
    let is_plain = |name: &&String| !name.contains("_bucket") && !name.ends_with("_sum");
    assert_eq!(samples.keys().filter(is_plain).count(), counts + 4 + 7 + 3);
}

#[test]
fn histograms_rise_to_their_count() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    for key in 0..20 {
        cache.get_or_insert_with(&key, || {
            std::thread::sleep(Duration::from_millis(key % 3));
            key
        });
    }
    let samples = read(&Page::new().with("c", &cache).to_string());
    let latency = buckets(&samples, "frazil_fetch_seconds");
    assert!(latency.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1));
    assert_eq!(latency.last(), Some(&(f64::INFINITY, 20.0)));
    assert_eq!(samples["frazil_fetch_seconds_count"]["c"], 20.0);
    let seconds = samples["frazil_load_seconds_total"]["c"];
    assert_eq!(samples["frazil_fetch_seconds_sum"]["c"], seconds);
    // Those of key % 3 == 0 do not sleep.
    let below = latency.iter().rfind(|(bound, _)| *bound < 0.001).unwrap().1;
    assert!((1.0..=7.0).contains(&below), "{latency:?}");
    let waiters = buckets(&samples, "frazil_fetch_waiters");
    assert_eq!(waiters[0], (0.0, 20.0));
    assert_eq!(samples["frazil_delay_seconds_count"]["c"], 0.0);
}

#[test]
fn refusals_and_what_waits_are_told() {
    let cache: Cache<u64, String> =
        Cache::builder(100).weigher(|_, text: &String| text.len() as u64).build();
    cache.insert(1, "x".repeat(101));
    (0..64).for_each(|key| cache.insert(key, "x".to_owned()));
    // Entries that it shows wait for it.
    let pin = cache.pin();
    assert!(pin.get(&1).is_some());
    (0..64).for_each(|key| _ = cache.invalidate(&key));
    let samples = read(&Page::new().with("c", &cache).to_string());
    assert_eq!(samples["frazil_refusals_total"]["c"], 1.0);
    assert_eq!(samples["frazil_waiting"]["c"], cache.stats().waiting as f64);
    assert!(cache.stats().waiting > 0);
    drop(pin);
}

#[test]
fn loads_are_told_and_their_time_is_in_seconds() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    cache.get_or_insert_with(&1, || {
        std::thread::sleep(Duration::from_millis(2));
        1
    });
    assert_eq!(cache.try_get_or_insert_with(&2, || Err("none")), Err("none"));
    let samples = read(&Page::new().with("c", &cache).to_string());
    assert_eq!(samples["frazil_loads_total"]["c"], 1.0);
    assert_eq!(samples["frazil_load_failures_total"]["c"], 1.0);
    let seconds = samples["frazil_load_seconds_total"]["c"];
    assert_eq!(seconds, cache.stats().load_nanoseconds as f64 / 1e9);
    assert!(seconds >= 0.002);
}

/// A counter that goes down, even by one and for a moment, is taken for a restarted one.
#[test]
fn counters_do_not_go_down_while_requests_wait_for_a_load() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let page = || read(&Page::new().with("c", &cache).to_string());
    let (began, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cache.get_or_insert_with(&1, || {
                began.wait();
                done.wait();
                1
            })
        });
        began.wait();
        let waiters: Vec<_> =
            (0..4).map(|_| scope.spawn(|| cache.get_or_insert_with(&1, || 2))).collect();
        while cache.stats().misses < 5 {
            std::thread::yield_now();
        }
        let before = page();
        done.wait();
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), 1));
        let after = page();
        // Callers that found it stored when they began to wait count as hits.
        assert!(cache.stats().misses < 5);
        for (name, caches) in before.iter().filter(|(name, _)| name.ends_with("_total")) {
            assert!(caches["c"] <= after[name]["c"], "{name}");
        }
        assert_eq!(after["frazil_requests_total"]["c"], 5.0);
    });
}

#[test]
fn several_caches_share_the_descriptions() {
    let (few, many) = (used(6), used(30));
    let names = ["few", "many", "empty"];
    let empty: Cache<String, ()> = Cache::builder(7).build();
    let page = Page::new().with(names[0], &few).with(names[1], &many).with(names[2], &empty);
    for (metric, caches) in read(&page.to_string()) {
        assert!(names.iter().all(|name| caches.contains_key(*name)), "{metric}: {caches:?}");
    }
    let samples = read(&page.to_string());
    let capacities: Vec<f64> = names.iter().map(|name| samples["frazil_capacity"][*name]).collect();
    assert_eq!(capacities, [6.0, 30.0, 7.0]);
}

#[test]
fn what_freezing_does_is_shown_of_caches_that_freeze_by_themselves() {
    let seconds = Duration::from_secs;
    let learns: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    learns.step_freezing(seconds(10));
    learns.step_freezing(seconds(13));
    let by_hand: Cache<u64, u64> = Cache::builder(9).freezing(Freezing::ByHand).build();
    let page = Page::new().with("by hand", &by_hand).with("learns", &learns).to_string();
    let samples = read(&page);
    let of_phase =
        |name: &str, phase| samples[&format!("frazil_freezing_phase{name}{phase}")].clone();
    for phase in ["waiting", "learning", "trying", "constructing", "frozen", "sleeping"] {
        let is_waiting = phase == "waiting";
        let only = |value: f64| [("learns".to_owned(), value)].into();
        assert_eq!(of_phase("", phase), only(f64::from(is_waiting)));
        assert_eq!(of_phase("_seconds_total", phase), only(if is_waiting { 3.0 } else { 0.0 }));
    }
    assert_eq!(learns.freezing_state().unwrap().phase, FreezingPhase::Waiting);
    for name in ["frozen_share", "freezing_failures_total", "freezing_latency_seconds"] {
        assert_eq!(samples[&format!("frazil_{name}")]["learns"], 0.0);
    }
    let page = Page::new().with("by hand", &by_hand).to_string();
    assert!(page.contains("frazil_frozen_hits_total") && !page.contains("freezing"));
}

#[test]
fn of_two_caches_with_one_name_the_latter_is_shown() {
    let page = Page::new().with("c", &used(6)).with("d", &used(9)).with("c", &used(30));
    let samples = read(&page.to_string());
    assert_eq!(samples["frazil_capacity"]["c"], 30.0);
    assert_eq!(samples["frazil_capacity"]["d"], 9.0);
}

#[test]
fn any_text_is_a_name() {
    let cache = used(6);
    let names =
        ["", " ", "\"", "\\", "\n", "\\n", "\\\"} 1\n", "a,b=\"c\"", "Eis\u{2744}", "\r", "{}\t\0"];
    let page = names.iter().fold(Page::new(), |page, name| page.with(name, &cache));
    let samples = read(&page.to_string());
    let shown: HashSet<&str> = samples["frazil_hits_total"].keys().map(String::as_str).collect();
    assert_eq!(shown, HashSet::from(names));
}

#[test]
fn a_page_without_caches_is_empty() {
    assert!(read(&Page::new().to_string()).is_empty());
}
