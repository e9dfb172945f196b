//! quick_cache 0.7.0: `sync`, and the additional tests of `unsync`.

mod adapter;
mod plain;
mod together;

use crate::case::{Case, Port, Suite, case};

const WEIGHTLESS: &str = "what weighs nothing makes room like all else";
const COUNTS: &str = "ours counts requests for the whole cache, not for each entry";
const LOCKS: &str = "holds the private locks of shards";
const PLACES: &str = "private places of a slab";

pub(crate) fn suites() -> Vec<Suite> {
    let suite = |file, cases| Suite { rival: "quick_cache", file, cases };
    vec![
        suite("src/lib.rs", library()),
        suite("src/sync.rs", sync()),
        suite(
            "src/unsync.rs",
            vec![
                case!(Argued test_zero_weights, plain::test_zero_weights, WEIGHTLESS),
                case!(Same test_set_capacity, plain::test_set_capacity),
                case!(
                    Same test_set_capacity_with_ghosts,
                    plain::test_set_capacity_with_ghosts
                ),
                case!(Same test_remove_if, plain::test_remove_if),
            ],
        ),
        suite(
            "src/shuttle_tests.rs",
            vec![
                case!(Same test_guard_works, together::test_guard_works),
                case!(Same test_waker_change_race, together::test_waker_change_race),
                case!(Same test_entry_works, together::test_entry_works),
                case!(
                    Same test_entry_waker_change_race,
                    together::test_entry_waker_change_race
                ),
            ],
        ),
        suite("src/shard.rs", private(PLACES, &["reserve_caps_ghost_headroom", "entry_overhead"])),
        suite("src/linked_slab.rs", private(PLACES, &["reserve_avoids_realloc"])),
    ]
}

fn private(why: &'static str, names: &[&'static str]) -> Vec<Case> {
    names.iter().map(|name| Case { name, port: Port::Private(why) }).collect()
}

fn library() -> Vec<Case> {
    vec![
        case!(Same test_new, plain::test_new),
        case!(Same test_capacity_one, plain::test_capacity_one),
        case!(Same test_custom_cost, plain::test_custom_cost),
        case!(Same test_change_get_mut_change_weight, plain::test_change_get_mut_change_weight),
        case!(Same test_equivalent, plain::test_equivalent),
        case!(Same test_borrow_keys, plain::test_borrow_keys),
        case!(Same test_get_or_insert, together::test_get_or_insert),
        case!(Same test_get_or_insert_unsync, plain::test_get_or_insert_unsync),
        case!(Same test_get_or_insert_sync, plain::test_get_or_insert_sync),
        case!(Same test_retain_unsync, || plain::test_retain(3, 7)),
        case!(Same test_retain_sync, || plain::test_retain(4, 8)),
        case!(Same test_value_or_guard, together::test_value_or_guard),
        case!(Same test_get_or_insert_async, together::test_get_or_insert_async),
        case!(Same test_value_or_guard_async, together::test_value_or_guard_async),
    ]
}

fn sync() -> Vec<Case> {
    use plain as p;
    use together as t;
    let mut cases = vec![
        case!(Same test_multiple_threads, t::test_multiple_threads),
        case!(Same test_iter, p::test_iter),
        case!(Same test_drain, p::test_drain),
        case!(Same test_set_capacity, p::test_set_capacity),
        case!(Same test_remove_if, p::test_remove_if),
        case!(Same test_entry_actions, p::test_entry_actions),
        case!(Same test_entry_weight_tracking, p::test_entry_weight_tracking),
        case!(Same test_entry_eviction, p::test_entry_eviction),
        case!(
            Same test_entry_concurrent_placeholder_wait,
            t::test_entry_concurrent_placeholder_wait
        ),
        case!(
            Same test_entry_concurrent_placeholder_guard_abandoned,
            t::test_entry_concurrent_placeholder_guard_abandoned
        ),
        case!(Same test_entry_timeout, t::test_entry_timeout),
        case!(
            Same test_entry_concurrent_multiple_waiters,
            t::test_entry_concurrent_multiple_waiters
        ),
        case!(
            Same test_entry_concurrent_action_after_wait,
            t::test_entry_concurrent_action_after_wait
        ),
        case!(Same test_entry_concurrent_stress, t::test_entry_concurrent_stress),
        case!(Same test_entry_async_actions, p::test_entry_async_actions),
        case!(Same test_entry_async_concurrent_wait, t::test_entry_async_concurrent_wait),
        case!(
            Same test_entry_async_concurrent_guard_abandoned,
            t::test_entry_async_concurrent_guard_abandoned
        ),
        case!(Same test_entry_async_concurrent_stress, t::test_entry_async_concurrent_stress),
        case!(Same test_try_contains_key, p::test_try_contains_key),
        case!(Same test_try_get, p::test_try_get),
        case!(Same test_try_peek, p::test_try_peek),
        case!(Same test_try_remove, p::test_try_remove),
        case!(Same test_try_insert, p::test_try_insert),
        case!(
            Same test_guard_drop_after_overwrite_insert,
            p::test_guard_drop_after_overwrite_insert
        ),
        case!(
            Same test_guard_drop_after_remove_and_reuse,
            p::test_guard_drop_after_remove_and_reuse
        ),
        Case { name: "test_item_stats", port: Port::Apart(COUNTS) },
    ];
    cases.extend(private(
        LOCKS,
        &[
            "test_try_contains_key_contended",
            "test_try_get_contended",
            "test_try_peek_contended",
            "test_try_remove_contended",
            "test_try_insert_contended",
            "test_try_insert_with_lifecycle",
        ],
    ));
    cases.extend(private(PLACES, &["test_guard_leak"]));
    cases
}
