//! lru 0.19.0.

mod adapter;
mod tests;

use crate::case::{Case, Port, Suite, case};
use tests::*;

const DEMOTE: &str = "ours has no way to say that an entry shall go next";
const LENT: &str = "ours lends no entries to an iterator that another thread could go on with";

pub(crate) fn suites() -> Vec<Suite> {
    vec![Suite { rival: "lru", file: "src/lib.rs", cases: cases() }]
}

fn cases() -> Vec<Case> {
    vec![
        case!(Same test_unbounded),
        case!(Same test_with_hasher),
        case!(Same test_put_and_get),
        case!(Same test_put_and_get_or_insert),
        case!(Same test_put_and_get_or_insert_with_key),
        case!(Same test_get_or_insert_ref),
        case!(Same test_try_get_or_insert),
        case!(Same test_try_get_or_insert_with_key),
        case!(Same test_try_get_or_insert_ref),
        case!(Same test_put_and_get_or_insert_mut),
        case!(Same test_put_and_get_or_insert_mut_with_key),
        case!(Same test_get_or_insert_mut_ref, test_get_or_insert_mut_ref),
        case!(Same test_try_get_or_insert_mut),
        case!(Same test_try_get_or_insert_mut_with_key),
        case!(Same test_try_get_or_insert_mut_ref, test_try_get_or_insert_mut_ref),
        case!(Same test_put_and_get_mut),
        case!(Same test_get_mut_and_update),
        case!(Same test_put_update),
        case!(Same test_put_removes_oldest),
        case!(Same test_peek),
        case!(Same test_peek_mut),
        case!(Same test_peek_lru),
        case!(Same test_peek_mru),
        case!(Same test_contains),
        case!(Same test_pop),
        case!(Same test_pop_entry),
        case!(Same test_pop_lru),
        case!(Same test_pop_mru),
        case!(Same test_clear),
        case!(Same test_resize_larger, test_resize_larger),
        case!(Same test_resize_smaller),
        case!(Same test_send),
        case!(Same test_multiple_threads),
        case!(Same test_iter_forwards),
        case!(Same test_iter_backwards),
        case!(Same test_iter_forwards_and_backwards),
        case!(Same test_iter_multiple_threads),
        Case { name: "test_iter_send_sync_not_send", port: Port::Apart(LENT) },
        case!(Same test_iter_clone),
        case!(Same test_into_iter),
        case!(Same test_that_pop_actually_detaches_node),
        case!(Same test_retain),
        case!(Same test_retain_all_and_none),
        case!(Same test_no_memory_leaks_with_retain),
        case!(Same test_get_with_borrow),
        case!(Same test_get_mut_with_borrow),
        case!(Same test_no_memory_leaks),
        case!(Same test_no_memory_leaks_with_clear),
        case!(Same test_no_memory_leaks_with_resize),
        case!(Same test_no_memory_leaks_with_pop),
        case!(Same test_find_and_promote),
        case!(Same test_find_and_promote_no_match),
        case!(Same test_find_and_promote_multiple_matches_picks_first_in_mru_order),
        Case { name: "test_promote_and_demote", port: Port::Apart(DEMOTE) },
        case!(Same test_get_key_value),
        case!(Same test_get_key_value_mut),
        case!(Same test_clone),
        case!(Same test_clone_unbounded),
        case!(Same iter_mut_stacked_borrows_violation),
        case!(Same test_pop_panicking_key_drop_keeps_list_consistent),
    ]
}
