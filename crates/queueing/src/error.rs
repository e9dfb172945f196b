//! Errors of models.

use thiserror::Error;

/// Why a network cannot be built or solved.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ModelError {
    /// A number is out of range.
    #[error("{what} is {}, expected {expected}", short(*value))]
    OutOfRange {
        /// The name of the value.
        what: String,
        /// The value.
        value: f64,
        /// The valid range.
        expected: &'static str,
    },
    /// A name is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The parts of a description do not fit together, or one is missing.
    #[error("{0}")]
    Malformed(String),
    /// No step of any request takes time, so throughput has no limit.
    #[error("no step of a request takes time: throughput has no limit")]
    NoTime,
}

/// A number in few digits: 1e300 has 301 otherwise.
fn short(number: f64) -> String {
    let plain = number == 0.0 || (1e-6..1e15).contains(&number.abs()) || !number.is_finite();
    if plain { number.to_string() } else { format!("{number:e}") }
}

/// Passes a number that is finite and at least 0.
pub(crate) fn at_least_0(what: impl FnOnce() -> String, value: f64) -> Result<f64, ModelError> {
    within(what, value, 0.0..=1e9, "a number from 0 to 1e9")
}

/// Passes a time in µs: 0, or from a femtosecond to thirty years, so that no sum or ratio of
/// a few of them leaves the range of numbers.
pub(crate) fn time_us(what: impl FnOnce() -> String, value: f64) -> Result<f64, ModelError> {
    if value == 0.0 {
        return Ok(value);
    }
    within(what, value, 1e-9..=1e15, "0, or from 1e-9 to 1e15 µs")
}

/// Passes a number from 0 to 1.
pub(crate) fn share(what: impl FnOnce() -> String, value: f64) -> Result<f64, ModelError> {
    within(what, value, 0.0..=1.0, "a number from 0 to 1")
}

fn within(
    what: impl FnOnce() -> String,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    expected: &'static str,
) -> Result<f64, ModelError> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(ModelError::OutOfRange { what: what(), value, expected })
    }
}
