//! `cargo xtask lint`: all checks that do not run the code. Quick ones come first.

use std::path::Path;

use crate::{dependencies, house, layers, mentions, mutants, sizes, step, test, tools};

/// Builds without features: the command's default build, and the cache as users have it.
const LIGHT: [&str; 4] = ["--package", "frazil-cli", "--package", "frazil"];

/// A 32-bit target with 64-bit atomics.
const NARROW: &str = "i686-unknown-linux-gnu";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    step::run("cargo fmt", &mut step::cargo(root, ["fmt", "--all", "--check"]))?;
    house::check(root)?;
    mentions::check(root)?;
    layers::check(root)?;
    dependencies::check(root)?;
    dependencies::count(root)?;
    mutants::check(root)?;
    // Checking runs build scripts, which compile zstd's C sources.
    tools::ensure_c_compiler()?;
    // The whole workspace, and then the command with its default features.
    let all = ["--workspace", "--all-targets", "--features", test::FEATURES];
    for (name, chosen) in [("cargo clippy", &all[..]), ("cargo clippy, light", &LIGHT)] {
        let mut clippy = step::cargo(root, ["clippy", "--locked"]);
        step::run(name, clippy.args(chosen).args(["--", "-D", "warnings"]))?;
    }
    // No code may be unused without features: without all, with all but one, and with only one.
    let alone = sizes::FEATURES.map(|feature| vec![feature]);
    for chosen in [vec![]].into_iter().chain(alone).chain(sizes::all_but_one()) {
        let chosen = chosen.join(",");
        let mut clippy = step::cargo(root, ["clippy", "--locked", "--package", "frazil"]);
        clippy.args(["--no-default-features", "--features", &chosen, "--", "-D", "warnings"]);
        let what = if chosen.is_empty() { "none" } else { &chosen };
        step::run(&format!("cargo clippy, features: {what}"), &mut clippy)?;
    }
    // Sizes and alignments differ on that target.
    tools::ensure_target(root, NARROW)?;
    let mut check = step::cargo(root, ["check", "--locked", "--package", "frazil"]);
    step::run("cargo check, 32 bits", check.args(["--target", NARROW]))?;
    step::run(
        "cargo doc",
        step::cargo(root, ["doc", "--workspace", "--no-deps", "--locked"])
            .args(["--features", test::FEATURES])
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
