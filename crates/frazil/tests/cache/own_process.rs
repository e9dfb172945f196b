//! Tests in their own process, which runs this program with a single test.

use std::process::Command;

/// Set in a process that is to run one test.
const ALONE: &str = "FRAZIL_TEST_ALONE";

/// Runs the work of a test, named as the program lists it, in its own process; Miri starts none.
///
/// For what the system does to a whole process, and for tests of a single thread with very many
/// heavy fences: each interrupts every core that runs a thread of the process, 45 us instead of 4
/// if another test runs there.
pub(crate) fn alone(test: &str, work: impl FnOnce()) {
    if cfg!(miri) || std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return work();
    }
    let program = std::env::current_exe().expect("this program");
    let run =
        Command::new(program).args([test, "--exact", "--nocapture"]).env(ALONE, test).output();
    let run = run.expect("this program runs");
    let told = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
}
