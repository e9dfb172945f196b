//! The native half of the Python package `frazil`.

mod cache;
mod calls;
mod compat;
mod keys;
mod memoized;
mod nested;
mod shared;
mod simulate;
mod table;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _frazil {
    use super::*;

    #[pymodule_export]
    use super::simulate::{
        Decoded, Records, TraceError, arrow_stream, id_of_name, policy_name, rows,
    };
    #[pymodule_export]
    use cache::{_answer, _discard, _pass, _peek, _stats, _store};
    #[pymodule_export]
    use cache::{Cache, CacheIterator, CacheRecording, CacheStats, CallKey};
    #[pymodule_export]
    use compat::{CompatCore, CompatTimer};
    #[pymodule_export]
    use memoized::Memoized;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        cache::install(module.py())?;
        simulate::give_places(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
