//! `cargo xtask hit --features`: measures the cost of each feature of the cache for a program that
//! includes but does not use it, and of a cache without any.
//!
//! The program is `pinned_hit`: gets and insertions in a cache from numbers to numbers. It measures
//! the section `.text`, including the standard library and all policies, and counts by callgrind
//! the instructions of a hit and of an insertion. Each of eight programs takes a minute.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{figures, step};

/// The cargo features of `frazil` that a user may leave out.
pub(crate) const FEATURES: [&str; 5] = ["expiry", "freezing", "listener", "loading", "recording"];

/// Number of hits in the program, and of insertions that evict.
const HITS: u64 = 10_000;
const INSERTIONS: u64 = 10_000;

/// For each feature, all others.
pub(crate) fn all_but_one() -> [Vec<&'static str>; FEATURES.len()] {
    FEATURES
        .map(|left_out| FEATURES.iter().copied().filter(|feature| *feature != left_out).collect())
}

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        eprintln!("xtask: SKIPPED: the sizes of programs are read on Linux only, 64 bits");
        return Ok(());
    }
    let mut programs = vec![("all".to_owned(), FEATURES.to_vec())];
    let names = FEATURES.map(|left_out| format!("all but {left_out}"));
    programs.extend(names.into_iter().zip(all_but_one()));
    programs.push(("none".to_owned(), Vec::new()));
    programs.push(("the core alone".to_owned(), vec!["core"]));
    let mut lines = vec![figures::provenance()?];
    lines.push("| features | bytes of code | instructions of a hit | of an insertion |".to_owned());
    lines.push("|---|---|---|---|".to_owned());
    for (name, features) in programs {
        let program = build(root, &features)?;
        let bytes = std::fs::read(&program).with_context(|| program.display().to_string())?;
        let size = text_size(&bytes).context("no section .text")?;
        let [hit, insertion] = [("get_hit", HITS), ("insert_new", INSERTIONS)]
            .map(|(function, calls)| instructions(&program, function, calls));
        lines.push(format!("| {name} | {size} | {} | {} |", hit?, insertion?));
    }
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// The program with these features.
fn build(root: &Path, features: &[&str]) -> anyhow::Result<PathBuf> {
    let mut command = step::cargo(root, ["build", "--release", "--locked", "-p", "pinned_hit"]);
    command.args(["--no-default-features", "--features", &features.join(",")]);
    // In a separate folder, because each program replaces the previous one.
    let target = root.join("target/sizes");
    command.arg("--target-dir").arg(&target);
    step::run(&format!("cargo build, features: {}", features.join(" ")), &mut command)?;
    Ok(target.join("release/pinned_hit"))
}

/// Instructions of a call of a function with all its callees, or a note that this machine cannot
/// count them.
fn instructions(program: &Path, function: &str, calls: u64) -> anyhow::Result<String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={function}")).arg(program);
    let Ok(output) = command.output() else { return Ok("no valgrind".to_owned()) };
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, count)| count.trim().parse::<u64>().ok()) {
        Some(count) if count > 0 => Ok(format!("{:.1}", count as f64 / calls as f64)),
        _ => bail!("{function} was not counted: {text}"),
    }
}

/// Length of the section `.text` of a 64-bit ELF file in this machine's byte order.
fn text_size(file: &[u8]) -> Option<u64> {
    let bytes = |at: u64, length: usize| {
        let at = usize::try_from(at).ok()?;
        file.get(at..at.checked_add(length)?)
    };
    let long = |at: u64| Some(u64::from_ne_bytes(bytes(at, 8)?.try_into().ok()?));
    let short = |at: u64| Some(u16::from_ne_bytes(bytes(at, 2)?.try_into().ok()?));
    if bytes(0, 4)? != b"\x7fELF" {
        return None;
    }
    // The headers of sections: length, number, and the index of the names' header.
    let (headers, length) = (long(40)?, u64::from(short(58)?));
    let (count, names) = (u64::from(short(60)?), u64::from(short(62)?));
    let names = long(headers + names * length + 24)?;
    (0..count).map(|number| headers + number * length).find_map(|header| {
        let name = u32::from_ne_bytes(bytes(header, 4)?.try_into().ok()?);
        (bytes(names + u64::from(name), 6)? == b".text\0").then(|| long(header + 32))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_this_program_has_a_size() {
        assert_eq!(text_size(b"#!/bin/sh"), None);
        if cfg!(all(target_os = "linux", target_pointer_width = "64")) {
            let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
            let size = text_size(&file).unwrap();
            assert!(size > 100_000 && size < file.len() as u64, "{size}");
        }
    }
}
