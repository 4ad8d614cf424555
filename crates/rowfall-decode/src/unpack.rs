//! Compressions other than gzip, each by a well-kept crate; an input cut short is an error in all.

use std::io::{self, BufReader, Read};

use crate::spec::Compression;

const BUFFER: usize = 128 << 10;

type Bytes = Box<dyn Read + Send>;

pub fn reader(raw: Bytes, compression: Compression) -> io::Result<Bytes> {
    Ok(match compression {
        Compression::None => raw,
        Compression::Gzip => Box::new(GzipRead::new(raw)),
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

/// gzip as a plain reader, where it is not written straight into the text.
struct GzipRead {
    gzip: crate::inflate::Gzip<Bytes>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl GzipRead {
    fn new(raw: Bytes) -> GzipRead {
        let buffer = vec![0; BUFFER + crate::inflate::HISTORY + 2 * crate::inflate::SLACK];
        GzipRead { gzip: crate::inflate::Gzip::new(raw), buffer, start: 0, end: 0 }
    }
}

impl Read for GzipRead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            let keep = self.end.saturating_sub(crate::inflate::HISTORY);
            self.buffer.copy_within(keep..self.end, 0);
            self.start = self.end - keep;
            self.end = self.gzip.fill(&mut self.buffer, self.start, self.start + BUFFER)?;
        }
        let n = out.len().min(self.end - self.start);
        out[..n].copy_from_slice(&self.buffer[self.start..self.start + n]);
        self.start += n;
        Ok(n)
    }
}

/// LZ4 frames one after the other. The crate takes any end of input for the end of the frame, so
/// the end mark is looked for here.
struct Frames {
    decoder: lz4_flex::frame::FrameDecoder<Tail>,
    done: bool,
}

/// Remembers whether anything is left.
struct Tail {
    raw: BufReader<Bytes>,
}

impl Read for Tail {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.raw.read(out)
    }
}

impl Frames {
    fn new(raw: Bytes) -> Frames {
        let raw = BufReader::with_capacity(BUFFER, raw);
        Frames { decoder: lz4_flex::frame::FrameDecoder::new(Tail { raw }), done: false }
    }
}

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use std::io::BufRead;
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
                return Ok(0);
            }
        }
    }
}
