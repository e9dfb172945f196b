//! All entries, a little at a time.

use std::time::Duration;

use crate::item::Item;
use crate::lifetimes;
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
    /// What is left of its lifetime.
    pub lifetime: Option<Duration>,
}

impl Store {
    /// Copies some entries out, about eight, and says where to go on; begin with 0. `None`: that
    /// was all. An entry that is there from begin to end is met once, whatever others do meanwhile.
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
        let now_ms = self.clock.now_ms();
        self.index.scan(cursor, &self.segments, |word| {
            let location = word.location();
            // SAFETY: the index leads to the item, and its stripe is locked meanwhile.
            let item = unsafe { Item::at(self.segments.mapping.at(location as usize)) };
            let segment = self.segments.get(self.segments.of(location));
            let class = segment.state().class();
            let deadline = item.head.deadline.map(|at| lifetimes::unpack(segment, class, at));
            if deadline.is_some_and(|deadline| deadline <= now_ms) {
                return;
            }
            out.push(Scanned {
                key: item.key.to_vec(),
                value: item.value.to_vec(),
                flags: item.head.flags,
                lifetime: deadline.map(|deadline| Duration::from_millis(deadline - now_ms)),
            });
        })
    }
}
