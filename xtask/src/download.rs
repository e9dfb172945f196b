//! Files of others that commands download once, and keep.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{step, tools};

/// Where a file comes from, what it is called here, and its SHA-256.
pub(crate) struct Download {
    pub(crate) url: &'static str,
    pub(crate) name: &'static str,
    pub(crate) sha256: &'static str,
}

impl Download {
    /// Downloads the file, unless it is there, and looks whether it is the one that is meant.
    fn fetch(&self, place: &Path) -> anyhow::Result<PathBuf> {
        let file = place.join(self.name);
        if !file.exists() {
            let curl = tools::ensure_program("curl", &["curl", "ca-certificates"])?;
            let partial = file.with_extension("partial");
            let mut command = Command::new(curl);
            command.args(["--silent", "--show-error", "--fail", "--location", "--retry", "3"]);
            command.arg("--output").arg(&partial).arg(self.url);
            step::run(&format!("download of {}", self.name), &mut command)?;
            std::fs::rename(&partial, &file)?;
        }
        let output = Command::new("sha256sum").arg(&file).output().context("sha256sum")?;
        if !String::from_utf8_lossy(&output.stdout).starts_with(self.sha256) {
            std::fs::remove_file(&file)?;
            bail!("{} is not the file that is meant: its SHA-256 differs", self.url);
        }
        Ok(file)
    }

    /// The same of an archive of `tar`, unpacked where `content` is not there.
    pub(crate) fn untar(&self, place: &Path, content: &str) -> anyhow::Result<()> {
        if place.join(content).exists() {
            return Ok(());
        }
        let file = self.fetch(place)?;
        step::run("tar", Command::new("tar").current_dir(place).arg("xzf").arg(file))
    }

    /// The same of one file of a `zip`.
    pub(crate) fn unzip(&self, place: &Path, content: &str) -> anyhow::Result<()> {
        if place.join(content).exists() {
            return Ok(());
        }
        let unzip = tools::ensure_program("unzip", &["unzip"])?;
        let file = self.fetch(place)?;
        let mut command = Command::new(unzip);
        step::run("unzip", command.current_dir(place).arg("-qo").arg(file).arg(content))
    }
}
