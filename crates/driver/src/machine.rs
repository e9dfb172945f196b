//! The processor time that other work takes from this process.
//!
//! Linux counts the time that processors were idle and that each process ran, to 10 ms. The rest is
//! that of others: other processes, interrupts, and the host of a virtual machine. (Linux also
//! counts the time that processors were *busy*, but by sampling, which misses work of threads that
//! sleep and wake a thousand times a second.) On other systems nothing is known.

use std::time::{Duration, Instant};

/// Other work counts above this share of the processors.
const NOTICED: f64 = 0.05;
/// Rounding error: the system rounds idle time, our own time, and each processor's to 10 ms.
const ROUNDING: Duration = Duration::from_millis(40);

/// Times of the processors that this process may use, so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    at: Instant,
    count: usize,
    /// Idle time of all of them.
    idle: Duration,
    /// Processor time of our processes.
    ours: Duration,
}

impl Processors {
    /// The times now; this process and `children` are ours. `None` if they are unknown.
    ///
    /// ```
    /// use frazil_driver::Processors;
    /// let before = Processors::now(&[]);
    /// let share = Processors::now(&[]).zip(before).map(|(now, before)| now.others_since(&before));
    /// assert!(share.is_none_or(|share| share >= 0.0));
    /// ```
    pub fn now(children: &[u32]) -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let (idle, count) = machine(&text, is_allowed()?)?;
        let ours = children.iter().copied().chain([std::process::id()]);
        let ours = ours.map(process_time).sum::<Option<Duration>>()?;
        Some(Processors { at: Instant::now(), count, idle: time(idle), ours })
    }

    /// The share of the processors' time since `before` that others used, including the host.
    ///
    /// ```
    /// use frazil_driver::Processors;
    /// if let Some(now) = Processors::now(&[]) {
    ///     assert_eq!(now.others_since(&now), 0.0); // no time has passed
    /// }
    /// ```
    pub fn others_since(&self, before: &Processors) -> f64 {
        let all = self.all_since(before);
        // All three are rounded separately.
        if all > 0.0 { self.others_time(before) / all } else { 0.0 }
    }

    /// Whether others used over 5 % of the processors' time since `before`, and more than the 40 ms
    /// of rounding error.
    pub fn were_disturbed_since(&self, before: &Processors) -> bool {
        let noticed = (NOTICED * self.all_since(before)).max(ROUNDING.as_secs_f64());
        self.others_time(before) > noticed
    }

    /// Seconds of all processors.
    fn all_since(&self, before: &Processors) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64() * self.count as f64
    }

    /// Processor seconds of others.
    fn others_time(&self, before: &Processors) -> f64 {
        let idle = self.idle.saturating_sub(before.idle);
        let ours = self.ours.saturating_sub(before.ours);
        (self.all_since(before) - (idle + ours).as_secs_f64()).max(0.0)
    }
}

/// Processor time of a process so far, of all its threads; `None` if it is unknown.
///
/// ```
/// let before = frazil_driver::process_time(std::process::id());
/// assert!(frazil_driver::process_time(std::process::id()) >= before);
/// ```
pub fn process_time(id: u32) -> Option<Duration> {
    process(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?).map(time)
}

/// Processor time so far of all processes that this one has started and waited for; `None` if it is
/// unknown.
///
/// ```
/// let before = frazil_driver::children_time();
/// assert!(frazil_driver::children_time() >= before);
/// ```
pub fn children_time() -> Option<Duration> {
    children(&std::fs::read_to_string("/proc/self/stat").ok()?).map(time)
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

/// Whether this process may use a processor.
#[cfg(target_os = "linux")]
fn is_allowed() -> Option<impl Fn(usize) -> bool> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    Some(move |number| number < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(number))
}

#[cfg(not(target_os = "linux"))]
fn is_allowed() -> Option<impl Fn(usize) -> bool> {
    None::<fn(usize) -> bool>
}

/// Idle ticks of the allowed processors, and their number, of `/proc/stat`.
fn machine(text: &str, is_allowed: impl Fn(usize) -> bool) -> Option<(u64, usize)> {
    let (mut ticks, mut count) = (0, 0);
    for line in text.lines().skip(1).take_while(|line| line.starts_with("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        if !is_allowed(fields.next()?.strip_prefix("cpu")?.parse().ok()?) {
            continue;
        }
        // After user, nice and system time: idle time, and idle time while waiting for a disk.
        let mut fields = fields.skip(3);
        let mut next = || fields.next()?.parse::<u64>().ok();
        ticks += next()? + next()?;
        count += 1;
    }
    (count > 0).then_some((ticks, count))
}

/// Ticks that a process ran, from its `stat`: user and system time are fields 14 and 15.
fn process(text: &str) -> Option<u64> {
    sum_of_two(text, 14)
}

/// Ticks of the children that it has waited for: fields 16 and 17.
fn children(text: &str) -> Option<u64> {
    sum_of_two(text, 16)
}

/// The sum of two successive fields of `stat`; `field`, counted from 1, is the first.
fn sum_of_two(text: &str, field: usize) -> Option<u64> {
    // The second is a name in brackets, and may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(field - 3);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_is_read() {
        let text = "cpu  9 9 9 9 9 9\ncpu0 1 2 3 400 50 6\ncpu2 7 8 9 10 1 2\nintr 5\n";
        assert_eq!(machine(text, |_| true), Some((461, 2)));
        assert_eq!(machine(text, |number| number == 2), Some((11, 1)));
        assert_eq!(machine(text, |number| number == 1), None);
        let text = "17 (a) b) R 1 17 17 0 -1 4194304 103 0 0 0 70 8 5 5 20 0 1 0 100\n";
        assert_eq!((process(text), children(text)), (Some(78), Some(10)));
        for damaged in ["", "cpu  1 2\ncpu0 1\n", "cpu  1 2 3 4 5 6 7 8\nintr 5\n"] {
            assert_eq!(machine(damaged, |_| true), None);
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
        let disturbed = |idle, ours| now(idle, ours).were_disturbed_since(&before);
        assert_eq!([disturbed(102, 56), disturbed(102, 57)], [true, false], "2 and 1 of 20 s");
        let soon = |at_ms| Processors { at: at + Duration::from_millis(at_ms), ..before };
        assert_eq!([20, 21].map(|ms| soon(ms).were_disturbed_since(&before)), [false, true]);
    }
}
