//! The text of one input: its stored bytes, decompressed and counted.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::input::decompress;
use crate::input::inflate::Gzip;
use crate::input::queue::InputReader;
use crate::spec::Compression;

enum Reader {
    Plain(Box<dyn Read + Send>),
    Gzip(Box<Gzip<InputReader>>),
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
pub struct TextSource {
    source: Reader,
    bytes: Arc<AtomicU64>,
}

impl TextSource {
    pub fn new(raw: InputReader, compression: Compression) -> io::Result<TextSource> {
        let bytes = Arc::new(AtomicU64::new(0));
        if compression == Compression::Gzip {
            return Ok(TextSource { source: Reader::Gzip(Box::new(Gzip::new(raw))), bytes });
        }
        let counted = Counted { reader: raw, bytes: bytes.clone() };
        let reader = decompress::reader(Box::new(counted), compression)?;
        Ok(TextSource { source: Reader::Plain(reader), bytes })
    }

    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            Reader::Gzip(gzip) => gzip.bytes_read(),
            Reader::Plain(_) => self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Text that a reader gives; it counts the bytes of the file itself.
    pub fn from_reader(reader: Box<dyn Read + Send>, bytes: Arc<AtomicU64>) -> TextSource {
        TextSource { source: Reader::Plain(reader), bytes }
    }

    /// More text to `out[from..]`, about up to `limit`; returns the new end, `from` at the end.
    pub fn fill(&mut self, out: &mut [u8], from: usize, limit: usize) -> io::Result<usize> {
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
