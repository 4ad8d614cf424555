//! Names the streams that a part has for the values of a column; a stream is a file of values and
//! one of marks.

use std::fmt::Write;

use crate::types::{BaseType, Type};

/// Bytes of a name at most: the engine takes a hash in place of longer ones
/// (`max_file_name_length`).
const LONGEST_NAME: usize = 127;

/// A name in which every byte is part of a word, as names of files have it.
pub fn escaped(name: &[u8]) -> String {
    let mut found = String::with_capacity(name.len());
    for byte in name {
        match byte {
            b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => found.push(char::from(*byte)),
            byte => write!(found, "%{byte:02X}").expect("memory takes all"),
        }
    }
    found
}

/// The name of the files of a stream, without their endings.
pub fn file_name(stream: &str) -> String {
    if stream.len() <= LONGEST_NAME {
        return stream.to_owned();
    }
    let (low, high) = sip_hash(stream.as_bytes());
    format!("{high:016x}{low:016x}")
}

/// The name for an element of a tuple, or for the keys and values of a map, which are a tuple, too.
pub fn element_name(name: &str, element: &[u8]) -> String {
    format!("{name}%2E{}", escaped(element))
}

/// The names of the elements of a nested type: of a tuple without names their numbers.
pub fn element_names(data_type: &Type) -> Vec<Vec<u8>> {
    match &data_type.base {
        BaseType::Map(_) => vec![b"keys".to_vec(), b"values".to_vec()],
        BaseType::Tuple(elements, names) if names.is_empty() => {
            (1..=elements.len()).map(|number| number.to_string().into_bytes()).collect()
        }
        BaseType::Tuple(_, names) => names.clone(),
        _ => Vec::new(),
    }
}

/// The name for the sizes of arrays that are in so many others.
pub fn array_sizes(name: &str, arrays: usize) -> String {
    format!("{name}.size{arrays}")
}

/// ClickHouse's SipHash-2-4 of 128 bits, which it gives names of files by: the number that it mixes
/// in before the last rounds is not that of others. Both halves together are that of 64 bits.
pub fn sip_hash(bytes: &[u8]) -> (u64, u64) {
    fn rounds(v: &mut [u64; 4], count: usize) {
        for _ in 0..count {
            v[0] = v[0].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        }
    }
    let mut v = [
        0x736f_6d65_7073_6575,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        rounds(&mut v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    rounds(&mut v, 4);
    (v[0] ^ v[1], v[2] ^ v[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_engine() {
        assert_eq!(escaped(b"a b.c_1"), "a%20b%2Ec_1");
        assert_eq!(element_name("c", "y z.\u{e4}-1".as_bytes()), "c%2Ey%20z%2E%C3%A4%2D1");
        assert_eq!(file_name(&"c".repeat(127)), "c".repeat(127));
        let long = "L".repeat(130);
        assert_eq!(file_name(&long), "c8c76ca3a5de1ced7d83e29036d793c2");
        assert_eq!(file_name(&format!("{long}.dict")), "ffd3d897d90fcead081057143ea022a8");
    }
}
