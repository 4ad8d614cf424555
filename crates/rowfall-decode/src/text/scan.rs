//! Scans CSV and TSV: finds every delimiter and line end outside quotes, 64 bytes at a time.
//!
//! For each 64 bytes one 64-bit mask per special byte is made; a carry-less product turns the mask
//! of quotes into one of what is quoted. Quotes and CRs in wrong places are found on the way.

use crate::simd::Simd;
use crate::text::fields::Syntax;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Position of the byte before the text, then of each delimiter and line end.
    pub index: Vec<u32>,
    /// How many of the positions are line ends.
    pub lines: usize,
    /// First byte of text that is no clean CSV or TSV.
    pub first_bad: Option<usize>,
    /// The text ends inside quotes.
    pub in_quotes: bool,
    /// There are CRs before line ends.
    pub has_cr: bool,
    /// There are quotes (CSV).
    pub has_quotes: bool,
    /// There are doubled quotes (CSV) or backslashes (TSV).
    pub escapes: bool,
    /// There are line ends inside quotes.
    pub has_line_breaks: bool,
}

/// State carried from one group of 64 bytes to the next.
#[derive(Default)]
struct Carry {
    quoted: u64,
    /// Bit 0: the last byte was structural or a closing quote / a closing quote / a bare CR.
    ended: u64,
    closed: u64,
    cr: u64,
    lines: u32,
    bad: u64,
    quotes: u64,
    escapes: u64,
    has_line_breaks: u64,
    crs: u64,
}

/// One 64-byte step, for one set of instructions.
trait Kernel {
    /// For each of four bytes the mask of where it stands in the 64 bytes at `at`.
    ///
    /// SAFETY: 64 bytes are readable at `at`, and the CPU has the instructions.
    unsafe fn masks(at: *const u8, bytes: [u8; 4]) -> [u64; 4];
    /// Bit n = parity of bits 0 to n.
    ///
    /// SAFETY: the CPU has the instructions.
    unsafe fn parity(mask: u64) -> u64;
    /// Write `base + n` for each bit n; returns where the next one goes.
    ///
    /// SAFETY: room for the bits of `mask` and 64 more at `to`, and the CPU has the instructions.
    unsafe fn emit(mask: u64, base: u32, to: *mut u32) -> *mut u32;
}

/// Eight bytes at a time, for other CPUs and to compare with in tests.
#[cfg(any(test, not(target_arch = "aarch64")))]
struct Scalar;

#[cfg(any(test, not(target_arch = "aarch64")))]
impl Kernel for Scalar {
    #[inline(always)]
    unsafe fn masks(at: *const u8, bytes: [u8; 4]) -> [u64; 4] {
        let mut masks = [0u64; 4];
        for part in 0..8 {
            // SAFETY: the caller's promise.
            let word = u64::from_le(unsafe { at.add(part * 8).cast::<u64>().read_unaligned() });
            for (mask, byte) in masks.iter_mut().zip(bytes) {
                let x = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
                // 0x80 in each byte that is zero, exactly.
                let low = (x & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f;
                let zero = !(low | x | 0x7f7f_7f7f_7f7f_7f7f);
                *mask |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (part * 8);
            }
        }
        masks
    }

    #[inline(always)]
    unsafe fn parity(mut mask: u64) -> u64 {
        for shift in [1, 2, 4, 8, 16, 32] {
            mask ^= mask << shift;
        }
        mask
    }

    #[inline(always)]
    unsafe fn emit(mut mask: u64, base: u32, mut to: *mut u32) -> *mut u32 {
        while mask != 0 {
            // SAFETY: one slot a bit.
            unsafe {
                *to = base + mask.trailing_zeros();
                to = to.add(1);
            }
            mask &= mask - 1;
        }
        to
    }
}

/// The kernel that every CPU of the architecture has.
#[cfg(target_arch = "aarch64")]
type Baseline = neon::Neon;
#[cfg(not(target_arch = "aarch64"))]
type Baseline = Scalar;

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::Kernel;
    use std::arch::aarch64::*;

    pub struct Neon;

    impl Kernel for Neon {
        #[inline(always)]
        unsafe fn masks(at: *const u8, bytes: [u8; 4]) -> [u64; 4] {
            const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
            // SAFETY: the caller's promise, and NEON is part of aarch64.
            unsafe {
                let places = vld1q_u8(PLACES.as_ptr());
                let text = vld1q_u8_x4(at);
                bytes.map(|byte| {
                    let wanted = vdupq_n_u8(byte);
                    let bits = |part| vandq_u8(vceqq_u8(part, wanted), places);
                    let low = vpaddq_u8(bits(text.0), bits(text.1));
                    let all = vpaddq_u8(low, vpaddq_u8(bits(text.2), bits(text.3)));
                    vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(all, all)))
                })
            }
        }

        // A carry-less product is no part of every such CPU.
        #[inline(always)]
        unsafe fn parity(mut mask: u64) -> u64 {
            for shift in [1, 2, 4, 8, 16, 32] {
                mask ^= mask << shift;
            }
            mask
        }

        #[inline(always)]
        unsafe fn emit(mut mask: u64, base: u32, mut to: *mut u32) -> *mut u32 {
            // SAFETY: writes go at most 8 slots beyond the bits.
            unsafe {
                let end = to.add(mask.count_ones() as usize);
                while to < end {
                    for slot in 0..8 {
                        *to.add(slot) = base + mask.trailing_zeros();
                        mask &= mask.wrapping_sub(1);
                    }
                    to = to.add(8);
                }
                end
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Kernel;
    use std::arch::x86_64::*;

    pub struct Avx2;

    impl Kernel for Avx2 {
        #[inline(always)]
        unsafe fn masks(at: *const u8, bytes: [u8; 4]) -> [u64; 4] {
            // SAFETY: the caller's promise.
            unsafe {
                let low = _mm256_loadu_si256(at.cast());
                let high = _mm256_loadu_si256(at.add(32).cast());
                // A macro, as closures do not take over the instructions of their function.
                macro_rules! mask {
                    ($byte:expr) => {{
                        let wanted = _mm256_set1_epi8($byte as i8);
                        let a = _mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)) as u32;
                        let b = _mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)) as u32;
                        u64::from(a) | u64::from(b) << 32
                    }};
                }
                [mask!(bytes[0]), mask!(bytes[1]), mask!(bytes[2]), mask!(bytes[3])]
            }
        }

        #[inline(always)]
        unsafe fn parity(mask: u64) -> u64 {
            // SAFETY: the caller's promise.
            unsafe {
                let product =
                    _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, mask as i64), _mm_set1_epi8(-1));
                _mm_cvtsi128_si64(product) as u64
            }
        }

        #[inline(always)]
        unsafe fn emit(mut mask: u64, base: u32, mut to: *mut u32) -> *mut u32 {
            let count = mask.count_ones() as usize;
            if count > DENSE {
                // SAFETY: the caller's promise.
                return unsafe { emit_dense(mask, base, to) };
            }
            // SAFETY: writes go at most 8 slots beyond the bits.
            unsafe {
                let end = to.add(count);
                while to < end {
                    // Eight at once without a branch; what is too much is written over later.
                    for slot in 0..8 {
                        *to.add(slot) = base + mask.trailing_zeros();
                        mask &= mask.wrapping_sub(1);
                    }
                    to = to.add(8);
                }
                end
            }
        }
    }

    /// Bits of a mask from which on [`emit_dense`] is faster: fields of two bytes, as of trips text. The
    /// masks of most texts have fewer, so that it is known beforehand which way they go.
    const DENSE: usize = 16;

    /// For each eight bits where they are set: the places of the bits, in their order.
    const PLACES: [[u8; 8]; 256] = {
        let mut table = [[0; 8]; 256];
        let mut bits = 0;
        while bits < 256 {
            let (mut place, mut count) = (0, 0);
            while place < 8 {
                if bits >> place & 1 == 1 {
                    table[bits][count] = place;
                    count += 1;
                }
                place += 1;
            }
            bits += 1;
        }
        table
    };

    /// As [`Kernel::emit`], by a table: the same time for any number of bits.
    ///
    /// SAFETY: as for [`Kernel::emit`].
    #[inline(always)]
    unsafe fn emit_dense(mask: u64, base: u32, mut to: *mut u32) -> *mut u32 {
        // SAFETY: writes go at most 8 slots beyond the bits.
        unsafe {
            for (part, bits) in mask.to_le_bytes().into_iter().enumerate() {
                let places = _mm_loadl_epi64(PLACES[usize::from(bits)].as_ptr().cast());
                let base = _mm256_set1_epi32((base + 8 * part as u32) as i32);
                let wide = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), base);
                _mm256_storeu_si256(to.cast(), wide);
                to = to.add(bits.count_ones() as usize);
            }
            to
        }
    }

    pub struct Avx512;

    impl Kernel for Avx512 {
        #[inline(always)]
        unsafe fn masks(at: *const u8, bytes: [u8; 4]) -> [u64; 4] {
            // SAFETY: the caller's promise.
            unsafe {
                let text = _mm512_loadu_si512(at.cast());
                macro_rules! mask {
                    ($byte:expr) => {
                        _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8($byte as i8))
                    };
                }
                [mask!(bytes[0]), mask!(bytes[1]), mask!(bytes[2]), mask!(bytes[3])]
            }
        }

        #[inline(always)]
        unsafe fn parity(mask: u64) -> u64 {
            // SAFETY: AVX-512 comes with PCLMULQDQ, which `choose` looks for as well.
            unsafe { Avx2::parity(mask) }
        }

        #[inline(always)]
        unsafe fn emit(mask: u64, base: u32, to: *mut u32) -> *mut u32 {
            // SAFETY: writes go at most 16 slots beyond the bits.
            unsafe {
                let numbers: [u8; 64] = std::array::from_fn(|n| n as u8);
                let all = _mm512_loadu_si512(numbers.as_ptr().cast());
                let places = _mm512_maskz_compress_epi8(mask, all);
                let base = _mm512_set1_epi32(base as i32);
                let count = mask.count_ones() as usize;
                macro_rules! put {
                    ($at:expr, $part:expr) => {
                        let wide = _mm512_add_epi32(_mm512_cvtepu8_epi32($part), base);
                        _mm512_storeu_si512(to.add($at).cast(), wide);
                    };
                }
                put!(0, _mm512_castsi512_si128(places));
                if count > 16 {
                    put!(16, _mm512_extracti32x4_epi32::<1>(places));
                    if count > 32 {
                        put!(32, _mm512_extracti32x4_epi32::<2>(places));
                        put!(48, _mm512_extracti32x4_epi32::<3>(places));
                    }
                }
                to.add(count)
            }
        }
    }
}

/// Scan `text[from..to]`, which starts at the start of a record; 64 bytes follow `to`.
pub fn scan(
    simd: Simd,
    style: Syntax,
    delimiter: u8,
    text: &[u8],
    range: (usize, usize),
    out: &mut Scan,
) {
    assert!(range.0 > 0 && range.0 <= range.1 && range.1 + 64 <= text.len());
    assert!(text.len() < u32::MAX as usize);
    out.index.clear();
    // A slot for every byte is more than the text can need; only what is written is touched.
    out.index.reserve(range.1 - range.0 + 1 + 128);
    let csv = style == Syntax::Csv;
    // SAFETY: asserted and reserved above; `choose` found the instructions.
    unsafe {
        match (simd, csv) {
            (Simd::Scalar, true) => run::<Baseline, true>(delimiter, text, range, out),
            (Simd::Scalar, false) => run::<Baseline, false>(delimiter, text, range, out),
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx2, csv) => run_avx2(csv, delimiter, text, range, out),
            #[cfg(target_arch = "x86_64")]
            (Simd::Avx512, csv) => run_avx512(csv, delimiter, text, range, out),
        }
    }
}

/// SAFETY: as for [`run`], on a CPU with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,pclmulqdq,bmi1,popcnt")]
unsafe fn run_avx2(csv: bool, delimiter: u8, text: &[u8], range: (usize, usize), out: &mut Scan) {
    // SAFETY: the caller's promise.
    unsafe {
        if csv {
            run::<x86::Avx2, true>(delimiter, text, range, out);
        } else {
            run::<x86::Avx2, false>(delimiter, text, range, out);
        }
    }
}

/// SAFETY: as for [`run`], on a CPU with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,avx2,pclmulqdq,bmi1,bmi2,popcnt")]
unsafe fn run_avx512(csv: bool, delimiter: u8, text: &[u8], range: (usize, usize), out: &mut Scan) {
    // SAFETY: the caller's promise.
    unsafe {
        if csv {
            run::<x86::Avx512, true>(delimiter, text, range, out);
        } else {
            run::<x86::Avx512, false>(delimiter, text, range, out);
        }
    }
}

/// SAFETY: 64 bytes follow `to` in `text`; `index` has room for `to - from + 1 + 128` entries; the
/// CPU has the instructions of `K`.
#[inline(always)]
unsafe fn run<K: Kernel, const CSV: bool>(
    delimiter: u8,
    text: &[u8],
    (from, to): (usize, usize),
    out: &mut Scan,
) {
    let start = out.index.as_mut_ptr();
    let mut carry = Carry { ended: 1, ..Carry::default() };
    let mut bad = None;
    let bytes = [delimiter, b'\n', b'\r', if CSV { b'"' } else { b'\\' }];
    // SAFETY: the first slot is the byte before the text; the loop emits at most one entry a byte,
    // and reads up to 63 bytes behind `to`, whose bits are masked out.
    unsafe {
        *start = (from - 1) as u32;
        let mut next = start.add(1);
        let mut at = from;
        while at < to {
            let mut masks = K::masks(text.as_ptr().add(at), bytes);
            let mut valid = u64::MAX;
            if to - at < 64 {
                valid = (1u64 << (to - at)) - 1;
                masks = masks.map(|mask| mask & valid);
            }
            let structural = step::<K, CSV>(masks, &mut carry);
            carry.bad &= valid;
            if carry.bad != 0 && bad.is_none() {
                bad = Some(at + carry.bad.trailing_zeros() as usize);
            }
            next = K::emit(structural, at as u32, next);
            at += 64;
        }
        out.index.set_len(next.offset_from(start) as usize);
    }
    out.lines = carry.lines as usize;
    out.first_bad = bad;
    out.in_quotes = carry.quoted != 0;
    out.has_cr = carry.crs != 0;
    out.has_quotes = carry.quotes != 0;
    out.escapes = carry.escapes != 0;
    out.has_line_breaks = carry.has_line_breaks != 0;
}

/// The structural bits of 64 bytes: delimiters and line ends that no quotes enclose.
///
/// SAFETY: the CPU has the instructions of `K`.
#[inline(always)]
unsafe fn step<K: Kernel, const CSV: bool>(masks: [u64; 4], carry: &mut Carry) -> u64 {
    let [delimiters, newlines, crs, marks] = masks;
    carry.crs |= crs;
    if !CSV {
        carry.escapes |= marks;
        let after_cr = crs << 1 | carry.cr;
        carry.cr = crs >> 63;
        carry.bad |= after_cr & !newlines;
        carry.lines += newlines.count_ones();
        return delimiters | newlines;
    }
    // Nothing but delimiters and line ends: a third of the time for text without quotes, and none
    // lost where some have them.
    if marks | crs | carry.quoted | carry.closed | carry.cr == 0 {
        let structural = delimiters | newlines;
        carry.ended = structural >> 63;
        carry.lines += newlines.count_ones();
        return structural;
    }
    carry.quotes |= marks;
    // From each opening quote up to the byte before its closing one.
    // SAFETY: the caller's promise.
    let inside = unsafe { K::parity(marks) } ^ carry.quoted;
    carry.quoted = ((inside as i64) >> 63) as u64;
    let structural = (delimiters | newlines) & !inside;
    let (opening, closing) = (marks & inside, marks & !inside);
    // A quote opens where a field starts, or right behind one that closed: then it is doubled.
    let after_close = closing << 1 | carry.closed;
    let bare_crs = crs & !inside;
    let after_cr = bare_crs << 1 | carry.cr;
    let cell_starts = (structural | closing) << 1 | carry.ended;
    carry.bad |= opening & !cell_starts;
    // Behind a closing quote the field ends, or the quote is doubled; behind a CR the line ends.
    carry.bad |= after_close & !(structural | opening | bare_crs);
    carry.bad |= after_cr & !(newlines & !inside);
    carry.escapes |= after_close & opening;
    carry.has_line_breaks |= newlines & inside;
    carry.ended = (structural | closing) >> 63;
    carry.closed = closing >> 63;
    carry.cr = bare_crs >> 63;
    carry.lines += (newlines & !inside).count_ones();
    structural
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The masks of 64 bytes, the parity of one, and the positions in it.
    fn seen<K: Kernel>(text: &[u8; 64], bytes: [u8; 4]) -> ([u64; 4], u64, Vec<u32>) {
        let mut index = Vec::with_capacity(128);
        // SAFETY: 64 bytes, room for as many positions and 64 more; the instructions are looked for.
        unsafe {
            let masks = K::masks(text.as_ptr(), bytes);
            let end = K::emit(masks[0], 7, index.as_mut_ptr());
            index.set_len(end.offset_from(index.as_ptr()) as usize);
            (masks, K::parity(masks[3]), index)
        }
    }

    proptest! {
        #[test]
        fn all_kernels_see_the_same(
            text in prop::collection::vec(prop::sample::select(&b",\n\r\"a\x00\xac\x8a"[..]), 64),
        ) {
            let text: [u8; 64] = text.try_into().expect("64 bytes");
            let bytes = *b",\n\r\"";
            let wanted = seen::<Scalar>(&text, bytes);
            for (mask, byte) in wanted.0.into_iter().zip(bytes) {
                let plain = text.iter().enumerate();
                prop_assert_eq!(mask, plain.map(|(n, b)| u64::from(*b == byte) << n).sum::<u64>());
            }
            prop_assert_eq!(wanted.2.len(), wanted.0[0].count_ones() as usize);
            prop_assert_eq!(&seen::<Baseline>(&text, bytes), &wanted);
            #[cfg(target_arch = "x86_64")]
            {
                if Simd::choose("avx2").is_some() {
                    prop_assert_eq!(&seen::<x86::Avx2>(&text, bytes), &wanted);
                }
                if Simd::choose("avx512").is_some() {
                    prop_assert_eq!(&seen::<x86::Avx512>(&text, bytes), &wanted);
                }
            }
        }
    }
}
