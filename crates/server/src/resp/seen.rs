//! Entries as RESP sees them: a placeholder for a lease counts as no entry.

use frazil_segment::Entry;

use crate::store::Store;

use crate::marks::is_placeholder;

pub(crate) fn contains(store: &Store, key: &[u8]) -> bool {
    peek(store, key, |_| ()).is_some()
}

/// As [`Store::peek`].
pub(super) fn peek<R>(store: &Store, key: &[u8], read: impl FnOnce(&Entry<'_>) -> R) -> Option<R> {
    store.peek(key, |entry| (!is_placeholder(&entry)).then(|| read(&entry))).flatten()
}

/// As [`Store::get_with`].
pub(super) fn get_with<R>(
    store: &Store,
    key: &[u8],
    read: impl FnOnce(&Entry<'_>) -> R,
) -> Option<R> {
    store.get_with(key, |entry| (!is_placeholder(&entry)).then(|| read(&entry))).flatten()
}
