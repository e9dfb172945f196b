//! `cargo xtask lint`: everything that can be said about the tree without
//! running it. The quick steps come first.

use std::path::Path;

use crate::{house, step, tools};

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    step::run("cargo fmt", &mut step::cargo(root, ["fmt", "--all", "--check"]))?;
    house::check(root)?;
    // Checking compiles build scripts, and with them zstd's C sources.
    tools::ensure_c_compiler()?;
    step::run(
        "cargo clippy",
        step::cargo(root, ["clippy", "--workspace", "--all-targets", "--locked"])
            .args(["--", "-D", "warnings"]),
    )?;
    let features = ["--package", "frazil", "--all-features", "--all-targets", "--locked"];
    step::run(
        "cargo clippy, features",
        step::cargo(root, ["clippy"]).args(features).args(["--", "-D", "warnings"]),
    )?;
    step::run(
        "cargo doc",
        step::cargo(root, ["doc", "--workspace", "--no-deps", "--locked"])
            .args(["--features", "frazil/prometheus,frazil/tracing"])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )?;
    tools::ensure_cargo_deny(root)?;
    // Advisories are left out: they change without a change of ours.
    step::run(
        "cargo deny",
        step::cargo(root, ["deny", "--workspace", "--all-features", "--locked"])
            .args(["check", "licenses", "bans", "sources"]),
    )
}
