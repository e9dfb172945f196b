//! `cargo xtask check report`: opens reports of `frazil advise` in a headless browser.
//!
//! `xtask/report/check.mjs` has the checks. This file makes the reports, one of each kind that a
//! page can show, and finds the programs that are needed.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::{step, test, tools};

/// Name, and arguments of `frazil advise`.
const REPORTS: [(&str, &str); 8] = [
    ("nine-policies", "--limit 400000"),
    ("one-policy", "--trace zipf:1.0:objects=2K:requests=100K --policy lru --capacity 10%"),
    (
        "several-traces",
        "--trace zipf:1.0:objects=20K:requests=300K loop:objects=5K:requests=100K \
         zipf:0.7:objects=30K:requests=300K:seed=3 --sample 8K --policy lru,mobius,lirs,mad \
         --cores 64 --backend 10us",
    ),
    ("a-loop", "--trace loop:objects=5K:requests=100K"),
    // Small prices have digits too.
    (
        PRICES,
        "--trace zipf:1.0:objects=20K:requests=300K --policy lru,fifo --value-bytes 100 \
         --memory-price 0.02 --miss-price 0.0000001 --request-rate 100 --cores 2 --backend 1us",
    ),
    ("no-cache", "--trace loop:objects=20K:requests=20K --policy lru,s3-fifo"),
    // Every column that tables may have.
    (
        LONG,
        "--unit bytes --policy lru,w-tinylfu,frozen+w-tinylfu --columns time=1,id=2,size=3 \
         --memory-price 30 --miss-price 40 --request-rate 1000 --backend 1ms --cores 64",
    ),
    ("bytes", "--unit bytes --policy lru,gdsf,s3-fifo,mad --columns time=1,id=2,size=3"),
];
const PRICES: &str = "prices";
const LONG: &str = "long-names";
/// A profile of a machine where hits of LRU take turns, so that a larger cache is slower.
const TURNS: &str = "machine = { description = \"here\", cores = 2 }
stations.lock.service_us = 1
think.look-up.mean_us = 0.1
quality = { runs = 10, disturbed = 0 }
[networks.lru]
hit = { think.look-up = 1, stations.lock = 1 }
miss = { think.look-up = 1 }
[networks.fifo]
hit = { think.look-up = 1 }
miss = { think.look-up = 1 }
";
/// A trace with sizes, whose name would become markup if the page did not escape it.
const SIZED: &str = "<img src=x onerror=alert(1)>.csv";

/// A folder with a name wider than any card.
const NESTED: &str = "production_eu_west_1_edge_cache_access_log_of_the_last_week_of_november";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let chromium = tools::ensure_program("chromium", &["chromium"])?;
    tools::ensure_program("npm", &["nodejs", "npm"])?;
    let scripts = root.join("xtask/report");
    let install = ["ci", "--no-audit", "--no-fund"];
    step::run("npm ci", Command::new("npm").args(install).current_dir(&scripts))?;
    // The tests' build: optimised, and already there after a test run.
    test::build(root, false)?;
    let folder = root.join("target/report");
    std::fs::create_dir_all(&folder)?;
    let sized = folder.join(SIZED);
    let rows = (0..60_000u64).map(|at| {
        let id = (at * 7919 % 10_007) * (at * 104_729 % 5_003) % 9_001;
        format!("{},{id},{}\n", at / 50, 1_000 + id * 37 % 900_000)
    });
    std::fs::write(&sized, rows.collect::<String>())?;
    let nested = folder.join(NESTED);
    std::fs::create_dir_all(&nested)?;
    let nested = nested.join(SIZED);
    std::fs::copy(&sized, &nested)?;
    let turns = folder.join("turns.toml");
    std::fs::write(&turns, TURNS)?;
    let mut pages = Vec::new();
    for (name, question) in REPORTS {
        let page = folder.join(format!("{name}.html"));
        let mut advise = test::built(root, "frazil");
        advise.arg("advise").args(question.split_whitespace());
        if name == "bytes" {
            advise.arg("--trace").arg(&sized);
        }
        if name == LONG {
            advise.arg("--trace").args([&sized, &nested]);
        }
        if name == PRICES {
            advise.arg("--profile").arg(&turns);
        }
        let output = advise.arg("--report").arg(&page).output().context("target/debug/frazil")?;
        let told = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{name}: {told}");
        pages.push(page);
    }
    let mut look = Command::new("node");
    look.arg(scripts.join("check.mjs")).arg(chromium).arg(&folder).args(pages);
    step::run("look at the reports", &mut look)
}
