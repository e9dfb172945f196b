//! Batched look-ups ([`Gathered`]), and their replies.

use frazil_segment::Entry;
use parking_lot::MutexGuard;

use super::reply::{self, Version};
use super::waiting::Ask;
use super::{Session, seen, tracking};
use crate::gather::Gathered;
use crate::hot::Sketch;
use crate::marks::is_placeholder;
use crate::tracking::Tracker;
use crate::waits::{Missing, Part};
use crate::worker::Turn;

/// Attempts to find a key whose value comes and goes meanwhile.
const LOOKS: usize = 4;

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Set for the first key of a request of several, which the head of their reply precedes: their number.
    pub(super) head: Option<u32>,
    /// Keys of its request from this one on, if the request goes on without its head; 0: a whole request.
    pub(super) left: u32,
    /// Whether its client tracks it.
    pub(super) is_tracked: bool,
    /// Whether tracking it is new.
    pub(super) is_new: bool,
}

/// The client of a look-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(super) version: Version,
    /// The connection to notify of changes of the key.
    pub(super) tracker: Option<Tracker>,
}

/// A request for one key.
pub(super) const GET: Shape = Shape { head: None, left: 0, is_tracked: false, is_new: false };

/// Keys to look up.
pub(super) struct Lookups<'i> {
    gathered: Gathered<'i, Shape>,
    version: Version,
    /// The connection to notify of changes of tracked keys.
    tracker: Option<Tracker>,
}

impl<'i> Lookups<'i> {
    pub(super) fn new(session: &Session) -> Self {
        let (version, tracker) = (session.version, session.own_tracker());
        Lookups { gathered: Gathered::new(GET), version, tracker }
    }

    /// The first key that was not answered because there were too many replies: its place.
    pub(super) fn stopped(&self) -> Option<(usize, Shape)> {
        self.gathered.stopped()
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        key: &'i [u8],
        place: usize,
        mut shape: Shape,
        turn: &mut Turn<'_>,
    ) {
        if shape.is_tracked
            && let Some(tracker) = self.tracker
        {
            shape.is_new = tracking::remember(key, tracker, turn);
        }
        if self.gathered.push(key, place, shape) {
            self.flush(turn);
        }
    }

    /// Looks up the gathered keys and answers them, until the replies are full. Returns whether all are answered.
    #[inline]
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) -> bool {
        if !self.gathered.is_empty() && self.stopped().is_none() {
            let version = self.version;
            if turn.shared.settings.origin.is_some() {
                self.flush_or_fetch(turn);
            } else {
                let mut hot = turn.shared.hot.of(turn.thread, turn.now_ms);
                self.gathered.take(turn, |out, key, shape, entry| {
                    push_head(out, shape);
                    let begin = out.len();
                    match entry {
                        Some(entry) => push_value(out, entry, version),
                        None => reply::null(out, version),
                    }
                    note(&mut hot, key, shape, out.len() - begin);
                });
            }
        }
        self.stopped().is_none()
    }

    fn flush_or_fetch(&mut self, turn: &mut Turn<'_>) {
        let version = self.version;
        let mut hot = turn.shared.hot.of(turn.thread, turn.now_ms);
        let hit = |out: &mut Vec<u8>, key: &[u8], shape: Shape, entry: Option<&Entry<'_>>| {
            push_head(out, shape);
            let begin = out.len();
            if let Some(entry) = entry {
                push_value(out, entry, version);
            }
            note(&mut hot, key, shape, out.len() - begin);
        };
        let tracker = self.tracker;
        self.gathered.take_or_wait(turn, hit, |key, shape, at, turn| {
            let reader = Reader { version, tracker: tracker.filter(|_| shape.is_tracked) };
            if turn.fetch(key, at, 0, || Ask::Get(reader).into()) == Missing::Waits {
                reader.forget(key, shape.is_new, turn);
                return;
            }
            // Later replies follow its place already, so it is composed apart from them.
            let out = std::mem::take(turn.out);
            if !answer(key, reader, turn).is_there {
                reply::null(turn.out, version);
            }
            let reply = std::mem::replace(turn.out, out);
            turn.waits.parts.push((at, Part::Bytes(reply)));
        });
    }

    /// Applies the session's present state to the keys that follow.
    pub(super) fn follow(&mut self, session: &Session) {
        debug_assert!(self.gathered.is_empty());
        (self.version, self.tracker) = (session.version, session.own_tracker());
    }
}

/// Length of a request without its key: the word `GET`.
const GET_BYTES: usize = 9;
/// Length of an argument's framing, without the digits of its length.
const ARGUMENT_BYTES: usize = 5;

/// Counts a key and its reply, while keys are counted.
#[inline]
fn note(hot: &mut Option<MutexGuard<'_, Sketch>>, key: &[u8], shape: Shape, reply_bytes: usize) {
    if let Some(sketch) = hot {
        let word = if shape.left == 0 { GET_BYTES } else { 0 };
        let digits = itoa::Buffer::new().format(key.len()).len();
        sketch.note(key, word + ARGUMENT_BYTES + digits + key.len() + reply_bytes);
    }
}

#[inline]
fn push_head(out: &mut Vec<u8>, shape: Shape) {
    if let Some(length) = shape.head {
        reply::array(out, length as usize);
    }
}

/// A key with a lease is not fetched from the origin.
#[inline]
fn push_value(out: &mut Vec<u8>, entry: &Entry<'_>, version: Version) {
    match is_placeholder(entry) {
        true => reply::null(out, version),
        false => reply::bulk(out, entry.value),
    }
}

impl Reader {
    /// A newly read key waits: its client is not to be notified of the very value it waits for.
    fn forget(&self, key: &[u8], is_new: bool, turn: &Turn<'_>) {
        if let Some(tracker) = self.tracker.filter(|_| is_new) {
            turn.shared.items.tracking.forget(key, tracker.id);
        }
    }
}

/// The result for a key.
pub(super) struct Answered {
    /// It has an entry, and was answered.
    pub(super) is_there: bool,
    /// Tracking it is new.
    pub(super) is_new: bool,
}

/// Answers a key if it has an entry.
pub(super) fn answer(key: &[u8], reader: Reader, turn: &mut Turn<'_>) -> Answered {
    let is_new = reader.tracker.is_some_and(|tracker| tracking::remember(key, tracker, turn));
    let (out, store) = (&mut *turn.out, &turn.shared.items.store);
    let found = store.get_with(key, |entry| push_value(out, &entry, reader.version));
    Answered { is_there: found.is_some(), is_new }
}

/// Looks up a key that was missing before. If it still is, fetches it or answers a miss.
pub(super) fn get_or_fetch(key: &[u8], reader: Reader, turn: &mut Turn<'_>) {
    let at = turn.out.len();
    for _ in 0..LOOKS {
        let Answered { is_there, is_new } = answer(key, reader, turn);
        if is_there {
            return;
        }
        match turn.fetch(key, at, 0, || Ask::Get(reader).into()) {
            Missing::Look => {}
            Missing::Answer => break,
            Missing::Waits => return reader.forget(key, is_new, turn),
        }
    }
    reply::null(turn.out, reader.version);
}

/// Looks a key up and answers it. `fetches`: whether a missing value is fetched.
pub(super) fn look_up(key: &[u8], reader: Reader, fetches: bool, turn: &mut Turn<'_>) {
    let out = &mut *turn.out;
    let store = &turn.shared.items.store;
    let found = seen::get_with(store, key, |entry| {
        reply::bulk(out, entry.value);
        store.recorded_bytes(entry)
    });
    turn.count_get(key, found);
    match found {
        Some(_) => {}
        None if fetches => get_or_fetch(key, reader, turn),
        None => reply::null(turn.out, reader.version),
    }
}
