//! The cost of holding a value, beside a `get` and a look-up through a pin; and a test with many
//! handles.
//!
//! `cargo run --release --package frazil --example hold_cost [OPERATIONS]`
//!
//! First the times of hits in the same entries, with alternating ways of look-up, and their
//! instructions, if valgrind is installed. Then a number of handle operations (a million) on four
//! threads, while a quarter of the entries is held: each value must be dropped once, and the usage
//! must end at 0.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use frazil::{Cache, Freezing, HandleCache, Held};

const ENTRIES: u64 = 10_000;
const HITS: u64 = 1_000_000;
const ROUNDS: usize = 15;
const THREADS: u64 = 4;
/// Entries of the second part; 40 of 41 keys fit.
const HELD_ROOM: u64 = 40_000;
const MAGIC: u64 = 0x5eed_cafe_f00d_d00d;

static MADE: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The ways to look up.
const WAYS: [&str; 4] = ["get", "pin", "hold", "frozen"];

struct Sides {
    cache: Cache<u64, u64>,
    handles: HandleCache<u64, u64>,
    /// The same cache with everything frozen.
    frozen: HandleCache<u64, u64>,
}

impl Sides {
    fn new() -> Self {
        let sides = Sides {
            cache: Cache::builder(ENTRIES).build(),
            handles: HandleCache::builder(ENTRIES).build(),
            frozen: HandleCache::builder(ENTRIES).freezing(Freezing::ByHand).build(),
        };
        for key in 0..ENTRIES {
            sides.cache.insert(key, key);
            for handles in [&sides.handles, &sides.frozen] {
                assert!(handles.insert(key, key, 1).is_ok(), "there is room");
            }
        }
        assert_eq!(sides.frozen.freeze(1.0), ENTRIES);
        sides
    }

    /// Makes `hits` look-ups, in one of the ways.
    fn look(&self, way: usize, hits: u64) -> u64 {
        let mut keys = (0..hits).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES);
        match way {
            0 => keys.filter_map(|key| self.cache.get(&key)).sum(),
            // One pin for a hundred of them: it names all that it shows.
            1 => (0..hits / 100)
                .map(|_| {
                    let pin = self.cache.pin();
                    keys.by_ref().take(100).filter_map(|key| pin.get(&key).copied()).sum::<u64>()
                })
                .sum(),
            _ => {
                let handles = if way == 2 { &self.handles } else { &self.frozen };
                keys.filter_map(|key| handles.hold(&key)).map(|held| *held).sum()
            }
        }
    }
}

/// Nanoseconds of a hit, by each way: the median of the rounds.
fn time(sides: &Sides) -> [f64; WAYS.len()] {
    let mut times = [const { Vec::new() }; WAYS.len()];
    for _ in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            let began = Instant::now();
            black_box(sides.look(way, HITS));
            times.push(began.elapsed().as_secs_f64() * 1e9 / HITS as f64);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}

/// Instructions of `hits` hits in one of the ways, under valgrind.
fn count(way: usize, hits: u64) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["count", &way.to_string(), &hits.to_string()])
        .output()
        .ok()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    told.split("Collected :").nth(1)?.split_whitespace().next()?.parse().ok()
}

/// A value that notices being dropped twice.
struct Value {
    key: u64,
    alive: Box<u64>,
}

impl Value {
    fn new(key: u64) -> Self {
        MADE.fetch_add(1, Relaxed);
        Value { key, alive: Box::new(MAGIC ^ key) }
    }

    fn check(&self, key: u64) {
        assert_eq!((self.key, *self.alive), (key, MAGIC ^ key), "a stray value");
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.check(self.key);
        *self.alive = 0;
        DROPPED.fetch_add(1, Relaxed);
    }
}

/// One of the threads: holds values, and releases those that it has held long.
fn work(cache: &HandleCache<u64, Value>, thread: u64, operations: u64) {
    let mut held: Vec<Option<Held<u64, Value>>> = Vec::new();
    held.resize_with((HELD_ROOM / 4 / THREADS) as usize, || None);
    let mut state = thread + 1;
    for _ in 0..operations {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2 * thread + 1);
        let key = (state >> 33) % (HELD_ROOM * 41 / 40);
        let at = (state >> 20) as usize % held.len();
        let found = match state >> 58 {
            0 => {
                cache.erase(&key);
                None
            }
            _ => cache
                .hold(&key)
                .or_else(|| cache.insert_held(key, Value::new(key), 1).ok().map(|new| new.held)),
        };
        if let Some(found) = &found {
            found.check(key);
        }
        held[at] = found;
    }
}

/// The test with many handles.
fn endure(operations: u64) {
    let cache = HandleCache::builder(HELD_ROOM).build();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || work(cache, thread, operations / THREADS));
        }
    });
    let elapsed = began.elapsed().as_secs_f64();
    let millions = operations as f64 / elapsed / 1e6;
    println!("{operations} operations on {THREADS} threads: {millions:.1} M/s");
    assert_eq!(cache.held_usage(), 0, "nothing is held");
    let living = MADE.load(Relaxed) - DROPPED.load(Relaxed);
    assert_eq!(cache.usage(), living, "nothing waits");
    cache.clear();
    assert_eq!((cache.usage(), MADE.load(Relaxed)), (0, DROPPED.load(Relaxed)), "dropped once");
    println!("{} values made and dropped; usage {}", MADE.load(Relaxed), cache.usage());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|number| number.parse().ok());
    if arguments.first().is_some_and(|first| first == "count") {
        let (Some(way), Some(hits)) = (number(1), number(2)) else { return };
        black_box(Sides::new().look(way as usize, hits));
        return;
    }
    let times = time(&Sides::new());
    for (way, name) in WAYS.iter().enumerate() {
        let counted = count(way, 2 * ENTRIES).zip(count(way, 12 * ENTRIES));
        let instructions = counted.map_or("?".to_owned(), |(few, many)| {
            format!("{:.1}", many.saturating_sub(few) as f64 / (10 * ENTRIES) as f64)
        });
        println!("{name:5} {:6.1} ns {instructions:>6} instructions", times[way]);
    }
    endure(number(0).unwrap_or(1_000_000));
}
