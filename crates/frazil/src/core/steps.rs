//! Operations of several steps, which complete even if user code panics between them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::core::Core;
use crate::core::hooks::PerThread;

pub(crate) type Panic = Box<dyn Any + Send>;

/// Panics that wait for the end of a thread's outermost operation.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    /// Operations of this thread that are under way, one inside the other.
    nesting: Cell<u32>,
    first: RefCell<Option<Panic>>,
}

// SAFETY: only the thread whose stripe it lies in reaches it.
unsafe impl Sync for Panics {}

impl Panics {
    /// An operation begins that lets panics wait.
    pub(crate) fn enter(&self) {
        self.nesting.set(self.nesting.get() + 1);
    }

    /// It has ended, except for [`Panics::go_on`].
    pub(crate) fn leave(&self) {
        self.nesting.set(self.nesting.get() - 1);
    }

    /// Lets a panic wait, unless another does.
    #[cfg(feature = "listener")]
    pub(crate) fn keep(&self, panic: Panic) {
        self.first.borrow_mut().get_or_insert(panic);
    }

    /// Resumes `own`, or, if no operation is under way, the panic that waits. A panic while another
    /// unwinds must not end the process.
    pub(crate) fn go_on(&self, own: Option<Panic>) {
        let outermost = self.nesting.get() == 0;
        let waiting = if outermost { self.first.take() } else { None };
        if let Some(panic) = own.or(waiting)
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// An operation of several steps: the first panic of a step resumes when this is dropped.
pub(crate) struct Steps<'c> {
    panics: &'c Panics,
    /// The payload of the first panic of a step.
    panic: RefCell<Option<Panic>>,
}

impl Steps<'_> {
    /// Takes a step. `None` if it panics.
    pub(crate) fn take<R>(&self, step: impl FnOnce() -> R) -> Option<R> {
        let outcome = catch_unwind(AssertUnwindSafe(step));
        outcome.map_err(|panic| _ = self.panic.borrow_mut().get_or_insert(panic)).ok()
    }
}

impl Drop for Steps<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.panics.leave();
        self.panics.go_on(self.panic.take());
    }
}

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    /// The panics of the calling thread that wait.
    pub(crate) fn panics(&self) -> &Panics {
        self.stripe().local.panics.get_or_init(Box::default)
    }

    /// Begins an operation that takes all its steps.
    #[cold]
    #[inline(never)]
    pub(crate) fn steps(&self) -> Steps<'_> {
        let panics = self.panics();
        panics.enter();
        Steps { panics, panic: RefCell::default() }
    }
}
