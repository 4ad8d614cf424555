//! Makes the rows of `generate://random`, which are those that the engine's SELECT of rowfall gives
//! (`random` in `src/rowfall/sources/recipes.py`): the number of the row, and base64 text of an AES
//! key stream, which begins with a block of that number, under the seed as the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};
use base64::engine::general_purpose::NO_PAD;
use base64::engine::{self, Engine};

use crate::column::Column;
use crate::column::strings::append_varint;
use crate::columnar::{Batch, BatchError, BatchReader, Input};
use crate::simd::Simd;
use crate::spec;
use crate::types::{BaseType, Type};

/// The columns that there are.
const NUMBER: &str = "document_id";
const TEXT: &str = "payload";

/// What is in front of the seed and behind it in the name of an input.
const NAME: [&str; 2] = ["generate://random?seed=", "&bytes="];
/// Bytes of a text at most.
const MOST_BYTES: usize = 1 << 20;

/// Bytes of text that are made together: they stay in the cache until they are written, as one
/// packet where they go into a connection.
const BATCH_BYTES: usize = 128 << 10;
/// Rows that a worker takes together at most, and bytes of their text.
const PIECE_ROWS: u64 = 1 << 16;
const PIECE_BYTES: u64 = 8 << 20;

/// Bytes of a block of the cipher.
const BLOCK: usize = size_of::<Block>();
/// Blocks that are encrypted together. They stay in the innermost cache; and the cipher takes 8 to
/// 64 at a time, and those that are left one by one, each of which takes as long as 8.
const BLOCKS: usize = 240;

/// Bytes of key stream that are encoded together, and their characters.
const STEP: (usize, usize) = (24, 32);
/// Bytes behind a step that have to be there: two halves of 16 bytes are read for the 24.
const BEHIND: usize = 4;

/// The most digits of a number.
const DIGITS: usize = 20;

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
    simd: Simd,
    /// Bytes of each text.
    size: usize,
    /// For each column true where it is the text.
    texts: Vec<bool>,
}

impl Recipe {
    /// Take apart `generate://random?seed=1&bytes=512`; None where it is something else.
    fn parse(name: &str, texts: Vec<bool>, simd: Simd) -> Option<Recipe> {
        let (seed, size) = name.strip_prefix(NAME[0])?.split_once(NAME[1])?;
        let (seed, size): (u64, usize) = (seed.parse().ok()?, size.parse().ok()?);
        let cipher = Aes128Enc::new(&u128::from(seed).to_le_bytes().into());
        (1..=MOST_BYTES).contains(&size).then_some(Recipe { cipher, simd, size, texts })
    }

    /// Steps in which a text is encoded; the last one may give characters more than are wanted.
    fn steps(&self) -> usize {
        self.size.div_ceil(STEP.1)
    }

    /// Call `put` with each row and its key stream, as it is for [`encode`].
    fn each_stream(&self, (from, to): (u64, u64), mut put: impl FnMut(u64, &[u8])) {
        // Six bits a character; each stream begins with a block.
        let each = (self.size * 3).div_ceil(4).div_ceil(BLOCK);
        let rows_at_once = (BLOCKS / each).max(1);
        let count = (rows_at_once * each).next_multiple_of(BLOCKS);
        // The number of the row is the upper half, as the engine has it in memory; the lower one is
        // counted up, and the same for all rows.
        let mut counters = vec![Block::default(); count];
        for (number, block) in counters.iter_mut().enumerate() {
            block[BLOCK / 2..].copy_from_slice(&((number % each) as u64).to_be_bytes());
        }
        let mut streams = vec![Block::default(); count + (STEP.0 + BEHIND).div_ceil(BLOCK)];
        let mut next = from;
        while next < to {
            let some = next..to.min(next + rows_at_once as u64);
            for (row, blocks) in some.clone().zip(counters.chunks_exact_mut(each)) {
                blocks.iter_mut().for_each(|b| b[..BLOCK / 2].copy_from_slice(&row.to_le_bytes()));
            }
            let made = self.cipher.encrypt_blocks_b2b(&counters, &mut streams[..count]);
            made.expect("as many blocks");
            let bytes = Block::slice_as_flattened(&streams);
            for (row, start) in some.clone().zip((0..).step_by(each * BLOCK)) {
                put(row, &bytes[start..]);
            }
            next = some.end;
        }
    }

    /// Append the texts of some rows to a column.
    fn append(&self, rows: (u64, u64), to: &mut Column) {
        let count = (rows.1 - rows.0) as usize;
        let mut length = Vec::new();
        append_varint(&mut length, self.size);
        let whole = length.len() + self.size;
        let data = &mut to.data;
        let mut at = data.len();
        // Characters more than are wanted may be written, and the next row over them.
        data.resize(at + whole * count + STEP.1, 0);
        self.each_stream(rows, |_, stream| {
            let (head, text) = data[at..].split_at_mut(length.len());
            head.copy_from_slice(&length);
            encode(self.simd, stream, text, self.steps());
            at += whole;
        });
        data.truncate(at);
        if to.keeps_sizes {
            to.sizes.resize(to.sizes.len() + count, u8::try_from(whole).unwrap_or(0));
        }
    }

    /// Write some rows as lines to the front of `room`, which grows as it has to; return their bytes.
    fn write_lines(&self, rows: (u64, u64), room: &mut Vec<u8>) -> usize {
        let widths = self.texts.iter().map(|text| if *text { self.size } else { DIGITS });
        let most = widths.map(|width| width + 1).sum::<usize>() * (rows.1 - rows.0) as usize;
        if room.len() < most + STEP.1 {
            room.resize(most + STEP.1, 0);
        }
        let (mut at, mut digits) = (0, Digits::of(rows.0));
        self.each_stream(rows, |_, stream| {
            for text in &self.texts {
                let field = &mut room[at..];
                let width = if *text {
                    encode(self.simd, stream, field, self.steps());
                    self.size
                } else {
                    digits.put(field)
                };
                field[width] = b'\t';
                at += width + 1;
            }
            room[at - 1] = b'\n';
            digits.count();
        });
        at
    }
}

/// The digits of a number that is counted up.
struct Digits {
    text: [u8; DIGITS],
    /// Where the first one is.
    first: usize,
}

impl Digits {
    fn of(number: u64) -> Digits {
        let (mut text, mut rest, mut first) = ([b'0'; DIGITS], number, DIGITS - 1);
        text[first] += (rest % 10) as u8;
        while rest >= 10 {
            rest /= 10;
            first -= 1;
            text[first] += (rest % 10) as u8;
        }
        Digits { text, first }
    }

    fn count(&mut self) {
        let mut at = DIGITS - 1;
        while self.text[at] == b'9' {
            self.text[at] = b'0';
            at -= 1; // numbers of rows have fewer digits
        }
        self.text[at] += 1;
        self.first = self.first.min(at);
    }

    /// Write them to the front of a text; return how many they are.
    fn put(&self, to: &mut [u8]) -> usize {
        let digits = &self.text[self.first..];
        to[..digits.len()].copy_from_slice(digits);
        digits.len()
    }
}

/// Write the base64 text of so many steps of a key stream to the front of a text.
fn encode(simd: Simd, stream: &[u8], text: &mut [u8], steps: usize) {
    let (bytes, characters) = (steps * STEP.0, steps * STEP.1);
    let (stream, text) = (&stream[..bytes + BEHIND], &mut text[..characters]);
    match simd {
        // On other CPUs the crate has instructions of theirs, too.
        Simd::Scalar => {
            let encoded = engine::Simd::standard(NO_PAD).encode_slice(&stream[..bytes], text);
            encoded.expect("there is room for so many characters");
        }
        // SAFETY: there are so many bytes of both, and `choose` found the instructions, which those
        // of AVX-512 comprise.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 | Simd::Avx512 => unsafe {
            encode_avx2(stream.as_ptr(), text.as_mut_ptr(), steps);
        },
    }
}

/// Encode so many steps. The crate leaves the end of each text to other code: a GiB of 512-byte
/// texts took 0.19 CPU-seconds so, and takes 0.08.
///
/// Shifts and blends in place of the multiplications of the method: the compiler makes eight
/// instructions of one of those.
///
/// Method: Muła and Lemire, "Faster Base64 Encoding and Decoding using AVX2 Instructions".
///
/// SAFETY: `from` has the bytes of the steps and [`BEHIND`] more, `to` has room for the characters,
/// and the CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn encode_avx2(from: *const u8, to: *mut u8, steps: usize) {
    use std::arch::x86_64::*;
    // Of each three bytes the four that hold the bits of the four characters.
    const GROUPS: [u8; 16] = [1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10];
    // What is added to six bits for their character, by their class: a to z, ten digits, +, /, and
    // A to Z.
    const SHIFTS: [u8; 16] = {
        let mut shifts = [b'0'.wrapping_sub(52); 16];
        shifts[0] = b'a' - 26;
        shifts[11] = b'+'.wrapping_sub(62);
        shifts[12] = b'/'.wrapping_sub(63);
        shifts[13] = b'A';
        shifts
    };
    // SAFETY: the caller's promise; arrays have as many bytes as are read.
    unsafe {
        let both =
            |bytes: &[u8; 16]| _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()));
        let (groups, shifts) = (both(&GROUPS), both(&SHIFTS));
        for step in 0..steps {
            let at = from.add(step * STEP.0);
            let lower = _mm_loadu_si128(at.cast());
            let upper = _mm_loadu_si128(at.add(STEP.0 / 2).cast());
            let found = _mm256_shuffle_epi8(_mm256_set_m128i(upper, lower), groups);
            let odd = _mm256_and_si256(found, _mm256_set1_epi32(0x0fc0_fc00));
            let odd =
                _mm256_blend_epi16(_mm256_srli_epi16(odd, 10), _mm256_srli_epi16(odd, 6), 0xaa);
            let even = _mm256_and_si256(found, _mm256_set1_epi32(0x003f_03f0));
            let even =
                _mm256_blend_epi16(_mm256_slli_epi16(even, 4), _mm256_slli_epi16(even, 8), 0xaa);
            let bits = _mm256_or_si256(odd, even);
            let class = _mm256_subs_epu8(bits, _mm256_set1_epi8(51));
            let capital = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), bits);
            let class = _mm256_or_si256(class, _mm256_and_si256(capital, _mm256_set1_epi8(13)));
            let text = _mm256_add_epi8(bits, _mm256_shuffle_epi8(shifts, class));
            _mm256_storeu_si256(to.add(step * STEP.1).cast(), text);
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
        simd: Simd,
        made: Arc<AtomicU64>,
    ) -> Result<Rows, BatchError> {
        let mut texts = Vec::new();
        for (number, column) in wanted.iter().enumerate() {
            texts.push(is_text(column).ok_or_else(|| {
                let what = "only numbers of 64 bits and strings are made";
                BatchError::Declined(Some(number), what.to_owned())
            })?);
        }
        let (Some(recipe), Some(end)) = (Recipe::parse(&input.path, texts, simd), input.stop)
        else {
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

    fn write_lines(&mut self, room: &mut Vec<u8>) -> Option<usize> {
        Some(self.recipe.write_lines((self.start, self.end), room))
    }
}
