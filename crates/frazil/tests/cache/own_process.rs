//! Tests in their own process, which runs this program with a single test.

use std::process::Command;

/// Set in a process that is to run one test.
const ALONE: &str = "FRAZIL_TEST_ALONE";

/// Whether this process runs only this test, named as the program lists it. If not, runs the test
/// in its own process, and asserts that it passes there. Miri starts no process.
///
/// For what the system does to a whole process, and for tests with very many heavy fences: each
/// interrupts every core that runs a thread of the process, and they wait for each other. 27 tests
/// of this program took 300 s among others, and take 30 s so.
pub(crate) fn is_alone(test: &str) -> bool {
    if cfg!(miri) || std::env::var(ALONE).is_ok_and(|alone| alone == test) {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let run =
        Command::new(program).args([test, "--exact", "--nocapture"]).env(ALONE, test).output();
    let run = run.expect("this program runs");
    let told = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && told.contains("1 passed"), "{told}");
    false
}
