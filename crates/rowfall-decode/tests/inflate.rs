//! Blocks of gzip whose codes are made here, so that nearly all of them is matches: what other packers
//! make of short numbers only. They are unpacked as zlib unpacks them, and damaged ones do no harm.

#[path = "common/gunzip.rs"]
mod gunzip;

use std::io::Read;

use gunzip::gunzip;
use proptest::prelude::*;

/// A symbol of the text: a literal, or a match of a length and a distance.
#[derive(Debug, Clone, Copy)]
enum Symbol {
    Literal(u8),
    Match(usize, usize),
}

/// Literals that have a code.
const LITERALS: usize = 128;

/// Bits of the codes of literals and lengths: seven short lengths have 3 each.
fn litlen_bits() -> Vec<u8> {
    let mut bits = vec![0; 286];
    bits[..LITERALS].fill(11);
    bits[256] = 9;
    bits[257..264].fill(3);
    bits[264..273].fill(8);
    bits[273..].fill(9);
    bits
}

/// Bits of the codes of distances: all about the same, or from 1 to 12.
fn dist_bits(even: bool) -> Vec<u8> {
    match even {
        true => [vec![5; 28], vec![4; 2]].concat(),
        false => [vec![12; 14], vec![11; 9], (1..8).rev().collect()].concat(),
    }
}

/// The canonical code of each symbol.
fn codes(bits: &[u8]) -> Vec<u32> {
    let (mut codes, mut code) = (vec![0; bits.len()], 0);
    for length in 1..16 {
        code <<= 1;
        for (symbol, _) in bits.iter().enumerate().filter(|(_, n)| **n == length) {
            codes[symbol] = code;
            code += 1;
        }
    }
    assert_eq!(code, 1 << 15, "the whole code space is used");
    codes
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    filled: usize,
}

impl Writer {
    fn number(&mut self, value: usize, bits: u8) {
        for n in 0..bits {
            if self.filled.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().expect("just pushed") |=
                (value >> n & 1) as u8 * (1 << (self.filled % 8));
            self.filled += 1;
        }
    }

    /// A code of a table, its highest bit first.
    fn code(&mut self, (codes, bits): (&[u32], &[u8]), symbol: usize) {
        assert!(bits[symbol] > 0);
        (0..bits[symbol]).rev().for_each(|n| self.number((codes[symbol] >> n & 1) as usize, 1));
    }
}

/// Symbol, extra bits and their value of a number, as the table of RFC 1951 has them: `first` symbols
/// without extra bits, then `each` symbols of any number of them.
fn split(number: usize, least: usize, each: u32) -> (usize, u8, usize) {
    let above = number - least;
    if above < 2 * each as usize {
        return (above, 0, 0);
    }
    let extra = above.ilog2() - each.ilog2();
    let symbol = (extra * each) as usize + (above >> extra);
    (symbol, extra as u8, above & ((1 << extra) - 1))
}

/// One block of these symbols as a gzip file, and its text.
fn pack(symbols: &[Symbol], even: bool) -> (Vec<u8>, Vec<u8>) {
    pack_behind(b"", symbols, even)
}

/// The same behind some text that matches may refer to, as none does in a sound file.
fn pack_behind(before: &[u8], symbols: &[Symbol], even: bool) -> (Vec<u8>, Vec<u8>) {
    let (litlen_bits, dist_bits) = (litlen_bits(), dist_bits(even));
    let (litlen_codes, dist_codes) = (codes(&litlen_bits), codes(&dist_bits));
    let (litlen, dist) = ((&litlen_codes[..], &litlen_bits[..]), (&dist_codes[..], &dist_bits[..]));
    let precode_bits = [vec![4; 13], vec![5; 6]].concat();
    let precode_codes = codes(&precode_bits);
    let mut out = Writer::default();
    out.number(0b101, 3);
    out.number(286 - 257, 5);
    out.number(30 - 1, 5);
    out.number(19 - 4, 4);
    for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15] {
        out.number(usize::from(precode_bits[symbol]), 3);
    }
    for &bits in litlen_bits.iter().chain(&dist_bits) {
        out.code((&precode_codes, &precode_bits), usize::from(bits));
    }
    let mut text = before.to_vec();
    for &symbol in symbols {
        match symbol {
            Symbol::Literal(byte) => {
                out.code(litlen, usize::from(byte));
                text.push(byte);
            }
            Symbol::Match(length, distance) => {
                let (symbol, extra, value) = match length {
                    258 => (28, 0, 0),
                    _ => split(length, 3, 4),
                };
                out.code(litlen, 257 + symbol);
                out.number(value, extra);
                let (symbol, extra, value) = split(distance, 1, 2);
                out.code(dist, symbol);
                out.number(value, extra);
                (0..length).for_each(|_| text.push(text[text.len() - distance]));
            }
        }
    }
    out.code(litlen, 256);
    text.drain(..before.len());
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    packed.extend(out.bytes);
    packed.extend(crc32fast::hash(&text).to_le_bytes());
    packed.extend((text.len() as u32).to_le_bytes());
    (packed, text)
}

/// Symbols that may follow each other: no match goes back behind the start of the text.
fn symbols() -> impl Strategy<Value = Vec<Symbol>> {
    let distance = prop_oneof![
        2 => 1usize..20,
        4 => 1usize..300,
        4 => 1usize..5000,
        1 => 1usize..32_769,
    ];
    let length = prop_oneof![12 => 3usize..12, 4 => 3usize..40, 1 => 3usize..259];
    let drawn = (any::<u8>(), length, distance, 0u8..24);
    proptest::collection::vec(drawn, 0..9000).prop_map(|drawn| {
        let mut size = 0;
        let symbol = |(byte, length, distance, kind): (u8, usize, usize, u8)| {
            // The text has to begin with something.
            if kind == 0 || size < 20 {
                size += 1;
                return Symbol::Literal(byte % LITERALS as u8);
            }
            let far = size.min(32_768);
            size += length;
            Symbol::Match(length, (distance - 1) % far + 1)
        };
        drawn.into_iter().map(symbol).collect()
    })
}

fn zlib(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut text)?;
    Ok(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matches_come_out_again(symbols in symbols(), even in any::<bool>(), step in 1usize..70_000) {
        let (packed, text) = pack(&symbols, even);
        prop_assert!(zlib(&packed).expect("a sound file") == text);
        prop_assert!(gunzip(&packed, step).expect("a sound file") == text);
        // A second member does not refer to the first one, whose text stands before it.
        let twice = [&packed[..], &packed[..]].concat();
        prop_assert!(gunzip(&twice, step).expect("sound files") == [&text[..], &text[..]].concat());
    }

    #[test]
    fn damaged_matches_are_what_zlib_says(
        symbols in symbols(),
        even in any::<bool>(),
        damages in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 8),
    ) {
        let (packed, text) = pack(&symbols, even);
        for (at, bit) in damages {
            let at = at.index(packed.len());
            prop_assert!(gunzip(&packed[..at], 65_536).is_err());
            let mut damaged = packed.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(found) = gunzip(&damaged, 4096) {
                prop_assert!(found == text && zlib(&damaged).expect("accepted") == text);
            }
        }
    }

    /// The text of another member stands before it in memory, and is not text to refer to.
    #[test]
    fn no_match_goes_back_to_another_member(
        first in symbols(),
        second in symbols(),
        even in any::<bool>(),
        at in any::<prop::sample::Index>(),
    ) {
        let (packed, text) = pack(&first, even);
        let mut size = 0;
        let starts = second.iter().map(|symbol| {
            let start = size;
            size += match symbol { Symbol::Literal(_) => 1, Symbol::Match(length, _) => *length };
            start
        });
        let starts: Vec<usize> = starts.collect();
        prop_assume!(!text.is_empty() && !second.is_empty() && starts[starts.len() - 1] < 32_000);
        let mut far = second.clone();
        let at = at.index(far.len());
        far[at] = Symbol::Match(3, starts[at] + 1);
        // As it would be if the members were one, so that its checksum is right.
        let (broken, _) = pack_behind(&text, &far[..=at], even);
        prop_assert!(zlib(&[&packed[..], &broken[..]].concat()).is_err());
        prop_assert!(gunzip(&[&packed[..], &broken[..]].concat(), 65_536).is_err());
    }
}
