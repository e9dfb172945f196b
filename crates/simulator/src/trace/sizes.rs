//! Sizes in little memory: 4 bytes each while all are below 4 GiB, else 8.

use std::collections::TryReserveError;
use std::ops::Range;

/// Sizes in bytes, one for each record.
///
/// ```
/// use frazil_simulator::trace::Sizes;
///
/// let mut sizes = Sizes::from(vec![512, 64]);
/// sizes.push(5 << 30); // from here on each takes 8 bytes
/// assert_eq!(sizes.get(0), Some(512));
/// assert_eq!(sizes.iter().max(), Some(5 << 30));
/// ```
#[derive(Clone, Debug)]
pub struct Sizes(Kept);

#[derive(Clone, Debug)]
enum Kept {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Sizes {
    /// Number of sizes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Narrow(sizes) => sizes.len(),
            Kept::Wide(sizes) => sizes.len(),
        }
    }

    /// Whether there is none, as in a trace without sizes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size at a place, counted from 0; `None` beyond the last.
    #[inline]
    pub fn get(&self, place: usize) -> Option<u64> {
        match &self.0 {
            Kept::Narrow(sizes) => sizes.get(place).map(|&size| u64::from(size)),
            Kept::Wide(sizes) => sizes.get(place).copied(),
        }
    }

    /// All sizes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        (0..self.len()).map(|place| self.get(place).unwrap_or_default())
    }

    /// Sum of the sizes at `places`. O(places).
    ///
    /// # Panics
    ///
    /// If a place is beyond the last.
    pub fn sum(&self, places: Range<usize>) -> u64 {
        match &self.0 {
            Kept::Narrow(sizes) => sizes[places].iter().map(|&size| u64::from(size)).sum(),
            Kept::Wide(sizes) => sizes[places].iter().sum(),
        }
    }

    /// Adds a size. O(1) amortised; the first of 4 GiB or more copies all.
    pub fn push(&mut self, size: u64) {
        match &mut self.0 {
            Kept::Wide(sizes) => sizes.push(size),
            Kept::Narrow(sizes) => match u32::try_from(size) {
                Ok(size) => sizes.push(size),
                Err(_) => self.widen().push(size),
            },
        }
    }

    /// Replaces the size at a place, and returns the previous one. O(1), except for the first of 4
    /// GiB or more.
    ///
    /// # Panics
    ///
    /// If the place is beyond the last.
    #[inline]
    pub fn set(&mut self, place: usize, size: u64) -> u64 {
        match &mut self.0 {
            Kept::Wide(sizes) => std::mem::replace(&mut sizes[place], size),
            Kept::Narrow(sizes) => match u32::try_from(size) {
                Ok(size) => u64::from(std::mem::replace(&mut sizes[place], size)),
                Err(_) => std::mem::replace(&mut self.widen()[place], size),
            },
        }
    }

    /// Changes the number of sizes to `len`; new ones are 0.
    pub(crate) fn resize(&mut self, len: usize) {
        match &mut self.0 {
            Kept::Narrow(sizes) => sizes.resize(len, 0),
            Kept::Wide(sizes) => sizes.resize(len, 0),
        }
    }

    /// Reserves memory for `more` sizes, or fails without it.
    pub(crate) fn try_reserve(&mut self, more: usize) -> Result<(), TryReserveError> {
        match &mut self.0 {
            Kept::Narrow(sizes) => sizes.try_reserve(more),
            Kept::Wide(sizes) => sizes.try_reserve(more),
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut Vec<u64> {
        let wide = self.iter().collect();
        self.0 = Kept::Wide(wide);
        match &mut self.0 {
            Kept::Wide(sizes) => sizes,
            Kept::Narrow(_) => unreachable!("it is wide now"),
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes(Kept::Narrow(Vec::new()))
    }
}

impl From<Vec<u32>> for Sizes {
    fn from(sizes: Vec<u32>) -> Self {
        Sizes(Kept::Narrow(sizes))
    }
}

impl Extend<u64> for Sizes {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, sizes: I) {
        sizes.into_iter().for_each(|size| self.push(size));
    }
}

impl FromIterator<u64> for Sizes {
    fn from_iter<I: IntoIterator<Item = u64>>(iter: I) -> Self {
        let mut sizes = Sizes::default();
        sizes.extend(iter);
        sizes
    }
}

impl PartialEq for Sizes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Sizes {}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = 5 << 30;

    #[test]
    fn sizes_are_kept_whatever_their_width() {
        let mut sizes: Sizes = [1, u64::from(u32::MAX)].into_iter().collect();
        assert!(matches!(sizes.0, Kept::Narrow(_)));
        let narrow = sizes.clone();
        sizes.push(LARGE);
        assert!(matches!(sizes.0, Kept::Wide(_)));
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [1, u64::from(u32::MAX), LARGE]);
        assert_eq!(sizes.sum(1..3), u64::from(u32::MAX) + LARGE);
        assert_eq!((sizes.set(2, 7), sizes.get(2), sizes.get(3)), (LARGE, Some(7), None));

        let mut changed = narrow.clone();
        assert_eq!(changed.set(0, LARGE), 1);
        assert_eq!((changed.get(0), changed.get(1)), (Some(LARGE), narrow.get(1)));
        assert_ne!(changed, narrow);
        changed.set(0, 1);
        assert_eq!(changed, narrow, "equal by value, not by width");
        changed.resize(3);
        assert_eq!((changed.len(), changed.get(2)), (3, Some(0)));
    }
}
