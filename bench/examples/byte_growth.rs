//! The growth of a process with a cache of 64 MiB: ours beside moka, quick_cache, and a queue under
//! a mutex, which drops evicted values at once.
//!
//! `cargo run --release -p frazil-bench --features rivals --example byte_growth`
//!
//! Threads look up keys, four times as many as fit, and insert missed ones, until four capacities
//! were inserted. An entry weighs its bytes and 56 for its overhead: the key, the pointer, the
//! counts of the `Arc` and the allocator's word. Each figure is of a separate process, in MiB
//! beyond its memory before the cache was built: resident memory at the end of the run, its
//! maximum, and the weight *held* at the end, which is all live values, including those that wait
//! to be dropped. The maximum includes values that threads have made but not inserted yet. Resident
//! memory that is not held is tables, and memory that the allocator keeps: glibc gives each thread
//! an arena, and free memory of one serves no other. The queue shows that amount if no value waits.
//! `*`: more than 1.25 capacities and 8 MiB.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};

/// Counts the blocks with the size of a value's.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static SIZE: AtomicUsize = AtomicUsize::new(usize::MAX);
static LIVING: AtomicU64 = AtomicU64::new(0);

fn is_value(layout: Layout) -> u64 {
    (layout.size() == SIZE.load(Relaxed)).into()
}

// SAFETY: all is left to the system's allocator, with the layouts as they came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVING.fetch_add(is_value(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVING.fetch_add(is_value(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVING.fetch_sub(is_value(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 64 * MIB;
const ROUNDS: u64 = 4;
/// Weight of an entry beside its value.
const BESIDE: u64 = 56;
const ENGINES: [&str; 4] = ["frazil", "moka", "quick_cache", "queue"];
const SIZES: [(&str, u64); 6] = [
    ("64 B", 64),
    ("1 KiB", 1 << 10),
    ("16 KiB", 16 << 10),
    ("128 KiB", 128 << 10),
    ("1 MiB", MIB),
    ("8 MiB", 8 * MIB),
];
const THREADS: [u64; 3] = [1, 2, 8];

type Value = Arc<[u8]>;

/// The measurement of one process.
#[derive(Clone, Copy)]
struct Cell {
    size: u64,
    threads: u64,
    pinned: bool,
}

impl Cell {
    fn entries(self) -> u64 {
        CAPACITY / (self.size + BESIDE)
    }

    fn value(self, key: u64) -> Value {
        // Every page is written.
        std::iter::repeat_n(key as u8, self.size as usize).collect()
    }

    /// Runs all threads, which look up and insert. The first one calls `held` once it has inserted.
    fn drive<C: Sync, H>(
        self,
        cache: &C,
        get: impl Fn(&C, u64) -> bool + Sync,
        insert: impl Fn(&C, u64, Value) + Sync,
        held: impl FnOnce() -> H,
    ) -> anyhow::Result<Bytes> {
        insert(cache, 0, self.value(0));
        let _held = self.pinned.then(held);
        let (inserted, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let (get, insert, inserted, most) = (&get, &insert, &inserted, &most);
                scope.spawn(move || {
                    let mut chance = thread << 32;
                    let mut looks = 0;
                    while inserted.load(Relaxed) < ROUNDS * CAPACITY {
                        let key = next(&mut chance) % (4 * self.entries());
                        if !get(cache, key) {
                            insert(cache, key, self.value(key));
                            inserted.fetch_add(self.size + BESIDE, Relaxed);
                            looks += 1;
                            if looks * self.size / (4 * MIB) != (looks - 1) * self.size / (4 * MIB)
                            {
                                most.fetch_max(resident().unwrap_or(0), Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let end = resident()?;
        let held = LIVING.load(Relaxed) * (self.size + BESIDE);
        Ok(Bytes { end, most: most.into_inner().max(end), held })
    }
}

/// Memory of a process.
struct Bytes {
    end: u64,
    most: u64,
    held: u64,
}

impl Bytes {
    /// Without the memory that was resident before.
    fn beyond(self, before: u64) -> Self {
        let [end, most] = [self.end, self.most].map(|bytes| bytes.saturating_sub(before));
        Bytes { end, most, ..self }
    }
}

/// First in, first out; the inserting thread drops evicted values at once.
#[derive(Default)]
struct Queue(Mutex<(VecDeque<(u64, Value)>, u64)>);

impl Queue {
    /// Does not check whether a key is present.
    fn insert(&self, key: u64, value: Value) {
        let weight = |value: &Value| value.len() as u64 + BESIDE;
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, held) = &mut *queue;
        *held += weight(&value);
        while *held > CAPACITY
            && let Some((_, gone)) = entries.pop_front()
        {
            *held -= weight(&gone);
        }
        entries.push_back((key, value));
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Resident bytes of this process.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("a system with /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 =
        line.and_then(|line| line.trim().strip_suffix("kB")).context("VmRSS")?.trim().parse()?;
    Ok(kib * 1024)
}

/// Growth of a process.
fn measure(engine: &str, cell: Cell) -> anyhow::Result<Bytes> {
    let weigh = |value: &Value| value.len() as u64 + BESIDE;
    // Two counts beside the bytes.
    SIZE.store(cell.size as usize + 2 * size_of::<usize>(), Relaxed);
    let before = resident()?;
    let after = match engine {
        "frazil" => {
            let cache: frazil::Cache<u64, Value> = frazil::Cache::builder(CAPACITY)
                .entries(cell.entries())
                .weigher(move |_, value| weigh(value))
                .build();
            let held = || {
                let pin = cache.pin();
                pin.get(&0);
                pin
            };
            let get = |cache: &frazil::Cache<u64, Value>, key| cache.get(&key).is_some();
            cell.drive(&cache, get, |cache, key, value| cache.insert(key, value), held)?
        }
        "moka" => {
            let weigher = move |_: &u64, value: &Value| weigh(value) as u32;
            let cache: moka::sync::Cache<u64, Value> =
                moka::sync::Cache::builder().max_capacity(CAPACITY).weigher(weigher).build();
            let get = |cache: &moka::sync::Cache<u64, Value>, key| cache.get(&key).is_some();
            let held = || cache.get(&0);
            cell.drive(&cache, get, |cache, key, value| cache.insert(key, value), held)?
        }
        "quick_cache" => {
            #[derive(Clone)]
            struct Weighed;
            impl quick_cache::Weighter<u64, Value> for Weighed {
                fn weight(&self, _: &u64, value: &Value) -> u64 {
                    value.len() as u64 + BESIDE
                }
            }
            let cache =
                quick_cache::sync::Cache::with_weighter(cell.entries() as usize, CAPACITY, Weighed);
            let get = |cache: &quick_cache::sync::Cache<u64, Value, Weighed>, key| {
                cache.get(&key).is_some()
            };
            let held = || cache.get(&0);
            cell.drive(&cache, get, |cache, key, value| cache.insert(key, value), held)?
        }
        "queue" => {
            let get = |_: &Queue, _| false;
            cell.drive(&Queue::default(), get, |queue, key, value| queue.insert(key, value), || ())?
        }
        other => bail!("no engine `{other}`"),
    };
    Ok(after.beyond(before))
}

/// The same in a separate process.
fn measure_alone(engine: &str, cell: Cell) -> anyhow::Result<Bytes> {
    let words = [cell.size, cell.threads, cell.pinned.into()].map(|word| word.to_string());
    let run = Command::new(std::env::current_exe()?).arg(engine).args(words).output()?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout)?;
    let figures: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let &[end, most, held] = &figures[..] else { bail!("`{text}`") };
    Ok(Bytes { end, most, held })
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [engine, size, threads, pinned] = &words[..] {
        let cell = Cell { size: size.parse()?, threads: threads.parse()?, pinned: pinned == "1" };
        let Bytes { end, most, held } = measure(engine, cell)?;
        println!("{end} {most} {held}");
        return Ok(());
    }
    println!(
        "MiB at the end, at most, and held at the end\n{:<9} {:<8} {:<6} {}",
        "value",
        "threads",
        "pin",
        ENGINES.map(|it| format!("{it:>19}")).concat()
    );
    let bound = CAPACITY + CAPACITY / 4 + 8 * MIB;
    let (mut beyond, mut most_held) = (0, 0);
    for (name, size) in SIZES {
        for threads in THREADS {
            for pinned in [false, true] {
                let mut line =
                    format!("{name:<9} {threads:<8} {:<6} ", if pinned { "held" } else { "none" });
                for engine in ENGINES {
                    let Bytes { end, most, held } =
                        measure_alone(engine, Cell { size, threads, pinned })?;
                    if engine == "frazil" {
                        beyond += u64::from(end > bound);
                        most_held = most_held.max(held);
                    }
                    let mark = |bytes| if bytes > bound { "*" } else { " " };
                    let [end, most, held] =
                        [end, most, held].map(|it| format!("{}{}", it.div_ceil(MIB), mark(it)));
                    line += &format!("{end:>9}{most:>5}{held:>5}");
                }
                println!("{line}");
            }
        }
    }
    println!(
        "beyond {} MiB at the end: frazil in {beyond} of {} cells; held at most {}",
        bound / MIB,
        SIZES.len() * THREADS.len() * 2,
        most_held.div_ceil(MIB),
    );
    Ok(())
}
