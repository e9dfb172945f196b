//! The store of these tests.

use frazil_server::{ITEM_BYTES_MAX, Limits, StoreKind};

/// `cargo xtask test` runs them once with each.
pub(crate) fn store() -> StoreKind {
    match std::env::var("FRAZIL_TEST_STORE") {
        Ok(name) if name == "objects" => StoreKind::Objects,
        _ => StoreKind::Segment,
    }
}

/// Items of up to 1 MiB, in a small memory too.
pub(crate) fn limits() -> Limits {
    Limits { item_bytes: Some(ITEM_BYTES_MAX), ..Limits::default() }
}
