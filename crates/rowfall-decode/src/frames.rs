//! ClickHouse's compressed blocks: a checksum (CityHash 1.0.2), two sizes, and the compressed bytes.
//! What the files of its tables consist of, and what an HTTP insert takes with `decompress=1`.

use lz4_flex::block::{compress_into, get_maximum_output_size};

use crate::part::sum;

/// Bytes of a frame's text: the engine keeps one of each size in memory.
pub const FRAME: usize = 1 << 20;

/// The method's number, the compressed size with these nine bytes, the size of the text.
const HEADER: usize = 9;

/// How a block is compressed; the number is the engine's.
#[derive(Debug, Clone, Copy)]
pub enum Codec {
    Lz4 = 0x82,
    /// Level 3.
    Zstd = 0x90,
}

/// Append the frames of some text.
pub fn append(text: &[u8], codec: Codec, out: &mut Vec<u8>) {
    text.chunks(FRAME).for_each(|text| append_one(text, codec, out));
}

/// Append all of a text as one frame; it is below 1 GiB.
pub fn append_one(text: &[u8], codec: Codec, out: &mut Vec<u8>) {
    let start = out.len();
    let head = start + 16;
    let most = match codec {
        Codec::Lz4 => get_maximum_output_size(text.len()),
        Codec::Zstd => zstd::zstd_safe::compress_bound(text.len()),
    };
    out.resize(head + HEADER + most, 0);
    let room = &mut out[head + HEADER..];
    let packed = match codec {
        Codec::Lz4 => compress_into(text, room).expect("it has the most room"),
        Codec::Zstd => zstd::bulk::compress_to_buffer(text, room, 3).expect("it has the most room"),
    };
    out.truncate(head + HEADER + packed);
    out[head] = codec as u8;
    out[head + 1..head + 5].copy_from_slice(&((HEADER + packed) as u32).to_le_bytes());
    out[head + 5..head + 9].copy_from_slice(&(text.len() as u32).to_le_bytes());
    let sum = sum(&out[head..]);
    out[start..head].copy_from_slice(&sum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_the_text() {
        for text in [&b""[..], b"x", &vec![b'a'; FRAME + 1], &(0..=255).collect::<Vec<u8>>()] {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            append(text, Codec::Lz4, &mut out);
            let mut rest = &out[..];
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
