//! Parses short integers, 64 fields at once: eight bytes of each field are put aside, then the
//! digits of eight numbers are joined by seven instructions.

use crate::simd::Simd;
use crate::text::fields::Fields;
use crate::values::integer::{ZEROS, all_digits, join_8_digits, load8};

/// Fields that are parsed together: as many as a mask has bits.
pub const GROUP: usize = 64;

/// The digits of each field, right-aligned: each byte 0 to 9, or greater where it is no digit.
type Words = [u64; GROUP];

/// Parse `GROUP` fields from row `first` on into `out`. Returns a bit for each field that is not
/// one to eight digits, or is greater than `most`: its number is not valid.
#[inline(always)]
pub fn decode_group<'a, C: Fields<'a>>(
    fields: &C,
    first: usize,
    most: u32,
    out: &mut [u32; GROUP],
) -> u64 {
    let batch = fields.batch();
    let mut words: Words = [0; GROUP];
    match fields.unquoted_index() {
        Some((index, place, step)) => {
            let index = &index[first * step + place..][..(GROUP - 1) * step + 2];
            for (n, word) in words.iter_mut().enumerate() {
                // SAFETY: n < GROUP, so that n * step + 1 is within the slice.
                let (before, end) =
                    unsafe { (*index.get_unchecked(n * step), *index.get_unchecked(n * step + 1)) };
                *word = digits(batch.text, before as usize + 1, end as usize);
            }
        }
        None => {
            for (n, word) in words.iter_mut().enumerate() {
                let (from, to) = fields.bounds(first + n);
                let (start, end) = fields.unquoted(from, to);
                *word = digits(batch.text, start, end);
            }
        }
    }
    match batch.options.simd {
        Simd::Scalar => join(&words, most, out),
        // SAFETY: `Simd::choose` has found AVX2, which is part of both.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 | Simd::Avx512 => unsafe { join_avx2(&words, most, out) },
    }
}

/// The bytes of a field less `0`, zeros before them; all ones where it is empty or longer.
#[inline(always)]
fn digits(text: &[u8], start: usize, end: usize) -> u64 {
    let len = end.wrapping_sub(start);
    let word = (load8(text, start) ^ ZEROS).wrapping_shl(0u32.wrapping_sub(len as u32 * 8));
    if len.wrapping_sub(1) < 8 { word } else { u64::MAX }
}

fn join(words: &Words, most: u32, out: &mut [u32; GROUP]) -> u64 {
    let mut odd = 0;
    for (n, (word, number)) in words.iter().zip(out).enumerate() {
        *number = join_8_digits(*word) as u32;
        odd |= u64::from(!all_digits(*word) || *number > most) << n;
    }
    odd
}

/// SAFETY: on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn join_avx2(words: &Words, most: u32, out: &mut [u32; GROUP]) -> u64 {
    use std::arch::x86_64::*;
    let nine = _mm256_set1_epi8(9);
    let most = _mm256_set1_epi32(most.min(i32::MAX as u32) as i32);
    // Pairs of digits, pairs of those, and once more.
    let pairs = |v| _mm256_maddubs_epi16(v, _mm256_set1_epi16(0x010a));
    let fours = |v| _mm256_madd_epi16(pairs(v), _mm256_set1_epi32(0x0001_0064));
    let mut odd = 0;
    for (n, (eight, to)) in words.chunks_exact(8).zip(out.chunks_exact_mut(8)).enumerate() {
        // SAFETY: eight words of 8 bytes are two vectors, eight numbers of 4 bytes one.
        let (low, high) = unsafe {
            let at = eight.as_ptr().cast::<__m256i>();
            (at.read_unaligned(), at.add(1).read_unaligned())
        };
        let fine = |v| {
            let over = _mm256_subs_epu8(v, nine);
            let none = _mm256_cmpeq_epi64(over, _mm256_setzero_si256());
            _mm256_movemask_pd(_mm256_castsi256_pd(none)) as u64
        };
        let packed = _mm256_packus_epi32(fours(low), fours(high));
        let mixed = _mm256_madd_epi16(packed, _mm256_set1_epi32(0x0001_2710));
        // Words 0 1 4 5 | 2 3 6 7 by now.
        let numbers = _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed);
        // SAFETY: as above.
        unsafe { to.as_mut_ptr().cast::<__m256i>().write_unaligned(numbers) };
        let greater = _mm256_cmpgt_epi32(numbers, most);
        let greater = _mm256_movemask_ps(_mm256_castsi256_ps(greater)) as u64;
        odd |= (!(fine(low) | fine(high) << 4) & 0xff | greater) << (8 * n);
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Words of digits, some with other bytes among them, some greater than the most.
        #[test]
        fn all_instructions_find_the_same(
            digits in prop::collection::vec(0..100_000_000u32, GROUP),
            strange in prop::collection::vec((0..GROUP, 0..8usize, 10u8..), 0..20),
            most in prop_oneof![Just(127), Just(255), Just(65_535), Just(u32::MAX)],
        ) {
            let mut words: Words = std::array::from_fn(|n| {
                let text = format!("{:08}", digits[n] >> (n % 27));
                u64::from_le_bytes(text.as_bytes().try_into().expect("8 bytes")) ^ ZEROS
            });
            for &(n, byte, value) in &strange {
                words[n] |= u64::from(value) << (8 * byte);
            }
            let (mut plain, mut wide) = ([0; GROUP], [0; GROUP]);
            let odd = join(&words, most, &mut plain);
            for n in 0..GROUP {
                let fine = strange.iter().all(|(m, ..)| *m != n) && digits[n] >> (n % 27) <= most;
                prop_assert_eq!(odd >> n & 1 == 0, fine);
                prop_assert!(!fine || plain[n] == digits[n] >> (n % 27));
            }
            #[cfg(target_arch = "x86_64")]
            if Simd::choose("avx2").is_some() {
                // SAFETY: just looked for.
                prop_assert_eq!(unsafe { join_avx2(&words, most, &mut wide) }, odd);
                for n in (0..GROUP).filter(|n| odd >> n & 1 == 0) {
                    prop_assert_eq!(wide[n], plain[n]);
                }
            }
        }
    }
}
