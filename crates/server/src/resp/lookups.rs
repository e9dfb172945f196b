//! Look-ups that are made together ([`Gathered`]), and how they are answered.

use super::reply::{self, Version};
use crate::gather::Gathered;
use crate::worker::Turn;

/// How a key is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// It is the first of so many of one request, whose head comes before.
    pub(super) head: Option<u32>,
    /// Keys of its request from this one on, if the request goes on without its head; 0: it is a request.
    pub(super) left: u32,
}

/// A request of one key.
pub(super) const GET: Shape = Shape { head: None, left: 0 };

/// Keys that are to be looked up.
pub(super) struct Lookups<'i> {
    gathered: Gathered<'i, Shape>,
    version: Version,
}

impl<'i> Lookups<'i> {
    pub(super) fn new(version: Version) -> Self {
        Lookups { gathered: Gathered::new(GET), version }
    }

    /// Where the first key lies that was not answered, because replies were too many.
    pub(super) fn stopped(&self) -> Option<(usize, Shape)> {
        self.gathered.stopped()
    }

    #[inline]
    pub(super) fn push(&mut self, key: &'i [u8], place: usize, shape: Shape, turn: &mut Turn<'_>) {
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
            self.gathered.take(turn, |out, _, shape, entry| {
                if let Some(length) = shape.head {
                    reply::array(out, length as usize);
                }
                match entry {
                    Some(entry) => reply::bulk(out, entry.value),
                    None => reply::null(out, version),
                }
            });
        }
        self.stopped().is_none()
    }

    /// What follows is answered in this version.
    pub(super) fn speak(&mut self, version: Version) {
        debug_assert!(self.gathered.is_empty());
        self.version = version;
    }
}
