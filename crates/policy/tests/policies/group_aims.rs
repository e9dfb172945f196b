//! GL-Cache where fetches take time: the weight of utility, and the foresight of an oracle.

use frazil_policy::{
    DelayCosts, EqualCosts, FetchCosts, GlCache, GroupLearning, MissCosts, NEVER, Policy, Rng,
    Sight, TraceKnowledge,
};

use crate::cache::Cache;

fn cache<C: MissCosts>(settings: GroupLearning, capacity: u64) -> Cache<GlCache<C>> {
    Cache::new(GlCache::<C>::new(settings, TraceKnowledge::default()), capacity)
}

/// Objects in turn popular, in a loop, or requested once.
fn ids(count: usize) -> Vec<u64> {
    let mut rng = Rng::new(4);
    let id = |number: usize| match rng.below(4) {
        0 | 1 => rng.below(60),
        2 => 1_000 + number as u64 % 300,
        _ => 10_000 + number as u64,
    };
    (0..count).map(id).collect()
}

#[test]
fn where_no_fetch_takes_time_all_aims_are_hits() {
    let settings = GroupLearning { segment: 5, ..GroupLearning::default() };
    let (mut hits, mut delay, mut cost) = (
        cache::<EqualCosts>(settings, 200),
        cache::<DelayCosts>(settings, 200),
        cache::<FetchCosts>(settings, 200),
    );
    for (number, id) in ids(30_000).into_iter().enumerate() {
        let hit = hits.request(id, 1 + id % 3);
        let others = [delay.request(id, 1 + id % 3), cost.request(id, 1 + id % 3)];
        assert_eq!(others, [hit; 2], "request {number}");
    }
}

/// The total cost of misses if half of the objects are expensive. The first half of each
/// burst's requests finds the object in flight.
fn misses<C: MissCosts>(burst: impl Fn(u64) -> u64, fetch: impl Fn(u64) -> u64) -> [u64; 2] {
    let mut cache = cache::<C>(GroupLearning { segment: 5, ..GroupLearning::default() }, 150);
    let (mut rng, mut misses) = (Rng::new(8), [0; 2]);
    for _ in 0..40_000 {
        let id = rng.below(300);
        cache.slots.fetch_ticks = Some(fetch(id));
        let hit = (0..burst(id)).map(|_| cache.begin(id, 1)).fold(true, |all, hit| all & hit);
        misses[(id % 2) as usize] += u64::from(!hit);
        cache.commit(id);
    }
    misses
}

#[test]
fn what_many_wait_for_stays() {
    let burst = |id: u64| if id % 2 == 1 { 6 } else { 1 };
    let [single, bursts] = misses::<DelayCosts>(burst, |_| 20);
    assert!(3 * bursts < 2 * single, "{bursts} {single}");
    let [single, bursts] = misses::<EqualCosts>(burst, |_| 20);
    assert!(3 * bursts > 2 * single, "{bursts} {single}");
}

#[test]
fn what_takes_long_to_fetch_stays() {
    let fetch = |id: u64| if id % 2 == 1 { 100 } else { 5 };
    let [cheap, dear] = misses::<FetchCosts>(|_| 1, fetch);
    assert!(2 * dear < cheap, "{dear} {cheap}");
}

/// Each object arrives while another request is already served: the oracle foresees its own next
/// request.
#[test]
fn an_oracle_foresees_what_was_fetched_and_not_what_came_since() {
    // A loop over 30 objects, and between any two an object never requested again.
    let ids: Vec<u64> =
        (0..6_000).map(|n| if n % 2 == 0 { n / 2 % 30 } else { 1_000 + n }).collect();
    let next = |place: usize| if ids[place] < 30 { place as u32 + 60 } else { NEVER };
    let trace = TraceKnowledge {
        next: (0..ids.len()).map(next).collect::<Vec<_>>().into(),
        ..TraceKnowledge::default()
    };
    let settings = GroupLearning {
        segment: 4,
        utility: Sight::Future,
        retention: Sight::Future,
        ..GroupLearning::default()
    };
    fn hits(mut cache: Cache<impl Policy>, ids: &[u64]) -> usize {
        let (mut hits, mut before) = (0, None);
        for &id in ids {
            hits += usize::from(cache.begin(id, 1));
            if let Some(before) = before.replace(id) {
                cache.commit(before);
            }
        }
        hits
    }
    let ours = hits(Cache::new(<GlCache>::new(settings, trace), 45), &ids);
    assert!(ours > 2_900, "{ours}");
}
