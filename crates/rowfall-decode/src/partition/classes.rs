//! Puts the rows of a block into classes: those of a class have the same values of the columns that
//! a key's expression uses, or such as the expression does not tell apart.

use std::collections::HashMap;

use crate::column::numbering::{Hashing, Numbering};
use crate::column::strings::starts_of;
use crate::column::{Column, Values};
use crate::sort::counting::{BITS, KEYS};
use crate::sort::keys::{KeyRange, key_range, pack_keys};
use crate::spec::{KeyColumn, Same};
use crate::types::BaseType;

/// Classes of a block at most; where there are more, the block is declined.
pub const MOST_CLASSES: usize = 1 << 16;
/// The place of a class without rows.
pub const NO_ROW: u32 = u32::MAX;

/// A column that an expression uses.
pub struct Used<'a> {
    values: Values<'a>,
    same: Same,
    /// Where strings start with their length; empty for others.
    starts: Vec<u32>,
}

impl<'a> Used<'a> {
    /// Prepare a column of a block.
    pub fn new(values: Values<'a>, key: &KeyColumn, rows: usize) -> Used<'a> {
        let starts = match values.data_type.base {
            BaseType::String => starts_of(values, rows),
            _ => Vec::new(),
        };
        Used { values, same: key.same(), starts }
    }

    fn is_null(&self, row: usize) -> bool {
        self.values.nulls.get(row) == Some(&1)
    }

    /// The bytes of a value, those of its length included.
    fn bytes(&self, row: usize) -> &'a [u8] {
        let width = self.values.data_type.width();
        match self.starts[..] {
            [] => &self.values.data[row * width..][..width],
            _ => &self.values.data[self.starts[row] as usize..self.starts[row + 1] as usize],
        }
    }

    /// Copy the values of some rows.
    pub fn pick(&self, rows: &[u32]) -> Column {
        let mut column = Column::new(self.values.data_type.clone());
        for &row in rows {
            column.nulls.extend(self.values.nulls.get(row as usize));
            column.data.extend_from_slice(self.bytes(row as usize));
        }
        column
    }

    fn is_word(&self) -> bool {
        matches!(self.values.data_type.width(), 1 | 2 | 4 | 8)
    }

    /// The number that values have in common which the expression does not tell apart.
    #[inline(always)]
    fn word(&self, row: usize) -> u64 {
        let bytes = self.bytes(row);
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(word);
        if matches!(self.same, Same::Value) {
            return number;
        }
        let unused = 64 - 8 * bytes.len() as u32;
        let signed = matches!(
            self.values.data_type.base,
            BaseType::Int(_, true) | BaseType::DateTime64(..) | BaseType::Date32
        );
        let number = match signed {
            true => i128::from((number << unused) as i64 >> unused),
            false => i128::from(number),
        };
        // One number for each of those below 1970, whose zones had odd offsets then.
        match self.same {
            Same::Value => unreachable!("returned above"),
            Same::Floor(_) if number < 0 => number as u64 | 1 << 63,
            Same::Floor(step) => (number / i128::from(step)) as u64,
            Same::Modulo(by) => (number % i128::from(by)) as u64,
            Same::Divide(by) => (number / i128::from(by)) as u64,
        }
    }

    /// Append what tells the class of a row from others.
    pub fn append_class(&self, row: usize, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_null(row)));
        if self.is_null(row) {
        } else if self.is_word() {
            out.extend_from_slice(&self.word(row).to_le_bytes());
        } else {
            out.extend_from_slice(self.bytes(row));
        }
    }

    /// A number for each row, the same for the rows of a class; None for more than fit.
    fn numbers(&self, rows: usize) -> Option<Vec<u32>> {
        if self.is_word() {
            let words = (0..rows).map(|row| (!self.is_null(row)).then(|| self.word(row)));
            return number_words(words);
        }
        let mut numbering = Numbering::from(1);
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            found.push(match self.is_null(row) {
                true => 0,
                false => numbering.number(self.bytes(row)).0,
            });
            if numbering.next() as usize > MOST_CLASSES {
                return None;
            }
        }
        Some(found)
    }
}

/// Number words in the order in which they are met, None by 0.
fn number_words(words: impl Iterator<Item = Option<u64>>) -> Option<Vec<u32>> {
    let mut known: HashMap<u64, u32, Hashing> = HashMap::default();
    let mut last = (0, 0);
    let mut found = Vec::with_capacity(words.size_hint().0);
    for word in words {
        let Some(word) = word else {
            found.push(0);
            continue;
        };
        if last.1 == 0 || last.0 != word {
            let next = known.len() as u32 + 1;
            last = (word, *known.entry(word).or_insert(next));
            if known.len() > MOST_CLASSES {
                return None;
            }
        }
        found.push(last.1);
    }
    Some(found)
}

/// Number the classes of a block: `numbers` gets that of each row. Returns for each class a row of
/// it, [`NO_ROW`] for numbers that none has; None where there are too many.
pub fn number_rows(used: &[Used<'_>], rows: usize, numbers: &mut Vec<u16>) -> Option<Vec<u32>> {
    numbers.clear();
    numbers.resize(rows, 0);
    let plain = used.iter().all(|one| matches!(one.same, Same::Value));
    let ranges: Vec<KeyRange> = match plain {
        true => used.iter().map_while(|one| key_range(&one.values)).collect(),
        false => Vec::new(),
    };
    // -0 and 0 have the same place in the order.
    let floats = used
        .iter()
        .any(|one| matches!(one.values.data_type.base, BaseType::Float32 | BaseType::Float64));
    let bits: u32 = ranges.iter().map(|range| range.bits).sum();
    if ranges.len() == used.len() && bits <= BITS && !floats {
        for (one, range) in used.iter().zip(&ranges) {
            pack_keys(&one.values, range, 0, numbers);
        }
        return Some(sample(numbers, KEYS));
    }
    let (first, rest) = used.split_first()?;
    let mut all = first.numbers(rows)?;
    for one in rest {
        let own = one.numbers(rows)?;
        let pairs = all.iter().zip(&own).map(|(a, b)| Some(u64::from(*a) << 32 | u64::from(*b)));
        all = number_words(pairs)?;
    }
    if all.iter().any(|number| *number as usize >= MOST_CLASSES) {
        return None;
    }
    numbers.iter_mut().zip(&all).for_each(|(place, number)| *place = *number as u16);
    Some(sample(numbers, MOST_CLASSES))
}

/// The first row of each class.
fn sample(numbers: &[u16], classes: usize) -> Vec<u32> {
    let mut samples = vec![NO_ROW; classes];
    for (row, number) in (0..).zip(numbers) {
        let place = &mut samples[usize::from(*number)];
        if *place == NO_ROW {
            *place = row;
        }
    }
    samples
}
/// The classes of a block, those that are known and those that have to be asked about.
pub struct FoundClasses<P> {
    /// The place of each class; that of a new one is still to be told.
    pub places: Vec<P>,
    /// Number and key of each new class.
    pub new: Vec<(usize, Vec<u8>)>,
    /// A row of each new class.
    pub rows: Vec<u32>,
}

/// Look classes up by a row of each ([`NO_ROW`] of what is none).
pub fn find_classes<P: Copy + Default>(
    known: &HashMap<Vec<u8>, P>,
    used: &[Used<'_>],
    samples: &[u32],
) -> FoundClasses<P> {
    let places = vec![P::default(); samples.len()];
    let mut found = FoundClasses { places, new: Vec::new(), rows: Vec::new() };
    for (class, &row) in samples.iter().enumerate().filter(|(_, row)| **row != NO_ROW) {
        let mut key = Vec::new();
        used.iter().for_each(|one| one.append_class(row as usize, &mut key));
        match known.get(&key) {
            Some(place) => found.places[class] = *place,
            None => {
                found.new.push((class, key));
                found.rows.push(row);
            }
        }
    }
    found
}
