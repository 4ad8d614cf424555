//! Fills blocks and writes them to one output, as they are or, of tables with a partition key, by their
//! partitions. The rows come from the readers beside it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::block::Sorting;
use crate::column::Column;
use crate::column::keys::Keys;
use crate::columnar::Batch;
use crate::computed::Computed;
use crate::cpu_time;
use crate::error::Fail;
use crate::merge::Merging;
use crate::output::{Output, Partition};
use crate::partition::Partitions;
use crate::partition::held::{Held, HeldBlock, partitions_of};
use crate::progress::Progress;
use crate::sort::counting::CountingSort;
use crate::spec::{OutputFormat, Spec};
use crate::types::Type;
use crate::whole_columns::Target;

/// A block takes the last rows of its input, too, where they are about an eighth of it or less: a
/// part costs the same files and merges whatever it holds. 2 M taxi rows in 4 files, blocks of
/// 495,251 rows: 4 parts instead of 6, 1,000 files instead of 1,500.
const TAIL_FRACTION: u64 = 8;

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

/// What all workers have in common.
#[derive(Clone, Copy)]
pub struct Common<'a> {
    pub progress: &'a Progress,
    /// Of a table that has partitions.
    pub partitioned: Option<&'a Partitioned>,
    /// Of a key that has expressions.
    pub computed: Option<&'a Computed>,
    /// The rows become one part in the end.
    pub merging: Option<&'a Merging>,
}

/// The block that one thread fills; its memory is kept from block to block.
pub struct BlockWriter<'a> {
    pub spec: &'a Spec,
    output: Output,
    progress: &'a Progress,
    partitioned: Option<&'a Partitioned>,
    computed: Option<&'a Computed>,
    merging: Option<&'a Merging>,
    /// How many blocks have been held to be merged.
    held: usize,
    /// No rows follow those of the block.
    is_last: bool,
    /// Values of the key that are no columns, of the block that is written.
    key_values: Vec<Column>,
    /// The partition or the class of each row, and what counts them.
    numbers: Vec<u16>,
    counting: CountingSort,
    names: Vec<String>,
    /// The columns of the block. Who appends to them tells [`Self::add_rows`].
    pub columns: Vec<Column>,
    pub sorting: Sorting,
    /// Bytes that a row takes whatever its values are, 1 or more.
    row_bytes: usize,
    rows: usize,
    /// Rows and bytes that fill a block: more where its input ends soon.
    limits: (usize, usize),
    /// Bytes of inputs read since a block was written.
    unwritten_bytes: u64,
}

impl<'a> BlockWriter<'a> {
    /// A writer of blocks of the spec's columns.
    pub fn new(spec: &'a Spec, output: Output, common: Common<'a>) -> BlockWriter<'a> {
        let Common { progress, partitioned, computed, merging } = common;
        let types = spec.types().expect("checked before workers start");
        let row_bytes = types.iter().map(Type::row_bytes).sum::<usize>().max(1);
        let mut columns: Vec<Column> = types.into_iter().map(Column::new).collect();
        // Blocks that are held come together from all workers, whose keys have other numbers.
        let whole = spec.output_format == OutputFormat::Native;
        let at_once = partitioned.is_none() && merging.is_none();
        if spec.format.has_dictionaries() && at_once && whole {
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
        let mut writer = BlockWriter {
            spec,
            output,
            progress,
            partitioned,
            computed,
            merging,
            held: 0,
            is_last: false,
            key_values,
            numbers: Vec::new(),
            counting: CountingSort::default(),
            names: spec.columns.iter().map(|c| c.name.clone()).collect(),
            columns,
            sorting,
            row_bytes,
            rows: 0,
            limits: (spec.block_rows, spec.block_bytes),
            unwritten_bytes: 0,
        };
        writer.limits = writer.full();
        writer
    }

    /// Rows and bytes that fill the next block.
    fn full(&self) -> (usize, usize) {
        let held = self.merging.and_then(Merging::block_bytes);
        (self.spec.block_rows, held.unwrap_or(self.spec.block_bytes))
    }

    /// Write the rows of the block, if there are any, behind which no others follow.
    pub fn flush_last(&mut self) -> Result<(), Fail> {
        self.is_last = true;
        self.flush()
    }

    /// Write the rows of the block, if there are any.
    pub fn flush(&mut self) -> Result<(), Fail> {
        if self.rows > 0 {
            self.write_block()?;
        }
        let rows = std::mem::take(&mut self.rows);
        self.count_written(rows);
        Ok(())
    }

    /// Count rows that were written, and with them all bytes that were read so far.
    pub fn count_written(&mut self, rows: usize) {
        let bytes = std::mem::take(&mut self.unwritten_bytes);
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.rows.fetch_add(rows as u64, Ordering::Relaxed);
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
        let result = match self.merging {
            Some(merging) if merging.takes_more(self.is_last && self.spec.outputs.len() == 1) => {
                let worker = self.spec.outputs.iter().position(|path| *path == self.output.path);
                let place = (worker.unwrap_or_default(), self.held);
                self.held += 1;
                merging.hold(place, columns, (rows, names.len()), order)
            }
            _ => self.output.write(names, columns, rows, order, partition),
        };
        result.map_err(|error| self.unwritable(&error))?;
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

    /// Write the rows that all workers hold in the end: partition after partition, or column after
    /// column, that no other has taken.
    pub fn write_rest(&mut self) -> Result<(), Fail> {
        if let Some(merging) = self.merging {
            let began = cpu_time::thread_nanoseconds();
            let written =
                merging.write(&self.names, &self.columns, &self.key_values, &mut self.output);
            written.map_err(|error| self.unwritable(&error))?;
            let spent = cpu_time::thread_nanoseconds() - began;
            self.progress.part_nanoseconds.fetch_add(spent, Ordering::Relaxed);
        }
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

    /// The failure about a block, whose rows may come from any of the inputs.
    fn declined_block(&self, what: &str) -> Fail {
        let inputs = &self.spec.inputs;
        Fail::declined(if inputs.len() == 1 { inputs[0].name() } else { "" }, what)
    }

    /// True where columns may be written one after the other, without a block.
    pub fn takes_columns(&self) -> bool {
        let of_columns = self.partitioned.is_none() && self.computed.is_none();
        self.spec.parts && self.merging.is_none() && of_columns && self.sorting.moves_none()
    }

    /// What such columns are written to; None where the block has rows, which come first.
    pub fn target(&mut self) -> Option<Target<'_>> {
        (self.rows == 0).then_some(Target {
            names: &self.names,
            columns: &mut self.columns,
            sorting: &mut self.sorting,
            output: &mut self.output,
            progress: self.progress,
            memory: self.spec.block_bytes,
        })
    }

    /// The failure of the output, which may lack some value.
    pub fn unwritable(&self, error: &std::io::Error) -> Fail {
        if error.kind() == std::io::ErrorKind::InvalidData {
            return self.declined_block(&error.to_string());
        }
        Fail::output(&self.output.path, error)
    }

    /// Write a batch that has its rows as lines of the output; false where it has not.
    pub fn write_batch(&mut self, batch: &mut dyn Batch) -> Result<bool, Fail> {
        // Rows that were copied come first.
        let written = self.rows == 0 && {
            let written = self.output.write_batch(batch);
            written.map_err(|error| self.unwritable(&error))?
        };
        if written {
            let rows = batch.rows() as u64;
            self.progress.decoded_rows.fetch_add(rows, Ordering::Relaxed);
            self.progress.rows.fetch_add(rows, Ordering::Relaxed);
        }
        Ok(written)
    }

    /// Rows and bytes that fill the block.
    pub fn limits(&self) -> (usize, usize) {
        self.limits
    }

    /// Rows that the block takes before it is full.
    pub fn room(&self) -> usize {
        self.limits.0 - self.rows
    }

    /// How many of the next rows to decode before the block is looked at: no more than fill it, and
    /// no more than a quarter of its bytes, however short their text: an empty field of
    /// FixedString(4096) is one byte of it, a line of `{}` as many columns as there are.
    pub fn rows_at_once(&self, rows: usize) -> usize {
        let most = (self.limits.1 / 4 / self.row_bytes).max(1);
        rows.min(self.room()).min(most)
    }

    /// Count stored bytes that were read, of which each worker has still `left` to read, if that is
    /// known, and `held` of them in pieces whose rows come next. A block is longer where its input ends
    /// soon.
    pub fn add_bytes(&mut self, bytes: u64, left: Option<u64>, held: u64) -> Result<(), Fail> {
        self.unwritten_bytes += bytes;
        self.progress.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        let left = left.map(|left| left.saturating_sub(held));
        let unwritten = self.unwritten_bytes + held;
        let ending = left.is_some_and(|left| left <= unwritten / TAIL_FRACTION);
        let more = |size: usize| if ending { size + size / TAIL_FRACTION as usize } else { size };
        let (rows, bytes) = self.full();
        self.limits = (more(rows), more(bytes));
        self.add_rows(0)
    }

    /// Count rows that were appended, and write the block when it is full.
    pub fn add_rows(&mut self, rows: usize) -> Result<(), Fail> {
        self.rows += rows;
        self.progress.decoded_rows.fetch_add(rows as u64, Ordering::Relaxed);
        let bytes: usize = self.columns.iter().map(Column::bytes).sum();
        if self.rows >= self.limits.0 || bytes >= self.limits.1 {
            self.flush()?;
        }
        Ok(())
    }
}
