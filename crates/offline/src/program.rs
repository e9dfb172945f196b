//! The possible histories of each object of a trace, as paths through the object's own small graph.
//!
//! Slots are positions in the trace, from 0. A request is a *hit* or a *miss*, or a delayed hit,
//! which belongs to the miss before it. From either the object is *held* up to the next request
//! that it could be held for, which is then a hit, or released, and then that request is a miss. So
//! a request has two nodes and four edges, of which two take capacity:
//!
//! | from | held in the slots | up to |
//! |---|---|---|
//! | a hit at `i` | `i + 1 ..= next[i]` | the next request |
//! | a miss at `i` | `i + Z ..= after[i]` | the first request at `i + Z` or later |
//!
//! A miss costs its aggregate delay, nothing else costs anything. Memory: about 40 bytes a
//! request.

use std::ops::Range;

/// No such request.
pub(crate) const NONE: u32 = u32::MAX;

/// Whether a request finds its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Hit,
    Miss,
}

/// The graph of a trace of gets, and the moments at which the capacity may be exceeded.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) capacity: u32,
    pub(crate) fetch: u64,
    /// By request: the next for the same object.
    pub(crate) next: Vec<u32>,
    /// By request: the first for the same object after the end of its fetch.
    pub(crate) after: Vec<u32>,
    /// By request: its aggregate delay, the sum of all waits if it is a miss.
    pub(crate) delay: Vec<u64>,
    /// By request: its object.
    pub(crate) object: Vec<u32>,
    /// The requests of each object, in order.
    pub(crate) objects: Vec<Vec<u32>>,
    /// Number of moments.
    pub(crate) moments: usize,
    /// By slot: the number of moments before it. It has one element more than there are slots.
    moments_before: Vec<u32>,
}

impl Program {
    /// The graph of the requests for `ids`, numbers of objects below `objects`.
    pub(crate) fn new(ids: &[u32], objects: usize, capacity: u32, fetch: u64) -> Self {
        let mut requests = vec![Vec::new(); objects];
        for (place, &id) in (0u32..).zip(ids) {
            requests[id as usize].push(place);
        }
        let mut program = Program {
            capacity,
            fetch,
            next: vec![NONE; ids.len()],
            after: vec![NONE; ids.len()],
            delay: vec![0; ids.len()],
            object: ids.to_vec(),
            objects: requests,
            moments: 0,
            moments_before: Vec::new(),
        };
        for object in 0..objects {
            program.look_ahead(object);
        }
        program.find_moments();
        program
    }

    /// Fills `next`, `after` and `delay` for one object. O(its requests).
    fn look_ahead(&mut self, object: usize) {
        let requests = &self.objects[object];
        // The requests from `place` to `end` come during a fetch begun at `place`; `sum` adds their
        // slots.
        let (mut end, mut sum) = (0, 0u64);
        for (place, &request) in requests.iter().enumerate() {
            let back = u64::from(request).saturating_add(self.fetch);
            while requests.get(end).is_some_and(|&later| u64::from(later) < back) {
                sum += u64::from(requests[end]);
                end += 1;
            }
            let request = request as usize;
            self.next[request] = requests.get(place + 1).copied().unwrap_or(NONE);
            self.after[request] = requests.get(end).copied().unwrap_or(NONE);
            // Each waits from its own slot to the end of the fetch.
            self.delay[request] = (back * (end - place) as u64) - sum;
            sum -= request as u64;
        }
    }

    /// The moments at which the capacity may be exceeded. All that is held in a slot is also held
    /// in the next slot at which an interval ends, or in the last such slot, if no interval has
    /// begun since. So a slot counts only if an interval ends there, another began since the last
    /// slot that counts, and more objects than fit can be held.
    fn find_moments(&mut self) {
        let slots = self.next.len();
        let (mut begins, mut ends) = (vec![false; slots], vec![false; slots]);
        let mut held = vec![0i64; slots + 1];
        for requests in &self.objects {
            for (&request, at) in requests.iter().flat_map(|it| [(it, At::Hit), (it, At::Miss)]) {
                if let Some(slots) = self.slots(request, at) {
                    begins[slots.start] = true;
                    ends[slots.end - 1] = true;
                }
            }
            if let (Some(first), Some(&last)) = (requests.first(), requests.last())
                && let Some(slots) = self.slots(*first, At::Miss)
            {
                held[slots.start] += 1;
                held[last as usize + 1] -= 1;
            }
        }
        self.moments_before = Vec::with_capacity(slots + 1);
        let (mut begun, mut holdable) = (false, 0);
        for slot in 0..slots {
            self.moments_before.push(self.moments as u32);
            begun |= begins[slot];
            holdable += held[slot];
            if begun && ends[slot] {
                begun = false;
                self.moments += usize::from(holdable > i64::from(self.capacity));
            }
        }
        self.moments_before.push(self.moments as u32);
    }

    /// The request up to which an object can be held from a hit or a miss.
    pub(crate) fn target(&self, request: u32, at: At) -> Option<u32> {
        let target = match at {
            At::Hit => self.next[request as usize],
            At::Miss => self.after[request as usize],
        };
        (target != NONE).then_some(target)
    }

    /// The slots in which it is then held.
    pub(crate) fn slots(&self, request: u32, at: At) -> Option<Range<usize>> {
        let target = self.target(request, at)?;
        let wait = if at == At::Hit { 1 } else { self.fetch as usize };
        Some(request as usize + wait..target as usize + 1)
    }

    /// The moments among them.
    pub(crate) fn held(&self, request: u32, at: At) -> Option<Range<usize>> {
        let Range { start, end } = self.slots(request, at)?;
        Some(self.moments_before[start] as usize..self.moments_before[end] as usize)
    }
}
