//! An item: key, value and metadata in one allocation, with a count of its owners.
//!
//! ```text
//! owners  flags  cas  deadline, ms  value bytes  written, s  key bytes  marks  requested │ key │ value
//!      4      4    8             8            4           4          2      1          1
//! ```

use std::alloc::{self, Layout};
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, fence};

/// The deadline of an item that never expires.
pub(super) const FOREVER_MS: u64 = u64::MAX;

/// The metadata of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) flags: u32,
    pub(super) marks: u8,
    pub(super) cas: u64,
    /// The deadline in the store's time; [`FOREVER_MS`]: never.
    pub(super) deadline_ms: u64,
    /// The time of the write, in the store's time.
    pub(super) written_ms: u64,
    pub(super) requested: bool,
}

#[repr(C)]
struct Head {
    owners: AtomicU32,
    flags: u32,
    cas: u64,
    deadline_ms: u64,
    value_bytes: u32,
    written_s: u32,
    key_bytes: u16,
    marks: u8,
    requested: AtomicU8,
}

const HEAD_BYTES: usize = size_of::<Head>();
/// The bit of `requested` for any request. The others are the period of the last one.
const REQUESTED: u8 = 1;
/// Unit of what the system maps.
const PAGE_BYTES: usize = 4 << 10;

/// A pointer to an item. Each clone is one more owner of the same item.
pub(crate) struct Item(NonNull<Head>);

// SAFETY: the item is changed by atomic operations only, and freed by its last owner.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

impl Item {
    /// Copies key and value into an item. `None` if one is too long for its field of length.
    pub(super) fn new(key: &[u8], value: &[u8], parts: Parts) -> Option<Item> {
        let key_bytes = u16::try_from(key.len()).ok()?;
        let value_bytes = u32::try_from(value.len()).ok()?;
        let layout = layout(key.len(), value.len())?;
        // SAFETY: the layout has at least the size of a head, so not 0.
        let Some(at) = NonNull::new(unsafe { alloc::alloc(layout) }) else {
            alloc::handle_alloc_error(layout)
        };
        let head = Head {
            owners: AtomicU32::new(1),
            flags: parts.flags,
            cas: parts.cas,
            deadline_ms: parts.deadline_ms,
            value_bytes,
            written_s: u32::try_from(parts.written_ms / 1000).unwrap_or(u32::MAX),
            key_bytes,
            marks: parts.marks,
            requested: AtomicU8::new(if parts.requested { REQUESTED } else { 0 }),
        };
        // SAFETY: the allocation is aligned for a head, and has space for head, key and value in this order. It is
        // new, so it overlaps neither `key` nor `value`.
        unsafe {
            at.cast::<Head>().write(head);
            let to = at.add(HEAD_BYTES);
            to.copy_from_nonoverlapping(NonNull::from_ref(key).cast(), key.len());
            let to = to.add(key.len());
            to.copy_from_nonoverlapping(NonNull::from_ref(value).cast(), value.len());
        }
        Some(Item(at.cast()))
    }

    fn head(&self) -> &Head {
        // SAFETY: it was written when the item was made, and is not freed while it has an owner such as this one.
        unsafe { self.0.as_ref() }
    }

    fn bytes(&self, from: usize, bytes: usize) -> &[u8] {
        // SAFETY: the caller names the key or the value. They follow the head in the same allocation, were written
        // when the item was made, and never change.
        unsafe {
            std::slice::from_raw_parts(self.0.cast::<u8>().as_ptr().add(HEAD_BYTES + from), bytes)
        }
    }

    pub(super) fn key(&self) -> &[u8] {
        self.bytes(0, self.head().key_bytes.into())
    }

    pub(super) fn value(&self) -> &[u8] {
        self.bytes(self.head().key_bytes.into(), self.head().value_bytes as usize)
    }

    pub(super) fn parts(&self) -> Parts {
        let head = self.head();
        Parts {
            flags: head.flags,
            marks: head.marks,
            cas: head.cas,
            deadline_ms: head.deadline_ms,
            written_ms: u64::from(head.written_s) * 1000,
            requested: head.requested.load(Relaxed) & REQUESTED != 0,
        }
    }

    /// Notes a request, and returns whether it is the first since `period` changed. Writes the cache line then only, so
    /// that later look-ups of all threads share it.
    pub(super) fn request(&self, period: u8) -> bool {
        let requested = &self.head().requested;
        let noted = period << 1 | REQUESTED;
        let is_first = requested.load(Relaxed) != noted;
        if is_first {
            requested.store(noted, Relaxed);
        }
        is_first
    }

    /// Bytes of memory of the item.
    pub(super) fn allocated_bytes(&self) -> usize {
        allocated_bytes(self.head().key_bytes.into(), self.head().value_bytes as usize)
    }
}

/// Bytes of memory of an item, with the overhead of the C library's allocator: a word, rounded up to the next 16.
pub(super) fn allocated_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (HEAD_BYTES + key_bytes + value_bytes + size_of::<usize>()).next_multiple_of(16)
}

/// The same for an item that is so large that the allocator maps it separately: with a word more, in pages.
pub(super) fn mapped_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    (allocated_bytes(key_bytes, value_bytes) + size_of::<usize>()).next_multiple_of(PAGE_BYTES)
}

fn layout(key_bytes: usize, value_bytes: usize) -> Option<Layout> {
    Layout::from_size_align(HEAD_BYTES + key_bytes + value_bytes, align_of::<Head>()).ok()
}

impl Clone for Item {
    fn clone(&self) -> Item {
        // Relaxed: the owner that is cloned keeps the item alive. The count cannot overflow: the owners are the
        // cache's two, and those that threads hold for one request each.
        self.head().owners.fetch_add(1, Relaxed);
        Item(self.0)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        // Release: partner of the fence below, in the last owner. Its free comes after the reads of all others.
        if self.head().owners.fetch_sub(1, Release) != 1 {
            return;
        }
        fence(Acquire);
        if let Some(layout) = layout(self.key().len(), self.value().len()) {
            // SAFETY: it was allocated with this layout, and has no owner left.
            unsafe { alloc::dealloc(self.0.cast().as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key().escape_ascii().to_string())
            .finish_non_exhaustive()
    }
}

impl Borrow<[u8]> for Item {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts = Parts {
        flags: 7,
        marks: 3,
        cas: 9,
        deadline_ms: FOREVER_MS,
        written_ms: 12_345,
        requested: false,
    };

    #[test]
    fn an_item_is_what_it_was_made_of_until_its_last_owner_goes() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b""), (b"key", &[5; 70_000])] {
            let item = Item::new(key, value, PARTS).unwrap();
            let other = item.clone();
            let owners = |item: &Item| item.head().owners.load(Relaxed);
            assert_eq!(owners(&item), 2);
            drop(item);
            assert_eq!(owners(&other), 1);
            let read = std::thread::spawn(move || {
                assert_eq!([3, 3, 4].map(|period| other.request(period)), [true, false, true]);
                assert!(other.parts().requested);
                (other.key().to_vec(), other.value().to_vec(), other.parts())
            });
            let (read_key, read_value, parts) = read.join().unwrap();
            assert_eq!((&read_key[..], &read_value[..]), (key, value));
            assert_eq!((parts.flags, parts.marks, parts.cas, parts.written_ms), (7, 3, 9, 12_000));
        }
        assert!(Item::new(&[0; 1 << 16], b"", PARTS).is_none());
    }
}
