//! Programs that a command needs beside the pinned toolchain: found, or installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::step;

/// The oldest cargo-deny that reads our `deny.toml`, and the one installed.
const CARGO_DENY: (u32, u32, u32) = (0, 20, 2);
/// The same for cargo-fuzz.
const CARGO_FUZZ: (u32, u32, u32) = (0, 13, 2);
/// The same for mdBook.
const MDBOOK: (u32, u32, u32) = (0, 5, 4);

/// Makes sure that `cc` exists, for the C sources of zstd.
///
/// Rust's linker is usually `cc` too, and this program needed a linker; but a machine may link with
/// clang or lld instead.
///
/// # Errors
///
/// There is no C compiler and it can't be installed here.
pub(crate) fn ensure_c_compiler() -> anyhow::Result<()> {
    if std::env::var_os("CC").is_some() || output("cc", &["--version"]).is_some() {
        return Ok(());
    }
    apt_install(&["gcc", "libc6-dev"])
        .context("no C compiler, which zstd needs: install gcc or clang, or set CC")
}

/// The path of a program; its Debian packages are installed if it is missing.
///
/// # Errors
///
/// The program is missing and can't be installed here.
pub(crate) fn ensure_program(name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let find = || output("sh", &["-c", &format!("command -v {name}")]);
    if find().is_none() {
        apt_install(packages).with_context(|| format!("no {name} on this machine"))?;
    }
    let found = find().with_context(|| format!("no {name}, though it was installed"))?;
    Ok(PathBuf::from(found.trim()))
}

/// Makes sure that the pinned toolchain can check code for a target.
///
/// # Errors
///
/// It can't be installed.
pub(crate) fn ensure_target(root: &Path, target: &str) -> anyhow::Result<()> {
    let rustup = |arguments: &[&str]| {
        let mut command = Command::new("rustup");
        command.current_dir(root).args(arguments);
        command
    };
    // Checked first, because rustup uses the network even if nothing is missing.
    let listed = rustup(&["target", "list", "--installed"]).output().context("no rustup")?;
    if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == target) {
        return Ok(());
    }
    step::run(&format!("rustup target add {target}"), &mut rustup(&["target", "add", target]))
}

/// Installs Debian packages without programs.
///
/// # Errors
///
/// They can't be installed here.
pub(crate) fn install(name: &str, packages: &[&str]) -> anyhow::Result<()> {
    apt_install(packages).with_context(|| format!("no {name} on this machine"))
}

/// The library with which RocksDB's programs parse their arguments.
pub(crate) fn ensure_gflags() -> anyhow::Result<()> {
    match Path::new("/usr/include/gflags/gflags.h").exists() {
        true => Ok(()),
        false => install("gflags", &["libgflags-dev"]),
    }
}

/// Writes an executable script.
///
/// # Errors
///
/// It can't be written.
pub(crate) fn write_program(path: &Path, script: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, script)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn apt_install(packages: &[&str]) -> anyhow::Result<()> {
    let debian = Path::new("/etc/debian_version").exists();
    let root = output("id", &["-u"]).is_some_and(|uid| uid.trim() == "0");
    if !(debian && root) {
        bail!("install {} by hand", packages.join(" "));
    }
    step::run("apt-get update", Command::new("apt-get").arg("update"))?;
    step::run(
        &format!("apt-get install {}", packages.join(" ")),
        Command::new("apt-get")
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

/// Makes sure that `cargo deny` exists and is not too old.
///
/// # Errors
///
/// It can't be installed.
pub(crate) fn ensure_cargo_deny(root: &Path) -> anyhow::Result<()> {
    ensure_installed(root, "cargo-deny", step::cargo(root, ["deny"]), CARGO_DENY)
}

/// The same for `cargo fuzz`.
///
/// # Errors
///
/// It can't be installed.
pub(crate) fn ensure_cargo_fuzz(root: &Path) -> anyhow::Result<()> {
    ensure_installed(root, "cargo-fuzz", step::cargo(root, ["fuzz"]), CARGO_FUZZ)
}

/// The same for `mdbook`.
///
/// # Errors
///
/// It can't be installed.
pub(crate) fn ensure_mdbook(root: &Path) -> anyhow::Result<()> {
    ensure_installed(root, "mdbook", Command::new("mdbook"), MDBOOK)
}

fn ensure_installed(
    root: &Path,
    package: &str,
    mut program: Command,
    least: (u32, u32, u32),
) -> anyhow::Result<()> {
    let found = program.arg("--version").stderr(Stdio::null()).output().ok();
    let found = found.and_then(|found| version(&String::from_utf8_lossy(&found.stdout)));
    if found >= Some(least) {
        return Ok(());
    }
    let (major, minor, patch) = least;
    let wanted = format!("{major}.{minor}.{patch}");
    step::run(
        &format!("cargo install {package} {wanted}"),
        step::cargo(root, ["install", package, "--locked", "--version"])
            .arg(wanted)
            // Cargo then builds in a temporary directory, and removes it.
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_BUILD_TARGET_DIR")
            // The release profile of cargo-deny (fat LTO, one codegen unit) takes 105 s to build
            // on two cores, these settings 63 s, and a check well under a second.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    )
}

/// The output of a program; `None` if it can't be started or fails.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The version in a line such as `cargo-deny 0.20.2` or `mdbook v0.5.4`.
fn version(line: &str) -> Option<(u32, u32, u32)> {
    let number = line.trim().rsplit(' ').next()?;
    let mut numbers = number.trim_start_matches('v').split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_and_a_missing_tool_is_the_oldest() {
        assert_eq!(version("cargo-deny 0.20.2\n"), Some((0, 20, 2)));
        assert_eq!(version("mdbook v0.5.4\n"), Some((0, 5, 4)));
        assert!(version("cargo-deny 0.9.10") < version("cargo-deny 0.20.2"));
        assert!(version("cargo-deny 1.0.0") > version("cargo-deny 0.20.2"));
        assert!(version("") < version("cargo-deny 0.0.1"));
    }
}
