//! Records requests to a file for `frazil advise` and `frazil simulate`.

use std::io;
use std::path::Path;
use std::time::Duration;

use frazil_recording::{Event, Recorded};

use crate::Entry;
use crate::item::Head;
use crate::mapping::prefetch;
use crate::store::Store;

impl Store {
    /// Notes a look-up and its result.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_read(&self, hash: u64, found: Option<&Entry<'_>>) {
        let Some(entry) = found else {
            return self.recorder.note(hash, Event::Miss, 0, prefetch);
        };
        let head = Head {
            key_bytes: entry.key.len(),
            value_bytes: entry.value.len(),
            flags: entry.flags,
            deadline: entry.lifetime.map(|_| 0),
            marks: entry.marks,
        };
        self.recorder.note(hash, Event::Hit, head.item_bytes() as u64, prefetch);
    }

    /// Notes a stored value and its lifetime.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_write(&self, hash: u64, bytes: usize, lifetime_ms: Option<u64>) {
        let lifetime = lifetime_ms.map(Duration::from_millis);
        self.recorder.note_insertion(hash, bytes as u64, lifetime, prefetch);
    }

    /// Notes a removal.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_removal(&self, hash: u64) {
        self.recorder.note(hash, Event::Remove, 0, prefetch);
    }
}

/// A recording under way: [`Store::record`]. Ends when it is dropped.
#[derive(Debug)]
#[must_use = "a recording ends when this is dropped"]
pub struct Recording<'s> {
    store: &'s Store,
    /// Gets before the recording began.
    gets_before: u64,
    finished: bool,
}

impl Recording<'_> {
    /// Ends the recording and returns its counts. Waits until everything is written.
    ///
    /// # Errors
    ///
    /// The file could not be written, now or at any time since the beginning; its whole blocks are
    /// readable nevertheless. Or this process was forked since then: the recording continues in
    /// the parent.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// let path = std::env::temp_dir().join(format!("finish-{}", std::process::id()));
    /// assert_eq!(store.record(&path, 0.5)?.finish()?.records, 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish(mut self) -> io::Result<Recorded> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Recorded> {
        self.finished = true;
        let gets = || self.store.gets().wrapping_sub(self.gets_before);
        self.store.recorder.end(gets)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // `finish` returns errors.
            _ = self.end();
        }
    }
}

impl Store {
    /// Records the requests for a share of all keys to a file, which `frazil advise` and `frazil
    /// simulate` read, until the guard is dropped.
    ///
    /// `rate` is the share of the keys, above 0 and at most 1; all requests for a chosen key are
    /// recorded. Requests for other keys cost one more branch. Each operation becomes a record:
    ///
    /// | operation | record |
    /// |---|---|
    /// | get, hold that hits | get, with the item's bytes as size: head, key and value |
    /// | one that misses | get, with the write that follows it within a second, on whatever thread, and in its place; without one, a get of unknown size |
    /// | any other write that stores something | set |
    /// | append, prepend, touch, incr, decr | get, and set if there is an entry |
    /// | delete | delete |
    ///
    /// The record of a write has its lifetime. `contains` and `scan` are not recorded, nor is the
    /// look-up of a conditional write. Keys are recorded as scrambled hashes, which differ between
    /// stores unless [`Builder::seed`](crate::Builder::seed) is the same.
    ///
    /// No operation waits for the file: records that it cannot take are counted as lost. In
    /// addition to the capacity a recording takes 524 kB for each thread that has recorded
    /// something, at most 34 MB, until the store is dropped. Until the recording ends it also keeps
    /// the records of the last tenth of a second and 65,536 misses: 25 MB if two threads request as
    /// fast as they can at a rate of 1.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// let path = std::env::temp_dir().join(format!("record-{}", std::process::id()));
    /// let recording = store.record(&path, 1.0)?;
    /// for key in [b"a", b"b", b"a"] {
    ///     if store.get(key, &mut Vec::new()).is_none() {
    ///         store.set(key, b"value", Default::default())?;
    ///     }
    /// }
    /// let recorded = recording.finish()?;
    /// assert_eq!((recorded.records, recorded.lost), (3, 0));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid rate, `ResourceBusy` while another recording of this store is
    /// under way, and errors of the system for the file and for the thread that writes it. An
    /// existing file is overwritten.
    pub fn record(&self, path: impl AsRef<Path>, rate: f64) -> io::Result<Recording<'_>> {
        // Checkers see neither the recorder's atomics nor its thread, which they did not start.
        if cfg!(any(loom, shuttle)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let gets_before = self.gets();
        self.recorder.begin(path.as_ref(), rate)?;
        Ok(Recording { store: self, gets_before, finished: false })
    }

    /// Look-ups so far.
    fn gets(&self) -> u64 {
        let (hits, misses) = self.hazards.counts();
        hits + misses
    }
}
