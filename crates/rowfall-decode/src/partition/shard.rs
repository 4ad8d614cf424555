//! Finds the shard of a cluster that each row belongs on: a hash of one column, and the remainder of
//! its division by the weights of all shards. The hashes are those of ClickHouse's functions.

use crate::column::strings::starts_of;
use crate::column::{Column, Values};
use crate::spec::{ShardHash, ShardKey};
use crate::types::{BaseType, Type, streams};

/// The bytes of a value that a hash is made of, at most: wider numbers are hashed in another way.
const WORD: usize = 8;

impl ShardKey {
    /// True where the shards of values of a type are found here.
    pub fn takes(&self, data_type: &Type) -> bool {
        let whole = matches!(
            data_type.base,
            BaseType::Int(1..=8, _) | BaseType::Bool | BaseType::Date | BaseType::DateTime(_)
        );
        let text = matches!(data_type.base, BaseType::String)
            && matches!(self.hash, Some(ShardHash::City | ShardHash::Sip | ShardHash::Xx));
        !data_type.nullable && (whole || text)
    }

    /// The number of the shard of a slot, from 0.
    pub fn place(&self, slot: u64) -> u16 {
        self.ends.partition_point(|end| *end <= slot) as u16
    }

    /// The shard of each row by a hash of its column; None where the engine is asked for the shards.
    pub fn shards(&self, columns: &[Column], rows: usize) -> Option<Column> {
        let hash = self.hash?;
        let values = columns[self.column].values();
        let slots = self.ends.last().copied().unwrap_or(1).max(1);
        let number = Type::parse("UInt16", None).expect("a type of the engine");
        let mut out = Column::new(number);
        out.data.reserve(2 * rows);
        let mut put = |hash: u64| {
            out.data.extend_from_slice(&self.place(hash % slots).to_le_bytes());
        };
        match values.data_type.base {
            BaseType::String => texts(values, rows).for_each(|text| put(hash.of_bytes(text))),
            _ => {
                let width = values.data_type.width();
                let signed = matches!(values.data_type.base, BaseType::Int(_, true));
                values.data.chunks_exact(width).for_each(|raw| put(hash.of_number(raw, signed)));
            }
        }
        Some(out)
    }
}

/// The strings of a column, without their lengths.
fn texts(values: Values<'_>, rows: usize) -> impl Iterator<Item = &[u8]> {
    let starts = starts_of(values, rows);
    (0..rows).map(move |row| {
        let stored = &values.data[starts[row] as usize..starts[row + 1] as usize];
        let length = stored.iter().position(|byte| *byte < 128).map_or(0, |at| at + 1);
        &stored[length..]
    })
}

impl ShardHash {
    /// The hash of a text; numbers have a way of their own.
    fn of_bytes(self, bytes: &[u8]) -> u64 {
        match self {
            ShardHash::City => city_hash(bytes),
            ShardHash::Sip => sip_hash(bytes),
            ShardHash::Xx => xx_hash(bytes),
            ShardHash::Value | ShardHash::Int32 | ShardHash::Int64 => {
                unreachable!("texts have other hashes")
            }
        }
    }

    /// The hash of a number as it lies in memory.
    fn of_number(self, raw: &[u8], signed: bool) -> u64 {
        let mut bytes = [0; WORD];
        bytes[..raw.len()].copy_from_slice(raw);
        let plain = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * raw.len() as u32;
        let number = if signed { ((plain << unused) as i64 >> unused) as u64 } else { plain };
        match self {
            // A Distributed table takes a negative key for an unsigned number of its own width.
            ShardHash::Value => plain,
            ShardHash::Int32 => u64::from(int_hash32(number)),
            ShardHash::Int64 => int_hash64(number),
            ShardHash::City => int_hash64(plain),
            ShardHash::Sip => sip_hash(raw),
            ShardHash::Xx => xx_hash(raw),
        }
    }
}

/// ClickHouse's `intHash64`: the last steps of MurmurHash3.
fn int_hash64(number: u64) -> u64 {
    let mut x = number ^ 0x4cf2_d2ba_ae6d_a887;
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// ClickHouse's `intHash32`.
fn int_hash32(number: u64) -> u32 {
    let mut key = number ^ 0x75d9_543d_e018_bf45;
    key = (!key).wrapping_add(key << 18);
    key ^= key.rotate_right(31);
    key = key.wrapping_mul(21);
    key ^= key.rotate_right(11);
    key = key.wrapping_add(key << 6);
    key ^= key.rotate_right(22);
    key as u32
}

/// SipHash-2-4 of 64 bits with a key of zeros.
fn sip_hash(bytes: &[u8]) -> u64 {
    let (low, high) = streams::sip_hash(bytes);
    low ^ high
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

// --- CityHash64 1.0.2 -----------------------------------------------------------------------------

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;

fn shift_mix(x: u64) -> u64 {
    x ^ (x >> 47)
}

fn hash_16(low: u64, high: u64) -> u64 {
    const MUL: u64 = 0x9ddf_ea08_eb38_2d69;
    let a = shift_mix((low ^ high).wrapping_mul(MUL));
    shift_mix((high ^ a).wrapping_mul(MUL)).wrapping_mul(MUL)
}

/// Mix 32 bytes into two words.
fn weak_hash(s: &[u8], a: u64, b: u64) -> (u64, u64) {
    let (w, x, y, z) = (word(s, 0), word(s, 8), word(s, 16), word(s, 24));
    let a = a.wrapping_add(w);
    let b = b.wrapping_add(a).wrapping_add(z).rotate_right(21);
    let sum = a.wrapping_add(x).wrapping_add(y);
    (sum.wrapping_add(z), b.wrapping_add(sum.rotate_right(44)).wrapping_add(a))
}

fn city_hash(s: &[u8]) -> u64 {
    match s.len() {
        0..=16 => city_hash_16(s),
        17..=32 => city_hash_32(s),
        33..=64 => city_hash_64(s),
        _ => city_hash_long(s),
    }
}

fn city_hash_16(s: &[u8]) -> u64 {
    let length = s.len() as u64;
    match s.len() {
        0 => K2,
        1..=3 => {
            let (a, b, c) = (s[0], s[s.len() >> 1], s[s.len() - 1]);
            let y = u64::from(u32::from(a) + (u32::from(b) << 8));
            let z = u64::from(s.len() as u32 + (u32::from(c) << 2));
            shift_mix(y.wrapping_mul(K2) ^ z.wrapping_mul(K3)).wrapping_mul(K2)
        }
        4..=8 => hash_16(length.wrapping_add(half(s, 0) << 3), half(s, s.len() - 4)),
        _ => {
            let (a, b) = (word(s, 0), word(s, s.len() - 8));
            hash_16(a, b.wrapping_add(length).rotate_right(s.len() as u32)) ^ b
        }
    }
}

fn city_hash_32(s: &[u8]) -> u64 {
    let n = s.len();
    let (a, b) = (word(s, 0).wrapping_mul(K1), word(s, 8));
    let (c, d) = (word(s, n - 8).wrapping_mul(K2), word(s, n - 16).wrapping_mul(K0));
    hash_16(
        a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
        a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(n as u64),
    )
}

fn city_hash_64(s: &[u8]) -> u64 {
    /// Mix the words at some places, of which `first` has been mixed.
    fn mixed(first: u64, z: u64, next: [u64; 2]) -> (u64, u64) {
        let (mut a, b) = (first, first.wrapping_add(z).rotate_right(52));
        let mut c = a.rotate_right(37);
        a = a.wrapping_add(next[0]);
        c = c.wrapping_add(a.rotate_right(7));
        a = a.wrapping_add(next[1]);
        (a.wrapping_add(z), b.wrapping_add(a.rotate_right(31)).wrapping_add(c))
    }
    let n = s.len();
    let first = (n as u64).wrapping_add(word(s, n - 16)).wrapping_mul(K0);
    let first = word(s, 0).wrapping_add(first);
    let (vf, vs) = mixed(first, word(s, 24), [word(s, 8), word(s, 16)]);
    let second = word(s, 16).wrapping_add(word(s, n - 32));
    let (wf, ws) = mixed(second, word(s, n - 8), [word(s, n - 24), word(s, n - 16)]);
    let r = vf.wrapping_add(ws).wrapping_mul(K2).wrapping_add(wf.wrapping_add(vs).wrapping_mul(K0));
    shift_mix(shift_mix(r).wrapping_mul(K0).wrapping_add(vs)).wrapping_mul(K2)
}

fn city_hash_long(s: &[u8]) -> u64 {
    let n = s.len();
    let (mut x, mut y) = (word(s, 0), word(s, n - 16) ^ K1);
    let mut z = word(s, n - 56) ^ K0;
    let mut v = weak_hash(&s[n - 64..], n as u64, y);
    let mut w = weak_hash(&s[n - 32..], (n as u64).wrapping_mul(K1), K0);
    z = z.wrapping_add(shift_mix(v.1).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for s in s[..(n - 1) & !63].chunks_exact(64) {
        let sum = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(s, 16));
        x = sum.rotate_right(37).wrapping_mul(K1);
        let sum = y.wrapping_add(v.1).wrapping_add(word(s, 48));
        y = sum.rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y ^= v.0;
        z = (z ^ w.0).rotate_right(33);
        v = weak_hash(s, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = weak_hash(&s[32..], z.wrapping_add(w.1), y);
        std::mem::swap(&mut z, &mut x);
    }
    let low = hash_16(v.0, w.0).wrapping_add(shift_mix(y).wrapping_mul(K1)).wrapping_add(z);
    hash_16(low, hash_16(v.1, w.1).wrapping_add(x))
}

// --- XXH64, seed 0 --------------------------------------------------------------------------------

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

fn xx_round(sum: u64, word: u64) -> u64 {
    sum.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn xx_hash(s: &[u8]) -> u64 {
    let (stripes, mut rest) = s.as_chunks::<32>();
    let mut hash = P5;
    if !stripes.is_empty() {
        let mut v = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
        for stripe in stripes {
            for (n, sum) in v.iter_mut().enumerate() {
                *sum = xx_round(*sum, word(stripe, 8 * n));
            }
        }
        hash = [1, 7, 12, 18]
            .iter()
            .zip(&v)
            .fold(0_u64, |hash, (by, sum)| hash.wrapping_add(sum.rotate_left(*by)));
        for sum in v {
            hash = (hash ^ xx_round(0, sum)).wrapping_mul(P1).wrapping_add(P4);
        }
    }
    hash = hash.wrapping_add(s.len() as u64);
    while rest.len() >= 8 {
        hash =
            (hash ^ xx_round(0, word(rest, 0))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        hash = (hash ^ half(rest, 0).wrapping_mul(P1)).rotate_left(23);
        hash = hash.wrapping_mul(P2).wrapping_add(P3);
        rest = &rest[4..];
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}
