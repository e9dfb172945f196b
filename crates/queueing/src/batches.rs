//! Confidence intervals from one run: the method of batch means.
//!
//! The run is cut into batches so long that their means hardly depend on one another. The means are
//! then nearly samples of a normal distribution, and Student's t gives the interval.

/// A mean and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Half of the 95 % interval.
    pub(crate) half: f64,
}

/// The mean of batches and its 95 % interval, which is infinite for fewer than two batches.
pub(crate) fn estimate(batches: &[f64]) -> Estimate {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    if batches.len() < 2 {
        return Estimate { mean, half: f64::INFINITY };
    }
    let squares: f64 = batches.iter().map(|batch| (batch - mean) * (batch - mean)).sum();
    let half = student_t(batches.len() - 1) * (squares / (count - 1.0) / count).sqrt();
    Estimate { mean, half }
}

/// The 0.975 quantile of Student's t: from the table for few degrees of freedom, for more by
/// Cornish and Fisher's expansion about the normal quantile, accurate to three decimals.
fn student_t(freedom: usize) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let v = freedom as f64;
    match freedom {
        0 => f64::INFINITY,
        1 => 12.706_204_736,
        2 => 4.302_652_730,
        3 => 3.182_446_305,
        4 => 2.776_445_105,
        5 => 2.570_581_836,
        6 => 2.446_911_851,
        _ => {
            let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
            Z + (z3 + Z) / (4.0 * v)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * v * v)
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * v * v * v)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table =
            [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (29, 2.045)];
        for (freedom, quantile) in table {
            assert!((student_t(freedom) - quantile).abs() < 3e-3, "{freedom}");
        }
        assert!((student_t(1_000_000) - 1.95996).abs() < 1e-4);
        assert!((estimate(&[1.0, 2.0, 3.0]).half - 4.302_652_73 / 3f64.sqrt()).abs() < 1e-9);
    }
}
