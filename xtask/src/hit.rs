//! `cargo xtask hit`: reads the instructions of a hit, through a pin and by `get`.
//!
//! The limits of a hit are statements about machine code, so this command reads machine code: the
//! program `pinned_hit` has the look-ups as separate functions. They and their callees may have no
//! locked instruction, no fence, and few stores beside those to the stack: the mark, which is
//! skipped if it is set, and the thread's own words.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::step;

/// A function of the program.
struct Hit {
    name: &'static str,
    /// Allowed calls beside [`CALLS`].
    calls: &'static [&'static str],
    /// Most stores to memory other than the stack.
    stores: usize,
}

const HITS: [Hit; 2] = [
    // The stores of a hit: the name, and the number of names; the thread's waking, if it was
    // asleep; the mark; and the count of hits, of frozen hits (copies), or of misses and missed
    // keys.
    Hit { name: "pinned_hit", calls: &["make_room"], stores: 8 },
    // Beside these the hazard: set for an entry of the index or a copy, and cleared at three ends;
    // the counts and the mark twice, as in caches that freeze; the thread's waking, if it was
    // asleep, at two look-ups; and the thread's stripe, when it uses another cache than before.
    Hit {
        name: "get_hit",
        calls: &["get_nested", "register", "Stripes$LT$L$C$W$GT$4make", "_Unwind_Resume"],
        stores: 16,
    },
];

/// Allowed calls: only the first, if no entry has a lifetime and none is set aside.
const CALLS: [&str; 7] = [
    "find_further",
    "time@",
    "is_outlived_in_use",
    "miss_lapsed",
    "observed",
    "used_under_lock",
    "panic",
];

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
    HITS.iter().try_for_each(|hit| check(&text, hit))
}

fn check(text: &str, &Hit { name, calls, stores: stores_max }: &Hit) -> anyhow::Result<()> {
    let hit = function(text, |label| label == name)
        .with_context(|| format!("the assembly has no function {name}"))?;
    let called: Vec<&str> = hit.iter().filter(|line| line.starts_with("call")).copied().collect();
    let instructions = hit.iter().filter(|line| !is_label(line)).count();
    println!("{name}: {instructions} instructions, of which are called:");
    called.iter().for_each(|call| println!("  {call}"));
    let may_be_called = |call: &&&str| CALLS.iter().chain(calls).any(|known| call.contains(known));
    if let Some(other) = called.iter().find(|call| !may_be_called(call)) {
        bail!("{name} calls what it should not: {other}");
    }
    let further = |call: &str| function(text, |label| call.ends_with(label));
    let of_hits = called.iter().flat_map(|call| {
        let names = ["find_further"].into_iter();
        names.filter(|name| call.contains(name)).map(move |name| (name, *call))
    });
    let bodies = of_hits.filter_map(|(name, call)| Some((name, further(call)?)));
    for (part, body) in bodies.chain([(name, hit.clone())]) {
        let locked = locked(&body);
        let stores: Vec<&&str> = body.iter().filter(|line| is_store(line)).collect();
        println!("{part}: {} locked instructions or fences", locked.len());
        println!("{part}: {} stores beside the stack", stores.len());
        stores.iter().for_each(|store| println!("  {store}"));
        if !locked.is_empty() {
            bail!("{part}: locked instructions: {locked:?}");
        }
        if part == name && stores.len() > stores_max {
            bail!("{part}: {} stores, of {stores_max} at most", stores.len());
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

/// The instructions and labels of the function whose label `wanted` accepts.
fn function(text: &str, wanted: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
    let mut lines = text.lines();
    lines.find(|line| {
        line.strip_suffix(':')
            .is_some_and(|label| !label.starts_with(['.', '\t', ' ']) && wanted(label))
    })?;
    let body = lines.take_while(|line| !line.contains(".cfi_endproc")).map(str::trim);
    let is_kept = |line: &&str| is_label(line) || !line.is_empty() && !line.starts_with(['.', '#']);
    Some(body.filter(is_kept).collect())
}

/// Whether a line is the label of a block.
fn is_label(line: &str) -> bool {
    line.starts_with(".LBB") && line.ends_with(':')
}

/// The instructions that lock the bus or order memory. (xchg with memory locks.)
///
/// Except for the fence that a hit needs if the system has no `membarrier` or its thread was
/// asleep: a locked instruction on the stack, in a block that is jumped to or around.
fn locked<'t>(body: &[&'t str]) -> Vec<&'t str> {
    let is_locked = |line: &str| {
        line.starts_with("lock")
            || line.starts_with("mfence")
            || (line.starts_with("xchg") && line.contains('('))
    };
    let is_spared = |at: usize| {
        let on_stack = body[at].contains("orl") && body[at].ends_with("(%rsp)");
        // A thread that was asleep first stores that it is awake, and may have to load the address
        // of that flag.
        let wakes = body[..at].last().is_some_and(|line| line.starts_with("movq\t$1,"));
        let is_move = |line: &&&str| line.starts_with("movq");
        let before =
            if wakes { body[..at].iter().rev().take(2).take_while(is_move).count() } else { 0 };
        on_stack
            && match &body[..at - before] {
                // The block is entered by a jump, or when a jump is not taken.
                [.., before, label] if is_label(label) => before.starts_with('j'),
                [.., before] => before.starts_with('j') && !before.starts_with("jmp"),
                [] => false,
            }
    };
    let all = (0..body.len()).filter(|&at| is_locked(body[at]) && !is_spared(at));
    all.map(|at| body[at]).collect()
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
