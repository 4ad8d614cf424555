//! Blocks sorted by the table's key before they are sent, so that the engine need not sort them.
//!
//! The key columns become one number a row where they fit into 64 bits with the row's number:
//! then a radix sort of plain numbers does it, 12 bits a pass. Otherwise rows are compared.

use std::cmp::Ordering;

use crate::cells::Values;
use crate::types::{Base, strings_of};

/// Bits of a pass: as many counters as fit into the nearest cache.
const DIGIT: u32 = 12;

/// What a sort has found.
pub enum Order<'a> {
    Sorted,
    /// The numbers of the rows in their order.
    Rows(&'a [u32]),
    /// Where each row goes.
    Slots(&'a [u32]),
}

/// Memory that is kept from block to block: fresh pages cost more than the sorting.
#[derive(Default)]
pub struct Sorter {
    keys: Vec<u64>,
    other: Vec<u64>,
    found: Vec<u32>,
}

impl Sorter {
    /// Sort rows by their keys, those with equal keys in the order they have. Slots are found where
    /// they are asked for and one pass is enough.
    pub fn sort(&mut self, keys: &[Values<'_>], rows: usize, slots: bool) -> Order<'_> {
        self.keys.clear();
        self.keys.resize(rows, 0);
        let low = usize::BITS - rows.saturating_sub(1).leading_zeros();
        let mut bits = 0;
        for key in keys {
            let Some(more) = push(key, &mut self.keys, bits, 64 - low) else {
                let sorted = !by_comparison(keys, rows, &mut self.found);
                return if sorted { Order::Sorted } else { Order::Rows(&self.found) };
            };
            bits += more;
        }
        if self.keys.is_sorted() {
            return Order::Sorted;
        }
        self.found.resize(rows, 0);
        if slots && bits <= DIGIT {
            self.one_pass(bits);
            return Order::Slots(&self.found);
        }
        self.radix(bits, low);
        Order::Rows(&self.found)
    }

    /// Radix sort by the key's bits only; the last pass writes row numbers.
    fn radix(&mut self, bits: u32, low: u32) {
        let passes = bits.div_ceil(DIGIT).max(1);
        let digit_bits = bits.div_ceil(passes);
        let mask = (1usize << digit_bits) - 1;
        for (row, key) in self.keys.iter_mut().enumerate() {
            *key = *key << low | row as u64;
        }
        self.other.resize(self.keys.len(), 0);
        for pass in 0..passes {
            let shift = low + pass * digit_bits;
            let digit = |key: u64| (key >> shift) as usize & mask;
            let mut starts = starts(&self.keys, digit);
            let rows = (1u64 << low) - 1;
            for &key in &self.keys {
                let slot = &mut starts[digit(key)];
                if pass + 1 == passes {
                    self.found[*slot as usize] = (key & rows) as u32;
                } else {
                    self.other[*slot as usize] = key;
                }
                *slot += 1;
            }
            std::mem::swap(&mut self.keys, &mut self.other);
        }
    }

    fn one_pass(&mut self, bits: u32) {
        let digit = |key: u64| key as usize & ((1usize << bits) - 1);
        let mut starts = starts(&self.keys, digit);
        for (place, key) in self.found.iter_mut().zip(&self.keys) {
            let slot = &mut starts[digit(*key)];
            *place = *slot;
            *slot += 1;
        }
    }
}

/// Where the rows of each digit start.
#[inline(always)]
fn starts(keys: &[u64], digit: impl Fn(u64) -> usize) -> [u32; 1 << DIGIT] {
    let mut starts = [0u32; 1 << DIGIT];
    keys.iter().for_each(|key| starts[digit(*key)] += 1);
    let mut sum = 0;
    for start in &mut starts {
        (*start, sum) = (sum, sum + *start);
    }
    starts
}

/// Append a key column to the keys, as numbers in the order of its type that are as small as they
/// can be; the bits they take. None when they do not fit into `most` bits, or the type is wider.
fn push(column: &Values<'_>, keys: &mut [u64], used: u32, most: u32) -> Option<u32> {
    let data = column.data;
    let mut join = Join { keys, nulls: column.nulls, used, most };
    let signed = |n: i64| (n as u64) ^ (1 << 63);
    match (&column.kind.base, column.kind.width()) {
        (Base::Float32, _) => join.all::<4>(data, |b| float(f32::from_le_bytes(b).into())),
        (Base::Float64, _) => join.all::<8>(data, |b| float(f64::from_le_bytes(b))),
        (Base::Int(1, false) | Base::Bool | Base::FixedString(1), _) => {
            join.all::<1>(data, |b| b[0].into())
        }
        (Base::Int(2, false) | Base::Date, _) => {
            join.all::<2>(data, |b| u16::from_le_bytes(b).into())
        }
        (Base::Int(4, false) | Base::DateTime(_) | Base::Ipv4, _) => {
            join.all::<4>(data, |b| u32::from_le_bytes(b).into())
        }
        (Base::Int(8, false), _) => join.all::<8>(data, u64::from_le_bytes),
        (Base::Int(..) | Base::Enum(..), 1) => {
            join.all::<1>(data, |b| signed(i8::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Enum(..), 2) => {
            join.all::<2>(data, |b| signed(i16::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::Date32, 4) => {
            join.all::<4>(data, |b| signed(i32::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::DateTime64(..), 8) => {
            join.all::<8>(data, |b| signed(i64::from_le_bytes(b)))
        }
        _ => None,
    }
}

struct Join<'a> {
    keys: &'a mut [u64],
    /// Empty for columns without NULLs.
    nulls: &'a [u8],
    used: u32,
    most: u32,
}

impl Join<'_> {
    #[inline(always)]
    fn all<const N: usize>(&mut self, data: &[u8], to: impl Fn([u8; N]) -> u64) -> Option<u32> {
        let values = data.as_chunks::<N>().0;
        let present = |row: usize| self.nulls.get(row).is_none_or(|null| *null == 0);
        let (mut low, mut high) = (u64::MAX, 0);
        for (row, value) in values.iter().enumerate() {
            if present(row) {
                low = low.min(to(*value));
                high = high.max(to(*value));
            }
        }
        // NULLs come last: one more than the greatest.
        let last = high.saturating_sub(low).checked_add(u64::from(!self.nulls.is_empty()))?;
        let bits = 64 - last.leading_zeros();
        if self.used + bits > self.most {
            return None;
        }
        for (row, (key, value)) in self.keys.iter_mut().zip(values).enumerate() {
            let number = if present(row) { to(*value) - low } else { last };
            *key = *key << bits | number;
        }
        Some(bits)
    }
}

/// Floats in the order of their values; NaN is never read. -0 and 0 are equal.
fn float(value: f64) -> u64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The same for keys that are wider; false when the rows are sorted already.
fn by_comparison(keys: &[Values<'_>], rows: usize, order: &mut Vec<u32>) -> bool {
    let values: Vec<_> = keys.iter().map(|key| (key, split(*key))).collect();
    let compare = |a: &u32, b: &u32| {
        let (a, b) = (*a as usize, *b as usize);
        values.iter().fold(Ordering::Equal, |found, (key, values)| {
            found.then_with(|| {
                let null = |row: usize| key.nulls.get(row).copied().unwrap_or(0);
                null(a).cmp(&null(b)).then_with(|| match null(a) {
                    1 => Ordering::Equal,
                    _ => compare_values(&key.kind.base, values[a], values[b]),
                })
            })
        })
    };
    order.clear();
    order.extend(0..rows as u32);
    if order.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
        return false;
    }
    order.sort_by(compare);
    true
}

/// The values one by one.
fn split(values: Values<'_>) -> Vec<&[u8]> {
    match values.kind.base {
        Base::String => strings_of(values.data).collect(),
        _ => values.data.chunks_exact(values.kind.width().max(1)).collect(),
    }
}

/// Two values as the Native format has them.
fn compare_values(base: &Base, a: &[u8], b: &[u8]) -> Ordering {
    let signed = match base {
        Base::String | Base::FixedString(_) | Base::Ipv6 => return a.cmp(b),
        // The upper half comes first, each half with its lowest byte first.
        Base::Uuid => {
            let half =
                |v: &[u8], n: usize| v[n * 8..n * 8 + 8].iter().rev().copied().collect::<Vec<_>>();
            return half(a, 0).cmp(&half(b, 0)).then_with(|| half(a, 1).cmp(&half(b, 1)));
        }
        Base::Float32 => {
            let of = |v: &[u8]| float(f32::from_le_bytes(v.try_into().expect("4 bytes")).into());
            return of(a).cmp(&of(b));
        }
        Base::Float64 => {
            let of = |v: &[u8]| float(f64::from_le_bytes(v.try_into().expect("8 bytes")));
            return of(a).cmp(&of(b));
        }
        Base::Int(_, signed) => *signed,
        Base::Decimal(..) | Base::Date32 | Base::DateTime64(..) | Base::Enum(..) => true,
        Base::Bool | Base::Date | Base::DateTime(_) | Base::Ipv4 => false,
        Base::Array(_) | Base::Map(_) | Base::Tuple(..) => {
            unreachable!("no key of a spec is nested")
        }
    };
    let flip = if signed { 128 } else { 0 };
    let top = |v: &[u8]| v[v.len() - 1] ^ flip;
    top(a).cmp(&top(b)).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}
