//! Makes ClickHouse's compressed blocks: a checksum (CityHash 1.0.2), two sizes, and the compressed
//! bytes. The files of tables consist of them, and HTTP inserts take them with `decompress=1`.

use lz4::block::{CompressionMode, compress_to_buffer};
use lz4_flex::block::{compress_into, get_maximum_output_size};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::codec::Codec;

/// Uncompressed bytes of a block: the engine keeps a whole one in memory.
pub const MAX_BLOCK: usize = 1 << 20;

/// Bytes of the header behind the checksum: the codec's number, the compressed size with these nine
/// bytes, the uncompressed size.
const HEADER: usize = 9;

/// The engine's number for several codecs one after the other.
const MULTIPLE: u8 = 0x91;
/// The level of zstd for marks and keys.
pub const ZSTD: Codec = Codec::Zstd(3, None);

/// CityHash128 (1.0.2) as ClickHouse writes it: the upper half of the crate's number comes first.
pub fn city_hash(bytes: &[u8]) -> u128 {
    cityhash_rs::cityhash_102_128(bytes).rotate_right(64)
}

/// A buffer of compressed blocks. Its memory is kept: filling it with zeros for each block took a
/// tenth as long as compressing.
#[derive(Default)]
pub struct CompressedBlocks {
    buffer: Vec<u8>,
    used: usize,
    /// For the level and the window that were used last.
    zstd: Option<((i32, Option<u32>), Compressor<'static>)>,
    /// What one codec has made for the next one.
    encoded: [Vec<u8>; 2],
}

impl CompressedBlocks {
    /// Compress bytes into blocks of at most [`MAX_BLOCK`] and append them.
    pub fn append(&mut self, text: &[u8], codec: Codec) {
        text.chunks(MAX_BLOCK).for_each(|text| self.append_block(text, codec));
    }

    /// Compress bytes, less than 1 GiB, by several codecs into one block and append it.
    pub fn append_chain(&mut self, text: &[u8], codecs: &[Codec]) {
        if let [codec] = codecs {
            return self.append_block(text, *codec);
        }
        let [mut now, mut next] = std::mem::take(&mut self.encoded);
        let mut first = true;
        for &codec in codecs {
            next.clear();
            let text = if first { text } else { &now[..] };
            next.resize(HEADER, 0);
            self.encode(text, codec, &mut next);
            let size = next.len() as u32;
            put_header(&mut next, codec.method(), size, text.len());
            std::mem::swap(&mut now, &mut next);
            first = false;
        }
        let methods = codecs.iter().map(|codec| codec.method());
        next.clear();
        next.push(codecs.len() as u8);
        next.extend(methods);
        next.extend_from_slice(&now);
        self.append_packed(&next, MULTIPLE, text.len());
        self.encoded = [now, next];
    }

    /// Compress bytes, less than 1 GiB, into one block and append it.
    pub fn append_block(&mut self, text: &[u8], codec: Codec) {
        let head = self.used + 16;
        let most = match codec {
            Codec::Lz4 | Codec::Lz4Hc(_) => get_maximum_output_size(text.len()),
            Codec::Zstd(..) => zstd::zstd_safe::compress_bound(text.len()),
            _ => {
                let [mut encoded, other] = std::mem::take(&mut self.encoded);
                encoded.clear();
                codec.encode(text, &mut encoded);
                self.append_packed(&encoded, codec.method(), text.len());
                self.encoded = [encoded, other];
                return;
            }
        };
        let end = head + HEADER + most;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let size = self.pack(text, codec, &mut buffer[head + HEADER..]);
        self.buffer = buffer;
        self.end_block(codec.method(), size, text.len());
    }

    /// Compress by a generic codec; returns the bytes it takes.
    fn pack(&mut self, text: &[u8], codec: Codec, to: &mut [u8]) -> usize {
        let packed = match codec {
            Codec::Lz4Hc(level) => {
                let mode = CompressionMode::HIGHCOMPRESSION(level);
                compress_to_buffer(text, Some(mode), false, to).ok()
            }
            Codec::Zstd(level, window) => {
                if self.zstd.as_ref().is_none_or(|(known, _)| *known != (level, window)) {
                    self.zstd = Some(((level, window), compressor(level, window)));
                }
                let zstd = self.zstd.as_mut().map(|(_, zstd)| zstd).expect("made");
                zstd.compress_to_buffer(text, to).ok()
            }
            _ => compress_into(text, to).ok(),
        };
        packed.expect("it has the most room")
    }

    /// Append what a codec makes of bytes.
    fn encode(&mut self, text: &[u8], codec: Codec, out: &mut Vec<u8>) {
        let most = match codec {
            Codec::Lz4 | Codec::Lz4Hc(_) => get_maximum_output_size(text.len()),
            Codec::Zstd(..) => zstd::zstd_safe::compress_bound(text.len()),
            _ => return codec.encode(text, out),
        };
        let start = out.len();
        out.resize(start + most, 0);
        let size = self.pack(text, codec, &mut out[start..]);
        out.truncate(start + size);
    }

    fn append_packed(&mut self, packed: &[u8], method: u8, text_len: usize) {
        let from = self.used + 16 + HEADER;
        let end = from + packed.len();
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        self.buffer[from..end].copy_from_slice(packed);
        self.end_block(method, packed.len(), text_len);
    }

    /// Write the header of a block whose bytes are in their place.
    fn end_block(&mut self, method: u8, packed: usize, text_len: usize) {
        let size = HEADER + packed;
        let block = &mut self.buffer[self.used..][..16 + size];
        put_header(&mut block[16..], method, size as u32, text_len);
        let sum = city_hash(&block[16..]);
        block[..16].copy_from_slice(&sum.to_le_bytes());
        self.used += 16 + size;
    }

    /// All blocks so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    /// Drop all blocks.
    pub fn clear(&mut self) {
        self.used = 0;
    }
}

/// What compresses by zstd; the numbers were checked before.
fn compressor(level: i32, window: Option<u32>) -> Compressor<'static> {
    let mut found = Compressor::new(level).expect("a level");
    if let Some(log) = window {
        for parameter in [CParameter::EnableLongDistanceMatching(true), CParameter::WindowLog(log)]
        {
            found.set_parameter(parameter).expect("a window");
        }
    }
    found
}

fn put_header(block: &mut [u8], method: u8, size: u32, text_len: usize) {
    block[0] = method;
    block[1..5].copy_from_slice(&size.to_le_bytes());
    block[5..9].copy_from_slice(&(text_len as u32).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_the_text() {
        for text in [&b""[..], b"x", &vec![b'a'; MAX_BLOCK + 1], &(0..=255).collect::<Vec<u8>>()] {
            let (mut out, mut back) = (CompressedBlocks::default(), Vec::new());
            out.append(text, Codec::Lz4);
            let mut rest = out.bytes();
            while !rest.is_empty() {
                let size = |at: usize| {
                    u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes")) as usize
                };
                let (packed, plain) = (size(17), size(21));
                let found = lz4_flex::block::decompress(&rest[25..16 + packed], plain);
                back.extend_from_slice(&found.expect("sound"));
                rest = &rest[16 + packed..];
            }
            assert_eq!(back, text);
        }
    }
}
