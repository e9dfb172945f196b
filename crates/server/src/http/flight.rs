//! A response in flight, and the clients that receive it as it arrives.
//!
//! The fetching thread appends, and serving threads copy out. A reader that finds nothing new sleeps until the next
//! bytes wake it. A body to be stored is kept whole, so a late reader starts at its beginning. Any other body is a
//! window: bytes that all readers have are dropped, and the origin is not read while the window is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::object::Object;
use super::wakes::Wakes;
use crate::mail::Place;

/// Size of a window.
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
    /// The number of the URL's invalidations when this flight began.
    pub(crate) generation: u64,
    pub(crate) forwarded: Forwarded,
    state: Mutex<State>,
    /// Signalled when a reader has taken bytes or left.
    room: Notify,
    bounds: Arc<Bounds>,
}

/// Bytes of arriving bodies, over all flights.
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
    /// Whether the body is kept whole.
    keeps: bool,
    /// Set at the end: whether the body is complete.
    end: Option<bool>,
    /// The stored response; `buffer` has become its bytes.
    whole: Option<Arc<Object>>,
    readers: Vec<Reader>,
    next_reader: u32,
}

#[derive(Debug)]
struct Reader {
    number: u32,
    place: Place,
    /// Bytes of the body already copied.
    at: usize,
    sleeps: bool,
    /// Whether it was cut off because it stalled others.
    is_cut: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    Asked,
    Head(Begun),
    /// A stored response answers: the origin has validated it, or it stands in for the origin.
    Stored {
        object: Arc<Object>,
        is_shared: bool,
        validated: bool,
    },
    Failed(u16),
}

/// The head of an arriving response.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// The response without its body.
    pub(crate) object: Arc<Object>,
    pub(crate) length: Option<u64>,
    /// Fields for the first reader only.
    pub(crate) withheld: Arc<[u8]>,
    /// Whether readers other than the first may have it.
    pub(crate) is_shared: bool,
    pub(crate) is_stored: bool,
}

/// The state of a response for a reader.
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

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// This many bytes were appended, and more may follow.
    Some,
    Sleeps,
    Whole,
    Broken,
}

/// The framing of a body for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    Plain,
    Chunked,
}

/// Whether there is space for more bytes from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Is,
    Full,
    /// No reader is left.
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

    /// Adds a reader, unless the flight has dropped bytes or ended.
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

    /// Changes the state, and wakes all waiting readers.
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

    /// The head has arrived; the body follows. `head` is stored before the body.
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

    /// Ends without a response, or in the middle of one.
    pub(crate) fn fail(&self, wakes: &Wakes, status: u16) {
        self.tell(wakes, |state| {
            if matches!(state.phase, Phase::Asked) {
                state.phase = Phase::Failed(status);
            }
            state.end = state.end.or(Some(false));
        });
    }

    /// Appends bytes of the body.
    pub(crate) fn push(&self, wakes: &Wakes, bytes: &[u8]) {
        self.bounds.arriving.fetch_add(bytes.len(), Relaxed);
        self.tell(wakes, |state| state.buffer.extend_from_slice(bytes));
    }

    /// The body is complete, and not stored.
    pub(crate) fn end(&self, wakes: &Wakes) {
        self.tell(wakes, |state| state.end = Some(true));
    }

    /// The body is complete: the buffer becomes an object, without a copy.
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

    /// Whether a kept body may grow by this many bytes.
    pub(crate) fn may_keep(&self, more: usize) -> bool {
        let state = self.state.lock();
        let is_small = state.buffer.len() + more <= self.bounds.object_max;
        is_small && self.bounds.arriving.load(Relaxed) + more <= self.bounds.arriving_max
    }

    /// Stops keeping the body.
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

    /// Drops the bytes that all readers have.
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

    /// Whether a slow reader would stall another. Readers that were cut off do not count.
    pub(crate) fn has_several_readers(&self) -> bool {
        self.state.lock().readers.iter().filter(|reader| !reader.is_cut).count() > 1
    }

    /// Waits until a reader has taken bytes or left.
    pub(crate) async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    /// Cuts off the readers that stall others. Their connections are closed.
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

/// A reader of a flight. Dropping it leaves the flight.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) flight: Arc<Flight>,
    number: u32,
}

impl Reading {
    /// Whether the flight began for this reader.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// The state of the response. If it is unknown the reader sleeps.
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
