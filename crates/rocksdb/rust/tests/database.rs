//! A database with our block cache.

use rocksdb::{DB, Options};

#[test]
fn a_database_has_the_cache_that_was_asked_for() {
    let path = std::env::temp_dir().join(format!("frazil-block-cache-{}", std::process::id()));
    let mut options = Options::default();
    options.create_if_missing(true);
    let cache = "capacity=1M;policy=s3-fifo";
    let options = frazil_block_cache::with_block_cache(&mut options, cache).unwrap();
    {
        let db = DB::open(&options, &path).unwrap();
        for key in 0..20_000u32 {
            db.put(key.to_be_bytes(), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        for key in (0..20_000u32).map(|at| at * 7_919 % 20_000) {
            assert_eq!(db.get(key.to_be_bytes()).unwrap().as_deref(), Some(&[7; 100][..]));
        }
        let whose = db.property_value("rocksdb.block-cache-entry-stats").unwrap().unwrap();
        assert!(whose.contains("Block cache frazil@"), "{whose}");
    }
    DB::destroy(&Options::default(), &path).unwrap();
}

#[test]
fn what_there_is_not_is_named() {
    let refused = |cache: &str| {
        let made = frazil_block_cache::with_block_cache(&mut Options::default(), cache);
        made.err().map(|error| error.to_string())
    };
    assert_eq!(refused("capacity=1M"), None);
    assert!(refused("capacity=1M;policy=lruu").unwrap().contains("lruu"));
    let message = refused("capcity=1M").unwrap();
    // RocksDB names the enclosing option.
    assert!(message.contains("block_based_table_factory"), "{message}");
}
