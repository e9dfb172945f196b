//! Keys and values that panic in any method that the cache calls, when a fuse has burnt down.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use crate::tracked::Tracked;

thread_local! {
    /// Whether destructors may panic too.
    pub(crate) static DROP_BURNS: Cell<bool> = const { Cell::new(false) };
    /// Calls of user code until one panics; 0 is never.
    pub(crate) static FUSE: Cell<u64> = const { Cell::new(0) };
}

/// The payload of a planned panic.
#[derive(Debug)]
pub(crate) struct Planned;

/// Prints nothing for planned panics.
pub(crate) fn quietly() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Planned>() {
            told(panic);
        }
    }));
}

/// The same for panics whose message `is_planned`.
pub(crate) fn quietly_when(is_planned: fn(&str) -> bool) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload_as_str().is_some_and(is_planned) {
            told(panic);
        }
    }));
}

/// Panics if the fuse burns down here.
pub(crate) fn burn() {
    let left = FUSE.get();
    FUSE.set(left.saturating_sub(1));
    if left == 1 {
        std::panic::panic_any(Planned);
    }
}

/// A key or value that may panic wherever it is called.
pub(crate) struct Fused<'c>(pub(crate) Tracked<'c>);

impl Clone for Fused<'_> {
    fn clone(&self) -> Self {
        burn();
        Fused(self.0.clone())
    }
}

impl PartialEq for Fused<'_> {
    fn eq(&self, other: &Self) -> bool {
        burn();
        self.0.key == other.0.key
    }
}

impl Eq for Fused<'_> {}

impl Hash for Fused<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.key.hash(state);
    }
}

impl Drop for Fused<'_> {
    fn drop(&mut self) {
        if DROP_BURNS.get() && !std::thread::panicking() {
            burn();
        }
    }
}
