//! Makes ClickHouse's compressed blocks: a checksum (CityHash 1.0.2), two sizes, and the compressed
//! bytes. The files of tables consist of them, and HTTP inserts take them with `decompress=1`.

use lz4_flex::block::{compress_into, get_maximum_output_size};
use zstd::bulk::Compressor;

/// Uncompressed bytes of a block: the engine keeps a whole one in memory.
pub const MAX_BLOCK: usize = 1 << 20;

/// Bytes of the header behind the checksum: the codec's number, the compressed size with these nine
/// bytes, the uncompressed size.
const HEADER: usize = 9;

/// The compression of a block, with the engine's number for it.
#[derive(Debug, Clone, Copy)]
pub enum Codec {
    /// LZ4.
    Lz4 = 0x82,
    /// zstd, level 3.
    Zstd = 0x90,
}

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
    zstd: Option<Compressor<'static>>,
}

impl CompressedBlocks {
    /// Compress bytes into blocks of at most [`MAX_BLOCK`] and append them.
    pub fn append(&mut self, text: &[u8], codec: Codec) {
        text.chunks(MAX_BLOCK).for_each(|text| self.append_block(text, codec));
    }

    /// Compress bytes, less than 1 GiB, into one block and append it.
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
        let block = &mut self.buffer[self.used..head + size];
        block[16] = codec as u8;
        block[17..21].copy_from_slice(&(size as u32).to_le_bytes());
        block[21..25].copy_from_slice(&(text.len() as u32).to_le_bytes());
        let sum = city_hash(&block[16..]);
        block[..16].copy_from_slice(&sum.to_le_bytes());
        self.used = head + size;
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
