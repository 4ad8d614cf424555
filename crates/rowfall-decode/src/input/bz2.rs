//! Decompresses the blocks of a bzip2 file in several threads: one gives 20 to 40 MB/s, and parsing
//! takes ten times as much.
//!
//! A block begins with 48 bits that stand anywhere, not at bytes. Its bits become a stream of one
//! block, which the crate decompresses and whose checksum it compares; the checksum of a stream is
//! computed from those of its blocks here. That the 48 bits stand inside of a block by chance is to
//! be expected once in 35 TB: such a file fails like a damaged one, and the engine, which unpacks it
//! in one thread, has the last word.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

const BLOCK: u64 = 0x3141_5926_5359;
const END: u64 = 0x1772_4538_5090;
const MARK_BITS: usize = 48;
const MARK: u64 = (1 << MARK_BITS) - 1;
/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;
/// Decompressed bytes that are handed on at a time. A block has 900 kB of them, or 46 MB where one
/// byte is repeated: then its thread waits for those in front of it.
const PIECE_BYTES: usize = 1 << 20;
/// Stored bytes of a block: bzip2 makes none that is larger than its text and 1 %. More is no bzip2.
const MOST_STORED: usize = 2 << 20;

type Piece = io::Result<Vec<u8>>;

/// A stream of one block, and where its decompressed bytes go.
struct Job {
    stream: Vec<u8>,
    out: SyncSender<Piece>,
}

/// Reads the decompressed bytes of a bzip2 file.
pub struct ParallelReader {
    blocks: Receiver<Receiver<Piece>>,
    block: Option<Receiver<Piece>>,
    piece: Vec<u8>,
    at: usize,
    failed: bool,
}

impl ParallelReader {
    /// Start to decompress what `raw` gives in so many threads.
    pub fn start(raw: Box<dyn Read + Send>, threads: usize) -> ParallelReader {
        let (ordered, blocks) = sync_channel(threads);
        let (jobs, taken) = sync_channel::<Job>(threads);
        let taken = Arc::new(Mutex::new(taken));
        // Detached: they end with the input, or when nobody takes what they give.
        for _ in 0..threads {
            let taken = taken.clone();
            thread::spawn(move || {
                loop {
                    let job = taken.lock().expect("no thread panics").recv();
                    let Ok(job) = job else { return };
                    decompress(&job);
                }
            });
        }
        thread::spawn(move || {
            let mut cutter = Cutter { raw, ordered, jobs, bits: Bits::default(), ended: false };
            if let Err(error) = cutter.cut_all() {
                cutter.fail(error);
            }
        });
        ParallelReader { blocks, block: None, piece: Vec::new(), at: 0, failed: false }
    }
}

impl Read for ParallelReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.failed {
            let Some(block) = &self.block else {
                match self.blocks.recv() {
                    Ok(block) => self.block = Some(block),
                    Err(_) => return Ok(0),
                }
                continue;
            };
            match block.recv() {
                Ok(Ok(piece)) => (self.piece, self.at) = (piece, 0),
                Ok(Err(error)) => {
                    self.failed = true;
                    return Err(error);
                }
                Err(_) => self.block = None,
            }
        }
        if self.failed {
            return Err(broken("its data is damaged"));
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("bz2: {what}"))
}

/// Decompress a block as far as somebody takes its bytes.
fn decompress(job: &Job) {
    let mut reader = bzip2::bufread::BzDecoder::new(job.stream.as_slice());
    loop {
        let mut piece = Vec::new();
        let read = (&mut reader).take(PIECE_BYTES as u64).read_to_end(&mut piece);
        let piece = match read {
            Ok(0) => return,
            Ok(_) => Ok(piece),
            Err(error) => Err(broken(&error.to_string())),
        };
        let last = piece.is_err();
        if job.out.send(piece).is_err() || last {
            return;
        }
    }
}

/// Bits that have been read and not been cut yet, the first one in the highest place.
#[derive(Default)]
struct Bits {
    bytes: VecDeque<u8>,
    /// Bits of the first byte that are gone.
    skipped: usize,
}

impl Bits {
    fn len(&self) -> usize {
        self.bytes.len() * 8 - self.skipped
    }

    /// The `count` bits, 56 at most, behind the first `from`.
    fn peek(&self, from: usize, count: usize) -> u64 {
        let from = from + self.skipped;
        let last = (from + count).div_ceil(8);
        let value = (from / 8..last).fold(0, |value, at| value << 8 | u64::from(self.bytes[at]));
        (value >> (last * 8 - from - count)) & ((1 << count) - 1)
    }

    fn skip(&mut self, count: usize) {
        let gone = count + self.skipped;
        self.bytes.drain(..gone / 8);
        self.skipped = gone % 8;
    }

    /// Where the mark of a block or of the end of a stream is, in bits from `from` on.
    fn find_mark(&mut self, from: usize) -> Option<usize> {
        let from = from + self.skipped;
        let bytes = &self.bytes.make_contiguous()[from / 8..];
        // The last 64 bits; a mark may end at each of the last eight.
        let mut last = 0;
        for (at, byte) in bytes.iter().enumerate() {
            last = last << 8 | u64::from(*byte);
            // From the mark that ended first on.
            for shift in (0..8).rev() {
                let end = at * 8 + 8 - shift;
                let found = last >> shift & MARK;
                if (found == BLOCK || found == END) && end >= from % 8 + MARK_BITS {
                    return Some(from / 8 * 8 + end - MARK_BITS - self.skipped);
                }
            }
        }
        None
    }
}

/// Cuts a file into its blocks.
struct Cutter {
    raw: Box<dyn Read + Send>,
    /// What the blocks give, in the order of the file.
    ordered: SyncSender<Receiver<Piece>>,
    jobs: SyncSender<Job>,
    bits: Bits,
    /// Nothing is left to read.
    ended: bool,
}

impl Cutter {
    /// Give an error in place of the next block.
    fn fail(&self, error: io::Error) {
        let (send, receive) = sync_channel(1);
        // Nobody may want it any more.
        let _ = send.send(Err(error));
        let _ = self.ordered.send(receive);
    }

    /// Read more bytes, if there are any.
    fn read(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match self.raw.read(&mut bytes) {
                Ok(n) => {
                    self.ended = n == 0;
                    self.bits.bytes.extend(&bytes[..n]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Make sure that so many bits have been read.
    fn need(&mut self, count: usize) -> io::Result<()> {
        while self.bits.len() < count {
            if self.ended {
                return Err(broken("the file ends in the middle of its data"));
            }
            self.read()?;
        }
        Ok(())
    }

    fn take(&mut self, count: usize) -> io::Result<u64> {
        self.need(count)?;
        let value = self.bits.peek(0, count);
        self.bits.skip(count);
        Ok(value)
    }

    fn cut_all(&mut self) -> io::Result<()> {
        while self.cut_stream()? {
            // The next one begins with a byte.
            self.bits.skip((8 - self.bits.skipped) % 8);
            while self.bits.len() == 0 && !self.ended {
                self.read()?;
            }
            if self.bits.len() == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Cut one stream; false where nobody takes its blocks any more.
    fn cut_stream(&mut self) -> io::Result<bool> {
        let (magic, level) = (self.take(24)?, self.take(8)?);
        if magic != 0x42_5a68 || !(0x31..=0x39).contains(&level) {
            return Err(broken("more bytes follow that are no bzip2"));
        }
        let mut checksum = 0_u32;
        loop {
            self.need(MARK_BITS + 32)?;
            let (mark, own) = (self.bits.peek(0, MARK_BITS), self.bits.peek(MARK_BITS, 32) as u32);
            if mark == END {
                self.bits.skip(MARK_BITS + 32);
                return if own == checksum { Ok(true) } else { Err(broken("a checksum differs")) };
            }
            if mark != BLOCK {
                return Err(broken("no block is where one has to be"));
            }
            checksum = checksum.rotate_left(1) ^ own;
            let length = self.find_end()?;
            let stream = self.stream(level as u8, own, length);
            self.bits.skip(length);
            let (out, receive) = sync_channel(1);
            if self.ordered.send(receive).is_err() || self.jobs.send(Job { stream, out }).is_err() {
                return Ok(false);
            }
        }
    }

    /// The bits of the block that begins here.
    fn find_end(&mut self) -> io::Result<usize> {
        let mut looked = MARK_BITS;
        loop {
            if let Some(at) = self.bits.find_mark(looked) {
                return Ok(at);
            }
            if self.bits.len() > MOST_STORED * 8 {
                return Err(broken("a block has no end"));
            }
            looked = self.bits.len().saturating_sub(MARK_BITS).max(MARK_BITS);
            self.need(self.bits.len() + 1)?;
        }
    }

    /// A stream of its own of the first `length` bits, a block with this checksum.
    fn stream(&mut self, level: u8, checksum: u32, length: usize) -> Vec<u8> {
        let mut stream = Vec::with_capacity(length / 8 + 24);
        stream.extend([b'B', b'Z', b'h', level]);
        let skipped = self.bits.skipped;
        let bytes = self.bits.bytes.make_contiguous();
        let whole = length / 8;
        for at in 0..whole {
            let next = bytes.get(at + 1).map_or(0, |byte| u16::from(*byte));
            stream.push(((u16::from(bytes[at]) << 8 | next) >> (8 - skipped)) as u8);
        }
        // What is left of the block, the mark of the end, and the checksum of the only block.
        let rest = length % 8;
        let left = if rest > 0 { self.bits.peek(whole * 8, rest) } else { 0 };
        let end = u128::from(left) << 80 | u128::from(END) << 32 | u128::from(checksum);
        let end = end << (128 - 80 - rest);
        stream.extend(&end.to_be_bytes()[..(rest + 80).div_ceil(8)]);
        stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(data: &[u8], level: u32) -> Vec<u8> {
        let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level));
        writer.write_all(data).expect("memory takes it");
        writer.finish().expect("memory takes it")
    }

    /// Lines that pack to a third, so that blocks end at all bits.
    fn lines(count: u64) -> Vec<u8> {
        let mut state = 7_u64;
        let mut out = Vec::new();
        for n in 0..count {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            out.extend(format!("{n},{},{:x}\n", state >> 60, state >> 40).bytes());
        }
        out
    }

    fn unpacked(file: &[u8], threads: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        ParallelReader::start(Box::new(io::Cursor::new(file.to_vec())), threads)
            .read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn blocks_and_streams_keep_their_order() {
        let text = lines(60_000);
        for threads in [1, 3] {
            assert_eq!(unpacked(&packed(&text, 1), threads).expect("whole"), text);
        }
        let mut two = packed(&text, 1);
        two.extend(packed(b"", 9));
        two.extend(packed(b"end\n", 9));
        assert_eq!(unpacked(&two, 2).expect("whole"), [text.as_slice(), b"end\n"].concat());
        assert_eq!(unpacked(&packed(b"", 1), 2).expect("whole"), b"");
    }

    #[test]
    fn a_block_of_one_byte_again_and_again() {
        let text = vec![b'x'; 30 << 20];
        assert_eq!(unpacked(&packed(&text, 9), 2).expect("whole"), text);
    }

    #[test]
    fn damage_is_an_error() {
        let file = packed(&lines(30_000), 1);
        for end in [0, 2, 10, 100, file.len() / 2, file.len() - 5, file.len() - 1] {
            assert!(unpacked(&file[..end], 2).is_err(), "cut at {end}");
        }
        for at in (0..file.len()).step_by(file.len() / 37) {
            let mut bad = file.clone();
            bad[at] ^= 0x10;
            assert!(unpacked(&bad, 2).is_err(), "damaged at {at}");
        }
        assert!(unpacked(&[file.as_slice(), b"more"].concat(), 2).is_err());
        assert!(unpacked(&[b"BZh9".as_slice(), &vec![0; 3 << 20]].concat(), 2).is_err());
    }

    #[test]
    fn nobody_has_to_read_to_the_end() {
        let file = packed(&vec![b'x'; 60 << 20], 9);
        let mut reader = ParallelReader::start(Box::new(io::Cursor::new(file)), 2);
        let mut some = [0; 10];
        reader.read_exact(&mut some).expect("it has a beginning");
        assert_eq!(some, [b'x'; 10]);
    }
}
