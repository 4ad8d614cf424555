//! Strings, fixed strings and enums: bytes as they are, without quotes and escapes.

use std::collections::HashMap;

use crate::column::Column;
use crate::column::strings::put_length;
use crate::text::escapes::unescape;
use crate::text::fields::{Cells, Style};

/// What a text cell turned out to be.
enum Found<'a> {
    Null,
    Plain(usize, usize),
    Unescaped(&'a [u8]),
}

/// What cells of a column have to be looked at for.
#[derive(Clone, Copy)]
struct Care {
    nullable: bool,
    /// Without quotes they may be NULL or have blanks around them.
    bare: bool,
    /// They may hold escapes, or line breaks where none may be.
    inside: bool,
}

impl Care {
    fn of<'t, C: Cells<'t>>(cells: &C, nullable: bool) -> Care {
        let page = cells.page();
        Care {
            nullable,
            bare: (nullable && page.rules.null_is_empty) || page.rules.trim,
            inside: page.escapes || (page.broken && !page.rules.breaks),
        }
    }
}

/// Look at a cell in every way that text can be unusual.
#[inline(always)]
fn look<'a, 't, C: Cells<'t>>(
    cells: &C,
    row: usize,
    Care { nullable, bare, inside }: Care,
    scratch: &'a mut Vec<u8>,
) -> Option<Found<'a>> {
    let text = cells.page().text;
    let (from, to) = cells.get(row);
    let (start, end) = cells.unquote(from, to);
    let quoted = start != from;
    if C::STYLE == Style::Json && !quoted {
        let null = from == 0 || &text[from..to] == b"null";
        return (nullable && null).then_some(Found::Null);
    }
    if C::STYLE == Style::Quoted && !quoted {
        return (nullable && &text[from..to] == b"NULL").then_some(Found::Null);
    }
    if matches!(C::STYLE, Style::Csv | Style::Tsv) {
        if end - start == 2 && text[start] == b'\\' && text[start + 1] == b'N' {
            // What the engine makes of a quoted one depends on its settings.
            return (nullable && !quoted).then_some(Found::Null);
        }
        if C::STYLE == Style::Csv && !quoted && bare {
            if start == end && nullable && cells.page().rules.null_is_empty {
                return Some(Found::Null);
            }
            if start < end
                && cells.page().rules.trim
                && (blank(text[start]) || blank(text[end - 1]))
            {
                return None;
            }
        }
    }
    if !inside {
        return Some(Found::Plain(start, end));
    }
    if cells.page().broken && !cells.page().rules.breaks && text[start..end].contains(&b'\n') {
        return None;
    }
    if cells.page().escapes && (C::STYLE != Style::Csv || quoted) {
        let mark = if C::STYLE == Style::Csv { b'"' } else { b'\\' };
        if text[start..end].contains(&mark) {
            scratch.clear();
            unescape(C::STYLE, &text[start..end], scratch)?;
            return Some(Found::Unescaped(scratch));
        }
    }
    Some(Found::Plain(start, end))
}

#[inline(always)]
fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Strings: each one copied behind its length, 16 bytes at once where it is short.
pub fn strings<'a, C: Cells<'a>>(column: &mut Column, cells: &C) -> Result<(), usize> {
    let nullable = column.kind.nullable;
    let care = Care::of(cells, nullable);
    let rows = cells.page().rows;
    let text = cells.page().text;
    let mut scratch = Vec::new();
    if rows == 0 {
        return Ok(());
    }
    // All cells together are no longer than the text they stand in; each has its length before it.
    let most = cells.span() + rows * 10 + 64;
    column.data.reserve(most);
    let base = column.data.as_mut_ptr();
    let mut at = column.data.len();
    let limit = at + most;
    let (used, kept) = (column.nulls.len(), column.sizes.len());
    column.nulls.resize(used + if nullable { rows } else { 0 }, 0);
    column.sizes.resize(kept + if column.keeps_sizes { rows } else { 0 }, 0);
    let (nulls, sizes) = (&mut column.nulls[used..], &mut column.sizes[kept..]);
    for row in 0..rows {
        let found = look(cells, row, care, &mut scratch);
        let start = at;
        // SAFETY: `most` bytes were reserved: 10 a row, the cells' own, and 64 more. Unescaped
        // text is shorter than its cell. 64 bytes are readable behind any position of the text.
        unsafe {
            match found {
                Some(Found::Plain(from, end)) => {
                    let len = end - from;
                    at += put_length(base.add(at), len);
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
                Some(Found::Null) => {
                    *base.add(at) = 0;
                    at += 1;
                    // There is none in a column that is not nullable, and no NULL either.
                    if let Some(null) = nulls.get_mut(row) {
                        *null = 1;
                    }
                }
                Some(Found::Unescaped(value)) => {
                    at += put_length(base.add(at), value.len());
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

/// Strings of `n` bytes, filled up with zero bytes; longer ones are declined.
pub fn fixed_strings<'a, C: Cells<'a>>(
    column: &mut Column,
    cells: &C,
    n: usize,
) -> Result<(), usize> {
    let nullable = column.kind.nullable;
    let care = Care::of(cells, nullable);
    let text = cells.page().text;
    let mut scratch = Vec::new();
    column.data.reserve(cells.page().rows * n);
    for row in 0..cells.page().rows {
        let found = look(cells, row, care, &mut scratch).ok_or(row)?;
        if nullable {
            column.nulls.push(u8::from(matches!(found, Found::Null)));
        }
        let value = match &found {
            Found::Null => &[][..],
            Found::Plain(start, end) => &text[*start..*end],
            Found::Unescaped(value) => value,
        };
        if value.len() > n || (value.is_empty() && !matches!(found, Found::Null)) {
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

/// A number of 8 or 16 bits as its bytes.
pub trait Code: Copy {
    fn put(value: i16, out: &mut Vec<u8>);
}

impl Code for i8 {
    fn put(value: i16, out: &mut Vec<u8>) {
        out.push(value as u8);
    }
}

impl Code for i16 {
    fn put(value: i16, out: &mut Vec<u8>) {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Enums by their names only: their numbers are declined, as rowfall reads names.
pub fn enums<'a, C: Cells<'a>, T: Code>(
    column: &mut Column,
    cells: &C,
    elements: &[(Vec<u8>, i16)],
) -> Result<(), usize> {
    let nullable = column.kind.nullable;
    let care = Care::of(cells, nullable);
    let numbers: HashMap<&[u8], i16> = elements.iter().map(|(n, v)| (n.as_slice(), *v)).collect();
    let text = cells.page().text;
    let mut scratch = Vec::new();
    for row in 0..cells.page().rows {
        let found = look(cells, row, care, &mut scratch).ok_or(row)?;
        if nullable {
            column.nulls.push(u8::from(matches!(found, Found::Null)));
        }
        let value = match &found {
            Found::Null => {
                T::put(0, &mut column.data);
                continue;
            }
            Found::Plain(start, end) => &text[*start..*end],
            Found::Unescaped(value) => value,
        };
        T::put(*numbers.get(value).ok_or(row)?, &mut column.data);
    }
    Ok(())
}
