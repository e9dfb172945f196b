//! Cores: their numbers, pinning a thread to one, and the processor time of a thread.
//!
//! Only Linux is supported. Elsewhere threads are not pinned and their processor time is unknown.

use std::fs::File;
use std::time::Duration;

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use rustix::time::{ClockId, clock_gettime};

    pub(crate) fn allowed() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    }

    pub(crate) fn stay_on(cpu: usize) {
        let mut set = CpuSet::new();
        set.set(cpu);
        // A core that disappeared since it was listed is no error: the processor share will show
        // it.
        let _ = sched_setaffinity(None, &set);
    }

    pub(crate) fn thread_time() -> Option<Duration> {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Some(Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::Duration;

    pub(crate) fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub(crate) fn stay_on(_: usize) {}

    pub(crate) fn thread_time() -> Option<Duration> {
        None
    }
}

/// Number of cores this process may use.
///
/// ```
/// assert!(frazil_driver::cores() >= 1);
/// ```
pub fn cores() -> usize {
    match system::allowed().len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        cores => cores,
    }
}

/// Pins the calling thread to its core of `allowed`, in turn.
pub(crate) fn take_turn(thread: usize, allowed: &[usize]) {
    if !allowed.is_empty() {
        system::stay_on(allowed[thread % allowed.len()]);
    }
}

/// The calling thread's time in the queue for a core, if the system counts it.
#[derive(Debug)]
pub(crate) struct Queueing(Option<File>);

impl Queueing {
    /// For the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Queueing(File::open("/proc/thread-self/schedstat").ok())
    }

    /// The time since the thread began; costs some 0.7 µs. Only for its own thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn so_far(&self) -> Option<Duration> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 64];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        // Nanoseconds on a core, in the queue, turns.
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn so_far(&self) -> Option<Duration> {
        let _ = &self.0;
        None
    }
}

pub(crate) use system::allowed;

/// Processor time of the calling thread so far; `None` if it is unknown.
///
/// ```
/// let before = frazil_driver::thread_time();
/// assert!(frazil_driver::thread_time() >= before);
/// ```
pub fn thread_time() -> Option<Duration> {
    system::thread_time()
}
