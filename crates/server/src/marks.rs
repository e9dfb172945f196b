//! What an entry's marks say of it, for all protocols ([`frazil_segment::Attributes::marks`]).

use frazil_segment::Entry;

/// An entry is stale: it was invalidated, and may be served while one client fetches it anew.
pub(crate) const STALE: u8 = 1;
/// One client was told that it should bring the value.
pub(crate) const WON: u8 = 2;
/// The key was written in base 64.
pub(crate) const BINARY: u8 = 4;

/// Whether an entry only says that a client has won its key and is to bring the value.
#[inline]
pub(crate) fn is_placeholder(entry: &Entry<'_>) -> bool {
    entry.marks & (WON | STALE) == WON && entry.value.is_empty()
}
