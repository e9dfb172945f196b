//! The operations of one thread, made before the clock starts.
//!
//! An operation is 4 bytes: two bits for its kind, the others for the object's number. The key is a
//! bijective hash of that number, computed on the fly in about a nanosecond: keys of 8 bytes, made
//! beforehand, would take twice the space in the processor's caches. A stream repeats from its
//! beginning.

use std::sync::Arc;

use frazil_policy::object_hash;

/// Seed of the hash from numbers to keys.
const KEY_SEED: u64 = 0x4b45_5953; // "KEYS"

const KIND_SHIFT: u32 = 30;
const NUMBER_MASK: u32 = (1 << KIND_SHIFT) - 1;

/// The most objects a stream can number.
pub const MAX_OBJECTS: u64 = 1 << KIND_SHIFT;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Look up, and insert on a miss.
    Get,
    /// Insert or replace without a look-up.
    Insert,
    /// Remove.
    Remove,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(u32);

impl Operation {
    /// The operation for the object of this number, which is below [`MAX_OBJECTS`].
    ///
    /// ```
    /// use frazil_driver::{Ask, Operation};
    /// assert_eq!(Operation::new(Ask::Insert, 7).ask(), Ask::Insert);
    /// ```
    #[inline]
    pub fn new(ask: Ask, number: u32) -> Self {
        Operation(((ask as u32) << KIND_SHIFT) | (number & NUMBER_MASK))
    }

    /// The kind of operation.
    #[inline]
    pub fn ask(self) -> Ask {
        match self.0 >> KIND_SHIFT {
            0 => Ask::Get,
            1 => Ask::Insert,
            _ => Ask::Remove,
        }
    }

    /// The key that a thread with this prefix requests.
    #[inline]
    pub fn key(self, prefix: u32) -> u64 {
        key(self.0 & NUMBER_MASK, prefix)
    }
}

/// The key of the object of this number under a prefix. A bijection, so that no two
/// objects share a key.
///
/// ```
/// assert_ne!(frazil_driver::key(7, 0), frazil_driver::key(7, 1));
/// ```
#[inline]
pub fn key(number: u32, prefix: u32) -> u64 {
    object_hash((u64::from(prefix) << 32) | u64::from(number), KEY_SEED)
}

/// The operations of one thread.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Shared by threads that request the same operations under different prefixes.
    pub(crate) operations: Arc<[Operation]>,
    pub(crate) prefix: u32,
}

impl Stream {
    /// Operations one after the other.
    ///
    /// ```
    /// use frazil_driver::{Ask, Operation, Stream};
    /// let stream = Stream::new(vec![Operation::new(Ask::Get, 3)], 0);
    /// assert_eq!(stream.len(), 1);
    /// ```
    pub fn new(operations: impl Into<Arc<[Operation]>>, prefix: u32) -> Self {
        Stream { operations: operations.into(), prefix }
    }

    /// The same stream, beginning after the first `operations` operations.
    ///
    /// ```
    /// use frazil_driver::{Ask, Operation, Stream};
    /// let of = |number| Operation::new(Ask::Get, number);
    /// let stream = Stream::new(vec![of(1), of(2), of(3)], 0);
    /// assert_eq!(format!("{:?}", stream.after(4)), format!("{:?}", stream.after(1)));
    /// ```
    pub fn after(&self, operations: usize) -> Self {
        let at = operations.checked_rem(self.len()).unwrap_or(0);
        if at == 0 {
            return self.clone();
        }
        let (before, after) = self.operations.split_at(at);
        Stream { operations: [after, before].concat().into(), prefix: self.prefix }
    }

    /// Operations until the stream repeats.
    ///
    /// ```
    /// assert_eq!(frazil_driver::Stream::new([], 0).len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    ///
    /// ```
    /// assert!(frazil_driver::Stream::new([], 0).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
