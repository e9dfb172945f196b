//! A file as a stream of decompressed blocks.
//!
//! Decompression costs as much as parsing, so it runs on its own thread, which sends blocks through
//! a bounded channel. The blocks come back to be refilled, so that memory is `BLOCKS` blocks at any
//! file size. An uncompressed file takes the same path. The content gives the compression, because
//! names may be wrong and pipes have none.
//!
//! Each block has space in front of its data, to which the driver copies the incomplete record from
//! the end of the last block. So records are always contiguous, and no block is copied.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::error::TraceError;
use super::name::shown;

/// Bytes in a block: two blocks at work fit the second-level cache.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Blocks in circulation.
const BLOCKS: usize = 8;
/// Bytes read from the file at a time.
const READ_BYTES: usize = 128 << 10;
#[cfg(feature = "xz")]
/// Memory that an xz stream may use, in KiB: that of `xz -9`, and a little more.
const XZ_MEMORY_KIB: u32 = 128 << 10;

/// How a file is compressed.
///
/// ```
/// use frazil_simulator::trace::Compression;
///
/// assert_eq!(Compression::Zstd.to_string(), "zstd");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Zstandard, one or more frames.
    Zstd,
    /// gzip, one or more members.
    Gzip,
    /// xz, one or more streams.
    Xz,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
        })
    }
}

impl Compression {
    /// Detects the compression from the first bytes.
    fn of(start: &[u8]) -> Self {
        match start {
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }
}

/// A block of decompressed bytes, behind space for a tail.
pub(super) struct Block {
    bytes: Vec<u8>,
    start: usize,
    /// Whether the content ends with this block.
    pub(super) last: bool,
    /// Bytes of the file read so far.
    pub(super) position: u64,
}

impl Block {
    /// The bytes, with the tail that was put in front.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Puts the end of the block before in front of this one.
    pub(super) fn put_front(&mut self, tail: &[u8]) {
        let start = self.start - tail.len();
        self.bytes[start..self.start].copy_from_slice(tail);
        self.start = start;
    }
}

/// Sizes of the blocks; only tests use other than the usual ones.
#[derive(Clone, Copy)]
pub(super) struct BlockSizes {
    /// Bytes of content in a block.
    pub(super) block: usize,
    /// The longest tail that may be put in front of one.
    pub(super) room: usize,
}

/// The blocks of one file, filled by a thread that ends when this is dropped.
pub(super) struct Blocks {
    pub(super) compression: Compression,
    /// Length of the file; 0 if it has none, such as a pipe.
    pub(super) file_bytes: u64,
    file: String,
    full: Receiver<Result<Block, Failure>>,
    empty: Sender<Vec<u8>>,
}

/// A failure to read after some bytes of content.
struct Failure {
    offset: u64,
    error: io::Error,
}

impl Blocks {
    /// Opens a file and starts to fill blocks.
    pub(super) fn open(path: &Path, sizes: BlockSizes) -> Result<Self, TraceError> {
        let name = shown(path);
        let io_error = |error| TraceError::Io { file: name.clone(), error };
        let file = File::open(path).map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        if metadata.is_dir() {
            return Err(TraceError::Directory { file: name });
        }
        let read = Arc::new(AtomicU64::new(0));
        let mut file = Counted { inner: file, read: Arc::clone(&read) };
        let mut start = Vec::new();
        let magic = Read::by_ref(&mut file).take(6).read_to_end(&mut start);
        magic.map_err(io_error)?;
        let compression = Compression::of(&start);
        let content = Cursor::new(start).chain(file);

        let (full_sender, full) = sync_channel(BLOCKS);
        let (empty, empty_receiver) = channel();
        if cfg!(not(feature = "xz")) && compression == Compression::Xz {
            return Err(TraceError::NotBuilt { file: name, compression });
        }
        for _ in 0..BLOCKS {
            // The receiver lives until the thread starts.
            let _ = empty.send(Vec::new());
        }
        let fill = move || {
            let filler = Filler { sizes, read, full: full_sender, empty: empty_receiver };
            match decompress(content, compression) {
                Ok(content) => filler.run(content),
                Err(error) => filler.fail(0, error),
            }
        };
        thread::Builder::new().name("trace-read".to_owned()).spawn(fill).map_err(io_error)?;
        Ok(Self { compression, file_bytes: metadata.len(), file: name, full, empty })
    }

    /// The next block. Must not be called after the last one.
    pub(super) fn next(&mut self) -> Result<Block, TraceError> {
        // Without a message, the thread died of a panic in a decompressor.
        let block = self.full.recv().unwrap_or_else(|_| {
            Err(Failure { offset: 0, error: io::Error::other("the decompressor failed") })
        });
        block.map_err(|Failure { offset, error }| match self.compression {
            Compression::None => TraceError::Io { file: self.file.clone(), error },
            compression => {
                TraceError::Compressed { file: self.file.clone(), compression, offset, error }
            }
        })
    }

    /// Returns a block to be refilled.
    pub(super) fn recycle(&self, block: Block) {
        // If the thread has ended, so has the content: nothing is lost.
        let _ = self.empty.send(block.bytes);
    }
}

/// State of the reading thread.
struct Filler {
    sizes: BlockSizes,
    read: Arc<AtomicU64>,
    full: SyncSender<Result<Block, Failure>>,
    empty: Receiver<Vec<u8>>,
}

impl Filler {
    /// Fills blocks until the content ends, fails, or the reader stops.
    fn run(self, mut content: Box<dyn Read>) {
        let mut offset = 0;
        while let Ok(mut bytes) = self.empty.recv() {
            let start = self.sizes.room;
            bytes.resize(start + self.sizes.block, 0);
            let (filled, error) = fill(&mut *content, &mut bytes[start..]);
            if let Some(error) = error {
                return self.fail(offset + filled as u64, error);
            }
            offset += filled as u64;
            let last = filled < self.sizes.block;
            bytes.truncate(start + filled);
            let block = Block { bytes, start, last, position: self.read.load(Ordering::Relaxed) };
            if self.full.send(Ok(block)).is_err() || last {
                return;
            }
        }
    }

    fn fail(&self, offset: u64, error: io::Error) {
        // Without a receiver the driver stopped early.
        let _ = self.full.send(Err(Failure { offset, error }));
    }
}

/// Fills `bytes` until the content ends or fails; returns the number of bytes, and the error.
fn fill(content: &mut dyn Read, bytes: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < bytes.len() {
        match content.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

fn decompress(content: impl Read + 'static, compression: Compression) -> io::Result<Box<dyn Read>> {
    Ok(match compression {
        Compression::None => Box::new(content),
        Compression::Zstd => {
            let buffered = BufReader::with_capacity(READ_BYTES, content);
            Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?)
        }
        Compression::Gzip => {
            let buffered = BufReader::with_capacity(READ_BYTES, content);
            Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
        }
        #[cfg(feature = "xz")]
        Compression::Xz => {
            let buffered = BufReader::with_capacity(READ_BYTES, content);
            Box::new(lzma_rust2::XzReader::new_mem_limit(buffered, true, XZ_MEMORY_KIB))
        }
        #[cfg(not(feature = "xz"))]
        Compression::Xz => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Counts the bytes read from a file, for progress.
struct Counted {
    inner: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_told_from_the_first_bytes() {
        assert_eq!(Compression::of(b"\x28\xb5\x2f\xfd.."), Compression::Zstd);
        assert_eq!(Compression::of(b"\x52\x2a\x4d\x18.."), Compression::Zstd);
        assert_eq!(Compression::of(b"\x1f\x8b\x08..."), Compression::Gzip);
        assert_eq!(Compression::of(b"\xfd7zXZ\0"), Compression::Xz);
        assert_eq!(Compression::of(b"1,2,3\n"), Compression::None);
        assert_eq!(Compression::of(b""), Compression::None);
    }
}
