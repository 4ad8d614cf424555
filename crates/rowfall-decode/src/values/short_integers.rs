//! Parses short integers, 64 fields at once: eight bytes of each field, its digits moved to their
//! end, and the digits of eight numbers joined by seven instructions.

use crate::simd::Simd;
use crate::text::fields::Fields;
use crate::values::integer::{ZEROS, all_digits, join_8_digits, load8};

/// Fields that are parsed together: as many as a mask has bits.
pub const GROUP: usize = 64;

/// The numbers that a group may hold.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The greatest one.
    pub most: u32,
    /// Zeros may lead a number: `007`.
    pub leading_zeros: bool,
}

/// Parse `GROUP` fields from row `first` on into `out`. Returns a bit for each field that is not
/// one to eight digits, or is beyond the limits: its number is not valid.
#[inline(always)]
pub fn decode_group<'a, C: Fields<'a>>(
    fields: &C,
    first: usize,
    limits: Limits,
    out: &mut [u32; GROUP],
) -> u64 {
    let batch = fields.batch();
    match fields.unquoted_index() {
        Some((index, place, step)) => {
            let index = &index[first * step + place..][..(GROUP - 1) * step + 2];
            let span = |n: usize| {
                debug_assert!(n < GROUP);
                // SAFETY: n < GROUP, so that n * step + 1 is within the slice.
                unsafe { index.as_ptr().add(n * step).cast::<[u32; 2]>().read_unaligned() }
            };
            // An entry of the index is the byte before a field.
            parse::<1>(batch.options.simd, batch.text, span, limits, out)
        }
        None => {
            let mut spans = [[0; 2]; GROUP];
            for (n, span) in spans.iter_mut().enumerate() {
                let (from, to) = fields.bounds(first + n);
                let (start, end) = fields.unquoted(from, to);
                *span = [start as u32, end as u32];
            }
            parse::<0>(batch.options.simd, batch.text, |n| spans[n], limits, out)
        }
    }
}

/// Parse the fields whose spans are given: where one ends, and the byte that is `SKIP` before where it
/// starts. All are inside the text, as [`Fields`] says.
#[inline(always)]
fn parse<const SKIP: u32>(
    simd: Simd,
    text: &[u8],
    span: impl Fn(usize) -> [u32; 2],
    limits: Limits,
    out: &mut [u32; GROUP],
) -> u64 {
    match simd {
        Simd::Scalar => {
            let mut odd = 0;
            for (n, number) in out.iter_mut().enumerate() {
                let [before, end] = span(n).map(|at| at as usize);
                let word = digits(text, before + SKIP as usize, end, limits);
                *number = join_8_digits(word) as u32;
                odd |= u64::from(!all_digits(word) || *number > limits.most) << n;
            }
            odd
        }
        // SAFETY: `Simd::choose` has found AVX2, which is part of both.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 | Simd::Avx512 => unsafe { parse_avx2::<SKIP>(text, span, limits, out) },
    }
}

/// The bytes of a field less `0`, zeros before them; all ones where it is empty or longer, or begins
/// with a zero that it may not begin with.
#[inline(always)]
fn digits(text: &[u8], start: usize, end: usize, limits: Limits) -> u64 {
    let len = end.wrapping_sub(start);
    let less = load8(text, start) ^ ZEROS;
    let led = !limits.leading_zeros && len > 1 && less & 0xff == 0;
    let word = less.wrapping_shl(0u32.wrapping_sub(len as u32 * 8));
    if len.wrapping_sub(1) < 8 && !led { word } else { u64::MAX }
}

/// SAFETY: on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn parse_avx2<const SKIP: u32>(
    text: &[u8],
    span: impl Fn(usize) -> [u32; 2],
    limits: Limits,
    out: &mut [u32; GROUP],
) -> u64 {
    use std::arch::x86_64::*;
    let skip = i64::from(SKIP);
    let zero = _mm256_setzero_si256();
    let strict = _mm256_set1_epi64x(if limits.leading_zeros { 0 } else { -1 });
    // Of four fields the digits, zeros before them, and the lengths less one. Where a zero leads a
    // number that it may not lead, all bits are set, which are no digits.
    let four = |n: usize| {
        let spans = [span(n), span(n + 1), span(n + 2), span(n + 3)];
        let wide = |words: [i64; 4]| _mm256_set_epi64x(words[3], words[2], words[1], words[0]);
        let start = |[before, _]: [u32; 2]| before as usize + SKIP as usize;
        let words = wide(spans.map(|span| load8(text, start(span)).cast_signed()));
        let both = wide(spans.map(|[low, high]| i64::from(low) | i64::from(high) << 32));
        let before = _mm256_and_si256(both, _mm256_set1_epi64x(i64::from(u32::MAX)));
        let length = _mm256_sub_epi64(_mm256_srli_epi64::<32>(both), before);
        // All is shifted out where there are 64 or more, as of an empty or a longer field.
        let shifts = _mm256_slli_epi64::<3>(length);
        let shifts = _mm256_sub_epi64(_mm256_set1_epi64x(64 + 8 * skip), shifts);
        let less = _mm256_xor_si256(words, _mm256_set1_epi64x(ZEROS.cast_signed()));
        let length = _mm256_sub_epi64(length, _mm256_set1_epi64x(skip + 1));
        let first = _mm256_and_si256(less, _mm256_set1_epi64x(0xff));
        let led = _mm256_and_si256(_mm256_cmpeq_epi64(first, zero), strict);
        let led = _mm256_and_si256(led, _mm256_cmpgt_epi64(length, zero));
        (_mm256_or_si256(_mm256_sllv_epi64(less, shifts), led), length)
    };
    // Pairs of digits, pairs of those, and once more.
    let pairs = |v| _mm256_maddubs_epi16(v, _mm256_set1_epi16(0x010a));
    let fours = |v| _mm256_madd_epi16(pairs(v), _mm256_set1_epi32(0x0001_0064));
    // The greatest digit, length and number of all: mostly none of them is odd.
    let (mut digit, mut length, mut number) = (zero, zero, zero);
    for (n, to) in out.chunks_exact_mut(8).enumerate() {
        let (low, low_length) = four(8 * n);
        let (high, high_length) = four(8 * n + 4);
        let packed = _mm256_packus_epi32(fours(low), fours(high));
        let mixed = _mm256_madd_epi16(packed, _mm256_set1_epi32(0x0001_2710));
        // Words 0 1 4 5 | 2 3 6 7 by now.
        let numbers = _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed);
        // SAFETY: eight numbers of 4 bytes are a vector.
        unsafe { to.as_mut_ptr().cast::<__m256i>().write_unaligned(numbers) };
        digit = _mm256_max_epu8(digit, _mm256_max_epu8(low, high));
        length = _mm256_max_epu32(length, _mm256_max_epu32(low_length, high_length));
        number = _mm256_max_epu32(number, numbers);
    }
    let (nine, seven) = (_mm256_set1_epi8(9), _mm256_set1_epi64x(7));
    let over = _mm256_or_si256(_mm256_subs_epu8(digit, nine), _mm256_andnot_si256(seven, length));
    let least = _mm256_set1_epi32(limits.most.cast_signed());
    let over = _mm256_or_si256(over, _mm256_xor_si256(_mm256_max_epu32(number, least), least));
    if _mm256_testz_si256(over, over) == 1 {
        return 0;
    }
    let mut odd = 0;
    for (n, numbers) in out.chunks_exact(8).enumerate() {
        for half in [0, 4] {
            let (digits, length) = four(8 * n + half);
            let over = _mm256_subs_epu8(digits, nine);
            let over = _mm256_or_si256(over, _mm256_andnot_si256(seven, length));
            let fine = _mm256_castsi256_pd(_mm256_cmpeq_epi64(over, zero));
            odd |= (!_mm256_movemask_pd(fine) as u64 & 15) << (8 * n + half);
        }
        for (m, &number) in numbers.iter().enumerate() {
            odd |= u64::from(number > limits.most) << (8 * n + m);
        }
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A field of digits, or nearly so.
    fn field() -> impl Strategy<Value = String> {
        prop_oneof![
            12 => "[0-9]{1,3}",
            4 => "0{0,4}[0-9]{1,8}",
            1 => "[0-9]{0,4}[-+. eE/:\\x00\\x80'a]?[0-9]{0,4}",
            1 => "[0-9]{9,20}",
            1 => Just(String::new()),
        ]
    }

    proptest! {
        /// All find the numbers that are there, and what is none.
        #[test]
        fn all_instructions_find_the_same(
            fields in prop::collection::vec(field(), GROUP),
            usual in any::<bool>(),
            most in prop_oneof![Just(127), Just(255), Just(65_535), Just(u32::MAX)],
            leading_zeros in any::<bool>(),
        ) {
            let limits = Limits { most, leading_zeros };
            let number = |field: &str| {
                let fine = (1..=8).contains(&field.len()) && field.bytes().all(|c| c.is_ascii_digit());
                let fine = fine && (leading_zeros || field.len() == 1 || !field.starts_with('0'));
                field.parse().ok().filter(|number| fine && *number <= most)
            };
            let plain = |field: String| if number(&field).is_some() { field } else { "7".to_owned() };
            let fields: Vec<_> =
                fields.into_iter().map(|field| if usual { plain(field) } else { field }).collect();
            let (mut text, mut index) = (vec![b'9'; 64], vec![63]);
            for field in &fields {
                text.extend_from_slice(field.as_bytes());
                index.push(text.len() as u32);
                text.push(b',');
            }
            text.extend_from_slice(&[b'9'; 64]);
            for simd in ["scalar", "avx2", "avx512"].into_iter().filter_map(Simd::choose) {
                let (mut numbers, mut apart) = ([0; GROUP], [0; GROUP]);
                let next = |n: usize| [index[n], index[n + 1]];
                let odd = parse::<1>(simd, &text, next, limits, &mut numbers);
                let own = |n: usize| [index[n] + 1, index[n + 1]];
                prop_assert_eq!(parse::<0>(simd, &text, own, limits, &mut apart), odd);
                for (n, field) in fields.iter().enumerate() {
                    let wanted = number(field);
                    prop_assert_eq!(odd >> n & 1 == 1, wanted.is_none(), "{} {:?}", n, simd);
                    if let Some(wanted) = wanted {
                        prop_assert_eq!((numbers[n], apart[n]), (wanted, wanted));
                    }
                }
            }
        }
    }
}
