//! Reads the text of one input: opens the decompressor and counts the stored bytes. gzip is written
//! straight into the buffer, other compressions are read through [`Read`].

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::input::decompress;
use crate::input::inflate::{Gzip, SLACK};
use crate::input::queue::InputReader;
use crate::simd::Simd;
use crate::spec::Compression;

enum Reader {
    Plain(Box<dyn Read + Send>),
    Gzip(Box<Gzip<InputReader>>),
}

/// Counts the bytes that pass through a reader.
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

/// The decompressed text of an input, and how many stored bytes were read for it.
pub struct TextSource {
    source: Reader,
    bytes: Arc<AtomicU64>,
    /// The beginning of the text, where it was looked at and has not been read yet.
    begun: Vec<u8>,
}

/// Bytes of the beginning that are looked at.
const LOOKED_AT: usize = 64;

impl TextSource {
    /// Decompress what a reader gives, with these instructions, in so many threads if that is
    /// possible.
    pub fn new(
        raw: InputReader,
        compression: Compression,
        simd: Simd,
        threads: usize,
    ) -> io::Result<TextSource> {
        let bytes = Arc::new(AtomicU64::new(0));
        if compression == Compression::Gzip {
            let source = Reader::Gzip(Box::new(Gzip::new(raw, simd)));
            return Ok(TextSource { source, bytes, begun: Vec::new() });
        }
        let counted = Counted { reader: raw, bytes: bytes.clone() };
        let reader = decompress::reader(Box::new(counted), compression, threads)?;
        Ok(TextSource { source: Reader::Plain(reader), bytes, begun: Vec::new() })
    }

    /// Stored (compressed) bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            Reader::Gzip(gzip) => gzip.bytes_read(),
            Reader::Plain(_) => self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Take text from a reader that counts the stored bytes itself.
    pub fn from_reader(reader: Box<dyn Read + Send>, bytes: Arc<AtomicU64>) -> TextSource {
        TextSource { source: Reader::Plain(reader), bytes, begun: Vec::new() }
    }

    /// The first byte that is not blank, if it stands at the beginning; the text is read as if nobody
    /// had looked.
    pub fn first_byte(&mut self) -> io::Result<Option<u8>> {
        let mut begun = vec![0; LOOKED_AT + SLACK];
        let end = self.fill(&mut begun, 0, LOOKED_AT)?;
        begun.truncate(end);
        let first = begun.iter().find(|byte| !byte.is_ascii_whitespace()).copied();
        self.begun = begun;
        Ok(first)
    }

    /// Read text into `out[from..]`, about up to `limit`; returns the new end, `from` itself at the
    /// end of the input. `out` has `SLACK` bytes and [`LOOKED_AT`] more behind `limit`.
    pub fn fill(&mut self, out: &mut [u8], from: usize, limit: usize) -> io::Result<usize> {
        let begun = std::mem::take(&mut self.begun);
        out[from..from + begun.len()].copy_from_slice(&begun);
        let from = from + begun.len();
        if from >= limit {
            return Ok(from);
        }
        let reader = match &mut self.source {
            Reader::Gzip(gzip) => return gzip.fill(out, from, limit),
            Reader::Plain(reader) => reader,
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
