//! ClickHouse's compressed blocks: a checksum (CityHash 1.0.2), two sizes, and the compressed bytes.
//! What the files of its tables consist of, and what an HTTP insert takes with `decompress=1`.

use lz4_flex::block::{compress_into, get_maximum_output_size};
use zstd::bulk::Compressor;

/// Bytes of a frame's text: the engine keeps one of each size in memory.
pub const MAX_BLOCK: usize = 1 << 20;

/// The method's number, the compressed size with these nine bytes, the size of the text.
const HEADER: usize = 9;

/// How a block is compressed; the number is the engine's.
#[derive(Debug, Clone, Copy)]
pub enum Codec {
    Lz4 = 0x82,
    /// Level 3.
    Zstd = 0x90,
}

/// CityHash128 (1.0.2) as ClickHouse writes it: the upper half of the crate's number comes first.
pub fn city_hash(bytes: &[u8]) -> u128 {
    cityhash_rs::cityhash_102_128(bytes).rotate_right(64)
}

/// Frames that are being made. The memory is kept: filling it with zeros for each frame took a tenth
/// as long as compressing.
#[derive(Default)]
pub struct CompressedBlocks {
    buffer: Vec<u8>,
    used: usize,
    zstd: Option<Compressor<'static>>,
}

impl CompressedBlocks {
    /// Append the frames of some text.
    pub fn append(&mut self, text: &[u8], codec: Codec) {
        text.chunks(MAX_BLOCK).for_each(|text| self.append_block(text, codec));
    }

    /// Append all of a text as one frame; it is below 1 GiB.
    pub fn append_block(&mut self, text: &[u8], codec: Codec) {
        let head = self.used + 16;
        let most = match codec {
            Codec::Lz4 => get_maximum_output_size(text.len()),
            Codec::Zstd => zstd::zstd_safe::compress_bound(text.len()),
        };
        let end = head + HEADER + most;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        let buffer = &mut self.buffer[head + HEADER..];
        let packed = match codec {
            Codec::Lz4 => compress_into(text, buffer).ok(),
            Codec::Zstd => {
                let zstd = self.zstd.get_or_insert_with(|| Compressor::new(3).expect("a level"));
                zstd.compress_to_buffer(text, buffer).ok()
            }
        };
        let size = HEADER + packed.expect("it has the most room");
        let frame = &mut self.buffer[self.used..head + size];
        frame[16] = codec as u8;
        frame[17..21].copy_from_slice(&(size as u32).to_le_bytes());
        frame[21..25].copy_from_slice(&(text.len() as u32).to_le_bytes());
        let sum = city_hash(&frame[16..]);
        frame[..16].copy_from_slice(&sum.to_le_bytes());
        self.used = head + size;
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    pub fn clear(&mut self) {
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_the_text() {
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
