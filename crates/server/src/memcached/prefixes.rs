//! The counts of `stats detail`: requests by prefix of their keys.

use std::collections::BTreeMap;

use memchr::memchr;

/// Prefixes counted; later ones are ignored.
const PREFIXES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// Counts by prefix.
#[derive(Debug)]
pub(super) struct Prefixes {
    delimiter: u8,
    counts: BTreeMap<Box<[u8]>, Counts>,
}

impl Prefixes {
    pub(super) fn new(delimiter: u8) -> Prefixes {
        Prefixes { delimiter, counts: BTreeMap::new() }
    }

    pub(super) fn got(&mut self, key: &[u8], is_hit: bool) {
        if let Some(counts) = self.of(key) {
            counts.gets += 1;
            counts.hits += u64::from(is_hit);
        }
    }

    pub(super) fn set(&mut self, key: &[u8]) {
        if let Some(counts) = self.of(key) {
            counts.sets += 1;
        }
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        if let Some(counts) = self.of(key) {
            counts.deletes += 1;
        }
    }

    fn of(&mut self, key: &[u8]) -> Option<&mut Counts> {
        let prefix = &key[..memchr(self.delimiter, key)?];
        if !self.counts.contains_key(prefix) {
            if self.counts.len() == PREFIXES_MAX {
                return None;
            }
            self.counts.insert(prefix.into(), Counts::default());
        }
        self.counts.get_mut(prefix)
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Appends a line for each prefix.
    pub(super) fn dump(&self, out: &mut Vec<u8>) {
        for (prefix, Counts { gets, hits, sets, deletes }) in &self.counts {
            out.extend_from_slice(b"PREFIX ");
            // A key given in base 64 may hold any bytes, including an end of line.
            out.extend(
                prefix.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }),
            );
            let counts = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(counts.as_bytes());
        }
    }
}
