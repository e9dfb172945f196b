//! Dense numbers in as few bits as they need: for traces that are in memory already, beside which
//! little is to be kept.

use std::ops::Range;

/// Numbers in a part. A replay reads as many at once.
const PART: usize = 1 << 14;
/// A number is read and written by eight bytes, also the last one of a part.
const WORD: usize = 8;

/// Numbers below 2^32, part by part with as many bits as the largest of the part.
///
/// ```
/// use frazil_simulator::trace::Packed;
///
/// let mut packed = Packed::default();
/// packed.extend(&[3, 0, 7, 1]);
/// let mut numbers = Vec::new();
/// packed.read(1..3, &mut numbers);
/// assert_eq!(numbers, [0, 7]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    parts: Vec<Part>,
    /// The numbers behind the last whole part.
    rest: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    bits: u32,
    bytes: Box<[u8]>,
}

impl Packed {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.parts.len() * PART + self.rest.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends numbers.
    pub fn extend(&mut self, mut numbers: &[u32]) {
        while !numbers.is_empty() {
            let (some, others) = numbers.split_at(numbers.len().min(PART - self.rest.len()));
            self.rest.extend_from_slice(some);
            numbers = others;
            if self.rest.len() == PART {
                self.parts.push(Part::of(&self.rest));
                self.rest.clear();
            }
        }
    }

    /// Appends the numbers of a range to `out`. O(length of the range).
    ///
    /// # Panics
    ///
    /// If the range goes beyond the last number.
    pub fn read(&self, range: Range<usize>, out: &mut Vec<u32>) {
        let whole = self.parts.len() * PART;
        let mut at = range.start;
        while at < range.end.min(whole) {
            let end = range.end.min((at / PART + 1) * PART);
            let first = at % PART;
            self.parts[at / PART].read(first..first + (end - at), out);
            at = end;
        }
        if at < range.end {
            out.extend_from_slice(&self.rest[at - whole..range.end - whole]);
        }
    }
}

impl Part {
    fn of(numbers: &[u32]) -> Self {
        let largest = numbers.iter().copied().max().unwrap_or_default();
        let bits = u32::BITS - largest.leading_zeros();
        let length = (numbers.len() * bits as usize).div_ceil(8) + WORD;
        let mut bytes = vec![0; length].into_boxed_slice();
        for (place, &number) in numbers.iter().enumerate() {
            let bit = place * bits as usize;
            let word = &mut bytes[bit / 8..bit / 8 + WORD];
            let mut filled = [0; WORD];
            filled.copy_from_slice(word);
            let filled = u64::from_le_bytes(filled) | u64::from(number) << (bit % 8);
            word.copy_from_slice(&filled.to_le_bytes());
        }
        Part { bits, bytes }
    }

    fn read(&self, places: Range<usize>, out: &mut Vec<u32>) {
        let bits = self.bits as usize;
        let mask = (1 << bits) - 1;
        out.extend(places.map(|place| {
            let bit = place * bits;
            let mut word = [0; WORD];
            word.copy_from_slice(&self.bytes[bit / 8..bit / 8 + WORD]);
            ((u64::from_le_bytes(word) >> (bit % 8)) & mask) as u32
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_every_range() {
        let number = |place: usize| match place / PART {
            0 => 0,
            1 => (place % 2) as u32,
            2 => u32::MAX - (place % 3) as u32,
            _ => (place as u32).wrapping_mul(0x9e37_79b9) >> (place / PART),
        };
        let numbers: Vec<_> = (0..6 * PART + 77).map(number).collect();
        let mut packed = Packed::default();
        assert!(packed.is_empty());
        for some in numbers.chunks(1000) {
            packed.extend(some);
        }
        assert_eq!(packed.len(), numbers.len());
        let ends = [0, 1, 999, PART, PART + 1, 3 * PART - 1, 6 * PART, numbers.len()];
        for (at, &start) in ends.iter().enumerate() {
            for &end in &ends[at..] {
                let mut read = vec![9];
                packed.read(start..end, &mut read);
                assert!(read[0] == 9 && read[1..] == numbers[start..end], "{start}..{end}");
            }
        }
    }

    #[test]
    fn small_numbers_take_few_bytes() {
        let mut packed = Packed::default();
        packed.extend(&vec![1000; PART]);
        assert_eq!(packed.parts[0].bytes.len(), PART * 10 / 8 + WORD);
    }
}
