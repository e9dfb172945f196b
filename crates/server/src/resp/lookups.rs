//! Look-ups that are made together ([`Gathered`]), and how they are answered.

use frazil_segment::Entry;
use parking_lot::MutexGuard;

use super::hotkeys::Sketch;
use super::reply::{self, Version};
use super::waiting::Ask;
use super::{Session, seen, tracking};
use crate::gather::Gathered;
use crate::marks::is_placeholder;
use crate::tracking::Tracker;
use crate::waits::{Missing, Part};
use crate::worker::Turn;

/// How often a key is looked for whose value has come and gone meanwhile.
const LOOKS: usize = 4;

/// How a key is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// It is the first of so many of one request, whose head comes before.
    pub(super) head: Option<u32>,
    /// Keys of its request from this one on, if the request goes on without its head; 0: it is a request.
    pub(super) left: u32,
    /// Its client keeps a copy.
    pub(super) is_tracked: bool,
    /// It had none.
    pub(super) is_new: bool,
}

/// For whom a key is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(super) version: Version,
    /// Who is told when the key changes.
    pub(super) tracker: Option<Tracker>,
}

/// A request of one key.
pub(super) const GET: Shape = Shape { head: None, left: 0, is_tracked: false, is_new: false };

/// Keys that are to be looked up.
pub(super) struct Lookups<'i> {
    gathered: Gathered<'i, Shape>,
    version: Version,
    /// Who is told when a key changes that its client keeps a copy of.
    tracker: Option<Tracker>,
}

impl<'i> Lookups<'i> {
    pub(super) fn new(session: &Session) -> Self {
        let (version, tracker) = (session.version, session.own_tracker());
        Lookups { gathered: Gathered::new(GET), version, tracker }
    }

    /// Where the first key lies that was not answered, because replies were too many.
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

    /// Looks up what was gathered and answers it, up to as many replies as there may be. Says whether that was
    /// all.
    #[inline]
    pub(super) fn flush(&mut self, turn: &mut Turn<'_>) -> bool {
        if !self.gathered.is_empty() && self.stopped().is_none() {
            let version = self.version;
            if turn.shared.settings.origin.is_some() {
                self.flush_or_fetch(turn);
            } else {
                let mut hot = turn.shared.resp.hot.of(turn.thread, turn.now_ms);
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
        let mut hot = turn.shared.resp.hot.of(turn.thread, turn.now_ms);
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
            // Others' replies lie behind its place already, so it is put together beside them.
            let out = std::mem::take(turn.out);
            if !answer(key, reader, turn).is_there {
                reply::null(turn.out, version);
            }
            let reply = std::mem::replace(turn.out, out);
            turn.waits.parts.push((at, Part::Bytes(reply)));
        });
    }

    /// What follows is answered as the session now says.
    pub(super) fn follow(&mut self, session: &Session) {
        debug_assert!(self.gathered.is_empty());
        (self.version, self.tracker) = (session.version, session.own_tracker());
    }
}

/// What a request has beside its key: the word `GET`.
const GET_BYTES: usize = 9;
/// What an argument has beside its bytes, but for the digits of their number.
const ARGUMENT_BYTES: usize = 5;

/// Counts a key and its reply, if keys are counted.
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

/// What a client has won and not brought yet is fetched from nowhere else.
#[inline]
fn push_value(out: &mut Vec<u8>, entry: &Entry<'_>, version: Version) {
    match is_placeholder(entry) {
        true => reply::null(out, version),
        false => reply::bulk(out, entry.value),
    }
}

impl Reader {
    /// A key waits that was not read before: it is not told of the value that it waits for.
    fn forget(&self, key: &[u8], is_new: bool, turn: &Turn<'_>) {
        if let Some(tracker) = self.tracker.filter(|_| is_new) {
            turn.shared.items.tracking.forget(key, tracker.id);
        }
    }
}

/// What became of a key.
pub(super) struct Answered {
    /// It has an entry, and was answered.
    pub(super) is_there: bool,
    /// Its client had no copy.
    pub(super) is_new: bool,
}

/// Answers a key if it has an entry.
pub(super) fn answer(key: &[u8], reader: Reader, turn: &mut Turn<'_>) -> Answered {
    let is_new = reader.tracker.is_some_and(|tracker| tracking::remember(key, tracker, turn));
    let (out, store) = (&mut *turn.out, &turn.shared.items.store);
    let found = store.get_with(key, |entry| push_value(out, &entry, reader.version));
    Answered { is_there: found.is_some(), is_new }
}

/// Looks a key up that was not found before, and has it fetched or answers that it is not there.
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

/// Looks a key up and answers it. If it is not there, `fetches` says whether its value is fetched.
pub(super) fn look_up(key: &[u8], reader: Reader, fetches: bool, turn: &mut Turn<'_>) {
    let out = &mut *turn.out;
    let store = &turn.shared.items.store;
    let found = seen::get_with(store, key, |entry| reply::bulk(out, entry.value));
    turn.counters.gets.add(1);
    turn.counters.get_hits.add(found.is_some().into());
    turn.counters.get_misses.add(found.is_none().into());
    match found {
        Some(()) => {}
        None if fetches => get_or_fetch(key, reader, turn),
        None => reply::null(turn.out, reader.version),
    }
}
