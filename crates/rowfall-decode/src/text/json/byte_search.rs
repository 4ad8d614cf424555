//! Searches JSON 32 bytes at a time: for the end of a string, of a number or a word, of a line; and
//! compares texts.

/// The searches for one set of instructions; bit n of a result stands for byte n.
pub trait ByteSearch {
    /// The bytes in which two texts are equal.
    ///
    /// SAFETY: 32 bytes are readable at both, and the CPU has the instructions.
    unsafe fn equal(a: *const u8, b: *const u8) -> u32;
    /// The quotes, backslashes and control characters.
    ///
    /// SAFETY: as for `equal`.
    unsafe fn special(at: *const u8) -> u32;
    /// The bytes that belong to no number and no word.
    ///
    /// SAFETY: as for `equal`.
    unsafe fn non_word(at: *const u8) -> u32;
}

/// The first quote, backslash or control character from `at` on; the text ends with a line end.
///
/// SAFETY: the CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn find_special<S: ByteSearch>(text: &[u8], mut at: usize) -> usize {
    while at + 32 <= text.len() {
        // SAFETY: 32 bytes are left, and the caller's promise.
        let mask = unsafe { S::special(text.as_ptr().add(at)) };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 32;
    }
    text.len() - 1
}

/// The first line end from `at` on, with which the text ends.
///
/// SAFETY: the CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn find_line_end<S: ByteSearch>(text: &[u8], mut at: usize) -> usize {
    while at + 32 <= text.len() {
        // SAFETY: 32 bytes are left, and the caller's promise.
        let mask = unsafe { S::equal(text.as_ptr().add(at), [b'\n'; 32].as_ptr()) };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 32;
    }
    text.len() - 1
}

/// The first byte from `at` on that is of no number and no word; the text ends with a line end.
///
/// SAFETY: the CPU has the instructions of `S`.
#[inline(always)]
pub unsafe fn find_non_word<S: ByteSearch>(text: &[u8], mut at: usize) -> usize {
    while at + 32 <= text.len() {
        // SAFETY: 32 bytes are left, and the caller's promise.
        let mask = unsafe { S::non_word(text.as_ptr().add(at)) };
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 32;
    }
    text.len() - 1
}

/// One byte at a time, for other CPUs and to compare with in tests.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub struct Portable;

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Portable {
    #[inline(always)]
    fn mask(is: impl Fn(usize) -> bool) -> u32 {
        (0..32).map(|n| u32::from(is(n)) << n).sum()
    }
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl ByteSearch for Portable {
    unsafe fn equal(a: *const u8, b: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        Self::mask(|n| unsafe { *a.add(n) == *b.add(n) })
    }

    unsafe fn special(at: *const u8) -> u32 {
        // SAFETY: the caller's promise.
        Self::mask(|n| matches!(unsafe { *at.add(n) }, b'"' | b'\\' | 0..0x20))
    }

    unsafe fn non_word(at: *const u8) -> u32 {
        let plain = |c| matches!(c, b'0'..=b'9' | b'-' | b'+' | b'.' | b'a'..=b'z' | b'E');
        // SAFETY: the caller's promise.
        Self::mask(|n| !plain(unsafe { *at.add(n) }))
    }
}

/// The instructions that every CPU of the architecture has.
#[cfg(target_arch = "x86_64")]
pub type Baseline = x86::Sse2;
#[cfg(target_arch = "aarch64")]
pub type Baseline = neon::Neon;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub type Baseline = Portable;

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::ByteSearch;
    use std::arch::aarch64::*;

    /// NEON, 16 bytes twice.
    pub struct Neon;

    /// A bit for each byte of two vectors, of which each is 0 or 255.
    #[inline(always)]
    fn bits(masks: impl Fn(usize) -> uint8x16_t) -> u32 {
        const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: NEON is part of aarch64, and 16 places are read.
        unsafe {
            let places = vld1q_u8(PLACES.as_ptr());
            let (low, high) = (vandq_u8(masks(0), places), vandq_u8(masks(16), places));
            let pairs = vpaddq_u8(low, high);
            let fours = vpaddq_u8(pairs, pairs);
            vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vpaddq_u8(fours, fours)))
        }
    }

    impl ByteSearch for Neon {
        #[inline(always)]
        unsafe fn equal(a: *const u8, b: *const u8) -> u32 {
            // SAFETY: the caller's promise.
            bits(|n| unsafe { vceqq_u8(vld1q_u8(a.add(n)), vld1q_u8(b.add(n))) })
        }

        #[inline(always)]
        unsafe fn special(at: *const u8) -> u32 {
            // SAFETY: the caller's promise.
            bits(|n| unsafe {
                let bytes = vld1q_u8(at.add(n));
                let quote = vceqq_u8(bytes, vdupq_n_u8(b'"'));
                let slash = vceqq_u8(bytes, vdupq_n_u8(b'\\'));
                vorrq_u8(vorrq_u8(quote, slash), vcltq_u8(bytes, vdupq_n_u8(0x20)))
            })
        }

        #[inline(always)]
        unsafe fn non_word(at: *const u8) -> u32 {
            // SAFETY: the caller's promise.
            !bits(|n| unsafe {
                let bytes = vld1q_u8(at.add(n));
                let is = |byte: u8| vceqq_u8(bytes, vdupq_n_u8(byte));
                let range = |first: u8, more: u8| {
                    vcleq_u8(vsubq_u8(bytes, vdupq_n_u8(first)), vdupq_n_u8(more))
                };
                // From + to . there is the comma, too.
                let marks = vbicq_u8(range(b'+', 3), is(b','));
                let words = vorrq_u8(range(b'a', 25), is(b'E'));
                vorrq_u8(vorrq_u8(range(b'0', 9), marks), words)
            })
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::ByteSearch;
    use std::arch::x86_64::*;

    /// SSE2, 16 bytes twice.
    pub struct Sse2;

    /// The bits of both halves of 32 bytes.
    #[inline(always)]
    fn halves(masks: impl Fn(usize) -> __m128i) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { _mm_movemask_epi8(masks(0)) as u32 | (_mm_movemask_epi8(masks(16)) as u32) << 16 }
    }

    impl ByteSearch for Sse2 {
        #[inline(always)]
        unsafe fn equal(a: *const u8, b: *const u8) -> u32 {
            halves(|n| {
                // SAFETY: the caller's promise.
                unsafe {
                    let other = _mm_loadu_si128(b.add(n).cast());
                    _mm_cmpeq_epi8(_mm_loadu_si128(a.add(n).cast()), other)
                }
            })
        }

        #[inline(always)]
        unsafe fn special(at: *const u8) -> u32 {
            halves(|n| {
                // SAFETY: the caller's promise.
                unsafe {
                    let bytes = _mm_loadu_si128(at.add(n).cast());
                    let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
                    let slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
                    let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
                    _mm_or_si128(_mm_or_si128(quote, slash), control)
                }
            })
        }

        #[inline(always)]
        unsafe fn non_word(at: *const u8) -> u32 {
            !halves(|n| {
                // SAFETY: the caller's promise.
                unsafe {
                    let bytes = _mm_loadu_si128(at.add(n).cast());
                    let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
                    let range = |first: u8, more: i8| {
                        let from = _mm_sub_epi8(bytes, _mm_set1_epi8(first as i8));
                        _mm_cmpeq_epi8(_mm_min_epu8(from, _mm_set1_epi8(more)), from)
                    };
                    // From + to . there is the comma, too.
                    let marks = _mm_andnot_si128(is(b','), range(b'+', 3));
                    let words = _mm_or_si128(range(b'a', 25), is(b'E'));
                    _mm_or_si128(_mm_or_si128(range(b'0', 9), marks), words)
                }
            })
        }
    }

    /// AVX2, 32 bytes at once.
    pub struct Avx2;

    /// Columns of the ASCII table in which a byte with this lower half is of numbers and words, a
    /// bit for each: 1 for 0x2_ (+ - .), 2 for 0x3_ (digits), 4 for 0x4_ (E), 8 and 16 for 0x6_ and
    /// 0x7_.
    const LOW: [u8; 16] = [18, 26, 26, 26, 26, 30, 26, 26, 26, 26, 24, 9, 8, 9, 9, 8];
    const HIGH: [u8; 16] = [0, 0, 1, 2, 4, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 0];

    impl ByteSearch for Avx2 {
        #[inline(always)]
        unsafe fn equal(a: *const u8, b: *const u8) -> u32 {
            // SAFETY: the caller's promise.
            unsafe {
                let other = _mm256_loadu_si256(b.cast());
                let same = _mm256_cmpeq_epi8(_mm256_loadu_si256(a.cast()), other);
                _mm256_movemask_epi8(same) as u32
            }
        }

        #[inline(always)]
        unsafe fn special(at: *const u8) -> u32 {
            // SAFETY: the caller's promise.
            unsafe {
                let bytes = _mm256_loadu_si256(at.cast());
                let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"' as i8));
                let slash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\' as i8));
                let least = _mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f));
                let control = _mm256_cmpeq_epi8(least, bytes);
                let all = _mm256_or_si256(_mm256_or_si256(quote, slash), control);
                _mm256_movemask_epi8(all) as u32
            }
        }

        #[inline(always)]
        unsafe fn non_word(at: *const u8) -> u32 {
            // SAFETY: the caller's promise; the tables are 16 bytes each.
            unsafe {
                let bytes = _mm256_loadu_si256(at.cast());
                let table = |table: &[u8; 16]| {
                    _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()))
                };
                // Bytes from 128 on find 0 in both.
                let low = _mm256_shuffle_epi8(table(&LOW), bytes);
                let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
                let both = _mm256_and_si256(low, _mm256_shuffle_epi8(table(&HIGH), upper));
                let none = _mm256_cmpeq_epi8(both, _mm256_setzero_si256());
                _mm256_movemask_epi8(none) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place, among bytes that end nothing.
    #[test]
    fn all_instructions_see_the_same() {
        fn seen<S: ByteSearch>(text: &[u8; 32], other: &[u8; 32]) -> [u32; 3] {
            let (a, b) = (text.as_ptr(), other.as_ptr());
            // SAFETY: 32 bytes each; the instructions are looked for below.
            unsafe { [S::equal(a, b), S::special(a), S::non_word(a)] }
        }
        for (byte, place) in (0..=255).flat_map(|byte| (0..32).map(move |n| (byte, n))) {
            let other = *b"0123456789abcdefghijklmnopqrstuv";
            let mut text = other;
            text[place] = byte;
            let wanted = seen::<Portable>(&text, &other);
            assert_eq!(seen::<Baseline>(&text, &other), wanted, "{byte} at {place}");
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                assert_eq!(seen::<x86::Avx2>(&text, &other), wanted, "{byte} at {place}");
            }
        }
    }
}
