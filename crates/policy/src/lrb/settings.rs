//! The parameters of LRB, by name.

use std::fmt;

use crate::parameters::Parameters;
use crate::{Boosting, SpecError};

/// LRB's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectLearning {
    /// The memory window, in requests; 0 for eight times the number that fills the cache.
    pub window: u32,
    /// Samples that a model is trained on.
    pub batch: u32,
    /// One request in this many takes a sample.
    pub every: u32,
    /// Residents that are drawn at an eviction.
    pub candidates: u32,
    /// How trees are grown.
    pub boosting: Boosting,
    /// Seed of the random draws.
    pub seed: u64,
}

impl Default for ObjectLearning {
    /// 64 candidates, and 32 trees of 32 leaves that remove a tenth of the error each, as the
    /// authors have it. Batches are a 32nd of theirs, for shorter traces.
    fn default() -> Self {
        ObjectLearning {
            window: 0,
            batch: 4_096,
            every: 1,
            candidates: 64,
            boosting: Boosting { rounds: 32, depth: 5, eta: 0.1, lambda: 1.0, bins: 256 },
            seed: 1,
        }
    }
}

impl ObjectLearning {
    pub(crate) fn read(given: &mut Parameters<'_>) -> Result<Self, SpecError> {
        let usual = Self::default();
        Ok(ObjectLearning {
            window: given.number("window", usual.window, 0, u32::MAX / 4)?,
            batch: given.number("batch", usual.batch, 32, 1 << 20)?,
            every: given.number("every", usual.every, 1, 1 << 20)?,
            candidates: given.number("candidates", usual.candidates, 1, 1_024)?,
            boosting: Boosting::given(given, usual.boosting, 1)?,
            seed: given.number("seed", usual.seed, 0, u64::MAX)?,
        })
    }
}

impl fmt::Display for ObjectLearning {
    /// Prints only parameters that differ from the defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::default();
        let mut say = |key: &str, ours: &dyn fmt::Display, unusual: bool| {
            if unusual { write!(f, ":{key}={ours}") } else { Ok(()) }
        };
        say("window", &self.window, self.window != usual.window)?;
        say("batch", &self.batch, self.batch != usual.batch)?;
        say("every", &self.every, self.every != usual.every)?;
        say("candidates", &self.candidates, self.candidates != usual.candidates)?;
        self.boosting.say(&usual.boosting, &mut say)?;
        say("seed", &self.seed, self.seed != usual.seed)
    }
}
