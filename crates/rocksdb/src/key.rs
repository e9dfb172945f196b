//! Keys: any number of bytes, represented in 16. Keys of RocksDB's blocks have 16 bytes and lie in
//! the entry's cache line.

use std::hash::{Hash, Hasher};

use equivalent::Equivalent;

/// The second word of a key that lies elsewhere. A key of 16 bytes that ends in this word also
/// lies elsewhere, so the word is unambiguous.
const ELSEWHERE: u64 = 0x8f1b_bcdc_bfa5_3e0b;

/// The key of an entry.
#[derive(Debug)]
pub(crate) struct Key {
    /// The first 8 bytes of the key, or where it lies.
    first: *mut Elsewhere,
    second: u64,
}

#[derive(Debug)]
struct Elsewhere {
    bytes: Box<[u8]>,
    /// Whether no look-up finds the key.
    is_nameless: bool,
}

// SAFETY: a key owns its bytes, and nothing changes them.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    /// O(length).
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match words(bytes) {
            Some([first, second]) if second != ELSEWHERE => {
                Key { first: std::ptr::without_provenance_mut(first as usize), second }
            }
            _ => Key::elsewhere(bytes, false),
        }
    }

    /// A key that is equal to no other.
    pub(crate) fn nameless(bytes: &[u8]) -> Self {
        Key::elsewhere(bytes, true)
    }

    #[cold]
    fn elsewhere(bytes: &[u8], is_nameless: bool) -> Self {
        let elsewhere = Elsewhere { bytes: bytes.into(), is_nameless };
        Key { first: Box::into_raw(Box::new(elsewhere)), second: ELSEWHERE }
    }

    #[inline(always)]
    fn lies_elsewhere(&self) -> Option<&Elsewhere> {
        // SAFETY: then it came from a box, which this owns.
        (self.second == ELSEWHERE).then(|| unsafe { &*self.first })
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.lies_elsewhere() {
            Some(elsewhere) => &elsewhere.bytes,
            // SAFETY: both words are initialised, and have no padding between them.
            None => unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), 16) },
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lies_elsewhere().map_or(0, |elsewhere| size_of::<Elsewhere>() + elsewhere.bytes.len())
    }
}

// `bytes` reads both words in place.
const _: () = assert!(size_of::<Key>() == 16);

impl Drop for Key {
    #[inline]
    fn drop(&mut self) {
        if self.second == ELSEWHERE {
            // SAFETY: it came from a box, which this owns.
            drop(unsafe { Box::from_raw(self.first) });
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (self.lies_elsewhere(), other.lies_elsewhere()) {
            (None, None) => self.first == other.first && self.second == other.second,
            (Some(one), Some(another)) => {
                let are_named = !one.is_nameless && !another.is_nameless;
                std::ptr::eq(one, another) || are_named && one.bytes == another.bytes
            }
            _ => false,
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        Query(self.bytes()).hash(state);
    }
}

/// The form of a key for look-ups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'k>(pub(crate) &'k [u8]);

impl Hash for Query<'_> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match words(self.0) {
            Some([first, second]) => {
                state.write_u64(first);
                state.write_u64(second);
            }
            None => state.write(self.0),
        }
    }
}

impl Equivalent<Key> for Query<'_> {
    #[inline(always)]
    fn equivalent(&self, key: &Key) -> bool {
        match key.lies_elsewhere() {
            None => words(self.0) == Some([key.first.addr() as u64, key.second]),
            Some(elsewhere) => !elsewhere.is_nameless && *elsewhere.bytes == *self.0,
        }
    }
}

/// Keys of 16 bytes as words, in the order of memory.
#[inline(always)]
fn words(bytes: &[u8]) -> Option<[u64; 2]> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    let (first, second) = bytes.split_at(8);
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    Some([word(first)?, word(second)?])
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use foldhash::fast::FixedState;

    use super::*;

    #[test]
    fn keys_of_any_length_are_found_by_their_bytes() {
        let mut odd = [7; 16];
        odd[8..].copy_from_slice(&ELSEWHERE.to_ne_bytes());
        let long = vec![9; 1 << 16];
        let state = FixedState::with_seed(1);
        let all: [&[u8]; 6] = [b"", b"a", b"fifteen bytes..", b"sixteen bytes...", &odd, &long];
        for (at, bytes) in all.iter().enumerate() {
            let key = Key::new(bytes);
            assert_eq!(key.bytes(), *bytes);
            assert_eq!(state.hash_one(&key), state.hash_one(Query(bytes)));
            for (other, bytes) in all.iter().enumerate() {
                assert_eq!(Query(bytes).equivalent(&key), at == other);
                assert_eq!(Key::new(bytes) == key, at == other);
            }
            let nameless = Key::nameless(bytes);
            assert!(!Query(bytes).equivalent(&nameless) && nameless != key);
            assert_ne!(nameless, Key::nameless(bytes));
        }
        assert_eq!(Key::new(b"sixteen bytes...").heap_bytes(), 0);
        assert!(Key::new(&odd).heap_bytes() > 16, "it cannot be told from one that lies elsewhere");
    }
}
