//! Parses integers of 128 and 256 bits, as limbs of 64 bits, the lowest first.

use crate::values::fixed_width::FixedWidth;
use crate::values::integer::up_to_8_digits;

/// Make `limbs` to `limbs * factor + more`; false where it does not fit.
#[inline(always)]
fn multiply_add<const N: usize>(limbs: &mut [u64; N], factor: u64, more: u64) -> bool {
    let mut carry = u128::from(more);
    for limb in limbs {
        let product = u128::from(*limb) * u128::from(factor) + carry;
        *limb = product as u64;
        carry = product >> 64;
    }
    carry == 0
}

/// Parse the digits `text[start..end]`, at least one; None where the number does not fit.
#[inline(always)]
pub fn magnitude<const N: usize>(text: &[u8], start: usize, end: usize) -> Option<[u64; N]> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(1) >= 78 {
        return None;
    }
    let mut limbs = [0u64; N];
    let head = (len - 1) % 8 + 1;
    limbs[0] = up_to_8_digits(text, start, head)?;
    let mut at = start + head;
    while at < end {
        if !multiply_add(&mut limbs, 100_000_000, up_to_8_digits(text, at, 8)?) {
            return None;
        }
        at += 8;
    }
    Some(limbs)
}

/// `limbs * 10^power`; None where it does not fit.
pub fn scale<const N: usize>(mut limbs: [u64; N], mut power: usize) -> Option<[u64; N]> {
    while power > 0 {
        let step = power.min(19);
        if !multiply_add(&mut limbs, 10u64.pow(step as u32), 0) {
            return None;
        }
        power -= step;
    }
    Some(limbs)
}

/// Negate a number (two's complement).
pub fn negate<const N: usize>(limbs: &mut [u64; N]) {
    let mut carry = true;
    for limb in limbs {
        let (value, over) = (!*limb).overflowing_add(u64::from(carry));
        *limb = value;
        carry = over;
    }
}

fn signed<const N: usize>(text: &[u8], start: usize, end: usize, signed: bool) -> Option<[u64; N]> {
    let minus = signed && text[start] == b'-';
    let at = start + usize::from(minus);
    // The engine's text of the number is compared with the field: no leading zeros, no -0.
    if text[at] == b'0' && (minus || end.wrapping_sub(at) != 1) {
        return None;
    }
    let mut limbs = magnitude::<N>(text, at, end)?;
    if minus {
        negate(&mut limbs);
    }
    let negative = limbs[N - 1] >> 63 == 1;
    (!signed || negative == minus).then_some(limbs)
}

/// Parses Int128 and UInt128.
pub struct Int128 {
    pub signed: bool,
}

impl FixedWidth for Int128 {
    type Out = [u64; 2];
    const ZERO: [u64; 2] = [0; 2];
    const UNQUOTED: bool = true;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<[u64; 2]> {
        signed(text, start, end, self.signed)
    }
}

/// Parses Int256 and UInt256.
pub struct Int256 {
    pub signed: bool,
}

impl FixedWidth for Int256 {
    type Out = [u64; 4];
    const ZERO: [u64; 4] = [0; 4];
    const UNQUOTED: bool = true;

    #[inline(always)]
    fn parse(&mut self, text: &[u8], start: usize, end: usize) -> Option<[u64; 4]> {
        signed(text, start, end, self.signed)
    }
}
