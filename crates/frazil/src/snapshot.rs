//! Snapshots: a cache written to a file and restored.
//!
//! A snapshot holds every entry with its rank in the order of eviction, its mark and the rest of
//! its lifetime. It does not hold the time to idle, which would end an entry however it is used
//! later. It is taken while the cache is in use: it walks the index a bucket at a time under a pin,
//! as [`Cache::iter`] does, so it is of no single moment. Only a policy under a lock blocks its
//! writers, for as long as copying the order takes.
//!
//! All numbers are little-endian.
//!
//! ```text
//! file   = header block* end
//! header = magic "\x89frsnap\n"   u32 version (1)   u64 when, ns since 1970   u64 checksum
//! block  = u32 payload bytes   u32 records (> 0)   u64 checksum   payload
//! record = u32 rank   u8 mark   u64 left, ns (all ones: no end)   u32 bytes   key and value
//! end    = a block of no records; its payload: u64 records in all
//! ```
//!
//! A checksum is XXH3 of the payload, seeded with the checksum of the eight bytes before it, which
//! is seeded with the previous checksum. So damage, a missing block, a missing end and trailing
//! bytes are all detected, before the first entry is inserted.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, Hash};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::cache::Cache;
use crate::core::order::Order;
use crate::core::order::walk::by_laps;
use crate::events::event;

const MAGIC: [u8; 8] = *b"\x89frsnap\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 28;
const BLOCK_HEAD: usize = 16;
const RECORD_HEAD: usize = 17;
/// A block is written when it is this long. One record may make it longer.
const BLOCK_BYTES: usize = 64 << 10;
/// The lifetime of an entry that does not expire.
const NO_END: u64 = u64::MAX;

/// Why a snapshot could not be restored. None of its entries was inserted.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The file could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is no snapshot, or of another version.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        what: String,
    },
    /// The file was damaged or cut short.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage was detected.
        offset: usize,
        /// The error.
        what: &'static str,
    },
    /// The caller's `decode` could not read an entry.
    Undecoded {
        /// The file.
        path: PathBuf,
        /// Where its bytes begin.
        offset: usize,
    },
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            RestoreError::Foreign { path, what } => {
                write!(f, "{} is no snapshot of version 1: {what}", path.display())
            }
            RestoreError::Damaged { path, offset, what } => {
                write!(f, "{} is damaged at byte {offset}: {what}", path.display())
            }
            RestoreError::Undecoded { path, offset } => {
                write!(f, "{}: the entry at byte {offset} cannot be decoded", path.display())
            }
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RestoreError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Writes all entries to a file, with their order, marks and lifetimes, and returns their
    /// number.
    ///
    /// `encode` appends the bytes of a key and a value, which the function given to
    /// [`Cache::restore`] must be able to read. Other threads may use the cache meanwhile: an entry
    /// present throughout is in the snapshot, one inserted or removed meanwhile perhaps.
    /// O(capacity), and 4 to 20 bytes of memory an entry for the order.
    ///
    /// The snapshot is written to a file with another name, and renamed when it is complete and on
    /// disk. So there is always a complete one.
    ///
    /// # Errors
    ///
    /// Errors of the system for the file; and an entry of more than 4 GiB of bytes.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("frazil-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// # let path = dir.join("cache.snapshot");
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one".to_owned());
    /// let entries = cache.snapshot(&path, |key, value, bytes| {
    ///     bytes.extend(key.to_le_bytes());
    ///     bytes.extend(value.as_bytes());
    /// })?;
    /// assert_eq!(entries, 1);
    ///
    /// let warm: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// warm.restore(&path, |bytes| {
    ///     let (key, text) = bytes.split_first_chunk()?;
    ///     Some((u64::from_le_bytes(*key), String::from_utf8(text.to_vec()).ok()?))
    /// })?;
    /// assert_eq!(warm.get(&1).as_deref(), Some("one"));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(
        &self,
        path: impl AsRef<Path>,
        encode: impl FnMut(&K, &V, &mut Vec<u8>),
    ) -> io::Result<u64> {
        let path = path.as_ref();
        let written = Unfinished::create(path).and_then(|(unfinished, file)| {
            let written = self.write_snapshot(file, encode)?;
            unfinished.finish(path).map(|()| written)
        });
        let written = written.map_err(|error| {
            io::Error::new(error.kind(), format!("snapshot {}: {error}", path.display()))
        })?;
        event!(self.core, INFO, "snapshot written", entries = written);
        Ok(written)
    }

    fn write_snapshot(
        &self,
        file: File,
        mut encode: impl FnMut(&K, &V, &mut Vec<u8>),
    ) -> io::Result<u64> {
        let mut order =
            self.core.order.queued_first(&self.core, &self.core.segments, &self.core.stripes);
        self.core.append_frozen(&mut order);
        let ranks = self.core.ranks(&order);
        // With a lock the order already includes the marks.
        let marks =
            if matches!(self.core.order, Order::Locked(_)) { 0 } else { self.core.mark_max };
        let mut writer = Writer::new(BufWriter::new(file))?;
        let mut outcome = Ok(());
        self.core.each_entry(|slot, key, value| {
            let (Some(left), Ok(())) = (self.core.left_in_use(slot), &outcome) else { return };
            // Entries in the hand of a thread are mostly new.
            let rank = ranks.get(slot as usize).filter(|&&rank| rank != 0).unwrap_or(&u32::MAX);
            let mark = self.core.slab.header(slot).mark.count().min(marks);
            let left = u64::try_from(left.as_nanos()).unwrap_or(NO_END);
            outcome = writer.record((*rank, mark, left), |bytes| encode(key, value, bytes));
        });
        outcome?;
        let (mut file, records) = writer.end()?;
        file.flush()?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(records)
    }

    /// Inserts the entries of a snapshot, and returns their number.
    ///
    /// The whole file is read and checked before the first entry is inserted, so a damaged file
    /// changes nothing. Entries are inserted coldest first, with their marks and the rest of their
    /// lifetimes, less the time since the snapshot. Expired entries are left out; if the others do
    /// not all fit, so are the coldest. Without the [feature](crate#cargo-features) `expiry` all
    /// entries with a lifetime are left out. The time to idle starts anew, as with an insertion,
    /// and so does what a policy knows beyond order and marks (frequencies, ghosts). Existing
    /// entries of the same keys are replaced.
    ///
    /// It needs memory for the file and for its entries.
    ///
    /// # Errors
    ///
    /// [`RestoreError`], with the place. An entry for which `decode` returns `None` counts as an
    /// error too.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// let error = cache.restore("/no/such/file", |_| None).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot read /no/such/file"));
    /// ```
    pub fn restore(
        &self,
        path: impl AsRef<Path>,
        mut decode: impl FnMut(&[u8]) -> Option<(K, V)>,
    ) -> Result<u64, RestoreError>
    where
        K: Clone,
    {
        let path = path.as_ref();
        let unreadable = |source| RestoreError::Unreadable { path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let (when, records) = check(path, &bytes)?;
        let since = SystemTime::now().duration_since(when).unwrap_or_default();
        let mut entries = Vec::with_capacity(records.len());
        for record in records {
            let (key, value) = decode(&bytes[record.bytes.clone()]).ok_or_else(|| {
                RestoreError::Undecoded { path: path.to_owned(), offset: record.bytes.start }
            })?;
            // Before the capacity is counted: entries left out use none of it.
            if let Some(lifetime) = record.lifetime(since) {
                entries.push((record, lifetime, key, value));
            }
        }
        drop(bytes);
        entries.sort_by_key(|(record, ..)| record.rank);
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let mut order = by_laps((0..count).collect(), Vec::new(), |at| entries[at as usize].0.mark);
        let fitting = usize::try_from(self.core.entry_budget.capacity()).unwrap_or(usize::MAX);
        order.drain(..order.len().saturating_sub(fitting));
        if self.core.order.is_places_and_marks() {
            order.sort_unstable();
        }
        let mut entries: Vec<Option<_>> = entries.into_iter().map(Some).collect();
        let mut restored = 0;
        for (record, lifetime, key, value) in
            order.iter().filter_map(|&at| entries[at as usize].take())
        {
            self.restore_entry(record.mark, lifetime, key, value);
            restored += 1;
        }
        event!(self.core, INFO, "snapshot restored", entries = restored);
        Ok(restored)
    }

    fn restore_entry(&self, mark: u8, lifetime: Option<Duration>, key: K, value: V)
    where
        K: Clone,
    {
        let marks =
            self.core.order.is_places_and_marks() || matches!(self.core.order, Order::S3Fifo(_));
        let marked = (marks && mark > 0).then(|| key.clone());
        // As in `insert`.
        let steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term_restored(&key, &value, lifetime);
        _ = self.put(key, value, term, drop);
        drop(steps);
        if let Some(key) = marked {
            self.core.look_up(self.core.hashes(&key).1, &key, |slot| {
                let own = &self.core.slab.header(slot).mark;
                (0..mark).for_each(|_| _ = own.raise(self.core.mark_max));
            });
        }
    }
}

/// A file that is removed unless it is finished.
struct Unfinished(Option<PathBuf>);

impl Unfinished {
    /// A new file beside the one that it will replace.
    fn create(path: &Path) -> io::Result<(Self, File)> {
        loop {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.{}.tmp", std::process::id(), crate::smr::thread::identity()));
            let name = path.with_file_name(name);
            match File::create_new(&name) {
                // A file of a process with the same number, as the first process of a container
                // has, which may be at work in another container. The next iteration uses another
                // name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (Unfinished(Some(name)), file)),
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    /// Gives it the name that it was written for.
    fn finish(mut self, path: &Path) -> io::Result<()> {
        std::fs::rename(self.path(), path)?;
        self.0 = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may not exist.
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Writer<W> {
    file: W,
    block: Vec<u8>,
    in_block: u32,
    records: u64,
    /// The checksum before.
    seed: u64,
}

impl<W: Write> Writer<W> {
    fn new(mut file: W) -> io::Result<Self> {
        let when = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((when.as_nanos() as u64).to_le_bytes());
        let seed = xxh3_64_with_seed(&header, 0);
        header.extend(seed.to_le_bytes());
        file.write_all(&header)?;
        Ok(Writer { file, block: Vec::new(), in_block: 0, records: 0, seed })
    }

    fn record(
        &mut self,
        (rank, mark, left): (u32, u8, u64),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        self.block.extend(rank.to_le_bytes());
        self.block.push(mark);
        self.block.extend(left.to_le_bytes());
        let length_at = self.block.len();
        self.block.extend([0; 4]);
        let begin = self.block.len();
        encode(&mut self.block);
        let bytes = self.block.len().checked_sub(begin).and_then(|it| u32::try_from(it).ok());
        let Some(bytes) = bytes.filter(|_| u32::try_from(self.block.len()).is_ok()) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an entry took more than 4 GiB, or bytes that were not its own away",
            ));
        };
        self.block[length_at..begin].copy_from_slice(&bytes.to_le_bytes());
        self.in_block += 1;
        self.records += 1;
        if self.block.len() >= BLOCK_BYTES { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> io::Result<()> {
        let mut head = Vec::with_capacity(BLOCK_HEAD);
        head.extend((self.block.len() as u32).to_le_bytes());
        head.extend(self.in_block.to_le_bytes());
        self.seed = checksum(&head, &self.block, self.seed);
        head.extend(self.seed.to_le_bytes());
        self.file.write_all(&head)?;
        self.file.write_all(&self.block)?;
        self.block.clear();
        self.in_block = 0;
        Ok(())
    }

    fn end(mut self) -> io::Result<(W, u64)> {
        if self.in_block > 0 {
            self.write_block()?;
        }
        self.block.extend(self.records.to_le_bytes());
        self.write_block()?;
        Ok((self.file, self.records))
    }
}

fn checksum(head: &[u8], payload: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(payload, xxh3_64_with_seed(head, seed))
}

/// A record of a file that has been checked.
struct Record {
    rank: u32,
    mark: u8,
    left: u64,
    /// Where key and value are.
    bytes: std::ops::Range<usize>,
}

impl Record {
    /// The remaining lifetime of its entry (`None`: for ever) after `since` in the file; `None` if
    /// it is left out.
    fn lifetime(&self, since: Duration) -> Option<Option<Duration>> {
        match self.left {
            NO_END => Some(None),
            // Without lifetimes it would be shown for ever.
            _ if !cfg!(feature = "expiry") => None,
            left => {
                Duration::from_nanos(left).checked_sub(since).filter(|it| !it.is_zero()).map(Some)
            }
        }
    }
}

/// Reads numbers off the front of some bytes.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// When a snapshot was taken, and its records, if the file is undamaged.
fn check(path: &Path, bytes: &[u8]) -> Result<(SystemTime, Vec<Record>), RestoreError> {
    let foreign = |what| RestoreError::Foreign { path: path.to_owned(), what };
    if !bytes.starts_with(&MAGIC) {
        return Err(foreign(format!("it begins with {:02x?}", &bytes[..bytes.len().min(8)])));
    }
    let damaged = |offset, what| RestoreError::Damaged { path: path.to_owned(), offset, what };
    let mut fields = Fields(&bytes[MAGIC.len()..]);
    let (version, when, sum) = (fields.u32(), fields.u64(), fields.u64());
    let cut = || damaged(bytes.len(), "it ends too early");
    let (version, when, sum) =
        (version.ok_or_else(cut)?, when.ok_or_else(cut)?, sum.ok_or_else(cut)?);
    if version != VERSION {
        return Err(foreign(format!("its version is {version}")));
    }
    // A fuzzer guesses no checksum, but should reach the code behind them.
    if !cfg!(fuzzing) && xxh3_64_with_seed(&bytes[..HEADER_BYTES - 8], 0) != sum {
        return Err(damaged(0, "the checksum of its header differs"));
    }
    let (mut at, mut seed, mut records) = (HEADER_BYTES, sum, Vec::new());
    loop {
        let mut fields = Fields(&bytes[at..]);
        let length = fields.u32().ok_or_else(cut)? as usize;
        let count = fields.u32().ok_or_else(cut)?;
        let sum = fields.u64().ok_or_else(cut)?;
        let payload = fields.0.get(..length).ok_or_else(cut)?;
        if !cfg!(fuzzing) && checksum(&bytes[at..at + 8], payload, seed) != sum {
            return Err(damaged(at, "the checksum of a block differs"));
        }
        let begin = at + BLOCK_HEAD;
        (at, seed) = (begin + length, sum);
        if count == 0 {
            let whole = Fields(payload).u64() == Some(records.len() as u64) && at == bytes.len();
            let when = UNIX_EPOCH + Duration::from_nanos(when);
            return if whole { Ok((when, records)) } else { Err(damaged(at, "it goes on")) };
        }
        read_block(begin..at, bytes, count, &mut records)
            .ok_or_else(|| damaged(begin, "a record does not fit its block"))?;
    }
}

/// The records of a block whose checksum is right.
fn read_block(
    block: std::ops::Range<usize>,
    bytes: &[u8],
    count: u32,
    records: &mut Vec<Record>,
) -> Option<()> {
    let mut at = block.start;
    for _ in 0..count {
        let mut fields = Fields(bytes.get(at..block.end)?);
        let (rank, mark, left) = (fields.u32()?, fields.u8()?, fields.u64()?);
        let begin = at + RECORD_HEAD;
        at = begin.checked_add(fields.u32()? as usize).filter(|&end| end <= block.end)?;
        records.push(Record { rank, mark, left, bytes: begin..at });
    }
    (at == block.end).then_some(())
}
