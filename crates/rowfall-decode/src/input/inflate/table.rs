//! Builds the decode tables of DEFLATE: canonical Huffman codes by one lookup, long ones by a
//! second.

/// Bits looked up at once; longer codes go through a second table.
pub const LITLEN_BITS: usize = 11;
pub const DIST_BITS: usize = 8;
/// Largest table that any code of 288 symbols needs with 11 bits, and of 32 symbols with 8.
pub const LITLEN_SIZE: usize = 2342;
pub const DIST_SIZE: usize = 402;

/// Flags of an entry. Bits 0-7: bits to drop (code and extra bits), 8-11: bits of the code alone
/// (of a pointer: bits of the second table), 16-30: literal, base of length or distance, or start
/// of the second table.
pub const LITERAL: u32 = 1 << 31;
pub const SPECIAL: u32 = 1 << 15;
pub const POINTER: u32 = 1 << 14;
pub const END: u32 = 1 << 13;
/// An entry no valid stream reaches.
pub const INVALID: u32 = SPECIAL;

const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
const DISTANCES: [(u16, u8); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

/// What each symbol of the literal and length code means, without the code's length.
pub const LITLEN_MEANING: [u32; 288] = {
    let mut table = [INVALID; 288];
    let mut i = 0;
    while i < 256 {
        table[i] = LITERAL | (i as u32) << 16;
        i += 1;
    }
    table[256] = SPECIAL | END;
    i = 0;
    while i < 29 {
        table[257 + i] = (LENGTHS[i].0 as u32) << 16 | LENGTHS[i].1 as u32;
        i += 1;
    }
    table
};

/// What each symbol of the distance code means, without the code's length.
pub const DIST_MEANING: [u32; 32] = {
    let mut table = [INVALID; 32];
    let mut i = 0;
    while i < 30 {
        table[i] = (DISTANCES[i].0 as u32) << 16 | DISTANCES[i].1 as u32;
        i += 1;
    }
    table
};

/// Code lengths themselves are coded; symbol n means n.
pub const PRECODE_MEANING: [u32; 19] = {
    let mut table = [0; 19];
    let mut i = 0;
    while i < 19 {
        table[i] = (i as u32) << 16;
        i += 1;
    }
    table
};

/// Fill `table` for the code that `lens` (at most 15 each) describe; false when they describe none.
///
/// Codes must use the whole code space, except that one code of one bit, or none, is allowed.
pub fn build(table: &mut [u32], bits: usize, lens: &[u8], meaning: &[u32]) -> bool {
    let mut counts = [0u16; 17];
    for &len in lens {
        counts[usize::from(len)] += 1;
    }
    counts[0] = 0;
    let mut space = 0u32;
    let mut starts = [0u16; 17];
    for len in 1..16 {
        starts[len + 1] = starts[len] + counts[len];
        space += u32::from(counts[len]) << (15 - len);
    }
    let mut sorted = [0u16; 288];
    let total = usize::from(starts[16]);
    for (symbol, &len) in lens.iter().enumerate() {
        if len > 0 {
            let at = &mut starts[usize::from(len)];
            sorted[usize::from(*at)] = symbol as u16;
            *at += 1;
        }
    }
    if space < 1 << 15 {
        return incomplete(table, bits, &sorted[..total], lens, meaning);
    }
    space == 1 << 15 && fill(table, bits, &sorted[..total], &counts, meaning)
}

/// The two codes that may leave code space unused: none, and one of a single bit.
fn incomplete(
    table: &mut [u32],
    bits: usize,
    sorted: &[u16],
    lens: &[u8],
    meaning: &[u32],
) -> bool {
    table[..1 << bits].fill(INVALID);
    match sorted {
        [] => true,
        [one] if lens[usize::from(*one)] == 1 => {
            let entry = entry(meaning[usize::from(*one)], 1);
            table[..1 << bits].iter_mut().step_by(2).for_each(|slot| *slot = entry);
            true
        }
        _ => false,
    }
}

/// What the next 11 bits hold: up to three literals, and behind up to two of them a length. Of the
/// matches in taxi text two fifths follow literals, mostly one to three, and a loop that asks about
/// each of them guesses wrong: joined, they save a sixth of unpacking CSV, a fifteenth of JSON.
///
/// The lower half is the entry of what comes last, its bits those of all; bits 32-55 are literals,
/// 56-57 how many.
pub type Runs = [u64; 1 << LITLEN_BITS];

/// Join the entries of a table of literals and lengths: 4 us, 4 % of unpacking taxi text.
#[inline(always)]
pub fn join_runs(table: &[u32; LITLEN_SIZE], runs: &mut Runs) {
    // Codes that end within the bits that are looked up.
    let fits = |entry: u32, used: u32| {
        entry & SPECIAL == 0 && used + (entry >> 8 & 15) <= LITLEN_BITS as u32
    };
    let behind = |entry: u32, used: u32| entry + used + (used << 8);
    for (code, run) in runs.iter_mut().enumerate() {
        let mut last = table[code];
        let (mut literals, mut count) = (0, 0);
        while last & LITERAL != 0 {
            literals |= u64::from(last >> 16 & 0xff) << (32 + 8 * count);
            count += 1;
            let used = last & 0xff;
            last = LITERAL | used;
            let next = table[code >> used];
            if count == 3 || !fits(next, used) {
                break;
            }
            last = behind(next, used);
        }
        *run = literals | count << 56 | u64::from(last);
    }
}

/// Bits of a look-up that finds a whole match. One more finds 98 of 100 in trips text, not 97, but takes
/// longer to fill and half of the first cache: + 10 %.
pub const PAIR_BITS: usize = 11;

/// Bits that a match of [`Pairs`] takes at most: two of them and the next look-up fit into the 56 bits
/// of a refill.
const PAIR_MOST: u32 = (56 - PAIR_BITS as u32) / 2;

/// The greatest length of a match of [`Pairs`].
pub const PAIR_LENGTH: u32 = 31;

/// Matches, length and distance, by the next bits. Bits 0-5 of an entry: bits to drop, 0 where there is
/// no match, or one that is longer or takes more bits than those; 6-11: bits before the extra ones of
/// the distance; 12-16: length; 17-31: base of the distance.
pub type Pairs = [u32; 1 << PAIR_BITS];

/// True for a code of literals and lengths that spends seven eighths of its code space on short
/// matches. So lines of a few short numbers are packed: trips text is 99.4 % matches of 8 bytes each.
pub fn is_pairs(litlen: &[u8]) -> bool {
    // Lengths of 3 to 30.
    let short = litlen.iter().take(272).skip(257).filter(|&&len| len > 0);
    short.map(|&len| 1u32 << (15 - len)).sum::<u32>() >= 7 << 12
}

/// Join the entries of lengths and of the distances behind them.
#[inline(always)]
pub fn join_pairs(litlen: &[u32; LITLEN_SIZE], dist: &[u32; DIST_SIZE], pairs: &mut Pairs) {
    for (code, pair) in pairs.iter_mut().enumerate() {
        let first = litlen[code & ((1 << LITLEN_BITS) - 1)];
        // At most 20 bits; where they are more than those looked up, `before` is, too.
        let used = first & 31;
        let length = (first >> 16) + ((code as u32 & ((1 << used) - 1)) >> (first >> 8 & 15));
        let second = dist[code >> used & ((1 << DIST_BITS) - 1)];
        let before = used + (second >> 8 & 15);
        let all = used + (second & 0xff);
        let found = (first & (LITERAL | SPECIAL) | second & SPECIAL) == 0
            && length <= PAIR_LENGTH
            && before <= PAIR_BITS as u32
            && all <= PAIR_MOST;
        let entry = all | before << 6 | length << 12 | second >> 16 << 17;
        *pair = if found { entry } else { 0 };
    }
}

fn entry(meaning: u32, len: usize) -> u32 {
    meaning + ((len as u32) << 8) + len as u32
}

/// The next code of `len` bits, which are stored lowest bit first; None after the last.
fn next_code(code: usize, len: usize) -> Option<usize> {
    let zeros = code ^ ((1 << len) - 1);
    let bit = 1usize << zeros.checked_ilog2()?;
    Some((code & (bit - 1)) | bit)
}

fn fill(
    table: &mut [u32],
    bits: usize,
    sorted: &[u16],
    counts: &[u16; 17],
    meaning: &[u32],
) -> bool {
    let mut symbols = sorted.iter();
    let mut code = 0usize;
    let mut len = 1;
    while counts[len] == 0 {
        len += 1;
    }
    let mut left = counts[len];
    let mut end = 1usize << len.min(bits);
    // Short codes: the table doubles with each bit, so every entry is written once and copied.
    while len <= bits {
        for _ in 0..left {
            let Some(&symbol) = symbols.next() else { return false };
            table[code] = entry(meaning[usize::from(symbol)], len);
            let Some(next) = next_code(code, len) else {
                while end < 1 << bits {
                    table.copy_within(0..end, end);
                    end *= 2;
                }
                return true;
            };
            code = next;
        }
        len += 1;
        if len <= bits {
            table.copy_within(0..end, end);
            end *= 2;
        }
        left = counts[len];
    }
    while left == 0 {
        len += 1;
        left = counts[len];
    }
    fill_long(table, bits, symbols, counts, meaning, (code, len))
}

/// Codes longer than `bits`: second tables behind the first one.
fn fill_long(
    table: &mut [u32],
    bits: usize,
    symbols: std::slice::Iter<'_, u16>,
    counts: &[u16; 17],
    meaning: &[u32],
    (mut code, mut len): (usize, usize),
) -> bool {
    let mut left = usize::from(counts[len]);
    let mut end = 1usize << bits;
    let (mut prefix, mut start) = (usize::MAX, 0);
    for &symbol in symbols {
        let own = code & ((1 << bits) - 1);
        if own != prefix {
            prefix = own;
            start = end;
            let mut more = len - bits;
            let mut used = left;
            while used < 1 << more {
                more += 1;
                used = (used << 1) + usize::from(counts[bits + more]);
            }
            end = start + (1 << more);
            table[prefix] =
                (start as u32) << 16 | SPECIAL | POINTER | (more as u32) << 8 | bits as u32;
        }
        let slot = start + (code >> bits);
        let value = entry(meaning[usize::from(symbol)], len - bits);
        table[slot..end].iter_mut().step_by(1 << (len - bits)).for_each(|slot| *slot = value);
        let Some(next) = next_code(code, len) else { return true };
        code = next;
        left -= 1;
        while left == 0 {
            len += 1;
            left = usize::from(counts[len]);
        }
    }
    false
}
