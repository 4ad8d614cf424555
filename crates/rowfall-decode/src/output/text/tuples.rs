//! Writes rows as COPY of PostgreSQL has them in binary, without the head and the end of such a file.
//!
//! A row is the count of its fields in two bytes; a field is its length in four bytes, -1 for NULL,
//! and the value as the server's own type sends it (the `*recv` functions of its sources). All
//! numbers have their highest byte first.

use std::io;

use crate::column::Column;
use crate::column::strings::read_varint;
use crate::output::text::numbers::wide_digits;
use crate::output::text::{Cell, Kind, Output, uuid_bytes, write_rows};
use crate::types::postgresql::{Field, MOST_DIGITS};

/// Days from 1970 to 2000, from where the server counts.
const DAYS: i32 = 10_957;
const MICROS: i64 = 86_400_000_000 * DAYS as i64;

/// The sign of a number below zero.
const NEGATIVE: u16 = 0x4000;

/// Numbers are written in digits of this base, which are four decimal ones.
const BASE: u64 = 10_000;

/// Decimal digits of a fraction that fill 64 bits with what fills up its last digit.
const NARROW_SCALE: usize = 16;

/// A fraction of that many digits, and a whole number of 20.
const MOST_GROUPS: usize = 5 + NARROW_SCALE / 4;

#[inline(always)]
fn put<const N: usize>(out: &mut Vec<u8>, value: [u8; N]) {
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&value);
}

/// Append the field of a number: its digits of base 10,000, the highest one first.
///
/// `weight`: of the first digit, as a power of the base.
fn put_digits(out: &mut Vec<u8>, digits: &[u16], weight: usize, negative: bool, scale: usize) {
    // Zeros at both ends are not stored, and zero has no digits.
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let used = digits.iter().rposition(|digit| *digit != 0).map_or(leading, |last| last + 1);
    let digits = &digits[leading..used];
    let weight = if digits.is_empty() { 0 } else { weight as i16 - leading as i16 };
    let sign = if negative && !digits.is_empty() { NEGATIVE } else { 0 };
    out.extend_from_slice(&(8 + 2 * digits.len() as u32).to_be_bytes());
    for part in [digits.len() as u16, weight as u16, sign, scale as u16] {
        out.extend_from_slice(&part.to_be_bytes());
    }
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Append the field of a number of 64 bits, of which `scale` decimal digits are behind the point.
fn put_numeric(out: &mut Vec<u8>, value: u64, negative: bool, scale: usize) {
    let power = 10u64.pow(scale as u32);
    let (mut whole, mut fraction) = (value / power, value % power);
    let behind = scale.div_ceil(4);
    fraction *= 10u64.pow((4 * behind - scale) as u32);
    let (mut digits, mut at) = ([0u16; MOST_GROUPS], MOST_GROUPS);
    for _ in 0..behind {
        at -= 1;
        (fraction, digits[at]) = (fraction / BASE, (fraction % BASE) as u16);
    }
    while whole > 0 {
        at -= 1;
        (whole, digits[at]) = (whole / BASE, (whole % BASE) as u16);
    }
    let before = MOST_GROUPS - behind - at;
    if before == 0 {
        // The first digit is behind the point: one more, zero, is before it.
        at -= 1;
    }
    put_digits(out, &digits[at..], before.saturating_sub(1), negative, scale);
}

/// Append the field of a number of any width.
fn put_wide_numeric(out: &mut Vec<u8>, bytes: &[u8], signed: bool, scale: usize) {
    let mut text = Vec::new();
    let negative = wide_digits(bytes, signed, &mut text);
    let behind = scale.div_ceil(4);
    text.extend(std::iter::repeat_n(b'0', 4 * behind - scale));
    // One digit before the point at least, and all of them whole.
    let groups = text.len().div_ceil(4).max(behind + 1);
    text.splice(..0, std::iter::repeat_n(b'0', 4 * groups - text.len()));
    let value = |group: &[u8]| group.iter().fold(0, |sum, d| 10 * sum + u16::from(d - b'0'));
    let digits: Vec<u16> = text.chunks_exact(4).map(value).collect();
    put_digits(out, &digits, groups - behind - 1, negative, scale);
}

impl Cell<'_> {
    /// The next value of an integer type of up to 8 bytes, and true where it is below zero.
    #[inline(always)]
    fn integer(&mut self) -> (u64, bool) {
        let value = match self.kind {
            Kind::Int8 => i8::from_le_bytes(self.take()).into(),
            Kind::Int16 => i16::from_le_bytes(self.take()).into(),
            Kind::Int32 | Kind::Decimal32(_) => i32::from_le_bytes(self.take()).into(),
            Kind::UInt8 => u8::from_le_bytes(self.take()).into(),
            Kind::UInt16 => u16::from_le_bytes(self.take()).into(),
            Kind::UInt32 => u32::from_le_bytes(self.take()).into(),
            Kind::UInt64 => return (u64::from_le_bytes(self.take()), false),
            _ => i64::from_le_bytes(self.take()),
        };
        (value as u64, value < 0)
    }

    fn number(&mut self, out: &mut Vec<u8>) {
        let scale = match self.kind {
            Kind::Wide(bytes, signed) => {
                return put_wide_numeric(out, self.take_slice(*bytes), *signed, 0);
            }
            Kind::WideDecimal(bytes, scale) => {
                return put_wide_numeric(out, self.take_slice(*bytes), true, (*scale).into());
            }
            Kind::Decimal64(scale) if usize::from(*scale) > NARROW_SCALE => {
                return put_wide_numeric(out, self.take_slice(8), true, (*scale).into());
            }
            Kind::Decimal32(scale) | Kind::Decimal64(scale) => *scale,
            _ => 0,
        };
        let (value, negative) = self.integer();
        let value = if negative { value.wrapping_neg() } else { value };
        put_numeric(out, value, negative, scale.into());
    }

    fn day(&mut self) -> i32 {
        match self.kind {
            Kind::Date => u16::from_le_bytes(self.take()).into(),
            _ => i32::from_le_bytes(self.take()),
        }
    }

    /// Microseconds since 1970.
    #[inline(always)]
    fn micros(&mut self) -> i64 {
        match self.kind {
            Kind::DateTime => i64::from(u32::from_le_bytes(self.take())) * 1_000_000,
            Kind::DateTime64(digits, _) => {
                let unit = 10i64.pow(u32::from(MOST_DIGITS) - *digits as u32);
                i64::from_le_bytes(self.take()).saturating_mul(unit)
            }
            _ => unreachable!("a moment"),
        }
    }

    /// Append the next value as a field, whatever it is worth where it is NULL.
    #[inline(always)]
    fn put_field(&mut self, field: Field, out: &mut Vec<u8>, escapes: &super::Escapes) {
        match field {
            Field::Bool => put(out, [u8::from(self.take::<1>() != [0])]),
            Field::Int2 => put(out, (self.integer().0 as i16).to_be_bytes()),
            Field::Int4 => put(out, (self.integer().0 as i32).to_be_bytes()),
            Field::Int8 => put(out, self.integer().0.to_be_bytes()),
            Field::Float4 => put(out, u32::from_le_bytes(self.take()).to_be_bytes()),
            Field::Float8 => put(out, u64::from_le_bytes(self.take()).to_be_bytes()),
            Field::Numeric => self.number(out),
            Field::Date => put(out, (self.day() - DAYS).to_be_bytes()),
            Field::Timestamp => put(out, self.micros().saturating_sub(MICROS).to_be_bytes()),
            Field::Uuid => put(out, uuid_bytes(self.take())),
            Field::Inet => match self.kind {
                // Family, bits of the network, "is a network", bytes.
                Kind::Ipv4 => {
                    let [a, b, c, d] = u32::from_le_bytes(self.take()).to_be_bytes();
                    put(out, [2, 32, 0, 4, a, b, c, d]);
                }
                _ => {
                    let mut value = [3, 128, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    value[4..].copy_from_slice(&self.take::<16>());
                    put(out, value);
                }
            },
            Field::Text | Field::Jsonb => {
                let before = out.len();
                out.extend_from_slice(&[0; 4]);
                if field == Field::Jsonb {
                    out.push(1);
                }
                if matches!(self.kind, Kind::String) {
                    let (len, used) = read_varint(&self.data[self.at..]);
                    let start = self.at + used;
                    self.at = start + len;
                    escapes.put(out, self.data, start, len);
                } else {
                    self.put(out, escapes);
                }
                let len = (out.len() - before - 4) as u32;
                out[before..before + 4].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
}

impl Output {
    /// Write the rows of one block.
    pub(super) fn write_tuples(&mut self, columns: &[Column], rows: usize) -> io::Result<()> {
        let cells = self.kinds.iter().zip(columns).map(|(kind, one)| Cell::of(kind, false, one));
        let mut cells: Vec<(Cell<'_>, Field)> = cells.zip(self.fields.iter().copied()).collect();
        let (count, escapes) = ((cells.len() as i16).to_be_bytes(), &self.escapes);
        write_rows(&mut self.to, &mut self.out, rows, |out, row| {
            out.extend_from_slice(&count);
            for (cell, field) in &mut cells {
                let before = out.len();
                cell.put_field(*field, out, escapes);
                if cell.nulls.get(row).is_some_and(|null| *null != 0) {
                    out.truncate(before);
                    out.extend_from_slice(&(-1i32).to_be_bytes());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(value: i64, scale: usize) -> Vec<u16> {
        let mut out = Vec::new();
        put_numeric(&mut out, value.unsigned_abs(), value < 0, scale);
        let mut wide = Vec::new();
        put_wide_numeric(&mut wide, &i128::from(value).to_le_bytes(), true, scale);
        assert_eq!(out, wide, "{value} of scale {scale}");
        assert_eq!(out[..4], (out.len() as u32 - 4).to_be_bytes());
        out[4..].chunks_exact(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn numbers_have_digits_of_ten_thousand() {
        // Count, weight, sign, scale, digits: as pg_send of the server gives them.
        assert_eq!(numeric(0, 0), [0, 0, 0, 0]);
        assert_eq!(numeric(0, 3), [0, 0, 0, 3]);
        assert_eq!(numeric(1, 0), [1, 0, 0, 0, 1]);
        assert_eq!(numeric(-12_345, 0), [2, 1, NEGATIVE, 0, 1, 2345]);
        assert_eq!(numeric(120_000, 0), [1, 1, 0, 0, 12]);
        assert_eq!(numeric(1_234_567, 2), [3, 1, 0, 2, 1, 2345, 6700]);
        assert_eq!(numeric(5, 4), [1, 0xffff, 0, 4, 5]);
        assert_eq!(numeric(-5, 9), [1, 0xfffd, NEGATIVE, 9, 5000]);
        assert_eq!(numeric(i64::MIN, 16)[..4], [5, 0, NEGATIVE, 16]);
        assert_eq!(numeric(99_990_000, 4), [1, 0, 0, 4, 9999]);
    }
}
