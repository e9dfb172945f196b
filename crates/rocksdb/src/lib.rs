//! [`frazil::HandleCache`] for C (`include/frazil.h`), on which the block cache for RocksDB is
//! built (`cpp/`; `docs/design/rocksdb.md`).
//!
//! A handle is the address of an [`Entry`], so C reads an object without a call.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("keys take the place of pointers of 64 bits");

mod cache;
mod entry;
mod key;

pub use cache::{
    Cache, Options, Status, frazil_capacity, frazil_charge, frazil_clear, frazil_clear_unheld,
    frazil_erase, frazil_for_each, frazil_free, frazil_held_usage, frazil_hold, frazil_hold_more,
    frazil_homes, frazil_insert, frazil_is_strict, frazil_key, frazil_len, frazil_new,
    frazil_prometheus, frazil_record, frazil_release, frazil_set_capacity, frazil_set_strict,
    frazil_standalone, frazil_total_charge, frazil_usage,
};
pub use entry::{Entry, Kind};
