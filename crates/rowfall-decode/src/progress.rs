//! Counts what all workers have done together.

use std::sync::atomic::AtomicU64;

/// The progress of all workers together: rows that were written, and stored bytes read for them.
#[derive(Default)]
pub struct Progress {
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    /// Rows that were decoded and stored bytes that were read, those of unwritten blocks, too.
    pub decoded_rows: AtomicU64,
    pub read_bytes: AtomicU64,
    /// CPU time of writing parts.
    pub part_nanoseconds: AtomicU64,
    /// Time in which threads were ready to run, but had no core.
    pub waited_nanoseconds: AtomicU64,
}

/// The size of an input that was read to its end.
#[derive(Debug, Clone, Default)]
pub struct InputSummary {
    pub rows: u64,
    /// Stored bytes, as the file has them.
    pub bytes_read: u64,
    /// Bytes of decompressed text.
    pub bytes_raw: u64,
}
