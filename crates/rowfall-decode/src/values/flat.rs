//! Decodes the fields of columns whose type is not nested: chooses the parser of the type, with
//! which one generic loop is compiled. The parsers are in the other modules.

use crate::column::Column;
use crate::text::fields::{Fields, NullMatch, Syntax};
use crate::types::{BaseType, TimeNotation, zone};
use crate::values::fixed_width::FixedWidth;
use crate::values::short_integers::{self, GROUP, Limits};
use crate::values::{bool_uuid_ip, decimal, float, integer, string, time, wide_integer};

/// Append the values of all fields to a column. The error is the row of the first field that is
/// declined.
pub fn decode<'a, C: Fields<'a>>(column: &mut Column, fields: &C) -> Result<(), usize> {
    if let Some(decoded) = fields.decode_binary(column) {
        return decoded;
    }
    let data_type = column.data_type.clone();
    let canonical = data_type.canonical;
    let delimited = matches!(C::SYNTAX, Syntax::Csv | Syntax::Tsv);
    match &data_type.base {
        BaseType::Int(1, true) => {
            decode_fixed(column, fields, integer::Signed::<i8>::new(canonical))
        }
        BaseType::Int(2, true) => {
            decode_fixed(column, fields, integer::Signed::<i16>::new(canonical))
        }
        BaseType::Int(4, true) => {
            decode_fixed(column, fields, integer::Signed::<i32>::new(canonical))
        }
        BaseType::Int(8, true) => {
            decode_fixed(column, fields, integer::Signed::<i64>::new(canonical))
        }
        BaseType::Int(1, false) => {
            decode_fixed(column, fields, integer::Unsigned::<u8>::new(canonical))
        }
        BaseType::Int(2, false) => {
            decode_fixed(column, fields, integer::Unsigned::<u16>::new(canonical))
        }
        BaseType::Int(4, false) => {
            decode_fixed(column, fields, integer::Unsigned::<u32>::new(canonical))
        }
        BaseType::Int(8, false) => {
            decode_fixed(column, fields, integer::Unsigned::<u64>::new(canonical))
        }
        BaseType::Int(16, signed) => {
            decode_fixed(column, fields, wide_integer::Int128 { signed: *signed })
        }
        BaseType::Int(_, signed) => {
            decode_fixed(column, fields, wide_integer::Int256 { signed: *signed })
        }
        BaseType::Float32 => decode_fixed(column, fields, float::F32 { nan: delimited }),
        BaseType::Float64 => decode_fixed(column, fields, float::F64 { canonical, nan: delimited }),
        BaseType::Decimal(4, p, s) => {
            decode_fixed(column, fields, decimal::SmallDecimal::<i32>::new(*p, *s))
        }
        BaseType::Decimal(8, p, s) => {
            decode_fixed(column, fields, decimal::SmallDecimal::<i64>::new(*p, *s))
        }
        BaseType::Decimal(16, p, s) => {
            decode_fixed(column, fields, decimal::WideDecimal::<2>::new(*p, *s))
        }
        BaseType::Decimal(_, p, s) => {
            decode_fixed(column, fields, decimal::WideDecimal::<4>::new(*p, *s))
        }
        // As elements of text 1 and 0 are no Bools to some versions of the engine.
        BaseType::Bool => decode_fixed(
            column,
            fields,
            bool_uuid_ip::Bool {
                digits: C::SYNTAX != Syntax::Quoted && !canonical,
                capitals: delimited,
            },
        ),
        BaseType::Date => decode_fixed(column, fields, time::Date::default()),
        BaseType::Date32 => decode_fixed(column, fields, time::Date32::default()),
        BaseType::DateTime(zone) => {
            decode_times(column, fields, time::DateTime::new(data_type.time_notation), zone)
        }
        BaseType::DateTime64(p, zone) => {
            decode_times(column, fields, time::DateTime64::new(*p, data_type.time_notation), zone)
        }
        BaseType::Uuid => decode_fixed(column, fields, bool_uuid_ip::Uuid),
        BaseType::Ipv4 => decode_fixed(column, fields, bool_uuid_ip::Ipv4),
        BaseType::Ipv6 => decode_fixed(column, fields, bool_uuid_ip::Ipv6),
        BaseType::Enum(1, elements) => string::enums::<C, i8>(column, fields, elements),
        BaseType::Enum(_, elements) => string::enums::<C, i16>(column, fields, elements),
        BaseType::FixedString(n) => string::fixed_strings(column, fields, *n),
        BaseType::String => string::strings(column, fields),
        BaseType::Array(_) | BaseType::Map(_) | BaseType::Tuple(..) => {
            unreachable!("nested::decode takes them")
        }
    }
}

pub fn decode_fixed<'a, C: Fields<'a>, P: FixedWidth>(
    column: &mut Column,
    fields: &C,
    parser: P,
) -> Result<(), usize> {
    if column.data_type.nullable {
        decode_all::<C, P, true>(column, fields, parser)
    } else {
        decode_all::<C, P, false>(column, fields, parser)
    }
}

/// Decode points in time of UTC or of a time zone; a `Z` behind them says UTC whatever the zone is.
fn decode_times<'a, C: Fields<'a>, P: FixedWidth + time::TimePoint>(
    column: &mut Column,
    fields: &C,
    parser: P,
    zone: &Option<String>,
) -> Result<(), usize> {
    match zone.as_deref().filter(|_| column.data_type.time_notation != TimeNotation::Z) {
        None => decode_fixed(column, fields, parser),
        Some(name) => {
            let zone = zone::Zone::new(name).expect("checked when the type was parsed");
            decode_fixed(column, fields, time::LocalTime { parser, zone })
        }
    }
}

/// Decode values of fixed width: find the field, drop its quotes, parse, store.
#[inline(always)]
fn decode_all<'a, C: Fields<'a>, P: FixedWidth, const NULLS: bool>(
    column: &mut Column,
    fields: &C,
    mut parser: P,
) -> Result<(), usize> {
    let rows = fields.batch().rows;
    let width = size_of::<P::Out>();
    column.data.reserve(rows * width);
    column.nulls.reserve(rows);
    let values = column.data.as_mut_ptr();
    // SAFETY: `len` bytes are in use, and `rows * width` more were reserved behind them.
    let values = unsafe { values.add(column.data.len()) };
    // SAFETY: the same for one byte a row.
    let marks = unsafe { column.nulls.as_mut_ptr().add(column.nulls.len()) };
    let put = |row: usize, (value, null): (P::Out, u8)| {
        debug_assert!(row < rows);
        // SAFETY: row < rows, see the reservations above.
        unsafe {
            values.add(row * width).cast::<P::Out>().write_unaligned(value);
            if NULLS {
                *marks.add(row) = null;
            }
        }
    };
    let leading_zeros = parser.takes_leading_zeros();
    let odd = OddFields { blank: column.data_type.blank, padded: column.data_type.padded };
    match P::MAX_SHORT {
        Some(most) if !matches!(C::SYNTAX, Syntax::Quoted | Syntax::Packet) => {
            let limits = Limits { most, leading_zeros };
            let (mut usual, mut numbers) = (true, [0; GROUP]);
            for first in (0..rows).step_by(GROUP) {
                let count = GROUP.min(rows - first);
                let mut left = u64::MAX >> (GROUP - count);
                if usual && count == GROUP {
                    let odd = short_integers::decode_group(fields, first, limits, &mut numbers);
                    for (n, number) in numbers.into_iter().enumerate() {
                        put(first + n, (P::from_short(number), 0));
                    }
                    left = odd;
                    // Long numbers and NULLs: looking twice is no gain.
                    usual = odd.count_ones() <= GROUP as u32 / 2;
                }
                while left != 0 {
                    let row = first + left.trailing_zeros() as usize;
                    put(row, decode_one::<C, P, NULLS>(fields, &mut parser, row, odd).ok_or(row)?);
                    left &= left - 1;
                }
            }
        }
        _ => {
            for row in 0..rows {
                put(row, decode_one::<C, P, NULLS>(fields, &mut parser, row, odd).ok_or(row)?);
            }
        }
    }
    // SAFETY: the loops wrote `rows` values, and as many marks where there are any.
    unsafe {
        column.data.set_len(column.data.len() + rows * width);
        if NULLS {
            column.nulls.set_len(column.nulls.len() + rows);
        }
    }
    Ok(())
}

/// What fields may be beside values as they are written: see [`crate::types::Type`].
#[derive(Clone, Copy)]
struct OddFields {
    blank: bool,
    padded: bool,
}

/// Decode one field: its value, and its NULL mark.
#[inline(always)]
fn decode_one<'a, C: Fields<'a>, P: FixedWidth, const NULLS: bool>(
    fields: &C,
    parser: &mut P,
    row: usize,
    odd: OddFields,
) -> Option<(P::Out, u8)> {
    let (from, to) = fields.bounds(row);
    if C::SYNTAX == Syntax::Packet && from == 0 {
        return NULLS.then_some((P::ZERO, 1));
    }
    let (start, end) = fields.unquoted(from, to);
    let bare = start == from;
    let fine = match C::SYNTAX {
        Syntax::Csv | Syntax::Tsv | Syntax::Packet => true,
        Syntax::Json => {
            if bare {
                P::UNQUOTED
            } else {
                P::QUOTED_ELEMENT || !C::ELEMENTS
            }
        }
        Syntax::Quoted => P::UNQUOTED == bare,
    };
    match parser.parse(fields.batch().text, start, end) {
        Some(value) if fine => Some((value, 0)),
        _ if NULLS && odd.blank && start == end => Some((P::ZERO, 1)),
        _ if NULLS && is_null::<C, P>(fields, from, to) => Some((P::ZERO, 1)),
        _ if odd.padded && fine => match trimmed(fields.batch().text, start, end) {
            (start, end) if start == end => (NULLS && odd.blank).then_some((P::ZERO, 1)),
            (start, end) => parser.parse(fields.batch().text, start, end).map(|value| (value, 0)),
        },
        _ => None,
    }
}

/// Start and end of `text[start..end]` without the blanks and tabs around it.
fn trimmed(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    let is_value = |byte: &u8| !matches!(byte, b' ' | b'\t');
    match text[start..end].iter().position(is_value) {
        None => (end, end),
        Some(before) => {
            let last = text[start..end].iter().rposition(is_value).unwrap_or(before);
            (start + before, start + last + 1)
        }
    }
}

#[inline(never)]
fn is_null<'a, C: Fields<'a>, P: FixedWidth>(fields: &C, from: usize, to: usize) -> bool {
    match fields.null_match(from, to) {
        NullMatch::Yes => true,
        NullMatch::OtherSpelling => P::OTHER_NULL_SPELLING,
        NullMatch::No => false,
    }
}
