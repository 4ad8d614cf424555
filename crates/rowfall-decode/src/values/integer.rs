//! Parses integers of up to 64 bits: eight digits by three multiplications.

use std::marker::PhantomData;

use crate::values::fixed_width::FixedWidth;

/// Load eight bytes from `at`; `at + 8 <= text.len()` by the padding of the text.
#[inline(always)]
pub fn load8(text: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= text.len());
    // SAFETY: positions are inside the text, and the buffer keeps 64 bytes and more behind it.
    unsafe { u64::from_le(text.as_ptr().add(at).cast::<u64>().read_unaligned()) }
}

/// Eight digits `0`.
pub const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The value of eight bytes of 0 to 9, the first one the most significant.
#[inline(always)]
pub fn join_8_digits(v: u64) -> u64 {
    // Wrapping: what is not a number is multiplied before it is found out.
    let v = v.wrapping_mul(10).wrapping_add(v >> 8) & 0x00ff_00ff_00ff_00ff;
    let v = v.wrapping_mul(100).wrapping_add(v >> 16) & 0x0000_ffff_0000_ffff;
    v.wrapping_mul(10_000).wrapping_add(v >> 32) & 0xffff_ffff
}

/// True where all eight bytes are 0 to 9.
#[inline(always)]
pub fn all_digits(v: u64) -> bool {
    (v.wrapping_add(0x7676_7676_7676_7676) | v) & 0x8080_8080_8080_8080 == 0
}

/// Parse the digits `text[start..start + len]`, 1 <= len <= 8.
#[inline(always)]
pub fn up_to_8_digits(text: &[u8], start: usize, len: usize) -> Option<u64> {
    // The bytes behind the digits are shifted out, and the zeros shifted in lead the number.
    let v = (load8(text, start) ^ ZEROS) << ((8 - len) * 8);
    all_digits(v).then(|| join_8_digits(v))
}

/// Parse any number of digits, at most 20; None from 2^64 on.
#[inline(always)]
pub fn up_to_20_digits(text: &[u8], mut start: usize, end: usize) -> Option<u64> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(1) < 8 {
        return up_to_8_digits(text, start, len);
    }
    long(text, &mut start, len)
}

#[inline(never)]
fn long(text: &[u8], start: &mut usize, len: usize) -> Option<u64> {
    if len == 0 || len > 20 {
        return None;
    }
    let head = len % 8;
    let mut value = if head > 0 { up_to_8_digits(text, *start, head)? } else { 0 };
    let mut at = *start + head;
    while at < *start + len {
        value = value.checked_mul(100_000_000)?.checked_add(up_to_8_digits(text, at, 8)?)?;
        at += 8;
    }
    Some(value)
}

/// True where a number begins with a zero and another digit, which no number keeps: `007`, `-01.5`.
#[inline(always)]
pub fn has_leading_zero(text: &[u8], start: usize, end: usize) -> bool {
    let mut word = load8(text, start);
    let minus = word as u8 == b'-';
    word >>= 8 * u32::from(minus);
    let two = end.wrapping_sub(start) > 1 + usize::from(minus);
    two && word as u8 == b'0' && ((word >> 8) as u8).is_ascii_digit()
}

/// Parses UInt8 to UInt64.
pub struct Unsigned<T> {
    canonical: bool,
    number: PhantomData<T>,
}

impl<T> Unsigned<T> {
    /// `canonical`: a number that leading zeros would be lost of is declined.
    pub fn new(canonical: bool) -> Self {
        Self { canonical, number: PhantomData }
    }
}

impl<T: TryFrom<u64> + Copy + Default + Integer> FixedWidth for Unsigned<T> {
    type Out = T;
    const ZERO: T = T::ZERO;
    const UNQUOTED: bool = true;
    const MAX_SHORT: Option<u32> = Some(T::MAX_SHORT);

    #[inline(always)]
    fn takes_leading_zeros(&self) -> bool {
        !self.canonical
    }

    #[inline(always)]
    fn from_short(number: u32) -> T {
        T::from_short(number)
    }

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<T> {
        if self.canonical && has_leading_zero(text, start, end) {
            return None;
        }
        T::try_from(up_to_20_digits(text, start, end)?).ok()
    }
}

/// Parses Int8 to Int64.
pub struct Signed<T> {
    canonical: bool,
    number: PhantomData<T>,
}

impl<T> Signed<T> {
    /// `canonical`: a number that leading zeros would be lost of is declined.
    pub fn new(canonical: bool) -> Self {
        Self { canonical, number: PhantomData }
    }
}

impl<T: TryFrom<i64> + Copy + Default + Integer> FixedWidth for Signed<T> {
    type Out = T;
    const ZERO: T = T::ZERO;
    const UNQUOTED: bool = true;
    const MAX_SHORT: Option<u32> = Some(T::MAX_SHORT);

    #[inline(always)]
    fn takes_leading_zeros(&self) -> bool {
        !self.canonical
    }

    #[inline(always)]
    fn from_short(number: u32) -> T {
        T::from_short(number)
    }

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<T> {
        if self.canonical && has_leading_zero(text, start, end) {
            return None;
        }
        let minus = load8(text, start) as u8 == b'-';
        let size = up_to_20_digits(text, start + usize::from(minus), end)?;
        // -2^63 is the one number whose size is no i64.
        let value = if minus { 0i64.wrapping_sub(size as i64) } else { size as i64 };
        if value != 0 && (value < 0) != minus {
            return None;
        }
        T::try_from(value).ok()
    }
}

/// An integer of up to 64 bits.
pub trait Integer {
    const ZERO: Self;
    /// The greatest value, or the greatest u32 if that is less.
    const MAX_SHORT: u32;
    /// Convert a number that is not greater than `MAX_SHORT`.
    fn from_short(number: u32) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => { $(impl Integer for $t {
        const ZERO: $t = 0;
        const MAX_SHORT: u32 = if <$t>::MAX as u64 > u32::MAX as u64 { u32::MAX } else { <$t>::MAX as u32 };

        #[inline(always)]
        fn from_short(number: u32) -> $t {
            number as $t
        }
    })* };
}
number!(i8, i16, i32, i64, u8, u16, u32, u64);
