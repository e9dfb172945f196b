//! Checks licences and origins of all dependencies against `deny.toml`, and the number of crates
//! that the cache depends on.
//!
//! cargo-deny reads the same file and checks more (advisories, crates in two versions), but takes a
//! minute and a half to build, so it runs only before a release. This module checks what must fail
//! a build.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{publish, step};

/// The most crates that a user of the cache builds beside ours (docs/design/decisions.md).
const CRATES_MAX: usize = 11;

/// Checks every package that any platform or feature needs, and names all violations.
///
/// # Errors
///
/// A licence or an origin is not allowed, one of our crates accepts any version of another, or
/// cargo cannot list the packages.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let allowed: toml::Table = text.parse().context("deny.toml")?;
    let mut metadata = step::cargo(root, ["metadata", "--locked", "--all-features"]);
    let output = metadata.args(["--format-version", "1"]).output().context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let licences = names(&allowed["licenses"]["allow"]);
    let registries = names(&allowed["sources"]["allow-registry"]);
    let complaints: Vec<_> =
        packages.iter().flat_map(|package| complaints(package, &licences, &registries)).collect();
    if !complaints.is_empty() {
        bail!(
            "not allowed by deny.toml, or not ready for crates.io:\n  {}",
            complaints.join("\n  ")
        );
    }
    eprintln!("xtask: licences and origins of {} packages: ok", packages.len());
    Ok(())
}

/// Counts the crates of a program with the cache, on this system.
///
/// # Errors
///
/// There are too many, or cargo cannot list them.
pub(crate) fn count(root: &Path) -> anyhow::Result<()> {
    let mut tree = step::cargo(root, ["tree", "--locked", "--package", "frazil"]);
    tree.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let output = tree.output().context("cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8(output.stdout).context("cargo tree")?;
    let mut crates = crates(&text);
    crates.retain(|name| !name.starts_with("frazil"));
    if crates.len() > CRATES_MAX {
        let crates: Vec<_> = crates.into_iter().collect();
        bail!(
            "frazil stands on more than {CRATES_MAX} crates of others:\n  {}",
            crates.join("\n  ")
        );
    }
    eprintln!("xtask: frazil stands on {} crates of others, of {CRATES_MAX} at most", crates.len());
    Ok(())
}

/// The crates of a tree, each once: name and version.
fn crates(tree: &str) -> BTreeSet<String> {
    let of_line = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    tree.lines().filter(|line| !line.is_empty()).map(of_line).collect()
}

fn names(list: &toml::Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(toml::Value::as_str).collect()
}

/// The errors of a package of `cargo metadata`.
fn complaints(
    package: &Value,
    licences: &BTreeSet<&str>,
    registries: &BTreeSet<&str>,
) -> Vec<String> {
    let text = |field: &str| package[field].as_str();
    let name = format!("{} {}", text("name").unwrap_or("?"), text("version").unwrap_or("?"));
    let mut complaints = Vec::new();
    let licence = text("license").unwrap_or("no licence");
    let is_allowed = |licence: &spdx::LicenseReq| {
        // An exception extends a licence, and the list has no exceptions.
        licence.addition.is_none() && licences.contains(licence.license.to_string().as_str())
    };
    let read = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX);
    if !read.is_ok_and(|read| read.evaluate(is_allowed)) {
        complaints.push(format!("{name}: {licence}"));
    }
    // Our own crates have no source.
    let Some(source) = text("source") else {
        let needed = package["dependencies"].as_array().into_iter().flatten();
        let any = needed.filter(|needed| needed["req"] == "*" && needed["path"].is_null());
        complaints.extend(any.map(|needed| format!("{name}: any version of {}", needed["name"])));
        complaints.extend(publish::complaints(package));
        return complaints;
    };
    if !source.strip_prefix("registry+").is_some_and(|source| registries.contains(source)) {
        complaints.push(format!("{name}: from {source}"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(package: &str) -> Vec<String> {
        let package = serde_json::from_str(package).unwrap();
        complaints(&package, &["MIT", "Zlib"].into(), &["https://here"].into())
    }

    #[test]
    fn a_crate_that_a_tree_names_twice_is_counted_once() {
        let tree = "a v1.0.0 (/a)\nb v2.0.0\nc v1.1.0 (proc-macro)\nb v2.0.0 (*)\nb v1.0.0\n";
        assert_eq!(
            crates(tree).into_iter().collect::<Vec<_>>(),
            ["a v1.0.0", "b v1.0.0", "b v2.0.0", "c v1.1.0"]
        );
    }

    #[test]
    fn a_licence_is_allowed_where_one_of_a_choice_is() {
        let of = |licence: &str| {
            let source = r#""source": "registry+https://here""#;
            told(&format!(r#"{{"name": "a", "version": "1", "license": "{licence}", {source}}}"#))
        };
        assert!(of("MIT").is_empty() && of("GPL-3.0-only OR MIT").is_empty());
        assert!(of("Zlib/MIT").is_empty());
        assert_eq!(of("Zlib AND GPL-3.0-only"), ["a 1: Zlib AND GPL-3.0-only"]);
        assert_eq!(of("whatever"), ["a 1: whatever"]);
    }

    #[test]
    fn an_origin_that_is_not_listed_and_a_dependency_of_any_version_are_named() {
        let git = r#"{"name": "a", "version": "1", "license": "MIT", "source": "git+https://b"}"#;
        assert_eq!(told(git), ["a 1: from git+https://b"]);
        let ours = r#"{"name": "a", "version": "1", "license": "MIT", "source": null, "publish": [],
            "dependencies": [{"name": "b", "req": "*"}, {"name": "c", "req": "*", "path": "/c"},
            {"name": "d", "req": "^1"}]}"#;
        assert_eq!(told(ours), [r#"a 1: any version of "b""#]);
    }
}
