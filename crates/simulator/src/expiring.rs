//! A cell in which entries expire.
//!
//! An entry inserted at time t with a lifetime of L expires at t + L. The cell removes it before
//! the first record that is not earlier, as a delete does. A cache in a program does so too, by a
//! wheel, within milliseconds. So a later get misses, and its capacity is free in between. The
//! rules are in `docs/design/lifetimes-in-traces.md`.
//!
//! Memory: 24 bytes an object of a trace in memory, or about 60 an object with a lifetime in a
//! stream, and 24 a pending deadline, of which there are about as many as residents. O(log
//! deadlines) to insert and to expire.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::replay::{Held, Outcome};
use crate::trace::{FOR_EVER, Lifetimes, Operation, Sizes, Trace};
use crate::versatile::{Request, VersatileCell};

/// Replaces the deadline of an entry that expired and was not requested since.
const EXPIRED: u64 = u64::MAX;

/// Pending deadlines, beyond twice the live ones, before stale ones are discarded.
const SLACK: usize = 1024;

/// State of an object.
#[derive(Clone, Copy, Default, PartialEq)]
struct Life {
    /// Deadline of its entry; 0 if it has none, or there is no entry; or [`EXPIRED`].
    until: u64,
    /// Number of the insertion: two insertions of one object may have the same deadline.
    number: u64,
    /// The last lifetime in a record of the object; 0 without one.
    told: u64,
}

/// The objects' lives, by number over a trace, by id over a stream.
enum Lives {
    Dense(Vec<Life>),
    Hashed(HashMap<u64, Life, RandomState>),
}

impl Lives {
    fn of(&self, object: u64) -> Life {
        match self {
            Lives::Dense(lives) => lives.get(object as usize).copied().unwrap_or_default(),
            Lives::Hashed(lives) => lives.get(&object).copied().unwrap_or_default(),
        }
    }

    fn set(&mut self, object: u64, life: Life) {
        match self {
            Lives::Dense(lives) => {
                if let Some(place) = lives.get_mut(object as usize) {
                    *place = life;
                }
            }
            Lives::Hashed(lives) if life == Life::default() => {
                lives.remove(&object);
            }
            Lives::Hashed(lives) => {
                lives.insert(object, life);
            }
        }
    }
}

/// The time of a request, and the lifetime in its record, or 0.
#[derive(Clone, Copy)]
pub(crate) struct When {
    pub(crate) time_ns: u64,
    pub(crate) lifetime_ns: u64,
}

/// A cell of a sweep or a stream whose entries expire.
pub(crate) struct ExpiringCell<'t> {
    cell: Box<dyn VersatileCell + 't>,
    /// The lifetime of all entries, if it is the same.
    fixed: Option<u64>,
    lives: Lives,
    /// The earliest on top; among equals, the first inserted. Some are stale.
    deadlines: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// The number of deadlines above which stale ones are discarded.
    room: usize,
    inserted: u64,
    /// The clock, which never goes back.
    now: u64,
    /// Gets that missed an expired entry.
    expired: u64,
}

impl<'t> ExpiringCell<'t> {
    /// Over a trace in memory, whose objects are numbers below `objects`.
    pub(crate) fn over_trace(
        cell: Box<dyn VersatileCell + 't>,
        lifetimes: Lifetimes,
        objects: usize,
    ) -> Self {
        ExpiringCell::new(cell, lifetimes, Lives::Dense(vec![Life::default(); objects]))
    }

    /// Over a stream.
    pub(crate) fn over_stream(cell: Box<dyn VersatileCell + 't>, lifetimes: Lifetimes) -> Self {
        ExpiringCell::new(cell, lifetimes, Lives::Hashed(HashMap::default()))
    }

    fn new(cell: Box<dyn VersatileCell + 't>, lifetimes: Lifetimes, lives: Lives) -> Self {
        let fixed = match lifetimes {
            Lifetimes::Fixed(lifetime_ns) => Some(lifetime_ns.max(1)),
            Lifetimes::Ignored => Some(FOR_EVER),
            Lifetimes::OfTrace => None,
        };
        ExpiringCell {
            cell,
            fixed,
            lives,
            deadlines: BinaryHeap::new(),
            room: SLACK,
            inserted: 0,
            now: 0,
            expired: 0,
        }
    }

    /// Replays the records `range` of the trace whose objects the index knows.
    pub(crate) fn feed(&mut self, trace: &Trace, range: Range<usize>) {
        for record in range {
            let request = Request {
                object: trace.ids[record].into(),
                size: trace.sizes.get(record).unwrap_or(1),
                operation: trace.operations.get(record).copied().unwrap_or_default(),
            };
            let when = When {
                time_ns: trace.times_ns.get(record).copied().unwrap_or_default(),
                lifetime_ns: trace.lifetimes_ns.get(record).copied().unwrap_or_default(),
            };
            self.step(request, when);
        }
    }

    /// Replays requests before the first one whose entry may expire.
    pub(crate) fn feed_endless(&mut self, requests: impl Iterator<Item = Request>) {
        self.cell.feed_all(requests);
    }

    /// One record.
    pub(crate) fn step(&mut self, request: Request, when: When) {
        self.now = self.now.max(when.time_ns);
        self.expire();
        let hit = self.cell.step(request);
        let Request { object, operation, .. } = request;
        let life = self.lives.of(object);
        let told = match (self.fixed, when.lifetime_ns) {
            (Some(fixed), _) => fixed,
            (None, 0) if operation == Operation::Get => life.told,
            // A set without a lifetime never expires.
            (None, 0) => FOR_EVER,
            (None, lifetime_ns) => lifetime_ns,
        };
        // A common lifetime need not be stored, and an endless one is equivalent to none.
        let kept = if self.fixed.is_some() || told == FOR_EVER { 0 } else { told };
        match operation {
            Operation::Get if hit => {
                if kept != life.told {
                    self.lives.set(object, Life { told: kept, ..life });
                }
            }
            Operation::Get | Operation::Set => {
                let missed = operation == Operation::Get && life.until == EXPIRED;
                self.expired += u64::from(missed);
                self.inserted += 1;
                let until = self.end(told);
                let number = if until > 0 { self.inserted } else { 0 };
                self.lives.set(object, Life { until, number, told: kept });
                if until > 0 {
                    self.wait_for(object, until);
                }
            }
            Operation::Delete => {
                self.lives.set(object, Life { told: life.told, ..Life::default() });
            }
        }
    }

    /// Resets the counts: the end of a warm-up.
    pub(crate) fn reset_counts(&mut self) {
        self.cell.reset_counts();
        self.expired = 0;
    }

    /// The resident objects at this moment, from the bytes of each object of the trace.
    pub(crate) fn held(&self, bytes: &Sizes) -> Held {
        self.cell.held(bytes)
    }

    /// The counts, with the time that the caller measured.
    pub(crate) fn outcome(&self, seconds: f64) -> Outcome {
        Outcome { expired: self.expired, ..self.cell.outcome(seconds) }
    }

    /// The deadline of an entry that is inserted now, 0 if it has none.
    fn end(&self, lifetime_ns: u64) -> u64 {
        let until = self.now.saturating_add(lifetime_ns);
        if lifetime_ns == 0 || until == EXPIRED { 0 } else { until }
    }

    /// Adds the deadline of the last insertion. The object's life must have it already: deadlines
    /// that no life has are discarded.
    fn wait_for(&mut self, object: u64, until: u64) {
        self.deadlines.push(Reverse((until, self.inserted, object)));
        if self.deadlines.len() > self.room {
            self.throw_away();
        }
    }

    /// Removes expired entries.
    #[inline]
    fn expire(&mut self) {
        while let Some(&Reverse((until, number, object))) = self.deadlines.peek() {
            if until > self.now {
                break;
            }
            self.deadlines.pop();
            let life = self.lives.of(object);
            // The object was inserted again since, or deleted.
            if (life.until, life.number) != (until, number) {
                continue;
            }
            // An entry evicted before its deadline did not expire.
            let until = if self.cell.expire(object) { EXPIRED } else { 0 };
            self.lives.set(object, Life { until, number: 0, told: life.told });
        }
    }

    /// Discards the deadlines of absent entries, so that their number follows the residents, not
    /// the insertions.
    fn throw_away(&mut self) {
        let (cell, lives) = (&self.cell, &mut self.lives);
        self.deadlines.retain(|&Reverse((until, number, object))| {
            let life = lives.of(object);
            let is_last = (life.until, life.number) == (until, number);
            let holds = is_last && cell.holds(object);
            if is_last && !holds {
                lives.set(object, Life { told: life.told, ..Life::default() });
            }
            holds
        });
        self.room = 2 * self.deadlines.len() + SLACK;
    }
}
