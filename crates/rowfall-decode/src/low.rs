//! LowCardinality columns: each block has a dictionary of its own and numbers into it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cells::Column;
use crate::types::{append_text, strings_of};

/// Multiplies eight bytes at once; the keys are no secrets and live as long as one block.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ mixed >> 32;
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Version 1 of the layout: what stands before all data of a column, once for each dictionary.
pub const VERSION: [u8; 8] = 1u64.to_le_bytes();

/// The column's data in the layout of LowCardinality; `column` holds plain strings. The rows come
/// in `order`, if there is one.
pub fn encode(column: &Column, rows: usize, order: Option<&[u32]>) -> Vec<u8> {
    if rows == 0 {
        return Vec::new(); // of arrays that are all empty
    }
    let mut numbers: HashMap<&[u8], u32, BuildHasherDefault<Quick>> = HashMap::default();
    let mut keys = Vec::new();
    let mut count = 0u32;
    if column.kind.nullable {
        // The first key of a nullable dictionary stands for NULL, whatever it says.
        keys.push(0);
        count = 1;
    }
    let mut indexes: Vec<u32> = Vec::with_capacity(rows);
    for (row, value) in strings_of(&column.data).enumerate() {
        if column.nulls.get(row) == Some(&1) {
            indexes.push(0);
            continue;
        }
        let number = *numbers.entry(value).or_insert_with(|| {
            append_text(&mut keys, value);
            count += 1;
            count - 1
        });
        indexes.push(number);
    }
    if let Some(order) = order {
        indexes = order.iter().map(|row| indexes[*row as usize]).collect();
    }
    let code: u64 = match count {
        0..=0x100 => 0,
        0x101..=0x1_0000 => 1,
        _ => 2,
    };
    let mut out = Vec::with_capacity(keys.len() + 32 + rows * 4);
    // Keys of the block's own, to be taken over, and the width of the numbers.
    for word in [0x600 | code, u64::from(count)] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&keys);
    out.extend_from_slice(&(rows as u64).to_le_bytes());
    match code {
        0 => out.extend(indexes.iter().map(|n| *n as u8)),
        1 => indexes.iter().for_each(|n| out.extend_from_slice(&(*n as u16).to_le_bytes())),
        _ => indexes.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes())),
    }
    out
}
