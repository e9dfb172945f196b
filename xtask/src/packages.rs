//! `cargo xtask release`: builds the command as a static program, with manual, completions and
//! licences, as an archive and as a Debian package.
//!
//! It is linked against musl, so it runs on any Linux of its architecture. The files of a release
//! are in `target/packages` afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{deb, licences, step, tools};

/// The target, and Debian's name of its architecture.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";
/// Shells, and the paths of their completions in an archive and in Debian.
pub(crate) const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/frazil"),
    ("zsh", "usr/share/zsh/vendor-completions/_frazil"),
    ("fish", "usr/share/fish/vendor_completions.d/frazil.fish"),
];
/// Files of the tree that go into the archive.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// A trial of the built command.
const TRIAL: [&str; 7] = [
    "simulate",
    "zipf:1.0:objects=1K:requests=20K:seed=1",
    "--policy",
    "lru,mobius",
    "--capacity",
    "10%",
    "--output=json",
];

/// The parts of a release.
pub(crate) struct Release {
    pub(crate) version: String,
    /// Seconds since 1970 of the commit: the time of every file, so that the same commit makes the
    /// same packages.
    pub(crate) seconds: u64,
    /// The folder of an archive: program, manual, completions, licences.
    pub(crate) folder: PathBuf,
}

/// Builds everything into `target/packages`, and tests it.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let dist = root.join("target/packages");
    if dist.exists() {
        fs::remove_dir_all(&dist).context("target/packages")?;
    }
    let binary = build(root)?;
    let version = version(&binary)?;
    let folder = dist.join(format!("frazil-{version}-{TARGET}"));
    let release = Release { version, seconds: seconds(root)?, folder };
    fill(root, &binary, &release)?;
    let archive = archive(&dist, &release)?;
    let package = deb::make(root, &dist, &release)?;
    let unpacked = dist.join("unpacked");
    step::run(
        "dpkg-deb --extract",
        Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked),
    )?;
    for program in [release.folder.join("frazil"), unpacked.join("usr/bin/frazil")] {
        let name = format!("try {}", program.display());
        step::run(&name, Command::new(program).args(TRIAL))?;
    }
    fs::remove_dir_all(&unpacked).context("target/packages/unpacked")?;
    fs::remove_dir_all(&release.folder).context("target/packages")?;
    sums(&dist, &[&archive, &package])
}

/// Builds the command for a target with a statically linked C library.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    tools::ensure_target(root, TARGET)?;
    // For zstd's C sources.
    tools::ensure_program("musl-gcc", &["musl-tools"])?;
    let mut build = step::cargo(root, ["build", "--locked", "--package", "frazil-cli"]);
    build.args(["--features", "full", "--profile", "dist", "--target", TARGET]);
    // The binary must not contain names of this machine's folders.
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let shorter =
        format!("--remap-path-prefix={}=frazil --remap-path-prefix={home}=cargo", root.display());
    step::run("cargo build, static", build.env("RUSTFLAGS", shorter))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let binary = target.join(TARGET).join("dist/frazil");
    // A dynamically linked program names its loader.
    let readelf = tools::ensure_program("readelf", &["binutils"])?;
    let headers = output(Command::new(readelf).args(["--program-headers", "--wide"]).arg(&binary))?;
    ensure!(!headers.contains("INTERP"), "{} is not static", binary.display());
    Ok(binary)
}

fn version(binary: &Path) -> anyhow::Result<String> {
    let told = output(Command::new(binary).arg("--version"))?;
    let version = told.trim().strip_prefix("frazil ").context("frazil --version")?;
    Ok(version.to_owned())
}

fn seconds(root: &Path) -> anyhow::Result<u64> {
    let told = output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?;
    told.trim().parse().context("git log")
}

/// Fills the folder of the archive.
fn fill(root: &Path, binary: &Path, release: &Release) -> anyhow::Result<()> {
    let folder = &release.folder;
    fs::create_dir_all(folder.join("completions"))?;
    fs::copy(binary, folder.join("frazil")).context("the program")?;
    for text in TEXTS {
        fs::copy(root.join(text), folder.join(text)).context(text)?;
    }
    output(Command::new(binary).args(["man", "--dir"]).arg(folder.join("man/man1")))?;
    for (shell, place) in COMPLETIONS {
        let name = Path::new(place).file_name().context("a completion has a name")?;
        let script = output(Command::new(binary).args(["completions", shell]))?;
        let name = if shell == "bash" { "frazil.bash".as_ref() } else { name };
        fs::write(folder.join("completions").join(name), script).context(shell)?;
    }
    fs::write(folder.join("THIRD-PARTY.txt"), licences::text(root, TARGET)?)?;
    Ok(())
}

fn archive(dist: &Path, release: &Release) -> anyhow::Result<PathBuf> {
    let name = release.folder.file_name().context("the folder has a name")?;
    let archive = dist.join(format!("{}.tar.gz", name.display()));
    let mut tar = Command::new("tar");
    tar.current_dir(dist).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", release.seconds))
        .args(["--use-compress-program=gzip -9n", "--create"]);
    step::run("tar", tar.arg("--file").arg(&archive).arg(name))?;
    Ok(archive)
}

/// Writes checksums beside the files, and lists the files.
fn sums(dist: &Path, files: &[&Path]) -> anyhow::Result<()> {
    let names = files.iter().map(|file| file.file_name().context("a file has a name"));
    let names = names.collect::<anyhow::Result<Vec<_>>>()?;
    let sums = output(Command::new("sha256sum").current_dir(dist).args(&names))?;
    fs::write(dist.join("SHA256SUMS"), &sums)?;
    for file in files {
        let bytes = fs::metadata(file)?.len();
        eprintln!("xtask: {}: {:.1} MB", file.display(), bytes as f64 / 1e6);
    }
    print!("{sums}");
    Ok(())
}

/// The output of a program.
///
/// # Errors
///
/// The program can't be started, or fails.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| name.clone())?;
    ensure!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout).with_context(|| name)
}
