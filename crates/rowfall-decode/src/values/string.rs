//! Decodes strings, fixed strings and enums: bytes as they are, without quotes and escapes.

use std::collections::HashMap;

use crate::column::Column;
use crate::column::strings::write_varint;
use crate::text::escapes::unescape;
use crate::text::fields::{Fields, Syntax};
use crate::text::json::value::is_plain_value;

/// The content of a field of text.
enum StringField<'a> {
    Null,
    Plain(usize, usize),
    Unescaped(&'a [u8]),
}

/// The checks that the fields of a column need.
#[derive(Clone, Copy)]
struct Checks {
    nullable: bool,
    /// Fields without quotes may be NULL or have blanks around them.
    bare: bool,
    /// Fields may hold escapes, or line breaks where none are allowed.
    inside: bool,
    /// Objects, arrays, numbers and words of JSON are kept as they are written.
    raw: bool,
}

impl Checks {
    fn of<'t, C: Fields<'t>>(fields: &C, nullable: bool) -> Checks {
        let batch = fields.batch();
        Checks {
            nullable,
            bare: (nullable && batch.options.null_is_empty) || batch.options.trim,
            inside: batch.escapes || (batch.has_line_breaks && !batch.options.line_breaks),
            raw: false,
        }
    }
}

/// Read a field with the checks that its column needs; None where it is declined.
#[inline(always)]
fn read_field<'a, 't, C: Fields<'t>>(
    fields: &C,
    row: usize,
    Checks { nullable, bare, inside, raw }: Checks,
    scratch: &'a mut Vec<u8>,
) -> Option<StringField<'a>> {
    let text = fields.batch().text;
    let (from, to) = fields.bounds(row);
    let (start, end) = fields.unquoted(from, to);
    let quoted = start != from;
    if C::SYNTAX == Syntax::Packet {
        return match from {
            0 => nullable.then_some(StringField::Null),
            _ => Some(StringField::Plain(start, end)),
        };
    }
    if C::SYNTAX == Syntax::Json && !quoted {
        let null = from == 0 || &text[from..to] == b"null";
        if !null && raw && is_plain_value(&text[from..to]) {
            return Some(StringField::Plain(from, to));
        }
        return (nullable && null).then_some(StringField::Null);
    }
    if C::SYNTAX == Syntax::Quoted && !quoted {
        return (nullable && &text[from..to] == b"NULL").then_some(StringField::Null);
    }
    if matches!(C::SYNTAX, Syntax::Csv | Syntax::Tsv) {
        if end - start == 2 && text[start] == b'\\' && text[start + 1] == b'N' {
            // What the engine makes of a quoted one depends on its settings.
            return (nullable && !quoted).then_some(StringField::Null);
        }
        if C::SYNTAX == Syntax::Csv && !quoted && bare {
            if start == end && nullable && fields.batch().options.null_is_empty {
                return Some(StringField::Null);
            }
            if start < end
                && fields.batch().options.trim
                && (blank(text[start]) || blank(text[end - 1]))
            {
                return None;
            }
        }
    }
    if !inside {
        return Some(StringField::Plain(start, end));
    }
    if fields.batch().has_line_breaks
        && !fields.batch().options.line_breaks
        && text[start..end].contains(&b'\n')
    {
        return None;
    }
    if fields.batch().escapes && (C::SYNTAX != Syntax::Csv || quoted) {
        let mark = if C::SYNTAX == Syntax::Csv { b'"' } else { b'\\' };
        if text[start..end].contains(&mark) {
            scratch.clear();
            unescape(C::SYNTAX, &text[start..end], scratch)?;
            return Some(StringField::Unescaped(scratch));
        }
    }
    Some(StringField::Plain(start, end))
}

#[inline(always)]
fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Append strings, each behind its length: 16 bytes at once where it is short. The error is the row
/// of the first one that is declined.
pub fn strings<'a, C: Fields<'a>>(column: &mut Column, fields: &C) -> Result<(), usize> {
    let nullable = column.data_type.nullable;
    let raw = C::SYNTAX == Syntax::Json && !C::ELEMENTS;
    let checks = Checks { raw, ..Checks::of(fields, nullable) };
    let rows = fields.batch().rows;
    let text = fields.batch().text;
    let mut scratch = Vec::new();
    if rows == 0 {
        return Ok(());
    }
    // All fields together are no longer than the text they stand in; each has its length before it.
    let most = fields.text_bytes() + rows * 10 + 64;
    column.data.reserve(most);
    let base = column.data.as_mut_ptr();
    let mut at = column.data.len();
    let limit = at + most;
    let (used, kept) = (column.nulls.len(), column.sizes.len());
    column.nulls.resize(used + if nullable { rows } else { 0 }, 0);
    column.sizes.resize(kept + if column.keeps_sizes { rows } else { 0 }, 0);
    let (nulls, sizes) = (&mut column.nulls[used..], &mut column.sizes[kept..]);
    for row in 0..rows {
        let found = read_field(fields, row, checks, &mut scratch);
        let start = at;
        // SAFETY: `most` bytes were reserved: 10 a row, the fields' own, and 64 more. Unescaped
        // text is shorter than its field. 64 bytes are readable behind any position of the text.
        unsafe {
            match found {
                Some(StringField::Plain(from, end)) => {
                    let len = end - from;
                    at += write_varint(base.add(at), len);
                    let from = text.as_ptr().add(from);
                    debug_assert!(at + len + 16 <= limit && end + 16 <= text.len());
                    if len <= 16 {
                        let word = from.cast::<u128>().read_unaligned();
                        base.add(at).cast::<u128>().write_unaligned(word);
                    } else if len <= 64 {
                        copy64(from, base.add(at), len);
                    } else {
                        std::ptr::copy_nonoverlapping(from, base.add(at), len);
                    }
                    at += len;
                }
                Some(StringField::Null) => {
                    *base.add(at) = 0;
                    at += 1;
                    // There is none in a column that is not nullable, and no NULL either.
                    if let Some(null) = nulls.get_mut(row) {
                        *null = 1;
                    }
                }
                Some(StringField::Unescaped(value)) => {
                    at += write_varint(base.add(at), value.len());
                    debug_assert!(at + value.len() <= limit);
                    std::ptr::copy_nonoverlapping(value.as_ptr(), base.add(at), value.len());
                    at += value.len();
                }
                None => return Err(row),
            }
        }
        if let Some(size) = sizes.get_mut(row) {
            *size = u8::try_from(at - start).unwrap_or(0);
        }
    }
    // SAFETY: everything up to `at` was written.
    unsafe { column.data.set_len(at) };
    Ok(())
}

/// Copy 17 to 64 bytes in steps of 16.
///
/// SAFETY: `len` bytes, rounded up to 16, are readable and writable.
#[inline(always)]
unsafe fn copy64(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's promise.
        unsafe {
            let word = from.add(done).cast::<u128>().read_unaligned();
            to.add(done).cast::<u128>().write_unaligned(word);
        }
        done += 16;
    }
}

/// Append strings of `n` bytes, filled up with zero bytes; longer ones are declined.
pub fn fixed_strings<'a, C: Fields<'a>>(
    column: &mut Column,
    fields: &C,
    n: usize,
) -> Result<(), usize> {
    let nullable = column.data_type.nullable;
    let checks = Checks::of(fields, nullable);
    let text = fields.batch().text;
    let mut scratch = Vec::new();
    column.data.reserve(fields.batch().rows * n);
    for row in 0..fields.batch().rows {
        let found = read_field(fields, row, checks, &mut scratch).ok_or(row)?;
        if nullable {
            column.nulls.push(u8::from(matches!(found, StringField::Null)));
        }
        let value = match &found {
            StringField::Null => &[][..],
            StringField::Plain(start, end) => &text[*start..*end],
            StringField::Unescaped(value) => value,
        };
        if value.len() > n || (value.is_empty() && !matches!(found, StringField::Null)) {
            return Err(row);
        }
        if n == 1 {
            column.data.push(value.first().copied().unwrap_or(0));
        } else {
            column.data.extend_from_slice(value);
            column.data.extend(std::iter::repeat_n(0, n - value.len()));
        }
    }
    Ok(())
}

/// The number of an enum's element, of 8 or 16 bits.
pub trait EnumCode: Copy {
    /// Append the number as its bytes.
    fn put(value: i16, out: &mut Vec<u8>);
}

impl EnumCode for i8 {
    fn put(value: i16, out: &mut Vec<u8>) {
        out.push(value as u8);
    }
}

impl EnumCode for i16 {
    fn put(value: i16, out: &mut Vec<u8>) {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Append enums by the names of their elements; numbers are declined, as rowfall reads names.
pub fn enums<'a, C: Fields<'a>, T: EnumCode>(
    column: &mut Column,
    fields: &C,
    elements: &[(Vec<u8>, i16)],
) -> Result<(), usize> {
    let nullable = column.data_type.nullable;
    let checks = Checks::of(fields, nullable);
    let numbers: HashMap<&[u8], i16> = elements.iter().map(|(n, v)| (n.as_slice(), *v)).collect();
    let text = fields.batch().text;
    let mut scratch = Vec::new();
    for row in 0..fields.batch().rows {
        let found = read_field(fields, row, checks, &mut scratch).ok_or(row)?;
        if nullable {
            column.nulls.push(u8::from(matches!(found, StringField::Null)));
        }
        let value = match &found {
            StringField::Null => {
                T::put(0, &mut column.data);
                continue;
            }
            StringField::Plain(start, end) => &text[*start..*end],
            StringField::Unescaped(value) => value,
        };
        T::put(*numbers.get(value).ok_or(row)?, &mut column.data);
    }
    Ok(())
}
