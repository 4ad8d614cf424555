//! Decodes Huffman-coded DEFLATE blocks: reads their codes, and has the loop that nearly all time
//! is spent in.

use std::io::Read;

use crate::input::inflate::bits::{Bits, PAD};
use crate::input::inflate::table::*;
use crate::simd::Simd;

/// How far back DEFLATE refers.
pub const HISTORY: usize = 32 << 10;
/// Room that must be left behind the limit of [`super::Gzip::fill`]: the longest match and its
/// overshoot.
pub const SLACK: usize = 320;

pub struct Codes {
    simd: Simd,
    litlen: [u32; LITLEN_SIZE],
    dist: [u32; DIST_SIZE],
    /// Nearly all is matches: `pairs` are those of this code, and `runs` are not.
    is_pairs: bool,
    /// The codes are the fixed ones: making the tables anew for each of a million empty members,
    /// each with a block of that code, took minutes.
    is_fixed: bool,
    runs: Runs,
    pairs: Pairs,
}

/// Order in which the lengths of the code of code lengths are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

impl Codes {
    /// Codes of blocks that are decoded with these instructions.
    pub fn new(simd: Simd) -> Self {
        Codes {
            simd,
            litlen: [INVALID; LITLEN_SIZE],
            dist: [INVALID; DIST_SIZE],
            is_pairs: false,
            is_fixed: false,
            runs: [0; 1 << LITLEN_BITS],
            pairs: [0; 1 << PAIR_BITS],
        }
    }

    pub fn fixed(&mut self) {
        if self.is_fixed {
            return;
        }
        let mut lens = [8u8; 288];
        lens[144..256].fill(9);
        lens[256..280].fill(7);
        self.build(&lens, &[5; 32]).expect("the fixed code is one");
        self.is_fixed = true;
    }

    fn build(&mut self, litlen: &[u8], dist: &[u8]) -> Option<()> {
        self.is_fixed = false;
        let both = build(&mut self.litlen, LITLEN_BITS, litlen, &LITLEN_MEANING)
            && build(&mut self.dist, DIST_BITS, dist, &DIST_MEANING);
        self.is_pairs = is_pairs(litlen);
        both.then(|| match self.simd {
            Simd::Scalar => self.join(),
            // SAFETY: `Simd::choose` has found the instructions.
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 | Simd::Avx512 => unsafe { self.join_avx2() },
        })
    }

    /// Fill the table that the loop for this code looks up.
    #[inline(always)]
    fn join(&mut self) {
        match self.is_pairs {
            true => join_pairs(&self.litlen, &self.dist, &mut self.pairs),
            false => join_runs(&self.litlen, &mut self.runs),
        }
    }

    /// SAFETY: on a CPU with these. They take a third of the time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    unsafe fn join_avx2(&mut self) {
        self.join();
    }

    /// Read the codes of a dynamic block; None when they are none.
    pub fn dynamic<R: Read>(&mut self, bits: &mut Bits<R>) -> Option<()> {
        let (litlens, dists) = (257 + bits.take(5) as usize, 1 + bits.take(5) as usize);
        let given = 4 + bits.take(4) as usize;
        if litlens > 286 || dists > 30 {
            return None;
        }
        let mut precode_lens = [0u8; 19];
        for &symbol in &ORDER[..given] {
            bits.refill();
            precode_lens[symbol] = bits.take(3) as u8;
        }
        let mut precode = [0u32; 128];
        if !build(&mut precode, 7, &precode_lens, &PRECODE_MEANING) {
            return None;
        }
        let mut lens = [0u8; 286 + 30 + 138];
        let mut at = 0;
        while at < litlens + dists {
            bits.refill();
            let entry = precode[(bits.word & 127) as usize];
            if entry & SPECIAL != 0 {
                return None;
            }
            bits.drop(entry & 0xff);
            let (value, times) = match entry >> 16 {
                n @ 0..16 => (n as u8, 1),
                16 if at == 0 => return None,
                16 => (lens[at - 1], 3 + bits.take(2) as usize),
                17 => (0, 3 + bits.take(3) as usize),
                _ => (0, 11 + bits.take(7) as usize),
            };
            lens[at..at + times].fill(value);
            at += times;
        }
        // Without a code for the end of the block it would never end.
        if at != litlens + dists || lens[256] == 0 {
            return None;
        }
        self.build(&lens[..litlens], &lens[litlens..at])
    }
}

/// Decode until `limit`, the end of the block, or the end of the fetched input.
///
/// Takes (lowest byte a match may refer to, where to write, where to stop) and gives (new end,
/// whether the block ended); None for damaged data.
pub fn decode<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    bounds: (usize, usize, usize),
) -> Option<(usize, bool)> {
    let (floor, from, limit) = bounds;
    assert!(floor <= from && from < limit && limit + SLACK <= out.len());
    assert!(from - floor <= HISTORY && bits.len + PAD <= bits.data.len());
    // SAFETY: asserted above, and `Simd::choose` has found the instructions.
    unsafe {
        match codes.simd {
            Simd::Scalar => run_any(codes, bits, out, bounds),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 | Simd::Avx512 => run_avx2(codes, bits, out, bounds),
        }
    }
}

/// SAFETY: as for [`run`], where the CPU has these: BMI2 shifts by a register without touching flags.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_avx2<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    bounds: (usize, usize, usize),
) -> Option<(usize, bool)> {
    // SAFETY: the caller's promise.
    unsafe { run_any(codes, bits, out, bounds) }
}

/// SAFETY: as for [`run`].
#[inline(always)]
unsafe fn run_any<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    bounds: (usize, usize, usize),
) -> Option<(usize, bool)> {
    // SAFETY: the caller's promise.
    unsafe {
        match codes.is_pairs {
            true => run_pairs(codes, bits, out, bounds),
            false => run(codes, bits, out, bounds),
        }
    }
}

/// SAFETY: `limit + SLACK <= out.len()`, `floor <= from < limit`, `bits.len + PAD` bytes of data.
#[inline(always)]
unsafe fn run<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    (floor, from, limit): (usize, usize, usize),
) -> Option<(usize, bool)> {
    let (litlen, dist, runs) = (codes.litlen.as_ptr(), codes.dist.as_ptr(), codes.runs.as_ptr());
    let (data, text) = (bits.data.as_ptr(), out.as_mut_ptr());
    // One round reads at most 24 bytes past `at`; what follows the data is zeros, and whether
    // they were used is checked by the caller.
    let stop = if bits.ended { bits.len + 64 } else { bits.len - 64.min(bits.len) };
    let (mut at, mut word, mut count) = (bits.at, bits.word, bits.count);
    let mut to = from;
    let mut result = Some(false);
    macro_rules! refill {
        () => {
            // SAFETY: at <= stop + 16, and PAD zeros follow the data.
            word |= u64::from_le(unsafe { data.add(at).cast::<u64>().read_unaligned() }) << count;
            at += ((63 - count) >> 3) as usize;
            count |= 56;
        };
    }
    macro_rules! lookup {
        ($table:expr, $bits:expr) => {
            // SAFETY: the mask keeps the index below 2^bits, which the table holds.
            unsafe { *$table.add((word & ((1 << $bits) - 1)) as usize) }
        };
    }
    macro_rules! consume {
        ($entry:expr) => {
            word >>= $entry as u8;
            count -= $entry & 0xff;
        };
    }
    // Take what one look-up found: the literals are written as four bytes, whatever their number.
    macro_rules! put {
        ($run:expr) => {
            // SAFETY: a round writes at most 9 literals and 3 bytes more behind limit: SLACK is
            // more.
            unsafe { text.add(to).cast::<u32>().write_unaligned((($run >> 32) as u32).to_le()) };
            to += ($run >> 56) as usize;
            consume!($run as u32);
        };
    }
    // Looked up before the match is copied: neither waits for the other.
    macro_rules! next {
        () => {{
            refill!();
            lookup!(runs, LITLEN_BITS)
        }};
    }
    let mut run = next!();
    'block: while at < stop && to < limit {
        // Up to three look-ups for one refill: 3 x 11 bits of literals leave 23 of 56 for a length.
        let mut saved = word;
        put!(run);
        if run as u32 & LITERAL != 0 {
            run = lookup!(runs, LITLEN_BITS);
            saved = word;
            put!(run);
            if run as u32 & LITERAL != 0 {
                run = lookup!(runs, LITLEN_BITS);
                saved = word;
                put!(run);
                if run as u32 & LITERAL != 0 {
                    run = next!();
                    continue;
                }
            }
        }
        let mut entry = run as u32;
        if entry & SPECIAL != 0 {
            if entry & POINTER != 0 {
                let second = word & ((1 << (entry >> 8 & 15)) - 1);
                // SAFETY: `build` laid the second table of that many bits at that place.
                entry = unsafe { *litlen.add((entry >> 16) as usize + second as usize) };
                saved = word;
                consume!(entry);
                if entry & LITERAL != 0 {
                    // SAFETY: as above.
                    unsafe { *text.add(to) = (entry >> 16) as u8 };
                    to += 1;
                    run = next!();
                    continue;
                }
            }
            if entry & SPECIAL != 0 {
                result = (entry & END != 0).then_some(true);
                break 'block;
            }
        }
        let low = |saved: u64, entry: u32| {
            let all = saved & ((1u64 << (entry & 63)) - 1);
            (entry >> 16) as usize + (all >> (entry >> 8 & 15)) as usize
        };
        let length = low(saved, entry);
        // A distance takes up to 28 bits. Mostly so many are left, and the refill of `next` follows
        // soon: without this one trips text takes a tenth less time.
        if count < 28 {
            refill!();
        }
        let mut entry = lookup!(dist, DIST_BITS);
        saved = word;
        consume!(entry);
        if entry & SPECIAL != 0 {
            if entry & POINTER == 0 {
                result = None;
                break 'block;
            }
            let second = word & ((1 << (entry >> 8 & 15)) - 1);
            // SAFETY: `build` laid the second table of that many bits at that place.
            entry = unsafe { *dist.add((entry >> 16) as usize + second as usize) };
            saved = word;
            consume!(entry);
            if entry & SPECIAL != 0 {
                result = None;
                break 'block;
            }
        }
        let distance = low(saved, entry);
        // `from - floor` is the history: at most 32 KiB, and less only at a member's start.
        if distance > to - floor {
            result = None;
            break 'block;
        }
        run = next!();
        // SAFETY: distance is in 1..=to - floor; behind limit are at most 8 literals of this round,
        // and length + 32 <= 290 more bytes, less than SLACK together.
        unsafe { copy_match(text.add(to), distance, length) };
        to += length;
    }
    bits.at = at;
    bits.word = if count < 64 { word & ((1 << count) - 1) } else { word };
    bits.count = count;
    result.map(|ended| (to, ended))
}

/// The loop for codes of matches: one look-up finds length and distance, and whatever it does not find
/// is left to [`symbol`]. Trips text takes three fifths of the time of [`run`].
///
/// SAFETY: as for [`run`].
#[inline(always)]
unsafe fn run_pairs<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    (floor, from, limit): (usize, usize, usize),
) -> Option<(usize, bool)> {
    // See `run`.
    let stop = if bits.ended { bits.len + 64 } else { bits.len - 64.min(bits.len) };
    let mut place = from;
    loop {
        let pairs = codes.pairs.as_ptr();
        let (data, text) = (bits.data.as_ptr(), out.as_mut_ptr());
        let (mut word, mut count) = (bits.word, bits.count);
        // Pointers, not positions: so all that the loop needs is in registers.
        // SAFETY: stop <= len + PAD, `at` is not more than 16 beyond it, and the others are at most
        // `limit` or end with a match that began before it.
        let ((mut at, stop), (mut to, lowest, limit)) = unsafe {
            (
                (data.add(bits.at), data.add(stop)),
                (text.add(place), text.add(floor), text.add(limit)),
            )
        };
        macro_rules! refill {
            () => {
                // SAFETY: at <= stop + 16, and PAD zeros follow the data.
                unsafe {
                    word |= u64::from_le(at.cast::<u64>().read_unaligned()) << (count & 63);
                    at = at.add(((63 - (count & 63)) >> 3) as usize);
                }
                count |= 56;
            };
        }
        macro_rules! lookup {
            () => {
                // SAFETY: the mask keeps the index below 2^bits, which the table holds.
                unsafe { *pairs.add((word & ((1 << PAIR_BITS) - 1)) as usize) }
            };
        }
        refill!();
        let mut pair = lookup!();
        macro_rules! put {
            () => {
                let drop = pair & 63;
                if drop == 0 {
                    break;
                }
                let all = word & ((1u64 << drop) - 1);
                let distance = (pair >> 17) as usize + (all >> (pair >> 6 & 63)) as usize;
                let length = (pair >> 12 & PAIR_LENGTH) as usize;
                // SAFETY: `to` is not below `lowest`, both in `text`.
                if distance > unsafe { to.offset_from_unsigned(lowest) } {
                    break;
                }
                word >>= drop;
                count = count.wrapping_sub(drop);
                // Looked up before the match is copied: neither waits for the other.
                pair = lookup!();
                // SAFETY: a distance is 1 or more, and `lowest` is not behind `to - distance`. Two
                // matches write at most 2 x 31 + 32 bytes behind `limit`: SLACK is more.
                unsafe {
                    copy_short(to, distance, length);
                    to = to.add(length);
                }
            };
        }
        while at < stop && to < limit {
            put!();
            put!();
            refill!();
        }
        bits.word = word & ((1 << (count & 63)) - 1);
        bits.count = count;
        // SAFETY: as above.
        unsafe {
            bits.at = at.offset_from_unsigned(data);
            place = to.offset_from_unsigned(text);
        }
        if at >= stop || to >= limit {
            return Some((place, false));
        }
        if symbol(codes, bits, out, floor, &mut place)? {
            return Some((place, true));
        }
    }
}

/// Decode a literal, a match or the end of the block; true for the end, None for damaged data.
#[inline(never)]
fn symbol<R: Read>(
    codes: &Codes,
    bits: &mut Bits<R>,
    out: &mut [u8],
    floor: usize,
    to: &mut usize,
) -> Option<bool> {
    // A length takes at most 20 bits, a distance 28.
    bits.refill();
    // The entry of the next code, and what it and its extra bits say.
    let mut take = |table: &[u32], first_bits: usize| {
        let mut entry = table[(bits.word & ((1 << first_bits) - 1)) as usize];
        if entry & SPECIAL != 0 && entry & POINTER != 0 {
            bits.drop(entry & 0xff);
            let second = bits.word & ((1 << (entry >> 8 & 15)) - 1);
            entry = table[(entry >> 16) as usize + second as usize];
        }
        let all = bits.word & ((1 << (entry & 63)) - 1);
        bits.drop(entry & 0xff);
        (entry, (entry >> 16 & 0x7fff) as usize + (all >> (entry >> 8 & 15)) as usize)
    };
    let (entry, length) = take(&codes.litlen, LITLEN_BITS);
    if entry & LITERAL != 0 {
        out[*to] = length as u8;
        *to += 1;
        return Some(false);
    }
    if entry & SPECIAL != 0 {
        return (entry & END != 0).then_some(true);
    }
    let (entry, distance) = take(&codes.dist, DIST_BITS);
    if entry & SPECIAL != 0 || distance > *to - floor {
        return None;
    }
    assert!(*to + length + 32 <= out.len(), "the text lacks slack");
    // SAFETY: just looked at; a distance is 1 or more.
    unsafe { copy_match(out.as_mut_ptr().add(*to), distance, length) };
    *to += length;
    Some(false)
}

/// SAFETY: as for [`copy_match`], and `length` is less than 32.
#[inline(always)]
unsafe fn copy_short(to: *mut u8, distance: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let from = to.sub(distance);
        // What is read before it was written stands behind the match.
        if distance >= length {
            to.cast::<u128>().write_unaligned(from.cast::<u128>().read_unaligned());
            // Of 32 bytes at once most are written for nothing, and stores are what it waits for.
            if length > 16 {
                let part = from.add(16).cast::<u128>().read_unaligned();
                to.add(16).cast::<u128>().write_unaligned(part);
            }
        } else {
            copy_overlapping(to, distance, length);
        }
    }
}

/// Rare, and so no part of the loop: its registers are needed.
///
/// SAFETY: as for [`copy_match`].
#[inline(never)]
unsafe fn copy_overlapping(to: *mut u8, distance: usize, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_match(to, distance, length) }
}

/// SAFETY: `distance` bytes before `to` are readable, and `length + 32` bytes from it writable.
#[inline(always)]
unsafe fn copy_match(to: *mut u8, distance: usize, length: usize) {
    // SAFETY: a copy of 16 or 8 bytes never reads what it writes (distance >= its width), and ends
    // less than 32 bytes behind the length: a match is 3 bytes long or more.
    unsafe {
        let from = to.sub(distance);
        if distance >= 16 {
            let copy = |done: usize| {
                let part = from.add(done).cast::<u128>().read_unaligned();
                to.add(done).cast::<u128>().write_unaligned(part);
            };
            // 32 bytes without a branch hold most matches. One way for all distances from 16 on
            // guesses wrong less often than another with copies of 32 bytes (trips text + 7 %).
            copy(0);
            copy(16);
            let mut done = 32;
            while done < length {
                copy(done);
                copy(done + 16);
                done += 32;
            }
        } else if distance >= 8 {
            let mut done = 0;
            while done < length {
                to.add(done)
                    .cast::<u64>()
                    .write_unaligned(from.add(done).cast::<u64>().read_unaligned());
                done += 8;
            }
        } else if distance == 1 {
            let word = u64::from(*from) * 0x0101_0101_0101_0101;
            let mut done = 0;
            while done < length {
                to.add(done).cast::<u64>().write_unaligned(word);
                done += 8;
            }
        } else {
            // The pattern repeats: each copy of 8 bytes is right in its first `distance` ones.
            let mut done = 0;
            while done < length {
                to.add(done)
                    .cast::<u64>()
                    .write_unaligned(from.add(done).cast::<u64>().read_unaligned());
                done += distance;
            }
        }
    }
}
