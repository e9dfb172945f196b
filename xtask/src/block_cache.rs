//! `cargo xtask block-cache`: builds our block cache as libraries for the installed RocksDB.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{step, tools};

/// The sources of the block cache, and of a preloaded library.
pub(crate) const LIBRARIES: [(&str, &[&str]); 2] = [
    ("libfrazil_block_cache.so", &["block_cache", "replace"]),
    ("libfrazil_preload.so", &["preload"]),
];

/// Compiler options of our files, independent of RocksDB's.
const FLAGS: [&str; 6] = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-DNDEBUG"];

/// Compiler options of the C++ files.
pub(crate) struct Build<'b> {
    /// RocksDB's headers: the folder that has `rocksdb/cache.h`.
    pub(crate) headers: &'b Path,
    /// The flags of RocksDB's build.
    pub(crate) flags: &'b [String],
    /// Where the libraries go.
    pub(crate) out: &'b Path,
    /// Cargo's profile.
    pub(crate) profile: &'b str,
}

/// Compiles the libraries for users.
pub(crate) fn run(root: &Path, headers: &Path, out: &Path, flags: &[String]) -> anyhow::Result<()> {
    let version = headers.join("rocksdb/version.h");
    if !version.exists() {
        bail!("{}: no such file; --headers wants the folder above", version.display());
    }
    let build = Build { headers, flags, out, profile: "release" };
    build.all(root)?;
    for (name, _) in LIBRARIES {
        println!("{}", out.join(name).display());
    }
    Ok(())
}

impl Build<'_> {
    pub(crate) fn all(&self, root: &Path) -> anyhow::Result<()> {
        let compiler = tools::ensure_program("g++", &["g++"])?;
        std::fs::create_dir_all(self.out).with_context(|| self.out.display().to_string())?;
        self.for_c(root)?;
        let own = root.join("crates/rocksdb");
        let spawn = |(name, files): (&str, &[&str])| {
            let mut command = Command::new(&compiler);
            command.args(FLAGS).args(self.flags);
            command.arg("-I").arg(own.join("include")).arg("-isystem").arg(self.headers);
            command.args(files.iter().map(|file| own.join(format!("cpp/{file}.cc"))));
            command.arg(self.frazil(root)).args(["-lpthread", "-ldl", "-lm", "-o"]);
            command.arg(self.out.join(name)).spawn().context("g++")
        };
        step::announced("g++", || {
            let children = LIBRARIES.map(spawn);
            for child in children {
                step::succeeded("g++", child?.wait()?)?;
            }
            Ok(())
        })
    }

    /// Builds the libraries that C programs link.
    pub(crate) fn for_c(&self, root: &Path) -> anyhow::Result<()> {
        let mut cargo = step::cargo(root, ["build", "--locked", "--profile", self.profile]);
        cargo.args(["--package", "frazil-rocksdb", "--lib"]);
        step::run("cargo build, for C", &mut cargo)
    }

    /// The library that C programs link.
    pub(crate) fn frazil(&self, root: &Path) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or(root.join("target"), PathBuf::from);
        let folder = if self.profile == "test" { "debug" } else { self.profile };
        target.join(folder).join("libfrazil_rocksdb.a")
    }
}
