//! Reads the bits of a DEFLATE stream: a buffer of compressed bytes, and 64 bits taken from it.

use std::io::{self, Read};

/// Zero bytes behind the data, so that looking ahead needs no check: more than the longest block
/// header (286 + 30 codes of at most 14 bits) and one round of the decoding loop.
pub const PAD: usize = 1024;
const SIZE: usize = 128 << 10;

pub struct Bits<R> {
    reader: R,
    /// `SIZE + PAD` bytes; those from `len` on are zero once the input has ended.
    pub data: Box<[u8]>,
    pub at: usize,
    pub len: usize,
    pub word: u64,
    /// Valid bits of `word`; those above are 0 or what the next refill puts there anyway.
    pub count: u32,
    pub ended: bool,
    pub read: u64,
}

impl<R: Read> Bits<R> {
    pub fn new(reader: R) -> Self {
        let data = vec![0; SIZE + PAD].into_boxed_slice();
        Bits { reader, data, at: 0, len: 0, word: 0, count: 0, ended: false, read: 0 }
    }

    /// Make at least `PAD` bytes readable, or all that are left.
    pub fn fetch(&mut self) -> io::Result<()> {
        if self.ended || self.at + PAD <= self.len {
            return Ok(());
        }
        self.data.copy_within(self.at..self.len, 0);
        self.len -= self.at;
        self.at = 0;
        while self.len < SIZE {
            match self.reader.read(&mut self.data[self.len..SIZE]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => {
                    self.len += n;
                    self.read += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.data[self.len..].fill(0);
        Ok(())
    }

    /// At least 56 bits into `word`. The caller keeps `at` within `PAD - 8` bytes of `len`.
    #[inline(always)]
    pub fn refill(&mut self) {
        let bytes = self.data[self.at..self.at + 8].try_into().expect("eight bytes");
        self.word |= u64::from_le_bytes(bytes) << self.count;
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    #[inline(always)]
    pub fn take(&mut self, bits: u32) -> u32 {
        let value = (self.word & ((1 << bits) - 1)) as u32;
        self.drop(bits);
        value
    }

    #[inline(always)]
    pub fn drop(&mut self, bits: u32) {
        self.word >>= bits;
        self.count -= bits;
    }

    /// Whether more bits were used than there are.
    pub fn overrun(&self) -> bool {
        self.at.saturating_sub((self.count >> 3) as usize) > self.len
    }

    /// Give whole bytes of `word` back and drop the bits before them.
    pub fn align(&mut self) {
        self.at -= (self.count >> 3) as usize;
        self.word = 0;
        self.count = 0;
    }

    /// The next byte of an aligned stream; None at its end.
    pub fn byte(&mut self) -> io::Result<Option<u8>> {
        self.fetch()?;
        if self.at >= self.len {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(self.data[self.at - 1]))
    }
}
