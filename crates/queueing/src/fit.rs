//! How the paper's networks route requests, by hit ratio: functions fitted to simulation.
//!
//! Paper 1 defers them to its long version; these are the ones in its published program
//! (CacheThputSim, `upper_bound.py` and `simulator.py`). Fits are meaningless outside their range,
//! 0.4 to about 0.98, and some are no probabilities there: see each function.

/// Mean number of further items that CLOCK examines for an eviction.
///
/// An exponential, up to 2.04 at a hit ratio of 1, valid everywhere.
pub(crate) fn clock_skips(hit_ratio: f64) -> f64 {
    2.43e-5 * (11.24 * hit_ratio).exp() + 0.187
}

/// SLRU: the chance that a request hits the protected list, T.
///
/// The parabola is −0.0009 at a hit ratio of 0. The result is limited to a probability, at most the
/// hit ratio.
pub(crate) fn slru_protected(hit_ratio: f64) -> f64 {
    let fitted = -0.1158 * hit_ratio * hit_ratio + 1.0112 * hit_ratio - 0.0009;
    fitted.clamp(0.0, hit_ratio)
}

/// The highest hit ratio at which S3-FIFO's fits are evaluated: the paper's last step before 1.
const S3_FIFO_LAST: f64 = 0.98;

/// S3-FIFO: the chance that a miss is in the ghost, and so goes to the main queue.
///
/// The fit is the density of a scaled χ² distribution in the miss ratio, with a bounded domain:
/// from a hit ratio of 0.9825 on it is 0, as if a nearly perfect cache had no ghost hits. Above
/// 0.98 the function returns its value at 0.98.
pub(crate) fn s3_fifo_ghost(hit_ratio: f64) -> f64 {
    let miss_ratio = 1.0 - hit_ratio.min(S3_FIFO_LAST);
    let density = chi_squared(65.0 * miss_ratio, 4.4912, 1.1394, 3.595);
    (density / miss_ratio).clamp(0.0, 1.0)
}

/// S3-FIFO: the chance that the oldest of the small queue was requested again, and so moves to the
/// main queue.
///
/// As in [`s3_fifo_ghost`] the fit ends, at 0.9887; above 0.98 the function returns its value
/// there.
pub(crate) fn s3_fifo_moves(hit_ratio: f64) -> f64 {
    let miss_ratio = 1.0 - hit_ratio.min(S3_FIFO_LAST);
    let density = chi_squared(400.0 * miss_ratio, 2.2870, 4.5309, 26.5874);
    (density / miss_ratio).clamp(0.0, 1.0)
}

/// The density of a χ² distribution that is shifted and stretched.
fn chi_squared(x: f64, freedom: f64, shift: f64, scale: f64) -> f64 {
    let x = (x - shift) / scale;
    if x <= 0.0 {
        return 0.0;
    }
    let half = freedom / 2.0;
    let logarithm = (half - 1.0) * x.ln() - x / 2.0 - half * 2f64.ln() - ln_gamma(half);
    logarithm.exp() / scale
}

/// ln Γ(x) for x > 0, by Lanczos with g = 7 and nine terms: 15 digits.
fn ln_gamma(x: f64) -> f64 {
    const FIRST: f64 = 0.999_999_999_999_809_9;
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let term = |(at, term): (usize, &f64)| term / (x + at as f64 + 1.0);
    let sum: f64 = FIRST + TERMS.iter().enumerate().map(term).sum::<f64>();
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64, to: f64) {
        assert!((one - other).abs() <= to, "{one} {other}");
    }

    #[test]
    fn gamma_and_density_are_right() {
        close(ln_gamma(5.0), 24f64.ln(), 1e-13);
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        // χ² of two degrees of freedom is an exponential of mean 2.
        close(chi_squared(3.0, 2.0, 0.0, 1.0), 0.5 * (-1.5f64).exp(), 1e-14);
        close(chi_squared(7.0, 2.0, 1.0, 2.0), 0.25 * (-1.5f64).exp(), 1e-14);
        let step = 0.01;
        let steps = (0..40_000).map(|at| chi_squared(f64::from(at) * step, 4.4912, 1.1394, 3.595));
        close(steps.sum::<f64>() * step, 1.0, 1e-4);
    }

    /// Values of the functions in the paper's own program.
    #[test]
    fn fits_have_their_published_values() {
        let clock = [(0.4, 0.189), (0.8, 0.382), (0.9, 0.788), (0.95, 1.241), (0.99, 1.84)];
        clock.iter().for_each(|&(p, g)| close(clock_skips(p), g, 3e-3));
        close(clock_skips(1.0), 2.04, 5e-3);
        let slru = [(0.5, 0.4758), (0.8, 0.7339), (0.9, 0.8154), (0.95, 0.8552), (1.0, 0.8945)];
        slru.iter().for_each(|&(p, t)| close(slru_protected(p), t, 1e-4));
        let s3_fifo = [
            (0.6, 0.0455, 0.0032),
            (0.8, 0.2205, 0.0256),
            (0.9, 0.405, 0.0974),
            (0.95, 0.399, 0.252),
            (0.98, 0.0528, 0.637),
        ];
        for (p, ghost, moves) in s3_fifo {
            close(s3_fifo_ghost(p), ghost, 6e-4);
            close(s3_fifo_moves(p), moves, 6e-4);
        }
    }

    #[test]
    fn fits_stay_probabilities_and_do_not_vanish() {
        for step in 0..=1000 {
            let p = f64::from(step) / 1000.0;
            let protected = slru_protected(p);
            assert!((0.0..=p).contains(&protected), "{p}: {protected}");
            for chance in [s3_fifo_ghost(p), s3_fifo_moves(p)] {
                assert!((0.0..=1.0).contains(&chance), "{p}: {chance}");
                assert!(p < 0.98 || chance > 0.05, "{p}: {chance}");
            }
        }
    }
}
