//! Floats: exact by one multiplication or division where the number is short, else by fast-float2.

use super::Fixed;
use super::int::{all_digits, join8, load8};

const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
const POW10_INT: [u64; 20] = {
    let mut table = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// A number `mantissa / 10^places`, with its sign.
struct Short {
    minus: bool,
    mantissa: u64,
    places: usize,
}

/// The value of the `len` (0 to 16) digits at `at`.
#[inline(always)]
fn digits(text: &[u8], at: usize, len: usize) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    if len <= 8 {
        if len == 0 {
            return Some(0);
        }
        let v = (load8(text, at) ^ ZEROS) << ((8 - len) * 8);
        return all_digits(v).then(|| join8(v));
    }
    let high = load8(text, at) ^ ZEROS;
    let low = (load8(text, at + 8) ^ ZEROS) << ((16 - len) * 8);
    // Zeros led `low`, so it is as if it had 8 digits more than it has.
    let whole = join8(high).wrapping_mul(POW10_INT[len - 8]).wrapping_add(join8(low));
    (all_digits(high) && all_digits(low)).then_some(whole)
}

/// Plain notation (`-12.5`, `7`) of at most 8 digits before the point and 16 behind it.
#[inline(always)]
fn short(text: &[u8], mut start: usize, end: usize) -> Option<Short> {
    let minus = load8(text, start) as u8 == b'-';
    start += usize::from(minus);
    let len = end.wrapping_sub(start);
    // The point is at most 8 digits from the start, or the number has none.
    let mark = load8(text, start) ^ 0x2e2e_2e2e_2e2e_2e2e;
    let found = mark.wrapping_sub(0x0101_0101_0101_0101) & !mark & 0x8080_8080_8080_8080;
    let point = (found.trailing_zeros() / 8) as usize;
    if point >= len {
        if len == 0 || len > 16 {
            return None;
        }
        return Some(Short { minus, mantissa: digits(text, start, len)?, places: 0 });
    }
    let places = len - point - 1;
    if point == 0 || text[start + point] != b'.' || places == 0 || places > 16 {
        return None;
    }
    let before = digits(text, start, point)?;
    let behind = digits(text, start + point + 1, places)?;
    if before > 0 && point + places > 19 {
        return None;
    }
    Some(Short { minus, mantissa: before * POW10_INT[places] + behind, places })
}

/// Whether fast-float2 and the engine surely agree: digits, one point, an exponent.
pub fn ordinary(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (number, exponent) = match digits.iter().position(|c| matches!(c, b'e' | b'E')) {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &b"0"[..]),
    };
    let exponent = match exponent {
        [b'+' | b'-', rest @ ..] => rest,
        all => all,
    };
    let (before, behind) = match number.iter().position(|c| *c == b'.') {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &b"0"[..]),
    };
    [before, behind, exponent].iter().all(|d| !d.is_empty() && d.iter().all(u8::is_ascii_digit))
}

pub struct F64;

impl Fixed for F64 {
    type Out = f64;
    const ZERO: f64 = 0.0;
    const BARE: bool = true;
    const LOOSE_NULL: bool = false;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<f64> {
        if let Some(found) = short(text, start, end)
            && found.mantissa <= 1 << 53
        {
            // Both are exact as f64, and a division rounds once: the nearest f64 (Clinger).
            let value = found.mantissa as f64 / POW10[found.places];
            return Some(if found.minus { -value } else { value });
        }
        slow64(text, start, end)
    }
}

#[inline(never)]
fn slow64(text: &[u8], start: usize, end: usize) -> Option<f64> {
    let text = text.get(start..end)?;
    if !ordinary(text) {
        return None;
    }
    fast_float2::parse::<f64, _>(text).ok().filter(|v| v.is_finite())
}

pub struct F32;

impl Fixed for F32 {
    type Out = f32;
    const ZERO: f32 = 0.0;
    const BARE: bool = true;
    const LOOSE_NULL: bool = false;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<f32> {
        if let Some(found) = short(text, start, end)
            && found.mantissa <= 1 << 24
            && found.places <= 10
        {
            // Both are exact as f32 (5^10 < 2^24), and a division rounds once.
            let value = found.mantissa as f32 / POW10[found.places] as f32;
            return Some(if found.minus { -value } else { value });
        }
        slow32(text, start, end)
    }
}

#[inline(never)]
fn slow32(text: &[u8], start: usize, end: usize) -> Option<f32> {
    let text = text.get(start..end)?;
    if !ordinary(text) {
        return None;
    }
    fast_float2::parse::<f32, _>(text).ok().filter(|v| v.is_finite())
}
