//! Packs the columns of a key into one number a row, so that the numbers are in the order of the
//! rows.

use crate::column::Values;
use crate::types::BaseType;

/// Visits the values of a key column, with functions that read one and that turn it into a number
/// of the same order.
trait VisitValues {
    type Found;
    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) -> Self::Found;
}

/// Visit the values of a column; None for types wider than 64 bits.
fn visit<V: VisitValues>(column: &Values<'_>, visitor: V) -> Option<V::Found> {
    let data = column.data;
    let signed = |n: i64| (n as u64) ^ (1 << 63);
    Some(match (&column.data_type.base, column.data_type.width()) {
        (BaseType::Float32, _) => {
            let read = |b| float_order(f32::from_le_bytes(b).into());
            visitor.values(data.as_chunks::<4>().0, read, |n| n)
        }
        (BaseType::Float64, _) => {
            visitor.values(data.as_chunks::<8>().0, |b| float_order(f64::from_le_bytes(b)), |n| n)
        }
        (BaseType::Int(1, false) | BaseType::Bool | BaseType::FixedString(1), _) => {
            visitor.values(data.as_chunks::<1>().0, u8::from_le_bytes, u64::from)
        }
        (BaseType::Int(2, false) | BaseType::Date, _) => {
            visitor.values(data.as_chunks::<2>().0, u16::from_le_bytes, u64::from)
        }
        (BaseType::Int(4, false) | BaseType::DateTime(_) | BaseType::Ipv4, _) => {
            visitor.values(data.as_chunks::<4>().0, u32::from_le_bytes, u64::from)
        }
        (BaseType::Int(8, false), _) => {
            visitor.values(data.as_chunks::<8>().0, u64::from_le_bytes, |n| n)
        }
        (BaseType::Int(..) | BaseType::Enum(..), 1) => {
            visitor.values(data.as_chunks::<1>().0, i8::from_le_bytes, |n| signed(n.into()))
        }
        (BaseType::Int(..) | BaseType::Enum(..), 2) => {
            visitor.values(data.as_chunks::<2>().0, i16::from_le_bytes, |n| signed(n.into()))
        }
        (BaseType::Int(..) | BaseType::Decimal(..) | BaseType::Date32, 4) => {
            visitor.values(data.as_chunks::<4>().0, i32::from_le_bytes, |n| signed(n.into()))
        }
        (BaseType::Int(..) | BaseType::Decimal(..) | BaseType::DateTime64(..), 8) => {
            visitor.values(data.as_chunks::<8>().0, i64::from_le_bytes, signed)
        }
        _ => return None,
    })
}

/// The range of the numbers of a key column. Packed numbers count from the lowest; NULLs come last,
/// one more than the greatest.
#[derive(Clone, Copy)]
pub struct KeyRange {
    low: u64,
    last: u64,
    /// Bits of the greatest packed number.
    pub bits: u32,
    /// Bits at the lower end that are not packed.
    dropped: u32,
}

impl KeyRange {
    /// The range with the upper bits only of its numbers, where they are more than `most`.
    pub fn cut(self, most: u32) -> KeyRange {
        let dropped = self.bits.saturating_sub(most);
        KeyRange { bits: self.bits - dropped, dropped, ..self }
    }

    /// The range of all values that have one of some ranges; None where NULLs do not fit behind it.
    pub fn joined(ranges: impl Iterator<Item = KeyRange>, nullable: bool) -> Option<KeyRange> {
        let null = u64::from(nullable);
        let ends = ranges.map(|range| (range.low, range.low + (range.last - null)));
        let (low, high) = ends.reduce(|(a, b), (low, high)| (a.min(low), b.max(high)))?;
        let last = (high - low).checked_add(null)?;
        Some(KeyRange { low, last, bits: 64 - last.leading_zeros(), dropped: 0 })
    }
}

/// Find the range of a column; None for types wider than 64 bits, and where NULLs do not fit behind
/// the greatest number.
pub fn key_range(column: &Values<'_>) -> Option<KeyRange> {
    visit(column, FindRange { nulls: column.nulls })?
}

/// The rows with the least and the greatest value of a column, both None where all are NULL; None for
/// types wider than 64 bits.
pub fn extreme_rows(column: &Values<'_>) -> Option<Option<(usize, usize)>> {
    visit(column, FindExtremes { nulls: column.nulls })
}

struct FindExtremes<'a> {
    /// Empty for columns without NULLs.
    nulls: &'a [u8],
}

impl VisitValues for FindExtremes<'_> {
    type Found = Option<(usize, usize)>;

    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        _number: impl Fn(T) -> u64,
    ) -> Option<(usize, usize)> {
        let there = |row: usize| self.nulls.get(row) != Some(&1);
        let (low, high) = match self.nulls.is_empty() {
            true => min_max(data, &read)?,
            false => {
                let rows = data.iter().enumerate().filter(|(row, _)| there(*row));
                min_max_of(rows.map(|(_, value)| read(*value)))?
            }
        };
        let row_of =
            |wanted: T| (0..data.len()).find(|row| there(*row) && read(data[*row]) == wanted);
        row_of(low).zip(row_of(high))
    }
}

struct FindRange<'a> {
    /// Empty for columns without NULLs.
    nulls: &'a [u8],
}

impl VisitValues for FindRange<'_> {
    type Found = Option<KeyRange>;

    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) -> Option<KeyRange> {
        let found = if self.nulls.is_empty() {
            min_max(data, read)
        } else {
            let rows = data.iter().zip(self.nulls).filter(|(_, null)| **null == 0);
            min_max_of(rows.map(|(value, _)| read(*value)))
        };
        let (low, high) = found.map_or((0, 0), |(low, high)| (number(low), number(high)));
        let last = (high - low).checked_add(u64::from(!self.nulls.is_empty()))?;
        Some(KeyRange { low, last, bits: 64 - last.leading_zeros(), dropped: 0 })
    }
}

#[inline(always)]
fn min_max_of<T: Ord + Copy>(mut values: impl Iterator<Item = T>) -> Option<(T, T)> {
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

/// The least and the greatest of some values, None of none.
pub fn min_max<const N: usize, T: Ord + Copy>(
    data: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> Option<(T, T)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { min_max_avx2(data, read) };
    }
    min_max_of(data.iter().map(|value| read(*value)))
}

/// [`min_max_of`], 32 bytes at once.
///
/// # Safety
/// The machine has to have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn min_max_avx2<const N: usize, T: Ord + Copy>(
    data: &[[u8; N]],
    read: impl Fn([u8; N]) -> T,
) -> Option<(T, T)> {
    min_max_of(data.iter().map(|value| read(*value)))
}

/// A number that keys are packed into.
pub trait PackedKey: Copy {
    /// The number with `bits` more at its lower end.
    fn append(self, bits: u32, number: u64) -> Self;
}

impl PackedKey for u64 {
    #[inline(always)]
    /// The number with `bits` more at its lower end.
    fn append(self, bits: u32, number: u64) -> u64 {
        self << bits | number
    }
}

impl PackedKey for u128 {
    #[inline(always)]
    fn append(self, bits: u32, number: u64) -> u128 {
        self << bits | u128::from(number)
    }
}

impl PackedKey for u16 {
    #[inline(always)]
    /// The number with `bits` more at its lower end.
    fn append(self, bits: u32, number: u64) -> u16 {
        self << bits | number as u16
    }
}

impl PackedKey for Whole {
    #[inline(always)]
    fn append(self, _: u32, number: u64) -> Whole {
        Whole(number)
    }
}

/// A number that one column fills.
#[derive(Clone, Copy)]
struct Whole(u64);

/// For each row a number, in the order of the values of a key column; None for types wider than 64
/// bits, and where NULLs do not fit behind the greatest number.
pub fn numbers(column: &Values<'_>) -> Option<Vec<u64>> {
    let range = key_range(column)?;
    let mut found = vec![Whole(0); column.data.len() / column.width()];
    pack_keys(column, &range, 0, &mut found);
    Some(found.into_iter().map(|Whole(number)| number).collect())
}

/// For each row a number that is in the order of the values of all columns of the type; None for types
/// wider than 64 bits. Those of NULLs are 0.
pub fn ordered_numbers(column: &Values<'_>) -> Option<Vec<u64>> {
    let range = KeyRange { low: 0, last: 0, bits: 64, dropped: 0 };
    let mut found = vec![Whole(0); column.data.len() / column.width().max(1)];
    visit(column, PackKeys { keys: &mut found, nulls: column.nulls, range, from: 0 })?;
    Some(found.into_iter().map(|Whole(number)| number).collect())
}

/// Append the numbers of a key column to the keys of the rows from `from` on.
pub fn pack_keys<K: PackedKey>(column: &Values<'_>, range: &KeyRange, from: usize, keys: &mut [K]) {
    let nulls = column.nulls.get(from..).unwrap_or_default();
    visit(column, PackKeys { keys, nulls, range: *range, from }).expect("it has a range");
}

struct PackKeys<'a, K> {
    keys: &'a mut [K],
    nulls: &'a [u8],
    range: KeyRange,
    from: usize,
}

impl<K: PackedKey> VisitValues for PackKeys<'_, K> {
    type Found = ();

    #[inline(always)]
    fn values<const N: usize, T: Ord + Copy>(
        self,
        data: &[[u8; N]],
        read: impl Fn([u8; N]) -> T,
        number: impl Fn(T) -> u64,
    ) {
        let KeyRange { low, last, bits, dropped } = self.range;
        let values = self.keys.iter_mut().zip(&data[self.from..]);
        if self.nulls.is_empty() {
            values.for_each(|(key, value)| {
                *key = key.append(bits, (number(read(*value)) - low) >> dropped);
            });
            return;
        }
        for ((key, value), null) in values.zip(self.nulls) {
            let number = if *null == 0 { number(read(*value)) - low } else { last };
            *key = key.append(bits, number >> dropped);
        }
    }
}

/// A number in the order of the floats; -0 and 0 are equal, and NaN comes last.
pub fn float_order(value: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}
