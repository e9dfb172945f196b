//! Names of policies.

use frazil_policy::PolicySpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The policy's full name with all that differs from the defaults; with a seed, if it takes one,
/// else `None`. Raises ValueError for an unknown name, and names the nearest.
#[pyfunction]
#[pyo3(signature = (policy, seed=None))]
pub(crate) fn policy_name(policy: &str, seed: Option<u64>) -> PyResult<Option<String>> {
    let parse = |name: &str| name.parse::<PolicySpec>();
    let spec = parse(policy).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let Some(seed) = seed else { return Ok(Some(spec.to_string())) };
    Ok(parse(&format!("{policy}:seed={seed}")).ok().map(|seeded| seeded.to_string()))
}
