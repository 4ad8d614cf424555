//! Makes the rows of `generate://random`, which are those that the engine's SELECT of rowfall gives
//! (`random` in `src/rowfall/sources/recipes.py`): the number of the row, and base64 text of an AES
//! key stream, which begins with a block of that number, under the seed as the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};
use base64::engine::general_purpose::NO_PAD;
use base64::engine::{Engine, Simd};

use crate::column::Column;
use crate::column::strings::append_varint;
use crate::columnar::{Batch, BatchError, BatchReader, Input};
use crate::spec;
use crate::types::{BaseType, Type};

/// The columns that there are.
const NUMBER: &str = "document_id";
const TEXT: &str = "payload";

/// What is in front of the seed and behind it in the name of an input.
const NAME: [&str; 2] = ["generate://random?seed=", "&bytes="];
/// Bytes of a text at most.
const MOST_BYTES: usize = 1 << 20;

/// Bytes of text that are made together: they stay in the cache until they are written.
const BATCH_BYTES: usize = 64 << 10;
/// Rows that a worker takes together at most, and bytes of their text.
const PIECE_ROWS: u64 = 1 << 16;
const PIECE_BYTES: u64 = 8 << 20;

/// Bytes of a block of the cipher.
const BLOCK: usize = size_of::<Block>();

/// Whether a column is the text; None where it is not one of those that are made.
fn is_text((name, data_type): &(String, Type)) -> Option<bool> {
    match (&name[..], &data_type.base) {
        // Numbers of rows are far below 2^63.
        (NUMBER, BaseType::Int(8, _)) => Some(false),
        (TEXT, BaseType::String) => Some(true),
        _ => None,
    }
}

/// What is the same for all rows of an input.
struct Recipe {
    cipher: Aes128Enc,
    encoder: Simd,
    /// Bytes of each text.
    size: usize,
    /// For each column true where it is the text.
    texts: Vec<bool>,
}

impl Recipe {
    /// Take apart `generate://random?seed=1&bytes=512`; None where it is something else.
    fn parse(name: &str, texts: Vec<bool>) -> Option<Recipe> {
        let (seed, size) = name.strip_prefix(NAME[0])?.split_once(NAME[1])?;
        let (seed, size): (u64, usize) = (seed.parse().ok()?, size.parse().ok()?);
        let cipher = Aes128Enc::new(&u128::from(seed).to_le_bytes().into());
        let encoder = Simd::standard(NO_PAD);
        (1..=MOST_BYTES).contains(&size).then_some(Recipe { cipher, encoder, size, texts })
    }

    /// Bytes of key stream for a text: six bits a character.
    fn stream_bytes(&self) -> usize {
        (self.size * 3).div_ceil(4)
    }

    /// The key streams of some rows, each of which begins with a block.
    fn streams(&self, (from, to): (u64, u64)) -> Vec<u8> {
        let each = self.stream_bytes().div_ceil(BLOCK);
        let mut bytes = vec![0; each * BLOCK * (to - from) as usize];
        let (blocks, _) = Block::slice_as_chunks_mut(&mut bytes);
        for (row, stream) in (from..to).zip(blocks.chunks_exact_mut(each)) {
            // The number of the row is the upper half, as the engine has it in memory; the lower
            // one is counted up.
            for (count, block) in (0_u64..).zip(stream) {
                let (upper, lower) = block.split_at_mut(8);
                upper.copy_from_slice(&row.to_le_bytes());
                lower.copy_from_slice(&count.to_be_bytes());
            }
        }
        self.cipher.encrypt_blocks(blocks);
        bytes
    }

    /// Append the texts of some rows to a column.
    fn append(&self, rows: (u64, u64), to: &mut Column) {
        let streams = self.streams(rows);
        let (used, count) = (self.stream_bytes(), (rows.1 - rows.0) as usize);
        let written = (used * 4).div_ceil(3);
        let mut length = Vec::new();
        append_varint(&mut length, self.size);
        let whole = length.len() + self.size;
        let data = &mut to.data;
        let mut at = data.len();
        // A character more than is wanted may be written, and the next row over it.
        data.resize(at + whole * count + (written - self.size), 0);
        for stream in streams.chunks_exact(used.next_multiple_of(BLOCK)) {
            let (head, text) = data[at..].split_at_mut(length.len());
            head.copy_from_slice(&length);
            let encoded = self.encoder.encode_slice(&stream[..used], &mut text[..written]);
            encoded.expect("there is room for so many characters");
            at += whole;
        }
        data.truncate(at);
        if to.keeps_sizes {
            to.sizes.resize(to.sizes.len() + count, u8::try_from(whole).unwrap_or(0));
        }
    }
}

/// The rows of an input that no worker has taken yet.
pub struct Rows {
    recipe: Arc<Recipe>,
    next: u64,
    end: u64,
    /// Bytes of the texts that were taken.
    made: Arc<AtomicU64>,
}

impl Rows {
    /// Make the rows of an input; `made` counts the bytes of their texts.
    pub fn open(
        input: &spec::Input,
        wanted: &[(String, Type)],
        made: Arc<AtomicU64>,
    ) -> Result<Rows, BatchError> {
        let mut texts = Vec::new();
        for (number, column) in wanted.iter().enumerate() {
            texts.push(is_text(column).ok_or_else(|| {
                let what = "only numbers of 64 bits and strings are made";
                BatchError::Declined(Some(number), what.to_owned())
            })?);
        }
        let (Some(recipe), Some(end)) = (Recipe::parse(&input.path, texts), input.stop) else {
            return Err(BatchError::declined("rows that only the engine makes"));
        };
        Ok(Rows { recipe: Arc::new(recipe), next: input.start, end, made })
    }
}

impl Input for Rows {
    fn next_piece(&mut self) -> Result<Option<Box<dyn BatchReader>>, BatchError> {
        let size = self.recipe.size as u64;
        let count =
            (PIECE_BYTES / size).clamp(1, PIECE_ROWS).min(self.end.saturating_sub(self.next));
        if count == 0 {
            return Ok(None);
        }
        let (next, end) = (self.next, self.next + count);
        self.next = end;
        self.made.fetch_add(count * (size + 8), Ordering::Relaxed);
        Ok(Some(Box::new(Piece { recipe: Arc::clone(&self.recipe), next, end })))
    }
}

/// Rows that one worker makes.
struct Piece {
    recipe: Arc<Recipe>,
    next: u64,
    end: u64,
}

impl BatchReader for Piece {
    fn next_batch(&mut self) -> Result<Option<Box<dyn Batch>>, BatchError> {
        let most = (BATCH_BYTES / self.recipe.size).max(1) as u64;
        let (start, end) = (self.next, self.end.min(self.next + most));
        self.next = end;
        let recipe = Arc::clone(&self.recipe);
        Ok((start < end).then(|| Box::new(Made { recipe, start, end }) as Box<dyn Batch>))
    }
}

/// Rows that are made when their columns are asked for.
struct Made {
    recipe: Arc<Recipe>,
    start: u64,
    end: u64,
}

impl Batch for Made {
    fn rows(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn append(
        &mut self,
        number: usize,
        (from, to): (usize, usize),
        column: &mut Column,
    ) -> Result<(), String> {
        if column.data_type.nullable {
            column.nulls.resize(column.nulls.len() + to - from, 0);
        }
        let rows = (self.start + from as u64, self.start + to as u64);
        if self.recipe.texts[number] {
            self.recipe.append(rows, column);
        } else {
            column.data.extend((rows.0..rows.1).flat_map(u64::to_le_bytes));
        }
        Ok(())
    }
}
