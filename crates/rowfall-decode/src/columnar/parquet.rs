//! Reads the row groups of a Parquet file, which several workers share: each takes the next one, or
//! a part of it where there are too few.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, TimestampSecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::columnar::ipc::find_columns;
use crate::columnar::nested;
use crate::columnar::nested::{ArrowBatch, NullStructs};
use crate::columnar::objects::{FetchedGroup, Object, RowGroup};
use crate::columnar::{Batch, BatchError, BatchReader, Columns, Input};
use crate::types::Type;

/// Rows that are decoded together: of 50 columns they take 3 MB, about what a cache holds.
const BATCH_ROWS: usize = 8192;
/// Bytes of a chunk with a dictionary at most, for its strings to have numbers: those of a larger one
/// are as many as the rows.
const MOST_DICTIONARY: i64 = 16 << 20;
/// Fewer rows are decoded together where they would take more than this, as lists do.
const BATCH_BYTES: u64 = 16 << 20;
/// A part of a row group has so many rows at least: each worker reads the dictionaries again.
const LEAST_ROWS: usize = 1 << 17;
/// A row group of so many bytes at most is fetched before its turn has come.
const AHEAD_BYTES: u64 = 64 << 20;

/// An open file.
pub struct File {
    object: Object,
    metadata: ArrowReaderMetadata,
    /// The same, of columns whose old points in time are read as seconds.
    seconds: Option<ArrowReaderMetadata>,
    /// Numbers of the columns of values in the file that the wanted columns consist of.
    leaves: Vec<usize>,
    /// The wanted columns, in their order: numbers in batches.
    places: Vec<usize>,
    /// The same: their numbers in the file, and those of the columns of values of each.
    wanted: Arc<[(usize, Vec<usize>)]>,
    /// Row groups, or parts of them, from the last to the first: number, first row and rows.
    left: Vec<(usize, usize, usize)>,
    /// Row groups that are being fetched, or shared by several parts.
    fetched: Vec<(usize, FetchedGroup)>,
}

impl File {
    /// Read the footer. The file has to have the wanted columns: their names and types.
    ///
    /// With `parts` row groups are cut into so many.
    pub fn open(
        object: Object,
        wanted: &[(String, Type)],
        parts: usize,
    ) -> Result<File, BatchError> {
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_encoding_stats_as_mask(true);
        let metadata = ArrowReaderMetadata::load(&object, options).map_err(unreadable)?;
        let columns = find_columns(metadata.schema(), wanted)?;
        let leaves = leaves_of(&metadata, &columns)?;
        let seconds = as_seconds(&metadata, &leaves)?;
        let metadata = with_dictionaries(metadata, &leaves);
        let wanted = columns.iter().map(|&column| {
            let schema = metadata.parquet_schema();
            let of_it = |leaf: &usize| schema.get_column_root_idx(*leaf) == column;
            (column, leaves.iter().copied().filter(of_it).collect())
        });
        let wanted = wanted.collect();
        let mut left = Vec::new();
        for (group, found) in metadata.metadata().row_groups().iter().enumerate() {
            let rows = usize::try_from(found.num_rows())
                .map_err(|_| BatchError::declined("a row group of fewer than no rows"))?;
            let part = rows.div_ceil(parts).max(LEAST_ROWS);
            left.extend((0..rows).step_by(part).map(|from| (group, from, part.min(rows - from))));
        }
        left.reverse();
        let mut sorted = columns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let place = |column: &usize| sorted.binary_search(column).expect("it is among them");
        let places = columns.iter().map(place).collect();
        let fetched = Vec::new();
        let mut file = File { object, metadata, seconds, leaves, places, wanted, left, fetched };
        file.fetch_ahead();
        Ok(file)
    }

    /// The bytes of a row group, which are fetched already or from now on.
    fn group(&mut self, group: usize) -> FetchedGroup {
        if let Some((_, found)) = self.fetched.iter().find(|(number, _)| *number == group) {
            return found.clone();
        }
        let found = self.object.row_group(self.ranges(group));
        self.fetched.push((group, found.clone()));
        found
    }

    /// Where the wanted columns of a row group are: start and length.
    fn ranges(&self, group: usize) -> Vec<(u64, u64)> {
        let found = self.metadata.metadata().row_group(group);
        self.leaves.iter().map(|&n| found.column(n).byte_range()).collect()
    }

    /// Begin to fetch the row group of the next piece, if it comes from somewhere else.
    fn fetch_ahead(&mut self) {
        let Some(&(next, ..)) = self.left.last() else { return };
        let bytes: u64 = self.ranges(next).iter().map(|(_, length)| length).sum();
        if self.object.is_remote() && bytes <= AHEAD_BYTES {
            self.group(next);
        }
    }
}

impl Input for File {
    fn next_piece(&mut self) -> Result<Option<Box<dyn BatchReader>>, BatchError> {
        let Some(part) = self.left.pop() else { return Ok(None) };
        let source = self.group(part.0);
        let next = self.left.last().map(|next| next.0);
        self.fetched.retain(|(number, _)| Some(*number) == next);
        self.fetch_ahead();
        Ok(Some(Box::new(Piece {
            source,
            metadata: self.metadata.clone(),
            seconds: self.seconds.clone(),
            leaves: self.leaves.clone(),
            places: self.places.clone(),
            wanted: Arc::clone(&self.wanted),
            part,
            readers: None,
            left: part.2,
        })))
    }
}

/// A row group, or a part of one.
struct Piece {
    source: FetchedGroup,
    metadata: ArrowReaderMetadata,
    seconds: Option<ArrowReaderMetadata>,
    /// The wanted columns of values.
    leaves: Vec<usize>,
    /// The wanted columns: numbers in batches.
    places: Vec<usize>,
    /// The same: their numbers in the file, and those of the columns of values of each.
    wanted: Arc<[(usize, Vec<usize>)]>,
    /// Number of the row group, first row and rows.
    part: (usize, usize, usize),
    /// None before the first batch.
    readers: Option<Readers>,
    /// Rows that have not been read.
    left: usize,
}

struct Readers {
    values: ParquetRecordBatchReader,
    /// Reads the old points in time once more, as seconds.
    check: Option<ParquetRecordBatchReader>,
}

impl Piece {
    /// Begin to read, once the bytes are there.
    fn open(&self) -> Result<Readers, BatchError> {
        let source = self.source.wait()?;
        let rows = batch_rows(self.group(), &self.leaves);
        let check = (self.seconds.as_ref())
            .map(|seconds| (seconds, with_old_times(seconds.metadata(), &self.leaves)))
            .filter(|(_, old)| !old.is_empty())
            .map(|(seconds, old)| open_part(source.clone(), seconds.clone(), &old, self.part, rows))
            .transpose()?;
        let values = open_part(source, self.metadata.clone(), &self.leaves, self.part, rows)?;
        Ok(Readers { values, check })
    }

    fn group(&self) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(self.part.0)
    }
}

impl Columns for Piece {
    fn rows(&self) -> usize {
        self.part.2
    }

    fn input_rows(&self) -> Option<u64> {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).ok()
    }

    fn has_dictionary(&self, number: usize) -> bool {
        let (column, leaves) = &self.wanted[number];
        let bytes = |leaf: &usize| self.group().column(*leaf).uncompressed_size();
        let field = self.metadata.schema().field(*column);
        matches!(field.data_type(), DataType::Dictionary(..))
            && leaves.iter().map(bytes).sum::<i64>() <= MOST_DICTIONARY
    }

    fn bytes_of(&self, number: usize) -> usize {
        let (_, leaves) = &self.wanted[number];
        let size = |leaf: &usize| self.group().column(*leaf).uncompressed_size();
        let bytes = leaves.iter().map(|leaf| usize::try_from(size(leaf)).unwrap_or(0));
        let all = usize::try_from(self.group().num_rows()).unwrap_or(0).max(1);
        (bytes.sum::<usize>() as u128 * self.part.2 as u128 / all as u128) as usize
    }

    fn held(&self) -> Vec<(usize, usize)> {
        vec![self.source.held()]
    }

    fn unread_bytes(&self) -> u64 {
        if self.source.held().1 > 0 {
            return 0; // they were counted when they were fetched
        }
        let size = |leaf: &usize| self.group().column(*leaf).byte_range().1;
        let bytes: u64 = self.leaves.iter().map(size).sum();
        let all = u64::try_from(self.group().num_rows()).unwrap_or(0).max(1);
        (u128::from(bytes) * self.part.2 as u128 / u128::from(all)) as u64
    }

    fn column(&self, number: usize) -> Box<dyn BatchReader> {
        Box::new(Piece {
            source: self.source.clone(),
            metadata: self.metadata.clone(),
            seconds: self.seconds.clone(),
            leaves: self.wanted[number].1.clone(),
            places: vec![0],
            wanted: [self.wanted[number].clone()].into(),
            part: self.part,
            readers: None,
            left: self.part.2,
        })
    }
}

/// How many rows of a row group are decoded together, by what its columns say of their values.
fn batch_rows(group: &RowGroupMetaData, leaves: &[usize]) -> usize {
    let size = |number: &i64| u64::try_from(*number).unwrap_or(0);
    let bytes = leaves.iter().fold(1u64, |bytes, &leaf| {
        let chunk = group.column(leaf);
        let values = size(&chunk.num_values()).saturating_mul(size_of::<u64>() as u64);
        bytes.saturating_add(values).saturating_add(size(&chunk.uncompressed_size()))
    });
    let rows = u128::from(BATCH_BYTES) * u128::from(size(&group.num_rows())) / u128::from(bytes);
    rows.clamp(1, BATCH_ROWS as u128) as usize
}

/// Read some columns of a row group or of a part of one, so many rows at a time.
fn open_part(
    source: RowGroup,
    metadata: ArrowReaderMetadata,
    leaves: &[usize],
    (group, from, rows): (usize, usize, usize),
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader, BatchError> {
    let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves.iter().copied());
    let all = metadata.metadata().row_group(group).num_rows();
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_batch_size(batch_rows);
    if (rows as i64) < all {
        builder = builder.with_offset(from).with_limit(rows);
    }
    builder.build().map_err(unreadable)
}

impl BatchReader for Piece {
    fn next_batch(&mut self) -> Result<Option<Box<dyn Batch>>, BatchError> {
        if self.readers.is_none() {
            self.readers = Some(self.open()?);
        }
        let Some(Readers { values, check }) = &mut self.readers else {
            unreachable!("opened above")
        };
        let batch = match values.next() {
            None if self.left > 0 => {
                return Err(BatchError::declined("a row group with fewer rows than it says"));
            }
            None => return Ok(None),
            Some(batch) => batch.map_err(|error| unreadable(error.into()))?,
        };
        self.left = self
            .left
            .checked_sub(batch.num_rows())
            .ok_or_else(|| BatchError::declined("a row group with more rows than it says"))?;
        if let Some(check) = check {
            let seconds = check.next().transpose().map_err(|error| unreadable(error.into()))?;
            check_old_times(&batch, seconds.as_ref())?;
        }
        Ok(Some(Box::new(ArrowBatch::of(&batch, &self.places, NullStructs::OfNulls))))
    }

    fn columns(&self) -> Option<&dyn Columns> {
        self.readers.is_none().then_some(self)
    }
}

fn unreadable(error: ParquetError) -> BatchError {
    BatchError::declined(error.to_string())
}

/// The numbers of the columns of values that some columns of the file consist of.
fn leaves_of(metadata: &ArrowReaderMetadata, columns: &[usize]) -> Result<Vec<usize>, BatchError> {
    let schema = metadata.parquet_schema();
    if schema.root_schema().get_fields().len() != metadata.schema().fields().len() {
        return Err(BatchError::declined("columns of unknown types"));
    }
    let wanted = |leaf: &usize| columns.contains(&schema.get_column_root_idx(*leaf));
    Ok((0..schema.num_columns()).filter(wanted).collect())
}

/// The same columns of values, without those of columns that hold no points in time of the old
/// kind: nanoseconds of a day and the day, in 96 bits.
fn with_old_times(metadata: &ParquetMetaData, leaves: &[usize]) -> Vec<usize> {
    let schema = metadata.file_metadata().schema_descr();
    let old = |leaf: &&usize| schema.column(**leaf).physical_type() == PhysicalType::INT96;
    let root = |leaf: &usize| schema.get_column_root_idx(*leaf);
    let roots: Vec<usize> = leaves.iter().filter(old).map(root).collect();
    leaves.iter().copied().filter(|leaf| roots.contains(&root(leaf))).collect()
}

/// How old points in time are read as seconds, None where there are none.
///
/// 64 bits of nanoseconds hold the years 1677 to 2262 only, and what does not fit comes out as some
/// other time, without a word. Seconds always fit, so each value is compared with them.
fn as_seconds(
    metadata: &ArrowReaderMetadata,
    leaves: &[usize],
) -> Result<Option<ArrowReaderMetadata>, BatchError> {
    let schema = metadata.parquet_schema();
    let old = |leaf: usize| schema.column(leaf).physical_type() == PhysicalType::INT96;
    if !leaves.iter().any(|leaf| old(*leaf)) {
        return Ok(None);
    }
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    read_as(metadata, |leaf, _| old(leaf).then(|| seconds.clone())).map(Some).map_err(unreadable)
}

/// Check that the old points in time of a batch are those that the same rows have in seconds.
fn check_old_times(batch: &RecordBatch, seconds: Option<&RecordBatch>) -> Result<(), BatchError> {
    let wrong = || BatchError::declined("a time of the type INT96 that nanoseconds do not hold");
    let seconds = seconds.filter(|s| s.num_rows() == batch.num_rows()).ok_or_else(wrong)?;
    for (field, rough) in seconds.schema().fields().iter().zip(seconds.columns()) {
        let fine = nested::leaves(batch.column_by_name(field.name()).ok_or_else(wrong)?);
        for (fine, rough) in fine.iter().zip(nested::leaves(rough)) {
            if !is_same_time(fine, &rough).unwrap_or(true) {
                return Err(wrong());
            }
        }
    }
    Ok(())
}

/// True where points in time are the same in nanoseconds and in seconds; None for other values.
fn is_same_time(fine: &ArrayRef, rough: &ArrayRef) -> Option<bool> {
    let fine = fine.as_primitive_opt::<TimestampNanosecondType>()?;
    let rough = rough.as_primitive_opt::<TimestampSecondType>()?;
    let same = |row| rough.value(row) == fine.value(row).div_euclid(1_000_000_000);
    Some(rough.len() == fine.len() && (0..fine.len()).all(|row| fine.is_null(row) || same(row)))
}

/// Ask for columns of strings as dictionaries where all of their pages have one: each string is
/// then copied once.
fn with_dictionaries(metadata: ArrowReaderMetadata, leaves: &[usize]) -> ArrowReaderMetadata {
    let groups = metadata.metadata().row_groups();
    let found = read_as(&metadata, |leaf, found| {
        let text = matches!(found, DataType::Utf8 | DataType::Binary) && leaves.contains(&leaf);
        (text && groups.iter().all(|group| all_by_dictionary(group.column(leaf))))
            .then(|| DataType::Dictionary(Box::new(DataType::Int32), Box::new(found.clone())))
    });
    found.unwrap_or(metadata)
}

/// Read columns of values as other types, by their numbers and their own types.
fn read_as(
    metadata: &ArrowReaderMetadata,
    change: impl Fn(usize, &DataType) -> Option<DataType>,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let mut leaf = 0;
    let fields = metadata.schema().fields().iter();
    let fields: Vec<FieldRef> = fields.map(|field| with_types(field, &mut leaf, &change)).collect();
    let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
}

/// A field whose flat values, `leaf` being the number of the first of them, have other types.
fn with_types(
    field: &FieldRef,
    leaf: &mut usize,
    change: &impl Fn(usize, &DataType) -> Option<DataType>,
) -> FieldRef {
    let mut inner = |field: &FieldRef| with_types(field, leaf, change);
    let found = match field.data_type() {
        DataType::List(element) => DataType::List(inner(element)),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        flat => {
            *leaf += 1;
            change(*leaf - 1, flat).unwrap_or_else(|| flat.clone())
        }
    };
    Arc::new(Field::clone(field).with_data_type(found))
}

/// True where a chunk says that each of its pages of data refers to the dictionary.
fn all_by_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let by_number = |encoding: Encoding| {
        matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY)
    };
    chunk.page_encoding_stats_mask().is_some_and(|mask| {
        let mut encodings = mask.encodings().peekable();
        encodings.peek().is_some() && encodings.all(by_number)
    })
}
