//! Measures the columns of Parquet files: what their footers say, and facts about the values of the
//! first rows, which those of Arrow are measured by, too.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use arrow_array::cast::AsArray;
use arrow_array::{Array, GenericByteArray, StringArray, types::ByteArrayType};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Field};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use serde_json::{Value, json};
use ureq::Agent;

use crate::columnar::BatchError;
use crate::columnar::nested::NullStructs;
use crate::columnar::objects::Object;
use crate::error::Fail;
use crate::input::http_request;
use crate::sample::footers::{footer, may_hold_nulls};
use crate::spec::{Input, Spec};

/// Rows that are decoded together.
const BATCH_ROWS: usize = 8192;
/// Bytes of what is wanted of the row groups of an object that comes from somewhere else, at most.
const MOST_FETCHED: u64 = 64 << 20;
/// Bytes that the engine has for each string, and for each list, besides what is in it.
const STRING: u64 = 8;
const LIST: u64 = 8;

/// Measure the first `rows` rows of each input: `{"rows": N, "columns": [{"nulls": 0, ...}, ...],
/// "files": [{"uri": ..., "leaves": [...]}, ...]}`. Of no rows only the footers are read.
pub(super) fn measure(spec: &Spec, rows: usize) -> Result<Value, Fail> {
    let agent = http_request::agent();
    let (mut files, mut count) = (Vec::new(), 0);
    let mut columns: Vec<Column> = spec.columns.iter().map(|_| Column::default()).collect();
    for input in &spec.inputs {
        let (object, metadata) = open(&agent, input)?;
        files.push(footer(input.name(), metadata.metadata()));
        if rows > 0 {
            count += read(spec, input, &object, metadata, rows, &mut columns)?;
        }
    }
    let columns: Vec<Value> = columns.iter().map(|column| column.json(count)).collect();
    Ok(json!({"rows": count, "columns": columns, "files": files}))
}

/// Look for lists and maps that are NULL: `{"null_lists": [names of columns]}`.
///
/// Row groups whose footers count no NULL in a column are not read for it.
pub(super) fn null_lists(spec: &Spec) -> Result<Value, Fail> {
    let agent = http_request::agent();
    let mut found = vec![false; spec.columns.len()];
    for input in &spec.inputs {
        let (object, metadata) = open(&agent, input)?;
        let places = places(spec, input, &metadata)?;
        for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
            let schema = metadata.parquet_schema();
            let holds = |place: &usize| {
                (0..schema.num_columns()).any(|leaf| {
                    schema.get_column_root_idx(leaf) == *place && may_hold_nulls(group.column(leaf))
                })
            };
            let open: Vec<usize> = (0..places.len())
                .filter(|column| !found[*column] && holds(&places[*column]))
                .collect();
            if open.is_empty() {
                continue;
            }
            let wanted: Vec<usize> = open.iter().map(|column| places[*column]).collect();
            let ranges = ranges(&metadata, &wanted, &[number]);
            let source = object.row_group(ranges).wait();
            let source = source.map_err(|error| unreadable(input, error))?;
            let mask = ProjectionMask::roots(schema, wanted.iter().copied());
            let reader =
                ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata.clone())
                    .with_row_groups(vec![number])
                    .with_projection(mask)
                    .with_batch_size(BATCH_ROWS)
                    .build()
                    .map_err(|error| broken(input, &error))?;
            for batch in reader {
                let batch = batch.map_err(|error| broken(input, &error.into()))?;
                for column in &open {
                    let array = batch.column(place_among(&wanted, places[*column]));
                    found[*column] |= has_null_list(array.as_ref());
                }
                if open.iter().all(|column| found[*column]) {
                    break;
                }
            }
        }
    }
    let names = spec.columns.iter().zip(&found).filter(|(_, found)| **found);
    Ok(json!({"null_lists": names.map(|(column, _)| column.source()).collect::<Vec<_>>()}))
}

/// Open a file and read its footer.
fn open(agent: &Agent, input: &Input) -> Result<(Object, ArrowReaderMetadata), Fail> {
    let object = Object::open(agent, input, Default::default());
    let object = object.map_err(|error| unreadable(input, error))?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&object, options);
    Ok((object, metadata.map_err(|error| broken(input, &error))?))
}

/// True where a list or a map of an array is NULL; what a NULL struct hides is not a value.
pub(super) fn has_null_list(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (first, last) = ends(lists.offsets());
            lists.null_count() > 0 || has_null_list(&lists.values().slice(first, last - first))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let (first, last) = ends(lists.offsets());
            lists.null_count() > 0 || has_null_list(&lists.values().slice(first, last - first))
        }
        DataType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            lists.null_count() > 0 || has_null_list(lists.values())
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let (first, last) = ends(maps.offsets());
            maps.null_count() > 0 || has_null_list(&maps.values().slice(first, last - first))
        }
        DataType::Struct(_) => {
            let structs = array.as_struct();
            let Some(nulls) = structs.nulls().filter(|nulls| nulls.null_count() > 0) else {
                return structs.columns().iter().any(|column| has_null_list(column));
            };
            nulls.valid_slices().any(|(from, to)| {
                structs.columns().iter().any(|column| has_null_list(&column.slice(from, to - from)))
            })
        }
        _ => false,
    }
}

/// The numbers of the columns of a spec in a file.
fn places(spec: &Spec, input: &Input, metadata: &ArrowReaderMetadata) -> Result<Vec<usize>, Fail> {
    let schema = metadata.parquet_schema();
    if schema.root_schema().get_fields().len() != metadata.schema().fields().len() {
        return Err(Fail::declined(input.name(), "columns of unknown types"));
    }
    let mut places = Vec::new();
    for column in &spec.columns {
        let fields = metadata.schema().fields().iter().enumerate();
        let mut found = fields.filter(|(_, field)| field.name() == column.source());
        match (found.next(), found.next()) {
            (Some((place, _)), None) => places.push(place),
            _ => return Err(Fail::declined(input.name(), "a column that is not there once")),
        }
    }
    Ok(places)
}

/// Where some columns, by their numbers in the file, are in some row groups: start and length.
fn ranges(metadata: &ArrowReaderMetadata, columns: &[usize], groups: &[usize]) -> Vec<(u64, u64)> {
    let schema = metadata.parquet_schema();
    let wanted = |leaf: &usize| columns.contains(&schema.get_column_root_idx(*leaf));
    let leaves: Vec<usize> = (0..schema.num_columns()).filter(wanted).collect();
    let of_group = |group: &usize| {
        let found = metadata.metadata().row_group(*group);
        leaves.iter().map(|leaf| found.column(*leaf).byte_range()).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// The number of a column in batches, which hold the wanted ones in the order of the file.
fn place_among(wanted: &[usize], column: usize) -> usize {
    let mut before: Vec<usize> = wanted.iter().copied().filter(|other| *other < column).collect();
    before.sort_unstable();
    before.dedup();
    before.len()
}

pub(super) fn unreadable(input: &Input, error: BatchError) -> Fail {
    match error {
        BatchError::Declined(_, what) => Fail::declined(input.name(), &what),
        BatchError::Io(error) => Fail::io(input.name(), &error),
    }
}

fn broken(input: &Input, error: &ParquetError) -> Fail {
    Fail::declined(input.name(), &error.to_string())
}

/// Read the first rows of a file; returns how many there are.
fn read(
    spec: &Spec,
    input: &Input,
    object: &Object,
    metadata: ArrowReaderMetadata,
    rows: usize,
    columns: &mut [Column],
) -> Result<usize, Fail> {
    let places = places(spec, input, &metadata)?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().copied());
    let (mut groups, mut left) = (Vec::new(), rows as i64);
    for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
        if left > 0 {
            groups.push(number);
            left -= group.num_rows();
        }
    }
    let ranges = ranges(&metadata, &places, &groups);
    if object.is_remote() && ranges.iter().map(|(_, length)| length).sum::<u64>() > MOST_FETCHED {
        return Err(Fail::declined(input.name(), "large row groups of an object"));
    }
    let source = object.row_group(ranges).wait().map_err(|error| unreadable(input, error))?;
    let fields = metadata.schema().fields().clone();
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
        .with_row_groups(groups)
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS.min(rows))
        .with_limit(rows)
        .build()
        .map_err(|error| broken(input, &error))?;
    let mut count = 0;
    for batch in reader {
        let batch = batch.map_err(|error| broken(input, &error.into()))?;
        count += batch.num_rows();
        for (column, place) in columns.iter_mut().zip(&places) {
            let array = batch.column(place_among(&places, *place));
            column
                .add(array.as_ref(), fields[*place].is_nullable(), NullStructs::OfNulls)
                .map_err(|what| Fail::declined(input.name(), &what))?;
        }
    }
    Ok(count)
}

/// Facts about the values of one column.
#[derive(Default)]
pub(super) struct Column {
    nulls: u64,
    bytes: u64,
    /// Strings that are not UTF-8, and those that hold a zero byte.
    foreign: u64,
    zeros: u64,
    /// Hashes of the values that are not NULL, by which the different ones are counted.
    distinct: HashSet<u64>,
    hasher: RandomState,
}

impl Column {
    /// Add values of a field that may hold NULL or not; the error says what is not known of them.
    pub(super) fn add(
        &mut self,
        array: &dyn Array,
        nullable: bool,
        structs: NullStructs,
    ) -> Result<(), String> {
        self.nulls += array.logical_null_count() as u64;
        self.bytes += bytes_of(array, (nullable, false), structs)?;
        match array.data_type() {
            DataType::Utf8 => self.add_strings(array.as_string::<i32>()),
            DataType::Binary => self.add_strings(array.as_binary::<i32>()),
            DataType::LargeUtf8 => self.add_strings(array.as_string::<i64>()),
            DataType::LargeBinary => self.add_strings(array.as_binary::<i64>()),
            DataType::FixedSizeBinary(_) => {
                let values = array.as_fixed_size_binary();
                for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
                    let value = values.value(row);
                    self.distinct.insert(self.hasher.hash_one(value));
                    // Zeros at its end are no part of a text.
                    let filled = value.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                    self.look_at(&value[..filled]);
                }
            }
            DataType::Dictionary(..) => {
                let (keys, values) = dictionary(array)?;
                for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
                    let value = values.value(keys[row]).as_bytes();
                    self.distinct.insert(self.hasher.hash_one(value));
                    self.look_at(value);
                }
            }
            DataType::Boolean => {
                let values = array.as_boolean();
                for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
                    self.distinct.insert(self.hasher.hash_one(values.value(row)));
                }
            }
            found => {
                // Those of nested values are not asked for.
                let Some(width) = found.primitive_width() else { return Ok(()) };
                let data = array.to_data();
                let values = &data.buffers()[0].as_slice()[data.offset() * width..];
                for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
                    let value = &values[row * width..(row + 1) * width];
                    self.distinct.insert(self.hasher.hash_one(value));
                }
            }
        }
        Ok(())
    }

    fn add_strings<T: ByteArrayType>(&mut self, values: &GenericByteArray<T>) {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value: &[u8] = values.value(row).as_ref();
            self.distinct.insert(self.hasher.hash_one(value));
            self.look_at(value);
        }
    }

    /// Count a string that is no text of a database.
    fn look_at(&mut self, value: &[u8]) {
        self.foreign += u64::from(simdutf8::basic::from_utf8(value).is_err());
        self.zeros += u64::from(memchr::memchr(0, value).is_some());
    }

    /// Return the facts by the names that the engine's expressions have.
    pub(super) fn json(&self, rows: usize) -> Value {
        let bytes = (rows > 0).then(|| self.bytes as f64 / rows as f64);
        json!({
            "nulls": self.nulls, "distinct": self.distinct.len(), "bytes_each": bytes,
            "foreign": self.foreign, "zeros": self.zeros,
        })
    }
}

/// The bytes that values take in the engine's memory, as its function `byteSize` counts them.
///
/// A value is Nullable where its field may be NULL, or of Parquet a struct around it (`inherited`);
/// lists and maps never are, and such a struct is where nothing in it may be NULL by itself.
fn bytes_of(
    array: &dyn Array,
    (nullable, inherited): (bool, bool),
    structs: NullStructs,
) -> Result<u64, String> {
    let rows = array.len() as u64;
    let marks = if nullable || inherited { rows } else { 0 };
    let strings = |bytes: u64| Ok(bytes + STRING * rows + marks);
    match array.data_type() {
        DataType::Null | DataType::Boolean => Ok(rows + marks),
        DataType::Utf8 => strings(spanned(array.as_string::<i32>())),
        DataType::Binary => strings(spanned(array.as_binary::<i32>())),
        DataType::LargeUtf8 => strings(spanned(array.as_string::<i64>())),
        DataType::LargeBinary => strings(spanned(array.as_binary::<i64>())),
        DataType::FixedSizeBinary(width) => Ok(*width as u64 * rows + marks),
        DataType::Dictionary(..) => {
            let (keys, values) = dictionary(array)?;
            let rows = (0..array.len()).filter(|row| array.is_valid(*row));
            strings(rows.map(|row| values.value_length(keys[row]) as u64).sum())
        }
        DataType::List(element) => {
            let lists = array.as_list::<i32>();
            let (first, last) = ends(lists.offsets());
            let values = lists.values().slice(first, last - first);
            Ok(LIST * rows + bytes_of(&values, (element.is_nullable(), false), structs)?)
        }
        DataType::LargeList(element) => {
            let lists = array.as_list::<i64>();
            let (first, last) = ends(lists.offsets());
            let values = lists.values().slice(first, last - first);
            Ok(LIST * rows + bytes_of(&values, (element.is_nullable(), false), structs)?)
        }
        DataType::FixedSizeList(element, _) => {
            let lists = array.as_fixed_size_list();
            let width = lists.value_length() as usize;
            let all = [(0, array.len())];
            let there: Vec<(usize, usize)> =
                lists.nulls().map_or(all.to_vec(), |nulls| nulls.valid_slices().collect());
            let mut bytes = LIST * rows;
            for (from, to) in there {
                let values = lists.values().slice(from * width, (to - from) * width);
                bytes += bytes_of(&values, (element.is_nullable(), false), structs)?;
            }
            Ok(bytes)
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let (first, last) = ends(maps.offsets());
            let entries = maps.entries().slice(first, last - first);
            Ok(LIST * rows + bytes_of(&entries, (false, false), structs)?)
        }
        DataType::Struct(fields) => {
            let own = structs == NullStructs::Declined;
            let only = nullable
                && !inherited
                && (own || fields.iter().all(|field| is_always_there(field)));
            let inherited = !own && (nullable || inherited);
            let mut bytes = if only { rows } else { 0 };
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                bytes += bytes_of(column, (field.is_nullable(), inherited), structs)?;
            }
            Ok(bytes)
        }
        DataType::Decimal128(precision, _) => {
            let width = if *precision <= 9 { 4 } else { 8 << usize::from(*precision > 18) };
            Ok(rows * width + marks)
        }
        found => {
            let width = found.primitive_width().ok_or_else(|| format!("values of {found}"))?;
            Ok(width as u64 * rows + marks)
        }
    }
}

/// The numbers of values in their dictionary of strings, and that.
fn dictionary(array: &dyn Array) -> Result<(Vec<usize>, &StringArray), String> {
    let found = array.as_any_dictionary();
    let values = found.values().as_string_opt::<i32>();
    let values = values.ok_or_else(|| format!("values of {}", array.data_type()))?;
    if values.null_count() > 0 {
        return Err("a dictionary that holds NULL".to_owned());
    }
    if values.is_empty() {
        return Ok((Vec::new(), values)); // each row is NULL
    }
    Ok((found.normalized_keys(), values))
}

/// True where neither a field nor what is in it may be NULL or a list.
fn is_always_there(field: &Field) -> bool {
    !field.is_nullable()
        && match field.data_type() {
            DataType::Struct(fields) => fields.iter().all(|field| is_always_there(field)),
            found => !found.is_nested(),
        }
}

fn ends<T: ArrowNativeType>(offsets: &[T]) -> (usize, usize) {
    (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize())
}

/// The bytes of strings.
fn spanned<T: ByteArrayType>(values: &GenericByteArray<T>) -> u64 {
    (0..values.len()).map(|row| values.value_length(row).as_usize() as u64).sum()
}
