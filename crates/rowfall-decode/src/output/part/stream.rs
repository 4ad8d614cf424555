//! Writes one stream of a column: compressed blocks into a `.bin` file, and marks, which say where
//! its granules start, into a `.cmrk2` file.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::column::reorder::ByteSink;
use crate::output::compressed::{Codec, CompressedBlocks};
use crate::output::part::checksums::{Checksums, FileHash};

/// Bytes of a block: it ends with the granule that makes it `MIN_BLOCK` long, or at `MAX_BLOCK`;
/// the engine's defaults for min_compress_block_size and max_compress_block_size.
const MIN_BLOCK: usize = 64 << 10;
const MAX_BLOCK: usize = 1 << 20;
/// Compressed bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// A stream that is being written; its buffers are kept for the next one.
#[derive(Default)]
pub struct Stream {
    name: String,
    file: Option<File>,
    text: Vec<u8>,
    packed: CompressedBlocks,
    small: CompressedBlocks,
    /// Compressed bytes in the file and in `packed`.
    stored: u64,
    text_sum: FileHash,
    stored_sum: FileHash,
    marks: Vec<u8>,
}

impl ByteSink for Stream {
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
        if self.text.len() + more > MAX_BLOCK {
            self.pack()?;
        }
        self.text.reserve(more);
        Ok(&mut self.text)
    }
}

impl Stream {
    /// Begin the stream `name` in a part's folder.
    pub fn begin(&mut self, folder: &Path, name: String) -> io::Result<()> {
        self.file = Some(File::create_new(folder.join(format!("{name}.bin")))?);
        self.name = name;
        self.stored = 0;
        self.text_sum.clear();
        self.stored_sum.clear();
        self.marks.clear();
        Ok(())
    }

    /// Start a granule of so many rows.
    pub fn mark(&mut self, rows: usize) -> io::Result<()> {
        if self.text.len() >= MIN_BLOCK {
            self.pack()?;
        }
        for number in [self.stored, self.text.len() as u64, rows as u64] {
            self.marks.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// Write what is left, and the marks.
    pub fn end(&mut self, folder: &Path, checksums: &mut Checksums) -> io::Result<()> {
        self.pack()?;
        self.write()?;
        self.mark(0)?;
        self.file = None;
        checksums.add(format!("{}.bin", self.name), &self.stored_sum, Some(&self.text_sum));
        let name = format!("{}.cmrk2", self.name);
        let marks = std::mem::take(&mut self.marks);
        self.small_file(folder, &name, &marks, checksums)?;
        self.marks = marks;
        Ok(())
    }

    /// Compress what the block holds, and begin another one.
    fn pack(&mut self) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let before = self.packed.bytes().len();
        self.text_sum.add(&self.text);
        self.packed.append_block(&self.text, Codec::Lz4);
        self.stored += (self.packed.bytes().len() - before) as u64;
        self.text.clear();
        if self.packed.bytes().len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.stored_sum.add(self.packed.bytes());
        self.file.as_mut().expect("begun").write_all(self.packed.bytes())?;
        self.packed.clear();
        Ok(())
    }

    /// Write a small file of compressed blocks: marks, or the primary index.
    pub fn small_file(
        &mut self,
        folder: &Path,
        name: &str,
        text: &[u8],
        checksums: &mut Checksums,
    ) -> io::Result<()> {
        self.small.clear();
        text.chunks(MIN_BLOCK).for_each(|block| self.small.append_block(block, Codec::Zstd));
        checksums.add(
            name.to_owned(),
            &FileHash::of(self.small.bytes()),
            Some(&FileHash::of(text)),
        );
        std::fs::write(folder.join(name), self.small.bytes())
    }
}
