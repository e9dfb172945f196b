//! A response that is being brought, and the clients that are given it as it arrives.
//!
//! The thread that fetches appends, those that serve copy out; who finds nothing new sleeps, and is woken by the next
//! bytes. A body that is to be stored is kept whole, so that who comes later begins at its begin. Any other is a window:
//! what all have read is dropped, and the origin is not read while the window is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::object::Object;
use super::wakes::Wakes;
use crate::mail::Place;

/// Bytes of a window.
const WINDOW_BYTES: usize = 64 << 10;

/// Why the origin was asked (RFC 9211, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarded {
    UriMiss,
    VaryMiss,
    Stale,
    Request,
    Method,
    Bypass,
}

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) key: Box<[u8]>,
    /// How often the URL had been invalidated when this began.
    pub(crate) generation: u64,
    pub(crate) forwarded: Forwarded,
    state: Mutex<State>,
    /// A reader has made room, or has gone.
    room: Notify,
    bounds: Arc<Bounds>,
}

/// Bytes of bodies that arrive, of all flights.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) arriving: AtomicUsize,
    pub(crate) arriving_max: usize,
    pub(crate) object_max: usize,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The head if the response is to be stored, then the body from `base` on.
    buffer: Vec<u8>,
    head_bytes: usize,
    base: usize,
    /// The body is kept whole.
    keeps: bool,
    /// It has ended: whole, or not.
    end: Option<bool>,
    /// The whole response, once it is stored: `buffer` has become this.
    whole: Option<Arc<Object>>,
    readers: Vec<Reader>,
    next_reader: u32,
}

#[derive(Debug)]
struct Reader {
    number: u32,
    place: Place,
    /// Bytes of the body that it has.
    at: usize,
    sleeps: bool,
    /// It has held up the others.
    is_cut: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Asked,
    Head(Begun),
    /// A stored response answers, which the origin has found to hold, or which stands in for it.
    Stored {
        object: Arc<Object>,
        is_shared: bool,
        validated: bool,
    },
    Failed(u16),
}

/// The head of a response that arrives.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// Without a body.
    pub(crate) object: Arc<Object>,
    pub(crate) length: Option<u64>,
    /// Fields that only the first reader gets.
    pub(crate) withheld: Arc<[u8]>,
    /// Others than the first reader may have it.
    pub(crate) is_shared: bool,
    pub(crate) is_stored: bool,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Look {
    Sleeps,
    Begun(Begun),
    Stored {
        object: Arc<Object>,
        validated: bool,
    },
    Failed(u16),
    /// The response is for another client only.
    Alone,
}

/// What came of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes were appended, and there may be more.
    Some,
    Sleeps,
    Whole,
    Broken,
}

/// How bytes are framed for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    Plain,
    Chunked,
}

/// Whether the origin may be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Is,
    Full,
    /// Nobody wants the rest.
    Gone,
}

impl Flight {
    pub(crate) fn new(
        key: &[u8],
        generation: u64,
        forwarded: Forwarded,
        bounds: &Arc<Bounds>,
    ) -> Flight {
        let state = State {
            phase: Phase::Asked,
            buffer: Vec::new(),
            head_bytes: 0,
            base: 0,
            keeps: true,
            end: None,
            whole: None,
            readers: Vec::new(),
            next_reader: 0,
        };
        Flight {
            key: key.into(),
            generation,
            forwarded,
            state: Mutex::new(state),
            room: Notify::new(),
            bounds: Arc::clone(bounds),
        }
    }

    /// One more reader, unless it has come too late.
    pub(crate) fn join(self: &Arc<Flight>, place: Place) -> Option<Reading> {
        let mut state = self.state.lock();
        let is_open = match &state.phase {
            Phase::Asked => true,
            Phase::Head(begun) => begun.is_shared && state.keeps && state.end.is_none(),
            Phase::Stored { .. } | Phase::Failed(_) => false,
        };
        if !is_open {
            return None;
        }
        let number = state.next_reader;
        state.next_reader += 1;
        state.readers.push(Reader { number, place, at: 0, sleeps: false, is_cut: false });
        Some(Reading { flight: Arc::clone(self), number })
    }

    /// Says what is known now, and wakes who waits for it.
    fn tell(&self, wakes: &Wakes, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let asleep = state.readers.iter_mut().filter(|reader| reader.sleeps);
        let places: Vec<Place> = asleep
            .map(|reader| {
                reader.sleeps = false;
                reader.place
            })
            .collect();
        drop(state);
        wakes.send(places.into_iter());
    }

    /// The head has come; the body follows. `head` is what is stored before the body.
    pub(crate) fn begin(&self, wakes: &Wakes, begun: Begun, head: &[u8]) {
        self.tell(wakes, |state| {
            state.keeps = begun.is_stored;
            if begun.is_stored {
                let body = begun.length.unwrap_or(0) as usize;
                state.buffer.reserve_exact(head.len() + body.min(self.bounds.object_max));
                state.buffer.extend_from_slice(head);
                state.head_bytes = head.len();
            }
            state.phase = Phase::Head(begun);
        });
    }

    pub(crate) fn stored(
        &self,
        wakes: &Wakes,
        object: Arc<Object>,
        is_shared: bool,
        validated: bool,
    ) {
        self.tell(wakes, |state| {
            state.phase = Phase::Stored { object, is_shared, validated };
            state.end = Some(true);
        });
    }

    /// It ends without a response, or in the midst of one.
    pub(crate) fn fail(&self, wakes: &Wakes, status: u16) {
        self.tell(wakes, |state| {
            if matches!(state.phase, Phase::Asked) {
                state.phase = Phase::Failed(status);
            }
            state.end = state.end.or(Some(false));
        });
    }

    /// Bytes of the body.
    pub(crate) fn push(&self, wakes: &Wakes, bytes: &[u8]) {
        self.bounds.arriving.fetch_add(bytes.len(), Relaxed);
        self.tell(wakes, |state| state.buffer.extend_from_slice(bytes));
    }

    /// The body is whole, and is not stored.
    pub(crate) fn end(&self, wakes: &Wakes) {
        self.tell(wakes, |state| state.end = Some(true));
    }

    /// The body is whole: what was kept becomes an object, without being copied.
    pub(crate) fn complete(&self) -> Option<Arc<Object>> {
        let mut state = self.state.lock();
        let Phase::Head(begun) = &state.phase else { return None };
        if !state.keeps {
            return None;
        }
        let meta = begun.object.meta.clone();
        let buffer = std::mem::take(&mut state.buffer);
        let head_bytes = state.head_bytes;
        self.bounds.arriving.fetch_sub(buffer.len() - head_bytes, Relaxed);
        let object = Arc::new(Object::new(meta, buffer, head_bytes));
        state.whole = Some(Arc::clone(&object));
        Some(object)
    }

    /// Whether a body that is kept may grow by so many bytes.
    pub(crate) fn may_keep(&self, more: usize) -> bool {
        let state = self.state.lock();
        let is_small = state.buffer.len() + more <= self.bounds.object_max;
        is_small && self.bounds.arriving.load(Relaxed) + more <= self.bounds.arriving_max
    }

    /// The body is not kept any more.
    pub(crate) fn let_go(&self) {
        let mut state = self.state.lock();
        if state.keeps {
            state.keeps = false;
            let head_bytes = std::mem::take(&mut state.head_bytes);
            state.buffer.drain(..head_bytes);
        }
        self.trim(&mut state);
    }

    pub(crate) fn keeps(&self) -> bool {
        self.state.lock().keeps
    }

    /// Drops what all readers have.
    fn trim(&self, state: &mut State) {
        let readers = state.readers.iter().filter(|reader| !reader.is_cut);
        let Some(least) = readers.map(|reader| reader.at).min() else { return };
        let done = least.saturating_sub(state.base).min(state.buffer.len());
        if done > 0 {
            state.buffer.drain(..done);
            state.base += done;
            self.bounds.arriving.fetch_sub(done, Relaxed);
            self.room.notify_one();
        }
    }

    pub(crate) fn room(&self) -> Room {
        let state = self.state.lock();
        if state.keeps {
            return Room::Is;
        }
        let is_over = self.bounds.arriving.load(Relaxed) >= self.bounds.arriving_max;
        match state.buffer.len() {
            _ if state.readers.iter().all(|reader| reader.is_cut) => Room::Gone,
            0 => Room::Is,
            bytes if bytes >= WINDOW_BYTES || is_over => Room::Full,
            _ => Room::Is,
        }
    }

    /// Whether a slow reader would hold up another: readers that were cut off do not count.
    pub(crate) fn has_several_readers(&self) -> bool {
        self.state.lock().readers.iter().filter(|reader| !reader.is_cut).count() > 1
    }

    /// Until a reader has made room, or has gone.
    pub(crate) async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    /// Cuts off the readers that hold up the others. Their connections are closed.
    pub(crate) fn cut(&self, wakes: &Wakes) {
        self.tell(wakes, |state| {
            let base = state.base;
            for reader in state.readers.iter_mut().filter(|reader| reader.at <= base) {
                reader.is_cut = true;
                reader.sleeps = true;
            }
            self.trim(state);
        });
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let body = state.buffer.len().saturating_sub(state.head_bytes);
        self.bounds.arriving.fetch_sub(body, Relaxed);
    }
}

/// A reader of a flight, which leaves it when this is dropped.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) flight: Arc<Flight>,
    number: u32,
}

impl Reading {
    /// Whether the flight began for it.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// What is known of the response. Sleeps if it is nothing.
    pub(crate) fn look(&self) -> Look {
        let mut state = self.flight.state.lock();
        let is_for = |is_shared: bool| is_shared || self.is_first();
        match state.phase.clone() {
            Phase::Asked => {
                self.sleep(&mut state);
                Look::Sleeps
            }
            Phase::Head(begun) if is_for(begun.is_shared) => Look::Begun(begun),
            Phase::Stored { object, is_shared, validated } if is_for(is_shared) => {
                Look::Stored { object, validated }
            }
            Phase::Failed(status) => Look::Failed(status),
            Phase::Head(_) | Phase::Stored { .. } => Look::Alone,
        }
    }

    fn sleep(&self, state: &mut State) {
        if let Some(reader) = state.readers.iter_mut().find(|of| of.number == self.number) {
            reader.sleeps = true;
        }
    }

    /// Appends at most `most` bytes of the body.
    pub(crate) fn read(&self, out: &mut Vec<u8>, most: usize, framed: Framed) -> Read {
        let mut state = self.flight.state.lock();
        let State { readers, buffer, head_bytes, base, whole, end, keeps, .. } = &mut *state;
        let Some(reader) = readers.iter_mut().find(|of| of.number == self.number) else {
            return Read::Broken;
        };
        if reader.is_cut {
            return Read::Broken;
        }
        let there = match whole {
            Some(object) => &object.body()[reader.at..],
            None => &buffer[*head_bytes + reader.at - *base..],
        };
        if there.is_empty() {
            return match end {
                Some(true) => Read::Whole,
                Some(false) => Read::Broken,
                None => {
                    reader.sleeps = true;
                    Read::Sleeps
                }
            };
        }
        let bytes = &there[..there.len().min(most)];
        if framed == Framed::Chunked {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        }
        out.extend_from_slice(bytes);
        if framed == Framed::Chunked {
            out.extend_from_slice(b"\r\n");
        }
        reader.at += bytes.len();
        if !*keeps {
            self.flight.trim(&mut state);
        }
        Read::Some
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        state.readers.retain(|reader| reader.number != self.number);
        if !state.keeps {
            self.flight.trim(&mut state);
            self.flight.room.notify_one();
        }
    }
}
