//! Encodes LowCardinality columns: a dictionary of the values, and for each row an index into it.

use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::numbering::Numbering;
use crate::column::reorder::RowSelection;
use crate::column::strings::{append_string, strings_of};

/// Version 1 of the layout, which stands before all data of a column, once for each dictionary.
pub const VERSION: [u8; 8] = 1u64.to_le_bytes();

/// Flags of a dictionary in a Native block: its keys are the block's own, and are to be added.
const OWN_KEYS: u64 = 0x600;

/// A dictionary, and the indexes of some rows into it.
pub struct Dictionary {
    /// The dictionary's keys, each behind its length.
    pub keys: Vec<u8>,
    /// How many keys there are.
    pub count: u32,
    /// For each row the number of its key.
    pub indexes: Vec<u32>,
}

/// Build the dictionary of some values, None being NULL. Where `nullable`, the first key stands for
/// NULL; with `default`, the empty string is the first of the others, whether it is a value or not.
pub fn build_dictionary<'a>(
    values: impl Iterator<Item = Option<&'a [u8]>>,
    nullable: bool,
    default: bool,
) -> Dictionary {
    let mut found = Dictionary { keys: Vec::new(), count: 0, indexes: Vec::new() };
    if nullable {
        found.keys.push(0);
        found.count += 1;
    }
    let mut numbers = Numbering::from(found.count);
    if default {
        found.keys.push(0);
        numbers.number(b"");
    }
    found.indexes.reserve(values.size_hint().0);
    for value in values {
        let Some(value) = value else {
            found.indexes.push(0);
            continue;
        };
        let (number, new) = numbers.number(value);
        if new {
            append_string(&mut found.keys, value);
        }
        found.indexes.push(number);
    }
    found.count = numbers.next();
    found
}

/// Build the dictionary of all values of a column.
pub fn dictionary_of(column: &Column, default: bool) -> Dictionary {
    let nullable = column.data_type.nullable;
    match &column.keys {
        None => build_dictionary(values(column), nullable, default),
        Some(keys) => {
            let rows = RowSelection::Range(0, column.data.len() / size_of::<u32>());
            Renumbering::of(keys).dictionary(column, keys, rows, default)
        }
    }
}

/// The dictionary of `keys`, and the indexes into it of a column of some of them, whose first one is the
/// default.
pub fn dictionary_in(keys: &Keys, column: &Column) -> Dictionary {
    let before = u32::from(column.data_type.nullable);
    let mut found = Dictionary { keys: vec![0; before as usize], count: before, indexes: vec![] };
    (0..keys.len() as u32).for_each(|key| append_string(&mut found.keys, keys.text(key)));
    found.count += keys.len() as u32;
    let index = |value: &[u8]| keys.find(value).expect("one of them") + before;
    found.indexes = values(column).map(|value| value.map_or(0, index)).collect();
    found
}

/// The different strings of a column besides the default, unless they are more than `most`: each behind
/// its length.
pub fn keys_of(column: &Column, most: usize) -> Option<Vec<u8>> {
    let mut numbering = Numbering::from(0);
    let mut found = Vec::new();
    for value in values(column).flatten() {
        if numbering.number(value).1 {
            append_string(&mut found, value);
        }
        if numbering.next() as usize > most {
            return None;
        }
    }
    Some(found)
}

/// The numbers that keys of a column have in a dictionary of some of its rows.
pub struct Renumbering {
    /// For each key of the column its number in the dictionary, or NONE.
    numbers: Vec<u32>,
    /// The keys that have one.
    used: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Renumbering {
    /// Begin without any of the keys.
    pub fn of(keys: &Keys) -> Renumbering {
        Renumbering { numbers: vec![NONE; keys.len()], used: Vec::new() }
    }

    /// Build the dictionary of some rows, as [`build_dictionary`] does of strings.
    pub fn dictionary(
        &mut self,
        column: &Column,
        keys: &Keys,
        rows: RowSelection<'_>,
        default: bool,
    ) -> Dictionary {
        let mut found = Dictionary { keys: Vec::new(), count: 0, indexes: Vec::new() };
        if column.data_type.nullable {
            found.keys.push(0);
            found.count += 1;
        }
        self.used.drain(..).for_each(|key| self.numbers[key as usize] = NONE);
        if default {
            self.add(0, keys, &mut found);
        }
        let data = column.data.as_chunks::<4>().0;
        let mut indexes = Vec::with_capacity(rows.len());
        indexes.extend(rows.map(|row| {
            if column.nulls.get(row) == Some(&1) {
                return 0;
            }
            let key = u32::from_le_bytes(data[row]);
            match self.numbers[key as usize] {
                NONE => self.add(key, keys, &mut found),
                number => number,
            }
        }));
        found.indexes = indexes;
        found
    }

    #[cold]
    fn add(&mut self, key: u32, keys: &Keys, found: &mut Dictionary) -> u32 {
        let number = found.count;
        self.numbers[key as usize] = number;
        self.used.push(key);
        append_string(&mut found.keys, keys.text(key));
        found.count += 1;
        number
    }
}

/// The values of a column of plain strings, None where they are NULL.
fn values(column: &Column) -> impl Iterator<Item = Option<&[u8]>> {
    let null = |row: usize| column.nulls.get(row) == Some(&1);
    strings_of(&column.data).enumerate().map(move |(row, v)| (!null(row)).then_some(v))
}

impl Dictionary {
    /// The engine's code for the width of the indexes: 0, 1, 2 for 1, 2, 4 bytes.
    pub fn index_width_code(&self) -> u64 {
        match self.count {
            0..=0x100 => 0,
            0x101..=0x1_0000 => 1,
            _ => 2,
        }
    }

    /// Append indexes in that width.
    pub fn write_indexes(&self, rows: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
        match self.index_width_code() {
            0 => out.extend(rows.map(|n| n as u8)),
            1 => rows.for_each(|n| out.extend_from_slice(&(n as u16).to_le_bytes())),
            _ => rows.for_each(|n| out.extend_from_slice(&n.to_le_bytes())),
        }
    }
}

/// The data of a column in the layout of LowCardinality, its rows in `order` where
/// there is one.
pub fn encode(column: &Column, rows: usize, order: Option<&[u32]>) -> Vec<u8> {
    if rows == 0 {
        return Vec::new(); // of arrays that are all empty
    }
    let found = dictionary_of(column, false);
    let mut out = Vec::with_capacity(found.keys.len() + 32 + rows * 4);
    for word in [OWN_KEYS | found.index_width_code(), u64::from(found.count)] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&found.keys);
    out.extend_from_slice(&(rows as u64).to_le_bytes());
    match order {
        Some(order) => {
            found.write_indexes(order.iter().map(|row| found.indexes[*row as usize]), &mut out);
        }
        None => found.write_indexes(found.indexes.iter().copied(), &mut out),
    }
    out
}
