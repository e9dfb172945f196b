//! The marks of an entry, for all protocols ([`frazil_segment::Attributes::marks`]).

use frazil_segment::{Attributes, Entry};

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

/// Whether an entry of a snapshot outlives the server that wrote it. It does without the mark of who had won its key, whose
/// connection is gone; what was only that mark does not.
pub(crate) fn outlives(value: &[u8], attributes: &mut Attributes) -> bool {
    let mut entry = Entry::new(b"", value);
    entry.marks = attributes.marks;
    attributes.marks &= !WON;
    !is_placeholder(&entry)
}
