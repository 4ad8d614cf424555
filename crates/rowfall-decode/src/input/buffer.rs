//! Holds the text that is being decoded: a buffer that slides over the decompressed input, 256 KiB
//! at a time, so that the text stays in the cache.

use std::io::{self, Read};

use crate::input::inflate::{HISTORY, SLACK};
use crate::input::source::TextSource;

/// Bytes before the text: index entries may point at the byte before the first one.
pub const FRONT: usize = 64;
/// Readable bytes behind the text, so that 64 bytes can be loaded anywhere in it.
pub const PAD: usize = 128;

/// Some text of an input, of which `text()[start..end]` has not been decoded yet.
pub struct TextBuffer {
    bytes: Vec<u8>,
    /// Position of the first byte that is not decoded.
    pub start: usize,
    /// Position behind the last byte.
    pub end: usize,
    /// Offset in the decompressed input of `bytes[0]`, plus `FRONT`.
    base: u64,
    /// Position up to which the text is known to be UTF-8.
    checked: usize,
    /// The input has no more text.
    pub ended: bool,
}

impl Default for TextBuffer {
    fn default() -> TextBuffer {
        let (start, end, checked) = (FRONT, FRONT, FRONT);
        TextBuffer { bytes: Vec::new(), start, end, base: 0, checked, ended: false }
    }
}

impl TextBuffer {
    /// Forget everything, for the next input, which starts at the offset `base`.
    pub fn reset(&mut self, base: u64) {
        (self.start, self.end, self.checked) = (FRONT, FRONT, FRONT);
        (self.base, self.ended) = (base, false);
    }

    /// The next number of bytes to read behind `chunk`, where those held no end of a record: twice as
    /// many, but not much more than a record may have.
    pub fn longer(&self, chunk: usize, most: usize) -> usize {
        let left = (most + 1).saturating_sub(self.end - self.start);
        (chunk * 2).min(left.max(chunk.min(most + 1)))
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
            self.checked = self.checked.saturating_sub(keep - FRONT).max(FRONT);
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

    /// Cut the text off at a position: it ends there, and what is returned, in the memory of `spent`,
    /// goes on with it, behind the 32 KiB before it that gzip refers to.
    pub fn split_off(&mut self, at: usize, mut spent: TextBuffer) -> TextBuffer {
        let keep = at.min(self.end.saturating_sub(HISTORY)).max(FRONT);
        let size = FRONT + self.end - keep;
        if spent.bytes.len() < size {
            spent.bytes.resize(size, 0);
        }
        spent.bytes[FRONT..size].copy_from_slice(&self.bytes[keep..self.end]);
        spent.base = self.base + (keep - FRONT) as u64;
        (spent.start, spent.end) = (FRONT + at - keep, size);
        (spent.checked, spent.ended) = (spent.start, false);
        self.end = at;
        spent
    }

    /// Slide past the text before `start` and read once, at most `room` bytes; returns whether there
    /// were any. For text that nobody inflates here.
    pub fn read_some(&mut self, reader: &mut impl Read, room: usize) -> io::Result<bool> {
        if self.start > FRONT {
            self.bytes.copy_within(self.start..self.end, FRONT);
            self.base += (self.start - FRONT) as u64;
            self.end -= self.start - FRONT;
            self.start = FRONT;
        }
        let limit = self.end + room;
        if self.bytes.len() < limit + PAD {
            self.bytes.resize(limit + PAD, 0);
        }
        loop {
            match reader.read(&mut self.bytes[self.end..limit]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The whole buffer, for who changes text that has not been decoded.
    pub fn text_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Check the text that was read last. The error is the position of the first byte that is not
    /// UTF-8.
    pub fn check_utf8(&mut self) -> Result<(), usize> {
        let text = &self.bytes[self.checked..self.end];
        // The last character may be cut: its rest comes with the next text.
        let cut = if self.ended { 0 } else { cut_character(text) };
        let whole = &text[..text.len() - cut];
        if simdutf8::basic::from_utf8(whole).is_ok() {
            self.checked += whole.len();
            return Ok(());
        }
        let valid = std::str::from_utf8(whole).map_or_else(|wrong| wrong.valid_up_to(), str::len);
        Err(self.checked + valid)
    }

    /// Put a line end behind the last line where that is `needed`.
    pub fn end_last_line(&mut self, needed: bool) {
        if needed {
            self.bytes[self.end] = b'\n';
            self.end += 1;
        }
    }
}

/// Bytes at the end of a text that begin a character of which more bytes are missing.
fn cut_character(text: &[u8]) -> usize {
    for back in 1..=text.len().min(3) {
        let needed = match text[text.len() - back] {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if needed > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::cut_character;

    #[test]
    fn a_character_may_be_cut() {
        let text = "aä€😀".as_bytes();
        for (end, cut) in [(0, 0), (1, 0), (2, 1), (3, 0), (4, 1), (5, 2), (6, 0), (9, 3), (10, 0)]
        {
            assert_eq!(cut_character(&text[..end]), cut, "{end}");
        }
    }
}
