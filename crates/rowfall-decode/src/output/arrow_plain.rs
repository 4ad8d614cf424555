//! Columns in the types of Arrow that every database has: numbers and times as they are, all else as
//! text.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, TimeUnit};

use crate::column::Column;
use crate::column::strings::read_varint;
use crate::output::text::Texts;
use crate::types::{BaseType, Type};

/// The unit of points in time.
pub fn unit(digits: u8) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// The type of Arrow for values of a type that is not nested.
pub fn kind(data_type: &Type) -> DataType {
    let utc = || Some(Arc::from("UTC"));
    match &data_type.base {
        BaseType::Int(1, true) => DataType::Int8,
        BaseType::Int(2, true) => DataType::Int16,
        BaseType::Int(4, true) => DataType::Int32,
        BaseType::Int(8, true) => DataType::Int64,
        BaseType::Int(1, false) => DataType::UInt8,
        BaseType::Int(2, false) => DataType::UInt16,
        BaseType::Int(4, false) => DataType::UInt32,
        BaseType::Int(8, false) => DataType::UInt64,
        BaseType::Float32 => DataType::Float32,
        BaseType::Float64 => DataType::Float64,
        BaseType::Decimal(bytes, digits, scale) if *bytes <= 16 => {
            DataType::Decimal128(*digits, *scale as i8)
        }
        BaseType::Bool => DataType::Boolean,
        BaseType::Date | BaseType::Date32 => DataType::Date32,
        BaseType::DateTime(_) => DataType::Timestamp(TimeUnit::Second, utc()),
        BaseType::DateTime64(digits, _) => DataType::Timestamp(unit(*digits), utc()),
        BaseType::FixedString(n) => DataType::FixedSizeBinary(*n as i32),
        _ => DataType::Utf8,
    }
}

pub fn nulls_of(column: &Column, rows: usize) -> Option<NullBuffer> {
    let nulls = &column.nulls;
    let valid = || BooleanBuffer::collect_bool(rows, |row| nulls[row] == 0);
    (!nulls.is_empty()).then(|| NullBuffer::new(valid()))
}

/// Values that Arrow has in the same bytes.
fn same<T: ArrowPrimitiveType>(column: &Column, rows: usize, kind: &DataType) -> ArrayRef {
    let values = ScalarBuffer::<T::Native>::new(Buffer::from(&column.data[..]), 0, rows);
    let found = PrimitiveArray::<T>::new(values, nulls_of(column, rows));
    Arc::new(found.with_data_type(kind.clone()))
}

/// Values of `N` bytes that Arrow has in more.
fn wider<T: ArrowPrimitiveType, const N: usize>(
    column: &Column,
    rows: usize,
    kind: &DataType,
    value: impl Fn([u8; N]) -> T::Native,
) -> ArrayRef
where
    T::Native: ArrowNativeType,
{
    let (values, _) = column.data.as_chunks::<N>();
    let values: Vec<T::Native> = values[..rows].iter().map(|bytes| value(*bytes)).collect();
    let found = PrimitiveArray::<T>::new(values.into(), nulls_of(column, rows));
    Arc::new(found.with_data_type(kind.clone()))
}

fn moments(column: &Column, rows: usize, kind: &DataType, digits: u8) -> ArrayRef {
    let unit = if digits == 0 { 0 } else { digits.div_ceil(3) * 3 };
    let factor = 10i64.pow((unit - digits).into());
    // A value that is NULL may be any.
    let value = |bytes| i64::from_le_bytes(bytes).wrapping_mul(factor);
    match unit {
        0 => wider::<TimestampSecondType, 8>(column, rows, kind, value),
        3 => wider::<TimestampMillisecondType, 8>(column, rows, kind, value),
        6 => wider::<TimestampMicrosecondType, 8>(column, rows, kind, value),
        _ => wider::<TimestampNanosecondType, 8>(column, rows, kind, value),
    }
}

/// The array of so many values; `to`: its type, which may have a time zone.
pub fn array(column: &Column, rows: usize, to: &DataType, texts: &Texts) -> ArrayRef {
    match &column.data_type.base {
        BaseType::Int(1, true) => same::<Int8Type>(column, rows, to),
        BaseType::Int(2, true) => same::<Int16Type>(column, rows, to),
        BaseType::Int(4, true) => same::<Int32Type>(column, rows, to),
        BaseType::Int(8, true) => same::<Int64Type>(column, rows, to),
        BaseType::Int(1, false) => same::<UInt8Type>(column, rows, to),
        BaseType::Int(2, false) => same::<UInt16Type>(column, rows, to),
        BaseType::Int(4, false) => same::<UInt32Type>(column, rows, to),
        BaseType::Int(8, false) => same::<UInt64Type>(column, rows, to),
        BaseType::Float32 => same::<Float32Type>(column, rows, to),
        BaseType::Float64 => same::<Float64Type>(column, rows, to),
        BaseType::Date32 => same::<Date32Type>(column, rows, to),
        BaseType::Decimal(4, ..) => {
            wider::<Decimal128Type, 4>(column, rows, to, |v| i32::from_le_bytes(v).into())
        }
        BaseType::Decimal(8, ..) => {
            wider::<Decimal128Type, 8>(column, rows, to, |v| i64::from_le_bytes(v).into())
        }
        BaseType::Decimal(16, ..) => same::<Decimal128Type>(column, rows, to),
        BaseType::Bool => {
            let values = BooleanBuffer::collect_bool(rows, |row| column.data[row] != 0);
            Arc::new(BooleanArray::new(values, nulls_of(column, rows)))
        }
        BaseType::Date => {
            wider::<Date32Type, 2>(column, rows, to, |v| u16::from_le_bytes(v).into())
        }
        BaseType::DateTime(_) => {
            wider::<TimestampSecondType, 4>(column, rows, to, |v| u32::from_le_bytes(v).into())
        }
        BaseType::DateTime64(digits, _) => moments(column, rows, to, *digits),
        BaseType::FixedString(n) => {
            let values = Buffer::from(&column.data[..]);
            Arc::new(FixedSizeBinaryArray::new(*n as i32, values, nulls_of(column, rows)))
        }
        BaseType::String => strings(column, rows),
        _ => {
            let (ends, bytes) = texts.write(column, rows);
            text_array(ends, bytes, nulls_of(column, rows))
        }
    }
}

fn strings(column: &Column, rows: usize) -> ArrayRef {
    let (ends, bytes) = string_parts(column, rows);
    text_array(ends, bytes, nulls_of(column, rows))
}

/// Where the strings of a column begin and end, and their bytes.
pub fn string_parts(column: &Column, rows: usize) -> (Vec<i32>, Vec<u8>) {
    let data = &column.data[..];
    let mut bytes = Vec::with_capacity(data.len());
    let mut ends = Vec::with_capacity(rows + 1);
    let mut at = 0;
    ends.push(0);
    for _ in 0..rows {
        let (len, used) = read_varint(&data[at..]);
        at += used;
        bytes.extend_from_slice(&data[at..at + len]);
        at += len;
        ends.push(bytes.len() as i32);
    }
    (ends, bytes)
}

/// Any bytes: whoever reads the stream knows whether they have to be text.
pub fn text_array(ends: Vec<i32>, bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    let ends = OffsetBuffer::new(ends.into());
    // SAFETY: the bytes are looked at by nobody here, and written as they are.
    Arc::new(unsafe { StringArray::new_unchecked(ends, Buffer::from_vec(bytes), nulls) })
}
