//! Chances that may be smaller than the smallest `f64`.
//!
//! The chance that 2,000 servers are all idle is e⁻⁸⁰⁰ or less, and all other chances follow from
//! it (`mva.rs`). So these numbers have an additional exponent. It is mostly 0, and then costs one
//! comparison more than a plain number.

/// `mantissa` · 2^(400 · `exponent`), the mantissa 0 or from 2⁻²⁰⁰ to 2²⁰⁰.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    mantissa: f64,
    exponent: i32,
}

/// 2⁴⁰⁰ and 2²⁰⁰.
const UNIT: f64 = f64::from_bits((1023 + 400) << 52);
const HALF: f64 = f64::from_bits((1023 + 200) << 52);

impl Wide {
    pub(crate) const ZERO: Wide = Wide { mantissa: 0.0, exponent: 0 };
    pub(crate) const ONE: Wide = Wide { mantissa: 1.0, exponent: 0 };

    /// As a plain number, 0 if it is too small for one. It must be below 2²⁰⁰, like all chances.
    pub(crate) fn value(self) -> f64 {
        debug_assert!(self.exponent <= 0, "{self:?} is no chance");
        match self.exponent {
            0 => self.mantissa,
            -1 => self.mantissa / UNIT,
            _ => 0.0,
        }
    }

    /// The ratio to another, which is not 0; 0 if that is too small for a number.
    pub(crate) fn over(self, other: Self) -> f64 {
        let ratio = self.mantissa / other.mantissa;
        match self.exponent - other.exponent {
            0 => ratio,
            -1 => ratio / UNIT,
            1 => ratio * UNIT,
            apart if apart > 1 && ratio > 0.0 => f64::INFINITY,
            _ => 0.0,
        }
    }

    /// Times a plain number from 2⁻²⁰⁰ to 2²⁰⁰, or 0.
    pub(crate) fn times(self, factor: f64) -> Self {
        Wide { mantissa: self.mantissa * factor, exponent: self.exponent }.normal()
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let (more, less) =
            if self.exponent >= other.exponent && self.mantissa > 0.0 || other.mantissa <= 0.0 {
                (self, other)
            } else {
                (other, self)
            };
        let apart = more.exponent - less.exponent;
        let mantissa = match apart {
            0 => more.mantissa + less.mantissa,
            1 => more.mantissa + less.mantissa / UNIT,
            // The other is below the precision of this one, or 0.
            _ => more.mantissa,
        };
        Wide { mantissa, exponent: more.exponent }.normal()
    }

    fn normal(mut self) -> Self {
        if self.mantissa < 1.0 / HALF && self.mantissa > 0.0 {
            self.mantissa *= UNIT;
            self.exponent -= 1;
        } else if self.mantissa >= HALF {
            self.mantissa /= UNIT;
            self.exponent += 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_small_for_a_number_comes_back() {
        let mut chance = Wide::ONE;
        for _ in 0..5_000 {
            chance = chance.times(1e-3);
        }
        assert_eq!(chance.value(), 0.0);
        let twice = chance.plus(chance).plus(Wide::ZERO);
        assert!((Wide::ZERO.plus(chance).mantissa / chance.mantissa - 1.0).abs() < 1e-15);
        let (mut one, mut two) = (chance, twice);
        for _ in 0..5_000 {
            (one, two) = (one.times(1e3), two.times(1e3));
        }
        assert!((one.value() - 1.0).abs() < 1e-9 && (two.value() - 2.0).abs() < 1e-9);
        // Ratios far above 1 work too, between numbers of like size.
        let mut large = Wide::ONE;
        for _ in 0..5_000 {
            large = large.times(1e3);
        }
        assert!((large.plus(large).over(large) - 2.0).abs() < 1e-15);
        assert!((large.times(1e70).over(large) / 1e70 - 1.0).abs() < 1e-12);
        assert_eq!((Wide::ONE.over(large), large.over(Wide::ONE)), (0.0, f64::INFINITY));
        assert_eq!(Wide::ONE.plus(chance).value(), 1.0);
        assert_eq!(chance.plus(Wide::ONE).value(), 1.0);
        let small = Wide::ONE.times(1e-60).times(1e-10);
        assert!((small.value() / 1e-70 - 1.0).abs() < 1e-12);
        assert!((small.plus(Wide::ONE.times(1e-58)).value() / 1e-58 - 1.0).abs() < 1e-11);
    }
}
