//! Writes a block as a part of a MergeTree table: a folder with the files that the engine itself
//! would write for an INSERT of the block, so that the part has only to be attached.
//!
//! It is a wide part, with files for each stream of a column, or, of few bytes or rows, a compact one,
//! with all of them in one file. It is sorted by the key's columns; strings have their sizes in a
//! stream of their own (or before each, [`StringStreams`]), and so have arrays and maps. The engine's
//! code for the same files is in `MergeTreeDataPartWriterWide`, `MergeTreeDataPartWriterCompact` and
//! `MergedBlockOutputStream`.

mod block_file;
mod checksums;
mod compact;
pub mod defaults;
pub mod partition;
pub mod pieces;
pub mod stream;
mod strings;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::codec::Chains;
use crate::column::filled::{count as count_filled, each_filled, filled};
use crate::column::keys::Keys;
use crate::column::reorder::{self, ByteSink, RowSelection, all_equal, gather_array_sizes};
use crate::column::strings::{append_string, append_varint, starts_of, strings_of};
use crate::column::{Column, Values};
use crate::output::low_cardinality::{self, Dictionary, Renumbering};
use crate::output::part::checksums::{Checksums, FileHash};
use crate::output::part::defaults::Counts;
use crate::output::part::partition::Partition;
use crate::output::part::stream::{Stream, Streams};
use crate::output::part::strings::{StringLayout, text_span};
use crate::spec::{PartLayout, Spec, StringStreams};
use crate::types::streams::{array_sizes, element_name, element_names, escaped};
use crate::types::{BaseType, Type};

/// Keys at most of a dictionary that a whole column shares: low_cardinality_max_dictionary_size.
pub const MAX_SHARED_KEYS: usize = 8192;
/// Flags before the indexes of a granule: their keys are those of the column, or the granule's own.
const SHARED_KEYS: u64 = 1 << 8;
const OWN_KEYS: u64 = 1 << 9;
/// Added to the latter where they are to be added to what is known of the column.
const ADDED_KEYS: u64 = 1 << 10;
/// Added to the number of defaults at the end of a granule of a sparse column.
const END_OF_GRANULE: usize = 1 << 62;

/// Writes the parts of one worker, as folders `0`, `1`, ... in a folder of its own; with partitions
/// as `ID_0`, `ID_1`, ...
pub struct Output {
    folder: PathBuf,
    /// Indices of the columns of the table's primary key.
    keys: Vec<usize>,
    /// The codecs of each column: of all flat types that it consists of.
    chains: Vec<Vec<Chains>>,
    layout: PartLayout,
    parts: usize,
    streams: Streams,
}

impl Output {
    /// Make the folder `path`, which must not be there yet.
    pub fn open(path: &str, spec: &Spec) -> io::Result<Output> {
        std::fs::create_dir(path)?;
        let types = spec.types().expect("checked before anything is read");
        let chains = (spec.columns.iter().zip(&types))
            .map(|(column, data_type)| Chains::of_each(&column.codecs, data_type))
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        let mut keys = spec.sort_by.clone().unwrap_or_default();
        keys.truncate(spec.primary.unwrap_or(keys.len()));
        Ok(Output {
            folder: path.into(),
            keys,
            chains,
            layout: spec.layout,
            parts: 0,
            streams: Streams::new(spec.layout),
        })
    }

    /// Write one block of all columns as a part, its rows in `order` if there is one. Behind the
    /// columns that have names are values of the key, which are in the primary index only.
    pub fn write(
        &mut self,
        names: &[String],
        columns: &[Column],
        rows: usize,
        order: Option<&[u32]>,
        partition: Option<&Partition>,
    ) -> io::Result<()> {
        let shape = shape(columns, rows, self.layout);
        let mut part = self.begin(rows, shape, order, partition.map(|found| &found.id[..]))?;
        for (name, column) in names.iter().zip(columns) {
            part.column(name, column)?;
        }
        if let Some(partition) = partition {
            partition.write(names, columns, rows, &part.folder, &mut part.checksums)?;
        }
        part.end(columns)
    }

    /// Begin the part of a block whose columns come one after the other, and take `bytes` together as
    /// far as is known; None where it would be a compact one.
    pub fn begin_wide<'a>(
        &'a mut self,
        rows: usize,
        bytes: usize,
        order: Option<&'a [u32]>,
    ) -> io::Result<Option<PartWriter<'a>>> {
        let shape = Shape::of(bytes, rows, self.layout);
        // Shorter granules depend on each byte.
        if shape.compact || shape.granule < self.layout.granule_rows {
            return Ok(None);
        }
        self.begin(rows, shape, order, None).map(Some)
    }

    fn begin<'a>(
        &'a mut self,
        rows: usize,
        shape: Shape,
        order: Option<&'a [u32]>,
        partition: Option<&str>,
    ) -> io::Result<PartWriter<'a>> {
        let id = partition.map_or(String::new(), |id| format!("{id}_"));
        let folder = self.folder.join(format!("{id}{}", self.parts));
        self.parts += 1;
        std::fs::create_dir(&folder)?;
        self.streams.begin_part(shape.compact);
        Ok(PartWriter {
            folder,
            keys: &self.keys,
            chains: &self.chains,
            layout: self.layout,
            streams: &mut self.streams,
            block: PartBlock { rows, shape, order },
            checksums: Checksums::default(),
            bounds: (0, 0),
            lists: Lists::default(),
        })
    }
}

/// Writes one part, column after column.
pub struct PartWriter<'a> {
    folder: PathBuf,
    keys: &'a [usize],
    chains: &'a [Vec<Chains>],
    layout: PartLayout,
    streams: &'a mut Streams,
    block: PartBlock<'a>,
    checksums: Checksums,
    /// Bytes of the columns so far in the engine's memory: between these.
    bounds: (usize, usize),
    lists: Lists,
}

/// What the files about all columns say of those so far.
#[derive(Default)]
struct Lists {
    /// What `serialization.json` says of the columns, with their names.
    kinds: Vec<(String, Value)>,
    /// The lists of `columns_substreams.txt` and `columns.txt`.
    streams: String,
    listed: String,
    count: usize,
}

impl Lists {
    /// Add the next column: its streams, and its kind of serialization if the engine counts that.
    fn add(&mut self, name: &str, data_type: &Type, streams: &[String], kind: Option<Value>) {
        if let Some(mut kind) = kind {
            kind["name"] = json!(name);
            self.kinds.push((name.to_owned(), kind));
        }
        let name = quoted(name);
        self.streams += &format!("{} substreams for column {name}:\n", streams.len());
        streams.iter().for_each(|stream| self.streams += &format!("\t{stream}\n"));
        self.listed += &format!("{name} {}\n", data_type.name);
        self.count += 1;
    }

    /// Write the files about all columns of a part of so many rows, the last ones of it.
    fn write(
        mut self,
        folder: &Path,
        rows: usize,
        compact: bool,
        layout: PartLayout,
        mut checksums: Checksums,
    ) -> io::Result<()> {
        self.kinds.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let kinds: Vec<Value> = self.kinds.into_iter().map(|(_, kind)| kind).collect();
        let typed = |string: u8| {
            json!({
                "columns": kinds, "propagate_types_serialization_versions_to_nested_types": true,
                "types_serialization_versions": {"string": string}, "version": 1,
            })
        };
        let kinds = match layout.strings {
            StringStreams::Apart => typed(1),
            StringStreams::InlineTyped => typed(0),
            StringStreams::Inline => json!({"columns": kinds, "version": 0}),
        };
        let (count, listed) = (self.count, self.listed);
        write_file(folder, "serialization.json", &kinds.to_string(), Some(&mut checksums))?;
        write_file(folder, "count.txt", &rows.to_string(), Some(&mut checksums))?;
        write_file(folder, "uuid.txt", &uuid()?, Some(&mut checksums))?;
        let text = format!("columns format version: 1\n{count} columns:\n{listed}");
        write_file(folder, "columns.txt", &text, None)?;
        if !compact || layout.substream_marks {
            let streams = &self.streams;
            let text = format!("columns substreams version: 1\n{count} columns:\n{streams}");
            write_file(folder, "columns_substreams.txt", &text, None)?;
        }
        write_file(folder, "default_compression_codec.txt", "CODEC(LZ4)", None)?;
        write_file(folder, "metadata_version.txt", "0", None)?;
        std::fs::write(folder.join("checksums.txt"), checksums.text())
    }
}

impl PartWriter<'_> {
    /// Write the next column.
    pub fn column(&mut self, name: &str, column: &Column) -> io::Result<()> {
        let (rows, above) = (self.block.rows, self.layout.sparse_above);
        self.streams.begin_column();
        let mut writer = ColumnWriter {
            block: &self.block,
            folder: &self.folder,
            streams: self.streams,
            checksums: &mut self.checksums,
            chains: &self.chains[self.lists.count],
            layout: self.layout,
            totals: None,
            arrays: Vec::new(),
            reordered: false,
            dictionaries: Vec::new(),
            names: Vec::new(),
        };
        let defaults = writer.column(&escaped(name.as_bytes()), column, rows, None)?;
        let found = [writer.dictionaries, writer.names].concat();
        // Where nothing is ever sparse the engine does not count.
        let counted = defaults::kind(column, rows, defaults, above).filter(|_| above < 1.0);
        self.lists.add(name, &column.data_type, &found, counted);
        self.streams.end_column();
        let (least, most) = bytes_between(column, rows);
        self.bounds = (self.bounds.0 + least, self.bounds.1 + most);
        Ok(())
    }

    /// True where the columns so far have the bytes for which the part has been begun.
    pub fn is_as_begun(&self) -> bool {
        let of = |bytes| Shape::of(bytes, self.block.rows, self.layout);
        of(self.bounds.0) == self.block.shape && of(self.bounds.1) == self.block.shape
    }

    /// True where the columns so far have more bytes than the part has been begun for.
    pub fn is_outgrown(&self) -> bool {
        let least = Shape::of(self.bounds.0, self.block.rows, self.layout);
        least.granule < self.block.shape.granule
    }

    /// Remove all that was written.
    pub fn abandon(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.folder)
    }

    /// Write the files about all columns, the last of the part. Of `columns` those of the key are
    /// looked at.
    pub fn end(mut self, columns: &[Column]) -> io::Result<()> {
        let PartBlock { rows, shape, .. } = self.block;
        let granules = self.block.granules().map(|rows| rows.len());
        self.streams.end_part(&self.folder, granules, &mut self.checksums)?;
        let keys: Vec<Values<'_>> = self.keys.iter().map(|&key| columns[key].values()).collect();
        if !keys.is_empty() {
            let index = self.block.primary_index(&keys);
            self.streams.small_file(&self.folder, "primary.cidx", &index, &mut self.checksums)?;
        }
        self.lists.write(&self.folder, rows, shape.compact, self.layout, self.checksums)
    }
}

/// What depends on the bytes of a block in the engine's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    compact: bool,
    /// Rows of a granule.
    granule: usize,
}

impl Shape {
    fn of(bytes: usize, rows: usize, layout: PartLayout) -> Shape {
        let compact = layout.is_compact(bytes, rows);
        Shape { compact, granule: granule_rows(bytes, rows, layout) }
    }
}

/// The shape of the part of a block, whose bytes are counted where it matters.
fn shape(columns: &[Column], rows: usize, layout: PartLayout) -> Shape {
    let bounds = columns.iter().map(|column| bytes_between(column, rows));
    let (least, most) = bounds.fold((0, 0), |sum, found| (sum.0 + found.0, sum.1 + found.1));
    let (least, most) = (Shape::of(least, rows, layout), Shape::of(most, rows, layout));
    if least == most {
        return most;
    }
    let bytes = columns.iter().map(|column| engine_bytes(column, rows)).sum();
    Shape::of(bytes, rows, layout)
}

/// Rows of a granule, as the engine has them for an INSERT: as many as fit into its bytes, or, of
/// a longer block, so many that the last granule is about as long as the others.
fn granule_rows(bytes: usize, rows: usize, layout: PartLayout) -> usize {
    let found = match bytes / layout.granule_bytes {
        0 => layout.granule_bytes / (bytes / rows).max(1),
        granules => rows / granules,
    };
    found.clamp(1, layout.granule_rows)
}

/// Bytes of a column in the engine's memory: there a string has eight bytes besides its text, here
/// one or more, and a dictionary has indexes as narrow as they can be.
fn engine_bytes(column: &Column, rows: usize) -> usize {
    let data_type = &column.data_type;
    if data_type.low_cardinality {
        let found = low_cardinality::dictionary_of(column, true);
        let keys = found.count as usize;
        let text: usize = strings_of(&found.keys).map(<[u8]>::len).sum();
        return (rows << found.index_width_code()) + text + 8 * keys;
    }
    let data = match data_type.base {
        BaseType::String if column.keys.is_some() => 8 * rows + text_bytes(column),
        BaseType::String => strings_of(&column.data).map(|text| text.len() + 8).sum(),
        _ => column.data.len(),
    };
    let rows = column.elements(rows);
    let children: usize = column.children.iter().map(|child| engine_bytes(child, rows)).sum();
    column.nulls.len() + data + children
}

/// The same without a look at the values, between two bounds.
pub fn bytes_between(column: &Column, rows: usize) -> (usize, usize) {
    let data = column.data.len();
    if column.data_type.low_cardinality {
        let keys = column.keys.as_ref().map_or(0, Keys::bytes);
        return (rows, data + keys + 13 * rows);
    }
    // A length takes two bytes of 128 and more.
    let (least, most) = match column.data_type.base {
        BaseType::String if column.keys.is_some() => {
            let bytes = 8 * rows + text_bytes(column);
            (bytes, bytes)
        }
        BaseType::String => (7 * rows + data - data / 128, 7 * rows + data),
        _ => (data, data),
    };
    let (rows, nulls) = (column.elements(rows), column.nulls.len());
    let children = column.children.iter().map(|child| bytes_between(child, rows));
    children.fold((least + nulls, most + nulls), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

/// Bytes of all strings of a column that has their numbers.
fn text_bytes(column: &Column) -> usize {
    let Some(keys) = &column.keys else { return 0 };
    let sizes: Vec<usize> = (0..keys.len() as u32).map(|number| keys.text(number).len()).collect();
    column.values().numbers().map(|number| sizes[number as usize]).sum()
}

/// A name in backquotes, as the engine's lists of columns have it.
fn quoted(name: &str) -> String {
    let mut found = String::from("`");
    for letter in name.chars() {
        let escape = match letter {
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\0' => '0',
            '\\' | '`' => letter,
            _ => {
                found.push(letter);
                continue;
            }
        };
        found.extend(['\\', escape]);
    }
    found.push('`');
    found
}

/// As many rows, as neighbours where all values are the `same`: copying neighbours is cheaper.
fn in_any_order(same: bool, rows: RowSelection<'_>) -> RowSelection<'_> {
    if same { RowSelection::Range(0, rows.len()) } else { rows }
}

/// The rows of one part.
struct PartBlock<'a> {
    rows: usize,
    shape: Shape,
    order: Option<&'a [u32]>,
}

impl PartBlock<'_> {
    /// Where each granule starts. Less than half of one at the end belongs to the one before in a
    /// compact part.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let Shape { compact, granule } = self.shape;
        let rest = self.rows % granule;
        let with_rest = compact && rest * 2 < granule && rest < self.rows;
        (0..self.rows - if with_rest { rest } else { 0 }).step_by(granule)
    }

    /// The rows of each granule.
    fn granules(&self) -> impl Iterator<Item = RowSelection<'_>> {
        let ends = self.starts().skip(1).chain([self.rows]);
        self.starts().zip(ends).map(move |(from, to)| {
            self.order.map_or(RowSelection::Range(from, to), |order| {
                RowSelection::Order(&order[from..to])
            })
        })
    }

    /// The primary index: the key of the first row of each granule, and of the last row.
    fn primary_index(&self, keys: &[Values<'_>]) -> Vec<u8> {
        let rows = self.starts().chain([self.rows - 1]);
        let rows = rows.map(|row| self.order.map_or(row, |order| order[row] as usize));
        index_of(keys, self.rows, rows)
    }
}

/// The keys of some of the `count` rows, one behind the other.
fn index_of(keys: &[Values<'_>], count: usize, rows: impl Iterator<Item = usize>) -> Vec<u8> {
    let starts: Vec<_> = keys
        .iter()
        .map(|key| match (&key.data_type.base, key.keys) {
            (BaseType::String, None) => starts_of(*key, count),
            _ => Vec::new(),
        })
        .collect();
    let mut out = Vec::new();
    for row in rows {
        for (key, starts) in keys.iter().zip(&starts) {
            if key.data_type.nullable {
                out.push(key.nulls[row]);
                if key.nulls[row] == 1 {
                    continue;
                }
            }
            if let Some(strings) = key.keys {
                let number = key.data.as_chunks::<4>().0[row];
                append_string(&mut out, strings.text(u32::from_le_bytes(number)));
                continue;
            }
            let (from, to) = match starts[..] {
                [] => (row * key.data_type.width(), (row + 1) * key.data_type.width()),
                _ => (starts[row] as usize, starts[row + 1] as usize),
            };
            out.extend_from_slice(&key.data[from..to]);
        }
    }
    out
}

/// The elements of an array column in the order of a part; or the values of a sparse column that are
/// no defaults, which are as elements of the rows that have one.
struct Elements {
    /// Of rows in another order: those of each row, without rows that have none.
    runs: Option<Vec<(u32, u32)>>,
    /// Of each granule the first of its runs and the one behind the last; without runs so the elements.
    granules: Vec<(usize, usize)>,
}

impl Elements {
    fn granule(&self, number: usize) -> RowSelection<'_> {
        let (from, to) = self.granules[number];
        match &self.runs {
            None => RowSelection::Range(from, to),
            Some(runs) => RowSelection::Runs(&runs[from..to]),
        }
    }
}

/// Writes the streams of one column: of nested types first the sizes of arrays and maps, then what
/// is in them, as columns of their own, whose granules are the values of the column's.
struct ColumnWriter<'a> {
    block: &'a PartBlock<'a>,
    folder: &'a Path,
    streams: &'a mut Streams,
    checksums: &'a mut Checksums,
    /// The codecs of the flat types that are still to be written, in their order.
    chains: &'a [Chains],
    layout: PartLayout,
    /// Of a column that comes in pieces: how many rows all of them have, and its dictionary, if it has
    /// one.
    totals: Option<(usize, Option<&'a Keys>)>,
    /// The elements of the arrays and maps around what is written, from the outermost on.
    arrays: Vec<Elements>,
    /// The values that are written are in the order of the part already.
    reordered: bool,
    /// The names of the streams, in the order in which the engine lists them: dictionaries, then all
    /// others.
    dictionaries: Vec<String>,
    names: Vec<String>,
}

impl<'a> ColumnWriter<'a> {
    /// Write a column of so many values. Returns how many of them are the type's default, None where
    /// the engine does not count them or where they are not of a flat column. `counts` are those of
    /// all pieces, where it comes in pieces and may be sparse.
    fn column(
        &mut self,
        name: &str,
        column: &'a Column,
        count: usize,
        counts: Option<&Counts>,
    ) -> io::Result<Option<usize>> {
        let array = match column.data_type.base {
            BaseType::Array(_) | BaseType::Map(_) => true,
            BaseType::Tuple(..) => false,
            _ if column.data_type.low_cardinality => {
                self.low_cardinality(name, column, count)?;
                self.chains = &self.chains[1..];
                return Ok(None);
            }
            _ => {
                let defaults = self.flat(name, column, count, counts)?;
                self.chains = &self.chains[1..];
                return Ok(defaults);
            }
        };
        if array {
            let name = array_sizes(name, self.arrays.len());
            self.write(name, true, &mut |rows, out| gather_array_sizes(&column.data, rows, out))?;
            let elements = self.elements(&column.data);
            self.arrays.push(elements);
        }
        let count = column.elements(count);
        let names = element_names(&column.data_type);
        for (number, child) in column.children.iter().enumerate() {
            let counts = counts.and_then(|all| all.element(number));
            match names.get(number) {
                Some(element) => self.column(&element_name(name, element), child, count, counts)?,
                None => self.column(name, child, count, counts)?,
            };
        }
        if array {
            self.arrays.pop();
        }
        Ok(None)
    }

    /// The elements of arrays at the present place.
    fn elements(&self, offsets: &[u8]) -> Elements {
        let (mut runs, mut granules) = (Vec::new(), Vec::new());
        for (number, rows) in self.block.granules().enumerate() {
            let before = runs.len();
            let rows = self.arrays.last().map_or(rows, |elements| elements.granule(number));
            let range = match rows.elements(offsets, &mut runs) {
                RowSelection::Range(from, to) => (from, to),
                _ => (before, runs.len()),
            };
            granules.push(range);
        }
        Elements { runs: self.block.order.is_some().then_some(runs), granules }
    }

    /// Write a stream; `beside` the values are their NULL marks and sizes. `fill` appends the values
    /// of a granule.
    fn write(
        &mut self,
        name: String,
        beside: bool,
        fill: &mut dyn FnMut(RowSelection<'_>, &mut Stream) -> io::Result<()>,
    ) -> io::Result<()> {
        let chains = &self.chains[0];
        let codecs = if beside { &chains.beside } else { &chains.values };
        let stream = self.streams.begin(self.folder, &name, codecs)?;
        let block =
            PartBlock { order: self.block.order.filter(|_| !self.reordered), ..*self.block };
        for (number, rows) in block.granules().enumerate() {
            stream.mark(rows.len())?;
            let values = self.arrays.last().map_or(rows, |elements| elements.granule(number));
            fill(values, stream)?;
        }
        self.names.push(name);
        self.streams.end(self.folder, self.checksums)
    }

    /// Write the values of a flat type; returns how many of a whole column are the default.
    fn flat(
        &mut self,
        name: &str,
        column: &Column,
        count: usize,
        counts: Option<&Counts>,
    ) -> io::Result<Option<usize>> {
        let data_type = &column.data_type;
        if data_type.nullable {
            let same = all_equal(&column.nulls, 1);
            self.write(format!("{name}.null"), true, &mut |rows, out| {
                reorder::gather_fixed(&column.nulls, 1, in_any_order(same, rows), out)
            })?;
        }
        let width = data_type.width();
        if width == 0 {
            let mut texts = StringLayout::new(column.values(), count);
            let defaults = if data_type.nullable { 0 } else { texts.count_empty(count) };
            let sparse =
                self.is_sparse(data_type, counts.map_or(defaults, Counts::defaults), count);
            if sparse {
                self.sparse(name, defaults < count, texts.filled(count))?;
            }
            let order = self.block.order.filter(|_| self.arrays.is_empty());
            self.reordered = order.is_some_and(|order| texts.reorder(order));
            let apart = self.layout.strings == StringStreams::Apart;
            if apart {
                self.write(format!("{name}.size"), true, &mut |rows, out| {
                    texts.write_sizes(rows, out)
                })?;
            }
            self.write(name.to_owned(), false, &mut |rows, out| match apart {
                true => texts.write_strings(rows, out),
                false => texts.write_whole(rows, out),
            })?;
            self.reordered = false;
            self.arrays.truncate(self.arrays.len() - usize::from(sparse));
            return Ok((!data_type.nullable).then_some(defaults));
        }
        let same = all_equal(&column.data, width);
        let found = if data_type.nullable { Vec::new() } else { filled(&column.data, width) };
        let defaults = if data_type.nullable { 0 } else { count - count_filled(&found) };
        let sparse = self.is_sparse(data_type, counts.map_or(defaults, Counts::defaults), count);
        if sparse {
            self.sparse(name, defaults < count, found)?;
        }
        self.write(name.to_owned(), false, &mut |rows, out| {
            reorder::gather_fixed(&column.data, width, in_any_order(same, rows), out)
        })?;
        self.arrays.truncate(self.arrays.len() - usize::from(sparse));
        Ok((!data_type.nullable).then_some(defaults))
    }

    /// True where so many defaults of all values of a column that is in no array make it sparse.
    fn is_sparse(&self, data_type: &Type, defaults: usize, count: usize) -> bool {
        let rows = self.totals.map_or(count, |(rows, _)| rows);
        let above = self.layout.sparse_above;
        self.arrays.is_empty() && defaults::is_sparse(data_type, defaults, rows, above)
    }

    /// Where nearly all values of a column are defaults, write how many of them there are before
    /// each other value; what is written next has only these others, until the elements that are
    /// added here are dropped. Of the others there are `any`; `bits` has one for each of them.
    fn sparse(&mut self, name: &str, any: bool, bits: Vec<u64>) -> io::Result<()> {
        let name = format!("{name}.sparse.idx");
        let stream = self.streams.begin(self.folder, &name, &self.chains[0].beside)?;
        let (mut runs, mut granules, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
        for rows in self.block.granules() {
            stream.mark(rows.len())?;
            let before = runs.len();
            let mut next = 0;
            // Of defaults only no row need be looked at.
            let rows_left = if any { rows } else { RowSelection::Range(0, 0) };
            each_filled(&bits, rows_left, |place, row| {
                append_varint(&mut gaps, place - next);
                next = place + 1;
                match runs[before..].last_mut() {
                    Some((_, end)) if *end == row => *end += 1,
                    _ => runs.push((row, row + 1)),
                }
            });
            append_varint(&mut gaps, rows.len() - next + END_OF_GRANULE);
            stream.buffer_for(gaps.len())?.append(&mut gaps);
            granules.push((before, runs.len()));
        }
        self.names.push(name);
        self.streams.end(self.folder, self.checksums)?;
        self.arrays.push(Elements { runs: Some(runs), granules });
        Ok(())
    }

    /// Write LowCardinality values: with one dictionary for all of them where the engine would have
    /// one, otherwise each granule has its own keys.
    fn low_cardinality(&mut self, name: &str, column: &Column, count: usize) -> io::Result<()> {
        let nullable = column.data_type.nullable;
        let compact = self.block.shape.compact;
        let found = match self.totals {
            // Who merges has counted them.
            Some((_, keys)) => {
                let keys = keys.filter(|_| self.arrays.is_empty());
                keys.map(|keys| low_cardinality::dictionary_in(keys, column))
            }
            None => (!compact).then(|| low_cardinality::dictionary_of(column, true)),
        };
        let found = found.filter(|all| all.count as usize <= MAX_SHARED_KEYS && count > 0);
        self.dictionary(name, found.as_ref())?;
        // In a compact part they are a dictionary like that of a column.
        let flags = if compact { OWN_KEYS | ADDED_KEYS } else { OWN_KEYS };
        let starts = match (&found, &column.keys) {
            (None, None) => starts_of(column.values(), count),
            _ => Vec::new(),
        };
        let mut renumbering = column.keys.as_ref().map(Renumbering::of);
        let value = |row: usize| {
            let (from, size) = text_span(&starts, row);
            let null = column.nulls.get(row) == Some(&1);
            (!null).then(|| &column.data[from as usize..][..size as usize])
        };
        let mut memory = Vec::new();
        self.write(name.to_owned(), true, &mut |rows, stream| {
            if rows.len() == 0 {
                return Ok(()); // arrays that are all empty
            }
            let rows = rows.without_runs(&mut memory);
            if let Some(all) = &found {
                let out = stream.buffer_for(16 + 4 * rows.len())?;
                out.extend_from_slice(&(SHARED_KEYS | all.index_width_code()).to_le_bytes());
                out.extend_from_slice(&(rows.len() as u64).to_le_bytes());
                all.write_indexes(rows.map(|row| all.indexes[row]), out);
                return Ok(());
            }
            let own = match (&column.keys, &mut renumbering) {
                (Some(keys), Some(all)) => all.dictionary(column, keys, rows, compact),
                _ => low_cardinality::build_dictionary(rows.map(value), nullable, compact),
            };
            let out = stream.buffer_for(24 + 4 * rows.len() + own.keys.len())?;
            out.extend_from_slice(&(flags | own.index_width_code()).to_le_bytes());
            out.extend_from_slice(&u64::from(own.count).to_le_bytes());
            out.extend_from_slice(&own.keys);
            out.extend_from_slice(&(rows.len() as u64).to_le_bytes());
            own.write_indexes(own.indexes.iter().copied(), out);
            Ok(())
        })
    }

    /// Write the stream of a column's dictionary, which is empty if there is none: that of a compact
    /// part, too, where the version is before each granule.
    fn dictionary(&mut self, name: &str, found: Option<&Dictionary>) -> io::Result<()> {
        let (dictionary, codecs) = (format!("{name}.dict"), &self.chains[0].values);
        let compact = self.block.shape.compact;
        if compact {
            let stream = self.streams.begin(self.folder, name, codecs)?;
            stream.is_prefix();
            for rows in self.block.granules() {
                stream.mark(rows.len())?;
                stream.buffer_for(8)?.extend_from_slice(&low_cardinality::VERSION);
            }
            self.streams.end(self.folder, self.checksums)?;
            self.dictionaries.push(format!("{dictionary}_prefix"));
        }
        let (is_first, is_last) = self.streams.ends();
        let stream = self.streams.begin(self.folder, &dictionary, codecs)?;
        if !compact && is_first {
            stream.buffer_for(8)?.extend_from_slice(&low_cardinality::VERSION);
        }
        for rows in self.block.granules() {
            stream.mark(rows.len())?;
        }
        // Marks of all granules stand before the keys.
        if let Some(found) = found.filter(|_| is_last) {
            let out = stream.buffer_for(8 + found.keys.len())?;
            out.extend_from_slice(&u64::from(found.count).to_le_bytes());
            out.extend_from_slice(&found.keys);
        }
        self.streams.end(self.folder, self.checksums)?;
        if compact { &mut self.names } else { &mut self.dictionaries }.push(dictionary);
        Ok(())
    }
}

fn write_file(
    folder: &Path,
    name: &str,
    text: &str,
    checksums: Option<&mut Checksums>,
) -> io::Result<()> {
    if let Some(checksums) = checksums {
        checksums.add(name.to_owned(), FileHash::of(text.as_bytes()).sum(), None);
    }
    std::fs::write(folder.join(name), text)
}

/// A random UUID, as the engine gives to its parts.
fn uuid() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(text.trim_end().to_owned())
}
