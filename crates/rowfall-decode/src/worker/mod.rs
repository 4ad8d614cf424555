//! What one thread does: reads inputs one after the other and writes their rows to one output as blocks.
//! A reader for each kind of input fills the block that is written.

mod block_writer;
mod column_reader;
mod packet_reader;
pub mod text_reader;

use std::io;

use crate::columnar::{BatchError, BatchReader};
use crate::error::Fail;
use crate::input::queue::InputReader;
use crate::input::read_ahead::Piece;
use crate::input::source::TextSource;
use crate::input::text;
use crate::output::Output;
use crate::progress::InputSummary;
use crate::simd::Simd;
use crate::spec::{Input, Spec};
use crate::text::fields::ReadOptions;
use crate::text::layout::Layout;
use crate::worker::block_writer::BlockWriter;
pub use crate::worker::block_writer::{Common, Partitioned};
use crate::worker::column_reader::{ColumnReader, unreadable};
use crate::worker::packet_reader::PacketReader;
use crate::worker::text_reader::{RecordCounts, TextReader};

/// One thread's state; its buffers are kept from block to block and file to file.
pub struct Worker<'a> {
    simd: Simd,
    block: BlockWriter<'a>,
    columns: ColumnReader<'a>,
    packets: PacketReader,
    text: TextReader,
}

impl<'a> Worker<'a> {
    /// A worker that writes to an output.
    pub fn new(spec: &'a Spec, simd: Simd, output: Output, common: Common<'a>) -> Worker<'a> {
        let options = ReadOptions {
            simd,
            null_is_empty: spec.null.is_empty(),
            trim: spec.trim_strings,
            line_breaks: spec.allow_line_breaks,
            tuples_apart: spec.tuples_are_fields(),
        };
        let block = BlockWriter::new(spec, output, common);
        Worker {
            simd,
            columns: ColumnReader::new(&block),
            block,
            packets: PacketReader::new(options.clone()),
            text: TextReader::new(spec, options),
        }
    }

    /// Write all rows that have been read as a block or a part: the last one.
    pub fn flush(&mut self) -> Result<(), Fail> {
        self.columns.write_pieces(&mut self.block)?;
        self.block.flush_last()
    }

    /// Write the rows that all workers hold in the end: partition after partition, or column after
    /// column, that no other has taken.
    pub fn write_rest(&mut self) -> Result<(), Fail> {
        self.block.write_rest()
    }

    /// Copy the rows of a piece of an input, or keep them for the next part, and return how many there
    /// were.
    pub fn read_piece(
        &mut self,
        input: &'a Input,
        piece: Box<dyn BatchReader>,
    ) -> Result<u64, Fail> {
        self.columns.read(&mut self.block, input, piece)
    }

    /// Count stored bytes of pieces, of which each worker has still `left` to read, if that is known.
    pub fn add_bytes(&mut self, bytes: u64, left: Option<u64>) -> Result<(), Fail> {
        self.block.add_bytes(bytes, left, self.columns.unread_bytes())
    }

    /// The failure about an input of columns.
    pub fn unreadable(&self, input: &Input, error: BatchError) -> Fail {
        unreadable(self.block.spec, input, error)
    }

    /// Open the text of an input, which so many threads may decompress.
    pub fn open(
        &self,
        input: &Input,
        raw: io::Result<InputReader>,
        threads: usize,
    ) -> io::Result<TextSource> {
        text::open(self.block.spec, input, raw, self.simd, threads)
    }

    /// Decode a whole input of text.
    pub fn read(
        &mut self,
        input: &Input,
        raw: io::Result<InputReader>,
    ) -> Result<InputSummary, Fail> {
        let source = self.open(input, raw, 1).map_err(|error| Fail::io(input.name(), &error))?;
        self.text.read(&mut self.block, input, source)
    }

    /// Decode some records of an input, of which each worker has still `left` stored bytes to read,
    /// if that is known. Those without a `layout` begin with a header, which gives it. Lines of a
    /// failure count from the first one of the piece.
    pub fn read_records(
        &mut self,
        input: &Input,
        piece: &mut Piece,
        left: Option<u64>,
        layout: &mut Option<Layout>,
    ) -> Result<RecordCounts, Fail> {
        self.text.read_records(&mut self.block, input, piece, left, layout)
    }

    /// Decode the rows of a database's answer.
    pub fn read_packets(
        &mut self,
        input: &Input,
        raw: io::Result<InputReader>,
    ) -> Result<InputSummary, Fail> {
        self.packets.read(&mut self.block, input, raw)
    }
}
