//! Copies arrays of Arrow into columns.
//!
//! Only pairs of types are taken whose values are the same in both, and values that are checked to
//! fit: of days, points in time and decimals the engine's types hold fewer.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteArrayType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeBinaryArray, GenericByteArray, PrimitiveArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::reorder::copy_bytes;
use crate::column::strings::write_varint;
use crate::columnar::{Batch, nested};
use crate::types::{BaseType, Type};

/// The days that a Date32 holds: 1900-01-01 to 2299-12-31.
const DATE32_DAYS: std::ops::RangeInclusive<i32> = -25_567..=120_529;
/// The seconds that a DateTime64 holds: the same days.
const DATETIME64_SECONDS: (i64, i64) = (-25_567 * 86_400, 120_530 * 86_400 - 1);

/// What a struct is that is NULL, in a Tuple, which cannot be NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NullStructs {
    /// An error, in the engine's reader of Arrow.
    Declined,
    /// A tuple of NULLs, of arrays and maps that are empty, and of such tuples, in its reader of
    /// Parquet.
    OfNulls,
}

/// The arrays of a batch, one for each column.
pub struct ArrowBatch {
    /// In the order of the columns.
    pub arrays: Vec<ArrayRef>,
    /// Their rows.
    pub rows: usize,
    pub null_structs: NullStructs,
}

impl Batch for ArrowBatch {
    fn rows(&self) -> usize {
        self.rows
    }

    fn append(
        &mut self,
        number: usize,
        (from, to): (usize, usize),
        column: &mut Column,
    ) -> Result<(), String> {
        append(column, &*self.arrays[number].slice(from, to - from), None, self.null_structs)
    }
}

/// True where values of an Arrow type can become those of a column as they are.
pub fn takes(found: &DataType, wanted: &Type) -> bool {
    if !wanted.children().is_empty() {
        return nested::takes(found, wanted);
    }
    if let DataType::Dictionary(key, value) = found {
        return **key == DataType::Int32
            && matches!(**value, DataType::Utf8 | DataType::Binary)
            && wanted.base == BaseType::String;
    }
    match (&wanted.base, found) {
        (BaseType::Int(bytes, signed), _) => {
            integer(found).is_some_and(|(own, own_signed)| match (own_signed, signed) {
                (true, true) | (false, false) => own <= *bytes,
                (false, true) => own < *bytes,
                (true, false) => false,
            })
        }
        (BaseType::Float32, DataType::Float32)
        | (BaseType::Float64, DataType::Float32 | DataType::Float64)
        | (BaseType::Bool, DataType::Boolean)
        | (BaseType::Date | BaseType::Date32, DataType::Date32)
        | (
            BaseType::String,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary,
        ) => true,
        (BaseType::FixedString(n), DataType::FixedSizeBinary(size)) => *n == *size as usize,
        (BaseType::DateTime(_), DataType::UInt32) => true,
        (BaseType::DateTime(_), DataType::Timestamp(unit, _)) => {
            matches!(unit, TimeUnit::Second | TimeUnit::Millisecond)
        }
        (BaseType::DateTime64(digits, _), DataType::Timestamp(unit, _)) => {
            // Old points in time (INT96) are nanoseconds, whatever their table says.
            let own = unit_digits(*unit);
            *digits == own || (*unit == TimeUnit::Nanosecond && *digits < own)
        }
        (BaseType::Decimal(_, digits, scale), DataType::Decimal128(precision, own)) => {
            *own >= 0 && *own as u8 == *scale && precision <= digits
        }
        _ => false,
    }
}

fn integer(found: &DataType) -> Option<(u8, bool)> {
    Some(match found {
        DataType::Int8 => (1, true),
        DataType::Int16 => (2, true),
        DataType::Int32 => (4, true),
        DataType::Int64 => (8, true),
        DataType::UInt8 => (1, false),
        DataType::UInt16 => (2, false),
        DataType::UInt32 => (4, false),
        DataType::UInt64 => (8, false),
        _ => return None,
    })
}

/// Digits behind the seconds.
fn unit_digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Append all values of an array that [`takes`] accepts; those are NULL, too, that stand in a struct
/// which is NULL by `outer`.
pub fn append(
    column: &mut Column,
    array: &dyn Array,
    outer: Option<&NullBuffer>,
    null_structs: NullStructs,
) -> Result<(), String> {
    let rows = array.len();
    let nulls = NullBuffer::union(outer, array.nulls()).filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.as_ref();
    if !column.children.is_empty() {
        return nested::append(column, array, nulls, null_structs);
    }
    if column.data_type.nullable {
        match nulls {
            None => column.nulls.resize(column.nulls.len() + rows, 0),
            Some(nulls) => column.nulls.extend(nulls.iter().map(|valid| u8::from(!valid))),
        }
    } else if nulls.is_some() {
        return Err("a NULL in a column that takes none".to_owned());
    }
    if let Some(mut keys) = column.keys.take() {
        let result = numbered(column, &mut keys, array, nulls);
        column.keys = Some(keys);
        return result;
    }
    match (&column.data_type.base.clone(), array.data_type()) {
        (BaseType::Int(width, _), _) => integers(column, array, nulls, usize::from(*width)),
        (BaseType::Float32, _) => plain(column, array.as_primitive::<Float32Type>(), nulls),
        (BaseType::Float64, DataType::Float64) => {
            plain(column, array.as_primitive::<Float64Type>(), nulls)
        }
        (BaseType::Float64, _) => {
            let values = array.as_primitive::<Float32Type>();
            convert(column, values, nulls, |v| Some(f64::from(v).to_le_bytes()))
        }
        (BaseType::Bool, _) => {
            let values = array.as_boolean();
            let start = column.data.len();
            column.data.extend(values.values().iter().map(u8::from));
            zero_nulls(&mut column.data[start..], 1, nulls);
            Ok(())
        }
        (BaseType::Date, _) => convert(column, array.as_primitive::<Date32Type>(), nulls, |v| {
            u16::try_from(v).ok().map(u16::to_le_bytes)
        }),
        (BaseType::Date32, _) => convert(column, array.as_primitive::<Date32Type>(), nulls, |v| {
            DATE32_DAYS.contains(&v).then(|| v.to_le_bytes())
        }),
        (BaseType::DateTime(_), DataType::UInt32) => {
            plain(column, array.as_primitive::<UInt32Type>(), nulls)
        }
        (BaseType::DateTime(_), DataType::Timestamp(TimeUnit::Second, _)) => {
            convert(column, array.as_primitive::<TimestampSecondType>(), nulls, |v| {
                u32::try_from(v).ok().map(u32::to_le_bytes)
            })
        }
        (BaseType::DateTime(_), _) => {
            convert(column, array.as_primitive::<TimestampMillisecondType>(), nulls, |v| {
                let whole = v % 1000 == 0;
                u32::try_from(v / 1000).ok().filter(|_| whole).map(u32::to_le_bytes)
            })
        }
        (BaseType::DateTime64(digits, _), _) => {
            let unit = 10i64.pow(u32::from(*digits));
            let (first, last) = DATETIME64_SECONDS;
            let fits = (first.saturating_mul(unit), last.saturating_mul(unit));
            let DataType::Timestamp(own, _) = array.data_type() else {
                return Err("values of another type".to_owned());
            };
            // Of finer times only those are taken that lose nothing.
            let more = 10i64.pow(u32::from(unit_digits(*own) - digits));
            match own {
                TimeUnit::Second => {
                    times(column, array.as_primitive::<TimestampSecondType>(), nulls, fits, more)
                }
                TimeUnit::Millisecond => {
                    let values = array.as_primitive::<TimestampMillisecondType>();
                    times(column, values, nulls, fits, more)
                }
                TimeUnit::Microsecond => {
                    let values = array.as_primitive::<TimestampMicrosecondType>();
                    times(column, values, nulls, fits, more)
                }
                TimeUnit::Nanosecond => {
                    let values = array.as_primitive::<TimestampNanosecondType>();
                    times(column, values, nulls, fits, more)
                }
            }
        }
        (BaseType::Decimal(width, digits, _), _) => {
            let values = array.as_primitive::<Decimal128Type>();
            let most = 10i128.checked_pow(u32::from(*digits)).unwrap_or(i128::MAX);
            let fits = move |v: &i128| v.unsigned_abs() < most.unsigned_abs();
            match width {
                4 => convert(column, values, nulls, |v| {
                    Some(v).filter(fits).map(|v| (v as i32).to_le_bytes())
                }),
                8 => convert(column, values, nulls, |v| {
                    Some(v).filter(fits).map(|v| (v as i64).to_le_bytes())
                }),
                16 => {
                    convert(column, values, nulls, |v| Some(v).filter(fits).map(i128::to_le_bytes))
                }
                _ => convert(column, values, nulls, |v| {
                    let mut wide = [if v < 0 { 255 } else { 0 }; 32];
                    wide[..16].copy_from_slice(&v.to_le_bytes());
                    Some(v).filter(fits).map(|_| wide)
                }),
            }
        }
        (BaseType::FixedString(width), _) => fixed_strings(column, array, nulls, *width),
        (BaseType::String, DataType::Utf8) => strings(column, array.as_string::<i32>(), nulls),
        (BaseType::String, DataType::LargeUtf8) => strings(column, array.as_string::<i64>(), nulls),
        (BaseType::String, DataType::Binary) => strings(column, array.as_binary::<i32>(), nulls),
        (BaseType::String, DataType::LargeBinary) => {
            strings(column, array.as_binary::<i64>(), nulls)
        }
        (BaseType::String, DataType::Dictionary(..)) => dictionary(column, array, nulls),
        _ => Err("values of another type".to_owned()),
    }
}

/// Append the numbers that strings have among the keys of a column.
fn numbered(
    column: &mut Column,
    keys: &mut Keys,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    match array.data_type() {
        DataType::Utf8 => number_strings(column, keys, array.as_string::<i32>(), nulls),
        DataType::LargeUtf8 => number_strings(column, keys, array.as_string::<i64>(), nulls),
        DataType::Binary => number_strings(column, keys, array.as_binary::<i32>(), nulls),
        DataType::LargeBinary => number_strings(column, keys, array.as_binary::<i64>(), nulls),
        _ => number_dictionary(column, keys, array, nulls),
    }
}

/// Check that the strings fit into memory, and their positions into 32 bits.
fn check_keys(keys: &Keys) -> Result<(), String> {
    if keys.bytes() > MOST_BYTES {
        return Err("different strings of more than 512 MiB in a block".to_owned());
    }
    Ok(())
}

fn number_strings<T: ByteArrayType>(
    column: &mut Column,
    keys: &mut Keys,
    array: &GenericByteArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    let (offsets, text) = (array.value_offsets(), array.value_data());
    for (row, ends) in offsets.windows(2).enumerate() {
        let number = match nulls {
            Some(nulls) if nulls.is_null(row) => 0,
            _ => keys.number(&text[ends[0].as_usize()..ends[1].as_usize()]),
        };
        column.data.extend_from_slice(&number.to_le_bytes());
        check_keys(keys)?;
    }
    Ok(())
}

/// Append the numbers of a dictionary's strings: each is looked up once for all batches of rows
/// that share the dictionary.
fn number_dictionary(
    column: &mut Column,
    keys: &mut Keys,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    let found = array.as_dictionary::<Int32Type>();
    let (offsets, text) = dictionary_strings(found)?;
    let numbers = keys.translate(
        offsets.as_ptr() as usize,
        offsets.len() - 1,
        |key| &text[offsets[key] as usize..offsets[key + 1] as usize],
        || Box::new(ArrayRef::clone(found.values())),
    );
    let rows = found.keys().values().iter();
    match nulls {
        None => {
            column.data.extend(rows.flat_map(|key| numbers[*key as usize].to_le_bytes()));
        }
        Some(nulls) => column.data.extend(rows.zip(nulls).flat_map(|(key, valid)| {
            if valid { numbers[*key as usize].to_le_bytes() } else { [0; 4] }
        })),
    }
    check_keys(keys)
}

/// The strings of a dictionary: where each starts and ends in a text.
fn dictionary_strings(found: &DictionaryArray<Int32Type>) -> Result<(&[i32], &[u8]), String> {
    let values = found.values();
    // A NULL among the values is one that the keys do not show.
    if values.null_count() > 0 {
        return Err("a dictionary that holds NULL".to_owned());
    }
    Ok(match values.data_type() {
        DataType::Utf8 => {
            let values = values.as_string::<i32>();
            (values.value_offsets(), values.value_data())
        }
        _ => {
            let values = values.as_binary::<i32>();
            (values.value_offsets(), values.value_data())
        }
    })
}

/// Append the values of a dictionary, each by its number.
fn dictionary(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    let found = array.as_dictionary::<Int32Type>();
    let (offsets, text) = dictionary_strings(found)?;
    let span = |key: usize| (offsets[key] as usize, offsets[key + 1] as usize);
    let keys = found.keys().values();
    let spans = keys.iter().enumerate().map(|(row, key)| match nulls {
        Some(nulls) if nulls.is_null(row) => (0, 0),
        _ => span(*key as usize),
    });
    put_strings(column, text, spans)
}

/// Append strings.
fn strings<T: ByteArrayType>(
    column: &mut Column,
    array: &GenericByteArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    let offsets = array.value_offsets();
    let spans = offsets.windows(2).enumerate().map(|(row, ends)| match nulls {
        Some(nulls) if nulls.is_null(row) => (0, 0),
        _ => (ends[0].as_usize(), ends[1].as_usize()),
    });
    put_strings(column, array.value_data(), spans)
}

/// A copy of so many bytes is made without a call, where there are as many behind the start.
const SHORT: usize = 16;

/// Bytes of the strings of a batch: a dictionary of a megabyte may mean gigabytes.
const MOST_BYTES: usize = 1 << 29;

/// Append pieces of a text as strings, from their starts to their ends.
fn put_strings(
    column: &mut Column,
    text: &[u8],
    spans: impl Iterator<Item = (usize, usize)>,
) -> Result<(), String> {
    let Column { data, sizes, keeps_sizes, .. } = column;
    let most = data.len() + MOST_BYTES;
    for (start, end) in spans {
        let value = &text[start..end];
        if data.len() + value.len() > most {
            return Err("strings of more than 512 MiB in a batch of rows".to_owned());
        }
        // Ten for the length.
        data.reserve(value.len() + 10 + SHORT);
        let before = data.len();
        // SAFETY: so much was reserved; a short copy reads inside of the text.
        unsafe {
            let to = data.as_mut_ptr().add(before);
            let used = write_varint(to, value.len());
            if value.len() <= SHORT && start + SHORT <= text.len() {
                copy_bytes::<0, SHORT>(value.as_ptr(), to.add(used));
            } else {
                std::ptr::copy_nonoverlapping(value.as_ptr(), to.add(used), value.len());
            }
            data.set_len(before + used + value.len());
        }
        if *keeps_sizes {
            sizes.push(u8::try_from(data.len() - before).unwrap_or(0));
        }
    }
    Ok(())
}

fn fixed_strings(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    width: usize,
) -> Result<(), String> {
    let array: &FixedSizeBinaryArray = array.as_fixed_size_binary();
    let start = column.data.len();
    column.data.extend_from_slice(array.value_data());
    if column.data.len() - start != array.len() * width {
        return Err("values of another width".to_owned());
    }
    zero_nulls(&mut column.data[start..], width, nulls);
    Ok(())
}

/// Write zeros over the values that are NULL, whatever was there: as the engine has them.
fn zero_nulls(data: &mut [u8], width: usize, nulls: Option<&NullBuffer>) {
    let Some(nulls) = nulls else { return };
    for (row, valid) in nulls.iter().enumerate() {
        if !valid {
            data[row * width..(row + 1) * width].fill(0);
        }
    }
}

/// Append values that are the same in both.
fn plain<T: ArrowPrimitiveType>(
    column: &mut Column,
    array: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    let start = column.data.len();
    column.data.extend_from_slice(array.values().inner().as_slice());
    zero_nulls(&mut column.data[start..], size_of::<T::Native>(), nulls);
    Ok(())
}

/// Append points in time that are multiples of `unit`, divided by it, all of them from the first to
/// the last number.
fn times<T: ArrowPrimitiveType<Native = i64>>(
    column: &mut Column,
    array: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
    (first, last): (i64, i64),
    unit: i64,
) -> Result<(), String> {
    if unit > 1 {
        return convert(column, array, nulls, |v| {
            let whole = v / unit;
            (v % unit == 0 && (first..=last).contains(&whole)).then(|| whole.to_le_bytes())
        });
    }
    let fits = |v: &i64| (first..=last).contains(v);
    let fine = match nulls {
        None => array.values().iter().all(fits),
        Some(nulls) => array.values().iter().zip(nulls).all(|(v, valid)| !valid || fits(v)),
    };
    if fine { plain(column, array, nulls) } else { Err(misfit(column)) }
}

fn misfit(column: &Column) -> String {
    format!("a value that may not fit {}", column.data_type.name)
}

/// Append values that are converted; None is one that does not fit.
fn convert<T: ArrowPrimitiveType, const N: usize>(
    column: &mut Column,
    array: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
    converted: impl Fn(T::Native) -> Option<[u8; N]>,
) -> Result<(), String> {
    column.data.reserve(array.len() * N);
    for (row, value) in array.values().iter().enumerate() {
        let null = nulls.is_some_and(|nulls| nulls.is_null(row));
        match if null { Some([0; N]) } else { converted(*value) } {
            Some(bytes) => column.data.extend_from_slice(&bytes),
            None => return Err(misfit(column)),
        }
    }
    Ok(())
}

/// Append integers, whose own type is as wide or narrower.
fn integers(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    width: usize,
) -> Result<(), String> {
    match array.data_type() {
        DataType::Int8 => widened(column, array.as_primitive::<Int8Type>(), nulls, width),
        DataType::Int16 => widened(column, array.as_primitive::<Int16Type>(), nulls, width),
        DataType::Int32 => widened(column, array.as_primitive::<Int32Type>(), nulls, width),
        DataType::Int64 => widened(column, array.as_primitive::<Int64Type>(), nulls, width),
        DataType::UInt8 => widened(column, array.as_primitive::<UInt8Type>(), nulls, width),
        DataType::UInt16 => widened(column, array.as_primitive::<UInt16Type>(), nulls, width),
        DataType::UInt32 => widened(column, array.as_primitive::<UInt32Type>(), nulls, width),
        DataType::UInt64 => widened(column, array.as_primitive::<UInt64Type>(), nulls, width),
        _ => Err("values of another type".to_owned()),
    }
}

fn widened<T: ArrowPrimitiveType>(
    column: &mut Column,
    array: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
    width: usize,
) -> Result<(), String>
where
    T::Native: Into<i128>,
{
    if size_of::<T::Native>() == width {
        return plain(column, array, nulls);
    }
    column.data.reserve(array.len() * width);
    for (row, value) in array.values().iter().enumerate() {
        let value: i128 = match nulls {
            Some(nulls) if nulls.is_null(row) => 0,
            _ => (*value).into(),
        };
        // Of Int256 the upper half repeats the sign.
        let mut bytes = [if value < 0 { 255 } else { 0 }; 32];
        bytes[..16].copy_from_slice(&value.to_le_bytes());
        column.data.extend_from_slice(&bytes[..width]);
    }
    Ok(())
}
