//! The layers of `crates/frazil`: which file may name which (`docs/design/layers.md`).
//!
//! A module names modules of its own layer and of those below, and no two top-level modules of a
//! layer name each other in a circle. The core and the layers below it name no feature, except in
//! conditions on items.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};

/// From the lowest to the highest; files in none of these are the façade.
const LAYERS: [(&str, &[&str]); 4] = [
    ("ground", &["chunks", "clock", "distribution", "ensure", "events", "once_box", "sync"]),
    ("smr", &["smr"]),
    ("core", &["core"]),
    ("features", &["features"]),
];
const FACADE: usize = LAYERS.len();

/// Modules that may use everything: the public modules of the crate, and tests of its internals.
const EXEMPT: [&str; 3] = ["lib", "models", "validate"];

/// Words of features, which may not occur in the core. Calls of a policy may contain them.
const FEATURES: [&str; 9] =
    ["frozen", "freez", "thaw", "expir", "deadline", "listen", "record", "flight", "fetching"];
const POLICY_CALL: &str = "policy.";

/// The paths of the crate that a file names, outside of comments and tests.
struct File {
    path: String,
    module: String,
    names: BTreeSet<String>,
    lines: usize,
    foreign: Vec<String>,
}

/// Checks the arrows, and prints the layers.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let source = root.join("crates/frazil/src");
    let mut files = Vec::new();
    read(&source, &source, &mut files)?;
    let mut wrong = Vec::new();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !EXEMPT.contains(&file.module.as_str())) {
        let own = layer(&file.module);
        for name in &file.names {
            if layer(name) > own {
                wrong.push(format!("{} ({}) names {name}, above it", file.path, title(own)));
            }
            if layer(name) == own && *name != file.module {
                arrows.entry(file.module.clone()).or_default().insert(name.clone());
            }
        }
        if own <= layer("core") {
            wrong.extend(
                file.foreign.iter().map(|line| format!("{} names a feature: {line}", file.path)),
            );
        }
    }
    wrong.extend(circle(&arrows).map(|circle| format!("a circle: {}", circle.join(" → "))));
    if !wrong.is_empty() {
        bail!("layers of the cache:\n  {}", wrong.join("\n  "));
    }
    for own in (0..=FACADE).rev() {
        let of_layer = files.iter().filter(|file| layer(&file.module) == own);
        let (count, lines) =
            of_layer.fold((0, 0), |(count, lines), file| (count + 1, lines + file.lines));
        println!("{:>8}  {count:>3} files  {lines:>6} lines", title(own));
    }
    Ok(())
}

fn title(layer: usize) -> &'static str {
    LAYERS.get(layer).map_or("façade", |(title, _)| title)
}

fn layer(module: &str) -> usize {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module)).unwrap_or(FACADE)
}

fn read(source: &Path, folder: &Path, files: &mut Vec<File>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    for path in entries.into_iter().map(|entry| entry.path()) {
        if path.is_dir() {
            read(source, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let path = path.strip_prefix(source)?.to_string_lossy().into_owned();
            files.push(parse(path, &text));
        }
    }
    Ok(())
}

fn parse(path: String, text: &str) -> File {
    let module = path.split(['/', '.']).next().unwrap_or_default().to_owned();
    let tests = text.find("\n#[cfg(all(test").or_else(|| text.find("\n#[cfg(test)]\nmod"));
    let code = &text[..tests.unwrap_or(text.len())];
    let mut file =
        File { path, module, names: BTreeSet::new(), lines: text.lines().count(), foreign: vec![] };
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default();
        for after in line.split("crate::").skip(1) {
            let name =
                after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next();
            // A type that the crate exports is no module.
            let module = name.filter(|name| name.starts_with(char::is_lowercase));
            file.names.extend(module.map(str::to_owned));
        }
        let words = line.to_lowercase();
        // A condition on an item may name features, because code that uses the item need not know
        // them.
        let is_condition = line.trim_start().starts_with("#[cfg");
        let names_feature = FEATURES.iter().any(|word| words.contains(word));
        if names_feature && !is_condition && !line.contains(POLICY_CALL) {
            file.foreign.push(line.trim().to_owned());
        }
    }
    file
}

/// Modules that name each other in a cycle.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    arrows.keys().find_map(|start| {
        let mut path = vec![start.clone()];
        visit(arrows, &mut path, &mut BTreeSet::new()).then_some(path)
    })
}

/// Whether the path can be extended to a cycle; if so, extends it.
fn visit(
    arrows: &BTreeMap<String, BTreeSet<String>>,
    path: &mut Vec<String>,
    seen: &mut BTreeSet<String>,
) -> bool {
    let last = path[path.len() - 1].clone();
    for next in arrows.get(&last).into_iter().flatten() {
        if *next == path[0] {
            path.push(next.clone());
            return true;
        }
        if seen.insert(next.clone()) {
            path.push(next.clone());
            if visit(arrows, path, seen) {
                return true;
            }
            path.pop();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        parse("core/read.rs".to_owned(), text).names.into_iter().collect()
    }

    #[test]
    fn what_a_file_names_is_found_outside_comments_and_tests() {
        let text = "use crate::smr::fence;\n// crate::cache\nlet x = crate::events::event!(crate::Policy);\n\
                    #[cfg(test)]\nmod tests { use crate::builder; }";
        assert_eq!(names(text), ["events", "smr"]);
    }

    #[test]
    fn a_feature_is_known_by_its_words() {
        let file = parse("core/a.rs".to_owned(), "fn thaw() {}\npolicy.thaw();\n// thaw\n");
        assert_eq!(file.foreign, ["fn thaw() {}"]);
        assert!(layer("core") < layer("features") && layer("pin") == FACADE);
    }

    #[test]
    fn circles_are_found() {
        let arrows = |pairs: &[(&str, &str)]| {
            let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (from, to) in pairs {
                arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            }
            arrows
        };
        assert_eq!(circle(&arrows(&[("a", "b"), ("b", "c")])), None);
        let round = circle(&arrows(&[("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]));
        assert_eq!(round.expect("there is one").join(""), "abca");
    }
}
