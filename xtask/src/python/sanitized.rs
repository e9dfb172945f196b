//! The tests of the package under AddressSanitizer.
//!
//! The interpreter is not compiled for it; so it gets the sanitizer's library by `LD_PRELOAD`, and takes
//! each object from `malloc`, so that one used after its release is found. Free-threaded CPython has an
//! allocator of its own: of it only what Rust allocates is watched.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::interpreters::{Interpreter, quiet};
use crate::{nightly, step};

/// What the loader is to load first: the sanitizer, and the library of C++, without which it does not
/// find the function that throws, which pyarrow calls.
fn preloaded() -> anyhow::Result<String> {
    let mut paths = Vec::new();
    for library in ["libasan.so", "libstdc++.so"] {
        let told = quiet(Command::new("cc").arg(format!("-print-file-name={library}")))?;
        let path = PathBuf::from(told.trim());
        ensure!(path.is_absolute(), "no {library}: apt-get install g++");
        paths.push(path.canonicalize()?.display().to_string());
    }
    Ok(paths.join(" "))
}

/// Builds the wheel.
pub(super) fn wheel(root: &Path, interpreter: &Interpreter) -> anyhow::Result<PathBuf> {
    let wheels = super::place(root, interpreter, "asan-wheel");
    super::build_wheel(root, interpreter, &wheels, |maturin| {
        nightly::address_sanitized(maturin)?;
        maturin.args(["--target", nightly::TARGET, "--compatibility", "linux"]);
        maturin.env("CARGO_TARGET_DIR", root.join("target/python/asan"));
        // Names of functions in reports, and a build of minutes.
        maturin.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
        maturin.env("CARGO_PROFILE_RELEASE_STRIP", "none");
        maturin.env("CARGO_PROFILE_RELEASE_LTO", "off");
        maturin.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        maturin.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        Ok(())
    })
}

/// Runs the tests with a program that has the wheel; a report of any process fails.
pub(super) fn tests(
    root: &Path,
    interpreter: &Interpreter,
    pytest: &mut Command,
) -> anyhow::Result<String> {
    let reports = super::place(root, interpreter, "asan-reports");
    if reports.exists() {
        std::fs::remove_dir_all(&reports)?;
    }
    std::fs::create_dir_all(&reports)?;
    let options = format!("detect_leaks=0:log_path={}", reports.join("report").display());
    pytest.env("ASAN_OPTIONS", options).env("LD_PRELOAD", preloaded()?);
    if !interpreter.version.ends_with('t') {
        pytest.env("PYTHONMALLOC", "malloc");
    }
    // A cluster is made of Ray's own processes, and the sanitizer takes memory of its own.
    pytest.args(["-m", "not ray and not memory"]);
    let output = pytest.output().context("cannot start pytest")?;
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&reports)?.filter_map(Result::ok).map(|entry| entry.path()).collect();
    found.sort();
    if let Some(first) = found.first() {
        eprintln!("{}", std::fs::read_to_string(first)?);
    }
    ensure!(found.is_empty(), "{} reports in {}", found.len(), reports.display());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Err(error) = step::succeeded("pytest", output.status) {
        eprint!("{told}{}", String::from_utf8_lossy(&output.stderr));
        return Err(error);
    }
    Ok(told)
}
