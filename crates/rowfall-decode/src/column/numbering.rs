//! Numbers the different strings of a column, for dictionaries and for sorting.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes eight bytes by one multiplication. Nobody gains from collisions: a numbering lives as
/// long as one block.
#[derive(Default)]
pub struct MultiplyHasher(u64);

impl MultiplyHasher {
    #[inline(always)]
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Hasher for MultiplyHasher {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = 0;
        rest.iter().for_each(|byte| last = last << 8 | u64::from(*byte));
        self.mix(last);
    }

    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes tables that hash so.
pub type Hashing = BuildHasherDefault<MultiplyHasher>;

/// Strings that were seen last, by their length and their ends: most columns have few values, and
/// comparing one costs less than a third of hashing it and looking it up.
const RECENT: usize = 64;

/// The strings that were seen, each with its number.
pub struct Numbering<'a> {
    numbers: HashMap<&'a [u8], u32, Hashing>,
    recent: [Option<(&'a [u8], u32)>; RECENT],
    next: u32,
}

impl<'a> Numbering<'a> {
    /// Number strings from `first` on.
    pub fn from(first: u32) -> Numbering<'a> {
        Numbering { numbers: HashMap::default(), recent: [None; RECENT], next: first }
    }

    /// The number of a string, and whether it is a new one.
    #[inline(always)]
    pub fn number(&mut self, value: &'a [u8]) -> (u32, bool) {
        let ends = value.first().zip(value.last());
        let mix = ends.map_or(0, |(a, b)| usize::from(*a) * 5 + usize::from(*b) * 3);
        let place = (value.len() + mix) % RECENT;
        if let Some((known, number)) = self.recent[place]
            && known == value
        {
            return (number, false);
        }
        let next = self.next;
        let number = *self.numbers.entry(value).or_insert(next);
        self.recent[place] = Some((value, number));
        self.next += u32::from(number == next);
        (number, number == next)
    }

    /// The number that a new string would get.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// All strings with their numbers, in the order of the strings.
    pub fn sorted(&self) -> Vec<(&'a [u8], u32)> {
        let mut found: Vec<_> = self.numbers.iter().map(|(value, n)| (*value, *n)).collect();
        found.sort_unstable();
        found
    }
}
