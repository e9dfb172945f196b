//! One pass of a stream by one thread: exact counts, which do not depend on time.

use crate::backend::Immediate;
use crate::engine::{Engine, Session};
use crate::run::{Tally, operate};
use crate::stream::Stream;

/// The result of one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Gets that found their key.
    pub hits: u64,
    /// Gets that did not find their key.
    pub misses: u64,
}

impl Pass {
    /// Hits over gets; 0 without a get.
    ///
    /// ```
    /// assert_eq!(frazil_driver::Pass { hits: 3, misses: 1 }.hit_ratio(), 0.75);
    /// ```
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Requests all of a stream once, from a cache in its current state. O(operations).
///
/// Never inlined, so that a profiler can count this function alone.
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::{Ask, Operation, Ours, Stream, one_pass};
///
/// let asked = [1, 2, 1, 1].map(|number| Operation::new(Ask::Get, number));
/// let ours = Ours::<u64>::new(Policy::Mobius, 100, 0);
/// let pass = one_pass(&ours, &Stream::new(asked, 0));
/// assert_eq!((pass.hits, pass.misses), (2, 2));
/// ```
#[inline(never)]
pub fn one_pass<E: Engine>(engine: &E, stream: &Stream) -> Pass {
    let mut session = engine.session();
    let mut tally = Tally::default();
    for batch in stream.operations.chunks(crate::run::BATCH) {
        session.rest();
        for operation in batch {
            operate(&mut session, &mut Immediate, *operation, stream.prefix, None, &mut tally);
        }
    }
    std::hint::black_box(tally.read);
    Pass { hits: tally.hits, misses: tally.misses }
}
