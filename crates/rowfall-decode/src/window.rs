//! The text that is looked at: a buffer that slides over the decompressed input.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ahead::Ahead;
use crate::inflate::{Gzip, HISTORY, SLACK};
use crate::inputs::Raw;
use crate::spec::Compression;

/// Bytes before the text: index entries may point at the byte before the first one.
pub const FRONT: usize = 64;
/// Readable bytes behind the text, so that 64 bytes can be loaded anywhere in it.
pub const PAD: usize = 128;
/// A single record longer than this is declined.
pub const LONGEST: usize = 48 << 20;

pub enum Source {
    Plain(Box<dyn Read + Send>),
    Gzip(Box<Gzip<Raw>>),
}

/// What counts bytes that pass.
struct Counted<R> {
    reader: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A source and the bytes of the file that it has read.
pub struct Opened {
    source: Source,
    bytes: Arc<AtomicU64>,
}

impl Opened {
    pub fn new(raw: Raw, compression: Compression) -> io::Result<Opened> {
        let bytes = Arc::new(AtomicU64::new(0));
        if compression == Compression::Gzip {
            return Ok(Opened { source: Source::Gzip(Box::new(Gzip::new(raw))), bytes });
        }
        let counted = Counted { reader: raw, bytes: bytes.clone() };
        let reader = crate::unpack::reader(Box::new(counted), compression)?;
        Ok(Opened { source: Source::Plain(reader), bytes })
    }

    /// The same, unpacked ahead by a thread of its own.
    pub fn ahead(self) -> Opened {
        let bytes = Arc::new(AtomicU64::new(0));
        let reader = Ahead::start(self, bytes.clone());
        Opened { source: Source::Plain(Box::new(reader)), bytes }
    }

    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            Source::Gzip(gzip) => gzip.bytes_read(),
            Source::Plain(_) => self.bytes.load(Ordering::Relaxed),
        }
    }

    /// More text to `out[from..]`, about up to `limit`; returns the new end, `from` at the end.
    fn fill(&mut self, out: &mut [u8], from: usize, limit: usize) -> io::Result<usize> {
        let reader = match &mut self.source {
            Source::Gzip(gzip) => return gzip.fill(out, from, limit),
            Source::Plain(reader) => reader,
        };
        let mut at = from;
        while at < limit {
            match reader.read(&mut out[at..limit]) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(at)
    }
}

/// `text()[start..end]` has not been taken yet.
pub struct Window {
    buffer: Vec<u8>,
    pub start: usize,
    pub end: usize,
    /// Offset in the (decompressed) input of `buffer[0]`, plus `FRONT`.
    base: u64,
    pub ended: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window { buffer: Vec::new(), start: FRONT, end: FRONT, base: 0, ended: false }
    }
}

impl Window {
    /// Forget everything, for the next input.
    pub fn reset(&mut self, base: u64) {
        (self.start, self.end, self.base, self.ended) = (FRONT, FRONT, base, false);
    }

    /// The whole buffer, at least `PAD` bytes longer than `end`.
    pub fn text(&self) -> &[u8] {
        &self.buffer
    }

    /// Offset in the input of a position in the buffer.
    pub fn offset(&self, position: usize) -> u64 {
        self.base + position as u64 - FRONT as u64
    }

    /// Slide past what was taken and read `chunk` more bytes; `ended` is set when there are none.
    pub fn advance(&mut self, source: &mut Opened, chunk: usize) -> io::Result<()> {
        let keep = self.start.min(self.end.saturating_sub(HISTORY)).max(FRONT);
        if keep > FRONT {
            self.buffer.copy_within(keep..self.end, FRONT);
            self.base += (keep - FRONT) as u64;
            self.start -= keep - FRONT;
            self.end -= keep - FRONT;
        }
        let limit = self.end + chunk;
        if self.buffer.len() < limit + SLACK + PAD {
            self.buffer.resize(limit + SLACK + PAD, 0);
        }
        let end = source.fill(&mut self.buffer, self.end, limit)?;
        self.ended = end < limit;
        self.end = end;
        Ok(())
    }

    /// Put a line end behind the last line when it lacks one.
    pub fn close(&mut self, needed: bool) {
        if needed {
            self.buffer[self.end] = b'\n';
            self.end += 1;
        }
    }
}
