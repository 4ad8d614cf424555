//! Blocks sorted by the table's key before they are sent, so that the engine need not sort them.
//!
//! The key columns become one number a row where they fit into 64 bits with the row's number:
//! then a radix sort of plain numbers does it, 12 bits a pass. Otherwise rows are compared.

use std::cmp::Ordering;

use crate::cells::Column;
use crate::types::{Base, starts_of, strings_of};

/// Memory that is kept from block to block: fresh pages cost more than the sorting.
#[derive(Default)]
pub struct Sorter {
    bytes: Vec<u8>,
    keys: Vec<u64>,
    other: Vec<u64>,
    /// Row numbers in their order.
    order: Vec<u32>,
    /// Where each row goes; filled instead by sorts of one pass.
    slots: Vec<u32>,
}

impl Sorter {
    /// Sort the rows of a block by its key columns, those with equal keys in the order they have.
    pub fn sort(&mut self, columns: &mut [Column], keys: &[usize], rows: usize) {
        if self.order(columns, keys, rows) {
            for column in columns {
                self.permute(column);
            }
        }
    }

    /// Bring a column's rows into the order.
    fn permute(&mut self, column: &mut Column) {
        let width = column.kind.width();
        if column.kind.nullable {
            self.apply(&mut column.nulls, 1);
        }
        self.apply(&mut column.data, width);
    }

    fn apply(&mut self, data: &mut Vec<u8>, width: usize) {
        self.bytes.clear();
        if self.slots.is_empty() || !scatter(data, width, &self.slots, &mut self.bytes) {
            if self.order.is_empty() {
                self.order.resize(self.slots.len(), 0);
                for (row, &slot) in self.slots.iter().enumerate() {
                    self.order[slot as usize] = row as u32;
                }
            }
            gather(data, width, &self.order, &mut self.bytes);
        }
        std::mem::swap(data, &mut self.bytes);
    }

    /// Put the numbers of the rows into their order; false when they are sorted already.
    fn order(&mut self, columns: &[Column], keys: &[usize], rows: usize) -> bool {
        self.keys.clear();
        self.keys.resize(rows, 0);
        let low = usize::BITS - rows.saturating_sub(1).leading_zeros();
        let mut bits = 0;
        for &key in keys {
            let Some(more) = push(&columns[key], &mut self.keys, bits, 64 - low) else {
                self.slots.clear();
                return by_comparison(columns, keys, rows, &mut self.order);
            };
            bits += more;
        }
        if self.keys.is_sorted() {
            return false;
        }
        self.radix(bits, low);
        true
    }

    /// Radix sort by the key's bits only, 12 at most a pass; the last pass writes row numbers.
    fn radix(&mut self, bits: u32, low: u32) {
        let passes = bits.div_ceil(12).max(1);
        let digit_bits = bits.div_ceil(passes);
        let mask = (1usize << digit_bits) - 1;
        self.order.clear();
        self.slots.clear();
        if passes == 1 {
            return self.one_pass(mask);
        }
        for (row, key) in self.keys.iter_mut().enumerate() {
            *key = *key << low | row as u64;
        }
        self.other.resize(self.keys.len(), 0);
        self.order.resize(self.keys.len(), 0);
        for pass in 0..passes {
            let shift = low + pass * digit_bits;
            let digit = |key: u64| (key >> shift) as usize & mask;
            let mut starts = starts(&self.keys, digit);
            let rows = (1u64 << low) - 1;
            for &key in &self.keys {
                let slot = &mut starts[digit(key)];
                if pass + 1 == passes {
                    self.order[*slot as usize] = (key & rows) as u32;
                } else {
                    self.other[*slot as usize] = key;
                }
                *slot += 1;
            }
            std::mem::swap(&mut self.keys, &mut self.other);
        }
    }

    fn one_pass(&mut self, mask: usize) {
        let digit = |key: u64| key as usize & mask;
        let mut starts = starts(&self.keys, digit);
        self.slots.extend(self.keys.iter().map(|key| {
            let slot = &mut starts[digit(*key)];
            *slot += 1;
            *slot - 1
        }));
    }
}

/// Where the rows of each digit start.
#[inline(always)]
fn starts(keys: &[u64], digit: impl Fn(u64) -> usize) -> [u32; 1 << 12] {
    let mut starts = [0u32; 1 << 12];
    keys.iter().for_each(|key| starts[digit(*key)] += 1);
    let mut sum = 0;
    for start in &mut starts {
        (*start, sum) = (sum, sum + *start);
    }
    starts
}

/// Append a key column to the keys, as numbers in the order of its type that are as small as they
/// can be; the bits they take. None when they do not fit into `most` bits, or the type is wider.
fn push(column: &Column, keys: &mut [u64], used: u32, most: u32) -> Option<u32> {
    let data = &column.data[..];
    let mut join = Join { keys, nulls: &column.nulls, used, most };
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
        (Base::Int(4, false) | Base::DateTime | Base::Ipv4, _) => {
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
        (Base::Int(..) | Base::Decimal(..) | Base::DateTime64(_), 8) => {
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
fn by_comparison(columns: &[Column], keys: &[usize], rows: usize, order: &mut Vec<u32>) -> bool {
    let strings: Vec<Vec<&[u8]>> = keys
        .iter()
        .map(|&k| match columns[k].kind.base {
            Base::String => strings_of(&columns[k].data).collect(),
            _ => columns[k].data.chunks_exact(columns[k].kind.width().max(1)).collect(),
        })
        .collect();
    let compare = |a: &u32, b: &u32| {
        let (a, b) = (*a as usize, *b as usize);
        keys.iter().zip(&strings).fold(Ordering::Equal, |found, (&key, values)| {
            found.then_with(|| {
                let column = &columns[key];
                let null = |row: usize| column.nulls.get(row).copied().unwrap_or(0);
                null(a).cmp(&null(b)).then_with(|| match null(a) {
                    1 => Ordering::Equal,
                    _ => compare_values(&column.kind.base, values[a], values[b]),
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
        Base::Decimal(..) | Base::Date32 | Base::DateTime64(_) | Base::Enum(..) => true,
        Base::Bool | Base::Date | Base::DateTime | Base::Ipv4 => false,
    };
    let flip = if signed { 128 } else { 0 };
    let top = |v: &[u8]| v[v.len() - 1] ^ flip;
    top(a).cmp(&top(b)).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

/// Put each value into its slot: of a sort of one pass these are a few thousand places that move
/// on slowly, so that all of them stay in the cache. False for widths that are rare.
fn scatter(data: &[u8], width: usize, slots: &[u32], out: &mut Vec<u8>) -> bool {
    fn fixed<const N: usize>(data: &[u8], slots: &[u32], out: &mut Vec<u8>) -> bool {
        out.resize(data.len(), 0);
        let to = out.as_chunks_mut::<N>().0;
        for (value, &slot) in data.as_chunks::<N>().0.iter().zip(slots) {
            to[slot as usize] = *value;
        }
        true
    }
    match width {
        1 => fixed::<1>(data, slots, out),
        2 => fixed::<2>(data, slots, out),
        4 => fixed::<4>(data, slots, out),
        8 => fixed::<8>(data, slots, out),
        16 => fixed::<16>(data, slots, out),
        _ => false,
    }
}

fn gather(data: &mut Vec<u8>, width: usize, order: &[u32], out: &mut Vec<u8>) {
    fn fixed<const N: usize>(data: &[u8], order: &[u32], out: &mut Vec<u8>) {
        let (values, _) = data.as_chunks::<N>();
        out.reserve(order.len() * N);
        let to = out.as_mut_ptr();
        for (n, &row) in order.iter().enumerate() {
            let value = values[row as usize];
            // SAFETY: n < order.len(), and that many values were reserved.
            unsafe { to.add(n * N).cast::<[u8; N]>().write_unaligned(value) };
        }
        // SAFETY: all of them were written.
        unsafe { out.set_len(order.len() * N) };
    }
    match width {
        0 => strings(data, order, out),
        1 => fixed::<1>(data, order, out),
        2 => fixed::<2>(data, order, out),
        4 => fixed::<4>(data, order, out),
        8 => fixed::<8>(data, order, out),
        16 => fixed::<16>(data, order, out),
        32 => fixed::<32>(data, order, out),
        n => order.iter().for_each(|&r| out.extend_from_slice(&data[r as usize * n..][..n])),
    }
}

/// Strings with their lengths before them, copied 16 bytes at once.
fn strings(data: &mut Vec<u8>, order: &[u32], out: &mut Vec<u8>) {
    let starts = starts_of(data, order.len());
    let used = data.len();
    data.resize(used + 16, 0);
    out.reserve(used + 16);
    let to = out.as_mut_ptr();
    let mut at = 0;
    for (n, &row) in order.iter().enumerate() {
        // The string of 16 rows further on is on its way while this one is copied.
        let ahead = starts[order[(n + 16).min(order.len() - 1)] as usize] as usize;
        prefetch(&data[ahead..]);
        let (start, end) = (starts[row as usize] as usize, starts[row as usize + 1] as usize);
        let from = data[start..end].as_ptr();
        let mut done = 0;
        while done < end - start {
            // SAFETY: 16 bytes follow the data, and as many more were reserved in `out`, which
            // holds each string once: `order` is a permutation.
            unsafe {
                let word = from.add(done).cast::<u128>().read_unaligned();
                to.add(at + done).cast::<u128>().write_unaligned(word);
            }
            done += 16;
        }
        at += end - start;
    }
    assert_eq!(at, used, "each string was copied once");
    // SAFETY: everything up to `at` was written.
    unsafe { out.set_len(at) };
    data.truncate(used);
}

#[inline(always)]
fn prefetch(data: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, wherever it points; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = data;
}
