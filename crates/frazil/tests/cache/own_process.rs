//! Tests in their own process, which runs this program with a single test.

use std::io::Write as _;
use std::process::Command;

/// Set in a process that is to run one test.
const ALONE: &str = "FRAZIL_TEST_ALONE";

/// Whether this process runs only this test, named as the program lists it. If not, runs the test
/// in its own process, and asserts that it passes there. Miri starts no process.
///
/// For what the system does to a whole process, and for tests with very many heavy fences: each
/// fence interrupts every core that runs a thread of the process, so such tests slow each other
/// and all others down.
#[must_use]
pub(crate) fn is_alone(test: &str) -> bool {
    if cfg!(miri) || std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return true;
    }
    // The test program names a test's thread after it, unless all run on one. Another name would
    // run another test.
    let thread = std::thread::current();
    assert!(thread.name().is_none_or(|own| own == "main" || own == test), "not {test}");
    let program = std::env::current_exe().expect("this program");
    let run =
        Command::new(program).args([test, "--exact", "--nocapture"]).env(ALONE, test).output();
    let run = run.expect("this program runs");
    let told = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
    // Not by `eprintln!`, whose output the test program keeps when a test passes.
    for line in told.lines().filter(|line| line.starts_with("SKIPPED")) {
        _ = writeln!(std::io::stderr(), "{line}");
    }
    false
}
