//! `cargo xtask release-check`: all checks at their full length, and all figures.
//!
//! It takes a day. It runs the checks for which CI has no time, and longer versions of CI's.

use std::path::Path;

use anyhow::bail;

use crate::check::{self, Checker};
use crate::test::{self, Extent};
use crate::{
    figures, fuzz, hit, lint, mutants, packages, reference, smoke, soak, step, suites, tools,
};

/// Half an hour, and ten minutes.
const SOAK_SECONDS: u64 = 1_800;
const FUZZ_SECONDS: u32 = 600;

type Step = fn(&Path) -> anyhow::Result<()>;

/// By the names for `--only`, quick ones first.
const STEPS: [(&str, Step); 30] = [
    ("lint", lint::run),
    ("deny", deny),
    ("hit", hit::run),
    ("book", |root| check::run(root, Checker::Book, true)),
    ("targets", |root| check::run(root, Checker::Targets, true)),
    ("publish", |root| check::run(root, Checker::Publish, true)),
    ("release", packages::run),
    ("report", |root| check::run(root, Checker::Report, true)),
    ("smoke", smoke::run),
    ("test", |root| test::run(root, Extent::Long, &[])),
    ("no-membarrier", |root| check::run(root, Checker::NoMembarrier, true)),
    ("suites", |root| suites::run(root, "")),
    ("memcached", |root| check::run(root, Checker::Memcached, true)),
    ("redis", |root| check::run(root, Checker::Redis, true)),
    ("http", |root| check::run(root, Checker::Http, true)),
    ("clients", |root| check::run(root, Checker::Clients, true)),
    ("nutcracker", |root| check::run(root, Checker::Nutcracker, true)),
    ("wire", |root| check::run(root, Checker::Wire, true)),
    ("python", |root| check::run(root, Checker::Python, true)),
    ("loom", |root| check::run(root, Checker::Loom, true)),
    ("shuttle", |root| check::run(root, Checker::Shuttle, true)),
    ("miri", |root| check::run(root, Checker::Miri, true)),
    ("tsan", |root| check::run(root, Checker::Tsan, true)),
    ("asan", |root| check::run(root, Checker::Asan, true)),
    ("rocksdb", |root| check::run(root, Checker::Rocksdb, true)),
    ("rocksdb-stress", |root| check::run(root, Checker::RocksdbStress, true)),
    ("soak", |root| soak::run(root, SOAK_SECONDS, "")),
    ("fuzz", |root| fuzz::run(root, FUZZ_SECONDS, None)),
    ("mutants", |root| mutants::run(root, None)),
    ("figures", all_figures),
];

/// Runs every step, or those in `only`, to its end, and names all that failed.
pub(crate) fn run(root: &Path, only: &[String]) -> anyhow::Result<()> {
    let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("no step `{unknown}`; there are {}", names.join(", "));
    }
    let mut failed = Vec::new();
    for (name, work) in STEPS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        if let Err(error) = step::announced(&format!("release-check: {name}"), || work(root)) {
            eprintln!("xtask: {name}: {error:#}");
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Without advisories: they change without a change of ours.
fn deny(root: &Path) -> anyhow::Result<()> {
    tools::ensure_cargo_deny(root)?;
    step::run(
        "cargo deny",
        step::cargo(root, ["deny", "--workspace", "--all-features", "--locked"])
            .args(["check", "licenses", "bans", "sources"]),
    )
}

fn all_figures(root: &Path) -> anyhow::Result<()> {
    figures::run(root, &figures::DOCUMENTS.map(str::to_owned), "")?;
    reference::run(root)
}
