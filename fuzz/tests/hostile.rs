//! Hostile input in every run of the tests: the corpora, and mutations that are the same in each
//! run.
//!
//! A crash is a failed test. A hang ends the process, which names the input. Unbounded memory ends
//! it too, without the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use frazil_fuzz::{ALL, Feed};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Changed inputs of a target; a hundred times as many in a long run.
const CHANGED: u64 = 10_000;
/// Time without progress after which the process ends, within twice that, on a machine however
/// busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Limit of the bytes allocated at one time.
const MEMORY_MAX: usize = 1 << 30;
const LENGTH_MAX: usize = 16_384;
/// Numbers at the edge of some type's range.
const EXTREMES: [&str; 8] =
    ["0", "1", "-1", "255", "65536", "4294967295", "18446744073709551615", "1e308"];

/// The system's memory, up to a bound.
struct Bounded;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory is the system allocator's, or null, which it may return too.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IN_USE.fetch_add(layout.size(), Relaxed) + layout.size() > MEMORY_MAX {
            IN_USE.fetch_sub(layout.size(), Relaxed);
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static MEMORY: Bounded = Bounded;

/// One at a time: they share the memory and the names of files.
static TURN: Mutex<()> = Mutex::new(());

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(&folder).expect("a corpus");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file of the corpus")).collect()
}

/// An input of the corpus with a few changes.
fn changed(corpus: &[Vec<u8>], chance: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut input = corpus[chance.random_range(0..corpus.len())].clone();
    for _ in 0..chance.random_range(1..6) {
        let at = chance.random_range(0..=input.len());
        let end = (at + chance.random_range(1..=16)).min(input.len());
        match chance.random_range(0..8) {
            0 if at < input.len() => input[at] ^= 1 << chance.random_range(0..8),
            1 if at < input.len() => {
                input[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b':', b','][chance.random_range(0..8)]
            }
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => drop(input.splice(at..at, EXTREMES[chance.random_range(0..8)].bytes())),
            5 => drop(input.splice(at..end, chance.next_u64().to_le_bytes())),
            6 => {
                let copied = input[at..end].to_vec();
                drop(input.splice(at..at, copied));
            }
            _ => {
                let other = &corpus[chance.random_range(0..corpus.len())];
                let from = chance.random_range(0..=other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(LENGTH_MAX);
    input
}

/// Feeds a target, while another thread checks now and then whether it makes progress.
fn feed_all(feed: Feed, inputs: impl Iterator<Item = Vec<u8>> + Send) {
    let now = Mutex::new(Vec::new());
    let fed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (_end, ended) = channel::<()>();
        let (now, fed) = (&now, &fed);
        scope.spawn(move || {
            let mut before = usize::MAX;
            while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let count = fed.load(Relaxed);
                if count == before {
                    let input = now.lock().unwrap_or_else(|held| held.into_inner());
                    eprintln!("takes too long: {:?}", input.escape_ascii().to_string());
                    std::process::abort();
                }
                before = count;
            }
        });
        for input in inputs {
            input.clone_into(&mut now.lock().expect("nobody panics with it"));
            let fails = std::panic::catch_unwind(|| feed(&input)).is_err();
            assert!(!fails, "on {}", input.escape_ascii());
            fed.fetch_add(1, Relaxed);
        }
    });
}

fn feed_target(wanted: &str) {
    // A failure of another target is its own.
    let _turn = TURN.lock().unwrap_or_else(|held| held.into_inner());
    let (name, feed) = ALL.into_iter().find(|(name, _)| *name == wanted).expect("a target");
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name}");
    let long = std::env::var_os("FRAZIL_LONG").is_some();
    let count = if long { CHANGED * 100 } else { CHANGED };
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    let changed = (0..count).map(|_| changed(&corpus, &mut chance));
    feed_all(feed, corpus.iter().cloned().chain(changed));
    let ours = format!("frazil-fuzz-{}-", std::process::id());
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&ours) {
            // The system removes files that cannot be removed here.
            _ = std::fs::remove_file(entry.path());
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            feed_target(stringify!($name));
        }
    )*

    #[test]
    fn each_target_is_fed() {
        assert_eq!(ALL.map(|(name, _)| name), [$(stringify!($name)),*]);
    }};
}

targets!(capacities generated http latencies memcached policies profile resp segment snapshot traces);
