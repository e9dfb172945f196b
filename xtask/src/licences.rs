//! Collects the licences of all crates linked into the command, which must accompany a binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::packages::output;
use crate::step;

/// Prefixes of the names of licence files.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
/// Folders, beside a crate's own, with code that is compiled into it.
const WITHIN: [&str; 3] = [".", "zstd", "assets/uplot"];

/// No crate is used under this licence: every crate that offers it offers another too.
const NOT_USED: &str = "GNU GENERAL PUBLIC LICENSE";
const HEAD: &str = "What is linked into frazil, and its licences.

Beside the crates below these are Rust's standard library (MIT or Apache-2.0, Copyright (c) The
Rust Project Contributors) and musl (MIT, Copyright (c) 2005-2020 Rich Felker, et al.), whose texts
are among those below.
";

/// The texts, each once, under the names of its crates.
pub(crate) fn text(root: &Path, target: &str) -> anyhow::Result<String> {
    let mut tree = step::cargo(root, ["tree", "--locked", "--package", "frazil-cli"]);
    tree.args(["--features", "full", "--target", target, "--edges", "normal"]);
    let tree = output(tree.args(["--prefix", "none", "--format", "{p}"]))?;
    let metadata = step::cargo(root, ["metadata", "--locked", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&output({ metadata }.args(["--all-features"]))?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let field = |name: &str| package[name].as_str().unwrap_or("?");
        let named = format!("{} v{}", field("name"), field("version"));
        if !tree.lines().any(|line| line == named || line.starts_with(&format!("{named} "))) {
            continue;
        }
        let folder =
            Path::new(field("manifest_path")).parent().context("a manifest is in a folder")?;
        let named = format!("{named}: {}", field("license"));
        for text in of_crate(folder)? {
            texts.entry(text).or_default().push(named.clone());
        }
    }
    if texts.is_empty() {
        bail!("no licences of what is linked in");
    }
    let mut page = HEAD.to_owned();
    for (text, crates) in texts {
        page += &format!("\n{0}\n{1}\n{0}\n\n{text}\n", "-".repeat(72), crates.join("\n"));
    }
    Ok(page)
}

/// The texts in a crate's folders, with uniform line ends.
fn of_crate(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for within in WITHIN {
        let Ok(files) = fs::read_dir(folder.join(within)) else { continue };
        for file in files {
            let file = file?;
            let name = file.file_name().to_string_lossy().to_uppercase();
            if NAMES.iter().any(|known| name.starts_with(known)) && file.path().is_file() {
                let text =
                    fs::read(file.path()).with_context(|| file.path().display().to_string())?;
                let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
                if !text.contains(NOT_USED) {
                    texts.push(text.trim_end().to_owned());
                }
            }
        }
    }
    Ok(texts)
}
