//! Releasing objects that hold others in turn, to any depth.
//!
//! A cache may hold a cache, which holds another, and so on. If each released what it holds while it
//! is released itself, a long chain would take more stack than there is. CPython's own containers have
//! the same care: what lies too deep waits until the release that began first comes to its end.

use std::any::Any;
use std::cell::{Cell, RefCell};

/// Releases within releases of a thread before one waits; as many as CPython allows.
const DEEPEST: u32 = 50;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Releases what a container held. All that it leads to is released when the outermost call returns.
pub(crate) fn release<T: 'static>(held: T) {
    // A thread that ends has neither by then.
    let Ok(depth) = DEPTH.try_with(Cell::get) else { return drop(held) };
    if depth >= DEEPEST {
        let mut held = Some(held);
        let kept = WAITING.try_with(|waiting| {
            waiting.borrow_mut().extend(held.take().map(|held| Box::new(held) as Box<dyn Any>));
        });
        return if kept.is_err() {
            drop(held)
        };
    }
    let _deeper = Deeper::begin(depth);
    drop(held);
    if depth == 0 {
        // Out of the list before it is released, because that may add to the list.
        while let Ok(Some(next)) = WAITING.try_with(|waiting| waiting.borrow_mut().pop()) {
            drop(next);
        }
    }
}

/// One release more, until it is dropped.
struct Deeper(u32);

impl Deeper {
    fn begin(before: u32) -> Self {
        let _ = DEPTH.try_with(|depth| depth.set(before + 1));
        Deeper(before)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(self.0));
    }
}
