//! What others have published and a command needs: by cargo and Maven, kept where they keep it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{step, tools};

/// Where cargo has the sources of a crate of exactly this version. Compiles nothing.
pub(crate) fn sources(place: &Path, name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let package = place.join("sources");
    std::fs::create_dir_all(&package).with_context(|| package.display().to_string())?;
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\n\
         {name} = {{ version = \"={version}\", default-features = false }}\n"
    );
    std::fs::write(package.join("Cargo.toml"), manifest).context("a manifest")?;
    std::fs::write(package.join("lib.rs"), "").context("a library")?;
    let output = step::cargo(&package, ["metadata", "--format-version", "1"]).output()?;
    if !output.status.success() {
        bail!("{name} {version}: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let found = packages.iter().find(|package| package["name"] == name);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("cargo does not say where {name} is"))?;
    Path::new(manifest).parent().map(PathBuf::from).context("a manifest without a folder")
}

/// A jar of Maven's (`group:name:version`, and perhaps `:jar:classifier`), copied unless it is there.
pub(crate) fn jar(place: &Path, artifact: &str) -> anyhow::Result<PathBuf> {
    let jars = place.join("jars");
    let parts: Vec<&str> = artifact.split(':').collect();
    let named = match parts[..] {
        [_, name, version] => format!("{name}-{version}.jar"),
        [_, name, version, _, classifier] => format!("{name}-{version}-{classifier}.jar"),
        _ => bail!("`{artifact}` is no name of Maven's"),
    };
    let jar = jars.join(named);
    if !jar.exists() {
        let maven = tools::ensure_program("mvn", &["maven"])?;
        let mut command = Command::new(maven);
        command.args(["--quiet", "--batch-mode", "dependency:copy"]);
        command.arg(format!("-Dartifact={artifact}"));
        command.arg(format!("-DoutputDirectory={}", jars.display()));
        step::run(&format!("mvn, {artifact}"), &mut command)?;
    }
    if !jar.exists() {
        bail!("Maven has copied no {}", jar.display());
    }
    Ok(jar)
}

/// Takes one file out of a jar, unless it is there.
pub(crate) fn from_jar(place: &Path, artifact: &str, content: &str) -> anyhow::Result<PathBuf> {
    let file = place.join(content);
    if file.exists() {
        return Ok(file);
    }
    let unzip = tools::ensure_program("unzip", &["unzip"])?;
    let jar = jar(place, artifact)?;
    let mut command = Command::new(unzip);
    command.current_dir(place).arg("-qo").arg(jar).arg(content);
    step::run("unzip", &mut command)?;
    Ok(file)
}
