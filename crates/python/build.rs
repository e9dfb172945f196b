//! Tells the code which interpreter it is built for.

fn main() {
    // Sets `Py_GIL_DISABLED`.
    pyo3_build_config::use_pyo3_cfgs();
}
