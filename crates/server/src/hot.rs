//! The keys with most bytes read and written, by a sample of requests.
//!
//! Each thread has its own sketch (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k
//! elements in data streams", ICDT 2005): a new key takes the slot with the least sum, and adds to it. So no sum is
//! too large by more than the least one, and each key with more bytes than that has a slot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

/// Keys kept by a thread.
const SLOTS: usize = 256;

/// The sketches of all threads.
#[derive(Debug)]
pub(crate) struct HotKeys {
    /// The end of counting; 0: no requests are counted.
    until_ms: AtomicU64,
    /// By thread.
    sketches: Box<[Mutex<Sketch>]>,
}

/// A key and its bytes.
pub(crate) type Sum = (Box<[u8]>, u64);

/// The keys of one thread.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    /// One request in this many is counted.
    ratio: u64,
    /// Keys counted, and their bytes.
    seen: u64,
    bytes: u64,
    kept: HashMap<Box<[u8]>, u64>,
}

impl Sketch {
    /// Counts a key of a request.
    pub(crate) fn note(&mut self, key: &[u8], bytes: usize) {
        let bytes = bytes as u64;
        self.seen += 1;
        self.bytes += bytes;
        if !mix(self.seen).is_multiple_of(self.ratio.max(1)) {
            return;
        }
        if let Some(sum) = self.kept.get_mut(key) {
            *sum += bytes;
            return;
        }
        let mut before = 0;
        if self.kept.len() == SLOTS
            && let Some((least, sum)) = self.kept.iter().min_by_key(|(_, sum)| **sum)
        {
            let least = least.clone();
            before = *sum;
            self.kept.remove(&least);
        }
        self.kept.insert(key.into(), before + bytes);
    }
}

impl HotKeys {
    pub(crate) fn new(threads: usize) -> HotKeys {
        HotKeys {
            until_ms: AtomicU64::new(0),
            sketches: (0..threads).map(|_| Mutex::default()).collect(),
        }
    }

    /// The sketch of a thread, while requests are counted.
    #[inline]
    pub(crate) fn of(&self, thread: usize, now_ms: u64) -> Option<MutexGuard<'_, Sketch>> {
        (self.until_ms.load(Relaxed) > now_ms).then(|| self.sketches[thread].lock())
    }

    /// The keys with most bytes, and the bytes of all keys.
    pub(crate) fn hottest(&self, count: usize) -> (Vec<Sum>, u64) {
        let mut sums = HashMap::<Box<[u8]>, u64>::new();
        let mut all = 0;
        for sketch in &self.sketches {
            let sketch = sketch.lock();
            all += sketch.bytes;
            for (key, sum) in &sketch.kept {
                *sums.entry(key.clone()).or_default() += sum;
            }
        }
        let mut hottest: Vec<_> = sums.into_iter().collect();
        hottest.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        hottest.truncate(count);
        (hottest, all)
    }

    /// Counts until a time, one request in `ratio`.
    pub(crate) fn start(&self, ratio: u64, until_ms: u64) {
        self.clear(ratio);
        self.until_ms.store(until_ms, Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.until_ms.store(0, Relaxed);
    }

    pub(crate) fn clear(&self, ratio: u64) {
        for sketch in &self.sketches {
            *sketch.lock() = Sketch { ratio, ..Sketch::default() };
        }
    }
}

/// Pseudo-random bits (SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_many_bytes_keep_their_slots() {
        let mut sketch = Sketch { ratio: 1, ..Sketch::default() };
        for round in 0..2000_u64 {
            sketch.note(format!("hot{}", round % 4).as_bytes(), 500);
            sketch.note(format!("cold{round}").as_bytes(), 10);
            if round % 300 == 299 || round == 1999 {
                sketch.note(b"rare", 10);
            }
        }
        let (seen, bytes) = (4000 + 7, 2000 * 510 + 7 * 10);
        assert_eq!((sketch.seen, sketch.bytes, sketch.kept.len()), (seen, bytes, SLOTS));
        // It had no slot in between.
        assert!(sketch.kept[&b"rare"[..]] >= 7 * 10);
        for hot in 0..4 {
            assert_eq!(sketch.kept[format!("hot{hot}").as_bytes()], 500 * 500);
        }
        // The least sum is at most the mean, and bounds the error of every sum.
        assert!(sketch.kept.values().min().unwrap() <= &(sketch.bytes / SLOTS as u64));
    }

    #[test]
    fn one_in_ratio_is_counted() {
        let mut sketch = Sketch { ratio: 100, ..Sketch::default() };
        (0..100_000).for_each(|_| sketch.note(b"key", 1));
        assert_eq!(sketch.bytes, 100_000);
        assert!((900..1100).contains(&sketch.kept[&b"key"[..]]), "{:?}", sketch.kept);
    }
}
