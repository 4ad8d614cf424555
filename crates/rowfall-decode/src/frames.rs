//! ClickHouse's compressed blocks: a checksum (CityHash 1.0.2), two sizes, and LZ4. What an HTTP
//! insert takes with `decompress=1`.

use lz4_flex::block::{compress_into, get_maximum_output_size};

/// Bytes of a frame's text: the engine keeps one of each size in memory.
pub const FRAME: usize = 1 << 20;

/// The method's number, the compressed size with these nine bytes, the size of the text.
const HEADER: usize = 9;
const LZ4: u8 = 0x82;

/// Append the frames of some text.
pub fn append(text: &[u8], out: &mut Vec<u8>) {
    for text in text.chunks(FRAME) {
        let start = out.len();
        let head = start + 16;
        out.resize(head + HEADER + get_maximum_output_size(text.len()), 0);
        let packed = compress_into(text, &mut out[head + HEADER..]).expect("it has the most room");
        out.truncate(head + HEADER + packed);
        out[head] = LZ4;
        out[head + 1..head + 5].copy_from_slice(&((HEADER + packed) as u32).to_le_bytes());
        out[head + 5..head + 9].copy_from_slice(&(text.len() as u32).to_le_bytes());
        // The upper half of the crate's number is what ClickHouse writes first.
        let sum = cityhash_rs::cityhash_102_128(&out[head..]).rotate_right(64);
        out[start..head].copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_the_text() {
        for text in [&b""[..], b"x", &vec![b'a'; FRAME + 1], &(0..=255).collect::<Vec<u8>>()] {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            append(text, &mut out);
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
