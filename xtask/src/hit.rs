//! `cargo xtask hit`: reads the instructions of a hit through a pin.
//!
//! What a hit must not do is a statement about machine code, so it is read there: the
//! program `pinned_hit` has the look-up as a function of its own. It and what it calls
//! may hold no locked instruction, no fence, and few stores beside those to
//! the stack: the mark, which is jumped over where it is set, and the thread's own counts.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::step;

/// What may be called: only the first two where no entry has a lifetime.
const CALLS: [&str; 8] = [
    "find_further",
    "find_next_door",
    "time@",
    "is_outlived_in_use",
    "miss_expired",
    "get_observed",
    "used_under_lock",
    "panic",
];

/// Stores beside the stack: the mark, and the count of hits, of frozen ones or of misses and
/// what was missed.
const STORES_MAX: usize = 5;

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("xtask: SKIPPED: the instructions of x86-64 are read on x86-64 only");
        return Ok(());
    }
    let mut command = step::cargo(root, ["rustc", "--release", "--locked", "-p", "pinned_hit"]);
    let target = root.join("target");
    command.arg("--target-dir").arg(&target);
    command.args(["--", "--emit", "asm", "-C", "lto=no"]);
    step::run("cargo rustc", &mut command)?;
    let text = assembly(&target.join("release/deps"))?;
    let hit = function(&text, |label| label == "pinned_hit")
        .context("the assembly has no function pinned_hit")?;
    let called: Vec<&str> = hit.iter().filter(|line| line.starts_with("call")).copied().collect();
    println!("{} instructions, of which are called:", hit.len());
    called.iter().for_each(|call| println!("  {call}"));
    if called.iter().any(|call| !CALLS.iter().any(|known| call.contains(known))) {
        bail!("a hit through a pin calls what it should not");
    }
    let further = |call: &str| function(&text, |label| call.ends_with(label));
    let of_hits = called.iter().flat_map(|call| {
        let names = ["find_further", "find_next_door"].into_iter();
        names.filter(|name| call.contains(name)).map(move |name| (name, *call))
    });
    let bodies = of_hits.filter_map(|(name, call)| Some((name, further(call)?)));
    for (name, body) in bodies.chain([("pinned_hit", hit.clone())]) {
        let locked: Vec<&&str> = body.iter().filter(|line| is_locked(line)).collect();
        let stores: Vec<&&str> = body.iter().filter(|line| is_store(line)).collect();
        println!("{name}: {} locked instructions or fences", locked.len());
        println!("{name}: {} stores beside the stack", stores.len());
        stores.iter().for_each(|store| println!("  {store}"));
        if !locked.is_empty() {
            bail!("{name}: locked instructions: {locked:?}");
        }
        if name == "pinned_hit" && stores.len() > STORES_MAX {
            bail!("{name}: {} stores, of {STORES_MAX} at most", stores.len());
        }
    }
    Ok(())
}

/// The newest assembly of the program.
fn assembly(folder: &Path) -> anyhow::Result<String> {
    let mut newest = None;
    for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "s") {
            let written = path.metadata()?.modified()?;
            newest = newest.max(Some((written, path)));
        }
    }
    let (_, path) = newest.context("cargo wrote no assembly")?;
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The instructions of the function whose label `wanted` accepts.
fn function(text: &str, wanted: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
    let mut lines = text.lines();
    lines.find(|line| {
        line.strip_suffix(':')
            .is_some_and(|label| !label.starts_with(['.', '\t', ' ']) && wanted(label))
    })?;
    let body = lines.take_while(|line| !line.contains(".cfi_endproc")).map(str::trim);
    Some(body.filter(|line| !line.starts_with(['.', '#']) && !line.is_empty()).collect())
}

/// Whether an instruction locks the bus or orders memory. (xchg with memory locks.)
fn is_locked(line: &str) -> bool {
    line.starts_with("lock")
        || line.starts_with("mfence")
        || (line.starts_with("xchg") && line.contains('('))
}

/// Whether an instruction writes memory that is not on the stack. (AT&T order: the
/// destination comes last.)
fn is_store(line: &str) -> bool {
    let Some((operation, operands)) = line.split_once(char::is_whitespace) else { return false };
    let writes = ["mov", "add", "sub", "inc", "dec", "or", "and", "xor"];
    let reads = ["cmp", "test"];
    writes.iter().any(|name| operation.starts_with(name))
        && !reads.iter().any(|name| operation.starts_with(name))
        && operands.trim_end().ends_with(')')
        && !operands.contains("%rsp)")
        && !operands.contains("%rbp)")
}
