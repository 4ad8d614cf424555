//! Key columns as numbers in the order of their types, joined into one number a row.

use crate::column::Values;
use crate::types::Base;

/// The values of a key column: how to read one, and its number in the order of the type.
trait Visit {
    type Found;
    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) -> Self::Found;
}

/// None for types that are wider than 64 bits.
fn visit<V: Visit>(column: &Values<'_>, visitor: V) -> Option<V::Found> {
    let data = column.data;
    let signed = |n: i64| (n as u64) ^ (1 << 63);
    Some(match (&column.kind.base, column.kind.width()) {
        (Base::Float32, _) => {
            let read = |b| float(f32::from_le_bytes(b).into());
            visitor.values(data.as_chunks::<4>().0, read, |n| n)
        }
        (Base::Float64, _) => {
            visitor.values(data.as_chunks::<8>().0, |b| float(f64::from_le_bytes(b)), |n| n)
        }
        (Base::Int(1, false) | Base::Bool | Base::FixedString(1), _) => {
            visitor.values(data.as_chunks::<1>().0, u8::from_le_bytes, u64::from)
        }
        (Base::Int(2, false) | Base::Date, _) => {
            visitor.values(data.as_chunks::<2>().0, u16::from_le_bytes, u64::from)
        }
        (Base::Int(4, false) | Base::DateTime(_) | Base::Ipv4, _) => {
            visitor.values(data.as_chunks::<4>().0, u32::from_le_bytes, u64::from)
        }
        (Base::Int(8, false), _) => {
            visitor.values(data.as_chunks::<8>().0, u64::from_le_bytes, |n| n)
        }
        (Base::Int(..) | Base::Enum(..), 1) => {
            visitor.values(data.as_chunks::<1>().0, i8::from_le_bytes, |n| signed(n.into()))
        }
        (Base::Int(..) | Base::Enum(..), 2) => {
            visitor.values(data.as_chunks::<2>().0, i16::from_le_bytes, |n| signed(n.into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::Date32, 4) => {
            visitor.values(data.as_chunks::<4>().0, i32::from_le_bytes, |n| signed(n.into()))
        }
        (Base::Int(..) | Base::Decimal(..) | Base::DateTime64(..), 8) => {
            visitor.values(data.as_chunks::<8>().0, i64::from_le_bytes, signed)
        }
        _ => return None,
    })
}

/// The numbers of a key column, less the lowest: NULLs come last, one more than the greatest.
#[derive(Clone, Copy)]
pub struct Range {
    low: u64,
    last: u64,
    /// Of the greatest.
    pub bits: u32,
}

/// None for types that are wider, or when NULLs do not fit behind the greatest.
pub fn range(column: &Values<'_>) -> Option<Range> {
    visit(column, Ends { nulls: column.nulls })?
}

struct Ends<'a> {
    /// Empty for columns without NULLs.
    nulls: &'a [u8],
}

impl Visit for Ends<'_> {
    type Found = Option<Range>;

    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) -> Option<Range> {
        let found = if self.nulls.is_empty() {
            ends(data, read)
        } else {
            let rows = data.iter().zip(self.nulls).filter(|(_, null)| **null == 0);
            lowest_highest(rows.map(|(value, _)| read(*value)))
        };
        let (low, high) = found.map_or((0, 0), |(low, high)| (number(low), number(high)));
        let last = (high - low).checked_add(u64::from(!self.nulls.is_empty()))?;
        Some(Range { low, last, bits: 64 - last.leading_zeros() })
    }
}

#[inline(always)]
fn lowest_highest<T: Ord + Copy>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

fn ends<const N: usize, T: Ord + Copy>(
    data: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> Option<(T, T)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { ends_avx2(data, read) };
    }
    lowest_highest(data.iter().map(|value| read(*value)))
}

/// The same, 32 bytes at once.
///
/// # Safety
/// The machine has to have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn ends_avx2<const N: usize, T: Ord + Copy>(
    data: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> Option<(T, T)> {
    lowest_highest(data.iter().map(|value| read(*value)))
}

/// What keys are put together in.
pub trait Key: Copy {
    fn with(self, bits: u32, number: u64) -> Self;
}

impl Key for u64 {
    #[inline(always)]
    fn with(self, bits: u32, number: u64) -> u64 {
        self << bits | number
    }
}

impl Key for u16 {
    #[inline(always)]
    fn with(self, bits: u32, number: u64) -> u16 {
        self << bits | number as u16
    }
}

/// Append the numbers of a key column to the keys of the rows from `from` on.
pub fn join<K: Key>(column: &Values<'_>, range: &Range, from: usize, keys: &mut [K]) {
    let nulls = column.nulls.get(from..).unwrap_or_default();
    visit(column, Join { keys, nulls, range: *range, from }).expect("it has a range");
}

struct Join<'a, K> {
    keys: &'a mut [K],
    nulls: &'a [u8],
    range: Range,
    from: usize,
}

impl<K: Key> Visit for Join<'_, K> {
    type Found = ();

    #[inline(always)]
    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) {
        let Range { low, last, bits } = self.range;
        let values = self.keys.iter_mut().zip(&data[self.from..]);
        if self.nulls.is_empty() {
            values.for_each(|(key, value)| *key = key.with(bits, number(read(*value)) - low));
            return;
        }
        for ((key, value), null) in values.zip(self.nulls) {
            let number = if *null == 0 { number(read(*value)) - low } else { last };
            *key = key.with(bits, number);
        }
    }
}

/// Floats in the order of their values; NaN is never read. -0 and 0 are equal.
pub fn float(value: f64) -> u64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}
