//! Sizes of records that do not say theirs: an access log has the size only in a full answer, and
//! a column may have an empty field.
//!
//! The size is that of the object's last record with a size, or else of its first one. An object
//! without any has the mean size of the others. 4 bytes for each record without a size, and 8 an
//! object once the trace is read.

use super::{SIZE_UNKNOWN, Sizes};

/// The records without a size.
#[derive(Default)]
pub(super) struct UnknownSizes {
    records: Vec<u32>,
}

impl UnknownSizes {
    /// Notes the record at a place if its size is unknown; returns the size to keep.
    #[inline]
    pub(super) fn keep(&mut self, place: usize, size: u64) -> u64 {
        if size == SIZE_UNKNOWN {
            self.records.push(place as u32);
            return 0;
        }
        size
    }

    /// Fills the sizes, and returns the number of objects without any. O(records).
    pub(super) fn fill(&self, ids: &[u32], objects: usize, sizes: &mut Sizes) -> u64 {
        if self.records.is_empty() {
            return 0;
        }
        let mut first = vec![SIZE_UNKNOWN; objects];
        let mut unknown = self.records.iter().copied().peekable();
        for (place, &id) in ids.iter().enumerate() {
            if unknown.next_if_eq(&(place as u32)).is_none() && first[id as usize] == SIZE_UNKNOWN {
                first[id as usize] = sizes.get(place).unwrap_or_default();
            }
        }
        let known: Vec<u64> = first.iter().copied().filter(|&it| it != SIZE_UNKNOWN).collect();
        let sum: u128 = known.iter().map(|&it| u128::from(it)).sum();
        // Without any size all objects are alike.
        let mean = sum.checked_div(known.len() as u128).map_or(1, |mean| mean.max(1) as u64);
        let without = (objects - known.len()) as u64;
        let mut last = first;
        last.iter_mut().filter(|it| **it == SIZE_UNKNOWN).for_each(|it| *it = mean);
        let mut unknown = self.records.iter().copied().peekable();
        for (place, &id) in ids.iter().enumerate() {
            if unknown.next_if_eq(&(place as u32)).is_some() {
                sizes.set(place, last[id as usize]);
            } else {
                last[id as usize] = sizes.get(place).unwrap_or_default();
            }
        }
        without
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(ids: &[u32], given: &[u64]) -> (Vec<u64>, u64) {
        let mut unknown = UnknownSizes::default();
        let mut sizes: Sizes =
            given.iter().enumerate().map(|(place, &size)| unknown.keep(place, size)).collect();
        let objects = ids.iter().max().map_or(0, |most| *most as usize + 1);
        let without = unknown.fill(ids, objects, &mut sizes);
        (sizes.iter().collect(), without)
    }

    #[test]
    fn the_last_size_counts_then_the_first_then_the_mean() {
        const NONE: u64 = SIZE_UNKNOWN;
        let (sizes, without) = filled(&[0, 1, 0, 0, 2, 0, 1], &[NONE, 10, 6, NONE, NONE, 8, NONE]);
        assert_eq!((sizes, without), (vec![6, 10, 6, 6, 8, 8, 10], 1));
        assert_eq!(filled(&[0, 0], &[NONE, NONE]), (vec![1, 1], 1));
        assert_eq!(filled(&[0, 0], &[5, 0]), (vec![5, 0], 0));
    }
}
