//! What other work has of the machine's processors.
//!
//! Linux says how long processors were idle and how long each process had them, to 10 ms. What is
//! left others had: other processes, interrupts, and the host of a virtual machine. (It says too how
//! long processors were *busy*, but that is sampled: of parts that sleep and wake a thousand times a
//! second it saw less than they had.) Elsewhere nothing is known.

use std::time::{Duration, Instant};

/// What the machine's processors have done so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    at: Instant,
    count: usize,
    /// Time of all of them in which nobody wanted them.
    idle: Duration,
    /// What our processes had.
    ours: Duration,
}

impl Processors {
    /// Now; this process and `children` are ours. `None` where it is not known.
    ///
    /// ```
    /// use frazil_driver::Processors;
    /// let before = Processors::now(&[]);
    /// let share = Processors::now(&[]).zip(before).map(|(now, before)| now.others_since(&before));
    /// assert!(share.is_none_or(|share| share >= 0.0));
    /// ```
    pub fn now(children: &[u32]) -> Option<Self> {
        let (idle, count) = machine(&std::fs::read_to_string("/proc/stat").ok()?)?;
        let ours = children.iter().copied().chain([std::process::id()]);
        let ours = ours.map(process_time).sum::<Option<Duration>>()?;
        Some(Processors { at: Instant::now(), count, idle: time(idle), ours })
    }

    /// The share of all processors' time since then that others had, the host among them.
    ///
    /// ```
    /// use frazil_driver::Processors;
    /// if let Some(now) = Processors::now(&[]) {
    ///     assert_eq!(now.others_since(&now), 0.0); // no time has passed
    /// }
    /// ```
    pub fn others_since(&self, before: &Processors) -> f64 {
        let all = self.at.saturating_duration_since(before.at).as_secs_f64() * self.count as f64;
        let idle = self.idle.saturating_sub(before.idle);
        let ours = self.ours.saturating_sub(before.ours);
        // All three are rounded, each in its own way.
        if all > 0.0 { (1.0 - (idle + ours).as_secs_f64() / all).max(0.0) } else { 0.0 }
    }
}

/// Processor time of a process so far, of all its threads; `None` where it is not known.
///
/// ```
/// let before = frazil_driver::process_time(std::process::id());
/// assert!(frazil_driver::process_time(std::process::id()) >= before);
/// ```
pub fn process_time(id: u32) -> Option<Duration> {
    process(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?).map(time)
}

fn time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / ticks_per_second())
}

#[cfg(target_os = "linux")]
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second().max(1) as f64
}

#[cfg(not(target_os = "linux"))]
fn ticks_per_second() -> f64 {
    1.0
}

/// Idle ticks of all processors, and their number, of `/proc/stat`.
fn machine(text: &str) -> Option<(u64, usize)> {
    let mut lines = text.lines();
    let all: Vec<u64> =
        lines.next()?.strip_prefix("cpu ")?.split_ascii_whitespace().flat_map(str::parse).collect();
    // After user, nice and system time. The second is idle while a disk is waited for.
    let &[_, _, _, idle, waiting, ..] = all.as_slice() else { return None };
    let count = lines.take_while(|line| line.starts_with("cpu")).count();
    (count > 0).then_some((idle + waiting, count))
}

/// Ticks that a process had, of its `stat`.
fn process(text: &str) -> Option<u64> {
    // Its name is in brackets and may hold anything. User and system time are fields 14 and 15.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_is_read() {
        let text = "cpu  100 20 30 4000 50 1 2 3 9 9\ncpu0 1 2\ncpu1 1 2\nintr 5\n";
        assert_eq!(machine(text), Some((4050, 2)));
        let text = "17 (a) b) R 1 17 17 0 -1 4194304 103 0 0 0 70 8 5 5 20 0 1 0 100\n";
        assert_eq!(process(text), Some(78));
        for damaged in ["", "cpu  1 2\ncpu0 1\n", "cpu  1 2 3 4 5 6 7 8\nintr 5\n"] {
            assert_eq!(machine(damaged), None);
        }
        assert_eq!((process("17 (a) R 1"), process("")), (None, None));
    }

    #[test]
    fn the_others_have_what_we_have_not() {
        let at = Instant::now();
        let seconds = Duration::from_secs;
        let before = Processors { at, count: 2, idle: seconds(100), ours: seconds(40) };
        let now = |idle, ours| Processors {
            at: at + seconds(10),
            idle: seconds(idle),
            ours: seconds(ours),
            ..before
        };
        assert!((now(102, 55).others_since(&before) - 3.0 / 20.0).abs() < 1e-9);
        assert_eq!(now(102, 59).others_since(&before), 0.0);
    }
}
