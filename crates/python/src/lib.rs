//! The native half of the Python package `frazil`.

mod simulate;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _frazil {
    use super::*;

    #[pymodule_export]
    use super::simulate::{
        Decoded, Records, TraceError, arrow_stream, id_of_name, policy_name, rows,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
