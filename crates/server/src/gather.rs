//! Keys that are looked up together, for all protocols.
//!
//! The parser gathers up to sixteen keys, which are then looked up with their cache lines fetched together
//! ([`Store::get_many`](frazil_segment::Store::get_many)). Keys stay in the input: nothing is copied other than what
//! a protocol appends to the replies.

use frazil_segment::Entry;

use crate::worker::Turn;

const GATHERED: usize = 16;

/// Keys to look up, each with its place in the input and the form of its reply.
pub(crate) struct Gathered<'i, S> {
    keys: [&'i [u8]; GATHERED],
    shapes: [S; GATHERED],
    places: [usize; GATHERED],
    count: usize,
    /// The first key that was not answered because there were too many replies: its place.
    stopped: Option<(usize, S)>,
}

impl<'i, S: Copy> Gathered<'i, S> {
    /// An empty batch. `shape` is any.
    pub(crate) fn new(shape: S) -> Self {
        let (keys, places) = ([&b""[..]; GATHERED], [0; GATHERED]);
        Gathered { keys, shapes: [shape; GATHERED], places, count: 0, stopped: None }
    }

    /// Adds a key. Returns true when the keys should be looked up now. After a stop no key is added.
    #[inline]
    pub(crate) fn push(&mut self, key: &'i [u8], place: usize, shape: S) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        self.keys[self.count] = key;
        self.shapes[self.count] = shape;
        self.places[self.count] = place;
        self.count += 1;
        self.count == GATHERED
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first_shape(&self) -> Option<S> {
        self.shapes[..self.count].first().copied()
    }

    pub(crate) fn stopped(&self) -> Option<(usize, S)> {
        self.stopped
    }

    /// Takes all keys one after the other: `each` is given a key and its shape.
    pub(crate) fn take_singly(
        &mut self,
        turn: &mut Turn<'_>,
        mut each: impl FnMut(&'i [u8], S, &mut Turn<'_>),
    ) {
        for at in 0..std::mem::take(&mut self.count) {
            if turn.out.len() >= turn.out_max || turn.waits.is_full() {
                self.stopped = Some((self.places[at], self.shapes[at]));
                turn.counters.full_replies.add((turn.out.len() >= turn.out_max).into());
                return;
            }
            each(self.keys[at], self.shapes[at], turn);
        }
    }

    /// As [`Gathered::take`], except for missing keys: `answer` appends what precedes their reply, and `wait` is
    /// given the key with the place of its reply. Stops before a key that may not wait.
    pub(crate) fn take_or_wait(
        &mut self,
        turn: &mut Turn<'_>,
        mut answer: impl FnMut(&mut Vec<u8>, &[u8], S, Option<&Entry<'_>>),
        mut wait: impl FnMut(&'i [u8], S, usize, &mut Turn<'_>),
    ) {
        let mut missing = [(0, 0); GATHERED];
        let mut count = 0;
        let room = turn.waits.room.saturating_sub(turn.waits.parts.len());
        let (shapes, keys) = (self.shapes, self.keys);
        let mut at = 0;
        self.take_while(turn, |out, key, shape, entry| {
            if entry.is_none() && count == room {
                return false;
            }
            answer(out, key, shape, entry);
            if entry.is_none() {
                missing[count] = (at, out.len());
                count += 1;
            }
            at += 1;
            true
        });
        for (at, place) in &missing[..count] {
            wait(keys[*at], shapes[*at], *place, turn);
        }
    }

    /// Looks all keys up. `answer` appends each reply, until the replies are full.
    #[inline]
    pub(crate) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        mut answer: impl FnMut(&mut Vec<u8>, &[u8], S, Option<&Entry<'_>>),
    ) {
        self.take_while(turn, |out, key, shape, entry| {
            answer(out, key, shape, entry);
            true
        });
    }

    /// As [`Gathered::take`], until `answer` refuses.
    #[inline]
    fn take_while(
        &mut self,
        turn: &mut Turn<'_>,
        mut answer: impl FnMut(&mut Vec<u8>, &[u8], S, Option<&Entry<'_>>) -> bool,
    ) {
        let count = std::mem::take(&mut self.count);
        let (shapes, keys) = (&self.shapes, &self.keys[..count]);
        let mut stopped = None;
        let mut hits = 0;
        let store = &turn.shared.items.store;
        store.get_many(keys, |at, entry| {
            if stopped.is_some() {
                return;
            }
            if turn.out.len() >= turn.out_max
                || !answer(turn.out, keys[at], shapes[at], entry.as_ref())
            {
                stopped = Some(at);
                return;
            }
            hits += u64::from(entry.is_some());
            store.looked_up(keys[at], entry.as_ref().and_then(|entry| store.recorded_bytes(entry)));
        });
        if stopped.is_some() && turn.out.len() >= turn.out_max {
            turn.counters.full_replies.add(1);
        }
        let answered = stopped.unwrap_or(count) as u64;
        self.stopped = stopped.map(|at| (self.places[at], self.shapes[at]));
        turn.counters.gets.add(answered);
        turn.counters.get_hits.add(hits);
        turn.counters.get_misses.add(answered - hits);
    }
}
