//! Queues without a cache, for tests: headers, segments, and one thread's buffers.

use super::{Headers, QueueCtx};
use crate::core::local::{Buffers, Reads};
use crate::core::slab::Header;
use crate::smr::reclaim::Reclaim;
use crate::smr::segments::Segments;
use crate::smr::stripe::Traffic;
use crate::sync::atomic::AtomicBool;

/// The headers of slots that all weigh 1.
pub(crate) struct Bare(Vec<Header>);

impl Headers for Bare {
    fn header(&self, slot: u32) -> &Header {
        &self.0[slot as usize]
    }
    fn reads(&self) -> &Reads {
        // For policies under a lock, which these tests leave out.
        unreachable!("no policy here has a lock")
    }
    fn each_idle(&self, _take: &mut dyn FnMut(&mut Buffers)) {}
    fn prefetch(&self, _slot: u32) {}
    fn weight(&self, _slot: u32) -> u64 {
        1
    }
    fn hash(&self, slot: u32) -> u64 {
        slot.into()
    }
    fn coarse_ns(&self) -> u64 {
        0
    }
}

/// State shared by the threads of a test.
pub(crate) struct Bench {
    pub(crate) segments: Segments,
    pub(crate) reclaim: Reclaim,
    pub(crate) headers: Bare,
    outside: AtomicBool,
}

impl Bench {
    /// Slots up to `last`, in segments of `length`.
    pub(crate) fn new(last: u32, length: usize) -> Self {
        let segments = Segments::new(4 * last as usize + 16, length);
        #[cfg(loom)]
        let segments = segments.laid_out();
        Bench {
            segments,
            reclaim: Reclaim::new(last.into(), None).hand_out(last),
            headers: Bare((0..=last).map(|_| Header::default()).collect()),
            outside: AtomicBool::new(false),
        }
    }

    /// A thread at work on the queues, ready for an operation.
    pub(crate) fn ctx<'b>(&'b self, buffers: &'b mut Buffers) -> QueueCtx<'b, Bare> {
        assert!(
            buffers.spares.stock(&self.segments, &mut Traffic::default()),
            "there are segments enough"
        );
        let Bench { segments, reclaim, headers, outside } = self;
        QueueCtx { segments, reclaim, headers, buffers, outside }
    }
}
