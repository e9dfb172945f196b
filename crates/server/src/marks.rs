//! The marks of an entry, for all protocols ([`frazil_segment::Attributes::marks`]).

use frazil_segment::Entry;

/// A stale entry: it was invalidated, and may be served while one client fetches it anew.
pub(crate) const STALE: u8 = 1;
/// A client has won the entry: it is to bring the value.
pub(crate) const WON: u8 = 2;
/// The key was written in base 64.
pub(crate) const BINARY: u8 = 4;

/// Whether an entry has no value yet, only the mark of the client that is to bring it.
#[inline]
pub(crate) fn is_placeholder(entry: &Entry<'_>) -> bool {
    entry.marks & (WON | STALE) == WON && entry.value.is_empty()
}
