//! How often hashes were counted lately, in 4 bits each: the frequency sketch
//! of TinyLFU.
//!
//! A count-min sketch (Cormode and Muthukrishnan, 2005) in blocks of one cache
//! line: the upper bits of a hash choose the block, the lower ones four counters
//! in four quarters of it. The estimate is the least of the four, and an addition
//! raises only those that equal it. All counters are halved after a number of
//! additions that grows with the sketch, so that old popularity fades (Einziger
//! et al., ACM TOS 2017). 8 bytes an expected object; O(1), and one pass over the
//! table at each halving.

const LEVEL: u64 = 0xf;
/// The lowest three bits of all counters: the mask for a word of halved counters.
const HALVED: u64 = 0x7777_7777_7777_7777;
const FEWEST_BLOCKS: usize = 2;
/// Objects that a block is meant for.
const OBJECTS_A_BLOCK: u64 = 8;
/// Additions between two halvings, for each expected object.
const ADDITIONS_AN_OBJECT: u64 = 10;

/// Four quarters of two words, each of 32 counters.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block([u64; 8]);

impl Block {
    /// The higher of each pair of counters.
    fn highest(self, other: Block) -> Block {
        let level = |word: u64, shift: u32| word >> shift & LEVEL;
        let highest = |(one, other): (u64, u64)| {
            let higher = |shift| level(one, shift).max(level(other, shift)) << shift;
            (0..u64::BITS).step_by(4).map(higher).sum()
        };
        Block(std::array::from_fn(|word| highest((self.0[word], other.0[word]))))
    }
}

/// A frequency sketch that ages.
///
/// ```
/// use frazil_policy::Sketch;
/// let mut sketch = Sketch::new();
/// for _ in 0..3 {
///     sketch.add(7 << 40);
/// }
/// assert_eq!(sketch.estimate(7 << 40), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Sketch {
    /// The blocks; their number is a power of two.
    blocks: Vec<Block>,
    /// Right shift that turns a hash into its block's index.
    shift: u32,
    additions: u64,
    /// Number of additions after which all counters are halved.
    period: u64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self::new()
    }
}

impl Sketch {
    /// A sketch of the smallest size.
    pub fn new() -> Self {
        let blocks = vec![Block::default(); FEWEST_BLOCKS];
        let period = blocks.len() as u64 * OBJECTS_A_BLOCK * ADDITIONS_AN_OBJECT;
        Sketch { blocks, shift: 63, additions: 0, period }
    }

    /// How many objects it is meant for.
    #[inline]
    pub fn objects(&self) -> u64 {
        self.blocks.len() as u64 * OBJECTS_A_BLOCK
    }

    /// Doubles the sketch until it is meant for `objects`. No estimate changes:
    /// both halves of a block's hashes start with its counters.
    pub fn grow(&mut self, objects: u64) {
        while self.objects() < objects {
            self.blocks = self.blocks.iter().flat_map(|&block| [block, block]).collect();
            self.shift -= 1;
            self.period *= 2;
        }
    }

    /// Halves the sketch while it is meant for more than twice `objects`. No estimate
    /// falls: of two merged counters the higher stays.
    pub fn shrink(&mut self, objects: u64) {
        while self.blocks.len() > FEWEST_BLOCKS && self.objects() > objects.saturating_mul(2) {
            let halves = self.blocks.chunks_exact(2);
            self.blocks = halves.map(|pair| pair[0].highest(pair[1])).collect();
            self.shift += 1;
            self.period /= 2;
            self.additions /= 2;
        }
    }

    /// The block of `hash`, and for each of its counters the word and the shift.
    #[inline]
    fn places(&self, hash: u64) -> (usize, [(usize, u32); 4]) {
        // Separate bits, because with few blocks the upper bits agree.
        let mut bits = hash as u32;
        let mut places = [(0, 0); 4];
        for (quarter, place) in places.iter_mut().enumerate() {
            *place = (2 * quarter + (bits & 1) as usize, bits & 0x3c);
            bits >>= 6;
        }
        ((hash >> self.shift) as usize, places)
    }

    /// How often `hash` was seen lately, up to 15; seldom too high, and too low
    /// only by halving.
    #[inline]
    pub fn estimate(&self, hash: u64) -> u32 {
        let (block, places) = self.places(hash);
        let Block(words) = &self.blocks[block];
        let least = places.map(|(word, shift)| words[word] >> shift & LEVEL);
        least[0].min(least[1]).min(least[2]).min(least[3]) as u32
    }

    /// Counts one more request for `hash`.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let (block, places) = self.places(hash);
        let Block(words) = &mut self.blocks[block];
        let levels = places.map(|(word, shift)| words[word] >> shift & LEVEL);
        let least = levels[0].min(levels[1]).min(levels[2]).min(levels[3]);
        if least == LEVEL {
            return;
        }
        for ((word, shift), level) in places.into_iter().zip(levels) {
            words[word] += u64::from(level == least) << shift;
        }
        self.additions += 1;
        if self.additions >= self.period {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        for Block(words) in &mut self.blocks {
            for word in words {
                *word = *word >> 1 & HALVED;
            }
        }
        self.additions /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_hash;
    use proptest::prelude::*;

    proptest! {
        /// Never below the truth until counters are halved, and exact for most.
        #[test]
        fn estimates_bound_the_truth(ids in prop::collection::vec(0u64..100, 1..600)) {
            let mut sketch = Sketch::new();
            let mut exact = [0u32; 100];
            // Too large for 600 additions to halve it.
            sketch.grow(64);
            for (number, &id) in ids.iter().enumerate() {
                if number == 200 {
                    sketch.grow(128);
                }
                exact[id as usize] += 1;
                sketch.add(object_hash(id, 3));
            }
            let mut too_high = 0;
            for (id, &count) in exact.iter().enumerate() {
                let estimate = sketch.estimate(object_hash(id as u64, 3));
                prop_assert!(estimate >= count.min(15));
                too_high += u32::from(estimate > count.min(15));
            }
            prop_assert!(too_high <= 20, "{} of 100", too_high);
        }

        #[test]
        fn shrinking_lowers_no_estimate(ids in prop::collection::vec(0u64..100, 1..300)) {
            let estimates = |sketch: &Sketch| -> Vec<u32> {
                (0..100).map(|id| sketch.estimate(object_hash(id, 3))).collect()
            };
            let mut sketch = Sketch::new();
            sketch.grow(100);
            ids.iter().for_each(|&id| sketch.add(object_hash(id, 3)));
            let before = estimates(&sketch);
            let mut grown = sketch.clone();
            grown.grow(2_000);
            grown.shrink(100);
            prop_assert_eq!(grown.objects(), sketch.objects());
            prop_assert_eq!(&estimates(&grown), &before);
            sketch.shrink(0);
            prop_assert_eq!(sketch.objects(), Sketch::new().objects());
            prop_assert!(estimates(&sketch).iter().zip(&before).all(|(now, before)| now >= before));
        }
    }

    #[test]
    fn favourites_fade() {
        let mut sketch = Sketch::new();
        for _ in 0..20 {
            sketch.add(object_hash(0, 3));
        }
        assert_eq!(sketch.estimate(object_hash(0, 3)), 15);
        let mut others = 1..;
        while sketch.estimate(object_hash(0, 3)) > 1 {
            let other = others.next().expect("endless");
            assert!(other < 2_000, "counters are halved again and again");
            sketch.add(object_hash(other, 3));
        }
    }
}
