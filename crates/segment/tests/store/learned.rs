//! `gl-cache`: the gain by its learner, its thread, and the thread's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil_segment::{Attributes, Builder, Eviction, Store};
use frazil_simulator::trace::{ReadOptions, load};

fn builder(eviction: Eviction) -> Builder {
    Store::builder(2 << 20).segment_bytes(16 << 10).eviction(eviction).seed(7)
}

/// Writes keys in waves of 200, and requests those of every other wave up to twenty waves later.
/// Returns the hits.
fn waves(store: &Store, now_ms: &AtomicU64) -> u64 {
    let mut hits = 0;
    for wave in 0..200u64 {
        for number in 0..200 {
            let key = ((wave << 16) | number).to_le_bytes();
            store.set(&key, &[1; 400], Attributes::default()).unwrap();
            now_ms.fetch_add(10, Relaxed);
            let asked = (wave.saturating_sub(number % 20) & !1) << 16 | (number * 7 % 200);
            hits += u64::from(store.get_with(&asked.to_le_bytes(), |_| ()).is_some());
        }
    }
    hits
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn what_is_learned_is_told() {
    let now_ms = Arc::new(AtomicU64::new(0));
    let store = builder(Eviction::GlCache).clock(Arc::clone(&now_ms)).learn_in_place(true);
    let store = store.build().unwrap();
    assert_eq!(store.learner_stats().unwrap().model_age, None);
    waves(&store, &now_ms);
    store.validate().unwrap();
    let stats = store.learner_stats().unwrap();
    assert!(stats.trainings > 1 && stats.snapshots > stats.trainings, "{stats:?}");
    assert!(stats.rankings >= stats.trainings && stats.samples >= 32, "{stats:?}");
    assert!(stats.model_age.is_some_and(|age| age < Duration::from_secs(100)), "{stats:?}");
    assert!(stats.error > 0.0 && stats.error < 0.5, "{stats:?}");
    assert!((stats.importance.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{stats:?}");
    assert!(stats.sampled_share > 0.0 && stats.sampled_share <= 1.0, "{stats:?}");
    assert!(stats.chosen_segments > 0 && stats.chosen_items > 0, "{stats:?}");
    let evicted = store.stats().evicted_items;
    assert!(stats.chosen_items < evicted && stats.chosen_misses < evicted, "{stats:?}");
    let learned: Vec<_> = store.segments().map(|segment| segment.learned.unwrap()).collect();
    assert!(learned.iter().any(|segment| segment.utility.is_some()));
    assert!(learned.iter().any(|segment| segment.requests > 0 && segment.active_items > 0));
    // No other eviction has a learner.
    let other = builder(Eviction::FifoMerge).build().unwrap();
    assert!(other.learner_stats().is_none() && other.segments().all(|it| it.learned.is_none()));
}

/// The hit ratio of a trace in which keys written at the same time are of the same kind.
fn hit_ratio(spec: &str, eviction: Eviction) -> f64 {
    let options = ReadOptions { times: true, ..ReadOptions::default() };
    let trace = load(spec, &options).unwrap().trace;
    let now_ms = Arc::new(AtomicU64::new(0));
    let store =
        Store::builder((8 << 20) + (128 << 10)).segment_bytes(128 << 10).eviction(eviction).seed(7);
    let store = store.clock(Arc::clone(&now_ms)).learn_in_place(true).build().unwrap();
    let value = vec![0; 128 << 10];
    let mut hits = 0;
    for at in 0..trace.len() {
        now_ms.store(trace.times_ns[at] / 1_000_000, Relaxed);
        let key = trace.objects[trace.ids[at] as usize].to_le_bytes();
        if store.get_with(&key, |_| ()).is_some() {
            hits += 1;
        } else {
            let size = trace.sizes.get(at).unwrap() as usize;
            store.set(&key, &value[..size], Attributes::default()).unwrap();
        }
    }
    store.validate().unwrap();
    f64::from(hits) / trace.len() as f64
}

/// A backup that reads each night keys that no other client requests.
#[test]
#[cfg_attr(miri, ignore = "a trace of a hundred thousand requests")]
fn a_model_hits_more_than_merging_in_turn() {
    let spec = "diurnal:objects=4000:requests=100000:seed=11";
    let [merged, learned] =
        [Eviction::FifoMerge, Eviction::GlCache].map(|eviction| hit_ratio(spec, eviction));
    assert!(learned > merged + 0.02, "{learned} learned, {merged} merged in turn");
}

/// Two runs in place are identical.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of writes")]
fn learning_in_place_is_the_same_each_time() {
    let run = || {
        let now_ms = Arc::new(AtomicU64::new(0));
        let store = builder(Eviction::GlCache).clock(Arc::clone(&now_ms)).learn_in_place(true);
        let store = store.build().unwrap();
        (waves(&store, &now_ms), store.stats().evicted_items)
    };
    assert_eq!(run(), run());
}

#[test]
#[cfg_attr(miri, ignore = "waits for a thread, which there is none of")]
fn a_thread_learns_and_ends_with_its_store() {
    let store = builder(Eviction::GlCache).build().unwrap();
    let begun = Instant::now();
    let now_ms = AtomicU64::new(0);
    while store.learner_stats().unwrap().chosen_segments == 0 {
        waves(&store, &now_ms);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.learner_stats());
    }
    store.validate().unwrap();
    drop(store);
    // A thread without work also ends.
    drop(builder(Eviction::GlCache).build().unwrap());
}

/// A forked process has the store but not the thread: it evicts and waits for no thread.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_forked_process_goes_on_without_the_thread() {
    let store = builder(Eviction::GlCache).build().unwrap();
    waves(&store, &AtomicU64::new(0));
    // SAFETY: the child calls nothing but the store, the allocator, which is sound after a fork,
    // and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        waves(&store, &AtomicU64::new(0));
        drop(store);
        // SAFETY: it ends this process, without the exit handlers.
        unsafe { libc::_exit(0) };
    }
    crate::expect_end_of(child);
}

#[test]
#[cfg(all(feature = "prometheus", not(miri)))]
fn a_page_tells_of_the_learner_and_of_segments() {
    use frazil_segment::prometheus::Page;

    let now_ms = Arc::new(AtomicU64::new(0));
    let store = builder(Eviction::GlCache).clock(Arc::clone(&now_ms)).learn_in_place(true);
    let store = store.build().unwrap();
    let other = builder(Eviction::Fifo).build().unwrap();
    let page = Page::new().with("other", &other).to_string();
    assert!(!page.contains("learner") && !page.contains("quantile"), "{page}");
    waves(&store, &now_ms);
    let page = Page::new().with("other", &other).with("waves", &store).to_string();
    let value = |sample: &str| {
        let line = page.lines().find(|line| line.starts_with(sample));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let stats = store.learner_stats().unwrap();
    let trainings = value("frazil_segment_learner_trainings_total{store=\"waves\"}");
    assert_eq!(trainings, Some(stats.trainings as f64));
    let age = value("frazil_segment_learner_importance{store=\"waves\",feature=\"age\"}");
    assert_eq!(age, Some(stats.importance[4]));
    let most = value("frazil_segment_requests{store=\"waves\",quantile=\"1\"}");
    let requests = store.segments().filter_map(|it| it.learned).map(|it| it.requests).max();
    assert_eq!(most, requests.map(|most| most as f64));
    assert!(value("frazil_segment_learner_trainings_total{store=\"other\"}").is_none());
    // Each metric is described once, above its samples.
    let described: Vec<_> = page.lines().filter(|line| line.starts_with("# HELP")).collect();
    let mut distinct = described.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(described.len(), distinct.len());
}
