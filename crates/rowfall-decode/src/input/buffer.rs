//! Holds the text that is being decoded: a buffer that slides over the decompressed input, 256 KiB
//! at a time, so that the text stays in the cache.

use std::io;

use crate::input::inflate::{HISTORY, SLACK};
use crate::input::source::TextSource;

/// Bytes before the text: index entries may point at the byte before the first one.
pub const FRONT: usize = 64;
/// Readable bytes behind the text, so that 64 bytes can be loaded anywhere in it.
pub const PAD: usize = 128;
/// A single record longer than this is declined.
pub const MAX_RECORD_BYTES: usize = 48 << 20;

/// Some text of an input, of which `text()[start..end]` has not been decoded yet.
pub struct TextBuffer {
    bytes: Vec<u8>,
    /// Position of the first byte that is not decoded.
    pub start: usize,
    /// Position behind the last byte.
    pub end: usize,
    /// Offset in the decompressed input of `bytes[0]`, plus `FRONT`.
    base: u64,
    /// The input has no more text.
    pub ended: bool,
}

impl Default for TextBuffer {
    fn default() -> TextBuffer {
        TextBuffer { bytes: Vec::new(), start: FRONT, end: FRONT, base: 0, ended: false }
    }
}

impl TextBuffer {
    /// Forget everything, for the next input, which starts at the offset `base`.
    pub fn reset(&mut self, base: u64) {
        (self.start, self.end, self.base, self.ended) = (FRONT, FRONT, base, false);
    }

    /// The whole buffer, at least `PAD` bytes longer than `end`.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset in the decompressed input of a position in the buffer.
    pub fn offset(&self, position: usize) -> u64 {
        self.base + position as u64 - FRONT as u64
    }

    /// Slide past the text before `start` and read `chunk` more bytes; sets `ended` where there are
    /// fewer. The 32 KiB before the end are kept, as gzip refers to them.
    pub fn advance(&mut self, source: &mut TextSource, chunk: usize) -> io::Result<()> {
        let keep = self.start.min(self.end.saturating_sub(HISTORY)).max(FRONT);
        if keep > FRONT {
            self.bytes.copy_within(keep..self.end, FRONT);
            self.base += (keep - FRONT) as u64;
            self.start -= keep - FRONT;
            self.end -= keep - FRONT;
        }
        let limit = self.end + chunk;
        if self.bytes.len() < limit + SLACK + PAD {
            self.bytes.resize(limit + SLACK + PAD, 0);
        }
        let end = source.fill(&mut self.bytes, self.end, limit)?;
        self.ended = end < limit;
        self.end = end;
        Ok(())
    }

    /// Put a line end behind the last line where that is `needed`.
    pub fn end_last_line(&mut self, needed: bool) {
        if needed {
            self.bytes[self.end] = b'\n';
            self.end += 1;
        }
    }
}
