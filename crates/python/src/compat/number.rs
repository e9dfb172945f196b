//! Sizes: integers as long as they are, else floating-point numbers.

use pyo3::prelude::*;

#[derive(Clone, Copy)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    pub(super) const ZERO: Self = Self::Whole(0);
    pub(super) const ONE: Self = Self::Whole(1);

    /// Errors: `TypeError` for what is no number.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        match object.extract::<i64>() {
            Ok(whole) => Ok(Self::Whole(whole)),
            Err(_) => object.extract::<f64>().map(Self::Real),
        }
    }

    pub(super) fn object<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Whole(whole) => Ok(whole.into_pyobject(py)?.into_any()),
            Self::Real(real) => Ok(real.into_pyobject(py)?.into_any()),
        }
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Real(real) => real,
        }
    }

    pub(super) fn is_nan(self) -> bool {
        self.real().is_nan()
    }

    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => match left.checked_add(right) {
                Some(sum) => Self::Whole(sum),
                None => Self::Real(left as f64 + right as f64),
            },
            _ => Self::Real(self.real() + other.real()),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => match left.checked_sub(right) {
                Some(difference) => Self::Whole(difference),
                None => Self::Real(left as f64 - right as f64),
            },
            _ => Self::Real(self.real() - other.real()),
        }
    }

    /// Whether this is more than the other; not if either is no number (NaN).
    #[inline]
    pub(super) fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => left > right,
            _ => self.real() > other.real(),
        }
    }
}
