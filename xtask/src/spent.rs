//! The cost of a piece of work: wall-clock time and processor time.
//!
//! On a busy machine wall-clock time means little, so other work is measured too.

use std::fmt;
use std::time::Instant;

use anyhow::Context as _;

/// Ticks in a second of Linux's processor time, independent of the kernel's own tick.
const TICKS: f64 = 100.0;

/// A moment, and the processor time so far.
pub(crate) struct Begun {
    at: Instant,
    ours: Option<f64>,
    all: Option<f64>,
}

/// The time of a piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Seconds by the clock.
    pub(crate) wall: f64,
    /// Processor time in seconds of all programs that this one has waited for. `None` if the system
    /// does not report it.
    pub(crate) processor: Option<f64>,
    /// Processor time in seconds of everything else meanwhile.
    pub(crate) others: Option<f64>,
}

/// Begins to measure.
pub(crate) fn begin() -> Begun {
    Begun { at: Instant::now(), ours: children("self").ok(), all: machine().ok() }
}

impl Begun {
    pub(crate) fn spent(&self) -> Spent {
        let since = |before: Option<f64>, now: anyhow::Result<f64>| Some(now.ok()? - before?);
        let processor = since(self.ours, children("self"));
        let all = since(self.all, machine());
        let others = all.zip(processor).map(|(all, ours)| (all - ours).max(0.0));
        Spent { wall: self.at.elapsed().as_secs_f64(), processor, others }
    }
}

impl Spent {
    /// Whether other programs used more than a tenth of the machine.
    pub(crate) fn is_disturbed(&self) -> bool {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.others.is_some_and(|others| others > 0.1 * self.wall * cores as f64)
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.wall)?;
        let Some(processor) = self.processor else { return Ok(()) };
        write!(f, ", {processor:.1} s of the processor")?;
        match self.others {
            Some(others) if self.is_disturbed() => write!(f, "; others had {others:.1} s"),
            _ => Ok(()),
        }
    }
}

/// The median of repeated measurements; for an even number the upper one of the middle two, NaN for
/// none.
pub(crate) fn median(measured: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = measured.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time of all programs that a process (its number, or `self`) has waited for, and of
/// those that they have waited for.
pub(crate) fn children(process: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name, in brackets, may hold anything.
    let (_, fields) = text.rsplit_once(')').with_context(|| path.clone())?;
    // User and system time of children: fields 16 and 17, where the first here is field 3.
    ticks(fields.split_whitespace().skip(13).take(2)).context(path)
}

/// Processor time of a process itself so far.
pub(crate) fn process(id: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{id}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (_, fields) = text.rsplit_once(')').with_context(|| path.clone())?;
    // The two fields before those of its children.
    ticks(fields.split_whitespace().skip(11).take(2)).context(path)
}

/// Processor time of everything that runs here, and time that other machines took from this one.
fn machine() -> anyhow::Result<f64> {
    let path = "/proc/stat";
    let text = std::fs::read_to_string(path).context(path)?;
    let line = text.lines().next().context(path)?;
    // The word `cpu`, then user, nice, system, idle, waiting, interrupts of two kinds, stolen.
    let fields = line.split_whitespace().enumerate();
    let used = fields.filter(|(at, _)| [1, 2, 3, 6, 7, 8].contains(at));
    ticks(used.map(|(_, field)| field)).context(path)
}

fn ticks<'t>(fields: impl Iterator<Item = &'t str>) -> anyhow::Result<f64> {
    let mut sum = 0;
    for field in fields {
        sum += field.parse::<u64>()?;
    }
    Ok(sum as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_by_size_and_not_by_order() {
        assert_eq!(median([9.0, 1.0, 5.0].into_iter()), 5.0);
        assert_eq!(median([2.0, 1.0].into_iter()), 2.0);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn a_child_s_time_is_counted_when_it_has_ended() {
        let Ok(_) = children("self") else { return };
        let begun = begin();
        let loops = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", loops]).status().unwrap().success());
        let spent = begun.spent();
        assert!(spent.processor.unwrap() > 0.0 && spent.others.is_some(), "{spent:?}");
    }
}
