//! `cargo xtask check targets`: checks that all crates that users depend on compile for other
//! systems.
//!
//! It links and runs nothing. For zstd's C sources it uses a compiler that writes nothing.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::{step, tools};

/// Windows with both its linkers, macOS and Linux on other processors, and Linux with musl.
const TARGETS: [&str; 6] = [
    "x86_64-pc-windows-gnu",
    "x86_64-pc-windows-msvc",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
];

/// A C compiler and an archiver that do nothing, without an error. Only the library that
/// Microsoft's archiver should write is created, because the build looks for it.
const STUB: &str = "#!/bin/sh
for word; do
    case $word in [-/][oO][uU][tT]:*) : > \"${word#*:}\" ;; esac
done
";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let folder = root.join("target/stub");
    fs::create_dir_all(&folder)?;
    let stub = folder.join("cc");
    fs::write(&stub, STUB)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).context("target/stub/cc")?;
    }
    for target in TARGETS {
        tools::ensure_target(root, target)?;
        // All crates of the command, and the store, which it does not use.
        let mut check = step::cargo(root, ["clippy", "--locked", "--package", "frazil-cli"]);
        check.args(["--package", "frazil-segment", "--target", target]);
        check.args(["--features", "frazil-cli/full,frazil/prometheus,frazil/tracing"]);
        let variable = target.replace('-', "_");
        check.env(format!("CC_{variable}"), &stub).env(format!("AR_{variable}"), &stub);
        // C builds for Apple's systems require it, but do not use it here.
        check.env("SDKROOT", "/").args(["--", "-D", "warnings"]);
        step::run(&format!("cargo clippy, {target}"), &mut check)?;
    }
    Ok(())
}
