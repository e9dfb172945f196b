//! A scan of all entries, a few at a time.

use std::time::Duration;

use crate::Entry;
use crate::store::Store;

/// An entry that was copied out ([`Store::scan`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scanned {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// [`Attributes::flags`](crate::Attributes::flags).
    pub flags: u32,
    /// [`Attributes::marks`](crate::Attributes::marks).
    pub marks: u8,
    /// [`Entry::requested`](crate::Entry::requested).
    pub requested: bool,
    /// [`Entry::opened_ms`](crate::Entry::opened_ms).
    pub opened_ms: u64,
    /// [`Entry::cas`](crate::Entry::cas).
    pub cas: u64,
    /// The rest of its lifetime.
    pub lifetime: Option<Duration>,
}

impl From<&Entry<'_>> for Scanned {
    fn from(entry: &Entry<'_>) -> Scanned {
        Scanned {
            key: entry.key.to_vec(),
            value: entry.value.to_vec(),
            flags: entry.flags,
            marks: entry.marks,
            requested: entry.requested,
            opened_ms: entry.opened_ms,
            cas: entry.cas,
            lifetime: entry.lifetime,
        }
    }
}

impl Store {
    /// Copies some entries out, about ten and at most 456, and returns where to continue; begin
    /// with 0. `None`: the scan is complete. An entry present from the first call to the last is
    /// returned exactly once, whatever other threads do meanwhile. Entries are copied under
    /// guards ([`Store::hold`]), without a lock.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let mut entries = Vec::new();
    /// let mut cursor = Some(0);
    /// while let Some(at) = cursor {
    ///     cursor = store.scan(at, &mut entries);
    /// }
    /// assert_eq!(entries[0].key, b"key");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(&self, cursor: u64, out: &mut Vec<Scanned>) -> Option<u64> {
        self.scan_with(cursor, |entry| out.push(entry.into()))
    }

    /// As [`Store::scan`], but shows the entries in place and copies nothing. `each` runs under
    /// guards: the segments of the entries it is shown are not evicted meanwhile.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let (mut bytes, mut cursor) = (0, Some(0));
    /// while let Some(at) = cursor {
    ///     cursor = store.scan_with(at, |entry| bytes += entry.value.len());
    /// }
    /// assert_eq!(bytes, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan_with(&self, cursor: u64, mut each: impl FnMut(&Entry<'_>)) -> Option<u64> {
        let mut held = Vec::new();
        let next = self.index.scan(cursor, &self.segments, |locked, place, word| {
            let found = self.found_locked(locked, place, word);
            if !self.is_gone(&found) {
                held.push(self.guard(&found));
            }
        });
        held.iter().for_each(|held| each(held.entry()));
        next
    }
}
