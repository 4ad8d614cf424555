//! Makes `checksums.txt` of a part: size and hash of its files, which the engine compares.

use std::collections::BTreeMap;

use crate::codec::Codec;
use crate::column::strings::{append_string, append_varint};
use crate::output::compressed::{CompressedBlocks, city_hash};

/// The engine's hash of a file, whose bytes come one after the other: CityHash128 (1.0.2) of
/// every 2,048 bytes, each with the one before as its seed.
pub struct FileHash {
    /// The state, hidden in what makes the hash's own seed, and behind it the bytes that wait.
    block: Box<[u8; SEED + BLOCK]>,
    filled: usize,
    bytes: u64,
}

const BLOCK: usize = 2048;
const SEED: usize = 16;
/// k3 of CityHash.
const K3: u64 = 0xc949_d7c7_509e_6557;

impl Default for FileHash {
    fn default() -> FileHash {
        let mut hash = FileHash { block: Box::new([0; SEED + BLOCK]), filled: 0, bytes: 0 };
        hash.seed(0);
        hash
    }
}

impl FileHash {
    /// The hash of bytes that are all there.
    pub fn of(bytes: &[u8]) -> FileHash {
        let mut hash = FileHash::default();
        hash.add(bytes);
        hash
    }

    /// Begin another file.
    pub fn clear(&mut self) {
        (self.filled, self.bytes) = (0, 0);
        self.seed(0);
    }

    /// Add bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.block[SEED + self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = rest;
            if self.filled == BLOCK {
                self.seed(city_hash(&self.block[..]));
                self.filled = 0;
            }
        }
    }

    /// What the engine says of several texts that are in one file: the bytes of all, and the hash of
    /// their hashes, each with what is before it as its seed.
    pub fn of_all<'a>(hashes: impl Iterator<Item = &'a FileHash>) -> Sum {
        let (mut all, mut bytes) = (FileHash::default(), 0);
        for hash in hashes {
            let (more, sum) = hash.sum();
            bytes += more;
            all.block[SEED..][..sum.len()].copy_from_slice(&sum);
            all.seed(city_hash(&all.block[..SEED + sum.len()]));
        }
        (bytes, all.state().to_le_bytes())
    }

    /// Number of bytes so far, and their hash.
    pub fn sum(&self) -> Sum {
        let sum = match self.filled {
            0 => self.state(),
            _ => city_hash(&self.block[..SEED + self.filled]),
        };
        (self.bytes, sum.to_le_bytes())
    }

    /// CityHash128 of 16 bytes and more takes its seed out of the first 16: so they are made of
    /// the state, and the hash of all is that of the rest with the state as its seed.
    fn seed(&mut self, state: u128) {
        let state = state ^ u128::from(K3);
        self.block[..SEED].copy_from_slice(&state.to_le_bytes());
    }

    fn state(&self) -> u128 {
        let seed: [u8; SEED] = self.block[..SEED].try_into().expect("16 bytes");
        u128::from_le_bytes(seed) ^ u128::from(K3)
    }
}

/// The sizes and hashes of the files of a part, in the order of their names.
#[derive(Default)]
pub struct Checksums {
    files: BTreeMap<String, (Sum, Option<Sum>)>,
}

/// Number of bytes and their hash.
pub type Sum = (u64, [u8; 16]);

impl Checksums {
    /// Add a file: the hash of its bytes and, where these are compressed, of the uncompressed ones.
    pub fn add(&mut self, name: String, stored: Sum, text: Option<Sum>) {
        self.files.insert(name, (stored, text));
    }

    /// Add all files of others.
    pub fn join(&mut self, others: Checksums) {
        self.files.extend(others.files);
    }

    /// The bytes of `checksums.txt`.
    pub fn text(&self) -> Vec<u8> {
        let mut list = Vec::new();
        append_varint(&mut list, self.files.len());
        for (name, (stored, text)) in &self.files {
            append_string(&mut list, name.as_bytes());
            append_sum(&mut list, stored);
            list.push(u8::from(text.is_some()));
            if let Some(text) = text {
                append_sum(&mut list, text);
            }
        }
        let mut blocks = CompressedBlocks::default();
        blocks.append(&list, Codec::Lz4);
        [b"checksums format version: 4\n", blocks.bytes()].concat()
    }
}

fn append_sum(out: &mut Vec<u8>, (bytes, hash): &Sum) {
    append_varint(out, *bytes as usize);
    out.extend_from_slice(hash);
}
