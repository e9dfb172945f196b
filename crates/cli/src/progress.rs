//! Progress: a bar on a terminal after a second; otherwise a line every 15 s.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Watch;
use crate::failure::{Failure, note};

const PATIENCE: Duration = Duration::from_secs(1);
/// Seconds between two lines without a terminal.
const PERIOD_S: u64 = 15;

/// A bar that appears after a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: AtomicBool,
    /// Number of lines printed without a terminal; `None` with one.
    lines: Option<AtomicU64>,
    /// Receives the progress instead of people, and decides whether to continue.
    watch: Option<Arc<Watch>>,
}

impl Progress {
    /// A bar for `total` bytes of a file.
    pub(crate) fn of_bytes(what: String, total: u64) -> Self {
        Self::new(what, total, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    /// A bar for `total` records to replay.
    pub(crate) fn of_records(what: String, total: u64) -> Self {
        Self::new(what, total, "{msg} {wide_bar} {percent} % of {human_len} records {eta}")
    }

    /// A bar for `total` steps of about equal duration.
    pub(crate) fn of_steps(what: String, total: u64) -> Self {
        Self::new(what, total, "{msg} {wide_bar} {human_pos} of {human_len} {eta}")
    }

    fn new(what: String, total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let watch = Watch::current();
        if let Some(watch) = &watch {
            watch.begin(&what, total);
        }
        bar.set_message(what);
        let lines = (!std::io::stderr().is_terminal()).then(AtomicU64::default);
        Progress { bar, started: Instant::now(), shown: AtomicBool::new(false), lines, watch }
    }

    /// Moves the bar to `position` of `total`.
    pub(crate) fn set(&self, position: u64, total: u64) -> ControlFlow<()> {
        if let Some(watch) = &self.watch {
            watch.set(position, total);
            return watch.go_on();
        }
        self.bar.set_length(total);
        self.bar.set_position(position);
        self.show();
        ControlFlow::Continue(())
    }

    /// Advances the bar by `steps`.
    pub(crate) fn advance(&self, steps: u64) {
        if let Some(watch) = &self.watch {
            return watch.advance(steps);
        }
        self.bar.inc(steps);
        self.show();
    }

    /// As [`Progress::advance`]; returns whether to continue.
    pub(crate) fn step(&self, steps: u64) -> ControlFlow<()> {
        self.advance(steps);
        self.watch.as_ref().map_or(ControlFlow::Continue(()), |watch| watch.go_on())
    }

    /// Fails if the work ended early, and has no results.
    pub(crate) fn complete(&self) -> Result<(), Failure> {
        match &self.watch {
            Some(watch) if watch.go_on().is_break() => Err(Failure::Stopped),
            _ => Ok(()),
        }
    }

    fn show(&self) {
        if let Some(lines) = &self.lines {
            let due = self.started.elapsed().as_secs() / PERIOD_S;
            // With several threads, the one that counts the line prints it.
            if lines.fetch_max(due, Relaxed) < due {
                note(&self.line());
            }
            return;
        }
        if self.started.elapsed() > PATIENCE && !self.shown.swap(true, Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Progress {
    /// The work and its progress, on a line.
    fn line(&self) -> String {
        let (what, seconds) = (self.bar.message(), self.started.elapsed().as_secs());
        match self.bar.length() {
            Some(total @ 1..) => {
                let share = 100 * u128::from(self.bar.position()) / u128::from(total);
                format!("{what}: {share} % after {seconds} s")
            }
            _ => format!("{what}: after {seconds} s"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_and_how_far() {
        let progress = Progress::of_steps("replaying".to_owned(), 8);
        assert!(progress.step(2).is_continue());
        assert_eq!(progress.line(), "replaying: 25 % after 0 s");
        let unknown = Progress::of_bytes("reading -".to_owned(), 0);
        assert_eq!(unknown.line(), "reading -: after 0 s");
    }
}
