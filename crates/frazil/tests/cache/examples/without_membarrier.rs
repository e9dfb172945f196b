//! Runs a program in a sandbox that forbids `membarrier`: `without_membarrier PROGRAM ARGUMENT…`.
//!
//! `cargo xtask check no-membarrier` has every test run by it.

#[cfg(target_os = "linux")]
#[path = "../sandbox.rs"]
mod sandbox;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::os::unix::process::CommandExt as _;

    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: without_membarrier PROGRAM ARGUMENT…");
        return std::process::ExitCode::from(2);
    };
    let problem = match sandbox::forbid_membarrier() {
        Ok(()) => std::process::Command::new(program).args(words).exec().to_string(),
        Err(problem) => problem,
    };
    eprintln!("without_membarrier: {problem}");
    std::process::ExitCode::FAILURE
}

#[cfg(not(target_os = "linux"))]
fn main() {
    panic!("filters of system calls are Linux's");
}
