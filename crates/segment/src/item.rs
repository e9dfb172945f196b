//! An item in its segment: a head of four to twelve bytes, the key, the value.
//!
//! ```text
//! head = u32: key bytes (8 bits), value bytes (20), width of the flags (2: 0, 1, 2 or 4 bytes),
//!        whether there is a deadline (1), whether there are marks (1)
//!        flags, as wide as they must be; deadline of three bytes, if there is one; u8 marks, if there are any
//! ```
//!
//! All is little-endian and nothing is aligned: padding to four bytes would take 1.5 bytes an item.
//! An item never changes once the index leads to it, so a thread that may access it reads it as
//! plain memory.

use std::ptr;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// The longest value, in bytes, if segments are large enough.
pub const VALUE_BYTES_MAX: usize = (1 << 20) - 1;

const WORD_BYTES: usize = 4;
const VALUE_SHIFT: u32 = 8;
const WIDTH_SHIFT: u32 = 28;
const DEADLINE: u32 = 1 << 30;
const DEADLINE_BYTES: usize = 3;
const MARKED: u32 = 1 << 31;
/// Bytes of flags, by the two bits that encode their number.
const WIDTHS: [usize; 4] = [0, 1, 2, 4];

/// The head of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) flags: u32,
    /// In units of its class from the base of its segment.
    pub(crate) deadline: Option<u32>,
    pub(crate) marks: u8,
}

impl Head {
    /// Which of [`WIDTHS`] the flags take.
    fn width(&self) -> usize {
        match self.flags {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 3,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let deadline = if self.deadline.is_some() { DEADLINE_BYTES } else { 0 };
        WORD_BYTES + WIDTHS[self.width()] + deadline + usize::from(self.marks != 0)
    }

    pub(crate) fn item_bytes(&self) -> usize {
        self.bytes() + self.key_bytes + self.value_bytes
    }

    /// Writes the head. Returns where the key begins.
    ///
    /// # Safety
    ///
    /// [`Head::item_bytes`] from `at` on are the caller's to write.
    pub(crate) unsafe fn write(&self, at: *mut u8) -> *mut u8 {
        let width = self.width();
        let word = self.key_bytes as u32
            | (self.value_bytes as u32) << VALUE_SHIFT
            | (width as u32) << WIDTH_SHIFT
            | if self.deadline.is_some() { DEADLINE } else { 0 }
            | if self.marks != 0 { MARKED } else { 0 };
        // SAFETY: the parts of the head lie one after the other in memory that the caller may
        // write.
        unsafe {
            ptr::copy_nonoverlapping(word.to_le_bytes().as_ptr(), at, WORD_BYTES);
            let at = at.add(WORD_BYTES);
            ptr::copy_nonoverlapping(self.flags.to_le_bytes().as_ptr(), at, WIDTHS[width]);
            let mut at = at.add(WIDTHS[width]);
            if let Some(deadline) = self.deadline {
                ptr::copy_nonoverlapping(deadline.to_le_bytes().as_ptr(), at, DEADLINE_BYTES);
                at = at.add(DEADLINE_BYTES);
            }
            if self.marks != 0 {
                *at = self.marks;
                at = at.add(1);
            }
            at
        }
    }

    /// Reads the head of an item.
    ///
    /// # Safety
    ///
    /// An item was written at `at`, and no thread writes there.
    #[inline]
    unsafe fn read(at: *const u8) -> Head {
        // SAFETY: the head is as long as its first word says, and lies in the item.
        unsafe {
            let word = u32::from_le_bytes(at.cast::<[u8; WORD_BYTES]>().read_unaligned());
            let at = at.add(WORD_BYTES);
            let width = WIDTHS[(word >> WIDTH_SHIFT & 3) as usize];
            let mut flags = [0; 4];
            if width > 0 {
                ptr::copy_nonoverlapping(at, flags.as_mut_ptr(), width);
            }
            let mut at = at.add(width);
            let mut deadline = None;
            if word & DEADLINE != 0 {
                let [low, middle, high] = at.cast::<[u8; DEADLINE_BYTES]>().read_unaligned();
                deadline = Some(u32::from_le_bytes([low, middle, high, 0]));
                at = at.add(DEADLINE_BYTES);
            }
            Head {
                key_bytes: (word & 0xff) as usize,
                value_bytes: (word >> VALUE_SHIFT) as usize & VALUE_BYTES_MAX,
                flags: u32::from_le_bytes(flags),
                deadline,
                marks: if word & MARKED != 0 { *at } else { 0 },
            }
        }
    }
}

/// An item in its segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) head: Head,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Item<'_> {
    /// The item at `at`.
    ///
    /// # Safety
    ///
    /// An item was written at `at`, and no thread writes there for `'a`.
    #[inline]
    pub(crate) unsafe fn at<'a>(at: *const u8) -> Item<'a> {
        // SAFETY: as the caller promises; key and value follow the head.
        unsafe {
            let head = Head::read(at);
            let key = at.add(head.bytes());
            Item {
                head,
                key: std::slice::from_raw_parts(key, head.key_bytes),
                value: std::slice::from_raw_parts(key.add(head.key_bytes), head.value_bytes),
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::lifetimes;

    #[test]
    fn items_are_read_as_they_were_written() {
        for flags in [0, 1, 0xff, 0x100, 0xffff, 0x1_0000, u32::MAX] {
            for deadline in [None, Some(0), Some(lifetimes::PACKED_MAX)] {
                let longest = if cfg!(miri) { 1 << 12 } else { VALUE_BYTES_MAX };
                for (key, value, marks) in
                    [(0, 0, 0), (0, 0, 9), (1, 3, 255), (255, 1000, 0), (16, longest, 1)]
                {
                    let head = Head { key_bytes: key, value_bytes: value, flags, deadline, marks };
                    let mut memory = vec![0xaa; head.item_bytes() + 1];
                    // SAFETY: the memory is as long as the item, and ours.
                    let item = unsafe {
                        let at = head.write(memory.as_mut_ptr());
                        ptr::write_bytes(at, b'k', key);
                        ptr::write_bytes(at.add(key), b'v', value);
                        Item::at(memory.as_ptr())
                    };
                    assert_eq!(item.head, head);
                    assert!(item.key.len() == key && item.key.iter().all(|&byte| byte == b'k'));
                    assert!(item.value.iter().all(|&byte| byte == b'v'));
                    assert!(item.value.len() == value && memory.last() == Some(&0xaa));
                    let large = flags > 0xffff && deadline.is_some();
                    assert!(head.bytes() - usize::from(marks != 0) <= 9 || large);
                }
            }
        }
    }
}
