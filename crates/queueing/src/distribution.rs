//! Distributions of service and think times, by their mean.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ModelError;

/// The shape of a random time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// Squared coefficient of variation 1: the assumption of mean value analysis.
    Exponential,
    /// Always the mean.
    Deterministic,
    /// One of two exponentials, with balanced means: mostly short, sometimes long.
    HyperExponential {
        /// Squared coefficient of variation, at least 1.
        cv2: f64,
    },
}

impl Distribution {
    /// Refuses a variation that the shape cannot have.
    pub(crate) fn check(self) -> Result<(), ModelError> {
        match self {
            Distribution::HyperExponential { cv2 } if !(1.0..=1e6).contains(&cv2) => {
                let what = "the squared coefficient of variation".to_owned();
                Err(ModelError::OutOfRange { what, value: cv2, expected: "1 to 1e6" })
            }
            _ => Ok(()),
        }
    }

    /// A random time with this mean.
    pub(crate) fn draw(self, mean: f64, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Distribution::Deterministic => mean,
            Distribution::Exponential => mean * exponential(rng),
            Distribution::HyperExponential { cv2 } => {
                // Balanced means: both branches have half of the sum of all times.
                let often = 0.5 * (1.0 + ((cv2 - 1.0) / (cv2 + 1.0)).sqrt());
                let chosen = if rng.random::<f64>() < often { often } else { 1.0 - often };
                mean / (2.0 * chosen) * exponential(rng)
            }
        }
    }
}

/// Mean 1. The logarithm's argument is above 0 and at most 1.
fn exponential(rng: &mut Xoshiro256PlusPlus) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn means_and_variations_are_as_asked() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for (shape, cv2) in [
            (Distribution::Exponential, 1.0),
            (Distribution::Deterministic, 0.0),
            (Distribution::HyperExponential { cv2: 4.0 }, 4.0),
            (Distribution::HyperExponential { cv2: 1.0 }, 1.0),
        ] {
            let drawn: Vec<f64> = (0..400_000).map(|_| shape.draw(2.0, &mut rng)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let square = drawn.iter().map(|time| time * time).sum::<f64>() / drawn.len() as f64;
            assert!((mean - 2.0).abs() < 0.03, "{shape:?}: mean {mean}");
            let seen = square / (mean * mean) - 1.0;
            assert!((seen - cv2).abs() < 0.1 * cv2 + 1e-9, "{shape:?}: {seen}");
        }
        assert!(Distribution::HyperExponential { cv2: 0.5 }.check().is_err());
        assert!(Distribution::HyperExponential { cv2: f64::NAN }.check().is_err());
    }
}
