//! Tells the code which interpreter it is built for.

fn main() {
    // Sets `Py_GIL_DISABLED`.
    pyo3_build_config::use_pyo3_cfgs();
    // Without this cargo builds again after a change of any file of the package, of the tests too.
    println!("cargo::rerun-if-changed=build.rs");
}
