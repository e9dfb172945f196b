//! Belady's MIN: evicts the object whose next request is furthest away.
//!
//! It knows the future, so it runs in the simulator only. With objects of equal
//! weight no policy that admits every newcomer misses less, so it is the
//! others' yardstick (Belady 1966). O(log n) a request, 12 bytes a slot, and 4
//! bytes a request for the future.
//!
//! Where fetches take time it refuses a newcomer whose next request, seen from the end of
//! its fetch, is no nearer than any resident's, as paper 5's simulator does. As there, a
//! resident requested at that very moment counts as requested then. In that case it is no
//! bound: the cost of a miss depends on the other requests during its fetch.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::{Eviction, Host, Incoming, Policy, Slot, SlotHeap, Work};

/// The position of a request that never comes.
pub const NEVER: u32 = u32::MAX;

/// The requests to come, read in step with the replay.
#[derive(Clone, Debug)]
pub(crate) struct Future {
    /// For each request, the position of the next request for its object.
    next: Arc<[u32]>,
    /// Requests seen so far.
    position: usize,
}

impl Future {
    pub(crate) fn new(next: Arc<[u32]>) -> Self {
        Future { next, position: 0 }
    }

    /// Position of the next request for the object that is requested now.
    pub(crate) fn advance(&mut self) -> u32 {
        let next = self.next.get(self.position).copied().unwrap_or(NEVER);
        self.position += 1;
        next
    }

    /// The aggregate delay if the request at `next` missed and the fetch took `fetch` requests.
    /// O(requests for the object within the fetch).
    pub(crate) fn aggregate_delay(&self, next: u32, fetch: u64) -> f64 {
        let (mut delay, mut at) = (0.0, next);
        while at != NEVER && u64::from(at - next) < fetch {
            delay += (fetch - u64::from(at - next)) as f64;
            match self.next.get(at as usize) {
                Some(&later) if later > at => at = later,
                _ => break,
            }
        }
        delay
    }

    /// Requests from the last one to the one at `next`.
    pub(crate) fn distance(&self, next: u32) -> u64 {
        (u64::from(next) + 1).saturating_sub(self.position as u64)
    }
}

/// Belady's MIN.
#[derive(Clone, Debug)]
pub struct Belady {
    future: Future,
    /// Resident slots, the furthest next use on top.
    heap: SlotHeap<Reverse<u32>>,
    /// The resident hit last, and when.
    hit: Option<(Slot, u64)>,
}

impl Belady {
    /// A policy that will receive `next.len()` requests, in order. `next[i]` is
    /// the position of the next request for the object of request `i`, or
    /// [`NEVER`]. Requests past the end count as the last of their object.
    pub fn new(next: Arc<[u32]>) -> Self {
        Belady { future: Future::new(next), heap: SlotHeap::new(), hit: None }
    }

    /// The decision for a new object whose fetch ends now.
    fn make_room(&mut self, now: u64, new: Reverse<u32>) -> Eviction {
        let in_use = |slot| self.hit == Some((slot, now));
        let held = self.heap.peek().filter(|&(_, slot)| in_use(slot));
        if held.is_some() {
            self.heap.pop();
        }
        let decided = match self.heap.peek() {
            Some((furthest, _)) if new > furthest => self.heap.pop(),
            _ => None,
        };
        if let Some((next, slot)) = held {
            self.heap.push(slot, next);
        }
        decided.map_or(Eviction::Refuse, Eviction::Victim)
    }

    fn advance(&mut self) -> Reverse<u32> {
        Reverse(self.future.advance())
    }
}

impl Policy for Belady {
    type Meta = ();
    /// Position of the new object's next request.
    type Pending = Reverse<u32>;

    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let next = self.advance();
        self.hit = Some((slot, host.now()));
        self.heap.rekey(slot, next);
        host.count(Work::Heap, self.heap.depth());
    }

    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) -> Reverse<u32> {
        self.advance()
    }

    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<Reverse<u32>>) {
        incoming.pending = self.advance();
    }

    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<Reverse<u32>>>,
    ) -> Eviction {
        host.count(Work::Heap, self.heap.depth());
        if let Some(new) = incoming
            && host.fetch_ticks().is_some()
            && !self.heap.is_empty()
        {
            return self.make_room(host.now(), new.pending);
        }
        self.heap.pop().map_or(Eviction::Empty, Eviction::Victim)
    }

    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<Reverse<u32>>) {
        host.count(Work::Heap, self.heap.depth());
        self.heap.push(slot, incoming.pending);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        host.count(Work::Heap, self.heap.depth());
        self.heap.remove(slot);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.heap.sorted_by(|Reverse(next), _| !next)
    }
}
