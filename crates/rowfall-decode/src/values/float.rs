//! Parses floats: exactly by one division where the number is short, else by fast-float2.

use crate::text::number::is_plain_number;
use crate::values::fixed_width::FixedWidth;
#[cfg(any(test, not(target_arch = "x86_64")))]
use crate::values::integer::{all_digits, join_8_digits};
use crate::values::integer::{has_leading_zero, load8};

const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
#[cfg(any(test, not(target_arch = "x86_64")))]
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
#[derive(Debug, PartialEq)]
struct ShortNumber {
    minus: bool,
    mantissa: u64,
    places: usize,
}

/// Masks: the sixteen bytes from the n-th on keep the last n lanes of a register.
#[cfg(target_arch = "x86_64")]
static LAST: [u8; 32] = {
    let mut table = [0; 32];
    let mut n = 16;
    while n < 32 {
        table[n] = 255;
        n += 1;
    }
    table
};

/// Parse plain notation (`-12.5`, `7`) of at most 16 digits. The last 16 bytes are in a register;
/// what stands before the point is moved up by one, so that the digits stand without it, and they
/// are joined in pairs, fours and eights. No branch depends on where the point is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn short(text: &[u8], start: usize, end: usize) -> Option<ShortNumber> {
    use std::arch::x86_64::*;
    let minus = load8(text, start) as u8 == b'-';
    let len = end.wrapping_sub(start + usize::from(minus));
    if len.wrapping_sub(1) > 16 {
        return None;
    }
    debug_assert!(end >= 17 && end <= text.len());
    // SAFETY: SSE2 is part of x86-64. The text is readable from 16 bytes before `start` on, which
    // is less than `end`: from `end - 17`. Of `LAST` 16 bytes are read from at most 16 on.
    unsafe {
        let load = |at: usize| _mm_loadu_si128(text.as_ptr().add(at).cast());
        let last = |n: usize| _mm_loadu_si128(LAST.as_ptr().add(n).cast());
        let tail = load(end - 16);
        let points = _mm_cmpeq_epi8(tail, _mm_set1_epi8(b'.' as i8));
        let points = _mm_movemask_epi8(_mm_and_si128(points, last(len.min(16)))) as u32;
        let has = usize::from(points != 0);
        // Lane 16 where there is none. A second one stays, and is no digit.
        let point = (points | 1 << 16).trailing_zeros() as usize;
        let (count, places) = (len - has, 16 - has - point);
        if count > 16 || places < has || count <= places {
            return None;
        }
        let behind = last(places);
        let before = _mm_andnot_si128(behind, load(end - 16 - has));
        let digits = _mm_or_si128(before, _mm_and_si128(behind, tail));
        let digits = _mm_sub_epi8(digits, _mm_set1_epi8(b'0' as i8));
        let digits = _mm_and_si128(digits, last(count));
        let over = _mm_subs_epu8(digits, _mm_set1_epi8(9));
        if _mm_movemask_epi8(_mm_cmpeq_epi8(over, _mm_setzero_si128())) != 0xffff {
            return None;
        }
        let tens = _mm_and_si128(digits, _mm_set1_epi16(0xff));
        let tens = _mm_mullo_epi16(tens, _mm_set1_epi16(10));
        let pairs = _mm_add_epi16(tens, _mm_srli_epi16::<8>(digits));
        let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
        let fours = _mm_packs_epi32(fours, fours);
        let eights = _mm_cvtsi128_si64(_mm_madd_epi16(fours, _mm_set1_epi32(0x0001_2710))) as u64;
        let mantissa = (eights & 0xffff_ffff) * 100_000_000 + (eights >> 32);
        Some(ShortNumber { minus, mantissa, places })
    }
}

#[cfg(not(target_arch = "x86_64"))]
use short_portable as short;

/// Parse the `len` (0 to 16) digits at `at`.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn digits(text: &[u8], at: usize, len: usize) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    if len <= 8 {
        if len == 0 {
            return Some(0);
        }
        let v = (load8(text, at) ^ ZEROS) << ((8 - len) * 8);
        return all_digits(v).then(|| join_8_digits(v));
    }
    let high = load8(text, at) ^ ZEROS;
    let low = (load8(text, at + 8) ^ ZEROS) << ((16 - len) * 8);
    // Zeros led `low`, so it is as if it had 8 digits more than it has.
    let whole =
        join_8_digits(high).wrapping_mul(POW10_INT[len - 8]).wrapping_add(join_8_digits(low));
    (all_digits(high) && all_digits(low)).then_some(whole)
}

/// Parse the same notation by eight bytes at a time, with at most 8 digits before the point.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn short_portable(text: &[u8], mut start: usize, end: usize) -> Option<ShortNumber> {
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
        return Some(ShortNumber { minus, mantissa: digits(text, start, len)?, places: 0 });
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
    Some(ShortNumber { minus, mantissa: before * POW10_INT[places] + behind, places })
}

/// The nearest f64 (Clinger's fast path): both numbers are exact, and a division rounds once.
#[inline(always)]
fn nearest(found: &ShortNumber) -> Option<f64> {
    let value = found.mantissa as i64 as f64 / POW10.get(found.places)?;
    // The sign is no branch: in many columns it changes from row to row.
    let sign = u64::from(found.minus) << 63;
    (found.mantissa <= 1 << 53).then(|| f64::from_bits(value.to_bits() | sign))
}

/// Not all integers beyond it have an f64 of their own; the next one becomes it.
const EXACT: f64 = (1u64 << 53) as f64;

/// True where a number is not written as it would be kept: zeros lead it, or it is an integer that
/// is not printed as it was read (2571428571428571600 is, 9007199254740993 is not).
#[inline(always)]
fn is_changed(text: &[u8], start: usize, end: usize, value: f64) -> bool {
    has_leading_zero(text, start, end)
        || (value.abs() >= EXACT
            && text[start..end].iter().all(|c| c.is_ascii_digit() || *c == b'-')
            && value.to_string().as_bytes() != &text[start..end])
}

/// Parses Float64.
pub struct F64 {
    /// Decline what is not written as it would be kept.
    pub canonical: bool,
    /// Accept `nan`, `NaN` and `NAN`.
    pub nan: bool,
}

impl FixedWidth for F64 {
    type Out = f64;
    const ZERO: f64 = 0.0;
    const UNQUOTED: bool = true;
    const OTHER_NULL_SPELLING: bool = false;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<f64> {
        let value = match short(text, start, end).and_then(|found| nearest(&found)) {
            Some(value) => value,
            None => slow64(text, start, end, self.nan)?,
        };
        if self.canonical && is_changed(text, start, end, value) {
            return None;
        }
        Some(value)
    }
}

#[inline(never)]
fn slow64(text: &[u8], start: usize, end: usize, nan: bool) -> Option<f64> {
    let text = text.get(start..end)?;
    if !is_plain_number(text) {
        return (nan && is_nan(text)).then_some(f64::NAN);
    }
    fast_float2::parse::<f64, _>(text).ok().filter(|v| v.is_finite())
}

fn is_nan(text: &[u8]) -> bool {
    matches!(text, b"nan" | b"NaN" | b"NAN")
}

/// Parses Float32.
pub struct F32 {
    /// Accept `nan`, `NaN` and `NAN`.
    pub nan: bool,
}

impl FixedWidth for F32 {
    type Out = f32;
    const ZERO: f32 = 0.0;
    const UNQUOTED: bool = true;
    const OTHER_NULL_SPELLING: bool = false;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<f32> {
        if let Some(found) = short(text, start, end)
            && let Some(value) = nearest(&found)
            && value.to_bits() & ((1 << 29) - 1) != 1 << 28
        {
            // The number and its nearest f64 are on the same side of where f32 rounds up or down,
            // as long as the f64 is not just there. Both are far from the ends of f32.
            return Some(value as f32);
        }
        slow32(text, start, end, self.nan)
    }
}

#[inline(never)]
fn slow32(text: &[u8], start: usize, end: usize, nan: bool) -> Option<f32> {
    let text = text.get(start..end)?;
    if !is_plain_number(text) {
        return (nan && is_nan(text)).then_some(f32::NAN);
    }
    fast_float2::parse::<f32, _>(text).ok().filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number in the middle of a text, as the buffer has them.
    fn framed(number: &str) -> (Vec<u8>, usize, usize) {
        let text = [&b"1.5,9.25,7,-3.0,\"123.45"[..], number.as_bytes(), &[b','; 64]].concat();
        (text, 23, 23 + number.len())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn numbers_are_those_of_the_standard_library(
            number in "-?[0-9]{0,12}\\.?[0-9]{0,18}|[-0-9.e]{0,20}|-?[0-9]{1,3}\\.[0-9]{1,4}"
        ) {
            let (text, start, end) = framed(&number);
            let known = is_plain_number(number.as_bytes());
            let (narrow, wide) = (F32 { nan: false }.parse(&text, start, end), F64 { canonical: false, nan: false }.parse(&text, start, end));
            prop_assert_eq!(wide.map(f64::to_bits), known.then(|| number.parse::<f64>().ok())
                .flatten().filter(|v| v.is_finite()).map(f64::to_bits));
            prop_assert_eq!(narrow.map(f32::to_bits), known.then(|| number.parse::<f32>().ok())
                .flatten().filter(|v| v.is_finite()).map(f32::to_bits));
        }

        #[test]
        fn what_the_portable_way_reads_is_read_alike(number in "-?[0-9]{0,9}\\.?[0-9]{0,17}") {
            let (text, start, end) = framed(&number);
            if let Some(found) = short_portable(&text, start, end) {
                // It adds nothing up where the digits are too many for the register.
                let digits = number.bytes().filter(u8::is_ascii_digit).count();
                prop_assert!(digits > 16 || short(&text, start, end) == Some(found));
            }
        }
    }

    #[test]
    fn numbers_that_would_be_changed_are_declined() {
        for (number, kept) in [
            ("0.5", true),
            ("-0.5", true),
            ("0", true),
            ("-0", true),
            ("0e1", true),
            ("9007199254740992", true),
            ("1e300", true),
            ("007", false),
            ("-01.5", false),
            ("00.5", false),
            ("9007199254740993", false),
            ("9007199254740994", true),
            ("2571428571428571600", true),
            ("22857142857142853", false),
            ("-123456789012345678901", false),
        ] {
            let (text, start, end) = framed(number);
            assert_eq!(
                F64 { canonical: true, nan: false }.parse(&text, start, end).is_some(),
                kept,
                "{number}"
            );
            assert!(
                F64 { canonical: false, nan: false }.parse(&text, start, end).is_some(),
                "{number}"
            );
        }
    }

    #[test]
    fn numbers_halfway_between_two_f32_are_rounded_once() {
        // 2^24 + 1 is halfway; a hair above or below it the nearest f64 is halfway, too.
        for number in [
            "16777217",
            "16777217.0",
            "16777217.0000001",
            "16777216.9999999",
            "0.5000000298023224",
            "9007199791611905",
            "1.0000000596046448",
        ] {
            let (text, start, end) = framed(number);
            assert_eq!(
                F32 { nan: false }.parse(&text, start, end),
                number.parse().ok(),
                "{number}"
            );
        }
    }
}
