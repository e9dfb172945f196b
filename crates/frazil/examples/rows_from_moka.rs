//! Rows of a table, read through a cache that keeps 64,000 bytes of them for a second.
//!
//! `bench/examples/moka_rows.rs` is the same with moka and prints the same: compare the two to see
//! the changes of a move, in either direction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use frazil::{Cache, Cause};

const LIFETIME: Duration = Duration::from_secs(1);
const CAPACITY_BYTES: u64 = 64_000;

type Row = Arc<str>;

/// The slow operation.
struct Table {
    rows: Mutex<BTreeMap<u64, Row>>,
    reads: AtomicU64,
}

impl Table {
    fn read(&self, id: u64) -> Result<Row, String> {
        self.reads.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(1));
        self.rows.lock().unwrap().get(&id).cloned().ok_or_else(|| format!("there is no row {id}"))
    }
}

/// The events of the listener.
#[derive(Default)]
struct Gone {
    removed: AtomicU64,
    for_room: AtomicU64,
}

struct Rows {
    table: Table,
    cache: Cache<u64, Row>,
    gone: Arc<Gone>,
}

impl Rows {
    fn new(table: Table) -> Self {
        let gone = Arc::new(Gone::default());
        let told = Arc::clone(&gone);
        let cache = Cache::builder(CAPACITY_BYTES)
            .weigher(|_, row: &Row| row.len() as u64)
            .entries(1_000)
            .time_to_live(LIFETIME)
            .listener(move |_id, _row, cause| match cause {
                Cause::Removed => _ = told.removed.fetch_add(1, Relaxed),
                Cause::Size => _ = told.for_room.fetch_add(1, Relaxed),
                _ => {}
            })
            .build();
        Rows { table, cache, gone }
    }

    /// One read of the table, for any number of threads.
    fn get(&self, id: u64) -> Result<Row, String> {
        self.cache.try_get_or_insert_with(&id, || self.table.read(id))
    }

    fn update(&self, id: u64, row: &str) {
        self.table.rows.lock().unwrap().insert(id, row.into());
        self.cache.invalidate(&id);
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
    println!("row 100: {:?}", rows.get(100));
    rows.update(7, "new");
    println!("row 7, updated: {:?}", rows.get(7));
    println!("told of {} removal", rows.gone.removed.load(Relaxed));

    (0..100).for_each(|id| assert!(rows.get(id).is_ok()));
    println!("100 rows, within the capacity: {}", rows.weight() <= CAPACITY_BYTES);
    println!("told of those that went: {}", rows.gone.for_room.load(Relaxed) > 0);

    thread::sleep(2 * LIFETIME);
    let before = rows.table.reads.load(Relaxed);
    assert!(rows.get(99).is_ok());
    println!("row 99, after its time: {} read", rows.table.reads.load(Relaxed) - before);
}
