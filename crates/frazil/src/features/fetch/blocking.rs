//! Threads that would block until a task has loaded a value.
//!
//! A task continues only when a thread polls it. If that is the very thread that waits for it, or
//! if all threads of an executor wait, no thread polls it. The cache cannot know whose thread the
//! caller is, but it knows which thread last polled a loader and left it pending. Such a thread
//! very likely belongs to an executor. It does not block for a loader that is a future: it loads by
//! itself, as if the task that it would wait for had called it. So of threads that poll tasks and
//! wait for them, at least the one that polled last stays free, and can poll any of them again.
//! `docs/design/fetching.md` argues it.
//!
//! A thread that runs a loader itself does not block either: others may wait for that loader, the
//! thread that would have to poll among them.
//!
//! A thread inside a poll of a loader certainly belongs to an executor, and its task blocks where
//! it should await. That is an error in the program, and panics.

use std::cell::Cell;
// Not a checker's atomics: a thread reads only its own.
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::smr::thread;

crate::sync::checked_thread_local! {
    /// How many polls of loaders this thread is inside.
    static POLLS: Cell<u32> = const { Cell::new(0) };
}
crate::sync::checked_thread_local! {
    /// Nested loaders that this thread runs and that are no futures.
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

/// Number of counts. Threads whose numbers agree modulo this share one: then one of them may load a
/// value that it could have waited for.
const COUNTS: usize = 4096;

/// By thread, the number of pending loaders that it was the last to poll.
static PENDING: [AtomicU32; COUNTS] = [const { AtomicU32::new(0) }; COUNTS];

/// Whether this thread is inside a poll of a loader.
pub(crate) fn is_polling() -> bool {
    POLLS.with(Cell::get) > 0
}

/// Whether a loader that is pending, or another thread, may need this one to continue.
pub(crate) fn is_needed() -> bool {
    RUNS.with(Cell::get) > 0 || PENDING[thread::number() as usize % COUNTS].load(Relaxed) > 0
}

/// A poll of a loader in progress, or a run of a loader that is no future.
pub(crate) struct AtWork {
    polls: bool,
}

impl AtWork {
    pub(crate) fn new(polls: bool) -> Self {
        let depth = if polls { &POLLS } else { &RUNS };
        depth.with(|depth| depth.set(depth.get() + 1));
        AtWork { polls }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let depth = if self.polls { &POLLS } else { &RUNS };
        depth.with(|depth| depth.set(depth.get() - 1));
    }
}

/// A loader that is pending, and the thread that was the last to poll it.
pub(crate) struct PendingLoader(usize);

impl PendingLoader {
    pub(crate) fn new() -> Self {
        let thread = thread::number() as usize % COUNTS;
        PENDING[thread].fetch_add(1, Relaxed);
        PendingLoader(thread)
    }
}

impl Drop for PendingLoader {
    fn drop(&mut self) {
        PENDING[self.0].fetch_sub(1, Relaxed);
    }
}
