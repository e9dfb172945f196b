//! Checks the arguments that make a cache.

use frazil_policy::Online;
use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};

/// More than any sum of sizes; what `None` and infinity become.
pub(super) const UNBOUNDED: u64 = 1 << 62;

/// Reads a size: a whole number, or a number that is rounded down (a bound) or up (a weight).
///
/// # Errors
/// `ValueError` if it is negative or not a number, `TypeError` if it is none.
pub(super) fn size(given: &Bound<'_, PyAny>, name: &str, up: bool) -> PyResult<u64> {
    let negative = || PyValueError::new_err(format!("{name} must not be negative, and is {given}"));
    if given.is_instance_of::<PyInt>() {
        if given.lt(0)? {
            return Err(negative());
        }
        return Ok(given.extract::<u64>().unwrap_or(UNBOUNDED).min(UNBOUNDED));
    }
    if given.is_instance_of::<PyFloat>() {
        let number: f64 = given.extract()?;
        if number.is_nan() {
            return Err(PyValueError::new_err(format!("{name} must be a number, and is NaN")));
        }
        if number < 0.0 {
            return Err(negative());
        }
        let whole = if up { number.ceil() } else { number.floor() };
        return Ok((whole as u64).min(UNBOUNDED));
    }
    let kind = given.get_type().name()?.to_string();
    Err(PyTypeError::new_err(format!("{name} must be a number, not {kind}")))
}

/// Reads a bound, which may be missing.
pub(super) fn maxsize(given: &Bound<'_, PyAny>) -> PyResult<u64> {
    if given.is_none() { Ok(UNBOUNDED) } else { size(given, "maxsize", false) }
}

/// Reads a policy.
///
/// # Errors
/// `ValueError`, with the nearest name and all that are known.
pub(super) fn policy(given: &str) -> PyResult<Online> {
    given.parse().map_err(|error| PyValueError::new_err(format!("{error}")))
}

/// Reads a lifetime: seconds, or a `timedelta`. `None` and infinity: no lifetime.
///
/// # Errors
/// `ValueError` if it is not above 0, `TypeError` if it is no number.
pub(super) fn lifetime(given: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Option<u64>> {
    let Some(given) = given else {
        return Ok(None);
    };
    let seconds: f64 = match given.getattr_opt("total_seconds")? {
        Some(total_seconds) => total_seconds.call0()?.extract()?,
        None if given.is_instance_of::<PyFloat>() => given.extract()?,
        // What is too large for a float is for ever, or in the past.
        None if given.is_instance_of::<PyInt>() => match given.extract() {
            Ok(seconds) => seconds,
            Err(_) if given.lt(0)? => f64::NEG_INFINITY,
            Err(_) => f64::INFINITY,
        },
        None => {
            let kind = given.get_type().name()?.to_string();
            let expected = "must be seconds or a timedelta";
            return Err(PyTypeError::new_err(format!("{name} {expected}, not {kind}")));
        }
    };
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(PyValueError::new_err(format!("{name} must be above 0, and is {given}")));
    }
    let nanoseconds = (seconds * 1e9).max(1.0);
    Ok((nanoseconds < UNBOUNDED as f64).then_some(nanoseconds as u64))
}

/// A function, or nothing.
///
/// # Errors
/// `TypeError` if it cannot be called.
pub(super) fn function(given: Option<Bound<'_, PyAny>>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    match given {
        Some(given) if given.is_callable() => Ok(Some(given.unbind())),
        Some(given) => {
            let kind = given.get_type().name()?.to_string();
            Err(PyTypeError::new_err(format!("{name} must be callable, not {kind}")))
        }
        None => Ok(None),
    }
}

/// An argument that may be left out, and `None` too.
pub(super) enum Perhaps {
    Absent,
    Given(Py<PyAny>),
}

impl FromPyObject<'_, '_> for Perhaps {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(given.to_owned().unbind()))
    }
}
