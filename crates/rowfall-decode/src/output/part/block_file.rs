//! Writes a file of compressed blocks.

use std::fs::File;
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::codec::Codec;
use crate::output::compressed::CompressedBlocks;
use crate::output::part::checksums::FileHash;

/// Compressed bytes that are written at once.
const WRITE_BYTES: usize = 256 << 10;

/// A file of compressed blocks that is being written.
#[derive(Default)]
pub struct BlockFile {
    file: Option<File>,
    /// Compressed blocks that are not written yet.
    compressed: CompressedBlocks,
    /// Compressed bytes in the file and in `compressed`.
    bytes: u64,
    hash: FileHash,
}

impl BlockFile {
    /// Make the file.
    pub fn create(&mut self, path: &Path) -> io::Result<()> {
        self.file = Some(File::create_new(path)?);
        self.bytes = 0;
        self.hash.clear();
        Ok(())
    }

    /// Compressed bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compress some bytes as a block.
    pub fn append(&mut self, text: &[u8], codecs: &[Codec]) -> io::Result<()> {
        let before = self.compressed.bytes().len();
        self.compressed.append_chain(text, codecs);
        self.bytes += (self.compressed.bytes().len() - before) as u64;
        if self.compressed.bytes().len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.hash.add(self.compressed.bytes());
        self.file.as_mut().expect("created").write_all(self.compressed.bytes())?;
        self.compressed.clear();
        Ok(())
    }

    /// Write what is left; returns the hash of the file.
    pub fn end(&mut self) -> io::Result<&FileHash> {
        self.write()?;
        start_writing(&self.file.take().expect("created"));
        Ok(&self.hash)
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
