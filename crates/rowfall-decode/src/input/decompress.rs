//! Compressions other than gzip, each by a well-kept crate; an input cut short is an error in all.

use std::io::{self, BufRead, BufReader, Read};

use crate::spec::Compression;

const BUFFER: usize = 128 << 10;

type Bytes = Box<dyn Read + Send>;

pub fn reader(raw: Bytes, compression: Compression) -> io::Result<Bytes> {
    Ok(match compression {
        // gzip is written straight into the text, see inflate.
        Compression::None | Compression::Gzip => raw,
        Compression::Zstd => {
            let mut decoder = zstd::Decoder::new(raw)?;
            decoder.window_log_max(27)?;
            Box::new(decoder)
        }
        Compression::Lz4 => Box::new(Frames::new(raw)),
        Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(
            BufReader::with_capacity(BUFFER, raw),
        )),
        Compression::Bz2 => {
            Box::new(bzip2::bufread::MultiBzDecoder::new(BufReader::with_capacity(BUFFER, raw)))
        }
    })
}

/// LZ4 frames one after the other.
struct Frames {
    decoder: lz4_flex::frame::FrameDecoder<Whole>,
    done: bool,
}

impl Frames {
    fn new(raw: Bytes) -> Frames {
        let raw = BufReader::with_capacity(BUFFER, raw);
        let whole = Whole { raw, part: Part::Magic, field: [0; 8], have: 0, flags: 0 };
        Frames { decoder: lz4_flex::frame::FrameDecoder::new(whole), done: false }
    }
}

impl Read for Frames {
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

/// The bytes of LZ4 frames, followed as they pass: the crate takes any end of its input for the
/// end of the frame, so an end inside one is made an error here.
struct Whole {
    raw: BufReader<Bytes>,
    part: Part,
    /// The first bytes of the part, and how many of it have passed.
    field: [u8; 8],
    have: usize,
    flags: u8,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Magic,
    Flags,
    Rest,
    Size,
    Block(usize),
    Checksum,
    SkipSize,
    Skip(usize),
}

impl Whole {
    fn length(&self) -> usize {
        let bit = |n: u8| usize::from(self.flags >> n & 1);
        match self.part {
            Part::Magic | Part::Size | Part::Checksum | Part::SkipSize => 4,
            Part::Flags => 2,
            // Size of the content, number of a dictionary, checksum of the header.
            Part::Rest => bit(3) * 8 + bit(0) * 4 + 1,
            Part::Block(size) => size + bit(4) * 4,
            Part::Skip(size) => size,
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

    fn next(&mut self) -> Part {
        let number = u32::from_le_bytes([0, 1, 2, 3].map(|n| self.field[n]));
        match self.part {
            Part::Magic if number >> 4 == 0x0184_d2a5 => Part::SkipSize,
            Part::Magic => Part::Flags,
            Part::Flags => {
                self.flags = self.field[0];
                Part::Rest
            }
            Part::Size if number == 0 && self.flags & 4 != 0 => Part::Checksum,
            Part::Size if number == 0 => Part::Magic,
            Part::Size => Part::Block((number & 0x7fff_ffff) as usize),
            Part::Rest | Part::Block(_) => Part::Size,
            Part::SkipSize => Part::Skip(number as usize),
            Part::Checksum | Part::Skip(_) => Part::Magic,
        }
    }
}

impl Read for Whole {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.raw.read(out)?;
        self.follow(&out[..n]);
        if n == 0 && !out.is_empty() && (self.part != Part::Magic || self.have > 0) {
            let message = "lz4: the file ends in the middle of its data";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(n)
    }
}
