//! Writes one stream of a column: of a wide part compressed blocks into a `.bin` file, and marks,
//! which say where its granules start, into a `.cmrk2` file. Streams of a compact part are held until
//! all of them are there ([`HeldStreams`]).

use std::io;
use std::path::Path;

use crate::codec::Codec;
use crate::column::reorder::ByteSink;
use crate::output::compressed::{CompressedBlocks, ZSTD};
use crate::output::part::block_file::BlockFile;
use crate::output::part::checksums::{Checksums, FileHash};
use crate::output::part::compact::HeldStreams;
use crate::spec::PartLayout;
use crate::types::streams::file_name;

/// Bytes of a block of marks or keys.
const SMALL_BLOCK: usize = 64 << 10;

/// The streams that are open. A column that is there as a whole is written stream after stream, by one
/// of them; of one that comes in pieces each stays open until the last piece.
#[derive(Default)]
pub struct Streams {
    layout: PartLayout,
    all: Vec<Stream>,
    /// Of the next stream of the piece.
    next: usize,
    first: bool,
    last: bool,
}

impl Streams {
    /// Streams whose blocks have such sizes.
    pub fn new(layout: PartLayout) -> Streams {
        let all = vec![Stream::new(layout)];
        Streams { layout, all, ..Streams::default() }
    }

    /// Begin a part, whose streams are held where it is compact.
    pub fn begin_part(&mut self, compact: bool) {
        self.all[0].begin_part(compact);
    }

    /// Begin a column that is there as a whole.
    pub fn begin_column(&mut self) {
        self.begin_piece(true, true);
    }

    /// Begin a piece of a column, of a wide part.
    pub fn begin_piece(&mut self, first: bool, last: bool) {
        (self.next, self.first, self.last) = (0, first, last);
    }

    /// Whether the piece is the first one of its column, and whether it is the last.
    pub fn ends(&self) -> (bool, bool) {
        (self.first, self.last)
    }

    /// Begin the stream `name` in a part's folder, which is compressed by `codecs`, or go on with it
    /// in the next piece: there its number is the same.
    pub fn begin(
        &mut self,
        folder: &Path,
        name: &str,
        codecs: &[Codec],
    ) -> io::Result<&mut Stream> {
        let place = if self.first && self.last { 0 } else { self.next };
        self.next = place + 1;
        if place == self.all.len() {
            self.all.push(Stream::new(self.layout));
        }
        let stream = &mut self.all[place];
        if self.first {
            stream.begin(folder, name, codecs)?;
        }
        Ok(stream)
    }

    /// Write what is left of the stream that was begun last, and the marks, where no piece follows.
    pub fn end(&mut self, folder: &Path, checksums: &mut Checksums) -> io::Result<()> {
        if self.last { self.all[self.next - 1].end(folder, checksums) } else { Ok(()) }
    }

    /// All streams of a column are there.
    pub fn end_column(&mut self) {
        self.all[0].end_column();
    }

    /// All columns are there: write the files of a compact part, whose granules have so many rows.
    pub fn end_part(
        &mut self,
        folder: &Path,
        rows: impl Iterator<Item = usize>,
        checksums: &mut Checksums,
    ) -> io::Result<()> {
        self.all[0].end_part(folder, rows, checksums)
    }

    /// Write a small file of compressed blocks: marks, or the primary index.
    pub fn small_file(
        &mut self,
        folder: &Path,
        name: &str,
        text: &[u8],
        checksums: &mut Checksums,
    ) -> io::Result<()> {
        self.all[0].small_file(folder, name, text, checksums)
    }
}

/// A stream that is being written; its buffers are kept for the next one.
#[derive(Default)]
pub struct Stream {
    /// Of its files, without their endings.
    name: String,
    layout: PartLayout,
    file: BlockFile,
    codecs: Vec<Codec>,
    /// Uncompressed bytes of the block that is being filled.
    block: Vec<u8>,
    small: CompressedBlocks,
    /// Hash of the uncompressed bytes.
    uncompressed_hash: FileHash,
    marks: Vec<u8>,
    /// The streams of a compact part, which have no files of their own.
    held: HeldStreams,
    compact: bool,
}

impl ByteSink for Stream {
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
        if self.compact {
            return Ok(self.held.buffer_for(more));
        }
        if self.block.len() + more > self.layout.max_block {
            self.compress_whole_blocks()?;
        }
        self.block.reserve(more);
        Ok(&mut self.block)
    }
}

impl Stream {
    /// A stream whose blocks have such sizes.
    pub fn new(layout: PartLayout) -> Stream {
        Stream { layout, ..Stream::default() }
    }

    /// Begin a part, whose streams are held where it is compact.
    pub fn begin_part(&mut self, compact: bool) {
        self.compact = compact;
        self.held.clear();
    }

    /// Begin the stream `name` in a part's folder, which is compressed by `codecs`.
    pub fn begin(&mut self, folder: &Path, name: &str, codecs: &[Codec]) -> io::Result<()> {
        if self.compact {
            self.held.begin(codecs);
            return Ok(());
        }
        self.codecs.clear();
        self.codecs.extend_from_slice(codecs);
        self.name = file_name(name);
        self.file.create(&folder.join(format!("{}.bin", self.name)))?;
        self.uncompressed_hash.clear();
        self.marks.clear();
        Ok(())
    }

    /// Start a granule of so many rows.
    pub fn mark(&mut self, rows: usize) -> io::Result<()> {
        if self.compact {
            self.held.mark();
            return Ok(());
        }
        self.compress_whole_blocks()?;
        if self.block.len() >= self.layout.min_block {
            self.compress_block()?;
        }
        for number in [self.file.bytes(), self.block.len() as u64, rows as u64] {
            self.marks.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// Write what is left, and the marks.
    pub fn end(&mut self, folder: &Path, checksums: &mut Checksums) -> io::Result<()> {
        if self.compact {
            self.held.mark();
            return Ok(());
        }
        self.compress_block()?;
        self.mark(0)?;
        let text = self.uncompressed_hash.sum();
        checksums.add(format!("{}.bin", self.name), self.file.end()?.sum(), Some(text));
        let name = format!("{}.cmrk2", self.name);
        let marks = std::mem::take(&mut self.marks);
        self.small_file(folder, &name, &marks, checksums)?;
        self.marks = marks;
        Ok(())
    }

    /// Of a compact part: what is being written stands before all other streams of its column.
    pub fn is_prefix(&mut self) {
        self.held.is_prefix();
    }

    /// All streams of a column are there.
    pub fn end_column(&mut self) {
        if self.compact {
            self.held.end_column();
        }
    }

    /// All columns are there: write the files of a compact part, whose granules have so many rows.
    pub fn end_part(
        &mut self,
        folder: &Path,
        rows: impl Iterator<Item = usize>,
        checksums: &mut Checksums,
    ) -> io::Result<()> {
        if !self.compact {
            return Ok(());
        }
        let each = self.layout.substream_marks;
        let marks = self.held.write(folder, rows, each, &mut self.file, checksums)?;
        let name = if each { "data.cmrk4" } else { "data.cmrk3" };
        self.small_file(folder, name, &marks, checksums)
    }

    /// Compress the bytes of which there is as much as a block may have: the engine's buffer is as
    /// long, so that its blocks end there, too, wherever a value ends.
    fn compress_whole_blocks(&mut self) -> io::Result<()> {
        // T64 takes whole values only.
        let size = (self.layout.max_block & !7).max(8);
        let whole = self.block.len() / size * size;
        for from in (0..whole).step_by(size) {
            self.compress(from, from + size)?;
        }
        self.block.drain(..whole);
        Ok(())
    }

    /// Compress what the block holds, and begin another one.
    fn compress_block(&mut self) -> io::Result<()> {
        self.compress_whole_blocks()?;
        if !self.block.is_empty() {
            self.compress(0, self.block.len())?;
            self.block.clear();
        }
        Ok(())
    }

    /// Compress some of the bytes as a block.
    fn compress(&mut self, from: usize, to: usize) -> io::Result<()> {
        let text = &self.block[from..to];
        self.uncompressed_hash.add(text);
        self.file.append(text, &self.codecs)
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
        text.chunks(SMALL_BLOCK).for_each(|block| self.small.append_block(block, ZSTD));
        let hash = |bytes: &[u8]| FileHash::of(bytes).sum();
        checksums.add(name.to_owned(), hash(self.small.bytes()), Some(hash(text)));
        std::fs::write(folder.join(name), self.small.bytes())
    }
}
