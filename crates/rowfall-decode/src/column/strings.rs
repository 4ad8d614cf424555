//! Writes and finds strings in the layout of the Native format: each behind its length, which is a
//! LEB128 number.

use crate::column::Values;

/// Write a length as LEB128; returns the bytes used.
///
/// SAFETY: ten bytes are writable at `to`.
#[inline(always)]
pub unsafe fn write_varint(to: *mut u8, mut len: usize) -> usize {
    // SAFETY: a 64-bit number takes at most ten bytes.
    unsafe {
        if len < 128 {
            *to = len as u8;
            return 1;
        }
        let mut used = 0;
        while len >= 128 {
            *to.add(used) = len as u8 | 128;
            used += 1;
            len >>= 7;
        }
        *to.add(used) = len as u8;
        used + 1
    }
}

/// Append a number as LEB128: groups of seven bits, the lowest ones first.
pub fn append_varint(data: &mut Vec<u8>, value: usize) {
    data.reserve(10);
    // SAFETY: ten bytes were reserved, and `write_varint` says how many it wrote.
    unsafe {
        let used = write_varint(data.as_mut_ptr().add(data.len()), value);
        data.set_len(data.len() + used);
    }
}

/// Append one string behind its length.
pub fn append_string(data: &mut Vec<u8>, value: &[u8]) {
    data.reserve(value.len() + 10);
    append_varint(data, value.len());
    data.extend_from_slice(value);
}

/// Read the length before a string: the length, and the bytes that it takes itself.
#[inline(always)]
pub fn read_varint(data: &[u8]) -> (usize, usize) {
    if data[0] < 128 {
        return (usize::from(data[0]), 1);
    }
    let (mut len, mut used) = (0, 0);
    loop {
        let byte = data[used];
        len |= usize::from(byte & 127) << (7 * used);
        used += 1;
        if byte < 128 {
            return (len, used);
        }
    }
}

/// The strings of a column's data, without their lengths.
pub fn strings_of(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (len, used) = read_varint(rest);
        let (value, more) = rest[used..].split_at(len);
        rest = more;
        Some(value)
    })
}

/// Positions in the data at which each string starts with its length, and where the last one ends.
pub fn starts_of(values: Values<'_>, rows: usize) -> Vec<u32> {
    let mut starts = vec![0; rows + 1];
    let mut at = 0;
    for (row, start) in starts[..rows].iter_mut().enumerate() {
        *start = at as u32;
        at += match values.sizes.get(row) {
            None | Some(0) => {
                let (len, used) = read_varint(&values.data[at..]);
                len + used
            }
            Some(&size) => usize::from(size),
        };
    }
    starts[rows] = at as u32;
    starts
}
