//! foyer-memory 0.22.6.

mod adapter;
mod tests;

use crate::case::{Case, Port, Suite, case};
use tests::*;

const LISTS: &str = "the lists of one policy, by themselves";
const TIERS: &str = "ours has no tiers, between which an entry is handed on and comes back";
const PHANTOM: &str = "ours inserts to keep: what only its caller is to have is not inserted";
const OVERSIZED: &str = "what weighs more than the capacity is refused: the bound always holds";

pub(crate) fn suites() -> Vec<Suite> {
    let suite = |file, cases| Suite { rival: "foyer-memory", file, cases };
    vec![
        suite(
            "src/cache.rs",
            vec![
                Case { name: "test_reinsert_resident_piece", port: Port::Apart(TIERS) },
                case!(Same test_fifo_cache),
                case!(Same test_lru_cache),
                case!(Same test_lfu_cache),
                case!(Same test_s3fifo_cache),
                case!(Same test_sieve_cache),
            ],
        ),
        suite("src/raw.rs", raw()),
        suite("src/eviction/fifo.rs", private(&["test_fifo"])),
        suite("src/eviction/lfu.rs", private(&["test_lfu"])),
        suite(
            "src/eviction/lru.rs",
            private(&[
                "test_lru",
                "test_lru_pin",
                "test_lru_reinsert_pinned_record",
                "test_lru_pin_resize_no_panic",
            ]),
        ),
        suite("src/eviction/s3fifo.rs", private(&["test_s3fifo"])),
        suite("src/eviction/sieve.rs", private(&["test_sieve_basic"])),
        suite("src/pipe.rs", vec![Case { name: "test_piece", port: Port::Apart(TIERS) }]),
    ]
}

fn private(names: &[&'static str]) -> Vec<Case> {
    names.iter().map(|name| Case { name, port: Port::Private(LISTS) }).collect()
}

fn raw() -> Vec<Case> {
    vec![
        case!(Same test_send_sync_static),
        Case { name: "test_insert_phantom", port: Port::Apart(PHANTOM) },
        case!(Same test_insert_filter),
        case!(Same test_evict_all),
        case!(Same test_flush_if),
        case!(Argued test_insert_size_over_capacity, test_insert_size_over_capacity, OVERSIZED),
        case!(Same test_capacity_distribution_without_loss),
        case!(Same test_capacity_distribution_with_more_shards_than_capacity),
        case!(Same test_fifo_cache_resize),
        case!(Same test_s3fifo_cache_resize),
        case!(Same test_lru_cache_resize),
        case!(Same test_lfu_cache_resize),
        case!(Same test_sieve_cache_resize),
        case!(Same test_fifo_cache_fuzzy),
        case!(Same test_s3fifo_cache_fuzzy),
        case!(Same test_lru_cache_fuzzy),
        case!(Same test_lfu_cache_fuzzy),
        case!(Same test_sieve_cache_fuzzy),
    ]
}
