//! Integers up to 64 bits: eight digits by three multiplications.

use std::marker::PhantomData;

use crate::values::fixed_width::Fixed;

/// Eight bytes from `at`; `at + 8 <= text.len()` by the padding of the text.
#[inline(always)]
pub fn load8(text: &[u8], at: usize) -> u64 {
    debug_assert!(at + 8 <= text.len());
    // SAFETY: positions are inside the text, and the window keeps 64 bytes and more behind it.
    unsafe { u64::from_le(text.as_ptr().add(at).cast::<u64>().read_unaligned()) }
}

pub const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The value of eight bytes of 0 to 9, the first one the most significant.
#[inline(always)]
pub fn join8(v: u64) -> u64 {
    // Wrapping: what is no number is multiplied before it is found out.
    let v = v.wrapping_mul(10).wrapping_add(v >> 8) & 0x00ff_00ff_00ff_00ff;
    let v = v.wrapping_mul(100).wrapping_add(v >> 16) & 0x0000_ffff_0000_ffff;
    v.wrapping_mul(10_000).wrapping_add(v >> 32) & 0xffff_ffff
}

#[inline(always)]
pub fn all_digits(v: u64) -> bool {
    (v.wrapping_add(0x7676_7676_7676_7676) | v) & 0x8080_8080_8080_8080 == 0
}

/// The digits of `text[start..start + len]`, 1 <= len <= 8.
#[inline(always)]
pub fn upto8(text: &[u8], start: usize, len: usize) -> Option<u64> {
    // The bytes behind the digits are shifted out, and the zeros shifted in lead the number.
    let v = (load8(text, start) ^ ZEROS) << ((8 - len) * 8);
    all_digits(v).then(|| join8(v))
}

/// Any number of digits below 2^64, at most 20.
#[inline(always)]
pub fn upto20(text: &[u8], mut start: usize, end: usize) -> Option<u64> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(1) < 8 {
        return upto8(text, start, len);
    }
    long(text, &mut start, len)
}

#[inline(never)]
fn long(text: &[u8], start: &mut usize, len: usize) -> Option<u64> {
    if len == 0 || len > 20 {
        return None;
    }
    let head = len % 8;
    let mut value = if head > 0 { upto8(text, *start, head)? } else { 0 };
    let mut at = *start + head;
    while at < *start + len {
        value = value.checked_mul(100_000_000)?.checked_add(upto8(text, at, 8)?)?;
        at += 8;
    }
    Some(value)
}

#[derive(Default)]
pub struct Unsigned<T>(PhantomData<T>);

impl<T: TryFrom<u64> + Copy + Default + Number> Fixed for Unsigned<T> {
    type Out = T;
    const ZERO: T = T::ZERO;
    const BARE: bool = true;
    const MOST: Option<u32> = Some(T::MOST);

    #[inline(always)]
    fn number(number: u32) -> T {
        T::number(number)
    }

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<T> {
        T::try_from(upto20(text, start, end)?).ok()
    }
}

#[derive(Default)]
pub struct Signed<T>(PhantomData<T>);

impl<T: TryFrom<i64> + Copy + Default + Number> Fixed for Signed<T> {
    type Out = T;
    const ZERO: T = T::ZERO;
    const BARE: bool = true;
    const MOST: Option<u32> = Some(T::MOST);

    #[inline(always)]
    fn number(number: u32) -> T {
        T::number(number)
    }

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<T> {
        let minus = load8(text, start) as u8 == b'-';
        let size = upto20(text, start + usize::from(minus), end)?;
        // -2^63 is the one number whose size is no i64.
        let value = if minus { 0i64.wrapping_sub(size as i64) } else { size as i64 };
        if value != 0 && (value < 0) != minus {
            return None;
        }
        T::try_from(value).ok()
    }
}

pub trait Number {
    const ZERO: Self;
    /// The greatest value, or the greatest u32 if that is less.
    const MOST: u32;
    /// One that is not greater.
    fn number(number: u32) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => { $(impl Number for $t {
        const ZERO: $t = 0;
        const MOST: u32 = if <$t>::MAX as u64 > u32::MAX as u64 { u32::MAX } else { <$t>::MAX as u32 };

        #[inline(always)]
        fn number(number: u32) -> $t {
            number as $t
        }
    })* };
}
number!(i8, i16, i32, i64, u8, u16, u32, u64);
