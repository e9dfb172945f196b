//! The native half of the Python package `frazil`.

use pyo3::prelude::*;

mod calls;
mod compat;
mod memoized;
mod shared;
mod table;

#[pymodule(gil_used = false)]
mod _frazil {
    use super::*;

    #[pymodule_export]
    use crate::compat::CompatCore;
    #[pymodule_export]
    use crate::memoized::Memoized;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
