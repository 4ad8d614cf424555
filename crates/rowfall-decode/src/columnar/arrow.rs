//! Copies arrays of Arrow into columns.
//!
//! Of pairs of types whose values are not the same in both, each value is converted if that loses
//! nothing (see [`convert`]); one that does not fit is declined, and the engine says what it is.

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
use std::ops::RangeInclusive;

use crate::column::Column;
use crate::column::keys::Keys;
use crate::column::reorder::{LOOKAHEAD, RowSelection, copy_bytes, gather_fixed, prefetch};
use crate::column::strings::write_varint;
use crate::types::{BaseType, Type};

/// The days that a Date32 holds: 1900-01-01 to 2299-12-31.
const DATE32_DAYS: RangeInclusive<i32> = -25_567..=120_529;
/// Digits by which a decimal may get more: 10^38 is the largest power in 128 bits.
const MOST_DIGITS: i32 = 38;
/// The seconds that a DateTime64 holds: the same days.
const DATETIME64_SECONDS: (i64, i64) = (-25_567 * 86_400, 120_530 * 86_400 - 1);

/// Call something with the values of an array of integers, whatever their type.
macro_rules! of_integers {
    ($array:expr, $values:ident => $then:expr) => {
        match $array.data_type() {
            DataType::Int8 => of_integers!(@ $array, Int8Type, $values => $then),
            DataType::Int16 => of_integers!(@ $array, Int16Type, $values => $then),
            DataType::Int32 => of_integers!(@ $array, Int32Type, $values => $then),
            DataType::Int64 => of_integers!(@ $array, Int64Type, $values => $then),
            DataType::UInt8 => of_integers!(@ $array, UInt8Type, $values => $then),
            DataType::UInt16 => of_integers!(@ $array, UInt16Type, $values => $then),
            DataType::UInt32 => of_integers!(@ $array, UInt32Type, $values => $then),
            DataType::UInt64 => of_integers!(@ $array, UInt64Type, $values => $then),
            _ => Err("values of another type".to_owned()),
        }
    };
    (@ $array:expr, $type:ty, $values:ident => $then:expr) => {{
        let $values = $array.as_primitive::<$type>();
        $then
    }};
}

/// Types of values in files, each with one that Arrow has for it.
pub const SAMPLES: &[(&str, DataType)] = &[
    ("Bool", DataType::Boolean),
    ("Int8", DataType::Int8),
    ("Int16", DataType::Int16),
    ("Int32", DataType::Int32),
    ("Int64", DataType::Int64),
    ("UInt8", DataType::UInt8),
    ("UInt16", DataType::UInt16),
    ("UInt32", DataType::UInt32),
    ("UInt64", DataType::UInt64),
    ("Float32", DataType::Float32),
    ("Float64", DataType::Float64),
    ("Decimal(38, 2)", DataType::Decimal128(38, 2)),
    ("String", DataType::Utf8),
    ("FixedString(8)", DataType::FixedSizeBinary(8)),
    ("Date32", DataType::Date32),
    ("DateTime64(6)", DataType::Timestamp(TimeUnit::Microsecond, None)),
];

/// True where values of an Arrow type can become those of a flat column.
pub fn takes(found: &DataType, wanted: &Type) -> bool {
    if let DataType::Dictionary(key, value) = found {
        return **key == DataType::Int32
            && matches!(**value, DataType::Utf8 | DataType::Binary)
            && matches!(wanted.base, BaseType::String | BaseType::FixedString(_));
    }
    match (&wanted.base, found) {
        (
            BaseType::Int(..) | BaseType::Float32 | BaseType::Float64,
            DataType::Float32 | DataType::Float64,
        )
        | (BaseType::Int(..) | BaseType::Bool, DataType::Boolean)
        | (BaseType::Date | BaseType::Date32, DataType::Date32)
        | (
            BaseType::String,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary,
        ) => true,
        (BaseType::FixedString(n), DataType::FixedSizeBinary(size)) => *n == *size as usize,
        (
            BaseType::FixedString(_),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary,
        )
        | (BaseType::DateTime(_), DataType::UInt32 | DataType::Timestamp(..))
        | (BaseType::DateTime64(..), DataType::Timestamp(..)) => true,
        (BaseType::Int(..), DataType::Decimal128(_, scale)) => *scale >= 0,
        (BaseType::Decimal(_, _, scale), DataType::Decimal128(_, own)) => {
            *own >= 0 && i32::from(*scale) - i32::from(*own) <= MOST_DIGITS
        }
        (BaseType::Decimal(_, _, scale), _) => {
            integer(found).is_some() && i32::from(*scale) <= MOST_DIGITS
        }
        (BaseType::Int(..) | BaseType::Float32 | BaseType::Float64 | BaseType::Bool, _) => {
            integer(found).is_some()
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

/// Append all values of an array that [`takes`] accepts, of which some are NULL by `nulls`.
pub fn append(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
) -> Result<(), String> {
    match nulls {
        None if column.data_type.nullable => {
            column.nulls.resize(column.nulls.len() + array.len(), 0);
        }
        None => {}
        Some(nulls) => mark_nulls(column, nulls.iter().map(|valid| !valid))?,
    }
    if let Some(mut keys) = column.keys.take() {
        let result = numbered(column, &mut keys, array, nulls);
        column.keys = Some(keys);
        return result;
    }
    match (&column.data_type.base.clone(), array.data_type()) {
        (BaseType::Float32, DataType::Float32) => {
            plain(column, array.as_primitive::<Float32Type>(), nulls)
        }
        (BaseType::Float64, DataType::Float64) => {
            plain(column, array.as_primitive::<Float64Type>(), nulls)
        }
        (BaseType::Float64, DataType::Float32) => {
            let values = array.as_primitive::<Float32Type>();
            convert(column, values, nulls, |v| Some(f64::from(v).to_le_bytes()))
        }
        (BaseType::Float32, DataType::Float64) => {
            convert(column, array.as_primitive::<Float64Type>(), nulls, |v| {
                let short = v as f32;
                (f64::from(short) == v || v.is_nan()).then(|| short.to_le_bytes())
            })
        }
        (BaseType::Int(width, _), DataType::Boolean) => {
            let ones = array.as_boolean().values().iter().map(i128::from);
            put_integers(column, ones.map(Some), nulls, usize::from(*width))
        }
        (BaseType::Int(width, signed), DataType::Float32 | DataType::Float64) => {
            let range = int_range(*width, *signed);
            let whole = |v: f64| {
                let number = v as i128;
                (number as f64 == v && range.contains(&number)).then_some(number)
            };
            match array.data_type() {
                DataType::Float32 => {
                    let values = array.as_primitive::<Float32Type>().values().iter();
                    let values = values.map(|v| whole(f64::from(*v)));
                    put_integers(column, values, nulls, usize::from(*width))
                }
                _ => {
                    let values = array.as_primitive::<Float64Type>().values().iter();
                    put_integers(column, values.map(|v| whole(*v)), nulls, usize::from(*width))
                }
            }
        }
        (BaseType::Int(width, signed), DataType::Decimal128(_, scale)) => {
            let (unit, range) = (power_of_ten(*scale as u8), int_range(*width, *signed));
            let values = array.as_primitive::<Decimal128Type>().values().iter();
            let values =
                values.map(|v| Some(v / unit).filter(|n| v % unit == 0 && range.contains(n)));
            put_integers(column, values, nulls, usize::from(*width))
        }
        (BaseType::Int(width, signed), _) => {
            integers(column, array, nulls, (usize::from(*width), *signed))
        }
        (BaseType::Float32, _) => numbers(column, array, nulls, |v| {
            Some(v as f32).filter(|f| *f as i128 == v).map(f32::to_le_bytes)
        }),
        (BaseType::Float64, _) => numbers(column, array, nulls, |v| {
            Some(v as f64).filter(|f| *f as i128 == v).map(f64::to_le_bytes)
        }),
        (BaseType::Bool, DataType::Boolean) => {
            let values = array.as_boolean();
            let start = column.data.len();
            column.data.extend(values.values().iter().map(u8::from));
            zero_nulls(&mut column.data[start..], 1, nulls);
            Ok(())
        }
        (BaseType::Bool, _) => {
            numbers(column, array, nulls, |v| u8::try_from(v).ok().filter(|v| *v < 2).map(|v| [v]))
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
        (BaseType::DateTime(_), DataType::Timestamp(own, _)) => {
            let unit = 10i64.pow(u32::from(unit_digits(*own)));
            moments(column, array, *own, nulls, |v| {
                // The engine refuses the last second.
                let fits = |seconds: &u32| v % unit == 0 && *seconds < u32::MAX;
                u32::try_from(v / unit).ok().filter(fits).map(u32::to_le_bytes)
            })
        }
        (BaseType::DateTime64(digits, _), DataType::Timestamp(own, _)) => {
            let unit = 10i64.pow(u32::from(*digits));
            let (first, last) = DATETIME64_SECONDS;
            let fits = first.saturating_mul(unit)..=last.saturating_mul(unit);
            let own_digits = unit_digits(*own);
            // Of finer times only those are taken that lose nothing.
            let finer = 10i64.pow(u32::from(own_digits.saturating_sub(*digits)));
            let coarser = 10i64.pow(u32::from(digits.saturating_sub(own_digits)));
            if finer == 1 && coarser == 1 {
                return same_moments(column, array, *own, nulls, &fits);
            }
            moments(column, array, *own, nulls, |v| {
                let whole = (v % finer == 0).then(|| (v / finer).checked_mul(coarser)).flatten();
                whole.filter(|v| fits.contains(v)).map(i64::to_le_bytes)
            })
        }
        (BaseType::Decimal(width, digits, scale), found) => {
            let own = if let DataType::Decimal128(_, own) = found { *own as u8 } else { 0 };
            let finer = power_of_ten(own.saturating_sub(*scale));
            let coarser = power_of_ten(scale.saturating_sub(own));
            let most = 10u128.checked_pow(u32::from(*digits)).unwrap_or(u128::MAX);
            let scaled = |v: i128| {
                let whole = (v % finer == 0).then(|| (v / finer).checked_mul(coarser)).flatten();
                whole.filter(|v| v.unsigned_abs() < most)
            };
            let width = usize::from(*width);
            if let DataType::Decimal128(..) = found {
                let values = array.as_primitive::<Decimal128Type>().values().iter();
                return put_integers(column, values.map(|v| scaled(*v)), nulls, width);
            }
            of_integers!(array, values => {
                let values = values.values().iter().map(|v| scaled(i128::from(*v)));
                put_integers(column, values, nulls, width)
            })
        }
        (BaseType::FixedString(width), DataType::Utf8) => {
            padded(column, spans(array.as_string::<i32>(), nulls), *width)
        }
        (BaseType::FixedString(width), DataType::LargeUtf8) => {
            padded(column, spans(array.as_string::<i64>(), nulls), *width)
        }
        (BaseType::FixedString(width), DataType::Binary) => {
            padded(column, spans(array.as_binary::<i32>(), nulls), *width)
        }
        (BaseType::FixedString(width), DataType::LargeBinary) => {
            padded(column, spans(array.as_binary::<i64>(), nulls), *width)
        }
        (BaseType::FixedString(width), DataType::Dictionary(..)) => {
            padded(column, dictionary_spans(array, nulls, 0..array.len())?, *width)
        }
        (BaseType::FixedString(width), _) => fixed_strings(column, array, nulls, *width),
        (BaseType::String, DataType::Utf8) => {
            put_strings(column, spans(array.as_string::<i32>(), nulls))
        }
        (BaseType::String, DataType::LargeUtf8) => {
            put_strings(column, spans(array.as_string::<i64>(), nulls))
        }
        (BaseType::String, DataType::Binary) => {
            put_strings(column, spans(array.as_binary::<i32>(), nulls))
        }
        (BaseType::String, DataType::LargeBinary) => {
            put_strings(column, spans(array.as_binary::<i64>(), nulls))
        }
        (BaseType::String, DataType::Dictionary(..)) => {
            put_strings(column, dictionary_spans(array, nulls, 0..array.len())?)
        }
        _ => Err("values of another type".to_owned()),
    }
}

/// Append all values of an array that [`takes`] accepts in an order, if they need no conversion:
/// else None.
pub fn append_in_order(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    order: &[u32],
) -> Option<Result<(), String>> {
    let kind = array.data_type();
    let strings = column.data_type.base == BaseType::String && column.keys.is_none();
    let same = if strings { None } else { Some(same_bytes(column, array)?) };
    if let Some(nulls) = nulls {
        if let Err(error) = mark_nulls(column, order.iter().map(|row| nulls.is_null(*row as usize)))
        {
            return Some(Err(error));
        }
    } else if column.data_type.nullable {
        column.nulls.resize(column.nulls.len() + order.len(), 0);
    }
    if let Some(values) = same {
        let (start, width) = (column.data.len(), column.data_type.width());
        gather_fixed(values, width, RowSelection::Order(order), &mut column.data)
            .expect("memory takes all");
        let room = column.data[start..].chunks_exact_mut(width);
        for (value, row) in room.zip(order).filter(|_| nulls.is_some()) {
            if nulls.is_some_and(|nulls| nulls.is_null(*row as usize)) {
                value.fill(0);
            }
        }
        return Some(Ok(()));
    }
    Some(match kind {
        DataType::Utf8 => put_strings(column, in_order(array.as_string::<i32>(), nulls, order)),
        DataType::LargeUtf8 => {
            put_strings(column, in_order(array.as_string::<i64>(), nulls, order))
        }
        DataType::Binary => put_strings(column, in_order(array.as_binary::<i32>(), nulls, order)),
        DataType::LargeBinary => {
            put_strings(column, in_order(array.as_binary::<i64>(), nulls, order))
        }
        _ => {
            let rows = order.iter().map(|row| *row as usize);
            dictionary_spans(array, nulls, rows).and_then(|found| put_strings(column, found))
        }
    })
}

/// The bytes of the values of an array that are the same in a column; None where they are not, and
/// for strings.
fn same_bytes<'a>(column: &Column, array: &'a dyn Array) -> Option<&'a [u8]> {
    fn bytes<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>) -> &[u8] {
        values.values().inner().as_slice()
    }
    match (&column.data_type.base, array.data_type()) {
        (BaseType::Float32, DataType::Float32) => Some(bytes(array.as_primitive::<Float32Type>())),
        (BaseType::Float64, DataType::Float64) => Some(bytes(array.as_primitive::<Float64Type>())),
        (BaseType::DateTime(_), DataType::UInt32) => {
            Some(bytes(array.as_primitive::<UInt32Type>()))
        }
        (BaseType::Int(width, signed), found) if integer(found) == Some((*width, *signed)) => {
            let found: Result<_, String> = of_integers!(array, values => Ok(bytes(values)));
            found.ok()
        }
        _ => None,
    }
}

/// Append the marks of values that are NULL.
fn mark_nulls(column: &mut Column, nulls: impl Iterator<Item = bool>) -> Result<(), String> {
    if !column.data_type.nullable {
        return Err("a NULL in a column that takes none".to_owned());
    }
    column.nulls.extend(nulls.map(u8::from));
    Ok(())
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

/// The text of a dictionary, and where in it the value of each of some rows is; NULL is empty.
fn dictionary_spans<'a>(
    array: &'a dyn Array,
    nulls: Option<&'a NullBuffer>,
    rows: impl Iterator<Item = usize> + 'a,
) -> Result<(&'a [u8], impl Iterator<Item = (usize, usize)> + 'a), String> {
    let found = array.as_dictionary::<Int32Type>();
    let (offsets, text) = dictionary_strings(found)?;
    let span = |key: usize| (offsets[key] as usize, offsets[key + 1] as usize);
    let keys = found.keys().values();
    let spans = rows.map(move |row| match nulls {
        Some(nulls) if nulls.is_null(row) => (0, 0),
        _ => span(keys[row] as usize),
    });
    Ok((text, spans))
}

/// The text of strings, and where in it those of an order are; NULL is empty.
fn in_order<'a, T: ByteArrayType>(
    array: &'a GenericByteArray<T>,
    nulls: Option<&'a NullBuffer>,
    order: &'a [u32],
) -> (&'a [u8], impl Iterator<Item = (usize, usize)> + 'a) {
    let (offsets, text) = (array.value_offsets(), array.value_data());
    let spans = order.iter().enumerate().map(move |(place, row)| {
        if let Some(later) = order.get(place + LOOKAHEAD) {
            prefetch(text, offsets[*later as usize].as_usize());
        }
        let row = *row as usize;
        match nulls {
            Some(nulls) if nulls.is_null(row) => (0, 0),
            _ => (offsets[row].as_usize(), offsets[row + 1].as_usize()),
        }
    });
    (text, spans)
}

/// The text of strings, and where in it each row is; NULL is empty.
fn spans<'a, T: ByteArrayType>(
    array: &'a GenericByteArray<T>,
    nulls: Option<&'a NullBuffer>,
) -> (&'a [u8], impl Iterator<Item = (usize, usize)> + 'a) {
    let offsets = array.value_offsets();
    let spans = offsets.windows(2).enumerate().map(move |(row, ends)| match nulls {
        Some(nulls) if nulls.is_null(row) => (0, 0),
        _ => (ends[0].as_usize(), ends[1].as_usize()),
    });
    (array.value_data(), spans)
}

/// A copy of so many bytes is made without a call, where there are as many behind the start.
const SHORT: usize = 16;

/// Bytes of the strings of a batch: a dictionary of a megabyte may mean gigabytes.
const MOST_BYTES: usize = 1 << 29;

/// Append pieces of a text as strings, from their starts to their ends.
fn put_strings(
    column: &mut Column,
    (text, spans): (&[u8], impl Iterator<Item = (usize, usize)>),
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

/// Append strings of so many bytes at most; zeros follow shorter ones.
fn padded(
    column: &mut Column,
    (text, spans): (&[u8], impl Iterator<Item = (usize, usize)>),
    width: usize,
) -> Result<(), String> {
    for (start, end) in spans {
        let before = column.data.len();
        if end - start > width {
            return Err(misfit(column));
        }
        column.data.extend_from_slice(&text[start..end]);
        column.data.resize(before + width, 0);
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

/// Append points in time that are the same in both, all of them in a range.
fn same_moments(
    column: &mut Column,
    array: &dyn Array,
    unit: TimeUnit,
    nulls: Option<&NullBuffer>,
    range: &RangeInclusive<i64>,
) -> Result<(), String> {
    let values = ticks(array, unit);
    let fine = match nulls {
        None => values.iter().all(|v| range.contains(v)),
        Some(nulls) => values.iter().zip(nulls).all(|(v, valid)| !valid || range.contains(v)),
    };
    if !fine {
        return Err(misfit(column));
    }
    let start = column.data.len();
    column.data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    zero_nulls(&mut column.data[start..], size_of::<i64>(), nulls);
    Ok(())
}

/// Append points in time that are converted.
fn moments<const N: usize>(
    column: &mut Column,
    array: &dyn Array,
    unit: TimeUnit,
    nulls: Option<&NullBuffer>,
    converted: impl Fn(i64) -> Option<[u8; N]>,
) -> Result<(), String> {
    convert_values(column, ticks(array, unit).iter().copied(), nulls, converted)
}

/// The numbers of an array of points in time.
fn ticks(array: &dyn Array, unit: TimeUnit) -> &[i64] {
    match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
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
    convert_values(column, array.values().iter().copied(), nulls, converted)
}

fn convert_values<V, const N: usize>(
    column: &mut Column,
    values: impl ExactSizeIterator<Item = V>,
    nulls: Option<&NullBuffer>,
    converted: impl Fn(V) -> Option<[u8; N]>,
) -> Result<(), String> {
    column.data.reserve(values.len() * N);
    for (row, value) in values.enumerate() {
        let null = nulls.is_some_and(|nulls| nulls.is_null(row));
        match if null { Some([0; N]) } else { converted(value) } {
            Some(bytes) => column.data.extend_from_slice(&bytes),
            None => return Err(misfit(column)),
        }
    }
    Ok(())
}

/// Append integers that are converted.
fn numbers<const N: usize>(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    converted: impl Fn(i128) -> Option<[u8; N]>,
) -> Result<(), String> {
    of_integers!(array, values => convert(column, values, nulls, |v| converted(i128::from(v))))
}

/// Append integers as integers of another width, or signed otherwise.
fn integers(
    column: &mut Column,
    array: &dyn Array,
    nulls: Option<&NullBuffer>,
    wanted: (usize, bool),
) -> Result<(), String> {
    let (own, own_signed) = integer(array.data_type()).ok_or("values of another type")?;
    if (usize::from(own), own_signed) == wanted {
        return of_integers!(array, values => plain(column, values, nulls));
    }
    of_integers!(array, values => recast(column, values, nulls, wanted))
}

fn recast<T: ArrowPrimitiveType>(
    column: &mut Column,
    values: &PrimitiveArray<T>,
    nulls: Option<&NullBuffer>,
    wanted: (usize, bool),
) -> Result<(), String>
where
    T::Native: Into<i128>,
    i8: TryFrom<T::Native>,
    i16: TryFrom<T::Native>,
    i32: TryFrom<T::Native>,
    i64: TryFrom<T::Native>,
    u8: TryFrom<T::Native>,
    u16: TryFrom<T::Native>,
    u32: TryFrom<T::Native>,
    u64: TryFrom<T::Native>,
{
    match wanted {
        (1, true) => convert(column, values, nulls, |v| i8::try_from(v).ok().map(i8::to_le_bytes)),
        (1, false) => convert(column, values, nulls, |v| u8::try_from(v).ok().map(u8::to_le_bytes)),
        (2, true) => {
            convert(column, values, nulls, |v| i16::try_from(v).ok().map(i16::to_le_bytes))
        }
        (2, false) => {
            convert(column, values, nulls, |v| u16::try_from(v).ok().map(u16::to_le_bytes))
        }
        (4, true) => {
            convert(column, values, nulls, |v| i32::try_from(v).ok().map(i32::to_le_bytes))
        }
        (4, false) => {
            convert(column, values, nulls, |v| u32::try_from(v).ok().map(u32::to_le_bytes))
        }
        (8, true) => {
            convert(column, values, nulls, |v| i64::try_from(v).ok().map(i64::to_le_bytes))
        }
        (8, false) => {
            convert(column, values, nulls, |v| u64::try_from(v).ok().map(u64::to_le_bytes))
        }
        (16, signed) => convert(column, values, nulls, |v| {
            Some(v.into()).filter(|v| signed || *v >= 0).map(i128::to_le_bytes)
        }),
        (_, signed) => convert(column, values, nulls, |v| {
            Some(v.into()).filter(|v| signed || *v >= 0).map(wide)
        }),
    }
}

/// The integers of a type that an `i128` holds as well.
fn int_range(width: u8, signed: bool) -> RangeInclusive<i128> {
    match (width, signed) {
        (16.., true) => i128::MIN..=i128::MAX,
        (16.., false) => 0..=i128::MAX,
        (_, true) => -(1 << (8 * width - 1))..=(1 << (8 * width - 1)) - 1,
        (_, false) => 0..=(1 << (8 * width)) - 1,
    }
}

/// 10 to the power of [`MOST_DIGITS`] at most, as [`takes`] has made sure.
fn power_of_ten(digits: u8) -> i128 {
    10i128.pow(u32::from(digits))
}

/// An integer of 256 bits: of all above 128 the sign is repeated.
fn wide(value: i128) -> [u8; 32] {
    let mut bytes = [if value < 0 { 255 } else { 0 }; 32];
    bytes[..16].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Append integers that are known to fit into so many bytes; None is one that does not.
fn put_integers(
    column: &mut Column,
    values: impl ExactSizeIterator<Item = Option<i128>>,
    nulls: Option<&NullBuffer>,
    width: usize,
) -> Result<(), String> {
    column.data.reserve(values.len() * width);
    for (row, value) in values.enumerate() {
        let null = nulls.is_some_and(|nulls| nulls.is_null(row));
        let Some(value) = (if null { Some(0) } else { value }) else {
            return Err(misfit(column));
        };
        column.data.extend_from_slice(&wide(value)[..width]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::reorder::append_rows;
    use arrow_array::{BinaryArray, Float64Array, Int16Array};
    use arrow_array::{LargeStringArray, StringArray, UInt32Array};
    use std::sync::Arc;

    /// What is appended in an order is what is appended as it comes and ordered then.
    #[test]
    fn values_in_an_order() {
        let texts = [Some("a"), None, Some(""), Some("longer than sixteen bytes"), Some("a")];
        let whole = texts.map(Option::unwrap_or_default).to_vec();
        let numbers = [Some(1i16), None, Some(-3), Some(0), Some(7)].to_vec();
        let floats: Vec<Option<f64>> = numbers.iter().map(|n| n.map(f64::from)).collect();
        let bytes: Vec<&[u8]> = whole.iter().map(|text| text.as_bytes()).collect();
        let keys: DictionaryArray<Int32Type> = texts.into_iter().collect();
        let string: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let counted: ArrayRef = Arc::new(Int16Array::from(vec![5, 4, 3, 2, 1]));
        // With the type of a column, and whether it takes the values without converting them.
        let cases: Vec<(ArrayRef, &str, bool)> = vec![
            (Arc::new(Int16Array::from(numbers)), "Nullable(Int16)", true),
            (Arc::clone(&counted), "Int16", true),
            (counted, "Int64", false),
            (Arc::new(UInt32Array::from(vec![5, 4, 3, 2, 1])), "DateTime", true),
            (Arc::new(Float64Array::from(floats.clone())), "Nullable(Float64)", true),
            (Arc::new(Float64Array::from(floats)), "Nullable(Float32)", false),
            (Arc::clone(&string), "Nullable(String)", true),
            (Arc::clone(&string), "String", true),
            (string, "Nullable(FixedString(25))", false),
            (Arc::new(StringArray::from(whole.clone())), "String", true),
            (Arc::new(LargeStringArray::from(whole)), "String", true),
            (Arc::new(BinaryArray::from(bytes)), "String", true),
            (Arc::new(keys), "Nullable(String)", true),
        ];
        let order = [3, 0, 4, 2, 1];
        for (array, name, direct) in cases {
            let column = || {
                let mut column = Column::new(Type::parse(name, Some("UTC")).expect("a type"));
                column.keeps_sizes = column.data_type.base == BaseType::String;
                column
            };
            let (mut unsorted, mut wanted, mut found) = (column(), column(), column());
            let refused = append(&mut unsorted, &array, array.nulls()).is_err();
            let result = append_in_order(&mut found, &array, array.nulls(), &order);
            assert_eq!(result.is_some(), direct, "{name}");
            let Some(result) = result else { continue };
            assert_eq!(result.is_err(), refused, "{name}");
            if !refused {
                append_rows(&mut wanted, &unsorted, order.len(), RowSelection::Order(&order));
                let parts = |column: Column| (column.data, column.nulls, column.sizes);
                assert_eq!(parts(found), parts(wanted), "{name}");
            }
        }
    }
}
