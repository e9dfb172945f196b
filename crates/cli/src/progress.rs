//! Progress bars: on a terminal only, and only once something takes over a
//! second.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that shows itself after a second.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: AtomicBool,
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

    /// A bar for `total` steps that take about as long as one another.
    pub(crate) fn of_steps(what: String, total: u64) -> Self {
        Self::new(what, total, "{msg} {wide_bar} {human_pos} of {human_len} {eta}")
    }

    fn new(what: String, total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress { bar, started: Instant::now(), shown: AtomicBool::new(false) }
    }

    /// Moves the bar to `position` of `total`.
    pub(crate) fn set(&self, position: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(position);
        self.show();
    }

    /// Moves the bar on by `steps`.
    pub(crate) fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        self.show();
    }

    fn show(&self) {
        if self.started.elapsed() > PATIENCE && !self.shown.swap(true, Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
