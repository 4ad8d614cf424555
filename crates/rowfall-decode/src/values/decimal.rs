//! Parses decimals: the digits without their point, filled up with zeros to the type's scale.

use std::marker::PhantomData;

use crate::values::fixed_width::FixedWidth;
use crate::values::integer::{Integer, up_to_20_digits};
use crate::values::wide_integer::{magnitude, negate, scale};

/// The sign of a number, and the positions of its digits before and behind the point.
struct Parts {
    minus: bool,
    before: (usize, usize),
    behind: (usize, usize),
}

/// Take apart a number in plain notation, with digits on both sides of the point if there is one;
/// zeros at the end that go beyond the scale are left out.
#[inline(always)]
fn parts(text: &[u8], start: usize, end: usize, scale: usize) -> Option<Parts> {
    let minus = text[start] == b'-';
    let start = start + usize::from(minus);
    let field = text.get(start..end)?;
    let Some(point) = field.iter().position(|c| *c == b'.') else {
        return Some(Parts { minus, before: (start, end), behind: (end, end) });
    };
    let (from, mut to) = (start + point + 1, end);
    if point == 0 || from == to {
        return None;
    }
    while to - from > scale {
        if text[to - 1] != b'0' {
            return None;
        }
        to -= 1;
    }
    Some(Parts { minus, before: (start, start + point), behind: (from, to) })
}

/// Parses decimals of 4 and 8 bytes.
pub struct SmallDecimal<T> {
    scale: usize,
    /// 10^precision: all values are less.
    limit: i64,
    kind: PhantomData<T>,
}

impl<T> SmallDecimal<T> {
    pub fn new(precision: u8, scale: u8) -> Self {
        SmallDecimal {
            scale: usize::from(scale),
            limit: 10i64.pow(precision.into()),
            kind: PhantomData,
        }
    }
}

impl<T: TryFrom<i64> + Copy + Integer> FixedWidth for SmallDecimal<T> {
    type Out = T;
    const ZERO: T = T::ZERO;
    const UNQUOTED: bool = true;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<T> {
        let found = parts(text, start, end, self.scale)?;
        let (from, to) = found.behind;
        let behind = if from == to { 0 } else { up_to_20_digits(text, from, to)? };
        let before = up_to_20_digits(text, found.before.0, found.before.1)?;
        let whole = before.checked_mul(10u64.pow(self.scale as u32))?;
        let part = behind.checked_mul(10u64.pow((self.scale - (to - from)) as u32))?;
        let value = i64::try_from(whole.checked_add(part)?).ok().filter(|v| *v < self.limit)?;
        T::try_from(if found.minus { -value } else { value }).ok()
    }
}

/// Parses decimals of N x 8 bytes.
pub struct WideDecimal<const N: usize> {
    scale: usize,
    limit: [u64; N],
}

impl<const N: usize> WideDecimal<N> {
    pub fn new(precision: u8, digits: u8) -> Self {
        let mut one = [0; N];
        one[0] = 1;
        let limit = scale(one, precision.into()).expect("10^76 has 253 bits, 10^38 has 127");
        WideDecimal { scale: digits.into(), limit }
    }
}

impl<const N: usize> FixedWidth for WideDecimal<N> {
    type Out = [u64; N];
    const ZERO: [u64; N] = [0; N];
    const UNQUOTED: bool = true;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<[u64; N]> {
        let found = parts(text, start, end, self.scale)?;
        let (from, to) = found.behind;
        let mut value = magnitude::<N>(text, found.before.0, found.before.1)?;
        value = scale(value, self.scale)?;
        if from < to {
            let part = magnitude::<N>(text, from, to)?;
            let part = scale(part, self.scale - (to - from))?;
            let mut carry = false;
            for (limb, more) in value.iter_mut().zip(part) {
                let (sum, one) = limb.overflowing_add(more);
                let (sum, two) = sum.overflowing_add(u64::from(carry));
                *limb = sum;
                carry = one || two;
            }
            if carry {
                return None;
            }
        }
        if value.iter().rev().ge(self.limit.iter().rev()) {
            return None;
        }
        if found.minus {
            negate(&mut value);
        }
        Some(value)
    }
}
