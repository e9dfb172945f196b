//! The test programs that took longest, by the lines that cargo prints when it starts each.

use std::time::Instant;

use crate::spent;

/// The number of programs listed.
const TOLD: usize = 8;

/// Cargo's steps after the build: each test program, and the examples of each crate.
pub(crate) struct Programs {
    /// Id of cargo's process.
    cargo: String,
    /// The running program, its start, and the processor time of cargo's programs by then.
    running: Option<(String, Instant, Option<f64>)>,
    ended: Vec<Program>,
}

struct Program {
    name: String,
    wall: f64,
    /// Processor time in seconds, if the system reports it.
    processor: Option<f64>,
}

impl Programs {
    pub(crate) fn new(cargo: u32) -> Self {
        Programs { cargo: cargo.to_string(), running: None, ended: Vec::new() }
    }

    /// Reads a line that cargo has just printed.
    pub(crate) fn heard(&mut self, line: &str) {
        if let Some(name) = started(line) {
            self.next(Some(name));
        }
    }

    /// The longest programs. To be called after cargo's last line, and before waiting for cargo.
    pub(crate) fn slowest(mut self) -> Vec<String> {
        self.next(None);
        self.ended.sort_by(|one, other| other.wall.total_cmp(&one.wall));
        let told = |Program { name, wall, processor }: &Program| match processor {
            Some(processor) => format!("{wall:7.1} s, {processor:7.1} s of the processor: {name}"),
            None => format!("{wall:7.1} s: {name}"),
        };
        self.ended.iter().take(TOLD).map(told).collect()
    }

    fn next(&mut self, name: Option<&str>) {
        let (now, used) = (Instant::now(), spent::children(&self.cargo).ok());
        if let Some((name, since, before)) = self.running.take() {
            let wall = now.duration_since(since).as_secs_f64();
            let processor = used.zip(before).map(|(used, before)| used - before);
            self.ended.push(Program { name, wall, processor });
        }
        self.running = name.map(|name| (name.to_owned(), now, used));
    }
}

/// The program that a line of cargo starts. Its name needs both the path of its source and the path
/// of the program, which ends in a hash.
fn started(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line);
    }
    let (_, path) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = path.strip_suffix(')')?.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_s_lines_name_what_starts() {
        let line =
            "     Running unittests src/lib.rs (target/debug/deps/frazil_policy-d9513a7600dc)";
        assert_eq!(started(line), Some("frazil_policy"));
        let line = "     Running tests/cache/main.rs (target/debug/deps/cache-3711fe432f6a21fd)";
        assert_eq!(started(line), Some("cache"));
        assert_eq!(started("   Doc-tests frazil"), Some("Doc-tests frazil"));
        assert_eq!(started("    Finished `test` profile [optimized] target(s) in 9m 16s"), None);
        assert_eq!(started("SKIPPED: Running short of traces"), None);
    }

    #[test]
    fn the_longest_comes_first() {
        let program = |name: &str, wall| Program { name: name.to_owned(), wall, processor: None };
        let mut programs = Programs::new(std::process::id());
        programs.ended = vec![program("short", 0.1), program("long", 200.0)];
        programs.heard("   Doc-tests last");
        let slowest = programs.slowest();
        assert_eq!(slowest.len(), 3, "{slowest:?}");
        assert!(slowest[0].ends_with(": long"), "{slowest:?}");
    }
}
