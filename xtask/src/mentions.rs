//! Checks that code mentioned in documents exists: files, members and fields.
//!
//! A word in backticks that ends in `.rs` must be the end of a tracked file's path. `Type::member`
//! must be a function or a field in a file that defines the type or has an `impl` of it, if the
//! tree has the type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::house::files;

/// Documents about the past, whose mentions are not checked.
const OF_THE_PAST: [&str; 1] = ["CHANGELOG.md"];

/// By type, the functions and fields in all files that define it, or implement something of it.
type Members = BTreeMap<String, BTreeSet<String>>;

/// Lists every mention in a document of a file or member that does not exist.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let sources = files(root, "*.rs")?;
    let members = members(root, &sources)?;
    let mut wrong = Vec::new();
    for document in files(root, "*.md")? {
        let past = OF_THE_PAST.contains(&document.as_str()) || document.ends_with("decisions.md");
        // Deleted, but still in git's index.
        let Ok(text) = fs::read_to_string(root.join(&document)) else { continue };
        for (number, line) in text.lines().enumerate().filter(|_| !past) {
            let named = line.split('`').skip(1).step_by(2);
            let missing = named.filter(|named| !exists(named, &sources, &members));
            wrong.extend(missing.map(|named| format!("{document}:{}: `{named}`", number + 1)));
        }
    }
    if !wrong.is_empty() {
        bail!("documents mention what is not there:\n  {}", wrong.join("\n  "));
    }
    eprintln!("xtask: mentions of the code: ok");
    Ok(())
}

fn exists(named: &str, sources: &[String], members: &Members) -> bool {
    if named.ends_with(".rs") && named.chars().all(|c| is_of_name(c) || "/.-".contains(c)) {
        return sources.iter().any(|source| {
            source.strip_suffix(named).is_some_and(|left| left.is_empty() || left.ends_with('/'))
        });
    }
    let Some((owner, member)) = named.split_once("::") else { return true };
    let member = member.trim_end_matches("()");
    let is_member = member.starts_with(char::is_lowercase) && member.chars().all(is_of_name);
    !is_member || members.get(owner).is_none_or(|members| members.contains(member))
}

fn members(root: &Path, sources: &[String]) -> anyhow::Result<Members> {
    let mut members = Members::new();
    for source in sources.iter().filter(|source| source.contains("src/")) {
        let text = fs::read_to_string(root.join(source)).with_context(|| source.clone())?;
        let mut owners = BTreeSet::new();
        let mut defined = BTreeSet::new();
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            owners.extend(types(line));
            defined.extend(after(line, "fn ").or_else(|| field(line)).map(str::to_owned));
        }
        for owner in owners {
            members.entry(owner).or_default().extend(defined.iter().cloned());
        }
    }
    // Types with two names.
    let core = members.get("Featured").cloned().unwrap_or_default();
    members.entry("Core".to_owned()).or_default().extend(core);
    Ok(members)
}

/// The types that a line defines, or begins an `impl` for.
fn types(line: &str) -> Vec<String> {
    if line.starts_with("impl") {
        let names = line.split(|c: char| !is_of_name(c));
        let is_type = |name: &&str| name.len() > 1 && name.starts_with(char::is_uppercase);
        return names.filter(is_type).map(str::to_owned).collect();
    }
    let defined = ["struct ", "enum ", "trait ", "type "].into_iter();
    defined.filter_map(|what| after(line, what)).map(str::to_owned).collect()
}

/// The name that comes after a keyword, if that begins the line or follows a space.
fn after<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let (before, rest) = line.split_once(keyword)?;
    let name = rest.split(|c: char| !is_of_name(c)).next()?;
    (before.is_empty() || before.ends_with(' ')).then_some(name).filter(|name| !name.is_empty())
}

/// The name of the field that a line defines, or of anything that looks like one.
fn field(line: &str) -> Option<&str> {
    let name = line.split_once(": ")?.0.rsplit(' ').next()?;
    (!name.is_empty() && name.chars().all(is_of_name)).then_some(name)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told_from_what_is() {
        let sources = ["crates/frazil/src/core/read.rs".to_owned()];
        let members = Members::from([("Core".to_owned(), BTreeSet::from(["get".to_owned()]))]);
        let exists = |named| exists(named, &sources, &members);
        let there = ["core/read.rs", "read.rs", "Core::get", "Core::get()", "Arc::clone", "a rs"];
        assert!(there.into_iter().all(exists));
        let missing = ["ad.rs", "core/write.rs", "Core::put"];
        assert!(!missing.into_iter().any(exists));
    }

    #[test]
    fn types_and_members_are_found() {
        assert_eq!(types("impl<K, V> Core<K, V> {"), ["Core"]);
        assert_eq!(types("pub(crate) struct Held<'s> {"), ["Held"]);
        assert_eq!(field("pub(crate) hits: u64,"), Some("hits"));
        assert_eq!(after("pub(super) const unsafe fn fill(&self)", "fn "), Some("fill"));
    }
}
