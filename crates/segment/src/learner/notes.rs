//! The sampled keys requested since the snapshot, and the value of unrequested ones that left
//! their segment.
//!
//! A fixed table of words, eight to a line. All words of a key lie in one line. They fill from
//! the first and are never emptied while keys are sampled, so two threads that note one key
//! meet at the same word.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;

/// Words of a line.
const LINE: usize = 8;
/// An entry: the hash without its lowest bits, a class of bytes, the row plus one.
const TAG_SHIFT: u32 = 22;
const CLASS_SHIFT: u32 = 14;
const ROW: u64 = (1 << CLASS_SHIFT) - 1;
/// Instead of a row: requested since the snapshot.
const SEEN: u64 = ROW;
/// The most rows.
pub(super) const ROWS_MAX: usize = 1 << 13;

/// The note of a key that is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Noted {
    /// No note; marked now if requested.
    Absent,
    /// The key's row, and its bytes, to an eighth. It is marked now.
    Row(u32, f32),
    /// The key was already marked, or there is no room to mark it.
    Seen,
}

#[derive(Debug)]
pub(super) struct Notes {
    words: Box<[AtomicU64]>,
}

impl Notes {
    /// A table of `words` words, a power of two from [`LINE`] on.
    pub(super) fn new(words: usize) -> Notes {
        Notes { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn room(&self) -> usize {
        self.words.len()
    }

    /// How many keys are noted. O(size of the table).
    pub(super) fn len(&self) -> usize {
        self.words.iter().filter(|word| word.load(Relaxed) != 0).count()
    }

    /// Forgets all. A note made meanwhile may be forgotten or not.
    pub(super) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }

    fn line(&self, hash: u64) -> &[AtomicU64] {
        let lines = self.words.len() / LINE;
        // Bits that are not in the tag.
        let first = (hash as usize & (lines - 1)) * LINE;
        &self.words[first..first + LINE]
    }

    /// Notes a key that leaves its segment, unless it was noted. False: there is no room.
    pub(super) fn note(&self, hash: u64, row: u32, bytes: usize) -> bool {
        let entry =
            hash >> TAG_SHIFT << TAG_SHIFT | class(bytes) << CLASS_SHIFT | (u64::from(row) + 1);
        for word in self.line(hash) {
            match word.compare_exchange(0, entry, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(there) if there >> TAG_SHIFT == hash >> TAG_SHIFT => return true,
                Err(_) => {}
            }
        }
        false
    }

    /// A key is requested. Marks it if it is present, or if `to_insert`.
    pub(super) fn request(&self, hash: u64, to_insert: bool) -> Noted {
        let entry = hash >> TAG_SHIFT << TAG_SHIFT | SEEN;
        for word in self.line(hash) {
            let mut there = word.load(Relaxed);
            if there == 0 {
                if !to_insert {
                    return Noted::Absent;
                }
                match word.compare_exchange(0, entry, Relaxed, Relaxed) {
                    Ok(_) => return Noted::Absent,
                    Err(other) => there = other,
                }
            }
            if there >> TAG_SHIFT == hash >> TAG_SHIFT {
                if there & ROW == SEEN {
                    return Noted::Seen;
                }
                // Only one of the threads that mark it at the same time credits its row.
                return match word.compare_exchange(there, entry, Relaxed, Relaxed) {
                    Ok(_) => Noted::Row((there & ROW) as u32 - 1, bytes(there)),
                    Err(_) => Noted::Seen,
                };
            }
        }
        if to_insert { Noted::Seen } else { Noted::Absent }
    }
}

/// Bytes as one of 256 classes, eight to a doubling.
fn class(bytes: usize) -> u64 {
    let bytes = bytes.max(8) as u64;
    let exponent = bytes.ilog2();
    (8 * u64::from(exponent - 3) + (bytes >> (exponent - 3) & 7)).min(255)
}

/// The smallest size in an entry's class.
fn bytes(entry: u64) -> f32 {
    let class = entry >> CLASS_SHIFT & 0xff;
    ((8 + class % 8) << (class / 8)) as f32
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_its_due_once() {
        let notes = Notes::new(16);
        assert_eq!(notes.request(7 << 40, false), Noted::Absent);
        assert!(notes.note(7 << 40, 3, 1000) && notes.note(7 << 40, 4, 9));
        assert_eq!(notes.request(7 << 40, true), Noted::Row(3, 960.0));
        assert_eq!(notes.request(7 << 40, true), Noted::Seen);
        assert_eq!(notes.request(8 << 40, true), Noted::Absent);
        assert_eq!(notes.request(8 << 40, true), Noted::Seen);
        // A requested item adds nothing when it leaves.
        assert!(notes.note(8 << 40, 5, 9));
        assert_eq!((notes.request(8 << 40, false), notes.len()), (Noted::Seen, 2));
        notes.clear();
        assert_eq!((notes.request(8 << 40, false), notes.len()), (Noted::Absent, 0));
    }

    #[test]
    fn a_full_line_refuses() {
        let notes = Notes::new(16);
        assert!((1..=8).all(|key| notes.note(key << 40, 0, 9)));
        assert!(!notes.note(9 << 40, 0, 9));
        // Otherwise it would count repeatedly.
        assert_eq!(notes.request(9 << 40, true), Noted::Seen);
        assert_eq!(notes.request(9 << 40, false), Noted::Absent);
        assert!(notes.note(9 << 40 | 1, 0, 9), "the other line");
    }

    #[test]
    fn bytes_are_kept_to_an_eighth() {
        for length in [8usize, 9, 15, 16, 100, 1000, 4096, 1 << 20] {
            let kept = bytes(class(length) << CLASS_SHIFT);
            assert!(kept <= length as f32 && kept > length as f32 * 0.88, "{length}: {kept}");
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn a_key_that_two_ask_for_gives_its_due_once() {
        for is_noted in [false, true] {
            loom::model(move || {
                let notes = Arc::new(Notes::new(8));
                if is_noted {
                    notes.note(7 << 40, 3, 100);
                }
                let other = Arc::clone(&notes);
                let other = thread::spawn(move || other.request(7 << 40, true));
                let answers = [notes.request(7 << 40, true), other.join().unwrap()];
                let seen = answers.iter().filter(|&&answer| answer == Noted::Seen).count();
                assert_eq!((seen, notes.len()), (1, 1), "{answers:?}");
            });
        }
    }

    /// A key leaves its segment while it is requested: in either order, it has one word.
    #[test]
    fn a_key_that_leaves_while_it_is_asked_for_is_noted_once() {
        loom::model(|| {
            let notes = Arc::new(Notes::new(8));
            let evictor = Arc::clone(&notes);
            let evictor = thread::spawn(move || assert!(evictor.note(7 << 40, 3, 100)));
            let answer = notes.request(7 << 40, true);
            evictor.join().unwrap();
            assert!(matches!(answer, Noted::Absent | Noted::Row(3, _)), "{answer:?}");
            assert_eq!((notes.request(7 << 40, true), notes.len()), (Noted::Seen, 1));
        });
    }
}
