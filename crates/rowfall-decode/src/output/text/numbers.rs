//! Writes numbers as the engine's text formats have them.

/// The digits of 0 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// The two digits of a number below 100.
#[inline(always)]
pub fn pair(n: u32) -> [u8; 2] {
    PAIRS[n as usize]
}

/// Append a number.
#[inline(always)]
pub fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    if n < 10 {
        return out.push(b'0' + n as u8);
    }
    let (mut digits, mut at) = ([0u8; 20], 20);
    while n >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Append a number with its sign.
#[inline(always)]
pub fn put_i64(out: &mut Vec<u8>, n: i64) {
    if n < 0 {
        out.push(b'-');
    }
    put_u64(out, n.unsigned_abs());
}

/// Append a number with `width` digits at least, zeros in front.
#[inline(always)]
pub fn put_padded(out: &mut Vec<u8>, n: u64, width: usize) {
    let (mut digits, mut rest) = ([b'0'; 20], n);
    for at in (0..20).rev() {
        if rest == 0 {
            break;
        }
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[20 - width..]);
}

/// 10^19, the largest power of ten in 64 bits, and its digits.
const POWER: (u64, usize) = (10_000_000_000_000_000_000, 19);

/// The digits of a little-endian integer of up to 32 bytes; true where it is below zero.
pub fn wide_digits(bytes: &[u8], signed: bool, digits: &mut Vec<u8>) -> bool {
    let negative = signed && bytes.last().is_some_and(|byte| byte & 128 != 0);
    let mut limbs = [0u64; 4];
    let count = bytes.len() / 8;
    for (limb, word) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
        *limb = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    }
    if negative {
        let mut carry = true;
        for limb in &mut limbs[..count] {
            let (value, over) = (!*limb).overflowing_add(u64::from(carry));
            (*limb, carry) = (value, over);
        }
    }
    // The groups of 19 digits, the lowest one first.
    let mut groups = Vec::with_capacity(5);
    loop {
        let mut rest = 0u128;
        for limb in limbs[..count].iter_mut().rev() {
            let value = rest << 64 | u128::from(*limb);
            *limb = (value / u128::from(POWER.0)) as u64;
            rest = value % u128::from(POWER.0);
        }
        groups.push(rest as u64);
        if limbs == [0; 4] {
            break;
        }
    }
    digits.clear();
    put_u64(digits, groups.pop().expect("one at least"));
    while let Some(group) = groups.pop() {
        put_padded(digits, group, POWER.1);
    }
    negative
}

/// Append an integer of 16 or 32 bytes.
pub fn put_wide(out: &mut Vec<u8>, bytes: &[u8], signed: bool) {
    let mut digits = Vec::new();
    if wide_digits(bytes, signed, &mut digits) {
        out.push(b'-');
    }
    out.extend_from_slice(&digits);
}

/// Append a decimal of 4 or 8 bytes, without zeros behind its last digit.
#[inline(always)]
pub fn put_decimal(out: &mut Vec<u8>, value: i64, scale: u8) {
    if value < 0 {
        out.push(b'-');
    }
    let (value, power) = (value.unsigned_abs(), 10u64.pow(scale.into()));
    put_u64(out, value / power);
    let (mut fraction, mut digits) = (value % power, usize::from(scale));
    if fraction == 0 {
        return;
    }
    while fraction.is_multiple_of(10) {
        (fraction, digits) = (fraction / 10, digits - 1);
    }
    out.push(b'.');
    put_padded(out, fraction, digits);
}

/// Append a decimal of 16 or 32 bytes, without zeros behind its last digit.
pub fn put_wide_decimal(out: &mut Vec<u8>, bytes: &[u8], scale: u8) {
    let (mut digits, scale) = (Vec::new(), usize::from(scale));
    if wide_digits(bytes, true, &mut digits) {
        out.push(b'-');
    }
    if digits.len() <= scale {
        digits.splice(..0, std::iter::repeat_n(b'0', scale + 1 - digits.len()));
    }
    let point = digits.len() - scale;
    out.extend_from_slice(&digits[..point]);
    let fraction = &digits[point..];
    let used = fraction.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    if used > 0 {
        out.push(b'.');
        out.extend_from_slice(&fraction[..used]);
    }
}

/// Up to so many digits a decimal is the only one of its length that means a Float64 or a Float32.
const EXACT: (f64, f64) = (1e15, 1e6);

/// Append `value` where it has two digits behind the point at most, which are then the shortest text
/// that means it: prices and distances, at a fifth of the cost of finding that text.
#[inline(always)]
fn put_short(out: &mut Vec<u8>, value: f64, most: f64, same: impl Fn(f64) -> bool) -> bool {
    let hundreds = (value * 100.0).round();
    if hundreds.abs() >= most || hundreds == 0.0 || !same(hundreds / 100.0) {
        return false;
    }
    put_decimal(out, hundreds as i64, 2);
    true
}

/// Append a Float64 with the fewest digits that mean it.
#[inline(always)]
pub fn put_f64(out: &mut Vec<u8>, value: f64) {
    if value.to_bits() == 0 {
        out.push(b'0');
    } else if !put_short(out, value, EXACT.0, |found| found == value) {
        put_special(out, value, |buffer| buffer.format_finite(value).as_bytes());
    }
}

/// Append a Float32 with the fewest digits that mean it.
#[inline(always)]
pub fn put_f32(out: &mut Vec<u8>, value: f32) {
    if value.to_bits() == 0 {
        out.push(b'0');
    } else if !put_short(out, value.into(), EXACT.1, |found| found as f32 == value) {
        put_special(out, value.into(), |buffer| buffer.format_finite(value).as_bytes());
    }
}

#[inline(never)]
fn put_special(out: &mut Vec<u8>, value: f64, shortest: impl Fn(&mut zmij::Buffer) -> &[u8]) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    if value == 0.0 {
        return out.push(b'0');
    }
    let mut buffer = zmij::Buffer::new();
    let (mut digits, mut count, mut point, mut exponent) = ([0u8; 24], 0usize, None, 0i32);
    let mut text = shortest(&mut buffer).iter();
    while let Some(&byte) = text.next() {
        match byte {
            b'0'..=b'9' => {
                // Zeros in front say nothing but where the point is.
                if count > 0 || byte != b'0' {
                    digits[count] = byte;
                    count += 1;
                } else if point.is_some() {
                    exponent -= 1;
                }
            }
            b'.' => point = Some(count),
            b'e' => {
                let rest = std::str::from_utf8(text.as_slice()).expect("ASCII");
                exponent += rest.parse::<i32>().expect("a number");
                break;
            }
            _ => {}
        }
    }
    // The value is 0.DIGITS * 10^place.
    let place = point.unwrap_or(count) as i32 + exponent;
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    place_digits(out, &digits[..count], place);
}

/// Append 0.DIGITS * 10^place: with an exponent from 1e21 on and below 1e-6.
fn place_digits(out: &mut Vec<u8>, digits: &[u8], place: i32) {
    let count = digits.len() as i32;
    if !(-5..=21).contains(&place) {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        return put_i64(out, i64::from(place) - 1);
    }
    if place <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', -place as usize));
        return out.extend_from_slice(digits);
    }
    if count <= place {
        out.extend_from_slice(digits);
        return out.extend(std::iter::repeat_n(b'0', (place - count) as usize));
    }
    out.extend_from_slice(&digits[..place as usize]);
    out.push(b'.');
    out.extend_from_slice(&digits[place as usize..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn floats_are_as_the_engine_writes_them() {
        for (value, expected) in [
            (9007199254740991.0, "9007199254740991"),
            (123456789012345678.0, "123456789012345680"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (1.5e21, "1.5e21"),
            (1e-6, "0.000001"),
            (1.25e-6, "0.00000125"),
            (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (5e-324, "5e-324"),
            (-0.0, "-0"),
            (-1234.5678, "-1234.5678"),
            (0.30000000000000004, "0.30000000000000004"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.05, "-0.05"),
            (1234567800.0, "1234567800"),
        ] {
            assert_eq!(text(|out| put_f64(out, value)), expected);
        }
        assert_eq!(text(|out| put_f32(out, 9007199254740994.0)), "9007199000000000");
        assert_eq!(text(|out| put_f32(out, -1234.5678)), "-1234.5677");
        assert_eq!(text(|out| put_f32(out, 3.4e38)), "3.4e38");
    }

    #[test]
    fn every_float_means_what_it_was() {
        let mut bits = 1u64;
        for _ in 0..300_000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let cents = (bits >> 40) as f64 / 100.0;
            for value in [f64::from_bits(bits), cents, bits as f64 / 1e6] {
                if value.is_finite() {
                    let found: f64 = text(|out| put_f64(out, value)).parse().expect("a number");
                    assert_eq!(found.to_bits(), value.to_bits());
                }
                let value = value as f32;
                if value.is_finite() {
                    let found = text(|out| put_f32(out, value));
                    assert_eq!(found.parse::<f32>().expect("a number").to_bits(), value.to_bits());
                    let shortest = format!("{value:e}").len();
                    let digits = found.trim_matches(['-', '0', '.']).len();
                    assert!(found.contains('e') || digits <= shortest + 25, "{found}");
                }
            }
        }
    }

    #[test]
    fn decimals_lose_zeros_behind_them() {
        assert_eq!(text(|out| put_decimal(out, -5, 2)), "-0.05");
        assert_eq!(text(|out| put_decimal(out, 15000, 4)), "1.5");
        assert_eq!(text(|out| put_decimal(out, i64::MIN, 0)), "-9223372036854775808");
        let wide = (-1_000_000_000_000_000_000_100i128).to_le_bytes();
        assert_eq!(text(|out| put_wide_decimal(out, &wide, 20)), "-10.000000000000000001");
        assert_eq!(text(|out| put_wide_decimal(out, &5i128.to_le_bytes(), 3)), "0.005");
        assert_eq!(
            text(|out| put_wide(out, &i128::MIN.to_le_bytes(), true)),
            i128::MIN.to_string()
        );
        assert_eq!(
            text(|out| put_wide(out, &u128::MAX.to_le_bytes(), false)),
            u128::MAX.to_string()
        );
    }
}
