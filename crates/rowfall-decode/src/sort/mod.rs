//! Sorts the rows of a block by the table's key, so that the engine need not.
//!
//! The key columns are packed into one number a row where they fit into 64 bits with the row's
//! number; then a radix sort of plain numbers does it, 12 bits a pass. Keys of few values are
//! counted instead, see [`counting`]. Strings of few values are numbered in their order first. Where
//! only the first columns fit, and the upper bits of the next one, rows that are equal in those are
//! compared by the others: of hashes nearly none.

pub mod counting;
pub mod keys;

use std::cmp::Ordering;

use crate::column::Values;
use crate::column::keys::Keys;
use crate::column::numbering::Numbering;
use crate::column::strings::strings_of;
use crate::sort::counting::{BITS, CountingSort, KEYS};
use crate::sort::keys::{KeyRange, float_order, key_range, numbers, pack_keys};
use crate::types::{BaseType, TimeNotation, Type};

/// The result of a sort.
pub enum SortOrder<'a> {
    /// The rows are in order already.
    Sorted,
    /// The numbers of the rows in their order.
    Rows(&'a [u32]),
    /// The rows are counted by their keys: each column has to be reordered by this.
    Counted(&'a CountingSort),
}

/// Sorts blocks. Its memory is kept from block to block: fresh pages cost more than the sorting.
#[derive(Default)]
pub struct Sorter {
    keys: Vec<u64>,
    spare: Vec<u64>,
    order: Vec<u32>,
    counting: CountingSort,
}

impl Sorter {
    /// Sort rows by their keys; rows with equal keys stay in the order they have. With `counting`
    /// keys of few values may be counted.
    pub fn sort(&mut self, keys: &[Values<'_>], rows: usize, counting: bool) -> SortOrder<'_> {
        let row_bits = usize::BITS - rows.saturating_sub(1).leading_zeros();
        let ranks: Vec<Option<Vec<u8>>> = keys.iter().map(|key| ranks(*key, rows)).collect();
        let rank = Type {
            name: String::new(),
            base: BaseType::Int(4, false),
            nullable: false,
            low_cardinality: false,
            time_notation: TimeNotation::Plain,
            canonical: false,
            blank: false,
            padded: false,
        };
        let keys: Vec<Values<'_>> = (keys.iter().zip(&ranks))
            .map(|(key, ranks)| match ranks {
                Some(data) => {
                    Values { data_type: &rank, nulls: key.nulls, data, sizes: &[], keys: None }
                }
                None => *key,
            })
            .collect();
        let (mut ranges, mut bits): (Vec<KeyRange>, u32) = (Vec::new(), 0);
        let mut whole = 0;
        for range in keys.iter().map_while(key_range) {
            let room = 64 - row_bits - bits;
            let fits = range.bits <= room;
            if fits || room > 0 {
                ranges.push(range.cut(room));
                bits += range.bits.min(room);
            }
            if !fits {
                break;
            }
            whole += 1;
        }
        // A column of which only the upper bits are packed is compared, too.
        let (first, rest) = (&keys[..ranges.len()], &keys[whole..]);
        if rest.is_empty() && counting && bits <= BITS {
            let unsorted = self.counting.count(first, &ranges, rows);
            return if unsorted { SortOrder::Counted(&self.counting) } else { SortOrder::Sorted };
        }
        self.keys.clear();
        self.keys.resize(rows, 0);
        for (key, range) in first.iter().zip(&ranges) {
            pack_keys(key, range, 0, &mut self.keys);
        }
        let sorted = self.keys.is_sorted();
        if rest.is_empty() && sorted {
            return SortOrder::Sorted;
        }
        let packed = if rest.is_empty() { Vec::new() } else { self.keys.clone() };
        self.order.resize(rows, 0);
        if sorted {
            (0..).zip(&mut self.order).for_each(|(row, place)| *place = row);
        } else {
            self.radix(bits, row_bits);
        }
        if !rest.is_empty() && !by_comparison(rest, &packed, &mut self.order) && sorted {
            return SortOrder::Sorted;
        }
        SortOrder::Rows(&self.order)
    }

    /// Radix sort by the key's bits only; the last pass writes row numbers.
    fn radix(&mut self, bits: u32, row_bits: u32) {
        let passes = bits.div_ceil(BITS).max(1);
        let digit_bits = bits.div_ceil(passes);
        let mask = (1usize << digit_bits) - 1;
        for (row, key) in self.keys.iter_mut().enumerate() {
            *key = *key << row_bits | row as u64;
        }
        self.spare.resize(self.keys.len(), 0);
        for pass in 0..passes {
            let shift = row_bits + pass * digit_bits;
            let digit = |key: u64| (key >> shift) as usize & mask;
            let mut digit_starts = digit_starts(&self.keys, digit);
            let rows = (1u64 << row_bits) - 1;
            for &key in &self.keys {
                let slot = &mut digit_starts[digit(key)];
                if pass + 1 == passes {
                    self.order[*slot as usize] = (key & rows) as u32;
                } else {
                    self.spare[*slot as usize] = key;
                }
                *slot += 1;
            }
            std::mem::swap(&mut self.keys, &mut self.spare);
        }
    }
}

/// For each digit the position of its first row.
#[inline(always)]
fn digit_starts(keys: &[u64], digit: impl Fn(u64) -> usize) -> [u32; KEYS] {
    let mut digit_starts = [0; KEYS];
    keys.iter().for_each(|key| digit_starts[digit(*key)] += 1);
    counting::start_positions(digit_starts)
}

/// Different strings at most that are numbered: more of them cost more than they spare.
const MOST_RANKS: u32 = 4096;

/// The strings of a column as numbers in their order, four bytes each; None of other types, and
/// where there are many different ones that have no numbers yet.
fn ranks(values: Values<'_>, rows: usize) -> Option<Vec<u8>> {
    if let Some(keys) = values.keys {
        return Some(ranks_of_keys(values, keys));
    }
    if values.data_type.base != BaseType::String {
        return None;
    }
    let mut numbering = Numbering::from(0);
    let mut numbers = Vec::with_capacity(rows);
    for value in strings_of(values.data) {
        numbers.push(numbering.number(value).0);
        if numbering.next() > MOST_RANKS {
            return None;
        }
    }
    let mut ranks = vec![0u32; numbering.next() as usize];
    for (rank, (_, number)) in (0..).zip(numbering.sorted()) {
        ranks[number as usize] = rank;
    }
    let mut data = Vec::with_capacity(4 * rows);
    numbers.iter().for_each(|n| data.extend_from_slice(&ranks[*n as usize].to_le_bytes()));
    Some(data)
}

fn ranks_of_keys(values: Values<'_>, keys: &Keys) -> Vec<u8> {
    let (mut ranks, mut used) = (vec![u32::MAX; keys.len()], Vec::new());
    for number in values.numbers() {
        if ranks[number as usize] == u32::MAX {
            ranks[number as usize] = 0;
            used.push(number);
        }
    }
    used.sort_unstable_by_key(|number| keys.text(*number));
    for (rank, &number) in (0..).zip(&used) {
        ranks[number as usize] = rank;
    }
    values.numbers().flat_map(|number| ranks[number as usize].to_le_bytes()).collect()
}

/// Sort the rows that are equal so far, by `packed`, by comparing these keys; false where all are in
/// order already.
fn by_comparison(keys: &[Values<'_>], packed: &[u64], order: &mut [u32]) -> bool {
    let values: Vec<Compared<'_>> = keys.iter().map(Compared::of).collect();
    let compare = |a: &u32, b: &u32| {
        let mut orders = values.iter().map(|values| values.compare(*a as usize, *b as usize));
        orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
    };
    let mut moved = false;
    for equal in order.chunk_by_mut(|a, b| packed[*a as usize] == packed[*b as usize]) {
        if equal.len() > 1 && !equal.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
            equal.sort_by(compare);
            moved = true;
        }
    }
    moved
}

/// The values of a key column that are compared.
enum Compared<'a> {
    /// Numbers in their order.
    Numbers(Vec<u64>),
    /// Of what is wider, or varies: the bytes of each value.
    Bytes(Values<'a>, Vec<&'a [u8]>),
}

impl<'a> Compared<'a> {
    fn of(key: &Values<'a>) -> Compared<'a> {
        numbers(key).map_or_else(|| Compared::Bytes(*key, split(*key)), Compared::Numbers)
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let (key, values) = match self {
            Compared::Numbers(numbers) => return numbers[a].cmp(&numbers[b]),
            Compared::Bytes(key, values) => (key, values),
        };
        let null = |row: usize| key.nulls.get(row).copied().unwrap_or(0);
        null(a).cmp(&null(b)).then_with(|| match null(a) {
            1 => Ordering::Equal,
            _ => compare_values(&key.data_type.base, values[a], values[b]),
        })
    }
}

/// Each value as its bytes.
fn split(values: Values<'_>) -> Vec<&[u8]> {
    match values.data_type.base {
        BaseType::String => strings_of(values.data).collect(),
        _ => values.data.chunks_exact(values.data_type.width().max(1)).collect(),
    }
}

/// Compare two values by their bytes in the Native format.
pub fn compare_values(base: &BaseType, a: &[u8], b: &[u8]) -> Ordering {
    let signed = match base {
        BaseType::String | BaseType::FixedString(_) | BaseType::Ipv6 => return a.cmp(b),
        // Two numbers, each with its lowest byte first; the engine compares the second one first.
        BaseType::Uuid => {
            let half = |v: &[u8], n: usize| {
                u64::from_le_bytes(v[n * 8..][..8].try_into().expect("8 bytes"))
            };
            let number = |v: &[u8]| (half(v, 1), half(v, 0));
            return number(a).cmp(&number(b));
        }
        BaseType::Float32 => {
            let of =
                |v: &[u8]| float_order(f32::from_le_bytes(v.try_into().expect("4 bytes")).into());
            return of(a).cmp(&of(b));
        }
        BaseType::Float64 => {
            let of = |v: &[u8]| float_order(f64::from_le_bytes(v.try_into().expect("8 bytes")));
            return of(a).cmp(&of(b));
        }
        BaseType::Int(_, signed) => *signed,
        BaseType::Decimal(..)
        | BaseType::Date32
        | BaseType::DateTime64(..)
        | BaseType::Enum(..) => true,
        BaseType::Bool | BaseType::Date | BaseType::DateTime(_) | BaseType::Ipv4 => false,
        BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => {
            unreachable!("no key of a spec is nested")
        }
    };
    let flip = if signed { 128 } else { 0 };
    let top = |v: &[u8]| v[v.len() - 1] ^ flip;
    top(a).cmp(&top(b)).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sort rows of two numbers, the first of them NULL where it is None.
    fn sorted(rows: &[(Option<i64>, u64)]) -> Vec<u32> {
        let type_of = |name| Type::parse(name, None).expect("a type");
        let types = [type_of("Nullable(Int64)"), type_of("UInt64")];
        let nulls: Vec<u8> = rows.iter().map(|row| u8::from(row.0.is_none())).collect();
        let first: Vec<u8> = rows.iter().flat_map(|r| r.0.unwrap_or(0).to_le_bytes()).collect();
        let second: Vec<u8> = rows.iter().flat_map(|row| row.1.to_le_bytes()).collect();
        let values =
            |data_type, nulls, data| Values { data_type, nulls, data, sizes: &[], keys: None };
        let keys = [values(&types[0], &nulls, &first[..]), values(&types[1], &[], &second)];
        match Sorter::default().sort(&keys, rows.len(), false) {
            SortOrder::Sorted => (0..rows.len() as u32).collect(),
            SortOrder::Rows(order) => order.to_vec(),
            SortOrder::Counted(_) => unreachable!("not asked for"),
        }
    }

    #[test]
    fn numbers_that_differ_below_what_is_packed() {
        let mut state = 7u64;
        let mut random = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for (wide, near) in [(1, 1), (1, 50), (3, 7), (1 << 20, 3), (1 << 31, 1 << 31)] {
            for count in [1, 2, 3, 1000] {
                let rows: Vec<(Option<i64>, u64)> = (0..count)
                    .map(|_| {
                        let high = (random(wide) as i64 - wide as i64 / 2) << 32;
                        let value = (random(9) > 0).then(|| high + random(near) as i64);
                        (value, random(wide) << 33 | random(near))
                    })
                    .collect();
                let mut wanted: Vec<u32> = (0..count).collect();
                wanted.sort_by_key(|row| {
                    let (first, second) = rows[*row as usize];
                    (first.is_none(), first, second)
                });
                assert_eq!(sorted(&rows), wanted, "{wide} {near} {count}");
            }
        }
    }
}
