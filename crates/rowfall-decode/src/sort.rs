//! Blocks sorted by the table's key before they are sent, so that the engine need not sort them.
//!
//! The key columns become one number a row where they fit into 64 bits with the row's number:
//! then a radix sort of plain numbers does it, 11 bits a pass. Otherwise rows are compared.

use std::cmp::Ordering;

use crate::cells::Column;
use crate::types::{Base, starts_of, strings_of};

/// Sort the rows of a block; `scratch` keeps its memory from call to call.
pub fn sort(columns: &mut [Column], keys: &[usize], rows: usize, scratch: &mut Vec<u8>) {
    if let Some(order) = order(columns, keys, rows) {
        for column in columns {
            permute(column, &order, scratch);
        }
    }
}

/// The numbers of the rows in their order; None when they are sorted already.
fn order(columns: &[Column], keys: &[usize], rows: usize) -> Option<Vec<u32>> {
    let numbers: Option<Vec<Number>> = keys.iter().map(|&k| number(&columns[k], rows)).collect();
    match numbers.and_then(|n| join(n, rows)) {
        Some((joined, bits)) => by_number(joined, bits),
        None => by_comparison(columns, keys, rows),
    }
}

/// A key column as numbers in the same order, and how many bits they take.
struct Number {
    values: Vec<u64>,
    bits: u32,
}

/// None for types wider than 64 bits.
fn number(column: &Column, rows: usize) -> Option<Number> {
    let mut values = raw(column, rows)?;
    let present = |row: usize| column.nulls.get(row).is_none_or(|null| *null == 0);
    let shown = || values.iter().enumerate().filter(|(row, _)| present(*row)).map(|(_, v)| *v);
    let low = shown().min().unwrap_or(0);
    let high = shown().max().unwrap_or(0) - low;
    // NULLs come last: one more than the greatest.
    let last = if column.kind.nullable { high.checked_add(1)? } else { high };
    for (row, value) in values.iter_mut().enumerate() {
        *value = if present(row) { *value - low } else { last };
    }
    Some(Number { values, bits: 64 - last.leading_zeros() })
}

/// Values as unsigned numbers in the order of the type.
fn raw(column: &Column, rows: usize) -> Option<Vec<u64>> {
    let data = &column.data[..];
    fn each<const N: usize>(data: &[u8], to: impl Fn([u8; N]) -> u64) -> Vec<u64> {
        data.chunks_exact(N).map(|c| to(c.try_into().expect("N bytes"))).collect()
    }
    let signed = |n: i64| (n as u64) ^ (1 << 63);
    let values = match (&column.kind.base, column.kind.width()) {
        (Base::Float32, _) => each::<4>(data, |b| float(f64::from(f32::from_le_bytes(b)))),
        (Base::Float64, _) => each::<8>(data, |b| float(f64::from_le_bytes(b))),
        (Base::Int(1, false) | Base::Bool | Base::FixedString(1), _) => {
            each::<1>(data, |b| b[0].into())
        }
        (Base::Int(2, false) | Base::Date, _) => each::<2>(data, |b| u16::from_le_bytes(b).into()),
        (Base::Int(4, false) | Base::DateTime | Base::Ipv4, _) => {
            each::<4>(data, |b| u32::from_le_bytes(b).into())
        }
        (Base::Int(8, false), _) => each::<8>(data, u64::from_le_bytes),
        (Base::Int(..) | Base::Enum(..), 1) => {
            each::<1>(data, |b| signed(i8::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Enum(..), 2) => {
            each::<2>(data, |b| signed(i16::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::Date32, 4) => {
            each::<4>(data, |b| signed(i32::from_le_bytes(b).into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::DateTime64(_), 8) => {
            each::<8>(data, |b| signed(i64::from_le_bytes(b)))
        }
        _ => return None,
    };
    (values.len() == rows).then_some(values)
}

/// Floats in the order of their values; NaN is never read. -0 and 0 are equal.
fn float(value: f64) -> u64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// All key columns as one number a row with the row's number below it; None when 64 bits do not
/// hold them. Also the lowest bit of the key and the number of its bits.
fn join(numbers: Vec<Number>, rows: usize) -> Option<(Vec<u64>, (u32, u32))> {
    let low = usize::BITS - rows.saturating_sub(1).leading_zeros();
    let bits: u32 = numbers.iter().map(|n| n.bits).sum();
    if bits + low > 64 {
        return None;
    }
    let mut numbers = numbers.into_iter();
    let mut joined = numbers.next()?.values;
    for next in numbers {
        for (all, one) in joined.iter_mut().zip(next.values) {
            // A column of one value takes no bits; 64 bits would leave no room for others.
            *all = if next.bits < 64 { *all << next.bits | one } else { one };
        }
    }
    for (row, all) in joined.iter_mut().enumerate() {
        *all = if low < 64 { *all << low | row as u64 } else { row as u64 };
    }
    Some((joined, (low, bits)))
}

const DIGIT: u32 = 11;

/// Radix sort by the key's bits only: it is stable, so rows with equal keys keep their order.
fn by_number(mut values: Vec<u64>, (low, bits): (u32, u32)) -> Option<Vec<u32>> {
    if values.is_sorted() {
        return None;
    }
    let mut other = vec![0u64; values.len()];
    let mut shift = low;
    while shift < low + bits {
        let digit = |value: u64| (value >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0u32; 1 << DIGIT];
        values.iter().for_each(|v| starts[digit(*v)] += 1);
        let mut sum = 0;
        for start in &mut starts {
            (*start, sum) = (sum, sum + *start);
        }
        for &value in &values {
            let slot = &mut starts[digit(value)];
            other[*slot as usize] = value;
            *slot += 1;
        }
        std::mem::swap(&mut values, &mut other);
        shift += DIGIT;
    }
    let mask = if low == 0 { 0 } else { u64::MAX >> (64 - low) };
    Some(values.iter().map(|v| (v & mask) as u32).collect())
}

fn by_comparison(columns: &[Column], keys: &[usize], rows: usize) -> Option<Vec<u32>> {
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
    let mut order: Vec<u32> = (0..rows as u32).collect();
    if order.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
        return None;
    }
    order.sort_by(compare);
    Some(order)
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

/// Bring a column's rows into the order.
fn permute(column: &mut Column, order: &[u32], scratch: &mut Vec<u8>) {
    let mut apply = |data: &mut Vec<u8>, width: usize| {
        scratch.clear();
        gather(data, width, order, scratch);
        std::mem::swap(data, scratch);
    };
    if column.kind.nullable {
        apply(&mut column.nulls, 1);
    }
    apply(&mut column.data, column.kind.width());
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
    for &row in order {
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
