//! Finds the values of a column that are no defaults, as bits: in words of 64, the lowest bit first.

use crate::column::reorder::RowSelection;

/// A bit for each value of `width` bytes that is not zero.
pub fn filled(data: &[u8], width: usize) -> Vec<u64> {
    #[cfg(target_arch = "x86_64")]
    if matches!(width, 1 | 2 | 4 | 8) && is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { avx2::filled(data, width) };
    }
    filled_portable(data, width)
}

fn filled_portable(data: &[u8], width: usize) -> Vec<u64> {
    fn find<const N: usize>(data: &[u8]) -> Vec<u64> {
        bits(data.as_chunks::<N>().0.iter().map(|value| *value != [0; N]))
    }
    match width {
        1 => find::<1>(data),
        2 => find::<2>(data),
        4 => find::<4>(data),
        8 => find::<8>(data),
        16 => find::<16>(data),
        _ => bits(data.chunks_exact(width).map(|value| value.iter().any(|b| *b != 0))),
    }
}

/// Bits of so many flags.
pub fn bits(flags: impl ExactSizeIterator<Item = bool>) -> Vec<u64> {
    let mut found = vec![0; flags.len().div_ceil(64)];
    for (number, flag) in flags.enumerate() {
        found[number / 64] |= u64::from(flag) << (number % 64);
    }
    found
}

/// How many bits there are.
pub fn count(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// Visit the rows whose bits are set, in their order: with the place among the rows, and the row.
pub fn each_filled(bits: &[u64], rows: RowSelection<'_>, mut visit: impl FnMut(usize, u32)) {
    let set = |row: usize| bits[row / 64] >> (row % 64) & 1 == 1;
    let RowSelection::Order(order) = rows else {
        let found = rows.map(|row| row as u32).enumerate().filter(|(_, row)| set(*row as usize));
        return found.for_each(|(place, row)| visit(place, row));
    };
    for (chunk, rows) in order.chunks(64).enumerate() {
        let mut word = word_in_order(bits, rows);
        while word != 0 {
            let place = word.trailing_zeros() as usize;
            visit(64 * chunk + place, rows[place]);
            word &= word - 1;
        }
    }
}

/// The bits of up to 64 rows.
fn word_in_order(bits: &[u64], rows: &[u32]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let (Ok(rows), true) = (rows.try_into(), is_x86_feature_detected!("avx2")) {
        // SAFETY: the machine has AVX2.
        return unsafe { avx2::word_in_order(bits, rows) };
    }
    let bit = |row: u32| bits[row as usize / 64] >> (row % 64) & 1;
    rows.iter().rev().fold(0, |word, row| word << 1 | bit(*row))
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    /// [`super::filled`] of values of 1, 2, 4 or 8 bytes.
    #[target_feature(enable = "avx2")]
    pub fn filled(data: &[u8], width: usize) -> Vec<u64> {
        let whole = data.chunks_exact(64 * width);
        let rest = whole.remainder();
        let mut found = Vec::with_capacity(data.len().div_ceil(64 * width));
        found.extend(whole.map(|values| !zeros(values, width)));
        found.extend(super::filled_portable(rest, width));
        found
    }

    /// A bit for each of 64 values that is zero.
    #[target_feature(enable = "avx2")]
    fn zeros(values: &[u8], width: usize) -> u64 {
        let none = _mm256_setzero_si256();
        let load = |number: usize| {
            let bytes: &[u8; 32] = values[32 * number..][..32].try_into().expect("32 bytes");
            // SAFETY: the bytes are there; the load needs no alignment.
            unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
        };
        let mut word = 0;
        match width {
            1 => {
                for n in 0..2 {
                    let found = _mm256_movemask_epi8(_mm256_cmpeq_epi8(load(n), none));
                    word |= u64::from(found as u32) << (32 * n);
                }
            }
            2 => {
                for n in 0..2 {
                    let low = _mm256_cmpeq_epi16(load(2 * n), none);
                    let high = _mm256_cmpeq_epi16(load(2 * n + 1), none);
                    // Packing takes the halves of both in turn.
                    let both =
                        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
                    word |= u64::from(_mm256_movemask_epi8(both) as u32) << (32 * n);
                }
            }
            4 => {
                for n in 0..8 {
                    let found = _mm256_castsi256_ps(_mm256_cmpeq_epi32(load(n), none));
                    word |= (_mm256_movemask_ps(found) as u64) << (8 * n);
                }
            }
            _ => {
                for n in 0..16 {
                    let found = _mm256_castsi256_pd(_mm256_cmpeq_epi64(load(n), none));
                    word |= (_mm256_movemask_pd(found) as u64) << (4 * n);
                }
            }
        }
        word
    }

    /// [`super::word_in_order`] of 64 rows.
    #[target_feature(enable = "avx2")]
    pub fn word_in_order(bits: &[u64], rows: &[u32; 64]) -> u64 {
        let last = rows.iter().fold(0, |last, row| last.max(*row));
        assert!((last as usize) < 64 * bits.len());
        let mut word = 0;
        for n in 0..8 {
            let rows: &[u32; 8] = rows[8 * n..][..8].try_into().expect("8 rows");
            // SAFETY: the rows are there, and each has a bit, see above. A word of 64 bits is two of
            // 32, the lower half first; the number of one is less than 2^27, as a row's has 32 bits.
            let found = unsafe {
                let rows = _mm256_loadu_si256(rows.as_ptr().cast());
                let words = _mm256_srli_epi32::<5>(rows);
                let words = _mm256_i32gather_epi32::<4>(bits.as_ptr().cast(), words);
                let shift = _mm256_andnot_si256(rows, _mm256_set1_epi32(31));
                _mm256_sllv_epi32(words, shift)
            };
            word |= (_mm256_movemask_ps(_mm256_castsi256_ps(found)) as u64) << (8 * n);
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What AVX2 finds is what the portable code finds, whatever the width, the number of values and
    /// the order.
    #[test]
    fn bits_are_the_same() {
        for width in [1, 2, 3, 4, 8, 16, 32] {
            for rows in [0usize, 1, 31, 63, 64, 65, 127, 128, 1000] {
                let mut data = vec![0; rows * width];
                for row in (0..rows).filter(|row| row * row % 7 < 2) {
                    // Any of its bytes may be the one that is not zero.
                    data[row * width + row % width] = 1 << (row % 8);
                }
                let found = filled(&data, width);
                assert_eq!(found, filled_portable(&data, width), "{width} {rows}");
                let wanted: Vec<u32> =
                    (0..rows as u32).filter(|row| u64::from(*row).pow(2) % 7 < 2).collect();
                assert_eq!(count(&found), wanted.len());
                let order: Vec<u32> = (0..rows as u32).rev().collect();
                let both = [RowSelection::Range(0, rows), RowSelection::Order(&order)];
                for (rows_in, back) in both.into_iter().zip([false, true]) {
                    let mut seen = Vec::new();
                    each_filled(&found, rows_in, |place, row| {
                        let at = if back { rows - 1 - row as usize } else { row as usize };
                        assert_eq!(place, at);
                        seen.push(row);
                    });
                    seen.sort_unstable();
                    assert_eq!(seen, wanted, "{width} {rows}");
                }
            }
        }
    }
}
