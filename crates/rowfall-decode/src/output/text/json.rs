//! Writes rows as objects, as the engine's JSONEachRow has them.

use std::io;

use crate::column::Column;
use crate::output::text::{Cell, Escapes, Kind, Output, is_quoted, write_rows};

/// In place of the first byte of U+2028 and U+2029, which end lines in JavaScript, and of others.
pub(super) const SEPARATOR: &[u8] = b"\xe2";

/// What is written in place of bytes of a text.
pub(super) const TEXTS: [&[u8]; 256] = {
    let mut texts: [&[u8]; 256] = [b""; 256];
    let mut n = 0;
    while n < CONTROLS.len() {
        texts[n] = &CONTROLS[n];
        n += 1;
    }
    texts[0x08] = b"\\b";
    texts[0x09] = b"\\t";
    texts[0x0a] = b"\\n";
    texts[0x0c] = b"\\f";
    texts[0x0d] = b"\\r";
    texts[b'"' as usize] = b"\\\"";
    texts[b'\\' as usize] = b"\\\\";
    texts[b'/' as usize] = b"\\/";
    texts[0xe2] = SEPARATOR;
    texts
};

/// The bytes above the control characters that do not stay.
pub(super) const MARKS: [u8; 4] = [b'"', b'\\', b'/', 0xe2];

const CONTROLS: [[u8; 6]; 32] = {
    let mut controls = [*b"\\u0000"; 32];
    let mut n = 0;
    while n < controls.len() {
        controls[n][4] = b"01"[n / 16];
        controls[n][5] = b"0123456789ABCDEF"[n % 16];
        n += 1;
    }
    controls
};

/// Append what begins with `SEPARATOR`, and return how many bytes that is.
pub(super) fn put_separator(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let escaped: &[u8] = match text.get(1..3) {
        Some(b"\x80\xa8") => b"\\u2028",
        Some(b"\x80\xa9") => b"\\u2029",
        _ => {
            out.push(text[0]);
            return 1;
        }
    };
    out.extend_from_slice(escaped);
    3
}

/// What stands before the value of each column.
pub(super) fn keys<'a>(names: impl Iterator<Item = &'a [u8]>, escapes: &Escapes) -> Vec<Vec<u8>> {
    let key = |(number, name): (usize, &[u8])| {
        let mut text = vec![if number == 0 { b'{' } else { b',' }, b'"'];
        escapes.put_all(&mut text, name);
        text.extend_from_slice(b"\":");
        text
    };
    names.enumerate().map(key).collect()
}

impl Output {
    /// Write the rows of one block.
    pub(super) fn write_objects(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        let cells = columns.iter().zip(&self.kinds).map(|(column, kind)| Cell {
            quoted: is_quoted(&column.data_type),
            ..Cell::of(kind, true, column)
        });
        let mut cells: Vec<(Cell<'_>, &Vec<u8>)> = cells.zip(&self.keys).collect();
        let escapes = &self.escapes;
        write_rows(&mut self.to, &mut self.out, rows, |out, row| {
            for (cell, key) in &mut cells {
                out.extend_from_slice(key);
                let before = out.len();
                if cell.quoted {
                    out.push(b'"');
                }
                cell.put(out, escapes);
                if cell.quoted {
                    out.push(b'"');
                }
                if cell.nulls.get(row).is_some_and(|null| *null != 0) {
                    out.truncate(before);
                    out.extend_from_slice(b"null");
                    continue;
                }
                // JSON has no number for infinities, and for what is not a number: they are texts.
                let float = matches!(cell.kind, Kind::Float32 | Kind::Float64);
                if float && out.last().is_some_and(u8::is_ascii_alphabetic) {
                    out.insert(before, b'"');
                    out.push(b'"');
                }
            }
            out.extend_from_slice(b"}\n");
        })
    }
}
