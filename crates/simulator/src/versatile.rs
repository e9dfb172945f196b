//! The cell for everything rarer: it counts work, replays streams, lets fetches take time or
//! entries expire, and runs policies with an overlay.
//!
//! It decides its work at run time, and its driver does not know the policy. So the code for a
//! policy is compiled once, for all these uses. Compared with a cell compiled for one use, that
//! costs a counting replay some predictable branches, a stream a call for each record beside its
//! hash table, and a delayed replay four calls a miss beside its heap. The most frequent uses have
//! their own cells: [`Objects`](crate::replay::Objects) and [`Bytes`](crate::replay::Bytes).

use frazil_policy::{Incoming, KnownTrace, Policy, PolicySpec, PolicyVisitor, Work, WorkCounts};

use crate::index::{AnyIndex, DenseIndex, HashedIndex};
use crate::replay::{Cell, Held, Kind, Outcome, WorkSplit};
use crate::trace::{Operation, Sizes, Trace};
use crate::{SweepOptions, Unit};

/// The kind of a cell that decides its work at run time.
#[derive(Default)]
pub(crate) struct Versatile {
    weighs_bytes: bool,
    /// `[elsewhere, on hits]`.
    counts: [WorkCounts; 2],
    on_hit: bool,
    fetch_ticks: Option<u64>,
}

impl Kind for Versatile {
    #[inline(always)]
    fn weighs_bytes(&self) -> bool {
        self.weighs_bytes
    }
    #[inline(always)]
    fn enter(&mut self, hit: bool) {
        self.on_hit = hit;
    }
    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        self.counts[usize::from(self.on_hit)].add(work, times);
    }
    #[inline(always)]
    fn fetch_ticks(&self) -> Option<u64> {
        self.fetch_ticks
    }
}

/// The clock of a replay in which fetches take time.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: u64,
    /// Duration of a fetch: of the one being committed, else of a typical one.
    pub(crate) fetch_ticks: u64,
}

/// A fetch that has begun.
pub(crate) struct Begun {
    /// Hash of its object.
    pub(crate) hash: u64,
    /// The place of the policy's pending data of the fetch, until it ends.
    pub(crate) place: u32,
}

/// One record, with the index's name of its object.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) object: u64,
    pub(crate) size: u64,
    pub(crate) operation: Operation,
}

impl dyn VersatileCell + '_ {
    /// Replays the requests in batches that stay in the first level of the processor's cache.
    pub(crate) fn feed_all(&mut self, requests: impl Iterator<Item = Request>) {
        const BATCH: usize = 512;
        let mut batch = Vec::with_capacity(BATCH);
        for request in requests {
            if batch.len() == BATCH {
                self.feed(&batch);
                batch.clear();
            }
            batch.push(request);
        }
        self.feed(&batch);
    }
}

/// A [`Versatile`] cell of any policy.
pub(crate) trait VersatileCell {
    /// Replays requests of objects that the index knows.
    fn feed(&mut self, requests: &[Request]);

    /// Replays one request. True if its object was resident, or is deleted.
    fn step(&mut self, request: Request) -> bool;

    /// Whether an object is resident.
    fn holds(&self, object: u64) -> bool;

    /// The resident objects at this moment, from the bytes of each object of the trace.
    fn held(&self, bytes: &Sizes) -> Held;

    /// Removes an object if it is resident, and returns whether it was.
    fn expire(&mut self, object: u64) -> bool;

    /// Resets the counts: the end of a warm-up. The pending data of fetches under way are dropped
    /// too.
    fn reset_counts(&mut self);

    /// The counts, with the time that the caller measured.
    fn outcome(&self, seconds: f64) -> Outcome;

    /// A get or a set of an object; false if it is not resident.
    fn find(&mut self, at: Moment, object: u64, size: u64, operation: Operation) -> bool;

    /// Reports a miss to the policy, and keeps its pending data.
    fn begin(&mut self, at: Moment, object: u64, size: u64) -> Begun;

    /// Reports a request for an object in flight to the policy.
    fn delayed_hit(&mut self, at: Moment, place: u32);

    /// Ends a fetch, and admits the object.
    fn commit(&mut self, at: Moment, object: u64, size: u64, begun: Begun);

    /// Ends a fetch, and admits nothing.
    fn give_up(&mut self, begun: Begun);

    /// Removes an object, if it is resident.
    fn delete(&mut self, at: Moment, object: u64);
}

/// Makes the cell of a policy, at a capacity, over a decoded trace.
pub(crate) fn over_trace<'t>(
    trace: &'t Trace,
    policy: &PolicySpec,
    capacity: u64,
    options: &SweepOptions,
    known: &impl KnownTrace,
) -> Box<dyn VersatileCell + 't> {
    let index = AnyIndex::Dense(DenseIndex::of(trace));
    policy.visit(capacity, known, Make { index, capacity, options })
}

/// Makes the cell of a policy, at a capacity, over a stream. An offline policy gets no knowledge of
/// the future.
pub(crate) fn over_stream(
    policy: &PolicySpec,
    capacity: u64,
    options: &SweepOptions,
) -> Box<dyn VersatileCell> {
    let index = AnyIndex::Hashed(HashedIndex::default());
    policy.visit(capacity, &(), Make { index, capacity, options })
}

/// Makes a cell once the policy's type is known.
pub(crate) struct Make<'a, 't> {
    pub(crate) index: AnyIndex<'t>,
    pub(crate) capacity: u64,
    pub(crate) options: &'a SweepOptions,
}

impl<'t> PolicyVisitor for Make<'_, 't> {
    type Output = Box<dyn VersatileCell + 't>;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Output {
        let Make { index, capacity, options } = self;
        let weighs_bytes = options.unit == Unit::Bytes;
        let kind = Versatile { weighs_bytes, ..Versatile::default() };
        let cell = Cell::new(index, policy, capacity, options.resize_on_get, kind);
        let (in_flight, vacant) = (Vec::new(), Vec::new());
        Box::new(Owner { cell, count_work: options.count_work, in_flight, vacant })
    }
}

/// A cell, and its policy's pending data of objects in flight.
struct Owner<'t, P: Policy> {
    cell: Cell<AnyIndex<'t>, P, Versatile>,
    /// Whether the outcome has the counts.
    count_work: bool,
    in_flight: Vec<Option<Incoming<P::Pending>>>,
    vacant: Vec<u32>,
}

// Functions here are not inlined, so that they are compiled once for each policy.
impl<P: Policy> Owner<'_, P> {
    fn set_clock(&mut self, at: Moment) {
        self.cell.residents.now = at.now;
        self.cell.residents.kind.fetch_ticks = Some(at.fetch_ticks);
    }

    /// One record, where no fetch takes time. True if its object was resident, or is deleted.
    fn replay(&mut self, object: u64, size: u64, operation: Operation) -> bool {
        self.cell.outcome.records += 1;
        if operation == Operation::Delete {
            self.forget(object);
            return true;
        }
        self.cell.residents.now += 1;
        let hit = self.look_up(object, size, operation);
        if !hit {
            let begun = self.miss(object, size);
            self.admit(object, size, begun);
        }
        if operation == Operation::Get {
            self.cell.outcome.count_get(hit, self.cell.residents.kind.weighs_bytes(), size);
        }
        hit
    }

    #[inline(never)]
    fn look_up(&mut self, object: u64, size: u64, operation: Operation) -> bool {
        self.cell.find(object, size, operation)
    }

    #[inline(never)]
    fn miss(&mut self, object: u64, size: u64) -> Begun {
        let (hash, pending) = self.cell.miss(object, size);
        let incoming = Some(Incoming { hash, weight: self.cell.weigh(size), pending });
        let place = match self.vacant.pop() {
            Some(place) => {
                self.in_flight[place as usize] = incoming;
                place
            }
            None => {
                self.in_flight.push(incoming);
                // The reader's bound on records is below 2^32.
                (self.in_flight.len() - 1) as u32
            }
        };
        Begun { hash, place }
    }

    /// The pending data of a fetch that ends.
    fn end(&mut self, begun: Begun) -> Option<Incoming<P::Pending>> {
        let ended = self.in_flight.get_mut(begun.place as usize)?.take();
        self.vacant.extend(ended.is_some().then_some(begun.place));
        ended
    }

    #[inline(never)]
    fn admit(&mut self, object: u64, size: u64, begun: Begun) {
        if let Some(Incoming { hash, pending, .. }) = self.end(begun) {
            self.cell.commit(object, size, hash, pending);
        }
    }

    #[inline(never)]
    fn forget(&mut self, object: u64) {
        self.cell.delete(object);
    }
}

impl<P: Policy> VersatileCell for Owner<'_, P> {
    fn feed(&mut self, requests: &[Request]) {
        for &Request { object, size, operation } in requests {
            self.replay(object, size, operation);
        }
    }

    fn step(&mut self, Request { object, size, operation }: Request) -> bool {
        self.replay(object, size, operation)
    }

    fn holds(&self, object: u64) -> bool {
        self.cell.holds(object)
    }

    fn held(&self, bytes: &Sizes) -> Held {
        let (objects, bytes) = self.cell.residents.index.held(bytes);
        let weighs_bytes = self.cell.residents.kind.weighs_bytes();
        let bytes = if weighs_bytes { self.cell.used } else { bytes };
        Held { looks: 1, objects, bytes, most: self.cell.used }
    }

    fn expire(&mut self, object: u64) -> bool {
        let held = self.cell.holds(object);
        self.forget(object);
        held
    }

    fn reset_counts(&mut self) {
        self.cell.reset_counts();
        self.cell.residents.kind.counts = Default::default();
        self.in_flight.clear();
        self.vacant.clear();
    }

    fn outcome(&self, seconds: f64) -> Outcome {
        let [elsewhere, on_hits] = self.cell.residents.kind.counts;
        let counted = WorkSplit { on_hits, elsewhere };
        let work = if self.count_work { counted } else { WorkSplit::default() };
        Outcome { seconds, work, ..self.cell.outcome }
    }

    fn find(&mut self, at: Moment, object: u64, size: u64, operation: Operation) -> bool {
        self.set_clock(at);
        self.look_up(object, size, operation)
    }

    fn begin(&mut self, at: Moment, object: u64, size: u64) -> Begun {
        self.set_clock(at);
        self.miss(object, size)
    }

    fn delayed_hit(&mut self, at: Moment, place: u32) {
        self.set_clock(at);
        if let Some(Some(incoming)) = self.in_flight.get_mut(place as usize) {
            self.cell.policy.delayed_hit(&mut self.cell.residents, incoming);
        }
    }

    fn commit(&mut self, at: Moment, object: u64, size: u64, begun: Begun) {
        self.set_clock(at);
        self.admit(object, size, begun);
    }

    fn give_up(&mut self, begun: Begun) {
        self.end(begun);
    }

    fn delete(&mut self, at: Moment, object: u64) {
        self.set_clock(at);
        self.forget(object);
    }
}
