//! Batched look-ups ([`Gathered`]), and their replies.

use frazil_segment::Entry;
use parking_lot::MutexGuard;

use super::waiting::Ask;
use super::{KEY_BYTES_MAX, number, operate, push_number, split};
use crate::gather::Gathered;
use crate::hot::Sketch;
use crate::waits::{Missing, Part};
use crate::worker::Turn;

/// Attempts to find a key whose value comes and goes meanwhile.
const LOOKS: usize = 4;

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Includes the number for `cas`.
    pub(super) cas: bool,
    /// The last reply of its request.
    pub(super) ends: bool,
    /// The entry's new lifetime.
    pub(super) touch: Option<i64>,
}

impl Shape {
    pub(super) fn new(cas: bool) -> Shape {
        Shape { cas, ends: false, touch: None }
    }

    /// The shape of a look-up's line and the beginning of its keys, or the reply without any; `None`: another request.
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
                let Some(touch) = number::time(time) else {
                    return Some(Err(b"CLIENT_ERROR invalid exptime argument"));
                };
                let shape = Shape { touch: Some(touch), ..Shape::new(command == b"gats") };
                let found = Self::with_keys(line, shape, after + at + time.len());
                // Unlike `get`, it may be without a key.
                Some(found.map_err(|_| &b"END"[..]))
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

/// Keys to look up, with the form of their replies.
pub(super) struct Lookups<'i> {
    gathered: Gathered<'i, Shape>,
}

impl<'i> Lookups<'i> {
    pub(super) fn new() -> Self {
        Lookups { gathered: Gathered::new(Shape::new(false)) }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.gathered.stopped().is_some()
    }

    /// The first key that was not answered because there were too many replies: its place.
    pub(super) fn stopped(&self) -> Option<(usize, Shape)> {
        self.gathered.stopped().map(|(place, shape)| (place, Shape { ends: false, ..shape }))
    }

    pub(super) fn push(&mut self, key: &'i [u8], place: usize, shape: Shape, turn: &mut Turn<'_>) {
        debug_assert!(key.len() <= KEY_BYTES_MAX);
        // Those that change lifetimes are not batched.
        let first = self.gathered.first_shape();
        if first.is_some_and(|first| first.touch.is_some() != shape.touch.is_some()) {
            self.flush(turn);
            if self.is_stopped() {
                return;
            }
        }
        if self.gathered.push(key, place, shape) {
            self.flush(turn);
        }
    }

    /// Looks up the gathered keys and answers them, until the replies are full.
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) {
        let Some(first) = self.gathered.first_shape() else { return };
        if self.is_stopped() {
            return;
        }
        if turn.shared.memcached.counts_prefixes() || first.touch.is_some() {
            return self.gathered.take_singly(turn, singly);
        }
        if turn.shared.settings.origin.is_some() {
            return self.flush_or_fetch(turn);
        }
        let cas = turn.shared.settings.options.cas;
        let mut hot = turn.shared.hot.of(turn.thread, turn.now_ms);
        self.gathered.take(turn, |out, key, shape, entry| {
            let begin = out.len();
            if let Some(entry) = entry {
                let number = shape.cas.then_some(if cas { entry.cas } else { 0 });
                answer(out, key, entry.flags, entry.value, number);
            }
            if shape.ends {
                out.extend_from_slice(b"END\r\n");
            }
            note(&mut hot, key, shape, out.len() - begin);
        });
    }

    fn flush_or_fetch(&mut self, turn: &mut Turn<'_>) {
        let cas = turn.shared.settings.options.cas;
        let mut hot = turn.shared.hot.of(turn.thread, turn.now_ms);
        let hit = |out: &mut Vec<u8>, key: &[u8], shape: Shape, entry: Option<&Entry<'_>>| {
            let Some(entry) = entry else { return note(&mut hot, key, shape, 0) };
            let begin = out.len();
            let number = shape.cas.then_some(if cas { entry.cas } else { 0 });
            answer(out, key, entry.flags, entry.value, number);
            if shape.ends {
                out.extend_from_slice(b"END\r\n");
            }
            note(&mut hot, key, shape, out.len() - begin);
        };
        self.gathered.take_or_wait(turn, hit, |key, shape, at, turn| {
            if turn.fetch(key, at, 0, || Ask::Get(shape).into()) == Missing::Waits {
                return;
            }
            // Later replies follow its place already, so it is composed apart from them.
            let out = std::mem::take(turn.out);
            _ = answer_found(key, shape, turn);
            end(shape, turn);
            let reply = std::mem::replace(turn.out, out);
            turn.waits.parts.push((at, Part::Bytes(reply)));
        });
    }
}

/// Length of a look-up without its keys and the blanks before them: `get` and the end of its line.
const GET_BYTES: usize = 5;

/// Counts a key and its reply, while keys are counted.
#[inline]
fn note(hot: &mut Option<MutexGuard<'_, Sketch>>, key: &[u8], shape: Shape, reply_bytes: usize) {
    if let Some(sketch) = hot {
        let word = if shape.ends { GET_BYTES } else { 0 };
        sketch.note(key, word + 1 + key.len() + reply_bytes);
    }
}

/// Looks up a key that was missing before. If it still is, fetches it or answers a miss.
pub(super) fn get_or_fetch(key: &[u8], shape: Shape, turn: &mut Turn<'_>) {
    let at = turn.out.len();
    for _ in 0..LOOKS {
        if answer_found(key, shape, turn).is_some() {
            break;
        }
        match turn.fetch(key, at, 0, || Ask::Get(shape).into()) {
            Missing::Look => {}
            Missing::Answer => break,
            Missing::Waits => return,
        }
    }
    end(shape, turn);
}

/// Answers one key, changing its lifetime or counting its prefix.
#[cold]
fn singly(key: &[u8], shape: Shape, turn: &mut Turn<'_>) {
    let begin = turn.out.len();
    let is_hit = match shape.touch {
        Some(time) => touch(key, shape, time, turn),
        None => look_up(key, shape, turn),
    };
    if turn.shared.memcached.counts_prefixes() {
        turn.shared.memcached.prefixes.lock().got(key, is_hit);
    }
    if is_hit || shape.touch.is_some() {
        end(shape, turn);
    } else {
        get_or_fetch(key, shape, turn);
    }
    let mut hot = turn.shared.hot.of(turn.thread, turn.now_ms);
    note(&mut hot, key, shape, turn.out.len().saturating_sub(begin));
}

pub(super) fn end(shape: Shape, turn: &mut Turn<'_>) {
    if shape.ends {
        turn.out.extend_from_slice(b"END\r\n");
    }
}

/// Answers a key if it is in the store, and returns its bytes for a recording.
fn answer_found(key: &[u8], shape: Shape, turn: &mut Turn<'_>) -> Option<Option<u64>> {
    let cas = turn.shared.settings.options.cas;
    let out = &mut *turn.out;
    let store = &turn.shared.items.store;
    store.get_with(key, |entry| {
        let number = shape.cas.then_some(if cas { entry.cas } else { 0 });
        answer(out, key, entry.flags, entry.value, number);
        store.recorded_bytes(&entry)
    })
}

/// Looks a key up and answers it.
fn look_up(key: &[u8], shape: Shape, turn: &mut Turn<'_>) -> bool {
    let bytes = answer_found(key, shape, turn);
    turn.count_get(key, bytes);
    bytes.is_some()
}

/// Looks a key up, changes the lifetime of its entry and answers it. Without memory to write the entry anew, the old
/// lifetime stays.
fn touch(key: &[u8], shape: Shape, time: i64, turn: &mut Turn<'_>) -> bool {
    let lifetime = turn.shared.items.lifetime(time);
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
pub(super) fn answer(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
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
