//! Look-ups that are made together.
//!
//! Keys are gathered as they are parsed, up to sixteen, and then looked up with their lines of memory
//! fetched together ([`Store::get_many`](frazil_segment::Store::get_many)). They lie in the input; nothing is
//! copied but the value into the replies.

use super::{KEY_BYTES_MAX, number, operate, push_number, split};
use crate::worker::Turn;

const GATHERED: usize = 16;

/// How a key's entry is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// With its number for `cas`.
    pub(super) cas: bool,
    /// It is the last of its request.
    pub(super) ends: bool,
    /// Its lifetime is changed to this.
    pub(super) touch: Option<i32>,
}

impl Shape {
    pub(super) fn new(cas: bool) -> Shape {
        Shape { cas, ends: false, touch: None }
    }

    /// Of a line that looks keys up: its shape and where its keys begin, or what is wrong with it.
    #[inline]
    pub(super) fn of(line: &[u8]) -> Option<Result<(Shape, usize), &'static [u8]>> {
        let (at, command) = split(line).next()?;
        let after = at + command.len();
        match command {
            b"get" | b"bget" => Some(Self::with_keys(line, Shape::new(false), after)),
            b"gets" => Some(Self::with_keys(line, Shape::new(true), after)),
            b"gat" | b"gats" => {
                let Some((at, time)) = split(&line[after..]).next() else {
                    return Some(Err(b"ERROR"));
                };
                let Some(touch) = number::signed_32(time) else {
                    return Some(Err(b"CLIENT_ERROR invalid exptime argument"));
                };
                let shape = Shape { touch: Some(touch), ..Shape::new(command == b"gats") };
                Some(Self::with_keys(line, shape, after + at + time.len()))
            }
            _ => None,
        }
    }

    fn with_keys(
        line: &[u8],
        shape: Shape,
        prefix: usize,
    ) -> Result<(Shape, usize), &'static [u8]> {
        match split(&line[prefix..]).next() {
            Some(_) => Ok((shape, prefix)),
            None => Err(b"ERROR"),
        }
    }
}

/// Keys that are to be looked up, and how they are answered.
pub(super) struct Lookups<'i> {
    keys: [&'i [u8]; GATHERED],
    shapes: [Shape; GATHERED],
    /// Where in the input each key begins.
    places: [usize; GATHERED],
    count: usize,
    /// Where the first key lies that was not answered, because replies were too many.
    stopped: Option<(usize, Shape)>,
}

impl<'i> Lookups<'i> {
    pub(super) fn new() -> Self {
        Lookups {
            keys: [b""; GATHERED],
            shapes: [Shape::new(false); GATHERED],
            places: [0; GATHERED],
            count: 0,
            stopped: None,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    pub(super) fn stopped(&self) -> Option<(usize, Shape)> {
        self.stopped
    }

    pub(super) fn push(&mut self, key: &'i [u8], place: usize, shape: Shape, turn: &mut Turn<'_>) {
        debug_assert!(key.len() <= KEY_BYTES_MAX);
        // Those that change lifetimes are not made together.
        if self.count > 0 && self.shapes[0].touch.is_some() != shape.touch.is_some() {
            self.flush(turn);
            if self.is_stopped() {
                return;
            }
        }
        self.keys[self.count] = key;
        self.shapes[self.count] = shape;
        self.places[self.count] = place;
        self.count += 1;
        if self.count == GATHERED {
            self.flush(turn);
        }
    }

    /// Looks up what was gathered and answers it, up to as many replies as there may be.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        let count = std::mem::take(&mut self.count);
        if count == 0 || self.is_stopped() {
            return;
        }
        if turn.shared.memcached.counts_prefixes() || self.shapes[0].touch.is_some() {
            return self.flush_singly(count, turn);
        }
        let cas = turn.shared.settings.options.cas;
        let (shapes, keys) = (&self.shapes, &self.keys[..count]);
        let mut stopped = None;
        let mut hits = 0;
        turn.shared.items.store.get_many(keys, |at, entry| {
            if stopped.is_some() {
                return;
            }
            if turn.out.len() >= turn.out_max {
                stopped = Some(at);
                return;
            }
            let shape = shapes[at];
            if let Some(entry) = entry {
                hits += 1;
                let number = shape.cas.then_some(if cas { entry.cas } else { 0 });
                answer(turn.out, keys[at], entry.flags, entry.value, number);
            }
            if shape.ends {
                turn.out.extend_from_slice(b"END\r\n");
            }
        });
        self.finish(stopped, count, hits, turn);
    }

    fn finish(&mut self, stopped: Option<usize>, count: usize, hits: u64, turn: &Turn<'_>) {
        let answered = stopped.unwrap_or(count) as u64;
        self.stop(stopped);
        turn.counters.gets.add(answered);
        turn.counters.get_hits.add(hits);
        turn.counters.get_misses.add(answered - hits);
    }

    fn stop(&mut self, at: Option<usize>) {
        self.stopped = at.map(|at| (self.places[at], Shape { ends: false, ..self.shapes[at] }));
    }

    /// The same, one key after the other: lifetimes are changed, or prefixes counted.
    #[cold]
    fn flush_singly(&mut self, count: usize, turn: &mut Turn<'_>) {
        for at in 0..count {
            if turn.out.len() >= turn.out_max {
                return self.stop(Some(at));
            }
            let (key, shape) = (self.keys[at], self.shapes[at]);
            let is_hit = match shape.touch {
                Some(time) => touch(key, shape, time, turn),
                None => look_up(key, shape, turn),
            };
            if turn.shared.memcached.counts_prefixes() {
                turn.shared.memcached.prefixes.lock().got(key, is_hit);
            }
            if shape.ends {
                turn.out.extend_from_slice(b"END\r\n");
            }
        }
    }
}

/// Looks a key up and answers it.
fn look_up(key: &[u8], shape: Shape, turn: &mut Turn<'_>) -> bool {
    let cas = turn.shared.settings.options.cas;
    let out = &mut *turn.out;
    let found = turn.shared.items.store.get_with(key, |entry| {
        let number = shape.cas.then_some(if cas { entry.cas } else { 0 });
        answer(out, key, entry.flags, entry.value, number);
    });
    let is_hit = found.is_some();
    turn.counters.gets.add(1);
    turn.counters.get_hits.add(is_hit.into());
    turn.counters.get_misses.add((!is_hit).into());
    is_hit
}

/// Looks a key up, changes how long its entry lives and answers it. If there is no memory to write the entry
/// anew, it stays as it is.
fn touch(key: &[u8], shape: Shape, time: i32, turn: &mut Turn<'_>) -> bool {
    let lifetime = turn.shared.items.lifetime(time.into());
    let Ok(updated) = operate::touch(key, lifetime, turn) else { return look_up(key, shape, turn) };
    if let Some((flags, cas)) = updated {
        let number = shape.cas.then_some(if turn.shared.settings.options.cas { cas } else { 0 });
        answer(turn.out, key, flags, turn.scratch, number);
    }
    turn.counters.touches.add(1);
    turn.counters.touch_hits.add(updated.is_some().into());
    turn.counters.touch_misses.add(updated.is_none().into());
    updated.is_some()
}

#[inline]
fn answer(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    // Once: `VALUE `, two spaces and three numbers, two ends of line, `END` and its end.
    out.reserve(key.len() + value.len() + 6 + 3 + 10 + 10 + 20 + 4 + 5);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    push_number(out, flags.into());
    out.push(b' ');
    push_number(out, value.len() as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        push_number(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
