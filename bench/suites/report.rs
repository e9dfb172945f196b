//! Runs the cases, and reports the results.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::case::{Case, Port, Suite};

/// The page that explains every exception, by name.
const PAGE: &str = include_str!("../../docs/moving.md");
/// Percent of the tests that can be expressed that must pass.
const WANTED: f64 = 98.0;
/// A test that takes this long hangs.
const HANG: Duration = Duration::from_secs(120);

/// Panics in any thread since the case began.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The results of one rival's tests.
#[derive(Default)]
struct Tally {
    original: usize,
    private: usize,
    apart: usize,
    passed: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.original += other.original;
        self.private += other.private;
        self.apart += other.apart;
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// Percent of the tests that can be expressed that pass.
    fn share(&self) -> f64 {
        100.0 * self.passed as f64 / ((self.passed + self.failed) as f64).max(1.0)
    }

    fn row(&self, name: &str) -> String {
        let Tally { original, private, apart, passed, failed } = *self;
        let (expressible, share) = (passed + failed, self.share());
        format!(
            "{name:12} {original:6} {private:8} {apart:16} {expressible:12} {passed:7} {failed:7} \
             {share:7.1}"
        )
    }
}

/// Tests with the same reason, by name, each with its outcome.
type Reasons = BTreeMap<(Fate, &'static str), Vec<String>>;

/// The outcome of a test that has not simply passed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Private,
    Apart,
    Argued,
    Fails,
    /// It passes, but is marked as failing.
    Stale,
}

impl Fate {
    fn title(self) -> &'static str {
        match self {
            Fate::Private => "Left out, because it looks at what is private",
            Fate::Apart => "Not expressible",
            Fate::Argued => "Fails, argued in docs/moving.md",
            Fate::Fails => "FAILS",
            Fate::Stale => "PASSES, and is marked as if it failed",
        }
    }
}

/// Runs the cases whose name, file or rival contains `wanted`.
pub(crate) fn run(suites: impl Iterator<Item = Suite>, wanted: &str) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
        let text = panic.payload_as_str().unwrap_or("a panic");
        let line = format!("{}: {text}", place.unwrap_or_default());
        PANICS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line);
    }));
    let started = Instant::now();
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut reasons = Reasons::new();
    for suite in suites {
        for case in &suite.cases {
            let name = format!("{} {} {}", suite.rival, suite.file, case.name);
            if name.contains(wanted) {
                let tally = tallies.entry(suite.rival).or_default();
                count(tally, &mut reasons, case, name);
            }
        }
    }
    for ((fate, why), names) in &reasons {
        println!("\n{}: {why}", fate.title());
        names.iter().for_each(|name| println!("  {name}"));
    }
    println!(
        "\nrival         tests  private  not expressible  expressible  passed  failed       %"
    );
    let mut total = Tally::default();
    for (rival, tally) in &tallies {
        println!("{}", tally.row(rival));
        total.add(tally);
    }
    println!("{}", total.row("all"));
    println!("{:.1} s", started.elapsed().as_secs_f64());
    let mut faults = reasons.keys().filter(|(fate, _)| matches!(fate, Fate::Fails | Fate::Stale));
    if faults.next().is_none() && total.share() >= WANTED {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a case, and notes any outcome except plain success.
fn count(tally: &mut Tally, reasons: &mut Reasons, case: &Case, name: String) {
    tally.original += 1;
    let mut note = |fate, why, line| reasons.entry((fate, why)).or_default().push(line);
    let (test, why) = match case.port {
        Port::Private(why) => {
            tally.private += 1;
            return note(Fate::Private, why, name);
        }
        Port::Apart(why) => {
            tally.apart += 1;
            return note(Fate::Apart, why, name);
        }
        Port::Same(test) => (test, None),
        Port::Argued(test, why) => (test, Some(why)),
    };
    match (outcome_of(test), why) {
        (Ok(()), why) => {
            tally.passed += 1;
            if let Some(why) = why {
                note(Fate::Stale, why, name);
            }
        }
        (Err(seen), why) => {
            tally.failed += 1;
            let is_argued = why.is_some() && PAGE.contains(&format!("`{}`", case.name));
            let fate = if is_argued { Fate::Argued } else { Fate::Fails };
            note(fate, why.unwrap_or("not known to"), format!("{name} [{seen}]"));
        }
    }
}

/// Runs a test on its own thread. The error is its first panic.
fn outcome_of(test: fn()) -> Result<(), String> {
    PANICS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        // The receiver is gone if the test took too long.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(test)).is_ok());
    });
    match told.recv_timeout(HANG) {
        Ok(true) => Ok(()),
        Err(RecvTimeoutError::Timeout) => Err("hangs".to_owned()),
        Ok(false) | Err(RecvTimeoutError::Disconnected) => {
            let panics = PANICS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            Err(panics.first().map_or("a panic", |line| line).replace('\n', " "))
        }
    }
}
