//! Checks what crates.io requires of the crates that users depend on: those without `publish =
//! false`.
//!
//! `lint` reads the manifests; `cargo xtask check publish` runs all of cargo's steps except the
//! upload.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::step;

/// Size of a compressed crate, in bytes. The largest had 0.33 MB on 2026-11-26; crates.io takes 10
/// MB.
const SIZE_MAX: u64 = 500_000;
/// The most keywords that crates.io accepts.
const KEYWORDS_MAX: usize = 5;
/// Files that each crate includes beside its manifest.
const FILES: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packs every crate, compiles it from its package alone, and checks its size.
///
/// # Errors
///
/// crates.io would refuse a crate, or it does not compile, or it is too large.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let packages = root.join("target/package");
    if packages.exists() {
        fs::remove_dir_all(&packages).context("target/package")?;
    }
    let mut publish = step::cargo(root, ["publish", "--workspace", "--dry-run", "--locked"]);
    // Uncommitted changes are packed too, so that a change can be tried before its commit.
    publish.arg("--allow-dirty").env_remove("CARGO_TARGET_DIR");
    step::run("cargo publish --dry-run", &mut publish)?;
    let mut found = 0;
    // The packages are in a temporary registry, where a dry run finds the other crates.
    for file in fs::read_dir(packages.join("tmp-registry")).context("target/package")? {
        let path = file?.path();
        if path.extension().is_some_and(|it| it == "crate") {
            let bytes = fs::metadata(&path)?.len();
            eprintln!("xtask: {}: {bytes} bytes", path.display());
            ensure!(bytes <= SIZE_MAX, "{}: {bytes} bytes, at most {SIZE_MAX}", path.display());
            found += 1;
        }
    }
    if found == 0 {
        bail!("no crate in target/package");
    }
    eprintln!("xtask: {found} crates can be published");
    Ok(())
}

/// The fields that a package of `cargo metadata` lacks for publication; none if it is not
/// published.
pub(crate) fn complaints(package: &Value) -> Vec<String> {
    let list = |field: &str| package[field].as_array().map_or(&[][..], Vec::as_slice);
    // `null` means any registry, and an empty list none.
    if package["publish"].as_array().is_some_and(Vec::is_empty) {
        return Vec::new();
    }
    let name = package["name"].as_str().unwrap_or("?");
    let texts = ["description", "license", "readme", "rust_version"];
    let mut lacking: Vec<String> = texts
        .iter()
        .filter(|&&field| package[field].as_str().is_none_or(str::is_empty))
        .map(|field| format!("{name}: no {field}"))
        .collect();
    let keywords = list("keywords").len();
    if keywords == 0 || keywords > KEYWORDS_MAX || list("categories").is_empty() {
        lacking.push(format!("{name}: needs 1 to {KEYWORDS_MAX} keywords, and categories"));
    }
    // Cargo omits development dependencies without a version.
    let needed = list("dependencies").iter().filter(|needed| needed["kind"] != "dev");
    let any = needed.filter(|needed| needed["req"] == "*");
    lacking.extend(any.map(|needed| format!("{name}: no version of {}", needed["name"])));
    let folder = package["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
    let missing = FILES.iter().filter(|file| folder.is_none_or(|it| !it.join(file).is_file()));
    lacking.extend(missing.map(|file| format!("{name}: no {file} beside its manifest")));
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_published_has_all_that_is_shown_of_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = |name: &str| root.join("crates").join(name).join("Cargo.toml");
        let whole = json!({
            "name": "a", "publish": null, "description": "d", "license": "MIT",
            "readme": "README.md", "rust_version": "1.95", "keywords": ["k"], "categories": ["c"],
            "dependencies": [
                {"name": "b", "req": "^1", "kind": null},
                {"name": "c", "req": "*", "kind": "dev"},
            ],
            "manifest_path": manifest("policy"),
        });
        assert_eq!(complaints(&whole), [""; 0]);
        let with = |field: &str, value: Value| {
            let mut package = whole.clone();
            package[field] = value;
            complaints(&package)
        };
        assert_eq!(with("description", Value::Null), ["a: no description"]);
        assert_eq!(with("readme", Value::Null), ["a: no readme"]);
        assert_eq!(with("categories", json!([])).len(), 1);
        assert_eq!(with("keywords", json!(vec!["k"; 6])).len(), 1);
        let any = json!([{"name": "b", "req": "*", "kind": null}]);
        assert_eq!(with("dependencies", any), ["a: no version of \"b\""]);
        assert_eq!(with("manifest_path", json!(manifest("no such"))).len(), FILES.len());
        // Internal packages need no fields.
        assert_eq!(complaints(&json!({"name": "a", "publish": []})), [""; 0]);
    }
}
