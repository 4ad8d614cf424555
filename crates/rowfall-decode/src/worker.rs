//! Reads inputs one after the other and writes their rows to one output as blocks: the loop of one
//! thread. Turns positions in the text into lines and offsets of error messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::block::{
    BadValue, ScannedText, Sorting, append_batch, decode_delimited, decode_objects, decode_packets,
};
use crate::column::Column;
use crate::column::keys::Keys;
use crate::columnar::{Batch, BatchError, BatchReader};
use crate::computed::Computed;
use crate::cpu_time;
use crate::error::{Decline, Fail, shorten};
use crate::input::buffer::{MAX_RECORD_BYTES, TextBuffer};
use crate::input::queue::InputReader;
use crate::input::read_ahead::Piece;
use crate::input::rewrite::rewrite;
use crate::input::source::TextSource;
use crate::output::{Output, Partition};
use crate::packets::{Answer, Broken, LocatedRows, Wire, mysql, postgresql};
use crate::partition::Partitions;
use crate::partition::held::{Held, HeldBlock, partitions_of};
use crate::progress::Progress;
use crate::simd::Simd;
use crate::sort::counting::CountingSort;
use crate::spec::{Format, Input, Spec, UnknownColumns};
use crate::text::delimited::{self, BadRow};
use crate::text::fields::{ReadOptions, Syntax};
use crate::text::json::objects::{ObjectReader, ObjectRows};
use crate::text::layout::{self, Layout};
use crate::text::scan::{Scan, scan};
use crate::types::Type;
use crate::whole_columns::{Failure, Outcome, Target, WholeColumns};

/// A block takes the last rows of its input, too, where they are about an eighth of it or less: a
/// part costs the same files and merges whatever it holds. 2 M taxi rows in 4 files, blocks of
/// 495,251 rows: 4 parts instead of 6, 1,000 files instead of 1,500.
const TAIL_FRACTION: u64 = 8;

/// Rows that are copied together from columns: of 50 columns they take 3 MB.
const BATCH_ROWS: usize = 8192;

/// The size of an input that was read to its end.
#[derive(Debug, Clone, Default)]
pub struct InputSummary {
    pub rows: u64,
    /// Stored bytes, as the file has them.
    pub bytes_read: u64,
    /// Bytes of decompressed text.
    pub bytes_raw: u64,
}

/// What the rows of a part have in memory at most, and how many they are: string positions have 32
/// bits.
const PART_BYTES: usize = 1 << 30;
const PART_ROWS: usize = 1 << 28;

/// The partitions of a table, and the blocks that wait for their rows to become parts.
pub struct Partitioned {
    partitions: Partitions,
    held: Held,
    /// Bytes of blocks that are held at most.
    most: usize,
}

impl Partitioned {
    /// Partitions by the key of a spec, None where it has none.
    pub fn new(spec: &Spec) -> Option<Partitioned> {
        let key = spec.partition_by.as_ref()?;
        let (partitions, held) = (Partitions::new(key), Held::default());
        Some(Partitioned { partitions, held, most: key.hold_bytes })
    }
}

/// One thread's state; its buffers are kept from block to block and file to file.
pub struct Worker<'a> {
    spec: &'a Spec,
    simd: Simd,
    output: Output,
    progress: &'a Progress,
    partitioned: Option<&'a Partitioned>,
    computed: Option<&'a Computed>,
    /// Values of the key that are no columns, of the block that is written.
    key_values: Vec<Column>,
    /// The partition or the class of each row, and what counts them.
    numbers: Vec<u16>,
    counting: CountingSort,
    names: Vec<String>,
    columns: Vec<Column>,
    /// Bytes that a row takes whatever its values are, 1 or more.
    row_bytes: usize,
    rows: usize,
    /// Rows and bytes that fill a block: more where its input ends soon.
    block_limits: (usize, usize),
    /// Bytes of inputs read since a block was written.
    unwritten_bytes: u64,
    options: ReadOptions,
    buffer: TextBuffer,
    scan: Scan,
    sorting: Sorting,
    /// Pieces of inputs that become a part column by column; None where batches are copied into
    /// blocks.
    whole_columns: Option<WholeColumns<'a>>,
    reader: ObjectReader,
    object_rows: ObjectRows,
}

/// The position of a worker in its input.
struct InputPosition<'a> {
    input: &'a Input,
    /// Lines before `buffer.start`.
    lines: u64,
    rows: u64,
    layout: Option<Layout>,
}

impl InputPosition<'_> {
    fn new(input: &Input, layout: Option<Layout>) -> InputPosition<'_> {
        InputPosition { input, lines: 0, rows: 0, layout }
    }
}

/// The size of some records that were decoded.
pub struct RecordCounts {
    pub rows: u64,
    pub lines: u64,
    /// Bytes of their text.
    pub bytes: u64,
}

impl<'a> Worker<'a> {
    pub fn new(
        spec: &'a Spec,
        simd: Simd,
        output: Output,
        progress: &'a Progress,
        partitioned: Option<&'a Partitioned>,
        computed: Option<&'a Computed>,
    ) -> Worker<'a> {
        let types = spec.types().expect("checked before workers start");
        let sources: Vec<String> = spec.columns.iter().map(|c| c.source().to_owned()).collect();
        let nullable = types.iter().map(|t| t.nullable).collect();
        let row_bytes = types.iter().map(Type::row_bytes).sum::<usize>().max(1);
        let mut columns: Vec<Column> = types.into_iter().map(Column::new).collect();
        // Blocks that are held come together from all workers, whose keys have other numbers.
        if spec.format.has_dictionaries() && partitioned.is_none() {
            for (number, column) in columns.iter_mut().enumerate() {
                // What is handed over has its strings.
                let handed = spec.computed.as_ref().is_some_and(|keys| keys.uses(number));
                let kept = column.data_type.low_cardinality && !handed;
                column.keys = kept.then(Keys::default);
            }
        }
        let key_types = spec.computed.as_ref().map(|keys| keys.types());
        let key_types = key_types.transpose().expect("checked before workers start");
        let key_values: Vec<Column> = key_types.into_iter().flatten().map(Column::new).collect();
        let keys = spec.sort_by.as_deref().unwrap_or(&[]);
        let sorting = Sorting::new(keys, &mut columns, &key_values);
        let by_column = spec.parts && partitioned.is_none() && computed.is_none();
        let by_column = by_column && sorting.moves_none();
        Worker {
            whole_columns: by_column.then(WholeColumns::default),
            reader: ObjectReader::new(&sources, nullable, spec.unknown == UnknownColumns::Skip),
            object_rows: ObjectRows::default(),
            spec,
            simd,
            output,
            progress,
            partitioned,
            computed,
            key_values,
            numbers: Vec::new(),
            counting: CountingSort::default(),
            block_limits: (spec.block_rows, spec.block_bytes),
            unwritten_bytes: 0,
            names: spec.columns.iter().map(|c| c.name.clone()).collect(),
            columns,
            row_bytes,
            rows: 0,
            options: ReadOptions {
                simd,
                null_is_empty: spec.null.is_empty(),
                trim: spec.trim,
                line_breaks: spec.breaks,
                tuples_apart: spec.apart(),
            },
            buffer: TextBuffer::default(),
            scan: Scan::default(),
            sorting,
        }
    }

    /// Write the rows that have been decoded as a block.
    pub fn flush(&mut self) -> Result<(), Fail> {
        self.write_pieces()?;
        if self.rows > 0 {
            self.write_block()?;
        }
        let bytes = std::mem::take(&mut self.unwritten_bytes);
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.rows.fetch_add(self.rows as u64, Ordering::Relaxed);
        self.rows = 0;
        Ok(())
    }

    /// Write the columns as a block, or hold them as one.
    fn write_block(&mut self) -> Result<(), Fail> {
        // A few rows of short text may have as many elements.
        if self.columns.iter().any(|column| column.longest() > u32::MAX as usize) {
            return Err(self.declined_block("a block with a column of more than 4 GiB"));
        }
        match self.partitioned {
            Some(partitioned) => self.hold(partitioned),
            None => self.write(self.rows, None),
        }
    }

    /// Sort the rows of the columns, write them and drop them.
    fn write(&mut self, rows: usize, partition: Option<&Partition>) -> Result<(), Fail> {
        if let Some(computed) = self.computed {
            let (numbers, values) = (&mut self.numbers, &mut self.key_values);
            let filled = computed.fill(&self.names, &self.columns, rows, numbers, values);
            filled.map_err(|what| self.declined_block(&what))?;
            self.columns.append(&mut self.key_values);
        }
        let order = self.sorting.sort(&mut self.columns, rows);
        let began = cpu_time::thread_nanoseconds();
        let (names, columns) = (&self.names, &self.columns);
        let result = self.output.write(names, columns, rows, order, partition);
        result.map_err(|error| Fail::output(&self.output.path, &error))?;
        if self.spec.parts {
            self.progress
                .part_nanoseconds
                .fetch_add(cpu_time::thread_nanoseconds() - began, Ordering::Relaxed);
        }
        self.key_values.extend(self.columns.drain(self.names.len()..));
        self.columns.iter_mut().for_each(Column::clear);
        Ok(())
    }

    /// Hold the rows of the block by their partitions; write all that are held where they are too
    /// many.
    fn hold(&mut self, partitioned: &Partitioned) -> Result<(), Fail> {
        let (names, columns, numbers) = (&self.names, &self.columns, &mut self.numbers);
        let found = partitioned.partitions.number(names, columns, self.rows, numbers);
        let found = found.map_err(|what| self.declined_block(&what))?;
        let (numbers, counting) = (&mut self.numbers, &mut self.counting);
        let block = HeldBlock::new(&self.columns, numbers, &found, counting);
        self.columns.iter_mut().for_each(Column::clear);
        let blocks = partitioned.held.add(block, partitioned.most);
        for partition in partitions_of(&blocks) {
            self.write_held(partitioned, &blocks, partition)?;
        }
        Ok(())
    }

    /// The failure about a block, whose rows may come from any of the inputs.
    fn declined_block(&self, what: &str) -> Fail {
        let inputs = &self.spec.inputs;
        Fail::declined(if inputs.len() == 1 { inputs[0].name() } else { "" }, what)
    }

    /// Write the rows that all workers hold in the end, partition after partition that no other has
    /// taken.
    pub fn write_rest(&mut self) -> Result<(), Fail> {
        let Some(partitioned) = self.partitioned else { return Ok(()) };
        let blocks = partitioned.held.all();
        let all = partitions_of(&blocks);
        while let Some(partition) = partitioned.held.take(&all) {
            self.write_held(partitioned, &blocks, partition)?;
        }
        Ok(())
    }

    /// Write the rows of a partition in some blocks as one part, or as more where they are many.
    fn write_held(
        &mut self,
        partitioned: &Partitioned,
        blocks: &[Arc<HeldBlock>],
        number: u16,
    ) -> Result<(), Fail> {
        let partition = partitioned.partitions.partition(number);
        // All workers may write at once; values that are held narrow take more in a part.
        let most = PART_BYTES.min(partitioned.most / self.spec.outputs.len());
        let (mut rows, mut bytes) = (0, 0);
        for block in blocks {
            let (more_rows, more_bytes) = block.size_of(number);
            if rows > 0 && (bytes + more_bytes > most || rows + more_rows > PART_ROWS) {
                self.write(rows, Some(&partition))?;
                (rows, bytes) = (0, 0);
            }
            rows += block.append(number, &mut self.columns);
            bytes += more_bytes;
        }
        if rows > 0 { self.write(rows, Some(&partition)) } else { Ok(()) }
    }

    /// Copy the rows of a piece of an input, or keep them for the next part, and return how many there
    /// were.
    pub fn read_piece(
        &mut self,
        input: &'a Input,
        piece: Box<dyn BatchReader>,
    ) -> Result<u64, Fail> {
        let most = self.block_limits.0;
        let rows = piece.columns().map_or(0, |found| found.rows());
        if let Some((pieces, target)) = self.by_column() {
            let held = pieces.size().0;
            // What is nearer to the size of a block: a part without the piece, or with it.
            let full = (held + rows).saturating_sub(most) > most.saturating_sub(held);
            if held > 0 && (full || !pieces.fits(&*piece, &target)) {
                self.write_pieces()?;
            }
        }
        let by_column = self.by_column().filter(|(pieces, target)| pieces.fits(&*piece, target));
        let Some((pieces, target)) = by_column else {
            return self.read_batches(input, piece);
        };
        pieces.add((input, piece), &target);
        let (all_rows, bytes) = pieces.size();
        if all_rows >= self.block_limits.0 || bytes >= self.block_limits.1 {
            self.write_pieces()?;
        }
        Ok(rows as u64)
    }

    /// The pieces that are written column by column, and what is needed for that; None where batches are
    /// copied, also as long as rows of a block that is not full are in the columns.
    fn by_column(&mut self) -> Option<(&mut WholeColumns<'a>, Target<'_>)> {
        let pieces = self.whole_columns.as_mut().filter(|_| self.rows == 0)?;
        let target = Target {
            names: &self.names,
            columns: &mut self.columns,
            sorting: &mut self.sorting,
            output: &mut self.output,
            progress: self.progress,
            memory: self.spec.block_bytes,
        };
        Some((pieces, target))
    }

    /// Write the pieces that are held for a part.
    fn write_pieces(&mut self) -> Result<(), Fail> {
        let Some((pieces, mut target)) = self.by_column() else { return Ok(()) };
        match pieces.write(&mut target) {
            Ok(Outcome::Written(rows)) => {
                self.progress.rows.fetch_add(rows as u64, Ordering::Relaxed);
                let bytes = std::mem::take(&mut self.unwritten_bytes);
                self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Ok(Outcome::Batches(pieces)) => {
                // The next ones are likely to be no others.
                self.whole_columns = None;
                pieces
                    .into_iter()
                    .try_for_each(|(input, piece)| self.read_batches(input, piece).map(drop))
            }
            Err(Failure::Input(input, error)) => Err(self.unreadable(input, error)),
            Err(Failure::Output(error)) => Err(Fail::output(&self.output.path, &error)),
        }
    }

    /// Copy the rows of a piece of an input, and return how many there were.
    fn read_batches(
        &mut self,
        input: &Input,
        mut piece: Box<dyn BatchReader>,
    ) -> Result<u64, Fail> {
        let mut rows = 0;
        while let Some(mut batch) =
            piece.next_batch().map_err(|error| self.unreadable(input, error))?
        {
            let (count, mut taken) = (batch.rows(), 0);
            if self.write_batch(&mut *batch)? {
                rows += count as u64;
                continue;
            }
            while taken < count {
                let some = (count - taken).min(BATCH_ROWS).min(self.block_limits.0 - self.rows);
                let range = (taken, taken + some);
                append_batch(&mut self.columns, &mut *batch, range, &mut self.sorting).map_err(
                    |(column, what)| {
                        self.unreadable(input, BatchError::Declined(Some(column), what))
                    },
                )?;
                taken += some;
                self.add_rows(some)?;
            }
            rows += count as u64;
        }
        Ok(rows)
    }

    /// Write a batch that has its rows as lines of the output; false where it has not.
    fn write_batch(&mut self, batch: &mut dyn Batch) -> Result<bool, Fail> {
        // Rows that were copied come first.
        let written = self.rows == 0 && {
            let written = self.output.write_batch(batch);
            written.map_err(|error| Fail::output(&self.output.path, &error))?
        };
        if written {
            let rows = batch.rows() as u64;
            self.progress.decoded_rows.fetch_add(rows, Ordering::Relaxed);
            self.progress.rows.fetch_add(rows, Ordering::Relaxed);
        }
        Ok(written)
    }

    /// Count stored bytes, of which each worker has still `left` to read, if that is known.
    pub fn add_bytes(&mut self, bytes: u64, left: Option<u64>) -> Result<(), Fail> {
        self.unwritten_bytes += bytes;
        self.progress.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.set_block_limits(left)
    }

    /// The failure about an input of columns.
    pub fn unreadable(&self, input: &Input, error: BatchError) -> Fail {
        let (column, message) = match error {
            BatchError::Io(error) => return Fail::io(input.name(), &error),
            BatchError::Declined(column, message) => (column, message),
        };
        let spec = column.map(|n| &self.spec.columns[n]);
        let name = spec.map_or(String::new(), |c| c.name.clone());
        let named = if name.is_empty() { message } else { format!("column {name}: {message}") };
        Fail::Value(Box::new(Decline {
            uri: input.name().to_owned(),
            line: 0,
            offset: 0,
            column: name,
            value: String::new(),
            expected: spec.map_or(String::new(), |c| c.type_name.clone()),
            message: named,
        }))
    }

    /// Open the text of an input.
    pub fn open(&self, raw: std::io::Result<InputReader>) -> std::io::Result<TextSource> {
        let format = self.spec.format;
        let opened = raw.and_then(|raw| TextSource::new(raw, self.spec.compression, self.simd));
        match &self.spec.dialect {
            None => opened,
            Some(dialect) => opened
                .and_then(|found| rewrite(found, dialect, format.is_csv(), format.has_names())),
        }
    }

    /// Decode a whole input.
    pub fn read(
        &mut self,
        input: &Input,
        raw: std::io::Result<InputReader>,
    ) -> Result<InputSummary, Fail> {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        let mut source = self.open(raw).map_err(|e| io(&e))?;
        self.buffer.reset(input.start);
        let mut position = InputPosition::new(input, layout::from_positions(self.spec));
        let mut chunk = self.spec.chunk_bytes;
        let mut counted = 0;
        loop {
            self.buffer.advance(&mut source, chunk).map_err(|e| io(&e))?;
            let read = source.bytes_read();
            let left = input.bytes().map(|bytes| bytes.saturating_sub(read));
            self.add_bytes(read - counted, left)?;
            counted = read;
            let before = self.buffer.start;
            self.decode_buffer(&mut position)?;
            if self.buffer.ended {
                break;
            }
            // A record longer than the chunk: look at more of it.
            chunk = if self.buffer.start > before { self.spec.chunk_bytes } else { chunk * 2 };
            if self.buffer.end - self.buffer.start > MAX_RECORD_BYTES {
                return Err(self.decline_long(&position));
            }
        }
        Ok(InputSummary {
            rows: position.rows,
            bytes_read: source.bytes_read(),
            bytes_raw: self.buffer.offset(self.buffer.end) - input.start,
        })
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
        std::mem::swap(&mut self.buffer, &mut piece.text);
        let known = layout.take().or_else(|| layout::from_positions(self.spec));
        let mut position = InputPosition::new(input, known);
        let bytes = (self.buffer.end - self.buffer.start) as u64;
        self.add_bytes(piece.stored_bytes, left)?;
        self.decode_buffer(&mut position)?;
        if self.buffer.start < self.buffer.end {
            return Err(self.decline_long(&position));
        }
        std::mem::swap(&mut self.buffer, &mut piece.text);
        *layout = position.layout;
        Ok(RecordCounts { rows: position.rows, lines: position.lines, bytes })
    }

    fn decline_long(&self, position: &InputPosition<'_>) -> Fail {
        let at = self.buffer.start;
        self.decline(position, (at, at), None, "a record of more than 48 MiB")
    }

    /// Check and decode the whole records of the buffer.
    fn decode_buffer(&mut self, position: &mut InputPosition<'_>) -> Result<(), Fail> {
        if !self.spec.binary && self.spec.dialect.is_none() {
            self.check_utf8(position)?;
        }
        if self.buffer.ended {
            let (start, end) = (self.buffer.start, self.buffer.end);
            let open = start < end && self.buffer.text()[end - 1] != b'\n';
            if open && position.input.is_cut() {
                let what = "a range that ends in the middle of a line";
                return Err(self.decline(position, (end, end), None, what));
            }
            self.buffer.end_last_line(open);
        }
        self.decode_records(position)
    }

    /// Decode the rows of a database's answer, up to the packet that ends them: whoever sends them
    /// does not close the pipe before it is closed here.
    pub fn read_packets(
        &mut self,
        input: &Input,
        raw: std::io::Result<InputReader>,
    ) -> Result<InputSummary, Fail> {
        if self.spec.format == Format::MySql {
            return self.read_answer(input, raw, mysql::ResultSet::default());
        }
        let copy = postgresql::Copy::of(&self.spec.input_types);
        let copy = copy.ok_or_else(|| Fail::declined(input.name(), "columns of other types"))?;
        self.read_answer(input, raw, copy)
    }

    fn read_answer(
        &mut self,
        input: &Input,
        raw: std::io::Result<InputReader>,
        mut answer: impl Answer,
    ) -> Result<InputSummary, Fail> {
        let io = |error: &std::io::Error| Fail::io(input.name(), error);
        let odd = |what: &str| io(&std::io::Error::other(what));
        let mut raw = raw.map_err(|e| io(&e))?;
        self.buffer.reset(input.start);
        let mut located = LocatedRows::default();
        let columns = self.spec.columns.iter();
        let field_numbers: Vec<usize> = columns.filter_map(|c| c.position).collect();
        let mut summary = InputSummary::default();
        let broken = |broken| match broken {
            Broken::Said(what) => odd(&what),
            Broken::Odd(what) => odd(what),
            Broken::Lost { sent, came } => {
                let sent = sent.map_or("no".to_owned(), |sent| sent.to_string());
                odd(&format!("the server sent {sent} rows, of which {came} came"))
            }
            Broken::Declined(what) => Fail::declined(input.name(), &what),
        };
        if let Some(wires) = answer.columns() {
            self.check_wires(input, wires, &field_numbers)?;
        }
        while !answer.ended() {
            let before = self.buffer.end - self.buffer.start;
            if !self.buffer.read_some(&mut raw, self.spec.chunk_bytes).map_err(|e| io(&e))? {
                return Err(odd("the answer ends before its last packet"));
            }
            let bytes = (self.buffer.end - self.buffer.start - before) as u64;
            summary.bytes_read += bytes;
            self.add_bytes(bytes, None)?;
            loop {
                let (start, end) = (self.buffer.start, self.buffer.end);
                let knew = answer.columns().is_some();
                let next = answer.read(self.buffer.text_mut(), start, end).map_err(broken)?;
                let wires = answer.columns().unwrap_or(&[]);
                let knows = answer.columns().is_some();
                if knows && !knew {
                    self.check_wires(input, wires, &field_numbers)?;
                }
                answer.locate(self.buffer.text_mut(), &mut located).map_err(broken)?;
                self.decode_located(input, summary.rows, wires, &located, &field_numbers)?;
                summary.rows += located.count as u64;
                self.buffer.start = next;
                if knew == knows {
                    break;
                }
            }
            if self.buffer.end - self.buffer.start > MAX_RECORD_BYTES {
                return Err(Fail::declined(input.name(), "a record of more than 48 MiB"));
            }
        }
        summary.bytes_raw = summary.bytes_read;
        Ok(summary)
    }

    /// Check that an answer has the columns that are wanted.
    fn check_wires(
        &self,
        input: &Input,
        wires: &[Wire],
        field_numbers: &[usize],
    ) -> Result<(), Fail> {
        let count = wires.len();
        let wanted = self.spec.file_columns.unwrap_or(count);
        if count != wanted || field_numbers.iter().any(|number| *number >= count) {
            let what = format!("an answer of {count} columns where {wanted} are expected");
            return Err(Fail::declined(input.name(), &what));
        }
        Ok(())
    }

    /// Append the rows of packets that were found; `before` them the input had so many.
    fn decode_located(
        &mut self,
        input: &Input,
        before: u64,
        wires: &[Wire],
        located: &LocatedRows,
        field_numbers: &[usize],
    ) -> Result<(), Fail> {
        let mut taken = 0;
        while taken < located.count {
            let count = (located.count - taken).min(self.block_limits.0 - self.rows);
            let text = (self.buffer.text(), &self.options);
            let (columns, sorting, rows) = (&mut self.columns, &mut self.sorting, (taken, count));
            let decoded =
                decode_packets(columns, located, wires, field_numbers, text, rows, sorting);
            if let Err(BadValue { row, column, start, end }) = decoded {
                let spec = column.map(|n| &self.spec.columns[n]);
                let type_name = spec.map_or(String::new(), |c| c.type_name.clone());
                let text = column.is_some_and(|n| wires[field_numbers[n]] == Wire::Text);
                return Err(Fail::Value(Box::new(Decline {
                    uri: input.name().to_owned(),
                    line: before + (taken + row) as u64 + 1,
                    offset: 0,
                    column: spec.map_or(String::new(), |c| c.name.clone()),
                    value: if text {
                        shorten(&self.buffer.text()[start..end])
                    } else {
                        String::new()
                    },
                    message: format!("a value that may not fit {type_name}"),
                    expected: type_name,
                })));
            }
            taken += count;
            self.add_rows(count)?;
        }
        Ok(())
    }

    /// Decline bytes that are not UTF-8, which the engine would store as they are. What is wrong in
    /// a record before them is told first, however much text is read at a time.
    fn check_utf8(&mut self, position: &mut InputPosition<'_>) -> Result<(), Fail> {
        let Err(at) = self.buffer.check_utf8() else { return Ok(()) };
        // As if the text read so far ended there.
        let (end, ended) = (self.buffer.end, self.buffer.ended);
        (self.buffer.end, self.buffer.ended) = (at, false);
        self.decode_records(position)?;
        (self.buffer.end, self.buffer.ended) = (end, ended);
        let line = self.buffer.text()[at..end].iter().position(|c| *c == b'\n');
        let end = line.map_or(end, |n| at + n);
        Err(self.decline(position, (at, end), None, "a byte that is not UTF-8"))
    }

    fn scan(&mut self) {
        let style = if self.spec.format.is_csv() { Syntax::Csv } else { Syntax::Tsv };
        let range = (self.buffer.start, self.buffer.end);
        let delimiter = self.spec.delimiter.as_bytes()[0];
        scan(self.simd, style, delimiter, self.buffer.text(), range, &mut self.scan);
    }

    /// Decode all whole records of the buffer.
    fn decode_records(&mut self, position: &mut InputPosition<'_>) -> Result<(), Fail> {
        if self.buffer.offset(self.buffer.start) == 0 {
            let (at, text) = (self.buffer.start, self.buffer.text());
            if text[at..self.buffer.end].starts_with(b"\xef\xbb\xbf") {
                if position.layout.is_none() && self.spec.format.has_names() {
                    // The engine takes it away, too.
                    self.buffer.start += 3;
                    return self.decode_records(position);
                }
                return Err(self.decline(position, (at, at + 3), None, "a byte order mark"));
            }
        }
        if self.spec.format == Format::Json {
            return self.decode_json(position);
        }
        self.scan();
        if position.layout.is_none() {
            if !self.read_header(position)? {
                return Ok(());
            }
            self.scan();
        }
        let layout = position.layout.take().expect("found above");
        let result = self.decode_delimited(position, &layout);
        position.layout = Some(layout);
        result
    }

    /// Find the columns by the header; false where its line is not in the buffer as a whole.
    fn read_header(&mut self, position: &mut InputPosition<'_>) -> Result<bool, Fail> {
        let at = self.buffer.start;
        let text = self.buffer.text();
        let end = self.scan.index.iter().skip(1).find(|&&n| text[n as usize] == b'\n');
        let Some(&end) = end else {
            if self.buffer.ended || self.scan.first_bad.is_some() {
                return Err(self.decline(
                    position,
                    (at, at),
                    None,
                    "a header line that never ends",
                ));
            }
            return Ok(false);
        };
        let end = end as usize;
        if self.scan.first_bad.is_some_and(|bad| bad <= end) {
            return Err(self.decline(
                position,
                (at, end),
                None,
                "a header that is not plain names",
            ));
        }
        let layout =
            layout::from_header(text, &self.scan, self.spec).map_err(|(name, message)| {
                let mut fail = self.decline(position, (at, end), None, &message);
                if let Fail::Value(decline) = &mut fail {
                    decline.column = name;
                }
                fail
            })?;
        position.layout = Some(layout);
        position.lines += 1;
        self.buffer.start = end + 1;
        Ok(true)
    }

    fn decode_delimited(
        &mut self,
        position: &mut InputPosition<'_>,
        layout: &Layout,
    ) -> Result<(), Fail> {
        let (text, width) = (self.buffer.text(), layout.width);
        let (mut rows, mut bad_row) = delimited::check_rows(text, &self.scan, width);
        if layout.trailing {
            let (fine, open) = delimited::check_trailing(text, &self.scan, width, rows);
            (rows, bad_row) = (fine, open.or(bad_row));
        }
        let mut taken = 0;
        while taken < rows {
            let count = self.rows_at_once(rows - taken);
            let source =
                ScannedText { text: self.buffer.text(), scan: &self.scan, options: &self.options };
            let decode = match self.spec.format.is_csv() {
                true => decode_delimited::<true>,
                false => decode_delimited::<false>,
            };
            let (columns, sorting) = (&mut self.columns, &mut self.sorting);
            let decoded = decode(columns, layout, &source, (taken, count), sorting);
            if let Err(BadValue { column, start, end, .. }) = decoded {
                return Err(self.decline(position, (start, end), column, ""));
            }
            taken += count;
            self.add_rows(count)?;
        }
        if let Some(BadRow { at, message }) = bad_row {
            let stop = self.buffer.text()[at..self.buffer.end].iter().position(|c| *c == b'\n');
            let end = stop.map_or(self.buffer.end, |n| at + n);
            return Err(self.decline(position, (at, end), None, &message));
        }
        let end = self.scan.index[rows * layout.width] as usize + 1;
        if self.buffer.ended && end < self.buffer.end {
            return Err(self.decline(
                position,
                (end, self.buffer.end),
                None,
                "a quote never closed",
            ));
        }
        position.lines += if self.scan.has_line_breaks {
            newlines(&self.buffer.text()[self.buffer.start..end])
        } else {
            rows as u64
        };
        position.rows += rows as u64;
        self.buffer.start = end;
        Ok(())
    }

    /// How many of the next rows to decode before the block is looked at: no more than fill it, and
    /// no more than a quarter of its bytes, however short their text: an empty field of
    /// FixedString(4096) is one byte of it, a line of `{}` as many columns as there are.
    fn rows_at_once(&self, rows: usize) -> usize {
        let most = (self.block_limits.1 / 4 / self.row_bytes).max(1);
        rows.min(self.block_limits.0 - self.rows).min(most)
    }

    /// Set the rows and bytes of a full block by the stored bytes that its input has `left` (None
    /// where that is unknown).
    fn set_block_limits(&mut self, left: Option<u64>) -> Result<(), Fail> {
        let (rows, bytes) = (self.spec.block_rows, self.spec.block_bytes);
        // Pieces that are held are read later, but before what is left.
        let held = self.whole_columns.as_ref().map_or(0, WholeColumns::unread_bytes);
        let left = left.map(|left| left.saturating_sub(held));
        let unwritten = self.unwritten_bytes + held;
        let ending = left.is_some_and(|left| left <= unwritten / TAIL_FRACTION);
        let more = |size: usize| if ending { size + size / TAIL_FRACTION as usize } else { size };
        self.block_limits = (more(rows), more(bytes));
        self.add_rows(0)
    }

    /// Count rows that were appended, and write the block when it is full.
    fn add_rows(&mut self, rows: usize) -> Result<(), Fail> {
        self.rows += rows;
        self.progress.decoded_rows.fetch_add(rows as u64, Ordering::Relaxed);
        let bytes: usize = self.columns.iter().map(Column::bytes).sum();
        if self.rows >= self.block_limits.0 || bytes >= self.block_limits.1 {
            self.flush()?;
        }
        Ok(())
    }

    /// Decode all whole lines of the buffer as JSON objects.
    fn decode_json(&mut self, position: &mut InputPosition<'_>) -> Result<(), Fail> {
        let (start, end) = (self.buffer.start, self.buffer.end);
        let lines = &self.buffer.text()[start..end];
        let Some(last) = lines.iter().rposition(|c| *c == b'\n') else {
            return Ok(());
        };
        let end = start + last + 1;
        while self.buffer.start < end {
            self.decode_objects((self.buffer.start, end), position)?;
        }
        Ok(())
    }

    /// Decode the first lines of a range of the buffer that holds whole ones.
    fn decode_objects(
        &mut self,
        range: (usize, usize),
        position: &mut InputPosition<'_>,
    ) -> Result<(), Fail> {
        let text = self.buffer.text();
        let found = self.reader.read_rows(self.simd, text, range, &mut self.object_rows);
        let mut taken = 0;
        while taken < self.object_rows.count {
            let count = self.rows_at_once(self.object_rows.count - taken);
            let text = self.buffer.text();
            let (columns, sorting, rows) = (&mut self.columns, &mut self.sorting, (taken, count));
            let decoded =
                decode_objects(columns, &self.object_rows, text, &self.options, rows, sorting);
            if let Err(BadValue { column, start, end, .. }) = decoded {
                return Err(self.decline(position, (start, end), column, ""));
            }
            taken += count;
            self.add_rows(count)?;
        }
        if let Err(wrong) = found {
            let end = wrong.end.min(self.buffer.end).max(wrong.at);
            return Err(self.decline(position, (wrong.at, end), wrong.column, wrong.message));
        }
        position.lines += taken as u64;
        position.rows += taken as u64;
        self.buffer.start = self.object_rows.end;
        Ok(())
    }

    /// The failure about `text[start..end]`, of a column or (None) of a whole row.
    fn decline(
        &self,
        position: &InputPosition<'_>,
        (start, end): (usize, usize),
        column: Option<usize>,
        message: &str,
    ) -> Fail {
        let text = self.buffer.text();
        let spec = column.map(|n| &self.spec.columns[n]);
        let type_name = spec.map_or(String::new(), |c| c.type_name.clone());
        Fail::Value(Box::new(Decline {
            uri: position.input.name().to_owned(),
            line: position.lines + newlines(&text[self.buffer.start..start]) + 1,
            offset: self.buffer.offset(start),
            column: spec.map_or(String::new(), |c| c.name.clone()),
            value: shorten(&text[start..end]),
            message: match message {
                "" => format!("a value that may not fit {type_name}"),
                _ => message.to_owned(),
            },
            expected: type_name,
        }))
    }
}

fn newlines(text: &[u8]) -> u64 {
    text.iter().filter(|c| **c == b'\n').count() as u64
}
