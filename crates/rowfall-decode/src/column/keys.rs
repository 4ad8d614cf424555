//! Keeps the different strings of a LowCardinality column, for which numbers stand in its data.

use std::any::Any;
use std::hash::Hasher;

use crate::column::numbering::MultiplyHasher;

/// Keys that take so many bytes are kept from block to block: most columns have the same few values
/// in all of them.
const KEPT_BYTES: usize = 1 << 20;
/// Slots at first.
const LEAST_SLOTS: usize = 64;

/// Strings with their numbers, in the order of their numbers; 0 is the empty string.
pub struct Keys {
    /// The strings, one behind the other.
    data: Vec<u8>,
    /// Where each of them starts in `data`.
    starts: Vec<u32>,
    /// A hash table: the number of a string and 1 more, or 0; a power of two, half of it empty.
    slots: Vec<u32>,
    translated: Option<Translation>,
}

/// The numbers of the keys of a foreign dictionary, which many batches of rows share.
struct Translation {
    /// Where the dictionary is in memory; `held` keeps anything else from being there.
    address: usize,
    numbers: Vec<u32>,
    _held: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Keys({})", self.len())
    }
}

impl Default for Keys {
    fn default() -> Keys {
        let (data, starts, slots) = (Vec::new(), Vec::new(), vec![0; LEAST_SLOTS]);
        let mut keys = Keys { data, starts, slots, translated: None };
        keys.number(b"");
        keys
    }
}

impl Keys {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.data.len() + 4 * (self.starts.len() + self.slots.len())
    }

    /// A string by its number.
    pub fn text(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let end = self.starts.get(number + 1).map_or(self.data.len(), |end| *end as usize);
        &self.data[self.starts[number] as usize..end]
    }

    /// All strings, one behind the other, and where each of them starts; the last one ends with them.
    pub fn texts(&self) -> (&[u8], &[u32]) {
        (&self.data, &self.starts)
    }

    /// The number of a string, which is added where it is new.
    pub fn number(&mut self, value: &[u8]) -> u32 {
        let slot = self.slot(value);
        if self.slots[slot] > 0 {
            return self.slots[slot] - 1;
        }
        let number = self.starts.len() as u32;
        self.starts.push(self.data.len() as u32);
        self.data.extend_from_slice(value);
        self.slots[slot] = number + 1;
        if 2 * self.starts.len() > self.slots.len() {
            self.slots = vec![0; 2 * self.slots.len()];
            for number in 0..self.starts.len() as u32 {
                let slot = self.slot(self.text(number));
                self.slots[slot] = number + 1;
            }
        }
        number
    }

    /// The number of a string that is there; None of others.
    pub fn find(&self, value: &[u8]) -> Option<u32> {
        self.slots[self.slot(value)].checked_sub(1)
    }

    /// The slot of a string: where it is, or the empty one that it would take.
    fn slot(&self, value: &[u8]) -> usize {
        let mut hasher = MultiplyHasher::default();
        hasher.write(value);
        hasher.write_usize(value.len());
        let mut slot = hasher.finish() as usize;
        loop {
            slot %= self.slots.len();
            match self.slots[slot] {
                0 => return slot,
                next if self.text(next - 1) == value => return slot,
                _ => slot += 1,
            }
        }
    }

    /// The numbers of the `count` keys of a foreign dictionary at an address: by `key` where it is
    /// another one than before, and then `held` is kept as long as they are.
    pub fn translate<'a>(
        &mut self,
        address: usize,
        count: usize,
        key: impl Fn(usize) -> &'a [u8],
        held: impl FnOnce() -> Box<dyn Any + Send + Sync>,
    ) -> &[u32] {
        let known = self.translated.take();
        let known = known.filter(|t| t.address == address && t.numbers.len() == count);
        let known = known.unwrap_or_else(|| Translation {
            address,
            numbers: (0..count).map(|n| self.number(key(n))).collect(),
            _held: held(),
        });
        &self.translated.insert(known).numbers
    }

    /// Begin a new block: forget the strings, unless they take little memory.
    pub fn clear(&mut self) {
        if self.bytes() > KEPT_BYTES {
            *self = Keys::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_keep_their_numbers() {
        let mut keys = Keys::default();
        let texts: Vec<Vec<u8>> =
            (0..5000u32).map(|n| n.to_string().repeat(n as usize % 40).into_bytes()).collect();
        let numbers: Vec<u32> = texts.iter().map(|text| keys.number(text)).collect();
        for (text, number) in texts.iter().zip(&numbers) {
            assert_eq!(keys.number(text), *number);
            assert_eq!(keys.text(*number), &text[..]);
        }
        let mut different = texts.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!((keys.len(), keys.number(b"")), (different.len(), 0));
    }

    #[test]
    fn a_dictionary_is_translated_once() {
        let mut keys = Keys::default();
        let first = keys.translate(8, 2, |n| [&b"a"[..], b"b"][n], || Box::new(())).to_vec();
        let again = keys.translate(8, 2, |_| unreachable!(), || unreachable!()).to_vec();
        let other = keys.translate(16, 2, |n| [&b"b"[..], b"c"][n], || Box::new(())).to_vec();
        assert_eq!((&first[..], &again[..], &other[..]), (&[1, 2][..], &[1, 2][..], &[2, 3][..]));
    }

    #[test]
    fn much_memory_is_given_back() {
        let mut keys = Keys::default();
        keys.number(b"short");
        keys.clear();
        assert_eq!(keys.len(), 2);
        keys.number(&vec![b'x'; KEPT_BYTES]);
        keys.clear();
        assert_eq!(keys.len(), 1);
    }
}
