//! Workloads with known parts: resident keys, new keys, and new keys requested again. Calibration
//! uses them, because they make the cost of a request a sum of chosen shares.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::WorkloadError;
use crate::engine::{Engine, Session};
use crate::stream::{Ask, MAX_OBJECTS, Operation, Stream, key};

/// Exponent of the popularity of resident keys.
const ALPHA: f64 = 1.0;

/// The requests of each thread: some keys repeatedly, by Zipf 1.0, and new keys.
///
/// ```
/// use frazil_driver::{Mix, Ours, one_pass};
/// let mix = Mix { resident: 100, newcomers: 0.5, again: 0 };
/// let ours = Ours::<u64>::new(frazil::Policy::Mobius, 10_000, 0);
/// mix.preload(&ours)?;
/// let pass = one_pass(&ours, &mix.streams(1_000, 1)?[0]);
/// assert!((400..600).contains(&pass.misses));
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Number of resident keys; these are the first.
    pub resident: u32,
    /// Share of new keys among the randomly chosen requests; without `again`, among all.
    pub newcomers: f64,
    /// If not 0, then after every second new key, at random, one of the last `again` keys is
    /// requested four times. A processor cannot predict which of them an eviction skips.
    pub again: usize,
}

impl Mix {
    /// The numbers of the keys that each thread requests. New keys follow the resident ones, and
    /// only one thread requests each of them.
    ///
    /// ```
    /// let mix = frazil_driver::Mix { resident: 10, newcomers: 1.0, again: 0 };
    /// assert_eq!(mix.numbers(3, 2)?, [[10, 12, 14], [11, 13, 15]]);
    /// # Ok::<(), frazil_driver::WorkloadError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no key or more than can be numbered.
    pub fn numbers(&self, length: usize, threads: usize) -> Result<Vec<Vec<u32>>, WorkloadError> {
        let keys = u64::from(self.resident) + (length * threads) as u64;
        let ranks = Zipf::new(f64::from(self.resident), ALPHA);
        let ranks = ranks.map_err(|_| WorkloadError::Keys(self.resident.into()))?;
        if keys > MAX_OBJECTS {
            return Err(WorkloadError::Keys(keys));
        }
        let thread = |thread: usize| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(thread as u64 + 1);
            let newcomer = |count: usize| self.resident + (count * threads + thread) as u32;
            let mut numbers = Vec::with_capacity(length + 2);
            let mut come = 0;
            while numbers.len() < length {
                if random.random::<f64>() >= self.newcomers {
                    numbers.push(ranks.sample(&mut random) as u32 - 1);
                    continue;
                }
                numbers.push(newcomer(come));
                if self.again != 0 && random.random() {
                    let back = random.random_range(0..self.again).min(come);
                    numbers.extend([newcomer(come - back); 4]);
                }
                come += 1;
            }
            numbers.truncate(length);
            numbers
        };
        Ok((0..threads).map(thread).collect())
    }

    /// The streams of [`numbers`](Self::numbers).
    ///
    /// # Errors
    /// As [`numbers`](Self::numbers).
    pub fn streams(&self, length: usize, threads: usize) -> Result<Vec<Stream>, WorkloadError> {
        let stream = |numbers| stream(numbers, 0);
        Ok(self.numbers(length, threads)?.into_iter().map(stream).collect())
    }

    /// The stream of one thread, under a prefix.
    ///
    /// # Errors
    /// As [`numbers`](Self::numbers).
    pub fn stream(&self, length: usize, prefix: u32) -> Result<Stream, WorkloadError> {
        Ok(stream(self.numbers(length, 1)?.concat(), prefix))
    }

    /// Inserts the residents in random order, so that popular keys are no neighbours, as in a cache
    /// that has been in use.
    ///
    /// # Errors
    /// When there are more than can be numbered.
    pub fn preload<E: Engine>(&self, engine: &E) -> Result<(), WorkloadError> {
        if u64::from(self.resident) > MAX_OBJECTS {
            return Err(WorkloadError::Keys(self.resident.into()));
        }
        let mut numbers: Vec<u32> = (0..self.resident).collect();
        numbers.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(1));
        let mut session = engine.session();
        for batch in numbers.chunks(crate::run::BATCH) {
            session.rest();
            batch.iter().for_each(|&number| session.insert(key(number, 0)));
        }
        Ok(())
    }
}

fn stream(numbers: Vec<u32>, prefix: u32) -> Stream {
    let get = |number| Operation::new(Ask::Get, number);
    Stream::new(numbers.into_iter().map(get).collect::<Vec<_>>(), prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_again_came_before() {
        let mix = Mix { resident: 10, newcomers: 1.0, again: 3 };
        let numbers = mix.numbers(60_000, 1).unwrap().concat();
        let mut newest = 9;
        let mut asked = [0; 3];
        for number in numbers {
            if number > newest {
                assert_eq!(number, newest + 1);
                newest = number;
            } else {
                asked[(newest - number) as usize] += 1;
            }
        }
        // Two of three requests, a third of them at each distance.
        assert!(asked.iter().all(|times| (12_900..13_800).contains(times)), "{asked:?}");
        assert!(Mix { resident: 0, ..mix }.numbers(10, 1).is_err());
        assert!(Mix { resident: u32::MAX, ..mix }.streams(10, 1).is_err());
    }
}
