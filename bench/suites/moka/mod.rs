//! moka 0.12.16: `sync`, `future`, and the folder `tests`.

mod adapter;
mod awaits;
mod basics;
mod expiry;
mod loads;
mod notices;
mod whole;

use crate::case::{Case, Port, Suite, case};
use adapter::Shape::{self, Future, Segmented, Sync};

const FOUR: Shape = Segmented(4);
const PANIC: &str = "the panic of a listener is that call's, and later ends are told all the same";
const IN_ORDER: &str = "notices for one key from several threads come in no order";
const HOUSEKEEPER: &str =
    "counts the calls of a private round of maintenance, between which theirs exceeds its capacity";
const ASYNC_LISTENER: &str = "no listener is a future, and none but a load or computation is one";
const WRITES: &str = "a private channel of writes";
const SKETCH: &str = "the length of a private sketch";
const COMPILE: &str = "error messages of the compiler about their bounds";

pub(crate) fn suites() -> Vec<Suite> {
    let suite = |file, cases| Suite { rival: "moka", file, cases };
    vec![
        suite("src/lib.rs", private(COMPILE, &["trybuild_default", "trybuild_future"])),
        suite("src/sync/cache.rs", sync()),
        suite("src/sync/segment.rs", segmented()),
        suite("src/sync/builder.rs", builder(Sync)),
        suite("src/sync/base_cache.rs", base_cache(Sync)),
        suite("src/future/cache.rs", future()),
        suite("src/future/builder.rs", builder(Future)),
        suite("src/future/base_cache.rs", base_cache(Future)),
        suite("tests", whole()),
    ]
}

fn private(why: &'static str, names: &[&'static str]) -> Vec<Case> {
    names.iter().map(|name| Case { name, port: Port::Private(why) }).collect()
}

/// A case with a shape.
macro_rules! shaped {
    ($port:ident $module:ident::$name:ident($shape:expr) $(, $why:expr)?) => {
        case!($port $name, || $module::$name($shape) $(, $why)?)
    };
}

/// Tests that all three caches share.
macro_rules! alike {
    ($shape:expr, $one:expr) => {
        vec![
            shaped!(Same basics::max_capacity_zero($shape)),
            shaped!(Same basics::basic_single_thread($one)),
            shaped!(Same basics::size_aware_eviction($one)),
            shaped!(Same basics::invalidate_all($shape)),
            shaped!(Same basics::invalidate_entries_if($shape)),
            shaped!(Same basics::test_iter($shape)),
            shaped!(Same basics::borrowed_forms_of_key($shape)),
            shaped!(Same basics::drop_value_immediately_after_eviction($shape)),
            shaped!(Same basics::test_debug_format($shape)),
        ]
    };
}

/// Tests that `sync` and `future` share.
macro_rules! both {
    ($shape:expr) => {
        vec![
            shaped!(Same basics::basic_lru_single_thread($shape)),
            shaped!(Same basics::test_race_between_recreating_entry_and_processing_its_write_ops($shape)),
            shaped!(Same basics::ensure_gc_runs_when_dropping_cache($shape)),
            shaped!(Same basics::no_batch_size_limit_on_eviction($shape)),
            shaped!(Same expiry::time_to_live($shape)),
            shaped!(Same expiry::time_to_idle($shape)),
            shaped!(Same expiry::ensure_access_time_is_updated_immediately_after_read($shape)),
            shaped!(Same expiry::time_to_live_by_expiry_type($shape)),
            shaped!(Same expiry::time_to_idle_by_expiry_type($shape)),
            shaped!(Same expiry::test_expiry_using_get_with($shape)),
            shaped!(Same expiry::expire_after_update_none_on_expired_entry($shape)),
            shaped!(Same expiry::test_expire_after_create_only_no_stale_entries($shape)),
            shaped!(Same expiry::test_race_between_updating_entry_and_processing_its_write_ops($shape)),
            shaped!(Same notices::test_removal_notifications($shape)),
            shaped!(Argued notices::recover_from_panicking_eviction_listener($shape), PANIC),
            Case { name: "slow_eviction_listener", port: Port::Apart(HOUSEKEEPER) },
        ]
    };
}

fn sync() -> Vec<Case> {
    let mut cases: Vec<Case> = alike!(Sync, Sync);
    cases.extend(both!(Sync));
    cases.extend([
        shaped!(Same basics::basic_multi_threads(Sync)),
        shaped!(Same basics::test_iter_multi_threads(Sync)),
        shaped!(Same expiry::test_optionally_get_with_expired_entry_bug(Sync)),
        shaped!(Same loads::get_with(Sync)),
        case!(Same get_with_by_ref, || loads::get_with(Sync)),
        shaped!(Same loads::entry_or_insert_with_if(Sync)),
        case!(Same entry_by_ref_or_insert_with_if, || loads::entry_or_insert_with_if(Sync)),
        shaped!(Same loads::try_get_with(Sync)),
        case!(Same try_get_with_by_ref, || loads::try_get_with(Sync)),
        shaped!(Same loads::optionally_get_with(Sync)),
        case!(Same optionally_get_with_by_ref, || loads::optionally_get_with(Sync)),
        case!(Same upsert_with, loads::upsert_with),
        case!(Same compute_with, loads::compute_with),
        case!(Same try_compute_with, loads::try_compute_with),
        case!(Same handle_panic_in_get_with, loads::handle_panic_in_get_with),
        case!(Same handle_panic_in_try_get_with, loads::handle_panic_in_try_get_with),
        shaped!(Same notices::test_immediate_removal_notifications_with_updates(Sync)),
        case!(
            Argued test_key_lock_used_by_immediate_removal_notifications,
            notices::test_key_lock_used_by_immediate_removal_notifications,
            IN_ORDER
        ),
    ]);
    cases
}

fn segmented() -> Vec<Case> {
    let mut cases: Vec<Case> = alike!(FOUR, Segmented(1));
    cases.extend([
        case!(Same non_power_of_two_segments, basics::non_power_of_two_segments),
        shaped!(Same basics::basic_multi_threads(FOUR)),
        shaped!(Same basics::test_iter_multi_threads(FOUR)),
        shaped!(Same loads::get_with(FOUR)),
        case!(Same get_with_if, || loads::entry_or_insert_with_if(FOUR)),
        shaped!(Same loads::try_get_with(FOUR)),
        shaped!(Same loads::optionally_get_with(FOUR)),
    ]);
    cases
}

fn future() -> Vec<Case> {
    let mut cases: Vec<Case> = alike!(Future, Future);
    cases.extend(both!(Future));
    cases.extend([
        case!(Same futures_are_send, awaits::futures_are_send),
        case!(Same basic_single_async_task, awaits::basic_single_async_task),
        case!(Same basic_multi_async_tasks, basics::basic_multi_async_tasks),
        case!(
            Same invalidate_all_without_running_pending_tasks,
            basics::invalidate_all_without_running_pending_tasks
        ),
        case!(Same test_iter_multi_async_tasks, || basics::test_iter_multi_threads(Future)),
        case!(Same get_with, awaits::get_with),
        case!(Same get_with_by_ref, awaits::get_with),
        case!(Same entry_or_insert_with_if, awaits::entry_or_insert_with_if),
        case!(Same entry_by_ref_or_insert_with_if, awaits::entry_or_insert_with_if),
        case!(Same try_get_with, awaits::try_get_with),
        case!(Same try_get_with_by_ref, awaits::try_get_with),
        case!(Same optionally_get_with, awaits::optionally_get_with),
        case!(Same optionally_get_with_by_ref, awaits::optionally_get_with),
        case!(Same upsert_with, awaits::upsert_with),
        case!(Same compute_with, awaits::compute_with),
        case!(Same try_compute_with, awaits::try_compute_with),
        case!(Same handle_panic_in_get_with, awaits::handle_panic_in_get_with),
        case!(Same handle_panic_in_try_get_with, awaits::handle_panic_in_try_get_with),
        case!(Same abort_get_with, awaits::abort_get_with),
        case!(Same abort_try_get_with, awaits::abort_try_get_with),
        case!(Same test_removal_notifications_with_updates, || {
            notices::test_immediate_removal_notifications_with_updates(Future);
        }),
    ]);
    for name in [
        "cancel_future_while_running_pending_tasks",
        "cancel_future_while_calling_eviction_listener",
    ] {
        cases.push(Case { name, port: Port::Apart(ASYNC_LISTENER) });
    }
    cases.extend(private(WRITES, &["cancel_future_while_scheduling_write_op"]));
    cases
}

fn builder(shape: Shape) -> Vec<Case> {
    let mut cases = vec![
        shaped!(Same basics::build_cache(Sync)),
        shaped!(Same basics::build_cache_too_long_ttl(Sync)),
        shaped!(Same basics::build_cache_too_long_tti(Sync)),
    ];
    if shape == Sync {
        cases.push(case!(Same build_segmented_cache, basics::build_segmented_cache));
    }
    cases
}

fn base_cache(shape: Shape) -> Vec<Case> {
    let expiration = match shape {
        Future => shaped!(Same expiry::test_per_entry_expiration(Future)),
        _ => shaped!(Same expiry::test_per_entry_expiration(Sync)),
    };
    let mut cases = vec![expiration];
    cases.extend(private(SKETCH, &["test_skt_capacity_will_not_overflow"]));
    cases.extend(match shape {
        Future => private(
            WRITES,
            &[
                "future_lru_zombie_stall_repro",
                "future_lru_zombie_stall_control",
                "future_lru_capacity_eviction_skips_dirty_node_diag",
                "future_tinylfu_zombie_phantom_slot_repro",
            ],
        ),
        _ => private(
            WRITES,
            &[
                "sync_lru_zombie_stall_repro",
                "sync_lru_zombie_stall_control",
                "sync_lru_capacity_eviction_skips_dirty_node_diag",
            ],
        ),
    });
    cases
}

fn whole() -> Vec<Case> {
    vec![
        case!(Same test_cache_get_with, || whole::test_get_with(Sync)),
        case!(Same test_seg_cache_get_with, || whole::test_get_with(FOUR)),
        case!(Same test_cache_optionally_get_with, || whole::test_optionally_get_with(Sync)),
        case!(Same test_seg_cache_optionally_get_with, || whole::test_optionally_get_with(FOUR)),
        case!(Same test_cache_try_get_with, || whole::test_try_get_with(Sync)),
        case!(Same test_seg_cache_try_get_with, || whole::test_try_get_with(FOUR)),
        // From the program for tokio, then from that for Actix.
        case!(Same test_get_with, whole::test_get_with_tokio),
        case!(Same test_optionally_get_with, whole::test_optionally_get_with_tokio),
        case!(Same test_try_get_with, whole::test_try_get_with_tokio),
        case!(Same test_get_with, || whole::test_get_with(Future)),
        case!(
            Same test_and_compute_with_concurrent_atomicity,
            whole::test_and_compute_with_concurrent_atomicity
        ),
        shaped!(Same whole::eviction_converges_under_concurrent_key_reuse(Sync)),
        shaped!(Same whole::eviction_converges_under_concurrent_key_reuse(Future)),
        // From `runtime_tokio.rs`, and from `runtime_actix_rt2.rs`.
        case!(Same main, whole::main),
        case!(Same main, whole::main),
        case!(Same test_timer_wheel_panic, whole::test_timer_wheel_panic),
        case!(Same stress_test_timer_wheel_panic, whole::stress_test_timer_wheel_panic),
    ]
}
