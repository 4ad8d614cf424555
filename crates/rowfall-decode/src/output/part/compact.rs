//! Writes the two files of a compact part: `data.bin`, in which the columns of each granule follow each
//! other, and the marks, which say where each of them starts.
//!
//! The engine's code for them is in `MergeTreeDataPartWriterCompact`.

use std::io;
use std::path::Path;

use crate::codec::Codec;
use crate::output::part::block_file::BlockFile;
use crate::output::part::checksums::{Checksums, FileHash};

/// Bytes of a compressed block at most: the engine's buffer, whatever the settings of a table say.
const MAX_BLOCK: usize = 1 << 20;

/// The streams of a part, which are made one after the other and written granule by granule.
#[derive(Default)]
pub struct HeldStreams {
    /// The bytes of all streams.
    bytes: Vec<u8>,
    streams: Vec<HeldStream>,
    /// For each column the number behind that of its last stream.
    columns: Vec<usize>,
}

struct HeldStream {
    codecs: Vec<Codec>,
    /// It stands before all others of its column.
    prefix: bool,
    /// Where its granules start, and where the last one ends.
    starts: Vec<usize>,
}

impl HeldStreams {
    /// Begin another part.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.streams.clear();
        self.columns.clear();
    }

    /// Begin a stream.
    pub fn begin(&mut self, codecs: &[Codec]) {
        self.streams.push(HeldStream { codecs: codecs.to_vec(), prefix: false, starts: vec![] });
    }

    /// Start a granule of the stream, or end the last one.
    pub fn mark(&mut self) {
        self.streams.last_mut().expect("begun").starts.push(self.bytes.len());
    }

    /// The stream that is being written stands before all others of its column.
    pub fn is_prefix(&mut self) {
        self.streams.last_mut().expect("begun").prefix = true;
    }

    /// Where bytes of the granule are appended.
    pub fn buffer_for(&mut self, more: usize) -> &mut Vec<u8> {
        self.bytes.reserve(more);
        &mut self.bytes
    }

    /// All streams of a column are there.
    pub fn end_column(&mut self) {
        let first = self.columns.last().copied().unwrap_or(0);
        self.streams[first..].sort_by_key(|stream| !stream.prefix);
        self.columns.push(self.streams.len());
    }

    /// Write `data.bin` of a part whose granules have so many rows; returns the marks: of each stream,
    /// or of each column only.
    pub fn write(
        &self,
        folder: &Path,
        rows: impl Iterator<Item = usize>,
        of_each_stream: bool,
        file: &mut BlockFile,
        checksums: &mut Checksums,
    ) -> io::Result<Vec<u8>> {
        file.create(&folder.join("data.bin"))?;
        let (mut texts, numbers) = self.texts();
        let mut block = Vec::with_capacity(MAX_BLOCK.min(self.bytes.len()));
        let (mut marks, mut marked) = (Vec::new(), 0);
        for (granule, rows) in rows.enumerate() {
            marked = 0;
            let mut from = 0;
            for &to in &self.columns {
                for number in from..to {
                    let text = numbers[number];
                    if number > from && numbers[number - 1] != text {
                        texts[numbers[number - 1]].compress(&mut block, file)?;
                    }
                    if of_each_stream || number == from {
                        marks.extend_from_slice(&file.bytes().to_le_bytes());
                        marks.extend_from_slice(&(block.len() as u64).to_le_bytes());
                        marked += 1;
                    }
                    let starts = &self.streams[number].starts;
                    let mut bytes = &self.bytes[starts[granule]..starts[granule + 1]];
                    while !bytes.is_empty() {
                        if block.len() == MAX_BLOCK {
                            texts[text].compress(&mut block, file)?;
                        }
                        let (now, rest) = bytes.split_at(bytes.len().min(MAX_BLOCK - block.len()));
                        block.extend_from_slice(now);
                        bytes = rest;
                    }
                }
                // The values of a column can be read alone.
                texts[numbers[to - 1]].compress(&mut block, file)?;
                from = to;
            }
            marks.extend_from_slice(&(rows as u64).to_le_bytes());
        }
        for _ in 0..marked {
            marks.extend_from_slice(&file.bytes().to_le_bytes());
            marks.extend_from_slice(&0_u64.to_le_bytes());
        }
        marks.extend_from_slice(&0_u64.to_le_bytes());
        let hash = FileHash::of_all(texts.iter().map(|text| &text.hash));
        checksums.add("data.bin".to_owned(), file.end()?.sum(), Some(hash));
        Ok(marks)
    }

    /// What the same codecs compress, and for each stream the number of that.
    fn texts(&self) -> (Vec<Text<'_>>, Vec<usize>) {
        let mut texts: Vec<Text<'_>> = Vec::new();
        let numbers = self.streams.iter().map(|stream| {
            texts.iter().position(|text| text.codecs == stream.codecs).unwrap_or_else(|| {
                texts.push(Text { codecs: &stream.codecs, hash: FileHash::default() });
                texts.len() - 1
            })
        });
        let numbers = numbers.collect();
        (texts, numbers)
    }
}

/// What some codecs compress.
struct Text<'a> {
    codecs: &'a [Codec],
    /// Of its bytes.
    hash: FileHash,
}

impl Text<'_> {
    /// Compress what is in the block, and empty it.
    fn compress(&mut self, block: &mut Vec<u8>, file: &mut BlockFile) -> io::Result<()> {
        if !block.is_empty() {
            self.hash.add(block);
            file.append(block, self.codecs)?;
            block.clear();
        }
        Ok(())
    }
}
