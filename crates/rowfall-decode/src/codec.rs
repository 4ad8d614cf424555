//! Encodes blocks in the engine's codecs for numbers, which stand alone or before LZ4 or ZSTD.
//!
//! The bytes are those that the engine writes for the same block.

use crate::types::{BaseType, Type};

/// A codec of a column, with what it has to know about its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// The bytes as they are.
    None,
    /// LZ4.
    Lz4,
    /// LZ4, of which a slower search of a level makes fewer bytes.
    Lz4Hc(i32),
    /// zstd of a level; with the logarithm of a window it looks for matches far behind, 0 leaves
    /// that number to the level.
    Zstd(i32, Option<u32>),
    /// Differences of neighbours of so many bytes.
    Delta(u8),
    /// Differences of these in few bits.
    DoubleDelta(u8),
    /// Bits that differ from the value before.
    Gorilla(u8),
    /// Bits of 64 values that are not all the same, transposed.
    T64(T64),
}

/// The names of all codecs.
pub const NAMES: &[&str] =
    &["NONE", "LZ4", "LZ4HC", "ZSTD", "Delta", "DoubleDelta", "Gorilla", "T64"];

/// Values of T64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct T64 {
    bytes: u8,
    signed: bool,
    /// The engine's number for the type.
    number: u8,
    /// All bits are transposed, not only those of the last byte that is in use.
    bits: bool,
}

impl Codec {
    /// Parse a codec as the definition of a table has it: `Delta(4)`, `ZSTD(1)`.
    pub fn parse(text: &str, data_type: &Type) -> Result<Codec, String> {
        let refused = || format!("the codec {text} of {}", data_type.name);
        let (name, argument) = match text.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(refused)?)),
            None => (text, None),
        };
        let width = || match argument {
            Some(given) => given.parse().ok(),
            None => u8::try_from(data_type.width()).ok(),
        };
        let found = match (name, argument) {
            ("NONE", None) => Some(Codec::None),
            ("LZ4", None) => Some(Codec::Lz4),
            ("LZ4HC", level) => level.unwrap_or("0").parse().ok().map(Codec::Lz4Hc),
            ("ZSTD", given) => zstd(given.unwrap_or("1")),
            ("Delta", _) => width().map(Codec::Delta),
            ("DoubleDelta", _) => width().map(Codec::DoubleDelta),
            ("Gorilla", _) => width().map(Codec::Gorilla),
            ("T64", kind) => T64::new(data_type, kind).map(Codec::T64),
            _ => None,
        };
        let sound = |codec: &Codec| match codec {
            Codec::Delta(n) | Codec::DoubleDelta(n) | Codec::Gorilla(n) => {
                matches!(n, 1 | 2 | 4 | 8)
            }
            Codec::Zstd(level, window) => {
                (1..=22).contains(level) && window.is_none_or(|log| matches!(log, 0 | 10..=31))
            }
            _ => true,
        };
        found.filter(sound).ok_or_else(refused)
    }

    /// True for what compresses any bytes; the others are for values of the type only.
    pub fn is_generic(self) -> bool {
        matches!(self, Codec::Lz4 | Codec::Lz4Hc(_) | Codec::Zstd(..))
    }

    /// The engine's number.
    pub fn method(self) -> u8 {
        match self {
            Codec::None => 0x02,
            Codec::Lz4 | Codec::Lz4Hc(_) => 0x82,
            Codec::Zstd(..) => 0x90,
            Codec::Delta(_) => 0x92,
            Codec::T64(_) => 0x93,
            Codec::DoubleDelta(_) => 0x94,
            Codec::Gorilla(_) => 0x95,
        }
    }

    /// Append the encoded text, for codecs that are not generic.
    pub fn encode(self, text: &[u8], out: &mut Vec<u8>) {
        // What is left of a whole number of values comes first, as it is.
        let split = |width: u8, out: &mut Vec<u8>| {
            let skipped = text.len() % usize::from(width);
            out.extend_from_slice(&[width, skipped as u8]);
            out.extend_from_slice(&text[..skipped]);
            skipped
        };
        match self {
            Codec::None => out.extend_from_slice(text),
            Codec::Lz4 | Codec::Lz4Hc(_) | Codec::Zstd(..) => unreachable!("they are generic"),
            Codec::Delta(width) => {
                let from = split(width, out);
                let values = &text[from..];
                match width {
                    1 => delta::<1>(values, out),
                    2 => delta::<2>(values, out),
                    4 => delta::<4>(values, out),
                    _ => delta::<8>(values, out),
                }
            }
            Codec::DoubleDelta(width) => {
                let from = split(width, out);
                double_delta(&text[from..], usize::from(width), out);
            }
            Codec::Gorilla(width) => {
                let from = split(width, out);
                gorilla(&text[from..], usize::from(width), out);
            }
            Codec::T64(values) => values.encode(text, out),
        }
    }
}

/// The codecs of one column: of its values, and of what stands beside them (NULLs, sizes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chains {
    /// One after the other.
    pub values: Vec<Codec>,
    /// Those of them that take any bytes.
    pub beside: Vec<Codec>,
}

impl Chains {
    /// The codecs of a flat type; LZ4 where there are none.
    fn new(codecs: &[String], data_type: &Type) -> Result<Chains, String> {
        let parsed: Result<Vec<_>, _> =
            codecs.iter().map(|text| Codec::parse(text, data_type)).collect();
        let mut values = parsed?;
        if values.is_empty() {
            values.push(Codec::Lz4);
        }
        let mut beside: Vec<_> = values.iter().copied().filter(|c| c.is_generic()).collect();
        if beside.is_empty() {
            beside.push(Codec::None);
        }
        Ok(Chains { values, beside })
    }

    /// The codecs of the flat types that a type consists of, in their order; there is one at least.
    /// What is beside all values of a column has the same codecs.
    pub fn of_each(codecs: &[String], data_type: &Type) -> Result<Vec<Chains>, String> {
        match data_type.children() {
            [] => Ok(vec![Chains::new(codecs, data_type)?]),
            children => {
                let found: Result<Vec<_>, _> =
                    children.iter().map(|child| Chains::of_each(codecs, child)).collect();
                Ok(found?.concat())
            }
        }
    }
}

/// The arguments of ZSTD: a level, and a window if it is given.
fn zstd(arguments: &str) -> Option<Codec> {
    let (level, window) = match arguments.split_once(',') {
        Some((level, window)) => (level, Some(window.trim().parse().ok()?)),
        None => (arguments, None),
    };
    Some(Codec::Zstd(level.parse().ok()?, window))
}

fn delta<const N: usize>(text: &[u8], out: &mut Vec<u8>) {
    let mut before = 0;
    out.reserve(text.len());
    for value in text.as_chunks::<N>().0 {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(value);
        let now = u64::from_le_bytes(wide);
        out.extend_from_slice(&now.wrapping_sub(before).to_le_bytes()[..N]);
        before = now;
    }
}

/// Values of `width` bytes as numbers without a sign.
fn numbers(text: &[u8], width: usize) -> impl Iterator<Item = u64> {
    text.chunks_exact(width).map(move |value| {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(value);
        u64::from_le_bytes(wide)
    })
}

/// Number of values, the first one, the first difference, and differences of differences: their
/// prefix says how many bits they take.
fn double_delta(text: &[u8], width: usize, out: &mut Vec<u8>) {
    let count = (text.len() / width) as u32;
    out.extend_from_slice(&count.to_le_bytes());
    let mut values = numbers(text, width);
    let Some(mut before) = values.next() else { return };
    out.extend_from_slice(&before.to_le_bytes()[..width]);
    let Some(second) = values.next() else { return };
    let mut difference = second.wrapping_sub(before);
    out.extend_from_slice(&difference.to_le_bytes()[..width]);
    before = second;
    let unused = 64 - 8 * width as u32;
    let mut bits = BitWriter::new(out);
    for value in values {
        let now = value.wrapping_sub(before);
        // As wide as a value, with its sign.
        let change = (now.wrapping_sub(difference) << unused).cast_signed() >> unused;
        (before, difference) = (value, now);
        let (prefix_bits, prefix, data_bits) = match change {
            0 => {
                bits.write(1, 0);
                continue;
            }
            -62..=63 => (2, 0b10, 7),
            -254..=255 => (3, 0b110, 9),
            -2046..=2047 => (4, 0b1110, 12),
            change if i64::from(i32::MIN) < change && change < i64::from(i32::MAX) => {
                (5, 0b11110, 32)
            }
            _ => (5, 0b11111, 64),
        };
        bits.write(prefix_bits, prefix);
        bits.write(1, u64::from(change < 0));
        bits.write(data_bits - 1, change.unsigned_abs() - 1);
    }
    bits.finish();
}

/// Number of values, the first one, and of each other one the bits that differ from the one before.
fn gorilla(text: &[u8], width: usize, out: &mut Vec<u8>) {
    let count = (text.len() / width) as u32;
    out.extend_from_slice(&count.to_le_bytes());
    let mut values = numbers(text, width);
    let Some(mut before) = values.next() else { return };
    out.extend_from_slice(&before.to_le_bytes()[..width]);
    let width_bits = 8 * width as u32;
    let length_bits = width_bits.ilog2() + 1;
    let mut bits = BitWriter::new(out);
    // Zeros before and behind the bits that were written in full last.
    let mut window: Option<(u32, u32)> = None;
    for value in values {
        let changed = value ^ before;
        before = value;
        if changed == 0 {
            bits.write(1, 0);
            continue;
        }
        let leading = changed.leading_zeros() - (64 - width_bits);
        let trailing = changed.trailing_zeros();
        match window {
            Some((before, behind)) if before <= leading && behind <= trailing => {
                bits.write(2, 0b10);
                bits.write(width_bits - before - behind, changed >> behind);
            }
            _ => {
                let used = width_bits - leading - trailing;
                bits.write(2, 0b11);
                bits.write(length_bits - 1, u64::from(leading));
                bits.write(length_bits, u64::from(used));
                bits.write(used, changed >> trailing);
                window = Some((leading, trailing));
            }
        }
    }
    bits.finish();
}

impl T64 {
    fn new(data_type: &Type, kind: Option<&str>) -> Option<T64> {
        let bits = match kind {
            None | Some("'byte'") => false,
            Some("'bit'") => true,
            Some(_) => return None,
        };
        let (bytes, signed, number) = match data_type.base {
            BaseType::Bool => (1, false, 1),
            BaseType::Int(bytes @ (1 | 2 | 4 | 8), signed) => {
                (bytes, signed, if signed { 6 } else { 1 } + bytes.ilog2() as u8)
            }
            BaseType::Date => (2, false, 13),
            BaseType::DateTime(_) => (4, false, 14),
            BaseType::DateTime64(..) => (8, true, 15),
            BaseType::Enum(bytes, _) => (bytes, false, 16 + bytes),
            BaseType::Decimal(4, ..) => (4, true, 19),
            BaseType::Decimal(8, ..) => (8, true, 20),
            BaseType::Ipv4 => (4, false, 21),
            BaseType::Date32 => (4, true, 22),
            _ => return None,
        };
        Some(T64 { bytes, signed, number, bits })
    }

    /// The type, the least and the greatest value, and of each 64 values (the last may be fewer)
    /// their bytes or bits that are in use: the first of all values, then the second of all.
    fn encode(self, text: &[u8], out: &mut Vec<u8>) {
        let width = usize::from(self.bytes);
        let unused = 64 - 8 * u32::from(self.bytes);
        out.push(self.number | u8::from(self.bits) << 7);
        let used = if self.signed {
            let signed = |value: u64| (value << unused).cast_signed() >> unused;
            let values = || numbers(text, width).map(signed);
            let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
            out.extend_from_slice(&low.to_le_bytes());
            out.extend_from_slice(&high.to_le_bytes());
            match (low, high) {
                // One bit more says which of them are below zero.
                (low, high) if low < 0 && high >= 0 => {
                    let most = if low.wrapping_add(high) >= 0 { high } else { !low };
                    64 - most.leading_zeros() + 1
                }
                _ => 64 - (low ^ high).leading_zeros(),
            }
        } else {
            let values = || numbers(text, width);
            let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
            out.extend_from_slice(&low.to_le_bytes());
            out.extend_from_slice(&high.to_le_bytes());
            64 - (low ^ high).leading_zeros()
        };
        if used == 0 {
            return;
        }
        let (whole, rest) = (used as usize / 8, used as usize % 8);
        for values in text.chunks(64 * width) {
            for byte in 0..whole + usize::from(rest > 0) {
                let mut line = [0; 64];
                for (to, value) in line.iter_mut().zip(values.chunks_exact(width)) {
                    *to = value[byte];
                }
                let kept = if byte == whole { rest } else { 8 };
                if byte < whole && !self.bits {
                    out.extend_from_slice(&line);
                    continue;
                }
                for bit in 0..kept {
                    let all = (0..64).fold(0, |all, n| all | u64::from(line[n] >> bit & 1) << n);
                    out.extend_from_slice(&all.to_le_bytes());
                }
            }
        }
    }
}

/// Writes numbers of some bits, the highest bit first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bits that are no whole byte yet.
    bits: u128,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { out, bits: 0, filled: 0 }
    }

    /// Write the lowest bits, at most 64.
    fn write(&mut self, count: u32, value: u64) {
        let mask = u64::MAX.checked_shr(64 - count).unwrap_or(0);
        self.bits = self.bits << count | u128::from(value & mask);
        self.filled += count;
        while self.filled >= 8 {
            self.filled -= 8;
            self.out.push((self.bits >> self.filled) as u8);
        }
    }

    fn finish(self) {
        if self.filled > 0 {
            self.out.push((self.bits << (8 - self.filled)) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(codec: &str, type_name: &str, text: &[u8]) -> Vec<u8> {
        let data_type = Type::parse(type_name, None).expect("a type");
        let mut out = Vec::new();
        Codec::parse(codec, &data_type).expect("a codec").encode(text, &mut out);
        out
    }

    /// Examples by hand; the contract tests compare with what the engine writes.
    #[test]
    fn numbers_are_encoded() {
        assert_eq!(
            encoded("Delta(2)", "UInt16", &[9, 1, 0, 3, 0, 2, 0]),
            [2, 1, 9, 1, 0, 2, 0, 255, 255]
        );
        // A change of 2: prefix 10, sign 0, and 1 in six bits.
        let change = [1, 0, 3, 0, 0, 0, 5, 1, 0b1000_0000, 0b1000_0000];
        assert_eq!(encoded("DoubleDelta", "UInt8", &[5, 6, 9]), change);
        assert_eq!(encoded("DoubleDelta", "Int8", &[]), [1, 0, 0, 0, 0, 0]);
        assert_eq!(encoded("Gorilla", "UInt8", &[7, 7]), [1, 0, 2, 0, 0, 0, 7, 0]);
        let same = [1, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encoded("T64", "UInt8", &[7; 100]), same);
        assert_eq!(encoded("T64", "UInt8", &[6, 7])[17..], [2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn other_codecs_are_refused() {
        for (codec, type_name) in [
            ("LZ4HC(x)", "String"),
            ("ZSTD(1, 9)", "String"),
            ("ZSTD(1, 32)", "String"),
            ("ZSTD(23)", "String"),
            ("ZSTD(1", "String"),
            ("T64", "String"),
            ("Delta", "String"),
            ("Delta(3)", "UInt8"),
            ("DoubleDelta", "UUID"),
            ("T64(3)", "UInt8"),
            ("NONE(1)", "UInt8"),
            ("T64", "Float64"),
            ("", "UInt8"),
        ] {
            let data_type = Type::parse(type_name, None).expect("a type");
            assert!(Codec::parse(codec, &data_type).is_err(), "{codec} {type_name}");
        }
    }
}
