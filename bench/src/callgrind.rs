//! Counts of callgrind for a function: instructions, and misses of simulated processor caches. They
//! depend neither on the machine nor on its other work.

use std::process::Command;

use anyhow::{Context as _, bail};

/// 32 KiB with eight ways in the first level, and a core's part of the last level: 4 MiB.
const CACHES: [&str; 3] = ["--cache-sim=yes", "--D1=32768,8,64", "--LL=4194304,16,64"];

/// Counts of a function, including all functions that it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    /// Data reads and writes that missed the first level.
    pub(crate) first_level_misses: u64,
    /// Accesses that missed all caches, and went to memory.
    pub(crate) last_level_misses: u64,
}

/// Counts a run of this program with `arguments` within the functions that `toggled` names, with
/// `*` for anything. Without valgrind prints a line, and returns `None`.
///
/// # Errors
///
/// Nothing was counted, because no function has this name, or the program failed.
pub(crate) fn count(toggled: &str, arguments: &[&str]) -> anyhow::Result<Option<Counts>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no valgrind, so instructions are not counted");
        return Ok(None);
    }
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .args(CACHES)
        .arg(format!("--toggle-collect={toggled}"))
        .arg(std::env::current_exe()?)
        .args(arguments)
        .output()
        .context("valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    match counts(&text) {
        Some(counts) if counts.instructions > 0 => Ok(Some(counts)),
        _ => bail!("nothing was counted: {text}"),
    }
}

/// Reads the two lines with the names and the counts of callgrind's events.
fn counts(text: &str) -> Option<Counts> {
    let after = |what: &str| text.lines().find_map(|line| Some(line.split_once(what)?.1));
    let names = after("Events    : ")?.split_whitespace();
    let numbers = after("Collected : ")?.split_whitespace();
    let mut counts = Counts::default();
    for (name, number) in names.zip(numbers) {
        let place = match name {
            "Ir" => &mut counts.instructions,
            "D1mr" | "D1mw" => &mut counts.first_level_misses,
            "DLmr" | "DLmw" => &mut counts.last_level_misses,
            _ => continue,
        };
        *place += number.parse::<u64>().ok()?;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_counted_together() {
        let text = "==7== Events    : Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
                    ==7== Collected : 1000 300 200 9 20 30 9 4 5\n";
        let expected = Counts { instructions: 1_000, first_level_misses: 50, last_level_misses: 9 };
        assert_eq!(counts(text), Some(expected));
        assert_eq!(counts("==7== Collected : 1000\n"), None);
    }
}
