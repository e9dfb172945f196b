//! Exclusion between the threads that share a cache.
//!
//! A *section* is a call of Rust code that reads or changes what is shared. No section runs Python
//! code, drops a reference to an object or waits for another thread, so sections are short, and
//! no thread sees shared state in the midst of a change. With the GIL a section costs nothing but a flag:
//! the GIL excludes all others. Without it, writers take a lock, and each reader counts itself on a
//! cache line of its own, so readers write nothing that another thread reads.

use std::cell::UnsafeCell;

use pyo3::Python;

use gate::Gate;

/// Something that threads share, and the counts of hits and misses beside it.
///
/// A section inside a section panics, or deadlocks on an interpreter without GIL.
pub(super) struct Section<T> {
    cell: UnsafeCell<T>,
    gate: Gate,
}

// SAFETY: `read` and `write` exclude each other by the gate, as a lock for readers and writers does.
unsafe impl<T: Send + Sync> Sync for Section<T> {}

impl<T> Section<T> {
    pub(super) fn new(content: T) -> Self {
        Section { cell: UnsafeCell::new(content), gate: Gate::default() }
    }

    /// Runs code that only reads. It must not run Python code.
    #[inline(always)]
    pub(super) fn read<R>(&self, py: Python<'_>, code: impl FnOnce(&T) -> R) -> R {
        let _inside = self.gate.enter_to_read(py);
        // SAFETY: until the guard is dropped there is no writer.
        code(unsafe { &*self.cell.get() })
    }

    /// Runs code that may change what is shared. It must not run Python code.
    #[inline(always)]
    pub(super) fn write<R>(&self, py: Python<'_>, code: impl FnOnce(&mut T) -> R) -> R {
        let _inside = self.gate.enter_to_write(py);
        // SAFETY: until the guard is dropped there is no other reader or writer.
        code(unsafe { &mut *self.cell.get() })
    }

    /// The content of a section that is no longer shared.
    pub(super) fn get_mut(&mut self) -> &mut T {
        self.cell.get_mut()
    }

    /// The content, for the garbage collector's `tp_traverse`.
    ///
    /// # Safety
    /// The caller is the garbage collector: it holds the GIL, or has stopped all other threads, none
    /// of them inside a section, because sections do not stop for it.
    pub(super) unsafe fn stopped(&self) -> &T {
        // SAFETY: the caller sees to it.
        unsafe { &*self.cell.get() }
    }

    #[inline(always)]
    pub(super) fn count_hit(&self) {
        self.gate.count_hit();
    }

    #[inline(always)]
    pub(super) fn count_miss(&self) {
        self.gate.count_miss();
    }

    /// Hits and misses so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.gate.counts()
    }
}

#[cfg(not(Py_GIL_DISABLED))]
mod gate {
    use std::cell::Cell;

    use pyo3::Python;

    /// The GIL excludes other threads; the flag excludes a section inside a section.
    #[derive(Default)]
    pub(super) struct Gate {
        inside: Cell<bool>,
        hits: Cell<u64>,
        misses: Cell<u64>,
    }

    pub(super) struct Inside<'g>(&'g Cell<bool>);

    impl Gate {
        #[inline(always)]
        pub(super) fn enter_to_read<'g>(&'g self, py: Python<'g>) -> Inside<'g> {
            self.enter_to_write(py)
        }

        #[inline(always)]
        pub(super) fn enter_to_write<'g>(&'g self, _attached: Python<'g>) -> Inside<'g> {
            assert!(!self.inside.replace(true), "a section has run Python code");
            Inside(&self.inside)
        }

        #[inline(always)]
        pub(super) fn count_hit(&self) {
            self.hits.set(self.hits.get() + 1);
        }

        #[inline(always)]
        pub(super) fn count_miss(&self) {
            self.misses.set(self.misses.get() + 1);
        }

        pub(super) fn counts(&self) -> (u64, u64) {
            (self.hits.get(), self.misses.get())
        }
    }

    impl Drop for Inside<'_> {
        #[inline(always)]
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod gate {
    use std::hint::spin_loop;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    use std::thread;

    use pyo3::Python;

    /// A lock for readers and writers, in which readers of different stripes do not meet.
    pub(super) struct Gate {
        writing: AtomicBool,
        stripes: Box<[Stripe]>,
    }

    /// The counts of the threads of a stripe, mostly one. Processors fetch lines in pairs, hence 128.
    #[derive(Default)]
    #[repr(align(128))]
    struct Stripe {
        readers: AtomicUsize,
        hits: AtomicU64,
        misses: AtomicU64,
    }

    pub(super) struct Reading<'g>(&'g Stripe);
    pub(super) struct Writing<'g>(&'g AtomicBool);

    /// Four for each processor: few enough for a writer, which reads all, and two running threads rarely
    /// share one.
    fn stripes() -> usize {
        static STRIPES: OnceLock<usize> = OnceLock::new();
        *STRIPES.get_or_init(|| {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            (processors * 4).next_power_of_two().min(64)
        })
    }

    fn number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Relaxed));
        NUMBER.with(|&number| number)
    }

    /// Waits for a thread inside a section: some nanoseconds, unless it has lost its processor.
    fn wait_until(ready: impl Fn() -> bool) {
        let mut spins = 0_u32;
        while !ready() {
            spins += 1;
            if spins.is_multiple_of(100) {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }

    impl Default for Gate {
        fn default() -> Self {
            let stripes = (0..stripes()).map(|_| Stripe::default()).collect();
            Gate { writing: AtomicBool::new(false), stripes }
        }
    }

    impl Gate {
        #[inline(always)]
        fn stripe(&self) -> &Stripe {
            &self.stripes[number() & (self.stripes.len() - 1)]
        }

        #[inline(always)]
        pub(super) fn enter_to_read<'g>(&'g self, _attached: Python<'g>) -> Reading<'g> {
            let stripe = self.stripe();
            loop {
                // SeqCst: partner is the writer, which stores `writing` and then loads `readers`. One
                // of the two sees the other.
                stripe.readers.fetch_add(1, SeqCst);
                if !self.writing.load(SeqCst) {
                    return Reading(stripe);
                }
                // Release: partner is the writer's load of `readers`.
                stripe.readers.fetch_sub(1, Release);
                wait_until(|| !self.writing.load(Relaxed));
            }
        }

        #[inline(always)]
        pub(super) fn enter_to_write<'g>(&'g self, _attached: Python<'g>) -> Writing<'g> {
            // SeqCst: partner is `enter_to_read`; as an Acquire, of the Release in `Writing::drop`.
            while self.writing.compare_exchange_weak(false, true, SeqCst, Relaxed).is_err() {
                wait_until(|| !self.writing.load(Relaxed));
            }
            for stripe in &self.stripes {
                // SeqCst: partner is `enter_to_read`; as an Acquire, of the Release of a reader that
                // leaves.
                wait_until(|| stripe.readers.load(SeqCst) == 0);
            }
            Writing(&self.writing)
        }

        #[inline(always)]
        pub(super) fn count_hit(&self) {
            self.stripe().hits.fetch_add(1, Relaxed);
        }

        #[inline(always)]
        pub(super) fn count_miss(&self) {
            self.stripe().misses.fetch_add(1, Relaxed);
        }

        pub(super) fn counts(&self) -> (u64, u64) {
            let sum = |of: fn(&Stripe) -> &AtomicU64| {
                self.stripes.iter().map(|stripe| of(stripe).load(Relaxed)).sum()
            };
            (sum(|stripe| &stripe.hits), sum(|stripe| &stripe.misses))
        }
    }

    impl Drop for Reading<'_> {
        #[inline(always)]
        fn drop(&mut self) {
            // Release: partner is the writer's load of `readers`.
            self.0.readers.fetch_sub(1, Release);
        }
    }

    impl Drop for Writing<'_> {
        #[inline(always)]
        fn drop(&mut self) {
            // Release: partners are the next writer's exchange and a reader's load of `writing`.
            self.0.store(false, Release);
        }
    }
}
