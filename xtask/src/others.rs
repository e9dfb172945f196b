//! Fetches published programs, packages and sources that a command needs: through cargo, Maven, npm and apt.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{step, tools};

/// The folder of cargo's sources of a crate, of exactly this version. Compiles nothing.
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

/// A jar from Maven (`group:name:version`, and perhaps `:jar:classifier`), copied unless it exists.
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

/// Installs an npm package with its dependencies, unless it exists.
pub(crate) fn npm_package(place: &Path, name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let package = place.join("node_modules").join(name);
    if !package.join("package.json").exists() {
        std::fs::create_dir_all(place).with_context(|| place.display().to_string())?;
        let npm = tools::ensure_program("npm", &["nodejs", "npm"])?;
        let mut command = Command::new(npm);
        command.current_dir(place).args(["install", "--silent", "--no-audit", "--no-fund"]);
        command.args(["--no-package-lock", "--prefix", "."]).arg(format!("{name}@{version}"));
        step::run(&format!("npm install {name}"), &mut command)?;
    }
    Ok(package)
}

/// Extracts one file from a jar, unless it exists.
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

/// The published source of a Debian package, unpacked unless it exists.
///
/// It uses its own lists of sources, made from the system's, which stay unchanged.
pub(crate) fn debian_source(place: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let find = || -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(place).ok()?.filter_map(Result::ok);
        let begins = format!("{package}-");
        entries.find_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name.starts_with(&begins) && entry.path().is_dir()).then(|| entry.path())
        })
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    let lists = place.join("apt/lists/partial");
    std::fs::create_dir_all(&lists).context("lists of sources")?;
    let sources = place.join("apt/sources.sources");
    let system = std::fs::read_to_string("/etc/apt/sources.list.d/debian.sources")
        .context("no list of Debian's sources on this machine")?;
    std::fs::write(&sources, system.replace("Types: deb\n", "Types: deb-src\n"))?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(place).arg("-o");
        command.arg(format!("Dir::Etc::sourcelist={}", sources.display()));
        command.args(["-o", "Dir::Etc::sourceparts=-", "-o"]);
        command.arg(format!("Dir::State::lists={}", place.join("apt/lists").display()));
        command.args(["-o", "APT::Sandbox::User=root"]).args(arguments);
        command
    };
    step::run("apt-get update, sources", &mut apt(&["update"]))?;
    step::run(
        &format!("apt-get source {package}"),
        &mut apt(&["source", "--download-only", package]),
    )?;
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        if path.to_string_lossy().contains(".orig.tar.") {
            step::run("tar", Command::new("tar").current_dir(place).arg("xf").arg(&path))?;
        }
    }
    find().with_context(|| format!("the source of {package} has no folder of its name"))
}
