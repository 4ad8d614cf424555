//! Writes one stream of a column: compressed blocks into a `.bin` file, and marks, which say where
//! its granules start, into a `.cmrk2` file.

use std::fs::File;
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::codec::Codec;
use crate::column::reorder::ByteSink;
use crate::output::compressed::{CompressedBlocks, ZSTD};
use crate::output::part::checksums::{Checksums, FileHash};
use crate::spec::PartLayout;
use crate::types::streams::file_name;

/// Bytes of a block of marks or keys.
const SMALL_BLOCK: usize = 64 << 10;
/// Compressed bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// A stream that is being written; its buffers are kept for the next one.
#[derive(Default)]
pub struct Stream {
    /// Of its files, without their endings.
    name: String,
    layout: PartLayout,
    file: Option<File>,
    codecs: Vec<Codec>,
    /// Uncompressed bytes of the block that is being filled.
    block: Vec<u8>,
    /// Compressed blocks that are not written yet.
    compressed: CompressedBlocks,
    small: CompressedBlocks,
    /// Compressed bytes in the file and in `compressed`.
    compressed_bytes: u64,
    /// Hash of the uncompressed bytes, and of those of the file.
    uncompressed_hash: FileHash,
    file_hash: FileHash,
    marks: Vec<u8>,
}

impl ByteSink for Stream {
    fn buffer_for(&mut self, more: usize) -> io::Result<&mut Vec<u8>> {
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

    /// Begin the stream `name` in a part's folder, which is compressed by `codecs`.
    pub fn begin(&mut self, folder: &Path, name: &str, codecs: &[Codec]) -> io::Result<()> {
        self.codecs.clear();
        self.codecs.extend_from_slice(codecs);
        self.name = file_name(name);
        self.file = Some(File::create_new(folder.join(format!("{}.bin", self.name)))?);
        self.compressed_bytes = 0;
        self.uncompressed_hash.clear();
        self.file_hash.clear();
        self.marks.clear();
        Ok(())
    }

    /// Start a granule of so many rows.
    pub fn mark(&mut self, rows: usize) -> io::Result<()> {
        self.compress_whole_blocks()?;
        if self.block.len() >= self.layout.min_block {
            self.compress_block()?;
        }
        for number in [self.compressed_bytes, self.block.len() as u64, rows as u64] {
            self.marks.extend_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }

    /// Write what is left, and the marks.
    pub fn end(&mut self, folder: &Path, checksums: &mut Checksums) -> io::Result<()> {
        self.compress_block()?;
        self.write_compressed()?;
        self.mark(0)?;
        start_writing(&self.file.take().expect("begun"));
        checksums.add(format!("{}.bin", self.name), &self.file_hash, Some(&self.uncompressed_hash));
        let name = format!("{}.cmrk2", self.name);
        let marks = std::mem::take(&mut self.marks);
        self.small_file(folder, &name, &marks, checksums)?;
        self.marks = marks;
        Ok(())
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
        let before = self.compressed.bytes().len();
        let text = &self.block[from..to];
        self.uncompressed_hash.add(text);
        self.compressed.append_chain(text, &self.codecs);
        self.compressed_bytes += (self.compressed.bytes().len() - before) as u64;
        if self.compressed.bytes().len() >= WRITE_BYTES { self.write_compressed() } else { Ok(()) }
    }

    fn write_compressed(&mut self) -> io::Result<()> {
        self.file_hash.add(self.compressed.bytes());
        self.file.as_mut().expect("begun").write_all(self.compressed.bytes())?;
        self.compressed.clear();
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
        text.chunks(SMALL_BLOCK).for_each(|block| self.small.append_block(block, ZSTD));
        checksums.add(
            name.to_owned(),
            &FileHash::of(self.small.bytes()),
            Some(&FileHash::of(text)),
        );
        std::fs::write(folder.join(name), self.small.bytes())
    }
}

/// Let the kernel begin to put a file on disk, without waiting for it.
///
/// The rows are flushed before they are committed. What is on its way to the disk by then, while
/// other columns are still being made, need not be waited for. It changes nothing else: a kernel
/// that refuses writes the file later.
fn start_writing(file: &File) {
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes numbers only, and the file is open.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}
