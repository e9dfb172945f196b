//! Caches of every policy under mixed operations, for any length of time: `cargo xtask soak`.
//!
//! Short tests begin with fresh caches and fresh threads. This one looks for defects that
//! accumulate: slots, segments, credit or values that are lost once in a million operations, memory
//! that grows, a cache that at last refuses entries. So the same caches exist from beginning to
//! end, while threads start and end, some pins outlast many operations, some iterations pause,
//! listeners panic, and small caches are built and dropped beside the lasting ones. On Linux the
//! process forks repeatedly, and the child uses a cache without its other threads for a while.
//!
//! The run is cut into phases. After each, all threads end and every cache is validated. The soak
//! fails if a value is seen under a wrong key, or after the only thread that writes its key has
//! replaced or removed it; if one is dropped twice, or never; if more of them live than the caches'
//! capacity; if a cache refuses an entry without a pin; if a listener gets more or fewer calls than
//! entries have left; or if the heap grows after the warm-up.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use frazil::{Builder, Cache, Cause, Compute, Fetching, Freezing, Policy, Promotion};

mod counted;
mod fork;
#[path = "../../tests/cache/tracked/mod.rs"]
mod tracked;

use tracked::{Census, Chance, Tracked};

/// A cache, its purpose, and the number of calls of its listener.
struct Soaked {
    cache: Cache<u64, Tracked<'static>>,
    room: u64,
    told: Arc<AtomicU64>,
}

impl std::ops::Deref for Soaked {
    type Target = Cache<u64, Tracked<'static>>;
    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

/// For each policy: one where every operation collides; one with weights and shards, whose entries
/// expire when idle; and one large enough for batches and for keys displaced from their buckets,
/// with a lifetime for each entry. The last two freeze some entries from time to time, and the last
/// learns the share.
const CAPACITIES: [(u64, bool); 3] = [(7, false), (700, true), (30_000, false)];
const IDLE: Duration = Duration::from_secs(3);
const LIVE: Duration = Duration::from_secs(8);
/// Time that an abandoned fetch stays with its key.
const LINGER: Duration = Duration::from_millis(50);
/// Capacity of the caches that threads build for themselves.
const OF_A_THREAD: u64 = 20;

/// The run has this many phases, or fewer if they would be too short.
const PHASES: u32 = 30;
const SHORTEST: Duration = Duration::from_secs(2);

/// Times that every cache is filled before and after the operations, so that queues used
/// alternately have all been used.
const ROTATIONS: u64 = 5;
/// Phases before memory is compared.
const WARM_UP: usize = 3;
/// Allowed growth of the heap after that: vectors and maps reach a new longest length, ever more
/// rarely (5 % from the fourth phase to the thirtieth, in 30 seconds or 80). A leak of 256 bytes in
/// a thousand operations exceeds it within a minute.
const GROWTH_PERCENT: u64 = 8;

/// Spells of operations on one cache that a thread lives for, at most.
const LIFE: u64 = 5_000;
const SPELL: u64 = 40;
/// Spells from one change of a capacity to the next.
const RARELY: u64 = 200;
/// Keys of each cache that only the threads of one line write.
const OWN: usize = 16;
/// Time for which a pin or an iteration stands still, if it does.
const STILL: Duration = Duration::from_millis(20);
/// One call of a listener in this many panics.
const PANICS: u64 = 10_007;
/// From one fork to the next.
const BETWEEN_FORKS: Duration = Duration::from_millis(500);

/// Number of caches that are recorded: each thread keeps 384 kB for each recorded cache that it has
/// used, and the heap stops growing sooner with few.
const RECORDED: usize = 6;

/// The payload of a listener's panic.
struct Planned;

/// Runs an operation that may call a listener.
fn bear(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work))
        && !panic.is::<Planned>()
    {
        resume_unwind(panic);
    }
}

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok());
    let Some(seconds) = seconds else {
        eprintln!("usage: soak SECONDS");
        return ExitCode::from(2);
    };
    match soak(Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(finding) => {
            eprintln!("soak: FAILED: {finding}");
            ExitCode::FAILURE
        }
    }
}

fn soak(duration: Duration) -> Result<(), String> {
    // Fetches that outlive their callers hold nothing that is borrowed.
    let census: &Census = Box::leak(Box::default());
    let mut caches: Vec<Soaked> = Policy::ALL.into_iter().flat_map(build).collect();
    let lines = std::thread::available_parallelism().map_or(4, |cores| 2 * cores.get() + 1);
    let mut lines: Vec<_> = (0..lines as u64).map(|number| Line::new(number, &caches)).collect();
    let (operations, threads) = Default::default();
    let totals = Totals { started: Instant::now(), operations, threads };
    admits_all(&caches, census)?;
    let mut doubled = fork::Doubled::new();
    lay_out(&caches, census, lines.len())?;
    let started = Instant::now();
    let mut memory = Vec::with_capacity(PHASES as usize);
    for phase in 1..=PHASES {
        let end = (duration / PHASES).max(SHORTEST) * phase;
        let end_of_phase = started + end.min(duration);
        run_phase(&caches, &doubled, census, &mut lines, &totals, end_of_phase)?;
        doubled.validate()?;
        for soaked in &mut caches {
            let policy = soaked.policy();
            soaked.cache.validate().map_err(|findings| format!("{policy}:\n{findings}"))?;
            has_told(soaked)?;
        }
        memory.push(counted::bytes());
        report(&caches, &totals, started.elapsed());
        if end >= duration {
            break;
        }
    }
    admits_all(&caches, census)?;
    drop(caches);
    let living = census.living() + doubled.end();
    if living != 0 {
        return Err(format!("{living} values lost, or dropped twice"));
    }
    is_flat(&memory)?;
    println!("nothing lost, nothing twice, every value dropped once");
    Ok(())
}

fn build(policy: Policy) -> [Soaked; CAPACITIES.len()] {
    let takes_lock =
        !matches!(policy, Policy::Fifo | Policy::Clock { .. } | Policy::Mobius | Policy::S3Fifo);
    let freezing = |builder: Builder<u64, Tracked<'static>>, when| match takes_lock {
        true if !policy.can_freeze() => builder,
        _ => builder.freezing(when),
    };
    CAPACITIES.map(|(room, weighted)| {
        let told = Arc::new(AtomicU64::new(0));
        let heard = Arc::clone(&told);
        let builder =
            Cache::builder(room).policy(policy).listener(move |key, value: &Tracked<'_>, cause| {
                value.check(*key);
                let told = heard.fetch_add((cause != Cause::Refused).into(), Relaxed);
                if told % PANICS == PANICS - 1 && cause != Cause::Refused {
                    // Without a word on the terminal.
                    resume_unwind(Box::new(Planned));
                }
            });
        let builder = builder.fetching(Fetching { linger: LINGER, ..Fetching::default() });
        let cache = if weighted {
            let weight = |key: &u64, value: &Tracked<'_>| key % 5 + value.serial % 3;
            let builder = builder.weigher(weight).time_to_idle(IDLE);
            let builder = if takes_lock { builder.shards(4) } else { builder };
            freezing(builder, Freezing::ByHand).build()
        } else if room > 1_000 {
            let lifetime = |key: &u64, _: &Tracked<'_>| key.is_multiple_of(3).then_some(LIVE / 2);
            let builder = builder.time_to_live(LIVE).expire_after(lifetime);
            let builder = builder.refresh_ahead(LIVE / 4);
            let promotes = takes_lock && policy != Policy::Sieve;
            let builder = if promotes { builder.promotion(Promotion::Adaptive) } else { builder };
            freezing(builder, Freezing::Learned).build()
        } else {
            builder.build()
        };
        Soaked { cache, room, told }
    })
}

/// Makes the caches allocate all memory that they allocate once, some of it at rare events: the
/// memory of a freeze, the logs of recorded threads, and slots for all entries that readers may
/// hold up; the last of these are used when pins have returned as many entries. Without this some
/// caches would allocate it after minutes, others after hours.
fn lay_out(caches: &[Soaked], census: &'static Census, threads: usize) -> Result<(), String> {
    for cache in caches {
        bear(|| _ = cache.freeze(1.0));
        bear(|| cache.thaw());
        let pin = cache.pin();
        // Each takes an additional slot; there are a quarter as many, and 16,384.
        for key in 0..cache.room / 8 + 4_000 {
            bear(|| cache.insert(key, Tracked::new(census, key)));
            bear(|| _ = pin.peek(&key));
        }
        drop(pin);
        cache.flush();
    }
    for cache in &caches[..RECORDED] {
        // All at once, so that each has its own number.
        let together = Barrier::new(threads);
        let ask = || {
            together.wait();
            (0..100).for_each(|key| _ = cache.get(&key));
            together.wait();
        };
        record(cache, || {
            std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(ask)));
        })?;
    }
    Ok(())
}

/// Every inserted entry is present, or its listener was called. No operation runs.
fn has_told(soaked: &Soaked) -> Result<(), String> {
    let (stats, told) = (soaked.stats(), soaked.told.load(Relaxed));
    let gone = (stats.insertions + stats.replacements).wrapping_sub(soaked.len() as u64);
    if gone != told {
        return Err(format!("{}: {gone} entries have gone, {told} were told", soaked.policy()));
    }
    Ok(())
}

struct Totals {
    started: Instant,
    operations: AtomicU64,
    threads: AtomicU64,
}

/// Threads that live one after the other.
struct Line {
    number: u64,
    chance: Chance,
    /// For each cache: the serials of the values that it last put under its own keys.
    own: Vec<[Option<u64>; OWN]>,
}

impl Line {
    fn new(number: u64, caches: &[Soaked]) -> Self {
        Line { number, chance: Chance(number << 32), own: vec![[None; OWN]; caches.len()] }
    }

    /// A key that no other thread writes.
    fn own_key(&self, own: usize) -> u64 {
        (1 << 32) + ((self.number * OWN as u64) + own as u64)
    }
}

fn run_phase(
    caches: &[Soaked],
    doubled: &fork::Doubled,
    census: &'static Census,
    lines: &mut [Line],
    totals: &Totals,
    end: Instant,
) -> Result<(), String> {
    // The capacity of each cache, and the values in the hands of threads or in their own caches.
    let room = |capacity: u64| (capacity + capacity / 32 + 128) as i64;
    let lasting: i64 = caches.iter().map(|soaked| room(soaked.room)).sum();
    // A value that is loaded or computed is there twice for a moment.
    let most = lasting + lines.len() as i64 * (room(OF_A_THREAD) + 20);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for line in lines {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    // A thread's panic continues to `scope`.
                    std::thread::scope(|life| {
                        life.spawn(|| live(caches, doubled, census, line, totals, over));
                    });
                }
            });
        }
        let (mut living, mut kept, mut looks, mut forked) = (0, Ok(()), 0, Instant::now());
        while Instant::now() < end && living <= most && kept.is_ok() {
            std::thread::sleep(Duration::from_millis(5));
            living = census.living();
            looks += 1;
            if forked.elapsed() > BETWEEN_FORKS {
                kept = doubled.fork();
                forked = Instant::now();
            }
            let kept = &mut kept;
            if kept.is_err() {
                break;
            }
            if looks % 50 == 0 {
                let soaked = &caches[looks / 50 % caches.len()];
                let recorded = &caches[looks / 50 % RECORDED];
                *kept = keep_in_file(soaked, census)
                    .and_then(|()| record(recorded, || std::thread::sleep(STILL)));
            }
        }
        over.store(true, Relaxed);
        kept?;
        if living > most {
            return Err(format!("{living} values live, at most {most} should"));
        }
        Ok(())
    })
}

/// One thread, from its first operation to its last.
fn live(
    caches: &[Soaked],
    doubled: &fork::Doubled,
    census: &'static Census,
    line: &mut Line,
    totals: &Totals,
    over: &AtomicBool,
) {
    totals.threads.fetch_add(1, Relaxed);
    let mut kept = None;
    let of_its_own = build_small(line);
    for _ in 0..line.chance.below(LIFE) {
        if over.load(Relaxed) {
            break;
        }
        let at = line.chance.below(caches.len() as u64) as usize;
        for _ in 0..SPELL {
            bear(|| operate(&caches[at], census, &mut line.chance));
        }
        doubled.operate(&mut line.chance);
        match line.chance.below(RARELY) {
            0 => bear(|| resize(&caches[at], &mut line.chance)),
            1 => stand_still(&caches[at], &mut line.chance),
            _ => {}
        }
        match line.chance.below(RARELY) {
            0 => bear(|| _ = caches[at].freeze(line.chance.below(11) as f64 / 10.0)),
            1 => bear(|| caches[at].thaw()),
            2..20 => bear(|| _ = caches[at].step_freezing(totals.started.elapsed())),
            _ => {}
        }
        bear(|| operate_on_own(&caches[at], at, census, line));
        operate(&of_its_own, census, &mut line.chance);
        if line.chance.below(8) == 0 {
            kept = (line.chance.below(2) == 0).then(|| caches[at].pin());
        }
        let key = line.chance.below(40_000);
        if let Some((shown, value)) = kept.as_ref().and_then(|pin| pin.peek(&key)) {
            value.check(*shown);
        }
        totals.operations.fetch_add(SPELL + 3, Relaxed);
    }
}

/// In the middle of an iteration, or with a pin that has shown few or many.
fn stand_still(cache: &Cache<u64, Tracked<'_>>, chance: &mut Chance) {
    match chance.below(3) {
        0 => {
            let mut entries = cache.iter();
            entries.by_ref().take(20).for_each(|(key, value)| value.check(key));
            std::thread::sleep(STILL);
            entries.take(200).for_each(|(key, value)| value.check(key));
        }
        1 => {
            let mut left = 20i64;
            cache.for_each(|key, value| {
                if left == 0 {
                    std::thread::sleep(STILL);
                }
                left -= 1;
                value.check(*key);
            });
        }
        _ => {
            let pin = cache.pin();
            let keys = (0..chance.below(40)).map(|_| chance.below(1_000));
            let shown: Vec<_> = keys.filter_map(|key| pin.peek(&key)).collect();
            std::thread::sleep(STILL);
            shown.into_iter().for_each(|(key, value)| value.check(*key));
        }
    }
}

/// Up or down; most of the time the cache is as large as it can be.
fn resize(soaked: &Soaked, chance: &mut Chance) {
    let room = soaked.room;
    let wanted = if chance.below(3) == 0 { chance.below(room + 1) } else { room };
    assert!(soaked.set_capacity(wanted) <= room, "{}", soaked.policy());
}

fn build_small(line: &mut Line) -> Cache<u64, Tracked<'static>> {
    let policy = Policy::ALL[line.chance.below(Policy::ALL.len() as u64) as usize];
    Cache::builder(OF_A_THREAD).policy(policy).build()
}

fn operate(cache: &Cache<u64, Tracked<'static>>, census: &'static Census, chance: &mut Chance) {
    // Small keys are requested more often.
    let keys = chance.below((cache.capacity() * 2).max(2)) + 1;
    let key = chance.below(keys);
    let insert = |key| cache.insert(key, Tracked::new(census, key));
    match chance.below(120) {
        0..50 => match cache.get(&key) {
            Some(value) => value.check(key),
            None => insert(key),
        },
        50..65 => insert(key),
        65..72 => cache.remove(&key).into_iter().for_each(|value| value.check(key)),
        72..76 => _ = cache.invalidate(&key),
        76..80 => cache.peek(&key).into_iter().for_each(|value| value.check(key)),
        80..96 => {
            let pin = cache.pin();
            for key in key..key + 3 {
                if let Some(value) = pin.get(&key) {
                    if chance.below(2) == 0 {
                        insert(key);
                    }
                    value.check(key);
                }
            }
        }
        96 if chance.below(cache.capacity().max(1)) < 100 => {
            cache.iter().take(200).for_each(|(key, value)| value.check(key));
        }
        97 if chance.below(1_000) == 0 => match chance.below(2) {
            0 => cache.clear(),
            _ => cache.invalidate_all(),
        },
        98 if chance.below(cache.capacity().max(1)) < 100 => {
            cache.retain(|key, value| {
                value.check(*key);
                value.serial % 7 != 0
            });
        }
        99 => {
            let keys: Vec<u64> = (key..key + 20).collect();
            for (key, value) in keys.iter().zip(cache.get_many(&keys)) {
                value.into_iter().for_each(|value| value.check(*key));
            }
        }
        100..104 => {
            let lifetime = Duration::from_micros(chance.below(3_000));
            cache.insert_for(key, Tracked::new(census, key), lifetime);
        }
        104..108 => cache.get_or_insert_with(&key, || Tracked::new(census, key)).check(key),
        108..110 => {
            let load =
                || if chance.below(2) == 0 { Err(()) } else { Ok(Tracked::new(census, key)) };
            cache.try_get_or_insert_with(&key, load).into_iter().for_each(|it| it.check(key));
        }
        110..114 => {
            let decision = chance.below(4);
            cache.entry(key).and_compute(|value| {
                value.into_iter().for_each(|value| value.check(key));
                match decision {
                    0 => Compute::Remove,
                    1 => Compute::Keep,
                    _ => Compute::Put(Tracked::new(census, key)),
                }
            });
        }
        114 if cache.capacity() < 1_000 => _ = (cache.hottest(3), cache.coldest(3)),
        116 => cache.insert_many((key..key + 20).map(|key| (key, Tracked::new(census, key)))),
        117..119 => poll_once(cache, census, key, chance),
        115 if chance.below(20) == 0 => _ = cache.purge(),
        _ => _ = cache.contains_key(&key),
    }
}

/// A task that loads, fetches, computes or waits, and is dropped half way or if it does not finish
/// at once.
fn poll_once(
    cache: &Cache<u64, Tracked<'static>>,
    census: &'static Census,
    key: u64,
    chance: &mut Chance,
) {
    let mut ready = chance.below(2) == 0;
    let origin = std::future::poll_fn(move |_| {
        let outcome = if ready { Poll::Ready(Tracked::new(census, key)) } else { Poll::Pending };
        ready = true;
        outcome
    });
    let polls = chance.below(3);
    let found = match chance.below(3) {
        0 => polled(polls, cache.get_or_insert_async(&key, origin)),
        1 => {
            let fetch = async { Ok::<_, ()>(origin.await) };
            polled(polls, cache.entry(key).or_fetch_detached(fetch)).and_then(Result::ok)
        }
        _ => {
            let mut origin = Some(origin);
            let compute = |value: Option<Tracked<'_>>| {
                value.into_iter().for_each(|value| value.check(key));
                let origin = origin.take();
                async {
                    match origin {
                        Some(origin) => Compute::Put(origin.await),
                        None => Compute::Keep,
                    }
                }
            };
            polled(polls, cache.entry(key).and_compute_async(compute));
            None
        }
    };
    found.into_iter().for_each(|value| value.check(key));
}

/// A future that is ready after `polls` polls.
fn polled<T>(polls: u64, task: impl Future<Output = T>) -> Option<T> {
    let mut task = pin!(task);
    for _ in 0..polls {
        if let Poll::Ready(found) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(found);
        }
    }
    None
}

/// Records the requests of threads meanwhile.
fn record(cache: &Cache<u64, Tracked<'_>>, meanwhile: impl FnOnce()) -> Result<(), String> {
    let path = std::env::temp_dir().join(format!("frazil-soak-{}.frazil", std::process::id()));
    let recording = cache.record(&path, 0.5).map_err(|error| error.to_string())?;
    meanwhile();
    let recorded = recording.finish().map_err(|error| error.to_string());
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    recorded.map(drop)
}

/// A snapshot holds values under their own keys, each once, whatever other threads do meanwhile.
fn keep_in_file(cache: &Cache<u64, Tracked<'_>>, census: &Census) -> Result<(), String> {
    let path = std::env::temp_dir().join(format!("frazil-soak-{}", std::process::id()));
    let encode = |key: &u64, value: &Tracked<'_>, bytes: &mut Vec<u8>| {
        value.check(*key);
        bytes.extend(key.to_le_bytes());
    };
    let saved = cache.snapshot(&path, encode).map_err(|error| error.to_string())?;
    let warm: Cache<u64, Tracked<'_>> = Cache::builder(2 * saved + 10).build();
    let restored = warm.restore(&path, |bytes| {
        let key = u64::from_le_bytes(bytes.try_into().ok()?);
        Some((key, Tracked::new(census, key)))
    });
    std::fs::remove_file(&path).map_err(|error| error.to_string())?;
    let restored = restored.map_err(|error| error.to_string())?;
    // Lifetimes here are short: some entries have expired.
    if restored > saved || warm.len() as u64 > restored {
        return Err(format!("{}: {restored} restored of {saved}", cache.policy()));
    }
    Ok(())
}

/// On a key that no other thread writes: the value found is the last one put there, or none.
fn operate_on_own(cache: &Soaked, at: usize, census: &'static Census, line: &mut Line) {
    let own = line.chance.below(OWN as u64) as usize;
    let key = line.own_key(own);
    let last = &mut line.own[at][own];
    let check = |found: Option<Tracked<'_>>, last: Option<u64>| {
        let Some(value) = found else { return };
        value.check(key);
        assert_eq!(Some(value.serial), last, "{}: out of date", cache.policy());
    };
    match line.chance.below(4) {
        0 => {
            check(cache.remove(&key), *last);
            *last = None;
        }
        1 => check(cache.get(&key), *last),
        _ => {
            let value = Tracked::new(census, key);
            *last = Some(value.serial);
            cache.insert(key, value);
        }
    }
    check(cache.get(&key), *last);
}

/// Without pins every new entry is admitted.
fn admits_all(caches: &[Soaked], census: &'static Census) -> Result<(), String> {
    for cache in caches {
        bear(|| _ = cache.set_capacity(cache.room));
        if cache.capacity() != cache.room {
            return Err(format!("{} does not get its capacity back", cache.policy()));
        }
        // These compare a new entry with its victims.
        let may_refuse =
            matches!(cache.policy(), Policy::WTinyLfu | Policy::Gdsf | Policy::LaCache { .. });
        let refusals = cache.stats().refusals;
        for key in 0..cache.room * ROTATIONS {
            bear(|| cache.insert(key, Tracked::new(census, key)));
            if !cache.contains_key(&key) && !may_refuse {
                return Err(format!("{}: key {key} was not admitted", cache.policy()));
            }
        }
        if cache.stats().refusals != refusals && !may_refuse {
            return Err(format!("{} refuses though no pin is left", cache.policy()));
        }
    }
    Ok(())
}

fn report(caches: &[Soaked], totals: &Totals, elapsed: Duration) {
    let (mut evictions, mut refusals, mut waiting) = (0, 0, 0);
    for stats in caches.iter().map(|soaked| soaked.stats()) {
        evictions += stats.evictions;
        refusals += stats.refusals;
        waiting += stats.waiting;
    }
    let operations = totals.operations.load(Relaxed) as f64 / 1e6;
    let seconds = elapsed.as_secs_f64();
    println!(
        "{seconds:6.0} s {operations:9.1} M operations ({:.2} M/s), {} threads, \
         {:.1} M evictions, {refusals} refusals, {waiting} waiting, {:.1} MiB on the heap, \
         {} resident: valid",
        operations / seconds,
        totals.threads.load(Relaxed),
        evictions as f64 / 1e6,
        mebibytes(counted::bytes()),
        resident_bytes().map_or("?".to_owned(), |bytes| format!("{:.1}", mebibytes(bytes))),
    );
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Compares memory after the warm-up with memory at the end.
fn is_flat(memory: &[u64]) -> Result<(), String> {
    let warm = memory.get(WARM_UP.min(memory.len() / 2));
    match (warm, memory.last()) {
        (Some(&warm), Some(&end)) if end > warm + warm / 100 * GROWTH_PERCENT => {
            Err(format!("the heap grew from {warm} to {end} bytes after the warm-up"))
        }
        _ => Ok(()),
    }
}

/// Memory of the process, if the system reports it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
