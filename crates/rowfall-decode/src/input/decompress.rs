//! Decompresses zstd, LZ4, xz and bzip2, each by a well-kept crate; an input cut short is an error
//! in all of them. gzip has a decompressor of its own, see `inflate`.

use std::io::{self, BufRead, BufReader, Read};

use liblzma::stream::{CONCATENATED, Stream};

use crate::input::bz2::ParallelReader;
use crate::spec::Compression;

const BUFFER_BYTES: usize = 128 << 10;
/// Largest window of zstd, as a power of two: 128 MiB, what the programs of zstd take by default.
const ZSTD_WINDOW: u32 = 27;
/// Memory for a stream of xz. `xz -9` writes for 65 MiB; a header of a few bytes may ask for 4 GiB.
const XZ_MEMORY: u64 = 256 << 20;

type Bytes = Box<dyn Read + Send>;

/// A reader of the decompressed bytes; of those bytes themselves where there is no compression.
/// So many threads decompress bzip2.
pub fn reader(raw: Bytes, compression: Compression, threads: usize) -> io::Result<Bytes> {
    Ok(match compression {
        // gzip is written straight into the text, see inflate.
        Compression::None | Compression::Gzip => raw,
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::new(raw)?;
            decoder.window_log_max(ZSTD_WINDOW)?;
            Box::new(decoder)
        }
        Compression::Lz4 => Box::new(Lz4Reader::new(raw)),
        Compression::Xz => {
            let stream = Stream::new_auto_decoder(XZ_MEMORY, CONCATENATED)?;
            let raw = BufReader::with_capacity(BUFFER_BYTES, raw);
            Box::new(liblzma::bufread::XzDecoder::new_stream(raw, stream))
        }
        // For one thread, too: the crate's reader of many streams makes a decoder of 4 MB for each,
        // also for one of 14 bytes with nothing in it.
        Compression::Bz2 => Box::new(ParallelReader::start(raw, threads)),
    })
}

/// Reads LZ4 frames one after the other.
struct Lz4Reader {
    decoder: lz4_flex::frame::FrameDecoder<Lz4FrameTracker>,
    done: bool,
}

impl Lz4Reader {
    fn new(raw: Bytes) -> Lz4Reader {
        let raw = BufReader::with_capacity(BUFFER_BYTES, raw);
        let whole =
            Lz4FrameTracker { raw, part: FramePart::Magic, field: [0; 8], have: 0, flags: 0 };
        Lz4Reader { decoder: lz4_flex::frame::FrameDecoder::new(whole), done: false }
    }
}

impl Read for Lz4Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.done || out.is_empty() {
            return Ok(0);
        }
        loop {
            let n = self.decoder.read(out)?;
            if n > 0 {
                return Ok(n);
            }
            if self.decoder.get_mut().raw.fill_buf()?.is_empty() {
                self.done = true;
                // Fails where a frame has been begun.
                return self.decoder.get_mut().read(&mut [0]);
            }
        }
    }
}

/// Follows the structure of LZ4 frames as their bytes pass: the crate takes any end of its input
/// for the end of a frame, so an end inside one is made an error here.
struct Lz4FrameTracker {
    raw: BufReader<Bytes>,
    part: FramePart,
    /// The first bytes of the part of the frame that passes, and how many bytes of it have passed.
    field: [u8; 8],
    have: usize,
    flags: u8,
}

#[derive(Clone, Copy, PartialEq)]
enum FramePart {
    Magic,
    Flags,
    Rest,
    Size,
    Block(usize),
    Checksum,
    SkipSize,
    Skip(usize),
}

impl Lz4FrameTracker {
    fn length(&self) -> usize {
        let bit = |n: u8| usize::from(self.flags >> n & 1);
        match self.part {
            FramePart::Magic | FramePart::Size | FramePart::Checksum | FramePart::SkipSize => 4,
            FramePart::Flags => 2,
            // Size of the content, number of a dictionary, checksum of the header.
            FramePart::Rest => bit(3) * 8 + bit(0) * 4 + 1,
            FramePart::Block(size) => size + bit(4) * 4,
            FramePart::Skip(size) => size,
        }
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = bytes.len().min(self.length() - self.have);
            for (slot, byte) in self.field[self.have.min(8)..].iter_mut().zip(&bytes[..n]) {
                *slot = *byte;
            }
            self.have += n;
            bytes = &bytes[n..];
            while self.have == self.length() {
                self.part = self.next();
                self.have = 0;
            }
        }
    }

    fn next(&mut self) -> FramePart {
        let number = u32::from_le_bytes([0, 1, 2, 3].map(|n| self.field[n]));
        match self.part {
            FramePart::Magic if number >> 4 == 0x0184_d2a5 => FramePart::SkipSize,
            FramePart::Magic => FramePart::Flags,
            FramePart::Flags => {
                self.flags = self.field[0];
                FramePart::Rest
            }
            FramePart::Size if number == 0 && self.flags & 4 != 0 => FramePart::Checksum,
            FramePart::Size if number == 0 => FramePart::Magic,
            FramePart::Size => FramePart::Block((number & 0x7fff_ffff) as usize),
            FramePart::Rest | FramePart::Block(_) => FramePart::Size,
            FramePart::SkipSize => FramePart::Skip(number as usize),
            FramePart::Checksum | FramePart::Skip(_) => FramePart::Magic,
        }
    }
}

impl Read for Lz4FrameTracker {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(out)?;
        self.follow(&out[..n]);
        if n == 0 && !out.is_empty() && (self.part != FramePart::Magic || self.have > 0) {
            let message = "lz4: the file ends in the middle of its data";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(n)
    }
}
