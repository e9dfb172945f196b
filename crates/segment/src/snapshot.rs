//! Snapshots: a store written to a file and restored.
//!
//! A snapshot holds every entry with its remaining lifetime. [`Store::scan`] takes it while the
//! store is in use, so it does not show a single moment. Numbers are little-endian.
//!
//! ```text
//! file   = magic "\x89frsegm\n"   u32 version (2)   u64 when, ms since 1970   block* end
//! block  = u32 payload bytes   u32 records (> 0)   u64 checksum   payload
//! record = u8 key bytes   u24 value bytes   u8 marks   u32 flags   u64 left, ms (all ones: no end)   key   value
//! end    = a block of no records; its payload: u64 records in all
//! ```
//!
//! A checksum is XXH3 of the payload. Its seed is the checksum of the eight bytes before it, whose
//! seed is the checksum before; the first seed is the checksum of the header. So a restore detects
//! damage, a missing block, a missing end and trailing bytes, before it inserts the first entry.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::item::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::scan::Scanned;
use crate::store::{Kept, Store};
use crate::{Attributes, Expect, StoreError, Stored};

const HEADER: [u8; 12] = *b"\x89frsegm\n\x02\0\0\0";
const WHEN_BYTES: usize = 8;
const HEAD_BYTES: usize = 16;
const RECORD_HEAD: usize = 17;
/// A block is written when it is this long. One record may make it longer.
const BLOCK_BYTES: usize = 64 << 10;
const PAYLOAD_MAX: usize = BLOCK_BYTES + RECORD_HEAD + KEY_BYTES_MAX + VALUE_BYTES_MAX;
const NO_END: u64 = u64::MAX;

/// Why a snapshot was not restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file could not be read.
    Unreadable(io::Error),
    /// The file is not a snapshot of this version, or was cut short or changed. None of it was
    /// inserted.
    Damaged {
        /// Where the damaged part begins, in bytes.
        offset: u64,
    },
    /// There is no memory for an entry.
    Refused(StoreError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Unreadable(_) => f.write_str("the snapshot cannot be read"),
            RestoreError::Damaged { offset } => {
                write!(f, "not a snapshot, or damaged from byte {offset} on")
            }
            RestoreError::Refused(_) => f.write_str("an entry of the snapshot was refused"),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RestoreError::Unreadable(source) => Some(source),
            RestoreError::Damaged { .. } => None,
            RestoreError::Refused(source) => Some(source),
        }
    }
}

impl From<io::Error> for RestoreError {
    fn from(source: io::Error) -> Self {
        RestoreError::Unreadable(source)
    }
}

fn checksum(before: u64, head: &[u8], payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, xxh3_64_with_seed(head, before))
}

fn encode(entry: &Scanned, out: &mut Vec<u8>) {
    let left = entry.lifetime.map_or(NO_END, |left| left.as_millis() as u64);
    out.push(entry.key.len() as u8);
    out.extend((entry.value.len() as u32 | u32::from(entry.marks) << 24).to_le_bytes());
    out.extend(entry.flags.to_le_bytes());
    out.extend(left.to_le_bytes());
    out.extend(&entry.key);
    out.extend(&entry.value);
}

/// An entry in a file.
struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    attributes: Attributes,
}

/// The first record of a payload, and the rest.
fn decode(payload: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (head, rest) = payload.split_at_checked(RECORD_HEAD)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (key, rest) = rest.split_at_checked(usize::from(head[0]))?;
    let (value, rest) = rest.split_at_checked(word(1) as usize & 0xff_ffff)?;
    let left = u64::from(word(9)) | u64::from(word(13)) << 32;
    let lifetime = (left != NO_END).then(|| Duration::from_millis(left));
    let attributes = Attributes { flags: word(5), marks: head[4], lifetime };
    Some((Record { key, value, attributes }, rest))
}

struct Writer<W> {
    out: W,
    checksum: u64,
    payload: Vec<u8>,
    records: u32,
}

impl<W: Write> Writer<W> {
    fn block(&mut self) -> io::Result<()> {
        let mut head = (self.payload.len() as u32).to_le_bytes().to_vec();
        head.extend(self.records.to_le_bytes());
        self.checksum = checksum(self.checksum, &head, &self.payload);
        head.extend(self.checksum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&self.payload)?;
        self.payload.clear();
        self.records = 0;
        Ok(())
    }
}

/// The time in the header of a file.
fn when(header: &[u8]) -> Result<SystemTime, RestoreError> {
    let when = header.strip_prefix(&HEADER).and_then(|when| when.try_into().ok());
    let when = when.ok_or(RestoreError::Damaged { offset: 0 })?;
    let when = UNIX_EPOCH.checked_add(Duration::from_millis(u64::from_le_bytes(when)));
    when.ok_or(RestoreError::Damaged { offset: HEADER.len() as u64 })
}

/// Reads a file and calls for each entry.
fn read_all(
    file: &mut File,
    mut each: impl FnMut(Record<'_>) -> Result<(), RestoreError>,
) -> Result<(SystemTime, u64), RestoreError> {
    let length = file.metadata()?.len();
    file.rewind()?;
    let mut input = BufReader::new(file);
    let mut offset = 0;
    let mut take = |bytes: usize, offset: &mut u64| -> Result<Vec<u8>, RestoreError> {
        if bytes as u64 > length.saturating_sub(*offset) {
            return Err(RestoreError::Damaged { offset: *offset });
        }
        let mut taken = vec![0; bytes];
        input.read_exact(&mut taken)?;
        *offset += bytes as u64;
        Ok(taken)
    };
    let header = take(HEADER.len() + WHEN_BYTES, &mut offset)?;
    let when = when(&header)?;
    let (mut before, mut all) = (xxh3_64_with_seed(&header, 0), 0);
    loop {
        let begun = offset;
        let damaged = || RestoreError::Damaged { offset: begun };
        let head = take(HEAD_BYTES, &mut offset)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (bytes, records) = (word(0) as usize, word(4));
        if bytes > PAYLOAD_MAX {
            return Err(damaged());
        }
        let payload = take(bytes, &mut offset)?;
        before = checksum(before, &head[..8], &payload);
        if before.to_le_bytes() != head[8..] {
            return Err(damaged());
        }
        if records == 0 {
            let ends = payload == u64::to_le_bytes(all) && offset == length;
            return if ends { Ok((when, all)) } else { Err(damaged()) };
        }
        let mut rest = &payload[..];
        for _ in 0..records {
            let (entry, left) = decode(rest).ok_or_else(damaged)?;
            each(entry)?;
            rest = left;
        }
        if !rest.is_empty() {
            return Err(damaged());
        }
        all += u64::from(records);
    }
}

/// Saves of this process so far: two threads may save to one path.
static SAVES: AtomicU64 = AtomicU64::new(0);

/// A new name for a file that is renamed to `path` when it is complete.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{}.tmp", std::process::id(), SAVES.fetch_add(1, Relaxed)));
    path.with_file_name(name)
}

/// Whether a name is one that [`unfinished`] gave to a process that has ended.
fn is_abandoned(name: &OsStr, snapshot: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(snapshot.as_encoded_bytes());
    let rest = rest.and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(b".tmp"));
    let numbers = rest.and_then(|rest| std::str::from_utf8(rest).ok()?.split_once('.'));
    let Some((Ok(process), Ok(save))) =
        numbers.map(|(process, save)| (process.parse::<i32>(), save.parse::<u64>()))
    else {
        return false;
    };
    // In a container each process in turn may have the same number.
    let is_own = u32::try_from(process) == Ok(std::process::id());
    if is_own { save >= SAVES.load(Relaxed) } else { process > 0 && !is_alive(process) }
}

#[cfg(unix)]
fn is_alive(process: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody; the call has no pointers.
    let found = unsafe { libc::kill(process, 0) };
    found == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn is_alive(_: i32) -> bool {
    true
}

/// Removes files of saves to `path` whose process was killed.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let Some(snapshot) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    for file in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let file = file?;
        if is_abandoned(&file.file_name(), snapshot) {
            // Another process may have removed it.
            let _ = std::fs::remove_file(file.path());
        }
    }
    Ok(())
}

/// Checks that [`save_entries`] could write a file of this name, and removes what killed processes have left of it.
///
/// # Errors
///
/// It could not: the folder is missing, or not writable, or the name is a folder's.
///
/// ```
/// assert!(frazil_segment::check_save(&std::env::temp_dir().join("entries")).is_ok());
/// assert!(frazil_segment::check_save("/no/such/folder/entries".as_ref()).is_err());
/// ```
pub fn check_save(path: &Path) -> io::Result<()> {
    remove_abandoned(path)?;
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let unfinished = unfinished(path);
    File::create_new(&unfinished)?;
    std::fs::remove_file(&unfinished)
}

/// Writes the entries that `scan` copies out to a file, and returns their number: called with a
/// cursor, at first 0, it appends some and returns where to continue, as [`Store::scan`] does. An
/// existing file of that name stays until the new one is complete. [`Store::save`] for other
/// stores.
///
/// # Errors
///
/// The file cannot be written.
///
/// ```
/// use frazil_segment::Entry;
/// let path = std::env::temp_dir().join(format!("entries-{}", std::process::id()));
/// let saved = frazil_segment::save_entries(&path, |_, out| {
///     out.push((&Entry::new(b"key", b"value")).into());
///     None
/// })?;
/// let read = frazil_segment::read_entries(&path, |key, _, _| Ok(key == b"key"))?;
/// assert_eq!((saved, read), (1, 1));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save_entries(
    path: &Path,
    scan: impl FnMut(u64, &mut Vec<Scanned>) -> Option<u64>,
) -> io::Result<u64> {
    remove_abandoned(path)?;
    let unfinished = unfinished(path);
    let saved = write_snapshot(&unfinished, scan);
    let saved = saved.and_then(|all| std::fs::rename(&unfinished, path).map(|()| all));
    if saved.is_err() {
        // It may not exist.
        let _ = std::fs::remove_file(&unfinished);
    }
    saved
}

fn write_snapshot(
    path: &Path,
    mut scan: impl FnMut(u64, &mut Vec<Scanned>) -> Option<u64>,
) -> io::Result<u64> {
    let mut out = BufWriter::new(File::create(path)?);
    let when = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let header = [&HEADER[..], &(when.as_millis() as u64).to_le_bytes()].concat();
    out.write_all(&header)?;
    let begun = xxh3_64_with_seed(&header, 0);
    let mut writer = Writer { out, checksum: begun, payload: Vec::new(), records: 0 };
    let (mut all, mut entries, mut cursor) = (0u64, Vec::new(), Some(0));
    while let Some(at) = cursor {
        cursor = scan(at, &mut entries);
        for entry in entries.drain(..) {
            encode(&entry, &mut writer.payload);
            writer.records += 1;
            all += 1;
            if writer.payload.len() >= BLOCK_BYTES {
                writer.block()?;
            }
        }
    }
    if writer.records > 0 {
        writer.block()?;
    }
    writer.payload.extend(all.to_le_bytes());
    writer.block()?;
    writer.out.into_inner()?.sync_all()?;
    Ok(all)
}

/// Calls `store` with the key, value and attributes of each unexpired entry of a snapshot. Returns
/// how many it has stored. The file is read twice, so `store` is never called for a damaged file.
/// The time since the snapshot, by the system's clock, is subtracted from the lifetimes.
/// [`Store::restore`] for other stores.
///
/// # Errors
///
/// The file cannot be read, or is damaged; or an error of `store`.
///
/// ```
/// let read = frazil_segment::read_entries("/none".as_ref(), |_, _, _| Ok(true));
/// assert!(read.is_err());
/// ```
pub fn read_entries(
    path: &Path,
    mut store: impl FnMut(&[u8], &[u8], Attributes) -> Result<bool, StoreError>,
) -> Result<u64, RestoreError> {
    let mut file = File::open(path)?;
    let (when, _) = read_all(&mut file, |_| Ok(()))?;
    let since = SystemTime::now().duration_since(when).unwrap_or_default();
    let mut stored = 0;
    read_all(&mut file, |entry| {
        let left = entry.attributes.lifetime.map(|lifetime| lifetime.saturating_sub(since));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let attributes = Attributes { lifetime: left, ..entry.attributes };
        let is_stored = store(entry.key, entry.value, attributes).map_err(RestoreError::Refused)?;
        stored += u64::from(is_stored);
        Ok(())
    })?;
    Ok(stored)
}

impl Store {
    /// Writes all entries to a file, and returns their number. An existing file of that name stays
    /// until the new one is complete.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let path = std::env::temp_dir().join(format!("segments-{}", std::process::id()));
    /// assert_eq!(store.save(&path)?, 1);
    ///
    /// let other = frazil_segment::Store::builder(8 << 20).build()?;
    /// assert_eq!(other.restore(&path)?, 1);
    /// assert!(other.contains(b"key"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, path: &Path) -> io::Result<u64> {
        save_entries(path, |cursor, out| self.scan(cursor, out))
    }

    /// Inserts the entries of a snapshot, and returns their number. The file is read twice, so that
    /// nothing is inserted from a damaged one. The time since the snapshot, by the system's clock,
    /// is subtracted from the lifetimes.
    ///
    /// The store may be in use meanwhile: keys that are present, or were written or deleted since
    /// the restore began, stay as they are, and a flush ends the restore. An entry that does not
    /// fit into a segment of this store is skipped. While the restore runs, writers take one more
    /// lock, and it uses 1 MiB. If the store is in use before this call, call
    /// [`Store::expect_restore`] first.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is damaged; or all memory is held by readers.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// assert!(store.restore(std::path::Path::new("/none")).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(&self, path: &Path) -> Result<u64, RestoreError> {
        self.restore_with(path, |_, _| true)
    }

    /// As [`Store::restore`], but calls `admit` first with the value and attributes of each entry.
    /// It decides whether the entry is inserted. It may change attributes that were valid only when
    /// the snapshot was written.
    ///
    /// # Errors
    ///
    /// As [`Store::restore`].
    ///
    /// ```
    /// use frazil_segment::{Attributes, Store};
    /// let store = Store::builder(4 << 20).build()?;
    /// store.set(b"marked", b"value", Attributes { marks: 3, ..Default::default() })?;
    /// store.set(b"empty", b"", Default::default())?;
    /// let path = std::env::temp_dir().join(format!("segments-with-{}", std::process::id()));
    /// store.save(&path)?;
    ///
    /// let other = Store::builder(4 << 20).build()?;
    /// let restored = other.restore_with(&path, |value, attributes| {
    ///     attributes.marks &= !2;
    ///     !value.is_empty()
    /// })?;
    /// assert_eq!((restored, other.peek(b"marked", |entry| entry.marks)), (1, Some(1)));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore_with(
        &self,
        path: &Path,
        mut admit: impl FnMut(&[u8], &mut Attributes) -> bool,
    ) -> Result<u64, RestoreError> {
        let restore = self.restoring.begin();
        // A writer that holds a stripe now writes before the restore; later ones see that it runs.
        drop(self.index.lock_all());
        read_entries(path, |key, value, mut attributes| {
            // A key certainly present is not written: that would cost space.
            if restore.is_over() || self.contains(key) || !admit(value, &mut attributes) {
                return Ok(false);
            }
            let Attributes { flags, marks, lifetime } = attributes;
            let deadline_ms = self.deadline_ms(lifetime);
            let kept = Kept { flags, marks, deadline_ms, restored: Some(restore.flushes()) };
            match self.put(key, [value, &[]], kept, Expect::Nothing) {
                Ok((outcome, _)) => Ok(outcome == Stored::Stored),
                Err(StoreError::TooLarge) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Makes a later [`Store::restore`] respect writes, deletions and flushes from now on, as if it
    /// had already begun.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// let path = std::env::temp_dir().join(format!("segments-expected-{}", std::process::id()));
    /// store.save(&path)?;
    /// store.expect_restore();
    /// store.delete(b"key");
    /// assert_eq!(store.restore(&path)?, 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expect_restore(&self) {
        self.restoring.expect();
        drop(self.index.lock_all());
    }

    /// Undoes [`Store::expect_restore`]: there is nothing to restore.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.expect_restore();
    /// store.expect_no_restore();
    /// # Ok::<(), frazil_segment::BuildError>(())
    /// ```
    pub fn expect_no_restore(&self) {
        self.restoring.end();
    }

    /// When a snapshot was written. Does not check its entries.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a snapshot.
    ///
    /// ```
    /// use frazil_segment::Store;
    ///
    /// let store = Store::builder(4 << 20).build()?;
    /// let path = std::env::temp_dir().join(format!("segments-when-{}", std::process::id()));
    /// store.save(&path)?;
    /// assert!(Store::saved_at(&path)?.elapsed()?.as_secs() < 60);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn saved_at(path: &Path) -> Result<SystemTime, RestoreError> {
        let mut header = [0; HEADER.len() + WHEN_BYTES];
        File::open(path)?.read_exact(&mut header).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RestoreError::Damaged { offset: 0 },
            _ => RestoreError::Unreadable(error),
        })?;
        when(&header)
    }
}
