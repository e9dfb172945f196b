//! Rows of a table, read through a cache that keeps 64,000 bytes of them for a second.
//!
//! `bench/examples/quick_cache_rows.rs` is the same with quick_cache and prints the same: compare
//! the two to see the changes of a move, in either direction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use frazil::{Cache, Cause, Compute, Computed};

const LIFETIME: Duration = Duration::from_secs(1);
const CAPACITY_BYTES: u64 = 64_000;

/// A row, and how often it was updated.
#[derive(Clone)]
struct Row {
    text: Arc<str>,
    version: u64,
}

/// The slow operation.
struct Table {
    rows: Mutex<BTreeMap<u64, Arc<str>>>,
    reads: AtomicU64,
}

impl Table {
    fn read(&self, id: u64) -> Result<Row, String> {
        self.reads.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(1));
        let text = self.rows.lock().unwrap().get(&id).cloned();
        let text = text.ok_or_else(|| format!("there is no row {id}"))?;
        Ok(Row { text, version: 0 })
    }
}

struct Rows {
    table: Table,
    cache: Cache<u64, Row>,
    gone: Arc<AtomicU64>,
}

impl Rows {
    fn new(table: Table) -> Self {
        let gone = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&gone);
        let cache = Cache::builder(CAPACITY_BYTES)
            .weigher(|_, row: &Row| row.text.len() as u64)
            .entries(1_000)
            .time_to_live(LIFETIME)
            .listener(move |_id, _row, cause| {
                if cause == Cause::Size {
                    told.fetch_add(1, Relaxed);
                }
            })
            .build();
        Rows { table, cache, gone }
    }

    /// One read of the table, for any number of threads.
    fn get(&self, id: u64) -> Result<Row, String> {
        self.cache.try_get_or_insert_with(&id, || self.table.read(id))
    }

    /// Changes a row in the table, and in the cache if it is present. Returns its new version.
    fn update(&self, id: u64, text: &str) -> Option<u64> {
        let text: Arc<str> = text.into();
        self.table.rows.lock().unwrap().insert(id, Arc::clone(&text));
        let updated = self.cache.entry(id).and_compute(|row| match row {
            Some(row) => Compute::Put(Row { text: Arc::clone(&text), version: row.version + 1 }),
            None => Compute::Keep,
        });
        match updated {
            Computed::Replaced(row) => Some(row.version),
            _ => None,
        }
    }

    fn weight(&self) -> u64 {
        self.cache.weight()
    }
}

fn main() {
    let text = "x".repeat(1_000);
    let rows = (0..100).map(|id| (id, text.as_str().into())).collect();
    let rows = Rows::new(Table { rows: Mutex::new(rows), reads: AtomicU64::new(0) });

    thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(|| rows.get(7))));
    println!("row 7, for 8 threads at once: {} read", rows.table.reads.load(Relaxed));
    println!("row 100: {:?}", rows.get(100).map(|row| row.text));
    println!("row 7, updated: version {:?}", rows.update(7, "new"));
    println!("row 7, in the cache: {:?}", rows.get(7).map(|row| row.text));
    println!("row 8, updated in the table alone: {:?}", rows.update(8, &text));

    (0..100).for_each(|id| assert!(rows.get(id).is_ok()));
    println!("100 rows, within the capacity: {}", rows.weight() <= CAPACITY_BYTES);
    println!("told of those that went: {}", rows.gone.load(Relaxed) > 0);

    assert!(rows.get(99).is_ok());
    thread::sleep(2 * LIFETIME);
    let before = rows.table.reads.load(Relaxed);
    assert!(rows.get(99).is_ok());
    println!("row 99, after its time: {} read", rows.table.reads.load(Relaxed) - before);
}
